//! Reading jobs.

use std::ops::Bound;
use std::sync::Arc;

use actix_web::http::header::ContentType;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, get};
use cospan_domain::ids::{JobId, KeyName, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::units::Bytes;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::control_plane_port::{ExplanationPage, JobHistory};
use super::failure::{HandlerResult, HttpFailure};
use super::middleware::{self, RequestCaller};
use super::query;
use super::site_routes;
use super::state::HttpState;
use cospan_api::v1::commands::StateName;
use cospan_api::v1::event::{EventReport, HistoryReport};
use cospan_api::v1::event_report::ComponentNames;
use cospan_api::v1::explain::ExplainReport;
use cospan_api::v1::job::{JobPage, JobReport, JobRow};
use cospan_api::v1::text_patterns::{KeyText, SiteText};

/// Rows of a page, by default and at most.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
/// Most jobs that are examined for one page: a filter that few jobs pass gives a short page with a
/// place to continue, instead of a long wait.
const MAX_SCAN: usize = 20_000;

/// The selection of jobs to list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct JobListQuery {
    /// Continue after this job: `next` of the previous page.
    #[serde(deserialize_with = "query::whole")]
    after: Option<u64>,
    /// Most rows of the page: 100 by default, at most 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
    /// Newest first.
    newest: bool,
    /// Only in this state.
    #[param(inline)]
    state: Option<StateName>,
    /// Only of this key.
    #[param(inline, value_type = Option<KeyText>)]
    owner: Option<String>,
    /// Only with a component at this site.
    #[param(inline, value_type = Option<SiteText>)]
    site: Option<String>,
    /// Only with this text in their name.
    name: Option<String>,
    /// Only the runs of the sweep that begins with this job.
    #[serde(deserialize_with = "query::whole")]
    group: Option<u64>,
}

/// The jobs that a list or a command covers: never those that the caller does not reach.
pub(super) struct CallerJobFilter {
    pub(super) caller: RequestCaller,
    pub(super) group: Option<JobId>,
    pub(super) state: Option<StateName>,
    pub(super) owner: Option<KeyName>,
    pub(super) site: Option<SiteName>,
    pub(super) name: Option<String>,
}

impl CallerJobFilter {
    /// Builds a filter from the parts of a query.
    pub(super) fn from_query(
        caller: RequestCaller,
        state: Option<StateName>,
        owner: Option<&str>,
        site: Option<&str>,
        name: Option<String>,
    ) -> Result<Self, HttpFailure> {
        let owner = owner
            .map(|text| query::parse_part("owner", text))
            .transpose()?;
        let site = site
            .map(|text| query::parse_part("site", text))
            .transpose()?;
        Ok(Self {
            state,
            owner,
            site,
            name,
            ..Self::all_of_caller(caller)
        })
    }

    /// Lets through all jobs that the caller reaches.
    pub(super) fn all_of_caller(caller: RequestCaller) -> Self {
        Self {
            caller,
            state: None,
            owner: None,
            site: None,
            name: None,
            group: None,
        }
    }

    /// Restricts the filter to the runs of this sweep.
    pub(super) fn in_group(self, group: Option<u64>) -> Self {
        Self {
            group: group.map(JobId),
            ..self
        }
    }

    /// Refuses a site that is not configured and has no job: an empty answer would hide a typing
    /// error. Jobs may still be at a site that left the configuration.
    pub(super) fn of_known_site(self, edge: &HttpState) -> Result<Self, HttpFailure> {
        let Some(site) = &self.site else {
            return Ok(self);
        };
        let known: Vec<String> = edge
            .backend
            .list_sites()
            .sites
            .into_iter()
            .map(|site| site.name)
            .collect();
        if known.iter().any(|name| name == site.as_str()) {
            return Ok(self);
        }
        let view = edge.backend.view();
        let mut jobs = view.jobs.values();
        if jobs.any(|job| self.caller.can_reach(&job.owner) && is_at_site(job, site)) {
            return Ok(self);
        }
        Err(site_routes::unknown_site(site, &known))
    }

