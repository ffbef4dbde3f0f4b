//! [`OperatorBuilder`], which describes one operator for a `ModelBuilder`.

use crate::schema::{self, BuiltinOperator, BuiltinOptions2T, BuiltinOptionsT};

/// Describes an operator to be written.
#[must_use]
#[derive(Clone, Debug)]
pub struct OperatorBuilder {
    operator: schema::OperatorT,
    code: schema::OperatorCodeT,
}

impl OperatorBuilder {
    /// Describes a builtin operator of version 1 without options, by the indices of its input and output
    /// tensors. An input of `None` is an omitted optional input.
    pub fn new<I: Into<Option<usize>>>(
        builtin: BuiltinOperator,
        inputs: impl IntoIterator<Item = I>,
        outputs: impl IntoIterator<Item = usize>,
    ) -> Self {
        let inputs = inputs.into_iter().map(|tensor| tensor.into().map_or(-1, |tensor| tensor as i32));
        let operator = schema::OperatorT {
            inputs: Some(inputs.collect()),
            outputs: Some(outputs.into_iter().map(|tensor| tensor as i32).collect()),
            ..Default::default()
        };
        let placeholder = BuiltinOperator::PLACEHOLDER_FOR_GREATER_OP_CODES.0;
        let code = schema::OperatorCodeT {
            deprecated_builtin_code: builtin.0.min(placeholder) as i8,
            builtin_code: builtin,
            version: 1,
            ..Default::default()
        };
        Self { operator, code }
    }

    /// Describes a custom operator of version 1 by its name, its options as bytes, and the indices of its
    /// input and output tensors. An input of `None` is an omitted optional input.
    pub fn custom<I: Into<Option<usize>>>(
        name: &str,
        options: impl Into<Vec<u8>>,
        inputs: impl IntoIterator<Item = I>,
        outputs: impl IntoIterator<Item = usize>,
    ) -> Self {
        let mut builder = Self::new(BuiltinOperator::CUSTOM, inputs, outputs);
        builder.code.custom_code = Some(name.to_owned());
        builder.operator.custom_options = Some(options.into());
        builder
    }

    /// Sets the options of a builtin operator.
    pub fn options(mut self, options: BuiltinOptionsT) -> Self {
        self.operator.builtin_options = options;
        self
    }

    /// Sets the options of a builtin operator whose options belong to the schema's second union.
    pub fn options_2(mut self, options: BuiltinOptions2T) -> Self {
        self.operator.builtin_options_2 = options;
        self
    }

    /// Sets the version of the operator's definition.
    pub fn version(mut self, version: i32) -> Self {
        self.code.version = version;
        self
    }

    /// Sets the indices of the tensors that carry the quantization parameters of intermediate results.
    pub fn intermediates(mut self, tensors: &[usize]) -> Self {
        self.operator.intermediates = Some(super::indices(tensors));
        self
    }

    /// Calls `change` on the table that will be written, to set fields without a method here.
    pub fn with(mut self, change: impl FnOnce(&mut schema::OperatorT)) -> Self {
        change(&mut self.operator);
        self
    }

    pub(super) fn into_parts(self) -> (schema::OperatorT, schema::OperatorCodeT) {
        (self.operator, self.code)
    }
}
