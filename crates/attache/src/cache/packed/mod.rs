//! The packed weights of a model on the CPU and its large folded constants, in one entry.
//!
//! A value is found by everything that it was made from: the node, the places of the node's constants in the model file,
//! the type and the parameters. So nodes of different graphs of a model, which follow from input shapes and delegates,
//! have values side by side in one entry.

mod content;
mod identity;

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use attache_base::storable::{Parts, StoredBlock};
use attache_base::{Bytes, IntegerRounding};
use attache_graph::{CachedValue, Fact, Graph, Node, StoredValues};
use attache_kernels::Isa;
use attache_model::Model;
use attache_ops::{OpResolver, PackedKind};
use attache_passes::{FoldedConstants, NothingFolded};

use self::content::{Sections, Values};
use self::identity::{Identity, Origin};
use super::model::identify;
use super::origin::ModelOrigin;
use super::{CacheFolder, Contents, Key, KeyBuilder};

/// Maximum number of times that an entry is written after runs. What is made later is written at the end.
const MOST_WRITES: usize = 4;

/// The packed weights and folded constants of a model: stored ones, and those that this process makes and stores.
pub(crate) trait PackedWeights: Send + Sync {
    /// Returns the stored packed weights of a node of the graph of a subgraph.
    fn of_node(self: Arc<Self>, graph: &Graph, subgraph: usize, node: &Node) -> Box<dyn StoredValues>;

    /// Returns the stored folded constants of a subgraph.
    fn folded(self: Arc<Self>, subgraph: usize) -> Box<dyn FoldedConstants>;

    /// Stores what was made since the last call, on a thread of its own.
    fn save(&self);
}

/// Opens the packed weights of a model in a folder, under the caller's token for the model, if there is one, with the
/// operators that the program registered, for results that are rounded in this way. `None`, with a line in the log, if the
/// folder cannot be used.
pub(crate) type OpenPacked =
    fn(&Path, &Model, Option<&str>, (&OpResolver, IntegerRounding)) -> Option<Arc<dyn PackedWeights>>;

/// Does what [`OpenPacked`] says. Programs that do not refer to this function contain nothing of caches.
pub(crate) fn open(
    folder: &Path,
    model: &Model,
    token: Option<&str>,
    (resolver, rounding): (&OpResolver, IntegerRounding),
) -> Option<Arc<dyn PackedWeights>> {
    let cache =
        CacheFolder::open(folder).map_err(|error| tracing::warn!("packed weights are not stored: {error}")).ok()?;
    Some(Arc::new(PackedStore::new(Target::new(cache, model, token, (resolver, rounding)), resolver)))
}

/// The entry of a model.
struct Target {
    cache: CacheFolder,
    key: Key,
    model: Model,
    token: Option<String>,
    description: String,
}

struct PackedStore {
    target: Arc<Target>,
    /// What the entry had at the start.
    found: Values,
    pending: Mutex<Pending>,
    /// Whether constants are stored. Those that operators of the program compute are not, since these operators may
    /// become others under the same names.
    stores_folded: bool,
}

/// What is to be stored.
#[derive(Default)]
struct Pending {
    made: HashMap<Identity, Made>,
    /// The values that were written, or are being written.
    written: HashSet<Identity>,
    writes: usize,
    writer: Option<JoinHandle<()>>,
}

/// A value that this process made.
enum Made {
    Packed(&'static PackedKind, CachedValue),
    Folded(Vec<Bytes>),
}

impl Made {
    fn parts(&self) -> Parts<'_> {
        match self {
            Self::Packed(kind, value) => kind.store(value),
            Self::Folded(constants) => {
                let mut parts = Parts::default();
                constants.iter().for_each(|constant| parts.block(constant));
                parts
            }
        }
    }
}

impl PackedStore {
    fn new(target: Target, resolver: &OpResolver) -> Self {
        let entry = target.cache.load(&target.key);
        let found = entry.and_then(|entry| {
            let values = content::values(&entry);
            if values.is_none() {
                tracing::warn!("the stored entry of {} is not used, and made again", target.description);
            }
            values
        });
        let (target, found) = (Arc::new(target), found.unwrap_or_default());
        Self { target, found, pending: Mutex::default(), stores_folded: resolver.is_empty() }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a value to be stored, unless it was stored before or is made again sooner than it is read.
    fn add(&self, identity: Identity, made: Made) {
        let mut pending = self.pending();
        if !pending.written.contains(&identity) && !made.parts().is_small() {
            pending.made.insert(identity, made);
        }
    }

    /// Logs that a value that was found is not what was stored.
    fn warn_of_value(&self) {
        tracing::warn!("a value in the stored entry of {} is not used, and made again", self.target.description);
    }
}

impl PackedWeights for PackedStore {
    fn of_node(self: Arc<Self>, graph: &Graph, subgraph: usize, node: &Node) -> Box<dyn StoredValues> {
        let inputs = node.inputs.iter().map(|id| id.map(|id| graph.fact(id)));
        let facts = inputs.chain(node.outputs.iter().map(|id| Some(graph.fact(*id))));
        let mut origin = Origin::of_node(subgraph, node);
        facts.for_each(|fact| origin.add_fact(&self.target.model, fact));
        Box::new(NodeValues { store: self, node: origin.identity() })
    }

    fn folded(self: Arc<Self>, subgraph: usize) -> Box<dyn FoldedConstants> {
        if self.stores_folded { Box::new(SubgraphConstants { store: self, subgraph }) } else { Box::new(NothingFolded) }
    }

