//! Equal specifications share one copy in memory. Users submit the same job
//! many times in a row far more often than they submit equal jobs far apart, so
//! only the last few are compared.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::job::spec::JobSpec;
use cospan_domain::placement::PlacementRequest;

/// The last few distinct specifications.
#[derive(Debug, Default)]
pub struct Recent(Mutex<VecDeque<Arc<JobSpec>>>);

impl Recent {
    const KEPT: usize = 8;

    /// The same specification: an earlier copy if one of the last few is equal.
    pub fn share(&self, spec: Arc<JobSpec>) -> Arc<JobSpec> {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(equal) =
            recent.iter().find(|earlier| Arc::ptr_eq(earlier, &spec) || **earlier == spec)
        {
            return equal.clone();
        }
        recent.truncate(Self::KEPT - 1);
        recent.push_front(spec.clone());
        spec
    }
}

/// A specification that was found to be valid, and what it asks of sites.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The copy that all jobs share.
    pub spec: Arc<JobSpec>,
    /// What a job of it needs that was never placed.
    pub request: Arc<PlacementRequest>,
}

/// What was found out about the last few specifications, by the copy that came in: whoever
/// takes requests apart keeps copies of its own.
#[derive(Debug, Default)]
pub struct Checks {
    recent: Recent,
    known: Mutex<VecDeque<(Arc<JobSpec>, Checked)>>,
}

impl Checks {
    fn last(&self) -> MutexGuard<'_, VecDeque<(Arc<JobSpec>, Checked)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was found out about this very copy, if it is one of the last.
    pub fn of(&self, spec: &Arc<JobSpec>) -> Option<Checked> {
        let last = self.last();
        last.iter().find(|(came, _)| Arc::ptr_eq(came, spec)).map(|(_, checked)| checked.clone())
    }

    /// Remembers a valid specification; an equal one among the last is shared.
    pub fn remember(&self, came: Arc<JobSpec>, request: PlacementRequest) -> Checked {
        let spec = self.recent.share(came.clone());
        let mut last = self.last();
        let equal = last.iter().find(|(_, checked)| Arc::ptr_eq(&checked.spec, &spec));
        let checked = match equal {
            Some((_, checked)) => checked.clone(),
            None => Checked { spec, request: Arc::new(request) },
        };
        last.truncate(Recent::KEPT - 1);
        last.push_front((came, checked.clone()));
        checked
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cospan_domain::placement::DefaultPolicies;

    use super::*;
    use crate::transfer::testing::{content, queued};

    fn spec(number: u8) -> Arc<JobSpec> {
        queued(1, content(number)).spec
    }

    fn remember(checks: &Checks, spec: &Arc<JobSpec>) -> Checked {
        let request =
            PlacementRequest::of_spec(spec, &DefaultPolicies::default(), |_| BTreeSet::new());
        checks.remember(spec.clone(), request)
    }

    #[test]
    fn a_copy_is_known_once_it_was_checked_and_equal_ones_share_what_was_found() {
        let checks = Checks::default();
        let (one, equal) = (spec(1), spec(1));
        let first = remember(&checks, &one);
        assert!(checks.of(&equal).is_none());
        let second = remember(&checks, &equal);
        for checked in [second, checks.of(&one).unwrap(), checks.of(&equal).unwrap()] {
            assert!(Arc::ptr_eq(&checked.spec, &first.spec));
            assert!(Arc::ptr_eq(&checked.request, &first.request));
        }
    }

    #[test]
    fn only_the_last_few_are_remembered() {
        let checks = Checks::default();
        let specs: Vec<_> = (1..=Recent::KEPT as u8 + 1).map(spec).collect();
        specs.iter().for_each(|spec| drop(remember(&checks, spec)));
        assert!(checks.of(&specs[0]).is_none());
        assert!(specs[1..].iter().all(|spec| checks.of(spec).is_some()));
    }
}
