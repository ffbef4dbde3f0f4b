//! Shared by the pooling operators. AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D share everything except their names and
//! the reduction of a window. The custom operators MaxPoolingWithArgmax2D and MaxUnpooling2D share only the
//! parsing of their options.

use attache_base::{Activation, Constant, DataType, Padding, Quantization, Shape};
use attache_gpu_ir::{
    ConvolutionGeometry, Expression, IntBinaryOp, IntExpression, Primitive, UnaryOp, ValueId, Window, WindowKind,
};
use attache_graph::{AffineParameters, Band, Eval, Inferred, Lowering, OpError, RowUse, Unsupported};
use attache_kernels::Engine;
use attache_kernels::pooling::{Pooling, average_pool, max_pool};
use attache_kernels::quantized::pooling as stored;

use crate::definition::{activation, custom_padding, padding, positive};
use crate::shared::convolution::windows;
use crate::shared::exact::{as_reals, as_stored, integers, is_exact};
use crate::shared::fused;
use crate::shared::quantized::{
    QuantizationParameters, SUMS_OF_64_BITS, activation_range, is_stored, range, with_stored,
};
use crate::shared::support::{countable, image, product, refuse};
use crate::{Declaration, Facts, Input, Operator, Parsed, input};

/// A pooling operator with a sliding window; pairs are `[vertical, horizontal]`.
#[derive(Debug)]
struct Pool {
    kind: WindowKind,
    /// Whether the mean is that of squares, and the result its root (L2_POOL_2D).
    of_squares: bool,
    padding: Padding,
    size: [usize; 2],
    strides: [usize; 2],
    activation: Activation,
}

/// Declarations of the inputs of a pooling operator.
pub(crate) const INPUTS: &[Input] =
    &[input("input").of(&[DataType::Float32, DataType::Int8, DataType::UInt8, DataType::Int16])];

/// Parses the options of AVERAGE_POOL_2D or MAX_POOL_2D and returns the operator, which reduces windows by
/// `kind`.
pub(crate) fn parse(declaration: &Declaration<'_>, kind: WindowKind) -> Parsed {
    Ok(Box::new(pool(declaration, kind, false)?))
}

/// Parses the options of L2_POOL_2D and returns the operator, whose inputs are floats.
pub(crate) fn parse_of_squares(declaration: &Declaration<'_>) -> Parsed {
    Ok(Box::new(pool(declaration, WindowKind::Average, true)?))
}

fn pool(declaration: &Declaration<'_>, kind: WindowKind, of_squares: bool) -> Result<Pool, OpError> {
    let options = declaration.options.builtin_options_as_pool_2_doptions();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Pool {
        kind,
        of_squares,
        padding: padding(options.padding())?,
        size: [positive("filter_height", options.filter_height())?, positive("filter_width", options.filter_width())?],
        strides: [positive("stride_h", options.stride_h())?, positive("stride_w", options.stride_w())?],
        activation: activation(options.fused_activation_function())?,
    })
}

/// Maximum number of elements of a constant that lowering creates for a window or an output image.
const MOST_ELEMENTS: usize = 1 << 24;

impl Pool {
    /// Computes the pooling of quantized elements on the CPU. Input and output have the same scale, which is
    /// only needed for the bounds of the activation.
    fn eval_stored(&self, eval: &mut Eval<'_>, pooling: &Pooling) -> Result<(), OpError> {
        let (input, engine, output) = (eval.input(0)?, Engine::new(eval.parallel), &mut eval.outputs[0]);
        let bounds = self.bounds(output.data_type, output.quantization)?;
        with_stored!(input.data_type, T => {
            let (input, output) = (input.values::<T>()?, output.values::<T>()?);
            match self.kind {
                WindowKind::Average => stored::average_pool(engine, pooling, input, output, bounds),
                WindowKind::Maximum | WindowKind::ArgMaximum => stored::max_pool(engine, pooling, input, output, bounds),
            }
        });
        Ok(())
    }

    /// Returns the smallest and the largest quantized element that the activation lets through.
    fn bounds(&self, data_type: DataType, quantization: Option<&Quantization>) -> Result<(i32, i32), OpError> {
        match self.activation {
            Activation::None => range(data_type),
            activation => {
                activation_range(activation, data_type, QuantizationParameters::new(data_type, quantization)?)
            }
        }
    }

