//! The packed weights of a model on the CPU, in one entry.
//!
//! | Section | Content |
//! |---|---|
//! | 0 | hash of the model's content, 32 bytes |
//! | 1 | index: for each value its identity (16 bytes), the numbers of its blocks and of the bytes of its fields (8 bytes each), and its fields |
//! | from 2 | blocks, in the order of the index |
//!
//! A value is found by everything that it was made from: the node, the places of the node's constants in the model file,
//! the type and the parameters. So nodes of different graphs of a model, which follow from input shapes and delegates,
//! have values side by side in one entry.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use attache_base::storable::{Parts, StoredParts};
use attache_base::{Bytes, Constant};
use attache_graph::{CachedValue, Fact, Graph, Node, StoredValues};
use attache_kernels::Isa;
use attache_model::Model;
use attache_ops::{OpResolver, PackedKind};

use super::entry::{MOST_SECTIONS, checksum};
use super::model::{content_hash, range_in_file};
use super::{Cache, Contents, Entry, Key, KeyBuilder, identify};

/// Maximum number of times that an entry is written after runs. What is packed later is written at the end.
const MOST_WRITES: usize = 4;

/// The sections before the blocks, with the description.
const OTHER_SECTIONS: usize = 3;

/// The packed weights of a model: stored ones, and those that this process makes and stores.
pub(crate) trait PackedWeights: Send + Sync {
    /// Returns the stored values of a node of the graph of a subgraph.
    fn of_node(self: Arc<Self>, graph: &Graph, subgraph: usize, node: &Node) -> Box<dyn StoredValues>;

    /// Stores what was made since the last call, on a thread of its own.
    fn save(&self);
}

/// Opens the packed weights of a model in a folder, under the caller's token for the model, if there is one, with the
/// operators that the program registered. `None`, with a line in the log, if the folder cannot be used.
pub(crate) type OpenPacked = fn(&Path, &Model, Option<&str>, &OpResolver) -> Option<Arc<dyn PackedWeights>>;

/// Does what [`OpenPacked`] says. Programs that do not refer to this function contain nothing of caches.
pub(crate) fn open(
    folder: &Path,
    model: &Model,
    token: Option<&str>,
    resolver: &OpResolver,
) -> Option<Arc<dyn PackedWeights>> {
    let cache = Cache::open(folder).map_err(|error| tracing::warn!("packed weights are not stored: {error}")).ok()?;
    let isa = Isa::detect().formats();
    let mut key = KeyBuilder::new("cpu");
    identify(model, token, &mut key);
    key.add(isa.as_bytes()).add_debug(resolver);
    let description = format!("packed weights of {} for {isa}", token.unwrap_or(model.description()));
    Some(Arc::new(PackedStore::new(Target { cache, key: key.finish(), model: model.clone(), description })))
}

/// What identifies a value in an entry.
type Identity = [u8; 16];

/// A stored value.
struct Found {
    fields: Bytes,
    blocks: Vec<Bytes>,
}

/// A value that this process made.
struct Made {
    kind: &'static PackedKind,
    value: CachedValue,
}

