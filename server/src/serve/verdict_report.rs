//! The verdicts of each site on a job, as the API shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cospan_actors::coallocator::{JobExplanation, SiteFigures};
use cospan_domain::ids::{ComponentIndex, SiteName};
use cospan_domain::job::job_state::Job;
use cospan_domain::placement::{RefusalReason, SiteSuitability, SiteVerdict};
use cospan_domain::site::barred_owners_record::OwnerBan;

use crate::http::control_plane_port::ExplanationPage;
use cospan_api::v1::Instant;
use cospan_api::v1::explain::{VerdictGroup, VerdictReport};
use cospan_api::v1::partition::WaitReport;

/// More verdicts than this are also summed up.
const MANY: usize = 200;
/// Code: the component goes there.
const CHOSEN: &str = "chosen";
/// Code: it would go there, if its job were placed again.
const WOULD_BE_CHOSEN: &str = "would-be-chosen";
/// Code: it could go there, but goes to another site.
const NOT_PREFERRED: &str = "not-preferred";

/// Sites of a placed job that the control plane does not know any more.
pub(super) fn unknown_sites<'a>(
    job: &'a Job,
    explanation: &JobExplanation,
) -> BTreeSet<&'a SiteName> {
    let sites = placed_components(job).map(|(_, site)| site);
    sites
        .filter(|site| !explanation.sites.contains_key(*site))
        .collect()
}

fn placed_components(job: &Job) -> impl Iterator<Item = (ComponentIndex, &SiteName)> {
    let placed = job.indexed_components().filter(|_| job.is_placed());
    placed.filter_map(|(index, component)| Some((index, &component.placement.as_ref()?.site)))
}

/// Verdicts on some of a job's components, and their place among all.
pub(super) struct VerdictPage {
    pub(super) shown: Vec<VerdictReport>,
    /// All of them by code, on a first page, if there are many.
    pub(super) groups: Vec<VerdictGroup>,
    /// The components of the page.
    pub(super) components: Range<usize>,
    /// Number of all components.
    count: usize,
}

impl VerdictPage {
    /// The beginning of the next page.
    pub(super) fn next_page(&self) -> Option<u64> {
        let is_more = self.components.end < self.count;
        is_more.then_some(self.components.end as u64)
    }

    /// Returns true if the page covers a component.
    pub(super) fn covers_component(&self, component: ComponentIndex) -> bool {
        self.components.contains(&(component.0 as usize))
    }
}

/// The sites of a placed job, the rules that chose them, and the verdicts of the other sites on it
/// now; for a waiting job the verdicts of all sites.
pub(super) fn of_job(
    job: &Job,
    explanation: &JobExplanation,
    page: ExplanationPage,
) -> VerdictPage {
    let here: Vec<(ComponentIndex, &SiteName)> = placed_components(job).collect();
    let sites: BTreeSet<&SiteName> = here.iter().map(|(_, site)| *site).collect();
    let others: Vec<&SiteVerdict> = if job.is_final() {
        Vec::new()
    } else {
        let all = explanation.verdicts.iter();
        all.filter(|verdict| !sites.contains(&verdict.site))
            .collect()
    };
    let count = job.component_count().max(explanation.components.len());
    let is_placed = !here.is_empty();
    let told: Vec<VerdictLine> = here
        .into_iter()
        .map(|(index, site)| VerdictLine::Here(job, index, site))
        .chain(others.into_iter().map(|verdict| {
            if is_placed {
                VerdictLine::Instead(verdict)
            } else {
                VerdictLine::Waiting(verdict)
            }
        }))
        .collect();
    collect_page(explanation, &told, count, page)
}

/// Verdicts of all sites on a job that is not submitted.
pub(super) fn of_preview(explanation: &JobExplanation, page: ExplanationPage) -> VerdictPage {
    let told: Vec<VerdictLine> = explanation
        .verdicts
        .iter()
        .map(VerdictLine::Waiting)
        .collect();
    collect_page(explanation, &told, explanation.components.len(), page)
}

