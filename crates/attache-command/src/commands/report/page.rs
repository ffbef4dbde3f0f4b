//! Writes a report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere. What it shows
//! lies in it as JSON too. The template escapes all texts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{self, Bar, CHOSEN, CPU, GPU, SECOND, WIDTHS, bars};
use super::data::{Data, FailureData, ModelData, Place, ProfileData, Share};
use super::graph;
use crate::commands::advise::study::{Measured, Study};
use crate::commands::advise::words::{megabytes, time};
use crate::console::{counted, is_hidden};

const STYLE: &str = include_str!("style.css");
/// Stands before the data in the page.
const OPENING: &str = "<script type=\"application/json\" id=\"attache-report\">";
const CLOSING: &str = "</script>";
/// Most operators that a profile's chart shows.
const MOST_SHARES: usize = 10;

/// Returns the page of a report.
pub(super) fn page(data: &Data, json: &str) -> String {
    let models = counted(data.models.len(), "model runs", "models run");
    let heading = format!("How {models} on {}", data.machine.cpu);
    let body = html! {
        header {
            h1 { (heading) }
            p.quiet {
                (data.made) " · Attaché " (data.version) " · " (data.machine.system) " · "
                (counted(data.machine.threads, "CPU thread", "CPU threads"))
                @for adapter in &data.machine.adapters { " · " (adapter) }
            }
        }
        main {
            @if !data.failures.is_empty() { (failures(&data.failures)) }
            @if data.models.len() > 1 { (overview(data)) }
            @for (index, model) in data.models.iter().enumerate() { (section(index, model)) }
        }
        footer {
            p.quiet {
                "Run: the time of a whole run, with inputs and outputs copied. Configurations are timed in short slices, in "
                "alternation; of the slices' medians it is the lowest decile. The thin line, and 5 % – 95 %, are of all runs. "
                "Start-up: opening the device, preparing the model and the first run; warm if the model was prepared once "
                "before that, cold if it was not. Opening is that of the adapter's first configuration. "
                "Accuracy: differences from the CPU with its default number of threads, on random inputs."
            }
            p.quiet {
                "The data of this page lies in it as JSON: " code { "attache report --compare A B" } " compares two pages."
            }
        }
    };
    whole(&format!("{heading} – {} – Attaché", data.made), &body, json)
}

/// Returns a page with this body and data.
pub(super) fn whole(title: &str, body: &Markup, json: &str) -> String {
    let data = format!("{OPENING}{}{CLOSING}", plain(json));
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

/// Returns JSON in which a page finds no tags and nothing that it would obey: these characters stand in strings alone, where
/// they may be written as numbers.
pub(super) fn plain(json: &str) -> String {
    let escaped = |character: char| match character {
        '<' => "\\u003c".to_owned(),
        _ if is_hidden(character) => {
            character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
        }
        _ => character.to_string(),
    };
    json.chars().map(escaped).collect()
}

/// Returns the data in a page; `None` if there is none.
pub(super) fn embedded(page: &str) -> Option<&str> {
    page.split_once(OPENING)?.1.split_once(CLOSING).map(|parts| parts.0)
}

/// Whether a file is a page or the data that a report writes, of whichever version.
pub(super) fn is_report(text: &str) -> bool {
    let has_format =
        |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value.get("format").is_some());
    embedded(text).is_some() || has_format(text)
}

fn failures(failures: &[FailureData]) -> Markup {
    html! {
        section {
            h2 { "Not measured" }
            ul { @for failure in failures { li { b { (failure.model) } ": " (failure.message) } } }
        }
    }
}

/// Returns a chart in both widths.
pub(super) fn charted(all: &[Bar], unit: &str, title: &str) -> Markup {
    let [narrow, wide] = WIDTHS.map(|width| PreEscaped(bars(all, unit, title, width)));
    html! { div.wide { (wide) } div.narrow { (narrow) } }
}

/// Returns the key of a colour of the style.
pub(super) fn key(color: &str, text: &str) -> Markup {
    html! { span class={ "key " (color) } { span {} (text) } " " }
}

fn overview(data: &Data) -> Markup {
    html! {
        section {
            h2 { "All models" }
            div.scroll tabindex="0" role="region" aria-label="All models" { table.cards {
                caption { "The best configuration of each. Speedup: over the CPU with its default number of threads." }
                thead { tr {
                    @for name in ["Model", "Best", "Run", "Speedup", "Start-up"] {
                        th.wrap[name == "Best"] scope="col" { (name) }
                    }
                } }
                tbody { @for (index, model) in data.models.iter().enumerate() {
                    @let best = model.study.chosen();
                    tr {
                        th scope="row" { a href={ "#model-" (index) } { (model.title) } }
                        td.wrap data-name="Best" { (best.name) }
                        td data-name="Run" { (run(best)) }
                        td data-name="Speedup" { (speedup(&model.study, best)) }
                        td data-name="Start-up" { (start(best)) }
                    }
                } }
            } }
        }
    }
}

