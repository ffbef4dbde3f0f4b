//! What to write to run a model in a given configuration: for the command, in Rust, C and Python.

use serde::{Deserialize, Serialize};

use super::configurations::{Configuration, GpuConfiguration};
use crate::arguments::entry::{Entry, quoted};
use crate::arguments::{LimitArguments, PrecisionName, QuantizedName};
use crate::console::is_hidden;

/// What to write in one language.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::commands) struct Snippet {
    pub(in crate::commands) language: String,
    pub(in crate::commands) text: String,
}

/// What is to run: the model as the command line names it, and how.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Target<'a> {
    pub(in crate::commands) entry: &'a Entry<'a>,
    /// Whether the model is a built-in one.
    pub(in crate::commands) is_built_in: bool,
    pub(in crate::commands) configuration: &'a Configuration,
    /// Whether the adapter has to be named, because others might be taken.
    pub(in crate::commands) names_adapter: bool,
    pub(in crate::commands) limits: &'a LimitArguments,
}

/// Returns what to write in each language.
pub(in crate::commands) fn snippets(target: Target<'_>) -> Vec<Snippet> {
    let snippet =
        |language: &str, lines: Vec<String>| Snippet { language: language.to_owned(), text: lines.join("\n") };
    vec![
        snippet("Command line", vec![target.command_line()]),
        snippet("Rust", target.rust()),
        snippet("C", target.c()),
        snippet("Python", target.python()),
    ]
}

