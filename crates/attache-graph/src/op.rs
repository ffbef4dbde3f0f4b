//! The trait that every operator implements. Each operator has one file with its shape inference, CPU and GPU forms.

use std::fmt;

use attache_base::{Constant, Shape};

use crate::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};

/// An operator with its attributes.
pub trait Op: fmt::Debug + Send + Sync {
    /// TensorFlow Lite's name, such as `CONV_2D`, or the code of a custom operator.
    fn name(&self) -> &str;

    /// Types and shapes of the outputs. `inputs` are in the file's order, `None` for an optional input that is left
    /// out. A shape is unknown where it depends on an input whose value is not known yet.
    ///
    /// # Errors
    ///
    /// Fails where the inputs do not fit the operator, or its attributes are not implemented for them.
    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError>;

    /// Checks that the operator is defined for the scales of its inputs and outputs. Called after `infer` has accepted
    /// the inputs; `outputs` have the number and the types that `infer` returned.
    ///
    /// # Errors
    ///
    /// Fails where there is no arithmetic for these scales.
    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        let _ = (inputs, outputs);
        Ok(())
    }

    /// The value of the only output, where it follows from the inputs' shapes or ranks alone.
    fn value_of_shapes(&self, inputs: &[Option<&Fact>]) -> Option<Constant> {
        let _ = inputs;
        None
    }

    /// Computes the outputs on the CPU. Inputs and outputs have the types and shapes that `infer` accepted and
    /// returned.
    ///
    /// # Errors
    ///
    /// Fails where the inputs' values are invalid or the operator is not implemented for them.
    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError>;

    /// Emits the operator as device primitives.
    ///
    /// # Errors
    ///
    /// Fails with the unsupported reason where the operator can't run on a device.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let _ = lowering;
        Err(Unsupported::new("it has no GPU form"))
    }

    /// Whether the only output is the first input in another shape, so that no work is needed where the two may share
    /// memory.
    fn is_reshape(&self) -> bool {
        false
    }

    /// Whether the operator only converts between quantized elements and floats or between scales, and which it does.
    fn conversion(&self) -> Option<Conversion> {
        None
    }

    /// Whether the operator has an effect besides its outputs that its tensors do not show. It must neither be removed
    /// nor be reordered relative to other operators with side effects.
    fn has_side_effects(&self) -> bool {
        false
    }

    /// How the operator uses a resource variable, as far as the variable's name and shape are concerned.
    fn variable_use(&self) -> Option<VariableUse<'_>> {
        None
    }

    /// Approximate number of multiply-adds of one evaluation, which limits are checked against. `None` where the number
    /// of elements read or written is a fair measure, or where a required shape isn't known. Saturates instead of
    /// overflowing.
    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let _ = (inputs, outputs);
        None
    }

    /// Number of arithmetic operations of one evaluation, for cost reports. By default twice
    /// [`multiply_adds`](Self::multiply_adds), and `None` where that is `None`.
    fn operations(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        Some(self.multiply_adds(inputs, outputs)?.saturating_mul(2))
    }

    /// Upper bound of the memory that one evaluation on the CPU takes besides its inputs and outputs. Zero where that
    /// is at most the size of inputs and outputs, or where a required shape isn't known. Saturates instead of
    /// overflowing.
    fn working_memory(&self, inputs: &[Option<&Fact>], outputs: &[&Shape]) -> WorkingMemory {
        let _ = (inputs, outputs);
        WorkingMemory::default()
    }

    /// Why this operator can't run, where it is a placeholder for one that isn't implemented.
    fn missing(&self) -> Option<&str> {
        None
    }
}

/// Memory, in bytes, that an operator takes on the CPU besides its inputs and outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingMemory {
    /// Kept from run to run: packed constants.
    pub kept: u64,
    /// Released after each run.
    pub scratch: u64,
}

impl WorkingMemory {
    /// Sum of both.
    pub fn total(self) -> u64 {
        self.kept.saturating_add(self.scratch)
    }
}

/// What an operator does with a resource variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableUse<'a> {
    /// The only output is the handle of the variable with this name.
    Handle {
        /// The container's name.
        container: &'a str,
        /// The variable's name in the container.
        name: &'a str,
    },
    /// Assigns the value of one input to the variable whose handle is another input.
    Assign {
        /// Index of the input with the handle.
        handle: usize,
        /// Index of the input with the value.
        value: usize,
    },
}

/// What an operator that only changes the representation of its elements converts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// To quantized elements with the output's type and scale.
    ToStored,
    /// To the floats that the quantized elements represent.
    ToReal,
}

/// Placeholder for an operator that isn't implemented, so that the rest of the file can still be inspected.
#[derive(Debug)]
pub struct UnresolvedOperator {
    /// The operator's name.
    pub name: String,
    /// Why it can't run.
    pub reason: String,
    /// Types and shapes of its outputs, as stated by the file.
    pub outputs: Vec<Inferred>,
}

impl Op for UnresolvedOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn infer(&self, _: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        Ok(self.outputs.clone())
    }

    fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
        Err(OpError::unsupported(&self.reason))
    }

    fn lower(&self, _: &mut Lowering<'_>) -> Result<(), Unsupported> {
        Err(Unsupported::new(&self.reason))
    }

    fn missing(&self) -> Option<&str> {
        Some(&self.reason)
    }
}
