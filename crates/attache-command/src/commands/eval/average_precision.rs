//! Average precision as TensorFlow Lite's evaluation of detectors computes it.
//!
//! In descending order of score, a detection takes the true box of its image and class that it overlaps most, of those
//! that are left. Precision is made to fall with recall and averaged over 101 recalls. A class with neither true nor
//! detected boxes does not count; one with detections alone has the precision 0.

use std::collections::BTreeMap;

/// Number of recalls above 0 at which precision is read.
const RECALLS: usize = 100;

/// A box of an image: a true one, or a detected one with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ImageBox {
    pub(crate) image: usize,
    pub(crate) class: i64,
    /// Top, bottom, left and right as fractions of the image.
    pub(crate) edges: [f32; 4],
    pub(crate) score: f32,
}

/// The average precisions of all classes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Precisions {
    /// Each threshold of intersection over union, with the mean over classes.
    pub(crate) thresholds: Vec<(f32, f64)>,
    /// The mean over all classes and thresholds.
    pub(crate) overall: f64,
}

/// Computes the average precisions for intersections over union from 0.50 to 0.95.
pub(crate) fn evaluate(truth: &[ImageBox], found: &[ImageBox]) -> Precisions {
    let mut classes: BTreeMap<i64, Class<'_>> = BTreeMap::new();
    for one in truth {
        classes.entry(one.class).or_default().truth.entry(one.image).or_default().push(one);
    }
    for one in found {
        classes.entry(one.class).or_default().found.push(one);
    }
    classes.values_mut().for_each(|class| class.found.sort_by(|one, other| other.score.total_cmp(&one.score)));
    let mut thresholds = Vec::new();
    for index in 0..10u8 {
        let threshold = f32::from(50 + 5 * index) / 100.0;
        let sum: f64 = classes.values().map(|class| class.precision(threshold)).sum();
        thresholds.push((threshold, sum / classes.len().max(1) as f64));
    }
    let overall = thresholds.iter().map(|(_, precision)| precision).sum::<f64>() / thresholds.len() as f64;
    Precisions { thresholds, overall }
}

/// The boxes of a class.
#[derive(Default)]
struct Class<'a> {
    /// The true boxes of each image.
    truth: BTreeMap<usize, Vec<&'a ImageBox>>,
    /// In descending order of score.
    found: Vec<&'a ImageBox>,
}

impl Class<'_> {
    /// Returns the average precision for this intersection over union.
    fn precision(&self, threshold: f32) -> f64 {
        let wanted: usize = self.truth.values().map(Vec::len).sum();
        if wanted == 0 {
            return 0.0;
        }
        let mut left = self.truth.clone();
        let mut right = 0;
        // For each detection, how many true boxes are found so far, and the precision.
        let mut curve: Vec<(usize, f64)> = Vec::new();
        for (index, one) in self.found.iter().enumerate() {
            let free = left.get_mut(&one.image);
            if let Some((free, (overlap, place))) = free.and_then(|free| best(one, free).map(|best| (free, best)))
                && overlap >= threshold
            {
                free.remove(place);
                right += 1;
            }
            curve.push((right, f64::from(right as u32) / (index + 1) as f64));
        }
        let at = |recall: usize| {
            let reached = curve.iter().filter(|(right, _)| right * RECALLS >= recall * wanted);
            reached.map(|(_, precision)| *precision).fold(0.0, f64::max)
        };
        (0..=RECALLS).map(at).sum::<f64>() / (RECALLS + 1) as f64
    }
}

/// Returns the overlap and the place of the box that overlaps this one most, the first of equal ones.
fn best(one: &ImageBox, free: &[&ImageBox]) -> Option<(f32, usize)> {
    let overlaps = free.iter().enumerate().map(|(place, other)| (overlap(one, other), place));
    overlaps.reduce(|best, next| if next.0 > best.0 { next } else { best })
}

