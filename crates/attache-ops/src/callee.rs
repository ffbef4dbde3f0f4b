//! Another subgraph of the model, as an operator runs it. Knows no operator and nothing of how it is run.

use attache_base::DataType;
use attache_graph::{Eval, Fact, Inferred, OpError, TensorRef};

use crate::Declaration;

/// A subgraph that an operator runs.
#[derive(Debug)]
pub(crate) struct Callee {
    /// Its index, which exists.
    pub(crate) index: usize,
    inputs: Vec<DataType>,
    outputs: Vec<DataType>,
}

impl Callee {
    /// The subgraph of this index. An error unless it has as many inputs and outputs as are asked for: what is kept of
    /// it is never more than the operator itself has.
    pub(crate) fn new(declaration: &Declaration<'_>, index: i32, counts: (usize, usize)) -> Result<Self, OpError> {
        let subgraphs = declaration.subgraphs;
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
        Ok(Self { index, inputs: types(&subgraph.inputs), outputs: types(&subgraph.outputs) })
    }

    /// An error unless the inputs are all there and of the types of the subgraph's.
    pub(crate) fn check_inputs(&self, inputs: &[Option<&Fact>]) -> Result<(), OpError> {
        for (index, (input, data_type)) in inputs.iter().zip(&self.inputs).enumerate() {
            let input = input
                .ok_or_else(|| OpError::invalid(format!("input {index} of subgraph {} is missing", self.index)))?;
            self.same_type("input", index, *data_type, input.data_type)?;
        }
        Ok(())
    }

    /// An error unless the subgraph's outputs are of these types.
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

/// Outputs of these types whose shapes only a run tells.
pub(crate) fn unknown(types: &[DataType]) -> Vec<Inferred> {
    types.iter().map(|data_type| Inferred::unknown(*data_type)).collect()
}

/// The types of an operator's outputs, as the file states them.
pub(crate) fn stated_types(declaration: &Declaration<'_>) -> Vec<DataType> {
    declaration.outputs.iter().map(|output| output.data_type).collect()
}

/// The inputs from `first` on, which must all be there.
pub(crate) fn arguments<'a>(eval: &Eval<'a>, first: usize) -> Result<Vec<TensorRef<'a>>, OpError> {
    (first..eval.inputs.len()).map(|index| eval.input(index)).collect()
}

/// The one truth value that a condition is.
pub(crate) fn truth(bytes: &[u8]) -> Result<bool, OpError> {
    match bytes {
        [byte] => Ok(*byte != 0),
        _ => Err(OpError::invalid(format!("a condition of {} truth values", bytes.len()))),
    }
}
