//! Shared reservations: as an operator asks for them, and their state.

use std::collections::BTreeMap;

use cospan_actors::api::CommittedView;
use cospan_domain::ids::{ComponentIndex, JobId, KeyName, ReservationName, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::reservation::StartWindow;
use cospan_domain::resources::Resources;
use cospan_domain::site::joint_reservation::{JointReservation, JointReservationState};
use cospan_domain::site::shared_reservation::{
    SharedReservation, SharedReservationEnd, SharedReservationStage, SharedReservationTerms,
};
use cospan_domain::site::shared_reservation_access::ReservationAccessChange;
use cospan_domain::units::{DurationMs, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::quantity::{Instant, Length};
use super::text_patterns::{KeyText, ReservationText, SiteText};
use super::time::Moment;
use super::{number, text};

/// Default tolerance between the starts at several sites.
const TOLERANCE: DurationMs = DurationMs::from_secs(60);

/// A reservation that jobs are to share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedDocument {
    /// The name by which jobs refer to it: `[reservation]`, `use`.
    #[serde(with = "text")]
    #[schema(value_type = ReservationText)]
    pub name: ReservationName,
    /// The site that is to reserve.
    #[serde(with = "text")]
    #[schema(value_type = SiteText)]
    pub site: SiteName,
    /// Processors, for all jobs that run in it at the same time.
    #[serde(deserialize_with = "number::positive")]
    #[schema(minimum = 1)]
    pub processors: u32,
    /// The earliest start: `tomorrow 09:00`, `2026-11-27 09:00`, `in 2h`; now if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Moment>,
    /// The latest start, as a length of time after the earliest; exactly the earliest if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2h")]
    pub within: Option<Length>,
    /// The length of the reservation.
    #[serde(rename = "for")]
    #[schema(example = "4h")]
    pub lasts: Length,
    /// Keys whose jobs may use it; all keys if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<KeyText>)]
    pub allow: Vec<String>,
    /// Other sites that are to reserve for the same time: all sites do, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<SharedPart>,
    /// Longest distance between the starts at several sites; one minute if left out, or `within` if
    /// that is shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "1m")]
    pub tolerance: Option<Length>,
}

/// The part that one more site is to reserve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedPart {
    /// The site.
    #[serde(with = "text")]
    #[schema(value_type = SiteText)]
    pub site: SiteName,
    /// The processors of this part.
    #[serde(deserialize_with = "number::positive")]
    #[schema(minimum = 1)]
    pub processors: u32,
}

/// A change of the keys that may use a shared reservation: `everybody`, or `only` some keys, or
/// `add` and `remove` some.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedAccess {
    /// Keys whose jobs may use it from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<KeyText>)]
    pub add: Vec<String>,
    /// Keys whose jobs may no longer use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<KeyText>)]
    pub remove: Vec<String>,
    /// The only keys whose jobs may use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<KeyText>)]
    pub only: Vec<String>,
    /// True if the jobs of all keys may use it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everybody: bool,
}

/// Parses key names. The error has the member with the invalid name, and the problem.
fn parse_keys<T: FromIterator<KeyName>>(
    member: &'static str,
    names: &[String],
) -> Result<T, (&'static str, String)> {
    let keys = names
        .iter()
        .map(|name| KeyName::new(name))
        .collect::<Result<T, _>>();
    keys.map_err(|error| (member, error.to_string()))
}

impl SharedAccess {
    /// Converts the document into the change that it asks for.
    ///
    /// # Errors
    ///
    /// The member that is wrong, and why.
    pub fn to_access(&self) -> Result<ReservationAccessChange, (&'static str, String)> {
        let changes = !self.add.is_empty() || !self.remove.is_empty();
        match (changes, self.only.is_empty(), self.everybody) {
            (true, true, false) => {
                let add = parse_keys("add", &self.add)?;
                let remove = parse_keys("remove", &self.remove)?;
                Ok(ReservationAccessChange::Change { add, remove })
            }
            (false, false, false) => Ok(ReservationAccessChange::Only(parse_keys(
                "only", &self.only,
            )?)),
            (false, true, true) => Ok(ReservationAccessChange::Everybody),
            _ => Err((
                "only",
                "say `everybody`, or `only` and keys, or which keys to `add` and `remove`".into(),
            )),
        }
    }
}

