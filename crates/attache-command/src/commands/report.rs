//! `attache report`: measures models and writes one page about them that can be sent around.

mod chart;
mod compare;
mod data;
mod gather;
mod graph;
mod page;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use attache::diff::QuantizationSteps;
use clap::Args;
use serde_json::json;

use super::Command;
use super::advise::study::Plan;
use super::advise::{BUDGET, configurations};
use crate::arguments::{LimitArguments, seconds, tolerance};
use crate::console::{Console, Report, counted, visible};
use crate::device::{Adapter, adapters};
use crate::failure::{Failure, Status};
use crate::inputs::InputArguments;
use crate::io::files;
use crate::measure::machine;
use data::{Data, FORMAT, FailureData, Machine};
use gather::gather;

/// The name of the page in its folder.
const PAGE: &str = "index.html";
/// The name of the data in the same folder.
const JSON: &str = "report.json";

/// The share of the budget that is left to profiles.
const PROFILES: f64 = 0.15;

#[derive(Args, Debug)]
#[command(
    override_usage = "attache report [OPTIONS] <MODEL>...\n       attache report --compare <BEFORE> <AFTER> [--out <DIR>]"
)]
pub(super) struct ReportCommand {
    /// .tflite files, or names of built-in models (`attache zoo` lists them)
    #[arg(value_name = "MODEL", required_unless_present = "compare")]
    models: Vec<PathBuf>,
    /// Devices to measure, with commas between them: cpu, gpu (hardware), software, or a part of an adapter's name
    /// [default: cpu,gpu]. The CPU with its default number of threads is measured in any case, to compare with
    #[arg(long, value_name = "DEVICES", value_delimiter = ',')]
    devices: Vec<String>,
    /// Folder for the page (index.html) and its data (report.json), which is made if it does not exist [default: report]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seconds that measuring one model may take, unless its first run alone takes longer [default: 20]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    budget: Option<f64>,
    /// Largest difference from the CPU of what is advised, relative to an output's largest value [default: 1e-4, 1e-2 in 16
    /// bits, and 0.05 for models with dynamic range quantization]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Quantization steps by which outputs may differ: N for every element, and M for P percent of the elements, as 2 or
    /// 2:99.5:1; none by default
    #[arg(long, value_name = "N[:P:M]")]
    quantization_steps: Option<QuantizationSteps>,
    /// Compare two reports, each given by its folder, page or JSON, instead of measuring; with --out also as a page,
    /// comparison.html in that folder
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    #[arg(conflicts_with_all = ["models", "devices", "budget", "tolerance", "quantization_steps", "LimitArguments"])]
    compare: Option<Vec<PathBuf>>,
    #[command(flatten)]
    limits: LimitArguments,
}

impl Command for ReportCommand {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        match self.compare.as_deref() {
            Some([before, after]) => compare::compare(console, before, after, self.out.as_deref()),
            _ => self.measure(console),
        }
    }
}

/// The devices that `--devices` names.
struct Devices {
    cpu: bool,
    adapters: Vec<Adapter>,
    /// What to say if GPUs were asked for and there are none.
    missing: Option<&'static str>,
}

