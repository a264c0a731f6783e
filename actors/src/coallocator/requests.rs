//! What jobs need, worked out once for jobs of one specification.

use std::collections::VecDeque;
use std::sync::Arc;

use cospan_domain::job::spec::JobSpec;
use cospan_domain::job::state::Job;
use cospan_domain::placement::{DefaultPolicies, PlacementRequest};

/// What jobs of the last few specifications need that were never placed.
#[derive(Debug, Default)]
pub(super) struct Requests(VecDeque<(Arc<JobSpec>, Arc<PlacementRequest>)>);

impl Requests {
    const KEPT: usize = 8;

    /// What a job needs.
    pub(super) fn of(&mut self, job: &Job, defaults: &DefaultPolicies) -> Arc<PlacementRequest> {
        let known = self.0.iter().find(|(spec, _)| Arc::ptr_eq(spec, &job.spec));
        // One that was placed before may have sites to avoid.
        let is_fresh = job.components.is_empty();
        if let Some((_, request)) = known.filter(|_| is_fresh) {
            return request.clone();
        }
        let request = Arc::new(PlacementRequest::of_job(job, defaults));
        if is_fresh {
            self.0.truncate(Self::KEPT - 1);
            self.0.push_front((job.spec.clone(), request.clone()));
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::SiteName;
    use cospan_domain::job::state::Component;

    use super::*;
    use crate::transfer::testing::{content, queued};

    #[test]
    fn fresh_jobs_of_one_specification_share_what_they_need() {
        let (mut requests, defaults) = (Requests::default(), DefaultPolicies::default());
        let one = queued(1, content(1));
        let other = Job { id: cospan_domain::ids::JobId(2), ..one.clone() };
        let first = requests.of(&one, &defaults);
        assert!(Arc::ptr_eq(&first, &requests.of(&other, &defaults)));
        assert!(!Arc::ptr_eq(&first, &requests.of(&queued(3, content(2)), &defaults)));
    }

    #[test]
    fn one_that_failed_somewhere_avoids_that_site_and_nobody_else_does() {
        let (mut requests, defaults) = (Requests::default(), DefaultPolicies::default());
        let fresh = queued(1, content(1));
        let avoid = [SiteName::new("delft").expect("a name")].into();
        let components = vec![Component { avoid, ..Component::default() }];
        let failed = Job { components, ..fresh.clone() };
        for job in [&failed, &fresh, &failed] {
            let request = requests.of(job, &defaults);
            assert_eq!(*request, PlacementRequest::of_job(job, &defaults));
        }
        assert_ne!(requests.of(&failed, &defaults), requests.of(&fresh, &defaults));
    }
}
