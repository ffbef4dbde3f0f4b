//! Recognizes outputs with key points of bodies and faces, and reads them.
//!
//! These networks are recognized by the shapes of their outputs: PoseNet (a heat map for each point, and
//! offsets from the cells of the map), MoveNet (points of one body, or of several with boxes), BlazeFace
//! (boxes and six points for each face, relative to anchors) and MediaPipe's face mesh.

use attache::DataType;
use serde::Serialize;

use super::maps::reals;
use super::{Output, OutputForm};
use crate::console::Console;

/// The minimum score of a point or a body without `--threshold`.
const DEFAULT_THRESHOLD: f64 = 0.3;
/// The minimum score of a face without `--threshold`.
const FACE_THRESHOLD: f64 = 0.5;
/// Boxes of faces that overlap by more than this share are of the same face.
const MOST_OVERLAP: f64 = 0.3;

/// The points of a body in COCO's order.
const BODY: [&str; 17] = [
    "nose",
    "left eye",
    "right eye",
    "left ear",
    "right ear",
    "left shoulder",
    "right shoulder",
    "left elbow",
    "right elbow",
    "left wrist",
    "right wrist",
    "left hip",
    "right hip",
    "left knee",
    "right knee",
    "left ankle",
    "right ankle",
];
/// The pairs of a body's points that lines connect.
const BONES: [[usize; 2]; 16] = [
    [0, 1],
    [0, 2],
    [1, 3],
    [2, 4],
    [5, 6],
    [5, 7],
    [7, 9],
    [6, 8],
    [8, 10],
    [5, 11],
    [6, 12],
    [11, 12],
    [11, 13],
    [13, 15],
    [12, 14],
    [14, 16],
];
/// The points of BlazeFace.
const FACE: [&str; 6] = ["right eye", "left eye", "nose", "mouth", "right ear", "left ear"];
/// Numbers of points of MediaPipe's face mesh, without and with irises.
const MESHES: [usize; 2] = [468, 478];

/// A point of a body or a face, as fractions of the picture's height and width.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    pub(super) name: Option<&'static str>,
    pub(super) y: f64,
    pub(super) x: f64,
    /// `None` if the network gives points no scores.
    pub(super) score: Option<f64>,
}

/// A body or a face.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) score: Option<f64>,
    /// Top, left, bottom and right edge of the box; `None` if the network gives none.
    #[serde(rename = "box")]
    pub(super) edges: Option<[f64; 4]>,
    /// The points with at least the score of the threshold.
    pub(super) points: Vec<Point>,
}

/// The outputs that contain key points, by their indices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KeyPointOutputs {
    /// PoseNet: `[1, rows, columns, points]` and `[1, rows, columns, 2 · points]`, first all y and then all
    /// x.
    HeatMaps { scores: usize, offsets: usize },
    /// MoveNet: `[1, 1, 17, 3]`, y, x and score of each point.
    Body(usize),
    /// MoveNet for several bodies: `[1, bodies, 56]`, 17 points and a box with a score.
    Bodies(usize),
    /// BlazeFace: `[1, anchors, 16]` and `[1, anchors, 1]`.
    Faces { boxes: usize, scores: usize },
    /// Face mesh: x, y and z of each point in pixels of the input, and the logit that there is a face at all.
    Mesh { points: usize, score: Option<usize> },
}

/// Finds the outputs with key points.
pub(super) fn find(forms: &[OutputForm]) -> Option<KeyPointOutputs> {
    let of = |fits: &dyn Fn(&[usize]) -> bool| {
        let fits = |form: &OutputForm| form.0 == DataType::Float32 && fits(form.1.extents());
        forms.iter().position(fits)
    };
    let heat_maps = || {
        let mut all = forms.iter().enumerate().filter_map(|(index, form)| match *form.1.extents() {
            [1, rows, columns, points] if rows > 1 && columns > 1 && points > 1 => Some((index, rows, columns, points)),
            _ => None,
        });
        all.find_map(|(scores, rows, columns, points)| {
            let offsets = of(&|shape| shape == [1, rows, columns, 2 * points])?;
            Some(KeyPointOutputs::HeatMaps { scores, offsets })
        })
    };
    let faces = || {
        let boxes = of(&|shape| matches!(shape, [1, anchors, 16] if anchors_of(*anchors).is_some()))?;
        let scores = of(&|shape| shape == [1, forms[boxes].1[1], 1])?;
        Some(KeyPointOutputs::Faces { boxes, scores })
    };
    let is_mesh = |shape: &[usize]| MESHES.iter().any(|points| shape.iter().product::<usize>() == 3 * points);
    of(&|shape| shape == [1, 1, 17, 3])
        .map(KeyPointOutputs::Body)
        .or_else(|| of(&|shape| matches!(shape, [1, _, 56])).map(KeyPointOutputs::Bodies))
        .or_else(faces)
        .or_else(heat_maps)
        .or_else(|| {
            let is_single = |shape: &[usize]| shape.iter().product::<usize>() == 1;
            of(&is_mesh).map(|points| KeyPointOutputs::Mesh { points, score: of(&is_single) })
        })
}

