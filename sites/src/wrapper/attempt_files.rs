//! Evaluates the files of one attempt.

use std::borrow::Cow;
use std::sync::Arc;

use cospan_domain::ids::AttemptTag;
use cospan_domain::units::Timestamp;

use super::attempt_words::AttemptAuthenticator;
use super::state_files::{self, ProcessIdentity, ReadyFile};
use crate::attempt_end::{AttemptEnd, WrapperFileState};
use crate::port::{
    AttemptAtGate, AttemptObservation, ExitCause, GateState, PayloadExit, QueuedAttempt,
    RunningPayload,
};

/// The numbers of the signals with which batch systems end jobs.
const KILL: i32 = 9;
const TERM: i32 = 15;

/// Whatever is found under the name of a state file.
#[derive(Debug)]
pub(crate) enum FoundStateFile<'f> {
    /// A file: its content, and the time when it was written.
    File(Cow<'f, [u8]>, Timestamp),
    /// Something that no wrapper makes, or that cannot be read.
    Spoiled,
}

/// The complete state files of an attempt that has a directory.
#[derive(Debug, Default)]
pub(crate) struct WrapperEvidence {
    pub(crate) ready: Option<(ReadyFile, Timestamp)>,
    pub(crate) decision: Option<(GateState, Timestamp)>,
    /// The payload.
    pub(crate) begun: Option<(ProcessIdentity, Timestamp)>,
    /// True if there is a `begun`, complete or not: a payload may have started.
    pub(crate) perhaps_begun: bool,
    pub(crate) exit: Option<(ExitCause, Timestamp)>,
    /// The end of the payload, if its wrapper wrote that down before its `exit`.
    pub(crate) ended: Option<(ExitCause, Timestamp)>,
    /// The latest sign of its wrapper's life, if that gives any: another text each time.
    pub(crate) life: Option<String>,
    pub(crate) trouble: Option<String>,
    /// True if a state file is not as its wrapper made it.
    pub(crate) spoiled: bool,
    /// True if its wrapper could not write how the payload ended.
    pub(crate) is_cut: bool,
}

impl WrapperEvidence {
    /// Reads the files that are there.
    pub(crate) fn from_files<'f, E>(
        tag: AttemptTag,
        seal: &AttemptAuthenticator,
        file: impl Fn(&str) -> Result<Option<FoundStateFile<'f>>, E>,
    ) -> Result<Self, E> {
        let files = (
            file("ready")?,
            file("decision")?,
            file("begun")?,
            file("exit")?,
        );
        let (ready, decision, begun, exit) = files;
        let trouble = file("trouble")?;
        let all = [&ready, &decision, &begun, &exit, &trouble];
        let replaced = all
            .iter()
            .any(|found| matches!(found, Some(FoundStateFile::Spoiled)));
        // An `exit` that was opened and not written: its disk is full.
        let is_cut = matches!(&exit, Some(FoundStateFile::File(bytes, _)) if bytes.is_empty());
        // The file is complete, but was not written by who should have.
        let forged = is_forged(tag, &exit, |bytes| {
            state_files::parse_exit(bytes, tag, seal).is_some()
        }) || is_forged(tag, &decision, |bytes| {
            state_files::parse_decision(bytes, tag, seal).is_some()
        });
        let perhaps_begun = begun.is_some();
        let begun_at = parse_found_file(tag, begun, state_files::parse_begun);
        let why = parse_found_file(tag, trouble, state_files::parse_trouble).map(|(why, _)| why);
        Ok(Self {
            // No wrapper fails to start what has begun, however little of `begun` there is.
            spoiled: replaced || forged || (why.is_some() && perhaps_begun),
            is_cut,
            ready: parse_found_file(tag, ready, state_files::parse_ready),
            decision: parse_found_file(tag, decision, |bytes, tag| {
                state_files::parse_decision(bytes, tag, seal)
            }),
            perhaps_begun,
            begun: begun_at,
            exit: parse_found_file(tag, exit, |bytes, tag| {
                state_files::parse_exit(bytes, tag, seal)
            }),
            ended: None,
            life: None,
            trouble: why,
        })
    }

    /// Takes what its payload is known to have ended with for its end. For a wrapper that is gone:
    /// one that is there may still hear that it was asked to end. A signal that ends whole jobs
    /// may have come to the payload first.
    pub(crate) fn take_noted_end(&mut self) {
        let is_own =
            |(cause, _): &(ExitCause, Timestamp)| !matches!(cause, ExitCause::Signal(TERM | KILL));
        if self.exit.is_none() {
            self.exit = self.ended.clone().filter(is_own);
        }
    }

    /// Summarises the files, as far as it matters for the meaning of an end.
    pub(crate) fn file_state(&self) -> WrapperFileState {
        match &self.exit {
            Some((ExitCause::Code(0), _)) => WrapperFileState::Success,
            Some((ExitCause::Signal(TERM | KILL), _)) => WrapperFileState::Killed,
            Some((ExitCause::Code(_) | ExitCause::Signal(_) | ExitCause::Requeued, _)) => {
                WrapperFileState::Failure
            }
            Some((ExitCause::Terminated, _)) => WrapperFileState::Terminated,
            Some((ExitCause::WallTime, _)) => WrapperFileState::WallTime,
            Some((ExitCause::CouldNotStart(_), _)) => WrapperFileState::Unstarted,
            Some((ExitCause::TooLate, _)) => WrapperFileState::TooLate,
            None if matches!(self.decision, Some((GateState::Voided, _))) => WrapperFileState::Void,
            None if self.spoiled => WrapperFileState::Spoiled,
            None if self.trouble.is_some() => WrapperFileState::Trouble,
            // This includes a wrapper that could not write the end: its
            // payload can make it look so.
            None if self.perhaps_begun => WrapperFileState::Begun,
            None if self.is_cut => WrapperFileState::Trouble,
            None => WrapperFileState::AtGate,
        }
    }

    /// Returns true if they say how it ended, and nobody has to be asked whether it was killed.
    pub(crate) fn tells_its_end(&self) -> bool {
        self.exit.is_some() && self.file_state() != WrapperFileState::Killed
    }

    /// Returns the observation if it will not change any more.
    pub(crate) fn final_observation(&self) -> Option<AttemptObservation> {
        match &self.exit {
            Some((cause, ended_at)) => {
                Some(AttemptObservation::Exited(self.make_exit(cause, *ended_at)))
            }
            None => matches!(self.decision, Some((GateState::Voided, _)))
                .then_some(AttemptObservation::Void),
        }
    }

    fn make_exit(&self, cause: &ExitCause, ended_at: Timestamp) -> PayloadExit {
        // Without `begun` it ended between the opening of the gate and its start.
        let began_at = self.begun.as_ref().map(|(_, at)| *at);
        let began_at = began_at.or_else(|| self.decision.map(|(_, at)| at));
        PayloadExit {
            cause: cause.clone(),
            began_at: began_at.unwrap_or(ended_at),
            ended_at,
        }
    }

    /// Returns the observation while its processes live.
    pub(crate) fn live_observation(&self) -> AttemptObservation {
        match (self.final_observation(), &self.begun, &self.ready) {
            (Some(last), _, _) => last,
            (None, Some((_, at)), _) => AttemptObservation::Begun(RunningPayload {
                host: self.node_names(),
                at: *at,
            }),
            (None, None, _) if self.spoiled => AttemptObservation::Unknown(SPOILED.to_owned()),
            (None, None, Some((_, at))) => AttemptObservation::Ready(AttemptAtGate {
                host: self.node_names(),
                since: *at,
                held_at: *at,
            }),
            (None, None, None) => AttemptObservation::Starting,
        }
    }

    // The place where it runs, for people and for its siblings: all of its nodes.
    fn node_names(&self) -> Arc<str> {
        match &self.ready {
            Some((ready, _)) => ready.nodes.as_ref().unwrap_or(&ready.host).as_str().into(),
            None => "".into(),
        }
    }

    /// Returns true if its payload may have begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.perhaps_begun || self.exit.is_some() || self.spoiled
    }
}