struct PackedStore {
    target: Arc<Target>,
    found: HashMap<Identity, Found>,
    pending: Mutex<Pending>,
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

/// The stored values of one node.
struct NodeValues {
    store: Arc<PackedStore>,
    /// A hash of everything that identifies the node.
    node: [u8; 32],
}

/// The entry of a model.
struct Target {
    cache: Cache,
    key: Key,
    model: Model,
    description: String,
}

impl PackedStore {
    fn new(target: Target) -> Self {
        let entry = target.cache.load(&target.key);
        let found = entry.and_then(|entry| {
            let values = values(&entry);
            if values.is_none() {
                tracing::warn!("the stored entry of the {} is not used, and made again", target.description);
            }
            values
        });
        Self { target: Arc::new(target), found: found.unwrap_or_default(), pending: Mutex::default() }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PackedWeights for PackedStore {
    fn of_node(self: Arc<Self>, graph: &Graph, subgraph: usize, node: &Node) -> Box<dyn StoredValues> {
        let mut key = KeyBuilder::new("node");
        key.add_debug(&subgraph).add(node.op.name().as_bytes()).add_debug(&node.origins);
        for input in &node.inputs {
            let fact = input.map(|id| graph.fact(id));
            add_fact(&mut key, fact);
            match fact.and_then(|fact| fact.constant.as_ref()) {
                Some(constant) => add_constant(&mut key, &self.target.model, constant),
                None => _ = key.add(b"no constant"),
            }
        }
        node.outputs.iter().for_each(|id| add_fact(&mut key, Some(graph.fact(*id))));
        let node = key.finish().hash;
        Box::new(NodeValues { store: self, node })
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

/// Adds what packed weights depend on of an input or output that is no constant.
fn add_fact(key: &mut KeyBuilder, fact: Option<&Fact>) {
    let Some(fact) = fact else {
        key.add(b"none");
        return;
    };
    key.add_debug(&fact.data_type);
    match &fact.quantization {
        None => key.add(b"not quantized"),
        Some(quantization) => key
            .add(bytemuck::cast_slice(&quantization.scale))
            .add(bytemuck::cast_slice(&quantization.zero_point))
            .add_debug(&quantization.axis),
    };
}

/// Adds a constant: its place in the model file or, if it was computed or moved, its bytes.
fn add_constant(key: &mut KeyBuilder, model: &Model, constant: &Constant) {
    key.add_debug(&constant.shape);
    match range_in_file(model, &constant.bytes) {
        Some(range) => key.add_debug(&range),
        None => key.add(&checksum(&constant.bytes).to_le_bytes()),
    };
}

impl NodeValues {
    fn identity(&self, kind: &PackedKind, parameters: &[usize]) -> Identity {
        let mut key = KeyBuilder::new("value");
        key.add(&self.node).add(kind.name.as_bytes()).add_debug(&parameters);
        let mut identity = Identity::default();
        identity.copy_from_slice(&key.finish().hash[..16]);
        identity
    }
}

impl StoredValues for NodeValues {
    fn find(&self, type_id: TypeId, parameters: &[usize]) -> Option<CachedValue> {
        let kind = PackedKind::of(type_id)?;
        let Found { fields, blocks } = self.store.found.get(&self.identity(kind, parameters))?;
        let value = kind.load(StoredParts::new(fields, blocks), parameters);
        if value.is_none() {
            let description = &self.store.target.description;
            tracing::warn!("a value in the entry of the {description} is not used, and made again");
        }
        value
    }

    fn made(&self, type_id: TypeId, parameters: &[usize], value: &CachedValue) {
        let Some(kind) = PackedKind::of(type_id) else { return };
        if kind.store(value).is_small() {
            return;
        }
        let identity = self.identity(kind, parameters);
        let mut pending = self.store.pending();
        if !pending.written.contains(&identity) {
            pending.made.insert(identity, Made { kind, value: value.clone() });
        }
    }
}

impl Target {
    /// Writes these values and those that the entry has besides.
    fn write(&self, made: &HashMap<Identity, Made>) {
        let model = content_hash(&self.model);
        // Another process may have stored values in the meantime.
        let entry = self.cache.load(&self.key).filter(|entry| {
            let is_same = entry.section(0).is_some_and(|hash| hash[..] == model);
            if !is_same {
                tracing::warn!("the {} were of a model with other weights; they are replaced", self.description);
            }
            is_same
        });
        let mut others = entry.as_ref().and_then(values).unwrap_or_default();
        let made: Vec<(&Identity, Parts<'_>)> =
            made.iter().map(|(id, made)| (id, made.kind.store(&made.value))).collect();
        if made.iter().all(|(id, parts)| others.get(*id).is_some_and(|other| other.is_like(parts))) {
            return;
        }
        made.iter().for_each(|(id, _)| drop(others.remove(*id)));
        let mut index = Index::default();
        for (identity, parts) in &made {
            index.add(identity, parts.fields(), parts.blocks().iter().copied());
        }
        for (identity, Found { fields, blocks }) in &others {
            index.add(identity, fields, blocks.iter().map(|block| &block[..]));
        }
        let sections = [&[&model, index.bytes.as_slice()], &index.blocks[..]].concat();
        self.cache.store(&self.key, &Contents::new(&self.description, &sections));
    }
}

impl Found {
    /// Whether the value has the fields of another, and blocks of equal sizes.
    fn is_like(&self, parts: &Parts<'_>) -> bool {
        let sizes = self.blocks.iter().map(|block| block.len());
        self.fields[..] == *parts.fields() && sizes.eq(parts.blocks().iter().map(|block| block.len()))
    }
}

/// The index of an entry that is being written, and its blocks.
#[derive(Default)]
struct Index<'a> {
    bytes: Vec<u8>,
    blocks: Vec<&'a [u8]>,
}

impl<'a> Index<'a> {
    /// Adds a value, unless an entry cannot have that many blocks.
    fn add(&mut self, identity: &Identity, fields: &[u8], blocks: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.blocks.len() + blocks.len() + OTHER_SECTIONS > MOST_SECTIONS {
            return;
        }
        self.bytes.extend(identity);
        self.bytes.extend((blocks.len() as u64).to_le_bytes());
        self.bytes.extend((fields.len() as u64).to_le_bytes());
        self.bytes.extend(fields);
        self.blocks.extend(blocks);
    }
}

/// Returns the values in an entry; `None` if its index is not one.
fn values(entry: &Entry) -> Option<HashMap<Identity, Found>> {
    let index = entry.section(1)?;
    let number = |at: usize| -> Option<usize> {
        let bytes = index.get(at..at.checked_add(8)?)?.first_chunk()?;
        usize::try_from(u64::from_le_bytes(*bytes)).ok()
    };
    let (mut values, mut at, mut block) = (HashMap::new(), 0, 2usize);
    while at < index.len() {
        let identity: &Identity = index.get(at..)?.first_chunk()?;
        let (blocks, fields) = (number(at + 16)?, number(at + 24)?);
        let end = (at + 32).checked_add(fields)?;
        let fields = index.slice(at + 32..end)?;
        let blocks = (block..block.checked_add(blocks)?).map(|section| entry.section(section));
        let blocks: Vec<Bytes> = blocks.collect::<Option<_>>()?;
        (at, block) = (end, block + blocks.len());
        values.insert(*identity, Found { fields, blocks });
    }
    Some(values)
}
