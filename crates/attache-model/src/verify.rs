//! What the generated code calls to verify tables.

use flatbuffers::{InvalidFlatbuffer, Verifier};

/// Verifies a table whose fields are all numbers: that those that it has are within the file and aligned. Fields are in
/// the order of the schema, with their names, separated by spaces, and their sizes in bytes.
pub(crate) fn verify_numbers(
    verifier: &mut Verifier<'_, '_>,
    position: usize,
    names: &'static str,
    sizes: &[u8],
) -> Result<(), InvalidFlatbuffer> {
    let mut table = verifier.visit_table(position)?;
    for (index, (name, size)) in names.split(' ').zip(sizes).enumerate() {
        // Two sizes come first in a table of offsets (vtable), each of two bytes as the offsets are.
        let offset = u16::try_from(4 + 2 * index).expect("few fields");
        table = match size {
            1 => table.visit_field::<u8>(name, offset, false)?,
            2 => table.visit_field::<u16>(name, offset, false)?,
            4 => table.visit_field::<u32>(name, offset, false)?,
            _ => table.visit_field::<u64>(name, offset, false)?,
        };
    }
    table.finish();
    Ok(())
}

/// Verifies a table of numbers, as [`verify_numbers`], whose offset is at `position`.
pub(crate) fn verify_numbers_at(
    verifier: &mut Verifier<'_, '_>,
    position: usize,
    names: &'static str,
    sizes: &[u8],
) -> Result<(), InvalidFlatbuffer> {
    let offset = verifier.get_uoffset(position)? as usize;
    verify_numbers(verifier, position.saturating_add(offset), names, sizes)
}
