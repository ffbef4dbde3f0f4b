//! Products with few rows: their work groups can keep all rows of the left matrix in work-group memory. They then compute
//! these rows instead of loading them, each group anew, which takes less time than another dispatch.

use attache_gpu_ir::{Primitive, Program, Scalar, Source, ValueId};

use super::limits::MAX_GROUPS;
use super::{DeviceLimits, Kernel};

/// Maximum rows of such a product, for each of which each invocation has a sum.
pub(crate) const STAGED_ROWS: usize = 4;

/// Multiple to which the output channels of a convolution are padded, at most, for work groups that have as many.
pub(crate) const MAX_COLUMNS: usize = 32;

/// Maximum invocations of a work group, if the device allows them.
const GROUP: usize = 256;

/// Returns the number of invocations of a work group that stages rows, a power of two.
pub(crate) fn rows_group(limits: &DeviceLimits) -> usize {
    GROUP.min(1 << limits.max_invocations.ilog2())
}

/// Returns the numbers of rows and of their elements that a work group of a kernel stages; `None` if the kernel is no
/// product of floats with few rows, or if they don't fit work-group memory beside the sums.
pub(crate) fn staged_rows(program: &Program, kernel: &Kernel, limits: &DeviceLimits) -> Option<[usize; 2]> {
    let is_float = |id: &ValueId| program.value(*id).scalar == Scalar::F32;
    let is_empty = |id: &ValueId| program.shape(*id).elements() == 0;
    let inputs = &kernel.inputs;
    if !inputs.iter().all(is_float) || inputs.iter().chain(&kernel.outputs).any(is_empty) {
        return None;
    }
    let [rows, depth] = match &kernel.primitive {
        Primitive::Convolution(convolution) => {
            let [data, filter] = [0, 1].map(|input| program.shape(inputs[input]));
            let is_constant = |id: &ValueId| matches!(program.value(*id).source, Source::Constant(_));
            // The bias, and the scales of integers.
            let packed = (2 + data[3]).saturating_mul(filter[0].next_multiple_of(MAX_COLUMNS)).saturating_mul(4);
            let fits = packed <= limits.max_binding_bytes && filter[0].div_ceil(4) <= MAX_GROUPS;
            let applies = convolution.groups == 1 && convolution.is_pointwise(data, filter) && fits;
            (applies && inputs[1..].iter().all(is_constant)).then(|| [data[..3].iter().product(), data[3]])?
        }
        Primitive::MatMul { transposed: [false, is_transposed], .. } => {
            let [left, right] = [0, 1].map(|input| program.shape(inputs[input]));
            let is_dense = |view: &super::View| view.strides(program.shape(view.source)).is_some();
            let is_strided = kernel.views.iter().filter(|view| view.value == inputs[1]).all(is_dense);
            let is_stored = kernel.source(inputs[0]) == inputs[0];
            let columns = right[right.rank() - if *is_transposed { 2 } else { 1 }];
            let [rows, depth] = [2, 1].map(|axis| left[left.rank() - axis]);
            let products = program.shape(kernel.outputs[0]).elements() / (rows * columns);
            let fits = columns <= MAX_GROUPS && products <= MAX_GROUPS;
            (is_strided && is_stored && fits).then_some([rows, depth])?
        }
        _ => return None,
    };
    // The rows, a vec4 of sums of each row for each invocation, and an element of a reduction for each.
    let each = rows_group(limits) * 16 + depth.saturating_mul(4);
    let bytes = each.saturating_mul(rows).saturating_add(rows_group(limits) * 4);
    (rows <= STAGED_ROWS && bytes <= limits.work_group_bytes).then_some([rows, depth])
}
