//! Arena planner: assigns an offset in one memory block to each tensor, given the tensors' lifetimes.
//!
//! The CPU uses it for intermediate tensors, the GPU delegate for its memory banks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::order_by;

/// Number of lifetimes above which [`plan`] places them by [`place_in_time`], in near-linear time, instead of
/// by the quadratic greedy search. Networks have far fewer tensors.
const MANY: usize = 8192;

/// The memory requirement of one tensor: `size` bytes from step `first` to step `last`, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Size in bytes.
    pub size: usize,
    /// The step that writes the tensor.
    pub first: usize,
    /// The last step that reads the tensor, at least `first`.
    pub last: usize,
}

impl Lifetime {
    /// Whether the tensors of `self` and `other` are both live at some step, so that they must not share
    /// memory.
    fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// A memory layout, as computed by [`plan`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arena {
    /// Byte offset of each tensor in the memory block, in the order in which the lifetimes were passed to
    /// [`plan`].
    pub offsets: Vec<usize>,
    /// Size of the memory block in bytes. `usize::MAX` if it overflows; the offsets are meaningless then.
    pub size: usize,
}

/// Returns the first multiple of `alignment` at or after the end of a block of `size` bytes at `offset`, or
/// `usize::MAX` on overflow.
fn behind(offset: usize, size: usize, alignment: usize) -> usize {
    offset.saturating_add(size).checked_next_multiple_of(alignment).unwrap_or(usize::MAX)
}

