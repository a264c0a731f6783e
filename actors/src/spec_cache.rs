//! Knowledge of the last few specifications, shared by all who need it: the edge, which checks what
//! comes in, the co-allocator, which places it, and explanations. Equal specifications share one
//! copy in memory. Users submit the same job many times in a row far more often than they submit
//! equal jobs far apart, so only the last few are compared.
//!
//! All of it follows from the specification and the settings: forgotten entries are worked out
//! anew.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::ids::KeyName;
use cospan_domain::job::job_state::{Job, TermsChange};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::placement::{PlacementDefaults, PlacementRequest};

/// A specification that was found to be valid, and its request to sites.
#[derive(Debug, Clone)]
pub struct CheckedSpec {
    /// The copy that all jobs share.
    pub spec: Arc<JobSpec>,
    /// The request of a job that avoids no site, whoever owns it.
    pub request: Arc<PlacementRequest>,
}

/// Knowledge of one specification.
#[derive(Debug)]
struct CachedSpec {
    /// The copy that all jobs share.
    spec: Arc<JobSpec>,
    /// The request of a job that avoids no site, once somebody asked for it.
    request: Option<Arc<PlacementRequest>>,
    /// The last copies that came in and were found to be valid: a caller that takes requests apart
    /// keeps copies of its own.
    came: VecDeque<Arc<JobSpec>>,
}

impl CachedSpec {
    fn new(spec: Arc<JobSpec>, request: Option<Arc<PlacementRequest>>) -> Self {
        Self {
            spec,
            request,
            came: VecDeque::new(),
        }
    }
}

/// The last few distinct specifications, those that were asked for last before the others.
#[derive(Debug, Default)]
pub struct SpecCache(Mutex<VecDeque<CachedSpec>>);

impl SpecCache {
    const KEPT: usize = 8;

    fn lock_specs(&self) -> MutexGuard<'_, VecDeque<CachedSpec>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the same specification: an earlier copy if one of the last few is equal.
    pub fn share_equal_spec(&self, spec: &Arc<JobSpec>) -> Arc<JobSpec> {
        find_or_enter_spec(&mut self.lock_specs(), spec)
            .spec
            .clone()
    }

    /// Returns what was found out about this very copy when it came in, if it is one of the last.
    pub fn find_checked(&self, came: &Arc<JobSpec>) -> Option<CheckedSpec> {
        let mut last = self.lock_specs();
        let known = bring_to_front(&mut last, |known: &CachedSpec| {
            known.came.iter().any(|other| Arc::ptr_eq(other, came))
        })?;
        Some(CheckedSpec {
            spec: known.spec.clone(),
            request: known.request.clone()?,
        })
    }

    /// Remembers a copy that came in and is valid, and its request; it shares both with an equal
    /// one among the last.
    pub fn remember_checked(&self, came: Arc<JobSpec>, request: PlacementRequest) -> CheckedSpec {
        let mut last = self.lock_specs();
        let known = find_or_enter_spec(&mut last, &came);
        let request = known.request.get_or_insert_with(|| request.into()).clone();
        known.came.truncate(Self::KEPT - 1);
        known.came.push_front(came);
        CheckedSpec {
            spec: known.spec.clone(),
            request,
        }
    }

    /// Returns the request of a job; `defaults` serve jobs that name no policy, and are always the
    /// same.
    pub fn request_of(&self, job: &Job, defaults: &PlacementDefaults) -> Arc<PlacementRequest> {
        // The sites that a job avoids after a failure or a refusal are its own affair, and so are the terms that
        // it wants now.
        let avoids = job
            .components
            .iter()
            .any(|component| !component.avoid.is_empty() || !component.unfit_for.is_empty());
        if avoids || job.wish != TermsChange::AsSubmitted {
            return Arc::new(PlacementRequest::of_job(job, defaults));
        }
        let known = bring_to_front(&mut self.lock_specs(), |known: &CachedSpec| {
            Arc::ptr_eq(&known.spec, &job.spec)
        })
        .and_then(|known| known.request.clone());
        let anybodys = known.unwrap_or_else(|| {
            let request = Arc::new(PlacementRequest::of_unplaced_spec(&job.spec, defaults));
            self.remember_request(&job.spec, &request);
            request
        });
        request_for_owner(anybodys, &job.owner, defaults)
    }

