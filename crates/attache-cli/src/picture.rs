//! Pictures as inputs of models.
//!
//! The picture is stretched to the input's height and width, bilinearly with half-pixel centres, without a low-pass
//! filter. Channels are red, green, blue; further ones are 0, and a single one is the luminance. Floats are normalized,
//! `(value − mean) / std`; uint8 takes the values 0 to 255 as they are, int8 takes them less 128.

use std::path::Path;

use attache::{DataType, Shape};
use half::f16;

use crate::failure::Failure;
use crate::npy::Array;

/// Red, green and blue, 0 to 255, rows from the top.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// `height × width × 3`.
    pub(crate) values: Vec<f32>,
}

/// `(value − mean) / std`, one of each for all channels or one per channel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scaling {
    pub(crate) mean: Vec<f32>,
    pub(crate) std: Vec<f32>,
}

impl Default for Scaling {
    /// 0 to 255 becomes −1 to 1.
    fn default() -> Self {
        Self { mean: vec![127.5], std: vec![127.5] }
    }
}

impl Scaling {
    fn apply(&self, channel: usize, value: f32) -> f32 {
        let pick = |values: &[f32], otherwise| values.get(channel).or(values.last()).copied().unwrap_or(otherwise);
        (value - pick(&self.mean, 0.0)) / pick(&self.std, 1.0)
    }
}

/// The two neighbours of a position along an axis and the weight of the second, for half-pixel centres:
/// `source = (target + ½) · from / to − ½`, kept within the picture.
fn neighbours(target: usize, from: usize, to: usize) -> (usize, usize, f32) {
    let source = (target as f32 + 0.5) * (from as f32 / to as f32) - 0.5;
    let source = source.clamp(0.0, (from - 1) as f32);
    let low = source as usize;
    (low, (low + 1).min(from - 1), source - low as f32)
}

