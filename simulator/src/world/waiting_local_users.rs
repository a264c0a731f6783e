//! Local users who wait at a site that grants reservations.
//!
//! Its batch system gets only what can start at once, so local users wait here, in the order in
//! which they came. The discipline of the site decides who may overtake, as elsewhere. Reservations
//! come before all of them.

use std::collections::VecDeque;

use cospan_domain::reservation::timeline::{OpeningRequest, ResourceAmounts, TimeSpan, Timeline};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};

use super::SimulatedWorld;
use super::agenda::{AgendaEvent, SiteIndex};
use super::batch::QueueDiscipline;
use super::world_site::{LocalJob, SimulatedCluster};

/// Time after which the site checks again who may start, other than at the end of a reservation:
/// one may be cancelled.
const AGAIN: DurationMs = DurationMs(300_000);

/// Waiting local jobs.
#[derive(Debug, Default)]
pub(super) struct WaitingLocalJobs {
    jobs: VecDeque<LocalJob>,
    /// True if the next check is on the agenda.
    expected: bool,
}

impl WaitingLocalJobs {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

fn longest_run_time(job: &LocalJob) -> DurationMs {
    job.estimate.max(job.run_time)
}

/// Returns the place of a job, beside everything that comes before it.
fn find_job_place(
    job: &LocalJob,
    timeline: &Timeline,
    now: Timestamp,
) -> Option<(TimeSpan, ResourceAmounts)> {
    let need = timeline
        .to_amounts(&Resources::processors(job.processors))
        .ok()?;
    let start =
        timeline.earliest_start(&OpeningRequest::after(now, need, longest_run_time(job)))?;
    Some((TimeSpan::new(start, start + longest_run_time(job)), need))
}

impl SimulatedCluster {
    /// Accepts a local user's job, which waits if it may not start at once.
    pub(super) fn accept_local_job(&mut self, job: LocalJob, now: Timestamp) {
        // A job that is too large for the site is refused, which is its user's fault.
        if job.processors <= self.processors {
            if self.grants_reservations() {
                self.waiting.jobs.push_back(job)
            } else {
                self.submit_local_to_batch(job, now)
            }
        }
    }

    /// Returns the places of the waiting jobs that nobody may delay.
    pub(super) fn places_of_waiting(&self, now: Timestamp) -> Vec<(TimeSpan, ResourceAmounts)> {
        let free = (!self.waiting.is_empty())
            .then(|| self.free_beside_reservations(now))
            .flatten();
        let Some(mut free) = free else {
            return Vec::new();
        };
        let counted = match self.discipline {
            QueueDiscipline::Conservative => self.waiting.jobs.len(),
            QueueDiscipline::Easy | QueueDiscipline::Fcfs => 1,
        };
        let mut places = Vec::new();
        for job in self.waiting.jobs.iter().take(counted) {
            let Some((span, need)) = find_job_place(job, &free, now) else {
                continue;
            };
            free.book(span, &need);
            places.push((span, need));
        }
        places
    }

    /// Hands the jobs that may start now to the batch system.
    fn start_waiting(&mut self, now: Timestamp) {
        if self.waiting.is_empty()
            || self.batch.queued_count() > 0
            || self.batch.idle_processors() == 0
        {
            return;
        }
        let Some(mut free) = self.free_beside_reservations(now) else {
            return;
        };
        let mut idle = self.batch.idle_processors();
        let mut blocked = 0;
        let mut left = VecDeque::new();
        while let Some(job) = self.waiting.jobs.pop_front() {
            let may_overtake = blocked == 0 || self.discipline != QueueDiscipline::Fcfs;
            let is_counted = blocked == 0 || self.discipline == QueueDiscipline::Conservative;
            let fits = may_overtake && job.processors <= idle;
            let place = (fits || is_counted)
                .then(|| find_job_place(&job, &free, now))
                .flatten();
            let starts = fits && place.is_some_and(|(span, _)| span.from == now);
            if let Some((span, need)) = place.filter(|_| starts || is_counted) {
                free.book(span, &need);
            }
            if starts {
                idle -= job.processors;
                self.submit_local_to_batch(job, now);
            } else {
                blocked += 1;
                left.push_back(job);
            }
        }
        self.waiting.jobs = left;
    }
}

impl SimulatedWorld {
    /// Starts the waiting local users that may start.
    pub(super) fn start_waiting(&mut self, site: SiteIndex) {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        cluster.start_waiting(now);
        if !cluster.waiting.is_empty() && !cluster.waiting.expected {
            cluster.waiting.expected = true;
            let ends = cluster
                .current_reservations()
                .map(|(_, lease)| lease.span.to)
                .filter(|end| *end > now);
            let again = ends.min().unwrap_or(now + AGAIN).min(now + AGAIN);
            self.agenda.add_event(again, site, AgendaEvent::LocalQueue);
        }
    }

