//! Decodes pictures and converts them to inputs of models.
//!
//! The picture is resized to the input's height and width, bilinearly with half-pixel centres, without a
//! low-pass filter. Channels are red, green, blue; a fourth channel is 0, and a single channel is the
//! luminance. Floats are normalized, `(value − mean) / std`. Integers are normalized too if a mean and a
//! deviation are given; the normalized value is then quantized with the input's scale and zero point, or
//! rounded if it has none. If none are given, uint8 takes the values 0 to 255 unchanged, int8 takes them
//! minus 128, and int16 with a scale takes −1 to 1, quantized.

use std::io::Cursor;

use attache::{DataType, Quantization, Shape};
use half::f16;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};

use crate::failure::Failure;
use crate::io::array::Array;

/// Most pixels of a picture, 2²⁶. Files of few bytes can have any number of them.
const MOST_PIXELS: u64 = 1 << 26;

/// A picture with red, green and blue values from 0 to 255, rows from the top: bytes as in files, or floats.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture<V = f32> {
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// The values, with shape `[height, width, 3]`.
    pub(crate) values: Vec<V>,
}

/// A normalization of picture values, `(value − mean) / std`, with one mean and deviation for all channels or
/// one of each per channel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scaling {
    pub(crate) mean: Vec<f32>,
    pub(crate) std: Vec<f32>,
}

impl Default for Scaling {
    /// Returns the normalization that maps 0 to 255 to −1 to 1.
    fn default() -> Self {
        Self { mean: vec![127.5], std: vec![127.5] }
    }
}

impl Scaling {
    /// Whether the normalization leaves values unchanged.
    pub(crate) fn is_identity(&self) -> bool {
        self.mean.iter().all(|mean| *mean == 0.0) && self.std.iter().all(|std| *std == 1.0)
    }

    /// Whether the normalization fits an input of `channels` channels and gives finite values: one mean and
    /// deviation, or one of each per channel, all finite, and no deviation of 0.
    pub(crate) fn is_sound(&self, channels: usize) -> bool {
        let fits = |values: &[f32]| values.len() == 1 || values.len() == channels;
        let finite = self.mean.iter().chain(&self.std).all(|value| value.is_finite());
        fits(&self.mean) && fits(&self.std) && finite && self.std.iter().all(|std| *std != 0.0)
    }

    fn apply(&self, channel: usize, value: f32) -> f32 {
        let pick = |values: &[f32], otherwise| values.get(channel).or(values.last()).copied().unwrap_or(otherwise);
        (value - pick(&self.mean, 0.0)) / pick(&self.std, 1.0)
    }
}

/// Where the pixels of a resized picture are in the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grid {
    /// Pixel centres are at half positions: `source = (target + ½) · from / to − ½`, clamped to the picture.
    Centres,
    /// Pixels are at whole positions: `source = target · from / to`, as in TensorFlow Lite's evaluations.
    Corners,
}

/// Returns the two source positions next to a target position, and the weight of the second one, where an
/// axis is resized from `from` to `to` positions.
fn neighbours(target: usize, from: usize, to: usize, grid: Grid) -> (usize, usize, f32) {
    let scale = from as f32 / to as f32;
    let source = match grid {
        Grid::Centres => (target as f32 + 0.5) * scale - 0.5,
        Grid::Corners => target as f32 * scale,
    };
    let source = source.clamp(0.0, (from - 1) as f32);
    let low = source as usize;
    (low, (low + 1).min(from - 1), source - low as f32)
}

