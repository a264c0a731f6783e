//! Sites from which nothing is heard while something of a job may run there.

use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::state::{Component, Job};
use cospan_domain::site::contact::Contact;

use crate::shared::Shared;

/// A component that may run where nobody can see or end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentAttempt {
    /// Name of the component.
    pub component: String,
    /// Its site.
    pub site: SiteName,
    /// Why nothing is heard.
    pub why: &'static str,
}

/// Components of a job that may run at sites from which nothing is heard.
pub fn silent(shared: &Shared, job: &Job) -> Vec<SilentAttempt> {
    let attempt = |(index, component): (_, &Component)| {
        let site = &component.placement.as_ref()?.site;
        let why = why_silent(shared, site)?;
        let component = job.name_of(index)?;
        Some(SilentAttempt { component, site: site.clone(), why })
    };
    job.indexed().filter(|(_, component)| component.run.may_live()).filter_map(attempt).collect()
}

/// What that comes to, and what to do about it; `None` where every site can be heard.
pub fn told_of(silent: &[SilentAttempt], job: JobId) -> Option<String> {
    let attempt = |silent: &SilentAttempt| {
        format!("component {} may still run at {}, {}", silent.component, silent.site, silent.why)
    };
    let attempts: Vec<String> = silent.iter().map(attempt).collect();
    (!attempts.is_empty()).then(|| {
        format!(
            "{}; it is ended once that site answers, or, if it is gone for good, given up with \
             `cospan cancel --abandon {job}`",
            attempts.join("; ")
        )
    })
}

fn why_silent(shared: &Shared, site: &SiteName) -> Option<&'static str> {
    if !shared.sites.contains_key(site) {
        return Some("which is no longer in the configuration");
    }
    match shared.board.site(site).unwrap_or_default().contact {
        Contact::Unreachable { .. } => Some("which does not answer"),
        Contact::CredentialsExpired { .. } => Some("which refuses our credentials"),
        Contact::NeverAnswered | Contact::Answering { .. } => None,
    }
}
