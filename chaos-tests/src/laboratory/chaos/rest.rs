//! Judges what is left when all jobs have ended and there was time to clean up.

use anyhow::{Result, ensure};
use cospan_domain::job::state::Phase;
use cospan_domain::site::availability::SiteState;
use cospan_domain::site::state::NotificationId;
use cospan_domain::units::DurationMs;

use crate::laboratory::reign::Reign;

/// An ended job is archived at most so long after its time.
const ARCHIVED_WITHIN: DurationMs = DurationMs(2 * 3_600_000);

/// Whether nothing is left that ought to be over.
///
/// # Errors
/// What is left.
pub(super) fn is_at_rest(reign: &Reign, keep_jobs: DurationMs) -> Result<()> {
    let (view, now) = (reign.plane.view(), reign.clock.now());
    ensure!(view.folds_agree(), "a fold differs from a fresh one");
    for job in view.jobs.values() {
        if let Phase::Finished { at } | Phase::Failed { at, .. } | Phase::Cancelled { at, .. } =
            job.phase
        {
            let late = at + keep_jobs + ARCHIVED_WITHIN < now;
            ensure!(!late, "job {} ended at {} and is not archived", job.id, at.0);
        }
    }
    // Whoever asks anything afterwards may have sites swept by that.
    let instance = reign.plane.shared().instance;
    let left = reign.world.read(|world| {
        let names = world.sites().iter().filter_map(|site| world.index_of(site.name()));
        let mut tags = names.flat_map(|site| world.list_attempts(site));
        tags.find(|tag| tag.instance == instance)
    });
    ensure!(left.is_none(), "{left:?} was left behind");
    for (site, held) in &view.holdings {
        ensure!(held.is_empty(), "ended jobs hold something at {site}");
    }
    for ((digest, site), jobs) in &view.needs {
        ensure!(jobs.is_empty(), "ended jobs need {digest} at {site}: {jobs:?}");
    }
    ensure!(view.untold.is_empty(), "nobody was told of the end of {:?}", view.untold);
    for site in view.sites.values() {
        let mut ids = (1..=site.last_notification.0).map(NotificationId);
        let lost = ids.find(|id| reign.weather.arrived_at(&site.site, *id).is_none());
        ensure!(lost.is_none(), "nobody had message {lost:?} about {}", site.site);
        ensure!(site.owed.is_empty(), "{} still owes a message: {:?}", site.site, site.owed);
    }
    let now = reign.clock.now();
    for site in reign.plane.sites() {
        let is_well = matches!(
            site.state,
            SiteState::Usable | SiteState::Unusable | SiteState::Probing { .. }
        );
        let known = reign.plane.shared().board.site(&site.name).map(|report| report.contact);
        let (name, state) = (&site.name, site.state);
        ensure!(is_well, "site {name} is {state:?} although nothing is wrong: {known:?}, {now:?}");
    }
    Ok(())
}
