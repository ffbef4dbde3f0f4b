//! Arguments that several commands share, with the same names everywhere.

pub(crate) mod entry;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use attache::{CacheFolder, IntegerRounding, Limits};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::io::places::Places;

/// The values of `--delegate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DelegateName {
    Cpu,
    Gpu,
}

/// The values of `--backend`: graphics interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendName {
    Vulkan,
    Metal,
    Dx12,
    Gl,
}

/// The values of `--quantized`: how the GPU computes on quantized tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QuantizedName {
    /// As integers if that costs nothing on the device and every operator allows it, else as floats.
    Auto,
    /// As floats, rounded after each operator to what the output can store.
    View,
    /// In integer arithmetic, with the CPU's bits.
    Exact,
}

impl QuantizedName {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::View => "view",
            Self::Exact => "exact",
        }
    }
}

/// The values of `--rounding`: how the CPU rounds results of quantized operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoundingName {
    /// As TensorFlow Lite's reference kernels.
    #[default]
    Reference,
    /// As LiteRT's default interpreter, where it runs XNNPACK's kernels.
    #[value(name = "xnnpack")]
    XnnPack,
}

impl RoundingName {
    pub(crate) fn rounding(self) -> IntegerRounding {
        match self {
            Self::Reference => IntegerRounding::Reference,
            Self::XnnPack => IntegerRounding::XnnPack,
        }
    }
}

/// The values of `--submission`: how commands are submitted to the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SubmissionName {
    /// Record commands once and submit the recording at each run; needs Vulkan.
    Replay,
    /// Encode commands anew at each run; works everywhere.
    Encoder,
}

/// The values of `--io`: where the inputs and outputs of measured runs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoName {
    /// In memory of the caller's, from and to which each run copies them.
    #[default]
    Host,
    /// In memory of the GPU, where they stay.
    Device,
    /// In memory of the caller's that the GPU uses where it is.
    Import,
}

impl IoName {
    /// Returns the value as it is written on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            IoName::Host => "host",
            IoName::Device => "device",
            IoName::Import => "import",
        }
    }
}

/// The values of `--precision`: how the GPU stores floats and computes on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PrecisionName {
    /// Everything in 32 bits.
    F32,
    /// 16-bit floats in memory, arithmetic in 32 bits.
    #[value(name = "f32_f16")]
    F32F16,
    /// 16-bit floats in memory; arithmetic may use 16 bits where that is harmless, but currently uses 32.
    F16,
}

impl PrecisionName {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F32F16 => "f32_f16",
            Self::F16 => "f16",
        }
    }
}

/// The values of `--inference-preference`: the intended use of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreferenceName {
    /// One run at a time: the least memory, and the device opens soonest.
    FastSingleAnswer,
    /// Several runs in progress: the most runs per second.
    SustainedSpeed,
    /// Two runs in progress.
    Balanced,
}

/// The values of `--cache`: the folder for stored plans and packed weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CacheArgument {
    /// The user's folder for caches.
    Auto,
    /// None: nothing is stored.
    Off,
    /// This folder.
    Folder(PathBuf),
}

impl CacheArgument {
    /// Parses a value of `--cache`.
    fn parse(text: OsString) -> Result<Self, String> {
        match text.to_str() {
            Some("") => Err("it must be a folder, auto or off".to_owned()),
            Some("auto") => Ok(Self::Auto),
            Some("off") => Ok(Self::Off),
            _ => Ok(Self::Folder(text.into())),
        }
    }

    /// Returns the folder; `None` if there is none.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::Auto => CacheFolder::user_folder(),
            Self::Off => None,
            Self::Folder(folder) => Some(folder.clone()),
        }
    }
}