fn run(measured: &Measured) -> String {
    measured.run_ms.map_or("–".to_owned(), time)
}

fn start(measured: &Measured) -> String {
    format!("{}, {}", time(measured.start_ms()), measured.start_state())
}

fn speedup(study: &Study, measured: &Measured) -> String {
    study.speedup(measured).map_or("–".to_owned(), |speedup| format!("{speedup:.2}×"))
}

fn section(index: usize, model: &ModelData) -> Markup {
    let study = &model.study;
    let best = study.chosen();
    html! {
        section id={ "model-" (index) } {
            h2 { (model.title) }
            p.quiet {
                (study.kind) " · " (megabytes(model.bytes as u64)) " · " (counted(model.operators, "operator", "operators"))
            }
            p.quiet { "Inputs: " (listed(&model.inputs)) ". Outputs: " (listed(&model.outputs)) "." }
            div.advice { (capital(&model.headline)) "." }
            div.tiles {
                div."tile best" { b { (run(best)) } span { "a run, " (best.name) } }
                div.tile { b { (speedup(study, best)) } span { "speedup over " (study.default_text()) } }
                div.tile { b { (time(best.start_ms())) } span { (best.start_state()) " start, to the first result" } }
                div.tile { b { (megabytes(best.arena_bytes + best.weights_bytes)) } span { "tensors, and weights on the GPU" } }
            }
            h3 { "Latency" }
            (charted(&latencies(study), "ms", &format!("Milliseconds a run of {}, by configuration", model.title)))
            p.quiet { (key("chosen", "advised (★)")) (key("cpu", "CPU")) (key("gpu", "GPU")) "The thin line is where 5 % to 95 % of the runs lie." }
            h3 { "All configurations" }
            (configurations(study))
            h3 { "Memory" }
            (charted(&memories(study), "MB", &format!("Megabytes of memory of {}, by configuration", model.title)))
            p.quiet { (key("cpu", "tensors")) (key("second", "weights on the GPU")) }
            h3 { "Start-up" }
            (charted(&start_ups(study), "ms", &format!("Milliseconds of start-up of {}, by configuration", model.title)))
            p.quiet { (key("second", "opening the device")) (key("cpu", "preparing the model")) (key("chosen", "first run")) }
            (profiles(model))
            (placement(model))
            h3 { "What to write" }
            @for (index, snippet) in model.snippets.iter().enumerate() {
                details open[index == 0] { summary { (snippet.language) } pre tabindex="0" { (snippet.text) } }
            }
            @if !model.remarks.is_empty() {
                h3 { "Remarks" }
                ul { @for remark in &model.remarks { li { (capital(remark)) "." } } }
            }
        }
    }
}

fn listed(texts: &[String]) -> String {
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

pub(super) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

/// Returns the indices of all configurations: those that were timed, the fastest first, then the others.
fn ranked(study: &Study) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..study.configurations.len()).collect();
    let time = |index: usize| study.configurations[index].run_ms.unwrap_or(f64::INFINITY);
    ranked.sort_by(|one, other| time(*one).total_cmp(&time(*other)));
    ranked
}

/// Returns a chart's bars of all configurations; `bar` makes one of a configuration, with the parts and the note.
fn bars_of(study: &Study, bar: impl Fn(&Measured) -> (Vec<(f64, plotters::style::RGBColor)>, String)) -> Vec<Bar> {
    let bar = |index: usize| {
        let measured = &study.configurations[index];
        let (parts, note) = bar(measured);
        Bar { label: measured.name.clone(), parts, spread: None, note, is_strong: index == study.choice }
    };
    ranked(study).into_iter().map(bar).collect()
}

fn latencies(study: &Study) -> Vec<Bar> {
    let bar = |index: usize| {
        let measured = &study.configurations[index];
        let color = match (index == study.choice, &measured.configuration.gpu) {
            (true, _) => CHOSEN,
            (_, Some(_)) => GPU,
            (_, None) => CPU,
        };
        let mark = if index == study.choice { "★ " } else { "" };
        let note = match (&measured.failed, &measured.refused) {
            (Some(_), _) => "failed".to_owned(),
            (None, Some(_)) => format!("{} refused", run(measured)),
            (None, None) => format!("{} {}", run(measured), speedup(study, measured)),
        };
        Bar {
            label: format!("{mark}{}", measured.name),
            parts: vec![(measured.run_ms.unwrap_or(0.0), color)],
            spread: measured.e2e_ms.map(|times| (times.p5, times.p95)),
            note,
            is_strong: index == study.choice,
        }
    };
    ranked(study).into_iter().map(bar).collect()
}

