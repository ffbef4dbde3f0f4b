//! A subgraph that an operator calls: its inputs and outputs, and the shapes it infers. Independent of operators and of
//! how subgraphs are run.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Fact, OpError, TensorRef};

use crate::Declaration;
use crate::subgraphs::Callees;

/// A subgraph that an operator calls.
pub(crate) struct Callee {
    /// Its index, which is valid.
    pub(crate) index: usize,
    inputs: Vec<DataType>,
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
    /// The subgraph with this index. An error unless it has the requested numbers of inputs and outputs, so that its
    /// stored types are never more than those of the operator itself.
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

    /// The output shapes for these input shapes, as far as they are known before it runs.
    pub(crate) fn shapes(&self, inputs: &[Option<Shape>]) -> Vec<Option<Shape>> {
        self.callees.shapes(self.index, inputs)
    }

    /// An error unless all inputs are present and have the types of the subgraph's inputs.
    pub(crate) fn check_inputs(&self, inputs: &[Option<&Fact>]) -> Result<(), OpError> {
        for (index, (input, data_type)) in inputs.iter().zip(&self.inputs).enumerate() {
            let input = input
                .ok_or_else(|| OpError::invalid(format!("input {index} of subgraph {} is missing", self.index)))?;
            self.same_type("input", index, *data_type, input.data_type)?;
        }
        Ok(())
    }

    /// An error unless the subgraph's outputs have these types.
    pub(crate) fn check_outputs(&self, expected: &[DataType]) -> Result<(), OpError> {
        let mut pairs = self.outputs.iter().zip(expected).enumerate();
        pairs.try_for_each(|(index, (actual, expected))| self.same_type("output", index, *actual, *expected))
    }

    fn same_type(&self, what: &str, index: usize, actual: DataType, expected: DataType) -> Result<(), OpError> {
        if actual == expected {
            return Ok(());
        }
        let subgraph = self.index;
        Err(OpError::invalid(format!("{what} {index} of subgraph {subgraph} is of type {actual}, not {expected}")))
    }
}

/// The known shapes of inputs.
pub(crate) fn shapes_of(inputs: &[Option<&Fact>]) -> Vec<Option<Shape>> {
    inputs.iter().map(|input| input.and_then(|input| input.shape.clone())).collect()
}

/// Sets the value of an output. Where the output is already allocated, the value must have the inferred shape.
pub(crate) fn deliver(eval: &mut Eval<'_>, index: usize, shape: Shape, bytes: &[u8]) -> Result<(), OpError> {
    let Some(output) = eval.outputs.get_mut(index) else { return eval.host.set_output(index, shape, bytes) };
    if *output.shape != shape || output.bytes.len() != bytes.len() {
        let planned = output.shape;
        return Err(OpError::invalid(format!("output {index} is of the shape {shape} where {planned} was planned")));
    }
    output.bytes.copy_from_slice(bytes);
    Ok(())
}

/// The types of an operator's outputs, as stated by the file.
pub(crate) fn stated_types(declaration: &Declaration<'_>) -> Vec<DataType> {
    declaration.outputs.iter().map(|output| output.data_type).collect()
}

/// The inputs from `first` on, all of which are required.
pub(crate) fn arguments<'a>(eval: &Eval<'a>, first: usize) -> Result<Vec<TensorRef<'a>>, OpError> {
    (first..eval.inputs.len()).map(|index| eval.input(index)).collect()
}

/// The single boolean of a condition.
pub(crate) fn truth(bytes: &[u8]) -> Result<bool, OpError> {
    match bytes {
        [byte] => Ok(*byte != 0),
        _ => Err(OpError::invalid(format!("a condition of {} truth values", bytes.len()))),
    }
}
