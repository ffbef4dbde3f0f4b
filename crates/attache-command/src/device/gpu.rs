//! Lists, opens and profiles GPUs through the GPU delegate of `attache`. `no_gpu.rs` replaces this module in
//! builds without the feature `gpu`.

use std::sync::Arc;

use attache::gpu::{
    self, AlignedBytes, Backend, DeviceMemory, GpuDelegate, GpuDelegateOptions, GpuStage, InferencePreference,
    MemoryBinding, Precision, Quantized, Submission, VariantChoice,
};
use attache::graph::{Graph, NodeId};
use attache::{Error, ErrorKind, Interpreter, Limits};
use serde_json::json;

use super::{Adapter, DevicePeaks, Gpu, OpenTimes, Wish};
use crate::arguments::Stage;
use crate::arguments::entry::Entry;
use crate::arguments::{BackendName, Delegation, IoName, PrecisionName, PreferenceName, QuantizedName, SubmissionName};
use crate::failure::{Failure, Kind};

/// The delegate of an opened GPU.
pub(super) type Delegate = GpuDelegate;

/// Returns all adapters of this machine, each listed once per graphics interface.
pub(crate) fn adapters() -> Vec<Adapter> {
    gpu::adapters().iter().map(describe).collect()
}

/// Opens the requested GPU. If only hardware may be chosen and none can be opened, returns `None`.
pub(super) fn open(wish: &Wish) -> Result<Option<Gpu>, Failure> {
    let precision = match wish.precision {
        PrecisionName::F32 => Precision::F32,
        PrecisionName::F32F16 => Precision::F32F16,
        PrecisionName::F16 => Precision::F16,
    };
    let preference = match wish.preference {
        PreferenceName::FastSingleAnswer => InferencePreference::FastSingleAnswer,
        PreferenceName::SustainedSpeed => InferencePreference::SustainedSpeed,
        PreferenceName::Balanced => InferencePreference::Balanced,
    };
    let mut options = GpuDelegateOptions::default().precision(precision).inference_preference(preference);
    if let Some(quantized) = quantized(wish.quantized) {
        options = options.quantized(quantized);
    }
    options = options.software(wish.software);
    options = options.no_shader_f16(wish.no_shader_f16).as_hardware(wish.as_hardware);
    options = options.emulate_matrices(wish.emulate_matrices);
    options = match wish.submission {
        Some(SubmissionName::Replay) => options.submission(Submission::Replay),
        Some(SubmissionName::Encoder) => options.submission(Submission::Encoder),
        None => options,
    };
    if let Some(backend) = wish.backend {
        options = options.backend(match backend {
            BackendName::Vulkan => Backend::Vulkan,
            BackendName::Metal => Backend::Metal,
            BackendName::Dx12 => Backend::Dx12,
            BackendName::Gl => Backend::Gl,
        });
    }
    if let Some(folder) = &wish.cache {
        options = options.cache(folder);
    }
    options = delegation(options, &wish.delegation);
    if let Some(text) = &wish.adapter {
        options = options.adapter(text);
    }
    if let Some(text) = &wish.variant {
        options = options.variants(variant(text)?);
    }
    match GpuDelegate::new(options) {
        Ok(delegate) => Ok(Some(Gpu { adapter: describe(delegate.adapter()), delegate: Arc::new(delegate) })),
        Err(error) if error.kind() == ErrorKind::Device && !wish.software => Ok(None),
        Err(error) => {
            let failure = Failure::from(error);
            Err(match failure.kind {
                Kind::Device => {
                    Failure { message: format!("{}; `attache devices` lists all", failure.message), ..failure }
                }
                _ => failure,
            })
        }
    }
}

/// Returns the options with TensorFlow Lite's options of delegation.
fn delegation(mut options: GpuDelegateOptions, delegation: &Delegation) -> GpuDelegateOptions {
    let Delegation { max_partitions, min_nodes, first_node, last_node, model_token, .. } = delegation;
    if let Some(most) = max_partitions {
        options = options.max_delegated_partitions(*most);
    }
    if let Some(least) = min_nodes {
        options = options.min_nodes_per_partition(*least);
    }
    if let Some(first) = first_node {
        options = options.first_delegate_node_index(*first);
    }
    if let Some(last) = last_node {
        options = options.last_delegate_node_index(*last);
    }
    if let Some(token) = model_token {
        options = options.model_token(token);
    }
    options
}

/// Returns the kernel variant with this name. The names of version 0.1 are still accepted.
fn variant(text: &str) -> Result<VariantChoice, Failure> {
    let names = || gpu::variants().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let renamed = text.replace("contract", "conv").replace("held", "staged").replace("multiply", "matmul");
    let found = VariantChoice::named(text).or_else(|| VariantChoice::named(&renamed));
    found.ok_or_else(|| Failure::usage(format!("--variant {text} is not known; name one of {}", names())))
}

impl Gpu {
    /// Returns what opening this GPU took.
    pub(super) fn open_times(&self) -> OpenTimes {
        let gpu::OpenTimes { instance_ms, search_ms, device_ms, .. } = self.delegate.open_times();
        OpenTimes { instance: instance_ms, search: search_ms, device: device_ms }
    }

    /// Returns the same GPU with the kernel variant `name` wherever it applies.
    pub(super) fn with_variant(&self, name: &'static str) -> Self {
        let delegate = Arc::new(self.delegate.with_variants(VariantChoice::Named(name)));
        Self { delegate, adapter: self.adapter.clone() }
    }

