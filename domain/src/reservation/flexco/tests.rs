//! The worked examples F-1 to F-13, and drawn plans beside plain rules.

use proptest::prelude::*;

use super::*;
use crate::ids::{JobId, SiteName};
use crate::reservation::timeline::{FOREVER, ResourceAmounts, TimeSpan, Timeline};
use crate::resources::Resources;
use crate::units::{DurationMs, PerMillion, Timestamp};

/// Start, processors by site, and completion of a plan.
type ShownPlan = (u64, Vec<(String, u32)>, u64);

pub(super) fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

/// A site with so many processors, some of them taken from and to some time.
pub(super) fn timeline(processors: u32, taken: &[(u32, u64, u64)]) -> Timeline {
    let mut timeline = Timeline::new(Timestamp(0), &Resources::processors(processors)).unwrap();
    for (processors, from, to) in taken {
        let span = TimeSpan::new(Timestamp(*from), Timestamp(*to));
        timeline.book(span, &ResourceAmounts::processors(*processors));
    }
    timeline
}

pub(super) fn job_shape(processors: u32, run_time: u64) -> JobShape {
    JobShape {
        resources: Resources::processors(processors),
        run_time: DurationMs(run_time),
    }
}

/// `percent` of overhead.
pub(super) fn meta_job(processors: u32, run_time: u64, percent: u32, ready: u64) -> MetaJob {
    MetaJob {
        shapes: vec![job_shape(processors, run_time)],
        ready: Timestamp(ready),
        latest: FOREVER,
        overhead: PerMillion(percent * 10_000),
        beside: DurationMs::ZERO,
        bounds: SplitBounds::default(),
    }
}

fn planned_in_short(job: &MetaJob, sites: &[(&str, Timeline)], turn: usize) -> Option<ShownPlan> {
    let names: Vec<SiteName> = sites.iter().map(|(name, _)| site(name)).collect();
    let offers: Vec<OfferingSite<'_>> = names
        .iter()
        .zip(sites)
        .map(|(name, (_, timeline))| OfferingSite {
            name,
            time: timeline,
        })
        .collect();
    plan_in_shape(job, 0, &offers, turn, Timestamp(0)).map(shorten_plan)
}

fn shorten_plan(plan: FlexPlan) -> (u64, Vec<(String, u32)>, u64) {
    let parts = plan
        .parts
        .iter()
        .map(|(site, count)| (site.to_string(), *count));
    (plan.start.0, parts.collect(), plan.completion.0)
}

fn expected_plan(start: u64, parts: &[(&str, u32)], completion: u64) -> Option<ShownPlan> {
    let parts = parts
        .iter()
        .map(|(site, count)| ((*site).to_owned(), *count));
    Some((start, parts.collect(), completion))
}

