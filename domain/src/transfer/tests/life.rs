//! A copy's way from need to deletion.

use super::*;

#[test]
fn a_copy_that_is_needed_is_chosen_ordered_watched_and_ready() {
    let mut bench = CopyTestBench::new();
    assert!(bench.record.is_gone());
    assert_eq!(bench.names(CopyCommand::Need), ["CopyNeeded"]);
    assert!(matches!(
        &bench.due()[..],
        [CopyEffect::ChooseSource { .. }]
    ));
    bench.begin("leiden", 1).unwrap();
    assert_eq!(bench.due(), [CopyEffect::StartCopy(order("leiden", 1))]);
    assert_eq!(
        bench.answer_start(1, CopyStartAnswer::Taken),
        ["CopyStarted"]
    );
    assert_eq!(bench.due(), [CopyEffect::WatchCopy(order("leiden", 1))]);
    assert!(
        bench
            .see(
                1,
                CopySighting::Running {
                    unchanged_for: DurationMs::ZERO
                }
            )
            .is_empty()
    );
    assert_eq!(bench.see(1, CopySighting::Complete), ["CopyCompleted"]);
    assert!(bench.record.is_ready());
    assert_eq!((bench.due(), bench.next_wake()), (Vec::new(), None));
}

#[test]
fn progress_is_not_written() {
    let mut bench = CopyTestBench::copying("leiden", 1);
    let before = bench.record.clone();
    (0..100).for_each(|_| {
        assert!(
            bench
                .see(
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
    let mut bench = CopyTestBench::ready(1);
    assert_eq!(bench.names(CopyCommand::NoLongerNeeded), ["CopyReleased"]);
    assert!(bench.due().is_empty());
    assert_eq!(
        bench.next_wake(),
        Some(bench.now + bench.parameters.ready_keep)
    );
    bench.wait_for_wake();
    assert_eq!(bench.due(), [CopyEffect::Look]);
    assert_eq!(bench.names(CopyCommand::Look), ["DeletionDecided"]);
    assert_eq!(
        bench.due(),
        [CopyEffect::DiscardPartial(order("leiden", 1))],
        "first all tries"
    );
    bench.names(CopyCommand::DiscardConfirmed { nonce: TryNonce(1) });
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
        bench.names(CopyCommand::DeleteConfirmed { nonce: TryNonce(1) }),
        ["CopyDeleted"]
    );
    assert!(bench.record.is_gone());
}

#[test]
fn a_copy_that_is_needed_again_in_time_is_kept() {
    let mut bench = CopyTestBench::ready(1);
    bench.names(CopyCommand::NoLongerNeeded);
    bench.wait_secs(59);
    assert_eq!(bench.names(CopyCommand::Need), ["CopyNeeded"]);
    bench.wait_secs(1_000_000);
    assert!(bench.names(CopyCommand::Look).is_empty());
    assert!(bench.record.is_ready());
}

/// Decided, and not yet carried out, when somebody comes to need it.
fn overtaken_deletion() -> CopyTestBench {
    let mut bench = CopyTestBench::ready(1);
    bench.names(CopyCommand::NoLongerNeeded);
    bench.wait_for_wake();
    bench.names(CopyCommand::Look);
    assert_eq!(bench.names(CopyCommand::Need), ["CopyNeeded"]);
    assert!(
        !bench.record.is_ready(),
        "what is being deleted must not be read"
    );
    bench.names(CopyCommand::DiscardConfirmed { nonce: TryNonce(1) });
    assert_eq!(
        bench.due(),
        [CopyEffect::CheckContent(TryNonce(1))],
        "it may be gone already"
    );
    assert_eq!(bench.begin("leiden", 2), Err(CopyRejection::Stale));
    bench
}

#[test]
fn a_need_that_overtakes_a_deletion_keeps_what_is_still_there() {
    let mut bench = overtaken_deletion();
    assert_eq!(
        bench.names(CopyCommand::FoundThere { nonce: TryNonce(1) }),
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
        let mut bench = overtaken_deletion();
        bench.names(gone);
        assert!(!bench.record.is_gone());
        bench.begin("leiden", 2).unwrap();
    }
}

#[test]
fn what_is_not_there_is_not_gone_while_a_try_may_still_bring_it() {
    let mut bench = CopyTestBench::ready(1);
    bench.names(CopyCommand::NoLongerNeeded);
    bench.wait_for_wake();
    bench.names(CopyCommand::Look);
    bench.names(CopyCommand::Need);
    assert_eq!(
        bench.due().iter().map(CopyEffect::name).collect::<Vec<_>>(),
        ["DiscardPartial"]
    );
    let missing = CopyCommand::FoundMissing { nonce: TryNonce(1) };
    assert!(
        bench.names(missing.clone()).is_empty(),
        "said before the try was stopped"
    );
    bench.names(CopyCommand::NoLongerNeeded);
    bench.names(CopyCommand::DiscardConfirmed { nonce: TryNonce(1) });
    assert!(!bench.record.is_gone());
    assert_eq!(bench.names(missing), ["CopyDeleted"]);
    assert!(bench.record.is_gone());
}

#[test]
fn the_confirmation_of_an_earlier_deletion_does_not_confirm_a_later_one() {
    let mut bench = CopyTestBench::ready(1);
    let delete = |bench: &mut CopyTestBench| {
        bench.names(CopyCommand::NoLongerNeeded);
        bench.wait_for_wake();
        bench.names(CopyCommand::Look);
    };
    delete(&mut bench);
    bench.names(CopyCommand::Need);
    bench.names(CopyCommand::DiscardConfirmed { nonce: TryNonce(1) });
    bench.names(CopyCommand::DeleteConfirmed { nonce: TryNonce(1) });
    bench.begin("leiden", 2).unwrap();
    bench.see(2, CopySighting::Complete);
    delete(&mut bench);
    let late = bench.tell(CopyCommand::DeleteConfirmed { nonce: TryNonce(1) });
    assert_eq!(late, Err(CopyRejection::Stale));
    assert!(matches!(bench.record.phase, CopyPhase::Deleting { .. }));
}

#[test]
fn a_need_that_goes_before_the_first_try_leaves_nothing_behind() {
    let mut bench = CopyTestBench::new();
    bench.names(CopyCommand::Need);
    bench.names(CopyCommand::NoLongerNeeded);
    assert_eq!(bench.due(), [CopyEffect::Look]);
    bench.names(CopyCommand::Look);
    assert!(bench.record.is_gone());
}

#[test]
fn a_transfer_that_nobody_needs_is_stopped_and_its_data_kept_for_a_while() {
    let mut bench = CopyTestBench::copying("leiden", 1);
    bench.names(CopyCommand::NoLongerNeeded);
    bench.wait_for_wake();
    assert_eq!(bench.names(CopyCommand::Look), ["StopDecided"]);
    assert_eq!(bench.due(), [CopyEffect::StopCopy(order("leiden", 1))]);
    assert_eq!(
        bench.names(CopyCommand::StopConfirmed { nonce: TryNonce(1) }),
        ["CopyStopped"]
    );
    assert!(bench.due().is_empty());
    bench.wait_for_wake();
    assert_eq!(bench.names(CopyCommand::Look), ["CopyAbandoned"]);
    assert_eq!(
        bench.due(),
        [CopyEffect::DiscardPartial(order("leiden", 1))]
    );
    bench.names(CopyCommand::DiscardConfirmed { nonce: TryNonce(1) });
    assert!(matches!(
        &bench.due()[..],
        [CopyEffect::DeleteContent { .. }]
    ));
    bench.names(CopyCommand::DeleteConfirmed { nonce: TryNonce(1) });
    assert!(bench.record.is_gone());
}

#[test]
fn a_stopped_transfer_that_is_needed_again_goes_on_where_it_was() {
    let mut bench = CopyTestBench::copying("leiden", 1);
    bench.names(CopyCommand::NoLongerNeeded);
    bench.wait_for_wake();
    bench.names(CopyCommand::Look);
    bench.names(CopyCommand::Need);
    assert_eq!(
        bench.due(),
        [CopyEffect::StopCopy(order("leiden", 1))],
        "first it must stop"
    );
    bench.names(CopyCommand::StopConfirmed { nonce: TryNonce(1) });
    bench.begin("leiden", 2).unwrap();
    assert_eq!(bench.due(), [CopyEffect::StartCopy(order("leiden", 1))]);
}

#[test]
fn a_transfer_that_completes_before_it_is_stopped_counts() {
    let mut bench = CopyTestBench::copying("leiden", 1);
    bench.names(CopyCommand::NoLongerNeeded);
    bench.wait_for_wake();
    bench.names(CopyCommand::Look);
    assert_eq!(bench.see(1, CopySighting::Complete), ["CopyCompleted"]);
    assert_eq!(
        bench.tell(CopyCommand::StopConfirmed { nonce: TryNonce(1) }),
        Err(CopyRejection::Stale)
    );
    assert!(bench.record.is_ready());
}

#[test]
fn content_that_the_site_lost_is_copied_again_if_needed() {
    let mut bench = CopyTestBench::ready(1);
    let lost = CopyCommand::FoundMissing { nonce: TryNonce(1) };
    assert_eq!(bench.names(lost.clone()), ["CopyLost"]);
    assert!(matches!(
        &bench.due()[..],
        [
            CopyEffect::ChooseSource { .. },
            CopyEffect::DiscardPartial(_)
        ]
    ));
    assert_eq!(bench.tell(lost), Err(CopyRejection::Stale));
}

#[test]
fn what_is_told_twice_happens_once() {
    let mut bench = CopyTestBench::ready(1);
    assert!(bench.names(CopyCommand::Need).is_empty());
    assert!(bench.see(1, CopySighting::Complete).is_empty());
    bench.names(CopyCommand::NoLongerNeeded);
    assert!(bench.names(CopyCommand::NoLongerNeeded).is_empty());
}

#[test]
fn a_look_before_the_time_has_come_changes_nothing() {
    let mut stopped = CopyTestBench::copying("leiden", 1);
    stopped.names(CopyCommand::NoLongerNeeded);
    stopped.wait_for_wake();
    stopped.names(CopyCommand::Look);
    stopped.names(CopyCommand::StopConfirmed { nonce: TryNonce(1) });
    for mut bench in [
        CopyTestBench::ready(1),
        CopyTestBench::copying("leiden", 1),
        stopped,
    ] {
        bench.tell(CopyCommand::NoLongerNeeded).unwrap();
        bench.now = Timestamp(bench.next_wake().unwrap().0 - 1);
        assert!(bench.names(CopyCommand::Look).is_empty());
        bench.wait_for_wake();
        assert_eq!(bench.names(CopyCommand::Look).len(), 1);
    }
}