impl ReportCommand {
    fn measure(&self, console: &Console) -> Result<Report, Failure> {
        let folder = self.out.clone().unwrap_or_else(|| PathBuf::from("report"));
        prepare(&folder, &[PAGE, JSON])?;
        let known = configurations::usable(adapters());
        let devices = chosen(&self.devices, &known)?;
        let inputs = InputArguments::default();
        let plan = Plan {
            budget: self.budget.unwrap_or(BUDGET),
            reserved: PROFILES,
            cpu: devices.cpu,
            adapters: &devices.adapters,
            no_gpu: devices.missing,
            known: &known,
            tolerance: self.tolerance,
            steps: self.quantization_steps,
            exhaustive: false,
            inputs: &inputs,
            limits: &self.limits,
        };
        let mut data = Data {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            made: machine::utc(SystemTime::now()),
            machine: described(&devices),
            models: Vec::new(),
            failures: Vec::new(),
        };
        let mut failed: Vec<Failure> = Vec::new();
        let mut written = None;
        for (index, model) in self.models.iter().enumerate() {
            if self.models.len() > 1 {
                console.say_progress(&format!("{} of {}: {}", index + 1, self.models.len(), model.display()));
            }
            match gather(console, model, &plan) {
                Ok(measured) => data.models.push(measured),
                Err(failure) => {
                    let model = model.display().to_string();
                    let message = failure.message.strip_prefix(&format!("{model}: ")).unwrap_or(&failure.message);
                    data.failures.push(FailureData { message: visible(message), model: visible(&model) });
                    failed.push(failure);
                }
            }
            // Whatever ends the program later, what was measured is kept.
            written = if data.models.is_empty() { None } else { Some(write(&folder, &data)) };
        }
        let mut failures = failed.iter();
        let Some(report) = written else {
            // The first failure is the command's.
            let first = failures.next().cloned();
            failures.for_each(|failure| console.warn(&failure.to_string()));
            return Err(first.unwrap_or_else(|| Failure::usage("there is no model; name one")));
        };
        failures.for_each(|failure| console.warn(&format!("{failure}; the report is without it")));
        let status = failed.first().map_or(Status::Success, Failure::status);
        Ok(Report { status, ..report })
    }
}

/// Returns an error if files of these names cannot be written in a folder, or would replace what is no report.
fn prepare(folder: &Path, names: &[&str]) -> Result<(), Failure> {
    files::probe_folder(folder)?;
    for path in names.iter().map(|name| folder.join(name)).filter(|path| path.exists()) {
        let is_own = files::read_text(&path).is_ok_and(|text| page::is_report(&text));
        if !is_own {
            let text = "this is there already, and no report; name another folder with --out, or remove it";
            return Err(Failure::usage(text).at(path.display()));
        }
    }
    Ok(())
}

/// Writes the page and its data, and says where.
fn write(folder: &Path, data: &Data) -> Report {
    let json = json!(data);
    let text = page::plain(&json.to_string());
    let page = page::page(data, &text);
    let paths = [PAGE, JSON].map(|name| folder.join(name));
    let written = files::write_all_in(Some(folder), &[(&paths[0], page.as_bytes()), (&paths[1], text.as_bytes())]);
    let mut parts: Vec<String> =
        data.models.iter().map(|model| format!("{}: {}", model.title, model.headline)).collect();
    parts.extend(data.failures.iter().map(|failure| format!("not measured: {}: {}", failure.model, failure.message)));
    let models = counted(data.models.len(), "model", "models");
    if written.is_ok() {
        parts.push(format!("{}: {models}, {} kB", paths[0].display(), page.len().div_ceil(1000)));
    }
    let json = json!({ "page": files::json(&paths[0]), "bytes": page.len(), "report": json });
    Report::new(parts.join("\n"), json).with_failure(written.err())
}

fn described(devices: &Devices) -> Machine {
    let adapter = |adapter: &Adapter| format!("{} ({}, {})", adapter.name, adapter.backend, adapter.driver);
    Machine {
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        cpu: machine::cpu_name().unwrap_or_else(|| "this machine".to_owned()),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        adapters: devices.adapters.iter().map(adapter).collect(),
    }
}

