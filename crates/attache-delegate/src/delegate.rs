#![allow(unsafe_code)]
//! The delegate that the runtime gets, and what happens when it is applied to a graph.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use attache::{Delegate, Error, GpuDelegate, Interpreter, Shape};
use attache_abi::report::text_of_c;
use attache_abi::{TfLiteContext, TfLiteDelegate, TfLiteDelegateFlags, TfLiteIntArray, TfLiteStatus};

use crate::calls::is_called;
use crate::claims::Claims;
use crate::graph::{Graph, PartModel};
use crate::kernel::{Kernel, registration};
use crate::log::Log;
use crate::options::Options;

/// The delegate. It begins with the struct of C, to which the runtime has a pointer. Kernels hold what they need of the
/// GPU, so it may be destroyed before the interpreters.
#[repr(C)]
pub(crate) struct GpuPlugin {
    delegate: TfLiteDelegate,
    gpu: GpuDelegate,
    options: Options,
    /// Kernels that were made before the runtime asks for them, by the address of the context and their nodes. The
    /// delegate may be applied to graphs of several threads at once.
    made: Mutex<BTreeMap<(usize, Vec<c_int>), Kernel>>,
}

// SAFETY: the pointers in the struct of C are null or lead to the delegate itself; everything else may be shared.
unsafe impl Sync for GpuPlugin {}

/// A partition of the runtime.
struct Part {
    nodes: Vec<c_int>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

/// Calls `call`, and reports its error or panic to the runtime, which gets `failed` then.
pub(crate) fn guarded<T>(context: *mut TfLiteContext, failed: T, call: impl FnOnce() -> Result<T, String>) -> T {
    let text = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(text)) => text,
        Err(panic) => panicked(&*panic),
    };
    let text = text_of_c(&format!("Attaché: {text}"));
    // SAFETY: the runtime passed the context, and the format takes one text.
    unsafe {
        if let Some(report) = context.as_ref().and_then(|context| context.ReportError) {
            report(context, c"%s".as_ptr(), text.as_ptr());
        }
    }
    failed
}

/// Returns the message of a panic.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    format!("the delegate failed within itself: {text}. Please report it.")
}

unsafe extern "C" fn prepare(context: *mut TfLiteContext, delegate: *mut TfLiteDelegate) -> TfLiteStatus {
    guarded(context, TfLiteStatus::DELEGATE_ERROR, || {
        // SAFETY: the runtime passes its context and a delegate that this library made.
        let plugin = unsafe { GpuPlugin::at(delegate)? };
        // SAFETY: as above. Constants are used by kernels only, which the runtime frees before the model.
        plugin.options.log.during(|| unsafe { plugin.apply(context) })
    })
}

impl GpuPlugin {
    /// Opens the GPU.
    pub(crate) fn new(options: Options) -> Result<Box<Self>, Error> {
        let gpu = options.log.during(|| GpuDelegate::new(options.gpu.clone()))?;
        let flags = TfLiteDelegateFlags::ALLOW_DYNAMIC_TENSORS.0;
        let delegate = TfLiteDelegate { Prepare: Some(prepare), flags, ..TfLiteDelegate::empty() };
        let mut plugin = Box::new(Self { delegate, gpu, options, made: Mutex::default() });
        plugin.delegate.data_ = (&raw mut *plugin).cast();
        Ok(plugin)
    }

    /// Returns the delegate that the runtime has a pointer to.
    ///
    /// # Safety
    ///
    /// The pointer is null or leads to a delegate of this library that was not destroyed. The runtime may wrap it, if it
    /// leaves `data_` as it is.
    pub(crate) unsafe fn at<'a>(delegate: *const TfLiteDelegate) -> Result<&'a Self, String> {
        // SAFETY: the caller states that the delegate is one of these, whose data is itself.
        let plugin = unsafe { delegate.as_ref().and_then(|delegate| delegate.data_.cast::<Self>().as_ref()) };
        plugin.ok_or_else(|| "there is no delegate".to_owned())
    }

