//! The notation of values in the file: reading and writing.

mod numbers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use cospan_domain::acquisition::BenchmarkScores;
use cospan_domain::ids::{HostName, SiteName};
use cospan_domain::labels::SiteLabels;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs};
use toml::de::DeValue;

use super::bandwidth::{format_bandwidth, parse_bandwidth};
use cospan_api::v1::quantity::{Length, Size};

/// A type that an option can have.
pub trait OptionValue: Sized {
    /// The notation for the reference: `duration`, `"sled" or "redb"`.
    fn form() -> String;

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong and how to write it instead.
    fn read(value: &DeValue<'_>) -> Result<Self, String>;

    /// Writes it as TOML. A secret is never written out.
    fn show(&self) -> String;
}

/// A value, or the literal `"none"`.
impl<T: OptionValue> OptionValue for Option<T> {
    fn form() -> String {
        format!("{} or \"none\"", T::form())
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::String(text) if text == "none" => Ok(None),
            other => T::read(other).map(Some),
        }
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "\"none\"".into(), T::show)
    }
}

/// A value, or `"auto"`: chosen by Cospan at start, as the option's text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoOrGiven<T> {
    /// Chosen at start.
    Auto,
    /// As given.
    Given(T),
}

impl<T> AutoOrGiven<T> {
    /// The value if it was given.
    pub fn given(self) -> Option<T> {
        match self {
            AutoOrGiven::Auto => None,
            AutoOrGiven::Given(value) => Some(value),
        }
    }
}

impl<T: OptionValue> OptionValue for AutoOrGiven<T> {
    fn form() -> String {
        format!("{} or \"auto\"", T::form())
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::String(text) if text == "auto" => Ok(AutoOrGiven::Auto),
            other => T::read(other).map(AutoOrGiven::Given),
        }
    }

    fn show(&self) -> String {
        match self {
            AutoOrGiven::Auto => "\"auto\"".into(),
            AutoOrGiven::Given(value) => value.show(),
        }
    }
}

/// The comparison behind an option's range; what was not given is in every range.
pub trait Ranged<T> {
    /// Returns true if the value lies between the two, both included.
    fn within(&self, low: &T, high: &T) -> bool;
}

impl<T: PartialOrd> Ranged<T> for T {
    fn within(&self, low: &T, high: &T) -> bool {
        self >= low && self <= high
    }
}

impl<T: PartialOrd> Ranged<T> for Option<T> {
    fn within(&self, low: &T, high: &T) -> bool {
        self.as_ref().is_none_or(|value| value.within(low, high))
    }
}

impl<T: PartialOrd> Ranged<T> for AutoOrGiven<T> {
    fn within(&self, low: &T, high: &T) -> bool {
        match self {
            AutoOrGiven::Auto => true,
            AutoOrGiven::Given(value) => value.within(low, high),
        }
    }
}

