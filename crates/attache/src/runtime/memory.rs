//! The memory of an interpreter: one arena, constants in place, and buffers for tensors that can be sized only at run
//! time.

use std::mem;
use std::ops::Range;

use attache_base::{AlignedBuffer, Bytes, Shape};
use attache_graph::{Graph, TensorId, TensorMut, TensorRef};

use super::plan::Plan;
use crate::{Error, ErrorKind};

/// Where the bytes of a tensor are.
enum Slot {
    /// Nowhere: nothing on the CPU accesses the tensor.
    None,
    /// In the arena.
    Arena(Range<usize>),
    /// In the file, or in a copy if the file does not align the constant.
    Constant(Bytes),
    /// In a buffer outside of the arena, because its size is known only at run time. `None` until a run makes the
    /// tensor.
    Own(Option<(Shape, AlignedBuffer)>),
}

/// The memory of an interpreter.
pub(crate) struct Memory {
    arena: AlignedBuffer,
    slots: Vec<Slot>,
}

impl Memory {
    /// Allocates memory as planned. `touched` tells which tensors the CPU accesses.
    pub(crate) fn new(graph: &Graph, plan: &Plan, touched: &[bool]) -> Result<Self, Error> {
        let no_memory = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Unsupported, format!("tensors: {error}"));
        let mut slots = Vec::with_capacity(graph.tensors.len());
        for ((tensor, range), touched) in graph.tensors.iter().zip(&plan.ranges).zip(touched) {
            slots.push(match (&tensor.fact.constant, range, touched) {
                (Some(constant), _, true) => Slot::Constant(constant.aligned_bytes().ok_or_else(|| {
                    no_memory(&format!("constant \"{}\" of type {}", tensor.name, constant.data_type))
                })?),
                (None, Some(range), _) => Slot::Arena(range.clone()),
                (None, None, true) => Slot::Own(None),
                _ => Slot::None,
            });
        }
        let arena = AlignedBuffer::zeroed(plan.size).map_err(|error| no_memory(&error))?;
        Ok(Self { arena, slots })
    }

    /// Current shape and bytes of a tensor; `None` if no run has made it yet.
    pub(crate) fn tensor<'a>(&'a self, graph: &'a Graph, id: TensorId) -> Option<(&'a Shape, &'a [u8])> {
        match &self.slots[id.index()] {
            Slot::None => None,
            Slot::Arena(range) => Some((graph.fact(id).shape.as_ref()?, &self.arena[range.clone()])),
            Slot::Constant(bytes) => Some((graph.fact(id).shape.as_ref()?, bytes)),
            Slot::Own(value) => value.as_ref().map(|(shape, bytes)| (shape, &**bytes)),
        }
    }

    /// The bytes of a tensor in the arena.
    pub(crate) fn bytes_mut(&mut self, id: TensorId) -> Option<&mut [u8]> {
        match &self.slots[id.index()] {
            Slot::Arena(range) => Some(&mut self.arena[range.clone()]),
            _ => None,
        }
    }

    /// Whether the tensor has a buffer outside of the arena.
    pub(crate) fn is_own(&self, id: TensorId) -> bool {
        matches!(self.slots[id.index()], Slot::Own(_))
    }

    /// Stores a value in the tensor's separate buffer.
    pub(crate) fn set_own(&mut self, id: TensorId, value: Option<(Shape, AlignedBuffer)>) {
        if let Slot::Own(slot) = &mut self.slots[id.index()] {
            *slot = value;
        }
    }

    /// Frees all separate buffers of the last run.
    pub(crate) fn clear_own(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Own(value) = slot {
                *value = None;
            }
        }
    }

    /// Splits the memory into these tensors of the arena, for writing, and everything else, for reading. The arena's
    /// plan guarantees that no two of the written tensors overlap, and that none overlaps a tensor that is read
    /// meanwhile.
    pub(crate) fn split(&mut self, written: &[TensorId]) -> (Readable<'_>, Vec<&mut [u8]>) {
        let range = |id: &TensorId| match &self.slots[id.index()] {
            Slot::Arena(range) => range.clone(),
            _ => 0..0,
        };
        let mut ranges: Vec<_> = written.iter().map(range).enumerate().collect();
        ranges.sort_unstable_by_key(|(_, range)| range.start);
        let mut outputs: Vec<&mut [u8]> = written.iter().map(|_| Default::default()).collect();
        let mut gaps = Vec::with_capacity(written.len() + 1);
        let (mut rest, mut start) = (&mut self.arena[..], 0);
        for (index, range) in ranges {
            let (gap, tail) = mem::take(&mut rest).split_at_mut(range.start - start);
            let (output, tail) = tail.split_at_mut(range.len());
            gaps.push((start, &*gap));
            outputs[index] = output;
            (rest, start) = (tail, range.end);
        }
        gaps.push((start, &*rest));
        (Readable { gaps, slots: &self.slots }, outputs)
    }
}

/// The memory that can be read while some tensors are written.
pub(crate) struct Readable<'a> {
    /// The parts of the arena that are not written, with their offsets, ascending.
    gaps: Vec<(usize, &'a [u8])>,
    slots: &'a [Slot],
}

impl<'a> Readable<'a> {
    /// A tensor; `None` if it has not been made.
    pub(crate) fn tensor(&self, graph: &'a Graph, id: TensorId) -> Option<TensorRef<'a>> {
        let fact = graph.fact(id);
        let (shape, bytes) = match &self.slots[id.index()] {
            Slot::None => return None,
            Slot::Arena(range) => (fact.shape.as_ref()?, self.bytes(range)?),
            Slot::Constant(bytes) => (fact.shape.as_ref()?, &**bytes),
            Slot::Own(value) => value.as_ref().map(|(shape, bytes)| (shape, &**bytes))?,
        };
        let (data_type, quantization) = (fact.data_type, fact.quantization.as_ref());
        Some(TensorRef { data_type, shape, bytes, quantization, is_constant: fact.constant.is_some() })
    }

    fn bytes(&self, range: &Range<usize>) -> Option<&'a [u8]> {
        let next = self.gaps.partition_point(|(start, _)| *start <= range.start);
        let (start, gap) = self.gaps.get(next.checked_sub(1)?)?;
        gap.get(range.start - start..range.end - start)
    }
}

/// A tensor of this shape, for writing.
pub(crate) fn writable<'a>(graph: &'a Graph, id: TensorId, shape: &'a Shape, bytes: &'a mut [u8]) -> TensorMut<'a> {
    let fact = graph.fact(id);
    TensorMut { data_type: fact.data_type, shape, bytes, quantization: fact.quantization.as_ref() }
}