impl<'a> Target<'a> {
    fn gpu(&self) -> Option<&'a GpuConfiguration> {
        self.configuration.gpu.as_ref()
    }

    /// Returns the path of the model's file. A built-in model is written to one first, by the command that is returned too.
    fn file(&self) -> (String, Option<String>) {
        let name = self.entry.name;
        match self.is_built_in {
            true => (format!("{name}.tflite"), Some(format!("attache zoo {name} --out {name}.tflite"))),
            false => (name.to_owned(), None),
        }
    }

    fn command_line(&self) -> String {
        // What begins with a dash would be an option.
        let path = if self.entry.name.starts_with('-') {
            format!("./{}", self.entry.name)
        } else {
            self.entry.name.to_owned()
        };
        let mut words = vec!["attache run".to_owned(), quoted(&path)];
        words.extend(self.entry.signature.map(|key| format!("--signature={}", quoted(key))));
        if !self.entry.shapes.is_empty() {
            words.push(self.entry.options(&self.entry.shapes));
        }
        match self.gpu() {
            None => words.push("--delegate cpu".to_owned()),
            Some(gpu) => {
                words.push("--delegate gpu".to_owned());
                if self.names_adapter {
                    words.push(format!("--adapter {} --backend {}", quoted(&gpu.adapter), gpu.backend));
                }
                if gpu.precision != PrecisionName::F32 {
                    words.push(format!("--precision {}", gpu.precision.word()));
                }
                if gpu.quantized != QuantizedName::Auto {
                    words.push(format!("--quantized {}", gpu.quantized.word()));
                }
            }
        }
        words.push(format!("--threads {}", self.configuration.threads));
        let limits = self.limits.given();
        words.extend(limits.iter().map(|(name, value)| format!("--limit-{} {value}", name.replace('_', "-"))));
        words.join(" ")
    }

    fn rust(&self) -> Vec<String> {
        let name = self.entry.name;
        let mut lines = vec![match self.is_built_in {
            true => format!("let model = attache::zoo::model({name:?})?;  // feature \"zoo\""),
            false => format!("let model = Model::from_path({name:?})?;"),
        }];
        let mut builder = format!(".threads({})", self.configuration.threads);
        if let Some(gpu) = self.gpu() {
            let options = rust_options(gpu, self.names_adapter);
            lines.push(format!("let gpu = GpuDelegate::new(GpuDelegateOptions::default(){options})?;"));
            builder += ".delegate(gpu)";
        }
        builder += &self.entry.signature.map_or(String::new(), |key| format!(".signature({key:?})"));
        for (input, shape) in &self.entry.shapes {
            builder += &format!(".input_shape({input}, &{shape:?})");
        }
        let limits = self.limits.given();
        if !limits.is_empty() {
            lines.push("let mut limits = Limits::default();".to_owned());
            lines.extend(limits.iter().map(|(name, value)| format!("limits.{name} = {value};")));
            builder += ".limits(limits)";
        }
        lines.push(format!("let mut interpreter = Interpreter::builder(&model){builder}.build()?;"));
        lines
    }

    fn c(&self) -> Vec<String> {
        let (path, written) = self.file();
        let mut lines: Vec<String> = written.into_iter().map(|command| format!("/* first: {command} */")).collect();
        lines.push(format!("TfLiteModel* model = TfLiteModelCreateFromFile({});", c_text(&path)));
        lines.push("TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();".to_owned());
        lines.push(format!("TfLiteInterpreterOptionsSetNumThreads(options, {});", self.configuration.threads));
        if let Some(gpu) = self.gpu() {
            lines.extend(c_options(gpu, self.names_adapter));
        }
        lines.push("TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);".to_owned());
        let shapes = self.entry.shapes.iter().map(|(input, shape)| (*input, c_extents(shape)));
        if let Some(key) = self.entry.signature {
            let key = c_text(key);
            lines.push(format!(
                "TfLiteSignatureRunner* runner = TfLiteInterpreterGetSignatureRunner(interpreter, {key});"
            ));
            lines.extend(shapes.map(|(input, extents)| {
                let name = c_text(self.name_in_signature(input));
                format!("TfLiteSignatureRunnerResizeInputTensor(runner, {name}, {extents});")
            }));
        } else {
            lines.extend(shapes.map(|(input, extents)| {
                format!("TfLiteInterpreterResizeInputTensor(interpreter, {input}, {extents});")
            }));
        }
        if !self.limits.given().is_empty() {
            lines.push("/* no option for limits: those of the library hold */".to_owned());
        }
        lines
    }

    /// Returns the name of an input in the signature that runs, or else that of its tensor.
    fn name_in_signature(&self, input: usize) -> &'a str {
        let subgraph = self.entry.subgraph();
        let tensor = subgraph.inputs[input];
        let signatures = self.entry.model.signatures().iter();
        let mut own = signatures.filter(|signature| Some(signature.key.as_str()) == self.entry.signature);
        let inputs = own.next().map_or(&[][..], |signature| &signature.inputs);
        inputs.iter().find(|named| named.1 == tensor).map_or(&subgraph.tensors[tensor].name, |named| &named.0)
    }

    fn python(&self) -> Vec<String> {
        let (path, written) = self.file();
        let mut lines: Vec<String> = written.into_iter().map(|command| format!("# first: {command}")).collect();
        let mut delegates = "";
        if let Some(gpu) = self.gpu() {
            lines.push(format!("gpu = attache.GpuDelegate({})", python_options(gpu, self.names_adapter)));
            delegates = "experimental_delegates=[gpu], ";
        }
        let threads = self.configuration.threads;
        lines.push(format!(
            "interpreter = attache.Interpreter({}, {delegates}num_threads={threads})",
            python_text(&path)
        ));
        if let Some(key) = self.entry.signature {
            lines.push(format!("runner = interpreter.get_signature_runner({})", python_text(key)));
            if !self.entry.shapes.is_empty() {
                lines.push("# the runner takes the shapes of the arrays that it is called with".to_owned());
            }
        } else {
            lines.extend(self.entry.shapes.iter().map(|(input, shape)| {
                format!(
                    "interpreter.resize_tensor_input(interpreter.get_input_details()[{input}][\"index\"], {shape:?})"
                )
            }));
        }
        if !self.limits.given().is_empty() {
            lines.push("# no option for limits: those of the library hold".to_owned());
        }
        lines
    }
}