    pub(super) fn matches_job(&self, job: &Job) -> bool {
        self.caller.can_reach(&job.owner)
            && self.state.is_none_or(|state| job.phase.kind() == state.0)
            && self.group.is_none_or(|group| {
                job.spec
                    .run
                    .task
                    .as_ref()
                    .is_some_and(|task| task.group == group)
            })
            && self.owner.as_ref().is_none_or(|owner| job.owner == *owner)
            && self.site.as_ref().is_none_or(|site| is_at_site(job, site))
            && self.name.as_ref().is_none_or(|part| {
                job.spec
                    .name
                    .as_ref()
                    .is_some_and(|name| name.contains(part.as_str()))
            })
    }
}

/// Returns true if a component is at the site, or must go there.
fn is_at_site(job: &Job, site: &SiteName) -> bool {
    if job.components.is_empty() {
        return job
            .spec
            .components
            .iter()
            .any(|c| c.site.as_ref() == Some(site));
    }
    is_placed_at(job, site)
}

fn is_placed_at(job: &Job, site: &SiteName) -> bool {
    job.components
        .iter()
        .any(|c| c.placement.as_ref().is_some_and(|p| p.site == *site))
}

/// Returns true if a component is placed, claims or runs at the site. A job that waits keeps the
/// placements of its last round, and has nothing there.
pub(super) fn has_component_at(job: &Job, site: &SiteName) -> bool {
    !matches!(job.phase, JobPhase::Queued { .. }) && is_placed_at(job, site)
}

/// Lists jobs that are not archived, by number.
///
/// There is no total. A page may be shorter than requested although there are more: `next` is set
/// then.
#[utoipa::path(
    tag = "jobs",
    params(JobListQuery),
    responses(
        (status = 200, body = JobPage, description = "A page of jobs"),
    )
)]
#[get("/v1/jobs")]
pub(super) async fn list(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
) -> HandlerResult {
    let asked: JobListQuery = query::read_query(&request)?;
    let limit = query::check_limit(asked.limit, PAGE, MAX_PAGE)?;
    let owner = asked.owner.as_deref();
    let site = asked.site.as_deref();
    let filter = CallerJobFilter::from_query(caller, asked.state, owner, site, asked.name)?
        .in_group(asked.group)
        .of_known_site(&edge)?;
    let view = edge.backend.view();
    let after = asked.after.map(JobId);
    let page = if asked.newest {
        let end = after.map_or(Bound::Unbounded, Bound::Excluded);
        collect_page(
            view.jobs.range((Bound::Unbounded, end)).rev(),
            &filter,
            limit,
        )
    } else {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        collect_page(view.jobs.range((begin, Bound::Unbounded)), &filter, limit)
    };
    Ok(HttpResponse::Ok().json(page))
}

fn collect_page<'a>(
    jobs: impl Iterator<Item = (&'a JobId, &'a Arc<Job>)>,
    filter: &CallerJobFilter,
    limit: usize,
) -> JobPage {
    let mut page = JobPage::default();
    let mut last = None;
    for (scanned, (id, job)) in jobs.enumerate() {
        if page.jobs.len() == limit || scanned == MAX_SCAN {
            // There is at least this one more.
            page.next = last;
            break;
        }
        last = Some(id.0);
        if filter.matches_job(job) {
            page.jobs.push(JobRow::from(&**job));
        }
    }
    page
}

/// Finds a job that the caller reaches, archived or not. A job of another key is answered like one
/// that does not exist, unless the caller sees it in lists anyway.
pub(super) async fn find_job(
    edge: &HttpState,
    caller: &RequestCaller,
    id: JobId,
) -> Result<Arc<Job>, HttpFailure> {
    let live = edge.backend.view().jobs.get(&id).cloned();
    let job = match live {
        Some(job) => Some(job),
        None => edge.backend.find_job(id).await?,
    };
    match job {
        Some(job) if caller.can_reach(&job.owner) => Ok(job),
        Some(_) if caller.can_see_rows() => {
            Err(middleware::another_keys_failure(format!("job {id}")))
        }
        Some(_) | None => Err(HttpFailure::no_such_job(id)),
    }
}

/// A job with more components is written apart from the threads that serve requests.
const SHOWN_AT_ONCE: usize = 64;
/// The same holds for one that takes more memory than this.
const LARGE: Bytes = Bytes(256 << 10);

pub(super) fn is_large_job(job: &Job) -> bool {
    job.component_count() > SHOWN_AT_ONCE || job.spec.memory_footprint() > LARGE
}

