//! The durable record of a site.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::ids::{Attempt, ComponentIndex, JobId, KeyName, SiteName};
use crate::reservation::ReservationSerial;
use crate::site::barred_owners_record::{BarredOwner, OwnProbe};
use crate::site::failure::FailureClass;
use crate::site::shared_reservation::SharedReservation;
use crate::units::{DurationMs, Timestamp};

/// Attempts whose outcome is remembered, so that a repeated report counts once.
pub const REMEMBERED: usize = 256;
/// Errors kept with their details.
pub const RECENT_ERRORS: usize = 5;
/// Notifications owed at the same time; a newer one pushes out the oldest.
pub const MAX_OWED: usize = 4;
/// The most maintenance windows of a site.
pub const MAX_WINDOWS: usize = 32;
/// Time for which only jobs that may run twice try a site out; then any job may. Without such jobs
/// it would stay closed to the others for ever.
pub const WAITS_FOR_RERUNNABLE: DurationMs = DurationMs(3_600_000);
/// The durable record of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRecord {
    pub site: SiteName,
    /// Errors since the last component that ended without one; while the breaker is closed, each of
    /// another job.
    pub consecutive_errors: u32,
    /// Jobs that have moved count and breaker since then, or since the breaker opened: a job moves
    /// them by one. Oldest first; at most [`REMEMBERED`].
    pub erring_jobs: VecDeque<JobId>,
    /// The owner whose jobs have all errors in the count; `None` if there are several owners, or it
    /// is not known.
    pub accused: Option<KeyName>,
    /// The owner whose job failed the latest probe since the breaker opened; `None` before the
    /// first.
    pub reopened_by: Option<KeyName>,
    /// The probe of our own that decides if these errors are the site's.
    pub own_probe: Option<OwnProbe>,
    /// The number of the latest of these; 0 before the first.
    pub last_own_probe: Attempt,
    /// Owners whose jobs are barred, the latest last; at most
    /// [`MAX_KEPT_OFF`](crate::site::barred_owners_record::MAX_KEPT_OFF).
    pub kept_off: Vec<BarredOwner>,
    /// The breaker, which keeps work away after errors.
    pub breaker: Breaker,
    /// The commands of operators that are in force.
    pub operator: OperatorSettings,
    /// Attempts whose outcome is in the count already, oldest first; at most [`REMEMBERED`].
    pub counted: VecDeque<AttemptId>,
    /// Latest errors, oldest first; at most [`RECENT_ERRORS`].
    pub recent_errors: VecDeque<SiteErrorRecord>,
    /// Messages to its administrator that are not known to have been sent, oldest first; at most
    /// [`MAX_OWED`].
    pub owed: VecDeque<SiteNotification>,
    /// The number of the latest notification; 0 before the first.
    pub last_notification: SiteNotificationId,
    /// Notifications pushed out by newer ones before they were sent.
    pub notifications_dropped: u64,
    /// Shared reservations, oldest first.
    pub shared: Vec<SharedReservation>,
    /// The number of the latest of them; 0 before the first.
    pub last_shared: ReservationSerial,
}

/// An attempt of a component, without the control plane's instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub job: JobId,
    pub component: ComponentIndex,
    /// The number of the submission of the component.
    pub attempt: Attempt,
}

/// The breaker keeps work away from a site whose errors pile up, and lets it come back by degrees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Breaker {
    /// Work goes there.
    #[default]
    Closed,
    /// No new work goes there; what runs there runs on.
    Open {
        since: Timestamp,
        /// The time from which the first probe may be placed.
        probe_at: Timestamp,
        /// Openings since it was last closed.
        trips: u32,
    },
    /// A few jobs that may try it out are let in.
    HalfOpen {
        since: Timestamp,
        /// The number of jobs that may try it out at the same time.
        allowed: u32,
        /// Attempts of these jobs that are under way.
        running: BTreeSet<AttemptId>,
        /// Openings since it was last closed.
        trips: u32,
    },
}

/// Counts the jobs of these attempts. Those of one job count as one probe, for a job that only this
/// site can take needs all of them to start.
pub fn count_probing_jobs(running: &BTreeSet<AttemptId>) -> u32 {
    let mut jobs: Vec<JobId> = running.iter().map(|attempt| attempt.job).collect();
    // Attempts are ordered by their job.
    jobs.dedup();
    jobs.len() as u32
}

impl Breaker {
    /// Openings since it was last closed.
    pub fn trips(&self) -> u32 {
        match self {
            Breaker::Closed => 0,
            Breaker::Open { trips, .. } | Breaker::HalfOpen { trips, .. } => *trips,
        }
    }

    /// Returns the time from which any job may try the site out, also one that must not run twice;
    /// `None` if it is not to be tried out.
    pub fn any_job_may_probe_from(&self) -> Option<Timestamp> {
        match self {
            Breaker::Closed => None,
            Breaker::Open { probe_at: from, .. } | Breaker::HalfOpen { since: from, .. } => {
                Some(*from + WAITS_FOR_RERUNNABLE)
            }
        }
    }

