//! Draws a profile as an SVG picture: a bar for each dispatch, in order of execution, as long as the dispatch
//! takes. The dark part of a bar is the time that the device would need at its peak rates.

use std::fmt::Write;

use super::profile::{Dispatch, Profile};

const WIDTH: f64 = 1200.0;
/// Horizontal position at which the bars start, in pixels.
const LEFT: f64 = 420.0;
/// Length of the longest bar, in pixels.
const LONGEST: f64 = 560.0;
const ROW: f64 = 18.0;
/// Vertical position of the first bar, in pixels.
const TOP: f64 = 70.0;

/// Returns the SVG picture of one run of the model named `model`.
pub(super) fn svg(model: &str, profile: &Profile) -> String {
    let longest = profile.dispatches.iter().map(|dispatch| dispatch.us).fold(0.0, f64::max);
    let height = TOP + ROW * profile.dispatches.len() as f64 + 20.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">
<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>
<text x=\"20\" y=\"28\" font-size=\"18\">{}</text>
<text x=\"20\" y=\"50\" fill=\"#555\">{}; dark: what it would take at best</text>\n",
        escaped(model),
        escaped(&profile.summary())
    );
    for (index, dispatch) in profile.dispatches.iter().enumerate() {
        text += &bar(index, dispatch, longest);
    }
    text + "</svg>\n"
}

fn bar(index: usize, dispatch: &Dispatch, longest: f64) -> String {
    let y = TOP + ROW * index as f64;
    let width = if longest > 0.0 { LONGEST * dispatch.us / longest } else { 0.0 };
    let best = width * (dispatch.roofline_percent / 100.0).min(1.0);
    let (label, kernel) = (escaped(&dispatch.label()), escaped(&dispatch.kernel));
    let mut text = format!("<g><title>{index}: {label}, {kernel}</title>");
    let mut rectangle = |width: f64, fill: &str| {
        let _ = write!(
            text,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{}\" fill=\"{fill}\"/>",
            y + 2.0,
            ROW - 4.0
        );
    };
    rectangle(width, "#8ecae6");
    rectangle(best, "#1d6fa5");
    let baseline = y + ROW - 5.0;
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{baseline:.1}\" text-anchor=\"end\">{label}</text>\
         <text x=\"{:.1}\" y=\"{baseline:.1}\" fill=\"#555\">{:.1} µs, {:.1} % of the time, {:.0} % of the roofline, {kernel}</text></g>",
        LEFT - 8.0,
        LEFT + width + 6.0,
        dispatch.us,
        dispatch.time_percent,
        dispatch.roofline_percent,
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
    use super::super::profile::tests::profile;
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("a<b> & \"c\" 'd'\u{1b}\n"), "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;\u{fffd}\u{fffd}");
        assert_eq!(escaped("µs ✓"), "µs ✓");
    }

    #[test]
    fn every_dispatch_has_a_bar() {
        let text = svg("a & b", &profile());
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<g>").count(), 2);
        assert_eq!(text.matches("</g>").count(), 2);
        assert!(text.contains("a &amp; b") && text.contains("1 &lt;&amp;&quot;&gt;"), "{text}");
        assert!(text.contains("width=\"560.00\""), "the longest bar: {text}");
    }
}
