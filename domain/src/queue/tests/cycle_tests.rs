//! The weighted cycle: scans by the clock, and freed capacity by weight.

use super::*;
use Priority::{High, Low, SuperHigh, SuperLow};

fn parameters_with_weights(n_h: u32, n_l: u32, n: [u32; 4]) -> QueueParameters {
    let [n1, n2, n3, n4] = n;
    QueueParameters {
        n_h,
        n_l,
        n1,
        n2,
        n3,
        n4,
        ..parameters_without_events()
    }
}

fn cycle_in_letters(parameters: &QueueParameters) -> String {
    let letter = |class| match class {
        SuperHigh => "SH",
        High => "H",
        Low => "L",
        SuperLow => "SL",
    };
    let all: Vec<&str> = (0..parameters.cycle_length())
        .map(|position| letter(parameters.class_at(position)))
        .collect();
    all.join(" ")
}

/// QS-1 to QS-4.
#[test]
fn one_cycle_scans_each_queue_by_its_weight() {
    assert_eq!(
        cycle_in_letters(&parameters_with_weights(1, 1, [1, 1, 1, 1])),
        "SH H L SL"
    );
    assert_eq!(
        cycle_in_letters(&parameters_with_weights(1, 1, [1, 2, 1, 1])),
        "SH H H L SL"
    );
    assert_eq!(
        cycle_in_letters(&parameters_with_weights(2, 1, [2, 1, 1, 1])),
        "SH SH H SH SH H L SL"
    );
    let long = "SH SH H SH SH H SH SH H L L L SL L L L SL";
    assert_eq!(
        cycle_in_letters(&parameters_with_weights(3, 2, [2, 1, 3, 1])),
        long
    );
}

#[test]
fn a_weight_out_of_range_is_refused_by_name_and_an_odd_one_warned_of() {
    for (setting, position) in [("n1", 0), ("n2", 1), ("n3", 2), ("n4", 3)] {
        let mut n = [1; 4];
        n[position] = 0;
        let error = parameters_with_weights(1, 1, n).validate().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{setting} is 0; it must be from 1 to 1000")
        );
    }
    assert_eq!(
        parameters_with_weights(0, 0, [1; 4])
            .validate()
            .unwrap_err()
            .setting,
        "n_h"
    );
    assert_eq!(
        parameters_with_weights(1, 0, [1; 4])
            .validate()
            .unwrap_err()
            .setting,
        "n_l"
    );
    let error = parameters_with_weights(1, 2, [1; 4])
        .validate()
        .unwrap_err();
    assert_eq!(error.to_string(), "n_h is 1; it must be at least n_l (2)");
    let warnings = parameters_with_weights(1, 1, [1, 2, 1, 1])
        .validate()
        .unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].to_string().starts_with("n2 is 2"),
        "{}",
        warnings[0]
    );
    let never = QueueParameters {
        promote_after: Some(0),
        ..parameters_without_events()
    };
    assert_eq!(
        never.validate().unwrap_err().setting,
        "promote_after",
        "vector PR-6"
    );
}

/// QS-5.
#[test]
fn an_empty_queue_takes_no_turn_and_no_time() {
    let parameters = QueueParameters {
        scan_interval: DurationMs::from_secs(240),
        ..parameters_with_weights(1, 1, [1, 2, 1, 1])
    };
    let mut queues = queues_of(
        parameters,
        [waiting_job(1, High, 99), waiting_job(2, Low, 99)],
    );
    let mut scanned = String::new();
    let mut before = [0, 0];
    for turn in 0..6 {
        run_scan(
            &mut queues,
            ScanTrigger::Interval,
            &grid_with_idle(1),
            seconds(240 * turn),
        );
        let after = [counted_tries(&queues, 1), counted_tries(&queues, 2)];
        scanned += if after[0] > before[0] { "H" } else { "" };
        scanned += if after[1] > before[1] { "L" } else { "" };
        before = after;
    }
    assert_eq!(scanned, "HHLHHL");
}

#[test]
fn scans_with_nobody_to_try_do_nothing() {
    let frozen = WaitingJob {
        frozen: true,
        ..waiting_job(1, SuperHigh, 1)
    };
    let mut queues = queues_of(
        parameters_without_events(),
        [frozen, waiting_job(2, Low, 1)],
    );
    let (placed, _) = run_scan(
        &mut queues,
        ScanTrigger::Interval,
        &grid_with_idle(5),
        seconds(0),
    );
    assert_eq!(placed, [2], "a queue of frozen jobs takes no turn");
    let (placed, report) = run_scan(
        &mut queues,
        ScanTrigger::Interval,
        &grid_with_idle(5),
        seconds(60),
    );
    assert_eq!((placed, report), (vec![], ScanReport::default()));
}

/// Feeds eight processors at a time to queues that never run dry, and counts
/// who gets them.
fn count_placed_by_class(
    parameters: QueueParameters,
    classes: &[Priority],
    events: u64,
) -> Vec<usize> {
    let mut number = 0;
    let mut arrive = |class| {
        number += 1;
        waiting_job(number, class, 8)
    };
    let all: Vec<WaitingJob> = classes
        .iter()
        .flat_map(|&c| [arrive(c), arrive(c)])
        .collect();
    let mut queues = queues_of(parameters, all);
    let mut got = vec![0; classes.len()];
    for event in 0..events {
        let before: Vec<usize> = classes
            .iter()
            .map(|&class| queues.count_waiting(class))
            .collect();
        let (placed, _) = run_scan(
            &mut queues,
            ScanTrigger::Event,
            &grid_with_idle(8),
            seconds(event),
        );
        assert_eq!(placed.len(), 1);
        for (index, &class) in classes.iter().enumerate() {
            if queues.count_waiting(class) < before[index] {
                got[index] += 1;
                queues.insert(arrive(class));
            }
        }
    }
    got
}

