//! MaxUnpooling2D: MediaPipe's custom inverse of MaxPoolingWithArgmax2D, with the same options and indices: each
//! element is written to its index in its window, and all other elements are zero.

use std::sync::Arc;

use attache_base::{DataType, Padding, Shape};
use attache_gpu_ir::Primitive;
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};

use crate::shared::pool::{Tiling, tiling};
use crate::shared::support::{arity, countable, image, one_of, refuse, required};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Custom("MaxUnpooling2D"), versions: 1..=1, parse }];

/// Inputs: elements and their indices. `size` is the window's `[height, width]`.
#[derive(Debug)]
struct MaxUnpooling2d {
    size: [usize; 2],
}

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let Tiling { padding, size } = tiling(declaration)?;
    if padding != Padding::Valid {
        return Err(OpError::unsupported("only VALID padding is implemented"));
    }
    Ok(Arc::new(MaxUnpooling2d { size }))
}

impl MaxUnpooling2d {
    fn output(&self, input: &Shape) -> Result<Shape, OpError> {
        let ([batches, height, width, channels], [rows, columns]) = (image(0, input)?, self.size);
        let extents = height.checked_mul(rows).zip(width.checked_mul(columns));
        let (height, width) = extents.ok_or_else(|| OpError::invalid("the output is too large"))?;
        countable(Shape::from([batches, height, width, channels]))
    }
}

/// Writes each element to its index; elements with an index outside of the window are dropped.
fn unpool(size: [usize; 2], extents: [usize; 4], values: &[f32], places: &[u32], output: &mut [f32]) {
    let ([_, height, width, channels], [rows, columns]) = (extents, size);
    output.fill(0.0);
    for (index, (value, place)) in values.iter().zip(places).enumerate() {
        let (channel, pixel, place) = (index % channels, index / channels, *place as usize);
        let (x, y, batch) = (pixel % width, pixel / width % height, pixel / width / height);
        let (row, column) = (place % rows, place / rows);
        if column < columns {
            let (y, x) = (y * rows + row, x * columns + column);
            output[((batch * height * rows + y) * width * columns + x) * channels + channel] = *value;
        }
    }
}

impl Op for MaxUnpooling2d {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (values, places) = (required(inputs, 0)?, required(inputs, 1)?);
        one_of(0, values, &[DataType::Float32])?;
        one_of(1, places, &[DataType::Float32])?;
        let (Some(shape), Some(other)) = (&values.shape, &places.shape) else {
            return Ok(vec![Inferred::unknown(values.data_type)]);
        };
        if shape != other {
            return Err(OpError::invalid(format!("elements of shape {shape} and places of shape {other}")));
        }
        Ok(vec![Inferred::new(values.data_type, self.output(shape)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (values, places) = (eval.input(0)?, eval.input(1)?);
        let extents = image(0, values.shape)?;
        let places = bytemuck::cast_slice(places.values::<f32>()?);
        unpool(self.size, extents, values.values()?, places, eval.outputs[0].values()?);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        self.output(lowering.input_shape(0)?).map_err(refuse)?;
        let operands = [lowering.float_input(0)?, lowering.integer_input(1)?];
        let output = lowering.emit(Primitive::Unpool { size: self.size }, &operands)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_go_to_their_places() {
        let mut output = [9.0; 12];
        unpool([2, 3], [1, 1, 2, 1], &[5.0, 6.0], &[1, 4], &mut output);
        assert_eq!(output, [0.0, 0.0, 0.0, 0.0, 0.0, 6.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_place_outside_of_the_window_is_nowhere() {
        let mut output = [9.0; 6];
        unpool([2, 3], [1, 1, 1, 1], &[5.0], &[u32::MAX], &mut output);
        assert_eq!(output, [0.0; 6]);
    }

    #[test]
    fn elements_and_places_have_one_shape() {
        let op = MaxUnpooling2d { size: [2, 3] };
        let fact = |shape: [usize; 4]| Fact::new(DataType::Float32, shape);
        let infer = |places| op.infer(&[Some(&fact([1, 2, 3, 4])), Some(&fact(places))]);
        assert_eq!(infer([1, 2, 3, 4]).unwrap()[0].shape, Some(Shape::from([1, 4, 9, 4])));
        assert!(matches!(infer([1, 2, 3, 1]), Err(OpError::Invalid(_))));
    }
}
