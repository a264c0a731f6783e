//! A copy's way from need to deletion.

use super::*;

#[test]
fn a_copy_that_is_needed_is_chosen_ordered_watched_and_ready() {
    let mut bench = CopyTestBench::new();
    assert!(bench.record.is_gone());
    assert_eq!(bench.event_names(CopyCommand::Need), ["CopyNeeded"]);
    assert!(matches!(
        &bench.due()[..],
        [CopyEffect::ChooseSource { .. }]
    ));
    bench.begin_try("leiden", 1).unwrap();
    assert_eq!(bench.due(), [CopyEffect::StartCopy(copy_try("leiden", 1))]);
    assert_eq!(
        bench.apply_start_answer(1, CopyStartAnswer::Taken),
        ["CopyStarted"]
    );
    assert_eq!(bench.due(), [CopyEffect::WatchCopy(copy_try("leiden", 1))]);
    assert!(
        bench
            .apply_sighting(
                1,
                CopySighting::Running {
                    unchanged_for: DurationMs::ZERO
                }
            )
            .is_empty()
    );
    assert_eq!(
        bench.apply_sighting(1, CopySighting::Complete),
        ["CopyCompleted"]
    );
    assert!(bench.record.is_ready());
    assert_eq!((bench.due(), bench.next_wake()), (Vec::new(), None));
}

#[test]
fn progress_is_not_written() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    let before = bench.record.clone();
    (0..100).for_each(|_| {
        assert!(
            bench
                .apply_sighting(
                    1,
                    CopySighting::Running {
                        unchanged_for: DurationMs(10)
                    }
                )
                .is_empty()
        );
    });
    assert_eq!(bench.record, before);
}

#[test]
fn a_copy_nobody_needs_is_deleted_and_forgotten_once_that_is_confirmed() {
    let mut bench = CopyTestBench::new_ready(1);
    assert_eq!(
        bench.event_names(CopyCommand::NoLongerNeeded),
        ["CopyReleased"]
    );
    assert!(bench.due().is_empty());
    assert_eq!(
        bench.next_wake(),
        Some(bench.now + bench.parameters.ready_keep)
    );
    bench.wait_for_wake();
    assert_eq!(bench.due(), [CopyEffect::Look]);
    assert_eq!(bench.event_names(CopyCommand::Look), ["DeletionDecided"]);
    assert_eq!(
        bench.due(),
        [CopyEffect::DiscardPartial(copy_try("leiden", 1))],
        "first all tries"
    );
    bench.event_names(CopyCommand::DiscardConfirmed { nonce: TryNonce(1) });
    let digest = bench.record.content.digest;
    assert_eq!(
        bench.due(),
        [CopyEffect::DeleteContent {
            digest,
            nonce: TryNonce(1)
        }]
    );
    assert!(!bench.record.is_gone());
    assert_eq!(
        bench.event_names(CopyCommand::DeleteConfirmed { nonce: TryNonce(1) }),
        ["CopyDeleted"]
    );
    assert!(bench.record.is_gone());
}

#[test]
fn a_copy_that_is_needed_again_in_time_is_kept() {
    let mut bench = CopyTestBench::new_ready(1);
    bench.event_names(CopyCommand::NoLongerNeeded);
    bench.wait_secs(59);
    assert_eq!(bench.event_names(CopyCommand::Need), ["CopyNeeded"]);
    bench.wait_secs(1_000_000);
    assert!(bench.event_names(CopyCommand::Look).is_empty());
    assert!(bench.record.is_ready());
}

/// Decided, and not yet carried out, when somebody comes to need it.
fn with_overtaken_deletion() -> CopyTestBench {
    let mut bench = CopyTestBench::new_ready(1);
    bench.event_names(CopyCommand::NoLongerNeeded);
    bench.wait_for_wake();
    bench.event_names(CopyCommand::Look);
    assert_eq!(bench.event_names(CopyCommand::Need), ["CopyNeeded"]);
    assert!(
        !bench.record.is_ready(),
        "what is being deleted must not be read"
    );
    bench.event_names(CopyCommand::DiscardConfirmed { nonce: TryNonce(1) });
    assert_eq!(
        bench.due(),
        [CopyEffect::CheckContent(TryNonce(1))],
        "it may be gone already"
    );
    assert_eq!(bench.begin_try("leiden", 2), Err(CopyRejection::Stale));
    bench
}