fn start_ups(study: &Study) -> Vec<Bar> {
    bars_of(study, |measured| {
        (vec![(measured.device_ms, SECOND), (measured.init_ms, CPU), (measured.first_ms, CHOSEN)], start(measured))
    })
}

fn memories(study: &Study) -> Vec<Bar> {
    bars_of(study, |measured| {
        let part = |bytes: u64, color| (bytes as f64 / 1e6, color);
        let parts = vec![part(measured.arena_bytes, CPU), part(measured.weights_bytes, SECOND)];
        (parts, megabytes(measured.arena_bytes + measured.weights_bytes))
    })
}

fn profiles(model: &ModelData) -> Markup {
    html! {
        @for profile in model.profiles.iter().filter(|profile| !profile.shares.is_empty()) {
            h3 { "Where the time goes: " (profile.name) }
            (charted(&shares(profile), "µs", &format!("Microseconds of operators of {}, {}", model.title, profile.name)))
            p.quiet { (key("cpu", "CPU")) (key("gpu", "GPU")) (profile.summary) }
        }
        @for missing in &model.unprofiled {
            p.quiet { "No profile of " (missing.name) ": " (missing.reason) "." }
        }
    }
}

fn shares(profile: &ProfileData) -> Vec<Bar> {
    let all: f64 = profile.shares.iter().map(|share| share.us).sum();
    let bar = |share: &Share| Bar {
        label: format!("{} × {}", share.count, share.operators.chars().take(36).collect::<String>()),
        parts: vec![(share.us, if share.place == Place::Gpu { GPU } else { CPU })],
        spread: None,
        note: format!("{} µs, {:.0} %", chart::number(share.us), 100.0 * share.us / all.max(f64::MIN_POSITIVE)),
        is_strong: false,
    };
    profile.shares.iter().take(MOST_SHARES).map(bar).collect()
}

fn configurations(study: &Study) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="All configurations" { table.cards {
            caption { "★ is advised. Speedup: over " (study.default_text()) "." }
            thead { tr {
                @for name in ["Configuration", "Run", "Speedup", "Accuracy", "5 % – 95 %", "Runs", "Start-up", "Memory", "Delegated operators"] {
                    th.wrap[name == "Accuracy"] scope="col" { (name) }
                }
            } }
            tbody { @for (index, measured) in study.configurations.iter().enumerate() {
                tr.chosen[index == study.choice] {
                    th scope="row" { (measured.name) }
                    td data-name="Run" { (run(measured)) }
                    td data-name="Speedup" { (speedup(study, measured)) }
                    td.wrap data-name="Accuracy" {
                        @match measured.objection() {
                            Some(objection) => { span.bad { "not advised" } ", " (objection) }
                            None if index == study.default => { "the reference" }
                            None => { (measured.accuracy_text()) }
                        }
                    }
                    td data-name="5 % – 95 %" { @if let Some(times) = measured.e2e_ms { (time(times.p5)) " – " (time(times.p95)) } }
                    td data-name="Runs" { @if let Some(times) = measured.e2e_ms { (times.count) } }
                    td data-name="Start-up" { (start(measured)) }
                    td data-name="Memory" { (megabytes(measured.arena_bytes + measured.weights_bytes)) }
                    td data-name="Delegated operators" { (measured.nodes_delegated) " of " (measured.nodes) }
                }
            } }
        } }
    }
}

