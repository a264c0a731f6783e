//! Submissions that a batch system holds under a tag besides the first, for example when a request
//! came twice, or a batch job is requeued after its node died. The first wrapper that comes takes
//! the directory; the others find it taken and leave.

use cospan_domain::ids::{AttemptTag, LrmId};
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::{AcceptedAttempt, AttemptSubmitRequest, FoundSubmission, SiteError};

use super::SimulatedWorld;
use super::agenda::SiteIndex;
use super::attempt::{AttemptStage, SimulatedAttempt, lrm_id, requested_run_time};
use super::batch::LrmJobId;
use super::world_history::WorldLedgerEvent;
use super::world_site::{BatchJobOwner, SimulatedCluster};

/// A batch job under the tag of an attempt that stands for another batch job.
#[derive(Debug, Clone, Copy)]
pub(super) struct DoubleSubmission {
    pub(super) processors: u32,
    /// Longest run time as requested from the batch system.
    asked: DurationMs,
    submitted_at: Timestamp,
    /// True if its wrapper is on its way.
    pub(super) started: bool,
}

impl SimulatedCluster {
    /// Lists the batch jobs of a tag besides that of its attempt.
    pub(super) fn doubles_of(
        &self,
        tag: AttemptTag,
    ) -> impl Iterator<Item = (LrmJobId, &DoubleSubmission)> {
        let all = (tag, LrmJobId(0))..=(tag, LrmJobId(u64::MAX));
        self.doubles
            .range(all)
            .map(|((_, job), double)| (*job, double))
    }

    /// Lists them as a lookup of the tag finds them.
    pub(super) fn found_doubles(&self, tag: AttemptTag) -> impl Iterator<Item = FoundSubmission> {
        self.doubles_of(tag).map(|(job, double)| FoundSubmission {
            lrm_id: lrm_id(&self.name, job),
            submitted_at: double.submitted_at,
        })
    }

    /// Marks a batch job as started. Returns true if it is a double.
    pub(super) fn start_double(&mut self, tag: AttemptTag, job: LrmJobId) -> bool {
        let double = self.doubles.get_mut(&(tag, job));
        double.map(|double| double.started = true).is_some()
    }

    /// Lets the wrapper of a double take the directory before that of the attempt's own batch job.
    /// Returns `false` if it is too late.
    pub(super) fn take_directory(&mut self, tag: AttemptTag, job: LrmJobId) -> bool {
        let Some(attempt) = self.attempts.get_mut(&tag) else {
            return false;
        };
        if !matches!(attempt.stage, AttemptStage::Queued | AttemptStage::Starting) {
            return false;
        }
        let other = DoubleSubmission {
            processors: attempt.processors,
            asked: attempt.asked,
            submitted_at: attempt.submitted_at,
            started: attempt.stage == AttemptStage::Starting,
        };
        let Some(first) = self.doubles.remove(&(tag, job)) else {
            return false;
        };
        self.doubles.insert((tag, attempt.lrm), other);
        attempt.submitted_at = first.submitted_at;
        attempt.lrm = job;
        attempt.stage = AttemptStage::Starting;
        true
    }

    /// Makes an attempt without a directory, whose batch job is gone, stand for a double from now
    /// on, if there is any.
    pub(super) fn stand_for_double(&mut self, tag: AttemptTag) -> bool {
        let next = self
            .doubles_of(tag)
            .max_by_key(|(_, double)| double.started);
        let Some((job, double)) = next.map(|(job, double)| (job, *double)) else {
            return false;
        };
        let Some(attempt) = self.attempts.get_mut(&tag) else {
            return false;
        };
        self.doubles.remove(&(tag, job));
        attempt.lrm = job;
        attempt.submitted_at = double.submitted_at;
        attempt.stage = if double.started {
            AttemptStage::Starting
        } else {
            AttemptStage::Queued
        };
        true
    }

    /// Requeues a batch job of ours whose node died. Returns `true` if nothing else happened to the
    /// attempt: there was no directory yet.
    fn requeue_job(&mut self, job: LrmJobId, now: Timestamp) -> bool {
        let Some(BatchJobOwner::Ours(tag)) = self.occupants.get(&job) else {
            return false;
        };
        let (processors, asked) = if let Some(double) = self.doubles.get_mut(&(*tag, job)) {
            double.started = false;
            (double.processors, double.asked)
        } else if let Some(attempt) = self.attempts.get_mut(tag)
            && attempt.stage == AttemptStage::Starting
            && !attempt.told_to_end
        {
            attempt.stage = AttemptStage::Queued;
            (attempt.processors, attempt.asked)
        } else {
            return false;
        };
        self.batch.submit(job, processors, asked, now).is_ok()
    }

