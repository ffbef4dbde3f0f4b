//! MaxPoolingWithArgmax2D: MediaPipe's custom max pooling that also returns the index of each maximum in its window.
//!
//! An index is `column × window height + row`, stored as a 32-bit integer in a tensor that the file declares as float;
//! only MaxUnpooling2D reads it. Padding replicates the image's border, and the first of equal elements wins: an
//! element of the first row or column has the index of its replica at the window's start, though the element itself may
//! be further inside (as in XNNPACK). Options are 32-bit integers: padding (1 SAME, 2 VALID), horizontal stride,
//! vertical stride, window width, window height and, optionally, the activation; further options are ignored.

use attache_base::Shape;
use attache_gpu_ir::{Index, IndexMap, Primitive, ValueId, Window, WindowKind};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_kernels::pooling::Pooling;
use attache_kernels::unpooling::max_pool_with_places;

use crate::shared::convolution::windows;
use crate::shared::pool::{Tiling, tiling};
use crate::shared::support::{countable, image, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Custom("MaxPoolingWithArgmax2D"),
    versions: 1..=1,
    inputs: &[input("input").float()],
    parse,
}];

#[derive(Debug)]
struct MaxPoolingWithArgmax2d(Tiling);

fn parse(declaration: &Declaration<'_>) -> Parsed {
    Ok(Box::new(MaxPoolingWithArgmax2d(tiling(declaration)?)))
}

impl MaxPoolingWithArgmax2d {
    fn window(&self, input: &Shape) -> Result<([usize; 4], Window), OpError> {
        let ([batches, height, width, channels], size) = (image(0, input)?, self.0.size);
        let positions = windows(self.0.padding, [height, width], size, size, [1, 1])?;
        let (before, output) = (positions.map(|position| position.before), positions.map(|position| position.output));
        let window = Window { kind: WindowKind::ArgMaximum, size, strides: size, before, output };
        Ok(([batches, output[0], output[1], channels], window))
    }
}

/// Returns the parameters of the kernel for images of `extents`.
fn pooling(window: &Window, [batches, height, width, channels]: [usize; 4]) -> Pooling {
    Pooling {
        batches,
        input: [height, width, channels],
        output: window.output,
        kernel: window.size,
        strides: window.strides,
        before: window.before,
        clamp: (f32::NEG_INFINITY, f32::INFINITY),
    }
}

/// Emits the image with its first row and its first column replicated `before` times, `[rows, columns]`.
fn extend(lowering: &mut Lowering<'_>, image: ValueId, before: [usize; 2]) -> Result<ValueId, Unsupported> {
    if before == [0, 0] {
        return Ok(image);
    }
    let before = [0, before[0], before[1], 0];
    let output: Vec<usize> = lowering.shape(image).iter().zip(before).map(|(extent, before)| extent + before).collect();
    // The input coordinate is max(x, 0), where x is the output coordinate less `before`. It is emitted as
    // `(x + |x|) / 2`.
    let coordinate = |axis: usize| match before[axis] as i64 {
        0 => Index::Axis(axis),
        before => {
            let (of, extent) = (Index::Axis(axis).plus(-before), output[axis] as i64);
            of.clone().sum(Index::Mirror { of: Box::new(of), extent, edge: false }).divided_by(2)
        }
    };
    let coordinates = (0..4).map(coordinate).collect();
    lowering.emit(Primitive::IndexMap(IndexMap { output, coordinates, fill: None }), &[image])
}

impl Operator for MaxPoolingWithArgmax2d {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let output = match &input.shape {
            Some(shape) => Inferred::new(input.data_type, countable(Shape::from(self.window(shape)?.0))?),
            None => Inferred::unknown(input.data_type),
        };
        Ok(vec![output.clone(), output])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let (extents, (_, window)) = (image(0, input.shape)?, self.window(input.shape)?);
        let [values, places] = &mut eval.outputs[..] else { return Err(OpError::invalid("it has two outputs")) };
        let places = bytemuck::cast_slice_mut(places.values::<f32>()?);
        let (engine, pooling) = (Engine::new(eval.parallel), pooling(&window, extents));
        max_pool_with_places(engine, &pooling, input.values()?, values.values()?, places);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (_, window) = self.window(lowering.input_shape(0)?).map_err(refuse)?;
        let input = lowering.float_input(0)?;
        let input = extend(lowering, input, window.before)?;
        let made = lowering.emit_all(Primitive::Window(Window { before: [0, 0], ..window }), &[input])?;
        lowering.output(0, made[0])?;
        lowering.output(1, made[1])
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Padding, Serial};

    use super::*;

    fn pooled(padding: Padding, extents: [usize; 4], input: &[f32]) -> (Vec<f32>, Vec<u32>) {
        let op = MaxPoolingWithArgmax2d(Tiling { padding, size: [2, 3] });
        let (shape, window) = op.window(&Shape::from(extents)).unwrap();
        let elements = shape.iter().product();
        let (mut values, mut places) = (vec![0.0; elements], vec![9; elements]);
        max_pool_with_places(Engine::new(&Serial), &pooling(&window, extents), input, &mut values, &mut places);
        (values, places)
    }

    #[test]
    fn places_count_down_columns() {
        let input = [1.0, 5.0, 2.0, 0.0, 5.0, 7.0];
        assert_eq!(pooled(Padding::Valid, [1, 2, 3, 1], &input), (vec![7.0], vec![5]));
        assert_eq!(pooled(Padding::Valid, [1, 2, 3, 1], &[1.0, 5.0, 2.0, 0.0, 5.0, 3.0]), (vec![5.0], vec![2]));
    }

    #[test]
    fn the_first_row_and_column_stand_where_the_window_starts() {
        // One row and four columns in windows of 2 × 3: one column of padding before, one after.
        let (values, places) = pooled(Padding::Same, [1, 1, 4, 1], &[-1.0, -2.0, -4.0, -3.0]);
        assert_eq!((values, places), (vec![-1.0, -3.0], vec![0, 2]));
        let (values, places) = pooled(Padding::Same, [1, 1, 4, 1], &[-2.0, -1.0, -3.0, -4.0]);
        assert_eq!((values, places), (vec![-1.0, -3.0], vec![4, 0]));
    }
}
