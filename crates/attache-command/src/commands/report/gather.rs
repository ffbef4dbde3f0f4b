//! Measures what a report shows of a model.

use std::path::Path;
use std::time::Instant;

use attache::model::{Subgraph, Tensor};
use attache::{NodePlacement, Outcome};

use super::data::{ModelData, Place, Placed, ProfileData, Share, hash};
use crate::arguments::EntryArguments;
use crate::arguments::entry::Entry;
use crate::commands::advise::contender::Contender;
use crate::commands::advise::options::{Target, snippets};
use crate::commands::advise::session::study;
use crate::commands::advise::study::{Plan, Skipped, Study};
use crate::commands::bench::profile::Profiles;
use crate::console::{Console, visible};
use crate::failure::Failure;
use crate::io::source::Source;

/// The share of what is left of the budget that one profile may take for its warm-up runs, and as much again for the others.
const PART: f64 = 0.25;

/// Measures a model by this plan.
pub(super) fn gather(console: &Console, model: &Path, plan: &Plan<'_>) -> Result<ModelData, Failure> {
    let start = Instant::now();
    let source = Source::find(model)?;
    let name = source.name.clone();
    let model = source.open().map_err(|failure| named(failure, &name))?;
    let arguments = EntryArguments { signature: None, shape: Vec::new() };
    let entry = Entry::new(&model, &name, &arguments)?;
    let (study, contenders) = study(console, &entry, plan).map_err(|failure| named(failure, &name))?;
    let shown = shown(&study);
    let placed = &contenders[shown].caller.interpreter;
    let main = entry.subgraph();
    let placement = placement(main, &placed.placement().nodes);
    let (profiles, unprofiled) = profiles(&study, &contenders, shown, &entry, (start, plan.budget));
    let list = |tensors: &[usize]| tensors.iter().map(|index| described(&main.tensors[*index])).collect();
    let snippets = snippets(Target {
        entry: &entry,
        is_built_in: source.is_built_in(),
        configuration: &study.chosen().configuration,
        names_adapter: study.names_adapter,
        limits: plan.limits,
    });
    Ok(ModelData {
        title: title(&name),
        bytes: model.bytes().len(),
        hash: hash(model.bytes()),
        operators: main.operators.len(),
        inputs: list(&main.inputs),
        outputs: list(&main.outputs),
        headline: study.headline(),
        remarks: study.remarks(),
        snippets,
        placed: study.configurations[shown].name.clone(),
        placement,
        profiles,
        unprofiled,
        study,
    })
}

/// Returns the failure with the model's name, unless it has it.
fn named(failure: Failure, name: &str) -> Failure {
    if failure.message.contains(name) { failure } else { failure.at(name) }
}

fn title(name: &str) -> String {
    visible(&Path::new(name).file_name().map_or(name.into(), |name| name.to_string_lossy()))
}

fn described(tensor: &Tensor) -> String {
    format!("{} {}{}", Console::plain().name(&tensor.name), tensor.data_type.name().to_lowercase(), tensor.shape)
}

/// Returns the index of the configuration whose placement is worth a picture: the advised one if it uses a GPU, else the fastest
/// on a GPU, else the advised one.
fn shown(study: &Study) -> usize {
    let time = |index: &usize| study.configurations[*index].run_ms.unwrap_or(f64::INFINITY);
    let on_gpu =
        (0..study.configurations.len()).filter(|index| study.configurations[*index].configuration.gpu.is_some());
    let fastest = on_gpu.min_by(|one, other| time(one).total_cmp(&time(other)));
    fastest.filter(|_| study.chosen().configuration.gpu.is_none()).unwrap_or(study.choice)
}

fn placement(main: &Subgraph, nodes: &[NodePlacement]) -> Vec<Placed> {
    let maker = |tensor: usize| main.operators.iter().position(|operator| operator.outputs.contains(&tensor));
    let placed = |node: &NodePlacement| {
        let (place, mut notes) = match &node.outcome {
            Outcome::On { delegate, partition } => (Place::Gpu, vec![format!("{delegate}, partition {partition}")]),
            Outcome::Cpu => (Place::Cpu, Vec::new()),
            Outcome::Folded { into } => (Place::Folded, vec![into.clone()]),
        };
        notes.extend(node.merged.iter().chain(&node.reason).cloned());
        let inputs = main.operators.get(node.index).map_or(&[][..], |operator| &operator.inputs);
        let mut reads: Vec<usize> = inputs.iter().flatten().filter_map(|tensor| maker(*tensor)).collect();
        reads.retain(|maker| *maker < node.index);
        reads.sort_unstable();
        reads.dedup();
        let is_constant = inputs.iter().flatten().all(|tensor| main.tensors[*tensor].constant.is_some());
        Placed { operator: node.operator.clone(), place, note: notes.join("; "), is_constant, reads }
    };
    nodes.iter().map(placed).collect()
}

/// Profiles the advised configuration and the one whose placement is shown, within what is left of the budget in seconds.
/// Also returns those that have no profile.
fn profiles(
    study: &Study,
    contenders: &[Contender],
    shown: usize,
    entry: &Entry<'_>,
    (start, budget): (Instant, f64),
) -> (Vec<ProfileData>, Vec<Skipped>) {
    let mut wanted = vec![study.choice, shown];
    wanted.dedup();
    let (mut profiles, mut missing) = (Vec::new(), Vec::new());
    for index in wanted {
        let measured = &study.configurations[index];
        let left = budget - start.elapsed().as_secs_f64();
        let predicted = (measured.init_ms + 3.0 * measured.run_ms.unwrap_or(measured.first_ms)) / 1e3;
        let profile = match predicted < left {
            true => profile(&contenders[index], entry, measured.partitions, PART * left).map_err(|it| it.to_string()),
            false => Err("time budget exhausted; --budget allows more".to_owned()),
        };
        let name = measured.name.clone();
        match profile {
            Ok((summary, shares)) => profiles.push(ProfileData { name, summary, shares }),
            Err(reason) => missing.push(Skipped { name, reason }),
        }
    }
    (profiles, missing)
}

/// Returns where the time of a configuration goes: a summary, and the shares of operators.
fn profile(
    contender: &Contender,
    entry: &Entry<'_>,
    partitions: usize,
    seconds: f64,
) -> Result<(String, Vec<Share>), Failure> {
    let device = contender.device.profiled()?;
    let caller = contender.caller.with(device.interpreter(entry)?);
    let profiles = Profiles::measure(&device, caller, partitions, seconds)?;
    let share = |(operators, count, us, is_gpu)| {
        let place = if is_gpu { Place::Gpu } else { Place::Cpu };
        Share { operators, place, count, us }
    };
    Ok((profiles.summary(), profiles.shares().into_iter().map(share).collect()))
}
