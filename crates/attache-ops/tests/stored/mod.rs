//! Packed weights that are stored in memory, and read back as from a file.

use std::any::TypeId;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use attache_base::storable::StoredParts;
use attache_base::{AlignedBuffer, Bytes};
use attache_graph::{Cache, CachedValue, SharedCache, StoredValues};
use attache_ops::PackedKind;

/// The names of the kinds of which values were read back.
pub(crate) static READ: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The fields and blocks of a value.
type Stored = (Vec<u8>, Vec<Bytes>);

/// The stored values of a node.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Values>>);

#[derive(Default)]
struct Values {
    /// By kind and parameters.
    stored: HashMap<(&'static str, Vec<usize>), Stored>,
    found: usize,
}

impl Memory {
    /// Returns an empty cache that finds its values here, and stores here those that it has to make.
    pub(crate) fn cache(&self) -> Cache {
        Cache::new(Arc::new(SharedCache::new(Some(Box::new(self.clone())))))
    }

    /// Returns how many values were found.
    pub(crate) fn found(&self) -> usize {
        self.0.lock().unwrap().found
    }
}

impl StoredValues for Memory {
    fn find(&self, type_id: TypeId, parameters: &[usize]) -> Option<CachedValue> {
        let mut values = self.0.lock().unwrap();
        let kind = PackedKind::of(type_id)?;
        let (fields, blocks) = values.stored.get(&(kind.name, parameters.to_vec()))?;
        let load = |fields: &[u8], blocks: &[Bytes]| kind.load(StoredParts::new(fields, blocks), parameters);
        let value = load(fields, blocks);
        assert!(value.is_some(), "a value of kind \"{}\" for {parameters:?} is not read back", kind.name);
        // What is too short or too long is no such value.
        for length in 0..fields.len().min(100) {
            assert!(load(&fields[..length], blocks).is_none(), "{length} bytes of \"{}\"", kind.name);
        }
        assert!(load(&[fields, &[0; 8][..]].concat(), blocks).is_none());
        assert!(blocks.is_empty() || load(fields, &blocks[1..]).is_none());
        READ.lock().unwrap().insert(kind.name);
        values.found += 1;
        value
    }

    fn made(&self, type_id: TypeId, parameters: &[usize], value: &CachedValue) {
        let Some(kind) = PackedKind::of(type_id) else { return };
        let parts = kind.store(value);
        let block = |block: &&[u8]| {
            let mut copy = AlignedBuffer::zeroed(block.len()).unwrap();
            copy.copy_from_slice(block);
            Bytes::new(Arc::new(copy))
        };
        let stored = (parts.fields().to_vec(), parts.blocks().iter().map(block).collect());
        self.0.lock().unwrap().stored.insert((kind.name, parameters.to_vec()), stored);
    }
}
