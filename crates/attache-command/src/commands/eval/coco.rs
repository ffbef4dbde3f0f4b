//! The metrics of the COCO challenge for boxes, computed as the challenge's own tool computes them.
//!
//! For each category, image and intersection over union (IoU) from 0.50 to 0.95, detections take the true boxes in
//! descending order of score. Boxes of crowds, and those whose area is outside of the range that is asked for, are
//! ignored: they are not to be found, and what finds them counts neither for nor against. Precision is made to fall with
//! recall and averaged over 101 recalls.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// Number of IoU thresholds, from 0.50 to 0.95.
const THRESHOLDS: usize = 10;
/// Number of recalls at which precision is read, from 0 to 1.
const RECALLS: usize = 101;
/// Numbers of detections of a category and image that count, ascending.
const MOST: [usize; 3] = [1, 10, 100];
/// Ranges of areas in square pixels: all, small, medium and large.
const AREAS: [[f64; 2]; 4] = [[0.0, 1e10], [0.0, 1024.0], [1024.0, 9216.0], [9216.0, 1e10]];

/// A true box.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrueBox {
    /// The number of the annotation. A box with the number 0 is never found, as in the challenge's tool.
    pub(crate) id: i64,
    pub(crate) image: i64,
    pub(crate) category: i64,
    /// Left, top, width and height in pixels.
    pub(crate) edges: [f64; 4],
    pub(crate) area: f64,
    pub(crate) is_crowd: bool,
}

/// A detected box.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundBox {
    pub(crate) image: i64,
    pub(crate) category: i64,
    /// Left, top, width and height in pixels.
    pub(crate) edges: [f64; 4],
    pub(crate) score: f64,
}

/// The twelve metrics of the challenge; −1 where there is nothing to measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Metrics {
    /// Average precision over all IoUs.
    pub(crate) ap: f64,
    pub(crate) ap_50: f64,
    pub(crate) ap_75: f64,
    pub(crate) ap_small: f64,
    pub(crate) ap_medium: f64,
    pub(crate) ap_large: f64,
    /// Average recall with at most one detection of a category and image.
    pub(crate) ar_1: f64,
    pub(crate) ar_10: f64,
    pub(crate) ar_100: f64,
    pub(crate) ar_small: f64,
    pub(crate) ar_medium: f64,
    pub(crate) ar_large: f64,
    /// Average precision of each category over all IoUs.
    pub(crate) categories: BTreeMap<i64, f64>,
}

/// Returns the IoU threshold with this index.
fn threshold(index: usize) -> f64 {
    if index + 1 == THRESHOLDS { 0.95 } else { 0.5 + index as f64 * ((0.95 - 0.5) / (THRESHOLDS - 1) as f64) }
}

/// Computes the metrics of detections in these images, for these categories.
pub(crate) fn evaluate(
    images: &BTreeSet<i64>,
    categories: &BTreeSet<i64>,
    truth: &[TrueBox],
    found: &[FoundBox],
) -> Metrics {
    let mut cells: BTreeMap<(i64, i64), Cell<'_>> = BTreeMap::new();
    let is_asked = |image: i64, category: i64| images.contains(&image) && categories.contains(&category);
    for one in truth.iter().filter(|one| is_asked(one.image, one.category)) {
        cells.entry((one.category, one.image)).or_default().truth.push(one);
    }
    for one in found.iter().filter(|one| is_asked(one.image, one.category)) {
        cells.entry((one.category, one.image)).or_default().found.push(one);
    }
    cells.values_mut().for_each(Cell::prepare);
    let mut scores: Vec<(i64, [Score; 6])> = Vec::new();
    for category in categories {
        let own: Vec<&Cell<'_>> = cells.range((*category, i64::MIN)..=(*category, i64::MAX)).map(|it| it.1).collect();
        let of = |area: usize| -> Vec<Matches> { own.iter().map(|cell| cell.matches(AREAS[area])).collect() };
        let [all, small, medium, large] = [0, 1, 2, 3].map(of);
        let score = Score::of;
        scores.push((
            *category,
            [
                score(&all, MOST[2]),
                score(&small, MOST[2]),
                score(&medium, MOST[2]),
                score(&large, MOST[2]),
                score(&all, MOST[0]),
                score(&all, MOST[1]),
            ],
        ));
    }
    summary(&scores)
}

/// Averages the scores of all categories.
fn summary(scores: &[(i64, [Score; 6])]) -> Metrics {
    let precision = |kind: usize, thresholds: std::ops::Range<usize>| {
        let rows = scores.iter().filter_map(|(_, own)| own[kind].precision.as_ref());
        mean(rows.flat_map(|rows| rows[thresholds.clone()].iter().flatten().copied()))
    };
    let recall = |kind: usize| mean(scores.iter().filter_map(|(_, own)| own[kind].recall.as_ref()).flatten().copied());
    let category = |(category, own): &(i64, [Score; 6])| {
        (*category, mean(own[0].precision.iter().flat_map(|rows| rows.iter().flatten().copied())))
    };
    Metrics {
        ap: precision(0, 0..THRESHOLDS),
        ap_50: precision(0, 0..1),
        ap_75: precision(0, 5..6),
        ap_small: precision(1, 0..THRESHOLDS),
        ap_medium: precision(2, 0..THRESHOLDS),
        ap_large: precision(3, 0..THRESHOLDS),
        ar_1: recall(4),
        ar_10: recall(5),
        ar_100: recall(0),
        ar_small: recall(1),
        ar_medium: recall(2),
        ar_large: recall(3),
        categories: scores.iter().map(category).collect(),
    }
}

