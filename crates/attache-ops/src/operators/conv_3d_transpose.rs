//! CONV_3D_TRANSPOSE: transposed convolution over depth, height and width, to a volume whose shape is given by an input.

use attache_base::{DataType, Shape};
use attache_gpu_ir::{ConvolutionGeometry, IndexMap, Primitive, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported, WorkingMemory};
use attache_kernels::Engine;
use attache_kernels::gemm::{PackedMatrix, gemm};
use attache_model::schema::BuiltinOperator;

use crate::shared::fused;
use crate::shared::spread::{self, Along};
use crate::shared::support::{countable, product, refuse};
use crate::shared::volume::{Geometry, VolumeConvolution, check_bias, filter_of_tap, lower_sum, volume};
use crate::shared::working::{of_weights, packed};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::CONV_3D_TRANSPOSE),
    versions: 1..=1,
    inputs: &[
        input("output_shape").of(&[DataType::Int32]),
        input("filter").float(),
        input("input").float(),
        input("bias").float().optional(),
    ],
    parse: |declaration| VolumeConvolution::parse(declaration, |options| Ok(Box::new(Conv3dTranspose(options)))),
}];

/// Number of pixels of the input that are multiplied at once.
const ROWS: usize = 64;

/// CONV_3D_TRANSPOSE with its attributes. Inputs: the output's shape, filter `[depth, height, width, output, channel]`,
/// `[batch, depth, height, width, channel]`, and an optional bias.
#[derive(Debug)]
struct Conv3dTranspose(VolumeConvolution);

/// The convolution to an output of known shape: the window moves over the output, one position for each pixel of the input.
struct Convolution {
    output: Shape,
    batches: usize,
    channels: usize,
    outputs: usize,
    geometry: Geometry,
}

impl Conv3dTranspose {
    fn convolution(
        &self,
        wanted: &[i64],
        filter: &Shape,
        data: &Shape,
        bias: Option<&Shape>,
    ) -> Result<Convolution, OpError> {
        let [d, h, w, outputs, taken] = volume(1, filter)?;
        let [batches, positions @ .., channels] = volume(2, data)?;
        let wrong = || {
            OpError::invalid(format!("an input of shape {data} and a filter of shape {filter} do not make {wanted:?}"))
        };
        let output = countable(Shape::from_signed(wanted).ok_or_else(wrong)?)?;
        let &[made, depth, height, width, features] = output.extents() else { return Err(wrong()) };
        let geometry = self.0.geometry([depth, height, width], [d, h, w])?;
        let fits = geometry.positions == positions && channels > 0 && outputs > 0;
        if !fits || [made, features, taken] != [batches, outputs, channels] {
            return Err(wrong());
        }
        check_bias(bias, outputs)?;
        Ok(Convolution { output, batches, channels, outputs, geometry })
    }
}

impl Convolution {
    /// Returns the number of products of an element of the input.
    fn products(&self) -> usize {
        self.geometry.window.iter().product::<usize>() * self.outputs
    }

    fn run(&self, engine: Engine<'_>, matrix: &PackedMatrix, data: &[f32], bias: Option<&[f32]>, output: &mut [f32]) {
        let (products, outputs) = (self.products(), self.outputs);
        let pixels = self.geometry.positions.iter().product::<usize>();
        let volume = self.geometry.volume.iter().product::<usize>();
        let mut made = vec![0.0; ROWS.min(pixels) * products];
        for batch in 0..self.batches {
            let output = &mut output[batch * volume * outputs..][..volume * outputs];
            match bias {
                Some(bias) => output.chunks_exact_mut(outputs).for_each(|pixel| pixel.copy_from_slice(bias)),
                None => output.fill(0.0),
            }
            for first in (0..pixels).step_by(ROWS) {
                let count = ROWS.min(pixels - first);
                let rows = &data[(batch * pixels + first) * self.channels..][..count * self.channels];
                let all = (f32::NEG_INFINITY, f32::INFINITY);
                gemm(engine, count, rows, self.channels, matrix, &mut made, products, all);
                for (row, made) in made.chunks_exact(products).take(count).enumerate() {
                    self.geometry.visit(first + row, |tap, place| {
                        let sums = output[place * outputs..][..outputs].iter_mut();
                        sums.zip(&made[tap * outputs..][..outputs]).for_each(|(sum, value)| *sum += value);
                    });
                }
            }
        }
    }
}

