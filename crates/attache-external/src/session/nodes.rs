#![allow(unsafe_code)]
//! The nodes of a session: those of the model file, and those that stand for a partition.

use std::ffi::{CString, c_int, c_void};

use attache::Bytes;
use attache::graph::NodeId;
use attache::model::schema::Operator as OperatorView;
use attache::model::{Operator as FileOperator, OperatorCode};
use attache_abi::report::text_of_c;
use attache_abi::{
    BuiltinData, OPTIONAL_TENSOR, Options, TfLiteBuiltinOperator, TfLiteDelegate, TfLiteDelegateParams, TfLiteIntArray,
    TfLiteNode, TfLiteOpaqueDelegateParams, TfLiteRegistration, params_of,
};

use crate::calls::Functions;
use crate::memory::Integers;
use crate::operator::Operator;

/// A node as C sees it, with what it points to. It is on the heap, since C code keeps its address.
#[derive(Debug)]
pub(crate) struct HostNode {
    pub(crate) node: TfLiteNode,
    pub(crate) registration: TfLiteRegistration,
    /// What the two structs point to: the operator, for nodes of the file, and options.
    _operator: Option<Box<Operator>>,
    _builtin_data: Option<BuiltinData>,
    _custom_options: Option<Bytes>,
    /// The kernel that stands for a partition; `None` for a node of the file.
    pub(crate) kernel: Option<Kernel>,
}

/// Nodes, each at an address of its own that stays when others are added.
#[allow(clippy::vec_box)]
pub(crate) type Nodes = Vec<Box<HostNode>>;

/// The kernel of a partition.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The nodes of the partition.
    pub(crate) nodes: Vec<NodeId>,
    /// The functions of the kernel.
    pub(crate) functions: Functions,
    /// Whether it was prepared.
    pub(crate) is_prepared: bool,
    params: Box<Params>,
}

/// A partition for `init`, with its arrays.
#[derive(Debug)]
pub(crate) struct Params {
    /// Classic delegates get the second part, which begins with the delegate and leaves the data out.
    opaque: TfLiteOpaqueDelegateParams,
    classic: TfLiteDelegateParams,
    _nodes: Integers,
    inputs: Integers,
    outputs: Integers,
}

impl Params {
    /// Describes a partition by the numbers of its nodes and tensors. `data` is that of an opaque delegate.
    pub(crate) fn new(
        delegate: *mut TfLiteDelegate,
        data: *mut c_void,
        nodes: Integers,
        inputs: Integers,
        outputs: Integers,
    ) -> Self {
        let (nodes_to_replace, input_tensors, output_tensors) = (nodes.as_ptr(), inputs.as_ptr(), outputs.as_ptr());
        let classic = TfLiteDelegateParams { delegate, nodes_to_replace, input_tensors, output_tensors };
        let opaque = TfLiteOpaqueDelegateParams {
            delegate,
            delegate_data: data,
            nodes_to_replace,
            input_tensors,
            output_tensors,
        };
        Self { opaque, classic, _nodes: nodes, inputs, outputs }
    }

    /// Returns the struct for classic delegates.
    pub(crate) fn classic(&self) -> TfLiteDelegateParams {
        self.classic
    }
}

impl HostNode {
    /// Makes the node of an operator of the file, with the numbers of the tensors that it reads and writes in the session.
    pub(crate) fn of_file(
        operator: &FileOperator,
        view: OperatorView<'_>,
        inputs: &[Option<usize>],
        outputs: impl IntoIterator<Item = usize>,
        intermediates: impl IntoIterator<Item = usize>,
    ) -> Self {
        let builtin_data = builtin_data(&operator.code, view);
        let custom_options = operator.custom_options.clone();
        let inputs: Vec<c_int> =
            inputs.iter().map(|tensor| tensor.map_or(OPTIONAL_TENSOR, |tensor| tensor as c_int)).collect();
        let (custom_initial_data, custom_initial_data_size) = match &custom_options {
            Some(bytes) => (bytes.as_ptr().cast::<c_void>(), c_int::try_from(bytes.len()).unwrap_or(0)),
            None => (std::ptr::null(), 0),
        };
        let node = TfLiteNode {
            inputs: Integers::new(&inputs).into_raw(),
            outputs: Integers::of_indices(outputs).into_raw(),
            intermediates: Integers::of_indices(intermediates).into_raw(),
            temporaries: Integers::new(&[]).into_raw(),
            builtin_data: builtin_data.as_ref().map_or(std::ptr::null_mut(), BuiltinData::as_ptr),
            custom_initial_data,
            custom_initial_data_size,
            ..TfLiteNode::empty()
        };
        let (registration, operator) = identity(&operator.code);
        let _operator = Some(operator);
        Self {
            node,
            registration,
            _operator,
            _builtin_data: builtin_data,
            _custom_options: custom_options,
            kernel: None,
        }
    }

