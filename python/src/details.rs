//! What Python reads about tensors, operators and signatures: LiteRT's dictionaries.

use std::collections::{BTreeMap, BTreeSet};

use attache::model::{QuantizationDetails, SparseAxis, Tensor};
use attache::{Constant, DataType, Model, Outcome, Placement};
use numpy::{PyArray1, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arrays::{class_of, dtype_of, empty};
use crate::fault::Fault;

/// Returns LiteRT's dictionary of a tensor with the shape and the type that it has now. It is given by the
/// index of its subgraph and its own.
pub(crate) fn tensor<'py>(
    py: Python<'py>,
    model: &Model,
    [subgraph, index]: [usize; 2],
    shape: &[usize],
    data_type: DataType,
) -> PyResult<Bound<'py, PyDict>> {
    let tensor = &model.subgraphs()[subgraph].tensors[index];
    let Some(class) = class_of(py, data_type)? else {
        let text = format!("tensor {index}, '{}', is of type {data_type}, which NumPy does not have", tensor.name);
        return Err(Fault(text).value());
    };
    let extents: Vec<i32> = shape.iter().map(|extent| i32::try_from(*extent).unwrap_or(i32::MAX)).collect();
    let signature = tensor.shape_signature.clone().filter(|signature| !signature.is_empty());
    let details = PyDict::new(py);
    details.set_item("name", &tensor.name)?;
    details.set_item("index", index)?;
    details.set_item("shape", PyArray1::from_slice(py, &extents))?;
    details.set_item("shape_signature", PyArray1::from_vec(py, signature.unwrap_or(extents)))?;
    details.set_item("dtype", class)?;
    details.set_item("quantization", scale_and_zero_point(tensor))?;
    details.set_item("quantization_parameters", quantization(py, &model.subgraphs()[subgraph].tensors, tensor)?)?;
    details.set_item("sparsity_parameters", sparsity(py, model, subgraph, index)?)?;
    Ok(details)
}

/// Returns scale and zero point of a tensor that has one of each, otherwise zeros.
fn scale_and_zero_point(tensor: &Tensor) -> (f32, i32) {
    match &tensor.quantization {
        Some(quantization) => match (&quantization.scale[..], &quantization.zero_point[..]) {
            ([scale], [zero_point]) => (*scale, saturated(*zero_point)),
            _ => (0.0, 0),
        },
        None => (0.0, 0),
    }
}

/// Returns LiteRT's dictionary of quantization parameters. With blocks, the scales are those of all blocks in the type of the
/// tensor that has them.
fn quantization<'py>(py: Python<'py>, tensors: &[Tensor], tensor: &Tensor) -> PyResult<Bound<'py, PyDict>> {
    let (scales, zero_points, axis) = match &tensor.quantization {
        Some(it) => (it.scale.clone(), it.zero_point.iter().map(|point| saturated(*point)).collect(), it.axis),
        None => (Vec::new(), Vec::new(), 0),
    };
    let (axis, block_size) = match tensor.quantization_details {
        QuantizationDetails::Blockwise { block_size, axis, .. } => (axis, block_size),
        _ => (axis, 0),
    };
    let parameters = PyDict::new(py);
    match block_scales(py, tensors, tensor)? {
        Some(scales) => parameters.set_item("scales", scales)?,
        None => parameters.set_item("scales", PyArray1::<f32>::from_vec(py, scales))?,
    }
    parameters.set_item("zero_points", PyArray1::<i32>::from_vec(py, zero_points))?;
    parameters.set_item("quantized_dimension", axis)?;
    parameters.set_item("block_size", block_size)?;
    Ok(parameters)
}

/// Returns the scales of all blocks of a tensor as an array of one dimension; `None` if it has no blocks.
fn block_scales<'py>(
    py: Python<'py>,
    tensors: &[Tensor],
    tensor: &Tensor,
) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
    let QuantizationDetails::Blockwise { scales, .. } = tensor.quantization_details else { return Ok(None) };
    let Some(Constant { data_type, shape, bytes }) = tensors.get(scales).and_then(|scales| scales.constant.as_ref())
    else {
        return Ok(None);
    };
    let Some(descriptor) = dtype_of(py, *data_type) else { return Ok(None) };
    let (array, elements) = empty(py, descriptor, &[shape.elements()])?;
    let Some(bytes) = bytes.get(..elements.len()) else { return Ok(None) };
    elements.copy_from_slice(bytes);
    Ok(Some(array))
}

