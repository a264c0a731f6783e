//! Silent sites at which something of a job may run.

use cospan_domain::ids::SiteName;
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::spec::UnreachableAction;
use cospan_domain::site::contact::SiteContact;

use crate::context::SharedState;

/// A component that may run where nobody can see or end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentSiteComponent {
    /// The name of the component.
    pub component: String,
    /// The component's site.
    pub site: SiteName,
    /// The reason for the silence.
    pub why: &'static str,
}

/// Parts of a job that may run at silent sites.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SilentSiteReport {
    /// The components at those sites.
    pub attempts: Vec<SilentSiteComponent>,
    /// True if so many sites are silent that the fault seems to be ours.
    pub isolated: bool,
}

impl SilentSiteReport {
    /// Collects what is known now.
    pub fn from_job(shared: &SharedState, job: &Job) -> Self {
        let attempts = components_possibly_alive(job)
            .filter_map(|(component, site): (String, SiteName)| {
                let why = silence_reason(shared, &site)?;
                Some(SilentSiteComponent {
                    component,
                    site,
                    why,
                })
            })
            .collect();
        Self {
            attempts,
            isolated: shared.live.is_isolated(),
        }
    }

    /// Warns of them, and says what to do about it; `None` if every site answers.
    pub fn warning(&self, job: &Job) -> Option<String> {
        let attempts: Vec<String> = self
            .attempts
            .iter()
            .map(|silent: &SilentSiteComponent| {
                let SilentSiteComponent {
                    component,
                    site,
                    why,
                } = silent;
                format!("component {component} may still run at {site}, {why}")
            })
            .collect();
        (!attempts.is_empty())
            .then(|| format!("{}; {}", attempts.join("; "), self.outlook_text(job)))
    }

    fn outlook_text(&self, job: &Job) -> String {
        let ends = matches!(job.phase, JobPhase::Aborting { .. });
        let next = if ends { "is ended" } else { "goes on" };
        if self.isolated {
            return format!(
                "so many sites are silent at once that the control plane takes itself to be \
                 isolated: nothing is given up, and it {next} once that site answers"
            );
        }
        match job.spec.on_unreachable {
            _ if ends => format!(
                "it is ended once that site answers; if that site is gone for good, give it up \
                 with `cospan cancel --abandon {}`",
                job.id
            ),
            UnreachableAction::Wait => "it goes on once that site answers".into(),
            UnreachableAction::RerunAfter(patience) => {
                format!("it goes on once that site answers, and is given up after {patience}")
            }
        }
    }
}

/// Describes what may still live of a job that its user abandoned, and why it was not given up: a
/// site is not silent before it failed to answer for a while, which takes as long after our start.
pub fn not_given_up_text(shared: &SharedState, job: &Job) -> Option<String> {
    let now = shared.clock.now();
    let left: Vec<String> = components_possibly_alive(job)
        .map(|(component, site): (String, SiteName)| {
            let heard = match shared.live.site_report(&site).unwrap_or_default().contact {
                SiteContact::Answering { last_at } => {
                    format!("which answered {} ago", now.since(last_at))
                }
                SiteContact::NeverAnswered
                | SiteContact::Unreachable { .. }
                | SiteContact::CredentialsExpired { .. } => "not heard yet".into(),
            };
            format!("component {component} at {site}, {heard}")
        })
        .collect();
    (!left.is_empty()).then(|| {
        format!(
            "not given up: {}; repeat in a minute if it is not over then",
            left.join("; ")
        )
    })
}

/// Lists the components of which something may exist at a site, with that site.
fn components_possibly_alive(job: &Job) -> impl Iterator<Item = (String, SiteName)> {
    let living = job
        .indexed_components()
        .filter(|(_, component)| component.run.may_live());
    living.filter_map(|(index, component)| {
        Some((
            job.component_name(index)?,
            component.placement.as_ref()?.site.clone(),
        ))
    })
}

fn silence_reason(shared: &SharedState, site: &SiteName) -> Option<&'static str> {
    if !shared.sites.contains_key(site) {
        return Some("which is no longer in the configuration");
    }
    match shared.live.site_report(site).unwrap_or_default().contact {
        SiteContact::Unreachable { .. } => Some("which does not answer"),
        SiteContact::CredentialsExpired { .. } => Some("which refuses our credentials"),
        SiteContact::NeverAnswered | SiteContact::Answering { .. } => None,
    }
}

#[cfg(test)]
#[path = "silent_sites_tests.rs"]
mod tests;
