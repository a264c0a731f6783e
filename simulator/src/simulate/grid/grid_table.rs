//! Reads one table of the file, key by key, and records all that is wrong.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problems::{ProblemCollector, suggest_name};

/// A value with its place in the file.
#[derive(Debug, Clone)]
pub(super) struct GridFileValue<T> {
    pub(super) value: T,
    pub(super) at: Range<usize>,
}

/// A table that is being read.
pub(super) struct GridTable<'r, 't> {
    title: String,
    at: Range<usize>,
    entries: &'r DeTable<'t>,
    problems: &'r RefCell<ProblemCollector<'t>>,
}

impl<'r, 't> GridTable<'r, 't> {
    /// The whole file.
    pub(super) fn root(
        entries: &'r Spanned<DeTable<'t>>,
        problems: &'r RefCell<ProblemCollector<'t>>,
    ) -> Self {
        let title = "the grid file".into();
        Self {
            title,
            at: 0..0,
            entries: entries.get_ref(),
            problems,
        }
    }

    /// The name of the table in messages.
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    /// The place where the table begins.
    pub(super) fn table_span(&self) -> &Range<usize> {
        &self.at
    }

    /// The keys that are given.
    pub(super) fn keys(&self) -> impl Iterator<Item = GridFileValue<&'r str>> {
        self.entries.iter().map(|(key, _)| GridFileValue {
            value: &**key.get_ref(),
            at: key.span(),
        })
    }

    pub(super) fn has_key(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Records a problem at a place.
    pub(super) fn add_problem(
        &self,
        at: &Range<usize>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.problems.borrow_mut().add(at, message, remedy);
    }

    /// The line of a place, from 1.
    pub(super) fn line_at(&self, at: &Range<usize>) -> usize {
        self.problems.borrow().line_at(at)
    }

    /// Records a problem for every key that is not among the known ones.
    pub(super) fn allow_only(&self, known: &[&str]) {
        for key in self.keys().filter(|key| !known.contains(&key.value)) {
            let message = format!("unknown key {:?} in {}", key.value, self.title);
            self.add_problem(&key.at, message, suggest_name(key.value, known));
        }
    }

    /// A value that may be left out. `None` also if it is wrong, which is recorded; the error of
    /// `read` says what is wrong and, after its last `; `, what to do.
    pub(super) fn optional_value<T>(
        &self,
        key: &str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<GridFileValue<T>> {
        let value = self.entries.get(key)?;
        match read(value.get_ref()) {
            Ok(read) => Some(GridFileValue {
                value: read,
                at: value.span(),
            }),
            Err(error) => {
                let (problem, remedy) = error.rsplit_once("; ").unwrap_or((&error, "correct it"));
                self.add_problem(
                    &value.span(),
                    format!("{key} in {}: {problem}", self.title),
                    remedy,
                );
                None
            }
        }
    }

    /// A value that must be given; if it is not, that is recorded.
    pub(super) fn required_value<T>(
        &self,
        key: &str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<GridFileValue<T>> {
        if !self.has_key(key) {
            let message = format!("{} has no {key:?}", self.title);
            self.add_problem(&self.at, message, format!("add {key} = ..."));
        }
        self.optional_value(key, read)
    }

    /// A value with a default. `None` only if it is given and wrong.
    pub(super) fn value_or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        if self.has_key(key) {
            self.optional_value(key, read).map(|placed| placed.value)
        } else {
            Some(default)
        }
    }

    /// A table inside of this one.
    pub(super) fn sub_table(&self, key: &str, title: String) -> Option<GridTable<'r, 't>> {
        let (name, value) = self.entries.get_key_value(key)?;
        self.table_inside(name.span(), value, title, key)
    }

    /// A list of tables, `[[key]]`, empty if it is not given; each is named by its number. `None`
    /// if it is something else, which is recorded.
    pub(super) fn sub_tables(&self, key: &str) -> Option<Vec<GridTable<'r, 't>>> {
        let Some((name, value)) = self.entries.get_key_value(key) else {
            return Some(Vec::new());
        };
        let DeValue::Array(items) = value.get_ref() else {
            let message = format!("{key:?} is {}", kind_of_value(value.get_ref()));
            self.add_problem(&name.span(), message, format!("write each as [[{key}]]"));
            return None;
        };
        let numbered = items.iter().enumerate();
        Some(
            numbered
                .filter_map(|(place, item): (usize, &'r Spanned<DeValue<'t>>)| {
                    let title = format!("[[{key}]] number {}", place + 1);
                    self.table_inside(item.span(), item, title, key)
                })
                .collect(),
        )
    }

    fn table_inside(
        &self,
        at: Range<usize>,
        value: &'r Spanned<DeValue<'t>>,
        title: String,
        key: &str,
    ) -> Option<GridTable<'r, 't>> {
        let DeValue::Table(entries) = value.get_ref() else {
            let message = format!("{title} is {}", kind_of_value(value.get_ref()));
            self.add_problem(&at, message, format!("write {key:?} as a table"));
            return None;
        };
        Some(GridTable {
            title,
            at,
            entries,
            problems: self.problems,
        })
    }
}

/// A text.
pub(super) fn read_text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, String> {
    match value {
        DeValue::String(text) => Ok(text),
        other => Err(format!(
            "it is {}; write it in quotation marks",
            kind_of_value(other)
        )),
    }
}

/// Parses a text as a type.
pub(super) fn read_parsed<T>(value: &DeValue<'_>) -> Result<T, String>
where
    T: std::str::FromStr<Err = cospan_domain::ids::IdentifierError>,
{
    read_text(value)?
        .parse()
        .map_err(|error| format!("{error}; choose another name"))
}

/// A whole number within a range.
pub(super) fn read_whole(value: &DeValue<'_>, range: RangeInclusive<u32>) -> Result<u32, String> {
    let remedy = format!(
        "give a whole number from {} to {}",
        range.start(),
        range.end()
    );
    let DeValue::Integer(number) = value else {
        return Err(format!("it is {}; {remedy}", kind_of_value(value)));
    };
    let found = u32::from_str_radix(number.as_str(), number.radix()).ok();
    let shown = number.as_str();
    found
        .filter(|n| range.contains(n))
        .ok_or_else(|| format!("{shown} is out of range; {remedy}"))
}

/// A share of a whole, above 0.
pub(super) fn read_share(value: &DeValue<'_>, most: f64) -> Result<f64, String> {
    let remedy = format!("give a number above 0, at most {most}");
    let shown = match value {
        DeValue::Float(number) => number.as_str(),
        DeValue::Integer(number) => number.as_str(),
        other => return Err(format!("it is {}; {remedy}", kind_of_value(other))),
    };
    let found: Option<f64> = shown.parse().ok();
    let fitting = found.filter(|share| *share > 0.0 && *share <= most);
    fitting.ok_or_else(|| format!("{shown} is out of range; {remedy}"))
}

/// True or false.
pub(super) fn read_bool(value: &DeValue<'_>) -> Result<bool, String> {
    match value {
        DeValue::Boolean(value) => Ok(*value),
        other => Err(format!(
            "it is {}; write true or false",
            kind_of_value(other)
        )),
    }
}

/// A word from a list.
pub(super) fn read_word<T: Copy>(value: &DeValue<'_>, words: &[(&str, T)]) -> Result<T, String> {
    let found = read_text(value)?;
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    match words.iter().find(|(name, _)| *name == found) {
        Some((_, meaning)) => Ok(*meaning),
        None => Err(format!(
            "there is no {found:?}; choose one of {}",
            names.join(", ")
        )),
    }
}

/// The kind of a value, for messages.
pub(super) fn kind_of_value(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
