//! Draws a profile as an SVG picture: a bar for each dispatch and each operator on the CPU, in order of
//! execution, as long as it takes. The dark part of a dispatch's bar is the time that the device would need
//! at its peak rates.

use std::fmt::Write;

use super::operators::Step;
use super::profile::{Dispatch, Profiles};

const WIDTH: f64 = 1440.0;
/// Horizontal position at which the bars start, in pixels.
const LEFT: f64 = 420.0;
/// Length of the longest bar, in pixels.
const LONGEST: f64 = 560.0;
const ROW: f64 = 18.0;
/// Vertical position of the first bar, in pixels.
const TOP: f64 = 70.0;

/// A bar of the picture.
struct Bar {
    label: String,
    us: f64,
    /// The part of the bar that is dark, from 0 to 1.
    best: f64,
    /// The text after the bar.
    note: String,
}

impl From<&Dispatch> for Bar {
    fn from(dispatch: &Dispatch) -> Self {
        let Dispatch { kernel, us, time_percent, roofline_percent, .. } = dispatch;
        let note =
            format!("{us:.1} µs, {time_percent:.1} % of the time, {roofline_percent:.0} % of the roofline, {kernel}");
        Self { label: dispatch.label(), us: *us, best: (roofline_percent / 100.0).min(1.0), note }
    }
}

impl From<&Step> for Bar {
    fn from(step: &Step) -> Self {
        let note = format!("{:.1} µs, {:.1} % of the CPU's time", step.us, step.time_percent);
        Self { label: step.label(), us: step.us, best: 0.0, note }
    }
}

/// Returns the SVG picture of one run of the model named `model`.
pub(super) fn svg(model: &str, profiles: &Profiles) -> String {
    let dispatches = profiles.gpu.iter().flat_map(|profile| &profile.dispatches).map(Bar::from);
    let steps = profiles.cpu.iter().flat_map(|profile| &profile.operators).map(Bar::from);
    let bars: Vec<Bar> = dispatches.chain(steps).collect();
    let longest = bars.iter().map(|bar| bar.us).fold(0.0, f64::max);
    let height = TOP + ROW * bars.len() as f64 + 20.0;
    let dark = if profiles.gpu.is_some() { "; dark: what it would take at best" } else { "" };
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">
<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>
<text x=\"20\" y=\"28\" font-size=\"18\">{}</text>
<text x=\"20\" y=\"50\" fill=\"#555\">{}{dark}</text>\n",
        escaped(model),
        escaped(&profiles.summary())
    );
    for (index, bar) in bars.iter().enumerate() {
        text += &row(index, bar, longest);
    }
    text + "</svg>\n"
}

fn row(index: usize, bar: &Bar, longest: f64) -> String {
    let y = TOP + ROW * index as f64;
    let width = if longest > 0.0 { LONGEST * bar.us / longest } else { 0.0 };
    let (label, note) = (escaped(&bar.label), escaped(&bar.note));
    let mut text = format!("<g><title>{index}: {label}, {note}</title>");
    let mut rectangle = |width: f64, fill: &str| {
        let _ = write!(
            text,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{}\" fill=\"{fill}\"/>",
            y + 2.0,
            ROW - 4.0
        );
    };
    rectangle(width, "#8ecae6");
    rectangle(width * bar.best, "#1d6fa5");
    let baseline = y + ROW - 5.0;
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{baseline:.1}\" text-anchor=\"end\">{label}</text>\
         <text x=\"{:.1}\" y=\"{baseline:.1}\" fill=\"#555\">{note}</text></g>",
        LEFT - 8.0,
        LEFT + width + 6.0,
    );
    text
}

/// Escapes a text for XML and replaces characters that XML does not allow. Names come from files and may
/// contain anything.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&apos;",
            // Characters that XML does not allow.
            '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            control if control.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::profile::tests::profiles;
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("a<b> & \"c\" 'd'\u{1b}\n"), "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;\u{fffd}\u{fffd}");
        assert_eq!(escaped("µs ✓"), "µs ✓");
    }

    #[test]
    fn every_dispatch_has_a_bar() {
        let text = svg("a & b", &profiles());
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<g>").count(), 2 + 3);
        assert_eq!(text.matches("</g>").count(), 2 + 3);
        assert!(text.contains("a &amp; b") && text.contains("1 &lt;&amp;&quot;&gt;"), "{text}");
        assert!(text.contains("width=\"560.00\""), "the longest bar: {text}");
    }
}