impl Convolution {
    /// Emits what element `tap` of the window's depth contributes to the output: the transposed convolution of the input's
    /// images over height and width, which go to the output's images that lie the stride apart.
    fn lower_tap(&self, lowering: &mut Lowering<'_>, tap: usize) -> Result<ValueId, Unsupported> {
        let Geometry { volume, positions: [depth, height, width], strides, dilations, before, .. } = self.geometry;
        let (filter, data) = (lowering.input(1)?, lowering.input(2)?);
        let images = lowering.reshape(data, &[self.batches * depth, height, width, self.channels].into())?;
        let part = filter_of_tap(lowering, filter, tap, [3, 4])?;
        let convolution = ConvolutionGeometry {
            strides: [strides[1], strides[2]],
            dilations: [dilations[1], dilations[2]],
            before: [before[1], before[2]],
            output: [volume[1], volume[2]],
            groups: 1,
            transposed: true,
            zero_points: [0; 2],
        };
        let made = lowering.emit(Primitive::Convolution(convolution), &[images, part])?;
        let made = lowering.reshape(made, &[self.batches, depth, volume[1], volume[2], self.outputs].into())?;
        let mut along = [Along { first: 0, step: 1 }; 5];
        along[1] = Along { first: (tap * dilations[0]) as i64 - before[0] as i64, step: strides[0] as i64 };
        let map = spread::map(lowering.shape(made), &along, &self.output)?;
        lowering.emit(Primitive::IndexMap(IndexMap { fill: Some(0.0), ..map }), &[made])
    }
}

impl Operator for Conv3dTranspose {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [wanted, filter, data] = inputs.required();
        if wanted.shape.as_ref().is_some_and(|shape| shape.extents() != [5]) {
            return Err(OpError::invalid("input 0 (output_shape) is not a list of 5"));
        }
        let bias = inputs.optional(3).and_then(|bias| bias.shape.as_ref());
        let (Some(wanted), Some(filter), Some(data)) = (inputs.integers(0)?, &filter.shape, &data.shape) else {
            return Ok(vec![Inferred::unknown(DataType::Float32)]);
        };
        Ok(vec![Inferred::new(DataType::Float32, self.convolution(&wanted, filter, data, bias)?.output)])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let &[d, h, w, outputs, _] = (*inputs.get(1)?)?.extents() else { return None };
        Some(product((*inputs.get(2)?)?).saturating_mul(product(&[d, h, w, outputs])))
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        let filter = inputs.fact(1);
        let &[d, h, w, outputs, channels] = filter.shape.as_ref()?.extents() else { return None };
        let products = product(&[d, h, w, outputs]);
        let memory = of_weights(filter, packed(DataType::Float32, 1, [usize::try_from(products).ok()?, channels], 1));
        let rows = products.saturating_mul(4 * ROWS as u64);
        Some(WorkingMemory { scratch: memory.scratch.saturating_add(rows), ..memory })
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (filter, data, bias) = (eval.input(1)?, eval.input(2)?, eval.optional(3));
        let wanted = eval.input(0)?.integers()?;
        let convolution = self.convolution(&wanted, filter.shape, data.shape, bias.map(|bias| bias.shape))?;
        let (engine, products, channels) = (Engine::new(eval.parallel), convolution.products(), convolution.channels);
        let weights = filter.values::<f32>()?;
        let pack = || PackedMatrix::pack(engine.isa, products, channels, weights, None);
        let fresh;
        let matrix = match filter.is_constant {
            true => eval.cache.get_or_make_for(|| PackedMatrix::parameters(products, channels), pack),
            false => {
                fresh = pack();
                &fresh
            }
        };
        let bias = bias.map(|bias| bias.values::<f32>()).transpose()?;
        let output = eval.outputs[0].values::<f32>()?;
        convolution.run(engine, matrix, data.values()?, bias, output);
        let (low, high) = fused::clamp(self.0.activation);
        output.iter_mut().for_each(|value| *value = value.max(low).min(high));
        fused::finish(engine, self.0.activation, output);
        Ok(())
    }

    /// The sum of transposed convolutions over height and width, one for each element of the window's depth.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let bias = if lowering.has_input(3) { Some(lowering.input_shape(3)?) } else { None };
        let (filter, data) = (lowering.input_shape(1)?, lowering.input_shape(2)?);
        let convolution = self.convolution(&lowering.integers(0)?, filter, data, bias).map_err(refuse)?;
        convolution.geometry.check_reach()?;
        let taps = convolution.geometry.window[0];
        lower_sum(lowering, (taps, 3, self.0.activation), &|lowering, tap| convolution.lower_tap(lowering, tap))
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Activation, Padding};

    use super::*;

    #[test]
    fn the_output_is_one_that_makes_the_input() {
        let (padding, activation) = (Padding::Valid, Activation::None);
        let op = Conv3dTranspose(VolumeConvolution { padding, strides: [2; 3], dilations: [1; 3], activation });
        let (filter, data) = ([2, 2, 2, 4, 3].into(), [1, 2, 2, 3, 3].into());
        let of = |wanted: &[i64]| op.convolution(wanted, &filter, &data, None).map(|made| made.output);
        assert_eq!(of(&[1, 4, 5, 6, 4]).unwrap(), Shape::from([1, 4, 5, 6, 4]));
        for wrong in [[1, 6, 4, 6, 4], [2, 4, 4, 6, 4], [1, 4, 4, 6, 3], [1, -4, 4, 6, 4]] {
            assert!(of(&wrong).is_err(), "{wrong:?}");
        }
        assert!(of(&[1, 4, 4, 6]).is_err());
    }
}
