//! NON_MAX_SUPPRESSION_V4 and _V5: selects the boxes with the highest scores that do not overlap much with
//! boxes selected before.
//!
//! Boxes are given by two opposite corners, `[y1, x1, y2, x2]`. Candidates are the boxes with a score above
//! the score threshold, in a queue in descending order of score. A candidate taken from the queue is compared
//! with each box selected since it was last taken; `u` is their intersection over union. It is dropped where
//! `u` reaches the overlap threshold. V5 also multiplies its score by `exp(−u² / 2σ)` where σ is above 0. A
//! candidate whose score was reduced, but is still above the threshold, is put back into the queue; one whose
//! score was not reduced is selected. Of equal scores the lowest index comes first; TensorFlow Lite does not
//! define that order.
//!
//! Outputs: the selected boxes' indices and, for V5, their scores, both padded with zeros to the requested
//! number, and the number of selected boxes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{BinaryOp, Expression, Gather, Primitive, Suppression, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::overlap::overlap;
use crate::shared::support::{countable, only, refuse, single};
use crate::shared::suppression::suppress;
use crate::{Code, Definition, Facts, Input, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::NON_MAX_SUPPRESSION_V4),
        versions: 1..=1,
        inputs: INPUTS.split_at(5).0,
        parse: |_| Ok(Box::new(NonMaxSuppression { is_soft: false })),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::NON_MAX_SUPPRESSION_V5),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(NonMaxSuppression { is_soft: true })),
    },
];

/// The inputs of V5. V4 has all of them but the last, sigma.
const INPUTS: &[Input] = &[
    input("boxes").float(),
    input("scores").float(),
    input("max_output_size").of(&[DataType::Int32]),
    input("iou_threshold").float(),
    input("score_threshold").float(),
    input("soft_nms_sigma").float(),
];

#[derive(Debug)]
struct NonMaxSuppression {
    /// Whether this is V5, which reduces the scores of overlapping boxes and outputs the scores.
    is_soft: bool,
}

/// Returns the maximum number of boxes to select, from the elements of the third input.
fn most(values: &[i64]) -> Result<usize, OpError> {
    usize::try_from(single(values)?).map_err(|_| OpError::invalid(format!("at most {values:?} boxes to choose")))
}

/// A candidate box. The greatest candidate has the highest score and, of equal scores, the lowest index, so
/// that a max-heap returns it first.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    index: usize,
    score: f32,
    /// Number of boxes that were selected when the candidate was last taken from the queue.
    seen: usize,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// The limits on the selection, from the operator's inputs.
#[derive(Clone, Copy, Debug)]
struct Limits {
    most: usize,
    overlap: f32,
    score: f32,
    /// The σ by which V5 reduces scores; 0 if scores are not reduced.
    sigma: f32,
}

/// Selects boxes. Returns their indices and final scores in the order of selection.
fn choose(boxes: &[[f32; 4]], scores: &[f32], limits: Limits) -> Vec<(usize, f32)> {
    let candidates = scores.iter().enumerate().filter(|(_, score)| **score > limits.score);
    let candidates = candidates.map(|(index, score)| Candidate { index, score: *score, seen: 0 });
    let mut candidates: BinaryHeap<_> = candidates.collect();
    let mut chosen: Vec<(usize, f32)> = Vec::new();
    while chosen.len() < limits.most
        && let Some(mut candidate) = candidates.pop()
    {
        let before = candidate.score;
        let is_dropped = chosen[candidate.seen..].iter().rev().any(|(other, _)| {
            let overlap = overlap(&boxes[candidate.index], &boxes[*other]);
            if overlap >= limits.overlap {
                return true;
            }
            if limits.sigma > 0.0 {
                candidate.score *= (-overlap * overlap / (2.0 * limits.sigma)).exp();
            }
            candidate.score <= limits.score
        });
        candidate.seen = chosen.len();
        if is_dropped {
            continue;
        }
        match candidate.score == before {
            true => chosen.push((candidate.index, candidate.score)),
            false => candidates.push(candidate),
        }
    }
    chosen
}

