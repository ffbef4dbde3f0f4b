//! The delegate itself: a claim on a node is the node's program, kept until its island is prepared.

use std::collections::HashMap;

use attache_base::DataType;
use attache_gpu::{
    Adapter, Ceilings, Device, DeviceOptions, GpuError, GpuErrorKind, Matrices, Needs, Precision, Submission, Variants,
    wgpu,
};
use attache_gpu_ir::{Expression, Primitive, Program, Scalar, ValueId};
use attache_graph::{Graph, Grid, Lowered, Lowering, NodeId, Quantized, Refusal, TensorId};

use super::kernel::{GpuKernel, failure};
use super::options::GpuDelegateOptions;
use crate::guard::guarded;
use crate::{Claim, Delegate, DelegateError, DelegateKernel, Error, ErrorKind, Island, Partitioning};

/// Bytes that one binding reaches on every device.
const COMMON_BINDING_BYTES: u64 = 128 << 20;

/// Runs islands on a GPU. Cheap to clone; clones share the device, and so may interpreters on several threads.
#[derive(Clone, Debug)]
pub struct GpuDelegate {
    device: Device,
    precision: Precision,
    quantized: Quantized,
    submission: Option<Submission>,
    partitioning: Partitioning,
    profiled: bool,
}

impl GpuDelegate {
    /// Opens a device and makes the delegate.
    pub fn new(options: GpuDelegateOptions) -> Result<Self, Error> {
        options.resolved_precision()?;
        let device = Device::open(&DeviceOptions {
            backend: options.backend,
            adapter: options.adapter.clone(),
            hardware_only: options.hardware_only,
            validation: options.validation,
            as_hardware: options.as_hardware,
            frugal: false,
            unchecked_buffers: false,
            no_shader_f16: options.no_shader_f16,
            emulate_matrices: options.emulate_matrices,
            fault: options.fault.or_else(super::fault::of_device),
        });
        Self::on(device.map_err(failed)?, options)
    }

    /// The delegate on a device that the caller opened. Choices of a device among the options don't count.
    pub fn with_device(device: wgpu::Device, queue: wgpu::Queue, options: GpuDelegateOptions) -> Result<Self, Error> {
        let device = Device::from_wgpu(device, queue);
        if device.adapter().max_storage_buffers < 4 {
            return Err(Error::new(ErrorKind::Device, "the device allows a shader fewer than four storage buffers"));
        }
        Self::on(device, options)
    }

    /// The delegate on an open device.
    fn on(device: Device, options: GpuDelegateOptions) -> Result<Self, Error> {
        if options.submission == Some(Submission::Replay) && !device.replays() {
            let message = "replay needs a device that the delegate opens itself, through Vulkan";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let precision = options.resolved_precision()?;
        let GpuDelegateOptions { quantized, submission, partitioning, variants, .. } = options;
        let device = device.with_variants(variants);
        Ok(Self { device, precision, quantized, submission, partitioning, profiled: false })
    }

    /// The same delegate on the same device, with another choice among the variants of kernels.
    pub fn with_variants(&self, variants: Variants) -> Self {
        Self { device: self.device.with_variants(variants), ..self.clone() }
    }

    /// What is missing here before a variant has any kernel to write; `None` where nothing is.
    pub fn lacks(&self, needs: Needs) -> Option<&'static str> {
        match needs {
            Needs::Nothing => None,
            Needs::Binary32 => (self.precision != Precision::F32).then_some("a precision of 32 bits"),
            Needs::Matrices if self.device.limits().matrices == Matrices::Absent => {
                Some("a device with cooperative matrices, or with these emulated")
            }
            Needs::Matrices => (self.precision == Precision::F32).then_some("a precision of 16 bits"),
            Needs::Bytes => (self.quantized != Quantized::Exact).then_some("integers, contracted as they are stored"),
        }
    }

