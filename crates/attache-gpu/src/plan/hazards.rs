//! Hazard tracking: decides before which dispatches of a plan a barrier is needed. A barrier is placed before
//! a dispatch if it depends on an earlier one, or if too many ranges were recorded since the last barrier.

use super::{BoundRange, BufferRange};

/// Number of ranges recorded since the last barrier above which another barrier is placed. It bounds the time
/// of the lookups, each of which compares all recorded ranges.
const MAX_RANGES: usize = 512;

/// The ranges that dispatches read and wrote since the last barrier.
#[derive(Default)]
pub(super) struct Hazards {
    read: Vec<BufferRange>,
    written: Vec<BufferRange>,
}

impl Hazards {
    /// Records the ranges that a dispatch binds, and returns whether the dispatch needs a barrier before it.
    pub(super) fn record(&mut self, bindings: &[BoundRange]) -> bool {
        let overlaps_any =
            |others: &[BufferRange], range: &BufferRange| others.iter().any(|other| other.overlaps(range));
        let conflict = |bound: &BoundRange| {
            overlaps_any(&self.written, &bound.range) || (bound.writes && overlaps_any(&self.read, &bound.range))
        };
        let is_full = self.read.len() + self.written.len() > MAX_RANGES;
        let is_needed = is_full || bindings.iter().any(conflict);
        if is_needed {
            *self = Self::default();
        }
        for BoundRange { range, writes } in bindings {
            (if *writes { &mut self.written } else { &mut self.read }).push(range.clone());
        }
        is_needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanBuffer;

    #[test]
    fn barriers_separate_dependent_dispatches() {
        let bound = |buffer, range: std::ops::Range<usize>, writes| {
            let range = BufferRange { buffer: PlanBuffer::Bank(buffer), offset: range.start, size: range.len() };
            BoundRange { range, writes }
        };
        let (a, b) = (|writes| bound(0, 0..16, writes), |writes| bound(0, 16..32, writes));
        let c = |writes| bound(1, 0..16, writes);
        let mut hazards = Hazards::default();
        assert!(!hazards.record(&[c(false), a(true)]));
        assert!(!hazards.record(&[c(false), b(true)]), "neighbours don't overlap");
        assert!(hazards.record(&[a(false), bound(1, 64..80, true)]), "read after write");
        assert!(hazards.record(&[c(false), bound(0, 8..24, true)]), "write after read");
        assert!(hazards.record(&[bound(0, 20..24, true)]), "write after write");
    }
}