/// TOML for a text.
pub(super) fn quote(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

fn read_text<'v>(value: &'v DeValue<'_>, what: &str) -> Result<&'v str, String> {
    match value {
        DeValue::String(text) => Ok(text),
        other => Err(format!("{} where {what} is expected", kind_of_value(other))),
    }
}

/// The kind of a value, for messages.
pub(crate) fn kind_of_value(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {text:?}"),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => format!("{value}"),
        DeValue::Datetime(value) => format!("the date {value}"),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

macro_rules! text_value {
    ($type:ty, $form:literal, $read:expr, $show:expr) => {
        impl OptionValue for $type {
            fn form() -> String {
                $form.into()
            }

            fn read(value: &DeValue<'_>) -> Result<Self, String> {
                let read: fn(&str) -> Result<$type, String> = $read;
                read(read_text(value, $form)?)
            }

            fn show(&self) -> String {
                let show: fn(&$type) -> String = $show;
                quote(&show(self))
            }
        }
    };
}

text_value!(
    DurationMs,
    "a duration like \"90s\"",
    |text| text.parse().map(|Length(d)| d).map_err(|e| e.to_string()),
    |d| Length(*d).to_string()
);
text_value!(
    Bytes,
    "a size like \"4GB\"",
    |text| text.parse().map(|Size(b)| b).map_err(|e| e.to_string()),
    |b| format_size(*b)
);

/// Writes a size in the binary unit that makes it a whole number, if no decimal one does.
fn format_size(size: Bytes) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    let binary = UNITS
        .iter()
        .find(|(unit, _)| size.0 > 0 && size.0.is_multiple_of(*unit));
    match binary {
        Some((unit, name)) if !size.0.is_multiple_of(1_000) => format!("{}{name}", size.0 / unit),
        _ => Size(size).to_string(),
    }
}

text_value!(
    BitsPerSecond,
    "a bandwidth like \"100Mbit/s\"",
    parse_bandwidth,
    |b| format_bandwidth(*b)
);
text_value!(String, "a text", |text| Ok(text.into()), String::clone);
text_value!(
    PathBuf,
    "a path",
    |text| match text {
        "" => Err("the path is empty".into()),
        text if text.contains('\0') => Err("the path has a NUL character".into()),
        text => Ok(text.into()),
    },
    |path| path.display().to_string()
);
text_value!(
    SocketAddr,
    "an address and port like \"127.0.0.1:7440\"",
    |text| text
        .parse()
        .map_err(|_| format!("{text:?} is no address and port")),
    SocketAddr::to_string
);
text_value!(
    SiteName,
    "a site name",
    |text| SiteName::new(text).map_err(|e| e.to_string()),
    SiteName::to_string
);

text_value!(
    HostName,
    "a host name or address",
    |text| HostName::new(text).map_err(|e| e.to_string()),
    HostName::to_string
);

impl OptionValue for bool {
    fn form() -> String {
        "true or false".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value
            .as_bool()
            .ok_or_else(|| format!("{} where true or false is expected", kind_of_value(value)))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl<T: OptionValue> OptionValue for Vec<T> {
    fn form() -> String {
        format!("a list in brackets, each {}", T::form())
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let DeValue::Array(items) = value else {
            let alone = T::read(value).map(|item| format!("; write it as [{}]", item.show()));
            let hint = alone.unwrap_or_default();
            return Err(format!(
                "{} where a list in brackets is expected{hint}",
                kind_of_value(value)
            ));
        };
        items
            .iter()
            .enumerate()
            .map(|(i, item)| T::read(item.get_ref()).map_err(|e| format!("item {}: {e}", i + 1)))
            .collect()
    }

    fn show(&self) -> String {
        let items: Vec<String> = self.iter().map(T::show).collect();
        format!("[{}]", items.join(", "))
    }
}

fn read_entries<T>(
    value: &DeValue<'_>,
    mut read: impl FnMut(&DeValue<'_>) -> Result<T, String>,
) -> Result<BTreeMap<Arc<str>, T>, String> {
    let DeValue::Table(table) = value else {
        return Err(format!(
            "{} where a table like {{ key = ... }} is expected",
            kind_of_value(value)
        ));
    };
    table
        .iter()
        .map(|(key, value)| {
            let key: &str = key.get_ref();
            read(value.get_ref())
                .map(|value| (Arc::from(key), value))
                .map_err(|e| format!("{key}: {e}"))
        })
        .collect()
}

fn format_key(key: &str) -> String {
    let bare = !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if bare { key.into() } else { quote(key) }
}

fn format_entries<'a>(entries: impl Iterator<Item = (&'a Arc<str>, String)>) -> String {
    let entries: Vec<String> = entries
        .map(|(key, value)| format!("{} = {value}", format_key(key)))
        .collect();
    match entries.as_slice() {
        [] => "{}".into(),
        entries => format!("{{ {} }}", entries.join(", ")),
    }
}

/// Counts by name: `{ licenses = 3 }`.
impl OptionValue for BTreeMap<Arc<str>, u64> {
    fn form() -> String {
        "a table like { licenses = 3 }".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        read_entries(value, u64::read)
    }

    fn show(&self) -> String {
        format_entries(self.iter().map(|(key, count)| (key, count.to_string())))
    }
}

/// Results of benchmarks: `{ linpack = 38.4 }`.
impl OptionValue for BenchmarkScores {
    fn form() -> String {
        "a table like { linpack = 38.4 }".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        read_entries(value, numbers::read_score)
    }

    fn show(&self) -> String {
        format_entries(
            self.iter()
                .map(|(key, score)| (key, format!("{:?}", score.as_f64()))),
        )
    }
}

/// Addresses by name: `{ team = "https://host/path" }`.
impl OptionValue for BTreeMap<Arc<str>, SecretUrl> {
    fn form() -> String {
        "a table like { team = \"https://host/path\" }".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        read_entries(value, SecretUrl::read)
    }

    fn show(&self) -> String {
        format_entries(self.iter().map(|(key, url)| (key, url.show())))
    }
}

/// Labels: `{ arch = "x86_64", software = ["gcc", "mpi"] }`.
impl OptionValue for SiteLabels {
    fn form() -> String {
        "a table like { arch = \"x86_64\", software = [\"gcc\", \"mpi\"] }".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        read_entries(value, |value| {
            let values = match value {
                DeValue::Array(_) => Vec::<String>::read(value)?,
                other => vec![String::read(other)?],
            };
            Ok(values
                .into_iter()
                .map(Arc::from)
                .collect::<BTreeSet<Arc<str>>>())
        })
    }

    fn show(&self) -> String {
        format_entries(self.iter().map(|(key, values)| {
            let values: Vec<String> = values.iter().map(|value| quote(value)).collect();
            let shown = match values.as_slice() {
                [one] => one.clone(),
                many => format!("[{}]", many.join(", ")),
            };
            (key, shown)
        }))
    }
}

/// An address that may carry a secret in its path or query: it is shown without them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUrl(pub String);

impl SecretUrl {
    /// Scheme and host.
    pub fn without_secrets(&self) -> String {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}/(hidden)")
    }
}

impl OptionValue for SecretUrl {
    fn form() -> String {
        "an address like \"https://host/path\"".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let url = read_text(value, "an address in quotes")?;
        let rest = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"));
        match rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default()) {
            Some(host) if !host.is_empty() && !url.contains(char::is_whitespace) => {
                Ok(SecretUrl(url.into()))
            }
            _ => Err("this is no address like https://host/path".into()),
        }
    }

    fn show(&self) -> String {
        quote(&self.without_secrets())
    }
}

