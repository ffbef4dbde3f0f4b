//! Strings of tensors: from text files, from arrays of NumPy's strings, and as text to show.

use attache::{DataType, Shape, Strings, strings};

use crate::failure::Failure;
use crate::io::array::Array;

/// How many strings of a tensor are shown.
const MOST_SHOWN: usize = 10;

/// The longest string that is shown whole, in characters.
const LONGEST_SHOWN: usize = 60;

/// Returns the array of strings with this shape, which has as many elements.
pub(crate) fn array<T: AsRef<[u8]>>(shape: Shape, texts: &[T]) -> Result<Array, String> {
    let bytes = strings::encoded(texts.iter().map(AsRef::as_ref))
        .ok_or("the strings exceed 2 GiB or the memory; give fewer of them")?;
    Ok(Array { data_type: DataType::String, shape, bytes })
}

/// Returns the lines of a text file as strings, in the shape of an input if it has as many elements, else as a list.
pub(crate) fn lines(text: &[u8], input: &Shape) -> Result<Array, Failure> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    if text.is_empty() && input.elements() == 0 {
        return array(input.clone(), &[] as &[&[u8]]).map_err(Failure::usage);
    }
    let lines: Vec<&[u8]> =
        text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    let shape = if lines.len() == input.elements() { input.clone() } else { Shape::from([lines.len()]) };
    array(shape, &lines).map_err(Failure::usage)
}

/// Returns the strings that `count` elements of `width` units of NumPy's hold: bytes, or code points of 32 bits in the byte
/// order of the machine. Zeros at the end are filling.
pub(crate) fn of_numpy(is_bytes: bool, elements: &[u8], width: usize, count: usize) -> Result<Vec<Vec<u8>>, String> {
    let unit = if is_bytes { 1 } else { 4 };
    let one = |index: usize| {
        let units = &elements[index * width * unit..][..width * unit];
        if is_bytes {
            let length = units.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            return Ok(units[..length].to_vec());
        }
        let points: Vec<u32> = units.as_chunks().0.iter().map(|unit| u32::from_ne_bytes(*unit)).collect();
        let length = points.iter().rposition(|point| *point != 0).map_or(0, |last| last + 1);
        let text: Option<String> = points[..length].iter().map(|point| char::from_u32(*point)).collect();
        text.map(String::into_bytes).ok_or_else(|| format!("string {index} is not Unicode"))
    };
    (0..count).map(one).collect()
}

/// Returns strings as NumPy's of bytes, and the width of each.
pub(crate) fn to_numpy(content: &[u8], count: usize) -> Result<(usize, Vec<u8>), String> {
    let texts = Strings::new(content, count).map_err(|error| error.to_string())?;
    let width = texts.iter().map(<[u8]>::len).max().unwrap_or(0).max(1);
    let size = width.checked_mul(count).filter(|size| i32::try_from(*size).is_ok());
    let size =
        size.ok_or_else(|| format!("the longest of {count} strings has {width} bytes, too many for an array"))?;
    let no_memory = |_| format!("there is no memory for an array of {size} bytes");
    let mut elements = Vec::new();
    elements.try_reserve_exact(size).map_err(no_memory)?;
    elements.resize(size, 0);
    for (text, element) in texts.iter().zip(elements.chunks_exact_mut(width)) {
        element[..text.len()].copy_from_slice(text);
    }
    Ok((width, elements))
}

/// Returns the first strings in one line, where bytes that are not UTF-8 are replaced.
pub(crate) fn shown(texts: Strings<'_>) -> String {
    let one = |text: &[u8]| {
        // No more is read than the characters that are shown, and one to see whether there are others.
        let text = String::from_utf8_lossy(&text[..text.len().min(4 * (LONGEST_SHOWN + 1))]);
        let short: String = text.chars().take(LONGEST_SHOWN).collect();
        let rest = if short.len() < text.len() { "…" } else { "" };
        format!("\"{}{rest}\"", short.escape_debug())
    };
    let mut line = texts.iter().take(MOST_SHOWN).map(one).collect::<Vec<_>>().join(", ");
    if texts.len() > MOST_SHOWN {
        line.push_str(&format!(" and {} more", texts.len() - MOST_SHOWN));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_strings() {
        let read = |text: &[u8], input: &[usize]| {
            let array = lines(text, &Shape::from(input)).unwrap();
            let texts = Strings::new(&array.bytes, array.shape.elements()).unwrap();
            (array.shape.to_vec(), texts.iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
        };
        let own = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(read(b"one\r\n\nthree\n", &[1, 3]), (vec![1, 3], own(&["one", "", "three"])));
        assert_eq!(read("a\n\u{e4}".as_bytes(), &[3]), (vec![2], own(&["a", "\u{e4}"])));
        assert_eq!(read(b"", &[]), (vec![], own(&[""])));
    }

    #[test]
    fn what_is_shown_is_short() {
        let shown = |texts: &[String]| {
            let bytes = strings::encoded(texts.iter().map(String::as_bytes)).unwrap();
            shown(Strings::new(&bytes, texts.len()).unwrap())
        };
        let texts: Vec<String> = (0..12).map(|number| format!("{number}\n").repeat(50)).collect();
        let line = shown(&texts);
        assert!(line.starts_with("\"0\\n0\\n") && line.ends_with("…\" and 2 more") && line.len() < 1200, "{line}");
        assert_eq!(shown(&[]), "");
    }
}
