//! Availability: if a site takes work, as a function of its record, our contact and the clock.

use std::fmt;

use crate::ids::KeyName;
use crate::placement::grid::{PlacementAcceptance, PlacementHindrance};
use crate::site::contact::SiteContact;
use crate::site::site_state::{Breaker, SiteRecord, count_probing_jobs};
use crate::units::Timestamp;

/// The state of a site for placement and for people: the first thing that keeps work away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SiteState {
    /// It has not answered since our start: nothing is placed, nothing timed out.
    Unknown,
    /// It takes any job's components.
    Usable,
    /// The breaker is open, or an operator forced it.
    Unusable,
    /// It is tried out.
    Probing {
        /// The number of further jobs that it takes now.
        free: u32,
        /// True if it also takes jobs that must not run twice, after it has waited long for others.
        any: bool,
    },
    /// It is being emptied.
    Draining,
    /// It has been emptied.
    Drained,
    /// It is in a maintenance window.
    Maintenance,
    /// It refuses our credentials.
    CredentialsExpired,
    /// It does not answer.
    Unreachable,
    /// An operator froze it.
    Frozen,
}

/// A reason why a component cannot be placed at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteObstacle {
    /// An operator drains it.
    Draining {
        /// The key that asked.
        by: KeyName,
        /// True if nothing of ours is left there.
        empty: bool,
    },
    /// It is in a maintenance window.
    Maintenance { until: Timestamp },
    /// It refuses our credentials.
    CredentialsExpired { since: Timestamp },
    /// It does not answer.
    Unreachable { since: Timestamp },
    /// It has not answered since our start.
    NeverAnswered,
    /// An operator forced it to be unusable.
    ForcedUnusable {
        /// The key that asked.
        by: KeyName,
        until: Timestamp,
    },
    /// The breaker is open, because errors piled up.
    BreakerOpen {
        /// Errors in a row.
        errors: u32,
        /// The time from which the first probe is allowed.
        probe_at: Timestamp,
    },
    /// As many probes as are allowed are under way.
    ProbesTaken {
        /// The number that is allowed.
        allowed: u32,
    },
    /// It is tried out only with jobs that may run twice or can go nowhere else.
    OnlyRerunnable,
    /// An operator froze it.
    Frozen {
        /// The key that asked.
        by: KeyName,
    },
}

/// Returns the state of a site. `held` is the number of our attempts that may live there.
pub fn site_state(
    record: &SiteRecord,
    contact: SiteContact,
    held: u32,
    now: Timestamp,
) -> SiteState {
    match list_obstacles(record, contact, held, true, now).first() {
        None => match free_probe_count(record, now) {
            None => SiteState::Usable,
            Some(free) => SiteState::Probing {
                free,
                any: any_job_may_probe(record, now),
            },
        },
        Some(SiteObstacle::Draining { empty: true, .. }) => SiteState::Drained,
        Some(SiteObstacle::Draining { empty: false, .. }) => SiteState::Draining,
        Some(SiteObstacle::Maintenance { .. }) => SiteState::Maintenance,
        Some(SiteObstacle::CredentialsExpired { .. }) => SiteState::CredentialsExpired,
        Some(SiteObstacle::Unreachable { .. }) => SiteState::Unreachable,
        Some(SiteObstacle::NeverAnswered) => SiteState::Unknown,
        Some(SiteObstacle::ForcedUnusable { .. } | SiteObstacle::BreakerOpen { .. }) => {
            SiteState::Unusable
        }
        Some(SiteObstacle::ProbesTaken { .. } | SiteObstacle::OnlyRerunnable) => {
            SiteState::Probing {
                free: 0,
                any: any_job_may_probe(record, now),
            }
        }
        Some(SiteObstacle::Frozen { .. }) => SiteState::Frozen,
    }
}