    /// Checks whether waiting local users may start.
    pub(super) fn check_waiting(&mut self, site: SiteIndex) {
        self.sites[site.0].waiting.expected = false;
        let queued = self.sites[site.0].waiting.jobs.len();
        self.start_waiting(site);
        if self.sites[site.0].waiting.jobs.len() < queued {
            self.start_batch_jobs(site);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cospan_domain::ids::{InstanceId, JobId, SiteName};
    use cospan_domain::reservation::{
        ReservationAnswer, ReservationRequest, ReservationSerial, ReservationTag, StartWindow,
    };
    use cospan_sites::port::TaggedReservationRequest;

    use super::super::WrapperDelays;
    use super::super::world_site::ClusterSpec;
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000)
    }

    /// A site of four processors that grants reservations, whose users submit jobs of so many
    /// processors for so many seconds, one each second.
    fn reserving_site(discipline: QueueDiscipline, jobs: &[(u32, u64)]) -> SimulatedWorld {
        let spec = ClusterSpec {
            name: SiteName::new("delft").unwrap(),
            nodes: 4,
            processors_per_node: 1,
            discipline,
            local_jobs: jobs
                .iter()
                .enumerate()
                .map(|(second, (processors, seconds)): (usize, &(u32, u64))| {
                    let run_time = DurationMs::from_secs(*seconds);
                    let at = at(second as u64);
                    LocalJob {
                        at,
                        processors: *processors,
                        run_time,
                        estimate: run_time,
                    }
                })
                .collect(),
            files: BTreeMap::new(),
            queues: false,
            reserves: true,
        };
        SimulatedWorld::new(vec![spec], &[], WrapperDelays::default(), 1, at(0))
    }

    /// Seconds at which the jobs began, in the order in which they were submitted.
    fn local_start_seconds(mut world: SimulatedWorld) -> Vec<u64> {
        world.advance_to(at(10_000));
        let starts = world.sites()[0].local_starts().iter();
        let mut starts: Vec<_> = starts
            .map(|start| (start.submitted, start.began.0 / 1_000))
            .collect();
        starts.sort();
        starts.into_iter().map(|(_, began)| began).collect()
    }

    #[test]
    fn local_users_overtake_as_the_discipline_of_their_site_lets_them() {
        let jobs = [(3, 100), (4, 100), (1, 50), (3, 100), (1, 300)];
        assert_eq!(
            local_start_seconds(reserving_site(QueueDiscipline::Fcfs, &jobs)),
            [0, 100, 200, 200, 250]
        );
        assert_eq!(
            local_start_seconds(reserving_site(QueueDiscipline::Easy, &jobs)),
            [0, 100, 2, 200, 200]
        );
        let jobs = [(3, 100), (4, 100), (1, 90), (4, 100), (1, 200)];
        assert_eq!(
            local_start_seconds(reserving_site(QueueDiscipline::Easy, &jobs)),
            [0, 100, 2, 200, 300]
        );
        let jobs = [(2, 100), (3, 100), (4, 100), (1, 190), (2, 90)];
        assert_eq!(
            local_start_seconds(reserving_site(QueueDiscipline::Conservative, &jobs)),
            [0, 100, 200, 3, 300]
        );
        let jobs = [(2, 100), (3, 100), (4, 100), (1, 250), (2, 90)];
        assert_eq!(
            local_start_seconds(reserving_site(QueueDiscipline::Conservative, &jobs)),
            [0, 100, 200, 300, 4]
        );
        assert_eq!(
            local_start_seconds(reserving_site(QueueDiscipline::Easy, &jobs)),
            [0, 100, 253, 3, 353]
        );
    }

    #[test]
    fn who_waits_is_behind_promises_and_none_is_made_over_the_first() {
        let mut world = reserving_site(QueueDiscipline::Easy, &[(4, 100), (2, 150), (2, 200)]);
        world.advance_to(at(10));
        let mut ask = |serial, from| {
            let instance = InstanceId::from_random(1);
            let job = JobId(1);
            let serial = ReservationSerial(serial);
            let request = ReservationRequest {
                resources: Resources::processors(4),
                length: DurationMs::from_secs(100),
                window: StartWindow::single_start(at(from)),
                flexible: false,
            };
            let tag = ReservationTag {
                instance,
                job,
                serial,
            };
            let keep_for = DurationMs::from_secs(5_000);
            let order = TaggedReservationRequest {
                tag,
                number: 1,
                request,
                keep_for,
            };
            world.request_reservation(SiteIndex(0), &order).unwrap()
        };
        assert_eq!(ask(1, 260), ReservationAnswer::Granted { start: at(260) });
        // The first who waits is to begin at 100 for 150 s: it may not be put off.
        assert_eq!(ask(2, 160), ReservationAnswer::NotBefore { next: at(360) });
        assert_eq!(local_start_seconds(world), [0, 100, 360]);
    }
}
