//! Pointwise convolutions on matrices: their work groups stage whole rows of the data in work-group memory. They can reduce
//! the rows and scale their results, each group anew, which takes less time than another dispatch for a normalization.

use attache_gpu_ir::{BinaryOp, Expression, Primitive, Program, RowStep, Scalar, Source, ValueId};

use super::limits::MAX_GROUPS;
use super::{DeviceLimits, Kernel, Matrices, STAGED_ROWS};

/// Maximum elements of a row, which the work group stages as a whole.
const MAX_ROW: usize = 512;

/// Number of pixels, and of output channels, from which matrices are not mostly empty.
const LEAST: usize = 8;

/// Maximum number of output channels to which a variant pads a filter, and of input channels.
const PADDING: usize = 128;

/// Whether work groups of a kernel, a convolution, can scale their results as `first` scales the rows of its data. The variant
/// `conv_matrix` applies to every such convolution.
pub(crate) fn scales_rows(program: &Program, kernel: &Kernel, first: &Kernel, limits: &DeviceLimits) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    let [data, filter] = [0, 1].map(|input| program.shape(kernel.inputs[input]));
    let is_weight = |id: &ValueId| {
        let value = program.value(*id);
        value.scalar == Scalar::F32 && matches!(value.source, Source::Constant(_))
    };
    let pixels: usize = data[..3].iter().product();
    let packed = (filter[0] + PADDING).saturating_mul(1 + data[3] + PADDING).saturating_mul(2);
    limits.matrices != Matrices::Absent
        && limits.max_invocations >= 256
        && limits.work_group_bytes >= 32768
        && convolution.groups == 1
        && convolution.is_pointwise(data, filter)
        && kernel.inputs[1..].iter().all(is_weight)
        && kernel.source(kernel.inputs[0]) == kernel.inputs[0]
        && data[3].is_multiple_of(LEAST)
        && data[3] > 0
        && filter[0] >= LEAST
        && pixels > LEAST.max(STAGED_ROWS)
        && pixels.div_ceil(16) <= MAX_GROUPS
        && packed <= limits.max_binding_bytes
        && matches!(&first.primitive, Primitive::Rows(rows) if rows.extent() == data[3])
        && data[3] <= MAX_ROW
        && ScaledRows::of(program, first).is_some()
}

/// Rows that are a multiple of the row of a value, times constants for each element, as an RMS normalization makes them. A
/// product of such rows is the multiple of the product of the value with weights that the constants are multiplied into.
pub(crate) struct ScaledRows {
    /// The input of which the rows are multiples.
    pub(crate) data: usize,
    /// The inputs that are constants for each element.
    pub(crate) weights: Vec<usize>,
    /// The other factors, which are the same for each element of a row.
    pub(crate) scale: Expression,
}

impl ScaledRows {
    /// Returns the factors of rows; `None` if they are no such product, or if what they are reduced from is not the data.
    pub(crate) fn of(program: &Program, kernel: &Kernel) -> Option<Self> {
        let Primitive::Rows(rows) = &kernel.primitive else { return None };
        let varies = |input: usize| kernel.inputs.get(input).is_some_and(|id| rows.varies(program.shape(*id)));
        let mut factors = vec![&rows.result];
        let (mut data, mut weights, mut scale) = (None, Vec::new(), None);
        while let Some(factor) = factors.pop() {
            match factor {
                Expression::Binary(BinaryOp::Multiply, left, right) => factors.extend([&**left, &**right]),
                Expression::Input(input) if varies(*input) => {
                    let value = program.value(kernel.inputs[*input]);
                    match value.source {
                        Source::Constant(_) if value.shape.elements() == rows.extent() => weights.push(*input),
                        Source::Step(_) if data.is_none() && value.shape.elements() == rows.shape.elements() => {
                            data = Some(*input);
                        }
                        _ => return None,
                    }
                }
                other if (0..kernel.inputs.len()).any(|input| varies(input) && other.reads(input)) => return None,
                other => {
                    scale = Some(scale.map_or_else(|| other.clone(), |scale: Expression| scale.multiply(other.clone())))
                }
            }
        }
        let (data, scale) = (data?, scale?);
        let is_of_data =
            |of: &Expression| (0..kernel.inputs.len()).all(|input| input == data || !varies(input) || !of.reads(input));
        let is_plain = |step: &RowStep| match step {
            // The data is rounded to 16 bits, which is far coarser than what the order of a sum changes.
            RowStep::Fold(reduction, of) => is_of_data(of) && (reduction.is_sum() || !reduction.depends_on_order(of)),
            RowStep::Map(_) => true,
            RowStep::Across(..) => false,
        };
        let is_along_last = rows.shape[rows.axes.end..].iter().all(|extent| *extent == 1);
        let value = program.value(kernel.inputs[data]);
        let is_half = !value.is_inner && kernel.source(kernel.inputs[data]) == kernel.inputs[data];
        let is_whole = is_along_last && !rows.is_folded && !rows.is_part && kernel.maps.is_empty();
        (is_half && is_whole && rows.steps.iter().all(is_plain)).then_some(Self { data, weights, scale })
    }
}
