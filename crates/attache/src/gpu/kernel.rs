//! The prepared partitions of the GPU delegate, and the kernels that run them.

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use attache_base::{Bytes, DataType, Stopwatch};
use attache_gpu::{Executable, GpuError, Runs, Session, SharedValue, ValueFormat};
use attache_graph::{Graph, NodeId, Quantized, TensorId, TensorMut, TensorRef};
use serde::{Deserialize, Serialize};

use super::carried::Carried;
use super::exchange;
use super::failure::{failed, failure};
use crate::{
    Completion, DelegateBindings, DelegateError, DelegateKernel, DelegateQueue, DispatchProfile, KernelProfile,
    KernelReport, PreparedPartition,
};

/// An input or output of the partition: its type on the host and its format on the device.
#[derive(Clone)]
pub(super) struct Port {
    pub(super) data_type: DataType,
    pub(super) format: ValueFormat,
}

impl Port {
    /// Whether an input is copied to the device without conversion.
    pub(super) fn is_taken(&self) -> bool {
        exchange::is_taken(self.data_type, self.format.scalar, self.format.storage)
    }

    /// Whether an output is copied to the host without conversion.
    pub(super) fn is_stored(&self) -> bool {
        exchange::is_stored(self.data_type, self.format.storage)
    }

    fn host_bytes(&self) -> Option<usize> {
        self.data_type.byte_size(self.format.elements)
    }

    pub(super) fn device_bytes(&self) -> usize {
        self.format.elements * self.format.storage.bytes()
    }
}

/// A partition that is prepared on a device.
pub(super) struct GpuPartition {
    executable: Arc<Executable>,
    /// How quantized tensors are computed.
    forms: Forms,
    nodes: Vec<NodeId>,
    /// For each of `nodes`, the operator of the file that it was made from.
    origins: Vec<usize>,
    runs: Runs,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// The first session, until a kernel takes it.
    first: Mutex<Option<Session>>,
    /// What is stored of the partition, until it is taken; `None` if nothing is.
    parts: Mutex<Option<Vec<Vec<u8>>>>,
    is_restored: bool,
    /// What each start compiles although plans are stored, as a sentence without a full stop; `None` for nothing.
    compiled_again: Option<&'static str>,
}

/// Which forms a partition's nodes with quantized tensors have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Forms {
    pub(super) floats: bool,
    pub(super) integers: bool,
}

impl From<Quantized> for Forms {
    fn from(quantized: Quantized) -> Self {
        let integers = quantized == Quantized::Exact;
        Self { floats: !integers, integers }
    }
}

/// The nodes of a partition and the types of its inputs and outputs on the host.
pub(super) struct PartitionInfo {
    pub(super) nodes: Vec<NodeId>,
    /// For each of `nodes`, the operator of the file that it was made from.
    origins: Vec<usize>,
    /// Data types of what the device has for the partition's input tensors, in its order.
    pub(super) inputs: Vec<DataType>,
    /// Data types of what the device has for the partition's output tensors, in its order.
    pub(super) outputs: Vec<DataType>,
    /// Whether the partition is the whole graph.
    pub(super) is_whole: bool,
    /// How quantized tensors are computed, for the report.
    pub(super) forms: Forms,
}

impl PartitionInfo {
    pub(super) fn new(
        graph: &Graph,
        nodes: Vec<NodeId>,
        inputs: &[TensorId],
        outputs: &[TensorId],
        forms: Forms,
    ) -> Self {
        let data_type = |tensor: &TensorId| exchange::parts(graph.fact(*tensor).data_type).0;
        let types = |tensors: &[TensorId]| tensors.iter().map(data_type).collect();
        let is_whole = nodes.len() == graph.nodes.len();
        let origins = nodes.iter().map(|id| graph.node(*id).origins.first().copied().unwrap_or_default()).collect();
        Self { nodes, origins, inputs: types(inputs), outputs: types(outputs), is_whole, forms }
    }

    /// Returns how the partition is run by a delegate that runs whole graphs as `runs` says. Partitions that are not the
    /// whole graph have one run in progress at a time, and so have timed ones.
    pub(super) fn runs(&self, runs: Runs) -> Runs {
        if self.is_whole && !runs.timed { runs } else { Runs { slots: 1, ..runs } }
    }
}