fn saturated(zero_point: i64) -> i32 {
    zero_point.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

/// Returns how a sparse tensor is stored; an empty dictionary for others.
fn sparsity<'py>(py: Python<'py>, model: &Model, subgraph: usize, index: usize) -> PyResult<Bound<'py, PyDict>> {
    let parameters = PyDict::new(py);
    let Some(sparsity) = model.sparsity(subgraph, index) else { return Ok(parameters) };
    parameters.set_item("traversal_order", integers(py, &sparsity.traversal_order))?;
    parameters.set_item("block_map", integers(py, &sparsity.block_map))?;
    let dimensions = PyList::empty(py);
    for axis in &sparsity.axes {
        let entry = PyDict::new(py);
        match axis {
            SparseAxis::Sparse { segments, indices, .. } => {
                entry.set_item("format", 1)?;
                entry.set_item("array_segments", integers(py, segments))?;
                entry.set_item("array_indices", integers(py, indices))?;
            }
            SparseAxis::Dense(size) => {
                entry.set_item("format", 0)?;
                entry.set_item("dense_size", *size)?;
            }
            _ => {}
        }
        dimensions.append(entry)?;
    }
    parameters.set_item("dim_metadata", dimensions)?;
    Ok(parameters)
}

/// Returns an array of integers.
fn integers<'py>(py: Python<'py>, values: &[i32]) -> Bound<'py, PyArray1<i32>> {
    PyArray1::from_slice(py, values)
}

/// A node as LiteRT shows it: an operator of the file, or a partition that a delegate runs.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) inputs: Vec<i32>,
    pub(crate) outputs: Vec<i32>,
}

/// Returns the nodes of a subgraph: the operators of the file, and behind them one for each partition on a delegate.
pub(crate) fn nodes(model: &Model, subgraph: usize, placement: Option<&Placement>) -> Vec<Node> {
    let operators = &model.subgraphs()[subgraph].operators;
    let number = |tensor: &usize| i32::try_from(*tensor).unwrap_or(-1);
    let of_file = operators.iter().map(|operator| Node {
        name: operator.code.name(),
        inputs: operator.inputs.iter().map(|tensor| tensor.as_ref().map_or(-1, number)).collect(),
        outputs: operator.outputs.iter().map(number).collect(),
    });
    let mut partitions = BTreeMap::<usize, BTreeSet<usize>>::new();
    for node in placement.iter().flat_map(|placement| &placement.nodes) {
        if let Outcome::On { partition, .. } = &node.outcome {
            partitions.entry(*partition).or_default().insert(node.index);
        }
    }
    let of_partition = |own: BTreeSet<usize>| {
        let made: BTreeSet<usize> = own.iter().flat_map(|node| operators[*node].outputs.iter().copied()).collect();
        let read: BTreeSet<usize> =
            own.iter().flat_map(|node| operators[*node].inputs.iter().flatten().copied()).collect();
        let others = operators.iter().enumerate().filter(|(index, _)| !own.contains(index));
        let wanted = others.flat_map(|(_, operator)| operator.inputs.iter().flatten());
        let wanted: BTreeSet<usize> = wanted.chain(&model.subgraphs()[subgraph].outputs).copied().collect();
        Node {
            name: "DELEGATE".to_owned(),
            inputs: read.difference(&made).map(number).collect(),
            outputs: made.intersection(&wanted).map(number).collect(),
        }
    };
    of_file.chain(partitions.into_values().map(of_partition)).collect()
}

impl Node {
    /// Returns name, inputs and outputs.
    pub(crate) fn to_python<'py>(
        &self,
        py: Python<'py>,
    ) -> (String, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i32>>) {
        (self.name.clone(), integers(py, &self.inputs), integers(py, &self.outputs))
    }
}

/// Returns the signatures of a model, with the names of inputs and outputs in alphabetical order, as LiteRT has them.
pub(crate) fn signatures<'py>(py: Python<'py>, model: &Model) -> PyResult<Bound<'py, PyDict>> {
    let names = |entries: &[(String, usize)]| -> PyResult<Bound<'py, PyDict>> {
        let names = PyDict::new(py);
        for (name, tensor) in entries.iter().map(|(name, tensor)| (name, tensor)).collect::<BTreeMap<_, _>>() {
            names.set_item(name, tensor)?;
        }
        Ok(names)
    };
    let signatures = PyDict::new(py);
    for signature in model.signatures() {
        let entry = PyDict::new(py);
        entry.set_item("inputs", names(&signature.inputs)?)?;
        entry.set_item("outputs", names(&signature.outputs)?)?;
        signatures.set_item(&signature.key, entry)?;
    }
    Ok(signatures)
}
