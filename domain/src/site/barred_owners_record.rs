//! Barred owners: one owner's jobs must not close a site to everybody.
//!
//! Errors in a row say something of a site only if they do not all come from one owner, whose
//! payloads may end themselves in ways that look like the site's fault. If they do, a probe of our
//! own decides: a payload that does nothing. If it succeeds, the site stays open, and that owner's
//! jobs are barred from it for a while.

use std::sync::Arc;

use crate::ids::{Attempt, AttemptTag, ComponentIndex, InstanceId, JobId, KeyName, SiteName};
use crate::site::site_command::ProbeOutcome;
use crate::site::site_event::SiteEventKind;
use crate::site::site_evolve::forget_errors;
use crate::site::site_parameters::SiteParameters;
use crate::site::site_state::{Breaker, SiteRecord};
use crate::units::{DurationMs, PerMillion, Timestamp};

/// The most barred owners that a site remembers; one more pushes out the oldest.
pub const MAX_KEPT_OFF: usize = 32;
/// Time after which a probe of our own without a result is given up.
pub const OWN_PROBE_PATIENCE: DurationMs = DurationMs(600_000);
/// The job that probes of our own count as: no user's has this number.
pub const OWN_PROBE_JOB: JobId = JobId(0);

/// A probe of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnProbe {
    /// The number of the probe: each has another.
    pub number: Attempt,
    /// The owner whose jobs have all errors in the count.
    pub owner: KeyName,
    /// The time since when it is wanted.
    pub since: Timestamp,
}

impl OwnProbe {
    /// Returns the tag at this site, which is that of no attempt at another.
    pub fn tag(&self, instance: InstanceId, site: &SiteName) -> AttemptTag {
        let component = ComponentIndex(hash_site_name(site));
        AttemptTag {
            instance,
            job: OWN_PROBE_JOB,
            component,
            attempt: self.number,
        }
    }

    /// Returns the time when it is given up if it has no result.
    pub fn gives_up_at(&self) -> Timestamp {
        self.since + OWN_PROBE_PATIENCE
    }
}

/// Hashes the name of a site (FNV-1a): hardly ever is it another's number.
fn hash_site_name(site: &SiteName) -> u32 {
    site.as_str().bytes().fold(0x811c_9dc5, |sum: u32, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// An owner whose jobs are barred from a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarredOwner {
    pub owner: KeyName,
    pub since: Timestamp,
    /// The time from which they may go there again.
    pub until: Timestamp,
    /// The number of times in a row that they were barred; each time it lasts twice as long.
    pub times: u32,
}

impl BarredOwner {
    /// Returns true if it counts when the owner errs again: it has ended no longer ago than it
    /// lasted.
    fn is_remembered(&self, now: Timestamp) -> bool {
        now < self.until + self.until.since(self.since)
    }
}

/// The reason why jobs of one owner are not placed at a site that takes others'.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerBan {
    /// All errors in the count are of that owner's jobs: a probe of our own decides if it is the
    /// site.
    Probed,
    /// The site was found to work.
    KeptOff {
        /// The time from which they may go there again.
        until: Timestamp,
    },
}

impl std::fmt::Display for OwnerBan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OwnerBan::Probed => {
                "the latest errors there all came from jobs of this key; a probe finds out whether \
                 the site is at fault"
            }
            OwnerBan::KeptOff { .. } => {
                "jobs of this key failed there one after the other, and a probe found the site \
                 well: they stay away for a while"
            }
        })
    }
}

impl SiteRecord {
    /// Returns what bars jobs of this owner alone. If an operator forces the site to be usable,
    /// that is for everybody.
    pub fn bar_reason_for(&self, owner: &KeyName, now: Timestamp) -> Option<OwnerBan> {
        if self.forced_at(now).is_some_and(|forced| forced.usable) {
            return None;
        }
        if self
            .own_probe
            .as_ref()
            .is_some_and(|probe| probe.owner == *owner)
        {
            return Some(OwnerBan::Probed);
        }
        let kept_off = self
            .kept_off
            .iter()
            .find(|kept_off| kept_off.owner == *owner);
        let until = kept_off
            .map(|kept_off| kept_off.until)
            .filter(|until| now < *until)?;
        Some(OwnerBan::KeptOff { until })
    }

