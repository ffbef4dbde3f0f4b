//! Checks whether an adapter can run this crate's shaders. The checks use the properties that the adapter
//! reports, before any object is created on it.
//!
//! The version of an OpenGL context is checked separately: an OpenGL 3.3 context may list compute shaders as
//! an extension (with NVIDIA's driver it does if wgpu requests that version), although its shading language
//! is too old for the shaders.

/// Minimum number of storage buffers that an adapter must let one shader bind.
const STORAGE_BUFFERS: u32 = 4;

/// Minimum number of invocations that an adapter must allow in a work group.
const INVOCATIONS: u32 = 128;

/// Minimum bytes of work-group memory that an adapter must have.
const WORK_GROUP_BYTES: u32 = 16384;

/// The first version of OpenGL, major and minor, whose shading language has everything that compute shaders
/// need.
const DESKTOP: (u32, u32) = (4, 2);
/// The first version of OpenGL ES, major and minor, whose shading language has everything that compute
/// shaders need.
const EMBEDDED: (u32, u32) = (3, 1);

/// The properties of an adapter that decide whether shaders can run on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities<'a> {
    pub(crate) computes: bool,
    /// The driver's version string if the graphics API is OpenGL; otherwise `None`.
    pub(crate) open_gl: Option<&'a str>,
    pub(crate) storage_buffers: u32,
    pub(crate) invocations: u32,
    pub(crate) work_group_bytes: u32,
}

impl Abilities<'_> {
    /// Returns the reason why shaders cannot run on the adapter; `None` if they can.
    pub(crate) fn lack(&self) -> Option<String> {
        if let Some(text) = self.open_gl.and_then(outdated) {
            return Some(text);
        }
        if !self.computes {
            return Some("it has no compute shaders".to_owned());
        }
        let needs = [
            ("storage buffers of a shader", self.storage_buffers, STORAGE_BUFFERS),
            ("invocations of a work group", self.invocations, INVOCATIONS),
            ("bytes of memory of a work group", self.work_group_bytes, WORK_GROUP_BYTES),
        ];
        let missing = needs.iter().find(|(_, has, least)| has < least);
        missing.map(|(what, has, least)| format!("it has {has} {what}, of at least {least}"))
    }
}

/// Returns the reason why an OpenGL context with this version string has no usable compute shaders; `None` if
/// it has them, or if the string cannot be parsed.
fn outdated(version: &str) -> Option<String> {
    let embedded = version.find("OpenGL ES").map(|at| &version[at + "OpenGL ES".len()..]);
    let (name, least, text) = match embedded {
        Some(text) => ("OpenGL ES", EMBEDDED, text),
        None => ("OpenGL", DESKTOP, version),
    };
    let found @ (major, minor) = numbers(text)?;
    (found < least)
        .then(|| format!("its context speaks {name} {major}.{minor}, and compute shaders need {}.{}", least.0, least.1))
}

/// Returns the major and the minor version: the first integer of the text, and the integer after the dot that
/// follows. `None` if the text has no such integers.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let (major, rest) = text[start..].split_once('.')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((major.parse().ok()?, rest[..end].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The properties of a desktop adapter.
    const GOOD: Abilities<'_> =
        Abilities { computes: true, open_gl: None, storage_buffers: 16, invocations: 1024, work_group_bytes: 49152 };

    #[test]
    fn contexts_without_compute_shaders_are_told_by_their_version() {
        let lack = |version| Abilities { open_gl: Some(version), ..GOOD }.lack();
        for version in [
            "4.6.0 NVIDIA 550.54.15",
            "4.5 (Core Profile) Mesa 22.3.6",
            "OpenGL ES 3.2 NVIDIA 550.54.15",
            "OpenGL ES 3.1 Mesa 22.3.6",
            "OpenGL ES 3.2 v1.r32p1-01eac0",
            "OpenGL ES 3.2.0 (ANGLE 2.1)",
            "something else",
        ] {
            assert_eq!(lack(version), None, "{version}");
        }
        let reason = |version| lack(version).unwrap();
        let old = "its context speaks OpenGL 3.3, and compute shaders need 4.2";
        assert_eq!(reason("3.3.0 NVIDIA 550.54.15"), old);
        assert_eq!(reason("3.3 (Core Profile) Mesa 22.3.6"), old);
        let old = "its context speaks OpenGL ES 3.0, and compute shaders need 3.1";
        assert_eq!(reason("OpenGL ES 3.0 Mesa 22.3.6"), old);
        assert!(reason("4.1 INTEL-20.2.48").contains("OpenGL 4.1"));
    }

    #[test]
    fn what_every_shader_needs_has_to_be_there() {
        assert_eq!(GOOD.lack(), None);
        let cases = [
            (Abilities { computes: false, ..GOOD }, "no compute shaders"),
            (Abilities { storage_buffers: 3, ..GOOD }, "3 storage buffers of a shader, of at least 4"),
            (Abilities { invocations: 64, ..GOOD }, "64 invocations"),
            (Abilities { work_group_bytes: 0, ..GOOD }, "0 bytes of memory"),
        ];
        for (abilities, reason) in cases {
            let told = abilities.lack().unwrap();
            assert!(told.contains(reason), "{told}");
        }
    }
}