/// A row about one component at one site.
enum VerdictLine<'a> {
    /// The component is placed there.
    Here(&'a Job, ComponentIndex, &'a SiteName),
    /// The verdict of the site if the placed job were placed again.
    Instead(&'a SiteVerdict),
    /// The verdict of the site while the job waits.
    Waiting(&'a SiteVerdict),
}

impl VerdictLine<'_> {
    fn component(&self) -> usize {
        let (VerdictLine::Here(_, ComponentIndex(index), _)
        | VerdictLine::Instead(SiteVerdict {
            component: ComponentIndex(index),
            ..
        })
        | VerdictLine::Waiting(SiteVerdict {
            component: ComponentIndex(index),
            ..
        })) = self;
        *index as usize
    }

    fn row_count(&self) -> usize {
        match self {
            VerdictLine::Here(..) => 1,
            VerdictLine::Instead(verdict) | VerdictLine::Waiting(verdict) => match &verdict.outcome
            {
                SiteSuitability::Chosen | SiteSuitability::NotPreferred => 1,
                SiteSuitability::Refused(reasons) => reasons.len(),
            },
        }
    }

    fn to_reports(&self, explanation: &JobExplanation) -> Vec<VerdictReport> {
        match self {
            VerdictLine::Here(job, index, site) => {
                vec![placed_verdict(job, explanation, *index, site)]
            }
            VerdictLine::Instead(verdict) => site_verdicts(explanation, verdict)
                .into_iter()
                .map(mark_alternative)
                .collect(),
            VerdictLine::Waiting(verdict) => site_verdicts(explanation, verdict),
        }
    }

    /// The codes of the row in a group, with the site.
    fn codes_and_site(&self, explanation: &JobExplanation) -> (Vec<&'static str>, &SiteName) {
        match self {
            VerdictLine::Here(_, _, site) => {
                (vec![placed_code(explanation.sites.get(*site))], site)
            }
            VerdictLine::Instead(verdict) | VerdictLine::Waiting(verdict) => {
                let codes = match &verdict.outcome {
                    SiteSuitability::Chosen if matches!(self, VerdictLine::Instead(_)) => {
                        vec![WOULD_BE_CHOSEN]
                    }
                    SiteSuitability::Chosen => vec![CHOSEN],
                    SiteSuitability::NotPreferred => vec![NOT_PREFERRED],
                    SiteSuitability::Refused(reasons) => reasons
                        .iter()
                        .map(|reason| reason.code().as_str())
                        .collect(),
                };
                (codes, &verdict.site)
            }
        }
    }
}

/// Collects whole components from the beginning of the page, as many as fit; at least one.
fn collect_page(
    explanation: &JobExplanation,
    told: &[VerdictLine<'_>],
    count: usize,
    page: ExplanationPage,
) -> VerdictPage {
    let count = told
        .iter()
        .map(|one| one.component() + 1)
        .max()
        .unwrap_or_default()
        .max(count);
    let mut rows = vec![0; count];
    told.iter()
        .for_each(|one| rows[one.component()] += one.row_count());
    let begin = page.after.min(count);
    let mut end = begin;
    let mut taken = 0;
    while end < count && end - begin < page.limit {
        taken += rows[end];
        if end > begin && taken > page.rows {
            break;
        }
        end += 1;
    }
    let components = begin..end;
    let shown = told
        .iter()
        .filter(|one| components.contains(&one.component()));
    let shown = shown.flat_map(|one| one.to_reports(explanation)).collect();
    let is_summed_up = begin == 0 && (end < count || rows.iter().sum::<usize>() > MANY);
    let groups = if is_summed_up {
        group_verdicts(explanation, told)
    } else {
        Vec::new()
    };
    VerdictPage {
        shown,
        groups,
        components,
        count,
    }
}

/// Groups all verdicts by code, the most frequent first.
fn group_verdicts(explanation: &JobExplanation, told: &[VerdictLine<'_>]) -> Vec<VerdictGroup> {
    #[derive(Default)]
    struct CollectedVerdicts<'a> {
        sites: BTreeSet<&'a SiteName>,
        components: BTreeSet<usize>,
        verdicts: usize,
        first: Option<&'a VerdictLine<'a>>,
    }
    let mut groups: BTreeMap<&'static str, CollectedVerdicts<'_>> = BTreeMap::new();
    for one in told {
        let (codes, site) = one.codes_and_site(explanation);
        for code in codes {
            let group = groups.entry(code).or_default();
            group.sites.insert(site);
            group.components.insert(one.component());
            group.verdicts += 1;
            group.first.get_or_insert(one);
        }
    }
    let mut groups: Vec<(&'static str, CollectedVerdicts<'_>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.verdicts));
    groups
        .into_iter()
        .map(|(code, group): (&'static str, CollectedVerdicts<'_>)| {
            let rows = group
                .first
                .map(|first| first.to_reports(explanation))
                .unwrap_or_default();
            let first = rows
                .into_iter()
                .find(|row| row.code == code)
                .unwrap_or_default();
            let place = [first.component, first.site].map(Option::unwrap_or_default);
            VerdictGroup {
                code: code.into(),
                sites: group.sites.len() as u64,
                components: group.components.len() as u64,
                example: format!("{} at {}: {}", place[0], place[1], first.detail),
            }
        })
        .collect()
}