    /// The same delegate on the same device, such that each run notes when its dispatches begin and end, for
    /// [`Interpreter::profile`](crate::Interpreter::profile). Runs take longer for it. An error where the device has no
    /// timestamps.
    pub fn profiled(&self) -> Result<Self, Error> {
        if !self.device.has_timestamps(self.usual_submission()) {
            return Err(Error::new(ErrorKind::Unsupported, "the device has no timestamps to time dispatches by"));
        }
        Ok(Self { profiled: true, ..self.clone() })
    }

    /// Measures what the device does at best: some milliseconds of its time.
    pub fn ceilings(&self) -> Result<Ceilings, Error> {
        Ceilings::measure(&self.device, self.usual_submission()).map_err(failed)
    }

    /// The way that commands take to the device unless there is too little room for it.
    pub(super) fn usual_submission(&self) -> Submission {
        let possible = if self.device.replays() { Submission::Replay } else { Submission::Encoder };
        self.submission.unwrap_or(possible)
    }

    /// What is known about the device.
    pub fn adapter(&self) -> &Adapter {
        self.device.adapter()
    }

    /// In which numbers it computes.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Milliseconds that opening the device took; 0 where the caller opened it.
    pub fn device_ms(&self) -> f64 {
        self.device.open_ms()
    }

    /// Whether a GPU takes the node, or why not; asked of no device in particular.
    pub fn supports(graph: &Graph, node: NodeId, quantized: Quantized) -> Result<(), Refusal> {
        let lowered = guarded("GPU", "claim", || lower(graph, node, quantized, COMMON_BINDING_BYTES).map(drop));
        lowered.unwrap_or_else(|panic| Err(Refusal::new(panic.to_string())))
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }
}

/// What is to be said of a device's failure before anything is prepared.
fn failed(error: GpuError) -> Error {
    match error.kind() {
        GpuErrorKind::Unsupported => Error::new(ErrorKind::Unsupported, error.to_string()),
        _ => Error::new(ErrorKind::Device, error.to_string()),
    }
}

/// The node's program, where every value of it fits the device.
fn lower(graph: &Graph, node: NodeId, quantized: Quantized, max_binding_bytes: u64) -> Result<Lowered, Refusal> {
    let lowered = Lowering::lower(graph, graph.node(node), quantized)?;
    for value in &lowered.program.values {
        let bytes = value.shape.checked_elements().and_then(|elements| elements.checked_mul(4));
        if bytes.is_none_or(|bytes| bytes as u64 > max_binding_bytes.min(i32::MAX as u64)) {
            let limit = max_binding_bytes >> 20;
            return Err(Refusal::new(format!("a tensor of shape {} is over the device's {limit} MiB", value.shape)));
        }
    }
    Ok(lowered)
}

impl Delegate for GpuDelegate {
    fn name(&self) -> &str {
        "GPU"
    }

    fn partitioning(&self) -> Partitioning {
        self.partitioning.clone()
    }

    fn claim(&self, graph: &Graph, node: NodeId) -> Result<Claim, Refusal> {
        let lowered = lower(graph, node, self.quantized, self.device.adapter().max_binding_bytes)?;
        Ok(Claim::new(super::fault::plant(graph.node(node), lowered)))
    }

    fn prepare(&self, island: Island<'_>) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        let stitched = stitch(island)?;
        let prepared =
            |stitched, submission| GpuKernel::new(&self.device, stitched, self.precision, submission, self.profiled);
        let kernel = match self.submission {
            Some(submission) => prepared(stitched, submission),
            // What is too large for a few buffers may fit into more.
            None if self.device.replays() => match prepared(stitched.clone(), Submission::Replay) {
                Err(error) if matches!(error.kind(), GpuErrorKind::OutOfMemory | GpuErrorKind::Unsupported) => {
                    prepared(stitched, Submission::Encoder)
                }
                replayed => replayed,
            },
            None => prepared(stitched, Submission::Encoder),
        };
        Ok(Box::new(kernel.map_err(|error| failure("Prepare", &error))?))
    }
}

/// An island as one program; the origin of each step is the place of its node in `nodes`.
#[derive(Clone)]
pub(super) struct Stitched {
    pub(super) program: Program,
    pub(super) nodes: Vec<NodeId>,
    /// Types of the island's inputs and outputs.
    pub(super) inputs: Vec<DataType>,
    pub(super) outputs: Vec<DataType>,
    /// Whether the island is the whole graph.
    pub(super) is_whole: bool,
}

