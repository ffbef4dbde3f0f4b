//! What the table holds of each operator, and what a parser gets to see.

use std::ops::RangeInclusive;
use std::sync::Arc;

use attache_base::{Activation, DataType, Padding, Quantization};
use attache_graph::{Inferred, Op, OpError};
use attache_model::schema::{self, BuiltinOperator};
use attache_model::{Operator, OperatorCode};

use crate::subgraphs::Callees;

/// How files name an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// One of the schema's.
    Builtin(BuiltinOperator),
    /// A custom operator, by its code.
    Custom(&'static str),
}

/// One implemented operator.
#[derive(Debug)]
pub struct Definition {
    /// How files name it.
    pub code: Code,
    /// The versions that are implemented.
    pub versions: RangeInclusive<i32>,
    /// Turns a file's options into the operator. Only reads attributes: what they mean together with shapes is for
    /// `Op::infer` to check.
    pub parse: fn(&Declaration<'_>) -> Result<Arc<dyn Op>, OpError>,
}

impl Definition {
    /// TensorFlow Lite's name, as `CONV_2D`, or the custom operator's code.
    pub fn name(&self) -> &'static str {
        match self.code {
            Code::Builtin(builtin) => builtin.variant_name().unwrap_or("?"),
            Code::Custom(name) => name,
        }
    }

    /// Whether this is the operator that a file names.
    pub fn is(&self, code: &OperatorCode) -> bool {
        match self.code {
            Code::Builtin(builtin) => code.custom.is_none() && builtin == code.builtin,
            Code::Custom(name) => code.custom.as_deref() == Some(name),
        }
    }
}

/// One operator as a file declares it.
pub struct Declaration<'a> {
    /// Its code, inputs and outputs, and a custom operator's options.
    pub operator: &'a Operator,
    /// The file's view, for the options: `options.builtin_options_as_…()`.
    pub options: schema::Operator<'a>,
    /// Types and shapes of the outputs as the file states them. Only for the few operators whose meaning hangs on them.
    pub outputs: Vec<Inferred>,
    /// Types and scales of what the file calls its intermediates: some operators of stored numbers round there.
    pub intermediates: Vec<(DataType, Option<Quantization>)>,
    /// The model's subgraphs, for the operators that run some.
    pub(crate) callees: &'a Callees,
}

impl Declaration<'_> {
    /// TensorFlow Lite's name of a builtin operator.
    pub(crate) fn builtin_name(&self) -> &'static str {
        self.operator.code.builtin.variant_name().unwrap_or_default()
    }

    /// The definition's version that the file asks for.
    pub fn version(&self) -> i32 {
        self.operator.code.version
    }

    /// The error for an operator that can't do without its options.
    pub fn no_options(&self) -> OpError {
        OpError::invalid("the file gives it no options; convert the model again")
    }

    /// A custom operator's options as little-endian 32-bit integers, as many as there are.
    pub fn custom_words(&self) -> Vec<i32> {
        let bytes = self.operator.custom_options.as_deref().unwrap_or(&[]);
        bytes.chunks_exact(4).map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
    }
}

/// The padding of a file's options.
pub(crate) fn padding(padding: schema::Padding) -> Result<Padding, OpError> {
    match padding {
        schema::Padding::SAME => Ok(Padding::Same),
        schema::Padding::VALID => Ok(Padding::Valid),
        other => Err(OpError::invalid(format!("padding {} is neither SAME (0) nor VALID (1)", other.0))),
    }
}

/// The padding of a custom operator's options, coded as in TensorFlow Lite's C interface.
pub(crate) fn custom_padding(code: i32) -> Result<Padding, OpError> {
    match code {
        1 => Ok(Padding::Same),
        2 => Ok(Padding::Valid),
        _ => Err(OpError::invalid(format!("padding {code} is neither SAME (1) nor VALID (2)"))),
    }
}

/// The fused activation of a file's options. `SIGN_BIT` is in the schema, but no kernel of TensorFlow Lite has it.
pub(crate) fn activation(activation: schema::ActivationFunctionType) -> Result<Activation, OpError> {
    match Activation::from_code(activation.0) {
        Some(Activation::SignBit) => Err(OpError::unsupported("the fused activation SIGN_BIT is not implemented")),
        Some(activation) => Ok(activation),
        None => Err(OpError::invalid(format!("fused activation {} does not exist", activation.0))),
    }
}

/// An option that must be a positive number.
pub(crate) fn positive(name: &str, value: i32) -> Result<usize, OpError> {
    match usize::try_from(value) {
        Ok(value) if value > 0 => Ok(value),
        _ => Err(OpError::invalid(format!("{name} is {value}; it must be at least 1"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paddings_are_coded_in_two_ways() {
        assert_eq!(
            (padding(schema::Padding(0)).ok(), custom_padding(1).ok()),
            (Some(Padding::Same), Some(Padding::Same))
        );
        assert_eq!(
            (padding(schema::Padding(1)).ok(), custom_padding(2).ok()),
            (Some(Padding::Valid), Some(Padding::Valid))
        );
        assert!(padding(schema::Padding(2)).is_err());
        assert!(custom_padding(0).is_err() && custom_padding(3).is_err());
    }
}