#[test]
fn capacity_freed_bit_by_bit_is_shared_by_weight() {
    let with = |n_h, n_l, n| QueueParameters {
        events: true,
        ..parameters_with_weights(n_h, n_l, n)
    };
    let equal = count_placed_by_class(with(1, 1, [1; 4]), &[SuperHigh, High, Low, SuperLow], 320);
    assert_eq!(equal, [80, 80, 80, 80]);
    let weighted = count_placed_by_class(
        with(2, 1, [2, 1, 1, 1]),
        &[SuperHigh, High, Low, SuperLow],
        640,
    );
    assert_eq!(
        weighted,
        [320, 160, 80, 80],
        "four, two, one and one turn in a cycle of eight"
    );
    let two = count_placed_by_class(with(3, 1, [1; 4]), &[High, Low], 320);
    assert_eq!(two, [240, 80]);
}

#[test]
fn capacity_that_a_queue_cannot_use_goes_to_the_next() {
    let parameters = QueueParameters {
        events: true,
        ..parameters_without_events()
    };
    let mut all = vec![waiting_job(1, SuperHigh, 100)];
    all.extend((2..40).map(|job| waiting_job(job, SuperLow, 8)));
    let mut queues = queues_of(parameters, all);
    for event in 0..38 {
        let (placed, _) = run_scan(
            &mut queues,
            ScanTrigger::Event,
            &grid_with_idle(8),
            seconds(event),
        );
        assert_eq!(placed, [event + 2]);
    }
    let (placed, _) = run_scan(
        &mut queues,
        ScanTrigger::Event,
        &grid_with_idle(100),
        seconds(40),
    );
    assert_eq!(placed, [1], "being passed over cost it nothing");
}

#[test]
fn a_queue_that_overdrew_waits_until_the_others_caught_up() {
    let parameters = QueueParameters {
        events: true,
        turn_processors: 8,
        ..parameters_without_events()
    };
    let mut all = vec![waiting_job(1, SuperHigh, 32), waiting_job(2, SuperHigh, 8)];
    all.extend((3..20).map(|job| waiting_job(job, High, 8)));
    let mut queues = queues_of(parameters, all);
    assert_eq!(
        run_scan(
            &mut queues,
            ScanTrigger::Event,
            &grid_with_idle(32),
            seconds(0)
        )
        .0,
        [1]
    );
    let next: Vec<u64> = (1..6)
        .map(|at| {
            run_scan(
                &mut queues,
                ScanTrigger::Event,
                &grid_with_idle(8),
                seconds(at),
            )
            .0[0]
        })
        .collect();
    assert_eq!(
        next,
        [3, 4, 5, 6, 2],
        "32 taken in a turn worth 8: three turns paid back"
    );
}

#[test]
fn the_pointer_lives_across_events() {
    let parameters = QueueParameters {
        events: true,
        turn_processors: 8,
        ..parameters_without_events()
    };
    let all = [
        waiting_job(1, SuperHigh, 8),
        waiting_job(2, SuperHigh, 8),
        waiting_job(3, High, 8),
    ];
    let mut queues = queues_of(parameters, all);
    let order: Vec<u64> = (0..3)
        .map(|at| {
            run_scan(
                &mut queues,
                ScanTrigger::Event,
                &grid_with_idle(8),
                seconds(at),
            )
            .0[0]
        })
        .collect();
    assert_eq!(order, [1, 3, 2]);
}

/// Places one job of eight processors after the other, and says whose they were.
fn place_one_by_one(queues: &mut PlacementQueues, from: u64, count: u64) -> Vec<u64> {
    (from..from + count)
        .map(|at| run_scan(queues, ScanTrigger::Event, &grid_with_idle(8), seconds(at)).0[0])
        .collect()
}

#[test]
fn capacity_that_nobody_else_wanted_leaves_no_debt() {
    let parameters = QueueParameters {
        events: true,
        turn_processors: 8,
        ..parameters_without_events()
    };
    let alone = [waiting_job(1, SuperHigh, 32), waiting_job(2, SuperHigh, 8)];
    let mut queues = queues_of(parameters, alone);
    assert_eq!(
        run_scan(
            &mut queues,
            ScanTrigger::Event,
            &grid_with_idle(32),
            seconds(0)
        )
        .0,
        [1]
    );
    assert_eq!(place_one_by_one(&mut queues, 1, 1), [2]);
    for job in 0..2 {
        queues.insert(waiting_job(10 + job, SuperHigh, 8));
        queues.insert(waiting_job(20 + job, High, 8));
    }
    assert_eq!(place_one_by_one(&mut queues, 2, 4), [20, 10, 21, 11]);
}

#[test]
fn what_is_left_of_a_turn_is_lost_with_it() {
    let parameters = QueueParameters {
        events: true,
        turn_processors: 16,
        ..parameters_without_events()
    };
    let all = [
        waiting_job(1, SuperHigh, 8),
        waiting_job(2, High, 8),
        waiting_job(3, High, 8),
    ];
    let mut queues = queues_of(parameters, all);
    assert_eq!(place_one_by_one(&mut queues, 0, 3), [1, 2, 3]);
    for job in 0..3 {
        queues.insert(waiting_job(10 + job, SuperHigh, 8));
        queues.insert(waiting_job(20 + job, High, 8));
    }
    assert_eq!(place_one_by_one(&mut queues, 5, 4), [10, 11, 20, 21]);
}