    /// Remembers the request of jobs that are here already. It comes in last, so that jobs which
    /// are looked at once in a row leave the place of those that come in now.
    fn remember_request(&self, spec: &Arc<JobSpec>, request: &Arc<PlacementRequest>) {
        let mut last = self.lock_specs();
        match bring_to_front(&mut last, |known| Arc::ptr_eq(&known.spec, spec)) {
            Some(known) => known.request = Some(request.clone()),
            None => {
                last.truncate(Self::KEPT - 1);
                last.push_back(CachedSpec::new(spec.clone(), Some(request.clone())));
            }
        }
    }
}

/// Makes the request of a job of this owner from anybody's request.
pub fn request_for_owner(
    anybodys: Arc<PlacementRequest>,
    owner: &KeyName,
    defaults: &PlacementDefaults,
) -> Arc<PlacementRequest> {
    if defaults.site_keys.is_empty() {
        return anybodys;
    }
    Arc::new(Arc::unwrap_or_clone(anybodys).without_barred_sites(owner, defaults))
}

/// Finds one of the last, and puts it first.
fn bring_to_front(
    last: &mut VecDeque<CachedSpec>,
    is_it: impl Fn(&CachedSpec) -> bool,
) -> Option<&mut CachedSpec> {
    let at = last.iter().position(is_it)?;
    if at > 0 {
        let known = last.remove(at)?;
        last.push_front(known);
    }
    last.front_mut()
}