impl Operator for NonMaxSuppression {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        for index in 2..inputs.count() {
            if let Some(shape) = inputs.fact(index).shape.as_ref().filter(|shape| shape.rank() != 0) {
                return Err(OpError::invalid(format!("input {index} of shape {shape} is not a scalar")));
            }
        }
        if let (Some(boxes), Some(scores)) = (&inputs.fact(0).shape, &inputs.fact(1).shape) {
            check(boxes, scores)?;
        }
        let most = inputs.integers(2)?.map(|values| most(&values)).transpose()?;
        let shape = most.map(|most| countable([most].into())).transpose()?;
        let list = |data_type| Inferred { data_type, shape: shape.clone() };
        let mut outputs = vec![list(DataType::Int32)];
        outputs.extend(self.is_soft.then(|| list(DataType::Float32)));
        outputs.push(Inferred::new(DataType::Int32, []));
        Ok(outputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (boxes, scores) = (eval.input(0)?, eval.input(1)?);
        check(boxes.shape, scores.shape)?;
        let (boxes, _) = boxes.values::<f32>()?.as_chunks::<4>();
        let sigma = if self.is_soft { only(eval.input(5)?)? } else { 0.0 };
        let most = most(&eval.input(2)?.integers()?)?;
        let limits = Limits { most, overlap: only(eval.input(3)?)?, score: only(eval.input(4)?)?, sigma };
        if sigma < 0.0 {
            return Err(OpError::invalid(format!("sigma is {sigma}")));
        }
        let chosen = choose(boxes, scores.values()?, limits);
        let [indices, scores @ .., count] = &mut eval.outputs[..] else {
            return Err(OpError::invalid("it has two or three outputs"));
        };
        let padded = chosen.iter().copied().chain(std::iter::repeat((0, 0.0)));
        let indices = indices.values::<i32>()?.iter_mut().zip(padded.clone());
        indices.for_each(|(index, (chosen, _))| *index = chosen as i32);
        if let [scores] = scores {
            scores.values::<f32>()?.iter_mut().zip(padded).for_each(|(score, (_, chosen))| *score = chosen);
        }
        count.values::<i32>()?.fill(chosen.len() as i32);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (boxes, scores) = (lowering.input_shape(0)?, lowering.input_shape(1)?);
        check(boxes, scores).map_err(refuse)?;
        let count = scores.elements();
        let most = lowering.output_shape(0)?.elements();
        let (overlap, score) = (limit(lowering, 3, "IoU threshold")?, limit(lowering, 4, "score threshold")?);
        if self.is_soft && limit(lowering, 5, "sigma")? != 0.0 {
            return Err(Unsupported::new("scores that overlapping boxes reduce have no GPU form"));
        }
        let limits = Suppression { most, overlap, score, keeps_limits: false, unused: 0 };
        let (boxes, scores) = (lowering.input(0)?, lowering.input(1)?);
        let rows = lowering.reshape(scores, &[1, count].into())?;
        let [places, chosen] = suppress(lowering, boxes, rows, limits)?;
        let places = lowering.reshape(places, &[most].into())?;
        let chosen = lowering.reshape(chosen, &Shape::default())?;
        lowering.output(0, places)?;
        if self.is_soft {
            let values = chosen_scores(lowering, [scores, places, chosen], most)?;
            lowering.output(1, values)?;
        }
        lowering.output(if self.is_soft { 2 } else { 1 }, chosen)
    }
}

/// Returns the constant input `index`, a number.
fn limit(lowering: &mut Lowering<'_>, index: usize, name: &str) -> Result<f32, Unsupported> {
    let id = lowering.input(index)?;
    match lowering.constant_of(id).and_then(Constant::floats).as_deref() {
        Some(&[number]) => Ok(number),
        _ => Err(Unsupported::new(format!("its {name} is known only at run time"))),
    }
}

/// Checks that boxes have the shape `[count, 4]` and scores the shape `[count]`.
fn check(boxes: &Shape, scores: &Shape) -> Result<(), OpError> {
    match (boxes.extents(), scores.extents()) {
        (&[boxes, 4], &[scores]) if boxes == scores && i32::try_from(boxes).is_ok() => Ok(()),
        _ => Err(OpError::invalid(format!("boxes of shape {boxes} and scores of shape {scores}"))),
    }
}

/// Returns the scores of the first `chosen` of the `most` boxes at `places`, and zeros after them.
fn chosen_scores(
    lowering: &mut Lowering<'_>,
    [scores, places, chosen]: [ValueId; 3],
    most: usize,
) -> Result<ValueId, Unsupported> {
    let names = lowering.reshape(places, &[most, 1].into())?;
    let all = lowering.emit(Primitive::Gather(Gather { batch: 0, axis: 0 }), &[scores, names])?;
    let ranks: Vec<i32> = (0..).take(most).collect();
    let ranks = lowering.constant(Constant::from_values([most], &ranks))?;
    let is_chosen = Expression::Input(0).binary(BinaryOp::Less, Expression::Input(1));
    let value = is_chosen.select(Expression::Input(2), Expression::Constant(0.0));
    lowering.map(value, &[most].into(), &[ranks, chosen, all])
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOXES: [[f32; 4]; 4] =
        [[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0], [5.0, 5.0, 5.0, 5.0]];

    #[test]
    fn what_overlaps_is_dropped_or_fades() {
        let limits = Limits { most: 9, overlap: 0.6, score: 0.1, sigma: 0.0 };
        let scores = [0.8, 0.9, 0.7, 0.05];
        assert_eq!(choose(&BOXES, &scores, limits), [(1, 0.9), (2, 0.7)]);
        assert_eq!(choose(&BOXES, &scores, Limits { most: 1, ..limits }), [(1, 0.9)]);
        assert_eq!(choose(&BOXES, &[0.5, 0.5, f32::NAN, f32::NAN], limits), [(0, 0.5)]);
        let soft = choose(&BOXES, &scores, Limits { overlap: 2.0, sigma: 0.5, ..limits });
        assert_eq!(soft.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 2, 0]);
        assert!(soft[1].1 < 0.7 && soft[2].1 < 0.8 * 0.4);
    }
}
