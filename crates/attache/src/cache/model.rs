//! What identifies a model in a key: its content or the caller's token, and its structure.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use attache_base::order_by;
use attache_base::parallel::each;
use attache_model::Model;

use super::KeyBuilder;

/// The size in bytes above which the content of a constant is not part of the structure.
const LARGE: usize = 1 << 12;

/// The bytes that a thread hashes at once.
const BLOCK: usize = 1 << 20;

/// Maximum number of threads that hash a model.
const THREADS: usize = 8;

/// Adds what identifies a model to a key: the token or, without one, the content of the whole file; and the structure
/// of the file, so that a model under another model's token is found out if it has another size, other operators,
/// shapes or quantization. With a token, the contents of large constants are not read.
pub(crate) fn identify(model: &Model, token: Option<&str>, key: &mut KeyBuilder) {
    match token {
        Some(token) => key.add(b"token").add(token.as_bytes()),
        None => key.add(b"content").add(&content_hash(model)),
    };
    key.add(structure_hash(model).as_bytes());
}

/// Returns a hash of the whole file, and of constants that are not in it.
pub(super) fn content_hash(model: &Model) -> [u8; 32] {
    let bytes: &[u8] = model.bytes();
    let parts = std::iter::once(bytes).chain(constants_apart(model));
    let blocks: Vec<(usize, &[u8])> = parts.flat_map(|part| part.chunks(BLOCK)).enumerate().collect();
    let hashes = Mutex::new(vec![[0; 32]; blocks.len()]);
    each(&blocks, THREADS, |(index, block)| {
        let hash = *blake3::hash(block).as_bytes();
        hashes.lock().unwrap_or_else(PoisonError::into_inner)[*index] = hash;
    });
    let hashes = hashes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(hashes.as_flattened());
    *hasher.finalize().as_bytes()
}

/// Returns the constants that are not in the file, as of models that were built in memory. Their lengths follow from
/// the file.
fn constants_apart(model: &Model) -> impl Iterator<Item = &[u8]> {
    let tensors = model.subgraphs().iter().flat_map(|subgraph| &subgraph.tensors);
    let bytes = tensors.filter_map(|tensor| Some(&*tensor.constant.as_ref()?.bytes));
    bytes.filter(|bytes| range_in_file(model, bytes).is_none())
}

/// Returns a hash of the model without the contents of large constants.
pub(super) fn structure_hash(model: &Model) -> blake3::Hash {
    let bytes: &[u8] = model.bytes();
    // Joined, because many small parts take longer to hash than a large one.
    let mut structure = Vec::new();
    let mut end = 0;
    for large in large_constants(model) {
        // Constants may share bytes.
        let between = bytes.get(end..large.start).unwrap_or_default();
        structure
            .extend([between.len(), large.start, large.end].map(|number| (number as u64).to_le_bytes()).as_flattened());
        structure.extend(between);
        end = end.max(large.end);
    }
    structure.extend(((bytes.len() - end) as u64).to_le_bytes());
    structure.extend(&bytes[end..]);
    constants_apart(model).filter(|bytes| bytes.len() <= LARGE).for_each(|bytes| structure.extend(bytes));
    blake3::hash(&structure)
}

/// Returns the ranges of the large constants in the file, in ascending order.
fn large_constants(model: &Model) -> Vec<Range<usize>> {
    let tensors = model.subgraphs().iter().flat_map(|subgraph| &subgraph.tensors);
    let constants = tensors.filter_map(|tensor| tensor.constant.as_ref());
    let range = |bytes: &[u8]| range_in_file(model, bytes).filter(|range| range.len() > LARGE);
    let large: Vec<Range<usize>> = constants.filter_map(|constant| range(&constant.bytes)).collect();
    let order = order_by(large.len(), |index| (large[index].start, large[index].end));
    order.into_iter().map(|index| large[index].clone()).collect()
}

/// Returns the range of bytes that are a part of the file; `None` for other bytes. The bytes are not read.
pub(crate) fn range_in_file(model: &Model, bytes: &[u8]) -> Option<Range<usize>> {
    let start = bytes.as_ptr().addr().checked_sub(model.bytes().as_ptr().addr())?;
    let end = start.checked_add(bytes.len())?;
    (end <= model.bytes().len()).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use attache_base::DataType;
    use attache_model::schema::BuiltinOperator;
    use attache_model::{ModelBuilder, OperatorBuilder, TensorBuilder};

    use super::super::Key;
    use super::*;

    fn key(model: &Model, token: Option<&str>) -> Key {
        let mut key = KeyBuilder::new("test");
        identify(model, token, &mut key);
        key.finish()
    }
    /// Returns a model that applies an operator to a constant with this many elements of this value.
    fn model(operator: BuiltinOperator, scale: f32, elements: usize, value: i8) -> Model {
        let mut builder = ModelBuilder::new("test");
        builder.subgraph("main");
        let constant = TensorBuilder::values("constant", [elements], &vec![value; elements]).quantized(scale, 0);
        let input = builder.tensor(0, TensorBuilder::new("in", DataType::Int8, [elements]).quantized(scale, 0));
        let constant = builder.tensor(0, constant);
        let output = builder.tensor(0, TensorBuilder::new("out", DataType::Int8, [elements]).quantized(scale, 0));
        builder.operator(0, OperatorBuilder::new(operator, [input, constant], [output]));
        builder.inputs(0, &[input]).outputs(0, &[output]);
        Model::from_bytes(builder.finish()).unwrap()
    }

    #[test]
    fn a_token_stands_for_the_contents_of_large_constants_alone() {
        let large = 3 * BLOCK;
        let one = model(BuiltinOperator::ADD, 0.5, large, 1);
        let (token, content) = (key(&one, Some("a")), key(&one, None));
        assert_ne!(token, content);
        assert_eq!((&token, &content), (&key(&one.clone(), Some("a")), &key(&one.clone(), None)));
        assert_ne!(token, key(&one, Some("b")));
        let weights = model(BuiltinOperator::ADD, 0.5, large, 2);
        assert_eq!(token, key(&weights, Some("a")), "other weights alone are not seen");
        assert_ne!(content, key(&weights, None));
        assert_ne!(content_hash(&one), content_hash(&weights));
        let others = [
            ("operator", model(BuiltinOperator::SUB, 0.5, large, 1)),
            ("quantization", model(BuiltinOperator::ADD, 0.25, large, 1)),
            ("shape", model(BuiltinOperator::ADD, 0.5, large - 16, 1)),
        ];
        for (what, other) in &others {
            assert_ne!(token, key(other, Some("a")), "another {what}");
            assert_ne!(content, key(other, None), "another {what}");
        }
        let small = [1, 2].map(|value| key(&model(BuiltinOperator::ADD, 0.5, LARGE, value), Some("a")));
        assert_ne!(small[0], small[1], "small constants belong to the structure");
    }

    #[test]
    fn constants_that_are_not_in_the_file_are_seen() {
        let built = |elements: usize, value: i8| {
            let mut builder = ModelBuilder::new("test");
            builder.subgraph("main");
            builder.tensor(0, TensorBuilder::values("constant", [elements], &vec![value; elements]));
            builder.model().unwrap()
        };
        for (elements, structure) in [(LARGE, false), (LARGE + 1, true)] {
            let [one, other] = [1, 2].map(|value| built(elements, value));
            assert_ne!(key(&one, None), key(&other, None));
            assert_eq!(key(&one, Some("a")) == key(&other, Some("a")), structure);
        }
    }
}
