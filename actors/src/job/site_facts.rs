//! Facts about sites that the effects of a job depend on.

use cospan_domain::ids::{Digest, SiteName};
use cospan_domain::labels::SiteLabels;
use cospan_domain::units::DurationMs;

use crate::context::SharedState;

/// Returns how long a submission to a site may still take effect after its reply was lost.
pub(super) fn submission_settle_time(shared: &SharedState, site: &SiteName) -> DurationMs {
    let settings = &shared.settings;
    settings
        .submit_settle
        .get(site)
        .copied()
        .unwrap_or(settings.job.settle)
}

/// The labels of a site; none until it answered.
pub(super) fn labels_of_site(shared: &SharedState, site: &SiteName) -> SiteLabels {
    let report = shared.live.site_report(site);
    let description = report.and_then(|report| report.description.clone());
    description
        .map(|description| description.labels.clone())
        .unwrap_or_default()
}

/// Returns true if content is at a site, whole and checked.
pub(super) fn is_copy_ready(shared: &SharedState, digest: Digest, site: &SiteName) -> bool {
    let view = shared.view.load();
    let copy = view.copies.get(&(digest, site.clone()));
    copy.is_some_and(|copy| copy.is_ready())
}
