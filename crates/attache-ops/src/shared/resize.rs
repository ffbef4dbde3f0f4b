//! Shared by RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR: shape inference, evaluation and lowering. The
//! operators' own files contain their names, options and element types.

mod exact;

use attache_base::{DataType, Shape};
use attache_gpu_ir::{Gather, Primitive, Resample, Sampling};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_kernels::quantized::resize as stored;
use attache_kernels::resize::{Resize as Kernel, bilinear, nearest};
use bytemuck::Pod;

use crate::shared::exact::{as_reals, as_stored, is_exact};
use crate::shared::integers::moves_as_integer;
use crate::shared::positions;
use crate::shared::support::{countable, elements, elements_mut, image, refuse};
use crate::{Facts, Operator};

/// A resize operator. Inputs: images `[batch, height, width, channel]`, and the output's height and width.
#[derive(Debug)]
pub(crate) struct Resize {
    /// Whether pixels are interpolated bilinearly or taken from the nearest pixel.
    pub(crate) sampling: Sampling,
    /// Whether the centres of the corner pixels of input and output coincide.
    pub(crate) align_corners: bool,
    /// Whether output pixels are sampled at their centres rather than at their upper left corners.
    pub(crate) half_pixel_centers: bool,
}

impl Resize {
    fn resize(&self, input: &Shape, size: &[i64]) -> Result<Kernel, OpError> {
        let [batches, height, width, channels] = image(0, input)?;
        let wrong = || OpError::invalid(format!("images of shape {input} cannot be resized to {size:?}"));
        let &[rows, columns] = size else { return Err(wrong()) };
        let output = [usize::try_from(rows).map_err(|_| wrong())?, usize::try_from(columns).map_err(|_| wrong())?];
        let is_small = |extent: &usize| *extent <= i32::MAX as usize;
        // Images of no pixel have nothing to sample, unless there is no pixel to compute either. Programs that need small
        // libraries lack that.
        let has_pixels = cfg!(attache_small) || batches.min(channels).min(output[0]).min(output[1]) > 0;
        if height.min(width) == 0 && has_pixels || !output.iter().chain(&[height, width]).all(is_small) {
            return Err(wrong());
        }
        let Resize { align_corners, half_pixel_centers, .. } = *self;
        Ok(Kernel { batches, input: [height, width, channels], output, align_corners, half_pixel_centers })
    }

    /// Copies the nearest pixels, whose elements have the size of `T`.
    fn nearest<T: Pod + Send + Sync>(&self, eval: &mut Eval<'_>, resize: &Kernel) -> Result<(), OpError> {
        let (input, engine) = (elements::<T>(eval.input(0)?.bytes)?, Engine::new(eval.parallel));
        nearest(engine, resize, input, elements_mut(eval.outputs[0].bytes)?);
        Ok(())
    }
}

/// Emits the nearest pixels of integers: floats do not represent all of 32 bits, so rows and columns are gathered.
fn lower_nearest_integers(lowering: &mut Lowering<'_>, resize: &Kernel) -> Result<(), Unsupported> {
    let mut pixels = lowering.input(0)?;
    for axis in 0..2 {
        let shape = Shape::from([resize.output[axis], 1]);
        let places = positions::list(lowering, shape, |index| resize.nearest(axis, index) as i32)?;
        pixels = lowering.emit(Primitive::Gather(Gather { batch: 0, axis: axis + 1 }), &[pixels, places])?;
    }
    lowering.output(0, pixels)
}

impl Operator for Resize {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let (Some(shape), Some(size)) = (&input.shape, inputs.integers(1)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        let Kernel { batches, input: [.., channels], output: [height, width], .. } = self.resize(shape, &size)?;
        Ok(vec![Inferred::new(input.data_type, countable(Shape::from([batches, height, width, channels]))?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
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
        match input.data_type.bits() {
            Some(8) => self.nearest::<u8>(eval, &resize),
            Some(16) => self.nearest::<u16>(eval, &resize),
            _ => self.nearest::<u32>(eval, &resize),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let size = lowering.integers(1)?;
        let resize = self.resize(lowering.input_shape(0)?, &size).map_err(refuse)?;
        let Resize { sampling, align_corners, half_pixel_centers, .. } = *self;
        if is_exact(lowering, 0) && sampling == Sampling::Bilinear {
            return exact::lower_bilinear(lowering, &resize);
        }
        let has_sign = matches!(lowering.stored_input(0)?.data_type, DataType::Int8 | DataType::Int16);
        if has_sign && sampling == Sampling::Bilinear {
            return exact::lower_seen_bilinear(lowering, &resize);
        }
        let resample = Resample { sampling, output: resize.output, align_corners, half_pixel_centers };
        if is_exact(lowering, 0) {
            let input = lowering.input(0)?;
            let reals = as_reals(lowering, input)?;
            let nearest = lowering.emit(Primitive::Resample(resample), &[reals])?;
            let output = as_stored(lowering, nearest)?;
            return lowering.output(0, output);
        }
        if moves_as_integer(lowering.input_fact(0)?.data_type) && sampling == Sampling::Nearest {
            return lower_nearest_integers(lowering, &resize);
        }
        let input = lowering.float_input(0)?;
        let output = lowering.emit(Primitive::Resample(resample), &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_graph::Fact;

    use super::*;
    use crate::input;

    fn output(images: [usize; 4], size: &[i32]) -> Result<Shape, OpError> {
        let op = Resize { sampling: Sampling::Nearest, align_corners: false, half_pixel_centers: false };
        let size = Fact::constant(Constant::from_values([size.len()], size));
        let inputs = [Some(&Fact::new(DataType::Float32, images)), Some(&size)];
        Ok(op.infer(Facts::checked(&[input("images"), input("size")], &inputs)?)?.remove(0).shape.unwrap())
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