/// Returns the mean; −1 if there are no numbers.
fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = numbers.fold((0.0, 0usize), |(sum, count), number| (sum + number, count + 1));
    if count == 0 { -1.0 } else { sum / count as f64 }
}

/// The boxes of one category in one image.
#[derive(Default)]
struct Cell<'a> {
    truth: Vec<&'a TrueBox>,
    found: Vec<&'a FoundBox>,
    /// The IoU of each found box with each true box.
    overlaps: Vec<Vec<f64>>,
}

/// What the detections of a cell match, for each threshold: boxes are in descending order of score.
struct Matches {
    scores: Vec<f64>,
    /// Whether each detection found a box that counts, and whether it is ignored.
    hits: Vec<Vec<(bool, bool)>>,
    /// How many true boxes are to be found.
    wanted: usize,
}

/// Sorts by descending score, equal ones in their order, and those that are no numbers last.
fn descending(one: f64, other: f64) -> std::cmp::Ordering {
    other.partial_cmp(&one).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))
}

impl Cell<'_> {
    fn prepare(&mut self) {
        self.found.sort_by(|one, other| descending(one.score, other.score));
        self.found.truncate(MOST[2]);
        let overlap = |found: &&FoundBox| self.truth.iter().map(|truth| overlap(found, truth)).collect();
        self.overlaps = self.found.iter().map(overlap).collect();
    }

    /// Matches detections with true boxes, of which those with an area outside of this range are ignored.
    fn matches(&self, [least, most]: [f64; 2]) -> Matches {
        let is_outside = |area: f64| area < least || area > most;
        let is_ignored = |truth: &TrueBox| truth.is_crowd || is_outside(truth.area);
        // Boxes that count come first, so that a search can end at those that do not.
        let mut order: Vec<(usize, bool)> =
            self.truth.iter().enumerate().map(|(index, truth)| (index, is_ignored(truth))).collect();
        order.sort_by_key(|(_, ignored)| *ignored);
        let at = |index: usize| {
            let least = threshold(index).min(1.0 - 1e-10);
            let mut taken = vec![false; self.truth.len()];
            let hits = self.found.iter().zip(&self.overlaps).map(|(found, overlaps)| {
                match self.best(&order, overlaps, &taken, least) {
                    Some((place, ignored)) => {
                        taken[place] = true;
                        // The challenge's tool notes what is found by its number, and takes 0 for nothing.
                        let is_noted = self.truth[place].id != 0;
                        (is_noted, ignored || (!is_noted && is_outside(found.edges[2] * found.edges[3])))
                    }
                    None => (false, is_outside(found.edges[2] * found.edges[3])),
                }
            });
            hits.collect()
        };
        Matches {
            scores: self.found.iter().map(|found| found.score).collect(),
            hits: (0..THRESHOLDS).map(at).collect(),
            wanted: order.iter().filter(|(_, ignored)| !ignored).count(),
        }
    }

    /// Returns the true box that a detection overlaps most, of those that are left, and whether it is ignored.
    fn best(&self, order: &[(usize, bool)], overlaps: &[f64], taken: &[bool], least: f64) -> Option<(usize, bool)> {
        let mut best: Option<(usize, bool)> = None;
        let mut most = least;
        for &(place, ignored) in order {
            // A crowd may be found several times.
            if taken[place] && !self.truth[place].is_crowd {
                continue;
            }
            if ignored && best.is_some_and(|(_, ignored)| !ignored) {
                break;
            }
            if overlaps[place] >= most {
                most = overlaps[place];
                best = Some((place, ignored));
            }
        }
        best
    }
}

/// Returns the area that both boxes have, divided by that of either, or by the found box's where the true one is a
/// crowd.
fn overlap(found: &FoundBox, truth: &TrueBox) -> f64 {
    let ([left, top, width, height], [other_left, other_top, other_width, other_height]) = (found.edges, truth.edges);
    let across = (left + width).min(other_left + other_width) - left.max(other_left);
    let down = (top + height).min(other_top + other_height) - top.max(other_top);
    if across <= 0.0 || down <= 0.0 {
        return 0.0;
    }
    let (both, own) = (across * down, width * height);
    both / if truth.is_crowd { own } else { own + other_width * other_height - both }
}

/// The precisions and the recall of a category, for each threshold; `None` if there is nothing to find.
struct Score {
    precision: Option<Vec<Vec<f64>>>,
    recall: Option<Vec<f64>>,
}

