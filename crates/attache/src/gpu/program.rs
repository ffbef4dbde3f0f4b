//! Joins the programs of a partition's nodes to one program, whose inputs and outputs have the types of the
//! partition's tensors. The GPU kernel is prepared from this program.

use std::collections::HashMap;

use attache_base::{DataType, Shape};
use attache_gpu_ir::{Expression, Primitive, Program, Scalar, ValueId};
use attache_graph::{AffineParameters, Graph, Lowered, NodeId, Quantized, TensorId};

use super::kernel::PartitionInfo;
use crate::{DelegateError, Partition};

/// A partition as one program. The origin of each step is the index of its node among the nodes of `info`.
pub(super) struct Stitched {
    pub(super) program: Program,
    pub(super) info: PartitionInfo,
}

/// What a claim of the GPU delegate contains.
pub(super) struct GpuClaim {
    /// The node's program, with quantized tensors as the options say, or as floats if they leave it open.
    pub(super) lowered: Lowered,
    /// If the options leave open how quantized tensors are computed: the program that computes with integers; `None`
    /// if the node has no such form.
    pub(super) exact: Option<Lowered>,
    /// Whether the options leave open how quantized tensors are computed, and the node has some.
    pub(super) is_open: bool,
}

/// Joins the programs in the claims of a partition's nodes to one program. Its inputs and outputs are those of the
/// partition, in its order. `asked` is how quantized tensors are computed; if it is left open, it is chosen here.
pub(super) fn stitch(partition: Partition<'_>, asked: Option<Quantized>) -> Result<Stitched, DelegateError> {
    let mut claims = Vec::with_capacity(partition.nodes.len());
    for (id, claim) in partition.nodes {
        let claim =
            claim.downcast::<GpuClaim>().ok_or_else(|| DelegateError::new("the claim is another delegate's"))?;
        claims.push((id, *claim));
    }
    let is_open = claims.iter().any(|(_, claim)| claim.is_open);
    let is_exact = claims.iter().all(|(_, claim)| !claim.is_open || claim.exact.is_some());
    let chosen = |(id, claim): (NodeId, GpuClaim)| match claim.exact {
        Some(exact) if is_exact => (id, exact),
        _ => (id, claim.lowered),
    };
    let claims: Vec<(NodeId, Lowered)> = claims.into_iter().map(chosen).collect();
    let quantized = is_open.then_some(if is_exact { Quantized::Exact } else { Quantized::View });
    let (graph, mut program) = (partition.graph, Program::default());
    let mut values: HashMap<TensorId, ValueId> = HashMap::new();
    for tensor in &partition.inputs {
        // A node may have an input that its program does not use, for example an empty part of a concatenation.
        let (scalar, shape) = first_read(graph, &claims, *tensor).unwrap_or((Scalar::F32, [0].into()));
        let value = match affine_parameters(graph, *tensor, scalar)? {
            Some(parameters) => {
                let stored = program.input(Scalar::I32, shape);
                program.store_as(stored, graph.fact(*tensor).data_type);
                convert(&mut program, stored, parameters.dequantize(Expression::Input(0)), Scalar::F32, 0)?
            }
            None => {
                let data_type = graph.fact(*tensor).data_type;
                // Integers are copied as integers even if a node reads them as floats. The device converts them at no
                // cost. On the host, converting an image would take longer than running a small network.
                let is_integer = matches!(data_type, DataType::Int8 | DataType::UInt8 | DataType::Int32);
                let value = program.input(if is_integer { Scalar::I32 } else { scalar }, shape);
                program.store_as(value, data_type);
                value
            }
        };
        values.insert(*tensor, value);
    }
    for (origin, (id, lowered)) in claims.iter().enumerate() {
        let node = graph.node(*id);
        let tensors = lowered.reads.iter().map(|input| node.inputs[*input].and_then(|tensor| values.get(&tensor)));
        let inputs: Option<Vec<ValueId>> = tensors.map(|value| value.copied()).collect();
        let inputs = inputs.ok_or_else(|| DelegateError::new(format!("node {} reads what nobody makes", id.0)))?;
        let tensors = lowered.reads.iter().filter_map(|input| node.inputs[*input]);
        let types: Vec<DataType> = tensors.map(|tensor| graph.fact(tensor).data_type).collect();
        let inputs = as_read(&mut program, lowered, &inputs, &types, origin)?;
        let outputs = program.append(&lowered.program, &inputs, origin);
        // A node that follows reads the new value of a variable.
        let states = lowered.states.iter().filter_map(|input| node.inputs[*input]);
        values.extend(node.outputs.iter().copied().chain(states).zip(outputs));
    }
    for tensor in &partition.outputs {
        let value = values.get(tensor).copied();
        let value = value.ok_or_else(|| DelegateError::new("the partition does not make all of its outputs"))?;
        let output = match affine_parameters(graph, *tensor, program.value(value).scalar)? {
            Some(parameters) => {
                convert(&mut program, value, parameters.quantize(Expression::Input(0)), Scalar::I32, claims.len() - 1)?
            }
            None => value,
        };
        program.store_as(output, graph.fact(*tensor).data_type);
        program.outputs.push(output);
    }
    program.validate().map_err(|error| DelegateError::new(error.to_string()))?;
    let nodes = claims.into_iter().map(|(id, _)| id).collect();
    let info = PartitionInfo::new(graph, nodes, &partition.inputs, &partition.outputs, asked.or(quantized));
    Ok(Stitched { program, info })
}

