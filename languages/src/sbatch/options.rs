//! The options of a script, by component.

use super::ScriptError;
use super::getopt::{self, ComponentOptions, GivenOption};
use super::option_table::OptionTreatment;
use super::{foreign_lines, lines};

/// The options of a script by component, and notes for its user.
type ScriptOptions = (Vec<ComponentOptions>, Vec<(usize, String)>);

/// Reads all options; those that are not available here are refused. Lines of PBS and LSF count as
/// `sbatch` counts them: in each component, whatever its own lines say.
pub(super) fn parse_script_options(text: &str) -> Result<ScriptOptions, ScriptError> {
    let (components, late) = lines::option_words(text)?;
    let mut notes = Vec::new();
    let mut read = Vec::with_capacity(components.len());
    for words in &components {
        read.push(getopt::parse_options(words)?);
    }
    let ignores = |options: &ComponentOptions| options.last_given("ignore-pbs").is_some();
    if !read.iter().any(ignores) {
        let foreign = foreign_lines::parse_foreign_options(text)?;
        if let Some(first) = foreign.first() {
            let note = "lines of another batch system count as sbatch counts them, before its own";
            notes.push((first.line, note.to_owned()));
        }
        read.iter_mut()
            .for_each(|options| options.given.extend(foreign.iter().cloned()));
    }
    for options in &read {
        for given in &options.given {
            notes.extend(note_on_option(given)?);
        }
        for (line, word) in &options.plugin {
            let note = format!("{word} is no option of sbatch itself: sites under Slurm get it");
            notes.push((*line, note));
        }
    }
    if let Some(line) = late {
        let note = "not read, because it comes after the first command of the script";
        notes.push((line, note.to_owned()));
    }
    Ok((read, notes))
}

/// Returns what is to be said of an option.
fn note_on_option(given: &GivenOption) -> Result<Option<(usize, String)>, ScriptError> {
    let name = given.known.name;
    match given.known.meaning {
        OptionTreatment::Refused(_) if name == "begin" && given.value_text() == "now" => Ok(None),
        OptionTreatment::Refused(remedy) => {
            let problem = format!("--{name} cannot be passed on");
            Err(ScriptError::at_line(given.line, problem, remedy))
        }
        OptionTreatment::NoEffect(why) if !why.is_empty() => {
            let note = format!("--{name} has no effect: {why}");
            Ok(Some((given.line, note)))
        }
        OptionTreatment::NoEffect(_) | OptionTreatment::Read | OptionTreatment::Passed => Ok(None),
    }
}
