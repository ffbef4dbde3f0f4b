//! Pointwise convolutions on matrices: their work groups stage whole rows of the data in work-group memory. They can reduce
//! the rows and scale their results, each group anew, which takes less time than another dispatch for a normalization.

use attache_base::Shape;
use attache_gpu_ir::{BinaryOp, Expression, Primitive, Program, RowStep, Rows, Scalar, Source, ValueId};

use super::alias::root;
use super::limits::MAX_GROUPS;
use super::{DeviceLimits, Kernel, Matrices, STAGED_ROWS, vector_width};

/// Maximum elements of a row, which the work group stages as a whole.
const MAX_ROW: usize = 512;

/// Rows and columns of a matrix, and the numbers of both below which most of a matrix would be empty.
const SIDE: usize = 16;
const FEW: usize = SIDE / 2;

/// Invocations and bytes of work-group memory with which the variant has a tiling for rows of [`MAX_ROW`] elements.
const INVOCATIONS: usize = 256;
const WORK_GROUP_BYTES: usize = 32768;

/// Maximum number of channels that the variant adds to the inputs and outputs of a filter to fill its tiles.
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
    let has_limits = limits.matrices != Matrices::Absent
        && limits.max_invocations >= INVOCATIONS
        && limits.work_group_bytes >= WORK_GROUP_BYTES;
    let pixels: usize = data[..3].iter().product();
    let packed = (filter[0] + PADDING).saturating_mul(1 + data[3] + PADDING).saturating_mul(2);
    let fits = [pixels, filter[0]].iter().all(|extent| extent.div_ceil(SIDE) <= MAX_GROUPS);
    has_limits
        && convolution.groups == 1
        && convolution.is_pointwise(data, filter)
        && kernel.inputs[1..].iter().all(is_weight)
        && kernel.source(kernel.inputs[0]) == kernel.inputs[0]
        && filter[0] >= FEW
        && pixels > FEW.max(STAGED_ROWS)
        && fits
        && packed <= limits.max_binding_bytes
        && data[3].is_multiple_of(8)
        && (1..=MAX_ROW).contains(&data[3])
        && matches!(&first.primitive, Primitive::Rows(rows) if rows.extent() == data[3])
        && ScaledRows::of(program, first).is_some_and(|scaled| is_intermediate(program, first.inputs[scaled.data]))
}

/// Whether work groups of a convolution, which scale their results as `first` scales the rows of its data, can also compute
/// those of another convolution of the same rows, `twin`, which are an operand of its epilogue.
pub(crate) fn takes_twin(program: &Program, kernel: &Kernel, twin: &Kernel, limits: &DeviceLimits) -> bool {
    if !matches!(kernel.primitive, Primitive::Convolution(_)) || kernel.primitive != twin.primitive {
        return false;
    }
    let rows = |kernel: &Kernel| kernel.prologue.as_ref().map(|first| first.outputs[0]);
    let shapes = [kernel, twin].map(|kernel| [kernel.inputs[1], kernel.outputs[0]].map(|id| program.shape(id)));
    let packed = (shapes[0][0][0] + PADDING).saturating_mul(1 + shapes[0][0][3] + PADDING).saturating_mul(4);
    let is_plain = twin.epilogue.is_identity() && twin.operands.is_empty() && kernel.maps.is_empty();
    let is_whole = vector_width(program, kernel) == 4 && shapes[0][1][3].is_multiple_of(4);
    let scales = |kernel: &Kernel| {
        kernel.prologue.as_deref().is_some_and(|first| scales_rows(program, kernel, first, limits)) //
    };
    rows(kernel) == rows(twin)
        && shapes[0] == shapes[1]
        && packed <= limits.max_binding_bytes
        && is_plain
        && is_whole
        && scales(kernel)
        && scales(twin)
}

/// Whether floats are stored as f16 if any are: they share memory with no input or output of the program, and do not have to
/// be precise.
fn is_intermediate(program: &Program, id: ValueId) -> bool {
    let root = root(program, id);
    let is_output = program.outputs.iter().any(|output| self::root(program, *output) == root);
    matches!(program.value(root).source, Source::Step(_)) && !is_output && !program.value(id).is_inner
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
    /// The product of the constants of each element is a factor of at most 1, times this power of two. Products of weights
    /// with such factors are within the range of the weights.
    pub(crate) power: f32,
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
                        Source::Constant(_) if is_along_rows(rows, &value.shape) => weights.push(*input),
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
        let is_stored = kernel.source(kernel.inputs[data]) == kernel.inputs[data] && kernel.maps.is_empty();
        let is_whole = is_along_last && !rows.is_folded && !rows.is_part && rows.scalar == Scalar::F32;
        if !is_stored || !is_whole || !rows.steps.iter().all(is_plain) {
            return None;
        }
        let products = products(program, kernel, &weights, rows.extent())?;
        let largest = products.iter().fold(0.0f32, |largest, product| largest.max(product.abs()));
        let power = if largest > 0.0 { largest.log2().ceil().exp2() } else { 1.0 };
        (largest.is_finite() && power.is_normal()).then_some(Self { data, weights, scale, power })
    }

    /// Returns what the weights of each element of a row are multiplied by.
    pub(crate) fn factors(&self, program: &Program, kernel: &Kernel, extent: usize) -> Vec<f32> {
        let mut factors = products(program, kernel, &self.weights, extent).expect("they were read before");
        factors.iter_mut().for_each(|factor| *factor /= self.power);
        factors
    }
}

