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
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pieces of a run with five dispatches as ranges of steps, with a mark for those that vary.
    fn ranges(variable: &[usize]) -> Vec<(Range<usize>, bool)> {
        let pieces = pieces(5, |step| variable.contains(&step));
        pieces.into_iter().map(|piece| (piece.steps, piece.is_variable)).collect()
    }

    #[test]
    fn steps_that_use_bound_memory_are_apart() {
        assert_eq!(ranges(&[]), [(0..6, false)]);
        assert_eq!(ranges(&[1]), [(0..2, true), (2..6, false)]);
        assert_eq!(ranges(&[1, 5, 6]), [(0..2, true), (2..5, false), (5..7, true)]);
        assert_eq!(ranges(&[3]), [(0..3, false), (3..4, true), (4..6, false)]);
        assert_eq!(ranges(&[0, 6]), [(0..1, true), (1..6, false), (6..7, true)]);
    }

    #[test]
    fn a_run_without_dispatches_has_pieces() {
        assert_eq!(pieces(0, |_| false), [Piece { steps: 0..1, is_variable: false }]);
        assert_eq!(pieces(0, |step| step == 1).len(), 2);
    }
}
