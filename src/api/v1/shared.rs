//! Reservations that jobs share: as an operator asks for them, and what became of them.

use cospan_actors::api::View;
use cospan_domain::ids::{ComponentIndex, JobId, KeyName, ReservationName, SiteName};
use cospan_domain::job::state::{Job, Phase};
use cospan_domain::reserve::StartWindow;
use cospan_domain::resources::Resources;
use cospan_domain::site::shared::{SharedEnd, SharedReservation, SharedStage, SharedWish};
use cospan_domain::units::{DurationMs, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::moment::Moment;
use super::quantity::{Instant, Length};
use super::shape::{KeyText, ReservationText, SiteText};
use super::{number, text};

/// A reservation that jobs are to share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedDocument {
    /// What jobs call it: `[reservation]`, `use`.
    #[serde(with = "text")]
    #[schema(value_type = ReservationText)]
    pub name: ReservationName,
    /// The site that is to reserve.
    #[serde(with = "text")]
    #[schema(value_type = SiteText)]
    pub site: SiteName,
    /// Processors, for all that run in it at the same time.
    #[serde(deserialize_with = "number::positive")]
    #[schema(minimum = 1)]
    pub processors: u32,
    /// The earliest start: `tomorrow 09:00`, `2026-11-27 09:00`, `in 2h`; now if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Moment>,
    /// The latest start, as a length after the earliest; exactly then if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2h")]
    pub within: Option<Length>,
    /// How long it lasts.
    #[serde(rename = "for")]
    #[schema(example = "4h")]
    pub lasts: Length,
    /// Keys whose jobs may use it; every key's if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<KeyText>)]
    pub allow: Vec<String>,
}

impl SharedDocument {
    /// What it asks of its site.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn wish(&self, now: Timestamp) -> Result<SharedWish, (&'static str, String)> {
        if self.lasts.0 == DurationMs::ZERO {
            return Err(("for", "is no time; say how long it is to last".into()));
        }
        let allowed = self.allow.iter().map(|key| KeyName::new(key)).collect::<Result<_, _>>();
        let earliest = self.start.map_or(now, |start| start.0);
        let within = self.within.map_or(DurationMs::ZERO, |within| within.0);
        let window = StartWindow::new(earliest, earliest + within);
        if window.latest < now && self.start.is_some() {
            return Err(("start", "lies in the past; give a later one".into()));
        }
        Ok(SharedWish {
            name: self.name.clone(),
            allowed: allowed.map_err(|error| ("allow", error.to_string()))?,
            resources: Resources::processors(self.processors),
            window: StartWindow::new(window.earliest.max(now), window.latest.max(now)),
            lead: DurationMs::ZERO,
            length: self.lasts.0,
            margin: DurationMs::ZERO,
        })
    }
}

/// When a shared reservation is to end; one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedExtension {
    /// The new end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
    /// So much later than now planned.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    #[schema(example = "30m")]
    pub longer: Option<Length>,
}

/// One reservation that jobs share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedReport {
    /// What jobs call it.
    pub name: String,
    /// Its site.
    pub site: String,
    /// `asking`; `confirmed`; `extending`: it is kept, and the site is asked to keep it longer;
    /// `releasing`; `cancelled`; `over`; `refused`; `lost`: the site has it no more.
    #[schema(example = "confirmed")]
    pub state: String,
    /// Processors.
    pub processors: u32,
    /// When it begins.
    pub start: Instant,
    /// When it ends.
    pub until: Instant,
    /// The key that had it made.
    pub by: String,
    /// Keys whose jobs may use it; every key's if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// Its number at the site, which knows it by a tag that ends with it.
    pub serial: u32,
    /// If it was refused: from when on the site might grant the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Instant>,
    /// Unfinished jobs that name it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<u64>,
    /// Seconds of processors that it kept up to now.
    pub reserved_s: u64,
    /// Those of them in which jobs ran that are still known.
    pub used_s: u64,
}