    /// Emits the pooling of quantized elements and returns the result. The maximum is computed on floats of
    /// the same integer value. The mean is a depthwise convolution with ones, divided, with ties away from
    /// zero, by the number of elements that the window covers.
    fn lower_stored(&self, lowering: &mut Lowering<'_>, pooling: &Pooling) -> Result<ValueId, Unsupported> {
        let output = lowering.output_fact(0)?;
        let bounds = self.bounds(output.data_type, output.quantization.as_ref()).map_err(refuse)?;
        let (input, shape) = (lowering.input(0)?, lowering.output_shape(0)?.clone());
        let Pooling { kernel, strides, before, output, .. } = *pooling;
        if self.kind != WindowKind::Average {
            let reals = as_reals(lowering, input)?;
            let window = Window { kind: self.kind, size: kernel, strides, before, output };
            let largest = lowering.emit(Primitive::Window(window), &[reals])?;
            let largest = as_stored(lowering, largest)?;
            return lowering.int_map(IntExpression::Input(0).clamp(bounds), &shape, &[largest]);
        }
        let fits = match lowering.input_fact(0)?.data_type {
            DataType::Int16 => stored::sums_fit_32_bits::<i16>(kernel),
            DataType::Int8 => stored::sums_fit_32_bits::<i8>(kernel),
            _ => stored::sums_fit_32_bits::<u8>(kernel),
        };
        if !fits {
            return Err(Unsupported::new(SUMS_OF_64_BITS));
        }
        let channels = pooling.input[2];
        let sizes = [vec![channels, kernel[0], kernel[1]], output.to_vec()];
        let fits = |size: &Vec<usize>| size.iter().try_fold(1usize, |all, extent| all.checked_mul(*extent));
        if !sizes.iter().all(|size| fits(size).is_some_and(|elements| elements <= MOST_ELEMENTS)) {
            return Err(Unsupported::new("its window or its output is too large for a table"));
        }
        let shape_of_ones = [channels, kernel[0], kernel[1], 1];
        let ones = Constant::from_values(shape_of_ones, &vec![1i8; channels * kernel[0] * kernel[1]]);
        let ones = lowering.constant(ones)?;
        let contraction = ConvolutionGeometry {
            strides,
            dilations: [1, 1],
            before,
            output,
            groups: channels,
            transposed: false,
            zero_points: [0; 2],
        };
        let sums = lowering.emit(Primitive::Convolution(contraction), &[input, ones])?;
        let covered = |axis: usize, place: usize| pooling.window(axis, place).0.len() as i32;
        let rows = (0..output[0]).flat_map(|y| (0..output[1]).map(move |x| covered(0, y) * covered(1, x)));
        let counts: Vec<i32> = rows.map(|count| count.max(1)).collect();
        let counts = integers(lowering, [1, output[0], output[1], 1], &counts)?;
        let (sum, count) = (IntExpression::Input(0), IntExpression::Input(1));
        let half = count.clone().binary(IntBinaryOp::Divide, IntExpression::Constant(2));
        let is_positive = IntExpression::Constant(0).binary(IntBinaryOp::Less, sum.clone());
        let nudged = is_positive.select(sum.clone().add(half.clone()), sum.subtract(half));
        let mean = nudged.binary(IntBinaryOp::Divide, count).clamp(bounds);
        lowering.int_map(mean, &shape, &[sums, counts])
    }

    /// Returns the part of the pooling that computes a band of the output's rows, from the rows of the input that they read.
    /// Windows are not trimmed.
    fn banded(&self, pooling: Pooling, Band { rows, before, .. }: Band) -> Pooling {
        let (output, before) = ([rows, pooling.output[1]], [before, pooling.before[1]]);
        Pooling { kernel: self.size, output, before, ..pooling }
    }

