//! `attache dump`: prints a stage of a model's preparation as text. For a model with several subgraphs the
//! one that runs is shown: the first, or that of `--signature`.

use attache::stages;
use clap::Args;
use serde_json::json;

use super::Command;
use crate::arguments::entry::Entry;
use crate::arguments::{DeviceArguments, EntryArguments, ModelArgument, Stage};
use crate::console::{Console, Report};
use crate::device::{Device, DeviceOpening};
use crate::failure::Failure;
use crate::io::source::Source;

#[derive(Args, Debug)]
pub(super) struct Dump {
    /// Stage to print
    stage: Stage,
    #[command(flatten)]
    model: ModelArgument,
    #[command(flatten)]
    entry: EntryArguments,
    #[command(flatten)]
    device: DeviceArguments,
}

impl Command for Dump {
    fn run(self, _: &Console) -> Result<Report, Failure> {
        if self.device.require_delegation || self.device.cpu_fallback {
            let text = "--require-delegation and --cpu-fallback are for what runs a model; leave them out, since `attache dump \
                partition` says what goes where";
            return Err(Failure::usage(text));
        }
        let source = Source::find(&self.model.model)?;
        let needs_device = !matches!(self.stage, Stage::Graph | Stage::Passes);
        let opening = needs_device.then(|| Device::open_beside(&self.device));
        let model = source.open()?;
        let text = self.text(&Entry::new(&model, &source.name, &self.entry)?, opening)?;
        let json = json!({ "model": source.name, "stage": self.stage.word(), "text": text });
        Ok(Report::new(text, json).verbatim())
    }
}

impl Dump {
    /// Returns the text of the stage. `opening` is the device, if it is being opened already.
    fn text(&self, entry: &Entry<'_>, opening: Option<DeviceOpening>) -> Result<String, Failure> {
        let device = || opening.map_or_else(|| Device::open(&self.device), DeviceOpening::wait);
        match self.stage {
            Stage::Graph => stages::import(entry.model, entry.index, &entry.shapes).map_err(|it| entry.failure(it)),
            Stage::Passes => stages::passes(entry.model, entry.index, &entry.shapes).map_err(|it| entry.failure(it)),
            Stage::Partition => device()?.partition(entry),
            Stage::Program | Stage::Kernels | Stage::Wgsl | Stage::Plan => device()?.stage(entry, self.stage),
        }
    }
}
