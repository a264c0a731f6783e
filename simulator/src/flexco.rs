//! FlexCo's own model (Netto and Buyya, 2007): sites that plan their local jobs by conservative
//! backfilling, and one scheduler that plans jobs over them and, if that is allowed, moves them as
//! others end early. There is no control plane, no transfer and no failure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::reservation::flexco::{
    JobShape, MetaJob, MovedJob, RescheduleOperations, SitePlans, SplitBounds,
};
use cospan_domain::reservation::timeline::{FOREVER, ResourceKindsError, Timeline};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};

use crate::world::world_site::LocalJob;

/// A site, with the jobs that its own users submit, in order of time.
#[derive(Debug, Clone)]
pub struct FlexCoSite {
    pub name: SiteName,
    pub processors: u32,
    /// Local jobs of the site. A job that is too large is refused.
    pub local_jobs: Vec<LocalJob>,
}

/// A job that may span sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlexCoJob {
    /// Time of the submission.
    pub at: Timestamp,
    pub processors: u32,
    /// Run time within one site, at most the estimate.
    pub run_time: DurationMs,
    /// Estimate of the user for the run time within one site.
    pub estimate: DurationMs,
    /// Additional run time over several sites, per million.
    pub overhead: PerMillion,
}

/// The times and places of a job that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlexCoJobRun {
    /// Time of the submission.
    pub submitted: Timestamp,
    /// Time of the start.
    pub began: Timestamp,
    /// Time of the end.
    pub ended: Timestamp,
    /// Run time that the job would have had within one site.
    pub alone: DurationMs,
    /// Number of processors at each site, by index of the site.
    pub parts: Vec<(usize, u32)>,
    /// Number of times that its plan was replaced.
    pub moves: u32,
}

/// The result of all jobs; `None`: refused, as no site has so many processors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlexCoOutcome {
    /// The jobs that may span sites, in the order given.
    pub jobs: Vec<Option<FlexCoJobRun>>,
    /// The local jobs of each site, in the order given.
    pub local: Vec<Vec<Option<FlexCoJobRun>>>,
}

/// The owner of an id: the local jobs of a site, or the jobs that may span sites, with the index in
/// that list.
#[derive(Debug, Clone, Copy)]
struct FlexCoJobOwner {
    site: Option<usize>,
    place: usize,
}

struct FlexCoRun<'a> {
    sites: &'a [FlexCoSite],
    jobs: &'a [FlexCoJob],
    allowed: RescheduleOperations,
    plans: SitePlans,
    whose: Vec<FlexCoJobOwner>,
    arrivals: Vec<(Timestamp, JobId)>,
    starts: BTreeSet<(Timestamp, JobId)>,
    ends: BinaryHeap<Reverse<(Timestamp, JobId)>>,
    moves: BTreeMap<JobId, u32>,
    done: FlexCoOutcome,
}

/// Runs all jobs to their ends.
///
/// # Errors
/// Fails if a site has more processors than can be planned with.
pub fn run_flexco(
    sites: &[FlexCoSite],
    jobs: &[FlexCoJob],
    allowed: RescheduleOperations,
) -> Result<FlexCoOutcome, ResourceKindsError> {
    let mut run = FlexCoRun::new(sites, jobs, allowed)?;
    let mut next_arrival = 0;
    while let Some(now) = run.next_event_time(next_arrival) {
        run.end_due_jobs(now);
        run.begin_due_jobs(now);
        while let Some((_, id)) = run.arrivals.get(next_arrival).filter(|(at, _)| *at <= now) {
            let id = *id;
            next_arrival += 1;
            run.handle_arrival(id, now)?;
        }
        run.begin_due_jobs(now);
    }
    Ok(run.done)
}