impl Picture<u8> {
    /// Decodes a PNG or JPEG file, with the pixels as they are stored.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Failure> {
        Self::turned(bytes, false)
    }

    /// Decodes a PNG or JPEG file, turned upright as its metadata say (Exif): cameras store the rows of their sensor.
    pub(crate) fn upright(bytes: &[u8]) -> Result<Self, Failure> {
        Self::turned(bytes, true)
    }

    fn turned(bytes: &[u8], is_upright: bool) -> Result<Self, Failure> {
        if bytes.is_empty() {
            return Err(Failure::usage("the file is empty; give a .npy, PNG or JPEG file"));
        }
        let mut reader = ImageReader::new(Cursor::new(bytes));
        let format = image::guess_format(bytes).ok();
        format.iter().for_each(|format| reader.set_format(*format));
        let explained = |error| unreadable(&error, format.is_some());
        let mut decoder = reader.into_decoder().map_err(explained)?;
        let (width, height) = decoder.dimensions();
        if u64::from(width) * u64::from(height) > MOST_PIXELS {
            let text = format!("the picture has {width} × {height} pixels, and at most {MOST_PIXELS} are read");
            return Err(Failure::usage(format!("{text}; give a smaller one")));
        }
        // The decoder makes up what is missing.
        if format == Some(ImageFormat::Jpeg) && is_cut_off(bytes) {
            return Err(Failure::usage("the picture lacks its end: the file is cut off; copy or save it anew"));
        }
        let orientation = if is_upright { decoder.orientation().ok() } else { None };
        let mut picture = DynamicImage::from_decoder(decoder).map_err(explained)?;
        orientation.iter().for_each(|orientation| picture.apply_orientation(*orientation));
        let picture = picture.to_rgb8();
        let (width, height) = (picture.width() as usize, picture.height() as usize);
        if width == 0 || height == 0 {
            return Err(Failure::usage("the picture has no pixels; give another"));
        }
        Ok(Self { height, width, values: picture.into_raw() })
    }
}

impl Picture {
    /// Returns the value of channel `channel` of an input with `channels` channels at a pixel; `None` for
    /// channels that pictures do not have.
    fn channel(&self, pixel: usize, channel: usize, channels: usize) -> Option<f32> {
        let rgb = &self.values[pixel * 3..pixel * 3 + 3];
        match channels {
            // ITU-R BT.601, as in grey JPEG files.
            1 => Some(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]),
            _ => rgb.get(channel).copied(),
        }
    }
}

impl<V: Copy + Into<f32>> Picture<V> {
    /// Returns the square in the middle of the picture whose side is this fraction of the shorter side, rounded.
    pub(crate) fn centre(&self, fraction: f64) -> Self {
        let side = |extent: usize| (extent as f64 * fraction).round() as usize;
        let side = side(self.height).min(side(self.width)).max(1);
        let [top, left] =
            [self.height, self.width].map(|extent| ((extent - side.min(extent)) as f64 / 2.0).round() as usize);
        let rows = (top..top + side).flat_map(|y| {
            let begin = (y * self.width + left) * 3;
            &self.values[begin..begin + side * 3]
        });
        Self { height: side, width: side, values: rows.copied().collect() }
    }

    /// Returns the picture resized to `height × width` pixels, with bilinear interpolation.
    pub(crate) fn stretched(&self, height: usize, width: usize) -> Picture {
        self.stretched_on(height, width, Grid::Centres)
    }

    /// Returns the picture resized to `height × width` pixels on this grid, with bilinear interpolation.
    pub(crate) fn stretched_on(&self, height: usize, width: usize, grid: Grid) -> Picture {
        if (height, width) == (self.height, self.width) {
            let values = self.values.iter().map(|value| (*value).into()).collect();
            return Picture { height, width, values };
        }
        let columns: Vec<_> = (0..width).map(|x| neighbours(x, self.width, width, grid)).collect();
        let mut values = Vec::with_capacity(height * width * 3);
        for y in 0..height {
            let (top, bottom, down) = neighbours(y, self.height, height, grid);
            for &(left, right, along) in &columns {
                for channel in 0..3 {
                    let at = |y: usize, x: usize| -> f32 { self.values[(y * self.width + x) * 3 + channel].into() };
                    let upper = at(top, left) + (at(top, right) - at(top, left)) * along;
                    let lower = at(bottom, left) + (at(bottom, right) - at(bottom, left)) * along;
                    values.push(upper + (lower - upper) * down);
                }
            }
        }
        Picture { height, width, values }
    }