    /// Makes a node that stands for a partition whose kernel is elsewhere.
    pub(crate) fn without_kernel(registration: TfLiteRegistration, inputs: Integers, outputs: Integers) -> Self {
        let node = TfLiteNode {
            inputs: inputs.into_raw(),
            outputs: outputs.into_raw(),
            intermediates: Integers::new(&[]).into_raw(),
            temporaries: Integers::new(&[]).into_raw(),
            ..TfLiteNode::empty()
        };
        Self { node, registration, _operator: None, _builtin_data: None, _custom_options: None, kernel: None }
    }

    /// Makes the node that stands for a partition. Its data is not made yet.
    pub(crate) fn of_partition(
        registration: TfLiteRegistration,
        functions: Functions,
        params: Params,
        nodes: Vec<NodeId>,
        is_opaque: bool,
    ) -> Self {
        let mut params = Box::new(params);
        let node = TfLiteNode {
            inputs: Integers::new(params.inputs.elements()).into_raw(),
            outputs: Integers::new(params.outputs.elements()).into_raw(),
            intermediates: Integers::new(&[]).into_raw(),
            temporaries: Integers::new(&[]).into_raw(),
            builtin_data: match is_opaque {
                true => (&raw mut params.opaque).cast(),
                false => (&raw mut params.classic).cast(),
            },
            delegate: params.classic.delegate,
            ..TfLiteNode::empty()
        };
        let registration = TfLiteRegistration { builtin_code: TfLiteBuiltinOperator::DELEGATE.0, ..registration };
        let kernel = Some(Kernel { nodes, functions, is_prepared: false, params });
        Self { node, registration, _operator: None, _builtin_data: None, _custom_options: None, kernel }
    }

    /// Returns the numbers of the tensors that a partition's kernel writes.
    pub(crate) fn outputs(&self) -> &[c_int] {
        self.kernel.as_ref().map_or(&[], |kernel| kernel.params.outputs.elements())
    }

    /// Returns the numbers of the tensors that a partition's kernel reads.
    pub(crate) fn inputs(&self) -> &[c_int] {
        self.kernel.as_ref().map_or(&[], |kernel| kernel.params.inputs.elements())
    }

    /// Returns the tensors that the node asked for as scratch memory.
    pub(crate) fn temporaries(&self) -> Vec<usize> {
        // SAFETY: the array is the node's own, or the one with which C code replaced it.
        let temporaries = unsafe { TfLiteIntArray::elements(self.node.temporaries) };
        temporaries.iter().filter_map(|tensor| usize::try_from(*tensor).ok()).collect()
    }
}

impl Drop for HostNode {
    fn drop(&mut self) {
        let TfLiteNode { inputs, outputs, intermediates, temporaries, .. } = self.node;
        for array in [inputs, outputs, intermediates, temporaries] {
            // SAFETY: the arrays belong to the node, and C code that replaces one allocates it with `malloc` too.
            unsafe { TfLiteIntArray::free(array) };
        }
    }
}

/// Returns what tells C code which operator a node is: a registration without functions, and the operator in it.
fn identity(code: &OperatorCode) -> (TfLiteRegistration, Box<Operator>) {
    let name: Option<CString> = code.custom.as_deref().map(text_of_c);
    let builtin = TfLiteBuiltinOperator(code.builtin.0);
    let mut operator = Box::new(Operator::new(builtin, name, code.version, std::ptr::null_mut()));
    let registration = TfLiteRegistration {
        builtin_code: builtin.0,
        custom_name: operator.name(),
        version: code.version,
        registration_external: (&raw mut *operator).cast(),
        ..TfLiteRegistration::empty()
    };
    (registration, operator)
}

/// Returns the parameter struct of an operator; `None` for operators without, and where nobody documents it.
fn builtin_data(code: &OperatorCode, view: OperatorView<'_>) -> Option<BuiltinData> {
    if code.custom.is_some() {
        return None;
    }
    let view = view.unpack();
    params_of(code.builtin, &Options { first: view.builtin_options, second: view.builtin_options_2 })
}

/// Whether the parameter struct of an operator is documented, or there is none.
pub(crate) fn is_documented(code: &OperatorCode, view: OperatorView<'_>) -> bool {
    code.custom.is_some() || builtin_data(code, view).is_some()
}
