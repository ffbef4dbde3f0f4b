//! The trait that every operator implements ([`Op`]), with the types of its results. Each operator is one
//! file with its shape inference, its CPU implementation and its GPU lowering.

use std::fmt;

use attache_base::{Constant, Shape};

use crate::{Body, Eval, Fact, Host, Inferred, Loop, Lowering, OpError, PassedTensor, RowUse, Unsupported};

/// An operator of the model, including its attributes.
pub trait Op: fmt::Debug + Send + Sync {
    /// Returns TensorFlow Lite's name of the operator, such as `CONV_2D`, or the code of a custom operator.
    fn name(&self) -> &str;

    /// Returns a text that differs between operators of this name with different attributes, if there is one. Operators with
    /// the same text and constants, such as the steps of an unrolled recurrent network, share what they make of these
    /// ([`Cache`](crate::Cache)).
    fn attributes(&self) -> Option<String> {
        None
    }

    /// Returns the types and shapes of the outputs. `inputs` are in the model file's order, `None` for an
    /// optional input that is left out. An output's shape is `None` if it depends on an input value or shape
    /// that is not known yet.
    ///
    /// # Errors
    ///
    /// Fails if the inputs do not fit the operator, or if its attributes are not implemented for these
    /// inputs.
    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError>;

    /// Whether the outputs have the types that [`infer`](Self::infer) returns even where the file states others, as some
    /// converters do for some operators.
    fn sets_types(&self) -> bool {
        false
    }

    /// Checks that the operator is defined for the quantization parameters of its inputs and outputs. Called
    /// after `infer` has accepted the inputs; `outputs` have the number and the types that `infer` returned.
    ///
    /// # Errors
    ///
    /// Fails if the operator has no arithmetic for these scales and zero points.
    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        let _ = (inputs, outputs);
        Ok(())
    }

    /// Returns the value of the only output if it follows from the shapes or ranks of the inputs alone (as
    /// SHAPE's does); `None` otherwise.
    fn value_of_shapes(&self, inputs: &[Option<&Fact>]) -> Option<Constant> {
        let _ = inputs;
        None
    }

    /// Computes the outputs on the CPU. `eval` contains inputs and outputs of the types and shapes that
    /// `infer` accepted and returned.
    ///
    /// # Errors
    ///
    /// Fails where the inputs' values are invalid or the operator is not implemented for them.
    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError>;

    /// Whether the operator passes tensors on as a whole and touches no elements, so that it runs by
    /// [`pass`](Self::pass) and not by [`eval`](Self::eval). An operator that reads or assigns a resource variable has both,
    /// because copying a small tensor takes less time.
    fn passes_tensors(&self) -> bool {
        false
    }

    /// Runs an operator that [passes tensors on](Self::passes_tensors): takes the inputs by reference, `None` for an
    /// optional one that is left out, and returns the outputs.
    ///
    /// # Errors
    ///
    /// As [`eval`](Self::eval).
    fn pass(&self, inputs: Vec<Option<PassedTensor>>, host: &mut dyn Host) -> Result<Vec<PassedTensor>, OpError> {
        let _ = (inputs, host);
        Err(OpError::unsupported("it passes no tensors on"))
    }

    /// Returns the index of the input whose elements the only output has, apart from those that [`eval`](Self::eval)
    /// replaces; `None` for all other operators. The interpreter may then evaluate without that input, on an output that
    /// contains its elements. `eval` writes nothing if it fails.
    fn updates(&self) -> Option<usize> {
        None
    }

    /// Returns for each input which of its rows are read for some rows of the only output, of extents `[1, height, width,
    /// channels]`; `None` if [`eval`](Self::eval) can't compute some rows alone. It is then called with the
    /// [`Band`](crate::Band) that [`Host::band`] returns, with these rows of the inputs alone, and with an output of as many
    /// rows as the band has, by several threads at once. Where all inputs are read by pixels, or by windows in parts, it may
    /// also be called for some pixels: the output, and the inputs that are read by pixels, then have one row of them.
    fn row_uses(&self, inputs: &[Option<&Fact>], output: [usize; 4]) -> Option<Vec<RowUse>> {
        let _ = (inputs, output);
        None
    }

    /// Lowers the operator: emits the GPU primitives that compute its outputs into `lowering`.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the operator can't run on a GPU.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let _ = lowering;
        Err(Unsupported::new("it has no GPU form"))
    }

    /// Whether a program registered the operator, so that its code is not a part of the library.
    #[doc(hidden)]
    fn is_registered(&self) -> bool {
        false
    }

    /// Whether the operator only changes the shape: its only output has the elements of its first input, so
    /// the operator does no work if both share memory.
    fn is_reshape(&self) -> bool {
        false
    }

    /// Whether the only output is the logistic function of the only input.
    #[doc(hidden)]
    fn is_logistic(&self) -> bool {
        false
    }

    /// Whether the only output is the product of two inputs, so that [`Op::eval_times_logistic`] computes it where one is the
    /// logistic function of the other.
    #[doc(hidden)]
    fn is_product(&self) -> bool {
        false
    }

    /// Computes the output on the CPU as the product of input `input`, of floats and of the output's shape, and its logistic
    /// function, which is the other input. That one is not read and need not be computed.
    ///
    /// # Errors
    ///
    /// Fails if the operator is no product, or if the input is not as described.
    #[doc(hidden)]
    fn eval_times_logistic(&self, eval: &mut Eval<'_>, input: usize) -> Result<(), OpError> {
        let _ = (eval, input);
        Err(OpError::unsupported("it is no product"))
    }

    /// Returns the kind of conversion, if the operator does nothing but convert between quantized elements
    /// and floats or between quantization parameters; `None` for all other operators.
    fn conversion(&self) -> Option<Conversion> {
        None
    }

    /// Whether the operator has an effect besides writing its outputs that is not visible from its inputs and
    /// outputs. Such an operator must neither be removed nor be reordered relative to others with side
    /// effects.
    fn has_side_effects(&self) -> bool {
        false
    }

    /// Returns how the operator uses a resource variable, if it creates the handle of one, or reads or assigns one;
    /// `None` for all other operators.
    fn variable_use(&self) -> Option<VariableUse<'_>> {
        None
    }

    /// Returns what the operator does, if it does nothing but call one subgraph, which is known from these inputs; `None` for
    /// all other operators and inputs.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the nodes of the subgraph can't take the place of the call.
    fn body(&self, inputs: &[Option<&Fact>]) -> Option<Result<Body, String>> {
        let _ = inputs;
        None
    }

    /// Returns what the operator repeats, if it is a loop; `None` for all other operators.
    fn as_loop(&self) -> Option<&dyn Loop> {
        None
    }

    /// Returns the approximate number of multiply-adds of one evaluation, which is checked against limits.
    /// `None` if the number of elements read or written is a fair measure, or if a required shape isn't
    /// known. Saturates instead of overflowing.
    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let _ = (inputs, outputs);
        None
    }

    /// Returns the number of arithmetic operations of one evaluation, for cost reports. By default twice
    /// [`multiply_adds`](Self::multiply_adds), and `None` if that is `None`.
    fn operations(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        Some(self.multiply_adds(inputs, outputs)?.saturating_mul(2))
    }

    /// Returns an upper bound of the memory in bytes that one evaluation on the CPU takes besides its inputs
    /// and outputs. Zero if that is at most the size of inputs and outputs, or if a required shape isn't
    /// known. Saturates instead of overflowing.
    fn working_memory(&self, inputs: &[Option<&Fact>], outputs: &[&Shape]) -> WorkingMemory {
        let _ = (inputs, outputs);
        WorkingMemory::default()
    }

    /// Returns the reason why the operator can't run, if it is a placeholder for one that isn't implemented;
    /// `None` for implemented operators.
    fn missing(&self) -> Option<&str> {
        None
    }
}

