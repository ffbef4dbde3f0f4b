//! [`Definition`], an operator's row in the table of implemented operators, and [`Declaration`], the operator
//! of a model file that a definition's parser reads. Also the decoders that several parsers share: padding,
//! fused activation, positive integers.

mod halves;
mod inputs;
mod operator;
mod strings;

use std::fmt;
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
pub(crate) use operator::{Combination, Operator};

/// How a model file identifies the kind of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A builtin operator, identified by its code in the schema.
    Builtin(BuiltinOperator),
    /// A custom operator, identified by its `custom_code`, a string.
    Custom(&'static str),
}

/// An implemented kind of operator.
#[derive(Debug)]
pub struct Definition {
    /// The code by which model files identify the operator.
    pub code: Code,
    /// The operator versions that are implemented; others are unsupported.
    pub versions: RangeInclusive<i32>,
    /// Declarations of the operator's inputs, in order. A node's inputs are checked against them before the
    /// operator sees them.
    pub inputs: &'static [Input],
    /// Parses the options of an operator in a file. Only reads attributes; `infer` of the result checks them
    /// against the shapes of inputs.
    pub(crate) parse: fn(&Declaration<'_>) -> Parsed,
}

/// What a definition's `parse` function returns: the operator with its attributes, or why the options are
/// invalid or unsupported.
pub(crate) type Parsed = Result<Box<dyn Operator>, OpError>;

impl Definition {
    /// Returns a definition of the versions from 1 to `newest`.
    pub(crate) const fn up_to(
        newest: i32,
        code: Code,
        inputs: &'static [Input],
        parse: fn(&Declaration<'_>) -> Parsed,
    ) -> Self {
        Self { code, versions: 1..=newest, inputs, parse }
    }

    /// Returns TensorFlow Lite's name of a builtin operator, such as `CONV_2D`, or the custom operator's
    /// code.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.code {
            Code::Builtin(builtin) => builtin.variant_name().unwrap_or("?"),
            Code::Custom(name) => name,
        }
    }

    /// Whether `code`, an operator code of a file, identifies this kind of operator. Versions are not
    /// compared.
    #[must_use]
    pub fn is(&self, code: &OperatorCode) -> bool {
        match self.code {
            Code::Builtin(builtin) => code.custom.is_none() && builtin == code.builtin,
            Code::Custom(name) => code.custom.as_deref() == Some(name),
        }
    }

    /// Whether this input may be a constant that is quantized by blocks.
    pub(crate) fn takes_blocks(&self, input: usize) -> bool {
        inputs::at(self.inputs, input).is_some_and(|declared| declared.is_blockwise_too)
    }

    /// Parses an operator of a file and combines it with the name and input declarations of this definition.
    pub(crate) fn op(&self, declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
        let operator = (self.parse)(declaration)?;
        Ok(Arc::new(Declared { name: self.name(), inputs: self.inputs, operator }))
    }

    /// Checks a node's inputs against this definition and returns the outputs that `operator` infers from
    /// them.
    #[cfg(test)]
    pub(crate) fn infer(
        &self,
        operator: &dyn Operator,
        inputs: &[Option<&attache_graph::Fact>],
    ) -> Result<Vec<Inferred>, OpError> {
        operator.infer(Facts::checked(self.inputs, inputs)?)
    }
}

/// An operator as a model file declares it: what a definition's parser may read.
pub struct Declaration<'a> {
    /// The operator's code, its inputs and outputs as indices of tensors, and the options of a custom
    /// operator.
    pub operator: &'a attache_model::Operator,
    /// The operator's FlatBuffers table, for the options of builtin operators:
    /// `options.builtin_options_as_…()`.
    pub options: schema::Operator<'a>,
    /// Types and shapes of the outputs as stated by the file. Only few operators depend on them, such as
    /// CAST, which takes its target type from its output.
    pub outputs: Vec<Inferred>,
    /// The tensors of the operator's subgraph as the file has them, to which the operator's indices lead.
    pub tensors: &'a [attache_model::Tensor],
    /// Types and quantization parameters of the file's intermediate tensors, to which some quantized
    /// operators (LSTM) round intermediate results.
    pub intermediates: Vec<(DataType, Option<Quantization>)>,
    /// The model's subgraphs, for operators such as IF and WHILE that call them.
    pub(crate) callees: &'a Callees,
}

impl fmt::Debug for Declaration<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Declaration").field("operator", self.operator).finish_non_exhaustive()
    }
}

