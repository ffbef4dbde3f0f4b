//! Views of inputs and outputs: elements with their type, shape and quantization parameters.

use attache_base::{DataType, Element, Quantization, Strings, small_integers};
use half::{bf16, f16};

use super::{TensorInfo, same_type};
use crate::error::counted;
use crate::{Error, ErrorKind};

/// Maximum number of names that an error lists.
const MOST_NAMES: usize = 16;

/// Names an input or an output: by its position or by its name.
pub trait TensorKey: private::Sealed {
    /// Returns the index, where `find` returns that of a name; `None` if there is none of that name.
    #[doc(hidden)]
    fn index(&self, find: impl Fn(&str) -> Option<usize>) -> Option<usize>;

    /// Returns the error for a key of which there is no input or output. `names` are those that there are.
    #[doc(hidden)]
    fn unknown(&self, what: &str, names: Vec<&str>) -> Error;

    /// Returns the key as a value of its own.
    #[doc(hidden)]
    fn owned(&self) -> private::OwnedKey;

    /// Returns the index, if it is less than the number of names, or else the error.
    #[doc(hidden)]
    fn find(&self, what: &str, names: Vec<&str>, find: impl Fn(&str) -> Option<usize>) -> Result<usize, Error> {
        self.index(find).filter(|index| *index < names.len()).ok_or_else(|| self.unknown(what, names))
    }
}

pub(super) use private::OwnedKey;

mod private {
    pub trait Sealed {}
    impl Sealed for OwnedKey {}

    /// A key that is kept.
    #[derive(Clone, Debug)]
    pub enum OwnedKey {
        Index(usize),
        Name(String),
    }

    impl Sealed for usize {}
    impl Sealed for str {}
    impl Sealed for String {}
    impl<T: Sealed + ?Sized> Sealed for &T {}
}

impl TensorKey for usize {
    fn index(&self, _: impl Fn(&str) -> Option<usize>) -> Option<usize> {
        Some(*self)
    }

    fn unknown(&self, what: &str, names: Vec<&str>) -> Error {
        super::no_such(what, *self, names.len())
    }

    fn owned(&self) -> OwnedKey {
        OwnedKey::Index(*self)
    }
}

impl TensorKey for str {
    fn index(&self, find: impl Fn(&str) -> Option<usize>) -> Option<usize> {
        find(self)
    }

    fn unknown(&self, what: &str, names: Vec<&str>) -> Error {
        let mut known: Vec<_> = names.iter().take(MOST_NAMES).map(|name| format!("\"{name}\"")).collect();
        if names.len() > MOST_NAMES {
            known.push(format!("and {} more", names.len() - MOST_NAMES));
        }
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Error::usage(format!("there is no {what} \"{self}\"; there is {known}"))
    }

    fn owned(&self) -> OwnedKey {
        OwnedKey::Name(self.to_owned())
    }
}

impl TensorKey for String {
    fn index(&self, find: impl Fn(&str) -> Option<usize>) -> Option<usize> {
        find(self)
    }

    fn unknown(&self, what: &str, names: Vec<&str>) -> Error {
        self.as_str().unknown(what, names)
    }

    fn owned(&self) -> OwnedKey {
        self.as_str().owned()
    }
}

impl TensorKey for OwnedKey {
    fn index(&self, find: impl Fn(&str) -> Option<usize>) -> Option<usize> {
        match self {
            Self::Index(index) => Some(*index),
            Self::Name(name) => find(name),
        }
    }

    fn unknown(&self, what: &str, names: Vec<&str>) -> Error {
        match self {
            Self::Index(index) => index.unknown(what, names),
            Self::Name(name) => name.unknown(what, names),
        }
    }

    fn owned(&self) -> OwnedKey {
        self.clone()
    }
}

impl<T: TensorKey + ?Sized> TensorKey for &T {
    fn index(&self, find: impl Fn(&str) -> Option<usize>) -> Option<usize> {
        (**self).index(find)
    }

    fn unknown(&self, what: &str, names: Vec<&str>) -> Error {
        (**self).unknown(what, names)
    }

    fn owned(&self) -> OwnedKey {
        (**self).owned()
    }
}