/// Memory, in bytes, that an operator takes on the CPU besides its inputs and outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingMemory {
    /// Bytes that are kept from run to run: packed constants.
    pub kept: u64,
    /// Bytes that are released after each run: scratch buffers.
    pub scratch: u64,
}

impl WorkingMemory {
    /// Returns the sum of `kept` and `scratch` in bytes, saturating.
    #[must_use]
    pub fn total(self) -> u64 {
        self.kept.saturating_add(self.scratch)
    }
}

/// What an operator does with a resource variable, as far as the inference of its shape needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableUse<'a> {
    /// The only output is the handle of the variable with this name.
    Handle {
        /// Name of the container, the namespace of the variable.
        container: &'a str,
        /// Name of the variable, unique in the container.
        name: &'a str,
    },
    /// The only output is the value of the variable whose handle is an input.
    Read {
        /// Index of the input with the handle.
        handle: usize,
    },
    /// Assigns the value of one input to the variable whose handle is another input.
    Assign {
        /// Index of the input with the handle.
        handle: usize,
        /// Index of the input with the value.
        value: usize,
    },
}

/// The kind of a conversion, an operator that changes only the representation of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Quantizes or requantizes: converts floats or quantized elements to quantized elements with the
    /// output's type, scale and zero point.
    ToStored,
    /// Dequantizes: converts quantized elements to the floats that they represent.
    ToReal,
}

/// Placeholder for an operator that isn't implemented, so that the rest of the model can still be imported
/// and inspected. It has no CPU implementation and no GPU lowering.
#[derive(Debug)]
pub struct UnresolvedOperator {
    /// The operator's name in the model file.
    pub name: String,
    /// The reason why the operator can't run.
    pub reason: String,
    /// Types and shapes of the operator's outputs, as stated by the model file.
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
