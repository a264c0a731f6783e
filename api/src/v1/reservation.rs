//! The reservation of a job: as its user writes it, and its state.

use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::ids::{ComponentIndex, ReservationName};
use cospan_domain::job::job_state::{Job, JobPhase, JobReservations};
use cospan_domain::reservation::{ReservationSearchState, StartWindow};
use cospan_domain::units::{DurationMs, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::event::EventReport;
use super::quantity::{Instant, Length};
use super::ranking::RankingReport;
use super::shared_reservation::SharedReport;
use super::split::SplitReport;
use super::text;
use super::text_patterns::ReservationText;
use super::time::Moment;

/// The tolerance if none is given, as far as the window allows it.
const TOLERANCE: DurationMs = DurationMs::from_secs(60);

/// Longest time until a start that is reserved only if needed, if no latest start is given.
const AHEAD: DurationMs = DurationMs::from_secs(7 * 86_400);
/// Time of failed claims after which sites are asked for a reservation, if none is given; at most
/// half the time until the latest start.
const RESERVE_AFTER: DurationMs = DurationMs::from_secs(600);

/// The ways in which a job wants a reservation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// No reservation: the job waits until processors are idle, as if the table were missing.
    No,
    /// Claims come first. Sites are asked once claims have failed for long enough.
    IfNeeded,
    /// Sites are asked at once. The job starts as reserved, or does not run.
    #[default]
    Always,
}

/// The rule for components that no site that grants reservations could hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhereUnreserved {
    /// The job is refused.
    #[default]
    Refuse,
    /// They are claimed at the start, where nothing is reserved.
    Claim,
}

/// A reserved start, without which the job does not run; or a shared reservation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationDocument {
    /// The reservation that the job wants: none, only if needed, or always. `always` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Wanted>,
    /// With `wanted = "if-needed"`: time from the submission, or the last refusal, until sites are
    /// asked, if the job still waits. Ten minutes if left out, or half the time until its latest
    /// start if that is shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10m")]
    pub reserve_after: Option<Length>,
    /// The earliest start: `2026-11-27T09:00:00+01:00`, `2026-11-27 09:00`, `tomorrow 09:00`, `in
    /// 2h`, `now`. Without a zone it is the time where it is read: the user's for the command line,
    /// else the server's. Now if left out and `wanted` is `if-needed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest: Option<Moment>,
    /// The latest start. If this and `within` are left out: the earliest start, or seven days after
    /// it with `wanted = "if-needed"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<Moment>,
    /// The latest start, as a length of time after the earliest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2h")]
    pub within: Option<Length>,
    /// Longest distance between the starts of the components' reservations. One minute if left out,
    /// or the length of the window if that is shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "1m")]
    pub tolerance: Option<Length>,
    /// Allow the job to be rescheduled to an earlier start, or to other sites, as these have more
    /// free; the start never becomes later by that. A flexible job may then be split in another
    /// way. No if left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flexible: bool,
    /// The rule for components that no site that grants reservations could hold: `refuse` if left
    /// out; `claim`: they are claimed at the start, from idle processors. Nothing is reserved for
    /// them; the others wait for them up to `tolerance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreserved: Option<WhereUnreserved>,
    /// The shared reservation on whose processors the job runs, with other jobs that name it; in
    /// place of all other keys.
    #[serde(default, rename = "use", with = "text::option")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReservationText>)]
    pub shared: Option<ReservationName>,
}

impl ReservationDocument {
    /// Names a shared reservation, and nothing else.
    pub fn from_shared(name: ReservationName) -> Self {
        Self {
            shared: Some(name),
            ..Self::default()
        }
    }

    /// Returns true if no reservation is wanted, and the other keys are kept for later.
    pub fn declines_reservation(&self) -> bool {
        self.wanted == Some(Wanted::No)
    }

    /// Converts the document into the terms of the job's own reservation, if it asks for one.
    ///
    /// # Errors
    ///
    /// The key that is wrong, and why.
    pub fn to_terms(&self) -> Result<Option<ReservationTerms>, (&'static str, &'static str)> {
        let own = self.earliest.is_some() || self.latest.is_some() || self.within.is_some();
        let wanted = self.wanted.is_some() || self.reserve_after.is_some();
        let wanted = wanted || self.unreserved.is_some();
        match (
            &self.shared,
            own || wanted || self.tolerance.is_some() || self.flexible,
        ) {
            (Some(_), true) => {
                let problem = "names a reservation, which has its own times; drop it, or the rest";
                Err(("reservation.use", problem))
            }
            (Some(_), false) => Ok(None),
            (None, _) if self.wanted == Some(Wanted::No) => Ok(None),
            (None, _) => self.own_terms().map(Some),
        }
    }