/// Declares an option with a fixed set of words.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$vdoc])* $variant),+
        }

        impl $name {
            /// Lists all of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Returns the word in the configuration.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word),+
                }
            }

            /// Returns the one that has this word.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.word() == word)
            }
        }

        impl $crate::config::value::OptionValue for $name {
            fn form() -> String {
                [$(concat!("\"", $word, "\"")),+].join(" or ")
            }

            fn read(value: &toml::de::DeValue<'_>) -> Result<Self, String> {
                value.as_str().and_then(Self::from_word).ok_or_else(|| {
                    format!(
                        "{} where {} is expected",
                        $crate::config::value::kind_of_value(value),
                        Self::form(),
                    )
                })
            }

            fn show(&self) -> String {
                format!("\"{}\"", self.word())
            }
        }
    };
}
pub(super) use choice;

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: OptionValue>(text: &str) -> Result<T, String> {
        let text = format!("x = {text}");
        let table = toml::de::DeTable::parse(&text).unwrap();
        T::read(table.get_ref().get("x").unwrap().get_ref())
    }

    #[test]
    fn a_number_without_a_unit_is_no_duration() {
        assert!(
            read::<DurationMs>("60")
                .unwrap_err()
                .contains("the number 60")
        );
    }

    #[test]
    fn the_secret_part_of_an_address_is_not_shown() {
        let url: SecretUrl = read("\"https://u:p@hooks.example.org/T0/secret?k=1\"").unwrap();
        assert_eq!(url.show(), "\"https://hooks.example.org/(hidden)\"");
        assert!(read::<SecretUrl>("\"ftp://x\"").is_err());
        assert!(read::<SecretUrl>("\"https:///x\"").is_err());
    }

    #[test]
    fn labels_take_one_value_or_several_and_read_back() {
        let labels: SiteLabels =
            read("{ arch = \"x86_64\", software = [\"gcc\", \"mpi\"] }").unwrap();
        assert_eq!(labels["software"].len(), 2);
        assert_eq!(read(&labels.show()), Ok(labels));
        assert!(
            read::<SiteLabels>("{ arch = 1 }")
                .unwrap_err()
                .starts_with("arch:")
        );
    }
}
