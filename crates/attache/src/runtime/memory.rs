//! The memory of an executor ([`Memory`]): one arena, constants at their place in the model file, and
//! separate buffers for tensors that can be sized only at run time.

use std::collections::TryReserveError;
use std::ops::Range;
use std::{iter, mem};

use attache_base::{AlignedBuffer, Bytes, DataType, Shape, copy, strings};
use attache_graph::{Fact, Graph, TensorId, TensorMut, TensorRef};
use smallvec::SmallVec;

use super::plan::Plan;
use crate::{Error, ErrorKind};

/// The place of the bytes of a tensor.
enum Slot {
    /// No memory: no step and no output of the graph accesses the tensor in host memory.
    None,
    /// This byte range of the arena.
    Arena(Range<usize>),
    /// A range of the model file, or a copy of it if the constant is not aligned in the file.
    Constant(Bytes),
    /// A separate buffer outside the arena, with the actual shape, because the size is known only at run
    /// time. `None` until a run computes the tensor.
    Own(Option<(Shape, AlignedBuffer)>),
    /// A separate buffer of an input of strings, with its shape. `None` until it is written, if it is large.
    Input(Shape, Option<AlignedBuffer>),
}

/// Inputs of strings have empty ones until they are written, unless these alone take more bytes.
const MOST_EMPTY: usize = 1 << 20;

/// One element for each output of a step, which needs no allocation for most.
pub(crate) type Few<T> = SmallVec<[T; 2]>;

/// The memory of all tensors of an executor.
pub(crate) struct Memory {
    arena: AlignedBuffer,
    slots: Vec<Slot>,
}

impl Memory {
    /// Allocates the memory of a plan. `touched` says for each tensor whether a step or an output of the
    /// graph accesses it.
    pub(crate) fn new(graph: &Graph, plan: &Plan, touched: &[bool]) -> Result<Self, Error> {
        let no_memory = |error: &dyn std::fmt::Display| Error::new(ErrorKind::OutOfMemory, format!("tensors: {error}"));
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
        for id in &graph.inputs {
            if let Fact { data_type: DataType::String, shape: Some(shape), .. } = graph.fact(*id) {
                let is_small = strings::least_size(shape.elements()) <= MOST_EMPTY;
                let empty = is_small.then(|| empty_strings(shape.elements())).transpose();
                slots[id.index()] = Slot::Input(shape.clone(), empty.map_err(|error| no_memory(&error))?);
            }
        }
        let arena = AlignedBuffer::zeroed(plan.size).map_err(|error| no_memory(&error))?;
        Ok(Self { arena, slots })
    }