    /// Converts the document into terms.
    ///
    /// # Errors
    ///
    /// The key that is wrong, and why.
    pub fn own_terms(&self) -> Result<ReservationTerms, (&'static str, &'static str)> {
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
        let reserve_after = self.request_delay(latest.since(now.0))?;
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

    /// Returns the time during which sites are not asked yet, given the latest start.
    fn request_delay(
        &self,
        until_latest: DurationMs,
    ) -> Result<Option<DurationMs>, (&'static str, &'static str)> {
        match (
            self.wanted.unwrap_or_default(),
            self.reserve_after.map(|after| after.0),
        ) {
            (Wanted::IfNeeded, None) => Ok(Some(RESERVE_AFTER.min(DurationMs(until_latest.0 / 2)))),
            (Wanted::IfNeeded, Some(after)) if after > until_latest => Err((
                "reservation.reserve_after",
                "reaches past the latest start, so that no site would be asked; lower it",
            )),
            (Wanted::IfNeeded, after) => Ok(after),
            (Wanted::Always | Wanted::No, None) => Ok(None),
            (Wanted::Always | Wanted::No, Some(_)) => Err((
                "reservation.reserve_after",
                "is for jobs that claim first; add wanted = \"if-needed\", or drop it",
            )),
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

/// The state of a job's reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationReport {
    /// `wanted`: no site was asked yet, or one is to be asked again; `asking`; `confirmed`;
    /// `moving`: confirmed, while another start is looked for; `releasing`; `released`: nobody
    /// needs it any more; `refused`; `claims-first`: sites are asked at `asks_at`, if the job still
    /// waits for processors then; `not-needed`: the job claimed processors before that.
    #[schema(example = "confirmed")]
    pub state: String,
    /// The reserved start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// If it was refused: the earliest start that would be granted, if sites said so. For several
    /// components none is granted before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Instant>,
    /// When sites are asked, if the job still waits for idle processors then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks_at: Option<Instant>,
    /// The earliest start that is wanted, or looked for while the job is rescheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest: Option<Instant>,
    /// The latest start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<Instant>,
    /// True if the job may be rescheduled to an earlier start, or to other sites, as these have
    /// more free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flexible: bool,
    /// The split of a flexible job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitReport>,
    /// The reservations at sites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldReport>,
    /// Components without a reservation, which are claimed at the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claimed: Vec<UnreservedReport>,
    /// The ranking of the sites by component, if the job has preferences; only where one job is
    /// shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<RankingReport>,
}

/// A component that is claimed at the start, where nothing is reserved.
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
    /// The component that uses it.
    pub component: String,
    /// The site.
    pub site: String,
    /// The number of the reservation within the job; its tag at the site ends with this number.
    pub serial: u32,
    /// When the reservation begins.
    pub from: Instant,
    /// When the reservation ends.
    pub to: Instant,
    /// Processors.
    pub processors: u32,
}

impl ReservationReport {
    /// Reports on a job's reservation; `None` if the job wants none.
    pub fn of(job: &Job) -> Option<Self> {
        let wish = job.reservation_terms();
        wish.or(job.reservation.as_ref().and(job.spec.run.reservation))?;
        let moving = job
            .reservation
            .as_deref()
            .and_then(JobReservations::rescheduling_search);
        let wish = moving.map(|(_, wish)| wish).or(wish);
        let held = job
            .reservation
            .iter()
            .flat_map(|reservation| held_reports(job, reservation));
        Some(Self {
            state: reservation_state(job).into(),
            start: job
                .reserved_start()
                .filter(|_| job.is_placed())
                .map(Instant),
            next: job.reservation_refused_until().map(Instant),
            asks_at: reservation_request_at(job).map(Instant),
            earliest: wish.map(|wish| Instant(wish.window.earliest)),
            latest: wish.map(|wish| Instant(wish.window.latest)),
            flexible: wish.is_some_and(|wish| wish.flexible),
            split: SplitReport::of(job),
            held: held.collect(),
            claimed: unreserved_reports(job).collect(),
            ranking: Vec::new(),
        })
    }
}

/// Jobs that have a reservation or want one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ReservationPage {
    /// The rows, by job number.
    pub reservations: Vec<ReservationRow>,
    /// Shared reservations, also some that have ended; on the first page, unless the list is
    /// restricted to jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<SharedReport>,
    /// Give this as `after` for the next page; missing at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// The reservations of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationRow {
    /// The job.
    pub job: u64,
    /// The name of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The owner of the job.
    pub owner: String,
    /// The state of the job.
    #[schema(example = "placed")]
    pub phase: String,
    /// The state of the reservation.
    pub reservation: ReservationReport,
    /// The events of the reservation, oldest first; only where one job is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventReport>,
}

impl ReservationRow {
    /// Reports on a job's reservations; `None` if it has none and wants none.
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

fn held_reports<'a>(
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

/// Returns the name of a part of the job. The parts of a flexible job are numbered in the order of
/// the split.
pub fn part_name(job: &Job, reservation: &JobReservations, part: ComponentIndex) -> Option<String> {
    job.spec
        .component_name(part, reservation.search.job.parts.len())
}

/// Lists the components without a reservation, each with the site that is asked first.
pub fn unreserved_reports(job: &Job) -> impl Iterator<Item = UnreservedReport> + '_ {
    let reservation = job
        .reservation
        .iter()
        .filter(|reservation| !reservation.spent);
    let claimed = reservation.flat_map(|reservation| &reservation.claimed);
    claimed.map(|one| UnreservedReport {
        component: job.component_name(one.component).unwrap_or_default(),
        site: one.placement.site.to_string(),
    })
}

/// Returns when sites are asked for the reservation of a job that waits for idle processors until
/// then.
pub fn reservation_request_at(job: &Job) -> Option<Timestamp> {
    let latest = job.reservation_terms()?.window.latest;
    job.reservation_due_at()
        .filter(|time| job.claims_first() && *time <= latest)
}

fn reservation_state(job: &Job) -> &'static str {
    if job.claims_first() && !job.has_live_reservation_search() {
        return match job.phase {
            // The job may yet lose what it is claiming.
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
    match reservation.search.current_state() {
        ReservationSearchState::Asks(_) if given_up => "releasing",
        ReservationSearchState::Asks(_) => "asking",
        ReservationSearchState::Confirmed if reservation.rescheduling_search().is_some() => {
            "moving"
        }
        ReservationSearchState::Confirmed => "confirmed",
        ReservationSearchState::Failed(_) if job.reservation_terms().is_none() => "released",
        ReservationSearchState::Failed(_) if reservation.spent && !job.is_final() => "wanted",
        ReservationSearchState::Failed(_) if given_up => "released",
        ReservationSearchState::Failed(_) => "refused",
    }
}