    /// Loses the doubles that were submitted after `since`, and their numbers.
    pub(super) fn forget_doubles_since(
        &mut self,
        since: Timestamp,
        now: Timestamp,
    ) -> Vec<AttemptTag> {
        let lost = self
            .doubles
            .iter()
            .filter(|(_, double)| double.submitted_at > since);
        let lost: Vec<(AttemptTag, LrmJobId)> = lost.map(|(key, _)| *key).collect();
        for (tag, job) in &lost {
            self.doubles.remove(&(*tag, *job));
            self.end_batch_job(*job, now);
            self.reuse_numbers(*job);
        }
        lost.into_iter().map(|(tag, _)| tag).collect()
    }
}

impl SimulatedWorld {
    /// Handles the death of a batch job with its node, at a site that requeues such batch jobs.
    /// Returns the tag and its stage if that was the end of an attempt of ours: then the batch job
    /// will be started once more, and find the directory.
    pub(super) fn kill_and_requeue(
        &mut self,
        site: SiteIndex,
        job: LrmJobId,
    ) -> Option<(AttemptTag, &'static str)> {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        if cluster.requeue_job(job, now) {
            return None;
        }
        let (tag, step) = cluster.remove_killed(job)?;
        let attempt = cluster
            .attempts
            .get(&tag)
            .filter(|attempt| !attempt.told_to_end);
        if let Some(&SimulatedAttempt {
            processors, asked, ..
        }) = attempt
            && step != "starting"
            && cluster.batch.submit(job, processors, asked, now).is_ok()
        {
            let double = DoubleSubmission {
                processors,
                asked,
                submitted_at: now,
                started: false,
            };
            cluster.doubles.insert((tag, job), double);
            cluster.occupants.insert(job, BatchJobOwner::Ours(tag));
            self.ledger
                .record_event(now, &cluster.name, tag, WorldLedgerEvent::SubmittedAgain);
        }
        Some((tag, step))
    }

    /// Submits again under a known tag: the batch system accepts it all the same.
    pub(super) fn submit_again(
        &mut self,
        site: SiteIndex,
        order: &AttemptSubmitRequest,
    ) -> Result<AcceptedAttempt, SiteError> {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        let number = cluster.next_free_number();
        let processors = order.resources.processors;
        let asked = requested_run_time(order);
        cluster
            .batch
            .submit(number, processors, asked, now)
            .map_err(|problem| SiteError::Refused(problem.to_string()))?;
        let double = DoubleSubmission {
            processors,
            asked,
            submitted_at: now,
            started: false,
        };
        cluster.doubles.insert((order.tag, number), double);
        cluster
            .occupants
            .insert(number, BatchJobOwner::Ours(order.tag));
        let lrm_id = lrm_id(&cluster.name, number);
        self.ledger.record_event(
            now,
            &cluster.name,
            order.tag,
            WorldLedgerEvent::SubmittedAgain,
        );
        self.start_batch_jobs(site);
        Ok(AcceptedAttempt { lrm_id })
    }

    /// Ends one of several batch jobs under a tag; the attempt goes on without it.
    pub(super) fn end_double(&mut self, site: SiteIndex, tag: AttemptTag, job: LrmJobId) {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        cluster.doubles.remove(&(tag, job));
        cluster.end_batch_job(job, now);
        self.ledger
            .record_event(now, &cluster.name, tag, WorldLedgerEvent::DoubleLeft);
        self.start_batch_jobs(site);
    }

    /// Withdraws all batch jobs under a tag except that of the attempt.
    pub(super) fn withdraw_doubles(&mut self, site: SiteIndex, tag: AttemptTag) {
        let doubles: Vec<LrmJobId> = self.sites[site.0]
            .doubles_of(tag)
            .map(|(job, _)| job)
            .collect();
        doubles
            .into_iter()
            .for_each(|job| self.end_double(site, tag, job));
    }

    /// Parses the number of a batch job, if it belongs to this site.
    pub(super) fn parse_job_number(&self, site: SiteIndex, id: &LrmId) -> Option<LrmJobId> {
        let (number, at) = id.as_str().split_once('.')?;
        let here = at == self.sites[site.0].name.as_str();
        number.parse().ok().filter(|_| here).map(LrmJobId)
    }
}