    /// Converts the picture to an input of shape `[batch, height, width, channels]` (or without batch), with
    /// the same picture for each batch element.
    pub(crate) fn tensor(&self, input: &Input<'_>) -> Result<Filled, Failure> {
        let [batch, height, width, channels] = input.extents()?;
        let picture = self.stretched(height, width);
        let pixels = (0..batch).flat_map(|_| 0..height * width);
        let values = pixels.flat_map(|pixel| (0..channels).map(move |channel| (pixel, channel)));
        let values = values.map(|(pixel, channel)| (channel, picture.channel(pixel, channel, channels)));
        let (data_type, shape) = (input.data_type, input.shape.clone());
        let mut clipped = 0;
        let bytes: Vec<u8> = match data_type {
            DataType::Float32 => values.flat_map(|value| input.normal(value).to_ne_bytes()).collect(),
            DataType::Float16 => values.flat_map(|value| f16::from_f32(input.normal(value)).to_ne_bytes()).collect(),
            DataType::UInt8 => values.map(|value| input.stored(value, 0.0, [0, 255], &mut clipped) as u8).collect(),
            DataType::Int8 => {
                values.map(|value| input.stored(value, -128.0, [-128, 127], &mut clipped) as u8).collect()
            }
            DataType::Int16 => {
                let range = [i16::MIN, i16::MAX].map(i32::from);
                values.flat_map(|value| (input.stored(value, 0.0, range, &mut clipped) as i16).to_ne_bytes()).collect()
            }
            _ => {
                let reason = format!("a picture does not fit an input of type {data_type}; give a .npy file");
                return Err(Failure::usage(reason));
            }
        };
        Ok(Filled { array: Array { data_type, shape, bytes }, clipped })
    }
}

/// Whether a JPEG file lacks its end: after the beginning of the pixels there is no marker EOI (ITU-T T.81, B.1.1.3), which
/// they do not contain.
fn is_cut_off(bytes: &[u8]) -> bool {
    const START_OF_SCAN: u8 = 0xda;
    const END_OF_IMAGE: [u8; 2] = [0xff, 0xd9];
    let mut rest = bytes.get(2..).unwrap_or_default();
    loop {
        rest = match rest {
            [0xff, START_OF_SCAN, pixels @ ..] => return !pixels.windows(2).any(|pair| pair == END_OF_IMAGE),
            [0xff, 0xd0..=0xd8 | 0x01, after @ ..] => after,
            [0xff, 0x00..=0xfe, high, low, ..] => {
                rest.get(2 + usize::from(u16::from_be_bytes([*high, *low])).max(2)..).unwrap_or_default()
            }
            [_, after @ ..] => after,
            [] => return true,
        };
    }
}

/// Returns the error for a file that cannot be decoded. `is_known` is whether it begins like a picture.
fn unreadable(error: &image::ImageError, is_known: bool) -> Failure {
    // Decoders end some messages with a line break.
    let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    Failure::usage(match (error, is_known) {
        (_, false) => "this is neither a picture nor a .npy file; give a .npy, PNG or JPEG file".to_owned(),
        (image::ImageError::Limits(_), _) => format!("the picture is too large ({reason}); give a smaller one"),
        _ => format!("the picture can't be read: {reason}; save it anew as PNG or JPEG"),
    })
}

/// The model input that a picture is converted to.
pub(crate) struct Input<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) data_type: DataType,
    /// The quantization parameters of the input, if it has any.
    pub(crate) quantization: Option<&'a Quantization>,
    /// The normalization from the command line or the model's metadata, if there is one.
    pub(crate) scaling: Option<Scaling>,
}

/// The elements of an input that were made from a picture.
pub(crate) struct Filled {
    pub(crate) array: Array,
    /// Number of elements that exceed the range of the input's type by more than one step.
    pub(crate) clipped: usize,
}