/// A site that a placed job would go to only if it were placed again.
fn mark_alternative(report: VerdictReport) -> VerdictReport {
    if report.chosen {
        VerdictReport {
            code: WOULD_BE_CHOSEN.into(),
            chosen: false,
            detail: format!("placed anew now it would go here: {}", report.detail),
            ..report
        }
    } else {
        report
    }
}

/// The code of a site where a component is.
fn placed_code(figures: Option<&SiteFigures>) -> &'static str {
    match figures {
        None => "not-configured",
        Some(_) => "placed-here",
    }
}

fn placed_verdict(
    job: &Job,
    explanation: &JobExplanation,
    index: ComponentIndex,
    site: &SiteName,
) -> VerdictReport {
    let by = job
        .placed_by
        .as_ref()
        .map(|by| format!(" by {}: {}", by.policy, by.rule));
    let by = by.unwrap_or_default();
    let figures = explanation.sites.get(site);
    let now = match figures.map(|figures| figures.obstacles.as_slice()) {
        None => "; the site is no longer in the configuration".to_owned(),
        Some([]) => String::new(),
        Some(_) => format!("; now: {}", list_obstacles(figures)),
    };
    let report = VerdictReport {
        component: job.component_name(index),
        site: Some(site.to_string()),
        code: placed_code(figures).into(),
        chosen: true,
        detail: format!("placed here{by}{now}"),
        ..VerdictReport::default()
    };
    add_figures(report, figures)
}

fn list_obstacles(figures: Option<&SiteFigures>) -> String {
    let obstacles = figures
        .map(|figures| figures.obstacles.as_slice())
        .unwrap_or_default();
    obstacles
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn add_figures(report: VerdictReport, figures: Option<&SiteFigures>) -> VerdictReport {
    let Some(figures) = figures else {
        return report;
    };
    VerdictReport {
        age_ms: figures.age.map(|age| age.0),
        idle: figures.idle,
        quota_leaves: figures.quota_leaves,
        pending: Some(figures.pending),
        errors: Some(figures.errors),
        probe_at: figures.probe_at.map(Into::into),
        ..report
    }
}

fn site_verdicts(explanation: &JobExplanation, verdict: &SiteVerdict) -> Vec<VerdictReport> {
    let component = explanation.components.get(verdict.component.0 as usize);
    let figures = explanation.sites.get(&verdict.site);
    let report = |code: &str, chosen: bool, detail: String| {
        let report = VerdictReport {
            component: component.cloned(),
            site: Some(verdict.site.to_string()),
            code: code.into(),
            chosen,
            detail,
            transfer_ms: verdict.transfer_time.map(|time| time.0),
            ..VerdictReport::default()
        };
        add_figures(report, figures)
    };
    let left = format!("{} processors left", verdict.remaining_processors);
    let share = explanation.decision.as_ref().ok().and_then(|plan| {
        plan.placements
            .get(verdict.component.0 as usize)
            .and_then(|placement| placement.share)
    });
    match &verdict.outcome {
        SiteSuitability::Chosen => {
            let taken =
                share.map_or_else(|| left.clone(), |share| format!("takes {share}, {left}"));
            vec![report(CHOSEN, true, taken)]
        }
        SiteSuitability::NotPreferred => vec![report(NOT_PREFERRED, false, left)],
        SiteSuitability::Refused(reasons) => reasons
            .iter()
            .map(|reason| {
                report(
                    reason.code().as_str(),
                    false,
                    describe_reason(reason, figures),
                )
            })
            .collect(),
    }
}

/// A reason in words: for a closed site all that keeps it closed, with numbers and names.
fn describe_reason(reason: &RefusalReason, figures: Option<&SiteFigures>) -> String {
    match (reason, list_obstacles(figures)) {
        (RefusalReason::Closed(_), known) if !known.is_empty() => known,
        (RefusalReason::OwnerKeptOff(OwnerBan::KeptOff { until }), _) => {
            format!("{reason}, until {}", Instant(*until))
        }
        (RefusalReason::Waited { lane, wait }, _) => {
            format!("{lane} was {}", WaitReport::from(wait))
        }
        _ => reason.to_string(),
    }
}

#[cfg(test)]
#[path = "verdict_report_tests.rs"]
pub(crate) mod tests;
