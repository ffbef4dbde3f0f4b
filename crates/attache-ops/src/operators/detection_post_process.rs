//! TFLite_Detection_PostProcess: the custom operator at the end of single-shot detectors. It decodes boxes and selects
//! those with high scores by non-maximum suppression.
//!
//! Inputs: encodings `[1, count, 4 or more]`, scores `[1, count, classes]`, with or without a background class in
//! front, and anchors `[count, 4]`. Encodings and anchors begin with `y, x, height, width`. Along each axis an encoding
//! decodes to a box with the centre `e / scale × a_size + a` and the size `exp(e_size / scale) × a_size`.
//!
//! Outputs: boxes `[1, places, 4]` as `[y1, x1, y2, x2]`, classes and scores `[1, places]`, and the number of
//! detections `[1]`, all of them floats. There are `max_detections × max_classes_per_detection` places. Suppression
//! over boxes fills `max_classes_per_detection` places for each detection, suppression over classes fills one. Unused
//! places are uninitialized in TensorFlow Lite; here they are zeros.
//!
//! Options are in a FlexBuffer; missing numbers are 0, as in TensorFlow Lite.

mod device;
mod suppression;

use std::borrow::Cow;

use attache_base::{DataType, Quantization, Shape};
use attache_graph::{Eval, Inferred, Lowering, OpError, TensorRef, Unsupported};
use attache_model::{FlexMap, FlexScalar};

use crate::shared::support::{countable, product, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};
use suppression::{Detection, Rules, Scores, Values, decode, over_boxes, over_classes};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Custom("TFLite_Detection_PostProcess"),
    versions: 1..=1,
    inputs: &[input("encodings").of(&TYPES), input("scores").of(&TYPES), input("anchors").like(0)],
    parse,
}];

/// Default of the option `detections_per_class`.
const PER_CLASS: i64 = 100;

/// Element types of encodings, scores and anchors; UINT8 elements are dequantized.
const TYPES: [DataType; 2] = [DataType::Float32, DataType::UInt8];

#[derive(Debug)]
struct DetectionPostProcess {
    /// Divisors of the encodings' `y, x, height, width`.
    scales: [f32; 4],
    /// Whether suppression is done for each class separately, rather than once with the highest score of each
    /// box (option `use_regular_nms`).
    is_regular: bool,
    rules: Rules,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let bytes = declaration.operator.custom_options.as_deref().ok_or_else(|| declaration.no_options())?;
    let map = FlexMap::read(bytes).ok_or_else(|| OpError::invalid("its options are no map in a FlexBuffer"))?;
    let is_regular = map.get("use_regular_nms");
    let rules = Rules {
        most: at_least(0, "max_detections", &map, 0)?,
        most_classes: at_least(1, "max_classes_per_detection", &map, 0)?,
        most_per_class: at_least(1, "detections_per_class", &map, PER_CLASS)?,
        classes: at_least(1, "num_classes", &map, 0)?,
        score: real("nms_score_threshold", &map)?,
        overlap: real("nms_iou_threshold", &map)?,
    };
    if !(rules.overlap > 0.0 && rules.overlap <= 1.0) {
        return Err(OpError::invalid(format!("nms_iou_threshold is {}", rules.overlap)));
    }
    Ok(Box::new(DetectionPostProcess {
        scales: [real("y_scale", &map)?, real("x_scale", &map)?, real("h_scale", &map)?, real("w_scale", &map)?],
        is_regular: is_regular.is_some_and(|value| !matches!(value, FlexScalar::Bool(false) | FlexScalar::Int(0))),
        rules,
    }))
}