impl SharedDocument {
    /// Converts the document into the terms of the reservation.
    ///
    /// # Errors
    ///
    /// The key that is wrong, and why.
    pub fn to_shared_terms(
        &self,
        now: Timestamp,
    ) -> Result<SharedReservationTerms, (&'static str, String)> {
        if self.lasts.0 == DurationMs::ZERO {
            return Err(("for", "is no time; say how long it is to last".into()));
        }
        let earliest = self.start.map_or(now, |start| start.0);
        let within = self.within.map_or(DurationMs::ZERO, |within| within.0);
        let window = StartWindow::new(earliest, earliest + within);
        if window.latest < now && self.start.is_some() {
            return Err(("start", "lies in the past; give a later one".into()));
        }
        Ok(SharedReservationTerms {
            name: self.name.clone(),
            allowed: parse_keys("allow", &self.allow)?,
            resources: Resources::processors(self.processors),
            window: StartWindow::new(window.earliest.max(now), window.latest.max(now)),
            lead: DurationMs::ZERO,
            length: self.lasts.0,
            margin: DurationMs::ZERO,
            parts: self.site_parts()?,
            tolerance: self.tolerance.map_or(TOLERANCE, |tolerance| tolerance.0),
        })
    }

    /// Returns the site that is asked first, whose record decides for all.
    pub fn first_site(&self) -> &SiteName {
        let others = self.also.iter().map(|part| &part.site);
        others.chain([&self.site]).min().unwrap_or(&self.site)
    }

    /// Returns the part of each site, if there are several.
    fn site_parts(&self) -> Result<BTreeMap<SiteName, Resources>, (&'static str, String)> {
        if self.also.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut parts =
            BTreeMap::from([(self.site.clone(), Resources::processors(self.processors))]);
        for SharedPart { site, processors } in &self.also {
            if parts
                .insert(site.clone(), Resources::processors(*processors))
                .is_some()
            {
                return Err((
                    "also",
                    format!("names {site} twice; say once what it is to reserve"),
                ));
            }
        }
        Ok(parts)
    }
}

/// The new end of a shared reservation; exactly one of the two keys is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedExtension {
    /// The new end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
    /// Length of time by which the planned end is moved.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    #[schema(example = "30m")]
    pub longer: Option<Length>,
}

/// A shared reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedReport {
    /// The name by which jobs refer to it.
    pub name: String,
    /// The site; of several, the first that has not lost its part.
    pub site: String,
    /// `asking`; `confirmed`; `extending`: confirmed, while the site is asked for a later end;
    /// `releasing`; `cancelled`; `over`; `refused`; `no-show`; `lost`: the site no longer has it.
    /// With several sites, the state of those that have not lost their parts.
    #[schema(example = "confirmed")]
    pub state: String,
    /// Processors, at all sites together.
    pub processors: u32,
    /// When the reservation begins, at all sites.
    pub start: Instant,
    /// When the reservation ends, at the first site to end it.
    pub until: Instant,
    /// The key that asked for it.
    pub by: String,
    /// Keys whose jobs may use it; all keys if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// The number of the reservation at the site; its tag there ends with this number.
    pub serial: u32,
    /// If it was refused: from when on the site might grant the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Instant>,
    /// Unfinished jobs that name the reservation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<u64>,
    /// Processor-seconds reserved up to now.
    pub reserved_s: u64,
    /// Processor-seconds of them that jobs used, as far as the jobs are still known.
    pub used_s: u64,
    /// The part of each site, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SharedPartReport>,
}

/// The part of one of several sites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedPartReport {
    /// The site.
    pub site: String,
    /// The state; the words are those of the whole reservation.
    #[schema(example = "confirmed")]
    pub state: String,
    /// The processors of this part.
    pub processors: u32,
    /// When the part begins.
    pub start: Instant,
    /// When the part ends.
    pub until: Instant,
    /// The number of the part at its site.
    pub serial: u32,
}