/// An input of an interpreter, which the caller writes.
#[derive(Debug)]
pub struct InputTensor<'a> {
    pub(super) info: &'a TensorInfo,
    pub(super) index: usize,
    pub(super) bytes: &'a mut [u8],
}

/// An output of an interpreter.
#[derive(Clone, Copy, Debug)]
pub struct OutputTensor<'a> {
    pub(super) info: &'a TensorInfo,
    pub(super) index: usize,
    pub(super) bytes: &'a [u8],
}

impl<'a> InputTensor<'a> {
    /// Returns the description: name, type, shape and quantization parameters.
    #[must_use]
    pub fn info(&self) -> &'a TensorInfo {
        self.info
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        self.info.data_type
    }

    /// Returns the extents in elements, outermost first.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        &self.info.shape
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.info.shape.elements()
    }

    /// Returns the quantization parameters; `None` for a tensor that is not quantized.
    #[must_use]
    pub fn quantization(&self) -> Option<&'a Quantization> {
        self.info.quantization.as_ref()
    }

    /// Returns the elements as they are stored, little-endian. Two elements of 4 bits share a byte, the first one in
    /// its lower half.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// Returns the elements, for the caller to write.
    ///
    /// # Errors
    ///
    /// If the tensor is not of type `T`.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], Error> {
        same_type("input", self.index, self.info, T::DATA_TYPE)?;
        let index = self.index;
        bytemuck::try_cast_slice_mut(self.bytes).map_err(|error| Error::usage(format!("input {index}: {error}")))
    }

    pub(super) fn into_slice<T: Element>(self) -> Result<&'a mut [T], Error> {
        same_type("input", self.index, self.info, T::DATA_TYPE)?;
        let index = self.index;
        bytemuck::try_cast_slice_mut(self.bytes).map_err(|error| Error::usage(format!("input {index}: {error}")))
    }

    /// Copies elements of the tensor's type into it.
    ///
    /// # Errors
    ///
    /// If the tensor is not of type `T`, or has a different number of elements.
    pub fn copy_from<T: Element>(&mut self, values: &[T]) -> Result<(), Error> {
        let index = self.index;
        let elements = self.as_mut_slice::<T>()?;
        check_count("input", index, elements.len(), values.len())?;
        elements.copy_from_slice(values);
        Ok(())
    }

    /// Writes floats into the tensor, whatever its type: quantized by its quantization parameters, rounded to f16 or
    /// bf16, or as they are. A quantized element is `round(value / scale) + zero_point`, with ties away from zero,
    /// clamped to the range of its type (TensorFlow Lite's operator QUANTIZE). NaN becomes the zero point.
    ///
    /// # Errors
    ///
    /// If the number of elements differs, or if the tensor is neither a float nor quantized.
    pub fn quantize_from(&mut self, values: &[f32]) -> Result<(), Error> {
        check_count("input", self.index, self.info.shape.elements(), values.len())?;
        match self.data_type() {
            DataType::Float32 => return self.copy_from(values),
            DataType::Float16 => fill(self.as_mut_slice::<f16>()?, values.iter().map(|value| f16::from_f32(*value))),
            DataType::BFloat16 => fill_words(self.bytes, values.iter().map(|value| bf16::from_f32(*value).to_bits())),
            DataType::Float64 => fill(self.as_mut_slice::<f64>()?, values.iter().map(|value| f64::from(*value))),
            _ => {
                let parameters = Parameters::of("input", self.index, self.info)?;
                let stored = |(index, value): (usize, &f32)| parameters.stored(index, *value);
                let stored = values.iter().enumerate().map(stored);
                match self.data_type() {
                    DataType::Int8 => fill(self.as_mut_slice()?, stored.map(|value| value as i8)),
                    DataType::UInt8 => fill(self.as_mut_slice()?, stored.map(|value| value as u8)),
                    DataType::Int16 => fill(self.as_mut_slice()?, stored.map(|value| value as i16)),
                    DataType::UInt16 => fill(self.as_mut_slice()?, stored.map(|value| value as u16)),
                    DataType::Int32 => fill(self.as_mut_slice()?, stored.map(|value| value as i32)),
                    small => small_integers::pack(small, stored.map(|value| value as i8), self.bytes),
                }
            }
        }
        Ok(())
    }

    /// Writes truth values into a tensor of type BOOL.
    ///
    /// # Errors
    ///
    /// If the tensor is of another type, or has a different number of elements.
    pub fn copy_from_bools(&mut self, values: &[bool]) -> Result<(), Error> {
        same_type("input", self.index, self.info, DataType::Bool)?;
        check_count("input", self.index, self.bytes.len(), values.len())?;
        fill(self.bytes, values.iter().map(|value| u8::from(*value)));
        Ok(())
    }
}