/// Returns the quantization parameters of a tensor that is a float in the program, for conversion at the
/// border of the partition; `None` if no conversion is needed.
fn affine_parameters(
    graph: &Graph,
    tensor: TensorId,
    scalar: Scalar,
) -> Result<Option<AffineParameters>, DelegateError> {
    if scalar == Scalar::I32 {
        return Ok(None);
    }
    AffineParameters::of(graph.fact(tensor)).map_err(|unsupported| DelegateError::new(unsupported.to_string()))
}

/// Adds a step that applies `expression` to each element of `value`, and returns its output, of type
/// `scalar`.
fn convert(
    program: &mut Program,
    value: ValueId,
    expression: Expression,
    scalar: Scalar,
    origin: usize,
) -> Result<ValueId, DelegateError> {
    let map = Primitive::Map { expression, shape: program.shape(value).clone(), scalar };
    Ok(program.step(map, &[value], origin).map_err(|error| DelegateError::new(error.to_string()))?[0])
}

/// Returns `values` in the scalar types in which a node's program reads them. Integers are cast if other
/// nodes made or read them as another scalar type.
fn as_read(
    program: &mut Program,
    lowered: &Lowered,
    values: &[ValueId],
    types: &[DataType],
    origin: usize,
) -> Result<Vec<ValueId>, DelegateError> {
    let mut inputs = Vec::with_capacity(values.len());
    for ((value, input), data_type) in values.iter().zip(&lowered.program.inputs).zip(types) {
        let scalar = lowered.program.value(*input).scalar;
        inputs.push(if program.value(*value).scalar == scalar {
            *value
        } else if *data_type == DataType::Float32 {
            return Err(DelegateError::new("indices in windows are read as something else"));
        } else {
            convert(program, *value, Expression::Input(0), scalar, origin)?
        });
    }
    Ok(inputs)
}

/// Returns the scalar type and the shape in which the first reader of a tensor among the partition's nodes
/// reads it; `None` if no program reads it.
fn first_read(graph: &Graph, claims: &[(NodeId, Lowered)], tensor: TensorId) -> Option<(Scalar, Shape)> {
    claims.iter().find_map(|(id, lowered)| {
        let input = lowered.reads.iter().position(|input| graph.node(*id).inputs[*input] == Some(tensor))?;
        let value = lowered.program.value(lowered.program.inputs[input]);
        Some((value.scalar, value.shape.clone()))
    })
}
