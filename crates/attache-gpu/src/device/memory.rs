//! Chooses Vulkan memory types for the uses of a buffer, and computes the range to invalidate before the host
//! reads memory that is not coherent. Both depend only on the limits and the table of memory types that the
//! device reports.

use std::ops::Range;

use ash::vk;
use vk::MemoryPropertyFlags as Flags;

/// How the host and the device use a memory allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Accessed by the device only. In device-local memory if possible.
    Device,
    /// Written by the host and read by the device. In device-local memory if the host can access that.
    Write,
    /// Written by the device and read by the host. Cached, since reading uncached memory is many times slower for a
    /// host. If no cached memory is coherent, the host has to invalidate the range before it reads.
    Read,
}

/// A Vulkan memory type that is suitable for a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The index of the memory type in the device's table of memory types.
    pub(crate) index: u32,
    /// Whether the host sees the device's writes to this memory without invalidating a range of it first.
    pub(crate) is_coherent: bool,
}

impl Use {
    /// Returns the sets of memory properties that are acceptable for this use, the preferred set first. Every
    /// device has a memory type with the last set of each list, so memory that the host writes is always
    /// coherent.
    fn properties(self) -> Vec<Flags> {
        let coherent = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let cached = Flags::HOST_VISIBLE | Flags::HOST_CACHED;
        match self {
            Use::Device => vec![Flags::DEVICE_LOCAL, Flags::empty()],
            Use::Write => vec![coherent | Flags::DEVICE_LOCAL, coherent],
            Use::Read => vec![coherent | cached, cached, coherent],
        }
    }

    /// Returns the memory types to try for this use, the preferred type first. `types` is the device's table
    /// of memory types; type `i` may be used only if bit `i` of `allowed` is set.
    pub(crate) fn kinds(self, types: &[vk::MemoryType], allowed: u32) -> Vec<Kind> {
        // Memory types with these properties require features that are not enabled, or cannot back buffers.
        let special = Flags::PROTECTED
            | Flags::LAZILY_ALLOCATED
            | Flags::DEVICE_COHERENT_AMD
            | Flags::DEVICE_UNCACHED_AMD
            | Flags::RDMA_CAPABLE_NV;
        let usable = |index: usize, flags: Flags| allowed >> index & 1 == 1 && !flags.intersects(special);
        let mut kinds: Vec<Kind> = Vec::new();
        for wanted in self.properties() {
            let fits = |(index, kind): &(usize, &vk::MemoryType)| {
                usable(*index, kind.property_flags) && kind.property_flags.contains(wanted)
            };
            if let Some((index, kind)) = types.iter().enumerate().find(fits) {
                let is_coherent = kind.property_flags.contains(Flags::HOST_COHERENT);
                kinds.push(Kind { index: index as u32, is_coherent });
            }
        }
        kinds.dedup();
        kinds
    }
}

