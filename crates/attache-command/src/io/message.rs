//! [`Message`], a message of Protocol Buffers: written in the binary form or as text, and read in the binary form.
//!
//! A message is made of fields with a number, which is what the binary form has, and a name, which is what text has.
//! Messages of the field's tools are small, so they are built as values and need no generated code.

use std::path::Path;

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Integer(i64),
    Float(f32),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// Numbers of one field in one run of bytes, which Protocol Buffers call packed.
    Integers(Vec<i64>),
    Floats(Vec<f32>),
    /// A constant of an enumeration: its number and its name.
    Constant(i64, &'static str),
    Message(Message),
}

/// A field with its number and its name.
#[derive(Clone, Debug, PartialEq)]
struct Field {
    number: u32,
    name: &'static str,
    value: Value,
}

/// A message: fields in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Message(Vec<Field>);

impl Message {
    /// Returns the message with one more field.
    #[must_use]
    pub(crate) fn with(mut self, number: u32, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.push(Field { number, name, value: value.into() });
        self
    }

    /// Returns the message with one more field if there is a value for it.
    #[must_use]
    pub(crate) fn with_some(self, number: u32, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(number, name, value),
            None => self,
        }
    }

    /// Returns the message with a field for each of these values.
    #[must_use]
    pub(crate) fn with_all<V: Into<Value>>(
        self,
        number: u32,
        name: &'static str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        values.into_iter().fold(self, |message, value| message.with(number, name, value))
    }

    /// Returns the form that suits a file: text for `.pbtxt` and `.textproto`, else the binary form.
    pub(crate) fn for_file(&self, path: &Path) -> Vec<u8> {
        let is_text = |extension: &std::ffi::OsStr| extension == "pbtxt" || extension == "textproto";
        if path.extension().is_some_and(is_text) { self.text().into_bytes() } else { self.binary() }
    }

    /// Returns the binary form.
    pub(crate) fn binary(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Field { number, value, .. } in &self.0 {
            write(&mut bytes, *number, value);
        }
        bytes
    }

    /// Returns the text form, one field a line.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text, 0);
        text
    }

    fn write_text(&self, text: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        for Field { name, value, .. } in &self.0 {
            let mut line = |value: String| *text += &format!("{indent}{name}: {value}\n");
            match value {
                Value::Integer(number) => line(number.to_string()),
                Value::Float(number) => line(number.to_string()),
                Value::Double(number) => line(number.to_string()),
                Value::Text(value) => line(quoted(value.as_bytes())),
                Value::Bytes(value) => line(quoted(value)),
                Value::Integers(numbers) => numbers.iter().for_each(|number| line(number.to_string())),
                Value::Floats(numbers) => numbers.iter().for_each(|number| line(number.to_string())),
                Value::Constant(_, name) => line((*name).to_owned()),
                Value::Message(message) => {
                    *text += &format!("{indent}{name} {{\n");
                    message.write_text(text, depth + 1);
                    *text += &format!("{indent}}}\n");
                }
            }
        }
    }
}

macro_rules! values {
    ($($from:ty => $variant:ident),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

values! {
    i64 => Integer, i32 => Integer, u32 => Integer, f32 => Float, f64 => Double, String => Text, &str => Text,
    Vec<u8> => Bytes, Vec<i64> => Integers, Vec<f32> => Floats, Message => Message,
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// Writes a number in groups of seven bits, the lowest first.
fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn write(bytes: &mut Vec<u8>, number: u32, value: &Value) {
    let key = |bytes: &mut Vec<u8>, kind: u64| varint(bytes, u64::from(number) << 3 | kind);
    let counted = |bytes: &mut Vec<u8>, content: &[u8]| {
        key(bytes, 2);
        varint(bytes, content.len() as u64);
        bytes.extend_from_slice(content);
    };
    match value {
        Value::Integer(integer) | Value::Constant(integer, _) => {
            key(bytes, 0);
            // A negative number is written as its 64 bits, whatever the type of the field.
            varint(bytes, *integer as u64);
        }
        Value::Double(double) => {
            key(bytes, 1);
            bytes.extend(double.to_le_bytes());
        }
        Value::Float(float) => {
            key(bytes, 5);
            bytes.extend(float.to_le_bytes());
        }
        Value::Text(text) => counted(bytes, text.as_bytes()),
        Value::Bytes(content) => counted(bytes, content),
        Value::Integers(integers) => {
            let mut content = Vec::new();
            integers.iter().for_each(|integer| varint(&mut content, *integer as u64));
            counted(bytes, &content);
        }
        Value::Floats(floats) => {
            counted(bytes, &floats.iter().flat_map(|float| float.to_le_bytes()).collect::<Vec<_>>());
        }
        Value::Message(message) => counted(bytes, &message.binary()),
    }
}

/// Quotes bytes as text does: what is not printable ASCII as an octal number.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b'\n' => text += "\\n",
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text += &format!("\\{byte:03o}"),
        }
    }
    text + "\""
}