impl<'a> OutputTensor<'a> {
    /// Returns the description: name, type, shape and quantization parameters.
    #[must_use]
    pub fn info(&self) -> &'a TensorInfo {
        self.info
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        self.info.data_type
    }

    /// Returns the extents in elements, outermost first, as of the run.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        &self.info.shape
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.info.shape.elements()
    }

    /// Returns the quantization parameters; `None` for a tensor that is not quantized.
    #[must_use]
    pub fn quantization(&self) -> Option<&'a Quantization> {
        self.info.quantization.as_ref()
    }

    /// Returns the elements as they are stored, little-endian. Two elements of 4 bits share a byte, the first one in
    /// its lower half.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the elements.
    ///
    /// # Errors
    ///
    /// If the tensor is not of type `T`.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T], Error> {
        same_type("output", self.index, self.info, T::DATA_TYPE)?;
        let index = self.index;
        bytemuck::try_cast_slice(self.bytes).map_err(|error| Error::usage(format!("output {index}: {error}")))
    }

    /// Returns the elements as floats, whatever their type: `scale × (element − zero_point)` where they are quantized.
    ///
    /// # Errors
    ///
    /// If the elements are no numbers, or are integers of more than 32 bits.
    pub fn dequantize(&self) -> Result<Vec<f32>, Error> {
        Ok(match self.data_type() {
            DataType::Float32 => self.as_slice::<f32>()?.to_vec(),
            DataType::Float16 => self.as_slice::<f16>()?.iter().map(|value| value.to_f32()).collect(),
            DataType::BFloat16 => words(self.bytes).map(|word| bf16::from_bits(word).to_f32()).collect(),
            DataType::Float64 => self.as_slice::<f64>()?.iter().map(|value| *value as f32).collect(),
            _ => {
                let stored = self.integers()?;
                match Parameters::of("output", self.index, self.info) {
                    Ok(parameters) => {
                        stored.iter().enumerate().map(|(index, value)| parameters.real(index, *value)).collect()
                    }
                    // Integers that are not quantized, such as indices and counts.
                    Err(_) => stored.iter().map(|value| *value as f32).collect(),
                }
            }
        })
    }

    /// Returns integers of any type, of up to 32 bits or INT64, with true as 1.
    ///
    /// # Errors
    ///
    /// If the elements are no such integers.
    pub fn integers(&self) -> Result<Vec<i64>, Error> {
        fn widened<T: Element + Into<i64>>(tensor: &OutputTensor<'_>) -> Result<Vec<i64>, Error> {
            Ok(tensor.as_slice::<T>()?.iter().map(|value| (*value).into()).collect())
        }
        match self.data_type() {
            DataType::Int8 => widened::<i8>(self),
            DataType::UInt8 => widened::<u8>(self),
            DataType::Int16 => widened::<i16>(self),
            DataType::UInt16 => widened::<u16>(self),
            DataType::Int32 => widened::<i32>(self),
            DataType::UInt32 => widened::<u32>(self),
            DataType::Int64 => widened::<i64>(self),
            DataType::Bool => Ok(self.bytes.iter().map(|byte| i64::from(*byte != 0)).collect()),
            other => {
                let integers = small_integers::unpack(other, self.bytes, self.info.shape.elements());
                let integers = integers.map(|integers| integers.into_iter().map(i64::from).collect());
                let none = || format!("output {} is of type {other}, whose elements are no integers", self.index);
                integers.ok_or_else(|| Error::usage(none()))
            }
        }
    }

    /// Returns the truth values of a tensor of type BOOL.
    ///
    /// # Errors
    ///
    /// If the tensor is of another type.
    pub fn bools(&self) -> Result<Vec<bool>, Error> {
        same_type("output", self.index, self.info, DataType::Bool)?;
        Ok(self.bytes.iter().map(|byte| *byte != 0).collect())
    }

    /// Returns the real and the imaginary part of each element of a tensor of type COMPLEX64.
    ///
    /// # Errors
    ///
    /// If the tensor is of another type.
    pub fn complex(&self) -> Result<Vec<[f32; 2]>, Error> {
        same_type("output", self.index, self.info, DataType::Complex64)?;
        let parts = |bytes: &[u8; 8]| {
            let [a, b, c, d, e, f, g, h] = *bytes;
            [f32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h])]
        };
        Ok(self.bytes.as_chunks::<8>().0.iter().map(parts).collect())
    }

    /// Returns the elements of a tensor of type STRING, which are any bytes. [`Strings`] says how they lie in memory.
    ///
    /// # Errors
    ///
    /// If the tensor is of another type, if its contents are damaged, or if there is no memory for the list.
    pub fn strings(&self) -> Result<Vec<&'a [u8]>, Error> {
        same_type("output", self.index, self.info, DataType::String)?;
        let damaged = |error| Error::new(ErrorKind::Model, format!("output {}: {error}", self.index));
        let (strings, mut list) = (Strings::new(self.bytes, self.elements()).map_err(damaged)?, Vec::new());
        let reserved = list.try_reserve_exact(strings.len());
        reserved.map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("output {}: {error}", self.index)))?;
        list.extend(strings.iter());
        Ok(list)
    }
}

