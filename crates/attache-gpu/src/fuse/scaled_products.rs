//! Scaled products: a factor of all elements of a matrix becomes a factor of the matrix product that reads it.
//!
//! Attention scales queries, and often keys, by a constant. Their product is scaled where it is stored, which needs no
//! dispatch, and the matrices are read where they are.

use attache_gpu_ir::{BinaryOp, Expression, Primitive, Program, Scalar, Source, Step, ValueId};

use super::siblings::take_over;
use super::uses;

/// Returns the program in which products are scaled in place of their matrices. It computes the same but for rounding.
#[must_use]
pub(crate) fn scale_products(program: &Program) -> Program {
    let uses = uses(program);
    let mut factors = vec![1.0f32; program.steps.len()];
    // For each step, the input that its output is where a product has the factor; `None` if the step stays.
    let mut replaced: Vec<Option<ValueId>> = vec![None; program.steps.len()];
    for (index, step) in program.steps.iter().enumerate().filter(|(_, step)| is_product(program, step)) {
        for input in &step.inputs {
            let Some((map, data, factor)) = scaled(program, &uses, *input) else { continue };
            let product = factors[index] * factor;
            if product.is_normal() {
                (factors[index], replaced[map]) = (product, Some(data));
            }
        }
    }
    if replaced.iter().all(Option::is_none) {
        return program.clone();
    }
    rewrite(program, &factors, &replaced).unwrap_or_else(|| program.clone())
}

fn is_product(program: &Program, step: &Step) -> bool {
    let is_float = |id: &ValueId| program.value(*id).scalar == Scalar::F32;
    matches!(step.primitive, Primitive::MatMul { .. }) && step.inputs.iter().all(is_float)
}

/// Returns the step that scales what is moved to this input, what it scales, and the factor; `None` if there is none, or if
/// anything else reads the scaled elements.
fn scaled(program: &Program, uses: &[usize], mut id: ValueId) -> Option<(usize, ValueId, f32)> {
    loop {
        let Source::Step(index) = program.value(id).source else { return None };
        let step = &program.steps[index];
        if uses[id.index()] != 1 {
            return None;
        }
        match &step.primitive {
            Primitive::Reshape(_) => id = step.inputs[0],
            Primitive::IndexMap(map) if map.fill.is_none() => id = step.inputs[0],
            Primitive::Map { expression: Expression::Binary(BinaryOp::Multiply, left, right), .. } => {
                let sides = [(left, right), (right, left)];
                let (data, factor) = sides.into_iter().find_map(|(data, factor)| {
                    let (Expression::Input(data), Some(factor)) = (&**data, uniform(program, step, factor)) else {
                        return None;
                    };
                    Some((step.inputs[*data], factor))
                })?;
                let is_whole = program.shape(data) == program.shape(id) && program.value(data).scalar == Scalar::F32;
                let is_constant = matches!(program.value(data).source, Source::Constant(_));
                return (is_whole && !is_constant).then_some((index, data, factor));
            }
            _ => return None,
        }
    }
}

/// Returns the value of an expression of a map that is a constant, or an input of one constant element.
fn uniform(program: &Program, map: &Step, expression: &Expression) -> Option<f32> {
    match expression {
        Expression::Constant(factor) => Some(*factor),
        Expression::Input(input) => {
            let value = program.value(*map.inputs.get(*input)?);
            let is_one = value.scalar == Scalar::F32 && value.shape.elements() == 1;
            value.floats().filter(|_| is_one)?.first().copied()
        }
        _ => None,
    }
}

