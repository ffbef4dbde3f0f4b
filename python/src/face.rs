//! What Python sees of the tensors of one subgraph: where each has its value, and its shape now.

use std::collections::{BTreeMap, BTreeSet};

use attache::Model;
use attache_base::AlignedBuffer;

use crate::access::Access;
use crate::fault::Fault;

/// Where the value of a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An input, by its position.
    Input(usize),
    /// An output, by its position.
    Output(usize),
    Constant,
    Variable,
    /// An operator computes it for others.
    Intermediate,
}

/// The tensors of a subgraph.
pub(crate) struct Face {
    pub(crate) index: usize,
    pub(crate) places: Vec<Place>,
    pub(crate) shapes: Vec<Vec<usize>>,
    /// The shapes that the program set since tensors were allocated last, by the position of the input.
    pub(crate) changes: BTreeMap<usize, Vec<usize>>,
    /// All shapes that the program set, by the position of the input.
    pub(crate) settled: BTreeMap<usize, Vec<usize>>,
    pub(crate) is_allocated: bool,
    /// Whether tensors were ever allocated.
    pub(crate) has_memory: bool,
    /// Whether the subgraph was run.
    pub(crate) was_run: bool,
    /// Whether `shapes` has the inferred shapes of intermediate tensors.
    pub(crate) is_inferred: bool,
    /// The values of inputs that nothing reads, and of tensors that the program wrote, that arrays refer to or that no run has
    /// made yet.
    scratch: BTreeMap<usize, AlignedBuffer>,
    /// The strings that the program set before tensors were allocated, as their content, by tensor.
    pub(crate) early_strings: BTreeMap<usize, Vec<u8>>,
}

impl Face {
    pub(crate) fn new(model: &Model, index: usize) -> Self {
        let source = &model.subgraphs()[index];
        let inputs: BTreeMap<usize, usize> = source.inputs.iter().enumerate().rev().map(|(at, it)| (*it, at)).collect();
        let outputs: BTreeMap<usize, usize> =
            source.outputs.iter().enumerate().rev().map(|(at, it)| (*it, at)).collect();
        let place = |(tensor, it): (usize, &attache::model::Tensor)| match (inputs.get(&tensor), outputs.get(&tensor)) {
            (Some(position), _) => Place::Input(*position),
            _ if it.constant.is_some() => Place::Constant,
            (None, Some(position)) => Place::Output(*position),
            (None, None) if it.is_variable => Place::Variable,
            (None, None) => Place::Intermediate,
        };
        Self {
            index,
            places: source.tensors.iter().enumerate().map(place).collect(),
            shapes: source.tensors.iter().map(|tensor| tensor.shape.to_vec()).collect(),
            changes: BTreeMap::new(),
            settled: BTreeMap::new(),
            is_allocated: false,
            has_memory: false,
            was_run: false,
            is_inferred: false,
            scratch: BTreeMap::new(),
            early_strings: BTreeMap::new(),
        }
    }

    /// Returns the place of a tensor that the program names.
    pub(crate) fn place(&self, tensor: i64) -> Result<(usize, Place), Fault> {
        let index = usize::try_from(tensor).ok().filter(|index| *index < self.places.len());
        let index = index.ok_or_else(|| {
            let count = self.places.len();
            Fault::new(format!(
                "Invalid tensor index {tensor} exceeds max tensor index {count}: tensors are counted from 0"
            ))
        })?;
        Ok((index, self.places[index]))
    }

    /// Whether a tensor that is no constant has memory now. An input that was resized has none until tensors are allocated.
    pub(crate) fn is_ready(&self, place: Place) -> bool {
        match place {
            Place::Input(position) => self.has_memory && !self.changes.contains_key(&position),
            _ => self.is_allocated,
        }
    }

    /// Takes over the shapes of inputs and outputs.
    pub(crate) fn note_shapes(&mut self, access: &Access<'_>) {
        for (place, shape) in self.places.iter().zip(&mut self.shapes) {
            let info = match place {
                Place::Input(position) => access.input_info(*position),
                Place::Output(position) => access.output_info(*position),
                _ => None,
            };
            if let Some(info) = info.filter(|info| *info.shape != shape[..]) {
                *shape = info.shape.to_vec();
            }
        }
    }

    /// Returns memory of a tensor's own, with zeros at first.
    pub(crate) fn scratch(&mut self, tensor: usize, size: usize) -> Result<&mut AlignedBuffer, Fault> {
        if self.scratch.get(&tensor).is_none_or(|buffer| buffer.len() != size) {
            let buffer = AlignedBuffer::zeroed(size).map_err(|error| Fault::new(error.to_string()))?;
            self.scratch.insert(tensor, buffer);
        }
        self.scratch.get_mut(&tensor).ok_or_else(|| Fault::new("memory that was just made is gone"))
    }

    /// Gives a tensor memory of its own. No array may refer to what it had.
    pub(crate) fn keep(&mut self, tensor: usize, buffer: AlignedBuffer) {
        self.scratch.insert(tensor, buffer);
    }

    /// Sets variables that no operator uses to zero. Their memory stays where it is.
    pub(crate) fn reset_variables(&mut self) {
        let places = &self.places;
        let variables = self.scratch.iter_mut().filter(|(tensor, _)| places[**tensor] == Place::Variable);
        variables.for_each(|(_, buffer)| buffer.fill(0));
    }

    /// Returns memory of a tensor's own, if it has some.
    pub(crate) fn own_memory(&self, tensor: usize) -> Option<&[u8]> {
        self.scratch.get(&tensor).map(|buffer| &buffer[..])
    }

    /// Forgets what the program wrote to outputs: a run makes them.
    pub(crate) fn forget_outputs(&mut self) {
        if !self.scratch.is_empty() {
            let places = &self.places;
            self.scratch.retain(|tensor, _| matches!(places[*tensor], Place::Input(_)));
        }
    }

    /// Forgets the memory of inputs that were resized.
    pub(crate) fn forget_resized(&mut self) {
        let resized: BTreeSet<usize> = self.changes.keys().copied().collect();
        let places = &self.places;
        self.scratch.retain(|tensor, _| match places[*tensor] {
            Place::Input(position) => !resized.contains(&position),
            _ => false,
        });
    }
}
