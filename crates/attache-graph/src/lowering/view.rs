//! Quantized tensors seen as the reals that they stand for.
//!
//! An operator's float form serves its quantized one: constants are dequantized, and whatever the node makes is rounded
//! to the numbers that its output can store. Tensors between nodes hold reals.

use std::borrow::Cow;

use attache_base::{DataType, Quantization};
use attache_gpu_ir::{Expression, Primitive, Program, Scalar, Unary};

use super::{Lowered, Lowering};
use crate::{Fact, Graph, Node, Refusal};

/// The node's work on reals.
pub(super) fn lower(graph: &Graph, node: &Node) -> Result<Lowered, Refusal> {
    // An island that reads a tensor makes it from what is stored: that must be possible too.
    graph.input_facts(node).into_iter().flatten().try_for_each(|fact| Grid::of(fact).map(drop))?;
    let inputs: Vec<Option<Cow<'_, Fact>>> =
        graph.input_facts(node).into_iter().map(|fact| fact.map(real).transpose()).collect::<Result<_, _>>()?;
    let outputs: Vec<&Fact> = node.outputs.iter().map(|id| graph.fact(*id)).collect();
    let reals: Vec<Cow<'_, Fact>> = outputs.iter().map(|fact| real(fact)).collect::<Result<_, _>>()?;
    let views = inputs.iter().map(|fact| fact.as_deref()).collect();
    let views = (views, reals.iter().map(|fact| &**fact).collect());
    let mut lowered = Lowering::of(node, views, super::facts(graph, node))?;
    let moves = moves_only(&lowered.program);
    for (index, fact) in outputs.iter().enumerate() {
        let mut moved = graph.input_facts(node).into_iter().flatten().filter(|input| is_real(input)).peekable();
        let stays = moves && moved.peek().is_some() && moved.all(|input| quantization(input) == quantization(fact));
        if let Some(grid) = Grid::of(fact)?.filter(|_| !stays) {
            grid.simulate(&mut lowered.program, index)?;
        }
    }
    Ok(lowered)
}

/// The tensor as the reals that it stands for; as it is where it isn't quantized.
fn real(fact: &Fact) -> Result<Cow<'_, Fact>, Refusal> {
    let Some(quantization) = quantization(fact) else { return Ok(Cow::Borrowed(fact)) };
    let unequal = || Refusal::new("a constant whose scales do not fit its shape");
    let constant = match &fact.constant {
        Some(constant) => Some(quantization.dequantized(constant).ok_or_else(unequal)?),
        None => None,
    };
    Ok(Cow::Owned(Fact { data_type: DataType::Float32, quantization: None, constant, ..fact.clone() }))
}

/// How a tensor is quantized, where it is.
fn quantization(fact: &Fact) -> Option<&Quantization> {
    use DataType::{Int4, Int8, Int16, Int32, Int64, UInt8};
    let is_integer = matches!(fact.data_type, Int4 | Int8 | UInt8 | Int16 | Int32 | Int64);
    fact.quantization.as_ref().filter(|quantization| is_integer && !quantization.scale.is_empty())
}

/// Whether the program sees the tensor as reals; all else is indices, sizes and truth.
fn is_real(fact: &Fact) -> bool {
    quantization(fact).is_some() || matches!(fact.data_type, DataType::Float16 | DataType::Float32)
}

/// Whether the program only moves elements, so that what lies on a grid stays on it.
fn moves_only(program: &Program) -> bool {
    let moves = |primitive: &Primitive| match primitive {
        Primitive::IndexMap(map) => map.fill.is_none_or(|fill| fill == 0.0),
        Primitive::Reshape(_) | Primitive::Concatenate { .. } | Primitive::Gather(_) => true,
        _ => false,
    };
    program.steps.iter().all(|step| moves(&step.primitive))
}

/// More than reals err, and less than a quotient by a few hundred can be from a half.
const NUDGE: f32 = 1.0 / 2048.0;

/// The reals that a tensor can store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Between two neighbours.
    pub scale: f32,
    /// What stands for zero.
    pub zero_point: f32,
    /// The least and the largest stored number.
    pub stored: (f32, f32),
}

impl Grid {
    /// The grid of a quantized tensor with one scale; `None` where it isn't quantized.
    pub fn of(fact: &Fact) -> Result<Option<Self>, Refusal> {
        let Some(quantization) = quantization(fact).filter(|_| fact.constant.is_none()) else { return Ok(None) };
        let stored = match fact.data_type {
            DataType::Int8 => (-128.0, 127.0),
            DataType::UInt8 => (0.0, 255.0),
            DataType::Int16 => (-32768.0, 32767.0),
            other => return Err(Refusal::new(format!("a quantized tensor of type {other} that is not constant"))),
        };
        match (quantization.scale.as_slice(), quantization.zero_point.as_slice()) {
            ([scale], [zero_point]) if scale.is_finite() && *scale > 0.0 => {
                Ok(Some(Self { scale: *scale, zero_point: *zero_point as f32, stored }))
            }
            _ => Err(Refusal::new("a quantized tensor without a scale, or with several, that is not constant")),
        }
    }

    /// The stored number nearest to a real one.
    pub fn quantize(&self, real: Expression) -> Expression {
        let (least, most) = self.stored;
        let steps = Self::away_from_zero(real.multiply(Expression::Constant(self.scale.recip())));
        steps.add(Expression::Constant(self.zero_point)).clamp(least, most)
    }

    /// The nearest integer, of two the one that is farther from zero: TensorFlow Lite's rounding.
    pub fn away_from_zero(number: Expression) -> Expression {
        let size = number.clone().unary(Unary::Absolute).add(Expression::Constant(0.5)).unary(Unary::Floor);
        number.unary(Unary::Sign).multiply(size)
    }

    /// The real number on the grid nearest to a quotient of an integer of steps, of two the one whose stored number is
    /// farther from zero. A quotient that isn't halfway between two integers is farther from there than reals err.
    pub fn quotient(&self, real: Expression) -> Expression {
        let steps = real.multiply(Expression::Constant(self.scale.recip()));
        let stored = steps.add(Expression::Constant(self.zero_point));
        let nudge = stored.clone().unary(Unary::Sign).multiply(Expression::Constant(NUDGE));
        self.dequantize(Self::away_from_zero(stored.add(nudge)))
    }

    /// The real number that a stored one stands for.
    pub fn dequantize(&self, stored: Expression) -> Expression {
        stored.subtract(Expression::Constant(self.zero_point)).multiply(Expression::Constant(self.scale))
    }

    /// Rounds an output of the program to the grid.
    fn simulate(&self, program: &mut Program, output: usize) -> Result<(), Refusal> {
        let made = program.outputs[output];
        let shape = program.shape(made).clone();
        let expression = self.dequantize(self.quantize(Expression::Input(0)));
        let map = Primitive::Map { expression, shape, scalar: Scalar::F32 };
        program.outputs[output] = program.step(map, &[made], 0)?[0];
        Ok(())
    }
}