/// Reads the integer option `name`; `default` if it is missing. Fails where it is below `low` or exceeds
/// `i32::MAX`.
fn at_least(low: i64, name: &str, map: &FlexMap<'_>, default: i64) -> Result<usize, OpError> {
    let value = match map.get(name) {
        None => default,
        Some(FlexScalar::Int(value)) => value,
        Some(FlexScalar::Float(value)) => value as i64,
        Some(other) => return Err(OpError::invalid(format!("{name} is {other:?}"))),
    };
    let valid = (low..=i32::MAX.into()).contains(&value).then(|| usize::try_from(value).ok()).flatten();
    valid.ok_or_else(|| OpError::invalid(format!("{name} is {value}")))
}

/// Reads the float option `name`; 0 if it is missing.
fn real(name: &str, map: &FlexMap<'_>) -> Result<f32, OpError> {
    match map.get(name) {
        None => Ok(0.0),
        Some(FlexScalar::Int(value)) => Ok(value as f32),
        Some(FlexScalar::Float(value)) => Ok(value as f32),
        Some(other) => Err(OpError::invalid(format!("{name} is {other:?}"))),
    }
}

impl DetectionPostProcess {
    /// Checks the shapes of encodings, scores and anchors against each other and the options.
    fn check(&self, [encodings, scores, anchors]: [&Shape; 3]) -> Result<(), OpError> {
        let wrong = |what: &str, shape: &Shape| Err(OpError::invalid(format!("{what} of shape {shape}")));
        let count = match *encodings.extents() {
            [1, count, columns] if columns >= 4 => count,
            _ => return wrong("encodings", encodings),
        };
        match *scores.extents() {
            [1, rows, columns] if rows == count && self.is_width(columns) => {}
            _ => return wrong(&format!("{count} encodings, {} classes and scores", self.rules.classes), scores),
        }
        match *anchors.extents() {
            [rows, 4] if rows >= count => Ok(()),
            _ => wrong(&format!("{count} encodings and anchors"), anchors),
        }
    }

    /// Whether `columns` is a permitted number of scores of a box: one per class, plus one for an optional
    /// background class.
    fn is_width(&self, columns: usize) -> bool {
        columns.checked_sub(self.rules.classes).is_some_and(|background| background <= 1)
    }

    /// Returns the number of places for detections in the outputs.
    fn places(&self) -> Result<usize, OpError> {
        let places = self.rules.most.checked_mul(self.rules.most_classes);
        places.ok_or_else(|| OpError::invalid("it has too many places for detections"))
    }

    /// Selects detections. Returns each with its place in the outputs, and the number of detections, in which
    /// several classes of one box count once.
    fn detect(&self, boxes: &[[f32; 4]], scores: &Scores<'_>) -> (Vec<(usize, Detection)>, usize) {
        if self.is_regular {
            let chosen = over_classes(boxes, scores, &self.rules);
            let count = chosen.len();
            return (chosen.into_iter().enumerate().collect(), count);
        }
        let chosen = over_boxes(boxes, scores, &self.rules);
        let count = chosen.len();
        let places = |(rank, detections): (usize, Vec<Detection>)| {
            let first = rank * self.rules.most_classes;
            detections.into_iter().enumerate().map(move |(class, detection)| (first + class, detection))
        };
        (chosen.into_iter().enumerate().flat_map(places).collect(), count)
    }
}

