//! Judges whether processors are withheld no longer and no more than they may be, that no job waits
//! for ever beside processors that stand idle, and that a job that waits in vain rises, or fails,
//! when as many tries as that takes must have been made.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cospan_actors::api::CommittedView;
use cospan_actors::supervision::{ActorId, ActorKind};
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::spec::{Priority, RequestType};
use cospan_domain::queue::{QueueParameters, StarvationGuardParameters};
use cospan_domain::site::availability::SiteState;
use cospan_domain::units::{DurationMs, Timestamp};

use super::judge_transitions::{SeenJobs, has_part_in_placing};
use super::seed_scenario::SeedScenario;
use cospan_simulator::control_plane_run::ControlPlaneRun;

/// Time between two looks.
const EVERY: DurationMs = DurationMs(15_000);
/// Looks until the folds of the view are folded afresh: that takes its time.
const FOLDED_EVERY: u32 = 20;
/// Processors are not for a job if they are reserved for others before it and so much more is over.
const LONGER: DurationMs = DurationMs(3_600_000);
/// Longest delay of sites' reports of what is idle, and of decisions to be written.
const LATE: DurationMs = DurationMs(300_000);

/// Looks again and again, as long as it is polled.
pub(super) async fn watch_guards(
    plane_run: ControlPlaneRun,
    scenario: Arc<SeedScenario>,
    seen: Rc<RefCell<SeenJobs>>,
) {
    let mut withheld = Withheld::default();
    let mut tried = TriedJobs::default();
    let mut beside: BTreeMap<(JobId, SiteName), Timestamp> = BTreeMap::new();
    for look in 0_u32.. {
        plane_run.sleep_until(plane_run.clock.now() + EVERY).await;
        if look % FOLDED_EVERY == 0 && !plane_run.plane.view().is_derived_state_correct() {
            let text = format!(
                "a fold differs from a fresh one: at {}",
                plane_run.clock.now().0
            );
            seen.borrow_mut().violations.push(text);
        }
        let now = plane_run.clock.now();
        let mut found = withheld.look(&plane_run, &scenario.queue, now);
        let rooms = jobs_with_room(&plane_run, &scenario);
        beside.retain(|key, _| rooms.contains(key));
        for key in rooms {
            let since = *beside.entry(key.clone()).or_insert(now);
            let late = since + longest_patience(&scenario.queue) < now;
            if late
                && since + longest_patience(&scenario.queue) + stalled_since(&plane_run, since)
                    < now
            {
                beside.insert(key.clone(), now);
                let (job, site) = key;
                found.push(format!(
                    "job {job} waits since {} beside room at {site}",
                    since.0
                ));
            }
        }
        let told = found
            .into_iter()
            .map(|text| format!("processors are kept idle: {text}"));
        seen.borrow_mut().violations.extend(told);
        let late = tried.look(&plane_run, &scenario.queue, now).into_iter();
        let late = late.map(|text| format!("a queue erred: {text}"));
        seen.borrow_mut().violations.extend(late);
    }
}

/// Returns the time since then in which actors stalled that have a part in placing and claiming.
fn stalled_since(plane_run: &ControlPlaneRun, since: Timestamp) -> DurationMs {
    plane_run
        .lives
        .stalled_time(since, plane_run.clock.now(), |id: &ActorId| {
            has_part_in_placing(id.kind())
        })
}

/// Returns the time after which whatever fits has been tried with nothing withheld.
fn longest_patience(queue: &QueueParameters) -> DurationMs {
    let starvation_guards = if queue.starvation_guard.after.is_some() {
        queue.starvation_guard.time
    } else {
        DurationMs::ZERO
    };
    starvation_guards + starvation_guards + time_of_tries(queue, 1)
}

/// Returns the time by which so many tries have been made: without events a queue has its turn once
/// a cycle at least, and a cycle has at most so many turns of all.
fn time_of_tries(queue: &QueueParameters, tries: u32) -> DurationMs {
    let weights = [
        (queue.n_h, queue.n1 + queue.n2),
        (queue.n_l, queue.n3 + queue.n4),
    ];
    let turns: u64 = weights
        .iter()
        .map(|(rounds, scans)| u64::from(*rounds * *scans))
        .sum();
    let cycle = queue.scan_interval.0.saturating_mul(turns + 1);
    DurationMs(cycle.saturating_mul(tries.into())) + LATE
}

