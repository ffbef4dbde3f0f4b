//! What to write to run a model in a given way: for the command, in Rust, C and Python.

use serde::{Deserialize, Serialize};

use super::ways::{GpuWay, Way};
use crate::arguments::entry::quoted;
use crate::arguments::{PrecisionName, QuantizedName};

/// What to write in one language.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::commands) struct Snippet {
    pub(in crate::commands) language: String,
    pub(in crate::commands) text: String,
}

/// Returns what to write in each language. `names_adapter` is whether the adapter has to be named, because there are
/// others that would be taken.
pub(in crate::commands) fn snippets(model: &str, way: &Way, names_adapter: bool) -> Vec<Snippet> {
    let snippet = |language: &str, text: String| Snippet { language: language.to_owned(), text };
    vec![
        snippet("Command line", command_line(model, way, names_adapter)),
        snippet("Rust", rust(model, way, names_adapter)),
        snippet("C", c(model, way)),
        snippet("Python", python(model, way, names_adapter)),
    ]
}

fn command_line(model: &str, way: &Way, names_adapter: bool) -> String {
    let mut words = vec!["attache run".to_owned(), quoted(model)];
    match &way.gpu {
        None => words.push("--delegate cpu".to_owned()),
        Some(gpu) => {
            words.push("--delegate gpu".to_owned());
            if names_adapter {
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
    words.push(format!("--threads {}", way.threads));
    words.join(" ")
}

fn rust(model: &str, way: &Way, names_adapter: bool) -> String {
    let mut lines = vec![format!("let model = Model::from_path({model:?})?;")];
    let mut delegate = "";
    if let Some(gpu) = &way.gpu {
        lines.push(format!(
            "let gpu = GpuDelegate::new(GpuDelegateOptions::default(){})?;",
            rust_options(gpu, names_adapter)
        ));
        delegate = ".delegate(gpu)";
    }
    lines.push(format!(
        "let mut interpreter = Interpreter::builder(&model).threads({}){delegate}.build()?;",
        way.threads
    ));
    lines.join("\n")
}

fn rust_options(gpu: &GpuWay, names_adapter: bool) -> String {
    let mut options = String::new();
    if names_adapter {
        options += &format!(".adapter({:?})", gpu.adapter);
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

fn c(model: &str, way: &Way) -> String {
    let mut lines = vec![
        format!("TfLiteModel* model = TfLiteModelCreateFromFile({model:?});"),
        "TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();".to_owned(),
        format!("TfLiteInterpreterOptionsSetNumThreads(options, {});", way.threads),
    ];
    if let Some(gpu) = &way.gpu {
        // The position of MAX_PRECISION decides: first is f32, second f32_f16, third f16.
        let priorities = match gpu.precision {
            PrecisionName::F32 => ["MAX_PRECISION", "MIN_LATENCY", "MIN_MEMORY_USAGE"],
            PrecisionName::F32F16 => ["MIN_LATENCY", "MAX_PRECISION", "MIN_MEMORY_USAGE"],
            PrecisionName::F16 => ["MIN_LATENCY", "MIN_MEMORY_USAGE", "MAX_PRECISION"],
        };
        lines.push("TfLiteGpuDelegateOptionsV2 gpu = TfLiteGpuDelegateOptionsV2Default();".to_owned());
        let priority = |(index, name): (usize, &&str)| {
            format!("gpu.inference_priority{} = TFLITE_GPU_INFERENCE_PRIORITY_{name};", index + 1)
        };
        lines.extend(priorities.iter().enumerate().map(priority));
        lines.push("gpu.max_delegated_partitions = 1000;  /* the default is the largest alone */".to_owned());
        if gpu.quantized != QuantizedName::Auto {
            let quantized = gpu.quantized.word();
            lines.push(format!(
                "/* no option for --quantized {quantized}: the delegate chooses between view and exact */"
            ));
        }
        if gpu.is_software {
            lines.push("/* in software only with the environment variable ATTACHE_SOFTWARE=1 */".to_owned());
        }
        lines.push("TfLiteInterpreterOptionsAddDelegate(options, TfLiteGpuDelegateV2Create(&gpu));".to_owned());
    }
    lines.push("TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);".to_owned());
    lines.join("\n")
}

fn python(model: &str, way: &Way, names_adapter: bool) -> String {
    let threads = way.threads;
    let Some(gpu) = &way.gpu else {
        return format!("interpreter = attache.Interpreter({model:?}, num_threads={threads})");
    };
    let mut options = vec![format!("precision={:?}", gpu.precision.word())];
    if gpu.quantized != QuantizedName::Auto {
        options.push(format!("quantized={:?}", gpu.quantized.word()));
    }
    if names_adapter {
        options.push(format!("adapter={:?}", gpu.adapter));
    }
    if gpu.is_software {
        options.push("software=True".to_owned());
    }
    let options = options.join(", ");
    format!(
        "gpu = attache.GpuDelegate({options})\n\
         interpreter = attache.Interpreter({model:?}, experimental_delegates=[gpu], num_threads={threads})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(precision: PrecisionName, quantized: QuantizedName, is_software: bool) -> Way {
        let (adapter, backend) = ("A \"b\" (c)".to_owned(), "vulkan".to_owned());
        Way { gpu: Some(GpuWay { adapter, backend, is_software, precision, quantized }), threads: 2 }
    }

    fn texts(way: &Way, names_adapter: bool) -> Vec<String> {
        snippets("a b.tflite", way, names_adapter).into_iter().map(|snippet| snippet.text).collect()
    }

    #[test]
    fn the_cpu_needs_its_threads() {
        let texts = texts(&Way { gpu: None, threads: 8 }, true);
        assert_eq!(texts[0], "attache run 'a b.tflite' --delegate cpu --threads 8");
        assert!(texts[1].ends_with("Interpreter::builder(&model).threads(8).build()?;"), "{}", texts[1]);
        assert!(texts[2].contains("SetNumThreads(options, 8)") && !texts[2].contains("Gpu"), "{}", texts[2]);
        assert_eq!(texts[3], "interpreter = attache.Interpreter(\"a b.tflite\", num_threads=8)");
    }

    #[test]
    fn a_gpu_has_its_options_in_every_language() {
        let texts = texts(&gpu(PrecisionName::F16, QuantizedName::View, true), true);
        let line = "attache run 'a b.tflite' --delegate gpu --adapter 'A \"b\" (c)' --backend vulkan --precision f16 \
                    --quantized view --threads 2";
        assert_eq!(texts[0], line);
        let options =
            r#".adapter("A \"b\" (c)").software(true).precision(Precision::F16).quantized(Quantized::View))?;"#;
        assert!(texts[1].contains(options), "{}", texts[1]);
        let third = "gpu.inference_priority3 = TFLITE_GPU_INFERENCE_PRIORITY_MAX_PRECISION;";
        assert!(texts[2].contains(third) && texts[2].contains("no option for --quantized view"), "{}", texts[2]);
        let options = r#"GpuDelegate(precision="f16", quantized="view", adapter="A \"b\" (c)", software=True)"#;
        assert!(texts[3].contains(options), "{}", texts[3]);
    }

    #[test]
    fn what_is_the_default_is_left_out() {
        let texts = texts(&gpu(PrecisionName::F32, QuantizedName::Auto, false), false);
        assert_eq!(texts[0], "attache run 'a b.tflite' --delegate gpu --threads 2");
        assert!(texts[1].contains("GpuDelegateOptions::default())?;"), "{}", texts[1]);
        assert!(texts[2].contains("gpu.inference_priority1 = TFLITE_GPU_INFERENCE_PRIORITY_MAX_PRECISION;"));
    }
}