impl Operator for DetectionPostProcess {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [encodings, scores, anchors] = inputs.required();
        for (index, input) in [encodings, scores, anchors].into_iter().enumerate() {
            if input.data_type == DataType::UInt8 {
                step(index, input.quantization.as_ref())?;
            }
        }
        if let (Some(encodings), Some(scores), Some(anchors)) = (&encodings.shape, &scores.shape, &anchors.shape) {
            self.check([encodings, scores, anchors])?;
        }
        let places = self.places()?;
        let shapes: [Shape; 4] = [[1, places, 4].into(), [1, places].into(), [1, places].into(), [1].into()];
        let inferred = |shape| Ok(Inferred::new(DataType::Float32, countable(shape)?));
        shapes.into_iter().map(inferred).collect()
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let count = *(*inputs.first()?)?.get(1)?;
        let Rules { most, most_per_class, classes, .. } = self.rules;
        let (runs, kept) = if self.is_regular { (classes, most_per_class) } else { (1, most) };
        Some(product(&[count, classes]).saturating_add(product(&[runs, count, kept.min(count)])))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let [encodings, scores, anchors] = [eval.input(0)?, eval.input(1)?, eval.input(2)?];
        self.check([encodings.shape, scores.shape, anchors.shape])?;
        let (columns, classes) = (encodings.shape[2], scores.shape[2]);
        let (mut kept, [encodings, anchors]) = (Vec::new(), [reals(0, encodings)?, reals(2, anchors)?]);
        let values = values(scores, &mut kept)?;
        let boxes = decode(&encodings, columns, &anchors, self.scales);
        if let Some(place) = boxes.iter().position(|[top, left, bottom, right]| top > bottom || left > right) {
            return Err(OpError::invalid(format!("box {place} ends before it begins: {:?}", boxes[place])));
        }
        let scores = Scores { values, columns: classes, background: classes - self.rules.classes };
        let (detections, count) = self.detect(&boxes, &scores);
        let [places, classes, scores, counts] = &mut eval.outputs[..] else {
            return Err(OpError::invalid("it has four outputs"));
        };
        let (places, _) = places.values::<f32>()?.as_chunks_mut::<4>();
        let (classes, scores) = (classes.values::<f32>()?, scores.values::<f32>()?);
        places.fill([0.0; 4]);
        classes.fill(0.0);
        scores.fill(0.0);
        for (place, detection) in detections {
            places[place] = boxes[detection.index];
            (classes[place], scores[place]) = (detection.class as f32, detection.score);
        }
        counts.values::<f32>()?.fill(count as f32);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shapes = [lowering.input_shape(0)?, lowering.input_shape(1)?, lowering.input_shape(2)?];
        self.check(shapes).map_err(refuse)?;
        let selected = match self.is_regular {
            true => device::over_classes(lowering, self.scales, &self.rules)?,
            false => device::over_boxes(lowering, self.scales, &self.rules)?,
        };
        device::write(lowering, selected)
    }
}

/// Returns the scale and zero point of input `index`; fails where it does not have exactly one of each.
fn step(index: usize, quantization: Option<&Quantization>) -> Result<(f32, f32), OpError> {
    match quantization.map(|quantization| (&quantization.scale[..], &quantization.zero_point[..])) {
        Some((&[scale], &[zero_point])) => Ok((scale, zero_point as f32)),
        _ => Err(OpError::invalid(format!("input {index} is not quantized with one scale"))),
    }
}

