//! What each site is to a job, as the API shows it.

use std::collections::BTreeSet;

use cospan_actors::coallocator::{Explanation, SiteFigures};
use cospan_domain::ids::{ComponentIndex, SiteName};
use cospan_domain::job::state::Job;
use cospan_domain::placement::{Outcome, Reason, SiteVerdict};
use cospan_domain::site::owners::Ban;

use crate::api::v1::Instant;
use crate::api::v1::explain::VerdictReport;
use crate::api::v1::lane::WaitReport;

/// Sites of a job that nobody looks at any more.
pub(super) fn removed<'a>(job: &'a Job, explanation: &Explanation) -> BTreeSet<&'a SiteName> {
    let sites = placed(job).map(|(_, site)| site);
    sites.filter(|site| !explanation.sites.contains_key(*site)).collect()
}

fn placed(job: &Job) -> impl Iterator<Item = (ComponentIndex, &SiteName)> {
    let placed = job.indexed().filter(|_| job.is_placed());
    placed.filter_map(|(index, component)| Some((index, &component.placement.as_ref()?.site)))
}

/// Where a job is, by which rule, and what the other sites would be to it now; of a job that
/// waits what each site is to it.
pub(super) fn of_job(job: &Job, explanation: &Explanation) -> Vec<VerdictReport> {
    let here: Vec<VerdictReport> =
        placed(job).map(|(index, site)| at_site(job, explanation, index, site)).collect();
    if job.is_final() {
        return here;
    }
    let is_here = |verdict: &&SiteVerdict| placed(job).any(|(_, site)| *site == verdict.site);
    let others = explanation.verdicts.iter().filter(|verdict| !is_here(verdict));
    let others = others.flat_map(|verdict| of_site(explanation, verdict));
    let others = others.map(|report| if here.is_empty() { report } else { instead(report) });
    let others: Vec<VerdictReport> = others.collect();
    here.into_iter().chain(others).collect()
}

/// What each site would be to a job that is not submitted.
pub(super) fn of_preview(explanation: &Explanation) -> Vec<VerdictReport> {
    explanation.verdicts.iter().flat_map(|verdict| of_site(explanation, verdict)).collect()
}

/// A site that a placed job would go to only if it were placed anew.
fn instead(report: VerdictReport) -> VerdictReport {
    match report.chosen {
        false => report,
        true => VerdictReport {
            code: "would-be-chosen".into(),
            chosen: false,
            detail: format!("placed anew now it would go here: {}", report.detail),
            ..report
        },
    }
}

fn at_site(
    job: &Job,
    explanation: &Explanation,
    index: ComponentIndex,
    site: &SiteName,
) -> VerdictReport {
    let by = job.placed_by.as_ref().map(|by| format!(" by {}: {}", by.policy, by.rule));
    let by = by.unwrap_or_default();
    let figures = explanation.sites.get(site);
    let (code, now) = match figures.map(|figures| figures.obstacles.as_slice()) {
        None => ("not-configured", "; the site is no longer in the configuration".to_owned()),
        Some([]) => ("placed-here", String::new()),
        Some(_) => ("placed-here", format!("; now: {}", obstacles(figures))),
    };
    let report = VerdictReport {
        component: job.name_of(index),
        site: Some(site.to_string()),
        code: code.into(),
        chosen: true,
        detail: format!("placed here{by}{now}"),
        ..VerdictReport::default()
    };
    with_figures(report, figures)
}

fn obstacles(figures: Option<&SiteFigures>) -> String {
    let obstacles = figures.map(|figures| figures.obstacles.as_slice()).unwrap_or_default();
    obstacles.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn with_figures(report: VerdictReport, figures: Option<&SiteFigures>) -> VerdictReport {
    let Some(figures) = figures else { return report };
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

fn of_site(explanation: &Explanation, verdict: &SiteVerdict) -> Vec<VerdictReport> {
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
        with_figures(report, figures)
    };
    let left = format!("{} processors left", verdict.remaining_processors);
    let share = explanation.decision.as_ref().ok().and_then(|plan| {
        plan.placements.get(verdict.component.0 as usize).and_then(|placement| placement.share)
    });
    match &verdict.outcome {
        Outcome::Chosen => {
            let taken =
                share.map_or_else(|| left.clone(), |share| format!("takes {share}, {left}"));
            vec![report("chosen", true, taken)]
        }
        Outcome::NotPreferred => vec![report("not-preferred", false, left)],
        Outcome::Refused(reasons) => reasons
            .iter()
            .map(|reason| report(reason.code().as_str(), false, why(reason, figures)))
            .collect(),
    }
}

/// A reason in words: of a closed site all that keeps it closed, with numbers and names.
fn why(reason: &Reason, figures: Option<&SiteFigures>) -> String {
    match (reason, obstacles(figures)) {
        (Reason::Closed(_), known) if !known.is_empty() => known,
        (Reason::OwnerKeptOff(Ban::KeptOff { until }), _) => {
            format!("{reason}, until {}", Instant(*until))
        }
        (Reason::Waited { lane, wait }, _) => format!("{lane} was {}", WaitReport::from(wait)),
        _ => reason.to_string(),
    }
}

#[cfg(test)]
#[path = "verdicts_tests.rs"]
pub(crate) mod tests;