impl KeyPointOutputs {
    /// Reads the bodies or faces. `input` is the height and width of the input in pixels.
    pub(super) fn read(self, outputs: &[Output], input: [usize; 2], threshold: Option<f64>) -> Vec<Figure> {
        let values = |index: usize| reals(&outputs[index]);
        let least = threshold.unwrap_or(DEFAULT_THRESHOLD);
        let mut figures = match self {
            Self::HeatMaps { scores, offsets } => {
                let shape = outputs[scores].array.shape.extents();
                vec![pose(&values(scores), &values(offsets), [shape[1], shape[2], shape[3]], input)]
            }
            Self::Body(index) => vec![Figure { score: None, edges: None, points: triples(&values(index)) }],
            Self::Bodies(index) => values(index).chunks_exact(56).map(body).collect(),
            Self::Faces { boxes, scores } => {
                faces(&values(boxes), &values(scores), threshold.unwrap_or(FACE_THRESHOLD))
            }
            Self::Mesh { points, score } => {
                let score = score.and_then(|index| values(index).first().copied()).map(sigmoid);
                vec![Figure { score, ..mesh(&values(points), input) }]
            }
        };
        figures.retain(|figure| figure.score.is_none_or(|score| score >= least));
        for figure in &mut figures {
            let is_right = |point: &Point| point.y.is_finite() && point.x.is_finite();
            figure.points.retain(|point| is_right(point) && point.score.is_none_or(|score| score >= least));
        }
        figures
    }
}

impl Figure {
    /// Returns the pairs of points that lines connect.
    pub(super) fn bones(&self) -> impl Iterator<Item = [&Point; 2]> {
        let find = |index: usize| self.points.iter().find(|point| point.name == Some(BODY[index]));
        BONES.iter().filter(|_| self.is_body()).filter_map(move |[from, to]| Some([find(*from)?, find(*to)?]))
    }

    fn is_body(&self) -> bool {
        self.points.iter().any(|point| point.name.is_some_and(|name| BODY[5..].contains(&name)))
    }
}

/// Formats the points as a table; of figures with many points, only their number.
pub(super) fn text(console: &Console, figures: &[Figure]) -> String {
    const MOST: usize = 50;
    let all: usize = figures.iter().map(|figure| figure.points.len()).sum();
    if all == 0 {
        return "no key points are found; --threshold X shows those with lower scores".to_owned();
    }
    if all > MOST {
        return format!("{all} key points; --json lists them");
    }
    let number = |number: f64| format!("{number:.3}");
    let row = |(index, point): (usize, &Point)| {
        let name = point.name.map_or_else(|| "-".to_owned(), str::to_owned);
        let score = point.score.map_or_else(|| "-".to_owned(), number);
        vec![index.to_string(), name, score, number(point.y), number(point.x)]
    };
    let points = figures.iter().enumerate().flat_map(|(index, figure)| figure.points.iter().map(move |it| (index, it)));
    console.table(&["figure", "point", "score", "down", "right"], &points.map(row).collect::<Vec<_>>())
}

fn sigmoid(value: f64) -> f64 {
    1.0 / (1.0 + (-value).exp())
}

/// Reads PoseNet's outputs for one body: each point is in the cell with the highest score, moved by that
/// cell's offsets, which are in pixels of the input.
fn pose(heat: &[f64], offsets: &[f64], [rows, columns, points]: [usize; 3], [height, width]: [usize; 2]) -> Figure {
    let point = |index: usize| {
        let score = |cell: &usize| heat[cell * points + index];
        let cell = (0..rows * columns).max_by(|one, other| score(one).total_cmp(&score(other))).unwrap_or(0);
        let along = |cell: usize, cells: usize, pixels: usize, offset: f64| {
            let stride = pixels.saturating_sub(1) as f64 / (cells - 1) as f64;
            (cell as f64 * stride + offset + 0.5) / pixels as f64
        };
        let [down, right] = [index, points + index].map(|channel| offsets[cell * 2 * points + channel]);
        let name = BODY.get(index).copied().filter(|_| points == BODY.len());
        let (y, x) = (along(cell / columns, rows, height, down), along(cell % columns, columns, width, right));
        Point { name, y, x, score: Some(sigmoid(score(&cell))) }
    };
    Figure { score: None, edges: None, points: (0..points).map(point).collect() }
}