/// Writes an answer as JSON.
pub(super) fn write_json(report: &impl Serialize) -> Result<Vec<u8>, HttpFailure> {
    serde_json::to_vec(report).map_err(|error| HttpFailure::internal("write the report", error))
}

pub(super) fn json_response(body: Vec<u8>) -> HttpResponse {
    HttpResponse::Ok()
        .content_type(ContentType::json())
        .body(body)
}

/// Shows a job.
#[utoipa::path(
    tag = "jobs",
    params(("id" = u64, Path, description = "Its number")),
    responses(
        (status = 200, body = JobReport, description = "The job"),
    )
)]
#[get("/v1/jobs/{id}")]
pub(super) async fn show(
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
) -> HandlerResult {
    let job = find_job(&edge, &caller, query::parse_job_id(&id)?).await?;
    let keep = edge.settings.keep_attempts;
    if !is_large_job(&job) {
        let report = JobReport::from(&*job).with_outputs_kept(keep);
        return Ok(HttpResponse::Ok().json(report));
    }
    edge.desk
        .run_in_key_turn(caller.name(), move || {
            write_json(&JobReport::from(&*job).with_outputs_kept(keep))
        })
        .await
        .map(json_response)
}

/// Shows the events of a job, oldest first.
#[utoipa::path(
    tag = "jobs",
    params(("id" = u64, Path, description = "Its number")),
    responses(
        (status = 200, body = HistoryReport, description = "What happened"),
    )
)]
#[get("/v1/jobs/{id}/events")]
pub(super) async fn events(
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
) -> HandlerResult {
    let id = query::parse_job_id(&id)?;
    let job = find_job(&edge, &caller, id).await?;
    if !is_large_job(&job) {
        let history = edge
            .backend
            .history(id)
            .await?
            .ok_or_else(|| HttpFailure::no_such_job(id))?;
        return Ok(HttpResponse::Ok().json(history_report(&job, &history)));
    }
    let backend = edge.backend.clone();
    let runtime = Handle::current();
    edge.desk
        .run_in_key_turn(caller.name(), move || {
            let history = runtime.block_on(backend.history(id))?;
            write_json(&history_report(
                &job,
                &history.ok_or_else(|| HttpFailure::no_such_job(id))?,
            ))
        })
        .await
        .map(json_response)
}

fn history_report(job: &Job, history: &JobHistory) -> HistoryReport {
    let names = ComponentNames::of_job(job);
    let first = EventReport::of_submission(job);
    let later = history
        .events
        .iter()
        .map(|event| EventReport::of_event(event, &names));
    let all = std::iter::once(first).chain(later).collect();
    HistoryReport {
        events: all,
        shortened: history.shortened,
    }
}

/// The components that a page explains.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ExplainQuery {
    /// Skip this number of components: `next` of the previous page.
    #[serde(deserialize_with = "query::whole")]
    after: Option<u64>,
    /// Most components of the page: as many as it has room for by default, at most 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Explains why a job waits, or why it was placed where it is.
///
/// For a job with many components, or many sites, a page covers the first components; `groups` sums
/// up all verdicts, and `next` gives the place to continue. A page may have fewer components than
/// requested.
#[utoipa::path(
    tag = "jobs",
    params(("id" = u64, Path, description = "Its number"), ExplainQuery),
    responses(
        (status = 200, body = ExplainReport, description = "Why"),
    )
)]
#[get("/v1/jobs/{id}/explain")]
pub(super) async fn explain(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
) -> HandlerResult {
    let asked: ExplainQuery = query::read_query(&request)?;
    let limit = query::check_limit(asked.limit, MAX_PAGE, MAX_PAGE)?;
    let after = asked
        .after
        .map_or(0, |after| usize::try_from(after).unwrap_or(usize::MAX));
    let page = ExplanationPage {
        after,
        limit,
        ..ExplanationPage::FIRST
    };
    let id = query::parse_job_id(&id)?;
    find_job(&edge, &caller, id).await?;
    let facts = edge
        .backend
        .collect_job_facts(id, page)
        .await?
        .ok_or_else(|| HttpFailure::no_such_job(id))?;
    let backend = edge.backend.clone();
    edge.desk
        .run_in_key_turn(caller.name(), move || {
            write_json(&backend.explain(facts, page)?)
        })
        .await
        .map(json_response)
}
