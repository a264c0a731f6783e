//! The cost of jobs.

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse, get};
use cospan_domain::ids::JobId;
use serde::Deserialize;

use super::failure::HandlerResult;
use super::jobs::CallerJobFilter;
use super::middleware::RequestCaller;
use super::query;
use super::state::HttpState;
use cospan_api::v1::accounting::{AccountPage, AccountRow};
use cospan_api::v1::commands::StateName;
use cospan_api::v1::text_patterns::{KeyText, SiteText};

/// Rows of a page, by default and at most.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
/// Most jobs that are read for one page: an archived one comes from the store.
const MAX_SCAN: usize = 5_000;

/// The selection of jobs to account for.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct AccountQuery {
    /// Continue after this job: `next` of the previous page.
    #[serde(deserialize_with = "query::whole")]
    after: Option<u64>,
    /// Most rows of the page: 100 by default, at most 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
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

/// Lists the cost of jobs, by number, including archived ones.
///
/// A page may be shorter than requested although there are more: `next` is set then.
#[utoipa::path(
    tag = "jobs",
    params(AccountQuery),
    responses(
        (status = 200, body = AccountPage, description = "A page of accounts"),
    )
)]
#[get("/v1/accounts")]
pub(super) async fn list(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
) -> HandlerResult {
    let asked: AccountQuery = query::read_query(&request)?;
    let limit = query::check_limit(asked.limit, PAGE, MAX_PAGE)?;
    let owner = asked.owner.as_deref();
    let site = asked.site.as_deref();
    let filter = CallerJobFilter::from_query(caller, asked.state, owner, site, asked.name)?
        .in_group(asked.group);
    let first = asked.after.unwrap_or(0).saturating_add(1);
    let view = edge.backend.view();
    let mut page = AccountPage::default();
    for (scanned, id) in (first..view.next_id.0).enumerate() {
        if page.jobs.len() == limit || scanned == MAX_SCAN {
            page.next = Some(id - 1);
            break;
        }
        let job = match view.jobs.get(&JobId(id)) {
            Some(job) => Some(job.clone()),
            // Archived, or a number that was reserved and never used.
            None => edge.backend.find_job(JobId(id)).await?,
        };
        if let Some(job) = job.filter(|job| filter.matches_job(job)) {
            page.jobs.push(AccountRow::from(&*job));
        }
    }
    Ok(HttpResponse::Ok().json(page))
}