impl SharedReport {
    /// One of a site as it stands.
    pub fn of(site: &SiteName, shared: &SharedReservation, view: &View, now: Timestamp) -> Self {
        let name = &shared.wish.name;
        let jobs = || view.jobs.values().filter(|job| job.shares() == Some(name));
        let unfinished = jobs().filter(|job| !job.is_final());
        let kept = if shared.granted.is_some() { shared.start() } else { now };
        let processors = shared.wish.resources.processors;
        let reserved = now.min(shared.until()).since(kept);
        let used: u64 = jobs().map(|job| used_ms(job, site, shared, now)).sum();
        Self {
            name: name.to_string(),
            site: site.to_string(),
            state: state(shared, now).into(),
            processors,
            start: Instant(shared.start()),
            until: Instant(shared.until()),
            by: shared.by.to_string(),
            allowed: shared.wish.allowed.iter().map(ToString::to_string).collect(),
            serial: shared.serial.0,
            next: next(shared).map(Instant),
            jobs: unfinished.map(|job| job.id.0).collect::<Vec<_>>(),
            reserved_s: reserved.0 * u64::from(processors) / 1_000,
            used_s: used / 1_000,
        }
    }

    /// All that are known, by site, the oldest first.
    pub fn all(view: &View, now: Timestamp) -> Vec<Self> {
        let all = view.sites.iter().flat_map(|(site, record)| {
            record.shared.iter().map(move |shared| Self::of(site, shared, view, now))
        });
        all.collect()
    }
}

/// For how long processors of it were used by a job.
fn used_ms(job: &Job, site: &SiteName, shared: &SharedReservation, now: Timestamp) -> u64 {
    let Some(started) = job.instants.started else { return 0 };
    let ended = match job.phase {
        Phase::Finished { at } | Phase::Failed { at, .. } | Phase::Cancelled { at, .. } => at,
        _ => now,
    };
    let ran = ended.since(started).0;
    let under = job.components.iter().enumerate().filter(|(_, component)| {
        let promised = component.acquisition().promised();
        promised.is_some_and(|it| it.shared && it.serial == shared.serial)
            && component.placement.as_ref().is_some_and(|placed| placed.site == *site)
    });
    let processors = under.map(|(index, _)| job.processors_of(ComponentIndex(index as u32)));
    processors.map(u64::from).sum::<u64>() * ran
}

fn next(shared: &SharedReservation) -> Option<Timestamp> {
    match shared.stage {
        SharedStage::Ended(SharedEnd::Refused { next }) => Some(next? + shared.wish.lead),
        _ => None,
    }
}

fn state(shared: &SharedReservation, now: Timestamp) -> &'static str {
    match &shared.stage {
        SharedStage::Ended(SharedEnd::Refused { .. }) => "refused",
        SharedStage::Ended(SharedEnd::WrongStart | SharedEnd::Lost) => "lost",
        SharedStage::Ended(SharedEnd::Cancelled { .. }) => "cancelled",
        SharedStage::Ended(SharedEnd::NoShow) => "no-show",
        _ if shared.is_over(now) => "over",
        SharedStage::Asked | SharedStage::Granted => "asking",
        SharedStage::Confirmed => "confirmed",
        SharedStage::Extending { .. } => "extending",
        SharedStage::Releasing(_) => "releasing",
    }
}

/// What is to be said of a job that waits for its turn in a reservation.
pub fn turn(job: &Job, view: &View, now: Timestamp) -> Option<String> {
    let name = job.shares().filter(|_| job.waits_within())?;
    let Some((site, shared)) = view.shared_reservation(name, now) else {
        return Some(format!("its reservation {name} is no more"));
    };
    let (start, until) = (shared.start(), Instant(shared.until()));
    Some(match state(shared, now) {
        "confirmed" if now < start => {
            format!("reservation {name} at {site} begins at {}", Instant(start))
        }
        "confirmed" | "extending" if until.0.since(now) < job.spec.wall_time => {
            format!("reservation {name} at {site} ends at {until}, too early for its wall time")
        }
        "confirmed" | "extending" => {
            let ahead = ahead(job.id, name, view);
            format!("it waits for room in reservation {name} at {site}, with {ahead} job(s) ahead")
        }
        "asking" => format!("{site} is being asked for its reservation {name}"),
        other => format!("its reservation {name} at {site} is {other}"),
    })
}

fn ahead(id: JobId, name: &ReservationName, view: &View) -> usize {
    let before = view.jobs.range(..id).filter(|(_, job)| job.shares() == Some(name));
    before.filter(|(_, job)| !job.is_final()).count()
}
