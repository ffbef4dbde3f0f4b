//! An operator's entry in the table of definitions, and the input of its parser.

mod inputs;
mod operator;

use std::ops::RangeInclusive;
use std::sync::Arc;

use attache_base::{Activation, DataType, Padding, Quantization};
use attache_graph::{Inferred, Op, OpError};
use attache_model::OperatorCode;
use attache_model::schema::{self, BuiltinOperator};

use crate::subgraphs::Callees;

pub(crate) use inputs::{Facts, one_of};
pub use inputs::{Input, Types, input};
use operator::Declared;
pub(crate) use operator::Operator;

/// How files identify an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A builtin operator of the schema.
    Builtin(BuiltinOperator),
    /// A custom operator, identified by its code.
    Custom(&'static str),
}

/// An implemented operator.
#[derive(Debug)]
pub struct Definition {
    /// How files identify it.
    pub code: Code,
    /// The implemented versions.
    pub versions: RangeInclusive<i32>,
    /// Its inputs. A node's inputs are checked against them before the operator sees them.
    pub inputs: &'static [Input],
    /// Parses a file's options into the operator. It only reads attributes; `infer` checks them against shapes.
    pub(crate) parse: fn(&Declaration<'_>) -> Parsed,
}

/// What a definition's parser returns.
pub(crate) type Parsed = Result<Box<dyn Operator>, OpError>;

impl Definition {
    /// TensorFlow Lite's name, such as `CONV_2D`, or the custom operator's code.
    pub fn name(&self) -> &'static str {
        match self.code {
            Code::Builtin(builtin) => builtin.variant_name().unwrap_or("?"),
            Code::Custom(name) => name,
        }
    }

    /// Whether a file's operator code identifies this operator.
    pub fn is(&self, code: &OperatorCode) -> bool {
        match self.code {
            Code::Builtin(builtin) => code.custom.is_none() && builtin == code.builtin,
            Code::Custom(name) => code.custom.as_deref() == Some(name),
        }
    }

    /// Parses the operator that a file declares.
    pub(crate) fn op(&self, declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
        let operator = (self.parse)(declaration)?;
        Ok(Arc::new(Declared { name: self.name(), inputs: self.inputs, operator }))
    }

    /// What an operator with this definition infers from a node's inputs.
    #[cfg(test)]
    pub(crate) fn infer(
        &self,
        operator: &dyn Operator,
        inputs: &[Option<&attache_graph::Fact>],
    ) -> Result<Vec<Inferred>, OpError> {
        operator.infer(Facts::checked(self.inputs, inputs)?)
    }
}

/// An operator as declared by a file.
pub struct Declaration<'a> {
    /// Its code, inputs and outputs, and the options of a custom operator.
    pub operator: &'a attache_model::Operator,
    /// The file's view of the operator, for its options: `options.builtin_options_as_…()`.
    pub options: schema::Operator<'a>,
    /// Types and shapes of the outputs as stated by the file. Only for the few operators whose meaning depends on them.
    pub outputs: Vec<Inferred>,
    /// Types and scales of the file's intermediate tensors; some quantized operators round to them.
    pub intermediates: Vec<(DataType, Option<Quantization>)>,
    /// The model's subgraphs, for operators that call them.
    pub(crate) callees: &'a Callees,
}

impl Declaration<'_> {
    /// The operator version that the file declares.
    pub fn version(&self) -> i32 {
        self.operator.code.version
    }

    /// The error for missing options of an operator that requires them.
    pub fn no_options(&self) -> OpError {
        OpError::invalid("the file gives it no options; convert the model again")
    }

    /// A custom operator's options as little-endian 32-bit integers; an incomplete last word is ignored.
    pub fn custom_words(&self) -> Vec<i32> {
        let bytes = self.operator.custom_options.as_deref().unwrap_or(&[]);
        bytes.chunks_exact(4).map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
    }
}

/// Decodes the padding of a builtin operator's options.
pub(crate) fn padding(padding: schema::Padding) -> Result<Padding, OpError> {
    match padding {
        schema::Padding::SAME => Ok(Padding::Same),
        schema::Padding::VALID => Ok(Padding::Valid),
        other => Err(OpError::invalid(format!("padding {} is neither SAME (0) nor VALID (1)", other.0))),
    }
}

/// Decodes the padding of a custom operator's options, coded as in TensorFlow Lite's C interface.
pub(crate) fn custom_padding(code: i32) -> Result<Padding, OpError> {
    match code {
        1 => Ok(Padding::Same),
        2 => Ok(Padding::Valid),
        _ => Err(OpError::invalid(format!("padding {code} is neither SAME (1) nor VALID (2)"))),
    }
}

/// Decodes a fused activation. `SIGN_BIT` is in the schema, but no kernel of TensorFlow Lite implements it.
pub(crate) fn activation(activation: schema::ActivationFunctionType) -> Result<Activation, OpError> {
    match Activation::from_code(activation.0) {
        Some(Activation::SignBit) => Err(OpError::unsupported("the fused activation SIGN_BIT is not implemented")),
        Some(activation) => Ok(activation),
        None => Err(OpError::invalid(format!("fused activation {} does not exist", activation.0))),
    }
}

/// Checks that an option is a positive integer.
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
