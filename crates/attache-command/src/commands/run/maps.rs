//! Recognizes outputs that have a value for each position of a picture, and reads them: classes of pixels
//! (semantic segmentation), masks of one class, and pictures.
//!
//! A map has the shape `[1, height, width, channels]`, with or without the first or the last extent. Integers
//! are classes; a channel for each class has scores; a single channel is a mask. Three channels that the
//! labels do not name are red, green and blue.

use std::collections::BTreeMap;

use attache::{DataType, Shape};
use serde::Serialize;

use super::{Output, OutputForm};
use crate::io::labels::Labels;
use crate::io::numbers::{dequantize, largest};
use crate::io::picture::Picture;

/// What a map contains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MapKind {
    /// Class numbers, or a score for each class.
    Classes,
    /// How much each position belongs to one class.
    Mask,
    /// Red, green and blue.
    Picture,
}

/// The class of each position of a picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClassMap {
    pub(super) height: usize,
    pub(super) width: usize,
    /// The classes, row by row.
    classes: Vec<usize>,
    names: Vec<String>,
}

/// A class of pixels and its share of the picture.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Segment {
    pub(super) class: usize,
    pub(super) label: Option<String>,
    /// Percentage of the pixels.
    pub(super) percent: f64,
}

/// The values of a mask, from 0 to 1, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mask {
    height: usize,
    width: usize,
    values: Vec<f32>,
}

/// Returns height, width and channels of a map; `None` if the shape is that of no map.
pub(super) fn plane(shape: &Shape) -> Option<[usize; 3]> {
    let plane = match *shape.extents() {
        [1, height, width, channels] => [height, width, channels],
        [1, height, width] => [height, width, 1],
        [height, width, channels] => [height, width, channels],
        _ => return None,
    };
    (plane[0] > 1 && plane[1] > 1 && plane[2] > 0).then_some(plane)
}

/// Finds the first output that is a map, what it contains and the names of the classes. If `named`, it has to
/// be of classes that the labels name.
pub(super) fn find(forms: &[OutputForm], labels: &Labels, named: bool) -> Option<(usize, MapKind, Vec<String>)> {
    forms.iter().enumerate().find_map(|(index, (data_type, shape, _))| {
        let [.., channels] = plane(shape)?;
        let is_class_number = channels == 1 && matches!(data_type, DataType::Int32 | DataType::Int64);
        let names = if is_class_number { labels.all() } else { labels.of(channels).unwrap_or_default() };
        let kind = match channels {
            1 if is_class_number => MapKind::Classes,
            1 => MapKind::Mask,
            3 if names.is_empty() => MapKind::Picture,
            _ => MapKind::Classes,
        };
        let fits = !named || (kind == MapKind::Classes && !names.is_empty());
        fits.then(|| (index, kind, names.to_vec()))
    })
}

/// Returns the dequantized elements of an output.
pub(super) fn reals(output: &Output) -> Vec<f64> {
    let mut values = output.values.clone();
    dequantize(&mut values, output.info.quantization.as_ref());
    values
}

impl ClassMap {
    /// Reads the classes of an output, which is a map.
    pub(super) fn of(output: &Output, names: Vec<String>) -> Option<Self> {
        let [height, width, channels] = plane(&output.array.shape)?;
        let best = |scores: &[f64]| match scores {
            [class] => *class as usize,
            scores => largest(scores, 1)[0],
        };
        let classes: Vec<usize> = output.values.chunks_exact(channels).map(best).collect();
        (classes.len() == height * width).then_some(Self { height, width, classes, names })
    }

    /// Returns the class at a position, given as fractions of height and width.
    pub(super) fn at(&self, position: [f64; 2]) -> usize {
        self.classes[nearest(position, [self.height, self.width])]
    }

    /// Whether a class is what surrounds the objects: class 0, unless the labels name it otherwise.
    pub(super) fn is_background(&self, class: usize) -> bool {
        let named = self.names.first().is_none_or(|name| name.eq_ignore_ascii_case("background") || name == "???");
        class == 0 && named
    }

    /// Returns the classes that occur, those with the largest share first.
    pub(super) fn segments(&self) -> Vec<Segment> {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        self.classes.iter().for_each(|class| *counts.entry(*class).or_default() += 1);
        let all = self.classes.len().max(1) as f64;
        let segment = |(class, count): (usize, usize)| {
            let percent = 100.0 * count as f64 / all;
            Segment { class, label: self.names.get(class).cloned(), percent }
        };
        let mut segments: Vec<Segment> = counts.into_iter().map(segment).collect();
        segments.sort_by(|one, other| other.percent.total_cmp(&one.percent));
        segments
    }
}

impl Mask {
    /// Reads an output with one channel. Values beyond 0 to 1 are scaled to it, from the least to the
    /// largest.
    pub(super) fn of(output: &Output) -> Option<Self> {
        let [height, width, 1] = plane(&output.array.shape)? else { return None };
        let values = reals(output);
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let (least, most) = (finite().fold(0.0, f64::min), finite().fold(0.0, f64::max));
        let scale = match (least, most) {
            (0.0, most) if most <= 1.0 => 1.0,
            _ => 1.0 / (most - least).max(f64::MIN_POSITIVE),
        };
        let scaled = |value: &f64| if value.is_finite() { ((value - least) * scale) as f32 } else { 0.0 };
        let values: Vec<f32> = values.iter().map(scaled).collect();
        (values.len() == height * width).then_some(Self { height, width, values })
    }

