//! `attache tflite`: TensorFlow Lite's own tools, with their flags, output lines and files. A link to the program with
//! the name of a tool is that tool.

mod benchmark;
mod delegates;
mod flags;
mod image_classification;
mod inference_diff;
mod lines;
mod metrics;
mod object_detection;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Args;
use serde_json::json;

use super::Command;
use crate::console::{Console, Report};
use crate::failure::Failure;
use flags::{Flag, Flags};

/// A tool: its names, the flags beside those of all tools, and what it does.
struct Tool {
    /// The names under which it is known; the first is the one that help shows.
    names: &'static [&'static str],
    about: &'static str,
    flags: &'static [&'static [Flag]],
    run: fn(&Flags, &Console) -> Result<Report, Failure>,
}

static TOOLS: &[Tool] = &[
    Tool {
        names: &["benchmark_model", "benchmark_model_plus_flex"],
        about: "Measures how long a model takes to start and to run.",
        flags: &[benchmark::FLAGS],
        run: benchmark::run,
    },
    Tool {
        names: &["benchmark_model_performance_options"],
        about: "Measures a model on the CPU with several numbers of threads, and on the GPU in two precisions.",
        flags: &[benchmark::options::FLAGS, benchmark::FLAGS],
        run: benchmark::options::run,
    },
    Tool {
        names: &["inference_diff_eval", "inference_diff_run_eval"],
        about: "Compares what a delegate computes with the CPU, on random inputs.",
        flags: &[metrics::FLAGS, inference_diff::FLAGS],
        run: inference_diff::run,
    },
    Tool {
        names: &["image_classification_eval", "run_eval", "image_classification_run_eval"],
        about: "Says how often a classifier of pictures is right.",
        flags: &[metrics::FLAGS, image_classification::FLAGS],
        run: image_classification::run,
    },
    Tool {
        names: &["coco_object_detection_eval", "coco_object_detection_run_eval"],
        about: "Computes the average precision of a detector of objects.",
        flags: &[metrics::FLAGS, object_detection::FLAGS],
        run: object_detection::run,
    },
];

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(super) struct Tflite {
    /// A tool of TensorFlow Lite, and its flags as --name=value
    #[arg(value_names = ["TOOL", "FLAGS"], required = true, num_args = 1.., trailing_var_arg = true)]
    #[arg(allow_hyphen_values = true)]
    words: Vec<OsString>,
}

const HELP: &str = "Tools:
  benchmark_model                      how long a model takes
  benchmark_model_performance_options  the same with several settings
  inference_diff_eval                  a delegate's outputs against the CPU's
  image_classification_eval (run_eval) how often a classifier is right
  coco_object_detection_eval           the average precision of a detector

`attache tflite TOOL --help` lists the flags of a tool. A link to attache with the name of a tool is that tool:
  ln -s $(which attache) benchmark_model && ./benchmark_model --graph=model.tflite";

impl Command for Tflite {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        let name = self.words[0].to_string_lossy().into_owned();
        let known = || TOOLS.iter().map(|tool| tool.names[0]).collect::<Vec<_>>().join(", ");
        let found = TOOLS.iter().find_map(|tool| Some((tool, *tool.names.iter().find(|known| **known == name)?)));
        let (tool, name) =
            found.ok_or_else(|| Failure::usage(format!("there is no tool \"{name}\"; there are {}", known())))?;
        run(tool, name, &self.words[1..], console)
    }
}

/// Whether the program's own name is that of a tool.
pub(super) fn is_tool(arguments: &[OsString]) -> bool {
    arguments.first().is_some_and(|program| named(program).is_some())
}

/// Runs the tool that the program's own name is, on the words after the name.
pub(super) fn run_as_tool(arguments: &[OsString], console: &Console) -> Result<Report, Failure> {
    let tool = arguments.split_first().and_then(|(program, words)| Some((named(program)?, words)));
    let ((tool, name), words) = tool.ok_or_else(|| Failure::usage("this program has not the name of a tool"))?;
    run(tool, name, words, console)
}

/// Returns the tool that a program is by its name: the name of a tool, after other words as in
/// `linux_x86-64_benchmark_model`, with any extension.
fn named(program: &OsStr) -> Option<(&'static Tool, &'static str)> {
    let file = Path::new(program).file_name()?.to_str()?;
    // An extension is what follows the last dot, except in the name of a tool, which has none.
    let stem = file.split('.').next()?;
    let is_name = |name: &str| {
        let before = stem.strip_suffix(name)?;
        (before.is_empty() || before.ends_with(['_', '-'])).then_some(name.len())
    };
    let all = TOOLS.iter().flat_map(|tool| tool.names.iter().map(move |name| (tool, *name)));
    all.filter_map(|(tool, name)| Some((is_name(name)?, tool, name)))
        .max_by_key(|(length, ..)| *length)
        .map(|it| (it.1, it.2))
}

fn run(tool: &Tool, name: &'static str, words: &[OsString], console: &Console) -> Result<Report, Failure> {
    let tables: Vec<&'static [Flag]> = tool.flags.iter().copied().chain([delegates::FLAGS]).collect();
    let flags = Flags::parse(name, &tables, words)?;
    if flags.is("help") {
        let text = flags.help(tool.about);
        return Ok(Report::new(text.clone(), json!({ "help": text })).verbatim());
    }
    (tool.run)(&flags, console)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_the_tool_of_its_name() {
        let cases = [
            ("benchmark_model", Some("benchmark_model")),
            ("/usr/bin/benchmark_model.exe", Some("benchmark_model")),
            ("./linux_x86-64_benchmark_model", Some("benchmark_model")),
            ("benchmark_model_performance_options", Some("benchmark_model_performance_options")),
            ("android_eval_inference_diff_run_eval", Some("inference_diff_run_eval")),
            ("inference_diff_eval.2.19", Some("inference_diff_eval")),
            ("attache", None),
            ("mybenchmark_model", None),
            ("benchmark_model_x", None),
        ];
        for (program, tool) in cases {
            assert_eq!(named(OsStr::new(program)).map(|(_, name)| name), tool, "{program}");
        }
    }

    #[test]
    fn no_flag_is_in_two_tables() {
        for tool in TOOLS {
            let mut names: Vec<&str> = tool
                .flags
                .iter()
                .chain([&delegates::FLAGS])
                .flat_map(|table| table.iter().map(|flag| flag.name))
                .collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", tool.names[0]);
        }
    }

    #[test]
    fn help_lists_every_tool() {
        assert!(TOOLS.iter().all(|tool| HELP.contains(tool.names[0])));
    }
}