    /// Returns the current shape and bytes of a tensor; `None` if it has no memory, or no run has computed it
    /// yet.
    pub(crate) fn tensor<'a>(&'a self, graph: &'a Graph, id: TensorId) -> Option<(&'a Shape, &'a [u8])> {
        match &self.slots[id.index()] {
            Slot::None => None,
            Slot::Arena(range) => Some((graph.fact(id).shape.as_ref()?, &self.arena[range.clone()])),
            Slot::Constant(bytes) => Some((graph.fact(id).shape.as_ref()?, bytes)),
            Slot::Own(value) => value.as_ref().map(|(shape, bytes)| (shape, &**bytes)),
            Slot::Input(shape, bytes) => Some((shape, bytes.as_deref()?)),
        }
    }

    /// Returns the bytes of a tensor for writing; `None` if it is not in the arena.
    pub(crate) fn bytes_mut(&mut self, id: TensorId) -> Option<&mut [u8]> {
        match &self.slots[id.index()] {
            Slot::Arena(range) => Some(&mut self.arena[range.clone()]),
            _ => None,
        }
    }

    /// Returns the bytes of an input for writing; `None` if it has no memory.
    pub(crate) fn input_mut(&mut self, id: TensorId) -> Option<&mut [u8]> {
        match &mut self.slots[id.index()] {
            Slot::Arena(range) => Some(&mut self.arena[range.clone()]),
            Slot::Input(_, buffer) => buffer.as_deref_mut(),
            _ => None,
        }
    }

    /// Writes an input. The number of bytes may change for an input of strings; for others it is that of the input. Does
    /// nothing if it has no memory.
    pub(crate) fn write_input(&mut self, id: TensorId, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.slots[id.index()] {
            Slot::Arena(range) => copy(&mut self.arena[range.clone()], bytes),
            Slot::Input(_, buffer) => {
                let mut kept = buffer.take().filter(|buffer| buffer.len() == bytes.len());
                if kept.is_none() {
                    let no_memory = |error| Error::new(ErrorKind::OutOfMemory, format!("an input of strings: {error}"));
                    kept = Some(AlignedBuffer::zeroed(bytes.len()).map_err(no_memory)?);
                }
                copy(buffer.insert(kept.unwrap_or_default()), bytes);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the tensor has a separate buffer outside the arena, whether or not the buffer is allocated.
    pub(crate) fn is_own(&self, id: TensorId) -> bool {
        matches!(self.slots[id.index()], Slot::Own(_))
    }

    /// Sets or frees a tensor's separate buffer, with its shape. Does nothing for tensors without a separate
    /// buffer.
    pub(crate) fn set_own(&mut self, id: TensorId, value: Option<(Shape, AlignedBuffer)>) {
        if let Slot::Own(slot) = &mut self.slots[id.index()] {
            *slot = value;
        }
    }

    /// Frees all separate buffers of computed tensors, so that those of the last run have no value.
    pub(crate) fn clear_own(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Own(value) = slot {
                *value = None;
            }
        }
    }

    /// Splits the memory into the bytes of the tensors `written`, for writing and in this order, and
    /// everything else, for reading. Tensors that are not in the arena get an empty slice. The memory plan
    /// guarantees that no two of the written tensors overlap, and that none overlaps a tensor that the same
    /// step reads.
    pub(crate) fn split(&mut self, written: &[TensorId]) -> (Readable<'_>, Few<&mut [u8]>) {
        let range = |id: &TensorId| match &self.slots[id.index()] {
            Slot::Arena(range) => range.clone(),
            _ => 0..0,
        };
        if let [id] = written {
            let range = range(id);
            let (before, rest) = self.arena.split_at_mut(range.start);
            let (output, after) = rest.split_at_mut(range.len());
            let gaps = Few::from_buf([(0, &*before), (range.end, &*after)]);
            return (Readable { gaps, slots: &self.slots }, Few::from_iter([output]));
        }
        let mut ranges: Few<_> = written.iter().map(range).enumerate().collect();
        ranges.sort_unstable_by_key(|(_, range)| range.start);
        let mut outputs: Few<&mut [u8]> = written.iter().map(|_| Default::default()).collect();
        let mut gaps = Few::with_capacity(written.len() + 1);
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

/// The memory that a step can read while it writes its outputs.
pub(crate) struct Readable<'a> {
    /// The parts of the arena that are not being written, each with its byte offset in the arena, ascending.
    gaps: Few<(usize, &'a [u8])>,
    slots: &'a [Slot],
}

impl<'a> Readable<'a> {
    /// Returns a tensor for reading; `None` if it has no memory, no run has computed it yet, or it is being
    /// written.
    pub(crate) fn tensor(&self, graph: &'a Graph, id: TensorId) -> Option<TensorRef<'a>> {
        let fact = graph.fact(id);
        let (shape, bytes) = match &self.slots[id.index()] {
            Slot::None => return None,
            Slot::Arena(range) => (fact.shape.as_ref()?, self.bytes(range)?),
            Slot::Constant(bytes) => (fact.shape.as_ref()?, &**bytes),
            Slot::Own(value) => value.as_ref().map(|(shape, bytes)| (shape, &**bytes))?,
            Slot::Input(shape, bytes) => (shape, bytes.as_deref()?),
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

/// Returns a tensor of empty strings.
pub(crate) fn empty_strings(elements: usize) -> Result<AlignedBuffer, TryReserveError> {
    let mut buffer = AlignedBuffer::zeroed(strings::least_size(elements))?;
    strings::encode(iter::repeat_n(&[][..], elements), &mut buffer);
    Ok(buffer)
}

/// Returns the tensor `id` as an output of an evaluation, with this shape and these bytes.
pub(crate) fn writable<'a>(graph: &'a Graph, id: TensorId, shape: &'a Shape, bytes: &'a mut [u8]) -> TensorMut<'a> {
    let fact = graph.fact(id);
    TensorMut { data_type: fact.data_type, shape, bytes, quantization: fact.quantization.as_ref() }
}
