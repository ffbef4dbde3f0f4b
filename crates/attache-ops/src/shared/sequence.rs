//! The float weights of an operator that runs over a sequence, packed for the CPU.

use attache_base::storable::{Parts, Storable, StoredParts};
use attache_kernels::gemm::PackedMatrix;

pub(crate) struct SequenceWeights {
    /// The weights of all gates, `[gates × cells, depth + outputs]`: each row has input weights, then
    /// recurrent weights.
    pub(crate) gates: PackedMatrix,
    /// The projection `[outputs, cells]` with its bias; `None` where there is no projection.
    pub(crate) projection: Option<PackedMatrix>,
}

impl SequenceWeights {
    /// Returns the numbers from which the extents of the packed form follow, given the rows and columns of both matrices.
    pub(crate) fn parameters(gates: [usize; 2], projection: Option<[usize; 2]>) -> Vec<usize> {
        let of = |[rows, columns]: [usize; 2]| PackedMatrix::parameters(rows, columns);
        [of(gates), projection.map_or_else(Vec::new, of)].concat()
    }
}

impl Storable for SequenceWeights {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        self.gates.store(parts);
        self.projection.iter().for_each(|projection| projection.store(parts));
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let (gates, projection) = parameters.split_at_checked(2)?;
        let gates = PackedMatrix::load(parts, gates)?;
        let projection = match projection {
            [] => None,
            _ => Some(PackedMatrix::load(parts, projection)?),
        };
        Some(Self { gates, projection })
    }
}
