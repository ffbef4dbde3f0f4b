//! What RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR share: all but their name, their options and the element types.

use attache_base::{DataType, Element, Shape};
use attache_gpu_ir::{Gather, Primitive, Resample, Sampling, Whole, WholeBinary};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::Engine;
use attache_kernels::quantized::resize as stored;
use attache_kernels::resize::{Resize as Kernel, bilinear, nearest};

use crate::exact::{as_reals, as_stored, integers, is_exact};
use crate::support::{arity, countable, image, is_empty, known_integers, one_of, refuse, required};

/// Images sampled at other points. Inputs: images and the wanted height and width.
#[derive(Debug)]
pub(crate) struct Resize {
    pub(crate) name: &'static str,
    pub(crate) sampling: Sampling,
    pub(crate) types: &'static [DataType],
    /// Whether the corner elements of input and output coincide.
    pub(crate) align_corners: bool,
    /// Whether elements lie at the centres of their cells.
    pub(crate) half_pixel_centers: bool,
}

impl Resize {
    fn resize(&self, input: &Shape, size: &[i64]) -> Result<Kernel, OpError> {
        let [batches, height, width, channels] = image(0, input)?;
        let wrong = || OpError::invalid(format!("images of shape {input} cannot be resized to {size:?}"));
        let &[rows, columns] = size else { return Err(wrong()) };
        let output = [usize::try_from(rows).map_err(|_| wrong())?, usize::try_from(columns).map_err(|_| wrong())?];
        let is_small = |extent: &usize| *extent <= i32::MAX as usize;
        if height == 0 || width == 0 || !output.iter().chain(&[height, width]).all(is_small) {
            return Err(wrong());
        }
        let Resize { align_corners, half_pixel_centers, .. } = *self;
        Ok(Kernel { batches, input: [height, width, channels], output, align_corners, half_pixel_centers })
    }

    fn nearest<T: Element>(&self, eval: &mut Eval<'_>, resize: &Kernel) -> Result<(), OpError> {
        let (input, engine) = (eval.input(0)?, Engine::new(eval.parallel));
        nearest(engine, resize, input.values::<T>()?, eval.outputs[0].values::<T>()?);
        Ok(())
    }
}

/// Emits bilinear sampling of signed bytes: neighbours looked up and weighed along the width, then along the height, in
/// integers that hold every digit, and one rounding at the end.
fn lower_bilinear(lowering: &mut Lowering<'_>, resize: &Kernel) -> Result<(), Refusal> {
    let mut value = lowering.input(0)?;
    for axis in [1, 0] {
        let places: Vec<_> = (0..resize.output[axis]).map(|index| stored::neighbours(resize, axis, index)).collect();
        let count = places.len();
        let lower: Vec<i32> = places.iter().map(|(lower, _, _)| *lower as i32).collect();
        let upper: Vec<i32> = places.iter().map(|(_, upper, _)| *upper as i32).collect();
        let weights: Vec<i32> = places.iter().map(|(_, _, weight)| *weight as i32).collect();
        let behind = [count, 1, 1];
        let [lower, upper] = [integers(lowering, [count, 1], &lower)?, integers(lowering, [count, 1], &upper)?];
        let weights = integers(lowering, &behind[..3 - axis], &weights)?;
        let gather = || Primitive::Gather(Gather { batch: 0, axis: 1 + axis });
        let (first, second) = (lowering.emit(gather(), &[value, lower])?, lowering.emit(gather(), &[value, upper])?);
        let (weight, one) = (Whole::Input(2), Whole::Constant(1 << stored::DIGITS));
        let first_part = Whole::Input(0).multiply(one.subtract(weight.clone()));
        let sum = first_part.add(Whole::Input(1).multiply(weight));
        let shape = lowering.shape(first).clone();
        value = lowering.whole_map(sum, &shape, &[first, second, weights])?;
    }
    let half = 1 << (2 * stored::DIGITS - 1);
    let is_positive = Whole::Constant(0).binary(WholeBinary::Less, Whole::Input(0));
    let nudge = is_positive.select(Whole::Constant(half), Whole::Constant(-half));
    let rounded = Whole::Input(0).add(nudge).binary(WholeBinary::Divide, Whole::Constant(2 * half));
    let shape = lowering.output_shape(0)?.clone();
    let output = lowering.whole_map(rounded, &shape, &[value])?;
    lowering.output(0, output)
}

