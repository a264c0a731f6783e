//! Shared reservations: as an operator asks for them, and their state.

use std::collections::BTreeMap;

use cospan_domain::ids::{KeyName, ReservationName, SiteName};
use cospan_domain::reservation::StartWindow;
use cospan_domain::resources::Resources;
use cospan_domain::site::shared_reservation::SharedReservationTerms;
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
/// A start that passed no longer ago was `now` when it was written: the request took its time, and
/// clocks differ.
const JUST_NOW: DurationMs = DurationMs::from_secs(60);

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
            return Err(("for", "is 0; say how long the reservation lasts".into()));
        }
        let earliest = self.start.map_or(now, |start| start.0);
        let within = self.within.map_or(DurationMs::ZERO, |within| within.0);
        let window = StartWindow::new(earliest, earliest + within);
        if window.latest + JUST_NOW < now && self.start.is_some() {
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
                return Err(("also", format!("names {site} twice; give each site once")));
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
