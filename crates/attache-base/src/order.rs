//! Sorting by keys ([`order_by`], [`order_as_needed`]), compiled once for all elements.

/// Returns the indices below `count` in ascending order of their keys, those of equal keys in ascending order.
pub fn order_by(count: usize, key: impl Fn(usize) -> (usize, usize)) -> Vec<usize> {
    sorted((0..count).map(|index| (key(index), index)).collect())
}

fn sorted(mut keys: Vec<((usize, usize), usize)>) -> Vec<usize> {
    keys.sort_unstable();
    keys.into_iter().map(|(_, index)| index).collect()
}

/// Returns an iterator over the indices below `count` in ascending order of their keys, those of equal keys in ascending order.
/// It sorts as many as are taken, in portions of which each is as large as all before it: where few of many are taken, that
/// takes time proportional to `count`.
pub fn order_as_needed(count: usize, key: impl Fn(usize) -> u64) -> OrderAsNeeded {
    if cfg!(attache_small) {
        // The smallest libraries have one function that sorts.
        let order = order_by(count, |index| (key(index) as usize, 0));
        return OrderAsNeeded { keys: order.into_iter().map(|index| (0, index)).collect(), sorted: count, taken: 0 };
    }
    OrderAsNeeded { keys: (0..count).map(|index| (key(index), index)).collect(), sorted: 0, taken: 0 }
}

/// The iterator of [`order_as_needed`].
#[derive(Debug)]
pub struct OrderAsNeeded {
    /// The keys and their indices, of which the first `sorted` are in order.
    keys: Vec<(u64, usize)>,
    sorted: usize,
    taken: usize,
}

impl Iterator for OrderAsNeeded {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        const LEAST: usize = 64;
        if self.taken == self.sorted && !cfg!(attache_small) {
            let rest = &mut self.keys[self.sorted..];
            let portion = self.sorted.max(LEAST).min(rest.len());
            if portion < rest.len() {
                rest.select_nth_unstable(portion);
            }
            rest[..portion].sort_unstable();
            self.sorted += portion;
        }
        let (_, index) = *self.keys.get(self.taken)?;
        self.taken += 1;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_stay_in_order() {
        let keys = [(2, 0), (1, 9), (2, 0), (1, 3)];
        assert_eq!(order_by(4, |index| keys[index]), [3, 1, 0, 2]);
        assert!(order_by(0, |_| (0, 0)).is_empty());
    }

    #[test]
    fn what_is_taken_is_in_order() {
        let key = |index: usize| (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        for count in [0, 1, 63, 64, 65, 128, 129, 1000] {
            let whole = order_by(count, |index| (key(index) as usize, 0));
            assert_eq!(order_as_needed(count, key).collect::<Vec<_>>(), whole);
            assert_eq!(order_as_needed(count, key).take(70).collect::<Vec<_>>(), whole[..count.min(70)]);
        }
    }
}