impl SharedReport {
    /// Reports on a reservation across all its sites; `None` if no site has a part.
    pub fn of(group: &JointReservation<'_>, view: &CommittedView, now: Timestamp) -> Option<Self> {
        let (site, shared) = group.leading_part(now)?;
        let name = &shared.wish.name;
        let jobs: Vec<_> = view
            .jobs
            .values()
            .filter(|job| job.shared_reservation() == Some(name))
            .collect();
        let unfinished = jobs.iter().filter(|job| !job.is_final());
        let mut reserved_ms = 0;
        let mut used = 0;
        for (site, part) in group.parts() {
            let wide = part.wish.resources.processors;
            if part.granted.is_some() {
                reserved_ms += now.min(part.end()).since(part.start()).0 * u64::from(wide);
            }
            used += jobs
                .iter()
                .map(|job| used_processor_ms(job, site, part, now))
                .sum::<u64>();
        }
        let parts = group
            .parts()
            .iter()
            .map(|(site, part)| SharedPartReport::of(site, part, now));
        // Some sites may not have been asked yet.
        let processors = match shared.together {
            Some(_) => shared.wish.parts.values().map(|part| part.processors).sum(),
            None => shared.wish.resources.processors,
        };
        Some(Self {
            name: name.to_string(),
            site: site.to_string(),
            state: group_state(group, now).into(),
            processors,
            start: Instant(group.start(now)),
            until: Instant(group.end(now)),
            by: shared.by.to_string(),
            allowed: shared
                .wish
                .allowed
                .iter()
                .map(ToString::to_string)
                .collect(),
            serial: shared.serial.0,
            next: next_start(shared).map(Instant),
            jobs: unfinished.map(|job| job.id.0).collect::<Vec<_>>(),
            reserved_s: reserved_ms / 1_000,
            used_s: used / 1_000,
            parts: if shared.together.is_some() {
                parts.collect()
            } else {
                Vec::new()
            },
        })
    }

    /// Reports on all known reservations, by site, the oldest first.
    pub fn list_all(view: &CommittedView, now: Timestamp) -> Vec<Self> {
        let each = view
            .sites
            .iter()
            .flat_map(|(site, record)| record.shared.iter().map(move |shared| (site, shared)));
        // The remains of starts that were tried in vain are not reservations.
        let each = each.filter(|(site, shared)| {
            let is_root = shared.wish.parts.keys().next() == Some(*site);
            let is_whole = is_root || shared.joint_state() == JointReservationState::Kept;
            is_whole && shared.end_reason() != Some(&SharedReservationEnd::AskedAnew)
        });
        let groups = each.filter_map(|(site, shared)| {
            let group = JointReservation::around_part(site, shared, &|site| view.site_record(site));
            // Each reservation appears once, with its first part.
            let first = group.parts().first();
            let is_first =
                first.is_some_and(|(at, part)| *at == site && part.serial == shared.serial);
            is_first.then_some(group)
        });
        groups
            .filter_map(|group| Self::of(&group, view, now))
            .collect()
    }

