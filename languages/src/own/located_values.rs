//! JSON and YAML as TOML tables, each value with its place in the text, so that the mistakes of a
//! job file are found alike in every notation.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Largest depth of a job document.
const DEEPEST: usize = 32;

/// A text that was read.
pub(super) struct LocatedDocument<'t> {
    /// The table. A list of jobs is a table with the key `job`.
    pub(super) table: Spanned<DeTable<'t>>,
    /// The unquoted values by position. Each may be a text where a text is wanted.
    pub(super) plain: BTreeMap<usize, String>,
}

impl<'t> From<Spanned<DeTable<'t>>> for LocatedDocument<'t> {
    fn from(table: Spanned<DeTable<'t>>) -> Self {
        Self {
            table,
            plain: BTreeMap::new(),
        }
    }
}

/// Reads a text. With `yaml`, an unquoted value may be a text. Returns `None` if the text is
/// invalid, or has something that TOML lacks, such as anchors and tags.
pub(super) fn read_located(text: &str, yaml: bool) -> Option<LocatedDocument<'_>> {
    let parser = Parser::new_from_str(text);
    let mut reader = DocumentReader {
        text,
        parser,
        plain: BTreeMap::new(),
    };
    let (event, span) = loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(..), _) => {}
            first => break first,
        }
    };
    let whole = reader.read_value(event, span, 0)??;
    let range = whole.span();
    let table = match whole.into_inner() {
        DeValue::Table(table) => table,
        list @ DeValue::Array(_) => {
            let mut table = DeTable::new();
            let key = Spanned::new(range.clone(), Cow::Borrowed("job"));
            table.insert(key, Spanned::new(range.clone(), list));
            table
        }
        _ => return None,
    };
    let plain = if yaml { reader.plain } else { BTreeMap::new() };
    Some(LocatedDocument {
        table: Spanned::new(range, table),
        plain,
    })
}

struct DocumentReader<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    plain: BTreeMap<usize, String>,
}

/// A value; none for `null`.
type LocatedValue<'t> = Option<Spanned<DeValue<'t>>>;

impl<'t> DocumentReader<'t> {
    fn next(&mut self) -> Option<(Event<'t>, Span)> {
        self.parser.next_event()?.ok()
    }

    fn read_value(
        &mut self,
        event: Event<'t>,
        span: Span,
        depth: usize,
    ) -> Option<LocatedValue<'t>> {
        if depth > DEEPEST {
            return None;
        }
        let start = span.start.byte_offset()?;
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, 0, None) => {
                match self.read_plain(text.into_owned(), start) {
                    Some(value) => value,
                    None => return Some(None),
                }
            }
            Event::Scalar(text, _, 0, None) => DeValue::String(Cow::Owned(text.into_owned())),
            Event::SequenceStart(_, 0, None) => DeValue::Array(self.read_list(depth)?),
            Event::MappingStart(_, 0, None) => DeValue::Table(self.read_table(depth)?),
            _ => return None,
        };
        Some(Some(Spanned::new(start..start, value)))
    }

    /// Converts an unquoted value: nothing, a truth value, a number or a text.
    fn read_plain(&mut self, text: String, start: usize) -> Option<DeValue<'t>> {
        let value = match text.as_str() {
            "" | "~" | "null" => return None,
            "true" => DeValue::Boolean(true),
            "false" => DeValue::Boolean(false),
            _ => match self.text.get(start..start + text.len()).map(DeValue::parse) {
                Some(Ok(number))
                    if number.get_ref().is_integer() || number.get_ref().is_float() =>
                {
                    number.into_inner()
                }
                _ => return Some(DeValue::String(Cow::Owned(text))),
            },
        };
        self.plain.insert(start, text);
        Some(value)
    }

    fn read_list(&mut self, depth: usize) -> Option<DeArray<'t>> {
        let mut list = DeArray::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Some(list),
                (event, span) => list.push(self.read_value(event, span, depth + 1)??),
            }
        }
    }

    fn read_table(&mut self, depth: usize) -> Option<DeTable<'t>> {
        let mut table = DeTable::new();
        loop {
            let (event, at) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Some(table),
                Event::Scalar(key, _, 0, None) => key.into_owned(),
                _ => return None,
            };
            let (event, span) = self.next()?;
            if let Some(value) = self.read_value(event, span, depth + 1)? {
                let start = at.start.byte_offset()?;
                table.insert(Spanned::new(start..start, Cow::Owned(key)), value);
            }
        }
    }
}
