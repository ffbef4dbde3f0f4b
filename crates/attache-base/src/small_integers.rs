//! Integers of less than 8 bits as tensors hold them: several a byte, the first in the lowest bits.

use crate::DataType;

/// Returns the least and the largest integer of a type of less than 8 bits; `None` for other types.
#[must_use]
pub fn range(data_type: DataType) -> Option<(i8, i8)> {
    match data_type {
        DataType::Int4 => Some((-8, 7)),
        DataType::UInt4 => Some((0, 15)),
        DataType::Int2 => Some((-2, 1)),
        _ => None,
    }
}

/// Returns the first `count` integers in `bytes`, fewer where there are too few bytes; `None` for types of 8 bits and more.
#[must_use]
pub fn unpack(data_type: DataType, bytes: &[u8], count: usize) -> Option<Vec<i8>> {
    let ((low, _), bits) = (range(data_type)?, data_type.bits()?);
    let element = |byte: u8, place: usize| {
        // The element's bits are shifted to the top, and back down with its sign.
        let top = byte << (8 - bits - place);
        if low < 0 { top as i8 >> (8 - bits) } else { (top >> (8 - bits)) as i8 }
    };
    let elements = bytes.iter().flat_map(|byte| (0..8).step_by(bits).map(move |place| element(*byte, place)));
    Some(elements.take(count).collect())
}

/// Writes integers of a type of less than 8 bits, of which only the bits of the type count. The bits after the last one
/// become 0.
pub fn pack(data_type: DataType, values: impl IntoIterator<Item = i8>, bytes: &mut [u8]) {
    let Some(bits) = data_type.bits().filter(|_| range(data_type).is_some()) else { return };
    bytes.fill(0);
    for (index, value) in values.into_iter().enumerate() {
        let place = index * bits;
        if let Some(byte) = bytes.get_mut(place / 8) {
            *byte |= (value as u8 & ((1 << bits) - 1)) << (place % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_go_there_and_back() {
        for (data_type, values, expected) in [
            (DataType::Int4, &[-8, 7, -1][..], &[0x78, 0x0f][..]),
            (DataType::UInt4, &[15, 7, 0], &[0x7f, 0]),
            (DataType::Int2, &[-2, 1, 0, -1, 1], &[0b1100_0110, 1]),
        ] {
            let mut bytes = [0xff; 2];
            pack(data_type, values.iter().copied(), &mut bytes);
            assert_eq!(bytes, expected, "{data_type}");
            assert_eq!(unpack(data_type, &bytes, values.len()).unwrap(), values, "{data_type}");
        }
        assert_eq!(unpack(DataType::Int4, &[0x21], 9).unwrap(), [1, 2]);
        assert_eq!(unpack(DataType::Int8, &[1], 1), None);
    }
}
