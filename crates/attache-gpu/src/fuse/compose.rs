//! Composes the expression of a map with that of the kernel that computes one of the map's inputs, so that
//! the two can be fused.

use attache_gpu_ir::{Expression, IntExpression, Primitive, Program, Scalar, ValueId};

use super::MAX_SIZE;
use crate::kernel::{Epilogue, Kernel, computed_scalar};

/// Maximum nodes of the producer's integer expression if the map uses its value more than once, since the
/// expression is then evaluated several times.
const MAX_REPEATED: usize = 8;

/// Composes the expression of a map that is fused into `producer`, the kernel that computes one of its
/// inputs.
pub(super) struct Composed<'a> {
    pub(super) producer: &'a Kernel,
    /// For each of the map's inputs, its index among the fused kernel's operands; `None` if it is the
    /// producer's output.
    pub(super) operand_indices: &'a [Option<usize>],
    /// The input index of the fused kernel's first operand in the composed expression: 0 if the producer is a
    /// map, otherwise 1.
    pub(super) first: usize,
}

impl Composed<'_> {
    /// Returns the composed float expression; `None` if the map's or the producer's expression is not of
    /// floats, or if the composed expression is too large.
    pub(super) fn float(&self, map: &Kernel) -> Option<Expression> {
        let Primitive::Map { expression, .. } = &map.primitive else { return None };
        let inner = match (&self.producer.primitive, &self.producer.epilogue) {
            (Primitive::Map { expression, .. }, _) | (_, Epilogue::Float(expression)) => expression,
            (_, Epilogue::Int(_)) => return None,
        };
        let composed = expression.substitute(&|input| match self.operand_indices[input] {
            None => inner.clone(),
            Some(operand) => Expression::Input(operand + self.first),
        });
        (composed.size() <= MAX_SIZE).then_some(composed)
    }

    /// Returns the composed integer expression; `None` if the map's or the producer's expression is not of
    /// integers, if the composed expression is too large, or if a large producer expression would be
    /// duplicated.
    pub(super) fn integer(&self, program: &Program, map: &Kernel) -> Option<IntExpression> {
        let Primitive::IntMap { expression, .. } = &map.primitive else { return None };
        let identity = IntExpression::Input(0);
        let inner = match (&self.producer.primitive, &self.producer.epilogue) {
            (Primitive::IntMap { expression, .. }, _) | (_, Epilogue::Int(expression)) => expression,
            (_, epilogue) if epilogue.is_identity() && computed_scalar(program, self.producer) == Scalar::I32 => {
                &identity
            }
            _ => return None,
        };
        let uses = std::cell::Cell::new(0);
        let composed = expression.substitute(&|input| match self.operand_indices[input] {
            None => {
                uses.set(uses.get() + 1);
                inner.clone()
            }
            Some(operand) => IntExpression::Input(operand + self.first),
        });
        let repeats = uses.get() > 1 && inner.size() > MAX_REPEATED;
        (composed.size() <= MAX_SIZE && !repeats).then_some(composed)
    }
}

/// Removes duplicate inputs from a map, renumbers its expression accordingly, and returns the map.
pub(super) fn read_once(mut map: Kernel) -> Kernel {
    let mut inputs: Vec<ValueId> = Vec::new();
    let indices: Vec<usize> = (map.inputs.iter())
        .map(|id| {
            inputs.iter().position(|input| input == id).unwrap_or_else(|| {
                inputs.push(*id);
                inputs.len() - 1
            })
        })
        .collect();
    match &mut map.primitive {
        Primitive::Map { expression, .. } => {
            *expression = expression.substitute(&|input| Expression::Input(indices[input]));
        }
        Primitive::IntMap { expression, .. } => {
            *expression = expression.substitute(&|input| IntExpression::Input(indices[input]));
        }
        _ => {}
    }
    map.inputs = inputs;
    map
}
