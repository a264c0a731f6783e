//! The start that a job is to be promised: as its user writes it, and what became of it.

use cospan_domain::acquire::ReservationTerms;
use cospan_domain::ids::{ComponentIndex, ReservationName};
use cospan_domain::job::state::{Job, JobPhase, JobReservations};
use cospan_domain::reserve::{SearchState, StartWindow};
use cospan_domain::units::{DurationMs, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::event::EventReport;
use super::moment::Moment;
use super::quantity::{Instant, Length};
use super::ranking::RankingReport;
use super::shape::ReservationText;
use super::shared::SharedReport;
use super::split::SplitReport;
use super::text;

/// The tolerance that is taken if none is given, as far as the window allows it.
const TOLERANCE: DurationMs = DurationMs::from_secs(60);

/// How far ahead a start may be that is promised only if one is needed, if no latest is given.
const AHEAD: DurationMs = DurationMs::from_secs(7 * 86_400);
/// How long processors are claimed in vain until sites are asked for such a promise, if that is not
/// given; at most half the time until the latest start.
const RESERVE_AFTER: DurationMs = DurationMs::from_secs(600);

/// Whether a job wants a reservation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// It waits until processors are idle, as if nothing was said of a reservation.
    No,
    /// Processors are claimed for it first; sites are asked once that was in vain for long enough.
    IfNeeded,
    /// Sites are asked at once; it starts as promised, or does not run.
    #[default]
    Always,
}

/// What becomes of components that no site which grants reservations could hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhereUnreserved {
    /// The job is refused.
    #[default]
    Refuse,
    /// They are claimed at the start, where nothing is promised.
    Claim,
}

/// A start that is promised, or the job does not run; or a reservation that it shares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationDocument {
    /// Whether it wants one. `always` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Wanted>,
    /// With `wanted = "if-needed"`: how long after its submission, or the last refusal, sites are
    /// asked, if it still waits. Ten minutes if left out, or half the time until its latest start
    /// if that is shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10m")]
    pub reserve_after: Option<Length>,
    /// The earliest start: `2026-11-27T09:00:00+01:00`, `2026-11-27 09:00`, `tomorrow 09:00`,
    /// `in 2h`, `now`. Without a zone it is the time where it is read: by the command line that
    /// of the user, else that of the server. Now if left out and `wanted` is `if-needed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest: Option<Moment>,
    /// The latest start; the earliest if left out, and `within`, too; with `wanted = "if-needed"`
    /// seven days after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<Moment>,
    /// The same, as a length of time after the earliest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2h")]
    pub within: Option<Length>,
    /// How far apart the reservations of the components may begin. One minute if left out, or
    /// as long as the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "1m")]
    pub tolerance: Option<Length>,
    /// What is promised may be moved to an earlier start, or to other sites, as these have more
    /// free; it never gets a later one by that. A flexible job may be divided otherwise then. No
    /// if left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flexible: bool,
    /// What becomes of components that no site which grants reservations could hold: `refuse` if
    /// left out; `claim`: they are claimed at the start, as idle processors are. Nothing is
    /// promised for them; the others wait for them up to `tolerance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreserved: Option<WhereUnreserved>,
    /// The reservation on whose processors it runs, with other jobs that name it; in place of all
    /// other keys.
    #[serde(default, rename = "use", with = "text::option")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReservationText>)]
    pub shared: Option<ReservationName>,
}

impl ReservationDocument {
    /// Only a reservation that it shares.
    pub fn sharing(name: ReservationName) -> Self {
        Self {
            shared: Some(name),
            ..Self::default()
        }
    }

    /// Whether it says that nothing is to be promised, and keeps the rest for later.
    pub fn declines(&self) -> bool {
        self.wanted == Some(Wanted::No)
    }

