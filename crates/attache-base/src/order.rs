//! Sorting by keys ([`order_by`]), compiled once for all elements.

/// Returns the indices below `count` in ascending order of their keys, those of equal keys in ascending order.
pub fn order_by(count: usize, key: impl Fn(usize) -> (usize, usize)) -> Vec<usize> {
    sorted((0..count).map(|index| (key(index), index)).collect())
}

fn sorted(mut keys: Vec<((usize, usize), usize)>) -> Vec<usize> {
    keys.sort_unstable();
    keys.into_iter().map(|(_, index)| index).collect()
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
}