/// Returns the intersection over union of two boxes.
fn overlap(one: &ImageBox, other: &ImageBox) -> f32 {
    let area = |[top, bottom, left, right]: [f32; 4]| (bottom - top).max(0.0) * (right - left).max(0.0);
    let [top, bottom, left, right] = one.edges;
    let [other_top, other_bottom, other_left, other_right] = other.edges;
    let both = area([top.max(other_top), bottom.min(other_bottom), left.max(other_left), right.min(other_right)]);
    let either = area(one.edges) + area(other.edges) - both;
    if either > 0.0 { both / either } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the same plainly: for each recall all ends of the list of detections are tried.
    fn plain(truth: &[ImageBox], found: &[ImageBox]) -> f64 {
        let mut sum = 0.0;
        let mut count = 0;
        for class in 0..10 {
            let own: Vec<ImageBox> = truth.iter().copied().filter(|one| one.class == class).collect();
            let mut boxes: Vec<ImageBox> = found.iter().copied().filter(|one| one.class == class).collect();
            if own.is_empty() && boxes.is_empty() {
                continue;
            }
            boxes.sort_by(|one, other| other.score.partial_cmp(&one.score).unwrap());
            for step in 0..10u8 {
                let threshold = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95][usize::from(step)];
                count += 1;
                let mut used = vec![false; own.len()];
                let mut marks = Vec::new();
                for one in &boxes {
                    let mut best = None;
                    for (place, other) in own.iter().enumerate() {
                        if used[place] || other.image != one.image {
                            continue;
                        }
                        let (a, b) = (one.edges, other.edges);
                        let height = a[1].min(b[1]) - a[0].max(b[0]);
                        let width = a[3].min(b[3]) - a[2].max(b[2]);
                        let both = if height > 0.0 && width > 0.0 { height * width } else { 0.0 };
                        let union = (a[1] - a[0]) * (a[3] - a[2]) + (b[1] - b[0]) * (b[3] - b[2]) - both;
                        let iou = both / union;
                        if best.is_none_or(|(most, _)| iou > most) {
                            best = Some((iou, place));
                        }
                    }
                    let hit = best.filter(|(iou, _)| *iou >= threshold);
                    if let Some((_, place)) = hit {
                        used[place] = true;
                    }
                    marks.push(hit.is_some());
                }
                if own.is_empty() {
                    continue;
                }
                for recall in 0..=100usize {
                    let mut most = 0.0f64;
                    for end in 1..=marks.len() {
                        let right = marks[..end].iter().filter(|mark| **mark).count();
                        if right * 100 >= recall * own.len() {
                            most = most.max(right as f64 / end as f64);
                        }
                    }
                    sum += most / 101.0;
                }
            }
        }
        sum / f64::from(count)
    }

    #[test]
    fn it_agrees_with_a_plain_computation() {
        // A small generator, so that boxes are the same everywhere.
        let mut state = 7u64;
        let mut random = |count: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % count
        };
        for round in 0..60 {
            let mut one = |score: f32| {
                let [top, left] = [random(40), random(40)].map(|number| number as f32 / 50.0);
                let [height, width] = [random(10) + 2, random(10) + 2].map(|number| number as f32 / 50.0);
                let edges = [top, top + height, left, left + width];
                ImageBox { image: random(3) as usize, class: random(4) as i64, edges, score }
            };
            let truth: Vec<ImageBox> = (0..round % 17).map(|_| one(1.0)).collect();
            let mut found: Vec<ImageBox> = truth
                .iter()
                .enumerate()
                .map(|(index, own)| {
                    let moved = own.edges.map(|edge| edge + 0.01 * (index % 5) as f32);
                    ImageBox { edges: moved, score: 0.9 - 0.01 * index as f32, ..*own }
                })
                .collect();
            found.extend((0..7).map(|index| one(0.85 - 0.02 * index as f32)));
            let (own, plain) = (evaluate(&truth, &found).overall, plain(&truth, &found));
            assert!((own - plain).abs() < 1e-12, "round {round}: {own} instead of {plain}");
        }
    }

    #[test]
    fn detections_of_a_class_without_true_boxes_count_as_0() {
        let one = |class: i64, score: f32| ImageBox { image: 0, class, edges: [0.0, 0.5, 0.0, 0.5], score };
        assert_eq!(evaluate(&[one(1, 1.0)], &[one(1, 0.5)]).overall, 1.0);
        assert_eq!(evaluate(&[one(1, 1.0)], &[one(1, 0.5), one(2, 0.4)]).overall, 0.5);
        assert_eq!(evaluate(&[one(1, 1.0)], &[one(1, 0.5), one(1, 0.9)]).overall, 1.0);
        assert_eq!(evaluate(&[], &[]).overall, 0.0);
        let thresholds = evaluate(&[], &[]).thresholds;
        assert_eq!((thresholds.len(), thresholds[0].0, thresholds[9].0), (10, 0.5, 0.95));
    }
}
