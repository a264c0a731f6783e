//! Scans: who is tried, in which order, and in slices.

use super::*;
use crate::bid::BidRefusal;
use crate::placement::testing::{site_with_resources, with_policy};
use crate::placement::{AnnouncedNeed, BidRoundBasis, SiteProperties};
use crate::resources::Resources;
use Priority::{High, Low};

/// QS-6.
#[test]
fn a_scan_tries_everyone() {
    let all = [(1, 20), (2, 5), (3, 20), (4, 5)].map(|(job, size)| waiting_job(job, High, size));
    let mut queues = queues_of(parameters_without_events(), all);
    let (placed, report) = run_scan(
        &mut queues,
        ScanTrigger::Interval,
        &grid_with_idle(10),
        seconds(100),
    );
    assert_eq!(placed, [2, 4]);
    assert_eq!(jobs_of_class(&queues, High), [1, 3]);
    assert_eq!(
        (counted_tries(&queues, 1), counted_tries(&queues, 3)),
        (1, 1)
    );
    assert_eq!(
        (report.placed, report.shapes_refused, report.tries_counted),
        (2, 1, 2)
    );
}

/// QS-7.
#[test]
fn a_scan_does_not_try_who_arrived_after_it_began() {
    let all = [(1, 20), (2, 5), (3, 20), (4, 5)].map(|(job, size)| waiting_job(job, High, size));
    let mut queues = queues_of(parameters_without_events(), all);
    let mut scan = queues.begin_scan(ScanTrigger::Interval, grid_with_idle(40), seconds(100));
    let mut placed = Vec::new();
    loop {
        match queues.step_scan(&mut scan, &mut ScanSliceBudget(u32::MAX)) {
            ScanStep::Placed(offer) => {
                placed.push(offer.job.0);
                queues.insert(waiting_job(5, High, 5));
            }
            ScanStep::Yield => panic!("the budget is endless"),
            ScanStep::Announce(..) => panic!("no rounds are asked for"),
            ScanStep::Done(_) => break,
        }
    }
    assert_eq!(placed, [1, 2, 4]);
    placed.into_iter().for_each(|job| queues.remove(JobId(job)));
    assert_eq!(jobs_of_class(&queues, High), [3, 5]);
    assert_eq!(
        (counted_tries(&queues, 3), counted_tries(&queues, 5)),
        (1, 0)
    );
}

#[test]
fn a_shape_that_does_not_fit_is_tried_once_for_all_its_jobs() {
    let all = (0..1_000).map(|job| waiting_job(job, High, 11 + (job % 3) as u32));
    let mut queues = queues_of(parameters_without_events(), all);
    assert_eq!(queues.shape_count(), 3);
    let (placed, report) = run_scan(
        &mut queues,
        ScanTrigger::Interval,
        &grid_with_idle(10),
        seconds(5_000),
    );
    assert_eq!(placed, []);
    assert_eq!((report.shapes_refused, report.tries_counted), (3, 1_000));
    let standing = queues.standing_of(JobId(999)).unwrap();
    assert_eq!((standing.ahead, standing.tries), (999, 1));
    assert!(standing.refusal.unwrap().to_string().contains("1 missing"));
}

#[test]
fn a_shape_refused_in_one_queue_is_not_tried_in_another() {
    let all = Priority::ALL
        .into_iter()
        .zip(1..)
        .map(|(class, job)| waiting_job(job, class, 50));
    let mut queues = queues_of(QueueParameters::default(), all);
    let (_, report) = run_scan(
        &mut queues,
        ScanTrigger::Event,
        &grid_with_idle(10),
        seconds(10),
    );
    assert_eq!(report.shapes_refused, 1);
}

#[test]
fn a_slice_stops_at_its_budget_and_slices_add_up_to_the_whole() {
    let all = || (0..500).map(|job| waiting_job(job, High, 1 + (job % 7) as u32));
    let whole = {
        let mut queues = queues_of(parameters_without_events(), all());
        run_scan(
            &mut queues,
            ScanTrigger::Interval,
            &grid_with_idle(300),
            seconds(1_000),
        )
    };
    for budget in [1, 7, 100] {
        let mut queues = queues_of(parameters_without_events(), all());
        let mut scan =
            queues.begin_scan(ScanTrigger::Interval, grid_with_idle(300), seconds(1_000));
        let mut placed = Vec::new();
        let mut slices = 0;
        let mut left = ScanSliceBudget(budget);
        let report = loop {
            match queues.step_scan(&mut scan, &mut left) {
                ScanStep::Placed(offer) => placed.push(offer.job.0),
                ScanStep::Yield => (slices, left) = (slices + 1, ScanSliceBudget(budget)),
                ScanStep::Announce(..) => panic!("no rounds are asked for"),
                ScanStep::Done(report) => break report,
            }
        };
        assert_eq!((placed, report), whole, "budget {budget}");
        assert!(slices >= 500 / budget, "{slices} slices of {budget}");
    }
}

