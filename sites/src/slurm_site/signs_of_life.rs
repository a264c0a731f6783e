//! Signs of life of wrappers: what still writes is not gone, whatever Slurm says, or does not say.

use std::collections::BTreeMap;
use std::time::Duration;

use cospan_domain::ids::AttemptTag;
use tokio::time::Instant;

use crate::wrapper::attempt_files::WrapperEvidence;

/// A wrapper that has given no sign of life for this long is gone. It gives one every ten seconds,
/// and a busy machine, or a file system of several, may bring it late.
pub(super) const LIFE_STILL: Duration = Duration::from_secs(35);

/// The latest sign of each wrapper, and when that was first seen. No clock of the site is asked:
/// what counts is that it changes.
#[derive(Debug, Default)]
pub(super) struct SignsOfLife(BTreeMap<AttemptTag, (String, Instant)>);

impl SignsOfLife {
    /// Notes what was found of an attempt. Returns true if its wrapper is taken to be there.
    pub(super) fn note_sign(
        &mut self,
        tag: AttemptTag,
        evidence: Option<&WrapperEvidence>,
    ) -> bool {
        let running = evidence.filter(|evidence| evidence.exit.is_none());
        let Some(sign) = running.and_then(|evidence| evidence.life.as_ref()) else {
            self.0.remove(&tag);
            return false;
        };
        let now = Instant::now();
        let (latest, seen_at) = self.0.entry(tag).or_insert_with(|| (sign.clone(), now));
        if latest != sign {
            (*latest, *seen_at) = (sign.clone(), now);
        }
        now.duration_since(*seen_at) < LIFE_STILL
    }

    pub(super) fn forget_tag(&mut self, tag: AttemptTag) {
        self.0.remove(&tag);
    }
}
