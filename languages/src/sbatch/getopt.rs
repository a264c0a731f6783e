//! Words as options with their values, as getopt reads them.

use super::ScriptError;
use super::lines::OptionWord;
use super::option_table::{ALIASES, SbatchOption, TABLE};
use cospan_api::v1::parse::nearest_word;

/// Beginnings of the options of a plug-in that many sites have, some of which are like others.
const CONTAINERS: [&str; 2] = ["container-", "no-container-"];

/// The ways in which an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionArity {
    /// Always.
    Value,
    /// Only with `=`.
    Perhaps,
    /// Never.
    Nothing,
}

/// An option as it was given.
#[derive(Debug, Clone)]
pub(super) struct GivenOption {
    pub(super) line: usize,
    pub(super) known: &'static SbatchOption,
    pub(super) value: Option<String>,
}

impl GivenOption {
    /// Writes the option as one word for `sbatch`.
    pub(super) fn as_word(&self) -> String {
        match &self.value {
            Some(value) => format!("--{}={value}", self.known.name),
            None => format!("--{}", self.known.name),
        }
    }

    /// The value; empty if there is none.
    pub(super) fn value_text(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }

    /// The error for a value that cannot be read.
    pub(super) fn wrong_value_error(&self, remedy: impl Into<String>) -> ScriptError {
        let problem = format!(
            "--{}: {:?} cannot be read",
            self.known.name,
            self.value_text()
        );
        ScriptError::at_line(self.line, problem, remedy)
    }
}

/// The options of one component, in the order in which they were given.
#[derive(Debug, Clone, Default)]
pub(super) struct ComponentOptions {
    /// Options of `sbatch` itself.
    pub(super) given: Vec<GivenOption>,
    /// Options that plug-ins of a site may know, each as one word, with their lines.
    pub(super) plugin: Vec<(usize, String)>,
}

impl ComponentOptions {
    /// Finds an option; of several the last counts.
    pub(super) fn last_given(&self, name: &str) -> Option<&GivenOption> {
        self.given
            .iter()
            .rev()
            .find(|given| given.known.name == name)
    }
}

/// Reads the words of one component.
pub(super) fn parse_options(words: &[OptionWord]) -> Result<ComponentOptions, ScriptError> {
    let mut options = ComponentOptions::default();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        // A value stands on the line of its option.
        let mut following = || {
            rest.next_if(|next| next.line == word.line)
                .map(|n| n.text.clone())
        };
        let Some(long) = word.text.strip_prefix("--") else {
            parse_short(word, &mut following, &mut options.given)?;
            continue;
        };
        let name = long.split_once('=').map_or(long, |(name, _)| name);
        match find_option(word.line, name)? {
            Some(known) => options
                .given
                .push(parse_long(word.line, known, long, &mut following)?),
            None => {
                // Whether it takes a value only its plug-in knows: no other word may stand there.
                let is_value =
                    |next: &&OptionWord| next.line == word.line && !next.text.starts_with('-');
                let value = rest.next_if(|next| !long.contains('=') && is_value(next));
                let value = value.map_or_else(String::new, |value| format!("={}", value.text));
                options.plugin.push((word.line, format!("--{long}{value}")));
            }
        }
    }
    Ok(options)
}

fn parse_long(
    line: usize,
    known: &'static SbatchOption,
    long: &str,
    following: &mut dyn FnMut() -> Option<String>,
) -> Result<GivenOption, ScriptError> {
    let value = long.split_once('=').map(|(_, value)| value.to_owned());
    let value = match (known.takes, value) {
        (OptionArity::Value, None) => {
            Some(following().ok_or_else(|| missing_value_error(line, known))?)
        }
        (OptionArity::Nothing, Some(_)) => {
            let problem = format!("--{} takes no value", known.name);
            return Err(ScriptError::at_line(line, problem, "leave it out"));
        }
        (_, value) => value,
    };
    if value.as_deref() == Some("") {
        return Err(missing_value_error(line, known));
    }
    Ok(GivenOption { line, known, value })
}

/// Reads short options: those without values may stand together in a word.
fn parse_short(
    word: &OptionWord,
    following: &mut dyn FnMut() -> Option<String>,
    given: &mut Vec<GivenOption>,
) -> Result<(), ScriptError> {
    let line = word.line;
    let mut letters = match word.text.strip_prefix('-') {
        Some(letters) if !letters.is_empty() => letters.chars(),
        _ => {
            let problem = format!("{:?} is no option", quote_for_message(&word.text));
            let remedy = "write options as --option=value; give arguments of the script itself on \
                          the command line, after `--`";
            return Err(ScriptError::at_line(line, problem, remedy));
        }
    };
    while let Some(letter) = letters.next() {
        let known = TABLE.iter().find(|known| known.short == Some(letter));
        let known = known.ok_or_else(|| {
            let problem = format!("there is no option -{letter} of sbatch");
            ScriptError::at_line(line, problem, "write it as --option=value")
        })?;
        if known.takes != OptionArity::Value {
            given.push(GivenOption {
                line,
                known,
                value: None,
            });
            continue;
        }
        let rest = letters.as_str();
        let value = if rest.is_empty() {
            following()
        } else {
            Some(rest.to_owned())
        };
        let value = value.filter(|value| !value.is_empty());
        let value = Some(value.ok_or_else(|| missing_value_error(line, known))?);
        given.push(GivenOption { line, known, value });
        break;
    }
    Ok(())
}

/// Finds an option by its name, or by a prefix that only it has. `None` if it may be one of a plug-in
/// at a site: it is like none of `sbatch`.
fn find_option(line: usize, name: &str) -> Result<Option<&'static SbatchOption>, ScriptError> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, own)| own);
    if let Some(known) = TABLE.iter().find(|known| known.name == name) {
        return Ok(Some(known));
    }
    let begins: Vec<&SbatchOption> = TABLE
        .iter()
        .filter(|known| known.name.starts_with(name))
        .collect();
    if let &[known] = begins.as_slice() {
        return Ok(Some(known));
    }
    let names: Vec<String> = TABLE.iter().map(|known| known.name.to_owned()).collect();
    let close = nearest_word(name, &names).filter(|close| !name.starts_with(close.as_str()));
    let is_of_containers = CONTAINERS.iter().any(|begin| name.starts_with(begin));
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if begins.is_empty() && (is_of_containers || close.is_none()) && name.chars().all(is_name) {
        return Ok(None);
    }
    let remedy = match close {
        Some(close) => format!("did you mean --{close}?"),
        None => "correct it, or take it out".to_owned(),
    };
    Err(ScriptError::at_line(
        line,
        format!("there is no option --{} of sbatch", quote_for_message(name)),
        remedy,
    ))
}

fn missing_value_error(line: usize, known: &SbatchOption) -> ScriptError {
    let name = known.name;
    ScriptError::at_line(
        line,
        format!("--{name} has no value"),
        format!("write it as --{name}=..."),
    )
}

pub(super) fn quote_for_message(text: &str) -> String {
    text.chars().take(40).collect()
}