impl GpuPartition {
    /// Makes the first session of a partition, so that a lack of memory shows here.
    pub(super) fn new(executable: Executable, info: PartitionInfo, runs: Runs) -> Result<Self, GpuError> {
        let runs = info.runs(runs);
        let PartitionInfo { nodes, origins, inputs, outputs, forms, .. } = info;
        let executable = Arc::new(executable);
        let first = Mutex::new(Some(executable.session(runs)?));
        let ports = |formats: &[ValueFormat], types: Vec<DataType>| -> Vec<Port> {
            formats.iter().zip(types).map(|(format, data_type)| Port { data_type, format: *format }).collect()
        };
        let summary = executable.summary();
        let (inputs, outputs) = (ports(&summary.inputs, inputs), ports(&summary.outputs, outputs));
        let (parts, is_restored, compiled_again) = (Mutex::default(), false, None);
        Ok(Self { executable, forms, nodes, origins, runs, inputs, outputs, first, parts, is_restored, compiled_again })
    }

    /// Sets what is stored of the partition.
    pub(super) fn with_parts(self, parts: Option<Vec<Vec<u8>>>) -> Self {
        let compiled_again = parts.as_deref().and_then(compiled_again);
        Self { parts: Mutex::new(parts), compiled_again, ..self }
    }

    /// Marks the partition as one that was restored from what was stored of it.
    pub(super) fn restored(self, parts: &[Bytes]) -> Self {
        Self { is_restored: true, compiled_again: compiled_again(parts), ..self }
    }
}

impl PreparedPartition for GpuPartition {
    fn kernel(&self) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let session = first.map_or_else(|| self.executable.session(self.runs), Ok);
        let session = session.map_err(|error| failure("Prepare", &error))?;
        let empty = |port: &Port| match port.host_bytes() {
            Some(size) if !port.is_stored() => vec![0; size],
            _ => Vec::new(),
        };
        Ok(Box::new(GpuKernel {
            session,
            nodes: self.nodes.clone(),
            profiled: self.runs.timed,
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            carried: Carried::new([self.inputs.len(), self.outputs.len()], self.runs.slots),
            taken: vec![false; self.inputs.len()],
            kept: vec![false; self.outputs.len()],
            converted: (0..self.runs.slots).map(|_| self.outputs.iter().map(empty).collect()).collect(),
        }))
    }

    fn report(&self) -> KernelReport {
        let report = self.executable.report();
        let merged = self.executable.summary().merged.iter().filter_map(|(step, others)| {
            // Nodes of a subgraph that took the place of a call have the number of the call.
            let mut others: Vec<usize> = others.iter().map(|other| self.origins[*other]).collect();
            others.retain(|other| *other != self.origins[*step]);
            others.sort_unstable();
            others.dedup();
            let others: Vec<String> = others.iter().map(usize::to_string).collect();
            (!others.is_empty()).then(|| (self.nodes[*step], format!("one kernel with node {}", others.join(", "))))
        });
        let compiled_again = self.compiled_again.filter(|_| report.dispatches > 0);
        KernelReport {
            dispatches: report.dispatches,
            variants: report.variants,
            alternatives: report.alternatives,
            arena_bytes: report.arena_bytes,
            arena_lower_bound_bytes: report.arena_lower_bound_bytes,
            weights_bytes: report.weights_bytes,
            is_restored: self.is_restored,
            compile_ms: report.compile_ms,
            upload_ms: report.upload_ms,
            merged: merged.collect(),
            notes: note(self.forms).into_iter().chain(compiled_again.map(str::to_owned)).collect(),
        }
    }

    fn take_parts(&self) -> Option<Vec<Vec<u8>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns what each start compiles again although a partition is stored with these parts.
fn compiled_again(parts: &[impl Deref<Target = [u8]>]) -> Option<&'static str> {
    let [_, _, shaders, pipelines, _] = parts else { return None };
    match (shaders.is_empty(), pipelines.is_empty()) {
        (true, true) => Some("each start compiles all shaders: the device has no cache of pipelines"),
        (true, false) => Some("each start translates the shaders: only replay stores them as the driver takes them"),
        (false, _) => None,
    }
}

/// Returns how quantized tensors are computed, for people; `None` if there are none.
fn note(forms: Forms) -> Option<String> {
    let note = match (forms.floats, forms.integers) {
        (false, false) => return None,
        (false, true) => "quantized tensors are computed as integers, bit for bit as on the CPU",
        (true, false) => "quantized tensors are computed as floats",
        (true, true) => {
            "quantized tensors are computed as floats, and as integers by operators that have no other form"
        }
    };
    Some(note.to_owned())
}

