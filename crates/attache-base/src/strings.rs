//! The elements of tensors of type `STRING` ([`Strings`]), which have no fixed size.
//!
//! Such a tensor begins with little-endian 32-bit integers: the number of strings, the offset of each string, and the
//! end of the last one. Offsets are in bytes from the start of the tensor. The strings, which are any bytes, follow.
//! Source: TensorFlow Lite's `string_util.h`.

use std::fmt;

/// Size in bytes of a number at the start of a tensor.
const WORD: usize = 4;

/// The strings of a tensor. All offsets have been checked.
#[derive(Clone, Copy)]
pub struct Strings<'a> {
    bytes: &'a [u8],
    count: usize,
}

/// What is wrong with the bytes of a tensor of strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadStrings(String);

impl fmt::Display for BadStrings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadStrings {}

impl<'a> Strings<'a> {
    /// Reads the first `elements` strings of a tensor, which may hold more.
    ///
    /// # Errors
    ///
    /// Fails if the tensor holds fewer strings, or if a string does not lie within its bytes.
    pub fn new(bytes: &'a [u8], elements: usize) -> Result<Self, BadStrings> {
        let wrong = |text: String| Err(BadStrings(text));
        let size = bytes.len();
        let Some(first) = bytes.first_chunk() else {
            return wrong(format!("strings of {size} bytes lack even their number"));
        };
        let stated = i32::from_le_bytes(*first);
        let count = usize::try_from(stated).ok().filter(|count| *count >= elements);
        if count.is_none() {
            return wrong(format!("it holds {stated} strings where {elements} belong"));
        }
        if elements.checked_add(2).and_then(|words| words.checked_mul(WORD)).is_none_or(|head| head > size) {
            return wrong(format!("{size} bytes are too few for the offsets of {elements} strings"));
        }
        let strings = Self { bytes, count: elements };
        for index in 0..elements {
            let (start, end) = (strings.word(index + 1), strings.word(index + 2));
            if start < 0 || start > end || usize::try_from(end).is_ok_and(|end| end > size) {
                return wrong(format!("string {index} lies at {start} to {end} of {size} bytes"));
            }
        }
        Ok(strings)
    }

    fn word(&self, index: usize) -> i32 {
        self.bytes[WORD * index..].first_chunk().map_or(0, |word| i32::from_le_bytes(*word))
    }

    /// Returns the number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no strings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of the string with this index.
    ///
    /// # Panics
    ///
    /// Panics where there is no such string.
    #[must_use]
    pub fn get(&self, index: usize) -> &'a [u8] {
        assert!(index < self.count, "string {index} of {}", self.count);
        &self.bytes[self.word(index + 1) as usize..self.word(index + 2) as usize]
    }

    /// Returns the strings in row-major order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let strings = *self;
        (0..self.count).map(move |index| strings.get(index))
    }
}

impl fmt::Debug for Strings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|string| string.escape_ascii().to_string())).finish()
    }
}

/// Returns the least number of bytes that a tensor of so many strings takes: that of empty ones. Saturates.
#[must_use]
pub fn least_size(elements: usize) -> usize {
    elements.saturating_add(2).saturating_mul(WORD)
}

/// Returns the number of bytes that a tensor with these strings takes; `None` if its offsets would exceed 31 bits.
pub fn encoded_size<'a>(strings: impl ExactSizeIterator<Item = &'a [u8]>) -> Option<usize> {
    let head = least_size(strings.len());
    let size = strings.fold(head, |size, string| size.saturating_add(string.len()));
    i32::try_from(size).is_ok().then_some(size)
}

/// Writes the tensor with these strings into `bytes`, which have the size that [`encoded_size`] returns.
///
/// # Panics
///
/// Panics if `bytes` are too few.
pub fn encode<'a>(strings: impl ExactSizeIterator<Item = &'a [u8]>, bytes: &mut [u8]) {
    let mut writer = Writer::new(bytes, strings.len());
    for string in strings {
        writer.append(string);
        writer.end();
    }
}

