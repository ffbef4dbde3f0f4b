//! Writes a report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere. What it shows
//! lies in it as JSON too. The template escapes all texts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{self, Bar, CHOSEN, CPU, GPU, SECOND, WIDTHS, bars};
use super::data::{Data, ModelData, Place, ProfileData};
use super::graph;
use crate::commands::advise::study::{Measured, Study};
use crate::commands::advise::words::{megabytes, time};
use crate::failure::Failure;

const STYLE: &str = include_str!("style.css");
/// Stands before the data in the page.
const OPENING: &str = "<script type=\"application/json\" id=\"attache-report\">";
const CLOSING: &str = "</script>";
/// Most operators that a profile's chart shows.
const MOST_SHARES: usize = 10;

/// Returns the page of a report.
pub(super) fn page(data: &Data, json: &str) -> String {
    let body = html! {
        header {
            h1 { "How " (count(data.models.len(), "model runs", "models run")) " on " (data.machine.cpu) }
            p.quiet {
                (data.made) " · Attaché " (data.version) " · " (data.machine.system) " · "
                (count(data.machine.threads, "CPU thread", "CPU threads"))
                @for adapter in &data.machine.adapters { " · " (adapter) }
            }
        }
        main {
            @if !data.failures.is_empty() { (failures(data)) }
            @if data.models.len() > 1 { (overview(data)) }
            @for (index, model) in data.models.iter().enumerate() { (section(index, model)) }
        }
        footer {
            p.quiet {
                "Times are of whole runs, with inputs and outputs copied, measured in alternation; the thin line is where 5 % to "
                "95 % of them lie. Differences are from the CPU in 32-bit floats on random inputs. "
                "The data of this page lies in it as JSON: " code { "attache report --compare A B" } " compares two pages."
            }
        }
    };
    whole("Attaché: how models run here", &body, json)
}

/// Returns a page with this body and data.
pub(super) fn whole(title: &str, body: &Markup, json: &str) -> String {
    // In JSON, `<` stands in strings alone, where it may be written so; the page then cannot take it for a tag.
    let data = format!("{OPENING}{}{CLOSING}", json.replace('<', "\\u003c"));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) (PreEscaped(data)) }
        }
    }
    .into_string()
}

/// Returns the data in a page; `None` if there is none.
pub(super) fn embedded(page: &str) -> Option<&str> {
    page.split_once(OPENING)?.1.split_once(CLOSING).map(|parts| parts.0)
}

fn count(number: usize, one: &str, many: &str) -> String {
    crate::console::counted(number, one, many)
}

fn failures(data: &Data) -> Markup {
    html! {
        section {
            h2 { "Not measured" }
            ul { @for failure in &data.failures { li { b { (failure.model) } ": " (failure.message) } } }
        }
    }
}

/// Returns a chart in both widths.
fn charted(all: &[Bar], unit: &str) -> Markup {
    let [narrow, wide] = WIDTHS.map(|width| PreEscaped(bars(all, unit, width)));
    html! { div.wide { (wide) } div.narrow { (narrow) } }
}

fn overview(data: &Data) -> Markup {
    html! {
        section {
            h2 { "All models" }
            div.scroll { table {
                thead { tr { th { "Model" } th { "Run" } th { "Gain" } th { "Start-up" } th { "Best way" } } }
                tbody { @for (index, model) in data.models.iter().enumerate() {
                    @let best = model.study.chosen();
                    tr {
                        td { a href={ "#model-" (index) } { (model.title) } }
                        td { (run(best)) }
                        td { (gain(&model.study, best)) }
                        td { (time(best.start_ms())) }
                        td { (best.name) }
                    }
                } }
            } }
            p.quiet { "Gain: how many times as fast as the CPU with its default number of threads." }
        }
    }
}

fn run(way: &Measured) -> String {
    way.run_ms.map_or("–".to_owned(), time)
}

fn gain(study: &Study, way: &Measured) -> String {
    study.gain(way).map_or("–".to_owned(), |gain| format!("{gain:.2}×"))
}

