//! Counter-based generators of random bits. Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3".

/// Returns four words of the generator Philox 4×32 with 10 rounds, for a counter and a key; word 0 is the lowest.
pub(crate) fn philox(counter: u128, key: u64) -> [u32; 4] {
    let mut words = [0, 32, 64, 96].map(|shift| (counter >> shift) as u32);
    let mut key = [key as u32, (key >> 32) as u32];
    for _ in 0..10 {
        let [first, second] = [(0xd251_1f53u64, words[0]), (0xcd9e_8d57, words[2])].map(|(a, b)| a * u64::from(b));
        words = [
            (second >> 32) as u32 ^ words[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ words[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    words
}

/// Returns two words of the generator Threefry 2×32 with 20 rounds, for a counter and a key; word 0 is the lower one.
pub(crate) fn threefry(counter: u64, key: u64) -> [u32; 2] {
    let [low, high] = [key as u32, (key >> 32) as u32];
    let keys = [low, high, low ^ high ^ 0x1bd1_1bda];
    let mut words = [(counter as u32).wrapping_add(low), ((counter >> 32) as u32).wrapping_add(high)];
    for round in 0..5u32 {
        for bits in [[13, 15, 26, 6], [17, 29, 16, 24]][round as usize % 2] {
            words[0] = words[0].wrapping_add(words[1]);
            words[1] = words[1].rotate_left(bits) ^ words[0];
        }
        words[0] = words[0].wrapping_add(keys[(round as usize + 1) % 3]);
        words[1] = words[1].wrapping_add(keys[(round as usize + 2) % 3]).wrapping_add(round + 1);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the authors' library for counters and keys of zeros and ones.
    #[test]
    fn known_answers() {
        assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox(u128::MAX, u64::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(threefry(0, 0), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry(u64::MAX, u64::MAX), [0x1cb9_96fc, 0xbb00_2be7]);
    }
}