/// Returns the devices that the words of `--devices` mean, of these adapters. `gpu` and `software` may find nothing if
/// something else is asked for too.
fn chosen(words: &[String], usable: &[Adapter]) -> Result<Devices, Failure> {
    let usual = ["cpu", "gpu"].map(str::to_owned);
    let mut devices = Devices { cpu: false, adapters: Vec::new(), missing: None };
    let mut missing: Option<&str> = None;
    for word in if words.is_empty() { &usual[..] } else { words } {
        let lower = word.trim().to_lowercase();
        let fits = |adapter: &&Adapter| match lower.as_str() {
            "gpu" => !adapter.is_software,
            "software" => adapter.is_software,
            text => adapter.name.to_lowercase().contains(text),
        };
        let found: Vec<&Adapter> = usable.iter().filter(fits).collect();
        match lower.as_str() {
            "cpu" => devices.cpu = true,
            "" => return Err(Failure::usage("--devices: a name is empty; write for instance cpu,gpu")),
            "gpu" | "software" if found.is_empty() => missing = Some(word),
            _ if found.is_empty() => return Err(unknown(word, usable)),
            _ => {
                for adapter in found {
                    if !devices.adapters.contains(adapter) {
                        devices.adapters.push(adapter.clone());
                    }
                }
            }
        }
    }
    if let Some(word) = missing.filter(|_| devices.adapters.is_empty()) {
        if !devices.cpu {
            return Err(unknown(word, usable));
        }
        devices.missing = Some(match word {
            "software" => "there is neither a GPU nor a software adapter",
            _ => "there is no hardware GPU; --devices cpu,software measures what stands in for one",
        });
    }
    Ok(devices)
}

/// Returns the error for a device that there is not.
fn unknown(word: &str, usable: &[Adapter]) -> Failure {
    let names: Vec<&str> = usable.iter().map(|adapter| adapter.name.as_str()).collect();
    let there = if names.is_empty() { "no adapter".to_owned() } else { names.join(", ") };
    let known = match word {
        "gpu" => "there is no hardware GPU; software measures what stands in for one",
        "software" => "there is no software adapter",
        _ => "it is neither cpu, gpu, software nor a part of an adapter's name",
    };
    Failure::unsupported(format!("--devices {word}: {known}; there is {there}, and cpu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, is_software: bool) -> Adapter {
        Adapter {
            name: name.to_owned(),
            backend: "vulkan".to_owned(),
            driver: String::new(),
            device_type: String::new(),
            is_software,
            features: Vec::new(),
            limits: serde_json::Map::new(),
            unusable: None,
        }
    }

    fn names(words: &[&str]) -> Result<(bool, Vec<String>), Failure> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        let devices = chosen(&words, &[adapter("Fast 1", false), adapter("llvmpipe", true)])?;
        Ok((devices.cpu, devices.adapters.into_iter().map(|adapter| adapter.name).collect()))
    }

    #[test]
    fn devices_are_found_by_their_words() {
        assert_eq!(names(&[]).unwrap(), (true, vec!["Fast 1".to_owned()]));
        assert_eq!(names(&["cpu"]).unwrap(), (true, vec![]));
        assert_eq!(names(&["gpu", "fast"]).unwrap(), (false, vec!["Fast 1".to_owned()]));
        assert_eq!(names(&["CPU", "software", "LLVM"]).unwrap(), (true, vec!["llvmpipe".to_owned()]));
        let failure = names(&["cpu", "tpu"]).unwrap_err();
        assert!(failure.message.contains("--devices tpu") && failure.message.contains("llvmpipe"), "{failure}");
        assert!(names(&["cpu", ""]).is_err());
        let without = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            chosen(&words, &[])
        };
        assert!(without(&["gpu"]).is_err_and(|failure| failure.message.contains("no hardware GPU")));
        for words in [&[][..], &["cpu", "gpu"], &["gpu", "cpu", "software"]] {
            let devices = without(words).unwrap();
            assert!(devices.cpu && devices.missing.is_some(), "{words:?}");
        }
        assert!(without(&["cpu"]).is_ok_and(|devices| devices.missing.is_none()), "no GPU was asked for");
    }

    #[test]
    fn only_reports_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(PAGE);
        assert!(prepare(folder.path(), &[PAGE, JSON]).is_ok());
        std::fs::write(&path, "<html>my own page</html>").unwrap();
        let failure = prepare(folder.path(), &[PAGE, JSON]).unwrap_err();
        assert!(failure.message.contains("no report; name another folder"), "{failure}");
        write(&folder.path().join("other"), &data::tests::data(&[("m", "1", 5.0)]));
        assert!(prepare(&folder.path().join("other"), &[PAGE, JSON]).is_ok());
    }
}