/// Returns the maximum over all steps of the number of bytes that are live at that step. No layout can be
/// smaller.
#[must_use]
pub fn lower_bound(lifetimes: &[Lifetime]) -> usize {
    let mut ends = BinaryHeap::new();
    let (mut live, mut most) = (0u128, 0);
    for lifetime in time_order(lifetimes).into_iter().map(|index| &lifetimes[index]) {
        while let Some(&Reverse((last, size))) = ends.peek()
            && last < lifetime.first
        {
            ends.pop();
            live -= size as u128;
        }
        live += lifetime.size as u128;
        most = most.max(live);
        ends.push(Reverse((lifetime.last, lifetime.size)));
    }
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// Maximum number of pairs of lifetimes that [`improved`] compares over all orders that it tries after the
/// first one.
const MAX_PAIRS: usize = 4 << 20;

/// Maximum number of orders that [`improved`] tries after the first one.
const MAX_TRIES: usize = 64;

/// Assigns each lifetime a byte offset that is a multiple of `alignment`. Lifetimes that overlap in time
/// never overlap in memory.
///
/// Returns the smallest layout that greedy best-fit placement finds with three orders of the tensors: by
/// size, by breadth (the tensors of the step with the most live bytes first), and by first step. Each tensor
/// is placed into the smallest sufficient gap between the tensors that are live at the same time. Source:
/// Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020. While the layout of
/// an order is larger than [`lower_bound`], the placement is repeated with the tensor that ends at the
/// highest offset moved to the front of the order. More than 8192 lifetimes are placed in the order of their
/// first steps only, into free blocks that are neither split nor merged.
#[must_use]
pub fn plan(lifetimes: &[Lifetime], alignment: usize) -> Arena {
    if lifetimes.len() > MANY {
        return place_in_time(lifetimes, alignment);
    }
    let bound = lower_bound(lifetimes);
    let mut best = improved(lifetimes, alignment, bound, size_order(lifetimes));
    for order in [breadth_order, time_order] {
        if best.size > bound {
            let other = improved(lifetimes, alignment, bound, order(lifetimes));
            best = if other.size < best.size { other } else { best };
        }
    }
    best
}

/// Places the lifetimes in `order`, then repeatedly moves the tensor that ends at the highest offset to the
/// front of the order and places all of them again. Returns the smallest layout found; stops early at `bound`
/// bytes.
fn improved(lifetimes: &[Lifetime], alignment: usize, bound: usize, mut order: Vec<usize>) -> Arena {
    let mut best = place(lifetimes, alignment, &order);
    let mut last = best.clone();
    let pairs = lifetimes.len().saturating_mul(lifetimes.len()).max(1);
    for _ in 0..MAX_TRIES.min(MAX_PAIRS / pairs) {
        if best.size == bound {
            break;
        }
        let end = |index: &usize| last.offsets[*index].saturating_add(lifetimes[*index].size);
        let top = order.iter().position(|index| end(index) == last.size).unwrap_or(0);
        order[..=top].rotate_right(1);
        last = place(lifetimes, alignment, &order);
        if last.size < best.size {
            best = last.clone();
        }
    }
    best
}

/// Returns the indices of the lifetimes, largest size first.
fn size_order(lifetimes: &[Lifetime]) -> Vec<usize> {
    order_by(lifetimes.len(), |index| (usize::MAX - lifetimes[index].size, 0))
}

/// Returns the indices of the lifetimes, earliest first step first; largest size first among those of the
/// same first step.
fn time_order(lifetimes: &[Lifetime]) -> Vec<usize> {
    order_by(lifetimes.len(), |index| (lifetimes[index].first, usize::MAX - lifetimes[index].size))
}

/// Returns the indices of the lifetimes grouped by step: the lifetimes that are live at the step with the
/// most live bytes first, largest size first within each step.
fn breadth_order(lifetimes: &[Lifetime]) -> Vec<usize> {
    let is_live = |lifetime: &&Lifetime, step: usize| lifetime.first <= step && step <= lifetime.last;
    let sizes = |step: usize| lifetimes.iter().filter(move |l| is_live(l, step)).map(|l| l.size);
    let live = |step: usize| sizes(step).fold(0, usize::saturating_add);
    let mut steps: Vec<usize> = time_order(lifetimes).into_iter().map(|index| lifetimes[index].first).collect();
    steps.dedup();
    let by_size = order_by(steps.len(), |index| (usize::MAX - live(steps[index]), 0));
    let largest_first = size_order(lifetimes);
    let mut placed = vec![false; lifetimes.len()];
    let mut order = Vec::with_capacity(lifetimes.len());
    for step in by_size.into_iter().map(|index| steps[index]) {
        for &index in &largest_first {
            let lifetime = &lifetimes[index];
            if !placed[index] && lifetime.first <= step && step <= lifetime.last {
                placed[index] = true;
                order.push(index);
            }
        }
    }
    order
}

/// Places the lifetimes in `order` (indices into `lifetimes`), each into the smallest sufficient gap between
/// those that are live at the same time, or after the last of them.
fn place(lifetimes: &[Lifetime], alignment: usize, order: &[usize]) -> Arena {
    let mut arena = Arena { offsets: vec![0; lifetimes.len()], size: 0 };
    let mut placed: Vec<usize> = Vec::with_capacity(order.len()); // indices, sorted by offset
    for &index in order {
        let lifetime = &lifetimes[index];
        let (mut end, mut best) = (0usize, None::<(usize, usize)>);
        for &other in &placed {
            if !lifetimes[other].meets(lifetime) {
                continue;
            }
            let offset = arena.offsets[other];
            if offset >= end && offset - end >= lifetime.size && best.is_none_or(|(gap, _)| offset - end < gap) {
                best = Some((offset - end, end));
            }
            end = end.max(behind(offset, lifetimes[other].size, alignment));
        }
        let offset = best.map_or(end, |(_, offset)| offset);
        arena.offsets[index] = offset;
        arena.size = arena.size.max(offset.saturating_add(lifetime.size));
        let position = placed.partition_point(|&other| arena.offsets[other] <= offset);
        placed.insert(position, index);
    }
    arena
}

/// Places the lifetimes in order of their first step. Each takes the smallest free block that is large enough, or a new
/// block at the end. Blocks are neither split nor merged.
fn place_in_time(lifetimes: &[Lifetime], alignment: usize) -> Arena {
    let mut arena = Arena { offsets: vec![0; lifetimes.len()], size: 0 };
    let by_first = order_by(lifetimes.len(), |index| (lifetimes[index].first, 0));
    let mut free: BTreeMap<usize, Vec<usize>> = BTreeMap::new(); // offsets of free blocks, by block size
    let mut busy = BinaryHeap::new(); // last step, offset, size
    for index in by_first {
        let lifetime = &lifetimes[index];
        while let Some(&Reverse((last, offset, size))) = busy.peek()
            && last < lifetime.first
        {
            busy.pop();
            free.entry(size).or_default().push(offset);
        }
        let wanted = behind(0, lifetime.size, alignment);
        let block = free.range_mut(wanted..).find_map(|(&size, offsets)| Some((offsets.pop()?, size)));
        let (offset, size) = block.unwrap_or((behind(0, arena.size, alignment), wanted));
        if free.get(&size).is_some_and(Vec::is_empty) {
            free.remove(&size);
        }
        arena.offsets[index] = offset;
        arena.size = arena.size.max(offset.saturating_add(size));
        busy.push(Reverse((lifetime.last, offset, size)));
    }
    arena
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lifetimes: &[Lifetime]) -> Arena {
        check_places(lifetimes, place_in_time(lifetimes, 64));
        check_places(lifetimes, plan(lifetimes, 64))
    }

    fn check_places(lifetimes: &[Lifetime], arena: Arena) -> Arena {
        for (i, a) in lifetimes.iter().enumerate() {
            assert_eq!(arena.offsets[i] % 64, 0);
            assert!(arena.offsets[i] + a.size <= arena.size);
            for (j, b) in lifetimes.iter().enumerate().skip(i + 1) {
                let apart =
                    arena.offsets[i] + a.size <= arena.offsets[j] || arena.offsets[j] + b.size <= arena.offsets[i];
                assert!(!a.meets(b) || apart || a.size == 0 || b.size == 0, "{i} and {j} overlap: {arena:?}");
            }
        }
        arena
    }

    #[test]
    fn what_cannot_be_counted_takes_the_largest_number() {
        let half = Lifetime { size: usize::MAX / 2, first: 0, last: 1 };
        for size in [place_in_time(&[half; 3], 64).size, plan(&[half; 3], 64).size, lower_bound(&[half; 3])] {
            assert_eq!(size, usize::MAX);
        }
    }

    #[test]
    fn a_chain_needs_two_neighbours() {
        let chain: Vec<Lifetime> = (0..10).map(|i| Lifetime { size: 640, first: i, last: i + 1 }).collect();
        assert_eq!(check(&chain).size, 1280);
        assert_eq!(lower_bound(&chain), 1280);
    }

    #[test]
    fn what_lies_on_top_is_placed_first_in_the_next_try() {
        let life = |(size, first, last): (usize, usize, usize)| Lifetime { size: size * 64, first, last };
        let lives = [(5, 1, 1), (3, 1, 4), (4, 2, 3), (2, 2, 4)].map(life);
        for order in [size_order(&lives), breadth_order(&lives)] {
            assert!(place(&lives, 64, &order).size > lower_bound(&lives), "{order:?} would do");
        }
        assert_eq!(check(&lives).size, lower_bound(&lives));
    }

    #[test]
    fn random_lifetimes_never_overlap() {
        let mut state = 1u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for _ in 0..200 {
            let lifetimes: Vec<Lifetime> = (0..next(30) + 1)
                .map(|_| {
                    let first = next(20);
                    Lifetime { size: next(1000), first, last: first + next(6) }
                })
                .collect();
            let live = |step| lifetimes.iter().filter(|l| l.first <= step && step <= l.last).map(|l| l.size).sum();
            assert_eq!(lower_bound(&lifetimes), (0..30).map(live).max().unwrap());
            assert!(check(&lifetimes).size >= lower_bound(&lifetimes));
        }
    }
}
