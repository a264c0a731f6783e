//! Reservations that jobs share: as an operator asks for them, and what became of them.

use std::collections::BTreeMap;

use cospan_actors::api::View;
use cospan_domain::ids::{ComponentIndex, JobId, KeyName, ReservationName, SiteName};
use cospan_domain::job::state::{Job, JobPhase};
use cospan_domain::reserve::StartWindow;
use cospan_domain::resources::Resources;
use cospan_domain::site::access::ReservationAccess;
use cospan_domain::site::shared::{SharedEnd, SharedReservation, SharedStage, SharedTerms};
use cospan_domain::site::together::{JointReservation, JointState};
use cospan_domain::units::{DurationMs, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::moment::Moment;
use super::quantity::{Instant, Length};
use super::shape::{KeyText, ReservationText, SiteText};
use super::{number, text};

/// How far apart the starts at several sites may lie, unless told otherwise.
const TOLERANCE: DurationMs = DurationMs::from_secs(60);

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
    /// Other sites that are to reserve for the same time: all of them do, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<SharedPart>,
    /// How far apart the starts at several sites may lie; one minute if left out, or the whole of
    /// `within` if that is shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "1m")]
    pub tolerance: Option<Length>,
}

/// What one more site is to reserve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedPart {
    /// The site.
    #[serde(with = "text")]
    #[schema(value_type = SiteText)]
    pub site: SiteName,
    /// Its processors.
    #[serde(deserialize_with = "number::positive")]
    #[schema(minimum = 1)]
    pub processors: u32,
}

/// Who may use a shared reservation from now on: `everybody`, or `only` some keys, or `add` and
/// `remove` some.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedAccess {
    /// Keys whose jobs may use it, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<KeyText>)]
    pub add: Vec<String>,
    /// Keys whose jobs may use it no longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<KeyText>)]
    pub remove: Vec<String>,
    /// The keys whose jobs may use it, and no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<KeyText>)]
    pub only: Vec<String>,
    /// Every key's jobs may use it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everybody: bool,
}

/// Keys by name; the member that they stand in, and what is wrong, if one can be no key's.
fn keys<T: FromIterator<KeyName>>(
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
    /// The change that it asks for.
    ///
    /// # Errors
    /// The member that is wrong, and why.
    pub fn access(&self) -> Result<ReservationAccess, (&'static str, String)> {
        let changes = !self.add.is_empty() || !self.remove.is_empty();
        match (changes, self.only.is_empty(), self.everybody) {
            (true, true, false) => {
                let add = keys("add", &self.add)?;
                let remove = keys("remove", &self.remove)?;
                Ok(ReservationAccess::Change { add, remove })
            }
            (false, false, false) => Ok(ReservationAccess::Only(keys("only", &self.only)?)),
            (false, true, true) => Ok(ReservationAccess::Everybody),
            _ => Err((
                "only",
                "say `everybody`, or `only` and keys, or which keys to `add` and `remove`".into(),
            )),
        }
    }
}

impl SharedDocument {
    /// What it asks of its site.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn wish(&self, now: Timestamp) -> Result<SharedTerms, (&'static str, String)> {
        if self.lasts.0 == DurationMs::ZERO {
            return Err(("for", "is no time; say how long it is to last".into()));
        }
        let earliest = self.start.map_or(now, |start| start.0);
        let within = self.within.map_or(DurationMs::ZERO, |within| within.0);
        let window = StartWindow::new(earliest, earliest + within);
        if window.latest < now && self.start.is_some() {
            return Err(("start", "lies in the past; give a later one".into()));
        }
        Ok(SharedTerms {
            name: self.name.clone(),
            allowed: keys("allow", &self.allow)?,
            resources: Resources::processors(self.processors),
            window: StartWindow::new(window.earliest.max(now), window.latest.max(now)),
            lead: DurationMs::ZERO,
            length: self.lasts.0,
            margin: DurationMs::ZERO,
            parts: self.parts()?,
            tolerance: self.tolerance.map_or(TOLERANCE, |tolerance| tolerance.0),
        })
    }

    /// The site that is asked first, whose record decides for all.
    pub fn first(&self) -> &SiteName {
        let others = self.also.iter().map(|part| &part.site);
        others.chain([&self.site]).min().unwrap_or(&self.site)
    }

    /// What each of several sites is to reserve.
    fn parts(&self) -> Result<BTreeMap<SiteName, Resources>, (&'static str, String)> {
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
    /// Its site; of several, the first that has not lost its part.
    pub site: String,
    /// `asking`; `confirmed`; `extending`: it is kept, and the site is asked to keep it longer;
    /// `releasing`; `cancelled`; `over`; `refused`; `no-show`; `lost`: the site has it no more.
    /// Of several sites: of those that have not lost their parts.
    #[schema(example = "confirmed")]
    pub state: String,
    /// Processors, at all of its sites together.
    pub processors: u32,
    /// When it begins, at all of its sites.
    pub start: Instant,
    /// When it ends, at the first of its sites to end.
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
    /// What each site reserves, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SharedPartReport>,
}

/// What one of several sites reserves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedPartReport {
    /// The site.
    pub site: String,
    /// As of the whole.
    #[schema(example = "confirmed")]
    pub state: String,
    /// Its processors.
    pub processors: u32,
    /// When it begins there.
    pub start: Instant,
    /// When it ends there.
    pub until: Instant,
    /// Its number at the site.
    pub serial: u32,
}