    /// The start that it asks for, if it does.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn wish(&self) -> Result<Option<ReservationTerms>, (&'static str, &'static str)> {
        let own = self.earliest.is_some() || self.latest.is_some() || self.within.is_some();
        let wanted = self.wanted.is_some() || self.reserve_after.is_some();
        let wanted = wanted || self.unreserved.is_some();
        match (
            &self.shared,
            own || wanted || self.tolerance.is_some() || self.flexible,
        ) {
            (Some(_), true) => {
                let problem = "names a reservation that has its time already; drop it, or the rest";
                Err(("reservation.use", problem))
            }
            (Some(_), false) => Ok(None),
            (None, _) if self.wanted == Some(Wanted::No) => Ok(None),
            (None, _) => self.own().map(Some),
        }
    }

    /// The start that it asks for.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn own(&self) -> Result<ReservationTerms, (&'static str, &'static str)> {
        let now = Moment::now();
        let if_needed = self.wanted == Some(Wanted::IfNeeded);
        let missing = ("reservation.earliest", "is missing; say when it may start");
        let earliest = self.earliest.or(if_needed.then_some(now)).ok_or(missing)?.0;
        let latest = match (self.latest, self.within) {
            (Some(_), Some(_)) => {
                let problem = "says the latest start a second time; drop it, or `latest`";
                return Err(("reservation.within", problem));
            }
            (Some(latest), None) => latest.0,
            (None, Some(within)) => earliest + within.0,
            (None, None) if if_needed => earliest + AHEAD,
            (None, None) => earliest,
        };
        let reserve_after = self.asked_after(latest.since(now.0))?;
        let window = StartWindow::new(earliest, latest);
        let tolerance = self.tolerance.map(|given| given.0);
        let tolerance = tolerance.unwrap_or(TOLERANCE.min(latest.since(earliest)));
        let unreserved = self.unreserved == Some(WhereUnreserved::Claim);
        let flexible = self.flexible;
        let exempt = false;
        Ok(ReservationTerms {
            window,
            tolerance,
            flexible,
            reserve_after,
            unreserved,
            exempt,
        })
    }

    /// How long sites are not asked, if its latest start is so far away.
    fn asked_after(
        &self,
        until_latest: DurationMs,
    ) -> Result<Option<DurationMs>, (&'static str, &'static str)> {
        let wrong = |problem| Err(("reservation.reserve_after", problem));
        match (
            self.wanted.unwrap_or_default(),
            self.reserve_after.map(|after| after.0),
        ) {
            (Wanted::IfNeeded, None) => Ok(Some(RESERVE_AFTER.min(DurationMs(until_latest.0 / 2)))),
            (Wanted::IfNeeded, Some(after)) if after > until_latest => {
                wrong("reaches past the latest start: nobody would be asked; lower it")
            }
            (Wanted::IfNeeded, after) => Ok(after),
            (Wanted::Always | Wanted::No, None) => Ok(None),
            (Wanted::Always | Wanted::No, Some(_)) => {
                wrong("is for jobs that claim first; add wanted = \"if-needed\", or drop it")
            }
        }
    }
}

impl From<&ReservationTerms> for ReservationDocument {
    fn from(wish: &ReservationTerms) -> Self {
        Self {
            wanted: wish.reserve_after.map(|_| Wanted::IfNeeded),
            reserve_after: wish.reserve_after.map(Length),
            earliest: Some(Moment(wish.window.earliest)),
            latest: Some(Moment(wish.window.latest)),
            within: None,
            tolerance: Some(Length(wish.tolerance)),
            flexible: wish.flexible,
            unreserved: wish.unreserved.then_some(WhereUnreserved::Claim),
            shared: None,
        }
    }
}

/// What became of the start that a job is to be promised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationReport {
    /// `wanted`: no site was asked yet, or it is to be asked for anew; `asking`; `confirmed`: it
    /// is promised; `moving`: it is promised, and another start is looked for; `releasing`;
    /// `released`: nobody needs it any more; `refused`; `claims-first`: sites are asked at
    /// `asks_at`, if the job still waits for processors then; `not-needed`: they were claimed
    /// before that.
    #[schema(example = "confirmed")]
    pub state: String,
    /// The start that is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// If it was refused: the earliest start that would be granted, if sites said so. For
    /// several components none is granted before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Instant>,
    /// When sites are asked, if the job still waits for idle processors then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks_at: Option<Instant>,
    /// The earliest start that is wanted, or looked for while it is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest: Option<Instant>,
    /// The latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<Instant>,
    /// It may be moved to an earlier start, or to other sites, as these have more free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flexible: bool,
    /// How a flexible job is divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitReport>,
    /// What is held at which site.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldReport>,
    /// Components that nobody promises anything: they are claimed at the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claimed: Vec<UnreservedReport>,
    /// By component: how the sites were ranked, if the job has preferences; only where one is
    /// shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<RankingReport>,
}

/// A component that is claimed at the start, where nothing is promised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnreservedReport {
    /// The component.
    pub component: String,
    /// The site that is asked first.
    pub site: String,
}

/// A reservation at a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldReport {
    /// The component that it is for.
    pub component: String,
    /// The site.
    pub site: String,
    /// Its number within the job; the site knows it by a tag that ends with it.
    pub serial: u32,
    /// When it begins.
    pub from: Instant,
    /// When it ends.
    pub to: Instant,
    /// Processors.
    pub processors: u32,
}