    fn save(&self) {
        let mut pending = self.pending();
        let is_writing = pending.writer.as_ref().is_some_and(|writer| !writer.is_finished());
        if pending.made.is_empty() || is_writing || pending.writes == MOST_WRITES {
            return;
        }
        pending.writes += 1;
        let (made, target) = (pending.take(), self.target.clone());
        let writer = std::thread::Builder::new().name("attache-cache".to_owned());
        pending.writer = writer.spawn(move || target.write(&made)).ok();
    }
}

impl Pending {
    fn take(&mut self) -> HashMap<Identity, Made> {
        self.written.extend(self.made.keys());
        std::mem::take(&mut self.made)
    }
}

/// Waits until everything is stored, so that a program that runs once and ends has stored its weights.
impl Drop for PackedStore {
    fn drop(&mut self) {
        let mut pending = self.pending();
        if let Some(writer) = pending.writer.take() {
            // A writer that panicked has stored nothing.
            drop(writer.join());
        }
        let made = pending.take();
        if !made.is_empty() {
            self.target.write(&made);
        }
    }
}

/// The stored packed weights of one node.
struct NodeValues {
    store: Arc<PackedStore>,
    node: Identity,
}

impl NodeValues {
    fn identity(&self, kind: &PackedKind, parameters: &[usize]) -> Identity {
        Origin::of(&self.node).add(kind.name.as_bytes()).add_debug(&parameters).identity()
    }
}

impl StoredValues for NodeValues {
    fn find(&self, type_id: TypeId, parameters: &[usize]) -> Option<CachedValue> {
        let kind = PackedKind::of(type_id)?;
        let found = self.store.found.get(&self.identity(kind, parameters))?;
        let value = kind.load(found.parts(), parameters);
        if value.is_none() {
            self.store.warn_of_value();
        }
        value
    }

    fn made(&self, type_id: TypeId, parameters: &[usize], value: &CachedValue) {
        if let Some(kind) = PackedKind::of(type_id) {
            self.store.add(self.identity(kind, parameters), Made::Packed(kind, value.clone()));
        }
    }
}

/// The stored folded constants of one subgraph.
struct SubgraphConstants {
    store: Arc<PackedStore>,
    subgraph: usize,
}

impl SubgraphConstants {
    fn identity(&self, node: &Node, inputs: &[Option<Fact>]) -> Identity {
        let mut origin = Origin::of_node(self.subgraph, node);
        origin.add(b"folded");
        inputs.iter().for_each(|input| origin.add_fact(&self.store.target.model, input.as_ref()));
        origin.identity()
    }
}

impl FoldedConstants for SubgraphConstants {
    fn find(&self, node: &Node, inputs: &[Option<Fact>], sizes: &[usize]) -> Option<Vec<Bytes>> {
        let mut parts = self.store.found.get(&self.identity(node, inputs))?.parts();
        let block = |size: &usize| match parts.block(*size)? {
            StoredBlock::Small(bytes) => Some(Bytes::from_vec(bytes.to_vec())),
            StoredBlock::Mapped(bytes) => Some(bytes),
        };
        let constants: Option<Vec<Bytes>> = sizes.iter().map(block).collect();
        if constants.is_none() {
            self.store.warn_of_value();
        }
        constants
    }

    fn made(&self, node: &Node, inputs: &[Option<Fact>], outputs: &[Bytes]) {
        self.store.add(self.identity(node, inputs), Made::Folded(outputs.to_vec()));
    }
}

impl Target {
    fn new(
        cache: CacheFolder,
        model: &Model,
        token: Option<&str>,
        (resolver, rounding): (&OpResolver, IntegerRounding),
    ) -> Self {
        let isa = Isa::detect().formats();
        let mut key = KeyBuilder::new("cpu");
        identify(model, token, &mut key);
        key.add(isa.as_bytes()).add_debug(resolver);
        // Packed weights contain the factors that sums are multiplied by.
        if rounding != IntegerRounding::Reference {
            key.add_debug(&rounding);
        }
        let name = Some(token.unwrap_or(model.description()).trim()).filter(|name| !name.is_empty());
        let name = name.map_or_else(|| "a model".to_owned(), |name| format!("{name:?}"));
        let description = format!("{name}, packed weights for {isa}");
        Self { cache, key: key.finish(), model: model.clone(), token: token.map(str::to_owned), description }
    }

    /// Writes these values and those that the entry has besides.
    fn write(&self, made: &HashMap<Identity, Made>) {
        let origin = ModelOrigin::new(&self.model, self.token.as_deref());
        // Another process may have stored values in the meantime.
        let entry = self.cache.load(&self.key).filter(|entry| {
            let is_same = ModelOrigin::of(entry).is_some_and(|other| other == origin);
            if !is_same {
                tracing::warn!("the stored entry of {} was of other weights, and is replaced", self.description);
            }
            is_same
        });
        let mut others = entry.as_ref().and_then(content::values).unwrap_or_default();
        let made: Vec<(&Identity, Parts<'_>)> = made.iter().map(|(identity, made)| (identity, made.parts())).collect();
        if made.iter().all(|(identity, parts)| others.get(*identity).is_some_and(|other| other.is_like(parts))) {
            return;
        }
        let origin = origin.section();
        let mut sections = Sections::new(&origin);
        for (identity, parts) in &made {
            others.remove(*identity);
            sections.add_made(identity, parts);
        }
        others.iter().for_each(|(identity, value)| sections.add_stored(identity, value));
        self.cache.store(&self.key, &Contents::new(&self.description, &sections.list()));
    }
}
