//! The remains of attempts at a site, as an agent reports them: state files with their times.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use cospan_domain::ids::AttemptTag;
use cospan_domain::units::Timestamp;

use super::SiteAgentAnswer;
use super::site_time::SiteClockState;
use crate::wrapper::attempt_files::{FoundStateFile, WrapperEvidence};
use crate::wrapper::attempt_words::AttemptAuthenticator;
use crate::wrapper::parameters::push_end_line;
use crate::wrapper::state_files;

/// State files of one attempt; no content if something is there that cannot be read as a file.
type AttemptStateFiles = BTreeMap<String, (Option<Vec<u8>>, Timestamp)>;

/// The file of the spool with the number that the batch system gave.
const NUMBER: &str = "job";

/// The remains of attempts.
#[derive(Debug, Default)]
pub(crate) struct LeftAttemptFiles {
    /// The evidence of each attempt that has a directory.
    pub(crate) evidence: BTreeMap<AttemptTag, WrapperEvidence>,
    /// The attempts that have a wrapper in the spool, and were not removed.
    pub(crate) spooled: BTreeSet<AttemptTag>,
    /// The number that each was given when it was submitted, and when that was written.
    pub(crate) numbers: BTreeMap<AttemptTag, (String, Timestamp)>,
}

/// Reads what the agent found. Times are corrected by this clock.
pub(crate) fn read_remains(
    answer: &SiteAgentAnswer,
    seal: &AttemptAuthenticator,
    time: &mut SiteClockState,
) -> LeftAttemptFiles {
    let mut left: BTreeMap<AttemptTag, AttemptStateFiles> = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    let mut current: Option<(AttemptTag, String)> = None;
    let mut numbered: Option<(AttemptTag, Timestamp)> = None;
    for line in answer.0.lines() {
        if let Some(text) = line.strip_prefix("| ") {
            if let Some((tag, given)) = numbered.take() {
                numbers.insert(tag, (text.to_owned(), given));
            }
            let file = current
                .as_ref()
                .and_then(|(tag, name)| left.get_mut(tag)?.get_mut(name));
            if let Some((Some(bytes), _)) = file {
                bytes.extend_from_slice(text.as_bytes());
                bytes.push(b'\n');
            }
            continue;
        }
        numbered = parse_number_file(line)
            .map(|(tag, written)| (tag, time.file_time(tag, NUMBER, written)));
        current = parse_found_file(line).map(|(tag, name, modified, readable)| {
            let files = left.entry(tag).or_default();
            let modified = time.file_time(tag, &name, modified);
            match (name.is_empty(), readable) {
                (false, _) => {
                    files.insert(name.clone(), (readable.then(Vec::new), modified));
                }
                // All that is known of a directory that cannot be read.
                (true, false) => {
                    files.insert("exit".to_owned(), (None, modified));
                }
                (true, true) => {}
            }
            (tag, name)
        });
    }
    LeftAttemptFiles {
        evidence: left
            .into_iter()
            .map(|(tag, files)| (tag, gather_evidence(tag, files, seal)))
            .collect(),
        spooled: answer
            .values_of("d")
            .filter_map(|line| line.split_once(" spool/")?.1.parse().ok())
            .collect(),
        numbers,
    }
}

/// Parses a line `f SECONDS spool/TAG/job`.
fn parse_number_file(line: &str) -> Option<(AttemptTag, Timestamp)> {
    let (seconds, path) = line.strip_prefix("f ")?.split_once(' ')?;
    let (tag, name) = path.strip_prefix("spool/")?.split_once('/')?;
    (name == NUMBER).then_some(())?;
    Some((tag.parse().ok()?, seconds_to_timestamp(seconds)?))
}

/// Reads a line `KIND SECONDS attempts/TAG[/FILE]`; the directory itself has no file name. Kind `x`
/// is something that cannot be read.
fn parse_found_file(line: &str) -> Option<(AttemptTag, String, Timestamp, bool)> {
    let mut words = line.splitn(3, ' ');
    let kind = words.next()?;
    let seconds = words.next()?;
    let path = words.next()?;
    let below = path
        .strip_prefix("attempts/")
        .filter(|_| matches!(kind, "d" | "f" | "x"))?;
    let (tag, name) = below.split_once('/').unwrap_or((below, ""));
    let readable = kind != "x";
    Some((
        tag.parse().ok()?,
        name.to_owned(),
        seconds_to_timestamp(seconds)?,
        readable,
    ))
}

/// Parses seconds with a fraction, as `find` and `date` print them.
pub(crate) fn seconds_to_timestamp(seconds: &str) -> Option<Timestamp> {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    // A `date` that knows no fractions repeats its format.
    let digits = fraction
        .get(..3)
        .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let ms: u64 = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    Some(Timestamp(
        whole
            .parse::<u64>()
            .ok()?
            .checked_mul(1_000)?
            .saturating_add(ms),
    ))
}