#[test]
fn an_event_places_from_every_queue_and_counts_no_try() {
    let parameters = QueueParameters::default();
    let all = [
        waiting_job(1, Low, 5),
        waiting_job(2, High, 50),
        waiting_job(3, High, 5),
    ];
    let mut queues = queues_of(parameters, all);
    let (placed, report) = run_scan(
        &mut queues,
        ScanTrigger::Event,
        &grid_with_idle(10),
        seconds(10),
    );
    assert_eq!(placed, [3, 1]);
    assert_eq!((counted_tries(&queues, 2), report.tries_counted), (0, 0));
}

#[test]
fn with_events_a_scan_by_the_clock_goes_on_to_everyone_else() {
    let all = [
        waiting_job(1, Low, 5),
        waiting_job(2, High, 50),
        waiting_job(3, High, 5),
    ];
    let mut queues = queues_of(QueueParameters::default(), all);
    let (placed, report) = run_scan(
        &mut queues,
        ScanTrigger::Interval,
        &grid_with_idle(10),
        seconds(10),
    );
    assert_eq!((placed, report.tries_counted), (vec![3, 1], 1));
}

#[test]
fn with_events_off_an_event_does_nothing() {
    let mut queues = queues_of(parameters_without_events(), [waiting_job(1, Low, 5)]);
    assert_eq!(
        run_scan(
            &mut queues,
            ScanTrigger::Event,
            &grid_with_idle(10),
            seconds(10)
        )
        .0,
        []
    );
}

#[test]
fn jobs_are_tried_from_head_to_tail_and_by_number_if_entered_together() {
    let together = |job| WaitingJob {
        entered: seconds(7),
        ..waiting_job(job, High, 1)
    };
    let all = [
        together(9),
        together(8),
        waiting_job(3, High, 1),
        waiting_job(10, High, 2),
    ];
    let mut queues = queues_of(parameters_without_events(), all);
    let (placed, _) = run_scan(
        &mut queues,
        ScanTrigger::Interval,
        &grid_with_idle(100),
        seconds(100),
    );
    assert_eq!(placed, [3, 8, 9, 10]);
}

#[test]
fn an_offer_takes_its_processors_from_the_rest_of_the_scan() {
    let all = (0..5).map(|job| waiting_job(job, High, 4));
    let mut queues = queues_of(QueueParameters::default(), all);
    let mut scan = queues.begin_scan(ScanTrigger::Event, grid_with_idle(10), seconds(10));
    let budget = &mut ScanSliceBudget(u32::MAX);
    assert!(matches!(
        queues.step_scan(&mut scan, budget),
        ScanStep::Placed(_)
    ));
    assert_eq!(scan.remaining().processors(), [6]);
    assert_eq!(scan.job_in_trial(), None);
    assert!(matches!(
        queues.step_scan(&mut scan, budget),
        ScanStep::Placed(_)
    ));
    assert!(matches!(
        queues.step_scan(&mut scan, budget),
        ScanStep::Done(_)
    ));
    assert_eq!(
        scan.grid().usable_by_site()[0].processors,
        10,
        "the snapshot is as it was"
    );
}

/// A waiting job for which sites bid.
fn waiting_job_with_bids(job: u64, size: u32) -> WaitingJob {
    waiting_job_for(job, High, with_policy("mrs", &request_of_sizes(&[size])))
}

#[test]
fn a_scan_that_announces_a_job_goes_on_with_what_its_round_leaves() {
    let mut queues = queues_of(
        parameters_without_events(),
        [
            waiting_job_with_bids(1, 6),
            waiting_job(2, High, 6),
            waiting_job_with_bids(3, 2),
        ],
    );
    let budget = &mut ScanSliceBudget(u32::MAX);
    let mut scan = queues
        .begin_scan(ScanTrigger::Interval, grid_with_idle(10), seconds(100))
        .with_bid_rounds();
    let ScanStep::Announce(job, request) = queues.step_scan(&mut scan, budget) else {
        panic!()
    };
    assert_eq!(
        (job, request.components()[0].resources.processors),
        (JobId(1), 6)
    );
    assert_eq!(
        scan.remaining().processors(),
        [10],
        "nothing is taken before the sites have bid"
    );
    let ground = BidRoundBasis::new(&request, scan.shared_grid());
    let asked = AnnouncedNeed::new(request);
    let free = scan.remaining().processors()[0];
    let answers = [asked.answer_for_site(&ground, 0, &Resources::processors(free))];
    scan.record_round_outcome(
        job,
        asked.place_by_answers(&ground, &answers, scan.remaining()),
    );
    let ScanStep::Placed(offer) = queues.step_scan(&mut scan, budget) else {
        panic!()
    };
    assert_eq!(
        (offer.job, scan.remaining().processors()),
        (JobId(1), &[4][..])
    );
    // The second has no room left; of the third nobody gives enough.
    let ScanStep::Announce(job, request) = queues.step_scan(&mut scan, budget) else {
        panic!()
    };
    assert_eq!(job, JobId(3));
    let nobody = [Err(BidRefusal::Silent)];
    let asked = AnnouncedNeed::new(request);
    scan.record_round_outcome(
        job,
        asked.place_by_answers(&ground, &nobody, scan.remaining()),
    );
    let ScanStep::Done(report) = queues.step_scan(&mut scan, budget) else {
        panic!()
    };
    assert_eq!((report.placed, report.shapes_refused), (1, 2));
}

