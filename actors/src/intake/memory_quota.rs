//! The memory that jobs take, in all and by owner. A job that does not fit any more is refused
//! before the process has no memory left.

use std::collections::BTreeMap;
use std::iter::once;
use std::ops::{AddAssign, SubAssign};

use cospan_domain::ids::KeyName;
use cospan_domain::job::job_state::Job;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::units::{Bytes, DurationMs};

use crate::actor_settings::JobMemoryLimits;
use crate::commands::ApiRefusal;
use crate::committed::CommittedView;

/// While memory is short, jobs go to the archive this long after their end: until then a client
/// that repeats a submission under its name gets the same job.
pub(super) const LEAST_KEPT: DurationMs = DurationMs::from_secs(600);
/// The pause, in seconds, after which a client that found no room may come back.
const RETRY_AFTER_S: u64 = 60;

/// A number of jobs, and the memory that they take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JobMemoryUsage {
    jobs: u64,
    bytes: u64,
}

impl JobMemoryUsage {
    pub(super) fn from_specs<'a>(specs: impl Iterator<Item = &'a JobSpec>) -> Self {
        specs.fold(Self::default(), |mut all, spec| {
            all += Self {
                jobs: 1,
                bytes: spec.memory_footprint().0,
            };
            all
        })
    }

    fn is_nearly_all_of(self, of: Bytes) -> bool {
        self.bytes >= of.0 / 10 * 9
    }
}

impl AddAssign for JobMemoryUsage {
    fn add_assign(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl SubAssign for JobMemoryUsage {
    fn sub_assign(&mut self, other: Self) {
        self.jobs = self.jobs.saturating_sub(other.jobs);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

#[derive(Debug, Default)]
pub(super) struct KeyMemoryUsage {
    all: JobMemoryUsage,
    keys: BTreeMap<KeyName, JobMemoryUsage>,
}

impl KeyMemoryUsage {
    pub(super) fn from_view(view: &CommittedView) -> Self {
        let mut kept = Self::default();
        view.jobs.values().for_each(|job| {
            kept.add_usage(&job.owner, JobMemoryUsage::from_specs(once(&*job.spec)))
        });
        kept
    }

    pub(super) fn add_usage(&mut self, owner: &KeyName, share: JobMemoryUsage) {
        self.all += share;
        match self.keys.get_mut(owner) {
            Some(own) => *own += share,
            None => drop(self.keys.insert(owner.clone(), share)),
        }
    }

    pub(super) fn remove_job(&mut self, job: &Job) {
        let share = JobMemoryUsage::from_specs(once(&*job.spec));
        self.all -= share;
        let Some(own) = self.keys.get_mut(&job.owner) else {
            return;
        };
        *own -= share;
        if own.jobs == 0 {
            self.keys.remove(&job.owner);
        }
    }

    /// The memory that all of them take.
    pub(super) fn total_bytes(&self) -> Bytes {
        Bytes(self.all.bytes)
    }

    /// Returns true if there is little room left for this key, or for all.
    pub(super) fn is_room_short(&self, owner: &KeyName, bounds: &JobMemoryLimits) -> bool {
        self.all.is_nearly_all_of(bounds.in_all)
            || self.usage_of_key(owner).is_nearly_all_of(bounds.per_key)
    }

    fn usage_of_key(&self, owner: &KeyName) -> JobMemoryUsage {
        self.keys.get(owner).copied().unwrap_or_default()
    }

    /// Checks that so much more of this key fits.
    pub(super) fn check_room(
        &self,
        by: &KeyName,
        more: JobMemoryUsage,
        bounds: &JobMemoryLimits,
    ) -> Result<(), ApiRefusal> {
        let own = self.usage_of_key(by);
        let wait = "a job makes room once it is in the archive, at the latest 10 min after its end \
                    while there is none";
        if more.bytes > bounds.per_key.min(bounds.in_all).0 {
            let bound = bounds.per_key.min(bounds.in_all);
            let takes = Bytes(more.bytes);
            let problem = format!(
                "the {} jobs would take {takes} of memory; one key may have {bound}",
                more.jobs
            );
            let remedy = "send fewer, smaller jobs, or ask for a higher \
                          `limits.max_job_memory_per_key` and `limits.max_job_memory`";
            return Err(ApiRefusal::NeverRoom {
                problem,
                remedy: remedy.into(),
            });
        }
        let (problem, remedy) = if own.bytes.saturating_add(more.bytes) > bounds.per_key.0 {
            let problem = format!(
                "{} jobs of key {by} take {} of memory, and {} that one key may have",
                own.jobs,
                Bytes(own.bytes),
                describe_request(more, bounds.per_key)
            );
            let remedy = format!(
                "wait until some have ended, or cancel some: {wait}; or ask for a higher \
                 `limits.max_job_memory_per_key`"
            );
            (problem, remedy)
        } else if self.all.bytes.saturating_add(more.bytes) > bounds.in_all.0 {
            let problem = format!(
                "{} jobs take {} of memory, and {} that all jobs may have",
                self.all.jobs,
                Bytes(self.all.bytes),
                describe_request(more, bounds.in_all)
            );
            let remedy = format!(
                "try again later: {wait}; or ask for a higher `limits.max_job_memory` or a shorter \
                 `store.keep_finished`"
            );
            (problem, remedy)
        } else {
            return Ok(());
        };
        Err(ApiRefusal::NoRoom {
            problem,
            remedy,
            retry_after_s: RETRY_AFTER_S,
        })
    }
}

fn describe_request(more: JobMemoryUsage, bound: Bytes) -> String {
    let jobs = more.jobs;
    let takes = Bytes(more.bytes);
    format!("{jobs} more would take {takes} of the {bound}")
}
