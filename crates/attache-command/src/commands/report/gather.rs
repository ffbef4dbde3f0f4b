//! Measures what a report shows of a model.

use std::path::Path;

use attache::model::{Subgraph, Tensor};
use attache::{NodePlacement, Outcome};

use super::data::{ModelData, Place, Placed, ProfileData, Share};
use crate::arguments::EntryArguments;
use crate::arguments::entry::Entry;
use crate::commands::advise::options::snippets;
use crate::commands::advise::study::{Contender, Plan, Study, study};
use crate::commands::bench::profile::Profiles;
use crate::console::Console;
use crate::failure::Failure;
use crate::io::source::Source;

/// Measures a model by this plan.
pub(super) fn gather(console: &Console, model: &Path, plan: &Plan<'_>) -> Result<ModelData, Failure> {
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
    let profiles = profiles(&study, &contenders, shown, &entry);
    let list = |tensors: &[usize]| tensors.iter().map(|index| described(&main.tensors[*index])).collect();
    Ok(ModelData {
        title: title(&name),
        bytes: model.bytes().len(),
        operators: main.operators.len(),
        inputs: list(&main.inputs),
        outputs: list(&main.outputs),
        headline: study.headline(),
        remarks: study.remarks(),
        snippets: snippets(&study.model, &study.chosen().way, study.names_adapter()),
        placed_way: study.ways[shown].name.clone(),
        placement,
        profiles,
        study,
    })
}

/// Returns the failure with the model's name, unless it has it.
fn named(failure: Failure, name: &str) -> Failure {
    if failure.message.contains(name) { failure } else { failure.at(name) }
}

fn title(name: &str) -> String {
    Path::new(name).file_name().map_or(name.to_owned(), |name| name.to_string_lossy().into_owned())
}

fn described(tensor: &Tensor) -> String {
    format!("{} {}{}", Console::plain().name(&tensor.name), tensor.data_type.name().to_lowercase(), tensor.shape)
}

/// Returns the index of the way whose placement is worth a picture: the advised one if it uses a GPU, else the fastest
/// on a GPU, else the advised one.
fn shown(study: &Study) -> usize {
    let time = |index: &usize| study.ways[*index].run_ms.unwrap_or(f64::INFINITY);
    let on_gpu = (0..study.ways.len()).filter(|index| study.ways[*index].way.gpu.is_some());
    let fastest = on_gpu.min_by(|one, other| time(one).total_cmp(&time(other)));
    fastest.filter(|_| study.chosen().way.gpu.is_none()).unwrap_or(study.choice)
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

/// Profiles the advised way and the one whose placement is shown. A way that cannot be profiled has none.
fn profiles(study: &Study, contenders: &[Contender], shown: usize, entry: &Entry<'_>) -> Vec<ProfileData> {
    let mut ways = vec![study.choice, shown];
    ways.dedup();
    let profile = |way: usize| {
        let contender = &contenders[way];
        let device = contender.device.profiled().ok()?;
        let caller = contender.caller.with(device.interpreter(entry).ok()?);
        let profiles = Profiles::measure(&device, caller, study.ways[way].partitions).ok()?;
        let shares = profiles.shares().into_iter().map(|(operators, count, us, is_gpu)| Share {
            operators,
            place: if is_gpu { Place::Gpu } else { Place::Cpu },
            count,
            us,
        });
        let shares: Vec<Share> = shares.collect();
        Some(ProfileData { way: study.ways[way].name.clone(), summary: profiles.summary(), shares })
    };
    ways.into_iter().filter_map(profile).collect()
}