/// What the binary form holds of one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wire<'a> {
    Integer(u64),
    Double(f64),
    Float(f32),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    /// Returns the bytes of a text or of a message.
    pub(crate) fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err("a number stands where a text or a message is expected".to_owned()),
        }
    }

    /// Returns a text.
    pub(crate) fn text(self) -> Result<String, String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| "a text is not UTF-8".to_owned())
    }

    /// Returns a 32-bit float.
    pub(crate) fn float(self) -> Result<f32, String> {
        match self {
            Self::Float(float) => Ok(float),
            _ => Err("something else stands where a float is expected".to_owned()),
        }
    }

    /// Returns an integer.
    pub(crate) fn integer(self) -> Result<i64, String> {
        match self {
            Self::Integer(integer) => Ok(integer as i64),
            _ => Err("something else stands where an integer is expected".to_owned()),
        }
    }
}

/// Reads the fields of a message in the binary form, with their numbers and in their order.
pub(crate) fn fields(bytes: &[u8]) -> Result<Vec<(u32, Wire<'_>)>, String> {
    let mut rest = bytes;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let field = field(&mut rest).ok_or_else(|| format!("there is no field of a message at byte {at}"))?;
        fields.push(field);
    }
    Ok(fields)
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<(u32, Wire<'a>)> {
    let key = number(rest)?;
    let tag = u32::try_from(key >> 3).ok().filter(|tag| *tag > 0)?;
    let wire = match key & 7 {
        0 => Wire::Integer(number(rest)?),
        1 => Wire::Double(f64::from_le_bytes(take(rest, 8)?.try_into().ok()?)),
        2 => {
            let count = usize::try_from(number(rest)?).ok()?;
            Wire::Bytes(take(rest, count)?)
        }
        5 => Wire::Float(f32::from_le_bytes(take(rest, 4)?.try_into().ok()?)),
        _ => return None,
    };
    Some((tag, wire))
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let inner = Message::default().with(1, "score", 0.5f32).with(2, "name", "a \"b\"\u{e9}");
        Message::default()
            .with(1, "count", 300)
            .with(2, "average", 1.5)
            .with_all(3, "objects", [inner.clone(), Message::default()])
            .with(4, "shape", vec![1, -1i64])
            .with_some(5, "missing", None::<i64>)
            .with(6, "kind", Value::Constant(2, "GPU"))
    }

    /// The bytes are those that Google's library writes for the same message.
    #[test]
    fn the_binary_form_is_the_standard_one() {
        let inner = [&[0x0d, 0, 0, 0, 0x3f, 0x12, 7][..], "a \"b\"\u{e9}".as_bytes()].concat();
        let mut expected = vec![0x08, 0xac, 0x02, 0x11, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x1a, inner.len() as u8];
        expected.extend(inner);
        expected.extend([0x1a, 0, 0x22, 11, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0x30, 2]);
        assert_eq!(message().binary(), expected);
    }

    #[test]
    fn the_text_form_names_fields() {
        let expected = "count: 300\naverage: 1.5\nobjects {\n  score: 0.5\n  name: \"a \\\"b\\\"\\303\\251\"\n}\n\
            objects {\n}\nshape: 1\nshape: -1\nkind: GPU\n";
        assert_eq!(message().text(), expected);
        assert_eq!(message().for_file(Path::new("a.pbtxt")), expected.as_bytes());
        assert_eq!(message().for_file(Path::new("a.txt")), message().binary());
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = message().binary();
        let read = fields(&bytes).unwrap();
        assert_eq!((read.len(), read[0], read[1]), (6, (1, Wire::Integer(300)), (2, Wire::Double(1.5))));
        let inner = fields(read[2].1.bytes().unwrap()).unwrap();
        assert_eq!((inner[0].1.float(), inner[1].1.text()), (Ok(0.5), Ok("a \"b\"\u{e9}".to_owned())));
        assert_eq!(read[5].1.integer(), Ok(2));
        // Every beginning of a message is read or refused.
        for end in 0..bytes.len() {
            let _ = fields(&bytes[..end]);
        }
        assert!(fields(&bytes[..2]).unwrap_err().contains("byte 0"));
        for wrong in [&[0x0b][..], &[0x00, 1], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]] {
            assert!(fields(wrong).is_err(), "{wrong:?}");
        }
    }
}
