//! CSV files that contain no formulas for spreadsheets.
//!
//! Spreadsheets recognize a formula by the first character of a field, even in quotes, and many
//! skip blanks before it; others take a semicolon or a tab for the end of a field. A text that
//! would be a formula gets an apostrophe in front, which marks text in spreadsheets. Numbers stay
//! numbers; a text that looks like a number is not one.

use std::borrow::Cow;

/// The first characters of formulas, in all widths in which they can be typed.
const BEGINS: [char; 13] = [
    '=', '+', '-', '@', '\u{2212}', '\u{fe62}', '\u{fe63}', '\u{fe66}', '\u{fe6b}', '\u{ff0b}',
    '\u{ff0d}', '\u{ff1d}', '\u{ff20}',
];
/// The characters that end a field for a program that reads the file in another way.
const ENDS: [char; 4] = [';', '\t', '\n', '\r'];

/// The content of one column of a row.
pub struct CsvField {
    text: String,
    is_number: bool,
}

impl CsvField {
    /// A text that people or programs chose.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_number: false,
        }
    }

    /// A number of ours; empty if there is none.
    pub fn number(number: impl ToString) -> Self {
        Self {
            text: number.to_string(),
            is_number: true,
        }
    }

    fn defused_value(&self) -> Cow<'_, str> {
        if self.is_number {
            Cow::Borrowed(&self.text)
        } else {
            defuse_field(&self.text)
        }
    }
}

/// A file that is being written.
pub struct CsvFile(csv::Writer<Vec<u8>>);

impl Default for CsvFile {
    fn default() -> Self {
        Self::new()
    }
}

impl CsvFile {
    pub fn new() -> Self {
        Self(csv::Writer::from_writer(Vec::new()))
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// The row does not have as many fields as those before.
    pub fn write_row(&mut self, fields: impl IntoIterator<Item = CsvField>) -> csv::Result<()> {
        for field in fields {
            self.0.write_field(field.defused_value().as_bytes())?;
        }
        self.0.write_record(None::<&[u8]>)
    }

    /// Adds the row with the names of the columns.
    ///
    /// # Errors
    /// As for [`CsvFile::write_row`].
    pub fn write_header<'a>(
        &mut self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> csv::Result<()> {
        self.write_row(names.into_iter().map(CsvField::text))
    }

    /// Returns the whole file.
    ///
    /// # Errors
    /// It cannot be written, which memory never refuses.
    pub fn finish_file(self) -> csv::Result<Vec<u8>> {
        self.0
            .into_inner()
            .map_err(|error| error.into_error().into())
    }
}

/// Defuses a field, so that it begins no formula wherever a program takes it to begin.
fn defuse_field(field: &str) -> Cow<'_, str> {
    // A tab or a line end in front may be dropped, and the rest is then a field of its own.
    let begins_blank = field.starts_with(['\t', '\r', '\n']);
    if !begins_blank && !field.split_inclusive(ENDS).any(begins_formula) {
        return Cow::Borrowed(field);
    }
    let mut text = String::with_capacity(field.len() + 4);
    if begins_blank {
        text.push('\'');
    }
    for part in field.split_inclusive(ENDS) {
        if begins_formula(part) {
            text.push('\'');
        }
        text.push_str(part);
    }
    Cow::Owned(text)
}

fn begins_formula(part: &str) -> bool {
    part.trim_start_matches(|c: char| {
        c.is_whitespace() || crate::terminal::is_hidden(c) || "\"'`\u{ff02}\u{ff07}".contains(c)
    })
    .starts_with(BEGINS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(field: &str) -> String {
        written(CsvField::text(field))
    }

    fn written(field: CsvField) -> String {
        let mut file = CsvFile::new();
        file.write_row([field, CsvField::text("next")]).unwrap();
        let written = file.finish_file().unwrap();
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(&written[..]);
        reader.records().next().unwrap().unwrap()[0].to_owned()
    }

    #[test]
    fn no_field_begins_a_formula_however_it_is_read() {
        for formula in [
            "=1+1",
            "+1+1",
            "-1+1",
            "@SUM(A1)",
            "=cmd|' /C calc'!A0",
            " =1",
            "\u{a0}=1",
            "\u{3000}=1",
            "\"=1",
            "'=1",
            "\u{feff}=1",
            "\u{200b}@x",
            "\u{ff1d}1",
            "\u{ff0b}1",
            "\u{ff0d}1",
            "\u{ff20}x",
            "\u{2212}2+3",
            "-",
            "--1",
            "-inf",
            "+e5",
            "+1",
            "-5e3",
        ] {
            let field = read_back(formula);
            assert_eq!(field, format!("'{formula}"), "{formula:?}");
        }
        for (blank, field) in [
            ("\t=1", "'\t'=1"),
            ("\r=1", "'\r'=1"),
            ("\n-", "'\n'-"),
            ("\tx", "'\tx"),
        ] {
            assert_eq!(read_back(blank), field);
        }
        assert_eq!(read_back("a;=1"), "a;'=1");
        assert_eq!(read_back("a\n@x\tb\t-y"), "a\n'@x\tb\t'-y");
    }

    #[test]
    fn numbers_and_plain_words_stay_as_they_are() {
        for field in ["15", "", "laplace", "a=b", "2026-01-02", "a - b"] {
            assert_eq!(read_back(field), field);
        }
        assert_eq!(written(CsvField::number(-15)), "-15");
        assert_eq!(written(CsvField::number("-0.250")), "-0.250");
    }
}