/// Returns the elements of input `index` as floats, dequantized where they are quantized.
fn reals(index: usize, tensor: TensorRef<'_>) -> Result<Cow<'_, [f32]>, OpError> {
    if tensor.data_type == DataType::Float32 {
        return Ok(Cow::Borrowed(tensor.values()?));
    }
    Ok(tensor.values::<u8>()?.iter().map(number(step(index, tensor.quantization)?)).collect())
}

/// Returns the elements of the scores; `kept` keeps what stored ones stand for.
#[cfg(not(attache_small))]
fn values<'a>(scores: TensorRef<'a>, kept: &'a mut Vec<f32>) -> Result<Values<'a>, OpError> {
    if scores.data_type == DataType::Float32 {
        return Ok(Values::Floats(scores.values()?));
    }
    let number = number(step(1, scores.quantization)?);
    kept.extend((0..=u8::MAX).map(|stored| number(&stored)));
    Ok(Values::Bytes(scores.values()?, kept))
}

/// Returns the elements of the scores as floats, which `kept` keeps.
#[cfg(attache_small)]
fn values<'a>(scores: TensorRef<'a>, kept: &'a mut Vec<f32>) -> Result<Values<'a>, OpError> {
    *kept = reals(1, scores)?.into_owned();
    Ok(Values::Floats(kept))
}

/// Returns the function from stored bytes to the numbers that they stand for.
fn number((scale, zero_point): (f32, f32)) -> impl Fn(&u8) -> f32 {
    move |stored| scale * (f32::from(*stored) - zero_point)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: [(&str, FlexScalar); 5] = [
        ("max_detections", FlexScalar::Int(3)),
        ("max_classes_per_detection", FlexScalar::Int(2)),
        ("num_classes", FlexScalar::Int(5)),
        ("nms_iou_threshold", FlexScalar::Float(0.5)),
        ("y_scale", FlexScalar::Int(10)),
    ];

    fn op() -> DetectionPostProcess {
        let rules = Rules { most: 3, most_classes: 2, most_per_class: 1, classes: 5, score: 0.0, overlap: 0.5 };
        DetectionPostProcess { scales: [1.0; 4], is_regular: false, rules }
    }

    #[test]
    fn options_are_numbers() {
        let bytes = FlexMap::write(&OPTIONS);
        let map = FlexMap::read(&bytes).unwrap();
        assert_eq!(at_least(0, "max_detections", &map, 0), Ok(3));
        assert_eq!(at_least(0, "detections_per_class", &map, PER_CLASS), Ok(100));
        assert!(at_least(4, "max_detections", &map, 0).is_err());
        assert!(at_least(1, "nothing", &map, 0).is_err());
        assert_eq!((real("y_scale", &map), real("x_scale", &map)), (Ok(10.0), Ok(0.0)));
    }

    #[test]
    fn shapes_fit() {
        let check = |encodings: [usize; 3], scores: [usize; 3], anchors: [usize; 2]| {
            op().check([&encodings.into(), &scores.into(), &anchors.into()]).is_ok()
        };
        assert!(check([1, 7, 4], [1, 7, 5], [7, 4]) && check([1, 7, 6], [1, 7, 6], [8, 4]));
        assert!(!check([1, 7, 3], [1, 7, 5], [7, 4]) && !check([2, 7, 4], [2, 7, 5], [7, 4]));
        assert!(!check([1, 7, 4], [1, 7, 4], [7, 4]) && !check([1, 7, 4], [1, 7, 7], [7, 4]));
        assert!(!check([1, 7, 4], [1, 6, 5], [7, 4]) && !check([1, 7, 4], [1, 7, 5], [6, 4]));
    }

    #[test]
    fn classes_of_a_box_share_its_place() {
        let values = Values::Floats(&[0.1, 0.9, 0.0, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.3]);
        let scores = Scores { values, columns: 5, background: 0 };
        let boxes = [[0.0, 0.0, 1.0, 1.0], [2.0, 0.0, 3.0, 1.0]];
        let (detections, count) = op().detect(&boxes, &scores);
        let found: Vec<_> = detections.iter().map(|(place, found)| (*place, found.index, found.class)).collect();
        assert_eq!(found[..3], [(0, 0, 1), (1, 0, 3), (2, 1, 4)]);
        assert_eq!(count, 2);
        let (detections, count) = DetectionPostProcess { is_regular: true, ..op() }.detect(&boxes, &scores);
        let found: Vec<_> = detections.iter().map(|(place, found)| (*place, found.index, found.class)).collect();
        assert_eq!((&found[..], count), (&[(0, 0, 1), (1, 1, 4), (2, 0, 3)][..], 3));
    }

    #[test]
    fn stored_numbers_need_a_scale() {
        let quantized = |scale: &[f32]| {
            let zero_point = vec![3; scale.len()];
            step(0, Some(&Quantization { scale: scale.to_vec(), zero_point, axis: 0 })).ok()
        };
        assert_eq!((quantized(&[0.5]), quantized(&[0.5, 0.5])), (Some((0.5, 3.0)), None));
        assert!(step(0, None).is_err());
    }
}