// Doc comments on these structures would replace the descriptions of the commands that take them.
#[derive(Args, Clone, Debug)]
pub(crate) struct ModelArgument {
    /// A .tflite file, or the name of a built-in model (`attache zoo` lists them)
    pub(crate) model: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct DeviceArguments {
    /// Where to run; by default a hardware GPU if there is one, else the CPU
    #[arg(short, long)]
    pub(crate) delegate: Option<DelegateName>,
    /// Graphics interface through which to reach the GPU
    #[arg(long)]
    pub(crate) backend: Option<BackendName>,
    /// Text that the name of the GPU has to contain
    #[arg(long, value_name = "TEXT")]
    pub(crate) adapter: Option<String>,
    /// Precision of the GPU's floats
    #[arg(long, default_value = "f32")]
    pub(crate) precision: PrecisionName,
    /// Store f16 in pairs, as on a GPU whose shaders have no such type, even if this one's do
    #[arg(long, hide = true)]
    pub(crate) no_shader_f16: bool,
    /// Use the kernels for hardware on a software device too
    #[arg(long, hide = true)]
    pub(crate) as_hardware: bool,
    /// Emulate cooperative matrices with loops on a GPU that has none, to test the kernels that use them
    #[arg(long, hide = true, conflicts_with = "no_shader_f16")]
    pub(crate) emulate_matrices: bool,
    /// How the GPU computes on quantized tensors
    #[arg(long, default_value = "auto")]
    pub(crate) quantized: QuantizedName,
    /// How commands are submitted to the GPU; by default replayed where that is possible
    #[arg(long)]
    pub(crate) submission: Option<SubmissionName>,
    /// Intended use of the GPU, which decides how many runs it can execute concurrently [default: sustained-speed for
    /// `bench`, which measures that too, else fast-single-answer]
    #[arg(long)]
    pub(crate) inference_preference: Option<PreferenceName>,
    /// The preference of the command, if the line names none.
    #[arg(skip = PreferenceName::FastSingleAnswer)]
    pub(crate) usual_preference: PreferenceName,
    /// Kernel variant that the GPU uses wherever it applies; `check` takes `all` for each in turn
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
    #[command(flatten)]
    pub(crate) external: ExternalArguments,
    /// Fail unless every operator runs on a delegate
    #[arg(long)]
    pub(crate) require_delegation: bool,
    /// Continue on the CPU, with a warning, if the GPU is lost or runs out of memory, or a delegate fails
    #[arg(long)]
    pub(crate) cpu_fallback: bool,
    /// Folder for compiled shaders and packed weights, which makes later starts fast; `auto` is the user's folder for
    /// caches, the default of `run`; `off` stores nothing, the default of the other commands
    #[arg(long, value_name = "DIR|auto|off", value_parser = OsStringValueParser::new().try_map(CacheArgument::parse))]
    pub(crate) cache: Option<CacheArgument>,
    /// CPU threads; by default as many as the machine has, at most 4
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u16, 1>)]
    pub(crate) threads: Option<u16>,
    /// Whose bits the CPU gives in CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, ADD and MUL of 8 bits: those of TensorFlow
    /// Lite's reference kernels, or those of LiteRT's default interpreter, which runs XNNPACK
    #[arg(long, default_value = "reference")]
    pub(crate) rounding: RoundingName,
    #[command(flatten)]
    pub(crate) limits: LimitArguments,
    /// What other command lines than our own can ask for.
    #[arg(skip)]
    pub(crate) delegation: Delegation,
}

/// TensorFlow Lite's options of delegation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delegation {
    /// Most partitions of the GPU; `None` for all.
    pub(crate) max_partitions: Option<usize>,
    /// Fewest nodes of a partition of the GPU.
    pub(crate) min_nodes: Option<usize>,
    /// The first operator of the file that the GPU may run.
    pub(crate) first_node: Option<usize>,
    /// The last operator of the file that the GPU may run.
    pub(crate) last_node: Option<usize>,
    /// A text that stands for the weights of the model in the cache.
    pub(crate) model_token: Option<String>,
    /// Whether the GPU is asked before the delegate of a library.
    pub(crate) gpu_first: bool,
}

impl Default for DeviceArguments {
    fn default() -> Self {
        Self {
            delegate: None,
            backend: None,
            adapter: None,
            precision: PrecisionName::F32,
            no_shader_f16: false,
            as_hardware: false,
            emulate_matrices: false,
            quantized: QuantizedName::Auto,
            submission: None,
            inference_preference: None,
            usual_preference: PreferenceName::FastSingleAnswer,
            variant: None,
            external: ExternalArguments::default(),
            require_delegation: false,
            cpu_fallback: false,
            cache: None,
            threads: None,
            rounding: RoundingName::Reference,
            limits: LimitArguments::default(),
            delegation: Delegation::default(),
        }
    }
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ExternalArguments {
    /// Library with a delegate for TensorFlow Lite, which is asked before the GPU. Without --delegate gpu no GPU is used
    /// then. Its code runs in this process
    #[arg(long, value_name = "LIB")]
    pub(crate) external_delegate: Option<PathBuf>,
    /// Option of the delegate in the library; several may be given
    #[arg(long, value_name = "KEY=VALUE", value_parser = option, requires = "external_delegate")]
    pub(crate) external_delegate_option: Vec<(String, String)>,
}

/// Parses `KEY=VALUE`.
fn option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it must be KEY=VALUE".to_owned()),
    }
}

