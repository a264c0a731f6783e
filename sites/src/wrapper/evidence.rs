//! What the files of one attempt say.

use std::borrow::Cow;

use cospan_domain::ids::Tag;
use cospan_domain::units::Timestamp;

use super::seal::Seal;
use super::state::{self, ProcessName, Ready};
use crate::port::{AtGate, Begun, Exit, ExitCause, GateState, InQueue, Observation};
use crate::verdict::{Left, Verdict};

/// Numbers of the signals with which batch systems end jobs.
const KILL: i32 = 9;
const TERM: i32 = 15;

/// What is found under the name of a state file.
#[derive(Debug)]
pub(crate) enum Found<'f> {
    /// A file: its content, and when it was written.
    File(Cow<'f, [u8]>, Timestamp),
    /// Something that no wrapper makes, or that cannot be read.
    Spoiled,
}

/// The complete state files of an attempt that has a directory.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) ready: Option<(Ready, Timestamp)>,
    pub(crate) decision: Option<(GateState, Timestamp)>,
    /// The payload.
    pub(crate) begun: Option<(ProcessName, Timestamp)>,
    /// There is a `begun`, complete or not: a payload may have started.
    pub(crate) perhaps_begun: bool,
    pub(crate) exit: Option<(ExitCause, Timestamp)>,
    pub(crate) trouble: Option<String>,
    /// A state file is not what its wrapper made.
    pub(crate) spoiled: bool,
    /// Its wrapper could not write how it ended.
    pub(crate) is_cut: bool,
}

impl Evidence {
    /// Reads what there is.
    pub(crate) fn of<'f, E>(
        tag: Tag,
        seal: &Seal,
        file: impl Fn(&str) -> Result<Option<Found<'f>>, E>,
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
            .any(|found| matches!(found, Some(Found::Spoiled)));
        let sealed = |bytes: &[u8], tag| state::exit(bytes, tag, seal);
        let decided = |bytes: &[u8], tag| state::decision(bytes, tag, seal);
        // An `exit` that was opened and not written: its disk is full.
        let is_cut = matches!(&exit, Some(Found::File(bytes, _)) if bytes.is_empty());
        // Written whole, and not by who should have.
        let forged = is_forged(tag, &exit, |bytes| sealed(bytes, tag).is_some())
            || is_forged(tag, &decision, |bytes| decided(bytes, tag).is_some());
        let perhaps_begun = begun.is_some();
        let begun_at = read(tag, begun, state::begun);
        let why = read(tag, trouble, state::trouble).map(|(why, _)| why);
        Ok(Self {
            // No wrapper has trouble to start what has begun, however little of `begun` there is.
            spoiled: replaced || forged || (why.is_some() && perhaps_begun),
            is_cut,
            ready: read(tag, ready, state::ready),
            decision: read(tag, decision, decided),
            perhaps_begun,
            begun: begun_at,
            exit: read(tag, exit, sealed),
            trouble: why,
        })
    }

    /// What is left, as far as it matters for what an end means.
    pub(crate) fn left(&self) -> Left {
        match &self.exit {
            Some((ExitCause::Code(0), _)) => Left::Success,
            Some((ExitCause::Signal(TERM | KILL), _)) => Left::Killed,
            Some((ExitCause::Code(_) | ExitCause::Signal(_), _)) => Left::Failure,
            Some((ExitCause::Terminated, _)) => Left::Terminated,
            Some((ExitCause::WallTime, _)) => Left::WallTime,
            Some((ExitCause::CouldNotStart(_), _)) => Left::Unstarted,
            Some((ExitCause::TooLate, _)) => Left::TooLate,
            None if matches!(self.decision, Some((GateState::Voided, _))) => Left::Void,
            None if self.spoiled => Left::Spoiled,
            None if self.trouble.is_some() => Left::Trouble,
            // Also of one that could not write how it ended: its payload can make that look so.
            None if self.perhaps_begun => Left::Begun,
            None if self.is_cut => Left::Trouble,
            None => Left::AtGate,
        }
    }

    /// What will not change any more.
    pub(crate) fn last_word(&self) -> Option<Observation> {
        match &self.exit {
            Some((cause, ended_at)) => Some(Observation::Exited(self.exit_as(cause, *ended_at))),
            None => {
                matches!(self.decision, Some((GateState::Voided, _))).then_some(Observation::Void)
            }
        }
    }

    fn exit_as(&self, cause: &ExitCause, ended_at: Timestamp) -> Exit {
        // Without `begun` it ended between the opening of the gate and its start.
        let began_at = self.begun.as_ref().map(|(_, at)| *at);
        let began_at = began_at.or_else(|| self.decision.map(|(_, at)| at));
        Exit {
            cause: cause.clone(),
            began_at: began_at.unwrap_or(ended_at),
            ended_at,
        }
    }

    /// Where it stands, if its processes live.
    pub(crate) fn standing(&self) -> Observation {
        // Where it runs, for people and for its siblings: all of its nodes.
        let nodes = |ready: &Ready| ready.nodes.as_ref().unwrap_or(&ready.host).as_str().into();
        let host = || {
            self.ready
                .as_ref()
                .map_or_else(|| "".into(), |(ready, _)| nodes(ready))
        };
        match (self.last_word(), &self.begun, &self.ready) {
            (Some(last), _, _) => last,
            (None, Some((_, at)), _) => Observation::Begun(Begun {
                host: host(),
                at: *at,
            }),
            (None, None, _) if self.spoiled => Observation::Unknown(SPOILED.to_owned()),
            (None, None, Some((_, at))) => Observation::Ready(AtGate {
                host: host(),
                since: *at,
                held_at: *at,
            }),
            (None, None, None) => Observation::Starting,
        }
    }

    /// Whether its payload may have begun.
    pub(crate) fn began(&self) -> bool {
        self.perhaps_begun || self.exit.is_some() || self.spoiled
    }
}

