#![allow(unsafe_code)]
//! [`ExternalDelegate`]: a delegate of C as a delegate of ours.

use std::collections::HashMap;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
#[cfg(not(attache_small))]
use std::sync::PoisonError;

use attache::graph::{NodeId, Unsupported};
use attache::model::QuantizationDetails;
use attache::{Claim, Delegate, DelegateError, GraphClaims, GraphContext, NodeContext, Partition, PreparedPartition};
use attache_abi::TfLiteDelegate;

use crate::kernel::ExternalPartition;
use crate::library;
use crate::session::{OpenSession, View, is_documented};
use crate::source::Source;

/// A delegate that others built for TensorFlow Lite: classic, opaque or stable. [The crate](crate) says what it sees.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use attache::{Interpreter, Model};
/// use attache_external::ExternalDelegate;
///
/// let delegate = ExternalDelegate::load("libvendor_delegate.so", &[("power", "low")])?;
/// let model = Model::from_path("model.tflite")?;
/// let compiled = Interpreter::builder(&model).delegate(delegate).compile()?;
/// println!("{}", compiled.placement());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ExternalDelegate {
    source: Arc<Source>,
    name: String,
}

impl ExternalDelegate {
    /// Loads a library and has it make a delegate. The library has the function `tflite_plugin_create_delegate`, which gets
    /// the options, or it is a stable delegate (`TFL_TheStableDelegate`), whose only option is `settings`, the path of a
    /// file with a flatbuffer `TFLiteSettings`. The library stays loaded until the process ends.
    ///
    /// The code of the library runs in this process. Load only what you trust.
    ///
    /// # Errors
    ///
    /// If the library cannot be loaded or is no delegate, or if it makes none, with the reasons that it reports.
    pub fn load(library: impl AsRef<Path>, options: &[(&str, &str)]) -> Result<Self, DelegateError> {
        let path = library.as_ref();
        let loaded = library::load(path, options)?;
        let stem = path.file_stem().map_or("external".into(), |stem| stem.to_string_lossy().into_owned());
        let name = loaded.name.unwrap_or_else(|| stem.strip_prefix("lib").unwrap_or(&stem).to_owned());
        // SAFETY: the library made the delegate, which lives until it is destroyed. `load` is documented to run its code.
        let source = unsafe { Source::new(loaded.delegate, loaded.destroy) };
        Ok(Self { source: Arc::new(source), name })
    }

    /// Takes a delegate that a program made, and that it keeps: nothing destroys it here. `name` is for reports.
    ///
    /// # Errors
    ///
    /// If the pointer is null.
    ///
    /// # Safety
    ///
    /// The delegate is valid as long as this value and all interpreters with it. Its functions have the types that
    /// TensorFlow Lite gives them, and any thread may call them, one at a time.
    pub unsafe fn from_raw(delegate: *mut TfLiteDelegate, name: &str) -> Result<Self, DelegateError> {
        let delegate = NonNull::new(delegate).ok_or_else(|| DelegateError::new("the delegate is null"))?;
        // SAFETY: the caller states it.
        let source = unsafe { Source::new(delegate, None) };
        Ok(Self { source: Arc::new(source), name: name.to_owned() })
    }

    /// Returns the delegate as C code has it.
    #[must_use]
    pub fn as_ptr(&self) -> *mut TfLiteDelegate {
        self.source.as_ptr()
    }

    /// Returns why the delegate last failed to prepare a graph or its kernels, once; `None` if it did not fail since the
    /// last call. An interpreter runs the operators of such a delegate elsewhere, so that its being built does not tell.
    #[must_use]
    pub fn take_failure(&self) -> Option<String> {
        self.source.failure().take()
    }
}

#[cfg(not(attache_small))]
impl ExternalDelegate {
    /// Returns the name of a kernel that the delegate put in the place of nodes; `None` if there was none.
    #[must_use]
    pub fn kernel_name(&self) -> Option<String> {
        self.source.kernel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Delegate for ExternalDelegate {
    fn name(&self) -> &str {
        &self.name
    }

    fn claim(&self, _: NodeContext<'_>) -> Result<Claim, Unsupported> {
        Err(Unsupported::new("the delegate decides on whole graphs"))
    }

    fn claim_graph(&self, graph: &GraphContext<'_>) -> Result<Option<GraphClaims>, DelegateError> {
        let is_opaque = self.source.is_opaque();
        let reasons = graph.contexts().filter_map(|node| Some((node.id, withheld(&node, is_opaque)?)));
        let withheld: HashMap<NodeId, &str> = reasons.collect();
        let offered: Vec<NodeId> = graph.nodes.iter().filter(|id| !withheld.contains_key(id)).copied().collect();
        // As in TensorFlow Lite, the delegate is asked also where there is nothing for it.
        let open = self.source.note(OpenSession::new(
            &self.source,
            &View {
                model: graph.model.clone(),
                subgraph: graph.subgraph,
                graph: graph.graph.clone(),
                offered,
                clustering: graph.clustering.clone(),
                threads: graph.threads,
            },
        ))?;
        let taken = open.taken();
        let answer = |id: &NodeId| match withheld.get(id) {
            Some(reason) => Err(Unsupported::new(*reason)),
            None if taken.contains(id) => Ok(Claim::new(open.clone())),
            None => Err(Unsupported::new("the delegate does not take it")),
        };
        Ok(Some(graph.nodes.iter().map(answer).collect()))
    }

    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        let nodes: Vec<NodeId> = partition.nodes.iter().map(|(id, _)| *id).collect();
        let claim = partition.nodes.into_iter().next().and_then(|(_, claim)| claim.downcast::<Arc<OpenSession>>());
        let open = *claim.ok_or_else(|| DelegateError::new("the partition was not claimed"))?;
        Ok(Box::new(ExternalPartition::new(open, nodes, partition.inputs, partition.outputs)))
    }
}

/// Returns why a node is not shown to delegates of C; `None` if it is.
fn withheld(node: &NodeContext<'_>, is_opaque: bool) -> Option<&'static str> {
    let (Some(operator), Some(options)) = (node.operator(), node.options()) else {
        return Some("it is not an operator of the file");
    };
    let ids = node.node().inputs.iter().flatten().chain(&node.node().outputs);
    let tensors = &node.model.subgraphs()[node.subgraph].tensors;
    for id in ids {
        let fact = node.graph.fact(*id);
        let source = tensors.get(id.index());
        if fact.data_type.bits().is_none() {
            return Some("it has a tensor whose elements have no fixed size, which delegates of C are not given");
        }
        let is_given =
            |details: &_| matches!(details, QuantizationDetails::None | QuantizationDetails::Blockwise { .. });
        if source.is_some_and(|tensor| tensor.is_sparse || !is_given(&tensor.quantization_details)) {
            return Some("it has a sparse tensor, or one whose quantization delegates of C are not given");
        }
    }
    if !is_opaque && !is_documented(&operator.code, options) {
        return Some("the struct of its options is not documented, so that only opaque delegates are given it");
    }
    None
}