/// Finds the entry of an equal specification, or makes a new one.
fn find_or_enter_spec<'a>(
    last: &'a mut VecDeque<CachedSpec>,
    spec: &Arc<JobSpec>,
) -> &'a mut CachedSpec {
    // Comparing them takes longer.
    let same = bring_to_front(last, |known| Arc::ptr_eq(&known.spec, spec)).is_some();
    if !same && bring_to_front(last, |known| known.spec == *spec).is_none() {
        last.truncate(SpecCache::KEPT - 1);
        last.push_front(CachedSpec::new(spec.clone(), None));
    }
    &mut last[0]
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::{JobId, SiteName};
    use cospan_domain::job::job_state::Component;

    use super::*;
    use crate::transfer::testing::{content, queued_job};

    fn spec(number: u8) -> Arc<JobSpec> {
        queued_job(1, content(number)).spec
    }

    fn remember(recent: &SpecCache, spec: &Arc<JobSpec>) -> CheckedSpec {
        let request = PlacementRequest::of_unplaced_spec(spec, &PlacementDefaults::default());
        recent.remember_checked(spec.clone(), request)
    }

    fn request_of(recent: &SpecCache, job: &Job) -> Arc<PlacementRequest> {
        recent.request_of(job, &PlacementDefaults::default())
    }

    fn job_of_spec(spec: &Arc<JobSpec>) -> Job {
        Job {
            spec: spec.clone(),
            ..queued_job(1, content(1))
        }
    }

    #[test]
    fn equal_copies_share_what_the_check_of_one_found() {
        let recent = SpecCache::default();
        let one = spec(1);
        let equal = spec(1);
        let first = remember(&recent, &one);
        assert!(recent.find_checked(&equal).is_none());
        let second = remember(&recent, &equal);
        for checked in [
            second,
            recent.find_checked(&one).unwrap(),
            recent.find_checked(&equal).unwrap(),
        ] {
            assert!(Arc::ptr_eq(&checked.spec, &first.spec));
            assert!(Arc::ptr_eq(&checked.request, &first.request));
        }
    }

    #[test]
    fn only_the_last_few_are_remembered_and_those_that_are_asked_for_longest() {
        let recent = SpecCache::default();
        let specs: Vec<_> = (1..=SpecCache::KEPT as u8 + 1).map(spec).collect();
        let (late, early) = specs.split_last().unwrap();
        early.iter().for_each(|spec| drop(remember(&recent, spec)));
        assert!(recent.find_checked(&early[0]).is_some());
        remember(&recent, late);
        assert!(recent.find_checked(&early[1]).is_none());
        assert!(
            specs
                .iter()
                .filter(|spec| recent.find_checked(spec).is_some())
                .count()
                == SpecCache::KEPT
        );
    }

    #[test]
    fn what_was_worked_out_when_it_came_in_is_what_its_jobs_need() {
        let recent = SpecCache::default();
        let checked = remember(&recent, &spec(1));
        let job = job_of_spec(&checked.spec);
        assert!(Arc::ptr_eq(&request_of(&recent, &job), &checked.request));
        assert_eq!(
            *checked.request,
            PlacementRequest::of_job(&job, &PlacementDefaults::default())
        );
    }

    #[test]
    fn jobs_only_looked_at_share_what_they_need_and_do_not_count_as_arrivals() {
        let recent = SpecCache::default();
        let one = queued_job(1, content(1));
        let other = queued_job(3, content(2));
        let another = Job {
            id: JobId(2),
            ..one.clone()
        };
        let first = request_of(&recent, &one);
        assert!(Arc::ptr_eq(&first, &request_of(&recent, &another)));
        assert!(!Arc::ptr_eq(&first, &request_of(&recent, &other)));
        assert!(
            recent.find_checked(&one.spec).is_none(),
            "nobody checked it by these settings"
        );
    }

    #[test]
    fn jobs_that_are_looked_at_once_leave_those_that_come_in_their_place() {
        let recent = SpecCache::default();
        let hot = spec(1);
        remember(&recent, &hot);
        (2..40).for_each(|number| drop(request_of(&recent, &job_of_spec(&spec(number)))));
        assert!(recent.find_checked(&hot).is_some());
    }

    #[test]
    fn one_that_failed_somewhere_avoids_that_site_and_nobody_else_does() {
        let recent = SpecCache::default();
        let defaults = PlacementDefaults::default();
        let fresh = queued_job(1, content(1));
        let avoid = [SiteName::new("delft").expect("a name")].into();
        let components = vec![Component {
            avoid,
            ..Component::default()
        }];
        let failed = Job {
            components,
            ..fresh.clone()
        };
        let placed = Job {
            components: vec![Component::default()],
            ..fresh.clone()
        };
        for job in [&failed, &fresh, &placed, &failed] {
            let request = request_of(&recent, job);
            assert_eq!(*request, PlacementRequest::of_job(job, &defaults));
        }
        assert_ne!(request_of(&recent, &failed), request_of(&recent, &fresh));
        assert!(Arc::ptr_eq(
            &request_of(&recent, &placed),
            &request_of(&recent, &fresh)
        ));
    }

    #[test]
    fn equal_jobs_of_owners_who_may_use_other_sites_ask_for_other_things() {
        let key = |name: &str| KeyName::new(name).expect("a name");
        let delft = SiteName::new("delft").expect("a name");
        let site_keys = [(delft.clone(), [key("bob")].into())].into();
        let defaults = PlacementDefaults {
            site_keys,
            ..PlacementDefaults::default()
        };
        let recent = SpecCache::default();
        for owner in ["bob", "alice", "bob"] {
            let job = Job {
                owner: key(owner),
                ..queued_job(1, content(1))
            };
            let request = recent.request_of(&job, &defaults);
            assert_eq!(*request, PlacementRequest::of_job(&job, &defaults));
            let barred = request.components()[0].barred.contains_key(&delft);
            assert_eq!(barred, owner == "alice");
        }
    }
}
