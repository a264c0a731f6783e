//! One owner's jobs must not close a site to everybody.
//!
//! Errors in a row tell of a site only if they do not all come from one owner, whose payloads may
//! end themselves in ways that look like the site's fault. Where they do, a probe of our own
//! decides: a payload that does nothing. If it succeeds, the site stays open, and that owner's jobs
//! stay away from it for a while.

use std::sync::Arc;

use crate::ids::{Attempt, AttemptTag, ComponentIndex, InstanceId, JobId, KeyName, SiteName};
use crate::site::command::ProbeOutcome;
use crate::site::event::SiteHappening;
use crate::site::evolve::forget_errors;
use crate::site::parameters::SiteParameters;
use crate::site::state::{Breaker, SiteRecord};
use crate::units::{DurationMs, PerMillion, Timestamp};

/// Owners of whom a site remembers that their jobs stay away; one more pushes out the oldest.
pub const MAX_KEPT_OFF: usize = 32;
/// A probe of our own that has told nothing for so long is given up.
pub const OWN_PROBE_PATIENCE: DurationMs = DurationMs(600_000);
/// The job that probes of our own count as: no user's has this number.
pub const OWN_PROBE_JOB: JobId = JobId(0);

/// A probe of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnProbe {
    /// Which: each has another number.
    pub number: Attempt,
    /// Whose jobs all errors in the count are.
    pub owner: KeyName,
    /// Since when it is wanted.
    pub since: Timestamp,
}

impl OwnProbe {
    /// Its identity at this site, which is that of no attempt at another.
    pub fn tag(&self, instance: InstanceId, site: &SiteName) -> AttemptTag {
        let component = ComponentIndex(number_of(site));
        AttemptTag {
            instance,
            job: OWN_PROBE_JOB,
            component,
            attempt: self.number,
        }
    }

    /// When it is given up if it has told nothing.
    pub fn given_up_at(&self) -> Timestamp {
        self.since + OWN_PROBE_PATIENCE
    }
}

/// A number that follows from the name of a site alone (FNV-1a), and is hardly ever another's.
fn number_of(site: &SiteName) -> u32 {
    site.as_str().bytes().fold(0x811c_9dc5, |sum: u32, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// An owner whose jobs stay away from a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOff {
    /// Whose jobs.
    pub owner: KeyName,
    /// Since when.
    pub since: Timestamp,
    /// They may go there again from then on.
    pub until: Timestamp,
    /// How often in a row that was so; each time it lasts twice as long.
    pub times: u32,
}

impl KeptOff {
    /// Whether it counts when the owner errs again: it has ended no longer ago than it lasted.
    fn is_remembered(&self, now: Timestamp) -> bool {
        now < self.until + self.until.since(self.since)
    }
}

/// Why jobs of one owner are not placed at a site that takes others'.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ban {
    /// All errors in the count are of that owner's jobs: a probe of our own finds out whether it
    /// is the site.
    Probed,
    /// The site was found to be well.
    KeptOff {
        /// They may go there again from then on.
        until: Timestamp,
    },
}

impl std::fmt::Display for Ban {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ban::Probed => {
                "the latest errors there are all of jobs of this key: a probe finds out whether \
                 it is the site"
            }
            Ban::KeptOff { .. } => {
                "jobs of this key failed there one after the other, and the site was found to be \
                 well: they stay away for a while"
            }
        })
    }
}

impl SiteRecord {
    /// What keeps jobs of this owner away, and of nobody else. An operator's word that the site is
    /// usable is for everybody.
    pub fn ban_of(&self, owner: &KeyName, now: Timestamp) -> Option<Ban> {
        if self.forced_at(now).is_some_and(|forced| forced.usable) {
            return None;
        }
        if self
            .own_probe
            .as_ref()
            .is_some_and(|probe| probe.owner == *owner)
        {
            return Some(Ban::Probed);
        }
        let kept_off = self
            .kept_off
            .iter()
            .find(|kept_off| kept_off.owner == *owner);
        let until = kept_off
            .map(|kept_off| kept_off.until)
            .filter(|until| now < *until)?;
        Some(Ban::KeptOff { until })
    }

