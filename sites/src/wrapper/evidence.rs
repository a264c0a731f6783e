//! What the files of one attempt say.

use std::borrow::Cow;

use cospan_domain::ids::Tag;
use cospan_domain::units::Timestamp;

use super::state::{self, ProcessName, Ready};
use crate::port::{AtGate, Begun, Exit, ExitCause, GateState, Observation};

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
}

impl Evidence {
    /// Reads what there is, from files whole and when they were written.
    pub(crate) fn of<'f, E>(
        tag: Tag,
        file: impl Fn(&str) -> Result<Option<(Cow<'f, [u8]>, Timestamp)>, E>,
    ) -> Result<Self, E> {
        let begun = file("begun")?;
        Ok(Self {
            ready: read(tag, file("ready")?, state::ready),
            decision: read(tag, file("decision")?, state::decision),
            perhaps_begun: begun.is_some(),
            begun: read(tag, begun, state::begun),
            exit: read(tag, file("exit")?, state::exit),
            trouble: read(tag, file("trouble")?, state::trouble).map(|(why, _)| why),
        })
    }

    /// What will not change any more.
    pub(crate) fn last_word(&self) -> Option<Observation> {
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
    pub(crate) fn standing(&self) -> Observation {
        let host = || self.ready.as_ref().map_or("", |(ready, _)| &ready.host).into();
        match (self.last_word(), &self.begun, &self.ready) {
            (Some(last), _, _) => last,
            (None, Some((_, at)), _) => Observation::Begun(Begun { host: host(), at: *at }),
            (None, None, Some((_, at))) => Observation::Ready(AtGate { host: host(), since: *at }),
            (None, None, None) => Observation::Starting,
        }
    }

    /// What is left to say when its processes are known to be gone.
    pub(crate) fn after_death(&self, how: &str) -> Observation {
        self.last_word().unwrap_or_else(|| Observation::Vanished {
            began: self.perhaps_begun,
            detail: self.trouble.clone().unwrap_or_else(|| how.to_owned()),
        })
    }
}

fn read<T>(
    tag: Tag,
    file: Option<(Cow<'_, [u8]>, Timestamp)>,
    parse: impl Fn(&[u8], Tag) -> Option<T>,
) -> Option<(T, Timestamp)> {
    let (bytes, modified) = file?;
    Some((parse(&bytes, tag)?, modified))
}