fn gather_evidence(
    tag: AttemptTag,
    mut files: AttemptStateFiles,
    seal: &AttemptAuthenticator,
) -> WrapperEvidence {
    if let Some((Some(bytes), _)) = files.get_mut("decision")
        && !bytes.is_empty()
    {
        // Only the first line of a decision is sent: the file gets its name once it is complete.
        push_end_line(bytes, tag);
    }
    let whole = |name: &str| match files.get(name) {
        Some((Some(bytes), modified)) => Some((bytes.clone(), *modified)),
        _ => None,
    };
    let ended = whole("ended")
        .and_then(|(bytes, at)| Some((state_files::parse_ended(&bytes, tag, seal)?, at)));
    let life =
        whole("live").map(|(bytes, at)| format!("{} {}", at.0, String::from_utf8_lossy(&bytes)));
    match WrapperEvidence::from_files(tag, seal, |name: &str| {
        let found = files.get(name);
        Ok::<_, Infallible>(found.map(|(bytes, modified)| match bytes {
            Some(bytes) => FoundStateFile::File(bytes.as_slice().into(), *modified),
            None => FoundStateFile::Spoiled,
        }))
    }) {
        Ok(evidence) => WrapperEvidence {
            ended,
            life,
            ..evidence
        },
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{AttemptAtGate, AttemptObservation, ExitCause};

    const WAITS: &str = "cabcdefgh-1-0-1";
    const SHUT: &str = "cabcdefgh-2-0-1";
    const BARE: &str = "cabcdefgh-3-0-12";

    fn parse_evidence(text: &str) -> BTreeMap<AttemptTag, WrapperEvidence> {
        read_remains(
            &SiteAgentAnswer(text.to_owned()),
            &AttemptAuthenticator::without_words(),
            &mut SiteClockState::default(),
        )
        .evidence
    }

    #[test]
    fn what_attempts_left_is_told_apart_and_has_its_time() {
        let text = format!(
            "clock 7.5\nd 5.000 attempts/{WAITS}\nf 6.250001 attempts/{WAITS}/ready\n\
             | host n 1\n| pid 12\n| start 34\n| boot b\n| job 9\n| end {WAITS}\n\
             d 5.000 attempts/{SHUT}\nf 6.0 attempts/{SHUT}/decision\n| void\n\
             d 5.000 attempts/{BARE}\nf 6.0 attempts/{BARE}/exit\n| cause code 0\n"
        );
        let left = parse_evidence(&text);
        assert_eq!(left.len(), 3);
        let waits = &left[&WAITS.parse().unwrap()];
        let at_gate = AttemptAtGate {
            host: "n 1".into(),
            since: Timestamp(6_250),
            held_at: Timestamp(6_250),
        };
        assert_eq!(waits.live_observation(), AttemptObservation::Ready(at_gate));
        assert_eq!(waits.ready.as_ref().unwrap().0.job.as_deref(), Some("9"));
        assert_eq!(
            left[&SHUT.parse().unwrap()].final_observation(),
            Some(AttemptObservation::Void)
        );
        let bare = &left[&BARE.parse().unwrap()];
        assert_eq!(
            bare.live_observation(),
            AttemptObservation::Starting,
            "an exit that is cut short"
        );
    }

    #[test]
    fn lines_of_a_file_that_look_like_another_are_its_own() {
        let text = format!("f 6.0 attempts/{WAITS}/trouble\n| f 6.0 attempts/{SHUT}/exit\n");
        assert_eq!(
            parse_evidence(&text).into_keys().collect::<Vec<_>>(),
            [WAITS.parse().unwrap()]
        );
    }

    #[test]
    fn what_was_made_ready_and_not_removed_is_told() {
        let text = format!("d 5.000 spool/{WAITS}\n| d 5.000 spool/{SHUT}\n");
        let left = read_remains(
            &SiteAgentAnswer(text),
            &AttemptAuthenticator::without_words(),
            &mut SiteClockState::default(),
        );
        assert_eq!(
            left.spooled.into_iter().collect::<Vec<_>>(),
            [WAITS.parse().unwrap()]
        );
        assert!(left.evidence.is_empty());
    }

    #[test]
    fn what_a_batch_system_and_its_wrapper_say_of_an_attempt_is_told() {
        let text = format!(
            "f 5.000 spool/{WAITS}/job\n| 9\nd 5.000 attempts/{WAITS}\n\
             f 8.000 attempts/{WAITS}/live\n| 17.50\n\
             f 9.000 attempts/{WAITS}/ended\n| cause code 3\n| end {WAITS}\n\
             f 5.000 spool/{SHUT}/job\nd 5.000 attempts/{SHUT}\n"
        );
        let mut left = read_remains(
            &SiteAgentAnswer(text),
            &AttemptAuthenticator::without_words(),
            &mut SiteClockState::default(),
        );
        let tag = WAITS.parse().unwrap();
        let given = [(tag, ("9".to_owned(), Timestamp(5_000)))];
        assert_eq!(left.numbers, given.into(), "an empty file has no number");
        let waits = left.evidence.get_mut(&tag).unwrap();
        assert_eq!(waits.life.as_deref(), Some("8000 17.50\n"));
        assert_eq!(waits.final_observation(), None, "its wrapper may be there");
        waits.take_noted_end();
        assert_eq!(waits.exit, Some((ExitCause::Code(3), Timestamp(9_000))));
    }

    #[test]
    fn a_clock_without_fractions_is_read_in_whole_seconds() {
        assert_eq!(seconds_to_timestamp("17.%N"), Some(Timestamp(17_000)));
        assert_eq!(seconds_to_timestamp("17"), Some(Timestamp(17_000)));
        assert_eq!(seconds_to_timestamp("17.0039"), Some(Timestamp(17_003)));
        assert_eq!(seconds_to_timestamp("x"), None);
    }
}