/// Turns a verdict into the port's observation. `evidence`: what it was reached from; `said`: what
/// the site says of the attempt.
pub(crate) fn to_observation(
    verdict: AttemptEnd,
    evidence: Option<&WrapperEvidence>,
    said: impl Fn() -> String,
) -> AttemptObservation {
    let began = evidence.is_some_and(WrapperEvidence::has_begun);
    let trouble = evidence.and_then(|evidence| evidence.trouble.as_deref());
    match verdict {
        AttemptEnd::Absent => AttemptObservation::Absent,
        AttemptEnd::Untold => AttemptObservation::Unknown(UNTOLD.to_owned()),
        AttemptEnd::Queued => AttemptObservation::Queued(QueuedAttempt::default()),
        AttemptEnd::Standing
        | AttemptEnd::Void
        | AttemptEnd::TooLate
        | AttemptEnd::Succeeded
        | AttemptEnd::Failed => evidence.map_or(
            AttemptObservation::Starting,
            WrapperEvidence::live_observation,
        ),
        AttemptEnd::Ended(why) => AttemptObservation::Ended {
            began,
            why,
            detail: detail_text(trouble, said),
        },
        AttemptEnd::Lost => AttemptObservation::Vanished {
            began,
            detail: detail_text(trouble, said),
        },
    }
}

fn detail_text(trouble: Option<&str>, said: impl Fn() -> String) -> String {
    match trouble {
        Some(why) => format!("{why}; {}", said()),
        None => said(),
    }
}

/// The text if the files do not show its state; that will be known when it is over.
const SPOILED: &str = "its state files were replaced or made unreadable";

/// The text while something is not known yet.
const UNTOLD: &str = "its files, or why it was ended, may still be told";

fn is_forged(
    tag: AttemptTag,
    found: &Option<FoundStateFile<'_>>,
    counts: impl Fn(&[u8]) -> bool,
) -> bool {
    let Some(FoundStateFile::File(bytes, _)) = found else {
        return false;
    };
    state_files::complete_lines(bytes, tag).is_some() && !counts(bytes)
}

fn parse_found_file<T>(
    tag: AttemptTag,
    found: Option<FoundStateFile<'_>>,
    parse: impl Fn(&[u8], AttemptTag) -> Option<T>,
) -> Option<(T, Timestamp)> {
    match found? {
        FoundStateFile::File(bytes, modified) => Some((parse(&bytes, tag)?, modified)),
        FoundStateFile::Spoiled => None,
    }
}
