//! Recognizes the outputs of a detector and reads its detections: class, score and box of each object in a
//! picture.
//!
//! A detector is recognized by the four outputs of TensorFlow Lite's detectors, all from one operator, in
//! this order: boxes `[1, count, 4]` as top, left, bottom and right, as fractions of the picture's height and
//! width; classes and scores `[1, count]`; and the number of valid detections, `[1]`. All of them are floats.
//! A graph may return them in any order.

use attache::model::Subgraph;
use attache::{DataType, Shape};
use serde::Serialize;

/// The minimum score of a detection without `--threshold`.
pub(crate) const DEFAULT_THRESHOLD: f64 = 0.4;

/// An object that a detector found in a picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Detection {
    pub(crate) class: usize,
    pub(crate) label: Option<String>,
    pub(crate) score: f64,
    /// Top, left, bottom and right edge of the box, as fractions of the picture's height and width.
    #[serde(rename = "box")]
    pub(crate) edges: [f64; 4],
}

/// Returns the indices of the boxes, classes, scores and count among the outputs of a graph. `forms` are the
/// types and shapes of the outputs in a run. `None` if the graph is no detector.
pub(crate) fn outputs(graph: &Subgraph, forms: &[(DataType, Shape)]) -> Option<[usize; 4]> {
    let index = |tensor: &usize| graph.outputs.iter().position(|output| output == tensor);
    graph.operators.iter().rev().find_map(|operator| {
        let indices: Option<Vec<usize>> = operator.outputs.iter().map(index).collect();
        let indices: [usize; 4] = indices?.try_into().ok()?;
        let [boxes, classes, scores, count] = indices.map(|index| forms.get(index));
        is_detector([boxes?, classes?, scores?, count?]).then_some(indices)
    })
}

/// Returns the number of classes of a detector, including the background. It is the last extent of the input
/// `[1, count, classes]` that directly follows the input `[1, count, 4]` of the last operator that produces
/// an output of the graph. `None` if there are no such inputs.
pub(crate) fn classes(graph: &Subgraph) -> Option<usize> {
    let is_last = |operator: &&attache::model::Operator| operator.outputs.iter().any(|it| graph.outputs.contains(it));
    let operator = graph.operators.iter().rev().find(is_last)?;
    let shapes: Vec<&[usize]> =
        operator.inputs.iter().flatten().map(|index| graph.tensors[*index].shape.extents()).collect();
    shapes.windows(2).find_map(|pair| match (pair[0], pair[1]) {
        ([1, boxes, 4], [1, scores, classes]) if boxes == scores && *classes > 1 => Some(*classes),
        _ => None,
    })
}

fn is_detector(forms: [&(DataType, Shape); 4]) -> bool {
    let [boxes, classes, scores, count] = forms.map(|(_, shape)| shape.extents());
    let all_floats = forms.iter().all(|(data_type, _)| *data_type == DataType::Float32);
    let [1, most, 4] = *boxes else { return false };
    all_floats && classes == [1, most] && scores == [1, most] && count == [1]
}

/// Returns the detections with a score of at least `threshold`, in the outputs' order. `labels` are the names
/// of the classes from class 0 on. Detections with values that are not finite are skipped.
pub(crate) fn detections(
    [boxes, classes, scores, count]: [&[f64]; 4],
    labels: &[String],
    threshold: f64,
) -> Vec<Detection> {
    // A number of detections that is NaN counts as 0.
    let valid = count.first().map_or(0, |count| *count as usize);
    let (boxes, _) = boxes.as_chunks::<4>();
    let rows = boxes.iter().zip(classes).zip(scores).take(valid);
    let is_right = |edges: &[f64; 4], class: f64, score: f64| {
        edges.iter().all(|edge| edge.is_finite()) && class >= 0.0 && class.is_finite() && score >= threshold
    };
    let detection = |((edges, class), score): ((&[f64; 4], &f64), &f64)| {
        let (edges, score) = (*edges, *score);
        is_right(&edges, *class, score).then(|| {
            let class = *class as usize;
            Detection { class, label: labels.get(class).cloned(), score, edges }
        })
    };
    rows.filter_map(detection).collect()
}

#[cfg(test)]
mod tests {
    use attache::{Model, ModelBuilder, OperatorBuilder, TensorBuilder};

    use super::*;

    fn labels(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn places_below_the_threshold_or_not_filled_are_left_out() {
        let boxes = [0.0, 0.1, 0.5, 0.6, 0.2, 0.2, 0.9, 0.9, 0.0, 0.0, 1.0, 1.0, 0.3, 0.3, 0.4, 0.4];
        let (classes, scores) = ([1.0, 0.0, 1.0, 0.0], [0.9, 0.3, 0.8, 0.7]);
        let of = |labels: &[String], count: f64| detections([&boxes, &classes, &scores, &[count]], labels, 0.5);
        let found = of(&labels(&["cat", "dog"]), 3.0);
        let (names, first): (Vec<_>, _) = (found.iter().map(|one| one.label.as_deref()).collect(), &found[0]);
        assert_eq!((names, first.edges), (vec![Some("dog"), Some("dog")], [0.0, 0.1, 0.5, 0.6]));
        assert_eq!(of(&[], 4.0).len(), 3);
        assert_eq!(of(&[], f64::NAN), []);
        assert_eq!(of(&[], f64::INFINITY).len(), 3);
        let nan = [f64::NAN; 4];
        assert_eq!(detections([&boxes, &nan, &scores, &[4.0]], &[], 0.5), []);
        assert_eq!(detections([&boxes, &classes, &nan, &[4.0]], &[], 0.5), []);
    }

    #[test]
    fn outputs_are_known_in_any_order() {
        let mut builder = ModelBuilder::new("detector");
        let main = builder.subgraph("main");
        let tensor = |name| TensorBuilder::new(name, DataType::Float32, []);
        let x = builder.tensor(main, tensor("x"));
        let made = ["boxes", "classes", "scores", "count"].map(|name| builder.tensor(main, tensor(name)));
        builder.operator(main, OperatorBuilder::custom("Whatever", [], [x], made));
        builder.inputs(main, &[x]).outputs(main, &[made[2], made[0], made[3], made[1]]);
        let model = Model::from_bytes(builder.finish()).unwrap();
        let form = |extents: &[usize]| (DataType::Float32, Shape::from(extents));
        let mut forms = [form(&[1, 7]), form(&[1, 7, 4]), form(&[1]), form(&[1, 7])];
        assert_eq!(outputs(&model.subgraphs()[0], &forms), Some([1, 3, 0, 2]));
        forms[0] = form(&[1, 8]);
        assert_eq!(outputs(&model.subgraphs()[0], &forms), None);
        assert_eq!(outputs(&model.subgraphs()[0], &forms[..2]), None);
    }
}