/// Reads MoveNet's points: y, x and score of each.
fn triples(values: &[f64]) -> Vec<Point> {
    let (triples, _) = values.as_chunks::<3>();
    let point = |(name, [y, x, score]): (&&'static str, &[f64; 3])| Point {
        name: Some(name),
        y: *y,
        x: *x,
        score: Some(*score),
    };
    BODY.iter().zip(triples).map(point).collect()
}

fn body(values: &[f64]) -> Figure {
    let edges = [values[51], values[52], values[53], values[54]];
    Figure { score: Some(values[55]), edges: Some(edges), points: triples(&values[..51]) }
}

fn mesh(values: &[f64], [height, width]: [usize; 2]) -> Figure {
    let (triples, _) = values.as_chunks::<3>();
    let point = |[x, y, _]: &[f64; 3]| Point { name: None, y: y / height as f64, x: x / width as f64, score: None };
    Figure { score: None, edges: None, points: triples.iter().map(point).collect() }
}

/// Returns the side of the input in pixels and, for each layer of anchors, the stride and the number of
/// anchors in a cell; `None` for a number of anchors that neither form of BlazeFace has.
fn anchors_of(count: usize) -> Option<(usize, &'static [[usize; 2]])> {
    match count {
        896 => Some((128, &[[8, 2], [16, 6]])),
        2304 => Some((192, &[[4, 1]])),
        _ => None,
    }
}

/// Reads BlazeFace's outputs: box and points of each anchor, in pixels of the input from the anchor's centre,
/// and the logit of its score. Of boxes that overlap, the one with the highest score is kept.
fn faces(boxes: &[f64], scores: &[f64], threshold: f64) -> Vec<Figure> {
    let Some((side, layers)) = anchors_of(scores.len()) else { return Vec::new() };
    let centres = layers.iter().flat_map(|&[stride, each]| {
        let cells = side / stride;
        let centre = move |cell: usize| (cell as f64 + 0.5) / cells as f64;
        (0..cells * cells * each).map(move |anchor| [centre(anchor / each / cells), centre(anchor / each % cells)])
    });
    let (rows, _) = boxes.as_chunks::<16>();
    let figure = |((row, score), [y, x]): ((&[f64; 16], &f64), [f64; 2])| {
        let score = sigmoid(*score);
        let [right, down, width, height] = [row[0], row[1], row[2], row[3]].map(|pixels| pixels / side as f64);
        let edges =
            [y + down - height / 2.0, x + right - width / 2.0, y + down + height / 2.0, x + right + width / 2.0];
        let point = |(index, name): (usize, &&'static str)| {
            let [right, down] = [row[4 + 2 * index], row[5 + 2 * index]].map(|pixels| pixels / side as f64);
            Point { name: Some(name), y: y + down, x: x + right, score: None }
        };
        let is_right = score >= threshold && edges.iter().all(|edge| edge.is_finite());
        let points = FACE.iter().enumerate().map(point);
        is_right.then(|| Figure { score: Some(score), edges: Some(edges), points: points.collect() })
    };
    let mut found: Vec<Figure> = rows.iter().zip(scores).zip(centres).filter_map(figure).collect();
    found.sort_by(|one, other| other.score.unwrap_or(0.0).total_cmp(&one.score.unwrap_or(0.0)));
    let mut kept: Vec<Figure> = Vec::new();
    for figure in found {
        let overlaps = |other: &Figure| overlap(other.edges, figure.edges) > MOST_OVERLAP;
        if !kept.iter().any(overlaps) {
            kept.push(figure);
        }
    }
    kept
}