/// The programs of an island's nodes as one, its inputs and outputs in the island's order.
pub(super) fn stitch(island: Island<'_>) -> Result<Stitched, DelegateError> {
    let mut claims = Vec::with_capacity(island.nodes.len());
    for (id, claim) in island.nodes {
        let lowered =
            claim.downcast::<Lowered>().ok_or_else(|| DelegateError::new("the claim is another delegate's"))?;
        claims.push((id, *lowered));
    }
    let (graph, mut program) = (island.graph, Program::default());
    let mut values: HashMap<TensorId, ValueId> = HashMap::new();
    for tensor in &island.inputs {
        // A node may list an input that its program has no use for: an empty piece of a concatenation, say.
        let (scalar, shape) = first_read(graph, &claims, *tensor).unwrap_or((Scalar::F32, [0].into()));
        let value = match grid(graph, *tensor, scalar)? {
            Some(grid) => {
                let stored = program.input(Scalar::I32, shape);
                program.hold(stored, graph.fact(*tensor).data_type);
                convert(&mut program, stored, grid.dequantize(Expression::Input(0)), Scalar::F32, 0)?
            }
            None => {
                let data_type = graph.fact(*tensor).data_type;
                // Integers cross as they are, though a node read them as reals: the device converts them at no cost, a
                // host only at one that an image takes longer over than a small network.
                let is_integer = matches!(data_type, DataType::Int8 | DataType::UInt8 | DataType::Int32);
                let value = program.input(if is_integer { Scalar::I32 } else { scalar }, shape);
                program.hold(value, data_type);
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
        values.extend(node.outputs.iter().copied().zip(outputs));
    }
    for tensor in &island.outputs {
        let value = values.get(tensor).copied();
        let value = value.ok_or_else(|| DelegateError::new("the island does not make all of its outputs"))?;
        let output = match grid(graph, *tensor, program.value(value).scalar)? {
            Some(grid) => {
                convert(&mut program, value, grid.quantize(Expression::Input(0)), Scalar::I32, claims.len() - 1)?
            }
            None => value,
        };
        program.hold(output, graph.fact(*tensor).data_type);
        program.outputs.push(output);
    }
    program.validate().map_err(|error| DelegateError::new(error.to_string()))?;
    let types = |tensors: &[TensorId]| tensors.iter().map(|tensor| graph.fact(*tensor).data_type).collect();
    let (inputs, outputs) = (types(&island.inputs), types(&island.outputs));
    let is_whole = claims.len() == graph.nodes.len();
    Ok(Stitched { program, nodes: claims.into_iter().map(|(id, _)| id).collect(), inputs, outputs, is_whole })
}

/// The numbers that a quantized tensor stores, where the program holds the reals that they stand for.
fn grid(graph: &Graph, tensor: TensorId, scalar: Scalar) -> Result<Option<Grid>, DelegateError> {
    if scalar == Scalar::I32 {
        return Ok(None);
    }
    Grid::of(graph.fact(tensor)).map_err(|refusal| DelegateError::new(refusal.to_string()))
}

/// A map of one value.
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

/// The values as the scalars that a node's program reads: cast where another node makes or reads them as others.
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
            return Err(DelegateError::new("places in windows are read as something else"));
        } else {
            convert(program, *value, Expression::Input(0), scalar, origin)?
        });
    }
    Ok(inputs)
}

/// As what the first node of the island that reads the tensor takes it.
fn first_read(graph: &Graph, claims: &[(NodeId, Lowered)], tensor: TensorId) -> Option<(Scalar, attache_base::Shape)> {
    claims.iter().find_map(|(id, lowered)| {
        let input = lowered.reads.iter().position(|input| graph.node(*id).inputs[*input] == Some(tensor))?;
        let value = lowered.program.value(lowered.program.inputs[input]);
        Some((value.scalar, value.shape.clone()))
    })
}
