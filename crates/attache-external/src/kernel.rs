#![allow(unsafe_code)]
//! The kernels of a delegate of C as kernels of ours.

use std::sync::{Arc, Mutex, PoisonError};

use attache::graph::{NodeId, TensorId, TensorMut, TensorRef};
use attache::{DelegateError, DelegateKernel, KernelReport, PreparedPartition};
use attache_abi::{TfLiteAllocationType, TfLiteStatus, TfLiteTensor};

use crate::calls::Functions;
use crate::session::{HostNode, OpenSession};

/// A partition of a delegate of C.
pub(crate) struct ExternalPartition {
    open: Arc<OpenSession>,
    nodes: Vec<NodeId>,
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
    /// Whether the next kernel is the first one, which is of the session in which the nodes were claimed.
    is_first: Mutex<bool>,
}

impl ExternalPartition {
    pub(crate) fn new(
        open: Arc<OpenSession>,
        nodes: Vec<NodeId>,
        inputs: Vec<TensorId>,
        outputs: Vec<TensorId>,
    ) -> Self {
        Self { open, nodes, inputs, outputs, is_first: Mutex::new(true) }
    }
}

impl PreparedPartition for ExternalPartition {
    fn kernel(&self) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        self.open.source.note(self.prepare())
    }

    fn report(&self) -> KernelReport {
        KernelReport::default()
    }
}

impl ExternalPartition {
    fn prepare(&self) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        let is_first = std::mem::take(&mut *self.is_first.lock().unwrap_or_else(PoisonError::into_inner));
        // A kernel of C has the state of one interpreter, so another interpreter's is made as the first one was.
        let open = match is_first {
            true => self.open.clone(),
            false => OpenSession::new(&self.open.source, &self.open.view)?,
        };
        let kernels = open.kernels(&self.nodes)?;
        Ok(Box::new(ExternalKernel::new(open, &kernels, self.inputs.clone(), self.outputs.clone())?))
    }
}

/// The kernels of a partition in one interpreter, usually one.
struct ExternalKernel {
    open: Arc<OpenSession>,
    kernels: Vec<(Functions, *mut HostNode)>,
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
}

// SAFETY: the nodes belong to the session, and are used only while the lock of its source is held.
unsafe impl Send for ExternalKernel {}

impl ExternalKernel {
    /// Prepares kernels, given by their numbers in the session, and allocates the memory that they ask for.
    fn new(
        open: Arc<OpenSession>,
        numbers: &[usize],
        inputs: Vec<TensorId>,
        outputs: Vec<TensorId>,
    ) -> Result<Self, DelegateError> {
        let lock = open.source.lock();
        let mut kernels = Vec::with_capacity(numbers.len());
        for number in numbers {
            // SAFETY: the lock is held; the node stays where it is, and no reference to it is kept.
            unsafe {
                let node = (*open.as_ptr()).node(*number as i32);
                let Some(kernel) = node.as_mut().and_then(|node| node.kernel.as_mut()) else { continue };
                let functions = kernel.functions.clone();
                if !std::mem::replace(&mut kernel.is_prepared, true) {
                    let context = &raw mut (*open.as_ptr()).context;
                    let status = functions.prepare(context, &raw mut (*node).node);
                    open.check(status, "kernel's prepare")?;
                }
                kernels.push((functions, node));
            }
        }
        check_outputs(&open, &kernels)?;
        allocate(&open, &kernels, &outputs)?;
        drop(lock);
        Ok(Self { open, kernels, inputs, outputs })
    }
}

/// Checks that the kernels keep the types and shapes of tensors that others read. The lock has to be held.
fn check_outputs(open: &OpenSession, kernels: &[(Functions, *mut HostNode)]) -> Result<(), DelegateError> {
    for (_, node) in kernels {
        // SAFETY: the lock is held, and no C code is called.
        let (session, outputs) = unsafe { (&*open.as_ptr(), (**node).outputs()) };
        for output in outputs.iter().filter_map(|output| usize::try_from(*output).ok()) {
            let fact = &open.view.graph.tensors[output].fact;
            let is_type = session.tensors.get(output).is_some_and(|tensor| tensor.kind == fact.data_type.into());
            check_shape(open, output)?;
            if !is_type {
                return Err(DelegateError::new(format!("it gives tensor {output} another type than the model does")));
            }
        }
    }
    Ok(())
}

/// Checks that a tensor has the shape that it has in the graph. The lock has to be held.
fn check_shape(open: &OpenSession, tensor: usize) -> Result<(), DelegateError> {
    // SAFETY: the lock is held, and no C code is called.
    let made = unsafe { (*open.as_ptr()).tensors.extents(tensor) };
    let planned = open.view.graph.tensors[tensor].fact.shape.as_ref();
    let is_same = planned.is_some_and(|planned| {
        planned.rank() == made.len() && planned.iter().zip(made).all(|(one, other)| usize::try_from(*other) == Ok(*one))
    });
    if is_same {
        return Ok(());
    }
    let planned = planned.map_or("an unknown one".to_owned(), ToString::to_string);
    Err(DelegateError::new(format!("it gives tensor {tensor} the shape {made:?}; the model's is {planned}")))
}