impl Declaration<'_> {
    /// Returns the function by which the subgraph with this index, which has to consist of one operator, combines its two
    /// inputs. `definitions` are those of all operators.
    pub(crate) fn combination(
        &self,
        subgraph: i32,
        mut definitions: impl Iterator<Item = &'static Definition>,
    ) -> Result<Combination, OpError> {
        let model = self.callees.model();
        let index = usize::try_from(subgraph).ok().filter(|index| *index < model.subgraphs().len());
        let index =
            index.ok_or_else(|| OpError::invalid(format!("it runs subgraph {subgraph}, which does not exist")))?;
        let unknown = || OpError::unsupported(format!("subgraph {index} is no function that combines two elements"));
        let source = &model.subgraphs()[index];
        let [operator] = &source.operators[..] else { return Err(unknown()) };
        let inputs: Vec<_> = source.inputs.iter().map(|input| Some(*input)).collect();
        if inputs.len() != 2 || operator.inputs != inputs || operator.outputs != source.outputs {
            return Err(unknown());
        }
        let definition = definitions.find(|definition| definition.is(&operator.code)).ok_or_else(unknown)?;
        let outputs = operator.outputs.iter().map(|output| &source.tensors[*output]);
        let body = Declaration {
            operator,
            options: model.operator_view(index, 0),
            outputs: outputs.map(|tensor| Inferred::new(tensor.data_type, tensor.shape.clone())).collect(),
            tensors: &source.tensors,
            intermediates: Vec::new(),
            callees: self.callees,
        };
        // The operators that have options of this kind combine nothing, and some of them run subgraphs, perhaps this one.
        if body.options.builtin_options_2().is_some() {
            return Err(unknown());
        }
        (definition.parse)(&body)?.combination().ok_or_else(unknown)
    }

    /// Returns the metadata of the model file.
    #[must_use]
    pub fn metadata(&self) -> &[attache_model::Metadata] {
        self.callees.model().metadata()
    }

    /// Whether the subgraph with this index has two inputs and no operators, and returns the second input.
    pub(crate) fn returns_second(&self, subgraph: i32) -> bool {
        let subgraphs = self.callees.model().subgraphs();
        let source = usize::try_from(subgraph).ok().and_then(|index| subgraphs.get(index));
        source.is_some_and(|source| match (&source.inputs[..], &source.outputs[..]) {
            ([_, second], [output]) => source.operators.is_empty() && second == output,
            _ => false,
        })
    }

    /// Returns the operator version that the file states.
    #[must_use]
    pub fn version(&self) -> i32 {
        self.operator.code.version
    }

    /// Returns the error for an operator that requires options where the file has none.
    #[must_use]
    pub fn no_options(&self) -> OpError {
        OpError::invalid("the file gives it no options; convert the model again")
    }

    /// Returns the bytes of a custom operator's options or of a composite's attributes, which are usually a FlexBuffer map;
    /// empty where there are none.
    #[must_use]
    pub fn custom_options(&self) -> &[u8] {
        let composite = self.options.builtin_options_2_as_stable_hlocomposite_options();
        let attributes = composite.and_then(|composite| composite.composite_attributes()).map(|bytes| bytes.bytes());
        self.operator.custom_options.as_deref().or(attributes).unwrap_or(&[])
    }

    /// Returns the name and the version of a composite, an operator that the file describes by a subgraph as well; `None` for
    /// other operators.
    #[must_use]
    pub fn composite(&self) -> Option<(&str, i32)> {
        let options = self.options.builtin_options_2_as_stable_hlocomposite_options()?;
        Some((options.name().unwrap_or_default(), options.version()))
    }

    /// Returns a custom operator's options as little-endian 32-bit integers, none where there are no options.
    /// Up to three bytes after the last whole word are ignored.
    #[must_use]
    pub fn custom_words(&self) -> Vec<i32> {
        self.custom_options()
            .chunks_exact(4)
            .map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect()
    }
}

/// Decodes the padding scheme in a builtin operator's options.
pub(crate) fn padding(padding: schema::Padding) -> Result<Padding, OpError> {
    match padding {
        schema::Padding::SAME => Ok(Padding::Same),
        schema::Padding::VALID => Ok(Padding::Valid),
        other => Err(OpError::invalid(format!("padding {} is neither SAME (0) nor VALID (1)", other.0))),
    }
}

/// Decodes the padding scheme in a custom operator's options: 1 is SAME and 2 VALID, as in TensorFlow Lite's
/// C interface.
pub(crate) fn custom_padding(code: i32) -> Result<Padding, OpError> {
    match code {
        1 => Ok(Padding::Same),
        2 => Ok(Padding::Valid),
        _ => Err(OpError::invalid(format!("padding {code} is neither SAME (1) nor VALID (2)"))),
    }
}

/// Decodes the fused activation in a builtin operator's options. `SIGN_BIT` is in the schema, but no kernel
/// of TensorFlow Lite implements it.
pub(crate) fn activation(activation: schema::ActivationFunctionType) -> Result<Activation, OpError> {
    match Activation::from_code(activation.0) {
        Some(Activation::SignBit) => Err(OpError::unsupported("the fused activation SIGN_BIT is not implemented")),
        Some(activation) => Ok(activation),
        None => Err(OpError::invalid(format!("fused activation {} does not exist", activation.0))),
    }
}

/// Checks that the option `name` is at least 1, and returns it.
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
