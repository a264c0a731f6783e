//! Changes after which sites are to be asked, or told of attempts that ended.

use std::collections::BTreeSet;

use cospan_domain::job::job_state::{AttemptEnding, AttemptState, Job};
use cospan_domain::site::site_state::{AttemptId, Breaker, SiteRecord};

use super::AttemptOver;
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::site::ClusterActor;
use crate::supervision::ActorId;

/// Asks the actors of sites to look, if a change concerns them.
pub(crate) fn follow_commit(shared: &SharedState, change: &JournalChange) {
    match change {
        JournalChange::Job { old, new, .. } => notify_sites_of_attempts(shared, old, new),
        JournalChange::Site { old, new } => follow_site(shared, old.as_deref(), new),
        _ => {}
    }
}

fn follow_site(shared: &SharedState, old: Option<&SiteRecord>, new: &SiteRecord) {
    let actors = &shared.actors;
    actors.request_look_of(&ActorId::Cluster(new.site.clone()));
    if old.is_some_and(|old| old.shared == new.shared) {
        return;
    }
    let parts = new
        .shared
        .iter()
        .flat_map(|shared| shared.wish.parts.keys());
    let others: BTreeSet<_> = parts.filter(|site| **site != new.site).collect();
    for site in others {
        actors.request_look_of(&ActorId::Cluster(site.clone()));
    }
}

/// Asks sites to look for attempts to poll, and reports ended ones to them while that matters.
fn notify_sites_of_attempts(shared: &SharedState, old: &Job, new: &Job) {
    let view = shared.view.load();
    for (index, component) in new.indexed_components() {
        let Some(placement) = &component.placement else {
            continue;
        };
        let before = old
            .components
            .get(index.0 as usize)
            .map(|component| &component.run);
        if before == Some(&component.run) {
            continue;
        }
        // Live attempts are polled already, though seldom while they wait in the queue.
        if before.is_none_or(|before| {
            before.may_live() != component.run.may_live()
                || before.is_queued_at_site() != component.run.is_queued_at_site()
        }) {
            shared
                .actors
                .request_look_of(&ActorId::Cluster(placement.site.clone()));
        }
        let doubted = view.sites.get(&placement.site).is_some_and(|record| {
            record.consecutive_errors > 0 || record.breaker != Breaker::Closed
        });
        let succeeded = match &component.run {
            AttemptState::Ended { how, .. } if component.charge.is_none() => {
                *how == AttemptEnding::Succeeded
            }
            // Its claim was given back. A site that is to be charged gets that message instead.
            AttemptState::Idle
                if component.charge.is_none() && before.is_some_and(AttemptState::may_live) =>
            {
                false
            }
            _ => continue,
        };
        if doubted {
            let attempt = component.attempt;
            let attempt = AttemptId {
                job: new.id,
                component: index,
                attempt,
            };
            // Only a hint, so that a full mailbox does no harm.
            let ended = AttemptOver { attempt, succeeded };
            let _ = shared
                .actors
                .send_bounded::<ClusterActor, _>(&placement.site, ended);
        }
    }
}
