//! [`Operator`], the trait that each operator implements, and [`Declared`], the adapter that combines an
//! operator with its definition into an [`Op`], the form in which graphs hold operators.

use std::fmt;

use attache_base::{Constant, DataType, Shape};
use attache_graph::{
    Body, Conversion, Eval, Fact, Host, Inferred, Loop, Lowering, Op, OpError, PassedTensor, RowUse, TensorMut,
    Unsupported, VariableUse, WorkingMemory,
};

use super::halves;
use super::inputs::{Facts, Input};
use super::strings::{move_strings, moves_strings};

/// A function of two elements that combines any number of them to one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Combination {
    Sum,
    Product,
    Maximum,
    Minimum,
    /// Whether all are true.
    All,
    /// Whether any is true.
    Any,
}

/// An operator with its attributes. The methods are those of [`Op`] except for what the definition provides:
/// the name, and the check of the number, presence and types of inputs. [`fmt::Debug`] tells all attributes, as the derived
/// form does ([`Op::attributes`]).
pub(crate) trait Operator: fmt::Debug + Send + Sync {
    /// Returns a text with all attributes; see [`Op::attributes`]. The smallest programs have none.
    #[cfg(not(attache_small))]
    fn attributes(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    /// Infers the types and shapes of the outputs; see [`Op::infer`].
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError>;

    /// Whether types of outputs that the file states count for nothing; see [`Op::sets_types`].
    fn sets_types(&self) -> bool {
        false
    }

    /// Checks that the operator is defined for the quantization parameters of its inputs and outputs; see
    /// [`Op::check_scales`].
    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        let _ = (inputs, outputs);
        Ok(())
    }

    /// Returns the value of the only output where it follows from the inputs' shapes alone; see
    /// [`Op::value_of_shapes`].
    fn value_of_shapes(&self, inputs: Facts<'_>) -> Option<Constant> {
        let _ = inputs;
        None
    }

    /// Computes the outputs on the CPU; see [`Op::eval`]. Not called where all outputs are empty, unless
    /// [`runs_when_empty`](Self::runs_when_empty).
    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError>;

    /// Whether the operator passes tensors on as a whole; see [`Op::passes_tensors`].
    fn passes_tensors(&self) -> bool {
        false
    }

    /// Passes tensors on; see [`Op::pass`].
    fn pass(&self, inputs: Vec<Option<PassedTensor>>, host: &mut dyn Host) -> Result<Vec<PassedTensor>, OpError> {
        let _ = (inputs, host);
        Err(OpError::unsupported("it passes no tensors on"))
    }

    /// Returns the input that the operator may update in place; see [`Op::updates`].
    fn updates(&self) -> Option<usize> {
        None
    }

    /// Returns which rows of the inputs are read for some rows of the output; see [`Op::row_uses`]. Inputs and output have
    /// elements.
    #[cfg(not(attache_small))]
    fn row_uses(&self, inputs: Facts<'_>, output: [usize; 4]) -> Option<Vec<RowUse>> {
        let _ = (inputs, output);
        None
    }

    /// Never called. The bound keeps the operators' methods of this name out of the smallest libraries.
    #[cfg(attache_small)]
    fn row_uses(&self, _: Facts<'_>, _: [usize; 4]) -> Option<Vec<RowUse>>
    where
        Self: Sized,
    {
        None
    }

    /// Whether `eval` runs even where all outputs are empty. True for operators with side effects, and for
    /// operators whose `eval` reports errors that `infer` and `check_scales` do not.
    fn runs_when_empty(&self) -> bool {
        self.has_side_effects()
    }

    /// Emits the operator as primitives for a device; see [`Op::lower`].
    #[cfg(feature = "lowering")]
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let _ = lowering;
        Err(Unsupported::new("it has no GPU form"))
    }