/// Returns the program without the steps that are replaced and with a factor after each product; `None` if the new program
/// does not accept a step.
fn rewrite(program: &Program, factors: &[f32], replaced: &[Option<ValueId>]) -> Option<Program> {
    let mut made = Program { values: Vec::new(), steps: Vec::new(), inputs: Vec::new(), outputs: Vec::new() };
    let mut new: Vec<Option<ValueId>> = vec![None; program.values.len()];
    for (index, value) in program.values.iter().enumerate() {
        if !matches!(value.source, Source::Step(_)) {
            made.values.push(value.clone());
            new[index] = Some(ValueId(made.values.len() as u32 - 1));
        }
    }
    for (index, step) in program.steps.iter().enumerate() {
        if let Some(data) = replaced[index] {
            new[step.outputs[0].index()] = new[data.index()];
            continue;
        }
        let inputs: Vec<ValueId> = step.inputs.iter().map(|id| new[id.index()]).collect::<Option<_>>()?;
        let mut outputs = made.step(step.primitive.clone(), &inputs, step.origin).ok()?;
        if factors[index] != 1.0 {
            let is_inner = program.value(step.outputs[0]).is_inner;
            made.values[outputs[0].index()].is_inner = is_inner;
            let expression = Expression::Input(0).multiply(Expression::Constant(factors[index]));
            let shape = made.shape(outputs[0]).clone();
            let scale = Primitive::Map { expression, shape, scalar: Scalar::F32 };
            outputs = made.step(scale, &outputs, step.origin).ok()?;
        }
        for (id, old) in outputs.into_iter().zip(&step.outputs) {
            take_over(program, &mut made, *old, id);
            new[old.index()] = Some(id);
        }
    }
    let of = |ids: &[ValueId]| ids.iter().map(|id| new[id.index()]).collect::<Option<Vec<_>>>();
    (made.inputs, made.outputs) = (of(&program.inputs)?, of(&program.outputs)?);
    Some(made)
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_gpu_ir::{HostTensor, Index, IndexMap, interpret};

    use super::*;

    /// Returns a product of matrices that are scaled, of which the second is transposed.
    fn product(shared: bool) -> Program {
        let mut program = Program::default();
        let [left, right] = [[2, 3], [4, 3]].map(|shape| program.input(Scalar::F32, shape.into()));
        let half = program.constant(Scalar::F32, Constant::from_values([1], &[0.5f32]));
        let map =
            |expression, shape: [usize; 2]| Primitive::Map { expression, shape: shape.into(), scalar: Scalar::F32 };
        let scaled = Expression::Input(0).multiply(Expression::Input(1));
        let left = program.step(map(scaled, [2, 3]), &[left, half], 0).unwrap()[0];
        let scaled = Expression::Constant(3.0).multiply(Expression::Input(0));
        let right = program.step(map(scaled, [4, 3]), &[right], 1).unwrap()[0];
        let turned = IndexMap { output: vec![3, 4], coordinates: vec![Index::Axis(1), Index::Axis(0)], fill: None };
        let right = program.step(Primitive::IndexMap(turned), &[right], 2).unwrap()[0];
        let matmul = Primitive::MatMul { transposed: [false; 2], order: Vec::new() };
        program.outputs = program.step(matmul, &[left, right], 3).unwrap();
        if shared {
            program.outputs.push(left);
        }
        program
    }

    fn results(program: &Program) -> Vec<f64> {
        let tensor = |shape: [usize; 2]| {
            let elements = (0..shape[0] * shape[1]).map(|index| index as f64 - 2.0).collect();
            HostTensor::new(shape, elements)
        };
        interpret(program, &[tensor([2, 3]), tensor([4, 3])]).unwrap().remove(0).elements
    }

    #[test]
    fn factors_follow_the_product() {
        let program = product(false);
        let scaled = scale_products(&program);
        let maps = |program: &Program| {
            program.steps.iter().filter(|step| matches!(step.primitive, Primitive::Map { .. })).count()
        };
        assert_eq!((maps(&program), maps(&scaled)), (2, 1));
        assert_eq!(results(&scaled), results(&program));
    }

    #[test]
    fn what_others_read_stays_scaled() {
        let program = product(true);
        let scaled = scale_products(&program);
        assert_eq!(scaled.steps.len(), program.steps.len(), "one factor moves, the other one stays");
        assert_eq!(results(&scaled), results(&program));
    }
}