    /// Returns the kernel parameters for an input of this shape, `[batch, height, width, channel]`, with the
    /// window trimmed to the part that can cover the image.
    fn pooling(&self, input: &Shape) -> Result<Pooling, OpError> {
        let [batches, height, width, channels] = image(0, input)?;
        let extents = [height, width];
        let positions = windows(self.padding, extents, self.size, self.strides, [1, 1])?;
        let trimmed = [0, 1].map(|axis| {
            let last = positions[axis].output.saturating_sub(1) * self.strides[axis];
            trim(extents[axis], self.size[axis], positions[axis].before, last)
        });
        Ok(Pooling {
            batches,
            input: [height, width, channels],
            output: positions.map(|position| position.output),
            kernel: trimmed.map(|(size, _)| size),
            strides: self.strides,
            before: trimmed.map(|(_, before)| before),
            clamp: fused::clamp(self.activation),
        })
    }
}

/// Returns the size of a window and the padding before the input along an axis, without the part of the
/// window that is in the padding at all of its positions. The size is at most twice the input's extent,
/// however large the model file's window is. `last` is the distance from the first to the last position.
fn trim(input: usize, size: usize, before: usize, last: usize) -> (usize, usize) {
    let idle = before.saturating_sub(last);
    (size.min(input + before) - idle, before - idle)
}

impl Operator for Pool {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let Some(shape) = &input.shape else { return Ok(vec![Inferred::unknown(input.data_type)]) };
        let Pooling { batches, input: [.., channels], output: [height, width], .. } = self.pooling(shape)?;
        Ok(vec![Inferred::new(input.data_type, countable(Shape::from([batches, height, width, channels]))?)])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let pooling = self.pooling((*inputs.first()?)?).ok()?;
        Some(product(outputs.first()?).saturating_mul(product(&pooling.kernel)))
    }

    /// Counts one operation for each element that a window reads: an addition or a comparison.
    fn operations(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        self.multiply_adds(inputs, outputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let (engine, whole) = (Engine::new(eval.parallel), self.pooling(input.shape)?);
        let band = if cfg!(attache_small) { None } else { eval.host.band() };
        let pooling = band.map_or(whole, |band| self.banded(whole, band));
        if is_stored(input.data_type) {
            return self.eval_stored(eval, &pooling);
        }
        let (input, output) = (input.values()?, eval.outputs[0].values()?);
        match self.kind {
            WindowKind::Average if self.of_squares => {
                let squares: Vec<f32> = input.iter().map(|value: &f32| value * value).collect();
                let ((low, high), all) = (pooling.clamp, (f32::NEG_INFINITY, f32::INFINITY));
                average_pool(engine, &Pooling { clamp: all, ..pooling }, &squares, output);
                output.iter_mut().for_each(|value: &mut f32| *value = value.sqrt().max(low).min(high));
            }
            WindowKind::Average => average_pool(engine, &pooling, input, output),
            WindowKind::Maximum | WindowKind::ArgMaximum => max_pool(engine, &pooling, input, output),
        }
        fused::finish(engine, self.activation, output);
        Ok(())
    }

    fn row_uses(&self, inputs: Facts<'_>, _: [usize; 4]) -> Option<Vec<RowUse>> {
        let pooling = self.pooling(inputs.fact(0).shape.as_ref()?).ok()?;
        let [size, stride, before] = [pooling.kernel[0], pooling.strides[0], pooling.before[0]];
        // Windows that are trimmed are read in another way.
        (pooling.kernel == self.size).then(|| vec![RowUse::Window { size, stride, before, in_parts: false }])
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let pooling = self.pooling(lowering.input_shape(0)?).map_err(refuse)?;
        if is_exact(lowering, 0) {
            let output = self.lower_stored(lowering, &pooling)?;
            return lowering.output(0, output);
        }
        let Pooling { kernel, strides, before, output, .. } = pooling;
        let mut input = lowering.float_input(0)?;
        let square = || Expression::Input(0).multiply(Expression::Input(0));
        if self.of_squares {
            let shape = lowering.shape(input).clone();
            input = lowering.map(square(), &shape, &[input])?;
        }
        let window = Window { kind: self.kind, size: kernel, strides, before, output };
        let mut result = lowering.emit(Primitive::Window(window), &[input])?;
        if let (WindowKind::Average, Some(grid)) = (self.kind, AffineParameters::of(lowering.stored_output(0)?)?) {
            let shape = lowering.shape(result).clone();
            result = lowering.map(grid.quotient(Expression::Input(0)), &shape, &[result])?;
        }
        if self.of_squares {
            let shape = lowering.shape(result).clone();
            result = lowering.map(Expression::Input(0).unary(UnaryOp::SquareRoot), &shape, &[result])?;
        }
        let output = fused::lower(lowering, self.activation, result)?;
        lowering.output(0, output)
    }
}

