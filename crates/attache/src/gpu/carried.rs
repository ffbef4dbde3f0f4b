//! Outputs that are inputs of the next run, where they are: such an output and its input are bound to the same memory of the
//! device, from which nothing is copied to the host unless it asks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use attache_gpu::{BoundTensor, DeviceMemory, GpuError, InputBinding, MemoryBinding, OutputBinding};

use super::kernel::{GpuKernel, Port, failed};
use crate::{DelegateError, DelegateErrorKind, DelegateQueue};

/// The inputs and outputs of a kernel that share memory from run to run.
pub(super) struct Carried {
    /// For each input, the output that it shares memory with, and the memory.
    pairs: Vec<Option<(usize, DeviceMemory)>>,
    /// For each slot and each output, where the last run of the slot left it; `None` if the host has it.
    left: Vec<Vec<Option<Left>>>,
    /// Bytes that were copied between the host and the memory so far.
    copied: AtomicU64,
}

/// An output of a run that is in memory of the device, and its bytes once the host has asked for them.
struct Left {
    memory: DeviceMemory,
    bytes: OnceLock<Vec<u8>>,
}

impl Carried {
    pub(super) fn new([inputs, outputs]: [usize; 2], slots: usize) -> Self {
        let left = (0..slots).map(|_| (0..outputs).map(|_| None).collect()).collect();
        Self { pairs: vec![None; inputs], left, copied: AtomicU64::new(0) }
    }

    /// Returns the bytes that were copied between the host and the memory so far.
    pub(super) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Copies bytes to memory of the device.
    fn write(&self, memory: &DeviceMemory, bytes: &[u8]) -> Result<(), GpuError> {
        self.copied.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        memory.write(0, bytes)
    }

    /// Copies bytes from memory of the device.
    fn read(&self, memory: &DeviceMemory, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.copied.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        memory.read(0, bytes)
    }

    /// Notes that a run of a slot is submitted.
    pub(super) fn submitted(&mut self, slot: usize) {
        let Some(left) = self.left.get_mut(slot) else { return };
        left.iter_mut().for_each(|left| *left = None);
        for (output, memory) in self.pairs.iter().flatten() {
            left[*output] = Some(Left { memory: memory.clone(), bytes: OnceLock::new() });
        }
    }

    /// Returns the bytes of an output of a slot's last run that is in memory of the device; `None` if it is not.
    pub(super) fn output(&self, slot: usize, output: usize) -> Option<Result<&[u8], GpuError>> {
        let left = self.left.get(slot)?.get(output)?.as_ref()?;
        if left.bytes.get().is_none() {
            let mut bytes = vec![0; left.memory.size()];
            if let Err(error) = self.read(&left.memory, &mut bytes) {
                return Some(Err(error));
            }
            // Another thread may have been faster.
            drop(left.bytes.set(bytes));
        }
        left.bytes.get().map(|bytes| Ok(&bytes[..]))
    }

    /// Whether an input or an output of these indices shares memory with another partner.
    fn is_taken(&self, output: usize, input: usize) -> bool {
        let is_other = |(index, pair): (usize, &Option<(usize, DeviceMemory)>)| {
            pair.as_ref().is_some_and(|(other, _)| (index == input) != (*other == output))
        };
        self.pairs.iter().enumerate().any(is_other)
    }
}

impl GpuKernel {
    /// Makes an input of further runs an output, in the same memory. Returns false if that cannot be.
    pub(super) fn carry(&mut self, slot: usize, output: usize, input: usize) -> Result<bool, DelegateError> {
        let (Some(to), Some(from)) = (self.inputs.get(input), self.outputs.get(output)) else { return Ok(false) };
        let is_alike = to.format == from.format && to.data_type == from.data_type;
        // Then the memory has the bytes that the host reads and writes, in whole words.
        let is_plain = to.is_taken() && from.is_stored() && to.device_bytes().is_multiple_of(4);
        if to.format.elements == 0 || !is_alike || !is_plain || self.carried.is_taken(output, input) {
            return Ok(false);
        }
        if self.carried.pairs[input].is_some() {
            return Ok(true);
        }
        let (bytes, tensor) = (to.device_bytes(), bound(to));
        let Some(memory) = self.session.memory(bytes).map_err(failed)? else { return Ok(false) };
        let Some(value) = DelegateQueue::output(self, slot, output, bytes)? else { return Ok(false) };
        self.carried.write(&memory, value).map_err(failed)?;
        let (from, to) = (MemoryBinding::new(&memory), MemoryBinding::new(&memory));
        self.session.bind_output(output, Some((OutputBinding::Memory(from), tensor.clone()))).map_err(failed)?;
        if let Err(error) = self.session.bind_input(input, Some((InputBinding::Memory(to), tensor))) {
            self.session.bind_output(output, None).map_err(failed)?;
            return Err(failed(error));
        }
        self.carried.pairs[input] = Some((output, memory));
        Ok(true)
    }

    /// Makes further runs read an input, and write the output that shares its memory, elsewhere again. Copies the value to
    /// `value` before.
    pub(super) fn end_carry(&mut self, input: usize, value: Option<&mut [u8]>) -> Result<(), DelegateError> {
        let pair = self.carried.pairs.get_mut(input).and_then(Option::take);
        let nothing = || DelegateError::new("nothing was carried to the input").with_kind(DelegateErrorKind::Usage);
        let (output, memory) = pair.ok_or_else(nothing)?;
        let copied = value.map_or(Ok(()), |value| self.carried.read(&memory, value)).map_err(failed);
        self.session.bind_input(input, None).map_err(failed)?;
        self.session.bind_output(output, None).map_err(failed)?;
        copied
    }
}

/// Returns an input or output as the device stores it.
fn bound(port: &Port) -> BoundTensor {
    BoundTensor {
        data_type: port.data_type,
        shape: [port.format.elements].into(),
        quantization: None,
        scalar: port.format.scalar,
        storage: port.format.storage,
    }
}