impl DeviceArguments {
    /// Returns the arguments for a command that usually has this preference.
    pub(crate) fn usually(&self, preference: PreferenceName) -> Self {
        Self { usual_preference: preference, ..self.clone() }
    }

    /// The ids of all arguments except the limits. Clap has no group of arguments that contain other groups.
    pub(crate) const IDS: [&str; 18] = [
        "delegate",
        "backend",
        "adapter",
        "precision",
        "no_shader_f16",
        "as_hardware",
        "emulate_matrices",
        "quantized",
        "submission",
        "inference_preference",
        "variant",
        "external_delegate",
        "external_delegate_option",
        "require_delegation",
        "cpu_fallback",
        "cache",
        "threads",
        "rounding",
    ];

    /// Returns the files that the options of the device name.
    pub(crate) fn places(&self) -> Places {
        Places::default().reads("--external-delegate", self.external.external_delegate.as_deref())
    }

    /// Returns the first of the given options that has no effect on the CPU; `None` if there is none. Options
    /// with error messages of their own are not included.
    pub(crate) fn of_gpus_alone(&self) -> Option<&'static str> {
        let options = [
            ("--submission", self.submission.is_some()),
            ("--inference-preference", self.inference_preference.is_some()),
            ("--no-shader-f16", self.no_shader_f16),
            ("--as-hardware", self.as_hardware),
            ("--emulate-matrices", self.emulate_matrices),
        ];
        options.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option)
    }
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Limits: a model that asks for more is refused")]
pub(crate) struct LimitArguments {
    /// Bytes of one tensor
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    limit_tensor_bytes: Option<u64>,
    /// Bytes of the arena, which holds the CPU's tensors of known shapes, plus packed weights and scratch
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    limit_arena_bytes: Option<u64>,
    /// Operators of a subgraph
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<usize, 0>)]
    limit_operators: Option<usize>,
    /// Multiply-adds of one run, estimated from shapes
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    limit_multiply_adds: Option<u64>,
    /// Steps of all loops in one run
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    limit_loop_steps: Option<u64>,
}

