//! Which dispatches need others to have ended: barriers stand there, and nowhere else.

use super::{BoundRange, BufferRange};

/// Ranges that are noted between two barriers, lest looking through them takes long.
const MAX_NOTED: usize = 512;

/// What dispatches read and wrote since the last barrier.
#[derive(Default)]
pub(super) struct Hazards {
    read: Vec<BufferRange>,
    written: Vec<BufferRange>,
}

impl Hazards {
    /// Notes what a dispatch binds, and says whether a barrier must come before it.
    pub(super) fn meet(&mut self, bindings: &[BoundRange]) -> bool {
        let meets = |others: &[BufferRange], range: &BufferRange| others.iter().any(|other| other.overlaps(range));
        let conflict = |bound: &BoundRange| {
            meets(&self.written, &bound.range) || (bound.writes && meets(&self.read, &bound.range))
        };
        let is_full = self.read.len() + self.written.len() > MAX_NOTED;
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
    use crate::plan::Buffer;

    #[test]
    fn barriers_stand_where_one_dispatch_needs_another() {
        let bound = |buffer, range: std::ops::Range<usize>, writes| {
            let range = BufferRange { buffer: Buffer::Bank(buffer), offset: range.start, size: range.len() };
            BoundRange { range, writes }
        };
        let (a, b) = (|writes| bound(0, 0..16, writes), |writes| bound(0, 16..32, writes));
        let c = |writes| bound(1, 0..16, writes);
        let mut hazards = Hazards::default();
        assert!(!hazards.meet(&[c(false), a(true)]));
        assert!(!hazards.meet(&[c(false), b(true)]), "neighbours don't overlap");
        assert!(hazards.meet(&[a(false), bound(1, 64..80, true)]), "read after write");
        assert!(hazards.meet(&[c(false), bound(0, 8..24, true)]), "write after read");
        assert!(hazards.meet(&[bound(0, 20..24, true)]), "write after write");
    }
}
