//! The memory of an executor ([`Memory`]): one arena, constants at their place in the model file, and
//! separate buffers for tensors that are passed by reference or can be sized only at run time.

use std::collections::TryReserveError;
use std::ops::Range;
use std::{iter, mem};

use attache_base::{AlignedBuffer, Bytes, DataType, Shape, SharedBuffer, copy, order_by, strings};
use attache_graph::{Fact, Graph, OpError, PassedTensor, TensorId, TensorMut, TensorRef};
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
    Own(Option<(Shape, SharedBuffer)>),
    /// A separate buffer of an input of strings, with its shape. `None` until it is written, if it is large.
    Input(Shape, Option<SharedBuffer>),
    /// The buffer with this index among those of tensors that are passed by reference.
    Passed(usize),
}

/// The buffer of tensors that are passed by reference ([`Plan::passed`]) and have the same elements.
#[derive(Default)]
struct PassedBuffer {
    /// `None` while the tensors have no value.
    value: Option<SharedBuffer>,
    /// Whether the value stays from run to run: that of an input of the interpreter.
    stays: bool,
}

/// Inputs of strings have empty ones until they are written, unless these alone take more bytes.
const MOST_EMPTY: usize = 1 << 20;

/// One element for each output of a step, which needs no allocation for most.
pub(crate) type Few<T> = SmallVec<[T; 2]>;

/// The memory of all tensors of an executor.
pub(crate) struct Memory {
    arena: AlignedBuffer,
    slots: Vec<Slot>,
    passed: Vec<PassedBuffer>,
    /// A buffer that a run released, for the next output of its size.
    spare: Option<AlignedBuffer>,
}

/// Buffers of at least this many bytes are used again for other outputs. The system provides smaller ones as quickly.
const LEAST_SPARE: usize = 1 << 16;