/// Waiting jobs, each with the time since when it is tried without anything else happening to it,
/// and its record's number then. An actor that is built anew counts tries anew, which is news.
#[derive(Debug, Default)]
struct TriedJobs {
    since: BTreeMap<JobId, (u64, Timestamp)>,
    news: (u64, u64),
}

impl TriedJobs {
    fn look(
        &mut self,
        plane_run: &ControlPlaneRun,
        queue: &QueueParameters,
        now: Timestamp,
    ) -> Vec<String> {
        let view = plane_run.plane.view();
        let its_now = plane_run.plane.now();
        let metrics = &plane_run.plane.shared().metrics;
        let deaths = metrics
            .actor_restarts
            .with_label_values(&[ActorKind::CoAllocator.as_str()]);
        // A job that is placed at once may have the turn pass over those that wait.
        let placed = if queue.events {
            metrics.placement_seconds.get_sample_count()
        } else {
            0
        };
        let news = (deaths.get(), placed);
        if plane_run.plane.is_isolated() || news != std::mem::replace(&mut self.news, news) {
            self.since.clear();
        }
        let waiting: BTreeMap<JobId, &Arc<Job>> = view
            .jobs
            .values()
            .filter(|job: &&Arc<Job>| {
            let ready =
                matches!(job.phase, JobPhase::Queued { not_before, .. } if not_before <= its_now);
            let promised = job.reservation_terms().is_some() || job.shared_reservation().is_some();
            let alone = job.spec.run.task.is_none() && !promised;
            ready && alone && job.frozen_by.is_none() && job.held.is_none()
        })
            .map(|job| (job.id, job))
            .collect();
        self.since.retain(|job, (revision, _)| {
            waiting
                .get(job)
                .is_some_and(|job| job.revision == *revision)
        });
        let mut found = Vec::new();
        for (id, job) in waiting {
            let (_, since) = self.since.entry(id).or_insert((job.revision, now));
            let rises = matches!(job.priority, Priority::Low | Priority::High);
            let after = queue.promote_after.filter(|_| rises);
            let rose = after.is_none_or(|after| now <= *since + time_of_tries(queue, after + 1));
            let most = job.spec.max_placement_tries;
            let may = most.is_none_or(|most| now <= *since + time_of_tries(queue, most + 2));
            if !(rose && may) {
                let class = job.priority.as_str();
                let since = since.0;
                found.push(format!(
                    "job {id} stays in {class} since {since} although it was tried often"
                ));
                self.since.insert(id, (job.revision, now));
            }
        }
        found
    }
}

/// The job for which processors are withheld, and since when without a pause.
#[derive(Debug, Default)]
struct Withheld(Option<(JobId, Timestamp)>);

impl Withheld {
    fn look(
        &mut self,
        plane_run: &ControlPlaneRun,
        queue: &QueueParameters,
        now: Timestamp,
    ) -> Vec<String> {
        let starvation_guard = plane_run.plane.shared().starvation_guard.load();
        // What the last scan withheld is shown until the next, which comes if anybody waits.
        let Some(starvation_guard) =
            starvation_guard
                .as_ref()
                .as_ref()
                .filter(|starvation_guard| {
                    let view = plane_run.plane.view();
                    view.jobs
                        .get(&starvation_guard.job)
                        .is_some_and(|job| matches!(job.phase, JobPhase::Queued { .. }))
                })
        else {
            self.0 = None;
            return Vec::new();
        };
        let since = match self.0 {
            Some((job, since)) if job == starvation_guard.job => since,
            _ => now,
        };
        self.0 = Some((starvation_guard.job, since));
        let StarvationGuardParameters { share, time, .. } = queue.starvation_guard;
        let mut found = Vec::new();
        let over = since + time + queue.scan_interval + LATE;
        if over < now && over + stalled_since(plane_run, since) < now {
            self.0 = Some((starvation_guard.job, now));
            found.push(format!(
                "withheld for job {} since {}",
                starvation_guard.job, since.0
            ));
        }
        plane_run.world.read(|world| {
            for (name, count) in &starvation_guard.withheld {
                let site = world.sites().iter().find(|site| site.name() == name);
                let total = site.map_or(0, |site| site.processors());
                if u64::from(*count) * 1_000_000 > u64::from(total) * u64::from(share.0) {
                    found.push(format!("{count} of {total} withheld at {name}"));
                }
            }
        });
        found
    }
}

