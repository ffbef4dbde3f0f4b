#![allow(unsafe_code)]
//! The kernel that stands for a partition in the runtime's plan: it copies the inputs, runs the partition and copies the
//! outputs.

use std::ffi::{c_char, c_int, c_void};
use std::slice;

use attache::{Interpreter, Shape};
use attache_abi::{
    TfLiteAllocationType, TfLiteContext, TfLiteDelegateParams, TfLiteIntArray, TfLiteNode, TfLiteRegistration,
    TfLiteStatus, TfLiteTensor,
};

use crate::delegate::{GpuPlugin, guarded};
use crate::log::Log;
use crate::tensor::shape_of;

/// A partition in one interpreter of the runtime.
pub(crate) struct Kernel {
    pub(crate) interpreter: Interpreter,
    /// The runtime's indices of the tensors that are the interpreter's inputs.
    pub(crate) inputs: Vec<usize>,
    /// The runtime's indices of the tensors that are the interpreter's outputs.
    pub(crate) outputs: Vec<usize>,
    /// The runtime's indices of variable tensors, with those of the interpreter. The runtime has their values between runs,
    /// since it may reset them and other nodes may use them.
    pub(crate) variables: Vec<(usize, usize)>,
    pub(crate) log: Log,
}

/// The functions of the kernel, with the name that the runtime shows.
pub(crate) fn registration() -> TfLiteRegistration {
    TfLiteRegistration {
        init: Some(init),
        free: Some(free),
        prepare: Some(prepare),
        invoke: Some(invoke),
        custom_name: c"AttacheGpuDelegate".as_ptr(),
        version: 1,
        ..TfLiteRegistration::empty()
    }
}

/// Takes the kernel that was made for the partition. `params` points to the partition.
unsafe extern "C" fn init(context: *mut TfLiteContext, params: *const c_char, _length: usize) -> *mut c_void {
    guarded(context, std::ptr::null_mut(), || {
        // SAFETY: the runtime passes the partition of a delegate that this library made.
        let kernel = unsafe {
            let params = &*params.cast::<TfLiteDelegateParams>();
            let nodes = TfLiteIntArray::elements(params.nodes_to_replace);
            GpuPlugin::at(params.delegate)?.take(context, nodes)
        };
        let kernel = kernel.ok_or("the runtime made a partition that the delegate was not told of")?;
        Ok(Box::into_raw(Box::new(kernel)).cast())
    })
}

unsafe extern "C" fn free(context: *mut TfLiteContext, kernel: *mut c_void) {
    guarded(context, (), || {
        if !kernel.is_null() {
            // SAFETY: the runtime passes what `init` returned, once.
            drop(unsafe { Box::from_raw(kernel.cast::<Kernel>()) });
        }
        Ok(())
    });
}

unsafe extern "C" fn prepare(context: *mut TfLiteContext, node: *mut TfLiteNode) -> TfLiteStatus {
    guarded(context, TfLiteStatus::ERROR, || {
        // SAFETY: the runtime passes its context and a node of this kernel.
        unsafe { kernel_of(node)?.prepare(context)? };
        Ok(TfLiteStatus::OK)
    })
}

unsafe extern "C" fn invoke(context: *mut TfLiteContext, node: *mut TfLiteNode) -> TfLiteStatus {
    guarded(context, TfLiteStatus::ERROR, || {
        // SAFETY: the runtime passes its context and a node of this kernel, and has allocated the tensors.
        unsafe { kernel_of(node)?.run(context)? };
        Ok(TfLiteStatus::OK)
    })
}

/// Returns the kernel of a node.
///
/// # Safety
///
/// The node is one of this library's kernels, and no other reference to the kernel is in use.
unsafe fn kernel_of<'a>(node: *mut TfLiteNode) -> Result<&'a mut Kernel, String> {
    // SAFETY: the caller states that the node's data is null or a kernel.
    unsafe { (*node).user_data.cast::<Kernel>().as_mut() }.ok_or_else(|| "the partition was not prepared".to_owned())
}

/// Returns a tensor of the runtime.
///
/// # Safety
///
/// The context is valid and has the tensor, to which no other reference is in use.
unsafe fn tensor<'a>(context: *mut TfLiteContext, index: usize) -> &'a mut TfLiteTensor {
    // SAFETY: the caller states that there is such a tensor.
    unsafe { &mut *(*context).tensors.add(index) }
}

impl Kernel {
    /// Gives the partition the shapes that its inputs have, and the outputs theirs.
    ///
    /// # Safety
    ///
    /// The context is the one that the kernel was made for.
    unsafe fn prepare(&mut self, context: *mut TfLiteContext) -> Result<(), String> {
        // SAFETY: the caller states that the context is that of these tensors.
        unsafe { self.reshape(context)? };
        for (output, index) in self.outputs.iter().enumerate() {
            // SAFETY: as above.
            unsafe { resize(context, *index, &self.interpreter.outputs()[output].shape)? };
        }
        Ok(())
    }