    /// The name in answers and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Breaker::Closed => "closed",
            Breaker::Open { .. } => "open",
            Breaker::HalfOpen { .. } => "half-open",
        }
    }
}

/// The commands of operators about a site that are in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperatorSettings {
    /// It is drained: it gets nothing new, and what waits leaves.
    pub draining: Option<CommandOrigin>,
    /// It is frozen: nothing new is placed there; what is placed stays.
    pub frozen: Option<CommandOrigin>,
    /// Maintenance windows, by start; no two start at the same time.
    pub windows: Vec<MaintenanceWindow>,
    /// A state that holds instead of the breaker's, for a while.
    pub forced: Option<ForcedState>,
    /// The latest reset of its errors.
    pub reset: Option<CommandOrigin>,
}

/// The key and the time of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOrigin {
    /// The key that asked.
    pub by: KeyName,
    pub at: Timestamp,
}

/// A maintenance window: `from` is in it, `until` is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceWindow {
    pub from: Timestamp,
    pub until: Timestamp,
    /// The key that set it.
    pub by: KeyName,
    /// The reason, for people.
    pub reason: Arc<str>,
}

/// A state that an operator forced on a site, instead of the breaker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedState {
    /// True for usable, false for unusable.
    pub usable: bool,
    /// It holds before this time.
    pub until: Timestamp,
    /// The key that asked.
    pub by: KeyName,
}

/// An error of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteErrorRecord {
    /// The attempt that failed.
    pub attempt: AttemptId,
    pub class: FailureClass,
    /// The time when it was recorded.
    pub at: Timestamp,
    /// The error, for people; at most [`crate::text::MAX_BYTES`].
    pub detail: Arc<str>,
}

/// The number of a notification, per site, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SiteNotificationId(pub u64);

/// A message to the site's administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteNotification {
    pub id: SiteNotificationId,
    pub kind: SiteNotificationKind,
    /// The time of the decision.
    pub at: Timestamp,
    /// The message in one line.
    pub text: Arc<str>,
    /// The details that led to it, a line each; at most [`RECENT_ERRORS`].
    pub details: Vec<Arc<str>>,
}

/// The subject of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SiteNotificationKind {
    /// The site's errors piled up: it gets no new work.
    Unusable,
    /// A probe failed: it stays without new work.
    ProbeFailed,
    /// The site's probes succeeded: it gets work again.
    Usable,
    /// It does not answer.
    Unreachable,
    /// Our credentials there have expired.
    CredentialsExpired,
    /// It answers again.
    Answering,
    /// No job used a shared reservation there, so it is cancelled.
    NoShow,
    /// It has lost a shared reservation that it was to keep.
    ReservationLost,
}

impl SiteNotificationKind {
    /// The name in the journal and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            SiteNotificationKind::Unusable => "unusable",
            SiteNotificationKind::ProbeFailed => "probe-failed",
            SiteNotificationKind::Usable => "usable",
            SiteNotificationKind::Unreachable => "unreachable",
            SiteNotificationKind::CredentialsExpired => "credentials-expired",
            SiteNotificationKind::Answering => "answering",
            SiteNotificationKind::NoShow => "no-show",
            SiteNotificationKind::ReservationLost => "reservation-lost",
        }
    }
}

impl SiteRecord {
    /// Creates the record of a site without any event.
    pub fn new(site: SiteName) -> Self {
        Self {
            site,
            consecutive_errors: 0,
            erring_jobs: VecDeque::new(),
            accused: None,
            reopened_by: None,
            own_probe: None,
            last_own_probe: Attempt(0),
            kept_off: Vec::new(),
            breaker: Breaker::Closed,
            operator: OperatorSettings::default(),
            counted: VecDeque::new(),
            recent_errors: VecDeque::new(),
            owed: VecDeque::new(),
            last_notification: SiteNotificationId(0),
            notifications_dropped: 0,
            shared: Vec::new(),
            last_shared: ReservationSerial(0),
        }
    }

    /// Returns true if this attempt's outcome is in the count already. Then a job's owed charge is
    /// settled.
    pub fn has_counted_attempt(&self, attempt: AttemptId) -> bool {
        self.counted.contains(&attempt)
    }

    /// Returns true if an error of this job moves nothing any more: a job whose own doing ends its
    /// attempts must not close a site.
    pub fn has_counted_error_of(&self, job: JobId) -> bool {
        self.erring_jobs.contains(&job)
    }

    pub fn last_error(&self) -> Option<&SiteErrorRecord> {
        self.recent_errors.back()
    }

    /// Returns the forced state, if one holds at `now`.
    pub fn forced_at(&self, now: Timestamp) -> Option<&ForcedState> {
        self.operator
            .forced
            .as_ref()
            .filter(|forced| now < forced.until)
    }

    /// Returns the maintenance window that `now` is in; of several the one that ends last.
    pub fn window_at(&self, now: Timestamp) -> Option<&MaintenanceWindow> {
        self.operator
            .windows
            .iter()
            .filter(|window: &&MaintenanceWindow| window.from <= now && now < window.until)
            .max_by_key(|window| window.until)
    }
}