impl ReservationReport {
    /// That of a job; `None` if it wants none.
    pub fn of(job: &Job) -> Option<Self> {
        let wish = job.reservation_wish();
        wish.or(job.reservation.as_ref().and(job.spec.run.reservation))?;
        let moving = job.reservation.as_deref().and_then(JobReservations::moving);
        let wish = moving.map(|(_, wish)| wish).or(wish);
        let held = job
            .reservation
            .iter()
            .flat_map(|reservation| held(job, reservation));
        Some(Self {
            state: state(job).into(),
            start: job
                .promised_start()
                .filter(|_| job.is_placed())
                .map(Instant),
            next: job.reservation_refused_until().map(Instant),
            asks_at: asks_at(job).map(Instant),
            earliest: wish.map(|wish| Instant(wish.window.earliest)),
            latest: wish.map(|wish| Instant(wish.window.latest)),
            flexible: wish.is_some_and(|wish| wish.flexible),
            split: SplitReport::of(job),
            held: held.collect(),
            claimed: unreserved(job).collect(),
            ranking: Vec::new(),
        })
    }
}

/// Jobs that are to be promised a start, or are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ReservationPage {
    /// By number of their jobs.
    pub reservations: Vec<ReservationRow>,
    /// Reservations that jobs share, also some that have ended; on the first page, unless it is
    /// narrowed down to jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<SharedReport>,
    /// There are more: give this as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// The reservations of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationRow {
    /// The job.
    pub job: u64,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its owner.
    pub owner: String,
    /// The state of the job.
    #[schema(example = "placed")]
    pub phase: String,
    /// What became of the start that it is to be promised.
    pub reservation: ReservationReport,
    /// What happened to it, oldest first; only where one is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventReport>,
}

impl ReservationRow {
    /// That of a job; `None` if it has none and wants none.
    pub fn of(job: &Job) -> Option<Self> {
        Some(Self {
            job: job.id.0,
            name: job.spec.name.as_ref().map(ToString::to_string),
            owner: job.owner.to_string(),
            phase: job.phase.kind().as_str().into(),
            reservation: ReservationReport::of(job)?,
            events: Vec::new(),
        })
    }
}

fn held<'a>(
    job: &'a Job,
    reservation: &'a JobReservations,
) -> impl Iterator<Item = HeldReport> + 'a {
    reservation.parts().filter_map(|(part, held)| {
        let held = held?;
        Some(HeldReport {
            component: part_name(job, reservation, part.component).unwrap_or_default(),
            site: held.site.to_string(),
            serial: held.serial.0,
            from: Instant(held.start),
            to: Instant(held.start + part.length),
            processors: part.resources.processors,
        })
    })
}

/// What a part of it is called: those of a flexible job are numbered as they are divided.
pub(crate) fn part_name(
    job: &Job,
    reservation: &JobReservations,
    part: ComponentIndex,
) -> Option<String> {
    job.spec.name_of(part, reservation.search.job.parts.len())
}

/// Components that are not reserved, each with the site that is asked first.
pub(crate) fn unreserved(job: &Job) -> impl Iterator<Item = UnreservedReport> + '_ {
    let reservation = job
        .reservation
        .iter()
        .filter(|reservation| !reservation.spent);
    let claimed = reservation.flat_map(|reservation| &reservation.claimed);
    claimed.map(|one| UnreservedReport {
        component: job.name_of(one.component).unwrap_or_default(),
        site: one.placement.site.to_string(),
    })
}

/// When sites are asked for the reservation of a job that waits for idle processors until then.
pub(crate) fn asks_at(job: &Job) -> Option<Timestamp> {
    let latest = job.reservation_wish()?.window.latest;
    job.reservation_asked_at()
        .filter(|time| job.claims_first() && *time <= latest)
}

fn state(job: &Job) -> &'static str {
    if job.claims_first() && !job.is_being_promised() {
        return match job.phase {
            // What is being claimed may be lost yet.
            JobPhase::Queued { .. }
            | JobPhase::Placed { .. }
            | JobPhase::Claiming { .. }
            | JobPhase::Aborting { .. } => "claims-first",
            JobPhase::Failed { .. } if job.components.is_empty() => "refused",
            _ => "not-needed",
        };
    }
    let Some(reservation) = &job.reservation else {
        return if matches!(job.phase, JobPhase::Failed { .. }) {
            "refused"
        } else {
            "wanted"
        };
    };
    let given_up = reservation.search.given_up;
    match reservation.search.standing() {
        SearchState::Asks(_) if given_up => "releasing",
        SearchState::Asks(_) => "asking",
        SearchState::Confirmed if reservation.moving().is_some() => "moving",
        SearchState::Confirmed => "confirmed",
        SearchState::Failed(_) if job.reservation_wish().is_none() => "released",
        SearchState::Failed(_) if reservation.spent && !job.is_final() => "wanted",
        SearchState::Failed(_) if given_up => "released",
        SearchState::Failed(_) => "refused",
    }
}
