//! Makes the verification code that `flatc` generates smaller.
//!
//! The code checks each field of each table in line, which makes a single function of over 100 KB of it. Most tables
//! have nothing but numbers, which a list of names and sizes describes.

use std::collections::BTreeMap;

/// Replaces the checks of tables of numbers, whose fields follow each other, by calls of `verify_numbers`, also where a
/// union has one.
pub(crate) fn compact(code: &str) -> String {
    const BEGIN: &str = "    v.visit_table(pos)?\n";
    const END: &str = "     .finish();\n    Ok(())\n";
    let mut tables = BTreeMap::new();
    let mut pieces = code.split(BEGIN);
    let mut compacted = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let table = code_before(code, piece).rsplit("::flatbuffers::Verifiable for ").next();
        let table = table.and_then(|text| text.split('<').next()).unwrap_or_default();
        let found = piece.split_once(END).and_then(|(fields, rest)| Some((Numbers::of(code, table, fields)?, rest)));
        match found {
            Some((numbers, rest)) => {
                let list = numbers.list();
                compacted.extend(["    crate::verify_numbers(v, pos, ", &list, ")\n", rest]);
                tables.insert(table, list);
            }
            None => compacted.extend([BEGIN, piece]),
        }
    }
    compacted.split_inclusive('\n').map(|line| of_union(line, &tables)).collect()
}

/// Returns the code before a piece of it.
fn code_before<'a>(code: &'a str, piece: &str) -> &'a str {
    &code[..piece.as_ptr().addr() - code.as_ptr().addr()]
}

/// Returns a line, or what replaces it if it checks a table of numbers that a union has.
fn of_union(line: &str, tables: &BTreeMap<&str, String>) -> String {
    const CALL: &str = " => v.verify_union_variant::<::flatbuffers::ForwardsUOffset<";
    let parts = line.split_once(CALL).and_then(|(key, rest)| Some((key, tables.get(rest.split_once('>')?.0)?)));
    parts.map_or(line.to_owned(), |(key, list)| format!("{key} => crate::verify_numbers_at(v, pos, {list}),\n"))
}

/// The fields of a table of numbers.
struct Numbers<'a> {
    names: Vec<&'a str>,
    /// Their sizes in bytes.
    sizes: Vec<u8>,
}

impl<'a> Numbers<'a> {
    /// Returns the fields that `lines` check; `None` if the table has others, or its fields do not follow each other.
    fn of(code: &str, table: &str, lines: &'a str) -> Option<Self> {
        let mut numbers = Self { names: Vec::new(), sizes: Vec::new() };
        for line in lines.lines() {
            let (kind, rest) = line.trim().strip_prefix(".visit_field::<")?.split_once(">(\"")?;
            let (name, _) = rest.split_once('"')?;
            numbers.sizes.push(size(code, kind)?);
            numbers.names.push(name);
            let place = 2 + 2 * numbers.names.len();
            let begin = code.find(&format!("impl<'a> {table}<'a> {{"))?;
            let constant = format!("VT_{}: ::flatbuffers::VOffsetT = {place};", name.to_uppercase());
            let body = &code[begin..];
            body[..body.find("\n}\n")?].contains(&constant).then_some(())?;
        }
        lines.lines().all(|line| line.ends_with(", false)?")).then_some(numbers)
    }

    /// Returns the last two arguments of `verify_numbers`.
    fn list(&self) -> String {
        let sizes: Vec<_> = self.sizes.iter().map(u8::to_string).collect();
        format!("\"{}\", &[{}]", self.names.join(" "), sizes.join(", "))
    }
}

/// Returns the size in bytes of a number or an enumeration; `None` of other types.
fn size(code: &str, kind: &str) -> Option<u8> {
    match kind {
        "bool" | "i8" | "u8" => Some(1),
        "i16" | "u16" => Some(2),
        "i32" | "u32" | "f32" => Some(4),
        "i64" | "u64" | "f64" => Some(8),
        _ => {
            let begin = code.find(&format!("::flatbuffers::Verifiable for {kind} {{"))?;
            let (before, _) = code[begin..].split_once("::run_verifier(v, pos)")?;
            size("", before.rsplit(' ').next()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = r#"
impl ::flatbuffers::Verifiable for Padding {
    i8::run_verifier(v, pos)
}
impl<'a> Window<'a> {
  pub const VT_PADDING: ::flatbuffers::VOffsetT = 4;
  pub const VT_STRIDE: ::flatbuffers::VOffsetT = 6;
}
impl ::flatbuffers::Verifiable for Window<'_> {
    v.visit_table(pos)?
     .visit_field::<Padding>("padding", Self::VT_PADDING, false)?
     .visit_field::<i32>("stride", Self::VT_STRIDE, false)?
     .finish();
    Ok(())
  }
}
          Options::Window => v.verify_union_variant::<::flatbuffers::ForwardsUOffset<Window>>("Options::Window", pos),
"#;

    #[test]
    fn tables_of_numbers_are_lists() {
        let text = compact(CODE);
        assert!(text.contains("    crate::verify_numbers(v, pos, \"padding stride\", &[1, 4])\n  }\n}"), "{text}");
        assert!(text.contains("Window => crate::verify_numbers_at(v, pos, \"padding stride\", &[1, 4]),\n"), "{text}");
        assert!(!text.contains("visit_table") && !text.contains("variant"), "{text}");
    }

    #[test]
    fn other_tables_stay() {
        for (before, after) in [("i32>", "::flatbuffers::ForwardsUOffset<&str>>"), ("= 6", "= 8"), ("false", "true")] {
            let code = CODE.replace(before, after);
            assert_eq!(compact(&code), code);
        }
    }
}
