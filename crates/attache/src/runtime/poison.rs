//! Test support that proves that a delegate computed a result: with the feature `_poison`, the outputs of
//! every CPU kernel in a run are overwritten. Without the feature nothing happens.

use attache_base::AlignedBuffer;
use attache_graph::TensorMut;

/// Overwrites the outputs of a CPU kernel: floats become NaN, and every byte of other types becomes `0x55`.
#[cfg(feature = "_poison")]
pub(crate) fn poison(outputs: &mut [TensorMut<'_>]) {
    use attache_base::DataType;
    for output in outputs {
        let pattern: &[u8] = match output.data_type {
            DataType::Float32 => &f32::NAN.to_le_bytes(),
            DataType::Float64 => &f64::NAN.to_le_bytes(),
            DataType::Float16 => &[0x00, 0x7e],
            _ => &[0x55],
        };
        output.bytes.iter_mut().zip(pattern.iter().cycle()).for_each(|(byte, pattern)| *byte = *pattern);
    }
}

/// Returns other strings in place of those that a CPU kernel made.
#[cfg(feature = "_poison")]
pub(crate) fn poison_strings(elements: usize, made: AlignedBuffer) -> AlignedBuffer {
    use attache_base::strings;
    let texts = std::iter::repeat_n(&b"\x55"[..], elements);
    let Some(size) = strings::encoded_size(texts.clone()) else { return made };
    let Ok(mut bytes) = AlignedBuffer::zeroed(size) else { return made };
    strings::encode(texts, &mut bytes);
    bytes
}

/// Returns the strings, because the feature `_poison` is off.
#[cfg(not(feature = "_poison"))]
pub(crate) fn poison_strings(_: usize, made: AlignedBuffer) -> AlignedBuffer {
    made
}

/// Does nothing, because the feature `_poison` is off.
#[cfg(not(feature = "_poison"))]
pub(crate) fn poison(_: &mut [TensorMut<'_>]) {}
