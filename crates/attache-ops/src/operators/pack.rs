//! PACK: stacks inputs of equal shape along a new axis.

use attache_base::Shape;
use attache_gpu_ir::Primitive;
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_kernels::movement::concatenate;
use attache_model::schema::BuiltinOperator;

use crate::shared::quantized::require_one_scale;
use crate::shared::support::{countable, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::PACK),
    versions: 1..=5,
    inputs: &[input("values").movable(), input("values").repeated()],
    parse,
}];

#[derive(Debug)]
struct Pack {
    /// Position of the new axis in the output; negative axes count from the end.
    axis: i64,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_pack_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let (stated, inputs) = (options.values_count(), declaration.operator.inputs.len());
    if usize::try_from(stated) != Ok(inputs) {
        return Err(OpError::invalid(format!("{inputs} inputs where its options say {stated}")));
    }
    Ok(Box::new(Pack { axis: i64::from(options.axis()) }))
}

impl Pack {
    /// Returns the position of the new axis, and an input's shape with that axis inserted at extent 1.
    fn slice(&self, shape: &Shape) -> Result<(usize, Shape), OpError> {
        let axis = shape.with_rank(shape.rank() + 1).axis(self.axis);
        let axis = axis.ok_or_else(|| OpError::invalid(format!("{shape} cannot be given an axis {}", self.axis)))?;
        let mut extents = shape.to_vec();
        extents.insert(axis, 1);
        Ok((axis, extents.into()))
    }
}

impl Operator for Pack {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let first = inputs.fact(0);
        for index in 1..inputs.count() {
            let input = inputs.fact(index);
            let same_shape = input.shape.is_none() || first.shape.is_none() || input.shape == first.shape;
            if input.data_type != first.data_type || !same_shape {
                return Err(OpError::invalid(format!("input {index} is not of the first one's type and shape")));
            }
        }
        let Some(shape) = &first.shape else { return Ok(vec![Inferred::unknown(first.data_type)]) };
        let (axis, slice) = self.slice(shape)?;
        let mut extents = slice.to_vec();
        extents[axis] = inputs.count();
        Ok(vec![Inferred::new(first.data_type, countable(extents.into())?)])
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        require_one_scale(inputs, 0..inputs.len(), outputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let first = eval.input(0)?;
        let (axis, slice) = self.slice(first.shape)?;
        let outer = slice[..axis].iter().product();
        let inputs: Vec<_> = (0..eval.inputs.len()).map(|index| eval.input(index)).collect::<Result<_, _>>()?;
        let parts: Vec<&[u8]> = inputs.iter().map(|input| input.bytes).collect();
        concatenate(Engine::new(eval.parallel), &parts, outer, eval.outputs[0].bytes);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (axis, slice) = self.slice(lowering.input_shape(0)?).map_err(refuse)?;
        let mut slices = Vec::with_capacity(lowering.input_count());
        for index in 0..lowering.input_count() {
            let input = lowering.input(index)?;
            slices.push(lowering.reshape(input, &slice)?);
        }
        let output = lowering.emit(Primitive::Concatenate { axis }, &slices)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::DataType;

    use super::*;

    fn output<const N: usize>(axis: i64, shapes: &[[usize; N]]) -> Result<Shape, OpError> {
        let facts: Vec<_> = shapes.iter().map(|shape| Fact::new(DataType::Float32, *shape)).collect();
        let inputs: Vec<_> = facts.iter().map(Some).collect();
        Ok(DEFINITIONS[0].infer(&Pack { axis }, &inputs)?.remove(0).shape.unwrap())
    }

    #[test]
    fn the_axis_is_one_of_the_outputs() {
        assert_eq!(output(1, &[[2, 3], [2, 3]]).unwrap(), Shape::from([2, 2, 3]));
        assert_eq!(output(-1, &[[2, 3]; 4]).unwrap(), Shape::from([2, 3, 4]));
        assert_eq!(output(0, &[[]; 3]).unwrap(), Shape::from([3]));
        assert!(output(3, &[[2, 3]]).is_err());
        assert!(output(0, &[[2, 3], [3, 2]]).is_err());
        assert!(output::<0>(0, &[]).is_err());
    }
}
