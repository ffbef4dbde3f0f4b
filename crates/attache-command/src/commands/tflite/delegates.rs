//! The flags about delegates, which all tools share, and what they mean for a [`Device`](crate::device::Device).

use std::path::PathBuf;

use attache::Placement;
use serde_json::Value;

use super::flags::{Flag, Flags, Kind, flag, idle};
use crate::arguments::{
    BackendName, CacheArgument, DelegateName, Delegation, DeviceArguments, PrecisionName, PreferenceName,
};
use crate::failure::Failure;
use crate::io::files;

use Kind::{Switch, Text, Whole};

const NO_NNAPI: &str = "NNAPI is not used here; --use_gpu=true is for GPUs";
const NO_HEXAGON: &str = "Hexagon is not used here; --use_gpu=true is for GPUs";
const NO_COREML: &str = "Core ML is not used here; --use_gpu=true is for GPUs, also those of Apple";
const NO_XNNPACK: &str = "the CPU's kernels are Attaché's own, with and without it";
const NO_YNNPACK: &str = "the CPU's kernels are Attaché's own";

/// The flags of every tool.
pub(super) static FLAGS: &[Flag] = &[
    flag("help", Switch, "false", "Help", "print this and end"),
    flag(
        "max_delegated_partitions",
        Whole,
        "0",
        "Max number of delegated partitions",
        "most partitions that the GPU runs; 0 is TensorFlow Lite's default, 1",
    ),
    flag("min_nodes_per_partition", Whole, "0", "Min nodes per partition", "fewest nodes of a partition of the GPU"),
    flag(
        "first_delegate_node_index",
        Whole,
        "0",
        "Index of the first node that could be delegated",
        "first operator of the file that the GPU may run",
    ),
    flag(
        "last_delegate_node_index",
        Whole,
        "2147483647",
        "Index of the last node that could be delegated",
        "last operator of the file that the GPU may run",
    ),
    flag(
        "delegate_serialize_dir",
        Text,
        "",
        "Directory for delegate serialization",
        "folder for compiled shaders and packed weights",
    ),
    flag(
        "delegate_serialize_token",
        Text,
        "",
        "Model-specific token/key for delegate serialization",
        "text that stands for the weights of the model in that folder",
    ),
    flag(
        "gpu_invoke_loop_times",
        Whole,
        "-1",
        "Number of GPU delegate invoke loop iterations",
        "runs of each invoke, by which its time is divided",
    ),
    flag("use_gpu", Switch, "false", "Use gpu", "run on a GPU, software adapters included"),
    flag(
        "gpu_precision_loss_allowed",
        Switch,
        "true",
        "Allow lower precision in gpu",
        "16-bit floats on the GPU, else 32 bits",
    ),
    flag(
        "gpu_inference_for_sustained_speed",
        Switch,
        "false",
        "Prefer maximizing the throughput in gpu",
        "several runs in progress on the GPU",
    ),
    flag(
        "gpu_backend",
        Text,
        "",
        "Force the backend in gpu",
        "gl, vulkan, metal or dx12; cl has no meaning, since OpenCL is not used",
    ),
    idle(
        "gpu_experimental_enable_quant",
        Switch,
        "true",
        "Enable running quant models in gpu",
        "the GPU runs quantized models in any case",
    ),
    idle("gpu_wait_type", Text, "", "GPU delegate wait type", "it is for iOS"),
    flag("external_delegate_path", Text, "", "External delegate path", "library of a delegate for TensorFlow Lite"),
    flag("external_delegate_options", Text, "", "External delegate options", "its options, as key:value;key:value"),
    flag(
        "stable_delegate_settings_file",
        Text,
        "",
        "Delegate settings file path",
        "JSON file that names the library of a stable delegate",
    ),
    flag("stable_delegate_loader_settings", Text, "", "Stable delegate loader settings", "the same"),
    idle("use_xnnpack", Switch, "false", "Use xnnpack", NO_XNNPACK),
    idle("xnnpack_force_fp16", Switch, "false", "Enforce fp16 in xnnpack", NO_XNNPACK),
    idle(
        "xnnpack_weight_cache_file_path",
        Text,
        "",
        "XNNPACK weight cache file",
        "packed weights are stored with --use_caching=true or --delegate_serialize_dir",
    ),
    idle("xnnpack_runtime_flags", Whole, "0", "XNNPACK runtime flags", NO_XNNPACK),
    idle("use_ynnpack", Switch, "false", "Use ynnpack", NO_YNNPACK),
    idle("ynnpack_static_shape", Switch, "false", "YNNPACK static shape", NO_YNNPACK),
    idle("ynnpack_fast_math", Switch, "false", "YNNPACK fast math", NO_YNNPACK),
    idle("ynnpack_consistent_arithmetic", Switch, "false", "YNNPACK consistent arithmetic", NO_YNNPACK),
    idle("ynnpack_no_excess_precision", Switch, "false", "YNNPACK no excess precision", NO_YNNPACK),
    idle("use_nnapi", Switch, "false", "Use NNAPI", NO_NNAPI),
    idle("use_legacy_nnapi", Switch, "false", "Use legacy nnapi", NO_NNAPI),
    idle("nnapi_execution_preference", Text, "", "NNAPI execution preference", NO_NNAPI),
    idle("nnapi_execution_priority", Text, "", "NNAPI execution priority", NO_NNAPI),
    idle("nnapi_accelerator_name", Text, "", "NNAPI accelerator name", NO_NNAPI),
    idle("nnapi_support_library_path", Text, "", "NNAPI support library path", NO_NNAPI),
    idle("disable_nnapi_cpu", Switch, "true", "Disable NNAPI cpu", NO_NNAPI),
    idle("nnapi_allow_fp16", Switch, "false", "Allow fp16 in NNAPI", NO_NNAPI),
    idle("nnapi_allow_dynamic_dimensions", Switch, "false", "Allow dynamic dimensions in NNAPI", NO_NNAPI),
    idle("nnapi_use_burst_mode", Switch, "false", "Use burst mode in NNAPI", NO_NNAPI),
    idle("use_hexagon", Switch, "false", "Use Hexagon", NO_HEXAGON),
    idle("hexagon_lib_path", Text, "/data/local/tmp", "Hexagon lib path", NO_HEXAGON),
    idle("hexagon_profiling", Switch, "false", "Hexagon profiling", NO_HEXAGON),
    idle("use_coreml", Switch, "false", "Use CoreML", NO_COREML),
    idle("coreml_version", Whole, "0", "CoreML version", NO_COREML),
];

