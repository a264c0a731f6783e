//! When a job could start, as sites say that promise starts.

use std::collections::BTreeMap;

use cospan_actors::api::{SiteStarts, StartOverview};
use cospan_domain::reserve::StartWindow;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::quantity::Instant;

/// When a job could start. Nothing is reserved: another may be faster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SlotsReport {
    /// Site by site.
    pub sites: Vec<SiteSlots>,
    /// When all components could start at the same time, at these sites together.
    pub together: Vec<TogetherSlot>,
    /// There are more windows than were asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

/// When components could start at a site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SiteSlots {
    /// Its name.
    pub site: String,
    /// `answered`, `grants-none` (it promises no starts) or `silent`.
    #[schema(example = "answered")]
    pub state: String,
    /// Why it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Windows in which some components could start, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartSlot>,
    /// Starts from then on are not known.
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
    /// How many of the components could start there.
    pub components: u32,
}

/// A window in which all components could start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TogetherSlot {
    /// The first start.
    pub earliest: Instant,
    /// The last.
    pub latest: Instant,
    /// How many components would go where at the first.
    pub sites: BTreeMap<String, u32>,
}

impl SlotsReport {
    /// As sites said, no more than so many windows of each.
    pub fn of(startable: &StartOverview, most: usize) -> Self {
        let mut shortened = startable.together.len() > most;
        let sites = startable
            .sites
            .iter()
            .map(|(name, said): (&_, &SiteStarts)| {
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
    fn of(said: &SiteStarts) -> Self {
        let state = |state: &str| Self {
            state: state.into(),
            ..Self::default()
        };
        match said {
            SiteStarts::GrantsNone => state("grants-none"),
            SiteStarts::Silent(why) => Self {
                problem: Some(why.clone()),
                ..state("silent")
            },
            SiteStarts::Told { starts, until } => {
                let slots = starts.iter().map(|starts| StartSlot {
                    earliest: Instant(starts.window.earliest),
                    latest: Instant(starts.window.latest),
                    components: starts.parts,
                });
                let known_until = until.map(Instant);
                Self {
                    starts: slots.collect(),
                    known_until,
                    ..state("answered")
                }
            }
        }
    }
}
