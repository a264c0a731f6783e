//! The times at which a job could start.

use std::time::SystemTime;

use actix_web::web::Data;
use actix_web::{HttpRequest, get};
use cospan_actors::api::{PossibleStartOverview, SiteStartsAnswer, StartComputation};
use cospan_domain::ids::SiteName;
use cospan_domain::reservation::{EqualParts, StartWindow};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;
use serde::Deserialize;

use super::failure::{HandlerResult, HttpFailure};
use super::jobs::{json_response, write_json};
use super::middleware::RequestCaller;
use super::query::{self, wrong_parameter};
use super::site_routes::unknown_site;
use super::state::HttpState;
use cospan_api::v1::problem::{Code, Problem};
use cospan_api::v1::quantity::{Instant, Length};
use cospan_api::v1::slots::{SiteSlots, SlotsReport, StartSlot, TogetherSlot};
use cospan_api::v1::text_patterns::SiteText;
use cospan_api::v1::time::Moment;

/// Windows of each site, by default and at most.
const WINDOWS: usize = 20;
const WINDOWS_MAX: usize = 1_000;
/// Default length of the window of starts.
const WITHIN: Length = Length(DurationMs::from_secs(7 * 86_400));
/// Most components.
const COMPONENTS_MAX: u32 = 10_000;

/// The components and their window.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SlotsQuery {
    /// Processors of each component.
    #[param(minimum = 1)]
    processors: u32,
    /// Wall time of each component.
    #[serde(rename = "for")]
    #[param(rename = "for", example = "4h")]
    wall_time: Length,
    /// Number of components that start together: 1 by default.
    #[serde(default)]
    #[param(minimum = 1, maximum = 10000)]
    components: Option<u32>,
    /// The earliest start: now by default.
    #[serde(default)]
    earliest: Option<Moment>,
    /// The latest start, as a length after the earliest: seven days by default.
    #[serde(default)]
    #[param(example = "7d")]
    within: Option<Length>,
    /// Only this site.
    #[serde(default)]
    #[param(inline, value_type = Option<SiteText>)]
    site: Option<String>,
    /// Most windows of each site: 20 by default, at most 1,000.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// The refusal of a parameter that can be read but makes no sense.
fn senseless_parameter(name: &str, problem: &str) -> HttpFailure {
    Problem::new(Code::BadWindow, problem)
        .with_key_path(name)
        .into()
}

impl SlotsQuery {
    fn start_window(&self) -> Result<StartWindow, HttpFailure> {
        let now = Instant::from(SystemTime::now()).0;
        let earliest = self.earliest.map_or(now, |earliest| earliest.0);
        let window = StartWindow::new(earliest, earliest + self.within.unwrap_or(WITHIN).0);
        if window.latest < now {
            Err(senseless_parameter(
                "earliest",
                "lies in the past, and so does the latest start",
            ))
        } else {
            Ok(window)
        }
    }

    fn requested_parts(&self) -> Result<EqualParts, HttpFailure> {
        let count = self.components.unwrap_or(1);
        match () {
            () if self.processors == 0 => {
                Err(wrong_parameter("processors", "is 0; it must be at least 1"))
            }
            () if !(1..=COMPONENTS_MAX).contains(&count) => {
                let problem = format!("is {count}; it must be from 1 to {COMPONENTS_MAX}");
                Err(wrong_parameter("components", problem))
            }
            () if self.wall_time.0 == DurationMs::ZERO => Err(senseless_parameter(
                "for",
                "is 0; give the wall time of the job",
            )),
            () => {
                let resources = Resources::processors(self.processors);
                Ok(EqualParts {
                    count,
                    resources,
                    length: self.wall_time.0,
                })
            }
        }
    }
}

/// Shows the times at which a job could start, site by site and together. Nothing is reserved.
#[utoipa::path(
    tag = "reservations",
    params(SlotsQuery),
    responses((status = 200, body = SlotsReport, description = "Windows of starts")),
)]
#[get("/v1/slots")]
pub(super) async fn list(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
) -> HandlerResult {
    let asked: SlotsQuery = query::read_query(&request)?;
    let limit = query::check_limit(asked.limit, WINDOWS, WINDOWS_MAX)?;
    let parts = asked.requested_parts()?;
    let site: Option<SiteName> = asked
        .site
        .as_deref()
        .map(|name| query::parse_part("site", name))
        .transpose()?;
    if let Some(site) = &site {
        let known: Vec<String> = edge
            .backend
            .list_sites()
            .sites
            .into_iter()
            .map(|s| s.name)
            .collect();
        if !known.iter().any(|name| name == site.as_str()) {
            return Err(unknown_site(site, &known));
        }
    }
    edge.await_first_reports().await;
    let window = asked.start_window()?;
    let backend = edge.backend.clone();
    let told = async move { backend.possible_starts(site.as_ref(), &parts, window).await };
    edge.desk
        .run_after_sites(caller.name(), told, move |told: StartComputation| {
            write_json(&report_starts(&told(), limit))
        })
        .await
        .map(json_response)
}

/// Reports what the sites answered, at most this many windows of each.
fn report_starts(startable: &PossibleStartOverview, most: usize) -> SlotsReport {
    let mut shortened = startable.together.len() > most;
    let sites = startable
        .sites
        .iter()
        .map(|(name, said): (&_, &SiteStartsAnswer)| {
            let mut report = report_site_starts(said);
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
    SlotsReport {
        sites,
        together,
        shortened,
    }
}

/// Reports what one site answered.
fn report_site_starts(said: &SiteStartsAnswer) -> SiteSlots {
    match said {
        SiteStartsAnswer::GrantsNone => SiteSlots {
            state: "grants-none".into(),
            ..SiteSlots::default()
        },
        SiteStartsAnswer::Silent(why) => SiteSlots {
            state: "silent".into(),
            problem: Some(why.clone()),
            ..SiteSlots::default()
        },
        SiteStartsAnswer::Told { starts, until } => {
            let slots = starts.iter().map(|starts| StartSlot {
                earliest: Instant(starts.window.earliest),
                latest: Instant(starts.window.latest),
                components: starts.parts,
            });
            let known_until = until.map(Instant);
            SiteSlots {
                state: "answered".into(),
                starts: slots.collect(),
                known_until,
                ..SiteSlots::default()
            }
        }
    }
}
