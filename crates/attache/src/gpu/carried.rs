//! Outputs that are inputs of the next run, where they are: such an output and its input are bound to the same memory of the
//! device, from which nothing is copied to the host unless it asks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use attache_base::AlignedBuffer;
use attache_gpu::DeviceMemory;

use super::failure::failed;
use crate::{DelegateError, DelegateErrorKind};

/// The inputs and outputs of a kernel that share memory from run to run.
pub(super) struct Carried {
    /// For each input, the output that it shares memory with, and the memory.
    pairs: Vec<Option<(usize, DeviceMemory)>>,
    /// For each slot and each output, where the last run of the slot left it; `None` if the host has it.
    left: Vec<Vec<Option<Left>>>,
    /// The slot of the run that was submitted last.
    last: usize,
    /// Bytes that were copied between the host and the memory so far.
    copied: AtomicU64,
}

/// An output of a run that is in memory of the device, and its bytes once the host has asked for them.
struct Left {
    memory: DeviceMemory,
    bytes: OnceLock<AlignedBuffer>,
}

impl Carried {
    pub(super) fn new([inputs, outputs]: [usize; 2], slots: usize) -> Self {
        let left = (0..slots).map(|_| (0..outputs).map(|_| None).collect()).collect();
        Self { pairs: vec![None; inputs], left, last: 0, copied: AtomicU64::new(0) }
    }

    /// Returns the bytes that were copied between the host and the memory so far.
    pub(super) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Copies bytes to memory of the device.
    pub(super) fn write(&self, memory: &DeviceMemory, bytes: &[u8]) -> Result<(), DelegateError> {
        self.copied.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        memory.write(0, bytes).map_err(failed)
    }

    /// Copies bytes from memory of the device.
    pub(super) fn read(&self, memory: &DeviceMemory, bytes: &mut [u8]) -> Result<(), DelegateError> {
        self.copied.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        memory.read(0, bytes).map_err(failed)
    }

    /// Notes that a run of a slot is submitted.
    pub(super) fn submitted(&mut self, slot: usize) {
        self.last = slot;
        let Some(left) = self.left.get_mut(slot) else { return };
        left.iter_mut().for_each(|left| *left = None);
        for (output, memory) in self.pairs.iter().flatten() {
            left[*output] = Some(Left { memory: memory.clone(), bytes: OnceLock::new() });
        }
    }

    /// Returns the bytes of an output of a slot's last run that is in memory of the device; `None` if it is not.
    pub(super) fn output(&self, slot: usize, output: usize) -> Option<Result<&[u8], DelegateError>> {
        let left = self.left.get(slot)?.get(output)?.as_ref()?;
        if left.bytes.get().is_none() {
            match self.taken(&left.memory) {
                // Another thread may have been faster.
                Ok(bytes) => drop(left.bytes.set(bytes)),
                Err(error) => return Some(Err(error)),
            }
        }
        left.bytes.get().map(|bytes| Ok(&bytes[..]))
    }

    /// Returns a copy of memory of the device.
    fn taken(&self, memory: &DeviceMemory) -> Result<AlignedBuffer, DelegateError> {
        let no_memory =
            |error| DelegateError::new(format!("an output: {error}")).with_kind(DelegateErrorKind::OutOfMemory);
        let mut bytes = AlignedBuffer::zeroed(memory.size()).map_err(no_memory)?;
        self.read(memory, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether an output of a slot's last run is where the next run reads an input: they share memory, and no run of another
    /// slot was submitted since.
    pub(super) fn has(&self, slot: usize, output: usize, input: usize) -> bool {
        let left = self.left.get(slot).and_then(|left| left.get(output)?.as_ref());
        let pair = self.pairs.get(input).and_then(Option::as_ref).filter(|(other, _)| *other == output);
        let is_there = left.zip(pair).is_some_and(|(left, (_, memory))| left.memory.is_same(memory));
        is_there && slot == self.last
    }

    /// Lets an input and an output share memory.
    pub(super) fn set(&mut self, output: usize, input: usize, memory: DeviceMemory) {
        self.pairs[input] = Some((output, memory));
    }

    /// Returns the output that an input shares memory with, and the memory, and lets them share it no more.
    pub(super) fn take(&mut self, input: usize) -> Option<(usize, DeviceMemory)> {
        self.pairs.get_mut(input)?.take()
    }

    /// Whether an input or an output of these indices shares memory.
    pub(super) fn is_taken(&self, output: usize, input: usize) -> bool {
        let mut pairs = self.pairs.iter().enumerate().filter_map(|(index, pair)| Some((index, pair.as_ref()?.0)));
        pairs.any(|(index, other)| index == input || other == output)
    }
}