/// Writes a tensor piece by piece.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    /// The number of strings that have ended.
    ended: usize,
    /// Where the next piece belongs.
    place: usize,
}

impl<'a> Writer<'a> {
    /// Begins a tensor of `count` strings in `bytes`, which have the size that it takes.
    ///
    /// # Panics
    ///
    /// Panics if the bytes are too few for as many empty strings.
    pub fn new(bytes: &'a mut [u8], count: usize) -> Self {
        let mut writer = Self { bytes, ended: 0, place: least_size(count) };
        writer.put(0, count);
        writer.put(1, writer.place);
        writer
    }

    fn put(&mut self, index: usize, word: usize) {
        self.bytes[WORD * index..][..WORD].copy_from_slice(&(word as u32).to_le_bytes());
    }

    /// Adds bytes to the current string.
    ///
    /// # Panics
    ///
    /// Panics if there is no room for them.
    pub fn append(&mut self, piece: &[u8]) {
        self.bytes[self.place..][..piece.len()].copy_from_slice(piece);
        self.place += piece.len();
    }

    /// Ends the current string and begins the next one.
    pub fn end(&mut self) {
        self.ended += 1;
        self.put(self.ended + 1, self.place);
    }
}

/// Returns the bytes of a tensor with these strings; `None` if its offsets would exceed 31 bits, or if there is no memory for
/// them.
pub fn encoded<'a>(strings: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> Option<Vec<u8>> {
    let (size, mut bytes) = (encoded_size(strings.clone())?, Vec::new());
    bytes.try_reserve_exact(size).ok()?;
    bytes.resize(size, 0);
    encode(strings, &mut bytes);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(strings: &[&[u8]]) -> Vec<u8> {
        encoded(strings.iter().copied()).unwrap()
    }

    #[test]
    fn strings_are_read_as_they_were_written() {
        for strings in [&[][..], &[&b""[..]], &[b"a", b"", b"b\0c\xff"]] {
            let bytes = of(strings);
            let read = Strings::new(&bytes, strings.len()).unwrap();
            assert!(read.iter().eq(strings.iter().copied()), "{read:?}");
            assert_eq!((read.len(), read.is_empty()), (strings.len(), strings.is_empty()));
        }
        let words = [2i32, 12, 13, 15].map(i32::to_le_bytes).concat();
        assert_eq!(of(&[b"a", b"bc"])[..16], [2i32, 16, 17, 19].map(i32::to_le_bytes).concat());
        assert_eq!(Strings::new(&[&words[..], b"abc"].concat(), 1).unwrap().get(0), &words[12..13]);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let error = |bytes: &[u8], elements| Strings::new(bytes, elements).unwrap_err().to_string();
        let words = |words: &[i32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(error(&[1, 0], 0), "strings of 2 bytes lack even their number");
        assert_eq!(error(&words(&[-1]), 0), "it holds -1 strings where 0 belong");
        assert_eq!(error(&of(&[b"a"]), 2), "it holds 1 strings where 2 belong");
        assert_eq!(error(&words(&[2, 16, 16]), 2), "12 bytes are too few for the offsets of 2 strings");
        assert!(error(&words(&[i32::MAX, 8]), i32::MAX as usize).contains("too few"));
        for (start, end) in [(-1, 12), (12, 11), (12, 13), (i32::MIN, i32::MAX)] {
            assert_eq!(error(&words(&[1, start, end]), 1), format!("string 0 lies at {start} to {end} of 12 bytes"));
        }
    }

    #[test]
    fn offsets_have_31_bits() {
        let long = vec![0; 1 << 20];
        assert_eq!(encoded_size(std::iter::repeat_n(&long[..], 2047)), Some((2047 << 20) + 4 * 2049));
        assert_eq!(encoded_size(std::iter::repeat_n(&long[..], 2048)), None);
        assert_eq!(least_size(usize::MAX), usize::MAX);
    }
}
