//! Joins the programs of a partition's nodes to one program, whose inputs and outputs have the types of the
//! partition's tensors. The GPU kernel is prepared from this program.

use std::collections::HashMap;

use attache_base::{DataType, Shape};
use attache_gpu_ir::{Expression, Primitive, Program, Scalar, ValueId};
use attache_graph::{AffineParameters, Graph, Lowered, NodeId, Quantized, TensorId};

use super::kernel::{Forms, PartitionInfo};
use crate::{DelegateError, Partition};

/// A partition as one program. The origin of each step is the index of its node among the nodes of `info`.
pub(super) struct Stitched {
    pub(super) program: Program,
    pub(super) info: PartitionInfo,
}

/// What a claim of the GPU delegate contains: the node's program in the forms that a partition may choose from.
pub(super) enum GpuClaim {
    /// The options say how quantized tensors are computed, or the node has none.
    Settled(Lowered),
    /// The program that computes with floats.
    Floats(Lowered),
    /// The program that computes with integers, for a node that has no other.
    Integers(Lowered),
    /// The programs that compute with floats and with integers.
    Both(Box<[Lowered; 2]>),
}

/// Chooses a form for each node: integers if every node has them, and otherwise floats for each node that has them.
fn chosen(claims: Vec<(NodeId, GpuClaim)>) -> (Vec<(NodeId, Lowered)>, Forms) {
    let all_integers = !claims.iter().any(|(_, claim)| matches!(claim, GpuClaim::Floats(_)));
    let mut forms = Forms::default();
    let mut lowered = Vec::with_capacity(claims.len());
    for (id, claim) in claims {
        let (program, is_integers) = match claim {
            GpuClaim::Settled(program) => {
                lowered.push((id, program));
                continue;
            }
            GpuClaim::Floats(program) => (program, false),
            GpuClaim::Integers(program) => (program, true),
            GpuClaim::Both(programs) => {
                let [floats, integers] = *programs;
                (if all_integers { integers } else { floats }, all_integers)
            }
        };
        *(if is_integers { &mut forms.integers } else { &mut forms.floats }) = true;
        lowered.push((id, program));
    }
    (lowered, forms)
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
    let (claims, forms) = chosen(claims);
    let graph = partition.graph;
    let mut stitching = Stitching { graph, program: Program::default(), values: HashMap::new() };
    partition.inputs.iter().try_for_each(|tensor| stitching.input(&claims, *tensor))?;
    for (origin, (id, lowered)) in claims.iter().enumerate() {
        stitching.node(*id, lowered, origin)?;
    }
    partition.outputs.iter().try_for_each(|tensor| stitching.output(*tensor, claims.len() - 1))?;
    let program = stitching.program;
    program.validate().map_err(|error| DelegateError::new(error.to_string()))?;
    let nodes = claims.into_iter().map(|(id, _)| id).collect();
    let forms = asked.map_or(forms, Forms::from);
    let info = PartitionInfo::new(graph, nodes, &partition.inputs, &partition.outputs, forms);
    Ok(Stitched { program, info })
}

/// The program of a partition while its nodes are added.
struct Stitching<'a> {
    graph: &'a Graph,
    program: Program,
    /// The values of tensors. A quantized tensor may have one of integers, which are what it stores, and one of floats,
    /// which are what these stand for.
    values: HashMap<(TensorId, Scalar), ValueId>,
}

