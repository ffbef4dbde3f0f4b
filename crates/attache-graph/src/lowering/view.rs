//! Lowering of quantized tensors that are computed as floats ([`Quantized::View`](super::Quantized::View)).
//!
//! An operator's float lowering is used for its quantized form too: constants are dequantized, and every
//! output is rounded to the values that its scale and zero point can represent. Tensors between nodes hold
//! floats.

use std::borrow::Cow;

use attache_base::{DataType, Quantization};
use attache_gpu_ir::{Expression, Primitive, Program, Scalar, UnaryOp};

use super::{Lowered, Lowering, Quantized};
use crate::{Fact, Graph, Node, Unsupported};

/// Lowers a node whose quantized tensors are computed as floats.
pub(super) fn lower(graph: &Graph, node: &Node) -> Result<Lowered, Unsupported> {
    // A partition dequantizes a tensor when it reads the tensor from memory, so every non-constant quantized
    // input needs a single usable scale.
    graph.input_facts(node).into_iter().flatten().try_for_each(|fact| AffineParameters::of(fact).map(drop))?;
    let inputs: Vec<Option<Cow<'_, Fact>>> =
        graph.input_facts(node).into_iter().map(|fact| fact.map(real).transpose()).collect::<Result<_, _>>()?;
    let outputs: Vec<&Fact> = node.outputs.iter().map(|id| graph.fact(*id)).collect();
    let reals: Vec<Cow<'_, Fact>> = outputs.iter().map(|fact| real(fact)).collect::<Result<_, _>>()?;
    let views = inputs.iter().map(|fact| fact.as_deref()).collect();
    let views = (views, reals.iter().map(|fact| &**fact).collect());
    let mut lowered = Lowering::of(node, views, super::facts(graph, node), Quantized::View)?;
    let moves = moves_only(&lowered.program);
    for (index, fact) in outputs.iter().enumerate() {
        let mut moved = graph.input_facts(node).into_iter().flatten().filter(|input| is_real(input)).peekable();
        let stays = moves && moved.peek().is_some() && moved.all(|input| quantization(input) == quantization(fact));
        if let Some(parameters) = AffineParameters::of(fact)?.filter(|_| !stays) {
            parameters.simulate(&mut lowered.program, index)?;
        }
    }
    Ok(lowered)
}

/// Returns the fact of a quantized tensor after dequantization, of type `FLOAT32`; other facts are returned
/// unchanged. Fails if a constant cannot be dequantized.
fn real(fact: &Fact) -> Result<Cow<'_, Fact>, Unsupported> {
    let Some(quantization) = quantization(fact) else { return Ok(Cow::Borrowed(fact)) };
    let unequal = || Unsupported::new("a constant whose scales do not fit its shape");
    let constant = match &fact.constant {
        Some(constant) => Some(quantization.dequantized(constant).ok_or_else(unequal)?),
        None => None,
    };
    Ok(Cow::Owned(Fact { data_type: DataType::Float32, quantization: None, constant, ..fact.clone() }))
}

/// Returns the quantization parameters of an integer tensor; `None` if it has none, or if the elements are
/// not integers.
fn quantization(fact: &Fact) -> Option<&Quantization> {
    use DataType::{Int2, Int4, Int8, Int16, Int32, Int64, UInt4, UInt8};
    let is_integer = matches!(fact.data_type, Int2 | Int4 | Int8 | Int16 | Int32 | Int64 | UInt4 | UInt8);
    fact.quantization.as_ref().filter(|quantization| is_integer && !quantization.scale.is_empty())
}

/// Whether the tensor is float or quantized, so that the lowered program computes it as floats. Other tensors
/// are indices, sizes and booleans.
fn is_real(fact: &Fact) -> bool {
    quantization(fact).is_some() || matches!(fact.data_type, DataType::Float16 | DataType::Float32)
}

/// Whether the program only moves elements. Outputs with the quantization parameters of the inputs then need
/// no rounding.
fn moves_only(program: &Program) -> bool {
    let moves = |primitive: &Primitive| match primitive {
        Primitive::IndexMap(map) => map.fill.is_none_or(|fill| fill == 0.0),
        Primitive::Reshape(_) | Primitive::Concatenate { .. } | Primitive::Gather(_) => true,
        _ => false,
    };
    program.steps.iter().all(|step| moves(&step.primitive))
}

