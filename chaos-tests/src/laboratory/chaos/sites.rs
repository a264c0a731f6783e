//! Judges every change of a site's record: the breaker follows its automaton, counts
//! what it should, and lets in no more probes than it may.

use cospan_domain::site::parameters::SiteParameters;
use cospan_domain::site::state::{Breaker, Operator, SiteRecord};

/// What must not be about a change of a site's record; nothing, if all is well.
pub(super) fn broken(
    old: &SiteRecord,
    new: &SiteRecord,
    parameters: &SiteParameters,
) -> Option<String> {
    // What an operator orders is no step of the automaton.
    if old.operator != new.operator || new.operator != Operator::default() {
        return None;
    }
    let threshold = parameters.site_error_threshold;
    let charged = new.consecutive_errors > old.consecutive_errors;
    let holds = match (&old.breaker, &new.breaker) {
        (Breaker::Closed, Breaker::Closed) => new.consecutive_errors < threshold,
        (Breaker::Closed, Breaker::Open { trips, .. }) => {
            charged && new.consecutive_errors >= threshold && *trips == 1
        }
        (Breaker::Open { .. }, Breaker::HalfOpen { running, allowed, .. }) => {
            *allowed == 1 && running.len() == 1
        }
        (Breaker::Open { trips, .. }, Breaker::Open { trips: still, .. }) => trips == still,
        (Breaker::HalfOpen { trips, .. }, Breaker::Open { trips: now, .. }) => {
            charged && *now == trips.saturating_add(1)
        }
        (Breaker::HalfOpen { allowed, .. }, Breaker::Closed) => {
            *allowed == parameters.probe_limit && new.consecutive_errors == 0
        }
        (Breaker::HalfOpen { .. }, Breaker::HalfOpen { allowed, running, .. }) => {
            running.len() <= *allowed as usize && *allowed <= parameters.probe_limit
        }
        (Breaker::Closed, Breaker::HalfOpen { .. }) | (Breaker::Open { .. }, Breaker::Closed) => {
            false
        }
    };
    (!holds).then(|| {
        let (before, after) = (old.consecutive_errors, new.consecutive_errors);
        let (from, to) = (&old.breaker, &new.breaker);
        format!("{}: {from:?} ({before} errors) led to {to:?} ({after} errors)", new.site)
    })
}