fn rust_options(gpu: &GpuConfiguration, names_adapter: bool) -> String {
    let mut options = String::new();
    if names_adapter {
        options += &format!(".adapter({:?})", gpu.adapter);
        options += match gpu.backend.as_str() {
            "vulkan" => ".backend(Backend::Vulkan)",
            "metal" => ".backend(Backend::Metal)",
            "dx12" => ".backend(Backend::Dx12)",
            "gl" => ".backend(Backend::Gl)",
            _ => "",
        };
    }
    if gpu.is_software {
        options += ".software(true)";
    }
    options += match gpu.precision {
        PrecisionName::F32 => "",
        PrecisionName::F32F16 => ".precision(Precision::F32F16)",
        PrecisionName::F16 => ".precision(Precision::F16)",
    };
    options += match gpu.quantized {
        QuantizedName::Auto => "",
        QuantizedName::View => ".quantized(Quantized::View)",
        QuantizedName::Exact => ".quantized(Quantized::Exact)",
    };
    options
}

fn c_options(gpu: &GpuConfiguration, names_adapter: bool) -> Vec<String> {
    // The position of MAX_PRECISION decides: first is f32, second f32_f16, third f16.
    let priorities = match gpu.precision {
        PrecisionName::F32 => ["MAX_PRECISION", "MIN_LATENCY", "MIN_MEMORY_USAGE"],
        PrecisionName::F32F16 => ["MIN_LATENCY", "MAX_PRECISION", "MIN_MEMORY_USAGE"],
        PrecisionName::F16 => ["MIN_LATENCY", "MIN_MEMORY_USAGE", "MAX_PRECISION"],
    };
    let mut lines = vec!["TfLiteGpuDelegateOptionsV2 gpu = TfLiteGpuDelegateOptionsV2Default();".to_owned()];
    let priority = |(index, name): (usize, &&str)| {
        format!("gpu.inference_priority{} = TFLITE_GPU_INFERENCE_PRIORITY_{name};", index + 1)
    };
    lines.extend(priorities.iter().enumerate().map(priority));
    lines.push("gpu.max_delegated_partitions = 1000;  /* the default is the largest alone */".to_owned());
    if gpu.quantized != QuantizedName::Auto {
        let quantized = gpu.quantized.word();
        lines.push(format!("/* no option for --quantized {quantized}: the delegate chooses between view and exact */"));
    }
    if names_adapter {
        let adapter = python_text(&gpu.adapter).replace("*/", "* /");
        lines
            .push(format!("/* no option for the adapter: the delegate takes its first choice, maybe not {adapter} */"));
    }
    if gpu.is_software {
        lines.push("/* in software only with the environment variable ATTACHE_SOFTWARE=1 */".to_owned());
    }
    lines.push("TfLiteInterpreterOptionsAddDelegate(options, TfLiteGpuDelegateV2Create(&gpu));".to_owned());
    lines
}

fn python_options(gpu: &GpuConfiguration, names_adapter: bool) -> String {
    let mut options = vec![format!("precision=\"{}\"", gpu.precision.word())];
    if gpu.quantized != QuantizedName::Auto {
        options.push(format!("quantized=\"{}\"", gpu.quantized.word()));
    }
    if names_adapter {
        options.push(format!("adapter={}", python_text(&gpu.adapter)));
        options.push(format!("backend=\"{}\"", gpu.backend));
    }
    if gpu.is_software {
        options.push("software=True".to_owned());
    }
    options.join(", ")
}

/// Returns the extents of a shape and their number as arguments of C.
fn c_extents(shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    match extents.is_empty() {
        true => "NULL, 0".to_owned(),
        false => format!("(const int[]){{{}}}, {}", extents.join(", "), extents.len()),
    }
}