fn section(index: usize, model: &ModelData) -> Markup {
    let study = &model.study;
    let best = study.chosen();
    html! {
        section id={ "model-" (index) } {
            h2 { (model.title) }
            p.quiet { (study.kind) " · " (megabytes(model.bytes as u64)) " · " (count(model.operators, "operator", "operators")) }
            p.quiet { @for text in &model.inputs { "in " (text) " " } @for text in &model.outputs { "out " (text) " " } }
            div.advice { (capital(&model.headline)) "." }
            div.tiles {
                div."tile best" { b { (run(best)) } span { "a run, " (best.name) } }
                div.tile { b { (gain(study, best)) } span { "the speed of the default" } }
                div.tile { b { (time(best.start_ms())) } span { "from nothing to the first result" } }
                div.tile { b { (megabytes(best.arena_bytes + best.weights_bytes)) } span { "tensors, and weights on the GPU" } }
            }
            h3 { "Latency" }
            (charted(&latencies(study), "ms"))
            h3 { "Every way" }
            (ways(study))
            h3 { "Memory" }
            (charted(&memories(study), "MB"))
            p.quiet { span."key"."cpu" {} "tensors" span."key"."second" {} "weights on the GPU" }
            h3 { "Start-up" }
            (charted(&start_ups(study), "ms"))
            p.quiet {
                span."key"."second" {} "opening the device" span."key"."cpu" {} "preparing the model" span."key"."chosen" {} "first run"
            }
            @for profile in model.profiles.iter().filter(|profile| !profile.shares.is_empty()) {
                h3 { "Where the time goes: " (profile.way) }
                (charted(&shares(profile), "µs"))
                p.quiet { (profile.summary) }
            }
            (placement(model))
            h3 { "What to write" }
            @for (index, snippet) in model.snippets.iter().enumerate() {
                details open[index == 0] { summary { (snippet.language) } pre { (snippet.text) } }
            }
            @if !model.remarks.is_empty() {
                h3 { "Remarks" }
                ul { @for remark in &model.remarks { li { (remark) } } }
            }
        }
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

/// Returns the indices of the ways that were timed, the fastest first.
fn ranked(study: &Study) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..study.ways.len()).filter(|index| study.ways[*index].run_ms.is_some()).collect();
    let time = |index: usize| study.ways[index].run_ms.unwrap_or(f64::INFINITY);
    ranked.sort_by(|one, other| time(*one).total_cmp(&time(*other)));
    ranked
}

fn latencies(study: &Study) -> Vec<Bar> {
    let bar = |index: usize| {
        let way = &study.ways[index];
        let color = match (index == study.choice, &way.way.gpu) {
            (true, _) => CHOSEN,
            (_, Some(_)) => GPU,
            (_, None) => CPU,
        };
        let mark = if index == study.choice { "★ " } else { "" };
        Bar {
            label: format!("{mark}{}", way.name),
            parts: vec![(way.run_ms.unwrap_or(0.0), color)],
            spread: way.e2e_ms.map(|times| (times.p5, times.p95)),
            note: format!(
                "{} {}",
                run(way),
                if way.refused.is_some() { "refused".to_owned() } else { gain(study, way) }
            ),
            is_strong: index == study.choice,
        }
    };
    ranked(study).into_iter().map(bar).collect()
}

fn start_ups(study: &Study) -> Vec<Bar> {
    let bar = |index: usize| {
        let way = &study.ways[index];
        Bar {
            label: way.name.clone(),
            parts: vec![(way.device_ms, SECOND), (way.init_ms, CPU), (way.first_ms, CHOSEN)],
            spread: None,
            note: time(way.start_ms()),
            is_strong: index == study.choice,
        }
    };
    ranked(study).into_iter().map(bar).collect()
}