/// Returns the arguments of a device that the flags ask for, with this number of CPU threads.
pub(super) fn device(flags: &Flags, threads: Option<usize>) -> Result<DeviceArguments, Failure> {
    let mut arguments = DeviceArguments {
        delegate: Some(DelegateName::Cpu),
        threads: threads.map(|threads| u16::try_from(threads).unwrap_or(u16::MAX)),
        cache: cache(flags),
        ..DeviceArguments::default()
    };
    external(flags, &mut arguments)?;
    if flags.is("use_gpu") {
        arguments.delegate = Some(DelegateName::Gpu);
        arguments.backend = backend(flags)?;
        if flags.is("gpu_precision_loss_allowed") {
            arguments.precision = PrecisionName::F16;
        }
        let sustained = flags.is("gpu_inference_for_sustained_speed");
        arguments.inference_preference = sustained.then_some(PreferenceName::SustainedSpeed);
        arguments.delegation = Delegation {
            max_partitions: Some(flags.count("max_delegated_partitions").unwrap_or(1)),
            min_nodes: flags.count("min_nodes_per_partition"),
            first_node: flags.count("first_delegate_node_index"),
            last_node: usize::try_from(flags.whole("last_delegate_node_index")).ok(),
            model_token: flags.some("delegate_serialize_token").map(str::to_owned),
            gpu_first: flags.position("use_gpu") < first_external(flags),
        };
    }
    Ok(arguments)
}

/// The flags that name the library of a delegate.
const EXTERNAL: [&str; 3] =
    ["external_delegate_path", "stable_delegate_settings_file", "stable_delegate_loader_settings"];

/// Returns the place of the first flag that names a library; one without a value names none.
fn first_external(flags: &Flags) -> Option<usize> {
    EXTERNAL.iter().filter(|name| flags.some(name).is_some()).filter_map(|name| flags.position(name)).min()
}