impl LimitArguments {
    /// Returns the limits that the command line gives: the name of the library's field, and the value.
    pub(crate) fn given(&self) -> Vec<(&'static str, u64)> {
        let wide = |number: Option<usize>| number.and_then(|number| u64::try_from(number).ok());
        let all = [
            ("tensor_bytes", self.limit_tensor_bytes),
            ("arena_bytes", self.limit_arena_bytes),
            ("operators", wide(self.limit_operators)),
            ("multiply_adds", self.limit_multiply_adds),
            ("loop_steps", self.limit_loop_steps),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Returns the library's default limits, overridden by the command line.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.tensor_bytes = self.limit_tensor_bytes.unwrap_or(limits.tensor_bytes);
        limits.arena_bytes = self.limit_arena_bytes.unwrap_or(limits.arena_bytes);
        limits.operators = self.limit_operators.unwrap_or(limits.operators);
        limits.multiply_adds = self.limit_multiply_adds.unwrap_or(limits.multiply_adds);
        limits.loop_steps = self.limit_loop_steps.unwrap_or(limits.loop_steps);
        limits
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct EntryArguments {
    /// Key of the signature to run; without it the first subgraph runs
    #[arg(long, value_name = "KEY")]
    pub(crate) signature: Option<String>,
    /// Another shape for an input, as 1,224,224,3 or input=1,224,224,3; by order or by name
    #[arg(short, long, value_name = "[NAME=]EXTENTS", allow_hyphen_values = true)]
    pub(crate) shape: Vec<String>,
}

/// Splits `[NAME=]VALUE` into the name, if there is one, and the value.
pub(crate) fn named(text: &OsStr) -> (Option<&str>, &OsStr) {
    // Text before the first `=` is a name. The caller decides whether an input has that name, because a
    // folder's name may contain `=` too.
    let split = match text.to_str() {
        Some(text) => text.split_once('=').map(|(name, value)| (name, OsStr::new(value))),
        None => split_bytes(text),
    };
    match split {
        Some((name, value)) if !name.is_empty() => (Some(name), value),
        _ => (None, text),
    }
}

/// Splits a text that is not UTF-8 at the first `=`.
#[cfg(unix)]
fn split_bytes(text: &OsStr) -> Option<(&str, &OsStr)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = text.as_bytes();
    let place = bytes.iter().position(|byte| *byte == b'=')?;
    Some((std::str::from_utf8(&bytes[..place]).ok()?, OsStr::from_bytes(&bytes[place + 1..])))
}

/// Elsewhere such a text cannot be split, and is a path as a whole.
#[cfg(not(unix))]
fn split_bytes(_: &OsStr) -> Option<(&str, &OsStr)> {
    None
}

/// Assigns each `[NAME=]VALUE` of `option` to one of `count` inputs: values without a name by order, the others by
/// name. Returns pairs of input index and value. `find` returns the index of the input with a name; `missing` makes
/// the error for a name that no input has.
pub(crate) fn assign<'a>(
    (option, texts): (&str, &'a [impl AsRef<OsStr>]),
    count: usize,
    find: impl Fn(&str) -> Option<usize>,
    missing: impl Fn(&str) -> Failure,
) -> Result<Vec<(usize, &'a OsStr)>, Failure> {
    let mut next = 0;
    let mut assigned: Vec<(usize, &OsStr)> = Vec::new();
    for text in texts.iter().map(AsRef::as_ref) {
        let (index, value) = match named(text) {
            (Some(name), value) if find(name).is_some() => (find(name).unwrap_or_default(), value),
            // No input has this name. Text with one of these characters is a path that contains an `=`, which the next
            // arm takes.
            (Some(name), _) if !name.contains(['/', '\\', '.']) => {
                return Err(missing(name));
            }
            _ => {
                next += 1;
                (next - 1, text)
            }
        };
        if index >= count {
            return Err(excess(option, &text.to_string_lossy(), count));
        }
        if assigned.iter().any(|(other, _)| *other == index) {
            let text = text.to_string_lossy();
            let reason = format!("{option} {text}: input {index} has one already; give each input at most one");
            return Err(Failure::usage(reason));
        }
        assigned.push((index, value));
    }
    Ok(assigned)
}

/// Returns the error for a value of `option` that no input is left for.
fn excess(option: &str, text: &str, count: usize) -> Failure {
    let reason = format!("{option} {text}: there is no input left for it, of the model's {count}");
    Failure::usage(format!("{reason}; leave it out, or say which one with NAME="))
}

/// Parses a whole number of `LEAST` or more.
pub(crate) fn whole<T: TryFrom<u64>, const LEAST: u64>(text: &str) -> Result<T, String> {
    let number = text.parse::<u64>().ok().filter(|number| *number >= LEAST);
    let most = u64::MAX >> (64 - 8 * size_of::<T>());
    let wrong = || format!("it must be a whole number from {LEAST} to {most}");
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(wrong)
}

/// Parses a finite number.
pub(crate) fn finite<T: std::str::FromStr + Into<f64> + Copy>(text: &str) -> Result<T, String> {
    let number = text.parse::<T>().ok().filter(|number| (*number).into().is_finite());
    number.ok_or_else(|| "it must be a finite number".to_owned())
}

/// Parses a finite number other than 0, by which something is divided.
pub(crate) fn divisor(text: &str) -> Result<f32, String> {
    finite(text)
        .ok()
        .filter(|number| *number != 0.0)
        .ok_or_else(|| "it must be a finite number other than 0".to_owned())
}

/// Parses an error limit: a finite number of 0 or more.
pub(crate) fn tolerance(text: &str) -> Result<f64, String> {
    // No error exceeds a limit of NaN, and every error exceeds a negative limit.
    finite(text).ok().filter(|limit| *limit >= 0.0).ok_or_else(|| "it must be a finite number of 0 or more".to_owned())
}

/// Parses a number of seconds above 0.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    finite(text).ok().filter(|seconds| *seconds > 0.0).ok_or_else(|| "it must be a finite number above 0".to_owned())
}

/// The stages of a model's preparation that `dump` prints, in the order from the file to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// The graph of the file, with inferred shapes; independent of the device
    Graph,
    /// The rules that were applied, and the resulting graph; independent of the device
    Passes,
    /// Which operator runs where, and why
    Partition,
    /// The GPU's part as primitives, before they are fused; after `#` the nodes that each one computes, by their index
    /// in the partition
    Program,
    /// The kernels that the primitives are fused into, with the same numbers; `%2 is %1` is a reshape, for which there
    /// is no kernel
    Kernels,
    /// The shaders of the kernels, each source once
    Wgsl,
    /// Memory layout, and the dispatches in order
    Plan,
}

