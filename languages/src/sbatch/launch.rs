//! The way of a script to a site, and its start there.

use std::sync::Arc;

use super::component_demands::ComponentDemands;
use super::job_options::ScriptStart;
use super::{BatchScript, ScriptError};

const LAUNCHER: &str = include_str!("launch.sh");

/// Longest text, in bytes: one argument of a program is shorter than 128 KiB.
const TEXT_MAX: usize = 120 << 10;

/// Checks that the text can be carried at all.
pub(super) fn check_script(script: &BatchScript<'_>) -> Result<(), ScriptError> {
    let text = script.text;
    if let Some(at) = text.find('\0') {
        let problem = "the script has a NUL character";
        return Err(ScriptError::at_line(
            text[..at].matches('\n').count() + 1,
            problem,
            "a script is text: is this the right file?",
        ));
    }
    if let Some(at) = text.find("\r\n") {
        let problem = "the script has Windows line breaks";
        return Err(ScriptError::at_line(
            text[..at].matches('\n').count() + 1,
            problem,
            "convert it: `dos2unix FILE`",
        ));
    }
    if text.len() > TEXT_MAX {
        let problem = format!(
            "the script has {} bytes; at most {TEXT_MAX} are allowed",
            text.len()
        );
        let remedy = "register the data in it as a file of its own (`cospan file add`), or keep it \
                      at the sites";
        return Err(ScriptError::without_line(problem, remedy));
    }
    Ok(())
}

/// Returns true if the interpreter of a script reads the login files itself.
pub(super) fn is_login_shell(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let mut words = first.trim_start_matches("#!").split_whitespace().skip(1);
    words.any(|word| {
        // Short options may stand together in one word.
        let is_short = word.starts_with('-') && !word.starts_with("--");
        word == "--login" || (is_short && word.contains('l'))
    })
}

/// The arguments of `/bin/sh` for one of the components.
pub(super) fn launcher_arguments(
    script: &BatchScript<'_>,
    start: &ScriptStart,
    demands: &ComponentDemands,
    components: usize,
) -> Vec<Arc<str>> {
    let mut words = vec![
        "-c".to_owned(),
        LAUNCHER.to_owned(),
        program_name(script.name),
    ];
    words.push(script.text.to_owned());
    words.extend(start.words.iter().cloned());
    words.extend(
        demands
            .site_variables()
            .map(|(name, value)| format!("{name}={value}")),
    );
    if components > 1 {
        words.push(format!("SLURM_HET_SIZE={components}"));
    }
    words.push("--".to_owned());
    words.extend(script.arguments.iter().cloned());
    words.into_iter().map(|word| start.escape(word)).collect()
}

/// The name of the script's file at a site.
fn program_name(name: &str) -> String {
    let fit: String = name
        .chars()
        .filter(|c| !c.is_control() && *c != '/')
        .take(60)
        .collect();
    match fit.as_str() {
        "" | "." | ".." => "script".to_owned(),
        _ => fit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_that_logs_in_is_known_by_its_option() {
        for first in [
            "#!/bin/bash -l",
            "#!/bin/bash --login",
            "#!/bin/bash -xl",
            "#! /bin/sh  -l",
        ] {
            assert!(is_login_shell(&format!("{first}\necho")), "{first}");
        }
        for first in [
            "#!/bin/bash",
            "#!/usr/bin/env python3",
            "#!/bin/bash -x",
            "#!/bin/sh --lax",
        ] {
            assert!(!is_login_shell(&format!("{first}\necho -l")), "{first}");
        }
    }

    #[test]
    fn the_file_of_a_script_has_a_name_that_is_one() {
        for (name, expected) in [
            ("job.sh", "job.sh"),
            ("..", "script"),
            ("a/b\n", "ab"),
            ("", "script"),
        ] {
            assert_eq!(program_name(name), expected);
        }
    }
}