/// Lists everything that keeps a component away, most lasting first; none: it can be placed there.
/// All of it must go before it can. `may_probe` is true if the component's job may try out a site
/// after errors.
pub fn list_obstacles(
    record: &SiteRecord,
    contact: SiteContact,
    held: u32,
    may_probe: bool,
    now: Timestamp,
) -> Vec<SiteObstacle> {
    let operator = &record.operator;
    let draining = operator
        .draining
        .as_ref()
        .map(|order| SiteObstacle::Draining {
            by: order.by.clone(),
            empty: held == 0,
        });
    let window = record
        .window_at(now)
        .map(|w| SiteObstacle::Maintenance { until: w.until });
    let frozen = operator.frozen.as_ref().map(|order| SiteObstacle::Frozen {
        by: order.by.clone(),
    });
    draining
        .into_iter()
        .chain(window)
        .chain(contact_obstacle(contact))
        .chain(breaker_obstacle(record, may_probe, now))
        .chain(frozen)
        .collect()
}

/// Returns true if the site's files can be read: it answers, and is not in maintenance.
pub fn can_serve_files(record: &SiteRecord, contact: SiteContact, now: Timestamp) -> bool {
    contact.is_answering() && record.window_at(now).is_none()
}

fn contact_obstacle(contact: SiteContact) -> Option<SiteObstacle> {
    match contact {
        SiteContact::Answering { .. } => None,
        SiteContact::NeverAnswered => Some(SiteObstacle::NeverAnswered),
        SiteContact::Unreachable { since, .. } => Some(SiteObstacle::Unreachable { since }),
        SiteContact::CredentialsExpired { since } => {
            Some(SiteObstacle::CredentialsExpired { since })
        }
    }
}

/// Returns true if the site has waited so long for jobs that may run twice that any job may try it
/// out.
pub(super) fn any_job_may_probe(record: &SiteRecord, now: Timestamp) -> bool {
    record
        .breaker
        .any_job_may_probe_from()
        .is_some_and(|from| from <= now)
}

fn breaker_obstacle(record: &SiteRecord, may_probe: bool, now: Timestamp) -> Option<SiteObstacle> {
    let may_probe = may_probe || any_job_may_probe(record, now);
    if let Some(forced) = record.forced_at(now) {
        return (!forced.usable).then(|| SiteObstacle::ForcedUnusable {
            by: forced.by.clone(),
            until: forced.until,
        });
    }
    match &record.breaker {
        Breaker::Closed => None,
        Breaker::Open { probe_at, .. } if now < *probe_at => Some(SiteObstacle::BreakerOpen {
            errors: record.consecutive_errors,
            probe_at: *probe_at,
        }),
        Breaker::Open { .. } => (!may_probe).then_some(SiteObstacle::OnlyRerunnable),
        Breaker::HalfOpen { .. } if !may_probe => Some(SiteObstacle::OnlyRerunnable),
        Breaker::HalfOpen {
            allowed, running, ..
        } => (count_probing_jobs(running) >= *allowed)
            .then_some(SiteObstacle::ProbesTaken { allowed: *allowed }),
    }
}

/// Returns the number of further probes that the site takes; `None` if it takes any component.
fn free_probe_count(record: &SiteRecord, now: Timestamp) -> Option<u32> {
    match &record.breaker {
        _ if record.forced_at(now).is_some() => None,
        Breaker::Closed => None,
        Breaker::Open { .. } => Some(1),
        Breaker::HalfOpen {
            allowed, running, ..
        } => Some(allowed.saturating_sub(count_probing_jobs(running))),
    }
}

impl SiteState {
    /// Returns true if a component can be placed there.
    pub fn accepts_placement(self, may_probe: bool) -> bool {
        self.acceptance().hindrance(may_probe).is_none()
    }