impl Input<'_> {
    /// Returns the input's batch size, height, width and number of channels, which must be 1 to 4. An input of rank 3
    /// lacks the batch or, if its last extent is no number of channels, the channels; one of rank 2 lacks both.
    pub(crate) fn extents(&self) -> Result<[usize; 4], Failure> {
        let shape = self.shape;
        let extents = match *shape.extents() {
            [batch, height, width, channels] => [batch, height, width, channels],
            [height, width, channels @ 1..=4] => [1, height, width, channels],
            [batch @ 1, height, width] => [batch, height, width, 1],
            [height, width] if height > 1 && width > 1 => [1, height, width, 1],
            _ => [0; 4],
        };
        match extents {
            [_, _, _, 1..=4] => Ok(extents),
            _ => Err(Failure::usage(format!("a picture does not fit an input of shape {shape}; give a .npy file"))),
        }
    }

    /// Returns the normalized value of a channel; 0 for a channel that pictures do not have.
    fn normal(&self, (channel, value): (usize, Option<f32>)) -> f32 {
        let default = Scaling::default();
        let scaling = self.scaling.as_ref().unwrap_or(&default);
        value.map_or(0.0, |value| scaling.apply(channel, value))
    }

    /// Returns the integer to store for a channel's value: the normalized and quantized value if there is a
    /// normalization or the input is a quantized int16, else the rounded value plus `shift`. Values outside
    /// `least..=most` are clamped; `clipped` counts those outside by more than 1.
    fn stored(&self, value: (usize, Option<f32>), shift: f32, [least, most]: [i32; 2], clipped: &mut usize) -> i32 {
        let is_wide = self.data_type == DataType::Int16 && self.quantization.is_some();
        let number = match self.scaling.is_some() || is_wide {
            true => self.quantize(self.normal(value)),
            false => f64::from(value.1.unwrap_or(0.0).round() + shift),
        };
        *clipped += usize::from(number < f64::from(least) - 1.0 || number > f64::from(most) + 1.0);
        number.clamp(f64::from(least), f64::from(most)) as i32
    }

    fn quantize(&self, real: f32) -> f64 {
        let one = |quantization: &Quantization| Some((*quantization.scale.first()?, *quantization.zero_point.first()?));
        let (scale, point) = self.quantization.and_then(one).unwrap_or((1.0, 0));
        (f64::from(real) / f64::from(scale)).round() + point as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::numbers::numbers;

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

    fn tensor(
        picture: &Picture,
        shape: &[usize],
        data_type: DataType,
        scaling: Option<Scaling>,
    ) -> Result<Array, Failure> {
        let input = Input { shape: &shape.into(), data_type, quantization: None, scaling };
        Ok(picture.tensor(&input)?.array)
    }

    #[test]
    fn floats_are_normalized_and_missing_channels_are_zero() {
        let array = tensor(&picture(), &[1, 2, 2, 4], DataType::Float32, None).unwrap();
        let values = numbers(array.data_type, &array.bytes).unwrap();
        assert_eq!(values[..2], [-1.0, 1.0]);
        assert_eq!((values[3], values[15]), (0.0, 0.0));
        let scaling = Scaling { mean: vec![0.0, 5.0, 10.0], std: vec![2.0] };
        let array = tensor(&picture(), &[2, 2, 3], DataType::Float32, Some(scaling)).unwrap();
        assert_eq!(numbers(array.data_type, &array.bytes).unwrap()[3..6], [50.0, 125.0, 0.0]);
    }

    #[test]
    fn integers_take_pixels_as_they_are_where_nothing_is_asked_for() {
        let of = |data_type| tensor(&picture(), &[2, 1, 1, 3], data_type, None).unwrap().bytes;
        assert_eq!(of(DataType::UInt8), [85, 255, 10, 85, 255, 10]);
        assert_eq!(of(DataType::Int8), [213, 127, 138, 213, 127, 138]);
    }

    #[test]
    fn integers_are_normalized_and_quantized() {
        let quantization =
            |scale, zero_point| Quantization { scale: vec![scale], zero_point: vec![zero_point], axis: 0 };
        let of = |data_type, quantization: Option<Quantization>, scaling: Option<(f32, f32)>| {
            let scaling = scaling.map(|(mean, std)| Scaling { mean: vec![mean], std: vec![std] });
            let shape = Shape::from([1, 1, 1, 3]);
            let input = Input { shape: &shape, data_type, quantization: quantization.as_ref(), scaling };
            let Filled { array, clipped } = picture().tensor(&input).unwrap();
            (numbers(data_type, &array.bytes).unwrap(), clipped)
        };
        // The picture has the values 85, 255, 10.
        let cases = [
            (DataType::UInt8, Some(quantization(0.5, 10)), Some((5.0, 4.0)), [50.0, 135.0, 13.0], 0),
            (DataType::UInt8, Some(quantization(0.25, 0)), Some((5.0, 1.0)), [255.0, 255.0, 20.0], 2),
            (DataType::Int8, Some(quantization(1.0, -128)), Some((0.0, 1.0)), [-43.0, 127.0, -118.0], 0),
            (DataType::Int16, Some(quantization(0.001, 0)), Some((5.0, 10.0)), [8000.0, 25000.0, 500.0], 0),
            (DataType::Int16, Some(quantization(0.001, 0)), None, [-333.0, 1000.0, -922.0], 0),
            (DataType::UInt8, None, Some((5.0, 2.0)), [40.0, 125.0, 3.0], 0),
        ];
        for (data_type, quantization, scaling, expected, clipped) in cases {
            assert_eq!(of(data_type, quantization, scaling), (expected.to_vec(), clipped), "{data_type} {scaling:?}");
        }
    }

    #[test]
    fn a_scaling_must_give_numbers() {
        let is_sound = |mean: &[f32], std: &[f32]| Scaling { mean: mean.to_vec(), std: std.to_vec() }.is_sound(3);
        assert!(is_sound(&[1.0], &[1.0, 2.0, 3.0]));
        for (mean, std) in [(&[f32::NAN][..], &[1.0][..]), (&[1.0], &[0.0]), (&[], &[1.0]), (&[1.0, 2.0], &[1.0])] {
            assert!(!is_sound(mean, std), "{mean:?} {std:?}");
        }
    }

    #[test]
    fn a_single_channel_is_the_luminance() {
        let grey = Picture { height: 1, width: 1, values: vec![50.0; 3] };
        assert_eq!(tensor(&grey, &[1, 1, 1, 1], DataType::UInt8, None).unwrap().bytes, [50]);
    }

    #[test]
    fn pictures_of_too_many_pixels_are_not_decoded() {
        // The beginning of a PNG file whose header says 16,000 × 16,000; whoever decodes it finds nothing more.
        let header = [&b"IHDR"[..], &16_000u32.to_be_bytes(), &16_000u32.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
        let sum = header.iter().fold(u32::MAX, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 * (sum & 1)))
        });
        let start = [&b"\x89PNG\r\n\x1a\n"[..], &13u32.to_be_bytes(), &header, &(!sum).to_be_bytes()].concat();
        let data = [&0u32.to_be_bytes()[..], b"IDAT", &[0x35, 0xaf, 0x06, 0x1e]].concat();
        let message = Picture::decode(&[start, data].concat()).unwrap_err().message;
        assert!(message.contains("16000 × 16000 pixels, and at most 67108864 are read"), "{message}");
    }

    /// Returns a JPEG file of a picture of two columns, the left one black and the right one white, 16 pixels each.
    fn jpeg() -> Vec<u8> {
        let picture = image::GrayImage::from_fn(32, 16, |x, _| image::Luma([if x < 16 { 0 } else { 255 }]));
        let mut bytes = Vec::new();
        picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Jpeg).unwrap();
        bytes
    }

    #[test]
    fn pictures_are_turned_upright() {
        let bytes = jpeg();
        // The metadata of a picture whose first column is the upper edge, and whose first row the right one.
        let tiff = [&b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"[..]].concat();
        let length = (tiff.len() as u16 + 2).to_be_bytes();
        let turned = [&bytes[..2], &[0xff, 0xe1], &length, &tiff, &bytes[2..]].concat();
        let size = |picture: Picture<u8>| [picture.height, picture.width];
        assert_eq!(size(Picture::decode(&turned).unwrap()), [16, 32]);
        assert_eq!(size(Picture::upright(&bytes).unwrap()), [16, 32]);
        let upright = Picture::upright(&turned).unwrap();
        let ends = [0, upright.values.len() - 1].map(|place| upright.values[place]);
        assert_eq!((size(upright), ends.map(|value| value > 127)), ([32, 16], [false, true]));
    }

    #[test]
    fn a_picture_that_is_cut_off_is_an_error() {
        let bytes = jpeg();
        for length in (4..bytes.len() - 1).rev() {
            assert!(Picture::decode(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
        }
        let longer = [&bytes[..], b"more"].concat();
        assert!(Picture::decode(&bytes).is_ok() && Picture::decode(&longer).is_ok());
        assert!(Picture::decode(&bytes[..bytes.len() - 2]).unwrap_err().message.contains("cut off"));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let tensor = |shape: &[usize], data_type| tensor(&picture(), shape, data_type, None).unwrap_err().message;
        assert!(tensor(&[1, 1001], DataType::Float32).contains("[1, 1001]"));
        assert!(tensor(&[2, 28, 28], DataType::Float32).contains("[2, 28, 28]"));
        assert!(tensor(&[1, 2, 2, 3], DataType::Int64).contains("INT64"));
        assert!(Picture::decode(b"text").unwrap_err().message.contains("PNG or JPEG"));
    }
}
