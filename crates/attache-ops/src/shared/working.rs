//! Upper bounds of the memory that packed weights and converted inputs take on the CPU, with any instruction
//! set, so that the memory is counted before it is allocated. Kernels pad outputs to whole vectors, which
//! makes a matrix of one output sixteen times as large. Independent of the operators.

use attache_base::{DataType, Shape};
use attache_graph::{Fact, WorkingMemory};

use crate::shared::support::product;

/// Number of 32-bit elements of the widest vector register.
const LANES: usize = 16;
/// Fixed overhead of a packed matrix in bytes, including spare vectors and alignment.
const EACH: u64 = 512;

/// Returns an upper bound of the bytes of `matrices` matrices `[outputs, depth]` packed for the CPU. The
/// depth consists of segments of `segment` elements; 8-bit weights are packed in pairs within a segment.
pub(crate) fn packed(data_type: DataType, matrices: usize, [outputs, depth]: [usize; 2], segment: usize) -> u64 {
    let words = match data_type {
        DataType::Int8 | DataType::UInt8 | DataType::Int4 | DataType::Int2 => {
            product(&[depth.checked_div(segment).unwrap_or(0), segment.div_ceil(2)])
        }
        _ => depth as u64,
    };
    let lines = (outputs.div_ceil(LANES) as u64).saturating_mul(words.saturating_add(1));
    lines.saturating_mul(4 * LANES as u64).saturating_add(EACH).saturating_mul(matrices as u64)
}

/// Returns the working memory for packed weights of `bytes` bytes: kept from run to run where the weights are
/// constant, else scratch.
pub(crate) fn of_weights(weights: &Fact, bytes: u64) -> WorkingMemory {
    match weights.constant {
        Some(_) => WorkingMemory { kept: bytes, scratch: 0 },
        None => WorkingMemory { kept: 0, scratch: bytes },
    }
}

/// Returns the bytes of a converted copy of an input, with elements of at most four bytes.
pub(crate) fn converted(shape: &Shape) -> u64 {
    product(shape).saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use attache_kernels::Isa;
    use attache_kernels::gemm::PackedMatrix;

    use super::*;

    #[test]
    fn bounds_are_never_exceeded() {
        for isa in Isa::available() {
            for [outputs, depth] in [[1, 1], [1, 100], [17, 3], [64, 64]] {
                let weights = vec![0.0; outputs * depth];
                let actual = PackedMatrix::pack(isa, outputs, depth, &weights, None).bytes();
                let bound = packed(DataType::Float32, 1, [outputs, depth], depth);
                assert!(actual as u64 <= bound && bound <= 16 * actual as u64 + EACH, "{outputs} × {depth}");
            }
        }
        assert_eq!(packed(DataType::Float32, usize::MAX, [usize::MAX; 2], 1), u64::MAX);
        let [whole, single] = [64, 1].map(|segment| packed(DataType::Int8, 1, [16, 64], segment));
        assert_eq!((whole, single), (33 * 64 + EACH, 65 * 64 + EACH));
    }
}