/// The sites of F-1, with A's six taken up to some time.
fn first_example_sites(until: u64) -> [(&'static str, Timeline); 2] {
    [
        ("A", timeline(10, &[(6, 0, until)])),
        ("B", timeline(5, &[(2, 0, 60)])),
    ]
}

#[test]
fn f_1_several_sites_that_complete_earlier_are_taken() {
    let job = meta_job(7, 50, 20, 0);
    assert_eq!(
        planned_in_short(&job, &first_example_sites(100), 0),
        expected_plan(0, &[("A", 4), ("B", 3)], 60)
    );
    assert_eq!(
        planned_in_short(&job, &first_example_sites(100), 1),
        expected_plan(0, &[("B", 3), ("A", 4)], 60)
    );
}

#[test]
fn f_2_to_f_4_one_site_is_taken_if_it_completes_no_later() {
    let job = meta_job(7, 200, 20, 0);
    assert_eq!(
        planned_in_short(&job, &first_example_sites(30), 0),
        expected_plan(30, &[("A", 7)], 230)
    );
    assert_eq!(
        planned_in_short(&job, &first_example_sites(40), 0),
        expected_plan(40, &[("A", 7)], 240),
        "a tie"
    );
    assert_eq!(
        planned_in_short(&job, &first_example_sites(41), 0),
        expected_plan(0, &[("A", 4), ("B", 3)], 240)
    );
}

#[test]
fn f_5_parts_must_be_free_for_the_overhead_too() {
    let sites = [("A", timeline(6, &[(6, 55, 155)])), ("B", timeline(3, &[]))];
    assert_eq!(
        planned_in_short(&meta_job(9, 50, 20, 0), &sites, 0),
        expected_plan(155, &[("A", 6), ("B", 3)], 215)
    );
}

#[test]
fn f_6_a_job_starts_when_it_is_ready_also_within_free_time() {
    let sites = [("A", timeline(10, &[]))];
    assert_eq!(
        planned_in_short(&meta_job(7, 50, 20, 25), &sites, 0),
        expected_plan(25, &[("A", 7)], 75)
    );
}

#[test]
fn f_7_each_new_job_fills_from_the_next_site_on() {
    let mut plans = SitePlans::default();
    for name in ["A", "B", "C"] {
        plans.add_site(site(name), timeline(6, &[]));
    }
    let mut submit = |id| {
        let none = RescheduleOperations::default();
        let plan = plans.submit_meta_job(JobId(id), meta_job(8, 50, 20, 0), none, Timestamp(0));
        plan.cloned().map(shorten_plan)
    };
    assert_eq!(submit(1), expected_plan(0, &[("A", 6), ("B", 2)], 60));
    assert_eq!(submit(2), expected_plan(0, &[("B", 4), ("C", 4)], 60));
    assert_eq!(submit(3), expected_plan(60, &[("C", 6), ("A", 2)], 120));
}

#[test]
fn f_8_more_than_all_sites_have_is_refused() {
    assert_eq!(
        planned_in_short(&meta_job(16, 50, 20, 0), &first_example_sites(100), 0),
        None
    );
}

#[test]
fn f_9_an_overhead_rounds_up() {
    let job = meta_job(7, 333, 20, 0);
    assert_eq!(job.run_time_on(&job.shapes[0], 2), DurationMs(333 + 67));
    assert_eq!(
        job.run_time_on(&job.shapes[0], 1),
        DurationMs(333),
        "one site has none"
    );
}

const M: JobId = JobId(10);
const LA2: JobId = JobId(2);
const LB4: JobId = JobId(6);

fn submit_local_job(
    plans: &mut SitePlans,
    name: &str,
    id: JobId,
    processors: u32,
    length: u64,
    now: u64,
) -> u64 {
    let need = (&Resources::processors(processors), DurationMs(length));
    let booking = plans
        .submit_local_job(&site(name), id, need, Timestamp(now))
        .unwrap();
    booking.unwrap().span.from.0
}

/// At 70 LA2 ends 130 early. Returns M and LB4 after it.
fn tenth_example(allowed: RescheduleOperations) -> (SitePlans, Vec<MovedJob>) {
    let mut plans = SitePlans::default();
    plans.add_site(site("A"), timeline(12, &[]));
    plans.add_site(site("B"), timeline(8, &[]));
    assert_eq!(submit_local_job(&mut plans, "A", JobId(1), 6, 100, 0), 0);
    assert_eq!(submit_local_job(&mut plans, "A", LA2, 6, 200, 0), 0);
    assert_eq!(submit_local_job(&mut plans, "B", JobId(3), 8, 60, 0), 0);
    let plan = plans
        .submit_meta_job(M, meta_job(10, 100, 20, 0), allowed, Timestamp(0))
        .cloned();
    assert_eq!(
        plan.map(shorten_plan),
        expected_plan(100, &[("A", 6), ("B", 4)], 220)
    );
    assert_eq!(submit_local_job(&mut plans, "B", JobId(4), 4, 30, 0), 60);
    assert_eq!(submit_local_job(&mut plans, "B", JobId(5), 4, 40, 0), 60);
    assert_eq!(submit_local_job(&mut plans, "B", LB4, 8, 50, 0), 220);
    let moved = plans.end_local_job(&site("A"), LA2, Timestamp(70));
    (plans, moved)
}

fn tenth_example_result(allowed: RescheduleOperations) -> (Option<ShownPlan>, u64) {
    let (plans, _) = tenth_example(allowed);
    let lb4 = plans.local_job_plan(&site("B"), LB4).unwrap().span;
    assert_eq!(lb4.to.since(lb4.from), DurationMs(50));
    (
        plans.meta_job_plan(M).cloned().map(shorten_plan),
        lb4.from.0,
    )
}

const SHIFT: RescheduleOperations = RescheduleOperations {
    shift: true,
    remap: false,
    mold: false,
};
const REMAP: RescheduleOperations = RescheduleOperations {
    shift: true,
    remap: true,
    mold: false,
};

#[test]
fn f_10_what_an_early_end_brings_depends_on_the_operations_allowed() {
    let rigid = tenth_example_result(RescheduleOperations::default());
    assert_eq!(rigid, (expected_plan(100, &[("A", 6), ("B", 4)], 220), 220));
    assert_eq!(
        tenth_example_result(SHIFT),
        (expected_plan(90, &[("A", 6), ("B", 4)], 210), 210)
    );
    assert_eq!(
        tenth_example_result(REMAP),
        (expected_plan(100, &[("A", 10)], 200), 100)
    );
}

#[test]
fn f_11_jobs_come_forward_in_the_order_of_their_planned_starts() {
    let mut plans = SitePlans::default();
    let a = site("A");
    plans.add_site(a.clone(), timeline(10, &[]));
    let r1 = JobId(1);
    let j1 = JobId(2);
    let j2 = JobId(3);
    let j3 = JobId(4);
    let j4 = JobId(5);
    assert_eq!(submit_local_job(&mut plans, "A", r1, 6, 100, 0), 0);
    assert_eq!(submit_local_job(&mut plans, "A", j2, 4, 30, 0), 0);
    assert_eq!(submit_local_job(&mut plans, "A", j1, 8, 50, 0), 100);
    assert_eq!(submit_local_job(&mut plans, "A", j4, 2, 500, 0), 30);
    assert_eq!(submit_local_job(&mut plans, "A", j3, 4, 120, 0), 150);
    let moved = plans.end_local_job(&a, r1, Timestamp(40));
    let moves: Vec<_> = moved
        .iter()
        .map(|moved| (moved.job, moved.from.0, moved.to.0))
        .collect();
    assert_eq!(moves, [(j1, 100, 40), (j3, 150, 90)]);
    assert_eq!(
        plans.local_job_plan(&a, j4).unwrap().span.from,
        Timestamp(30),
        "it runs"
    );
}

/// A job on A and B up to 200, and what a search says if A is free from some time on.
fn reschedule_if_a_is_free(
    parts: &[(&str, u32)],
    completion: u64,
    sites: [(&str, Timeline); 2],
) -> Option<FlexPlan> {
    let parts: Vec<_> = parts
        .iter()
        .map(|(name, count)| (site(name), *count))
        .collect();
    let overhead = if parts.len() > 1 { 120 } else { 100 };
    let start = Timestamp(completion - overhead);
    let present = FlexPlan {
        shape: 0,
        start,
        completion: Timestamp(completion),
        parts,
    };
    let names = sites.each_ref().map(|(name, _)| site(name));
    let offers: Vec<_> = names
        .iter()
        .zip(&sites)
        .map(|(name, (_, timeline))| OfferingSite {
            name,
            time: timeline,
        })
        .collect();
    reschedule_job(
        &meta_job(10, 100, 20, 0),
        &present,
        REMAP,
        &offers,
        0,
        Timestamp(0),
    )
}

#[test]
fn f_12_an_equal_completion_counts_only_on_fewer_sites() {
    let late = || {
        [
            ("A", timeline(10, &[(10, 0, 100)])),
            ("B", timeline(6, &[(6, 0, 100)])),
        ]
    };
    let found = reschedule_if_a_is_free(&[("A", 6), ("B", 4)], 200, late());
    assert_eq!(
        found.map(shorten_plan),
        expected_plan(100, &[("A", 10)], 200)
    );
    assert_eq!(
        reschedule_if_a_is_free(&[("A", 10)], 200, late()),
        None,
        "nothing changes a second time"
    );
    // Over both sites it would complete at 200, too.
    let both = [
        ("A", timeline(6, &[(6, 0, 80)])),
        ("B", timeline(10, &[(4, 0, 80), (6, 0, 100)])),
    ];
    assert_eq!(reschedule_if_a_is_free(&[("B", 10)], 200, both), None);
}

#[test]
fn f_13_a_later_completion_leaves_the_old_plan_as_it_is() {
    let later = [
        ("A", timeline(10, &[(10, 0, 150)])),
        ("B", timeline(4, &[(4, 0, 150)])),
    ];
    assert_eq!(
        reschedule_if_a_is_free(&[("A", 6), ("B", 4)], 200, later),
        None
    );
}

#[test]
fn a_job_that_molds_takes_the_shape_that_completes_first() {
    let mut molding = meta_job(8, 100, 20, 0);
    molding.shapes.push(job_shape(4, 150));
    let a = site("A");
    let sites = timeline(4, &[]);
    let b = timeline(4, &[(4, 0, 60)]);
    let other = site("B");
    let offers = [
        OfferingSite {
            name: &a,
            time: &sites,
        },
        OfferingSite {
            name: &other,
            time: &b,
        },
    ];
    let present = plan_in_shape(&molding, 0, &offers, 0, Timestamp(0)).unwrap();
    assert_eq!(present.completion, Timestamp(180), "on both from 60 on");
    assert_eq!(
        reschedule_job(&molding, &present, REMAP, &offers, 0, Timestamp(0)),
        None
    );
    let mold = RescheduleOperations {
        mold: true,
        ..REMAP
    };
    let found = reschedule_job(&molding, &present, mold, &offers, 0, Timestamp(0)).unwrap();
    assert_eq!(found.shape, 1);
    assert_eq!(
        shorten_plan(found),
        expected_plan(0, &[("A", 4)], 150).unwrap()
    );
}

#[test]
fn no_start_is_later_than_what_was_promised() {
    let late = MetaJob {
        latest: Timestamp(99),
        ..meta_job(10, 50, 0, 0)
    };
    assert_eq!(planned_in_short(&late, &first_example_sites(100), 0), None);
    let in_time = MetaJob {
        latest: Timestamp(100),
        ..late
    };
    assert_eq!(
        planned_in_short(&in_time, &first_example_sites(100), 0),
        expected_plan(100, &[("A", 10)], 150)
    );
}

#[test]
fn a_site_that_publishes_slots_offers_what_it_says_and_no_more() {
    let whole = timeline(10, &[(6, 0, 100), (2, 40, 60)]);
    let slots = whole.slots(TimeSpan::new(Timestamp(0), Timestamp(500)), 99);
    let published = (whole.kinds(), &slots[..]);
    for from in (0..200).step_by(5) {
        for length in [1, 30, 70, 250] {
            let span = TimeSpan::new(Timestamp(from), Timestamp(from + length));
            let of = Resources::processors(99);
            assert_eq!(
                published.processors_offered(span, &of),
                whole.processors_offered(span, &of),
                "{span:?}"
            );
        }
    }
    let beyond = TimeSpan::new(Timestamp(400), Timestamp(501));
    assert_eq!(
        published.processors_offered(beyond, &Resources::processors(1)),
        0
    );
    let span = TimeSpan::new(Timestamp(0), Timestamp(500));
    assert_eq!(published.idle_steps(span), whole.idle_steps(span));
}

#[test]
fn parts_need_their_share_of_other_resources() {
    let capacity = Resources {
        processors: 8,
        others: [("gpus".into(), 2)].into(),
    };
    let site = Timeline::new(Timestamp(0), &capacity).unwrap();
    let of = Resources {
        processors: 8,
        others: [("gpus".into(), 4)].into(),
    };
    let span = TimeSpan::new(Timestamp(0), Timestamp(1));
    assert_eq!(
        site.processors_offered(span, &of),
        4,
        "half of the processors go with half of the GPUs"
    );
    let of = Resources {
        processors: 8,
        others: [("memory".into(), 4)].into(),
    };
    assert_eq!(site.processors_offered(span, &of), 0);
}

#[derive(Debug, Clone)]
enum FlexcoStep {
    Local(u8, u32, u64),
    Meta(u32, u64),
    End(usize),
    Pass(u64),
}

fn any_steps() -> impl Strategy<Value = Vec<FlexcoStep>> {
    let event = prop_oneof![
        4 => (0u8..3, 1u32..9, 1u64..60).prop_map(|(s, p, l)| FlexcoStep::Local(s, p, l)),
        2 => (1u32..20, 1u64..60).prop_map(|(p, l)| FlexcoStep::Meta(p, l)),
        4 => any::<usize>().prop_map(FlexcoStep::End),
        3 => (1u64..30).prop_map(FlexcoStep::Pass),
    ];
    prop::collection::vec(event, 1..60)
}

const NAMES: [&str; 3] = ["A", "B", "C"];

/// What is free by the plans of all jobs, from an instant on, is what the timelines say.
fn do_timelines_match_plans(plans: &SitePlans, jobs: &[(JobId, Option<u8>)], now: u64) -> bool {
    (now..now + 400).step_by(7).all(|at| {
        NAMES.iter().all(|name| {
            let name = site(name);
            let free = 8 - jobs
                .iter()
                .map(|(id, local): &(JobId, Option<u8>)| {
                    let is_on = |span: TimeSpan| span.from.0 <= at && at < span.to.0;
                    if local.is_some() {
                        let booking = plans
                            .local_job_plan(&name, *id)
                            .filter(|booking| is_on(booking.span));
                        return booking.map_or(0, |booking| booking.amounts.free_processor_count());
                    }
                    let plan = plans.meta_job_plan(*id).filter(|plan| is_on(plan.span()));
                    plan.map_or(0, |plan| plan.processors_at(&name).into())
                })
                .sum::<i64>();
            let span = TimeSpan::new(Timestamp(at), Timestamp(at + 1));
            let said = plans
                .timeline(&name)
                .unwrap()
                .least_free(span)
                .free_processor_count();
            free >= 0 && free == said
        })
    })
}

proptest! {
    #[test]
    fn no_move_takes_what_another_has_or_makes_anybody_later(events in any_steps()) {
        let mut plans = SitePlans::default();
        NAMES.iter().for_each(|name| plans.add_site(site(name), timeline(8, &[])));
        let mut now: u64 = 0;
        let mut jobs: Vec<(JobId, Option<u8>)> = Vec::new();
        for (number, event) in events.into_iter().enumerate() {
            let id = JobId(number as u64);
            match event {
                FlexcoStep::Pass(time) => now += time,
                FlexcoStep::Local(at, processors, length) => {
                    let need = (&Resources::processors(processors), DurationMs(length));
                    let name = site(NAMES[usize::from(at)]);
                    if plans.submit_local_job(&name, id, need, Timestamp(now)).unwrap().is_some() {
                        jobs.push((id, Some(at)));
                    }
                }
                FlexcoStep::Meta(processors, length) => {
                    let job = meta_job(processors, length, 20, 0);
                    if plans.submit_meta_job(id, job, REMAP, Timestamp(now)).is_some() {
                        jobs.push((id, None));
                    }
                }
                FlexcoStep::End(which) if !jobs.is_empty() => {
                    let before = plans.clone();
                    let (ended, local) = jobs.swap_remove(which % jobs.len());
                    match local {
                        Some(at) => plans.end_local_job(&site(NAMES[usize::from(at)]), ended, Timestamp(now)),
                        None => plans.end_meta_job(ended, Timestamp(now)),
                    };
                    for (id, local) in &jobs {
                        let is_later = match local {
                            Some(at) => {
                                let name = site(NAMES[usize::from(*at)]);
                                plans.local_job_plan(&name, *id).unwrap().span.to > before.local_job_plan(&name, *id).unwrap().span.to
                            }
                            None => plans.meta_job_plan(*id).unwrap().completion > before.meta_job_plan(*id).unwrap().completion,
                        };
                        prop_assert!(!is_later, "{id}");
                    }
                }
                FlexcoStep::End(_) => {}
            }
            prop_assert!(do_timelines_match_plans(&plans, &jobs, now), "after event {number}");
        }
    }
}
