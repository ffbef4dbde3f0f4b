//! The trait that every operator implements: one operator, one file, all its facets.

use std::fmt;

use attache_base::{Constant, Shape};

use crate::{Eval, Fact, Inferred, Lowering, OpError, Refusal};

/// One operator with its attributes.
pub trait Op: fmt::Debug + Send + Sync {
    /// TensorFlow Lite's name for it, as `CONV_2D`, or a custom operator's code.
    fn name(&self) -> &str;

    /// Types and shapes of the outputs. `inputs` are as the file has them, `None` for an optional one left out; a
    /// shape stays unknown where an input that decides it has no value yet.
    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError>;

    /// An error where the file gives inputs and outputs scales that the operator has no arithmetic for. `infer` has
    /// accepted the inputs, and the outputs are of the types and the number that it gave.
    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        let _ = (inputs, outputs);
        Ok(())
    }

    /// The value of the only output, where what is known of the inputs before they have values tells it: their extents,
    /// their rank.
    fn value_of_shapes(&self, inputs: &[Option<&Fact>]) -> Option<Constant> {
        let _ = inputs;
        None
    }

    /// Computes the outputs on the CPU. Inputs and outputs have the types and shapes that `infer` accepted and gave.
    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError>;

    /// Emits the operator as primitives of a device, or says why it can't.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let _ = lowering;
        Err(Refusal::new("it has no GPU form"))
    }

    /// Whether the only output is the first input's elements in another shape, so that no work is needed where the two
    /// may share memory.
    fn is_reshape(&self) -> bool {
        false
    }

    /// Whether all it does is bring numbers to the output's scale, or make real ones of them.
    fn conversion(&self) -> Option<Conversion> {
        None
    }

    /// Whether it does something besides making its outputs, even where none of its own tensors tells: it must neither
    /// be left out nor trade places with others of this kind.
    fn has_side_effects(&self) -> bool {
        false
    }

    /// What it does with a resource variable as far as the variable's name and shape are concerned.
    fn variable_use(&self) -> Option<VariableUse<'_>> {
        None
    }

    /// About how many multiplications with an addition one evaluation takes, which is what limits count. `None` where
    /// the elements read or made are a fair measure, or where a shape that decides it isn't known. Never overflows.
    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let _ = (inputs, outputs);
        None
    }

    /// How many arithmetic operations one evaluation takes, for whoever wants to know what a model costs: unless it says
    /// otherwise two for each of its [`multiply_adds`](Self::multiply_adds), and `None` where that is.
    fn operations(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        Some(self.multiply_adds(inputs, outputs)?.saturating_mul(2))
    }

    /// What one evaluation on the CPU takes besides its inputs and outputs, an upper bound. Nothing where that is no more
    /// than these take, or where a shape that decides it isn't known. Never overflows.
    fn working_memory(&self, inputs: &[Option<&Fact>], outputs: &[&Shape]) -> WorkingMemory {
        let _ = (inputs, outputs);
        WorkingMemory::default()
    }

    /// Why this operator can't run at all, where it stands for one that isn't implemented.
    fn missing(&self) -> Option<&str> {
        None
    }
}

/// Memory of an operator on the CPU besides its inputs and outputs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingMemory {
    /// What it keeps from run to run: packed constants.
    pub kept: u64,
    /// What it gives back after each run.
    pub scratch: u64,
}

impl WorkingMemory {
    /// Both together.
    pub fn total(self) -> u64 {
        self.kept.saturating_add(self.scratch)
    }
}

/// What an operator does with a resource variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableUse<'a> {
    /// Its only output is the handle of the variable of these names.
    Handle {
        /// The container's name.
        container: &'a str,
        /// The variable's name in it.
        name: &'a str,
    },
    /// It gives the variable of which an input is the handle the value of another.
    Assign {
        /// Index of the one input.
        handle: usize,
        /// Index of the other.
        value: usize,
    },
}

/// What an operator that changes no more than how numbers are stored makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Stored numbers of the output's type and scale.
    ToStored,
    /// The real numbers that stored ones stand for.
    ToReal,
}

/// Stands for an operator of the file that isn't implemented, so that the rest of the file can still be looked at.
#[derive(Debug)]
pub struct Missing {
    /// The operator's name.
    pub name: String,
    /// Why it can't run.
    pub reason: String,
    /// Types and shapes of its outputs, as the file states them.
    pub outputs: Vec<Inferred>,
}

impl Op for Missing {
    fn name(&self) -> &str {
        &self.name
    }

    fn infer(&self, _: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        Ok(self.outputs.clone())
    }

    fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
        Err(OpError::unsupported(&self.reason))
    }

    fn lower(&self, _: &mut Lowering<'_>) -> Result<(), Refusal> {
        Err(Refusal::new(&self.reason))
    }

    fn missing(&self) -> Option<&str> {
        Some(&self.reason)
    }
}