impl Op for Resize {
    fn name(&self) -> &str {
        self.name
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (input, size) = (required(inputs, 0)?, required(inputs, 1)?);
        one_of(0, input, self.types)?;
        one_of(1, size, &[DataType::Int32])?;
        let (Some(shape), Some(size)) = (&input.shape, known_integers(1, size)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        let Kernel { batches, input: [.., channels], output: [height, width], .. } = self.resize(shape, &size)?;
        Ok(vec![Inferred::new(input.data_type, countable(Shape::from([batches, height, width, channels]))?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        if is_empty(eval) {
            return Ok(());
        }
        let input = eval.input(0)?;
        let resize = self.resize(input.shape, &eval.input(1)?.integers()?)?;
        if self.sampling == Sampling::Bilinear {
            let (engine, output) = (Engine::new(eval.parallel), &mut eval.outputs[0]);
            match input.data_type {
                DataType::Int8 => stored::bilinear::<i8>(engine, &resize, input.values()?, output.values()?),
                DataType::Int16 => stored::bilinear::<i16>(engine, &resize, input.values()?, output.values()?),
                DataType::UInt8 => stored::bilinear_in_floats::<u8>(engine, &resize, input.values()?, output.values()?),
                _ => bilinear(engine, &resize, input.values()?, output.values()?),
            }
            return Ok(());
        }
        match input.data_type {
            DataType::Int32 => self.nearest::<i32>(eval, &resize),
            DataType::Int8 => self.nearest::<i8>(eval, &resize),
            DataType::UInt8 => self.nearest::<u8>(eval, &resize),
            DataType::Int16 => self.nearest::<i16>(eval, &resize),
            _ => self.nearest::<f32>(eval, &resize),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let size = lowering.integers(1)?;
        let resize = self.resize(lowering.input_shape(0)?, &size).map_err(refuse)?;
        if self.sampling == Sampling::Bilinear && lowering.input_fact(0)?.data_type == DataType::Int8 {
            return lower_bilinear(lowering, &resize);
        }
        let output = resize.output;
        if is_exact(lowering, 0) && self.sampling == Sampling::Nearest {
            let Resize { sampling, align_corners, half_pixel_centers, .. } = *self;
            let resample = Resample { sampling, output, align_corners, half_pixel_centers };
            let input = lowering.input(0)?;
            let reals = as_reals(lowering, input)?;
            let nearest = lowering.emit(Primitive::Resample(resample), &[reals])?;
            let output = as_stored(lowering, nearest)?;
            return lowering.output(0, output);
        }
        let input = lowering.float_input(0)?;
        let Resize { sampling, align_corners, half_pixel_centers, .. } = *self;
        let resample = Resample { sampling, output, align_corners, half_pixel_centers };
        let output = lowering.emit(Primitive::Resample(resample), &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;

    use super::*;

    fn output(input: [usize; 4], size: &[i32]) -> Result<Shape, OpError> {
        let (sampling, types) = (Sampling::Nearest, &[DataType::Float32][..]);
        let op = Resize { name: "?", sampling, types, align_corners: false, half_pixel_centers: false };
        let size = Fact::constant(Constant::from_values([size.len()], size));
        Ok(op.infer(&[Some(&Fact::new(DataType::Float32, input)), Some(&size)])?.remove(0).shape.unwrap())
    }

    #[test]
    fn sizes_are_height_and_width() {
        assert_eq!(output([2, 3, 4, 5], &[6, 7]).unwrap(), Shape::from([2, 6, 7, 5]));
        assert_eq!(output([2, 3, 4, 5], &[0, 7]).unwrap(), Shape::from([2, 0, 7, 5]));
        for (input, size) in [([2, 3, 4, 5], &[6][..]), ([2, 3, 4, 5], &[6, -7]), ([2, 0, 4, 5], &[6, 7])] {
            assert!(matches!(output(input, size), Err(OpError::Invalid(_))), "{size:?}");
        }
    }
}
