//! The form of TFLite_Detection_PostProcess for a device. Values are named as in `suppression.rs`, which has the CPU's form.

use attache_base::{Constant, Shape};
use attache_gpu_ir::{
    BinaryOp, Expression, Gather, Index, IndexMap, IntBinaryOp, IntExpression, Primitive, ReduceOp, Suppression,
    UnaryOp, ValueId,
};
use attache_graph::{Lowering, Unsupported};

use super::suppression::Rules;
use crate::shared::quantized::Channels;
use crate::shared::support::refuse;
use crate::shared::suppression::suppress;
use crate::shared::view::View;

/// The selected boxes in their order, and unspecified ones after them.
pub(super) struct Selected {
    /// The boxes among which these were selected, `[count, 4]`.
    boxes: ValueId,
    /// The index of each selected box, its class and its score, of as many elements each.
    indices: ValueId,
    classes: ValueId,
    scores: ValueId,
    /// The number of selected boxes, `[1]`.
    number: ValueId,
}

/// Emits the suppression of boxes by the highest score of each, with one class per detection.
pub(super) fn over_boxes(
    lowering: &mut Lowering<'_>,
    scales: [f32; 4],
    rules: &Rules,
) -> Result<Selected, Unsupported> {
    if rules.most_classes > 1 {
        return Err(Unsupported::new("several classes of one box have no GPU form"));
    }
    let (boxes, scores) = (decode(lowering, scales)?, class_scores(lowering, rules)?);
    let count = lowering.shape(scores)[0];
    let highest = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Maximum, axes: vec![1] }, &[scores])?;
    let row = lowering.reshape(highest, &[1, count].into())?;
    let [indices, number] = suppress(lowering, boxes, row, limits(rules, rules.most))?;
    let selected = gather(lowering, scores, indices)?;
    let classes = lowering.emit(Primitive::ArgReduce { largest: true, axis: 1, parts: 1 }, &[selected])?;
    let scores = gather(lowering, highest, indices)?;
    Ok(Selected { boxes, indices, classes, scores, number })
}

/// Emits the suppression of the boxes of each class, and the choice of the best detections over all classes.
pub(super) fn over_classes(
    lowering: &mut Lowering<'_>,
    scales: [f32; 4],
    rules: &Rules,
) -> Result<Selected, Unsupported> {
    let (boxes, scores) = (decode(lowering, scales)?, class_scores(lowering, rules)?);
    let &[count, classes] = &lowering.shape(scores)[..] else { return Err(Unsupported::new("scores of two axes")) };
    let transposed =
        IndexMap { output: vec![classes, count], coordinates: vec![Index::Axis(1), Index::Axis(0)], fill: None };
    let rows = lowering.emit(Primitive::IndexMap(transposed), &[scores])?;
    let per_class = rules.most_per_class.min(count);
    let [indices, numbers] = suppress(lowering, boxes, rows, limits(rules, per_class))?;

    // The detections of each class are in descending order, so that a stable choice of the largest scores is that of the
    // CPU, which takes one class after the other.
    let named = lowering.reshape(indices, &[classes, per_class, 1].into())?;
    let found = lowering.emit(Primitive::Gather(Gather { batch: 1, axis: 1 }), &[rows, named])?;
    let ranks: Vec<i32> = (0..).take(per_class).collect();
    let ranks = lowering.constant(Constant::from_values([1, per_class], &ranks))?;
    let numbers = lowering.reshape(numbers, &[classes, 1].into())?;
    let is_found = Expression::Input(0).binary(BinaryOp::Less, Expression::Input(1));
    let candidate = is_found.select(Expression::Input(2), Expression::Constant(f32::NEG_INFINITY));
    let candidates = lowering.map(candidate, &[classes, per_class].into(), &[ranks, numbers, found])?;
    let candidates = lowering.reshape(candidates, &[1, classes * per_class].into())?;
    let most = rules.most.min(classes * per_class);
    let [scores, places] = lowering.emit_all(Primitive::TopK { count: most }, &[candidates])?[..] else {
        return Err(Unsupported::new("the choice of the largest has two outputs"));
    };
    let class = IntExpression::Input(0).binary(IntBinaryOp::Divide, IntExpression::Constant(per_class as i32));
    let chosen = lowering.int_map(class, &[1, most].into(), &[places])?;
    let all = lowering.reshape(indices, &[classes * per_class, 1].into())?;
    let indices = gather(lowering, all, places)?;
    let sum = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![0] }, &[numbers])?;
    let number = IntExpression::Input(0).binary(IntBinaryOp::Minimum, IntExpression::Constant(most as i32));
    let number = lowering.int_map(number, &[1, 1].into(), &[sum])?;
    Ok(Selected { boxes, indices, classes: chosen, scores, number })
}

/// Declares the outputs: boxes, classes and scores with zeros after the selected ones, and the number of these.
pub(super) fn write(lowering: &mut Lowering<'_>, selected: Selected) -> Result<(), Unsupported> {
    let Selected { boxes, indices, classes, scores, number } = selected;
    let most = lowering.shape(indices).elements();
    let number = lowering.reshape(number, &[1, 1].into())?;
    let ranks: Vec<i32> = (0..).take(most).collect();
    let ranks = lowering.constant(Constant::from_values([most, 1], &ranks))?;
    let boxes = gather(lowering, boxes, indices)?;
    for (output, values, columns) in [(0, boxes, 4), (1, classes, 1), (2, scores, 1)] {
        let values = lowering.reshape(values, &[most, columns].into())?;
        let is_selected = Expression::Input(0).binary(BinaryOp::Less, Expression::Input(1));
        let value = is_selected.select(Expression::Input(2), Expression::Constant(0.0));
        let values = lowering.map(value, &[most, columns].into(), &[ranks, number, values])?;
        let shape = lowering.output_shape(output)?.clone();
        let places = shape.elements() / columns;
        // Several classes per detection make more places than there are detections.
        let padded = IndexMap {
            output: vec![places, columns],
            coordinates: vec![Index::Axis(0), Index::Axis(1)],
            fill: Some(0.0),
        };
        let values = if places > most { lowering.emit(Primitive::IndexMap(padded), &[values])? } else { values };
        let values = lowering.reshape(values, &shape)?;
        lowering.output(output, values)?;
    }
    let number = lowering.map(Expression::Input(0), &[1, 1].into(), &[number])?;
    let number = lowering.reshape(number, &[1].into())?;
    lowering.output(3, number)
}