/// Returns a text as a string of C.
fn c_text(text: &str) -> String {
    let escaped = |character: char| match character {
        '"' | '\\' => format!("\\{character}"),
        // Two question marks may begin a trigraph.
        '?' => "\\?".to_owned(),
        _ if is_hidden(character) => {
            character.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\{byte:03o}")).collect()
        }
        _ => character.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// Returns a text as a string of Python.
fn python_text(text: &str) -> String {
    let escaped = |character: char| match character {
        '"' | '\\' => format!("\\{character}"),
        _ if is_hidden(character) => match u32::from(character) {
            code @ 0..0x100 => format!("\\x{code:02x}"),
            code @ 0x100..0x1_0000 => format!("\\u{code:04x}"),
            code => format!("\\U{code:08x}"),
        },
        _ => character.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use attache::{DataType, Model, ModelBuilder, TensorBuilder};

    use super::*;

    fn gpu(precision: PrecisionName, quantized: QuantizedName, is_software: bool) -> Configuration {
        let (adapter, backend) = ("A \"b\" (c)".to_owned(), "vulkan".to_owned());
        Configuration {
            gpu: Some(GpuConfiguration { adapter, backend, is_software, precision, quantized }),
            threads: 2,
        }
    }

    fn model() -> Model {
        let mut builder = ModelBuilder::new("m");
        let main = builder.subgraph("main");
        let x = builder.tensor(main, TensorBuilder::new("x", DataType::Float32, [2]));
        builder.inputs(main, &[x]).outputs(main, &[x]);
        builder.signature("serve", main, &[("in\"put", x)], &[("y", x)]);
        Model::from_bytes(builder.finish()).unwrap()
    }

    /// Returns the snippets for a model of this name.
    fn texts(name: &str, configuration: &Configuration, names_adapter: bool) -> Vec<String> {
        let (model, limits) = (model(), LimitArguments::default());
        let entry = Entry::first(&model, name, Vec::new());
        let is_built_in = name == "lstm_128";
        let target = Target { entry: &entry, is_built_in, configuration, names_adapter, limits: &limits };
        snippets(target).into_iter().map(|snippet| snippet.text).collect()
    }

    const CPU: Configuration = Configuration { gpu: None, threads: 8 };

    #[test]
    fn the_cpu_needs_its_threads() {
        let texts = texts("a b.tflite", &CPU, true);
        assert_eq!(texts[0], "attache run 'a b.tflite' --delegate cpu --threads 8");
        assert!(texts[1].ends_with("Interpreter::builder(&model).threads(8).build()?;"), "{}", texts[1]);
        assert!(texts[2].contains("SetNumThreads(options, 8)") && !texts[2].contains("Gpu"), "{}", texts[2]);
        assert_eq!(texts[3], "interpreter = attache.Interpreter(\"a b.tflite\", num_threads=8)");
    }

    #[test]
    fn a_gpu_has_its_options_in_every_language() {
        let texts = texts("a b.tflite", &gpu(PrecisionName::F16, QuantizedName::View, true), true);
        let line = "attache run 'a b.tflite' --delegate gpu --adapter 'A \"b\" (c)' --backend vulkan --precision f16 \
                    --quantized view --threads 2";
        assert_eq!(texts[0], line);
        let options = r#".adapter("A \"b\" (c)").backend(Backend::Vulkan).software(true).precision(Precision::F16).quantized(Quantized::View))?;"#;
        assert!(texts[1].contains(options), "{}", texts[1]);
        let third = "gpu.inference_priority3 = TFLITE_GPU_INFERENCE_PRIORITY_MAX_PRECISION;";
        for part in [third, "no option for --quantized view", "no option for the adapter", "ATTACHE_SOFTWARE=1"] {
            assert!(texts[2].contains(part), "{part}: {}", texts[2]);
        }
        let options =
            r#"GpuDelegate(precision="f16", quantized="view", adapter="A \"b\" (c)", backend="vulkan", software=True)"#;
        assert!(texts[3].contains(options), "{}", texts[3]);
    }

    #[test]
    fn what_is_the_default_is_left_out() {
        let texts = texts("m.tflite", &gpu(PrecisionName::F32, QuantizedName::Auto, false), false);
        assert_eq!(texts[0], "attache run m.tflite --delegate gpu --threads 2");
        assert!(texts[1].contains("GpuDelegateOptions::default())?;"), "{}", texts[1]);
        assert!(texts[2].contains("gpu.inference_priority1 = TFLITE_GPU_INFERENCE_PRIORITY_MAX_PRECISION;"));
        assert!(!texts[2].contains("adapter") && !texts[3].contains("adapter"));
    }

    #[test]
    fn a_built_in_model_is_no_file() {
        let texts = texts("lstm_128", &CPU, false);
        assert!(texts[0].starts_with("attache run lstm_128 "), "{}", texts[0]);
        assert!(texts[1].starts_with("let model = attache::zoo::model(\"lstm_128\")?;"), "{}", texts[1]);
        assert!(texts[2].starts_with("/* first: attache zoo lstm_128 --out lstm_128.tflite */\n"), "{}", texts[2]);
        assert!(texts[2].contains("CreateFromFile(\"lstm_128.tflite\")"), "{}", texts[2]);
        assert!(texts[3].starts_with("# first: attache zoo lstm_128 --out lstm_128.tflite\n"), "{}", texts[3]);
        assert!(texts[3].contains("Interpreter(\"lstm_128.tflite\""), "{}", texts[3]);
    }

    #[test]
    fn names_are_strings_of_each_language() {
        let texts = texts("-a\"\\\u{1}é\u{301}\u{202e}??/.tflite", &CPU, false);
        assert!(
            texts[0].starts_with("attache run $'./-a\"\\\\\\001é\u{301}\\342\\200\\256??/.tflite' "),
            "{}",
            texts[0]
        );
        assert!(texts[2].contains("\"-a\\\"\\\\\\001é\u{301}\\342\\200\\256\\?\\?/.tflite\""), "{}", texts[2]);
        assert!(texts[3].contains("\"-a\\\"\\\\\\x01é\u{301}\\u202e??/.tflite\""), "{}", texts[3]);
    }

    #[test]
    fn shapes_signature_and_limits_are_written() {
        let (model, line) = (model(), ["x", "--limit-operators", "7", "--limit-tensor-bytes", "9"]);
        let command = <LimitArguments as clap::Args>::augment_args(clap::Command::new("x"));
        let limits =
            <LimitArguments as clap::FromArgMatches>::from_arg_matches(&command.get_matches_from(line)).unwrap();
        let mut entry = Entry::first(&model, "m.tflite", vec![(0, vec![3])]);
        let texts = |entry: &Entry<'_>| {
            let target =
                Target { entry, is_built_in: false, configuration: &CPU, names_adapter: false, limits: &limits };
            snippets(target).into_iter().map(|snippet| snippet.text).collect::<Vec<_>>()
        };
        let plain = texts(&entry);
        let options = "--shape x=3 --delegate cpu --threads 8 --limit-tensor-bytes 9 --limit-operators 7";
        assert!(plain[0].ends_with(options), "{}", plain[0]);
        assert!(
            plain[1].contains("limits.operators = 7;") && plain[1].contains(".input_shape(0, &[3]).limits(limits)")
        );
        assert!(plain[2].contains("ResizeInputTensor(interpreter, 0, (const int[]){3}, 1);"), "{}", plain[2]);
        assert!(plain[3].contains("resize_tensor_input(interpreter.get_input_details()[0][\"index\"], [3])"));
        entry.signature = Some("serve");
        let signed = texts(&entry);
        assert!(signed[0].contains("--signature=serve --shape x=3"), "{}", signed[0]);
        assert!(signed[1].contains(".signature(\"serve\").input_shape(0, &[3])"), "{}", signed[1]);
        assert!(signed[2].contains("GetSignatureRunner(interpreter, \"serve\");"), "{}", signed[2]);
        assert!(
            signed[2].contains("RunnerResizeInputTensor(runner, \"in\\\"put\", (const int[]){3}, 1);"),
            "{}",
            signed[2]
        );
        assert!(signed[3].contains("get_signature_runner(\"serve\")") && !signed[3].contains("resize_tensor_input"));
    }
}