    /// Returns all kernel variants, each with what this device lacks to use it, if anything.
    pub(super) fn variants(&self) -> Vec<(&'static str, Option<&'static str>)> {
        gpu::variants().map(|(name, needs)| (name, self.delegate.lacks(needs))).collect()
    }
}

/// Returns how quantized tensors are computed; `None` if the delegate chooses.
fn quantized(name: QuantizedName) -> Option<Quantized> {
    match name {
        QuantizedName::Auto => None,
        QuantizedName::View => Some(Quantized::View),
        QuantizedName::Exact => Some(Quantized::Exact),
    }
}

fn describe(adapter: &gpu::Adapter) -> Adapter {
    let features = [
        ("shader-f16", adapter.shader_f16),
        ("subgroups", adapter.subgroups),
        ("cooperative-matrices", adapter.cooperative_matrices),
    ];
    let limits = [
        ("max_binding_bytes", json!(adapter.max_binding_bytes)),
        ("max_storage_buffers", json!(adapter.max_storage_buffers)),
        ("work_group_bytes", json!(adapter.work_group_bytes)),
    ];
    Adapter {
        name: adapter.name.clone(),
        backend: adapter.backend.to_string(),
        driver: adapter.driver.clone(),
        device_type: adapter.kind.to_owned(),
        is_software: adapter.is_software,
        features: features.iter().filter(|feature| feature.1).map(|feature| feature.0.to_owned()).collect(),
        limits: limits.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        unusable: adapter.unusable.clone(),
    }
}

/// Returns the same GPU in a form that times each dispatch.
pub(super) fn profiled(gpu: &Gpu) -> Result<Gpu, Failure> {
    Ok(Gpu { delegate: Arc::new(gpu.delegate.profiled()?), adapter: gpu.adapter.clone() })
}

/// Binds all inputs and outputs of an interpreter to memory that the GPU uses, and writes the inputs. Outputs that are inputs
/// with some elements replaced are bound to the memory of these.
pub(super) fn bind(gpu: &Gpu, interpreter: &mut Interpreter, inputs: &[Vec<u8>], io: IoName) -> Result<(), Failure> {
    let device = gpu.delegate.device();
    let memory = |bytes: usize| {
        let bytes = bytes.max(1).next_multiple_of(4);
        let memory = match io {
            IoName::Host | IoName::Device => DeviceMemory::new(device, bytes),
            IoName::Import => {
                let alignment = device.host_alignment().unwrap_or(1);
                DeviceMemory::of_host(device, AlignedBytes::new(bytes, alignment))
            }
        };
        memory.map_err(Error::from)
    };
    let mut updated = Vec::new();
    let pairs = interpreter.in_place_updates();
    for (index, bytes) in inputs.iter().enumerate() {
        let input = memory(bytes.len())?;
        input.write(0, bytes).map_err(Error::from)?;
        interpreter.bind_input(index, MemoryBinding::new(&input))?;
        // A state is updated where it is, as when it is carried over.
        for [_, output] in pairs.iter().filter(|[updated, _]| *updated == index) {
            interpreter.bind_output(*output, MemoryBinding::new(&input))?;
            updated.push(*output);
        }
    }
    for index in (0..interpreter.outputs().len()).filter(|index| !updated.contains(index)) {
        let output = &interpreter.outputs()[index];
        let bytes = output.data_type.byte_size(output.shape.elements()).unwrap_or_default();
        interpreter.bind_output(index, MemoryBinding::new(&memory(bytes)?))?;
    }
    Ok(())
}

/// Returns the measured peak rates of the GPU.
pub(super) fn peaks(gpu: &Gpu) -> Result<DevicePeaks, Failure> {
    let gpu::DevicePeaks { bytes_per_second, operations_per_second, matrix_operations_per_second, .. } =
        gpu.delegate.peaks()?;
    Ok(DevicePeaks { bytes_per_second, operations_per_second, matrix_operations_per_second })
}

/// Returns the text of a GPU stage of the preparation of a subgraph.
pub(super) fn stage(gpu: &Gpu, entry: &Entry<'_>, stage: Stage, limits: &Limits) -> Result<String, Failure> {
    let stage = match stage {
        Stage::Program => GpuStage::Program,
        Stage::Kernels => GpuStage::Kernels,
        Stage::Wgsl => GpuStage::Wgsl,
        Stage::Plan => GpuStage::Plan,
        Stage::Graph | Stage::Passes | Stage::Partition => return Err(Failure::usage("this stage is not the GPU's")),
    };
    let text = gpu::stage(entry.model, entry.index, &entry.shapes, &gpu.delegate, stage, limits);
    text.map_err(|error| entry.failure(error))
}

/// Determines whether the GPU delegate would run a node, without a device.
pub(crate) struct Claims(Option<Quantized>);

impl Claims {
    pub(crate) fn new(name: QuantizedName) -> Self {
        Self(quantized(name))
    }

    /// Returns why the GPU delegate does not run the node; `None` if it does.
    pub(crate) fn unsupported_reason(&self, graph: &Graph, node: NodeId) -> Option<String> {
        GpuDelegate::supports(graph, node, self.0).err().map(|unsupported| unsupported.0)
    }
}