#[test]
fn a_need_that_overtakes_a_deletion_keeps_what_is_still_there() {
    let mut bench = with_overtaken_deletion();
    assert_eq!(
        bench.event_names(CopyCommand::FoundThere { nonce: TryNonce(1) }),
        ["DeletionRevoked"]
    );
    assert!(bench.record.is_ready());
}

#[test]
fn a_need_during_deletion_waits_and_then_starts_anew() {
    for gone in [
        CopyCommand::DeleteConfirmed { nonce: TryNonce(1) },
        CopyCommand::FoundMissing { nonce: TryNonce(1) },
    ] {
        let mut bench = with_overtaken_deletion();
        bench.event_names(gone);
        assert!(!bench.record.is_gone());
        bench.begin_try("leiden", 2).unwrap();
    }
}

#[test]
fn what_is_not_there_is_not_gone_while_a_try_may_still_bring_it() {
    let mut bench = CopyTestBench::new_ready(1);
    bench.event_names(CopyCommand::NoLongerNeeded);
    bench.wait_for_wake();
    bench.event_names(CopyCommand::Look);
    bench.event_names(CopyCommand::Need);
    assert_eq!(
        bench.due().iter().map(CopyEffect::name).collect::<Vec<_>>(),
        ["DiscardPartial"]
    );
    let missing = CopyCommand::FoundMissing { nonce: TryNonce(1) };
    assert!(
        bench.event_names(missing.clone()).is_empty(),
        "said before the try was stopped"
    );
    bench.event_names(CopyCommand::NoLongerNeeded);
    bench.event_names(CopyCommand::DiscardConfirmed { nonce: TryNonce(1) });
    assert!(!bench.record.is_gone());
    assert_eq!(bench.event_names(missing), ["CopyDeleted"]);
    assert!(bench.record.is_gone());
}

#[test]
fn the_confirmation_of_an_earlier_deletion_does_not_confirm_a_later_one() {
    let mut bench = CopyTestBench::new_ready(1);
    let delete = |bench: &mut CopyTestBench| {
        bench.event_names(CopyCommand::NoLongerNeeded);
        bench.wait_for_wake();
        bench.event_names(CopyCommand::Look);
    };
    delete(&mut bench);
    bench.event_names(CopyCommand::Need);
    bench.event_names(CopyCommand::DiscardConfirmed { nonce: TryNonce(1) });
    bench.event_names(CopyCommand::DeleteConfirmed { nonce: TryNonce(1) });
    bench.begin_try("leiden", 2).unwrap();
    bench.apply_sighting(2, CopySighting::Complete);
    delete(&mut bench);
    let late = bench.apply_command(CopyCommand::DeleteConfirmed { nonce: TryNonce(1) });
    assert_eq!(late, Err(CopyRejection::Stale));
    assert!(matches!(bench.record.phase, CopyPhase::Deleting { .. }));
}

#[test]
fn a_need_that_goes_before_the_first_try_leaves_nothing_behind() {
    let mut bench = CopyTestBench::new();
    bench.event_names(CopyCommand::Need);
    bench.event_names(CopyCommand::NoLongerNeeded);
    assert_eq!(bench.due(), [CopyEffect::Look]);
    bench.event_names(CopyCommand::Look);
    assert!(bench.record.is_gone());
}

