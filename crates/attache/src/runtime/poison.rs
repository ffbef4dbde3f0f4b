//! Test support that proves that a delegate did the work. With the feature `poison`, everything that the CPU's kernels
//! compute in a run is overwritten. Without the feature nothing happens.

use attache_graph::TensorMut;

/// Overwrites the outputs of a kernel: floats become NaN, all other bytes become `0x55`.
#[cfg(feature = "poison")]
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

/// Does nothing.
#[cfg(not(feature = "poison"))]
pub(crate) fn poison(_: &mut [TensorMut<'_>]) {}