    /// All owners whose jobs are kept away.
    pub fn bans(&self, now: Timestamp) -> impl Iterator<Item = (&KeyName, Ban)> {
        let probed = self.own_probe.iter().map(|probe| &probe.owner);
        let others = self.kept_off.iter().map(|kept_off| &kept_off.owner);
        let others = others.filter(|owner| {
            self.own_probe
                .as_ref()
                .is_none_or(|probe| probe.owner != **owner)
        });
        probed
            .chain(others)
            .filter_map(move |owner| Some((owner, self.ban_of(owner, now)?)))
    }

    /// Whose jobs all errors in the count are, one more included.
    pub(super) fn accused_with(&self, owner: Option<&KeyName>) -> Option<KeyName> {
        let owner = owner?;
        let is_only = self.consecutive_errors == 0 || self.accused.as_ref() == Some(owner);
        is_only.then(|| owner.clone())
    }
}

/// A probe of our own is to find out whether errors that are all of this owner's jobs are the
/// site's; one that is under way does already.
pub(super) fn want_probe(record: &SiteRecord, owner: KeyName) -> Option<SiteHappening> {
    let number = Attempt(record.last_own_probe.0.saturating_add(1));
    record
        .own_probe
        .is_none()
        .then_some(SiteHappening::OwnProbeWanted { number, owner })
}

/// The owner's jobs stay away, each time in a row for twice as long.
pub(super) fn keep_off(
    record: &SiteRecord,
    parameters: &SiteParameters,
    owner: &KeyName,
    jitter: PerMillion,
    now: Timestamp,
) -> SiteHappening {
    let before = record
        .kept_off
        .iter()
        .find(|kept_off| kept_off.owner == *owner);
    // While the site takes nothing, that nobody came tells nothing.
    let in_a_row = record.reopened_by.as_ref() == Some(owner);
    let before = before.filter(|before| in_a_row || before.is_remembered(now));
    let times = before.map_or(0, |before| before.times);
    let times = times.saturating_add(1);
    let until = now + parameters.interval(times, jitter);
    SiteHappening::OwnerKeptOff {
        owner: owner.clone(),
        until,
        times,
    }
}

/// What follows when a probe of our own, or another component meanwhile, has told that the site
/// works, or nobody could find out. One that failed opens the breaker.
pub(super) fn site_is_well(
    record: &SiteRecord,
    parameters: &SiteParameters,
    outcome: ProbeOutcome,
    jitter: PerMillion,
    now: Timestamp,
) -> Vec<SiteHappening> {
    let Some(probe) = &record.own_probe else {
        return Vec::new();
    };
    let ended = SiteHappening::OwnProbeEnded {
        number: probe.number,
        outcome,
    };
    vec![
        ended,
        keep_off(record, parameters, &probe.owner, jitter, now),
    ]
}

/// What led to a probe of our own, for people.
pub(super) fn told_of(probe: &OwnProbe, why: &str) -> Arc<str> {
    let owner = &probe.owner;
    format!("all errors before were of jobs of {owner}; a probe of our own failed too: {why}")
        .into()
}

/// The record after an event that is about a probe of our own, or about one owner.
pub(super) fn evolve(record: &mut SiteRecord, what: &SiteHappening, at: Timestamp) {
    match what {
        SiteHappening::OwnProbeWanted { number, owner } => {
            record.last_own_probe = *number;
            record.own_probe = Some(OwnProbe {
                number: *number,
                owner: owner.clone(),
                since: at,
            });
        }
        SiteHappening::OwnProbeEnded { outcome, .. } => {
            record.own_probe = None;
            if *outcome == ProbeOutcome::Succeeded {
                forget_errors(record);
            }
        }
        SiteHappening::OwnerKeptOff {
            owner,
            until,
            times,
        } => {
            // While the breaker is open it was that owner's job that failed the probe.
            if record.breaker != Breaker::Closed {
                record.reopened_by = Some(owner.clone());
            }
            let owner = owner.clone();
            let until = *until;
            let times = *times;
            note(
                &mut record.kept_off,
                KeptOff {
                    owner,
                    since: at,
                    until,
                    times,
                },
            );
        }
        _ => {}
    }
}

/// An owner is noted in the place of an earlier note.
fn note(kept_off: &mut Vec<KeptOff>, noted: KeptOff) {
    kept_off.retain(|other| other.owner != noted.owner && other.is_remembered(noted.since));
    kept_off.push(noted);
    let surplus = kept_off.len().saturating_sub(MAX_KEPT_OFF);
    kept_off.drain(..surplus);
}