    /// Returns the value at a position, given as fractions of height and width.
    pub(super) fn at(&self, position: [f64; 2]) -> f32 {
        self.values[nearest(position, [self.height, self.width])]
    }

    /// Returns the mean value, in percent.
    pub(super) fn percent(&self) -> f64 {
        100.0 * self.values.iter().map(|value| f64::from(*value)).sum::<f64>() / self.values.len().max(1) as f64
    }
}

/// Returns the index of the element of a map that is nearest to a position.
fn nearest([y, x]: [f64; 2], [height, width]: [usize; 2]) -> usize {
    let index = |along: f64, count: usize| ((along * count as f64).max(0.0) as usize).min(count - 1);
    index(y, height) * width + index(x, width)
}

/// Reads an output with three channels as a picture. The range of its values is 0 to 255, or −1 to 1 or 0 to
/// 1 if it has no values beyond.
pub(super) fn picture(output: &Output) -> Option<Picture> {
    let [height, width, 3] = plane(&output.array.shape)? else { return None };
    let stored = match output.info.data_type {
        DataType::UInt8 => Some(0.0),
        DataType::Int8 => Some(128.0),
        _ => None,
    };
    let values = if stored.is_some() { output.values.clone() } else { reals(output) };
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (least, most) = (finite().fold(0.0, f64::min), finite().fold(0.0, f64::max));
    let (shift, scale) = match stored {
        Some(shift) => (shift, 1.0),
        None if most > 2.0 => (0.0, 1.0),
        None if least < -0.1 => (1.0, 127.5),
        None => (0.0, 255.0),
    };
    let value = |value: &f64| (((value + shift) * scale).clamp(0.0, 255.0)) as f32;
    let values: Vec<f32> = values.iter().map(value).collect();
    (values.len() == height * width * 3).then_some(Picture { height, width, values })
}

#[cfg(test)]
mod tests {
    use super::super::meaning::tests::floats;
    use super::*;

    fn forms(data_type: DataType, shapes: &[&[usize]]) -> Vec<OutputForm> {
        shapes.iter().map(|shape| (data_type, Shape::from(*shape), "y".to_owned())).collect()
    }

    #[test]
    fn channels_say_what_a_map_is() {
        let none = Labels::default();
        let kind = |data_type, shape: &[usize]| find(&forms(data_type, &[shape]), &none, false).map(|found| found.1);
        assert_eq!(kind(DataType::Float32, &[1, 9, 9, 21]), Some(MapKind::Classes));
        assert_eq!(kind(DataType::Float32, &[1, 9, 9, 3]), Some(MapKind::Picture));
        assert_eq!(kind(DataType::Float32, &[1, 9, 9, 1]), Some(MapKind::Mask));
        assert_eq!(kind(DataType::Int64, &[1, 9, 9]), Some(MapKind::Classes));
        assert_eq!(kind(DataType::Float32, &[1, 1001]), None);
        assert_eq!(kind(DataType::Float32, &[1, 1, 1, 1001]), None);
        let labels = Labels::of_names(&["a", "b", "c"]);
        let shapes = forms(DataType::Float32, &[&[1, 9, 9, 21], &[1, 9, 9, 3]]);
        assert_eq!(find(&shapes, &labels, true).map(|found| (found.0, found.1)), Some((1, MapKind::Classes)));
        assert_eq!(find(&shapes, &none, true), None);
    }

    #[test]
    fn the_largest_score_is_the_class() {
        let output = floats(&[1, 2, 2, 2], &[0.0, 1.0, 3.0, 2.0, 0.0, 1.0, 0.0, 1.0]);
        let map = ClassMap::of(&output, vec!["background".to_owned(), "cat".to_owned()]).unwrap();
        assert_eq!(map.classes, [1, 0, 1, 1]);
        let segments = map.segments();
        assert_eq!((segments[0].label.as_deref(), segments[0].percent), (Some("cat"), 75.0));
        assert_eq!((map.at([0.25, 0.75]), map.at([1.0, 1.0]), map.at([-1.0, 9.0])), (0, 1, 0));
        assert!(map.is_background(0) && !map.is_background(1));
        assert!(!ClassMap { names: vec!["road".to_owned()], ..map }.is_background(0));
    }

    #[test]
    fn masks_and_pictures_are_scaled_to_their_range() {
        let mask = |values: &[f32]| Mask::of(&floats(&[1, 2, 2, 1], values)).unwrap().values;
        assert_eq!(mask(&[0.0, 0.5, 1.0, f32::NAN]), [0.0, 0.5, 1.0, 0.0]);
        assert_eq!(mask(&[-10.0, 10.0, 0.0, 5.0]), [0.0, 1.0, 0.5, 0.75]);
        assert_eq!(mask(&[0.0; 4]), [0.0; 4]);
        let first = |values: [f32; 3]| picture(&floats(&[2, 2, 3], &values.repeat(4))).unwrap().values[..3].to_vec();
        assert_eq!(first([0.0, 0.2, 1.0]), [0.0, 51.0, 255.0]);
        assert_eq!(first([-1.0, 0.0, 1.0]), [0.0, 127.5, 255.0]);
        assert_eq!(first([-9.0, 20.0, 300.0]), [0.0, 20.0, 255.0]);
    }
}
