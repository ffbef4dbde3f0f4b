//! Makes the verification code that `flatc` generates smaller.
//!
//! The code checks each field of each table in line, which makes a single function of over 100 KB of it. Most tables
//! have nothing but numbers, vectors of numbers and strings, which a list of names and kinds describes. Numbers of 64 bits
//! are checked by types of `attache-model`, which want less alignment.

use std::collections::BTreeMap;

/// Replaces the checks of tables of such fields, which follow each other, by calls of `verify_fields`, also where a
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
        let found = piece.split_once(END).and_then(|(fields, rest)| Some((list(code, table, fields)?, rest)));
        match found {
            Some((list, rest)) => {
                compacted.extend(["    crate::verify_fields(v, pos, ", &list, ")\n", rest]);
                tables.insert(table, list);
            }
            None => compacted.extend([BEGIN, piece]),
        }
    }
    longs(&unions(&compacted, &tables))
}

/// Replaces the types by which numbers of 64 bits are checked, alone and in vectors.
fn longs(code: &str) -> String {
    let mut text = code.to_owned();
    for number in ["i64", "u64", "f64"] {
        let vector = format!(".visit_field::<::flatbuffers::ForwardsUOffset<::flatbuffers::Vector<'_, {number}>>>(");
        text = text.replace(&vector, ".visit_field::<::flatbuffers::ForwardsUOffset<crate::Longs>>(");
        text = text.replace(&format!(".visit_field::<{number}>("), ".visit_field::<crate::Long>(");
    }
    text
}

/// Returns the code before a piece of it.
fn code_before<'a>(code: &'a str, piece: &str) -> &'a str {
    &code[..piece.as_ptr().addr() - code.as_ptr().addr()]
}

/// Lists the tables that a union may have, instead of a call for each. Those that are not lists stay.
fn unions(code: &str, tables: &BTreeMap<&str, String>) -> String {
    const CALL: &str = " => v.verify_union_variant::<::flatbuffers::ForwardsUOffset<";
    const REST: &str = "          _ => Ok(()),\n";
    let (mut text, mut lists) = (String::new(), Vec::new());
    for line in code.split_inclusive('\n') {
        let parts = line.split_once(CALL).and_then(|(key, rest)| Some((key, tables.get(rest.split_once('>')?.0)?)));
        match parts {
            Some((key, list)) => lists.push(format!("  {key} => {list},\n")),
            None if line == REST && !lists.is_empty() => {
                let list = std::mem::take(&mut lists).concat();
                text += "          _ => crate::verify_fields_at(v, pos, match key {\n";
                text.extend([list.as_str(), "            _ => return Ok(()),\n          }),\n"]);
            }
            None => text += line,
        }
    }
    text
}

/// Returns the last argument of `verify_fields` for the fields that `lines` check; `None` if the table has others, or its
/// fields do not follow each other.
fn list(code: &str, table: &str, lines: &str) -> Option<String> {
    let mut fields = Vec::new();
    for line in lines.lines() {
        let (of, rest) = line.trim().strip_prefix(".visit_field::<")?.split_once(">(\"")?;
        let (name, _) = rest.split_once('"')?;
        fields.push(format!("{name}:{}", kind(code, of)?));
        let place = 2 + 2 * fields.len();
        let begin = code.find(&format!("impl<'a> {table}<'a> {{"))?;
        let constant = format!("VT_{}: ::flatbuffers::VOffsetT = {place};", name.to_uppercase());
        let body = &code[begin..];
        body[..body.find("\n}\n")?].contains(&constant).then_some(())?;
    }
    lines.lines().all(|line| line.ends_with(", false)?")).then(|| format!("\"{}\"", fields.join(" ")))
}

/// Returns how `verify_fields` names the type of a field.
fn kind(code: &str, of: &str) -> Option<String> {
    match of.strip_prefix("::flatbuffers::ForwardsUOffset<") {
        Some("&str>") => Some("text".to_owned()),
        Some(rest) => {
            let numbers = rest.strip_prefix("::flatbuffers::Vector<'_, ")?.strip_suffix(">>")?;
            Some(format!("[{}", size(code, numbers)?))
        }
        None => Some(size(code, of)?.to_string()),
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
  pub const VT_AXES: ::flatbuffers::VOffsetT = 8;
  pub const VT_NAME: ::flatbuffers::VOffsetT = 10;
}
impl ::flatbuffers::Verifiable for Window<'_> {
    v.visit_table(pos)?
     .visit_field::<Padding>("padding", Self::VT_PADDING, false)?
     .visit_field::<i32>("stride", Self::VT_STRIDE, false)?
     .visit_field::<::flatbuffers::ForwardsUOffset<::flatbuffers::Vector<'_, i64>>>("axes", Self::VT_AXES, false)?
     .visit_field::<::flatbuffers::ForwardsUOffset<&str>>("name", Self::VT_NAME, false)?
     .finish();
    Ok(())
  }
}
          Options::Window => v.verify_union_variant::<::flatbuffers::ForwardsUOffset<Window>>("Options::Window", pos),
          _ => Ok(()),
"#;

    #[test]
    fn plain_tables_are_lists() {
        let text = compact(CODE);
        assert!(
            text.contains("    crate::verify_fields(v, pos, \"padding:1 stride:4 axes:[8 name:text\")\n  }\n}"),
            "{text}"
        );
        let list = "  Options::Window => \"padding:1 stride:4 axes:[8 name:text\",\n            _ => return Ok(()),\n";
        assert!(text.contains(list) && text.contains("_ => crate::verify_fields_at(v, pos, match key {\n"), "{text}");
        assert!(!text.contains("visit_table") && !text.contains("variant"), "{text}");
    }

    #[test]
    fn other_tables_stay() {
        for (before, after) in
            [("i64>>>", "::flatbuffers::ForwardsUOffset<Axis>>>>"), ("= 6", "= 4"), ("false", "true")]
        {
            let code = CODE.replace(before, after);
            let longs = code.replace("::flatbuffers::Vector<'_, i64>", "crate::Longs");
            assert_eq!(compact(&code), longs);
        }
    }
}
