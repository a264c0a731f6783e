//! Writes records as JSON, byte for byte as `serde_json` does, in less than half the time: names of
//! fields need no check for characters to escape, and texts are checked as a whole. Most of the
//! journal's work for a job is writing its records.
//!
//! Values that no record holds are refused, although `serde_json` would write them: maps whose keys
//! are numbers or booleans, and integers of 128 bits.

use std::fmt::{self, Display, Write};

use serde::ser::{self, Error as _, Serialize, SerializeStruct};
use serde_json::Error;

/// The name under which `serde_json` hands over text that is JSON already.
const RAW: &str = "$serde_json::private::RawValue";

/// Appends a record.
///
/// # Errors
/// Fails if the record has something that JSON has no form for.
pub(super) fn append_json(to: &mut Vec<u8>, record: &impl Serialize) -> Result<(), Error> {
    record.serialize(&mut JsonWriter { to, raw: false })
}

/// A text that is already JSON.
pub(super) struct WrittenJson<'a>(pub(super) &'a str);

impl Serialize for WrittenJson<'_> {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = serializer.serialize_struct(RAW, 1)?;
        text.serialize_field(RAW, self.0)?;
        text.end()
    }
}

/// Writes values one after the other.
struct JsonWriter<'a> {
    to: &'a mut Vec<u8>,
    /// True if the next text is already JSON.
    raw: bool,
}

/// Writes the content of brackets.
struct JsonBracketWriter<'a, 'b> {
    json: &'a mut JsonWriter<'b>,
    first: bool,
    end: &'static [u8],
}

fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Returns true if anything must be escaped. No early exit, so that many bytes are checked in one
/// step.
fn needs_escapes(text: &[u8]) -> bool {
    text.iter()
        .fold(false, |found, byte| found | is_escaped(*byte))
}

impl<'b> JsonWriter<'b> {
    /// Writes the name of a field or variant, with what follows it.
    fn write_name(&mut self, name: &'static str, after: &[u8]) {
        debug_assert!(
            !needs_escapes(name.as_bytes()),
            "it would have to be escaped"
        );
        self.to.push(b'"');
        self.to.extend_from_slice(name.as_bytes());
        self.to.extend_from_slice(after);
    }

    fn write_text(&mut self, text: &str) -> Result<(), Error> {
        if needs_escapes(text.as_bytes()) {
            return serde_json::to_writer(&mut *self.to, text);
        }
        self.to.push(b'"');
        self.to.extend_from_slice(text.as_bytes());
        self.to.push(b'"');
        Ok(())
    }

    fn number(&mut self, number: impl itoa::Integer) {
        self.to
            .extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    fn open_brackets(&mut self, begin: &[u8], end: &'static [u8]) -> JsonBracketWriter<'_, 'b> {
        self.to.extend_from_slice(begin);
        JsonBracketWriter {
            json: self,
            first: true,
            end,
        }
    }

    fn open_variant(
        &mut self,
        name: &'static str,
        begin: &[u8],
        end: &'static [u8],
    ) -> JsonBracketWriter<'_, 'b> {
        self.to.push(b'{');
        self.write_name(name, b"\":");
        self.open_brackets(begin, end)
    }
}

impl JsonBracketWriter<'_, '_> {
    fn write_comma(&mut self) {
        if !std::mem::replace(&mut self.first, false) {
            self.json.to.push(b',');
        }
    }

    fn item(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.write_comma();
        value.serialize(&mut *self.json)
    }

    fn field(
        &mut self,
        name: &'static str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<(), Error> {
        if name == RAW {
            self.json.raw = true;
            return value.serialize(&mut *self.json);
        }
        self.write_comma();
        self.json.write_name(name, b"\":");
        value.serialize(&mut *self.json)
    }

    fn close(self) -> Result<(), Error> {
        self.json.to.extend_from_slice(self.end);
        Ok(())
    }
}

/// Collects what is displayed.
struct DisplayBuffer<'a>(&'a mut Vec<u8>);

impl Write for DisplayBuffer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

macro_rules! numbers {
    ($($method:ident($number:ty))*) => {$(
        fn $method(self, number: $number) -> Result<(), Error> {
            self.number(number);
            Ok(())
        }
    )*};
}

