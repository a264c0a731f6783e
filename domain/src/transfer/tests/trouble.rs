//! Tries that fail.

use std::collections::BTreeSet;

use super::*;
use crate::transfer::copy_state::MAX_LEFTOVERS;

fn excluded_sites(bench: &CopyTestBench) -> Vec<String> {
    bench
        .record
        .trouble
        .excluded
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_bad_source_is_left_at_once_for_another_replica() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    assert_eq!(bench.fail_try(1, TryFaultSide::Source), ["TryFailed"]);
    let without: BTreeSet<_> = [try_source("leiden").site].into();
    let choose = CopyEffect::ChooseSource {
        excluded: without,
        resume: None,
    };
    assert_eq!(
        bench.due(),
        [choose, CopyEffect::DiscardPartial(copy_try("leiden", 1))]
    );
    assert_eq!(
        bench.begin_try("leiden", 2),
        Err(CopyRejection::ExcludedSource)
    );
    bench.begin_try("utrecht", 2).unwrap();
    assert_eq!(bench.record.trouble.last_error.as_deref(), Some("it broke"));
}

#[test]
fn a_killed_process_is_tried_again_after_a_while_and_goes_on_where_it_was() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    bench.fail_try(1, TryFaultSide::Process);
    assert!(bench.due().is_empty());
    assert_eq!(bench.begin_try("leiden", 2), Err(CopyRejection::TooEarly));
    bench.wait_for_wake();
    let resume = Some(copy_try("leiden", 1));
    assert_eq!(
        bench.due(),
        [CopyEffect::ChooseSource {
            excluded: BTreeSet::new(),
            resume
        }]
    );
    bench.begin_try("leiden", 2).unwrap();
    assert_eq!(bench.due(), [CopyEffect::StartCopy(copy_try("leiden", 1))]);
}

#[test]
fn data_of_a_try_that_is_not_resumed_is_discarded() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    bench.fail_try(1, TryFaultSide::Process);
    bench.wait_for_wake();
    assert_eq!(
        bench.begin_try("utrecht", 1),
        Err(CopyRejection::NonceInUse)
    );
    bench.begin_try("utrecht", 2).unwrap();
    let start = CopyEffect::StartCopy(copy_try("utrecht", 2));
    assert_eq!(
        bench.due(),
        [start, CopyEffect::DiscardPartial(copy_try("leiden", 1))]
    );
    let discarded = CopyCommand::DiscardConfirmed { nonce: TryNonce(1) };
    assert_eq!(bench.event_names(discarded.clone()), ["PartialDiscarded"]);
    assert!(bench.event_names(discarded).is_empty(), "told again");
}

#[test]
fn failures_that_nobody_can_explain_are_laid_on_the_source_in_the_end() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    for _ in 0..2 {
        bench.fail_try(1, TryFaultSide::Process);
        assert!(excluded_sites(&bench).is_empty());
        bench.wait_for_wake();
        bench.begin_try("leiden", 9).unwrap();
        bench.apply_start_answer(1, CopyStartAnswer::Taken);
    }
    bench.fail_try(1, TryFaultSide::Process);
    assert_eq!(excluded_sites(&bench), ["leiden"]);
}

#[test]
fn a_full_destination_is_tried_a_few_times_and_then_the_jobs_are_told() {
    let mut bench = CopyTestBench::new();
    bench.event_names(CopyCommand::Need);
    for nonce in 1..=3 {
        assert_eq!(bench.record.loss_reason(), None);
        bench.begin_try("leiden", nonce).unwrap();
        bench.apply_start_answer(nonce, CopyStartAnswer::Taken);
        bench.fail_try(nonce, TryFaultSide::Destination);
        bench.event_names(CopyCommand::DiscardConfirmed {
            nonce: TryNonce(nonce),
        });
        if nonce < 3 {
            bench.wait_for_wake();
        }
    }
    assert_eq!(
        bench
            .record
            .loss_reason()
            .map(|lost| lost.detail)
            .as_deref(),
        Some("it broke")
    );
    assert_eq!(bench.record.phase.as_str(), "failed");
    bench.wait_for_wake();
    bench.begin_try("leiden", 4).unwrap();
    assert_eq!(
        bench.record.loss_reason(),
        None,
        "tried again for those who still need it"
    );
    bench.apply_start_answer(4, CopyStartAnswer::Taken);
    bench.fail_try(4, TryFaultSide::Destination);
    assert_eq!(
        bench.record.loss_reason(),
        None,
        "and given as many tries as before"
    );
}

#[test]
fn when_all_sources_failed_the_jobs_are_told_and_all_are_tried_later() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    bench.fail_try(1, TryFaultSide::Source);
    let none = CopyCommand::NoSource {
        hopeless: true,
        detail: "leiden: it broke".into(),
    };
    assert_eq!(bench.event_names(none), ["SourceMissing"]);
    let lost = bench.record.loss_reason().expect("given up");
    assert_eq!(
        (&*lost.detail, lost.at_destination),
        ("leiden: it broke", false)
    );
    assert!(excluded_sites(&bench).is_empty());
    bench.wait_for_wake();
    bench.begin_try("leiden", 2).unwrap();
}