/// The kernel of one interpreter.
pub(super) struct GpuKernel {
    pub(super) session: Session,
    nodes: Vec<NodeId>,
    profiled: bool,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    /// Inputs and outputs that share memory from run to run.
    pub(super) carried: Carried,
    /// For each input, whether another kernel provides it on the device.
    taken: Vec<bool>,
    /// For each output, whether only other kernels read it, on the device.
    kept: Vec<bool>,
    /// For each slot and each output: the output after conversion to the type of its tensor. Empty if no
    /// conversion is needed.
    converted: Vec<Vec<Vec<u8>>>,
}

/// The end of a run of a session.
struct GpuCompletion(Arc<dyn attache_gpu::Fence>);

impl Completion for GpuCompletion {
    fn wait(&self, timeout: Duration) -> Result<bool, DelegateError> {
        self.0.wait(timeout).map_err(failed)
    }
}

impl DelegateQueue for GpuKernel {
    fn slots(&self) -> usize {
        self.converted.len()
    }

    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), DelegateError> {
        let port = self.inputs.get(input).ok_or_else(|| no_such("input", input))?;
        if port.format.elements == 0 {
            return Ok(());
        }
        let words = exchange::to_device(port.data_type, port.format.scalar, port.format.storage, bytes);
        self.session.write_to(slot, input, &words).map_err(failed)
    }

    fn input_mut(&mut self, slot: usize, input: usize) -> Result<Option<&mut [u8]>, DelegateError> {
        let port = self.inputs.get(input).ok_or_else(|| no_such("input", input))?;
        if port.format.elements == 0 || !port.is_taken() {
            return Ok(None);
        }
        let memory = self.session.input_mut(slot, input).map_err(failed)?;
        Ok(memory.and_then(|memory| memory.get_mut(..port.device_bytes())))
    }

    fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), DelegateError> {
        self.session.read_input(slot, input, bytes).map_err(failed)
    }

    fn submit(&mut self, slot: usize, times: usize) -> Result<(), DelegateError> {
        self.carried.submitted(slot);
        self.session.submit_in(slot, times).map_err(failed)
    }

    fn wait(&mut self, slot: usize) -> Result<(), DelegateError> {
        self.session.wait_for(slot).map_err(failed)?;
        let converted = self.converted.get_mut(slot).ok_or_else(|| no_such("slot", slot))?;
        for (index, (port, elements)) in self.outputs.iter().zip(converted).enumerate() {
            let bytes = port.device_bytes();
            if !port.is_stored()
                && !self.kept[index]
                && let Some(words) = self.session.output(slot, index, bytes).map_err(failed)?
            {
                exchange::from_device(port.data_type, port.format.storage, &words[..bytes], elements);
            }
        }
        Ok(())
    }

    fn completion(&self, slot: usize) -> Arc<dyn Completion> {
        match self.session.completion(slot) {
            Ok(end) => Arc::new(GpuCompletion(end)),
            Err(error) => Arc::new(Failed(error.to_string())),
        }
    }

    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, DelegateError> {
        let Some(port) = self.outputs.get(output) else { return Ok(None) };
        if let Some(bytes) = self.carried.output(slot, output) {
            return bytes.map(Some);
        }
        let words = self.session.output(slot, output, least.min(port.device_bytes())).map_err(failed)?;
        Ok(words.map(|words| match port.is_stored() {
            true => &words[..words.len().min(port.device_bytes())],
            false => &self.converted[slot][output],
        }))
    }
}

/// The completion of a run that cannot be waited for.
struct Failed(String);

impl Completion for Failed {
    fn wait(&self, _: Duration) -> Result<bool, DelegateError> {
        Err(DelegateError::new(&self.0))
    }
}

/// A stopwatch that measures the microseconds of each phase of a run.
struct Laps(Stopwatch);

impl Laps {
    fn start() -> Self {
        Self(Stopwatch::start())
    }

    fn lap(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.0, Stopwatch::start());
        (1e3 * before.milliseconds()) as u64
    }
}