#[test]
fn a_transfer_that_nobody_needs_is_stopped_and_its_data_kept_for_a_while() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    bench.event_names(CopyCommand::NoLongerNeeded);
    bench.wait_for_wake();
    assert_eq!(bench.event_names(CopyCommand::Look), ["StopDecided"]);
    assert_eq!(bench.due(), [CopyEffect::StopCopy(copy_try("leiden", 1))]);
    assert_eq!(
        bench.event_names(CopyCommand::StopConfirmed { nonce: TryNonce(1) }),
        ["CopyStopped"]
    );
    assert!(bench.due().is_empty());
    bench.wait_for_wake();
    assert_eq!(bench.event_names(CopyCommand::Look), ["CopyAbandoned"]);
    assert_eq!(
        bench.due(),
        [CopyEffect::DiscardPartial(copy_try("leiden", 1))]
    );
    bench.event_names(CopyCommand::DiscardConfirmed { nonce: TryNonce(1) });
    assert!(matches!(
        &bench.due()[..],
        [CopyEffect::DeleteContent { .. }]
    ));
    bench.event_names(CopyCommand::DeleteConfirmed { nonce: TryNonce(1) });
    assert!(bench.record.is_gone());
}

#[test]
fn a_stopped_transfer_that_is_needed_again_goes_on_where_it_was() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    bench.event_names(CopyCommand::NoLongerNeeded);
    bench.wait_for_wake();
    bench.event_names(CopyCommand::Look);
    bench.event_names(CopyCommand::Need);
    assert_eq!(
        bench.due(),
        [CopyEffect::StopCopy(copy_try("leiden", 1))],
        "first it must stop"
    );
    bench.event_names(CopyCommand::StopConfirmed { nonce: TryNonce(1) });
    bench.begin_try("leiden", 2).unwrap();
    assert_eq!(bench.due(), [CopyEffect::StartCopy(copy_try("leiden", 1))]);
}

#[test]
fn a_transfer_that_completes_before_it_is_stopped_counts() {
    let mut bench = CopyTestBench::new_copying("leiden", 1);
    bench.event_names(CopyCommand::NoLongerNeeded);
    bench.wait_for_wake();
    bench.event_names(CopyCommand::Look);
    assert_eq!(
        bench.apply_sighting(1, CopySighting::Complete),
        ["CopyCompleted"]
    );
    assert_eq!(
        bench.apply_command(CopyCommand::StopConfirmed { nonce: TryNonce(1) }),
        Err(CopyRejection::Stale)
    );
    assert!(bench.record.is_ready());
}

#[test]
fn content_that_the_site_lost_is_copied_again_if_needed() {
    let mut bench = CopyTestBench::new_ready(1);
    let lost = CopyCommand::FoundMissing { nonce: TryNonce(1) };
    assert_eq!(bench.event_names(lost.clone()), ["CopyLost"]);
    assert!(matches!(
        &bench.due()[..],
        [
            CopyEffect::ChooseSource { .. },
            CopyEffect::DiscardPartial(_)
        ]
    ));
    assert_eq!(bench.apply_command(lost), Err(CopyRejection::Stale));
}

#[test]
fn what_is_told_twice_happens_once() {
    let mut bench = CopyTestBench::new_ready(1);
    assert!(bench.event_names(CopyCommand::Need).is_empty());
    assert!(bench.apply_sighting(1, CopySighting::Complete).is_empty());
    bench.event_names(CopyCommand::NoLongerNeeded);
    assert!(bench.event_names(CopyCommand::NoLongerNeeded).is_empty());
}

#[test]
fn a_look_before_the_time_has_come_changes_nothing() {
    let mut stopped = CopyTestBench::new_copying("leiden", 1);
    stopped.event_names(CopyCommand::NoLongerNeeded);
    stopped.wait_for_wake();
    stopped.event_names(CopyCommand::Look);
    stopped.event_names(CopyCommand::StopConfirmed { nonce: TryNonce(1) });
    for mut bench in [
        CopyTestBench::new_ready(1),
        CopyTestBench::new_copying("leiden", 1),
        stopped,
    ] {
        bench.apply_command(CopyCommand::NoLongerNeeded).unwrap();
        bench.now = Timestamp(bench.next_wake().unwrap().0 - 1);
        assert!(bench.event_names(CopyCommand::Look).is_empty());
        bench.wait_for_wake();
        assert_eq!(bench.event_names(CopyCommand::Look).len(), 1);
    }
}