/// A tiling of an image by windows that neither overlap nor leave gaps; `size` is `[height, width]`.
#[derive(Debug)]
pub(crate) struct Tiling {
    pub(crate) padding: Padding,
    pub(crate) size: [usize; 2],
}

/// Parses the options of MaxPoolingWithArgmax2D and MaxUnpooling2D, which use indices within windows. An
/// error where the options are missing, or state windows or an activation that are not implemented.
pub(crate) fn tiling(declaration: &Declaration<'_>) -> Result<Tiling, OpError> {
    let words = declaration.custom_words();
    let &[code, stride_across, stride_down, width, height, ref rest @ ..] = &words[..] else {
        return Err(declaration.no_options());
    };
    if rest.first().is_some_and(|activation| *activation != 0) {
        return Err(OpError::unsupported("fused activations are not implemented"));
    }
    if [stride_down, stride_across] != [height, width] {
        return Err(OpError::unsupported("windows that overlap or leave gaps are not implemented"));
    }
    let size = [positive("the window's height", height)?, positive("the window's width", width)?];
    if size[0] * size[1] > MAXIMUM_SIZE {
        return Err(OpError::unsupported(format!("windows of more than {MAXIMUM_SIZE} elements are not implemented")));
    }
    Ok(Tiling { padding: custom_padding(code)?, size })
}

/// Maximum number of elements of a window with indices. Larger windows have no practical use, and with this
/// limit every index fits a 32-bit integer.
const MAXIMUM_SIZE: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    fn pool(padding: Padding, size: [usize; 2], strides: [usize; 2]) -> Pool {
        Pool { kind: WindowKind::Maximum, of_squares: false, padding, size, strides, activation: Activation::None }
    }

    fn output(op: &Pool, input: [usize; 4]) -> Result<Shape, OpError> {
        let input = Fact::new(DataType::Float32, input);
        Ok(op.infer(Facts::checked(INPUTS, &[Some(&input)])?)?.remove(0).shape.unwrap())
    }

    #[test]
    fn windows_are_counted_by_their_padding() {
        assert_eq!(output(&pool(Padding::Same, [3, 2], [2, 1]), [2, 5, 7, 3]).unwrap(), Shape::from([2, 3, 7, 3]));
        assert_eq!(output(&pool(Padding::Valid, [6, 2], [2, 1]), [2, 5, 7, 3]).unwrap(), Shape::from([2, 0, 6, 3]));
        let integers = Fact::new(DataType::Int32, [1, 2, 2, 1]);
        let error = Facts::checked(INPUTS, &[Some(&integers)]).unwrap_err();
        assert!(matches!(error, OpError::Unsupported(_)));
    }

    #[test]
    fn windows_cover_the_same_elements_after_trimming() {
        let covered = |start: usize, size: usize, before: usize, input: usize| {
            start.saturating_sub(before).min(input)..(start + size).saturating_sub(before).min(input)
        };
        for (input, size, stride) in (1..7).flat_map(|i| (1..20).flat_map(move |k| (1..5).map(move |s| (i, k, s)))) {
            let window = Padding::Same.window(input, size, stride, 1).unwrap();
            let (trimmed, before) = trim(input, size, window.before, (window.output - 1) * stride);
            assert!(trimmed <= 2 * input);
            for start in (0..window.output).map(|position| position * stride) {
                let expected = covered(start, size, window.before, input);
                assert_eq!(covered(start, trimmed, before, input), expected, "{input} {size} {stride}");
            }
        }
        let huge = pool(Padding::Same, [i32::MAX as usize; 2], [1, 1]).pooling(&Shape::from([1, 3, 4, 1])).unwrap();
        assert!(huge.kernel[0] <= 6 && huge.kernel[1] <= 8);
    }
}
