//! CONV_3D: convolution over depth, height and width.

use attache_base::{DataType, Serial, Shape};
use attache_gpu_ir::{ConvolutionGeometry, Index, IndexMap, Primitive, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported, WorkingMemory};
use attache_kernels::gemm::{PackedMatrix, gemm};
use attache_kernels::{Engine, scratch};
use attache_model::schema::BuiltinOperator;

use crate::shared::fused;
use crate::shared::support::{countable, product, refuse};
use crate::shared::volume::{Geometry, VolumeConvolution, check_bias, filter_of_tap, lower_sum, volume};
use crate::shared::working::{of_weights, packed};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::CONV_3D),
    versions: 1..=1,
    inputs: &[input("input").float(), input("filter").float(), input("bias").float().optional()],
    parse: |declaration| VolumeConvolution::parse(declaration, |options| Ok(Box::new(Conv3d(options)))),
}];

/// Number of rows of windows that are multiplied at once.
const ROWS: usize = 64;
/// Number of elements of these rows, which each thread keeps, unless one row has more.
const BLOCK: usize = 1 << 18;

/// CONV_3D with its attributes. Inputs: `[batch, depth, height, width, channel]`, filter
/// `[depth, height, width, channel, output]`, and an optional bias.
#[derive(Debug)]
struct Conv3d(VolumeConvolution);

/// The convolution of inputs of known shapes.
struct Convolution {
    batches: usize,
    channels: usize,
    outputs: usize,
    geometry: Geometry,
}

impl Conv3d {
    fn convolution(&self, data: &Shape, filter: &Shape, bias: Option<&Shape>) -> Result<Convolution, OpError> {
        let [batches, depth, height, width, channels] = volume(0, data)?;
        let [d, h, w, taken, outputs] = volume(1, filter)?;
        if taken != channels || channels == 0 {
            return Err(OpError::invalid(format!("a filter of shape {filter} for an input of shape {data}")));
        }
        check_bias(bias, outputs)?;
        Ok(Convolution { batches, channels, outputs, geometry: self.0.geometry([depth, height, width], [d, h, w])? })
    }
}

impl Convolution {
    fn output(&self) -> Shape {
        let [depth, height, width] = self.geometry.positions;
        [self.batches, depth, height, width, self.outputs].into()
    }

    /// Returns the number of products of an output element.
    fn terms(&self) -> usize {
        self.geometry.window.iter().product::<usize>() * self.channels
    }

    fn run(&self, engine: Engine<'_>, matrix: &PackedMatrix, data: &[f32], output: &mut [f32], clamp: (f32, f32)) {
        let (terms, channels, outputs) = (self.terms(), self.channels, self.outputs);
        let positions = self.geometry.positions.iter().product::<usize>();
        let pixels = self.geometry.volume.iter().product::<usize>();
        let rows_of_block = ROWS.min(BLOCK / terms).max(1);
        let blocks = positions.div_ceil(rows_of_block);
        let nanoseconds = (positions * (outputs + 8) * terms) as f64 / (4 * engine.isa.lanes()) as f64;
        let band = blocks.div_ceil(engine.tasks(nanoseconds, blocks)) * rows_of_block;
        let on_this_thread = Engine { isa: engine.isa, parallel: &Serial };
        for (data, output) in data.chunks_exact(pixels * channels).zip(output.chunks_exact_mut(positions * outputs)) {
            engine.for_each_chunk(output, band * outputs, |task, output| {
                scratch::with(rows_of_block.min(positions) * terms, |rows: &mut [f32]| {
                    for (block, output) in output.chunks_mut(rows_of_block * outputs).enumerate() {
                        let (first, count) = (task * band + block * rows_of_block, output.len() / outputs);
                        rows.fill(0.0);
                        for (position, row) in (first..first + count).zip(rows.chunks_exact_mut(terms)) {
                            self.geometry.visit_runs(position, |tap, place, length| {
                                let [tap, place, length] = [tap, place, length].map(|pixels| pixels * channels);
                                row[tap..][..length].copy_from_slice(&data[place..][..length]);
                            });
                        }
                        gemm(on_this_thread, count, rows, terms, matrix, output, outputs, clamp);
                    }
                });
            });
        }
    }