/// Returns the number of bytes, in the format of the device, that each run copies for `ports`. A port whose
/// element of `stay` is true is not copied.
fn bytes_of(ports: &[Port], stay: &[bool]) -> usize {
    ports.iter().zip(stay).filter(|(_, stays)| !**stays).map(|(port, _)| port.device_bytes()).sum()
}

/// An output in device memory that is shared with another kernel, with its format.
struct Handed {
    value: SharedValue,
    format: ValueFormat,
}

fn no_such(what: &str, index: usize) -> DelegateError {
    DelegateError::new(format!("TfLiteGpuDelegate Invoke: there is no {what} {index}"))
}

impl DelegateKernel for GpuKernel {
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        self.invoke_repeatedly(1, inputs, outputs)
    }

    fn invoke_repeatedly(
        &mut self,
        times: usize,
        inputs: &[TensorRef<'_>],
        outputs: &mut [TensorMut<'_>],
    ) -> Result<(), DelegateError> {
        if times == 0 {
            return Ok(());
        }
        let mut laps = Laps::start();
        for (index, input) in inputs.iter().enumerate() {
            if !self.taken.get(index).is_some_and(|taken| *taken) {
                self.write(0, index, input.bytes)?;
            }
        }
        let write_us = laps.lap();
        self.submit(0, times)?;
        let submit_us = laps.lap();
        self.wait(0)?;
        let wait_us = laps.lap();
        for (index, output) in outputs.iter_mut().enumerate() {
            if self.kept.get(index).is_some_and(|kept| *kept) {
                continue;
            }
            let port = self.outputs.get(index);
            // A variable that no node reads or sets keeps its value.
            if port.is_some_and(|port| port.host_bytes() == Some(0)) {
                continue;
            }
            let fits = port.is_some_and(|port| port.host_bytes() == Some(output.bytes.len()));
            if !fits || !self.read(0, index, output.bytes)? {
                return Err(DelegateError::new("an output is of another size"));
            }
        }
        let (bytes_in, bytes_out) = (bytes_of(&self.inputs, &self.taken), bytes_of(&self.outputs, &self.kept));
        tracing::trace!(bytes_in, write_us, submit_us, wait_us, bytes_out, read_us = laps.lap(), "partition");
        Ok(())
    }

    fn queue(&self) -> Option<&dyn DelegateQueue> {
        Some(self)
    }

    fn queue_mut(&mut self) -> Option<&mut dyn DelegateQueue> {
        Some(self)
    }

    fn bindings(&mut self) -> Option<&mut dyn DelegateBindings> {
        Some(self)
    }

    fn share_output(&mut self, output: usize) -> Option<Box<dyn Any>> {
        let format = self.outputs.get(output).map(|port| port.format).filter(|format| format.elements > 0)?;
        // An output that cannot be shared, or whose sharing fails, is copied through the host instead.
        let value = self.session.share(output).ok()??;
        Some(Box::new(Handed { value, format }))
    }

    fn take_input(&mut self, input: usize, shared: &dyn Any) -> bool {
        let (Some(port), Some(handed)) = (self.inputs.get(input), shared.downcast_ref::<Handed>()) else {
            return false;
        };
        let is_same = port.format == handed.format;
        self.taken[input] = is_same && self.session.take(input, &handed.value).unwrap_or(false);
        self.taken[input]
    }

    fn keep_on_device(&mut self, outputs: &[usize]) {
        if self.session.keep_on_device(outputs).is_ok() {
            outputs.iter().for_each(|output| self.kept[*output] = true);
        }
    }

    fn io_bytes(&self) -> Option<u64> {
        Some(self.session.io_bytes()? + self.carried.copied())
    }

    fn profile(&mut self) -> Result<KernelProfile, DelegateError> {
        if !self.profiled {
            return Ok(KernelProfile::default());
        }
        let times = self.session.times().map_err(failed)?;
        let timed = self.session.summary().dispatches.iter().zip(&times.spans);
        let dispatches = timed.map(|(dispatch, span)| DispatchProfile {
            name: dispatch.variant(),
            nodes: dispatch.origins.iter().map(|origin| self.nodes[*origin]).collect(),
            begin_ns: span.begin,
            end_ns: span.end,
            operations: dispatch.cost.operations,
            on_matrices: dispatch.on_matrices,
            bytes_read: dispatch.cost.bytes_read,
            bytes_written: dispatch.cost.bytes_written,
        });
        Ok(KernelProfile { dispatches: dispatches.collect(), barriers: times.barriers })
    }
}