    /// Converts the state to what placement needs of it.
    pub fn acceptance(self) -> PlacementAcceptance {
        match self {
            SiteState::Usable => PlacementAcceptance::Open,
            SiteState::Probing {
                free: 1..,
                any: true,
            } => PlacementAcceptance::Open,
            SiteState::Probing {
                free: 1..,
                any: false,
            } => PlacementAcceptance::ProbesOnly,
            SiteState::Probing { free: 0, .. } => {
                PlacementAcceptance::Closed(PlacementHindrance::Probing)
            }
            SiteState::Unknown => PlacementAcceptance::Closed(PlacementHindrance::Unknown),
            SiteState::Unusable => PlacementAcceptance::Closed(PlacementHindrance::Unusable),
            SiteState::Draining => PlacementAcceptance::Closed(PlacementHindrance::Draining),
            SiteState::Drained => PlacementAcceptance::Closed(PlacementHindrance::Drained),
            SiteState::Maintenance => PlacementAcceptance::Closed(PlacementHindrance::Maintenance),
            SiteState::CredentialsExpired => {
                PlacementAcceptance::Closed(PlacementHindrance::CredentialsExpired)
            }
            SiteState::Unreachable => PlacementAcceptance::Closed(PlacementHindrance::Unreachable),
            SiteState::Frozen => PlacementAcceptance::Closed(PlacementHindrance::Frozen),
        }
    }

    /// Returns the number of further jobs that it takes while it is tried out; `None` for no limit.
    pub fn probe_room(self) -> Option<u32> {
        match self {
            SiteState::Probing { free, .. } => Some(free),
            _ => None,
        }
    }

    /// The name in answers, tables and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            SiteState::Unknown => "unknown",
            SiteState::Usable => "usable",
            SiteState::Unusable => "unusable",
            SiteState::Probing { .. } => "probing",
            SiteState::Draining => "draining",
            SiteState::Drained => "drained",
            SiteState::Maintenance => "maintenance",
            SiteState::CredentialsExpired => "credentials-expired",
            SiteState::Unreachable => "unreachable",
            SiteState::Frozen => "frozen",
        }
    }
}

impl SiteObstacle {
    /// The stable name.
    pub fn code(&self) -> &'static str {
        match self {
            SiteObstacle::Draining { empty: false, .. } => "draining",
            SiteObstacle::Draining { empty: true, .. } => "drained",
            SiteObstacle::Maintenance { .. } => "maintenance",
            SiteObstacle::CredentialsExpired { .. } => "credentials-expired",
            SiteObstacle::Unreachable { .. } => "unreachable",
            SiteObstacle::NeverAnswered => "never-answered",
            SiteObstacle::ForcedUnusable { .. } => "forced-unusable",
            SiteObstacle::BreakerOpen { .. } => "breaker-open",
            SiteObstacle::ProbesTaken { .. } => "probes-taken",
            SiteObstacle::OnlyRerunnable => "only-rerunnable",
            SiteObstacle::Frozen { .. } => "frozen",
        }
    }
}

impl fmt::Display for SiteObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SiteObstacle::Draining { by, empty: false } => write!(f, "{by} is emptying the site"),
            SiteObstacle::Draining { by, empty: true } => write!(f, "{by} has emptied the site"),
            SiteObstacle::Maintenance { .. } => f.write_str("the site is in a maintenance window"),
            SiteObstacle::CredentialsExpired { .. } => {
                f.write_str("the site refuses our credentials")
            }
            SiteObstacle::Unreachable { .. } => f.write_str("the site does not answer"),
            SiteObstacle::NeverAnswered => f.write_str("the site has not answered since our start"),
            SiteObstacle::ForcedUnusable { by, .. } => write!(f, "{by} said that it is unusable"),
            SiteObstacle::BreakerOpen { errors, .. } => {
                write!(f, "the site is unusable after {errors} errors in a row")
            }
            SiteObstacle::ProbesTaken { allowed } => {
                write!(
                    f,
                    "the site is tried out with {allowed} at a time, and they are under way"
                )
            }
            SiteObstacle::OnlyRerunnable => f.write_str(
                "the site is tried out with jobs only that may run twice or can go nowhere else",
            ),
            SiteObstacle::Frozen { by } => write!(f, "{by} does not want anything new there"),
        }
    }
}