    /// Emits the convolution of the images that tap `tap` of the window's depth covers, over height and width.
    fn lower_tap(&self, lowering: &mut Lowering<'_>, tap: usize) -> Result<ValueId, Unsupported> {
        let Geometry { volume: [_, height, width], positions, strides, dilations, before, .. } = self.geometry;
        let (data, filter) = (lowering.input(0)?, lowering.input(1)?);
        let from = Index::Axis(1).times(strides[0] as i64).plus((tap * dilations[0]) as i64 - before[0] as i64);
        let coordinates = vec![Index::Axis(0), from, Index::Axis(2), Index::Axis(3), Index::Axis(4)];
        let shown = vec![self.batches, positions[0], height, width, self.channels];
        let map = IndexMap { output: shown, coordinates, fill: Some(0.0) };
        let images = lowering.emit(Primitive::IndexMap(map), &[data])?;
        let images = lowering.reshape(images, &[self.batches * positions[0], height, width, self.channels].into())?;
        let part = filter_of_tap(lowering, filter, tap, [4, 3])?;
        let convolution = ConvolutionGeometry {
            strides: [strides[1], strides[2]],
            dilations: [dilations[1], dilations[2]],
            before: [before[1], before[2]],
            output: [positions[1], positions[2]],
            groups: 1,
            transposed: false,
            zero_points: [0; 2],
        };
        lowering.emit(Primitive::Convolution(convolution), &[images, part])
    }
}

impl Operator for Conv3d {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [data, filter] = inputs.required();
        let bias = inputs.optional(2);
        let (Some(data), Some(filter)) = (&data.shape, &filter.shape) else {
            return Ok(vec![Inferred::unknown(DataType::Float32)]);
        };
        let convolution = self.convolution(data, filter, bias.and_then(|bias| bias.shape.as_ref()))?;
        Ok(vec![Inferred::new(DataType::Float32, countable(convolution.output())?)])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let &[d, h, w, channels, _] = (*inputs.get(1)?)?.extents() else { return None };
        Some(product(outputs.first()?).saturating_mul(product(&[d, h, w, channels])))
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        let filter = inputs.fact(1);
        let &[d, h, w, channels, outputs] = filter.shape.as_ref()?.extents() else { return None };
        let terms = product(&[d, h, w, channels]);
        let memory = of_weights(filter, packed(DataType::Float32, 1, [outputs, usize::try_from(terms).ok()?], 1));
        let rows = terms.saturating_mul(4 * ROWS as u64);
        Some(WorkingMemory { scratch: memory.scratch.saturating_add(rows), ..memory })
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (data, filter, bias) = (eval.input(0)?, eval.input(1)?, eval.optional(2));
        let convolution = self.convolution(data.shape, filter.shape, bias.map(|bias| bias.shape))?;
        let (engine, terms, outputs) = (Engine::new(eval.parallel), convolution.terms(), convolution.outputs);
        let weights = filter.values::<f32>()?;
        let biases = bias.map(|bias| bias.values::<f32>()).transpose()?;
        let pack = || PackedMatrix::pack_strided(engine.isa, [outputs, terms], weights, [1, outputs], biases);
        let fresh;
        let matrix = match filter.is_constant && bias.is_none_or(|bias| bias.is_constant) {
            true => eval.cache.get_or_make_for(|| PackedMatrix::parameters(outputs, terms), pack),
            false => {
                fresh = pack();
                &fresh
            }
        };
        let output = eval.outputs[0].values()?;
        convolution.run(engine, matrix, data.values()?, output, fused::clamp(self.0.activation));
        fused::finish(engine, self.0.activation, output);
        Ok(())
    }

    /// The sum of convolutions over height and width, one for each element of the window's depth.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let bias = if lowering.has_input(2) { Some(lowering.input_shape(2)?) } else { None };
        let convolution = self.convolution(lowering.input_shape(0)?, lowering.input_shape(1)?, bias);
        let convolution = convolution.map_err(refuse)?;
        convolution.geometry.check_reach()?;
        let taps = convolution.geometry.window[0];
        lower_sum(lowering, (taps, 2, self.0.activation), &|lowering, tap| convolution.lower_tap(lowering, tap))
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Activation, Padding};

    use super::*;

    #[test]
    fn shapes_belong_together() {
        let (padding, activation) = (Padding::Valid, Activation::None);
        let op = Conv3d(VolumeConvolution { padding, strides: [1, 2, 1], dilations: [1; 3], activation });
        let of = |data: &[usize], filter: &[usize], bias: &[usize]| {
            op.convolution(&data.into(), &filter.into(), Some(&bias.into())).map(|convolution| convolution.output())
        };
        assert_eq!(of(&[2, 4, 5, 6, 3], &[2, 3, 2, 3, 7], &[7]).unwrap(), Shape::from([2, 3, 2, 5, 7]));
        assert!(of(&[2, 4, 5, 6, 3], &[2, 3, 2, 4, 7], &[7]).is_err());
        assert!(of(&[2, 4, 5, 6, 3], &[2, 3, 2, 3, 7], &[6]).is_err());
        assert!(of(&[2, 4, 5, 6], &[2, 3, 2, 3, 7], &[7]).is_err());
    }
}
