//! What the generated code calls to verify tables.

use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, TableVerifier, Vector, Verifiable, Verifier};

/// A number of 64 bits. Some writers align no more than 32 bits, which other runtimes accept, and nothing here reads these
/// numbers in place.
pub(crate) struct Long;

impl Verifiable for Long {
    fn run_verifier(verifier: &mut Verifier<'_, '_>, position: usize) -> Result<(), InvalidFlatbuffer> {
        verifier.range_in_buffer(position, size_of::<u64>())
    }
}

/// A vector of [`Long`] numbers.
pub(crate) struct Longs;

impl Verifiable for Longs {
    fn run_verifier(verifier: &mut Verifier<'_, '_>, position: usize) -> Result<(), InvalidFlatbuffer> {
        let length = verifier.get_uoffset(position)? as usize;
        let first = position.saturating_add(size_of::<u32>());
        verifier.range_in_buffer(first, length.saturating_mul(size_of::<u64>()))
    }
}

/// Verifies a table whose fields are numbers, vectors of numbers and strings: that those that it has are within the file
/// and, up to 32 bits, aligned. `fields` lists them in the order of the schema, separated by spaces, each as `name:kind`. The kind is the
/// size of a number in bytes, `[` and the size of the numbers of a vector, or `text`.
pub(crate) fn verify_fields(
    verifier: &mut Verifier<'_, '_>,
    position: usize,
    fields: &'static str,
) -> Result<(), InvalidFlatbuffer> {
    let mut table = verifier.visit_table(position)?;
    for (index, field) in fields.split_ascii_whitespace().enumerate() {
        // Two sizes come first in a table of offsets (vtable), each of two bytes as the offsets are.
        let offset = u16::try_from(4 + 2 * index).expect("few fields");
        let (name, kind) = field.split_once(':').unwrap_or((field, "8"));
        table = match kind {
            "1" => visit::<u8>(table, name, offset)?,
            "2" => visit::<u16>(table, name, offset)?,
            "4" => visit::<u32>(table, name, offset)?,
            "[1" => visit::<ForwardsUOffset<Vector<'_, u8>>>(table, name, offset)?,
            "[2" => visit::<ForwardsUOffset<Vector<'_, u16>>>(table, name, offset)?,
            "[4" => visit::<ForwardsUOffset<Vector<'_, u32>>>(table, name, offset)?,
            "[8" => visit::<ForwardsUOffset<Longs>>(table, name, offset)?,
            "text" => visit::<ForwardsUOffset<&str>>(table, name, offset)?,
            _ => visit::<Long>(table, name, offset)?,
        };
    }
    table.finish();
    Ok(())
}

fn visit<'ver, 'opts, 'buf, T: Verifiable>(
    table: TableVerifier<'ver, 'opts, 'buf>,
    name: &'static str,
    offset: u16,
) -> Result<TableVerifier<'ver, 'opts, 'buf>, InvalidFlatbuffer> {
    table.visit_field::<T>(name, offset, false)
}

/// Verifies a table, as [`verify_fields`], whose offset is at `position`.
pub(crate) fn verify_fields_at(
    verifier: &mut Verifier<'_, '_>,
    position: usize,
    fields: &'static str,
) -> Result<(), InvalidFlatbuffer> {
    let offset = verifier.get_uoffset(position)? as usize;
    verify_fields(verifier, position.saturating_add(offset), fields)
}

#[cfg(test)]
mod tests {
    use flatbuffers::{FlatBufferBuilder, VerifierOptions};

    use super::*;

    #[test]
    fn only_listed_fields_are_checked() {
        let mut builder = FlatBufferBuilder::new();
        let axes = builder.create_vector(&[u64::MAX, 2]);
        let start = builder.start_table();
        builder.push_slot_always(4, 7u32);
        builder.push_slot_always(6, axes);
        let table = builder.end_table(start);
        builder.finish_minimal(table);
        let data = builder.finished_data();
        let check = |fields| {
            let options = VerifierOptions::default();
            verify_fields_at(&mut Verifier::new(&options, data), 0, fields).map_err(|error| error.to_string())
        };
        for fields in ["", "stride:4", "stride:4 axes:[8", "stride:4 axes:[8 name:text"] {
            check(fields).unwrap();
        }
        assert!(check("stride:text").unwrap_err().contains("stride"));
        assert!(check("stride:4 axes:text").unwrap_err().contains("axes"));
    }

    #[test]
    fn numbers_of_64_bits_need_the_alignment_of_32() {
        let options = VerifierOptions::default();
        let verify =
            |bytes: &[u8], position| Longs::run_verifier(&mut Verifier::new(&options, bytes), position).is_ok();
        for position in [0, 4] {
            let mut bytes = vec![0; position];
            bytes.extend(2_u32.to_le_bytes());
            bytes.extend([7; 16]);
            assert!(verify(&bytes, position));
            assert!(!verify(&bytes[..bytes.len() - 1], position));
        }
        assert!(!verify(&[0, 2, 0, 0, 0], 1), "the length is not aligned");
        assert!(!verify(&u32::MAX.to_le_bytes(), 0));
    }
}