/// Lists waiting jobs that any policy would place, each with the sites where, by their own count,
/// as many processors are idle and nobody is about to take them.
fn jobs_with_room(plane_run: &ControlPlaneRun, scenario: &SeedScenario) -> Vec<(JobId, SiteName)> {
    let view = plane_run.plane.view();
    let now = plane_run.plane.now();
    let waiting: Vec<_> = view
        .jobs
        .values()
        .filter_map(|job: &Arc<Job>| {
            let processors = plainly_waiting_processors(job, now)?;
            let lasts = plane_run.plane.max_hold() + job.spec.wall_time + LONGER;
            Some((job.id, processors, lasts))
        })
        .collect();
    if waiting.is_empty() || plane_run.plane.is_isolated() {
        return Vec::new();
    }
    let standings = plane_run.plane.list_sites();
    let well = standings.iter().filter(|site| {
        matches!(site.state, SiteState::Usable)
            && site.report.contact.is_answering()
            && !scenario.quotas.contains_key(&site.name)
    });
    plane_run.world.read(|world| {
        let sites = well.filter_map(|standing| {
            let site = world
                .sites()
                .iter()
                .find(|site| *site.name() == standing.name)?;
            Some((site, spoken_for(&view, &standing.name)))
        });
        let sites: Vec<_> = sites.collect();
        let rooms = waiting.iter().flat_map(|(job, processors, lasts)| {
            let roomy = sites.iter().filter(|(site, promised)| {
                let spare = site.spare_for(*lasts, world.now());
                spare.is_some_and(|spare| spare.saturating_sub(*promised) >= *processors)
            });
            roomy.map(|(site, _)| (*job, site.name().clone()))
        });
        rooms
            .filter(|(job, site)| !is_barred(&view, *job, site, now))
            .collect()
    })
}

/// Returns the processors of a job that waits, may go anywhere as a whole, and needs nothing else.
fn plainly_waiting_processors(job: &Job, now: Timestamp) -> Option<u32> {
    let JobPhase::Queued { not_before, .. } = job.phase else {
        return None;
    };
    let [component] = &job.spec.components[..] else {
        return None;
    };
    let free = job.frozen_by.is_none() && job.held.is_none() && not_before <= now;
    // A job with a reservation of its own or a shared one does not wait for what is idle.
    let promised = job.reservation_terms().is_some() || job.shared_reservation().is_some();
    let limited = job.spec.run.task.is_some() || promised;
    let avoids = job
        .components
        .iter()
        .any(|c| !c.avoid.is_empty() || c.charge.is_some());
    let plain = component.file_refs().next().is_none() && component.constraints.is_empty();
    let anywhere = matches!(job.spec.request, RequestType::NonFixed) && job.spec.rerunnable;
    (free && !limited && !avoids && plain && anywhere).then_some(component.resources.processors)
}

/// Counts processors at a site that placed jobs will take, or may just have taken.
fn spoken_for(view: &CommittedView, site: &SiteName) -> u32 {
    let holdings = view
        .holdings
        .get(site)
        .into_iter()
        .flat_map(|site| site.values());
    let coming = holdings.filter(|holding| holding.visible_from.is_none());
    coming.map(|holding| holding.resources.processors).sum()
}

/// Returns true if a site takes none of the jobs of this one's owner for a while.
fn is_barred(view: &CommittedView, job: JobId, site: &SiteName, now: Timestamp) -> bool {
    let (Some(job), Some(site)) = (view.jobs.get(&job), view.sites.get(site)) else {
        return false;
    };
    site.bar_reason_for(&job.owner, now).is_some()
}