/// Returns the limits of a suppression that selects at most `most` boxes.
fn limits(rules: &Rules, most: usize) -> Suppression {
    Suppression { most, overlap: rules.overlap, score: rules.score, keeps_limits: true, unused: 0 }
}

/// Emits the rows of `data`, `[count, columns]`, with these indices, of any shape: `[indices, columns]`.
fn gather(lowering: &mut Lowering<'_>, data: ValueId, indices: ValueId) -> Result<ValueId, Unsupported> {
    let number = lowering.shape(indices).elements();
    let named = lowering.reshape(indices, &[number, 1].into())?;
    lowering.emit(Primitive::Gather(Gather { batch: 0, axis: 0 }), &[data, named])
}

/// Emits the decoding of all boxes, `[count, 4]`: `centre ∓ ½ size` along both axes.
fn decode(lowering: &mut Lowering<'_>, scales: [f32; 4]) -> Result<ValueId, Unsupported> {
    use Expression::{Constant as Number, Input};
    let encodings = real(lowering, 0)?;
    let count = lowering.shape(encodings)[1];
    let anchors = anchors(lowering, count)?;
    let mut along = |column: usize| {
        let encoded = View::slices(lowering.shape(encodings), 2, column, 2).lower(lowering, encodings)?;
        let anchored: Vec<f32> = anchors.iter().flat_map(|anchor| [anchor[column], anchor[column + 1]]).collect();
        let scales = lowering.precise_constant(Constant::from_values([1, 1, 2], &scales[column..][..2]))?;
        let anchored = lowering.precise_constant(Constant::from_values([count, 1, 2], &anchored))?;
        Ok::<_, Unsupported>([lowering.reshape(encoded, &[count, 1, 2].into())?, scales, anchored])
    };
    let ([encoded, scales, centres], [encoded_sizes, size_scales, sizes]) = (along(0)?, along(2)?);
    let sides = lowering.precise_constant(Constant::from_values([1, 2, 1], &[-1.0f32, 1.0]))?;
    let centre = Input(0).divide(Input(1)).multiply(Input(5)).add(Input(2));
    let half = Number(0.5).multiply(Input(3).divide(Input(4)).unary(UnaryOp::Exponential)).multiply(Input(5));
    let inputs = [encoded, scales, centres, encoded_sizes, size_scales, sizes, sides];
    let corners = lowering.map(centre.add(half.multiply(Input(6))), &[count, 2, 2].into(), &inputs)?;
    lowering.reshape(corners, &[count, 4].into())
}

/// Returns the first `count` anchors, which must be constant and of positive sizes: the CPU fails where a box ends before
/// it begins.
fn anchors(lowering: &Lowering<'_>, count: usize) -> Result<Vec<[f32; 4]>, Unsupported> {
    let fact = lowering.stored_input(2)?;
    let constant = fact.constant.as_ref().ok_or_else(|| Unsupported::new("its anchors are known only at run time"))?;
    let real = match &fact.quantization {
        Some(quantization) if constant.integers().is_some() => quantization.dequantized(constant),
        _ => Some(constant.clone()),
    };
    let real =
        real.as_ref().and_then(Constant::floats).ok_or_else(|| Unsupported::new("its anchors are no numbers"))?;
    let anchors: Vec<[f32; 4]> = real.as_chunks::<4>().0.iter().take(count).copied().collect();
    match anchors.iter().all(|[_, _, height, width]| *height >= 0.0 && *width >= 0.0) {
        true => Ok(anchors),
        false => Err(Unsupported::new("it has anchors of negative size")),
    }
}

/// Emits the scores of all boxes without the background, `[count, classes]`.
fn class_scores(lowering: &mut Lowering<'_>, rules: &Rules) -> Result<ValueId, Unsupported> {
    let scores = real(lowering, 1)?;
    let shape: Shape = lowering.shape(scores).clone();
    let background = shape[2] - rules.classes;
    let scores = View::slices(&shape, 2, background, rules.classes).lower(lowering, scores)?;
    lowering.reshape(scores, &[shape[1], rules.classes].into())
}

/// Returns the value of input `index` as floats, dequantized where it is quantized.
fn real(lowering: &mut Lowering<'_>, index: usize) -> Result<ValueId, Unsupported> {
    let (fact, shape) = (lowering.input_fact(index)?, lowering.input_shape(index)?);
    let input = lowering.input(index)?;
    if fact.data_type == attache_base::DataType::Float32 {
        return Ok(input);
    }
    let affine = Channels::new(fact.data_type, fact.quantization.as_ref(), shape).map_err(refuse)?.only();
    let affine = affine.ok_or_else(|| Unsupported::new(format!("input {index} has several scales")))?;
    let difference = IntExpression::Input(0).plus(affine.zero_point.wrapping_neg());
    let difference = lowering.int_map(difference, shape, &[input])?;
    lowering.map(Expression::Input(0).multiply(Expression::Constant(affine.scale)), shape, &[difference])
}