/// Quantization parameters of a tensor, and the range of its integers.
struct Parameters<'a> {
    quantization: &'a Quantization,
    /// The number of adjacent elements that have the same scale.
    inner: usize,
    range: (i64, i64),
}

impl<'a> Parameters<'a> {
    fn of(what: &str, index: usize, info: &'a TensorInfo) -> Result<Self, Error> {
        let name = &info.name;
        let refused =
            |reason: &str| Error::usage(format!("{what} {index} (\"{name}\") is of type {}, {reason}", info.data_type));
        let range = match info.data_type {
            DataType::Int8 => (-128, 127),
            DataType::UInt8 => (0, 255),
            DataType::Int16 => (-32768, 32767),
            DataType::UInt16 => (0, 65535),
            DataType::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            small => match small_integers::range(small) {
                Some((least, most)) => (least.into(), most.into()),
                None => return Err(refused("which is neither a float nor quantized; write elements of that type")),
            },
        };
        let unquantized = || refused("and has no quantization parameters; write elements of that type");
        let quantization = info.quantization.as_ref().ok_or_else(unquantized)?;
        let (scales, axis) = (quantization.scale.len(), quantization.axis);
        let extent = if scales == 1 { Some(1) } else { info.shape.get(axis).copied() };
        let inner = if scales == 1 {
            usize::MAX
        } else {
            info.shape[axis.saturating_add(1).min(info.shape.rank())..].iter().product()
        };
        if scales == 0 || quantization.zero_point.len() != scales || extent != Some(scales) {
            return Err(refused("and its quantization parameters do not fit its shape"));
        }
        Ok(Self { quantization, inner: inner.max(1), range })
    }

    /// Returns the scale and the zero point of the element with this index.
    fn pair(&self, index: usize) -> (f32, i64) {
        let Quantization { scale, zero_point, .. } = self.quantization;
        let place = index / self.inner % scale.len();
        (scale[place], zero_point[place])
    }

    fn stored(&self, index: usize, value: f32) -> i64 {
        let (scale, zero_point) = self.pair(index);
        let (low, high) = self.range;
        // A conversion of floats to integers saturates, and turns NaN into 0.
        ((value / scale).round() as i64).saturating_add(zero_point).clamp(low, high)
    }

    fn real(&self, index: usize, stored: i64) -> f32 {
        let (scale, zero_point) = self.pair(index);
        scale * (stored - zero_point) as f32
    }
}

fn check_count(what: &str, index: usize, is: usize, given: usize) -> Result<(), Error> {
    if is == given {
        Ok(())
    } else {
        Err(Error::usage(format!("{what} {index} has {}, not {given}", counted(is, "element"))))
    }
}

fn fill<T>(into: &mut [T], values: impl Iterator<Item = T>) {
    into.iter_mut().zip(values).for_each(|(place, value)| *place = value);
}

