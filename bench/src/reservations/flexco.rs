//! Rescheduling of jobs over sites: the search for one of them, and all that one early end moves.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::reservation::Timeline;
use cospan_domain::reservation::flexco::{
    JobShape, MetaJob, OfferingSite, RescheduleOperations, SitePlans, SplitBounds, reschedule_job,
};
use cospan_domain::reservation::timeline::FOREVER;
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::quantile;
use crate::report::BenchReport;

const SITES: usize = 4;
/// The size of the Paragon that the paper's sites are taken from.
const PROCESSORS: u32 = 400;
const PLANNED: usize = 1_000;
/// Number of jobs of which one spans sites.
const META_EACH: u64 = 5;
const MINUTE: u64 = 60_000;
const NOW: Timestamp = Timestamp(30 * MINUTE);
const ALLOWED: RescheduleOperations = RescheduleOperations {
    shift: true,
    remap: true,
    mold: false,
};

/// Sites with running and waiting jobs.
struct FlexCoInput {
    plans: SitePlans,
    names: Vec<SiteName>,
    metas: BTreeMap<JobId, MetaJob>,
    /// Local jobs that run at [`NOW`].
    running: Vec<(SiteName, JobId)>,
}

pub(super) fn bench(report: &mut BenchReport, quick: bool) -> Result<()> {
    crate::print_progress("rescheduling over 4 sites with 1,000 planned jobs");
    let draws = if quick { 2 } else { 10 };
    let mut one = Vec::new();
    let mut ends = Vec::new();
    let mut moved = 0;
    for seed in 0..draws {
        let scene = FlexCoInput::draw(&mut StdRng::seed_from_u64(seed))?;
        one.extend(scene.time_searches()?);
        for (site, job) in &scene.running {
            let mut plans = scene.plans.clone();
            let begin = Instant::now();
            moved += plans.end_local_job(site, *job, NOW).len();
            ends.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    ensure!(moved > 0, "no early end moved anything");
    let each = moved as f64 / ends.len() as f64;
    report.add_figure(
        "reschedule_one_us",
        quantile(&mut one, 0.99),
        "us",
        "<= 300",
    );
    report.add_figure("reschedule_one_p50_us", quantile(&mut one, 0.5), "us", "");
    report.add_figure("reschedule_ms", quantile(&mut ends, 0.99), "ms", "<= 50");
    report.add_figure("reschedule_p50_ms", quantile(&mut ends, 0.5), "ms", "");
    report.add_figure("reschedule_moved", each, "jobs", "");
    Ok(())
}

impl FlexCoInput {
    fn draw(chance: &mut StdRng) -> Result<Self> {
        let mut plans = SitePlans::default();
        let names = (0..SITES)
            .map(|site| SiteName::new(&format!("s{site}")))
            .collect::<Result<Vec<_>, _>>()?;
        for name in &names {
            let capacity = Resources::processors(PROCESSORS);
            plans.add_site(name.clone(), Timeline::new(Timestamp(0), &capacity)?);
        }
        let mut metas = BTreeMap::new();
        let mut running = Vec::new();
        let mut planned = 0;
        for number in 0.. {
            let id = JobId(number);
            let run_time = draw_run_time(chance);
            let start = if number.is_multiple_of(META_EACH) {
                // More than a quarter of them need more than one site has.
                let processors = chance.random_range(32..=PROCESSORS * 3 / 2);
                let job = meta_job(processors, run_time);
                let plan = plans.submit_meta_job(id, job.clone(), ALLOWED, Timestamp(0));
                metas.insert(id, job);
                plan.map(|plan| plan.start)
            } else {
                let site = &names[chance.random_range(0..SITES)];
                let need = Resources::processors(1 << chance.random_range(0..=8));
                let booking = plans.submit_local_job(site, id, (&need, run_time), Timestamp(0))?;
                if booking.is_some_and(|booking| booking.span.from < NOW && NOW < booking.span.to) {
                    running.push((site.clone(), id));
                }
                booking.map(|booking| booking.span.from)
            };
            planned += usize::from(start.is_some_and(|start| start > NOW));
            if planned == PLANNED {
                break;
            }
        }
        metas.retain(|id, _| {
            plans
                .meta_job_plan(*id)
                .is_some_and(|plan| plan.start > NOW)
        });
        Ok(Self {
            plans,
            names,
            metas,
            running,
        })
    }

    /// Microseconds of a search for each waiting job that spans sites, after an early end.
    fn time_searches(&self) -> Result<Vec<f64>> {
        let mut plans = self.plans.clone();
        if let Some((site, job)) = self.running.first() {
            plans.end_local_job(site, *job, NOW);
        }
        let mut taken = Vec::new();
        for (id, job) in &self.metas {
            let Some(present) = plans.meta_job_plan(*id).filter(|plan| plan.parts.len() > 1) else {
                continue;
            };
            let mut free = Vec::new();
            for name in &self.names {
                let Some(mut timeline) = plans.timeline(name).cloned() else {
                    continue;
                };
                let part = job.shapes[present.shape]
                    .resources
                    .portion_for(present.processors_at(name));
                timeline.release(present.span(), &timeline.to_amounts(&part)?);
                free.push((name, timeline));
            }
            let sites: Vec<_> = free
                .iter()
                .map(|(name, time)| OfferingSite { name, time })
                .collect();
            let begin = Instant::now();
            black_box(reschedule_job(
                black_box(job),
                present,
                ALLOWED,
                &sites,
                0,
                NOW,
            ));
            taken.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        Ok(taken)
    }
}

fn draw_run_time(chance: &mut StdRng) -> DurationMs {
    let minutes = [5, 30, 60, 240, 720][chance.random_range(0..5)];
    DurationMs(chance.random_range(1..=minutes) * MINUTE)
}

fn meta_job(processors: u32, run_time: DurationMs) -> MetaJob {
    MetaJob {
        shapes: vec![JobShape {
            resources: Resources::processors(processors),
            run_time,
        }],
        ready: Timestamp(0),
        latest: FOREVER,
        overhead: PerMillion(200_000),
        beside: DurationMs::ZERO,
        bounds: SplitBounds::default(),
    }
}