    /// Never called. The bound keeps the operators' methods of this name out of programs.
    #[cfg(not(feature = "lowering"))]
    fn lower(&self, _: &mut Lowering<'_>) -> Result<(), Unsupported>
    where
        Self: Sized,
    {
        Err(Unsupported::new("it has no GPU form"))
    }

    /// Whether the only output is the first input in another shape; see [`Op::is_reshape`].
    fn is_reshape(&self) -> bool {
        false
    }

    /// Whether the only output is the logistic function of the only input; see [`Op::is_logistic`].
    #[cfg(not(attache_small))]
    fn is_logistic(&self) -> bool {
        false
    }

    /// Whether the only output is the product of two inputs; see [`Op::is_product`].
    #[cfg(not(attache_small))]
    fn is_product(&self) -> bool {
        false
    }

    /// Computes the product of an input and its logistic function; see [`Op::eval_times_logistic`].
    #[cfg(not(attache_small))]
    fn eval_times_logistic(&self, eval: &mut Eval<'_>, input: usize) -> Result<(), OpError> {
        let _ = (eval, input);
        Err(OpError::unsupported("it is no product"))
    }

    /// Returns the kind of conversion, where the operator only quantizes, requantizes or dequantizes; see
    /// [`Op::conversion`].
    fn conversion(&self) -> Option<Conversion> {
        None
    }

    /// Returns the function by which a subgraph that consists of the operator combines its two inputs; `None` for all other
    /// operators.
    fn combination(&self) -> Option<Combination> {
        None
    }

    /// Whether the operator has effects other than its outputs; see [`Op::has_side_effects`].
    fn has_side_effects(&self) -> bool {
        false
    }

    /// Returns how the operator uses a resource variable; see [`Op::variable_use`].
    fn variable_use(&self) -> Option<VariableUse<'_>> {
        None
    }

    /// Returns what the operator repeats, if it is a loop; see [`Op::as_loop`].
    #[cfg(not(attache_small))]
    fn as_loop(&self) -> Option<&dyn Loop> {
        None
    }

    /// Returns the subgraph that is all that the operator runs; see [`Op::body`].
    #[cfg(not(attache_small))]
    fn body(&self, inputs: Facts<'_>) -> Option<Result<Body, String>> {
        let _ = inputs;
        None
    }

    /// Never called. The bound keeps the operators' methods of this name out of the smallest libraries.
    #[cfg(attache_small)]
    fn body(&self, _: Facts<'_>) -> Option<Result<Body, String>>
    where
        Self: Sized,
    {
        None
    }

    /// Estimates the number of multiply-adds of one evaluation; see [`Op::multiply_adds`].
    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let _ = (inputs, outputs);
        None
    }

    /// Estimates the number of arithmetic operations of one evaluation, by default twice the multiply-adds;
    /// see [`Op::operations`].
    fn operations(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        Some(self.multiply_adds(inputs, outputs)?.saturating_mul(2))
    }

    /// Returns an upper bound, in bytes, of the memory for packed weights and scratch buffers of one
    /// evaluation; `None` where a required shape is not known, or where nothing is needed. See
    /// [`Op::working_memory`].
    fn working_memory(&self, inputs: Facts<'_>, outputs: &[&Shape]) -> Option<WorkingMemory> {
        let _ = (inputs, outputs);
        None
    }
}

/// An operator with the name and the input declarations of its definition. `infer` checks the inputs against
/// the declarations.
pub(crate) struct Declared {
    pub(super) name: &'static str,
    pub(super) inputs: &'static [Input],
    pub(super) operator: Box<dyn Operator>,
}

impl Declared {
    /// Returns the type of the inputs' floats of 16 bits, where the operator computes them as float32.
    fn narrow(&self, inputs: &[Option<&Fact>]) -> Option<DataType> {
        halves::narrow(self.inputs, inputs.iter().map(|fact| fact.map(|fact| fact.data_type)))
    }
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operator.fmt(f)
    }
}

impl Op for Declared {
    fn name(&self) -> &str {
        self.name
    }