#[test]
fn a_job_waits_in_the_queue_of_a_site_only_when_no_bids_cover_it() {
    let mut busy = site_with_resources("A", Resources::processors(64), Resources::processors(8));
    let shape = SiteProperties::clone(busy.shape.as_ref().unwrap());
    busy.shape = Some(Arc::new(SiteProperties {
        queues: true,
        ..shape
    }));
    let mut queues = queues_of(parameters_without_events(), [waiting_job_with_bids(1, 9)]);
    let grid = Arc::new(grid([busy]));
    let budget = &mut ScanSliceBudget(u32::MAX);
    let mut scan = queues
        .begin_scan(ScanTrigger::Interval, grid, seconds(100))
        .with_bid_rounds();
    let ScanStep::Announce(job, request) = queues.step_scan(&mut scan, budget) else {
        panic!()
    };
    assert_eq!(
        scan.foresee_plan(job, &request),
        None,
        "nothing that is idle"
    );
    let ground = BidRoundBasis::new(&request, scan.shared_grid());
    let asked = AnnouncedNeed::new(request);
    let answers = [asked.answer_for_site(&ground, 0, &Resources::processors(8))];
    scan.record_round_outcome(
        job,
        asked.place_by_answers(&ground, &answers, scan.remaining()),
    );
    let ScanStep::Placed(offer) = queues.step_scan(&mut scan, budget) else {
        panic!()
    };
    assert!(offer.plan.placements[0].acquisition.waits_in_site_queue());
}

/// Two jobs are announced in one scan, and the second is tried after the first got nothing.
/// Processors that are free when the scan begins, and when each of them is announced.
fn is_second_job_placed(begun: u32, free: [u32; 2]) -> bool {
    let mut queues = queues_of(
        parameters_without_events(),
        [waiting_job_with_bids(1, 9), waiting_job_with_bids(2, 8)],
    );
    let mut scan = queues
        .begin_scan(ScanTrigger::Interval, grid_with_idle(begun), seconds(100))
        .with_bid_rounds();
    let mut last = true;
    for free in free {
        let step = queues.step_scan(&mut scan, &mut ScanSliceBudget(u32::MAX));
        let ScanStep::Announce(job, request) = step else {
            panic!()
        };
        let ground = BidRoundBasis::new(&request, scan.shared_grid());
        let asked = AnnouncedNeed::new(request);
        let answers = [asked.answer_for_site(&ground, 0, &Resources::processors(free))];
        let decided = asked.place_by_answers(&ground, &answers, scan.remaining());
        last = decided.is_ok();
        if !last {
            scan.learn_from_bids(&asked, &answers);
        }
        scan.record_round_outcome(job, decided);
    }
    last
}

#[test]
fn what_comes_free_during_a_scan_is_for_who_is_tried_first() {
    assert!(is_second_job_placed(8, [8, 8]));
    assert!(
        !is_second_job_placed(7, [7, 10]),
        "it came free after the first was tried"
    );
    assert!(
        !is_second_job_placed(10, [5, 10]),
        "it was gone when the first was tried"
    );
}

#[test]
fn what_is_foreseen_for_a_job_takes_nothing_until_it_is_kept_for_it() {
    let mut queues = queues_of(parameters_without_events(), [waiting_job_with_bids(1, 9)]);
    let mut scan = queues
        .begin_scan(ScanTrigger::Interval, grid_with_idle(10), seconds(100))
        .with_bid_rounds();
    let step = queues.step_scan(&mut scan, &mut ScanSliceBudget(u32::MAX));
    let ScanStep::Announce(job, request) = step else {
        panic!()
    };
    let plan = scan.foresee_plan(job, &request).unwrap();
    assert_eq!(
        (scan.remaining().processors(), scan.job_in_trial()),
        (&[10][..], None)
    );
    scan.take_plan(&request, &plan);
    assert_eq!(scan.remaining().processors(), [1]);
    assert_eq!(scan.foresee_plan(job, &request), None);
}
