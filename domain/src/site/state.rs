//! What is durable about a site.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::ids::{Attempt, ComponentIndex, JobId, KeyName, SiteName};
use crate::planted::{Bug, bug};
use crate::reserve::Serial;
use crate::site::failure::FailureClass;
use crate::site::owners::{KeptOff, OwnProbe};
use crate::site::shared::SharedReservation;
use crate::units::{DurationMs, Timestamp};

/// Attempts whose outcome is remembered, so that a repeated report counts once.
pub const REMEMBERED: usize = 256;
/// Errors kept with their details.
pub const RECENT_ERRORS: usize = 5;
/// Notifications owed at the same time; a newer one pushes out the oldest.
pub const MAX_OWED: usize = 4;
/// Maintenance windows of a site.
pub const MAX_WINDOWS: usize = 32;
/// How long a site waits for jobs to try it out that may run twice: then any job may. It would
/// stay closed to the others for ever where no such job comes.
pub const WAITS_FOR_RERUNNABLE: DurationMs = DurationMs(3_600_000);
/// One site's durable record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRecord {
    /// Which site.
    pub site: SiteName,
    /// Errors since the last component that ended without one; while the breaker is closed,
    /// each of another job.
    pub consecutive_errors: u32,
    /// Jobs that have moved count and breaker since that, or since the breaker opened: a job
    /// moves them by one. Oldest first; at most [`REMEMBERED`].
    pub erring_jobs: VecDeque<JobId>,
    /// Whose jobs all errors in the count are; `None` if they are several owners', or it is not
    /// known.
    pub accused: Option<KeyName>,
    /// Whose job failed the latest probe since the breaker opened; `None` before the first.
    pub reopened_by: Option<KeyName>,
    /// The probe of our own that is to tell whether they are the site's.
    pub own_probe: Option<OwnProbe>,
    /// Number of the latest of these; 0 before the first.
    pub last_own_probe: Attempt,
    /// Owners whose jobs stay away, the latest last; at most
    /// [`MAX_KEPT_OFF`](crate::site::owners::MAX_KEPT_OFF).
    pub kept_off: Vec<KeptOff>,
    /// Whether its errors keep work away.
    pub breaker: Breaker,
    /// What operators said.
    pub operator: Operator,
    /// Attempts whose outcome is in the count already, oldest first; at most [`REMEMBERED`].
    pub counted: VecDeque<AttemptId>,
    /// Latest errors, oldest first; at most [`RECENT_ERRORS`].
    pub recent_errors: VecDeque<ErrorDetail>,
    /// Messages to its administrator that are not known to have been sent, oldest
    /// first; at most [`MAX_OWED`].
    pub owed: VecDeque<Notification>,
    /// Number of the latest notification; 0 before the first.
    pub last_notification: NotificationId,
    /// Notifications pushed out by newer ones before they were sent.
    pub notifications_dropped: u64,
    /// Reservations that belong to no job, oldest first.
    pub shared: Vec<SharedReservation>,
    /// Number of the latest of them; 0 before the first.
    pub last_shared: Serial,
}

/// One attempt of a component, without the control plane's instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// Its job.
    pub job: JobId,
    /// Its component.
    pub component: ComponentIndex,
    /// Which submission of the component.
    pub attempt: Attempt,
}

/// Keeps work away from a site whose errors pile up, and lets it come back by degrees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Breaker {
    /// Work goes there.
    #[default]
    Closed,
    /// No new work goes there; what runs there runs on.
    Open {
        /// Since when.
        since: Timestamp,
        /// The first probe may be placed from then on.
        probe_at: Timestamp,
        /// Openings since it was last closed.
        trips: u32,
    },
    /// A few jobs that may try it out are let in to see.
    HalfOpen {
        /// Since when.
        since: Timestamp,
        /// How many jobs may try it out at the same time.
        allowed: u32,
        /// Their attempts that are under way.
        running: BTreeSet<AttemptId>,
        /// Openings since it was last closed.
        trips: u32,
    },
}

/// How many jobs these attempts are of: those of one job count as one probe, for a job that
/// only this site can take needs all of them to start.
pub fn probing_jobs(running: &BTreeSet<AttemptId>) -> u32 {
    let mut jobs: Vec<JobId> = running.iter().map(|attempt| attempt.job).collect();
    if bug(Bug::ProbeMore) {
        return 0;
    }
    // Attempts are ordered by their job.
    if !bug(Bug::ProbeEach) {
        jobs.dedup();
    }
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

    /// From when on any job may try the site out, also one that must not run twice; `None` if
    /// it is not to be tried out.
    pub fn tried_by_any_from(&self) -> Option<Timestamp> {
        match self {
            Breaker::Closed => None,
            Breaker::Open { probe_at: from, .. } | Breaker::HalfOpen { since: from, .. } => {
                Some(*from + WAITS_FOR_RERUNNABLE)
            }
        }
    }

    /// Its name in answers and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Breaker::Closed => "closed",
            Breaker::Open { .. } => "open",
            Breaker::HalfOpen { .. } => "half-open",
        }
    }
}

