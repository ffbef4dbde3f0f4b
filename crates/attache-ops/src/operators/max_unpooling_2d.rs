//! MaxUnpooling2D: MediaPipe's custom inverse of MaxPoolingWithArgmax2D, with the same options and indices: each
//! element is written to its index in its window, and all other elements are zero.

use attache_base::{Padding, Shape};
use attache_gpu_ir::Primitive;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_kernels::unpooling::unpool;

use crate::shared::pool::{Tiling, tiling};
use crate::shared::support::{countable, image, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Custom("MaxUnpooling2D"),
    versions: 1..=1,
    inputs: &[input("input").float(), input("indices").float()],
    parse,
}];

/// MaxUnpooling2D with the `[height, width]` of its windows. Inputs: elements, and their indices within
/// windows.
#[derive(Debug)]
struct MaxUnpooling2d {
    size: [usize; 2],
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let Tiling { padding, size } = tiling(declaration)?;
    if padding != Padding::Valid {
        return Err(OpError::unsupported("only VALID padding is implemented"));
    }
    Ok(Box::new(MaxUnpooling2d { size }))
}

impl MaxUnpooling2d {
    fn output(&self, input: &Shape) -> Result<Shape, OpError> {
        let ([batches, height, width, channels], [rows, columns]) = (image(0, input)?, self.size);
        let extents = height.checked_mul(rows).zip(width.checked_mul(columns));
        let (height, width) = extents.ok_or_else(|| OpError::invalid("the output is too large"))?;
        countable(Shape::from([batches, height, width, channels]))
    }
}

impl Operator for MaxUnpooling2d {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [values, places] = inputs.required();
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
        let engine = Engine::new(eval.parallel);
        unpool(engine, self.size, extents, values.values()?, places, eval.outputs[0].values()?);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        self.output(lowering.input_shape(0)?).map_err(refuse)?;
        let operands = [lowering.float_input(0)?, lowering.integer_input(1)?];
        let output = lowering.emit(Primitive::Unpool { size: self.size }, &operands)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::DataType;
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn elements_and_places_have_one_shape() {
        let op = MaxUnpooling2d { size: [2, 3] };
        let fact = |shape: [usize; 4]| Fact::new(DataType::Float32, shape);
        let infer = |places| DEFINITIONS[0].infer(&op, &[Some(&fact([1, 2, 3, 4])), Some(&fact(places))]);
        assert_eq!(infer([1, 2, 3, 4]).unwrap()[0].shape, Some(Shape::from([1, 4, 9, 4])));
        assert!(matches!(infer([1, 2, 3, 1]), Err(OpError::Invalid(_))));
    }
}
