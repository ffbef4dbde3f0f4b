//! How the commands of a run are divided where memory of the caller's is bound: the steps that use it are recorded apart,
//! so that other memory is bound by recording only these again.

use std::ops::Range;

/// Consecutive steps of a run that are recorded together. Step 0 comes before the dispatches, step `n + 1` after the `n`
/// dispatches, and the steps between are the dispatches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) steps: Range<usize>,
    /// Whether the steps use memory of the caller's.
    pub(super) is_variable: bool,
}

/// Number of steps up to which it is faster to record them again when other memory is bound than to record them apart.
const FEW: usize = 16;

/// Divides the steps of a run with this many dispatches. `is_variable` tells which steps use memory of the caller's; the
/// last step has no commands unless it does.
pub(super) fn pieces(dispatches: usize, is_variable: impl Fn(usize) -> bool) -> Vec<Piece> {
    let steps = if is_variable(dispatches + 1) { dispatches + 2 } else { dispatches + 1 };
    let mut pieces: Vec<Piece> = Vec::new();
    for step in 0..steps {
        // What comes before the dispatches is recorded with the first one.
        let is_variable = is_variable(step) || step == 0 && dispatches > 0 && is_variable(1);
        match pieces.last_mut().filter(|last| last.is_variable == is_variable) {
            Some(last) => last.steps.end += 1,
            None => pieces.push(Piece { steps: step..step + 1, is_variable }),
        }
    }
    merged(&pieces)
}

/// Returns the pieces with those of few steps between steps that vary merged with these: recording a few steps again takes less
/// time than what a device needs, in every run, to go from one command buffer to the next.
fn merged(pieces: &[Piece]) -> Vec<Piece> {
    let mut merged: Vec<Piece> = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let is_between = index > 0 && index + 1 < pieces.len();
        let is_few = !piece.is_variable && is_between && piece.steps.len() <= FEW;
        match merged.last_mut().filter(|last| last.is_variable && (piece.is_variable || is_few)) {
            Some(last) => last.steps.end = piece.steps.end,
            None => merged.push(piece.clone()),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pieces of a run as ranges of steps, with a mark for those that vary.
    fn ranges(dispatches: usize, variable: &[usize]) -> Vec<(Range<usize>, bool)> {
        let pieces = pieces(dispatches, |step| variable.contains(&step));
        pieces.into_iter().map(|piece| (piece.steps, piece.is_variable)).collect()
    }

    #[test]
    fn steps_that_use_bound_memory_are_apart() {
        assert_eq!(ranges(5, &[]), [(0..6, false)]);
        assert_eq!(ranges(5, &[1]), [(0..2, true), (2..6, false)]);
        assert_eq!(ranges(5, &[3]), [(0..3, false), (3..4, true), (4..6, false)]);
        let end = FEW + 3;
        assert_eq!(ranges(end, &[1, end]), [(0..2, true), (2..end, false), (end..end + 1, true)]);
        assert_eq!(ranges(end, &[0, end + 1]), [(0..1, true), (1..end + 1, false), (end + 1..end + 2, true)]);
    }

    #[test]
    fn few_steps_between_others_are_recorded_with_them() {
        assert_eq!(ranges(5, &[1, 5, 6]), [(0..7, true)]);
        assert_eq!(ranges(5, &[2, 4]), [(0..2, false), (2..5, true), (5..6, false)]);
        let end = FEW + 2;
        assert_eq!(ranges(end, &[1, end]), [(0..end + 1, true)]);
    }

    #[test]
    fn a_run_without_dispatches_has_pieces() {
        assert_eq!(pieces(0, |_| false), [Piece { steps: 0..1, is_variable: false }]);
        assert_eq!(pieces(0, |step| step == 1).len(), 2);
    }
}
