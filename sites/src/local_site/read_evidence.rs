//! Reads what the wrapper of an attempt left.

use std::io;

use cospan_domain::ids::AttemptTag;

use super::attempt_root::{ATTEMPTS, VerifiedSiteRoot};
use super::{attempt_processes, uptime};
pub(super) use crate::wrapper::attempt_files::WrapperEvidence;

/// Returns the path of a file of an attempt.
pub(super) fn attempt_file_path(tag: AttemptTag, file: &str) -> String {
    format!("{ATTEMPTS}/{tag}/{file}")
}

impl WrapperEvidence {
    /// Reads what is there; `None` if the attempt has no directory.
    pub(super) fn collect_evidence(
        root: &VerifiedSiteRoot,
        tag: AttemptTag,
    ) -> io::Result<Option<Self>> {
        let mut evidence = Self::from_files(tag, root.authenticator(), |file| {
            root.read_state(&attempt_file_path(tag, file))
        })?;
        evidence.correct_dates();
        // If `ready` is there, so is the directory.
        let there = evidence.ready.is_some() || root.exists(&format!("{ATTEMPTS}/{tag}"))?;
        Ok(there.then_some(evidence))
    }

    /// Dates what a process of this run of the machine did by when that process started.
    fn correct_dates(&mut self) {
        let Some((ready, at)) = &mut self.ready else {
            return;
        };
        if ready.boot != attempt_processes::boot_id() {
            return;
        }
        *at = uptime::correct_file_time(*at, ready.wrapper.start);
        if let Some((payload, at)) = &mut self.begun {
            *at = uptime::correct_file_time(*at, payload.start);
        }
    }
}
