//! Draws what the outputs of a run mean on the picture that was the input.

use super::detections::Detection;
use super::key_points::Figure;
use super::maps::{ClassMap, Mask};
use super::meaning::{Class, Meaning};
use crate::draw::{Canvas, PanelLine, color};
use crate::failure::Failure;
use crate::io::picture::Picture;

/// Opacity of the colours of classes and masks.
const OPACITY: f32 = 0.6;
/// Figures with more points get small ones without names.
const MANY_POINTS: usize = 50;

/// Returns the picture with everything drawn on it. `picture` is the input; `None` if no input is a picture.
pub(super) fn draw(meaning: &Meaning, picture: Option<&Picture<u8>>) -> Result<Canvas, Failure> {
    if let Meaning::Picture(picture) = meaning {
        return Ok(Canvas::of(picture));
    }
    let mut canvas = Canvas::new(picture.ok_or_else(no_picture)?);
    match meaning {
        Meaning::Nothing | Meaning::Picture(_) => {}
        Meaning::Classes(found) => canvas.panel(&classes(found)),
        Meaning::Detections(found) => detections(&mut canvas, found),
        Meaning::Segments(map) => segments(&mut canvas, map),
        Meaning::Mask(found) => mask(&mut canvas, found),
        Meaning::KeyPoints(found) => figures(&mut canvas, found),
    }
    Ok(canvas)
}

/// Returns the error that there is no picture to draw on.
pub(super) fn no_picture() -> Failure {
    Failure::usage("--draw draws on the picture that is the input, and no --input is one; give it a PNG or JPEG file")
}

fn classes(found: &[Class]) -> Vec<PanelLine> {
    let line = |class: &Class| (format!("{} {:.2}", named(&class.label, class.index), class.score), None);
    match found {
        [] => vec![("no class has such a score".to_owned(), None)],
        found => found.iter().map(line).collect(),
    }
}

/// Returns the label of a class, or its number.
fn named(label: &Option<String>, class: usize) -> String {
    label.clone().filter(|label| !label.is_empty()).unwrap_or_else(|| format!("class {class}"))
}

fn detections(canvas: &mut Canvas, found: &[Detection]) {
    if found.is_empty() {
        canvas.panel(&[("nothing is detected".to_owned(), None)]);
    }
    found.iter().for_each(|it| canvas.outline(it.edges, color(it.class)));
    for Detection { class, label, score, edges } in found {
        let text = format!("{} {:.0} %", named(label, *class), 100.0 * score);
        canvas.tag([edges[0], edges[1]], &text, color(*class));
    }
}

fn segments(canvas: &mut Canvas, map: &ClassMap) {
    canvas.lay(|at| {
        let class = map.at(at);
        (!map.is_background(class)).then(|| (color(class), OPACITY))
    });
    let shown = map.segments().into_iter().filter(|segment| !map.is_background(segment.class));
    let line = |segment: super::maps::Segment| {
        let text = format!("{} {:.1} %", named(&segment.label, segment.class), segment.percent);
        (text, Some(color(segment.class)))
    };
    let lines: Vec<PanelLine> = shown.map(line).collect();
    match lines.is_empty() {
        true => canvas.panel(&[("nothing but background".to_owned(), None)]),
        false => canvas.panel(&lines),
    }
}

fn mask(canvas: &mut Canvas, mask: &Mask) {
    canvas.lay(|at| Some((color(0), OPACITY * mask.at(at))));
}

fn figures(canvas: &mut Canvas, found: &[Figure]) {
    if found.iter().all(|figure| figure.points.is_empty()) {
        canvas.panel(&[("no key points".to_owned(), None)]);
    }
    for (index, figure) in found.iter().enumerate() {
        let is_small = figure.points.len() > MANY_POINTS;
        if let Some(edges) = figure.edges {
            canvas.outline(edges, color(index));
        }
        figure.bones().for_each(|[from, to]| canvas.line([from.y, from.x], [to.y, to.x], color(index)));
        figure.points.iter().for_each(|point| canvas.point([point.y, point.x], color(index + 1), is_small));
        if let (Some(edges), Some(score)) = (figure.edges, figure.score) {
            canvas.tag([edges[0], edges[1]], &format!("{:.0} %", 100.0 * score), color(index));
        }
    }
}