fn fill_words(bytes: &mut [u8], words: impl Iterator<Item = u16>) {
    bytes.as_chunks_mut::<2>().0.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.as_chunks::<2>().0.iter().map(|word| u16::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use attache_base::Shape;

    use super::*;

    fn info(data_type: DataType, shape: &[usize], scale: &[f32], zero_point: &[i64], axis: usize) -> TensorInfo {
        let quantization =
            (!scale.is_empty()).then(|| Quantization { scale: scale.to_vec(), zero_point: zero_point.to_vec(), axis });
        TensorInfo { name: "x".into(), data_type, shape: Shape::from(shape), shape_signature: None, quantization }
    }

    /// Writes floats into a tensor and reads them back.
    fn round_trip(info: &TensorInfo, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
        let mut words = vec![0u64; 8];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let bytes = &mut bytes[..info.data_type.byte_size(values.len()).unwrap()];
        let mut input = InputTensor { info, index: 0, bytes };
        assert_eq!(input.elements(), values.len());
        input.quantize_from(values).unwrap();
        let output = OutputTensor { info, index: 0, bytes };
        assert_eq!(output.elements(), values.len());
        (bytes.to_vec(), output.dequantize().unwrap())
    }

    #[test]
    fn floats_are_quantized_as_the_operator_quantize_does() {
        let int8 = info(DataType::Int8, &[4], &[0.5], &[-1], 0);
        let (stored, reals) = round_trip(&int8, &[0.25, -0.25, 1000.0, f32::NAN]);
        assert_eq!(stored.iter().map(|byte| *byte as i8).collect::<Vec<_>>(), [0, -2, 127, -1]);
        assert_eq!(reals, [0.5, -0.5, 64.0, 0.0]);
        let (stored, _) = round_trip(&info(DataType::UInt8, &[3], &[1.0], &[128], 0), &[-200.0, 0.5, 2.0]);
        assert_eq!(stored, [0, 129, 130]);
    }

    #[test]
    fn every_channel_has_its_scale() {
        let int16 = info(DataType::Int16, &[2, 2], &[0.5, 0.25], &[0, 0], 0);
        assert_eq!(round_trip(&int16, &[1.0, 2.0, 1.0, 2.0]).0, [2, 0, 4, 0, 4, 0, 8, 0]);
        let int8 = info(DataType::Int8, &[2, 2], &[0.5, 0.25], &[0, 0], 1);
        assert_eq!(round_trip(&int8, &[1.0, 1.0, 1.0, 1.0]).0, [2, 4, 2, 4]);
    }

    #[test]
    fn small_and_short_elements_are_packed() {
        let int4 = info(DataType::Int4, &[3], &[1.0], &[0], 0);
        assert_eq!(round_trip(&int4, &[-1.0, 7.0, -8.0]), (vec![0x7f, 0x08], vec![-1.0, 7.0, -8.0]));
        assert_eq!(round_trip(&info(DataType::Float16, &[1], &[], &[], 0), &[1.5]).1, [1.5]);
        assert_eq!(round_trip(&info(DataType::BFloat16, &[1], &[], &[], 0), &[-2.0]).1, [-2.0]);
    }

    #[test]
    fn what_is_neither_a_float_nor_quantized_takes_no_floats() {
        let int32 = info(DataType::Int32, &[1], &[], &[], 0);
        let mut bytes = [0; 4];
        let error = InputTensor { info: &int32, index: 0, bytes: &mut bytes }.quantize_from(&[1.0]).unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains("no quantization parameters")), (ErrorKind::Usage, true));
    }

    #[test]
    fn strings_are_read() {
        let strings = info(DataType::String, &[2], &[], &[], 0);
        let words = [2i32, 16, 17, 19].map(i32::to_le_bytes).concat();
        let bytes = [&words[..], b"abc"].concat();
        let output = OutputTensor { info: &strings, index: 0, bytes: &bytes };
        assert_eq!(output.strings().unwrap(), [&b"a"[..], b"bc"]);
        let damaged = OutputTensor { info: &strings, index: 0, bytes: &bytes[..14] };
        assert_eq!(damaged.strings().unwrap_err().kind(), ErrorKind::Model);
    }
}