impl Score {
    /// Scores the detections of a category in all images, of which the `most` best of each image count.
    fn of(cells: &[Matches], most: usize) -> Self {
        let wanted: usize = cells.iter().map(|cell| cell.wanted).sum();
        if wanted == 0 {
            return Self { precision: None, recall: None };
        }
        let places = |(index, cell): (usize, &Matches)| {
            let count = cell.scores.len().min(most);
            (0..count).map(|place| (index, place)).collect::<Vec<_>>()
        };
        let mut order: Vec<(usize, usize)> = cells.iter().enumerate().flat_map(places).collect();
        let score = |(cell, place): (usize, usize)| cells[cell].scores[place];
        order.sort_by(|one, other| descending(score(*one), score(*other)));
        let (mut precision, mut recall) = (Vec::new(), Vec::new());
        for threshold in 0..THRESHOLDS {
            let (mut right, mut wrong) = (0usize, 0usize);
            let curve = order.iter().map(|(cell, place)| {
                let (hit, ignored) = cells[*cell].hits[threshold][*place];
                right += usize::from(hit && !ignored);
                wrong += usize::from(!hit && !ignored);
                let found = right as f64;
                (found / wanted as f64, found / (found + wrong as f64 + f64::EPSILON))
            });
            let curve: Vec<(f64, f64)> = curve.collect();
            recall.push(curve.last().map_or(0.0, |last| last.0));
            precision.push(at_recalls(&curve));
        }
        Self { precision: Some(precision), recall: Some(recall) }
    }
}

/// Returns the highest precision of a curve from each recall on; 0 where the curve ends before.
fn at_recalls(curve: &[(f64, f64)]) -> Vec<f64> {
    let mut falling: Vec<f64> = curve.iter().map(|(_, precision)| *precision).collect();
    for index in (1..falling.len()).rev() {
        falling[index - 1] = falling[index - 1].max(falling[index]);
    }
    let step = 1.0 / (RECALLS - 1) as f64;
    let at = |index: usize| {
        let recall = if index + 1 == RECALLS { 1.0 } else { index as f64 * step };
        let place = curve.partition_point(|(own, _)| *own < recall);
        falling.get(place).copied().unwrap_or(0.0)
    };
    (0..RECALLS).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(id: i64, edges: [f64; 4], is_crowd: bool) -> TrueBox {
        TrueBox { id, image: 1, category: 1, edges, area: edges[2] * edges[3], is_crowd }
    }

    fn found(edges: [f64; 4], score: f64) -> FoundBox {
        FoundBox { image: 1, category: 1, edges, score }
    }

    fn metrics(truth: &[TrueBox], found: &[FoundBox]) -> Metrics {
        evaluate(&BTreeSet::from([1]), &BTreeSet::from([1]), truth, found)
    }

    #[test]
    fn perfect_detections_have_all_metrics_of_their_size() {
        let edges = [0.0, 0.0, 50.0, 50.0];
        let all = metrics(&[truth(1, edges, false)], &[found(edges, 0.9)]);
        assert!((all.ap - 1.0).abs() < 1e-12 && (all.ap_medium - 1.0).abs() < 1e-12, "{all:?}");
        assert_eq!((all.ar_1, all.ap_small, all.ar_large), (1.0, -1.0, -1.0));
    }

    #[test]
    fn half_found_is_half_precise_at_half_the_recalls() {
        let boxes = [[0.0, 0.0, 50.0, 50.0], [100.0, 0.0, 50.0, 50.0]];
        let all = metrics(
            &[truth(1, boxes[0], false), truth(2, boxes[1], false)],
            &[found([300.0, 0.0, 50.0, 50.0], 0.9), found(boxes[0], 0.8)],
        );
        // Recalls 0 to 0.50 are 51 of 101, with precision 1/2.
        assert!((all.ap - 51.0 / 101.0 / 2.0).abs() < 1e-12, "{all:?}");
        assert_eq!((all.ar_1, all.ar_10), (0.0, 0.5));
    }

    #[test]
    fn what_finds_a_crowd_counts_neither_way() {
        let crowd = [0.0, 0.0, 400.0, 400.0];
        let one = [500.0, 0.0, 50.0, 50.0];
        let truths = [truth(1, one, false), truth(2, crowd, true)];
        let inside = [found([10.0, 10.0, 50.0, 50.0], 0.9), found([90.0, 10.0, 50.0, 50.0], 0.8), found(one, 0.7)];
        assert!((metrics(&truths, &inside).ap - 1.0).abs() < 1e-12);
        assert!((metrics(&truths[..1], &inside).ap - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_measure_is_minus_one() {
        assert_eq!(metrics(&[], &[found([0.0, 0.0, 5.0, 5.0], 0.5)]).ap, -1.0);
        assert_eq!(metrics(&[truth(1, [0.0, 0.0, 5.0, 5.0], false)], &[]).ap, 0.0);
    }
}
