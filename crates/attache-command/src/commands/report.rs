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
use super::advise::{BUDGET, ways};
use crate::arguments::{LimitArguments, seconds, tolerance};
use crate::console::{Console, Report, counted};
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

#[derive(Args, Debug)]
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
    /// Seconds that measuring one model may take, without its profile [default: 20]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    budget: Option<f64>,
    /// Largest difference from the CPU of what is advised, relative to an output's largest value [default: 1e-4, and 1e-2
    /// in 16 bits]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Quantization steps by which outputs may differ: N for every element, and M for P percent of the elements; none
    /// by default
    #[arg(long, value_name = "N[:P:M]")]
    quantization_steps: Option<QuantizationSteps>,
    /// Compare two reports, each given by its folder, page or JSON, instead of measuring; with --out also as a page
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    #[arg(conflicts_with_all = ["models", "devices", "budget", "tolerance", "quantization_steps", "LimitArguments"])]
    compare: Option<Vec<PathBuf>>,
    #[command(flatten)]
    limits: LimitArguments,
}

impl Command for ReportCommand {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        self.out.as_deref().map_or(Ok(()), files::check_folder)?;
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
}

impl ReportCommand {
    fn measure(&self, console: &Console) -> Result<Report, Failure> {
        let folder = self.out.clone().unwrap_or_else(|| PathBuf::from("report"));
        files::check_folder(&folder)?;
        let devices = chosen(&self.devices, adapters())?;
        let inputs = InputArguments::default();
        let plan = Plan {
            budget: self.budget.unwrap_or(BUDGET),
            cpu: devices.cpu,
            adapters: &devices.adapters,
            tolerance: self.tolerance,
            steps: self.quantization_steps,
            exhaustive: false,
            inputs: &inputs,
            limits: &self.limits,
        };
        let (mut models, mut failures) = (Vec::new(), Vec::new());
        let mut first: Option<Failure> = None;
        for model in &self.models {
            match gather(console, model, &plan) {
                Ok(data) => models.push(data),
                Err(failure) => {
                    console.warn(&format!("{failure}; the report is without it"));
                    let model = model.display().to_string();
                    let message = failure.message.strip_prefix(&format!("{model}: ")).unwrap_or(&failure.message);
                    failures.push(FailureData { message: message.to_owned(), model });
                    first.get_or_insert(failure);
                }
            }
        }
        if let Some(failure) = first.clone().filter(|_| models.is_empty()) {
            return Err(failure);
        }
        let data = Data {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            made: machine::utc(SystemTime::now()),
            machine: described(&devices),
            models,
            failures,
        };
        let status = first.map_or(Status::Success, |failure| failure.status());
        written(&folder, &data).map(|report| Report { status, ..report })
    }
}

/// Writes the page and its data, and says where.
fn written(folder: &Path, data: &Data) -> Result<Report, Failure> {
    let json = json!(data);
    let text = json.to_string();
    let page = page::page(data, &text);
    let paths = [PAGE, JSON].map(|name| folder.join(name));
    files::write_all_in(Some(folder), &[(&paths[0], page.as_bytes()), (&paths[1], text.as_bytes())])?;
    let mut parts: Vec<String> =
        data.models.iter().map(|model| format!("{}: {}", model.title, model.headline)).collect();
    parts.extend(data.failures.iter().map(|failure| format!("not measured: {}: {}", failure.model, failure.message)));
    let models = counted(data.models.len(), "model", "models");
    parts.push(format!("{}: {models}, {} kB", paths[0].display(), page.len().div_ceil(1000)));
    let json = json!({ "page": paths[0].display().to_string(), "bytes": page.len(), "report": json });
    Ok(Report::new(parts.join("\n"), json))
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

/// Returns the devices that the words of `--devices` mean, of these adapters.
fn chosen(words: &[String], adapters: Vec<Adapter>) -> Result<Devices, Failure> {
    let usable = ways::usable(adapters);
    let mut devices = Devices { cpu: words.is_empty(), adapters: Vec::new() };
    let usual = ["gpu".to_owned()];
    for word in if words.is_empty() { &usual[..] } else { words } {
        let lower = word.trim().to_lowercase();
        let fits = |adapter: &&Adapter| match lower.as_str() {
            "gpu" => !adapter.is_software,
            "software" => adapter.is_software,
            text => adapter.name.to_lowercase().contains(text),
        };
        let found: Vec<Adapter> = usable.iter().filter(fits).cloned().collect();
        match lower.as_str() {
            "cpu" => devices.cpu = true,
            "" => return Err(Failure::usage("--devices: a name is empty; write for instance cpu,gpu")),
            "gpu" if words.is_empty() => {}
            _ if found.is_empty() => return Err(unknown(word, &usable)),
            _ => {}
        }
        if lower != "cpu" {
            let known = |adapter: &Adapter| devices.adapters.contains(adapter);
            let new: Vec<Adapter> = found.into_iter().filter(|adapter| !known(adapter)).collect();
            devices.adapters.extend(new);
        }
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
        let devices = chosen(&words, vec![adapter("Fast 1", false), adapter("llvmpipe", true)])?;
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
        assert!(
            chosen(&["gpu".to_owned()], Vec::new()).is_err_and(|failure| failure.message.contains("no hardware GPU"))
        );
        assert!(chosen(&[], Vec::new()).is_ok_and(|devices| devices.cpu));
    }
}