    #[cfg(not(attache_small))]
    fn attributes(&self) -> Option<String> {
        self.operator.attributes()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        let Some(narrow) = self.narrow(inputs) else {
            return self.operator.infer(Facts::checked(self.inputs, inputs)?);
        };
        let widened = halves::widened(narrow, inputs)?;
        let inputs: Vec<Option<&Fact>> = widened.iter().map(Option::as_ref).collect();
        Ok(halves::narrowed(narrow, self.operator.infer(Facts::checked(self.inputs, &inputs)?)?))
    }

    fn sets_types(&self) -> bool {
        self.operator.sets_types()
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        self.operator.check_scales(inputs, outputs)
    }

    fn value_of_shapes(&self, inputs: &[Option<&Fact>]) -> Option<Constant> {
        self.operator.value_of_shapes(Facts::present(self.inputs, inputs).ok()?)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        // Outputs of unknown shape are not in the list: the operator itself allocates and returns them.
        // Strings have no bytes before the operator has run.
        let has_none = |output: &TensorMut<'_>| match output.data_type {
            DataType::String => output.shape.elements() == 0,
            _ => output.bytes.is_empty(),
        };
        let is_empty = !eval.outputs.is_empty() && eval.outputs.iter().all(has_none);
        if is_empty && !self.operator.runs_when_empty() {
            return Ok(());
        }
        if moves_strings(self.inputs, eval) {
            return move_strings(|eval| self.operator.eval(eval), eval);
        }
        let types = eval.inputs.iter().map(|input| input.map(|input| input.data_type));
        match halves::narrow(self.inputs, types) {
            Some(narrow) => halves::compute(narrow, &|eval| self.operator.eval(eval), eval),
            None => self.operator.eval(eval),
        }
    }

    fn passes_tensors(&self) -> bool {
        self.operator.passes_tensors()
    }

    fn pass(&self, inputs: Vec<Option<PassedTensor>>, host: &mut dyn Host) -> Result<Vec<PassedTensor>, OpError> {
        self.operator.pass(inputs, host)
    }

    fn updates(&self) -> Option<usize> {
        self.operator.updates()
    }

    #[cfg(not(attache_small))]
    fn row_uses(&self, inputs: &[Option<&Fact>], output: [usize; 4]) -> Option<Vec<RowUse>> {
        self.operator.row_uses(Facts::present(self.inputs, inputs).ok()?, output)
    }

    #[cfg(feature = "lowering")]
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let types = (0..self.inputs.len()).map(|index| lowering.input_fact(index).ok().map(|fact| fact.data_type));
        match halves::narrow(self.inputs, types) {
            Some(narrow) => Err(Unsupported::new(format!("a device does not compute with elements of type {narrow}"))),
            None => self.operator.lower(lowering),
        }
    }

    fn is_reshape(&self) -> bool {
        self.operator.is_reshape()
    }

    #[cfg(not(attache_small))]
    fn is_logistic(&self) -> bool {
        self.operator.is_logistic()
    }

    #[cfg(not(attache_small))]
    fn is_product(&self) -> bool {
        self.operator.is_product()
    }

    #[cfg(not(attache_small))]
    fn eval_times_logistic(&self, eval: &mut Eval<'_>, input: usize) -> Result<(), OpError> {
        self.operator.eval_times_logistic(eval, input)
    }

    fn conversion(&self) -> Option<Conversion> {
        self.operator.conversion()
    }

    fn has_side_effects(&self) -> bool {
        self.operator.has_side_effects()
    }

    fn variable_use(&self) -> Option<VariableUse<'_>> {
        self.operator.variable_use()
    }

    #[cfg(not(attache_small))]
    fn body(&self, inputs: &[Option<&Fact>]) -> Option<Result<Body, String>> {
        self.operator.body(Facts::present(self.inputs, inputs).ok()?)
    }

    #[cfg(not(attache_small))]
    fn as_loop(&self) -> Option<&dyn Loop> {
        self.operator.as_loop()
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        self.operator.multiply_adds(inputs, outputs)
    }

    fn operations(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        self.operator.operations(inputs, outputs)
    }

    fn working_memory(&self, inputs: &[Option<&Fact>], outputs: &[&Shape]) -> WorkingMemory {
        let narrow = self.narrow(inputs);
        let shapes = inputs.iter().flatten().filter_map(|fact| fact.shape.as_ref()).chain(outputs.iter().copied());
        let scratch = narrow.map_or(0, |_| halves::scratch(shapes));
        let inputs = Facts::present(self.inputs, inputs);
        let memory = inputs.ok().and_then(|inputs| self.operator.working_memory(inputs, outputs)).unwrap_or_default();
        WorkingMemory { scratch: memory.scratch.saturating_add(scratch), ..memory }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;
    use attache_graph::Cache;

    use super::*;
    use crate::input;

    /// An operator that takes one input and whose `eval` always fails, so that tests see whether it was
    /// called.
    #[derive(Debug)]
    struct Failing {
        has_side_effects: bool,
    }

    impl Operator for Failing {
        fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
            Ok(vec![Inferred::unknown(inputs.fact(0).data_type)])
        }

        fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
            Err(OpError::invalid("it ran"))
        }

        fn has_side_effects(&self) -> bool {
            self.has_side_effects
        }

        fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
            Some(WorkingMemory { kept: inputs.fact(0).byte_size()? as u64, scratch: 0 })
        }
    }

    struct NoHost;

    impl Host for NoHost {
        fn run_subgraph(&mut self, _: usize, _: Vec<PassedTensor>) -> Result<Vec<PassedTensor>, OpError> {
            Err(OpError::unsupported("no subgraphs here"))
        }
    }

    fn declared(has_side_effects: bool) -> Declared {
        let inputs = const { &[input("x").float()] };
        Declared { name: "FAILING", inputs, operator: Box::new(Failing { has_side_effects }) }
    }

    /// Whether the adapter calls `eval` of an operator whose outputs have these sizes in bytes.
    fn runs(has_side_effects: bool, sizes: &[usize]) -> bool {
        let (shape, mut buffers): (_, Vec<_>) = (Shape::default(), sizes.iter().map(|size| vec![0; *size]).collect());
        let output = |bytes| TensorMut { data_type: DataType::UInt8, shape: &shape, bytes, quantization: None };
        let outputs = buffers.iter_mut().map(|buffer| output(&mut buffer[..])).collect();
        let (cache, host) = (&mut Cache::default(), &mut NoHost);
        let mut eval = Eval { inputs: Vec::new(), outputs, cache, parallel: &Serial, host };
        declared(has_side_effects).eval(&mut eval).is_err()
    }

    #[test]
    fn without_elements_only_side_effects_run() {
        assert!(!runs(false, &[0]) && !runs(false, &[0, 0]));
        assert!(runs(true, &[0]) && runs(true, &[0, 0]));
        assert!(runs(false, &[0, 1]) && runs(false, &[]), "outputs that have or may get elements");
    }

    #[test]
    fn inputs_are_those_declared() {
        let (op, float, integer) =
            (declared(false), Fact::new(DataType::Float32, [3]), Fact::new(DataType::Int32, [3]));
        assert_eq!(op.name(), "FAILING");
        assert_eq!(op.infer(&[Some(&float)]).unwrap(), [Inferred::unknown(DataType::Float32)]);
        assert!(matches!(op.infer(&[Some(&integer)]), Err(OpError::Unsupported(_))));
        assert!(matches!(op.infer(&[None]), Err(OpError::Invalid(_))));
        assert_eq!(op.working_memory(&[Some(&float)], &[]).kept, 12);
        assert_eq!(op.working_memory(&[None], &[]), WorkingMemory::default());
    }
}