fn cache(flags: &Flags) -> Option<CacheArgument> {
    match flags.some("delegate_serialize_dir") {
        Some(folder) => Some(CacheArgument::Folder(folder.into())),
        None => flags.is("use_caching").then_some(CacheArgument::Auto),
    }
}

fn backend(flags: &Flags) -> Result<Option<BackendName>, Failure> {
    match flags.text("gpu_backend") {
        "" | "cl" | "opencl" => Ok(None),
        "gl" | "opengl" => Ok(Some(BackendName::Gl)),
        "vulkan" => Ok(Some(BackendName::Vulkan)),
        "metal" => Ok(Some(BackendName::Metal)),
        "dx12" => Ok(Some(BackendName::Dx12)),
        other => Err(Failure::usage(format!("--gpu_backend={other}: it must be gl, cl, vulkan, metal or dx12"))),
    }
}

/// Sets the delegate of a library, if the flags name one.
fn external(flags: &Flags, arguments: &mut DeviceArguments) -> Result<(), Failure> {
    let named: Vec<&str> = EXTERNAL.into_iter().filter(|name| flags.some(name).is_some()).collect();
    let [name] = named[..] else {
        return match named.as_slice() {
            [one, other, ..] => {
                Err(Failure::usage(format!("--{one} and --{other} both name a delegate; leave out one of them")))
            }
            _ if flags.some("external_delegate_options").is_some() => {
                Err(Failure::usage("--external_delegate_options needs --external_delegate_path=LIBRARY"))
            }
            _ => Ok(()),
        };
    };
    // The arguments of a CPU alone would contradict a delegate.
    arguments.delegate = None;
    let external = &mut arguments.external;
    if name != EXTERNAL[0] {
        external.external_delegate = Some(stable_library(flags.text(name))?);
        return Ok(());
    }
    external.external_delegate = Some(flags.text(name).into());
    for option in flags.text("external_delegate_options").split(';').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once(':').ok_or_else(|| {
            Failure::usage(format!("--external_delegate_options: \"{option}\" is not key:value; separate options by ;"))
        })?;
        external.external_delegate_option.push((key.trim().to_owned(), value.trim().to_owned()));
    }
    Ok(())
}

/// Returns the library that a file with the settings of a stable delegate names.
fn stable_library(path: &str) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(path);
    let text = files::read_text(&path)?;
    let settings: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("this is not JSON: {error}")).at(path.display()))?;
    let loader = settings.get("stable_delegate_loader_settings").unwrap_or(&settings);
    let library = loader.get("delegate_path").and_then(Value::as_str);
    library.map(PathBuf::from).ok_or_else(|| {
        let text = "it names no delegate; write {\"stable_delegate_loader_settings\": {\"delegate_path\": LIBRARY}}";
        Failure::usage(text).at(path.display())
    })
}

/// Returns the lines with which tools say how much of a model each delegate runs.
pub(super) fn applied(flags: &Flags, placement: &Placement) -> Vec<String> {
    let names = placement.nodes.iter().filter_map(|node| match &node.outcome {
        attache::Outcome::On { delegate, partition } => Some((delegate.as_str(), *partition)),
        _ => None,
    });
    let names: Vec<(&str, usize)> = names.collect();
    let line = |label: &str, kernels: usize| {
        let start = format!("Explicitly applied {label} delegate, and the model graph will be");
        match kernels {
            0 => format!(
                "Though {label} delegate is explicitly applied, the model graph will not be executed by the delegate."
            ),
            _ if placement.left_behind().next().is_none() && placement.partitions == kernels => {
                format!("{start} completely executed by the delegate.")
            }
            _ => format!("{start} partially executed by the delegate w/ {kernels} delegate kernels."),
        }
    };
    let kernels = |is_own: &dyn Fn(&str) -> bool| {
        let mut own: Vec<usize> = names.iter().filter(|(name, _)| is_own(name)).map(|(_, index)| *index).collect();
        own.dedup();
        own.sort_unstable();
        own.dedup();
        own.len()
    };
    let mut lines = Vec::new();
    if flags.is("use_gpu") {
        lines.push((flags.position("use_gpu"), line("GPU", kernels(&|name| name == "GPU"))));
    }
    if let Some(position) = first_external(flags) {
        lines.push((Some(position), line("EXTERNAL", kernels(&|name| name != "GPU"))));
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}