    /// Lists all owners whose jobs are barred.
    pub fn barred_owners(&self, now: Timestamp) -> impl Iterator<Item = (&KeyName, OwnerBan)> {
        let probed = self.own_probe.iter().map(|probe| &probe.owner);
        let others = self.kept_off.iter().map(|kept_off| &kept_off.owner);
        let others = others.filter(|owner| {
            self.own_probe
                .as_ref()
                .is_none_or(|probe| probe.owner != **owner)
        });
        probed
            .chain(others)
            .filter_map(move |owner| Some((owner, self.bar_reason_for(owner, now)?)))
    }

    /// Returns the owner whose jobs have all errors in the count, with one more error.
    pub(super) fn sole_erring_owner(&self, owner: Option<&KeyName>) -> Option<KeyName> {
        let owner = owner?;
        let is_only = self.consecutive_errors == 0 || self.accused.as_ref() == Some(owner);
        is_only.then(|| owner.clone())
    }
}

/// Requests a probe of our own, to decide if errors that are all of this owner's jobs are the
/// site's; unless one is under way.
pub(super) fn request_own_probe(record: &SiteRecord, owner: KeyName) -> Option<SiteEventKind> {
    let number = Attempt(record.last_own_probe.0.saturating_add(1));
    record
        .own_probe
        .is_none()
        .then_some(SiteEventKind::OwnProbeWanted { number, owner })
}

/// Bars the owner's jobs, each time in a row for twice as long.
pub(super) fn bar_owner(
    record: &SiteRecord,
    parameters: &SiteParameters,
    owner: &KeyName,
    jitter: PerMillion,
    now: Timestamp,
) -> SiteEventKind {
    let before = record
        .kept_off
        .iter()
        .find(|kept_off| kept_off.owner == *owner);
    // While the site takes nothing, the absence of other owners' jobs says nothing.
    let in_a_row = record.reopened_by.as_ref() == Some(owner);
    let before = before.filter(|before| in_a_row || before.is_remembered(now));
    let times = before.map_or(0, |before| before.times);
    let times = times.saturating_add(1);
    let until = now + parameters.time_to_probe(times, jitter);
    SiteEventKind::OwnerKeptOff {
        owner: owner.clone(),
        until,
        times,
    }
}

/// Decides what follows when a probe of our own, or another component meanwhile, shows that the
/// site works, or the probe has no result. One that failed opens the breaker.
pub(super) fn decide_after_site_worked(
    record: &SiteRecord,
    parameters: &SiteParameters,
    outcome: ProbeOutcome,
    jitter: PerMillion,
    now: Timestamp,
) -> Vec<SiteEventKind> {
    let Some(probe) = &record.own_probe else {
        return Vec::new();
    };
    let ended = SiteEventKind::OwnProbeEnded {
        number: probe.number,
        outcome,
    };
    vec![
        ended,
        bar_owner(record, parameters, &probe.owner, jitter, now),
    ]
}

/// Describes what led to a probe of our own, for people.
pub(super) fn describe_own_probe(probe: &OwnProbe, why: &str) -> Arc<str> {
    let owner = &probe.owner;
    format!("all errors before came from jobs of {owner}; our own probe failed too: {why}").into()
}

/// Applies an event that is about a probe of our own, or about one owner.
pub(super) fn evolve_owners(record: &mut SiteRecord, what: &SiteEventKind, at: Timestamp) {
    match what {
        SiteEventKind::OwnProbeWanted { number, owner } => {
            record.last_own_probe = *number;
            record.own_probe = Some(OwnProbe {
                number: *number,
                owner: owner.clone(),
                since: at,
            });
        }
        SiteEventKind::OwnProbeEnded { outcome, .. } => {
            record.own_probe = None;
            if *outcome == ProbeOutcome::Succeeded {
                forget_errors(record);
            }
        }
        SiteEventKind::OwnerKeptOff {
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
            note_barred(
                &mut record.kept_off,
                BarredOwner {
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

/// Notes a barred owner, in the place of an earlier note.
fn note_barred(kept_off: &mut Vec<BarredOwner>, noted: BarredOwner) {
    kept_off.retain(|other| other.owner != noted.owner && other.is_remembered(noted.since));
    kept_off.push(noted);
    let surplus = kept_off.len().saturating_sub(MAX_KEPT_OFF);
    kept_off.drain(..surplus);
}