impl<'a> FlexCoRun<'a> {
    fn new(
        sites: &'a [FlexCoSite],
        jobs: &'a [FlexCoJob],
        allowed: RescheduleOperations,
    ) -> Result<Self, ResourceKindsError> {
        let mut plans = SitePlans::default();
        for site in sites {
            let capacity = Resources::processors(site.processors);
            plans.add_site(site.name.clone(), Timeline::new(Timestamp(0), &capacity)?);
        }
        let mut whose = Vec::new();
        let mut arrivals = Vec::new();
        for (place, job) in jobs.iter().enumerate() {
            arrivals.push((job.at, JobId(whose.len() as u64)));
            whose.push(FlexCoJobOwner { site: None, place });
        }
        for (site, local) in sites.iter().enumerate() {
            for (place, job) in local.local_jobs.iter().enumerate() {
                arrivals.push((job.at, JobId(whose.len() as u64)));
                whose.push(FlexCoJobOwner {
                    site: Some(site),
                    place,
                });
            }
        }
        arrivals.sort();
        let local = sites
            .iter()
            .map(|site| vec![None; site.local_jobs.len()])
            .collect();
        let done = FlexCoOutcome {
            jobs: vec![None; jobs.len()],
            local,
        };
        let starts = BTreeSet::new();
        let ends = BinaryHeap::new();
        let moves = BTreeMap::new();
        Ok(Self {
            sites,
            jobs,
            allowed,
            plans,
            whose,
            arrivals,
            starts,
            ends,
            moves,
            done,
        })
    }

    /// Returns the time of the next arrival, start or end.
    fn next_event_time(&self, next_arrival: usize) -> Option<Timestamp> {
        let arrival = self.arrivals.get(next_arrival).map(|(at, _)| *at);
        let start = self.starts.first().map(|(at, _)| *at);
        let end = self.ends.peek().map(|Reverse((at, _))| *at);
        [arrival, start, end].into_iter().flatten().min()
    }

    fn owner_of(&self, id: JobId) -> Option<FlexCoJobOwner> {
        self.whose.get(usize::try_from(id.0).ok()?).copied()
    }