/// A verdict as the port's observation. `evidence`: what it was reached from; `said`: what the
/// site says of the attempt.
pub(crate) fn observed(
    verdict: Verdict,
    evidence: Option<&Evidence>,
    said: impl Fn() -> String,
) -> Observation {
    let began = evidence.is_some_and(Evidence::began);
    let trouble = evidence.and_then(|evidence| evidence.trouble.as_deref());
    let detail = || trouble.map_or_else(&said, |why| format!("{why}; {}", said()));
    let by_file = || evidence.map_or(Observation::Starting, Evidence::standing);
    match verdict {
        Verdict::Absent => Observation::Absent,
        Verdict::Untold => Observation::Unknown(UNTOLD.to_owned()),
        Verdict::Queued => Observation::Queued(InQueue::default()),
        Verdict::Standing
        | Verdict::Void
        | Verdict::TooLate
        | Verdict::Succeeded
        | Verdict::Failed => by_file(),
        Verdict::Ended(why) => Observation::Ended {
            began,
            why,
            detail: detail(),
        },
        Verdict::Lost => Observation::Vanished {
            began,
            detail: detail(),
        },
    }
}

/// Where it stands is not to be told from its files, and will be when it is over.
const SPOILED: &str = "its state files were replaced or made unreadable";

/// What is not known yet.
const UNTOLD: &str = "its files, or why it was ended, may still be told";

fn is_forged(tag: Tag, found: &Option<Found<'_>>, counts: impl Fn(&[u8]) -> bool) -> bool {
    let Some(Found::File(bytes, _)) = found else {
        return false;
    };
    state::complete_lines(bytes, tag).is_some() && !counts(bytes)
}

fn read<T>(
    tag: Tag,
    found: Option<Found<'_>>,
    parse: impl Fn(&[u8], Tag) -> Option<T>,
) -> Option<(T, Timestamp)> {
    match found? {
        Found::File(bytes, modified) => Some((parse(&bytes, tag)?, modified)),
        Found::Spoiled => None,
    }
}