fn placement(model: &ModelData) -> Markup {
    let number = |place: Place| model.placement.iter().filter(|placed| placed.place == place).count();
    let (gpu, cpu, folded) = (number(Place::Gpu), number(Place::Cpu), number(Place::Folded));
    let (drawn, of_weights) = graph::drawn(&model.placement);
    let title =
        format!("Graph of the operators of {}: {gpu} on the GPU, {cpu} on the CPU, {folded} folded", model.title);
    html! {
        h3 { "Placement: " (model.placed) }
        p.quiet {
            (key("gpu", &format!("{gpu} on the GPU"))) (key("cpu", &format!("{cpu} on the CPU")))
            (key("folded", &format!("{folded} folded: computed in advance, removed or merged")))
        }
        div.graph tabindex="0" role="region" aria-label="Placement" { (PreEscaped(graph::graph(&drawn, &title))) }
        @if of_weights > 0 {
            p.quiet { "Not drawn: " (counted(of_weights, "operator that prepares", "operators that prepare")) " weights in advance." }
        }
        @if drawn.len() > graph::MOST { p.quiet { "The first " (graph::MOST) " of " (drawn.len()) " operators." } }
        details { summary { "Operators and reasons" }
            div.scroll tabindex="0" role="region" aria-label="Operators and reasons" { table {
                caption { "All operators in the order of the file." }
                thead { tr { th scope="col" { "Operator" } th scope="col" { "Runs on" } th.wrap scope="col" { "Why" } } }
                tbody { @for (index, placed) in model.placement.iter().enumerate() {
                    tr { th scope="row" { (index) " " (placed.operator) } td { (placed.place.word()) } td.wrap { (placed.note) } }
                } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::Placed;
    use super::super::data::tests::data;
    use super::*;

    #[test]
    fn everything_that_was_prepared_is_shown() {
        let mut data = data(&[("m.tflite", "1", 5.0)]);
        let model = &mut data.models[0];
        let failed = &mut model.study.configurations[1];
        (failed.run_ms, failed.failed) = (None, Some("device lost".to_owned()));
        let placed = Placed {
            operator: "ADD".to_owned(),
            place: Place::Cpu,
            note: String::new(),
            is_constant: false,
            reads: Vec::new(),
        };
        model.placement.push(placed);
        let page = page(&data, "{}");
        assert!(page.contains("failed: device lost"), "the reason is told");
        for title in ["Milliseconds a run", "Megabytes of memory", "Milliseconds of start-up"] {
            let chart = page.split("<svg").find(|svg| svg.contains(title)).unwrap();
            assert!(chart.contains("CPU, 1 thread"), "{title}: {chart}");
        }
        // Without a GPU there are no reasons, but operators.
        let operators = page.split("Operators and reasons</summary>").nth(1).unwrap();
        assert!(operators.contains("0 ADD") && operators.contains("<td>CPU</td>"), "{operators}");
        assert!(page.contains("<title>How 1 model runs on c – 2026 – Attaché</title>"), "{page}");
    }

    #[test]
    fn data_obeys_nothing() {
        let text = "</script>\u{202e}\u{1}\u{feff}é";
        let json = serde_json::json!({ "text": text }).to_string();
        let plain = plain(&json);
        assert!(!plain.contains('<') && !plain.chars().any(is_hidden), "{plain}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&plain).unwrap()["text"], text);
        let page = whole("title", &html! {}, &json);
        assert_eq!(embedded(&page), Some(plain.as_str()));
    }

    #[test]
    fn pictures_and_tables_have_names() {
        let page = page(&data(&[("m.tflite", "1", 5.0), ("n.tflite", "2", 5.0)]), "{}");
        assert_eq!(page.matches("<svg").count(), page.matches("role=\"img\" aria-label=\"").count());
        assert_eq!(page.matches("<svg").count(), page.matches("</title>").count() - 1, "the page has one too");
        assert_eq!(page.matches("<table").count(), page.matches("<caption").count());
        assert_eq!(page.matches("<th").count() - page.matches("<thead").count(), page.matches(" scope=\"").count());
        assert_eq!(page.matches("class=\"scroll\"").count(), page.matches("class=\"scroll\" tabindex=\"0\"").count());
    }

    /// Returns the relative luminance of a colour, by the Web Content Accessibility Guidelines.
    fn luminance(color: &str) -> f64 {
        let part = |place: usize| {
            let digit = |at: usize| u32::from_str_radix(&color[at..=at], 16).unwrap();
            let value =
                if color.len() == 4 { digit(1 + place) * 17 } else { digit(1 + 2 * place) * 16 + digit(2 + 2 * place) };
            let value = f64::from(value) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2)
    }

    #[test]
    fn texts_stand_out() {
        let schemes: Vec<&str> = STYLE.lines().take(2).collect();
        for scheme in schemes {
            let color = |name: &str| {
                let text = scheme.split(&format!("--{name}:")).nth(1).unwrap();
                luminance(text.split([';', '}']).next().unwrap())
            };
            let contrast = |one: &str, other: &str| {
                let (one, other) = (color(one), color(other));
                (one.max(other) + 0.05) / (one.min(other) + 0.05)
            };
            for ink in ["ink", "muted", "cpu", "chosen"] {
                for ground in ["paper", "sheet"] {
                    assert!(contrast(ink, ground) >= 4.5, "{ink} on {ground}: {}", contrast(ink, ground));
                }
            }
            for box_color in ["cpu", "gpu", "folded"] {
                assert!(contrast("on", box_color) >= 4.5, "text on {box_color}: {}", contrast("on", box_color));
            }
        }
    }
}