/// Allocates what the kernels ask for, and tensors that pass between them. The lock has to be held.
fn allocate(
    open: &OpenSession,
    kernels: &[(Functions, *mut HostNode)],
    outputs: &[TensorId],
) -> Result<(), DelegateError> {
    // SAFETY: the lock is held, and no C code is called.
    let session = unsafe { &mut *open.as_ptr() };
    let added = open.view.graph.tensors.len()..session.tensors.len();
    let mut wanted: Vec<usize> = added.collect();
    for (_, node) in kernels {
        // SAFETY: as above; the node is on the heap, apart from the session's tensors.
        let node = unsafe { &**node };
        wanted.extend(node.temporaries());
        let made = node.outputs().iter().filter_map(|output| usize::try_from(*output).ok());
        wanted.extend(made.filter(|made| !outputs.iter().any(|output| output.index() == *made)));
    }
    for tensor in wanted {
        if !session.tensors.allocate(tensor).is_ok() {
            let reason = format!("there is no memory for tensor {tensor}, which it asks for");
            return Err(DelegateError::new(reason).with_kind(attache::DelegateErrorKind::OutOfMemory));
        }
    }
    Ok(())
}

impl DelegateKernel for ExternalKernel {
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        let _lock = self.open.source.lock();
        // Kernels write none of their inputs but variables, which are outputs too and hold their values before the run.
        let pointers = inputs.iter().map(|input| input.bytes.as_ptr().cast_mut());
        self.inputs.iter().zip(pointers).for_each(|(id, data)| self.bind(*id, data));
        for (id, output) in self.outputs.iter().zip(outputs.iter_mut()) {
            self.bind(*id, output.bytes.as_mut_ptr());
        }
        let result = self.run(outputs);
        let all = self.inputs.iter().chain(&self.outputs);
        all.for_each(|id| self.bind(*id, std::ptr::null_mut()));
        result
    }
}

impl ExternalKernel {
    /// Returns a tensor of the session. The lock has to be held while it is used.
    fn tensor(&self, id: TensorId) -> *mut TfLiteTensor {
        // SAFETY: the lock is held, and no C code is called.
        unsafe { (*self.open.as_ptr()).tensor(id.0 as i32) }
    }

    /// Makes a tensor point to the memory that it has in this run. Dynamic tensors have memory of their own.
    fn bind(&self, id: TensorId, data: *mut u8) {
        // SAFETY: the lock is held, and no C code is called.
        if let Some(tensor) = unsafe { self.tensor(id).as_mut() }
            && tensor.allocation_type != TfLiteAllocationType::DYNAMIC
        {
            tensor.data = data.cast();
            tensor.data_is_stale = false;
        }
    }

    /// Runs the kernels, and brings outputs that are elsewhere to where they belong.
    fn run(&self, outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        // SAFETY: the context stays where it is, and the lock is held.
        let context = unsafe { &raw mut (*self.open.as_ptr()).context };
        for (functions, node) in &self.kernels {
            // SAFETY: the kernel was prepared, its tensors have memory, and no reference to the session is kept.
            let status = unsafe { functions.invoke(context, &raw mut (**node).node) };
            self.open.check(status, "kernel's invoke")?;
        }
        for (id, output) in self.outputs.iter().zip(outputs) {
            self.fetch(*id, output.bytes)?;
        }
        Ok(())
    }

    /// Reads an output from a buffer of the delegate's or from memory of its own, if it is in one.
    fn fetch(&self, id: TensorId, bytes: &mut [u8]) -> Result<(), DelegateError> {
        let tensor = self.tensor(id);
        // SAFETY: the lock is held; the tensor is one of the session, and no reference to it is kept while C code is called.
        unsafe {
            if (*tensor).data_is_stale {
                let context = &raw mut (*self.open.as_ptr()).context;
                let status = self.open.source.read(context, tensor);
                self.open.check(status, "CopyFromBufferHandle")?;
                (*tensor).data_is_stale = false;
            }
            if (*tensor).allocation_type != TfLiteAllocationType::DYNAMIC {
                return Ok(());
            }
            check_shape(&self.open, id.index())?;
            if (*tensor).data.is_null() || (*tensor).bytes != bytes.len() {
                return self.open.check(TfLiteStatus::ERROR, "kernel's output");
            }
            bytes.copy_from_slice(std::slice::from_raw_parts((*tensor).data.cast(), bytes.len()));
        }
        Ok(())
    }
}
