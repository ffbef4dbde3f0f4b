//! Shared by the operators that call subgraphs of the model (IF, WHILE, CALL_ONCE): checks of a called
//! subgraph, its inferred output shapes, and its graph. Independent of how subgraphs are run.

use attache_base::{DataType, Shape};
use attache_graph::{Body, Fact, Graph, OpError, PassedTensor};

use crate::Declaration;
use crate::subgraphs::Callees;

/// A subgraph that an operator calls, with the types of its inputs and outputs.
pub(crate) struct Callee {
    /// Index of the subgraph in the model, which is valid.
    pub(crate) index: usize,
    /// Types of the subgraph's inputs.
    inputs: Vec<DataType>,
    /// Types of the subgraph's outputs.
    outputs: Vec<DataType>,
    callees: Callees,
}

impl std::fmt::Debug for Callee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { index, inputs, outputs, .. } = self;
        f.debug_struct("Callee").field("index", index).field("inputs", inputs).field("outputs", outputs).finish()
    }
}

impl Callee {
    /// Returns the subgraph with this index. An error unless the subgraph exists and has the numbers of
    /// inputs and outputs in `counts`. Callers derive these from the operator's own tensors, which bounds the
    /// memory for the types.
    pub(crate) fn new(declaration: &Declaration<'_>, index: i32, counts: (usize, usize)) -> Result<Self, OpError> {
        let subgraphs = declaration.callees.model().subgraphs();
        let found = usize::try_from(index).ok().and_then(|index| Some((index, subgraphs.get(index)?)));
        let (index, subgraph) = found.ok_or_else(|| {
            OpError::invalid(format!("it runs subgraph {index}; the model has {} subgraphs", subgraphs.len()))
        })?;
        let actual = (subgraph.inputs.len(), subgraph.outputs.len());
        if actual != counts {
            let reason = format!(
                "it runs subgraph {index} with {} inputs and {} outputs; that one has {} and {}",
                counts.0, counts.1, actual.0, actual.1
            );
            return Err(OpError::invalid(reason));
        }
        let types = |tensors: &[usize]| tensors.iter().map(|tensor| subgraph.tensors[*tensor].data_type).collect();
        let callees = declaration.callees.clone();
        Ok(Self { index, inputs: types(&subgraph.inputs), outputs: types(&subgraph.outputs), callees })
    }

    /// Returns the subgraph's output shapes for these input shapes; `None` for a shape that is known only at
    /// run time.
    pub(crate) fn shapes(&self, inputs: &[Option<Shape>]) -> Vec<Option<Shape>> {
        self.callees.shapes(self.index, inputs)
    }

    /// Returns the subgraph as what an operator does whose inputs from index `first` on are the arguments; `name` is what is
    /// called, for people. Fails with the reason if the nodes of the subgraph can't take the place of the call.
    pub(crate) fn body(&self, name: &str, inputs: &[Option<&Fact>], first: usize) -> Result<Body, String> {
        self.check_stateless()?;
        let graph = self.callees.graph(self.index, shapes_of(inputs.get(first..).unwrap_or_default()))?;
        Ok(Body { name: name.to_owned(), subgraph: self.index, graph, first })
    }

    /// Returns the graph of the subgraph for these input shapes, for who decides whether its nodes can take the place of a
    /// call. Fails with the reason if they can't.
    pub(crate) fn examined(&self, shapes: &[Option<Shape>]) -> Result<Graph, String> {
        self.check_stateless()?;
        Ok(self.callees.examined(self.index, shapes.to_vec())?)
    }

    fn check_stateless(&self) -> Result<(), String> {
        let source = &self.callees.model().subgraphs()[self.index];
        // All calls of a subgraph share its variables.
        if source.tensors.iter().any(|tensor| tensor.is_variable) {
            return Err("its subgraph has variable tensors".into());
        }
        if source.operators.iter().any(|operator| !operator.intermediates.is_empty()) {
            return Err("an operator of its subgraph has intermediate tensors".into());
        }
        Ok(())
    }

    /// Checks that all inputs of the operator are present and have the types of the subgraph's inputs.
    pub(crate) fn check_inputs(&self, inputs: &[Option<&Fact>]) -> Result<(), OpError> {
        for (index, (input, data_type)) in inputs.iter().zip(&self.inputs).enumerate() {
            let input = input
                .ok_or_else(|| OpError::invalid(format!("input {index} of subgraph {} is missing", self.index)))?;
            self.same_type("input", index, *data_type, input.data_type)?;
        }
        Ok(())
    }

    /// Checks that the subgraph's outputs have these types.
    pub(crate) fn check_outputs(&self, expected: &[DataType]) -> Result<(), OpError> {
        let mut pairs = self.outputs.iter().zip(expected).enumerate();
        pairs.try_for_each(|(index, (actual, expected))| self.same_type("output", index, *actual, *expected))
    }

    /// Checks that an input or output (`what`) of the subgraph has the expected type.
    fn same_type(&self, what: &str, index: usize, actual: DataType, expected: DataType) -> Result<(), OpError> {
        if actual == expected {
            return Ok(());
        }
        let subgraph = self.index;
        Err(OpError::invalid(format!("{what} {index} of subgraph {subgraph} is of type {actual}, not {expected}")))
    }
}

/// Returns the shapes of inputs; `None` for an input that is missing or of unknown shape.
pub(crate) fn shapes_of(inputs: &[Option<&Fact>]) -> Vec<Option<Shape>> {
    inputs.iter().map(|input| input.and_then(|input| input.shape.clone())).collect()
}

/// Returns the types of an operator's outputs, as the model file states them.
pub(crate) fn stated_types(declaration: &Declaration<'_>) -> Vec<DataType> {
    declaration.outputs.iter().map(|output| output.data_type).collect()
}

/// Returns the operator's inputs from index `first` on. An error where one is missing.
pub(crate) fn arguments(inputs: Vec<Option<PassedTensor>>, first: usize) -> Result<Vec<PassedTensor>, OpError> {
    let given = inputs.into_iter().enumerate().skip(first);
    given.map(|(index, input)| input.ok_or_else(|| OpError::invalid(format!("input {index} is missing")))).collect()
}

/// Returns an input that the operator requires.
pub(crate) fn argument(inputs: &[Option<PassedTensor>], index: usize) -> Result<&PassedTensor, OpError> {
    let input = inputs.get(index).and_then(Option::as_ref);
    input.ok_or_else(|| OpError::invalid(format!("input {index} is missing")))
}

/// Returns the error of `eval` for an operator that passes tensors on.
pub(crate) fn passes_only() -> OpError {
    OpError::unsupported("it passes tensors on, which only an interpreter has")
}

/// Returns the boolean of a condition, given its bytes. An error unless it has exactly one element.
pub(crate) fn truth(bytes: &[u8]) -> Result<bool, OpError> {
    match bytes {
        [byte] => Ok(*byte != 0),
        _ => Err(OpError::invalid(format!("a condition of {} truth values", bytes.len()))),
    }
}
