//! Draws bar charts as SVG, with plotters. Colours are a fixed palette that the page's style replaces in the dark.

use maud::html;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::console::Console;

pub(super) const INK: RGBColor = RGBColor(0x1c, 0x24, 0x30);
pub(super) const MUTED: RGBColor = RGBColor(0x5c, 0x66, 0x72);
const GRID: RGBColor = RGBColor(0xdf, 0xe3, 0xe8);
pub(super) const CPU: RGBColor = RGBColor(0x2a, 0x66, 0xb8);
pub(super) const GPU: RGBColor = RGBColor(0x1b, 0x7a, 0x54);
pub(super) const FOLDED: RGBColor = RGBColor(0x66, 0x70, 0x7d);
pub(super) const CHOSEN: RGBColor = RGBColor(0xb5, 0x57, 0x0c);
pub(super) const SECOND: RGBColor = RGBColor(0x7a, 0x58, 0xb5);

/// Widths of each chart, in pixels, of which the page shows the one that fits.
pub(super) const WIDTHS: [u32; 2] = [340, 860];
/// Below this width, labels stand above their bars.
const NARROW: u32 = 500;
/// The size of texts, which plotters divides by 1.24: about 12 pixels.
pub(super) const FONT: i32 = 15;
/// Widths of a character of a label, and of the labels of wide charts at most, in pixels.
const LABEL: (i32, i32) = (8, 400);
/// Height of the axis below the bars, in pixels.
const AXIS: i32 = 22;

/// A bar, made of parts that follow each other.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) parts: Vec<(f64, RGBColor)>,
    /// Where 5 % and 95 % of the values lie.
    pub(super) spread: Option<(f64, f64)>,
    /// The text behind the bar.
    pub(super) note: String,
    pub(super) is_strong: bool,
}

impl Bar {
    fn end(&self) -> f64 {
        self.parts.iter().map(|part| part.0).sum()
    }
}

/// Where bars and labels lie, in pixels.
struct Frame {
    left: i32,
    right: i32,
    row: i32,
    /// Distance of the bar from the top of its row.
    top: i32,
    bar: i32,
    most: f64,
}

impl Frame {
    fn new(bars: &[Bar], width: u32) -> Self {
        let most = bars.iter().map(|bar| bar.spread.map_or(0.0, |spread| spread.1).min(bar.end() * 2.0).max(bar.end()));
        let most = most.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let width = width as i32;
        match width < NARROW as i32 {
            true => Self { left: 4, right: width - 124, row: 42, top: 21, bar: 14, most },
            false => {
                let longest = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0) as i32;
                let left = (longest * LABEL.0 + 16).clamp(110, LABEL.1);
                Self { left, right: width - 150, row: 28, top: 6, bar: 16, most }
            }
        }
    }

    fn x(&self, value: f64) -> i32 {
        self.left + (value.min(self.most) / self.most * f64::from(self.right - self.left)).round() as i32
    }
}

/// Returns a chart of horizontal bars of this width; `unit` is written at the axis, and `title` is read to those who do not
/// see it.
pub(super) fn bars(bars: &[Bar], unit: &str, title: &str, width: u32) -> String {
    let frame = Frame::new(bars, width);
    let height = frame.row * bars.len() as i32 + AXIS;
    let mut text = String::new();
    // Drawing into a text cannot fail.
    let _ = draw(&SVGBackend::with_string(&mut text, (width, height as u32)).into_drawing_area(), bars, unit, &frame);
    titled(&text, title)
}