    /// Lists the sites, and marks those that have lost their parts.
    pub fn format_sites(&self) -> String {
        if self.parts.is_empty() {
            return self.site.clone();
        }
        self.parts
            .iter()
            .map(|part: &SharedPartReport| match part.state.as_str() {
                "lost" => format!("{} (lost)", part.site),
                _ => part.site.clone(),
            })
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl SharedPartReport {
    fn of(site: &SiteName, part: &SharedReservation, now: Timestamp) -> Self {
        Self {
            site: site.to_string(),
            state: part_state(part, now).into(),
            processors: part.wish.resources.processors,
            start: Instant(part.start()),
            until: Instant(part.end()),
            serial: part.serial.0,
        }
    }
}

/// Returns for how long a job used processors of the reservation.
fn used_processor_ms(
    job: &Job,
    site: &SiteName,
    shared: &SharedReservation,
    now: Timestamp,
) -> u64 {
    let Some(started) = job.instants.started else {
        return 0;
    };
    let ended = match job.phase {
        JobPhase::Finished { at }
        | JobPhase::Failed { at, .. }
        | JobPhase::Cancelled { at, .. } => at,
        _ => now,
    };
    let ran = ended.since(started).0;
    let under = job.components.iter().enumerate().filter(|(_, component)| {
        let promised = component.acquisition().reservation_use();
        promised.is_some_and(|it| it.shared && it.serial == shared.serial)
            && component
                .placement
                .as_ref()
                .is_some_and(|placed| placed.site == *site)
    });
    let processors = under.map(|(index, _)| job.processors_of(ComponentIndex(index as u32)));
    processors.map(u64::from).sum::<u64>() * ran
}

fn next_start(shared: &SharedReservation) -> Option<Timestamp> {
    match shared.stage {
        SharedReservationStage::Ended(SharedReservationEnd::Refused { next }) => {
            Some(next? + shared.wish.lead)
        }
        _ => None,
    }
}

fn part_state(shared: &SharedReservation, now: Timestamp) -> &'static str {
    match &shared.stage {
        SharedReservationStage::Ended(SharedReservationEnd::Refused { .. }) => "refused",
        SharedReservationStage::Ended(
            SharedReservationEnd::WrongStart | SharedReservationEnd::Lost,
        ) => "lost",
        SharedReservationStage::Ended(SharedReservationEnd::Cancelled { .. }) => "cancelled",
        SharedReservationStage::Ended(SharedReservationEnd::NoShow) => "no-show",
        // A later start has been requested.
        SharedReservationStage::Ended(SharedReservationEnd::AskedAnew) => "asking",
        _ if shared.is_over(now) => "over",
        SharedReservationStage::Asked | SharedReservationStage::Granted => "asking",
        SharedReservationStage::Confirmed
            if shared.joint_state() != JointReservationState::Kept =>
        {
            "asking"
        }
        SharedReservationStage::Confirmed => "confirmed",
        SharedReservationStage::Extending { .. } => "extending",
        SharedReservationStage::Releasing(_) => "releasing",
    }
}

/// Returns the state of all parts together: it is not done before it is done everywhere.
fn group_state(group: &JointReservation<'_>, now: Timestamp) -> &'static str {
    let Some((_, leader)) = group.leading_part(now) else {
        return "over";
    };
    if leader.end_reason().is_none() && group.parts().iter().any(|(_, part)| ends_others(part)) {
        return "releasing";
    }
    let of_leader = part_state(leader, now);
    let parts = group.parts();
    match of_leader {
        "confirmed" if group.is_extending(now) => "extending",
        "confirmed" | "extending" | "asking" => of_leader,
        _ if parts
            .iter()
            .any(|(_, part)| part_state(part, now) == "releasing") =>
        {
            "releasing"
        }
        _ => of_leader,
    }
}

// If the end at one site is not the loss of that part alone, the other sites follow soon.
fn ends_others(part: &SharedReservation) -> bool {
    match part.end_reason() {
        Some(SharedReservationEnd::Lost | SharedReservationEnd::WrongStart) => {
            part.joint_state() != JointReservationState::Kept
        }
        end => end.is_some(),
    }
}

/// Describes the turn of a job that waits in a shared reservation.
pub fn describe_reservation_turn(
    job: &Job,
    view: &CommittedView,
    now: Timestamp,
) -> Option<String> {
    let name = job
        .shared_reservation()
        .filter(|_| job.waits_in_shared_reservation())?;
    let Some(group) = view.joint_reservation_named(name, now) else {
        return Some(format!("its reservation {name} is no more"));
    };
    let sites: Vec<&str> = match group.usable_parts(now).next() {
        Some(_) => group
            .usable_parts(now)
            .map(|(site, _)| site.as_str())
            .collect(),
        None => group
            .parts()
            .iter()
            .map(|(site, _)| site.as_str())
            .collect(),
    };
    let site = sites.join(", ");
    let start = group.start(now);
    let until = Instant(group.end(now));
    Some(match group_state(&group, now) {
        "confirmed" if now < start => {
            format!("reservation {name} at {site} begins at {}", Instant(start))
        }
        "confirmed" | "extending" if until.0.since(now) < job.spec.wall_time => {
            format!("reservation {name} at {site} ends at {until}, too early for its wall time")
        }
        "confirmed" | "extending" => {
            let ahead = count_jobs_ahead(job.id, name, view);
            format!("it waits for room in reservation {name} at {site}, with {ahead} job(s) ahead")
        }
        "asking" => format!("{site} is being asked for its reservation {name}"),
        other => format!("its reservation {name} at {site} is {other}"),
    })
}

fn count_jobs_ahead(id: JobId, name: &ReservationName, view: &CommittedView) -> usize {
    let before = view
        .jobs
        .range(..id)
        .filter(|(_, job)| job.shared_reservation() == Some(name));
    before.filter(|(_, job)| !job.is_final()).count()
}