    /// Gives the partition the shapes that its inputs have now.
    ///
    /// # Safety
    ///
    /// As [`Kernel::prepare`].
    unsafe fn reshape(&mut self, context: *mut TfLiteContext) -> Result<(), String> {
        let mut changes: Vec<(usize, Shape)> = Vec::new();
        for (input, index) in self.inputs.iter().enumerate() {
            // SAFETY: the caller states that the context is that of these tensors.
            let shape = unsafe { shape_of(tensor(context, *index)) }.ok_or("an input has a negative extent")?;
            if shape != self.interpreter.inputs()[input].shape {
                changes.push((input, shape));
            }
        }
        if !changes.is_empty() {
            let changes: Vec<(usize, &[usize])> = changes.iter().map(|(input, shape)| (*input, &shape[..])).collect();
            self.log.during(|| self.interpreter.resize_inputs(&changes)).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Runs the partition.
    ///
    /// # Safety
    ///
    /// As [`Kernel::prepare`]; the tensors are allocated.
    unsafe fn run(&mut self, context: *mut TfLiteContext) -> Result<(), String> {
        // SAFETY: the caller states that the context is that of these tensors. A dynamic tensor may have changed its
        // shape since the kernel was prepared.
        unsafe { self.reshape(context)? };
        for (output, index) in self.outputs.iter().enumerate() {
            let shape = &self.interpreter.outputs()[output].shape;
            // SAFETY: as above. Memory of other tensors than dynamic ones is allocated before the run.
            unsafe {
                match tensor(context, *index) {
                    made if shape_of(made).as_ref() == Some(shape) => {}
                    made if made.allocation_type == TfLiteAllocationType::DYNAMIC => resize(context, *index, shape)?,
                    _ => return Err(format!("an output has the shape {shape}, for which it was not prepared")),
                }
            }
        }
        for (input, index) in self.inputs.iter().enumerate() {
            // SAFETY: as above; the tensor has as many bytes as it says.
            let bytes = unsafe { bytes_of(tensor(context, *index)) };
            self.interpreter.write_bytes(input, bytes).map_err(|error| error.to_string())?;
        }
        // SAFETY: as above.
        unsafe { self.each_variable(context, |of_runtime, own| own.copy_from_slice(of_runtime))? };
        self.log.during(|| self.interpreter.invoke()).map_err(|error| error.to_string())?;
        // SAFETY: as above.
        unsafe { self.each_variable(context, |of_runtime, own| of_runtime.copy_from_slice(own))? };
        for (output, index) in self.outputs.iter().enumerate() {
            // SAFETY: as above.
            let bytes = unsafe { bytes_of(tensor(context, *index)) };
            self.interpreter.read_bytes_into(output, bytes).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Calls `copy` with the bytes of each variable in the runtime and in the partition.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    unsafe fn each_variable(
        &mut self,
        context: *mut TfLiteContext,
        copy: impl Fn(&mut [u8], &mut [u8]),
    ) -> Result<(), String> {
        for (index, variable) in &self.variables {
            // SAFETY: the caller states that the context is that of these tensors, which are allocated.
            let of_runtime = unsafe { bytes_of(tensor(context, *index)) };
            let own = self.interpreter.variable_bytes_mut(*variable).map_err(|error| error.to_string())?;
            if of_runtime.len() != own.len() {
                let (there, here) = (of_runtime.len(), own.len());
                return Err(format!("variable tensor {index} has {there} bytes, and had {here} when it was delegated"));
            }
            copy(of_runtime, own);
        }
        Ok(())
    }
}

/// Returns the bytes of a tensor.
///
/// # Safety
///
/// The tensor is the runtime's and allocated, and no other reference to its bytes is in use.
unsafe fn bytes_of<'a>(tensor: &mut TfLiteTensor) -> &'a mut [u8] {
    if tensor.data.is_null() {
        return &mut [];
    }
    // SAFETY: the caller states that the tensor is allocated, so it has this many bytes.
    unsafe { slice::from_raw_parts_mut(tensor.data.cast(), tensor.bytes) }
}

/// Gives a tensor a shape, if it has another one.
///
/// # Safety
///
/// The context is valid and has the tensor.
unsafe fn resize(context: *mut TfLiteContext, index: usize, shape: &Shape) -> Result<(), String> {
    // SAFETY: the caller states that the tensor exists; the array is of malloc, and the runtime takes it over.
    unsafe {
        let tensor = tensor(context, index);
        if shape_of(tensor).as_ref() == Some(shape) {
            return Ok(());
        }
        let extents: Result<Vec<c_int>, _> = shape.iter().map(|extent| c_int::try_from(*extent)).collect();
        let extents = extents.map_err(|_| format!("the shape {shape} is too large for the runtime"))?;
        let resize = (*context).ResizeTensor.ok_or("the runtime resizes no tensors")?;
        match resize(context, tensor, TfLiteIntArray::new(&extents)).is_ok() {
            true => Ok(()),
            false => Err(format!("the runtime does not give a tensor the shape {shape}")),
        }
    }
}