/// Returns the intersection of two boxes divided by their union.
fn overlap(one: Option<[f64; 4]>, other: Option<[f64; 4]>) -> f64 {
    let (Some(one), Some(other)) = (one, other) else { return 0.0 };
    let area = |edges: [f64; 4]| (edges[2] - edges[0]).max(0.0) * (edges[3] - edges[1]).max(0.0);
    let both = [one[0].max(other[0]), one[1].max(other[1]), one[2].min(other[2]), one[3].min(other[3])];
    let union = area(one) + area(other) - area(both);
    if union > 0.0 { area(both) / union } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use attache::Shape;

    use super::super::meaning::tests::floats;
    use super::*;

    fn forms(shapes: &[&[usize]]) -> Vec<OutputForm> {
        shapes.iter().map(|shape| (DataType::Float32, Shape::from(*shape), "y".to_owned())).collect()
    }

    #[test]
    fn networks_are_known_by_their_shapes() {
        let pose = forms(&[&[1, 9, 9, 32], &[1, 9, 9, 34], &[1, 9, 9, 17], &[1, 9, 9, 1]]);
        assert_eq!(find(&pose), Some(KeyPointOutputs::HeatMaps { scores: 2, offsets: 1 }));
        assert_eq!(find(&forms(&[&[1, 1, 17, 3]])), Some(KeyPointOutputs::Body(0)));
        assert_eq!(find(&forms(&[&[1, 6, 56]])), Some(KeyPointOutputs::Bodies(0)));
        let faces = forms(&[&[1, 896, 1], &[1, 896, 16]]);
        assert_eq!(find(&faces), Some(KeyPointOutputs::Faces { boxes: 1, scores: 0 }));
        assert_eq!(
            find(&forms(&[&[1, 1, 1, 1404], &[1, 1, 1, 1]])),
            Some(KeyPointOutputs::Mesh { points: 0, score: Some(1) })
        );
        for other in [&[1, 9, 9, 21][..], &[1, 1001], &[1, 895, 16]] {
            assert_eq!(find(&forms(&[other])), None);
        }
    }

    #[test]
    fn heat_maps_and_offsets_make_points() {
        let mut heat = vec![-10.0; 3 * 3 * 2];
        heat[(3 + 2) * 2] = 10.0;
        let mut offsets = vec![0.0; 3 * 3 * 4];
        (offsets[(3 + 2) * 4], offsets[(3 + 2) * 4 + 2]) = (1.0, -2.0);
        let outputs = [floats(&[1, 3, 3, 2], &heat), floats(&[1, 3, 3, 4], &offsets)];
        let found = KeyPointOutputs::HeatMaps { scores: 0, offsets: 1 }.read(&outputs, [33, 33], None);
        // Cell (1, 2) of a grid with a step of 16 pixels, moved by 1 down and 2 to the left.
        let [Figure { points, .. }] = &found[..] else { panic!("{found:?}") };
        assert_eq!((points.len(), points[0].y, points[0].x), (1, 17.5 / 33.0, 30.5 / 33.0));
    }

    #[test]
    fn faces_are_found_once() {
        let (mut boxes, mut scores) = (vec![0.0; 896 * 16], vec![-20.0; 896]);
        for anchor in [0, 1, 895] {
            (boxes[anchor * 16 + 2], boxes[anchor * 16 + 3], scores[anchor]) = (12.8, 12.8, 3.0 + anchor as f32);
        }
        let outputs = [floats(&[1, 896, 16], &boxes), floats(&[1, 896, 1], &scores)];
        let found = KeyPointOutputs::Faces { boxes: 0, scores: 1 }.read(&outputs, [128, 128], None);
        assert_eq!(found.len(), 2);
        let near = |edges: [f64; 4], expected: [f64; 4]| edges.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near(found[0].edges.unwrap(), [0.8875, 0.8875, 0.9875, 0.9875]), "{:?}", found[0]);
        assert!(near(found[1].edges.unwrap(), [-0.01875, -0.01875, 0.08125, 0.08125]), "{:?}", found[1]);
    }

    #[test]
    fn bodies_have_bones_between_certain_points() {
        let mut values = [0.5, 0.5, 0.9].repeat(17);
        values[2] = 0.1;
        let found = KeyPointOutputs::Body(0).read(&[floats(&[1, 1, 17, 3], &values)], [192, 192], None);
        assert_eq!((found[0].points.len(), found[0].bones().count()), (16, 14));
        let mut values = [values, [0.0, 0.0, 1.0, 1.0, 0.2].to_vec()].concat();
        let read = |values: &[f32]| KeyPointOutputs::Bodies(0).read(&[floats(&[1, 1, 56], values)], [1, 1], None);
        assert!(read(&values).is_empty());
        values[55] = 0.8;
        assert_eq!(read(&values)[0].edges, Some([0.0, 0.0, 1.0, 1.0]));
    }
}
