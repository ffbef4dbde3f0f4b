//! `attache advise`: measures the configurations in which a model can run on this machine, and says which one to use and
//! what to write for it.

pub(super) mod configurations;
pub(super) mod contender;
mod exhaustive;
pub(super) mod options;
mod race;
pub(super) mod session;
pub(super) mod study;
pub(super) mod words;

use attache::diff::QuantizationSteps;
use clap::Args;
use serde_json::json;

use super::Command;
use crate::arguments::entry::Entry;
use crate::arguments::{EntryArguments, LimitArguments, ModelArgument, seconds, tolerance};
use crate::console::{Console, Report};
use crate::device::adapters;
use crate::failure::{Failure, Status};
use crate::inputs::InputArguments;
use crate::io::source::Source;
use options::{Target, snippets};
use session::study;
use study::Plan;

/// Default of `--budget`, in seconds.
pub(super) const BUDGET: f64 = 20.0;

#[derive(Args, Debug)]
pub(super) struct Advise {
    #[command(flatten)]
    model: ModelArgument,
    /// Seconds that the measurement may take, unless the first run alone takes longer; it ends sooner where the answer is
    /// clear [default: 20]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    budget: Option<f64>,
    /// Measure software adapters too, which stand in for a GPU
    #[arg(long)]
    software: bool,
    /// Largest difference from the CPU of what is advised, relative to an output's largest value [default: 1e-4, 1e-2 in 16
    /// bits, and 0.05 for models with dynamic range quantization]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Quantization steps by which outputs may differ: N for every element, and M for P percent of the elements, as 2 or
    /// 2:99.5:1; none by default
    #[arg(long, value_name = "N[:P:M]")]
    quantization_steps: Option<QuantizationSteps>,
    /// Then measure all combinations anew, and fail unless the choice is within 5 % or 10 µs of the best
    #[arg(long)]
    exhaustive: bool,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    entry: EntryArguments,
    #[command(flatten)]
    limits: LimitArguments,
}

impl Command for Advise {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        let source = Source::find(&self.model.model)?;
        let model = source.open().map_err(|failure| failure.at(&source.name))?;
        let entry = Entry::new(&model, &source.name, &self.entry)?;
        let usable = configurations::usable(adapters());
        let measured = usable.iter().filter(|adapter| self.software || !adapter.is_software).cloned();
        let no_gpu = match self.software {
            true => "there is neither a GPU nor a software adapter",
            false => "there is no hardware GPU; --software measures what stands in for one",
        };
        let plan = Plan {
            budget: self.budget.unwrap_or(BUDGET),
            reserved: 0.0,
            cpu: true,
            adapters: &measured.collect::<Vec<_>>(),
            no_gpu: Some(no_gpu),
            known: &usable,
            tolerance: self.tolerance,
            steps: self.quantization_steps,
            exhaustive: self.exhaustive,
            inputs: &self.inputs,
            limits: &self.limits,
        };
        let (study, _) = study(console, &entry, &plan)?;
        let snippets = snippets(Target {
            entry: &entry,
            is_built_in: source.is_built_in(),
            configuration: &study.chosen().configuration,
            names_adapter: study.names_adapter,
            limits: &self.limits,
        });
        let mut json = json!(study);
        json["advice"] = json!(study.headline());
        json["remarks"] = json!(study.remarks());
        json["options"] = json!(snippets);
        let agrees = study.exhaustive.as_ref().is_none_or(|checked| checked.agrees);
        let status = if agrees { Status::Success } else { Status::Comparison };
        Ok(Report { status, ..Report::new(study.text(console, &snippets), json) })
    }
}