impl Memory {
    /// Allocates the memory of a plan. `touched` says for each tensor whether a step or an output of the
    /// graph accesses it.
    pub(crate) fn new(graph: &Graph, plan: &Plan, touched: &[bool]) -> Result<Self, Error> {
        let no_memory = |error: &dyn std::fmt::Display| Error::new(ErrorKind::OutOfMemory, format!("tensors: {error}"));
        let mut slots = Vec::with_capacity(graph.tensors.len());
        for ((tensor, range), touched) in graph.tensors.iter().zip(&plan.ranges).zip(touched) {
            if let Some(place) = plan.passed[slots.len()] {
                slots.push(Slot::Passed(place));
                continue;
            }
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
                let empty = empty.map_err(|error| no_memory(&error))?;
                slots[id.index()] = Slot::Input(shape.clone(), empty.map(SharedBuffer::from));
            }
        }
        let arena = AlignedBuffer::zeroed(plan.size).map_err(|error| no_memory(&error))?;
        let count = plan.passed.iter().flatten().max().map_or(0, |last| last + 1);
        let passed = (0..count).map(|_| PassedBuffer::default()).collect();
        Ok(Self { arena, slots, passed, spare: None })
    }

    /// Gives inputs that are passed by reference a value of zeros that stays from run to run. The inputs of a called
    /// subgraph are set by its caller instead.
    pub(crate) fn keep_inputs(&mut self, graph: &Graph) -> Result<(), Error> {
        graph.inputs.iter().try_for_each(|id| self.keep_input(graph, *id).map(drop))
    }

    /// Makes the value of an input stay from run to run, and makes one of zeros if it has none. Returns its bytes for
    /// writing; `None` if the input is not passed by reference.
    fn keep_input(&mut self, graph: &Graph, id: TensorId) -> Result<Option<&mut [u8]>, Error> {
        let Slot::Passed(place) = self.slots[id.index()] else { return Ok(None) };
        let no_memory = |error| Error::new(ErrorKind::OutOfMemory, format!("an input: {error}"));
        let PassedBuffer { value, stays } = &mut self.passed[place];
        *stays = true;
        let mut kept = match value.take() {
            Some(kept) => kept,
            None => SharedBuffer::zeroed(graph.fact(id).byte_size().unwrap_or(0)).map_err(no_memory)?,
        };
        kept.make_unique().map_err(no_memory)?;
        Ok(value.insert(kept).get_mut())
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
            Slot::Passed(place) => Some((graph.fact(id).shape.as_ref()?, self.passed[*place].value.as_deref()?)),
        }
    }

    /// Returns the bytes of a tensor for writing; `None` if it is not in the arena.
    pub(crate) fn bytes_mut(&mut self, id: TensorId) -> Option<&mut [u8]> {
        match &self.slots[id.index()] {
            Slot::Arena(range) => Some(&mut self.arena[range.clone()]),
            _ => None,
        }
    }

    /// Returns the bytes of an input for writing; `None` if it has no memory. One that is passed by reference is
    /// copied first if others share its value.
    pub(crate) fn input_mut(&mut self, graph: &Graph, id: TensorId) -> Result<Option<&mut [u8]>, Error> {
        if self.is_passed(id) {
            return self.keep_input(graph, id);
        }
        match &mut self.slots[id.index()] {
            Slot::Arena(range) => Ok(Some(&mut self.arena[range.clone()])),
            Slot::Input(_, Some(buffer)) => {
                let no_memory = |error| Error::new(ErrorKind::OutOfMemory, format!("an input of strings: {error}"));
                buffer.make_unique().map_err(no_memory)?;
                Ok(buffer.get_mut())
            }
            _ => Ok(None),
        }
    }

    /// Writes an input. The number of bytes may change for an input of strings; for others it is that of the input. Does
    /// nothing if it has no memory.
    pub(crate) fn write_input(&mut self, graph: &Graph, id: TensorId, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.slots[id.index()] {
            Slot::Arena(range) => copy(&mut self.arena[range.clone()], bytes),
            Slot::Input(_, value) => {
                let kept = value.as_mut().and_then(SharedBuffer::get_mut).filter(|kept| kept.len() == bytes.len());
                let no_memory = |error| Error::new(ErrorKind::OutOfMemory, format!("an input of strings: {error}"));
                match kept {
                    Some(kept) => copy(kept, bytes),
                    None => *value = Some(SharedBuffer::copied(bytes).map_err(no_memory)?),
                }
            }
            Slot::Passed(place) => {
                // What others share is replaced and need not be copied.
                let value = &mut self.passed[*place].value;
                *value = value.take().and_then(SharedBuffer::into_buffer).map(SharedBuffer::from);
                self.keep_input(graph, id)?.into_iter().for_each(|into| copy(into, bytes));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the shape and the bytes of a tensor, as those of a constant. They are copied only if the tensor is in the
    /// arena.
    pub(crate) fn constant(&self, graph: &Graph, id: TensorId) -> Result<Option<(Shape, Bytes)>, OpError> {
        let Some((shape, bytes)) = self.tensor(graph, id) else { return Ok(None) };
        let bytes = match self.shared(id) {
            Some(shared) => shared,
            None => SharedBuffer::copied(bytes).map_err(|error| OpError::out_of_memory(error.to_string()))?,
        };
        Ok(Some((shape.clone(), bytes.to_bytes())))
    }

    /// Returns the value of a tensor outside the arena, which the caller shares; `None` for others.
    pub(crate) fn shared(&self, id: TensorId) -> Option<SharedBuffer> {
        match &self.slots[id.index()] {
            Slot::Own(value) => value.as_ref().map(|(_, bytes)| bytes.clone()),
            Slot::Input(_, bytes) => bytes.clone(),
            Slot::Passed(place) => self.passed[*place].value.clone(),
            Slot::None | Slot::Arena(_) | Slot::Constant(_) => None,
        }
    }

    /// Whether the tensor is in the arena.
    pub(crate) fn is_in_arena(&self, id: TensorId) -> bool {
        matches!(self.slots[id.index()], Slot::Arena(_))
    }

    /// Whether the tensor is passed by reference.
    pub(crate) fn is_passed(&self, id: TensorId) -> bool {
        matches!(self.slots[id.index()], Slot::Passed(_))
    }

    /// Gives a tensor a value that is passed to it. Returns the number of bytes that were copied, because the tensor lies
    /// in the arena; an error if it has another size there. Does nothing for a tensor without memory.
    pub(crate) fn set(&mut self, id: TensorId, shape: Shape, bytes: SharedBuffer) -> Result<usize, OpError> {
        match &mut self.slots[id.index()] {
            Slot::Own(value) => *value = Some((shape, bytes)),
            Slot::Input(_, value) => *value = Some(bytes),
            Slot::Passed(place) => self.passed[*place].value = Some(bytes),
            Slot::Arena(range) if range.len() == bytes.len() => {
                copy(&mut self.arena[range.clone()], &bytes);
                return Ok(bytes.len());
            }
            Slot::Arena(range) => {
                let reason = format!("{} bytes are passed to a tensor of {}", bytes.len(), range.len());
                return Err(OpError::invalid(reason));
            }
            Slot::None | Slot::Constant(_) => {}
        }
        Ok(0)
    }

    /// Returns the value of a tensor, to be passed on, and the number of bytes that were copied because the tensor lies in
    /// the arena; `None` if it has no value. With `is_last` the tensor has no value afterwards if it can go.
    pub(crate) fn pass(
        &mut self,
        graph: &Graph,
        id: TensorId,
        is_last: bool,
    ) -> Result<Option<(PassedTensor, usize)>, OpError> {
        let fact = graph.fact(id);
        let (shape, bytes, copied) = match &mut self.slots[id.index()] {
            Slot::None => return Ok(None),
            Slot::Own(value) if is_last => match value.take() {
                Some((shape, bytes)) => (Some(shape), Some(bytes), 0),
                None => return Ok(None),
            },
            Slot::Own(value) => match value {
                Some((shape, bytes)) => (Some(shape.clone()), Some(bytes.clone()), 0),
                None => return Ok(None),
            },
            Slot::Input(shape, bytes) => (Some(shape.clone()), bytes.clone(), 0),
            Slot::Constant(bytes) => (fact.shape.clone(), Some(SharedBuffer::constant(bytes.clone())), 0),
            Slot::Passed(place) => {
                let PassedBuffer { value, stays } = &mut self.passed[*place];
                let value = if is_last && !*stays { value.take() } else { value.clone() };
                (fact.shape.clone(), value, 0)
            }
            Slot::Arena(range) => {
                let no_memory = |error: TryReserveError| OpError::out_of_memory(error.to_string());
                let bytes = SharedBuffer::copied(&self.arena[range.clone()]).map_err(no_memory)?;
                (fact.shape.clone(), Some(bytes), range.len())
            }
        };
        let data_type = fact.data_type;
        Ok(shape.zip(bytes).map(|(shape, bytes)| (PassedTensor { data_type, shape, bytes }, copied)))
    }

    /// Lets the next run use up the value of an input, which is then not copied where an operator changes it.
    pub(crate) fn use_up(&mut self, id: TensorId) {
        if let Slot::Passed(place) = self.slots[id.index()] {
            self.passed[place].stays = false;
        }
    }

    /// Returns a buffer for a node to write the tensor to, of arbitrary content; `None` for a tensor that is in the arena.
    /// `size` is that of the tensor in bytes.
    pub(crate) fn outside(&mut self, id: TensorId, size: usize) -> Result<Option<AlignedBuffer>, OpError> {
        if !matches!(self.slots[id.index()], Slot::Own(_) | Slot::Passed(_)) {
            return Ok(None);
        }
        if let Some(spare) = self.spare.take_if(|spare| spare.len() == size) {
            return Ok(Some(spare));
        }
        let no_memory = |error| OpError::out_of_memory(format!("an output of {size} bytes: {error}"));
        AlignedBuffer::zeroed(size).map(Some).map_err(no_memory)
    }

    /// Frees the separate buffer of a tensor that is not used any more in this run.
    pub(crate) fn release(&mut self, id: TensorId) {
        let freed = match &mut self.slots[id.index()] {
            Slot::Own(value) => value.take().map(|(_, bytes)| bytes),
            Slot::Passed(place) if !self.passed[*place].stays => self.passed[*place].value.take(),
            _ => None,
        };
        let large = freed.filter(|bytes| bytes.len() >= LEAST_SPARE);
        if let Some(buffer) = large.and_then(SharedBuffer::into_buffer) {
            self.spare = Some(buffer);
        }
    }

    /// Whether the tensor has a separate buffer outside the arena, whether or not the buffer is allocated.
    pub(crate) fn is_own(&self, id: TensorId) -> bool {
        matches!(self.slots[id.index()], Slot::Own(_))
    }

    /// Frees all separate buffers except those of inputs, so that the tensors of the last run have no value.
    pub(crate) fn clear(&mut self, graph: &Graph) {
        let mut is_input = vec![false; self.passed.len()];
        for id in &graph.inputs {
            if let Slot::Passed(place) = self.slots[id.index()] {
                is_input[place] = true;
            }
        }
        for (buffer, _) in self.passed.iter_mut().zip(is_input).filter(|(_, is_input)| !is_input) {
            buffer.value = None;
        }
        self.clear_own();
    }

    /// Frees all separate buffers, also those of inputs, which the next caller sets again.
    pub(crate) fn clear_all(&mut self) {
        self.passed.iter_mut().for_each(|buffer| buffer.value = None);
        self.clear_own();
    }

    fn clear_own(&mut self) {
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
            return (Readable { gaps, slots: &self.slots, passed: &self.passed }, Few::from_iter([output]));
        }
        let ranges: Few<_> = written.iter().map(range).collect();
        let mut outputs: Few<&mut [u8]> = written.iter().map(|_| Default::default()).collect();
        let mut gaps = Few::with_capacity(written.len() + 1);
        let (mut rest, mut start) = (&mut self.arena[..], 0);
        for index in order_by(ranges.len(), |index| (ranges[index].start, 0)) {
            let range = &ranges[index];
            let (gap, tail) = mem::take(&mut rest).split_at_mut(range.start - start);
            let (output, tail) = tail.split_at_mut(range.len());
            gaps.push((start, &*gap));
            outputs[index] = output;
            (rest, start) = (tail, range.end);
        }
        gaps.push((start, &*rest));
        (Readable { gaps, slots: &self.slots, passed: &self.passed }, outputs)
    }
}

/// The memory that a step can read while it writes its outputs.
pub(crate) struct Readable<'a> {
    /// The parts of the arena that are not being written, each with its byte offset in the arena, ascending.
    gaps: Few<(usize, &'a [u8])>,
    slots: &'a [Slot],
    passed: &'a [PassedBuffer],
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
            Slot::Passed(place) => (fact.shape.as_ref()?, self.passed[*place].value.as_deref()?),
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