impl Stage {
    /// Returns the name of the stage on the command line.
    pub(crate) fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    fn find(name: &str) -> Option<usize> {
        ["image", "style"].iter().position(|known| *known == name)
    }

    fn assigned(texts: &[&str]) -> Result<Vec<(usize, String)>, Failure> {
        let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
        let assigned = assign(("--input", &texts), 2, find, |name| Failure::usage(format!("no \"{name}\"")))?;
        Ok(assigned.into_iter().map(|(index, value)| (index, value.to_str().unwrap().to_owned())).collect())
    }

    #[test]
    fn values_are_assigned_by_order_or_name() {
        assert_eq!(assigned(&["a.npy", "b.npy"]).unwrap(), [(0, "a.npy".into()), (1, "b.npy".into())]);
        assert_eq!(assigned(&["style=b.npy", "a.npy"]).unwrap(), [(1, "b.npy".into()), (0, "a.npy".into())]);
        assert_eq!(assigned(&["./x=1/a.npy"]).unwrap(), [(0, "./x=1/a.npy".into())]);
        assert!(assigned(&["other=a.npy"]).unwrap_err().message.contains("\"other\""));
        assert!(assigned(&["a", "b", "c"]).unwrap_err().message.starts_with("--input c: there is no input left"));
        assert!(assigned(&["a", "image=b"]).unwrap_err().message.starts_with("--input image=b: input 0 has one"));
    }

    #[cfg(unix)]
    #[test]
    fn names_of_files_need_not_be_text() {
        use std::os::unix::ffi::OsStrExt;
        let texts = [&b"style=\xff=.npy"[..], b"\xfe.npy"].map(OsStr::from_bytes);
        let assigned = assign(("--input", &texts), 2, find, |name| Failure::usage(name)).unwrap();
        assert_eq!(assigned, [(1, OsStr::from_bytes(b"\xff=.npy")), (0, texts[1])]);
        let folder = OsStr::from_bytes(b"\xff");
        assert_eq!(CacheArgument::parse(folder.to_owned()), Ok(CacheArgument::Folder(folder.into())));
    }

    #[test]
    fn every_device_argument_is_listed() {
        let command = DeviceArguments::augment_args(clap::Command::new("x"));
        let ids = command.get_arguments().map(|argument| argument.get_id().as_str());
        assert_eq!(ids.filter(|id| !id.starts_with("limit_")).collect::<Vec<_>>(), DeviceArguments::IDS);
    }

    #[test]
    fn every_limit_that_is_given_is_listed() {
        let command = LimitArguments::augment_args(clap::Command::new("x"));
        let ids: Vec<String> = command.get_arguments().map(|argument| argument.get_id().to_string()).collect();
        let line = ids.iter().flat_map(|id| [format!("--{}", id.replace('_', "-")), "7".to_owned()]);
        let matches = command.clone().get_matches_from(["x".to_owned()].into_iter().chain(line));
        let given = LimitArguments::from_arg_matches(&matches).unwrap().given();
        assert_eq!(given.iter().map(|(name, _)| format!("limit_{name}")).collect::<Vec<_>>(), ids);
        assert!(LimitArguments::default().given().is_empty());
    }

    #[test]
    fn numbers_that_compare_with_nothing_are_refused() {
        assert_eq!((finite("-1.5"), tolerance("1e-3")), (Ok(-1.5f32), Ok(1e-3)));
        assert!(
            ["nan", "inf", "-inf", "x", ""].iter().all(|text| finite::<f64>(text).is_err() && tolerance(text).is_err())
        );
        assert!(tolerance("-1").is_err() && divisor("0").is_err() && divisor("-0.0").is_err());
    }

    #[test]
    fn whole_numbers_have_a_range() {
        assert_eq!((whole::<u16, 1>("65535"), whole::<u64, 0>("0")), (Ok(u16::MAX), Ok(0)));
        for text in ["0", "65536", "-1", "1.5", "many", ""] {
            let expected = "it must be a whole number from 1 to 65535";
            assert_eq!(whole::<u16, 1>(text), Err(expected.to_owned()), "{text}");
        }
        assert!(whole::<u64, 0>("x").unwrap_err().ends_with("from 0 to 18446744073709551615"));
    }
}