#[test]
fn sources_that_do_not_answer_now_are_waited_for_without_alarm() {
    let mut bench = CopyTestBench::new();
    bench.event_names(CopyCommand::Need);
    let none = CopyCommand::NoSource {
        hopeless: false,
        detail: "leiden is away".into(),
    };
    assert_eq!(bench.event_names(none.clone()), ["SourceMissing"]);
    assert_eq!(bench.record.loss_reason(), None);
    assert_eq!(bench.apply_command(none), Err(CopyRejection::TooEarly));
    bench.wait_for_wake();
    assert!(matches!(
        &bench.due()[..],
        [CopyEffect::ChooseSource { .. }]
    ));
}

#[test]
fn a_copy_that_stands_still_is_stopped_and_goes_on_after_a_while() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    let unchanged_for = bench.parameters.stall_timeout;
    let almost = CopySighting::Running {
        unchanged_for: DurationMs(unchanged_for.0 - 1),
    };
    assert!(bench.apply_sighting(1, almost).is_empty());
    assert_eq!(
        bench.apply_sighting(1, CopySighting::Running { unchanged_for }),
        ["CopyStalled"]
    );
    assert_eq!(bench.due(), [CopyEffect::StopCopy(copy_try("leiden", 1))]);
    bench.event_names(CopyCommand::StopConfirmed { nonce: TryNonce(1) });
    bench.wait_for_wake();
    bench.begin_try("leiden", 2).unwrap();
    assert_eq!(bench.record.current_try(), Some(&copy_try("leiden", 1)));
    assert_eq!(
        bench.record.trouble.last_error.as_deref(),
        Some("nothing arrived for 2m00s")
    );
}

#[test]
fn a_copy_that_stands_still_again_and_again_is_taken_from_elsewhere() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    let unchanged_for = bench.parameters.stall_timeout;
    for _ in 0..2 {
        bench.apply_sighting(1, CopySighting::Running { unchanged_for });
        bench.event_names(CopyCommand::StopConfirmed { nonce: TryNonce(1) });
        bench.wait_for_wake();
        bench.begin_try("leiden", 2).unwrap();
        bench.apply_start_answer(1, CopyStartAnswer::Taken);
    }
    assert_eq!(
        bench.apply_sighting(1, CopySighting::Running { unchanged_for }),
        ["TryFailed"]
    );
    assert_eq!(excluded_sites(&bench), ["leiden"]);
    bench.begin_try("utrecht", 3).unwrap();
}

#[test]
fn an_order_whose_answer_is_lost_is_watched_and_found_out() {
    let mut bench = CopyTestBench::new();
    bench.event_names(CopyCommand::Need);
    bench.begin_try("leiden", 1).unwrap();
    assert!(
        bench.apply_sighting(1, CopySighting::Absent).is_empty(),
        "may have been asked before the order"
    );
    assert_eq!(
        bench.apply_start_answer(1, CopyStartAnswer::Unknown),
        ["CopyStarted"]
    );
    assert_eq!(bench.apply_sighting(1, CopySighting::Absent), ["TryFailed"]);
}

#[test]
fn a_destination_that_refuses_is_asked_a_few_times_then_jobs_are_told() {
    let mut bench = CopyTestBench::new();
    bench.event_names(CopyCommand::Need);
    bench.begin_try("leiden", 1).unwrap();
    let full = || CopyStartAnswer::Refused("No space left on device".into());
    assert_eq!(bench.apply_start_answer(1, full()), ["TryFailed"]);
    for nonce in 2..=3 {
        assert_eq!(bench.record.loss_reason(), None);
        bench.wait_for_wake();
        bench.begin_try("leiden", nonce).unwrap();
        assert_eq!(bench.apply_start_answer(nonce, full()), ["TryFailed"]);
    }
    let lost = bench.record.loss_reason().expect("given up");
    assert_eq!(
        (&*lost.detail, lost.at_destination),
        ("No space left on device", true)
    );
}

#[test]
fn what_is_said_of_an_earlier_try_does_not_touch_the_present_one() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    bench.fail_try(1, TryFaultSide::Source);
    bench.begin_try("utrecht", 2).unwrap();
    let before = bench.record.clone();
    for seen in [CopySighting::Absent, CopySighting::Complete] {
        let late = CopyCommand::Observed {
            nonce: TryNonce(1),
            seen,
        };
        assert_eq!(bench.apply_command(late), Err(CopyRejection::Stale));
    }
    let late = CopyCommand::StartAnswered {
        nonce: TryNonce(1),
        answer: CopyStartAnswer::Taken,
    };
    assert_eq!(bench.apply_command(late), Err(CopyRejection::Stale));
    assert_eq!(bench.record, before);
}

#[test]
fn a_site_that_cannot_be_tidied_gets_no_more_tries_for_now() {
    let mut bench = CopyTestBench::new();
    bench.parameters.max_destination_tries = u32::MAX;
    bench.event_names(CopyCommand::Need);
    let most = MAX_LEFTOVERS as u64;
    for nonce in 0..most {
        bench.begin_try("leiden", nonce).unwrap();
        bench.apply_start_answer(nonce, CopyStartAnswer::Taken);
        bench.fail_try(nonce, TryFaultSide::Destination);
        bench.wait_for_wake();
    }
    assert_eq!(
        bench.begin_try("leiden", most),
        Err(CopyRejection::TooManyLeftovers)
    );
    assert!(
        bench
            .due()
            .iter()
            .all(|e| matches!(e, CopyEffect::DiscardPartial(_)))
    );
    bench.event_names(CopyCommand::DiscardConfirmed { nonce: TryNonce(0) });
    bench.begin_try("leiden", most).unwrap();
}