    /// Takes the kernel that was made for a partition.
    pub(crate) fn take(&self, context: *mut TfLiteContext, nodes: &[c_int]) -> Option<Kernel> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(&(context.addr(), nodes.to_vec()))
    }

    /// Takes the nodes that the GPU runs out of the runtime's plan, but not out of subgraphs that operators run.
    ///
    /// # Safety
    ///
    /// As [`Graph::read`].
    unsafe fn apply(&self, context: *mut TfLiteContext) -> Result<TfLiteStatus, String> {
        // SAFETY: the caller states that the context is valid.
        if unsafe { is_called(context) } {
            return Ok(TfLiteStatus::OK);
        }
        // SAFETY: the caller states what reading takes; the nodes are those of the plan.
        let (mut graph, all) = unsafe {
            let graph = Graph::read(context)?;
            let nodes: Vec<c_int> = graph.nodes.iter().map(|node| node.index).collect();
            (graph, preview(context, &nodes)?)
        };
        let outputs: BTreeSet<usize> = all.into_iter().flat_map(|part| part.outputs).collect();
        let outputs: Vec<usize> = outputs.into_iter().collect();
        let claims = match Claims::new(&mut graph, &outputs, &self.gpu, &self.options.partitioning) {
            Ok(claims) => claims,
            Err(error) => return self.leave(&graph, &error.to_string()),
        };
        self.write_reasons(&graph, &claims);
        if self.options.require_delegation && !claims.reasons.is_empty() {
            return Err(not_delegated(&graph, &claims));
        }
        let claimed = graph.nodes.iter().zip(&claims.claimed).filter(|(_, claimed)| **claimed);
        let nodes: Vec<c_int> = claimed.map(|(node, _)| node.index).collect();
        if nodes.is_empty() {
            return Ok(TfLiteStatus::OK);
        }
        // SAFETY: as above.
        let (parts, threads) = unsafe { (preview(context, &nodes)?, (*context).recommended_num_threads) };
        let kernels = parts.iter().map(|part| self.kernel(&graph, part, &claims.shapes, threads));
        let kernels: Vec<Kernel> = match kernels.collect() {
            Ok(kernels) => kernels,
            Err(error) => return self.leave(&graph, &error),
        };
        let count = kernels.len();
        let key = |part: Part| (context.addr(), part.nodes);
        self.made.lock().unwrap_or_else(PoisonError::into_inner).extend(parts.into_iter().map(key).zip(kernels));
        // SAFETY: as above.
        let replaced = unsafe { replace(context, &nodes, (&raw const self.delegate).cast_mut()) };
        self.made.lock().unwrap_or_else(PoisonError::into_inner).retain(|(address, _), _| *address != context.addr());
        if replaced.is_ok() {
            self.write(
                Log::Info,
                &format!("Created {count} GPU delegate kernel{}.", if count == 1 { "" } else { "s" }),
            );
        }
        Ok(replaced)
    }

    /// Makes the kernel of a partition.
    fn kernel(
        &self,
        graph: &Graph,
        part: &Part,
        shapes: &BTreeMap<usize, Shape>,
        threads: c_int,
    ) -> Result<Kernel, String> {
        let nodes: BTreeSet<c_int> = part.nodes.iter().copied().collect();
        let nodes = graph.nodes.iter().filter(|node| nodes.contains(&node.index));
        let inputs: Vec<usize> = part.inputs.iter().copied().filter(|tensor| graph.is_input(*tensor)).collect();
        let outputs = part.outputs.clone();
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let is_stored = self.gpu.cache().is_some();
        let PartModel { model, tensors } =
            graph.model(nodes, &inputs, &outputs, shapes, is_stored).map_err(|error| text(&error))?;
        let builder = Interpreter::builder(&model).threads(usize::try_from(threads).unwrap_or(1));
        let compiled = builder.delegate(self.gpu.clone()).compile().map_err(|error| text(&error))?;
        for node in compiled.placement().left_behind() {
            let reason = node.reason.as_deref().unwrap_or("it is not taken");
            let text = format!("{} of a delegated partition will run on the CPU: {reason}", node.operator);
            self.write(Log::Warning, &text);
        }
        let mut interpreter = compiled.interpreter().map_err(|error| text(&error))?;
        let variables = tensors.iter().enumerate().filter(|(_, tensor)| graph.is_variable(**tensor));
        let variables = variables.filter(|(own, _)| interpreter.variable_bytes_mut(*own).is_ok());
        let variables = variables.map(|(own, tensor)| (*tensor, own)).collect();
        let (adapter, count) = (self.gpu.adapter(), part.nodes.len());
        let (operations, nodes) = (counted(count, "operation"), listed(&part.nodes));
        let line = format!("Partition of {operations} (nodes {nodes}) on {} ({}).", adapter.name, adapter.backend);
        self.write(Log::Info, &line);
        Ok(Kernel { interpreter, inputs, outputs, variables, log: self.options.log })
    }

    /// Leaves all nodes to the runtime because of an error, unless they have to be delegated.
    fn leave(&self, graph: &Graph, error: &str) -> Result<TfLiteStatus, String> {
        if self.options.require_delegation {
            return Err(error.to_owned());
        }
        self.write(Log::Error, &format!("GPU delegate: {error}"));
        self.write_counts(0, graph.nodes.len());
        Ok(TfLiteStatus::OK)
    }

    /// Writes which nodes are delegated and why others are not, in the words of TensorFlow Lite.
    fn write_reasons(&self, graph: &Graph, claims: &Claims) {
        let reason = |(position, reason): (&usize, &String)| format!("{}: {reason}", graph.nodes[*position].name);
        let reasons: BTreeSet<String> = claims.reasons.iter().map(reason).collect();
        if !reasons.is_empty() {
            self.write(Log::Info, "Following operations are not supported by GPU delegate:");
            reasons.iter().for_each(|reason| self.write(Log::Info, reason));
        }
        let left = claims.reasons.len();
        self.write_counts(graph.nodes.len() - left, left);
    }

    /// Writes how many nodes are delegated and how many are not, in the words of TensorFlow Lite.
    fn write_counts(&self, taken: usize, left: usize) {
        let rest = counted(left, "operation");
        self.write(
            Log::Info,
            &match taken {
                0 => format!("No operations will run on the GPU, and all {rest} will run on the CPU."),
                _ => {
                    let taken = counted(taken, "operation");
                    format!("{taken} will run on the GPU, and the remaining {rest} will run on the CPU.")
                }
            },
        );
    }

    fn write(&self, kind: Log, line: &str) {
        self.options.log.write(kind, line);
    }
}

