//! A hash of bytes that never changes: `Fingerprint64` of Google's FarmHash (the variant `farmhashna`), whose published
//! constants and steps it follows.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
/// The seed for more than 64 bytes.
const SEED: u64 = 81;

/// Returns the 64 bits at a place.
fn word(bytes: &[u8], place: usize) -> u64 {
    bytes[place..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// Returns the 32 bits at a place.
fn half(bytes: &[u8], place: usize) -> u64 {
    bytes[place..].first_chunk().map_or(0, |chunk| u32::from_le_bytes(*chunk).into())
}

fn fold(value: u64) -> u64 {
    value ^ (value >> 47)
}

fn mixed(first: u64, second: u64, factor: u64) -> u64 {
    let low = fold((first ^ second).wrapping_mul(factor));
    fold((second ^ low).wrapping_mul(factor)).wrapping_mul(factor)
}

/// Returns the factor that depends on the length.
fn factor_of(length: usize) -> u64 {
    K2.wrapping_add(2 * length as u64)
}

fn up_to_16(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let factor = factor_of(length);
    match length {
        8.. => {
            let first = word(bytes, 0).wrapping_add(K2);
            let last = word(bytes, length - 8);
            let low = last.rotate_right(37).wrapping_mul(factor).wrapping_add(first);
            mixed(low, first.rotate_right(25).wrapping_add(last).wrapping_mul(factor), factor)
        }
        4.. => mixed((length as u64).wrapping_add(half(bytes, 0) << 3), half(bytes, length - 4), factor),
        1.. => {
            let [first, middle, last] = [0, length / 2, length - 1].map(|place| u64::from(bytes[place]));
            let (low, high) = (first + (middle << 8), length as u64 + (last << 2));
            fold(low.wrapping_mul(K2) ^ high.wrapping_mul(K0)).wrapping_mul(K2)
        }
        0 => K2,
    }
}

/// Returns the sums in which the ends of 17 to 64 bytes take part.
fn ends(bytes: &[u8], first_factor: u64) -> (u64, u64, u64) {
    let (length, factor) = (bytes.len(), factor_of(bytes.len()));
    let (a, b) = (word(bytes, 0).wrapping_mul(first_factor), word(bytes, 8));
    let (c, d) = (word(bytes, length - 8).wrapping_mul(factor), word(bytes, length - 16).wrapping_mul(K2));
    let low = a.wrapping_add(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d);
    let high = a.wrapping_add(b.wrapping_add(K2).rotate_right(18)).wrapping_add(c);
    (low, high, factor)
}

fn up_to_32(bytes: &[u8]) -> u64 {
    let (low, high, factor) = ends(bytes, K1);
    mixed(low, high, factor)
}

fn up_to_64(bytes: &[u8]) -> u64 {
    let (low, high, factor) = ends(bytes, K2);
    let high = mixed(low, high, factor);
    let length = bytes.len();
    let (a, b) = (word(bytes, 16).wrapping_mul(factor), word(bytes, 24));
    let c = low.wrapping_add(word(bytes, length - 32)).wrapping_mul(factor);
    let d = high.wrapping_add(word(bytes, length - 24)).wrapping_mul(factor);
    let first = a.wrapping_add(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d);
    let second = a.wrapping_add(b.wrapping_add(word(bytes, 0).wrapping_mul(K2)).rotate_right(18)).wrapping_add(c);
    mixed(first, second, factor)
}

/// Mixes 32 bytes with two sums.
fn stirred(bytes: &[u8], first: u64, second: u64) -> [u64; 2] {
    let words: [u64; 4] = std::array::from_fn(|index| word(bytes, 8 * index));
    let first = first.wrapping_add(words[0]);
    let second = second.wrapping_add(first).wrapping_add(words[3]).rotate_right(21);
    let sum = first.wrapping_add(words[1]).wrapping_add(words[2]);
    [sum.wrapping_add(words[3]), second.wrapping_add(sum.rotate_right(44)).wrapping_add(first)]
}

/// The sums over 64 bytes at a time.
struct Sums {
    x: u64,
    y: u64,
    z: u64,
    v: [u64; 2],
    w: [u64; 2],
}

impl Sums {
    /// Adds 64 bytes. `nine` is 9 for the last ones and 1 for the others.
    fn add(&mut self, block: &[u8], factor: u64, nine: u64) {
        let Self { x, y, z, v, w } = self;
        *x = x.wrapping_add(*y).wrapping_add(v[0]).wrapping_add(word(block, 8)).rotate_right(37).wrapping_mul(factor);
        *y = y.wrapping_add(v[1]).wrapping_add(word(block, 48)).rotate_right(42).wrapping_mul(factor);
        *x ^= w[1].wrapping_mul(nine);
        *y = y.wrapping_add(v[0].wrapping_mul(nine)).wrapping_add(word(block, 40));
        *z = z.wrapping_add(w[0]).rotate_right(33).wrapping_mul(factor);
        *v = stirred(block, v[1].wrapping_mul(factor), x.wrapping_add(w[0]));
        *w = stirred(&block[32..], z.wrapping_add(w[1]), y.wrapping_add(word(block, 16)));
        std::mem::swap(z, x);
    }
}

fn beyond_64(bytes: &[u8]) -> u64 {
    let y = SEED.wrapping_mul(K1).wrapping_add(113);
    let z = fold(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2);
    let x = SEED.wrapping_mul(K2).wrapping_add(word(bytes, 0));
    let mut sums = Sums { x, y, z, v: [0; 2], w: [0; 2] };
    let length = bytes.len();
    for block in bytes[..(length - 1) / 64 * 64].chunks_exact(64) {
        sums.add(block, K1, 1);
    }
    let factor = K1.wrapping_add((sums.z & 0xff) << 1);
    sums.w[0] = sums.w[0].wrapping_add((length as u64 - 1) & 63);
    sums.v[0] = sums.v[0].wrapping_add(sums.w[0]);
    sums.w[0] = sums.w[0].wrapping_add(sums.v[0]);
    sums.add(&bytes[length - 64..], factor, 9);
    let Sums { x, y, z, v, w } = sums;
    let first = mixed(v[0], w[0], factor).wrapping_add(fold(y).wrapping_mul(K0)).wrapping_add(z);
    mixed(first, mixed(v[1], w[1], factor).wrapping_add(x), factor)
}

/// Returns the fingerprint of bytes.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    match bytes.len() {
        0..=16 => up_to_16(bytes),
        17..=32 => up_to_32(bytes),
        33..=64 => up_to_64(bytes),
        _ => beyond_64(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_a_known_fingerprint() {
        assert_eq!(fingerprint(b""), K2);
    }

    #[test]
    fn every_byte_counts() {
        for length in [1, 3, 4, 7, 8, 16, 17, 32, 33, 64, 65, 127, 128, 129, 200] {
            let mut bytes = vec![0; length];
            let zeros = fingerprint(&bytes);
            for place in 0..length {
                bytes[place] = 1;
                assert_ne!(fingerprint(&bytes), zeros, "byte {place} of {length}");
                bytes[place] = 0;
            }
        }
    }
}
