//! The way of a script to a site, and its start there.

use std::string::FromUtf8Error;
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

/// Reads the text of a file. Comments of a script may be in another encoding than UTF-8: they come out
/// with signs that stand for whatever it was.
///
/// # Errors
/// Something else is not UTF-8.
pub fn decode_text(bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    String::from_utf8(bytes).or_else(|error| {
        let bytes = error.as_bytes();
        let mut lines = bytes.split(|byte| *byte == b'\n');
        if bytes.starts_with(b"#!")
            && lines.all(|line| is_mere_comment(line) || std::str::from_utf8(line).is_ok())
        {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        } else {
            Err(error)
        }
    })
}

fn is_mere_comment(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.starts_with(b"#") && !line.get(1).is_some_and(u8::is_ascii_uppercase)
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
    fn comments_of_a_script_may_be_in_another_encoding() {
        let decode = |bytes: &[u8]| decode_text(bytes.to_vec()).ok();
        let text = decode(b"#!/bin/sh\n  # gr\xfc\xdfe\necho\n");
        assert_eq!(
            text.as_deref(),
            Some("#!/bin/sh\n  # gr\u{fffd}\u{fffd}e\necho\n")
        );
        for other in [
            &b"#!/bin/sh\necho gr\xfc\xdfe\n"[..],
            b"#!/bin/sh\n#SBATCH -J gr\xfc\xdfe\n",
            b"# gr\xfc\xdfe\nname = \"x\"\n",
        ] {
            assert_eq!(decode(other), None);
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
