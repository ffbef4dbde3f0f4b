//! The prepared subgraphs of a model with its options ([`Plans`]), which all interpreters of a compiled model share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use attache_base::Shape;
use attache_model::Model;

use super::options::{KeptTensors, Options};
use super::prepare::{PrepareMode, Prepared, prepare};
use super::shared_weights::SharedWeights;
use crate::Error;
use crate::cache::PackedWeights;
use crate::delegate::guard::Delegates;

/// Maximum number of preparations that are kept for each subgraph: sets of input shapes. The one that was used
/// longest ago makes room for another.
const MOST_SHAPES: usize = 8;

/// A model with the options of its interpreters, and its prepared subgraphs.
pub(crate) struct Plans {
    pub(crate) model: Model,
    pub(crate) options: Options,
    packed: Option<Arc<dyn PackedWeights>>,
    known: Mutex<Known>,
    /// The same without delegates, once a delegate has failed in a run and the CPU has taken over.
    without_delegates: OnceLock<Arc<Plans>>,
}

struct Known {
    /// The one that was used last is at the end.
    prepared: VecDeque<(Key, Arc<Prepared>)>,
    weights: SharedWeights,
}

/// Which preparation of a subgraph is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) subgraph: usize,
    /// The shape of each input; `None`, or no entry, for the shape that the file states.
    pub(crate) shapes: Vec<Option<Shape>>,
    pub(crate) mode: PrepareMode,
    /// Whether other subgraphs call the subgraph. The interpreter handles delegates that fail in it, and delegation
    /// is not required.
    pub(crate) is_called: bool,
}

impl Plans {
    pub(crate) fn new(model: &Model, options: &Options) -> Arc<Self> {
        Self::with(model, options, options.packed_weights(model))
    }

    fn with(model: &Model, options: &Options, packed: Option<Arc<dyn PackedWeights>>) -> Arc<Self> {
        let known = Known { prepared: VecDeque::new(), weights: SharedWeights::new(packed.clone()) };
        let (model, options, known) = (model.clone(), options.clone(), Mutex::new(known));
        Arc::new(Self { model, options, packed, known, without_delegates: OnceLock::new() })
    }

    /// Stores the weights that a run has packed, in the background.
    pub(crate) fn save_packed(&self) {
        if let Some(packed) = &self.packed {
            packed.save();
        }
    }

    /// Returns a prepared subgraph. Prepares it if it is not known, while other threads that need one wait.
    pub(crate) fn prepared(&self, key: &Key) -> Result<Arc<Prepared>, Error> {
        let key = &self.canonical(key);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = known.prepared.iter().position(|(other, _)| other == key)
            && let Some(found) = known.prepared.remove(index)
        {
            let prepared = found.1.clone();
            known.prepared.push_back(found);
            return Ok(prepared);
        }
        let options = match key.is_called {
            true => {
                let kept = KeptTensors::None;
                &Options { required: false, cpu_fallback: false, kept, ..self.options.clone() }
            }
            false => &self.options,
        };
        let weights = &mut known.weights;
        let prepared =
            Arc::new(prepare(&self.model, key.subgraph, options, (&key.shapes, key.is_called), key.mode, weights)?);
        let of_subgraph =
            |(other, _): &(Key, Arc<Prepared>)| (other.subgraph, other.is_called) == (key.subgraph, key.is_called);
        if known.prepared.iter().filter(|entry| of_subgraph(entry)).count() >= MOST_SHAPES
            && let Some(oldest) = known.prepared.iter().position(of_subgraph)
        {
            drop(known.prepared.remove(oldest));
            known.weights.free_unused();
        }
        known.prepared.push_back((key.clone(), prepared.clone()));
        Ok(prepared)
    }

    /// Returns the key with an entry for each input, `None` where the shape is that of the file: an input that gets the
    /// file's shape back needs no other preparation.
    fn canonical(&self, key: &Key) -> Key {
        let source = &self.model.subgraphs()[key.subgraph];
        let asked = |(index, tensor): (usize, &usize)| {
            let shape = key.shapes.get(index)?.as_ref();
            shape.filter(|shape| **shape != source.tensors[*tensor].shape).cloned()
        };
        Key { shapes: source.inputs.iter().enumerate().map(asked).collect(), ..key.clone() }
    }

    /// Returns the model with the same options, but without delegates and without requiring delegation.
    pub(crate) fn without_delegates(&self) -> Arc<Self> {
        let make = || {
            let options = Options { delegates: Delegates::default(), required: false, ..self.options.clone() };
            Self::with(&self.model, &options, self.packed.clone())
        };
        self.without_delegates.get_or_init(make).clone()
    }
}
