//! The effects of a site's record that are due, and the time of the next change.

use crate::site::barred_owners_record::OwnProbe;
use crate::site::site_state::{Breaker, SiteNotification, SiteRecord};
use crate::units::Timestamp;

/// An effect, which the shell carries out for a site's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteEffect {
    /// Send this to the site's administrator, and report
    /// [`NotificationSent`](crate::site::site_command::SiteCommand::NotificationSent) once it is out.
    SendNotification(SiteNotification),
}

/// Lists the effects that are due: messages that are not known to have been sent.
pub fn due(record: &SiteRecord) -> Vec<SiteEffect> {
    record
        .owed
        .iter()
        .cloned()
        .map(SiteEffect::SendNotification)
        .collect()
}

/// Returns the time when the site's availability next changes by the clock alone: a probe is
/// allowed, or allowed to any job, a window opens or closes, a forced state ends, an owner's jobs
/// may come back.
pub fn next_wake(record: &SiteRecord, now: Timestamp) -> Option<Timestamp> {
    let probe = match &record.breaker {
        Breaker::Open { probe_at, .. } => Some(*probe_at),
        Breaker::Closed | Breaker::HalfOpen { .. } => None,
    };
    let probe = probe
        .into_iter()
        .chain(record.breaker.any_job_may_probe_from());
    let forced = record.operator.forced.as_ref().map(|forced| forced.until);
    let windows = record
        .operator
        .windows
        .iter()
        .flat_map(|window| [window.from, window.until]);
    // Wakes for reservations that end, since jobs that name them get a report.
    let shared = record
        .shared
        .iter()
        .filter_map(|shared| Some(shared.reserved_span()?.to));
    let returns = record.kept_off.iter().map(|kept_off| kept_off.until);
    let given_up = record.own_probe.iter().map(OwnProbe::gives_up_at);
    let owners = returns.chain(given_up);
    probe
        .chain(forced)
        .chain(windows)
        .chain(shared)
        .chain(owners)
        .filter(|wake| now < *wake)
        .min()
}
