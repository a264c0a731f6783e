//! The options of a script, by component.

use super::ScriptError;
use super::getopt::{self, GivenOption};
use super::lines;
use super::option_table::OptionTreatment;

/// The options of one component, in the order in which they were given.
#[derive(Debug, Clone, Default)]
pub(super) struct ComponentOptions(pub(super) Vec<GivenOption>);

/// The options of a script by component, and notes for its user.
type ScriptOptions = (Vec<ComponentOptions>, Vec<(usize, String)>);

impl ComponentOptions {
    /// Finds an option; of several the last counts.
    pub(super) fn last_given(&self, name: &str) -> Option<&GivenOption> {
        self.0.iter().rev().find(|given| given.known.name == name)
    }
}

/// Reads all options; those that are not available here are refused.
pub(super) fn parse_script_options(text: &str) -> Result<ScriptOptions, ScriptError> {
    let (components, late) = lines::option_words(text)?;
    let mut notes = Vec::new();
    let mut read = Vec::with_capacity(components.len());
    for words in &components {
        let given = getopt::parse_options(words)?;
        for one in &given {
            match one.known.meaning {
                OptionTreatment::Refused(remedy) => {
                    let problem = format!("--{} cannot be passed on", one.known.name);
                    return Err(ScriptError::at_line(one.line, problem, remedy));
                }
                OptionTreatment::NoEffect(why) if !why.is_empty() => {
                    notes.push((
                        one.line,
                        format!("--{} has no effect: {why}", one.known.name),
                    ));
                }
                OptionTreatment::NoEffect(_) | OptionTreatment::Read | OptionTreatment::Passed => {}
            }
        }
        read.push(ComponentOptions(given));
    }
    if let Some(line) = late {
        let note = "not read, because it comes after the first command of the script";
        notes.push((line, note.to_owned()));
    }
    Ok((read, notes))
}
