//! The options of a script, by component.

use super::ScriptError;
use super::arity::{self, Given};
use super::lines;
use super::table::Meaning;

/// What one component asks for, in the order in which it was given.
#[derive(Debug, Clone, Default)]
pub(super) struct Options(pub(super) Vec<Given>);

/// What a script asks for: by component, and what to tell its user.
type Asked = (Vec<Options>, Vec<(usize, String)>);

impl Options {
    /// An option; of several the last counts.
    pub(super) fn last(&self, name: &str) -> Option<&Given> {
        self.0.iter().rev().find(|given| given.known.name == name)
    }
}

/// Reads all of them; what cannot be had here is refused.
pub(super) fn of_script(text: &str) -> Result<Asked, ScriptError> {
    let (components, late) = lines::words(text)?;
    let mut notes = Vec::new();
    let mut read = Vec::with_capacity(components.len());
    for words in &components {
        let given = arity::read(words)?;
        for one in &given {
            match one.known.meaning {
                Meaning::Refused(remedy) => {
                    let problem = format!("--{} cannot be passed on", one.known.name);
                    return Err(ScriptError::at(one.line, problem, remedy));
                }
                Meaning::NoEffect(why) if !why.is_empty() => {
                    notes.push((
                        one.line,
                        format!("--{} has no effect: {why}", one.known.name),
                    ));
                }
                Meaning::NoEffect(_) | Meaning::Read | Meaning::Passed => {}
            }
        }
        read.push(Options(given));
    }
    if let Some(line) = late {
        let note = "not read, because it comes after the first command of the script";
        notes.push((line, note.to_owned()));
    }
    Ok((read, notes))
}