/// Returns a picture with a title for those who do not see it.
pub(super) fn titled(svg: &str, title: &str) -> String {
    let title = html! { (title) }.into_string();
    let opening = format!("<svg role=\"img\" aria-label=\"{title}\" ");
    let named = svg.replacen("<svg ", &opening, 1);
    named.replacen('>', &format!("><title>{title}</title>"), 1)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(area: &Area<'_>, bars: &[Bar], unit: &str, frame: &Frame) -> Drawn {
    let bottom = frame.row * bars.len() as i32;
    let small = |color: &RGBColor, h: HPos, v: VPos| ("sans-serif", FONT).into_font().color(color).pos(Pos::new(h, v));
    for tick in ticks(frame.most) {
        let x = frame.x(tick);
        area.draw(&PathElement::new(vec![(x, 0), (x, bottom)], GRID.stroke_width(1)))?;
        let text = format!("{} {unit}", number(tick));
        area.draw_text(&text, &small(&MUTED, HPos::Center, VPos::Top).into_text_style(area), (x.max(18), bottom + 5))?;
    }
    for (index, bar) in bars.iter().enumerate() {
        let top = frame.row * index as i32;
        let (upper, lower) = (top + frame.top, top + frame.top + frame.bar);
        let mut from = 0.0;
        for (value, color) in &bar.parts {
            let corners = [(frame.x(from), upper), (frame.x(from + value).max(frame.x(from) + 1), lower)];
            area.draw(&Rectangle::new(corners, color.filled()))?;
            from += value;
        }
        let mut end = frame.x(bar.end());
        if let Some((low, high)) = bar.spread {
            let middle = (upper + lower) / 2;
            area.draw(&PathElement::new(vec![(frame.x(low), middle), (frame.x(high), middle)], INK.stroke_width(1)))?;
            end = end.max(frame.x(high));
        }
        let color = if bar.is_strong { &INK } else { &MUTED };
        let note = small(color, HPos::Left, VPos::Center).into_text_style(area);
        area.draw_text(&bar.note, &note, (end + 6, (upper + lower) / 2))?;
        let label = |h, v| small(&INK, h, v).into_text_style(area);
        match frame.left > 100 {
            true => {
                area.draw_text(&bar.label, &label(HPos::Right, VPos::Center), (frame.left - 8, (upper + lower) / 2))?
            }
            // Names lose their middle where there is no room for them.
            false => area.draw_text(
                &Console::plain().name(&bar.label),
                &label(HPos::Left, VPos::Top),
                (frame.left, top + 4),
            )?,
        }
    }
    area.present()?;
    Ok(())
}

/// Returns round numbers from 0 to `most`, at most five.
fn ticks(most: f64) -> Vec<f64> {
    let rough = most / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    (0..=4u8).map(|index| f64::from(index) * step).filter(|tick| *tick <= most).collect()
}

/// Returns a number of an axis without needless digits.
pub(super) fn number(value: f64) -> String {
    let text = match value {
        value if value >= 100.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(1.0), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(ticks(7.0), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(ticks(0.03), [0.0, 0.01, 0.02, 0.03]);
        assert_eq!([0.0, 0.25, 12.0, 150.4].map(number), ["0", "0.25", "12", "150"]);
    }

    #[test]
    fn names_are_escaped() {
        let bar = Bar {
            label: "<b>&".to_owned(),
            parts: vec![(1.0, CPU), (0.0, GPU)],
            spread: Some((0.5, 9.0)),
            note: "\"x\"".to_owned(),
            is_strong: true,
        };
        for width in WIDTHS {
            let text = bars(std::slice::from_ref(&bar), "ms", "a \"<title>\"", width);
            assert!(
                text.starts_with("<svg role=\"img\" aria-label=\"a &quot;&lt;title&gt;&quot;\"")
                    && text.contains("&lt;b&gt;&amp;")
                    && !text.contains("<b>"),
                "{text}"
            );
            assert!(text.contains("#2A66B8") && text.contains("<title>a &quot;&lt;title&gt;&quot;</title>"), "{text}");
            // Texts are as large as those of the page's tables are on narrow screens.
            assert!(text.contains("font-size=\"12"), "{text}");
        }
        assert!(bars(&[], "ms", "none", 340).ends_with("</svg>\n"));
    }
}