/// Returns for each element of a row the product of the constants; `None` if one is no constant of floats.
fn products(program: &Program, kernel: &Kernel, weights: &[usize], extent: usize) -> Option<Vec<f32>> {
    let mut products = vec![1.0; extent];
    for input in weights {
        let constant = program.value(kernel.inputs[*input]).floats()?;
        products.iter_mut().zip(constant.iter()).for_each(|(product, constant)| *product *= constant);
    }
    Some(products)
}

/// Whether a tensor of this shape has one element for each of a row, the same for all rows.
fn is_along_rows(rows: &Rows, shape: &Shape) -> bool {
    let missing = rows.shape.rank() - shape.rank();
    let is_in_row = |(axis, extent): (usize, &usize)| rows.axes.contains(&(axis + missing)) || *extent == 1;
    shape.elements() == rows.extent() && shape.iter().enumerate().all(is_in_row)
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_gpu_ir::{ReduceOp, UnaryOp};

    use super::*;

    /// Returns a program with rows along these axes of data, divided by the roots of their sums, times a constant of another
    /// shape, and their kernel.
    fn scaled(shape: &[usize], axes: std::ops::Range<usize>, constant: (&[usize], f32)) -> (Program, Kernel) {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, shape.into());
        let copy = Primitive::Map { expression: Expression::Input(0), shape: shape.into(), scalar: Scalar::F32 };
        let data = program.step(copy, &[input], 0).unwrap()[0];
        let factors = vec![constant.1; constant.0.iter().product()];
        let factors = program.constant(Scalar::F32, Constant::from_values(constant.0, &factors));
        let [x, y, sum] = [0, 1, 2].map(Expression::Input);
        let rows = Rows {
            shape: shape.into(),
            axes,
            steps: vec![RowStep::Fold(ReduceOp::Sum, x.clone())],
            result: x.multiply(sum.unary(UnaryOp::InverseSquareRoot)).multiply(y),
            is_folded: false,
            is_part: false,
            scalar: Scalar::F32,
        };
        let primitive = Primitive::Rows(rows);
        let outputs = program.step(primitive.clone(), &[data, factors], 0).unwrap();
        program.outputs = outputs.clone();
        (program, Kernel::of(primitive, vec![data, factors], outputs, vec![0]))
    }

    #[test]
    fn constants_along_rows_are_factors_of_weights() {
        let power = |shape: &[usize], axes, constant| {
            let (program, kernel) = scaled(shape, axes, constant);
            ScaledRows::of(&program, &kernel).map(|scaled| (scaled.weights, scaled.power))
        };
        assert_eq!(power(&[20, 8], 1..2, (&[8], 0.75)), Some((vec![1], 1.0)));
        assert_eq!(power(&[20, 8], 1..2, (&[8], 1e-3)), Some((vec![1], 0.0009765625 * 2.0)));
        assert_eq!(power(&[20, 8], 1..2, (&[1, 8], 0.0)), Some((vec![1], 1.0)));
        assert_eq!(power(&[20, 8], 1..2, (&[8], f32::INFINITY)), None);
        assert_eq!(power(&[8, 2, 4], 1..3, (&[2, 4], 1.0)), Some((vec![1], 1.0)));
        assert_eq!(power(&[8, 2, 4], 1..3, (&[8, 1, 1], 1.0)), Some((Vec::new(), 1.0)), "it is a factor of the scale");
        assert_eq!(power(&[4, 2, 2], 1..3, (&[2, 1], 1.0)), None, "it has other elements than a row");
        assert_eq!(power(&[4, 2, 8], 1..3, (&[1, 8], 1.0)), None, "it has fewer elements than a row");
        assert_eq!(power(&[16, 2, 16], 1..3, (&[16, 2, 1], 1.0)), None, "its elements differ from row to row");
    }

    #[test]
    fn data_that_is_an_output_stays_precise() {
        let (mut program, kernel) = scaled(&[20, 8], 1..2, (&[8], 1.0));
        assert!(is_intermediate(&program, kernel.inputs[0]));
        let copy = program.step(Primitive::Reshape([8, 20].into()), &[kernel.inputs[0]], 0).unwrap()[0];
        program.outputs.push(copy);
        assert!(!is_intermediate(&program, kernel.inputs[0]));
    }
}
