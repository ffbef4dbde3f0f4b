//! Which dispatches need others to have ended: barriers stand there, and nowhere else.

use std::ops::Range;

/// A range of one of the recording's buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) buffer: usize,
    pub(super) range: Range<usize>,
}

/// Ranges that are noted between two barriers, lest looking through them takes long.
const MAX_NOTED: usize = 512;

/// What dispatches read and wrote since the last barrier.
#[derive(Default)]
pub(super) struct Hazards {
    read: Vec<Slice>,
    written: Vec<Slice>,
}

impl Hazards {
    /// Notes what a dispatch uses, and says whether a barrier must come before it. Of each use it is known whether it
    /// writes.
    pub(super) fn meet(&mut self, uses: &[(&Slice, bool)]) -> bool {
        let meets = |others: &[Slice], slice: &Slice| {
            let overlaps = |other: &Slice| other.range.start < slice.range.end && slice.range.start < other.range.end;
            others.iter().any(|other| other.buffer == slice.buffer && overlaps(other))
        };
        let conflict =
            |(slice, writes): &(&Slice, bool)| meets(&self.written, slice) || (*writes && meets(&self.read, slice));
        let is_full = self.read.len() + self.written.len() > MAX_NOTED;
        let is_needed = is_full || uses.iter().any(conflict);
        if is_needed {
            *self = Self::default();
        }
        for (slice, writes) in uses {
            (if *writes { &mut self.written } else { &mut self.read }).push((*slice).clone());
        }
        is_needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_stand_where_one_dispatch_needs_another() {
        let slice = |buffer, range| Slice { buffer, range };
        let (a, b, c) = (slice(0, 0..16), slice(0, 16..32), slice(1, 0..16));
        let mut hazards = Hazards::default();
        assert!(!hazards.meet(&[(&c, false), (&a, true)]));
        assert!(!hazards.meet(&[(&c, false), (&b, true)]), "neighbours don't overlap");
        assert!(hazards.meet(&[(&a, false), (&slice(1, 64..80), true)]), "read after write");
        assert!(hazards.meet(&[(&c, false), (&slice(0, 8..24), true)]), "write after read");
        assert!(hazards.meet(&[(&slice(0, 20..24), true)]), "write after write");
    }
}
