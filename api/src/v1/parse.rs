//! Parsers of job documents, with errors that name the line, the key and the key that was probably
//! meant.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer};
use thiserror::Error;

pub use cospan_domain::text::nearest_word;

use super::document::JobDocument;

/// The notation of a job file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFormat {
    /// TOML.
    Toml,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl JobFormat {
    /// Recognizes a format by the file name: `.toml`, `.json`, `.yaml` or `.yml`.
    pub fn of_file_name(name: &str) -> Option<JobFormat> {
        let (_, extension) = name.rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "toml" => Some(JobFormat::Toml),
            "json" => Some(JobFormat::Json),
            "yaml" | "yml" => Some(JobFormat::Yaml),
            _ => None,
        }
    }

    /// Guesses the format of a text without a name.
    pub fn guess_format(text: &str) -> JobFormat {
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'));
        match lines.next() {
            Some(line) if line.starts_with('{') => JobFormat::Json,
            // A list in JSON, unless it is the header of a TOML table.
            Some(line) if line.starts_with('[') => match line.ends_with(']') && line.len() > 2 {
                true if !line.contains('{') => JobFormat::Toml,
                _ => JobFormat::Json,
            },
            Some(line) if line.starts_with("- ") || line == "-" || line == "---" => JobFormat::Yaml,
            Some(line) => match (line.find('='), line.find(':')) {
                (Some(equals), Some(colon)) if colon < equals => JobFormat::Yaml,
                (None, Some(_)) => JobFormat::Yaml,
                _ => JobFormat::Toml,
            },
            None => JobFormat::Toml,
        }
    }
}

/// The reason why a text is not a job document.
#[derive(Debug, Clone, PartialEq, Eq, Error, Default)]
pub struct ParseError {
    /// Line in the text, from 1, if it is known.
    pub line: Option<u64>,
    /// Column in that line, from 1.
    pub column: Option<u64>,
    /// Path of the field, as `component[0].processors`; empty for the whole.
    pub key: String,
    /// The known key that is nearest to an unknown one.
    pub nearest: Option<String>,
    /// The error in words.
    pub problem: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

/// Reads one job.
///
/// # Errors
/// Anything that is not exactly a job document.
pub fn parse(text: &str, format: JobFormat) -> Result<JobDocument, ParseError> {
    read_value(text, format)
}

/// Reads one job, or a list of jobs: an array in JSON and YAML, `[[job]]` in TOML.
///
/// # Errors
/// Anything else; the key of the error names the index.
pub fn parse_all(text: &str, format: JobFormat) -> Result<Vec<JobDocument>, ParseError> {
    match (is_list(text, format), format) {
        (false, _) => read_value(text, format).map(|job| vec![job]),
        (true, JobFormat::Toml) => read_value::<JobListDocument>(text, format).map(|jobs| jobs.job),
        (true, JobFormat::Json | JobFormat::Yaml) => read_value(text, format),
    }
}

/// A list of jobs in TOML.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobListDocument {
    pub job: Vec<JobDocument>,
}

/// Returns true if a text is a list of jobs.
pub fn is_list(text: &str, format: JobFormat) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines
        .clone()
        .find(|l| !l.is_empty() && !l.starts_with('#') && *l != "---");
    match format {
        JobFormat::Toml => lines.any(|l| l.starts_with("[[job]]")),
        JobFormat::Json => first.is_some_and(|l| l.starts_with('[')),
        JobFormat::Yaml => first.is_some_and(|l| l.starts_with('[') || l.starts_with('-')),
    }
}

/// Reads a value of any type of this interface.
///
/// # Errors
/// Anything that is not exactly such a value.
pub fn read_value<T: DeserializeOwned>(text: &str, format: JobFormat) -> Result<T, ParseError> {
    match format {
        JobFormat::Json => read_json(text.as_bytes()),
        JobFormat::Toml => read_toml(text),
        JobFormat::Yaml => read_yaml(text),
    }
}