/// Returns the offset and size in bytes of the memory to invalidate before the host reads `range`: the range
/// extended to multiples of `atom` bytes, or to the end of the allocation of `allocated` bytes.
pub(crate) fn atoms(range: Range<usize>, atom: u64, allocated: u64) -> (u64, u64) {
    let atom = atom.max(1);
    let start = range.start as u64 / atom * atom;
    let end = (range.end as u64).div_ceil(atom) * atom;
    (start, if end >= allocated { vk::WHOLE_SIZE } else { end - start })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Flags = Flags::DEVICE_LOCAL;
    const VISIBLE: Flags = Flags::HOST_VISIBLE;
    const COHERENT: Flags = Flags::HOST_COHERENT;
    const CACHED: Flags = Flags::HOST_CACHED;

    /// Returns the memory types to try for a use, as indices into `table`, each with whether it is coherent.
    fn kinds(table: &[&[Flags]], purpose: Use) -> Vec<(u32, bool)> {
        let flags = |parts: &&[Flags]| parts.iter().fold(Flags::empty(), |all, part| all | *part);
        let types: Vec<vk::MemoryType> =
            table.iter().map(|parts| vk::MemoryType { property_flags: flags(parts), heap_index: 0 }).collect();
        purpose.kinds(&types, u32::MAX).iter().map(|kind| (kind.index, kind.is_coherent)).collect()
    }

    #[test]
    fn each_device_gets_what_serves_it_best() {
        // Tables as reported by drivers, with only the relevant properties.
        let nvidia: &[&[Flags]] =
            &[&[], &[LOCAL], &[VISIBLE, COHERENT], &[VISIBLE, COHERENT, CACHED], &[LOCAL, VISIBLE, COHERENT]];
        let amd: &[&[Flags]] = &[
            &[LOCAL],
            &[VISIBLE, COHERENT],
            &[LOCAL, VISIBLE, COHERENT],
            &[VISIBLE, COHERENT, CACHED],
            &[LOCAL, Flags::DEVICE_COHERENT_AMD, Flags::DEVICE_UNCACHED_AMD],
            &[VISIBLE, COHERENT, CACHED, Flags::DEVICE_COHERENT_AMD, Flags::DEVICE_UNCACHED_AMD],
        ];
        let intel: &[&[Flags]] = &[&[LOCAL, VISIBLE, COHERENT], &[LOCAL, VISIBLE, COHERENT, CACHED]];
        // Intel Atom, and Mali and Adreno with older drivers: cached memory is not coherent.
        let mali: &[&[Flags]] =
            &[&[LOCAL, VISIBLE, COHERENT], &[LOCAL, VISIBLE, CACHED], &[LOCAL, Flags::LAZILY_ALLOCATED]];
        let adreno: &[&[Flags]] =
            &[&[LOCAL], &[LOCAL, VISIBLE, COHERENT], &[LOCAL, VISIBLE, CACHED], &[LOCAL, Flags::PROTECTED]];
        let software: &[&[Flags]] = &[&[LOCAL, VISIBLE, COHERENT, CACHED]];
        let plain: &[&[Flags]] = &[&[LOCAL], &[VISIBLE, COHERENT]];

        assert_eq!(kinds(nvidia, Use::Device), [(1, false), (0, false)]);
        assert_eq!(kinds(nvidia, Use::Write), [(4, true), (2, true)]);
        assert_eq!(kinds(nvidia, Use::Read)[0], (3, true));
        assert_eq!(kinds(amd, Use::Device)[0], (0, false));
        assert_eq!(kinds(amd, Use::Write)[0], (2, true));
        assert_eq!(kinds(amd, Use::Read)[0], (3, true));
        assert_eq!(kinds(intel, Use::Write)[0], (0, true));
        assert_eq!(kinds(intel, Use::Read)[0], (1, true));
        assert_eq!(kinds(mali, Use::Read), [(1, false), (0, true)], "cached before coherent");
        assert_eq!(kinds(mali, Use::Write), [(0, true)]);
        assert_eq!(kinds(adreno, Use::Read), [(2, false), (1, true)]);
        assert_eq!(kinds(adreno, Use::Device), [(0, false)]);
        for purpose in [Use::Device, Use::Write, Use::Read] {
            assert_eq!(kinds(software, purpose), [(0, true)]);
        }
        assert_eq!(kinds(plain, Use::Read), [(1, true)], "coherent memory is acceptable without being cached");
    }

    #[test]
    fn a_buffer_may_not_lie_everywhere() {
        let flags = [LOCAL | VISIBLE | COHERENT, VISIBLE | COHERENT | CACHED];
        let types = flags.map(|property_flags| vk::MemoryType { property_flags, heap_index: 0 });
        let kind = Kind { index: 0, is_coherent: true };
        assert_eq!(Use::Read.kinds(&types, 0b01), [kind]);
        assert_eq!(Use::Read.kinds(&types, 0), []);
    }

    #[test]
    fn whole_atoms_are_asked_for() {
        assert_eq!(atoms(0..4, 64, 4096), (0, 64));
        assert_eq!(atoms(100..200, 64, 4096), (64, 192));
        assert_eq!(atoms(128..192, 64, 4096), (128, 64));
        assert_eq!(atoms(4000..4090, 64, 4090), (3968, vk::WHOLE_SIZE), "the last atom is cut short");
        assert_eq!(atoms(4032..4096, 64, 4096), (4032, vk::WHOLE_SIZE));
        assert_eq!(atoms(7..9, 0, 4096), (7, 2));
    }
}
