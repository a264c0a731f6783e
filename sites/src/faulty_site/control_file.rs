//! The control file: one line per kind of call, read when it changed.
//!
//! ```text
//! # call fault [next N]
//! submit lost-after next 1
//! status freeze
//! all delay-250ms
//! ```
//! Calls that the file does not name go well. A missing file arms nothing. Replace it as a whole
//! (write aside, rename): a line that cannot be read fails the call.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use thiserror::Error;

use super::{ArmedFault, FaultSwitch, InjectedFault};
use crate::port::SiteCallKind;

/// A line of the control file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line} of the fault control file, {text:?}, is not `call fault [next N]`")]
pub struct ControlFileError {
    line: usize,
    text: String,
}

/// A control file, and its state when it was last read.
#[derive(Debug)]
pub(super) struct FaultControlFile {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

impl FaultControlFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    /// Arms what the file says, if it has changed.
    pub(super) fn apply_changes(&mut self, faults: &FaultSwitch) -> Result<(), ControlFileError> {
        let state = std::fs::metadata(&self.path)
            .and_then(|metadata| {
                Ok((
                    metadata.modified()?,
                    std::os::unix::fs::MetadataExt::ino(&metadata),
                ))
            })
            .ok();
        if state == self.seen {
            return Ok(());
        }
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        faults.set_armed(parse_control(&text)?);
        self.seen = state;
        Ok(())
    }
}

fn parse_control(text: &str) -> Result<BTreeMap<SiteCallKind, ArmedFault>, ControlFileError> {
    let mut all = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (calls, armed) = parse_control_line(line).ok_or_else(|| ControlFileError {
            line: index + 1,
            text: line.to_owned(),
        })?;
        all.extend(calls.into_iter().map(|call| (call, armed)));
    }
    Ok(all)
}

fn parse_control_line(line: &str) -> Option<(Vec<SiteCallKind>, ArmedFault)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (call, fault, left) = match words[..] {
        [call, fault] => (call, fault, None),
        [call, fault, "next", count] => (call, fault, Some(count.parse().ok()?)),
        _ => return None,
    };
    let calls = match call {
        "all" => SiteCallKind::ALL.to_vec(),
        name => vec![
            SiteCallKind::ALL
                .into_iter()
                .find(|call| call.as_str() == name)?,
        ],
    };
    Some((
        calls,
        ArmedFault {
            fault: parse_fault(fault)?,
            left,
        },
    ))
}

fn parse_fault(text: &str) -> Option<InjectedFault> {
    Some(match text {
        "not-sent" => InjectedFault::NotSent,
        "refused" => InjectedFault::Refused,
        "site-full" => InjectedFault::SiteFull,
        "lost-before" => InjectedFault::LostBefore,
        "lost-after" => InjectedFault::LostAfter,
        "freeze" => InjectedFault::Freeze,
        "unknown" => InjectedFault::Unknown,
        "absent" => InjectedFault::Absent,
        _ => {
            let ms = text.strip_prefix("delay-")?.strip_suffix("ms")?;
            InjectedFault::Delay(Duration::from_millis(ms.parse().ok()?))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_file_says_what_strikes_whom() {
        let armed =
            parse_control("# comment\nall delay-250ms\nsubmit lost-after next 1 # once\n").unwrap();
        assert_eq!(armed.len(), SiteCallKind::ALL.len());
        assert_eq!(
            armed[&SiteCallKind::Submit],
            ArmedFault {
                fault: InjectedFault::LostAfter,
                left: Some(1)
            }
        );
        let delay = InjectedFault::Delay(Duration::from_millis(250));
        assert_eq!(
            armed[&SiteCallKind::Status],
            ArmedFault {
                fault: delay,
                left: None
            }
        );
        assert_eq!(parse_control(""), Ok(BTreeMap::new()));
    }

    #[test]
    fn a_line_that_says_nothing_is_named() {
        for text in [
            "submit",
            "submit crash",
            "sumbit freeze",
            "submit freeze next x",
            "a b c",
        ] {
            let error = parse_control(&format!("status freeze\n{text}\n")).unwrap_err();
            assert!(error.to_string().starts_with("line 2"), "{error}");
        }
    }
}