    fn local_job(&self, of: FlexCoJobOwner) -> Option<&'a LocalJob> {
        self.sites.get(of.site?)?.local_jobs.get(of.place)
    }

    fn end_due_jobs(&mut self, now: Timestamp) {
        while let Some(Reverse((at, id))) = self.ends.peek().copied()
            && at <= now
        {
            self.ends.pop();
            let sites = self.sites;
            let site = self.owner_of(id).and_then(|of| sites.get(of.site?));
            let moved = match site {
                Some(site) => self.plans.end_local_job(&site.name, id, now),
                None => self.plans.end_meta_job(id, now),
            };
            self.apply_moves(&moved);
        }
    }

    fn apply_moves(&mut self, moved: &[MovedJob]) {
        for MovedJob { job, from, to } in moved {
            self.starts.remove(&(*from, *job));
            self.starts.insert((*to, *job));
            *self.moves.entry(*job).or_default() += 1;
        }
    }

    fn begin_due_jobs(&mut self, now: Timestamp) {
        while let Some((at, id)) = self.starts.first().copied()
            && at <= now
        {
            self.starts.pop_first();
            self.begin_job(id, now);
        }
    }

    fn begin_job(&mut self, id: JobId, now: Timestamp) -> Option<()> {
        let of = self.owner_of(id)?;
        let (submitted, alone, run, parts) = match of.site {
            Some(site) => {
                let job = self.local_job(of)?;
                let run = job.run_time.min(job.estimate);
                (job.at, run, run, vec![(site, job.processors)])
            }
            None => {
                let job = self.jobs.get(of.place)?;
                let plan = self.plans.meta_job_plan(id)?;
                let run = job.run_time.min(job.estimate);
                let spans = plan.parts.len() > 1;
                let over = if spans {
                    run.scaled_by(job.overhead)
                } else {
                    DurationMs::ZERO
                };
                let parts = plan.parts.iter().filter_map(|(site, n)| {
                    let place = self.sites.iter().position(|s| s.name == *site)?;
                    Some((place, *n))
                });
                (job.at, run, run + over, parts.collect())
            }
        };
        let ended = now + run;
        let moves = self.moves.remove(&id).unwrap_or_default();
        let ran = FlexCoJobRun {
            submitted,
            began: now,
            ended,
            alone,
            parts,
            moves,
        };
        let done = match of.site {
            Some(site) => self.done.local.get_mut(site)?,
            None => &mut self.done.jobs,
        };
        *done.get_mut(of.place)? = Some(ran);
        self.ends.push(Reverse((ended, id)));
        Some(())
    }

    fn handle_arrival(&mut self, id: JobId, now: Timestamp) -> Result<(), ResourceKindsError> {
        let Some(of) = self.owner_of(id) else {
            return Ok(());
        };
        let start = match self.local_job(of).zip(of.site) {
            Some((job, site)) => {
                let need = (&Resources::processors(job.processors), job.estimate);
                let booking = self
                    .plans
                    .submit_local_job(&self.sites[site].name, id, need, now)?;
                booking.map(|booking| booking.span.from)
            }
            None => self.jobs.get(of.place).and_then(|job| {
                let resources = Resources::processors(job.processors);
                let job = MetaJob {
                    shapes: vec![JobShape {
                        resources,
                        run_time: job.estimate,
                    }],
                    ready: now,
                    latest: FOREVER,
                    overhead: job.overhead,
                    beside: DurationMs::ZERO,
                    bounds: SplitBounds::default(),
                };
                self.plans
                    .submit_meta_job(id, job, self.allowed, now)
                    .map(|plan| plan.start)
            }),
        };
        self.starts.extend(start.map(|start| (start, id)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local_job(at: u64, processors: u32, run_time: u64, estimate: u64) -> LocalJob {
        let at = Timestamp(at);
        let run_time = DurationMs(run_time);
        let estimate = DurationMs(estimate);
        LocalJob {
            at,
            processors,
            run_time,
            estimate,
        }
    }

    fn flex_site(name: &str, processors: u32, local_jobs: Vec<LocalJob>) -> FlexCoSite {
        FlexCoSite {
            name: SiteName::new(name).unwrap(),
            processors,
            local_jobs,
        }
    }

    /// F-10 of the vectors, as it happens: M begins and ends, and LB4 begins.
    fn run_vector_f_10(allowed: RescheduleOperations) -> (u64, u64, u64) {
        let a = vec![local_job(0, 6, 100, 100), local_job(0, 6, 70, 200)];
        let b = vec![
            local_job(0, 8, 60, 60),
            local_job(2, 4, 30, 30),
            local_job(2, 4, 40, 40),
            local_job(2, 8, 50, 50),
        ];
        let overhead = PerMillion(200_000);
        let at = Timestamp(1);
        let length = DurationMs(100);
        let m = FlexCoJob {
            at,
            processors: 10,
            run_time: length,
            estimate: length,
            overhead,
        };
        let flexed = run_flexco(
            &[flex_site("A", 12, a), flex_site("B", 8, b)],
            &[m],
            allowed,
        )
        .unwrap();
        let m = flexed.jobs[0].as_ref().unwrap();
        (
            m.began.0,
            m.ended.0,
            flexed.local[1][3].as_ref().unwrap().began.0,
        )
    }

    #[test]
    fn jobs_move_as_far_as_that_is_allowed_when_others_end_early() {
        let mut allowed = RescheduleOperations::default();
        assert_eq!(run_vector_f_10(allowed), (100, 220, 220));
        allowed.shift = true;
        assert_eq!(run_vector_f_10(allowed), (90, 210, 210));
        allowed.remap = true;
        assert_eq!(run_vector_f_10(allowed), (100, 200, 100));
    }

    #[test]
    fn what_is_larger_than_all_sites_is_refused_and_the_others_run() {
        let sites = [flex_site(
            "A",
            4,
            vec![local_job(0, 5, 10, 10), local_job(0, 4, 10, 10)],
        )];
        let job = |processors| FlexCoJob {
            at: Timestamp(0),
            processors,
            run_time: DurationMs(20),
            estimate: DurationMs(10),
            overhead: PerMillion(0),
        };
        let flexed =
            run_flexco(&sites, &[job(5), job(4)], RescheduleOperations::default()).unwrap();
        assert_eq!(flexed.jobs[0], None);
        let ran = flexed.jobs[1].as_ref().unwrap();
        assert_eq!(
            (ran.began, ran.ended),
            (Timestamp(0), Timestamp(10)),
            "cut at its estimate"
        );
        assert_eq!(flexed.local[0][0], None);
        assert_eq!(flexed.local[0][1].as_ref().unwrap().began, Timestamp(10));
    }
}