/// Offset, in quantization steps, that [`AffineParameters::quotient`] adds to the magnitude before rounding
/// so that ties round away from zero. It is larger than the floating-point error, and smaller than the
/// distance from one half of any quotient by a divisor of a few hundred that is not a tie.
const NUDGE: f32 = 1.0 / 2048.0;

/// Quantization parameters and range of a tensor with a single scale, which determine the floats that it can
/// represent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AffineParameters {
    /// The difference between the floats that neighbouring quantized elements represent; 0 if all represent 0.
    pub scale: f32,
    /// The quantized element that represents 0.0.
    pub zero_point: f32,
    /// The least and the largest quantized element of the tensor's type.
    pub stored: (f32, f32),
}

impl AffineParameters {
    /// Returns the parameters of a quantized tensor; `None` if the tensor is constant or not quantized.
    ///
    /// # Errors
    ///
    /// Fails if the element type of a quantized tensor that is not constant is not `INT8`, `UINT8` or
    /// `INT16`, or if there is no single finite scale that is not negative.
    pub fn of(fact: &Fact) -> Result<Option<Self>, Unsupported> {
        let Some(quantization) = quantization(fact).filter(|_| fact.constant.is_none()) else { return Ok(None) };
        let stored = match fact.data_type {
            DataType::Int8 => (-128.0, 127.0),
            DataType::UInt8 => (0.0, 255.0),
            DataType::Int16 => (-32768.0, 32767.0),
            other => return Err(Unsupported::new(format!("a quantized tensor of type {other} that is not constant"))),
        };
        match (quantization.scale.as_slice(), quantization.zero_point.as_slice()) {
            ([scale], [zero_point]) if scale.is_finite() && *scale >= 0.0 => {
                Ok(Some(Self { scale: *scale, zero_point: *zero_point as f32, stored }))
            }
            _ => Err(Unsupported::new("a quantized tensor without a scale, or with several, that is not constant")),
        }
    }

    /// Number of quantization steps in a unit.
    fn steps(&self) -> f32 {
        if self.scale > 0.0 { self.scale.recip() } else { 0.0 }
    }

    /// Returns the expression that quantizes the float `real`: the nearest quantized element, as a float,
    /// clamped to the type's range.
    pub fn quantize(&self, real: Expression) -> Expression {
        let (least, most) = self.stored;
        let steps = Self::away_from_zero(real.multiply(Expression::Constant(self.steps())));
        steps.add(Expression::Constant(self.zero_point)).clamp(least, most)
    }

    /// Returns the expression that rounds `number` to the nearest integer, ties away from zero, as TensorFlow
    /// Lite rounds.
    pub fn away_from_zero(number: Expression) -> Expression {
        let size = number.clone().unary(UnaryOp::Absolute).add(Expression::Constant(0.5)).unary(UnaryOp::Floor);
        number.unary(UnaryOp::Sign).multiply(size)
    }

    /// Returns the expression that rounds `real` to the nearest representable float. `real` is an integer
    /// number of quantization steps divided by an integer, such as a mean. A tie goes to the float whose
    /// quantized element is farther from zero, despite floating-point error in `real`: a quotient that is not
    /// a tie is farther from one than the error.
    pub fn quotient(&self, real: Expression) -> Expression {
        let steps = real.multiply(Expression::Constant(self.steps()));
        let stored = steps.add(Expression::Constant(self.zero_point));
        let nudge = stored.clone().unary(UnaryOp::Sign).multiply(Expression::Constant(NUDGE));
        self.dequantize(Self::away_from_zero(stored.add(nudge)))
    }

    /// Returns the expression that dequantizes `stored`: the float that a quantized element represents.
    pub fn dequantize(&self, stored: Expression) -> Expression {
        stored.subtract(Expression::Constant(self.zero_point)).multiply(Expression::Constant(self.scale))
    }

    /// Appends to the program a map that rounds its output with index `output` to the representable floats
    /// (simulated quantization), and makes the rounded value the output.
    fn simulate(&self, program: &mut Program, output: usize) -> Result<(), Unsupported> {
        let made = program.outputs[output];
        let shape = program.shape(made).clone();
        let expression = self.dequantize(self.quantize(Expression::Input(0)));
        let map = Primitive::Map { expression, shape, scalar: Scalar::F32 };
        program.outputs[output] = program.step(map, &[made], 0)?[0];
        Ok(())
    }
}