/// Reads JSON. Call it after a plain reading failed, to find the place of the error: keeping track
/// of the path costs time.
///
/// # Errors
///
/// Anything that is not exactly such a value.
pub fn read_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, ParseError> {
    let mut from = serde_json::Deserializer::from_slice(text);
    let value = deserialize_with_path(&mut from, |error| {
        let full = error.to_string();
        // The line already gives the place; it would appear twice.
        let problem = full
            .rsplit_once(" at line ")
            .map_or(full.as_str(), |(before, _)| before);
        error_at(error.line() as u64, error.column() as u64, problem)
    })?;
    from.end().map_err(|error| {
        error_at(
            error.line() as u64,
            error.column() as u64,
            "more text after the end of the document",
        )
    })?;
    Ok(value)
}

fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, ParseError> {
    let from = toml::Deserializer::parse(text).map_err(|error| locate_error(text, &error))?;
    deserialize_with_path(from, |error| locate_error(text, error))
}

fn locate_error(text: &str, error: &toml::de::Error) -> ParseError {
    match error.span() {
        Some(span) => {
            let (line, column) = line_and_column(text, span.start);
            error_at(line, column, error.message())
        }
        None => ParseError {
            problem: error.message().into(),
            ..ParseError::default()
        },
    }
}

/// Returns line and column of a byte, both from 1.
pub fn line_and_column(text: &str, at: usize) -> (u64, u64) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() as u64 + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() as u64 + 1;
    (line, column)
}

/// Converts an error of the TOML reader into our words.
pub fn convert_toml_error(
    text: &str,
    error: &serde_path_to_error::Error<toml::de::Error>,
) -> ParseError {
    finish_error(locate_error(text, error.inner()), path_of(error.path()))
}

fn read_yaml<T: DeserializeOwned>(text: &str) -> Result<T, ParseError> {
    let mut found = None;
    let options = serde_saphyr::options! { with_snippet: false };
    let result = serde_saphyr::with_deserializer_from_str_with_options(text, options, |from| {
        serde_path_to_error::deserialize(from).map_err(|error| {
            found = Some(path_of(error.path()));
            error.into_inner()
        })
    });
    result.map_err(|error: serde_saphyr::Error| {
        let (line, column) = error
            .location()
            .map_or((0, 0), |at| (at.line(), at.column()));
        let full = error.to_string();
        let problem = full
            .rsplit_once(" at line ")
            .map_or(full.as_str(), |(before, _)| before);
        finish_error(error_at(line, column, problem), found.unwrap_or_default())
    })
}

fn error_at(line: u64, column: u64, problem: &str) -> ParseError {
    ParseError {
        line: (line > 0).then_some(line),
        column: (column > 0).then_some(column),
        problem: problem.into(),
        ..ParseError::default()
    }
}

fn deserialize_with_path<'de, D, T>(
    from: D,
    located: impl Fn(&D::Error) -> ParseError,
) -> Result<T, ParseError>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    serde_path_to_error::deserialize(from).map_err(|error| {
        let path = path_of(error.path());
        finish_error(located(error.inner()), path)
    })
}

fn path_of(path: &serde_path_to_error::Path) -> String {
    let text = path.to_string();
    if text == "." { String::new() } else { text }
}

/// Replaces serde's message about an unknown key by ours, with the nearest known key.
fn finish_error(mut error: ParseError, path: String) -> ParseError {
    error.key = path;
    let Some((kind, unknown, known)) = parse_unknown_key(&error.problem) else {
        return error;
    };
    error.nearest = nearest_word(&unknown, &known);
    error.problem = match &error.nearest {
        Some(_) => format!("unknown {kind} `{unknown}`"),
        None => format!("unknown {kind} `{unknown}`; known are {}", known.join(", ")),
    };
    error
}

/// Splits "unknown field `x`, expected one of `a`, `b`".
pub fn parse_unknown_key(message: &str) -> Option<(&'static str, String, Vec<String>)> {
    let (kind, rest) = match message.strip_prefix("unknown field `") {
        Some(rest) => ("key", rest),
        None => ("value", message.strip_prefix("unknown variant `")?),
    };
    let (unknown, rest) = rest.split_once("`, ")?;
    // Some readers put the known keys into backticks, some do not.
    let list = rest
        .trim_start_matches("expected ")
        .trim_start_matches("one of ");
    let words = list
        .split([',', ' ', '`'])
        .filter(|word| !word.is_empty() && *word != "or");
    let known = words.map(str::to_owned).collect();
    Some((kind, unknown.chars().take(80).collect(), known))
}