impl Stitching<'_> {
    /// Adds an input of the partition.
    fn input(&mut self, claims: &[(NodeId, Lowered)], tensor: TensorId) -> Result<(), DelegateError> {
        let reads = reads(self.graph, claims, tensor);
        // A node may have an input that its program does not use, for example an empty part of a concatenation.
        let (scalar, shape) = reads.first().cloned().unwrap_or((Scalar::F32, [0].into()));
        let data_type = self.graph.fact(tensor).data_type;
        let reads_floats = reads.iter().any(|(scalar, _)| *scalar == Scalar::F32);
        let parameters = if reads_floats { affine_parameters(self.graph, tensor)? } else { None };
        // Integers are copied as integers even if a node reads them as floats. The device converts them at no
        // cost. On the host, converting an image would take longer than running a small network.
        let is_integer = matches!(data_type, DataType::Int8 | DataType::UInt8 | DataType::Int32);
        let scalar = if is_integer || parameters.is_some() { Scalar::I32 } else { scalar };
        let value = self.program.input(scalar, shape);
        self.program.store_as(value, data_type);
        self.values.insert((tensor, scalar), value);
        if let Some(parameters) = parameters {
            let real = self.convert(value, parameters.dequantize(Expression::Input(0)), Scalar::F32, 0)?;
            self.values.insert((tensor, Scalar::F32), real);
        }
        Ok(())
    }

    /// Adds the program of a node.
    fn node(&mut self, id: NodeId, lowered: &Lowered, origin: usize) -> Result<(), DelegateError> {
        let node = self.graph.node(id);
        let mut inputs = Vec::with_capacity(lowered.reads.len());
        for (input, value) in lowered.reads.iter().zip(&lowered.program.inputs) {
            let made = || DelegateError::new(format!("node {} reads what nobody makes", id.0));
            let tensor = node.inputs[*input].ok_or_else(made)?;
            let scalar = lowered.program.value(*value).scalar;
            inputs.push(self.read(tensor, scalar, origin)?.ok_or_else(made)?);
        }
        let outputs = self.program.append(&lowered.program, &inputs, origin);
        // A node that follows reads the new value of a variable.
        let states = lowered.states.iter().filter_map(|input| node.inputs[*input]);
        // States are kept in full precision, so that they do not lose digits at each run.
        outputs[node.outputs.len()..].iter().for_each(|state| self.program.values[state.index()].is_inner = true);
        for (tensor, value) in node.outputs.iter().copied().chain(states).zip(outputs) {
            let scalar = self.program.value(value).scalar;
            // The value of a variable that nodes read before is out of date, in either scalar type.
            self.values.remove(&(tensor, other(scalar)));
            self.values.insert((tensor, scalar), value);
        }
        Ok(())
    }

    /// Returns a tensor in the scalar type in which a node's program reads it; `None` if nothing made it. What other nodes
    /// made in the other scalar type is converted.
    fn read(&mut self, tensor: TensorId, scalar: Scalar, origin: usize) -> Result<Option<ValueId>, DelegateError> {
        if let Some(value) = self.values.get(&(tensor, scalar)) {
            return Ok(Some(*value));
        }
        let Some(value) = self.values.get(&(tensor, other(scalar))).copied() else { return Ok(None) };
        if self.graph.fact(tensor).data_type == DataType::Float32 {
            return Err(DelegateError::new("indices in windows are read as something else"));
        }
        let expression = match (affine_parameters(self.graph, tensor)?, scalar) {
            (Some(parameters), Scalar::F32) => parameters.dequantize(Expression::Input(0)),
            (Some(parameters), Scalar::I32) => parameters.quantize(Expression::Input(0)),
            (None, _) => Expression::Input(0),
        };
        self.convert(value, expression, scalar, origin).map(Some)
    }

    /// Adds an output of the partition.
    fn output(&mut self, tensor: TensorId, last: usize) -> Result<(), DelegateError> {
        let value = [Scalar::I32, Scalar::F32].iter().find_map(|scalar| self.values.get(&(tensor, *scalar)).copied());
        let value = value.ok_or_else(|| DelegateError::new("the partition does not make all of its outputs"))?;
        let is_real = self.program.value(value).scalar == Scalar::F32;
        let parameters = if is_real { affine_parameters(self.graph, tensor)? } else { None };
        let output = match parameters {
            Some(parameters) => self.convert(value, parameters.quantize(Expression::Input(0)), Scalar::I32, last)?,
            None => value,
        };
        self.program.store_as(output, self.graph.fact(tensor).data_type);
        self.program.outputs.push(output);
        Ok(())
    }

    /// Adds a step that applies `expression` to each element of `value`, and returns its output, of type `scalar`.
    fn convert(
        &mut self,
        value: ValueId,
        expression: Expression,
        scalar: Scalar,
        origin: usize,
    ) -> Result<ValueId, DelegateError> {
        let map = Primitive::Map { expression, shape: self.program.shape(value).clone(), scalar };
        Ok(self.program.step(map, &[value], origin).map_err(|error| DelegateError::new(error.to_string()))?[0])
    }
}

fn other(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::F32 => Scalar::I32,
        Scalar::I32 => Scalar::F32,
    }
}

/// Returns the quantization parameters of a tensor, to convert between the integers that it stores and the floats that
/// they stand for; `None` if it is not quantized.
fn affine_parameters(graph: &Graph, tensor: TensorId) -> Result<Option<AffineParameters>, DelegateError> {
    AffineParameters::of(graph.fact(tensor)).map_err(|unsupported| DelegateError::new(unsupported.to_string()))
}

/// Returns the scalar types and the shapes in which the partition's nodes read a tensor, in their order.
fn reads(graph: &Graph, claims: &[(NodeId, Lowered)], tensor: TensorId) -> Vec<(Scalar, Shape)> {
    let of_claim = |(id, lowered): &(NodeId, Lowered)| {
        let node = graph.node(*id);
        let reads = lowered.reads.iter().zip(&lowered.program.inputs);
        let reads = reads.filter(|(input, _)| node.inputs[**input] == Some(tensor));
        let reads = reads.map(|(_, value)| lowered.program.value(*value));
        reads.map(|value| (value.scalar, value.shape.clone())).collect::<Vec<_>>()
    };
    claims.iter().flat_map(of_claim).collect()
}