fn memories(study: &Study) -> Vec<Bar> {
    let bar = |index: usize| {
        let way = &study.ways[index];
        let part = |bytes: u64, color| (bytes as f64 / 1e6, color);
        Bar {
            label: way.name.clone(),
            parts: vec![part(way.arena_bytes, CPU), part(way.weights_bytes, SECOND)],
            spread: None,
            note: megabytes(way.arena_bytes + way.weights_bytes),
            is_strong: index == study.choice,
        }
    };
    ranked(study).into_iter().map(bar).collect()
}

fn shares(profile: &ProfileData) -> Vec<Bar> {
    let all: f64 = profile.shares.iter().map(|share| share.us).sum();
    let bar = |share: &super::data::Share| Bar {
        label: format!("{} × {}", share.count, share.operators.chars().take(36).collect::<String>()),
        parts: vec![(share.us, if share.place == Place::Gpu { GPU } else { CPU })],
        spread: None,
        note: format!("{} µs, {:.0} %", chart::number(share.us), 100.0 * share.us / all.max(f64::MIN_POSITIVE)),
        is_strong: false,
    };
    profile.shares.iter().take(MOST_SHARES).map(bar).collect()
}

fn ways(study: &Study) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "Way" } th { "Run" } th { "5 % – 95 %" } th { "Gain" } th { "Start-up" } th { "Memory" }
                th { "On GPU" } th { "Accuracy beside the CPU" }
            } }
            tbody { @for (index, way) in study.ways.iter().enumerate() {
                tr.chosen[index == study.choice] {
                    td { (way.name) }
                    td { (run(way)) }
                    td { @if let Some(times) = way.e2e_ms { (time(times.p5)) " – " (time(times.p95)) } }
                    td { (gain(study, way)) }
                    td { (time(way.start_ms())) }
                    td { (megabytes(way.arena_bytes + way.weights_bytes)) }
                    td { (way.nodes_delegated) " of " (way.nodes) }
                    td.wrap {
                        @if index == study.usual { "the reference" } @else { (way.accuracy_text()) }
                        @if let Some(reason) = &way.refused { " " span.bad { "not advised" } ": " (reason) }
                    }
                }
            } }
        } }
    }
}

fn placement(model: &ModelData) -> Markup {
    let number = |place: Place| model.placement.iter().filter(|placed| placed.place == place).count();
    let (gpu, cpu, folded) = (number(Place::Gpu), number(Place::Cpu), number(Place::Folded));
    let (drawn, of_weights) = graph::drawn(&model.placement);
    let reasons = model.placement.iter().enumerate().filter(|(_, placed)| !placed.note.is_empty());
    html! {
        h3 { "Placement: " (model.placed_way) }
        p.quiet {
            span."key"."gpu" {} (gpu) " on the GPU" span."key"."cpu" {} (cpu) " on the CPU"
            span."key"."folded" {} (folded) " computed in advance, removed or merged"
        }
        div.graph tabindex="0" { (PreEscaped(graph::graph(&drawn))) }
        @if of_weights > 0 {
            p.quiet { "Not drawn: " (count(of_weights, "operator that prepares", "operators that prepare")) " weights in advance." }
        }
        @if drawn.len() > graph::MOST { p.quiet { "The first " (graph::MOST) " of " (drawn.len()) " operators." } }
        details { summary { "Operators and reasons" }
            div.scroll { table { tbody {
                @for (index, placed) in reasons { tr { td { (index) " " (placed.operator) } td.wrap { (placed.note) } } }
            } } }
        }
    }
}

/// Returns the data of a page or of a file of JSON, as text.
pub(super) fn data_of(text: &str) -> Result<Data, Failure> {
    let wrong = |reason: String| {
        let remedy = "`attache report MODEL --out DIR` makes one";
        Failure::usage(format!("this is no report, as a page or as JSON: {reason}; {remedy}"))
    };
    let json = match text.trim_start().starts_with('{') {
        true => text,
        false => embedded(text).ok_or_else(|| wrong("there is no data in it".to_owned()))?,
    };
    let data: Data = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
    if data.format != super::data::FORMAT {
        return Err(wrong(format!("it has form {}, and this command reads {}", data.format, super::data::FORMAT)));
    }
    Ok(data)
}
