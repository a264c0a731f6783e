//! Reads one table of the file, option by option, and records all that is wrong.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::config_problem::{ConfigProblems, nearest_name};
use super::value::{OptionValue, Ranged, kind_of_value};

/// The place of each thing that was given: `queue.N_h`, `site[2].root`, or a table's own path.
pub(crate) type OptionPlaces = BTreeMap<String, Range<usize>>;

/// A table that is being read.
pub struct TableReader<'r, 'i> {
    path: String,
    title: String,
    table: Option<&'r DeTable<'i>>,
    problems: &'r mut ConfigProblems,
    places: &'r mut OptionPlaces,
}

impl<'r, 'i> TableReader<'r, 'i> {
    /// Reads `table`, called `path` in places and `title` in messages.
    pub fn new(
        path: String,
        title: String,
        table: Option<&'r DeTable<'i>>,
        problems: &'r mut ConfigProblems,
        places: &'r mut OptionPlaces,
    ) -> Self {
        Self {
            path,
            title,
            table,
            problems,
            places,
        }
    }

    /// The option's value, or its default if it is not given or wrong. `None` if there is no
    /// default, which is recorded as a problem.
    pub fn read_option<T: OptionValue>(&mut self, key: &str, default: Option<T>) -> Option<T> {
        self.read_option_within(key, default, None)
    }

    /// Reads an option with a range, which messages name.
    pub fn read_option_within<T: OptionValue>(
        &mut self,
        key: &str,
        default: Option<T>,
        range: Option<(String, String)>,
    ) -> Option<T> {
        let Some((name, value)) = self.table.and_then(|table| table.get_key_value(key)) else {
            if default.is_none() {
                let place = self.places.get(&self.path).cloned();
                let message = format!("{} has no {key:?}", self.title);
                self.problems
                    .add(place, message, format!("add `{key} = ...`: {}", T::form()));
            }
            return default;
        };
        self.places
            .insert(format!("{}.{key}", self.path), name.span());
        match T::read(value.get_ref()) {
            Ok(value) => Some(value),
            Err(problem) => {
                // A number that its type cannot hold is out of the range, if there is one.
                let is_number = matches!(value.get_ref(), DeValue::Integer(_));
                let counted = range.filter(|(low, _)| is_number && low.parse::<u64>().is_ok());
                if let Some((low, high)) = counted {
                    self.add_out_of_range(key, Some(value.span()), &low, &high);
                    return default;
                }
                let message = format!("{key} in {}: {problem}", self.title);
                self.problems
                    .add(Some(value.span()), message, format!("give {}", T::form()));
                default
            }
        }
    }

    /// Records a value outside of its range.
    pub fn check_range<T: OptionValue, R: Ranged<T>>(
        &mut self,
        key: &str,
        value: &R,
        low: T,
        high: T,
    ) {
        if !value.within(&low, &high) {
            let place = self.places.get(&format!("{}.{key}", self.path)).cloned();
            self.add_out_of_range(key, place, &low.show(), &high.show());
        }
    }

    fn add_out_of_range(&mut self, key: &str, place: Option<Range<usize>>, low: &str, high: &str) {
        let message = format!("{key} in {} is out of range", self.title);
        self.problems
            .add(place, message, format!("give a value from {low} to {high}"));
    }

    /// Records every unknown key.
    pub fn check_keys(self, known: &[&str]) {
        let Some(table) = self.table else { return };
        check_unknown_keys(table, known, &self.title, self.problems);
    }
}

/// Records every unknown key of a table, with the nearest known one.
pub(super) fn check_unknown_keys(
    table: &DeTable<'_>,
    known: &[&str],
    title: &str,
    problems: &mut ConfigProblems,
) {
    for (key, value) in table {
        let name: &str = key.get_ref();
        if known.contains(&name) {
            continue;
        }
        let what = if matches!(value.get_ref(), DeValue::Table(_)) {
            "table"
        } else {
            "key"
        };
        let remedy = match nearest_name(name, known.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("known here: {}", known.join(", ")),
        };
        problems.add(
            Some(key.span()),
            format!("unknown {what} {name:?} in {title}"),
            remedy,
        );
    }
}

/// The table of a section, if it is given and a table.
pub(super) fn sub_table<'r, 'i>(
    root: &'r DeTable<'i>,
    key: &str,
    problems: &mut ConfigProblems,
    places: &mut OptionPlaces,
) -> Option<&'r DeTable<'i>> {
    let (name, value) = root.get_key_value(key)?;
    places.insert(key.into(), name.span());
    match value.get_ref() {
        DeValue::Table(table) => Some(table),
        other => {
            let message = format!("{key} is {}, not a table", kind_of_value(other));
            problems.add(Some(name.span()), message, format!("write it as [{key}]"));
            None
        }
    }
}

/// The tables of a repeated section (`[[site]]`), each with its path.
pub(crate) fn sub_tables<'r, 'i>(
    root: &'r DeTable<'i>,
    key: &str,
    problems: &mut ConfigProblems,
    places: &mut OptionPlaces,
) -> Vec<(String, &'r DeTable<'i>)> {
    let Some((name, value)) = root.get_key_value(key) else {
        return Vec::new();
    };
    let DeValue::Array(items) = value.get_ref() else {
        let message = format!(
            "{key} is {}, not a list of tables",
            kind_of_value(value.get_ref())
        );
        problems.add(
            Some(name.span()),
            message,
            format!("write each as [[{key}]]"),
        );
        return Vec::new();
    };
    let mut tables = Vec::new();
    for (i, item) in items.iter().enumerate() {
        match item.get_ref() {
            DeValue::Table(table) => {
                let path = format!("{key}[{i}]");
                places.insert(path.clone(), item.span());
                tables.push((path, table));
            }
            other => {
                let message = format!("an item of {key} is {}, not a table", kind_of_value(other));
                problems.add(
                    Some(item.span()),
                    message,
                    format!("write each as [[{key}]]"),
                );
            }
        }
    }
    tables
}