/// Returns a number with a noun in the right form.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns ascending indices as ranges, for example `0-3, 5`.
fn listed(nodes: &[c_int]) -> String {
    let runs = nodes.chunk_by(|one, next| one + 1 == *next);
    let run = |run: &[c_int]| match run {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    };
    runs.map(run).collect::<Vec<String>>().join(", ")
}

/// Returns the error that lists all nodes that are left to the runtime.
fn not_delegated(graph: &Graph, claims: &Claims) -> String {
    let (left, all) = (claims.reasons.len(), graph.nodes.len());
    let mut text =
        format!("{left} of {all} operators are not delegated; without require_delegation they run on the CPU:");
    for (position, reason) in &claims.reasons {
        let node = &graph.nodes[*position];
        // Writing to a string does not fail.
        let _ = write!(text, "\n  node {} ({}): {reason}", node.index, node.name);
    }
    text
}

/// Returns the partitions that the runtime would make of nodes.
///
/// # Safety
///
/// As [`Graph::read`].
unsafe fn preview(context: *mut TfLiteContext, nodes: &[c_int]) -> Result<Vec<Part>, String> {
    // SAFETY: the caller states that the context is valid. What the second call returns is not used.
    unsafe {
        let parts = previewed(context, nodes)?;
        // LiteRT frees the arrays of a preview only when the next one begins, so that those of the last one would be lost.
        previewed(context, &[])?;
        Ok(parts)
    }
}

/// Returns a copy of the partitions of one preview.
///
/// # Safety
///
/// As [`Graph::read`].
unsafe fn previewed(context: *mut TfLiteContext, nodes: &[c_int]) -> Result<Vec<Part>, String> {
    let array = TfLiteIntArray::new(nodes);
    // SAFETY: the caller states that the context is valid; the array lives until after the call, and what the call
    // returns until the next one.
    unsafe {
        let (mut params, mut count) = (std::ptr::null_mut(), 0);
        let call = (*context).PreviewDelegatePartitioning;
        let status = call.map(|call| call(context, array, &mut params, &mut count));
        TfLiteIntArray::free(array);
        if !status.is_some_and(TfLiteStatus::is_ok) {
            return Err("the runtime tells no partitions".into());
        }
        let list = |array| TfLiteIntArray::elements(array).iter().filter_map(|n| usize::try_from(*n).ok()).collect();
        let part = |params: &attache_abi::TfLiteDelegateParams| Part {
            nodes: TfLiteIntArray::elements(params.nodes_to_replace).to_vec(),
            inputs: list(params.input_tensors),
            outputs: list(params.output_tensors),
        };
        let count = usize::try_from(count).unwrap_or(0);
        Ok((0..count).map(|index| part(&*params.add(index))).collect())
    }
}

/// Has the runtime replace nodes by kernels.
///
/// # Safety
///
/// As [`Graph::read`]; the delegate is the one that the runtime passed.
unsafe fn replace(context: *mut TfLiteContext, nodes: &[c_int], delegate: *mut TfLiteDelegate) -> TfLiteStatus {
    let array = TfLiteIntArray::new(nodes);
    // SAFETY: the caller states that context and delegate are valid; the array lives until after the call.
    unsafe {
        let call = (*context).ReplaceNodeSubsetsWithDelegateKernels;
        let status = call.map(|call| call(context, registration(), array, delegate));
        TfLiteIntArray::free(array);
        status.unwrap_or(TfLiteStatus::DELEGATE_ERROR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_listed_as_ranges() {
        assert_eq!(listed(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!((listed(&[3]), listed(&[])), ("3".to_owned(), String::new()));
        assert_eq!((counted(1, "operation"), counted(0, "operation")), ("1 operation".into(), "0 operations".into()));
    }

    #[test]
    fn a_panic_is_a_status() {
        let failed = guarded(std::ptr::null_mut(), TfLiteStatus::ERROR, || panic!("planted"));
        assert_eq!(failed, TfLiteStatus::ERROR);
    }
}