impl<'a, 'b> ser::Serializer for &'a mut JsonWriter<'b> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = JsonBracketWriter<'a, 'b>;
    type SerializeTuple = JsonBracketWriter<'a, 'b>;
    type SerializeTupleStruct = JsonBracketWriter<'a, 'b>;
    type SerializeTupleVariant = JsonBracketWriter<'a, 'b>;
    type SerializeMap = JsonBracketWriter<'a, 'b>;
    type SerializeStruct = JsonBracketWriter<'a, 'b>;
    type SerializeStructVariant = JsonBracketWriter<'a, 'b>;

    numbers! {
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.to
            .extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        serde_json::to_writer(&mut *self.to, &value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        serde_json::to_writer(&mut *self.to, &value)
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.write_text(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        if std::mem::replace(&mut self.raw, false) {
            self.to.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        self.write_text(text)
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        let begin = self.to.len();
        self.to.push(b'"');
        if write!(DisplayBuffer(self.to), "{value}").is_err() {
            return Err(Error::custom("it cannot be displayed"));
        }
        if needs_escapes(&self.to[begin + 1..]) {
            self.to.truncate(begin);
            return self.write_text(&value.to_string());
        }
        self.to.push(b'"');
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Error> {
        bytes.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.to.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
    ) -> Result<(), Error> {
        self.write_name(name, b"\"");
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.to.push(b'{');
        self.write_name(name, b"\":");
        value.serialize(&mut *self)?;
        self.to.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<JsonBracketWriter<'a, 'b>, Error> {
        Ok(self.open_brackets(b"[", b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<JsonBracketWriter<'a, 'b>, Error> {
        Ok(self.open_brackets(b"[", b"]"))
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<JsonBracketWriter<'a, 'b>, Error> {
        Ok(self.open_brackets(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<JsonBracketWriter<'a, 'b>, Error> {
        Ok(self.open_variant(name, b"[", b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<JsonBracketWriter<'a, 'b>, Error> {
        Ok(self.open_brackets(b"{", b"}"))
    }

    fn serialize_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<JsonBracketWriter<'a, 'b>, Error> {
        Ok(if name == RAW {
            self.open_brackets(b"", b"")
        } else {
            self.open_brackets(b"{", b"}")
        })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<JsonBracketWriter<'a, 'b>, Error> {
        Ok(self.open_variant(name, b"{", b"}}"))
    }
}

/// Lists of values, and lists of named values.
macro_rules! lists {
    ($($list:ident::$method:ident),* ; $($named:ident),*) => {
        $(impl ser::$list for JsonBracketWriter<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        })*
        $(impl ser::$named for JsonBracketWriter<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        })*
    };
}

lists! {
    SerializeSeq::serialize_element, SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field, SerializeTupleVariant::serialize_field;
    SerializeStruct, SerializeStructVariant
}

impl ser::SerializeMap for JsonBracketWriter<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.write_comma();
        let begin = self.json.to.len();
        key.serialize(&mut *self.json)?;
        match self.json.to.get(begin) {
            Some(b'"') => Ok(()),
            _ => Err(Error::custom("a key that is no text")),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.json.to.push(b':');
        value.serialize(&mut *self.json)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Serialize;
    use serde_json::value::{RawValue, to_raw_value};

    use super::*;
    use crate::record::v1::convert::TextValue;

    #[derive(Serialize)]
    enum JsonShape {
        Unit,
        Newtype(Option<i64>),
        Tuple(u8, String),
        Struct { a: Vec<JsonShape>, b: (bool, char) },
    }

    #[derive(Serialize)]
    struct NewtypeShape(u16);

    #[derive(Serialize)]
    struct PairShape(i8, f64);

    #[derive(Serialize)]
    struct UnitShape;

    #[derive(Serialize)]
    struct AllShapes {
        shapes: Vec<JsonShape>,
        #[serde(skip_serializing_if = "Option::is_none")]
        left_out: Option<u32>,
        map: BTreeMap<String, NewtypeShape>,
        raw: Box<RawValue>,
        text: TextValue<String>,
        pair: PairShape,
        #[serde(flatten)]
        flat: FlatShape,
    }

    #[derive(Serialize)]
    struct FlatShape {
        nothing: UnitShape,
        unit: (),
        float: f32,
    }

    fn all_shapes(text: String, number: i64, float: f64) -> AllShapes {
        let shape = |depth: usize| {
            let tuple = JsonShape::Tuple(number as u8, text.repeat(depth));
            JsonShape::Struct {
                a: vec![JsonShape::Unit, tuple],
                b: (depth > 0, '"'),
            }
        };
        AllShapes {
            shapes: vec![
                shape(0),
                JsonShape::Newtype(Some(number)),
                JsonShape::Newtype(None),
                shape(3),
            ],
            left_out: None,
            map: [text.clone(), format!("{text}2")]
                .map(|key| (key, NewtypeShape(7)))
                .into(),
            raw: to_raw_value(&shape(1)).unwrap(),
            text: TextValue(text),
            pair: PairShape(number as i8, float),
            flat: FlatShape {
                nothing: UnitShape,
                unit: (),
                float: 0.1,
            },
        }
    }

    proptest! {
        #[test]
        fn anything_is_written_as_by_serde_json(text: String, number: i64, float: f64) {
            let all = all_shapes(text, number, float);
            let mut written = b"before".to_vec();
            append_json(&mut written, &all).unwrap();
            prop_assert_eq!(&written[6..], serde_json::to_vec(&all).unwrap());
        }
    }

    #[test]
    fn control_characters_quotes_and_all_else_are_escaped_as_by_serde_json() {
        for code in 0..0x300 {
            let text = format!("a{}b", char::from_u32(code).unwrap());
            let mut written = Vec::new();
            append_json(&mut written, &(text.as_str(), TextValue(text.clone()))).unwrap();
            let expected = serde_json::to_vec(&(text.as_str(), text.as_str())).unwrap();
            assert_eq!(written, expected, "{code}");
        }
    }

    #[test]
    fn a_map_whose_keys_are_no_texts_is_refused() {
        assert!(append_json(&mut Vec::new(), &BTreeMap::from([(1, 2)])).is_err());
    }
}