impl Picture {
    /// Reads a PNG or JPEG file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |reason: String| Failure::usage(reason).at(path.display());
        let reader = image::ImageReader::open(path).map_err(|error| wrong(error.to_string()))?;
        let reader = reader.with_guessed_format().map_err(|error| wrong(error.to_string()))?;
        let picture =
            reader.decode().map_err(|error| wrong(format!("{error} (inputs are .npy, PNG or JPEG files)")))?;
        let picture = picture.to_rgb8();
        let (width, height) = (picture.width() as usize, picture.height() as usize);
        if width == 0 || height == 0 {
            return Err(wrong("the picture is empty".to_owned()));
        }
        Ok(Self { height, width, values: picture.into_raw().into_iter().map(f32::from).collect() })
    }

    /// The same picture in another size.
    pub(crate) fn stretched(&self, height: usize, width: usize) -> Self {
        let columns: Vec<_> = (0..width).map(|x| neighbours(x, self.width, width)).collect();
        let mut values = Vec::with_capacity(height * width * 3);
        for y in 0..height {
            let (top, bottom, down) = neighbours(y, self.height, height);
            for &(left, right, along) in &columns {
                for channel in 0..3 {
                    let at = |y: usize, x: usize| self.values[(y * self.width + x) * 3 + channel];
                    let upper = at(top, left) + (at(top, right) - at(top, left)) * along;
                    let lower = at(bottom, left) + (at(bottom, right) - at(bottom, left)) * along;
                    values.push(upper + (lower - upper) * down);
                }
            }
        }
        Self { height, width, values }
    }

    /// The value of a channel at a pixel, `None` for channels that pictures don't have.
    fn channel(&self, pixel: usize, channel: usize, channels: usize) -> Option<f32> {
        let rgb = &self.values[pixel * 3..pixel * 3 + 3];
        match channels {
            // ITU-R BT.601, as grey JPEG files have it.
            1 => Some(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]),
            _ => rgb.get(channel).copied(),
        }
    }

    /// The input of shape `[batch, height, width, channels]` (or without batch), the same picture for each of the batch.
    pub(crate) fn tensor(&self, shape: &Shape, data_type: DataType, scaling: &Scaling) -> Result<Array, Failure> {
        let (batch, height, width, channels) = match *shape.extents() {
            [batch, height, width, channels] => (batch, height, width, channels),
            [height, width, channels] => (1, height, width, channels),
            _ => {
                return Err(Failure::usage(format!(
                    "a picture does not fit an input of shape {shape}; give a .npy file"
                )));
            }
        };
        let picture = self.stretched(height, width);
        let pixels = (0..batch).flat_map(|_| 0..height * width);
        let values = pixels.flat_map(|pixel| (0..channels).map(move |channel| (pixel, channel)));
        let values = values.map(|(pixel, channel)| (channel, picture.channel(pixel, channel, channels)));
        let normal = |(channel, value): (usize, Option<f32>)| value.map_or(0.0, |value| scaling.apply(channel, value));
        let stored = |(_, value): (usize, Option<f32>)| value.unwrap_or(0.0).round();
        let bytes: Vec<u8> = match data_type {
            DataType::Float32 => values.flat_map(|value| normal(value).to_ne_bytes()).collect(),
            DataType::Float16 => values.flat_map(|value| f16::from_f32(normal(value)).to_ne_bytes()).collect(),
            DataType::UInt8 => values.map(|value| stored(value) as u8).collect(),
            DataType::Int8 => values.map(|value| (stored(value) - 128.0) as i8 as u8).collect(),
            _ => {
                let reason = format!("a picture does not fit an input of type {data_type}; give a .npy file");
                return Err(Failure::usage(reason));
            }
        };
        Ok(Array { data_type, shape: shape.clone(), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::numbers;

    fn picture() -> Picture {
        let red = [0.0, 100.0, 200.0, 40.0];
        Picture { height: 2, width: 2, values: red.iter().flat_map(|&red| [red, 255.0, 10.0]).collect() }
    }

    fn reds(picture: &Picture) -> Vec<f32> {
        picture.values.iter().step_by(3).copied().collect()
    }

    #[test]
    fn stretching_is_bilinear_with_half_pixel_centres() {
        assert_eq!(picture().stretched(2, 2), picture());
        assert_eq!(reds(&picture().stretched(2, 4)), [0.0, 25.0, 75.0, 100.0, 200.0, 160.0, 80.0, 40.0]);
        assert_eq!(reds(&picture().stretched(1, 1)), [85.0]);
    }

    #[test]
    fn floats_are_normalized_and_missing_channels_are_zero() {
        let shape = Shape::from([1, 2, 2, 4]);
        let tensor = picture().tensor(&shape, DataType::Float32, &Scaling::default()).unwrap();
        let values = numbers(tensor.data_type, &tensor.bytes).unwrap();
        assert_eq!(values[..2], [-1.0, 1.0]);
        assert_eq!((values[3], values[15]), (0.0, 0.0));
        let scaling = Scaling { mean: vec![0.0, 5.0, 10.0], std: vec![2.0] };
        let tensor = picture().tensor(&Shape::from([2, 2, 3]), DataType::Float32, &scaling).unwrap();
        assert_eq!(numbers(tensor.data_type, &tensor.bytes).unwrap()[3..6], [50.0, 125.0, 0.0]);
    }

    #[test]
    fn integers_take_pixels_as_they_are() {
        let shape = Shape::from([2, 1, 1, 3]);
        let of = |data_type| picture().tensor(&shape, data_type, &Scaling::default()).unwrap().bytes;
        assert_eq!(of(DataType::UInt8), [85, 255, 10, 85, 255, 10]);
        assert_eq!(of(DataType::Int8), [213, 127, 138, 213, 127, 138]);
    }

    #[test]
    fn a_single_channel_is_the_luminance() {
        let grey = Picture { height: 1, width: 1, values: vec![50.0; 3] };
        let tensor = grey.tensor(&Shape::from([1, 1, 1, 1]), DataType::UInt8, &Scaling::default()).unwrap();
        assert_eq!(tensor.bytes, [50]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let tensor = |shape: &[usize], data_type| picture().tensor(&shape.into(), data_type, &Scaling::default());
        assert!(tensor(&[1, 1001], DataType::Float32).unwrap_err().message.contains("[1, 1001]"));
        assert!(tensor(&[1, 2, 2, 3], DataType::Int64).unwrap_err().message.contains("INT64"));
        let missing = Picture::read(Path::new("no-such-picture.png")).unwrap_err();
        assert!(missing.message.starts_with("no-such-picture.png: "));
    }
}
