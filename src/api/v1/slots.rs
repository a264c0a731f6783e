//! The possible starts of a job, as reported by sites that grant reservations.

use std::collections::BTreeMap;

use cospan_actors::api::{PossibleStartOverview, SiteStartsAnswer};
use cospan_domain::reservation::StartWindow;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::quantity::Instant;

/// The possible starts of a job. Nothing is reserved: another job may be faster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SlotsReport {
    /// The starts at each site.
    pub sites: Vec<SiteSlots>,
    /// The windows in which all components could start at the same time, at these sites together.
    pub together: Vec<TogetherSlot>,
    /// True if there are more windows than were asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

/// The possible starts at a site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SiteSlots {
    /// The name of the site.
    pub site: String,
    /// `answered`, `grants-none` (the site makes no reservations) or `silent`.
    #[schema(example = "answered")]
    pub state: String,
    /// The reason why the site did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Windows in which some components could start, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartSlot>,
    /// The end of the known times: later starts are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_until: Option<Instant>,
}

/// A window of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartSlot {
    /// The first.
    pub earliest: Instant,
    /// The last.
    pub latest: Instant,
    /// Number of components that could start there.
    pub components: u32,
}

/// A window in which all components could start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TogetherSlot {
    /// The first start.
    pub earliest: Instant,
    /// The last.
    pub latest: Instant,
    /// Number of components at each site, for the first start.
    pub sites: BTreeMap<String, u32>,
}

impl SlotsReport {
    /// Reports what the sites answered, at most this many windows of each.
    pub fn of(startable: &PossibleStartOverview, most: usize) -> Self {
        let mut shortened = startable.together.len() > most;
        let sites = startable
            .sites
            .iter()
            .map(|(name, said): (&_, &SiteStartsAnswer)| {
                let mut report = SiteSlots::of(said);
                shortened |= report.starts.len() > most;
                report.starts.truncate(most);
                SiteSlots {
                    site: ToString::to_string(name),
                    ..report
                }
            })
            .collect();
        let together = startable.together.iter().take(most).map(|common| {
            let StartWindow { earliest, latest } = common.window;
            let sites = common
                .sites
                .iter()
                .map(|(name, parts)| (name.to_string(), *parts));
            TogetherSlot {
                earliest: Instant(earliest),
                latest: Instant(latest),
                sites: sites.collect(),
            }
        });
        let together = together.collect();
        Self {
            sites,
            together,
            shortened,
        }
    }
}

impl SiteSlots {
    fn of(said: &SiteStartsAnswer) -> Self {
        match said {
            SiteStartsAnswer::GrantsNone => Self {
                state: "grants-none".into(),
                ..Self::default()
            },
            SiteStartsAnswer::Silent(why) => Self {
                state: "silent".into(),
                problem: Some(why.clone()),
                ..Self::default()
            },
            SiteStartsAnswer::Told { starts, until } => {
                let slots = starts.iter().map(|starts| StartSlot {
                    earliest: Instant(starts.window.earliest),
                    latest: Instant(starts.window.latest),
                    components: starts.parts,
                });
                let known_until = until.map(Instant);
                Self {
                    state: "answered".into(),
                    starts: slots.collect(),
                    known_until,
                    ..Self::default()
                }
            }
        }
    }
}