impl SharedReport {
    /// One as it stands at all of its sites; `None` if none has a part.
    pub fn of(group: &JointReservation<'_>, view: &View, now: Timestamp) -> Option<Self> {
        let (site, shared) = group.leader(now)?;
        let name = &shared.wish.name;
        let jobs = || view.jobs.values().filter(|job| job.shares() == Some(name));
        let unfinished = jobs().filter(|job| !job.is_final());
        let mut reserved_ms = 0;
        let mut used = 0;
        for (site, part) in group.parts() {
            let wide = part.wish.resources.processors;
            if part.granted.is_some() {
                reserved_ms += now.min(part.until()).since(part.start()).0 * u64::from(wide);
            }
            used += jobs().map(|job| used_ms(job, site, part, now)).sum::<u64>();
        }
        let parts = group
            .parts()
            .iter()
            .map(|(site, part)| SharedPartReport::of(site, part, now));
        // Not all sites may have been asked yet.
        let processors = match shared.together {
            Some(_) => shared.wish.parts.values().map(|part| part.processors).sum(),
            None => shared.wish.resources.processors,
        };
        Some(Self {
            name: name.to_string(),
            site: site.to_string(),
            state: state_of(group, now).into(),
            processors,
            start: Instant(group.start(now)),
            until: Instant(group.until(now)),
            by: shared.by.to_string(),
            allowed: shared
                .wish
                .allowed
                .iter()
                .map(ToString::to_string)
                .collect(),
            serial: shared.serial.0,
            next: next(shared).map(Instant),
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

    /// All that are known, by site, the oldest first.
    pub fn all(view: &View, now: Timestamp) -> Vec<Self> {
        let each = view
            .sites
            .iter()
            .flat_map(|(site, record)| record.shared.iter().map(move |shared| (site, shared)));
        // What is left of starts that were tried in vain is no reservation.
        let each = each.filter(|(site, shared)| {
            let is_root = shared.wish.parts.keys().next() == Some(*site);
            let is_whole = is_root || shared.accord() == JointState::Kept;
            is_whole && shared.end() != Some(&SharedEnd::AskedAnew)
        });
        let groups = each.filter_map(|(site, shared)| {
            let group = JointReservation::of(site, shared, &|site| view.site_record(site));
            // Each once, where its first part is.
            let first = group.parts().first();
            let is_first =
                first.is_some_and(|(at, part)| *at == site && part.serial == shared.serial);
            is_first.then_some(group)
        });
        groups
            .filter_map(|group| Self::of(&group, view, now))
            .collect()
    }

    /// Its sites, and which of them have lost their parts.
    pub fn sites(&self) -> String {
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
            state: state(part, now).into(),
            processors: part.wish.resources.processors,
            start: Instant(part.start()),
            until: Instant(part.until()),
            serial: part.serial.0,
        }
    }
}

/// For how long processors of it were used by a job.
fn used_ms(job: &Job, site: &SiteName, shared: &SharedReservation, now: Timestamp) -> u64 {
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
        let promised = component.acquisition().promised();
        promised.is_some_and(|it| it.shared && it.serial == shared.serial)
            && component
                .placement
                .as_ref()
                .is_some_and(|placed| placed.site == *site)
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
        // A later start is asked for.
        SharedStage::Ended(SharedEnd::AskedAnew) => "asking",
        _ if shared.is_over(now) => "over",
        SharedStage::Asked | SharedStage::Granted => "asking",
        SharedStage::Confirmed if shared.accord() != JointState::Kept => "asking",
        SharedStage::Confirmed => "confirmed",
        SharedStage::Extending { .. } => "extending",
        SharedStage::Releasing(_) => "releasing",
    }
}

/// Of all parts together: what is still being done somewhere is not done.
fn state_of(group: &JointReservation<'_>, now: Timestamp) -> &'static str {
    let Some((_, leader)) = group.leader(now) else {
        return "over";
    };
    // What was ended at one site, and is not lost there alone, is ended at the others before long.
    let ends = |part: &SharedReservation| match part.end() {
        Some(SharedEnd::Lost | SharedEnd::WrongStart) => part.accord() != JointState::Kept,
        end => end.is_some(),
    };
    if leader.end().is_none() && group.parts().iter().any(|(_, part)| ends(part)) {
        return "releasing";
    }
    let of_leader = state(leader, now);
    let releasing = |part: &SharedReservation| state(part, now) == "releasing";
    match of_leader {
        "confirmed" if group.is_extending(now) => "extending",
        "confirmed" | "extending" | "asking" => of_leader,
        _ if group.parts().iter().any(|(_, part)| releasing(part)) => "releasing",
        _ => of_leader,
    }
}

/// What is to be said of a job that waits for its turn in a reservation.
pub fn turn(job: &Job, view: &View, now: Timestamp) -> Option<String> {
    let name = job.shares().filter(|_| job.waits_within())?;
    let Some(group) = view.shared_group(name, now) else {
        return Some(format!("its reservation {name} is no more"));
    };
    let sites: Vec<&str> = match group.kept(now).next() {
        Some(_) => group.kept(now).map(|(site, _)| site.as_str()).collect(),
        None => group
            .parts()
            .iter()
            .map(|(site, _)| site.as_str())
            .collect(),
    };
    let site = sites.join(", ");
    let start = group.start(now);
    let until = Instant(group.until(now));
    Some(match state_of(&group, now) {
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
    let before = view
        .jobs
        .range(..id)
        .filter(|(_, job)| job.shares() == Some(name));
    before.filter(|(_, job)| !job.is_final()).count()
}
