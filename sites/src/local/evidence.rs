//! What the files of one attempt say.

use std::io;

use cospan_domain::ids::Tag;
use cospan_domain::units::Timestamp;

use super::root::{ATTEMPTS, Root};
use crate::port::{AtGate, Begun, Exit, ExitCause, GateState, Observation};
use crate::wrapper::state::{self, ProcessName, Ready};

/// The complete state files of an attempt that has a directory.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) ready: Option<(Ready, Timestamp)>,
    pub(super) decision: Option<(GateState, Timestamp)>,
    /// The payload.
    pub(super) begun: Option<(ProcessName, Timestamp)>,
    /// There is a `begun`, complete or not: a payload may have started.
    pub(super) perhaps_begun: bool,
    pub(super) exit: Option<(ExitCause, Timestamp)>,
    pub(super) trouble: Option<String>,
}

/// Path of a file of an attempt.
pub(super) fn path(tag: Tag, file: &str) -> String {
    format!("{ATTEMPTS}/{tag}/{file}")
}

impl Evidence {
    /// Reads what there is; `None` if the attempt has no directory.
    pub(super) fn collect(root: &Root, tag: Tag) -> io::Result<Option<Self>> {
        let begun = root.read(&path(tag, "begun"))?;
        let evidence = Self {
            ready: read(root, tag, "ready", state::ready)?,
            decision: read(root, tag, "decision", state::decision)?,
            perhaps_begun: begun.is_some(),
            begun: begun.and_then(|b| Some((state::begun(&b.bytes, tag)?, b.modified))),
            exit: read(root, tag, "exit", state::exit)?,
            trouble: read(root, tag, "trouble", state::trouble)?.map(|(why, _)| why),
        };
        // Whoever wrote `ready` has the directory.
        let there = evidence.ready.is_some() || root.exists(&format!("{ATTEMPTS}/{tag}"))?;
        Ok(there.then_some(evidence))
    }

    /// What will not change any more.
    pub(super) fn last_word(&self) -> Option<Observation> {
        if let Some((cause, ended_at)) = &self.exit {
            // Without `begun` it ended between the opening of the gate and its start.
            let began_at = self.begun.as_ref().map(|(_, at)| *at);
            let began_at = began_at.or_else(|| self.decision.map(|(_, at)| at));
            return Some(Observation::Exited(Exit {
                cause: cause.clone(),
                began_at: began_at.unwrap_or(*ended_at),
                ended_at: *ended_at,
            }));
        }
        matches!(self.decision, Some((GateState::Voided, _))).then_some(Observation::Void)
    }

    /// Where it stands, if its processes live.
    pub(super) fn standing(&self) -> Observation {
        let host = || self.ready.as_ref().map_or("", |(ready, _)| &ready.host).into();
        match (self.last_word(), &self.begun, &self.ready) {
            (Some(last), _, _) => last,
            (None, Some((_, at)), _) => Observation::Begun(Begun { host: host(), at: *at }),
            (None, None, Some((_, at))) => Observation::Ready(AtGate { host: host(), since: *at }),
            (None, None, None) => Observation::Starting,
        }
    }

    /// What is left to say when its processes are known to be gone.
    pub(super) fn after_death(&self, how: &str) -> Observation {
        self.last_word().unwrap_or_else(|| Observation::Vanished {
            began: self.perhaps_begun,
            detail: self.trouble.clone().unwrap_or_else(|| how.to_owned()),
        })
    }
}

fn read<T>(
    root: &Root,
    tag: Tag,
    file: &str,
    parse: impl Fn(&[u8], Tag) -> Option<T>,
) -> io::Result<Option<(T, Timestamp)>> {
    let found = root.read(&path(tag, file))?;
    Ok(found.and_then(|found| Some((parse(&found.bytes, tag)?, found.modified))))
}