/// What operators said about a site.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operator {
    /// It is to be emptied: nothing new, and what waits leaves.
    pub draining: Option<IssuedBy>,
    /// Nothing new is placed there; what is placed stays.
    pub frozen: Option<IssuedBy>,
    /// When it is looked after, by start; no two start at the same time.
    pub windows: Vec<Window>,
    /// A verdict on the site that holds instead of the breaker's, for a while.
    pub forced: Option<Forced>,
    /// The latest reset of its errors.
    pub reset: Option<IssuedBy>,
}

/// Who asked, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedBy {
    /// The key that asked.
    pub by: KeyName,
    /// When.
    pub at: Timestamp,
}

/// A maintenance window: `from` is in it, `until` is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// The key that set it.
    pub by: KeyName,
    /// Why, for people.
    pub reason: Arc<str>,
}

/// An operator's own verdict on a site, instead of the breaker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forced {
    /// Take it as usable; else as unusable.
    pub usable: bool,
    /// It holds before this time.
    pub until: Timestamp,
    /// The key that asked.
    pub by: KeyName,
}

/// One error of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorDetail {
    /// The attempt that failed.
    pub attempt: AttemptId,
    /// Of which class.
    pub class: FailureClass,
    /// When it was recorded.
    pub at: Timestamp,
    /// What happened, for people; at most [`crate::text::MAX_BYTES`].
    pub detail: Arc<str>,
}

/// A notification's number, per site, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NotificationId(pub u64);

/// A message to the site's administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Its number.
    pub id: NotificationId,
    /// What it is about.
    pub kind: NotificationKind,
    /// When it was decided.
    pub at: Timestamp,
    /// One line for people.
    pub text: Arc<str>,
    /// What led to it, a line each; at most [`RECENT_ERRORS`].
    pub details: Vec<Arc<str>>,
}

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotificationKind {
    /// Its errors piled up: it gets no new work.
    Unusable,
    /// A probe failed: it stays without new work.
    ProbeFailed,
    /// Its probes succeeded: it gets work again.
    Usable,
    /// It does not answer.
    Unreachable,
    /// Our credentials there have expired.
    CredentialsExpired,
    /// It answers again.
    Answering,
    /// A reservation there that jobs share was used by none, and is given back.
    NoShow,
    /// It has no more what it was to keep for jobs that share it.
    ReservationLost,
}

impl NotificationKind {
    /// Its name in the journal and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            NotificationKind::Unusable => "unusable",
            NotificationKind::ProbeFailed => "probe-failed",
            NotificationKind::Usable => "usable",
            NotificationKind::Unreachable => "unreachable",
            NotificationKind::CredentialsExpired => "credentials-expired",
            NotificationKind::Answering => "answering",
            NotificationKind::NoShow => "no-show",
            NotificationKind::ReservationLost => "reservation-lost",
        }
    }
}

impl SiteRecord {
    /// A site of which nothing has been recorded.
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
            operator: Operator::default(),
            counted: VecDeque::new(),
            recent_errors: VecDeque::new(),
            owed: VecDeque::new(),
            last_notification: NotificationId(0),
            notifications_dropped: 0,
            shared: Vec::new(),
            last_shared: Serial(0),
        }
    }

    /// Whether this attempt's outcome is in the count already. A job's owed
    /// charge is settled once this holds.
    pub fn has_counted(&self, attempt: AttemptId) -> bool {
        self.counted.contains(&attempt)
    }

    /// Whether an error of this job moves nothing any more: a job whose own doing ends its
    /// attempts must not close a site.
    pub fn has_erred(&self, job: JobId) -> bool {
        self.erring_jobs.contains(&job)
    }

    /// The latest error.
    pub fn last_error(&self) -> Option<&ErrorDetail> {
        self.recent_errors.back()
    }

    /// The operator's verdict, if one holds at `now`.
    pub fn forced_at(&self, now: Timestamp) -> Option<&Forced> {
        self.operator
            .forced
            .as_ref()
            .filter(|forced| now < forced.until)
    }

    /// The maintenance window that `now` is in; of several the one that ends last.
    pub fn window_at(&self, now: Timestamp) -> Option<&Window> {
        self.operator
            .windows
            .iter()
            .filter(|window: &&Window| window.from <= now && now < window.until)
            .max_by_key(|window| window.until)
    }
}
