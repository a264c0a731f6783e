//! What operators order, and messages to them.

use super::*;
use crate::site::site_due::SiteEffect;
use crate::site::site_state::{Breaker, CommandOrigin, MAX_OWED, MAX_WINDOWS, SiteNotificationId};
use crate::units::DurationMs;

#[test]
fn an_order_is_kept_with_the_key_that_gave_it() {
    let mut bench = SiteTestBench::new();
    bench.apply_operation(OperatorCommand::Drain).unwrap();
    bench.apply_operation(OperatorCommand::Freeze).unwrap();
    let order = Some(CommandOrigin {
        by: key(),
        at: bench.now,
    });
    assert_eq!(bench.record.operator.draining, order);
    assert_eq!(bench.record.operator.frozen, order);
    bench.apply_operation(OperatorCommand::Undrain).unwrap();
    bench.apply_operation(OperatorCommand::Thaw).unwrap();
    assert_eq!(
        (
            &bench.record.operator.draining,
            &bench.record.operator.frozen
        ),
        (&None, &None)
    );
}

#[test]
fn an_order_that_is_so_already_says_so() {
    let mut bench = SiteTestBench::new();
    for idle in [
        OperatorCommand::Undrain,
        OperatorCommand::Thaw,
        OperatorCommand::Unforce,
    ] {
        assert_eq!(bench.apply_operation(idle), Err(SiteRejection::AlreadySo));
    }
    for order in [OperatorCommand::Drain, OperatorCommand::Freeze] {
        bench.apply_operation(order.clone()).unwrap();
        assert_eq!(bench.apply_operation(order), Err(SiteRejection::AlreadySo));
    }
}

#[test]
fn a_reset_works_whatever_the_state() {
    let half_open = {
        let mut bench = SiteTestBench::due_for_a_probe();
        bench.start_probe(10).unwrap();
        bench
    };
    for mut bench in [
        SiteTestBench::new(),
        SiteTestBench::due_for_a_probe(),
        half_open,
    ] {
        bench.apply_operation(OperatorCommand::ResetErrors).unwrap();
        assert_eq!(bench.record.breaker, Breaker::Closed);
        assert_eq!(bench.record.consecutive_errors, 0);
        assert_eq!(
            bench.record.operator.reset,
            Some(CommandOrigin {
                by: key(),
                at: bench.now
            })
        );
    }
}

#[test]
fn errors_from_before_a_reset_are_not_counted_when_told_again_after_it() {
    let mut bench = SiteTestBench::due_for_a_probe();
    bench.apply_operation(OperatorCommand::ResetErrors).unwrap();
    (1..=3).for_each(|job| assert!(bench.record_error(job).is_empty()));
    assert_eq!(bench.record.consecutive_errors, 0);
}

#[test]
fn a_forced_verdict_holds_instead_of_the_breakers_until_it_expires() {
    let mut bench = SiteTestBench::new();
    (1..=3).for_each(|job| drop(bench.record_error(job)));
    let until = bench.now + DurationMs::from_secs(10);
    bench
        .apply_operation(OperatorCommand::Force {
            usable: true,
            until,
        })
        .unwrap();
    assert_eq!(
        bench.start_probe(10),
        Ok(Vec::new()),
        "not a probe, just work"
    );
    bench
        .apply_operation(OperatorCommand::Force {
            usable: false,
            until,
        })
        .unwrap();
    assert_eq!(
        bench.start_probe(10),
        Err(SiteRejection::ForcedUnusable { until })
    );
    bench.wait_secs(10);
    assert!(matches!(
        bench.start_probe(10),
        Err(SiteRejection::NotYetProbed { .. })
    ));
    assert_eq!(
        bench.apply_operation(OperatorCommand::Force {
            usable: true,
            until
        }),
        Err(SiteRejection::Past)
    );
}

#[test]
fn a_window_with_the_same_start_is_replaced() {
    let mut bench = SiteTestBench::new();
    let from = bench.now + DurationMs::from_secs(100);
    for secs in [10, 20] {
        let until = from + DurationMs::from_secs(secs);
        bench
            .apply_operation(OperatorCommand::SetWindow {
                from,
                until,
                reason: text("disks"),
            })
            .unwrap();
    }
    assert_eq!(bench.record.operator.windows.len(), 1);
    assert_eq!(
        bench.record.operator.windows[0].until,
        from + DurationMs::from_secs(20)
    );
    bench
        .apply_operation(OperatorCommand::RemoveWindow { from })
        .unwrap();
    assert_eq!(
        bench.apply_operation(OperatorCommand::RemoveWindow { from }),
        Err(SiteRejection::NoSuchWindow)
    );
}

#[test]
fn a_window_that_ends_before_it_begins_is_refused() {
    let mut bench = SiteTestBench::new();
    let now = bench.now;
    let later = bench.now + DurationMs(5);
    for (from, until) in [(later, later), (later, now), (Timestamp(0), now)] {
        let order = OperatorCommand::SetWindow {
            from,
            until,
            reason: text(""),
        };
        assert_eq!(
            bench.apply_operation(order),
            Err(SiteRejection::EmptyWindow)
        );
    }
}

#[test]
fn windows_are_bounded_and_those_that_are_over_make_room() {
    let mut bench = SiteTestBench::new();
    let window = |i: u64| {
        let from = Timestamp(2_000_000 + i * 1000);
        OperatorCommand::SetWindow {
            from,
            until: from + DurationMs(1000),
            reason: text(""),
        }
    };
    let most = MAX_WINDOWS as u64;
    (0..most).for_each(|i| drop(bench.apply_operation(window(i)).unwrap()));
    assert_eq!(
        bench.apply_operation(window(most)),
        Err(SiteRejection::TooManyWindows)
    );
    bench.now = Timestamp(2_001_000);
    bench.apply_operation(window(most)).unwrap();
    assert_eq!(bench.record.operator.windows.len(), MAX_WINDOWS);
}

#[test]
fn a_message_is_owed_until_it_was_sent() {
    let mut bench = SiteTestBench::due_for_a_probe();
    let due = |bench: &SiteTestBench| SiteMachine::due(&bench.record, &bench.parameters, bench.now);
    let [SiteEffect::SendNotification(message)] = &due(&bench)[..] else {
        panic!("not owed")
    };
    let sent = SiteCommand::NotificationSent { id: message.id };
    assert_eq!(bench.event_names(sent.clone()), ["NotificationSent"]);
    assert!(due(&bench).is_empty());
    assert!(bench.event_names(sent).is_empty(), "told again");
}

#[test]
fn of_too_many_messages_the_newest_win() {
    let mut bench = SiteTestBench::new();
    for i in 0..10 {
        bench.event_names(SiteCommand::Notify {
            kind: SiteNotificationKind::Unreachable,
            text: text(&format!("message {i}")),
            details: vec![text("no route to host")],
        });
    }
    assert_eq!(bench.record.owed.len(), MAX_OWED);
    assert_eq!(bench.record.owed.back().unwrap().id, SiteNotificationId(10));
    assert_eq!(bench.record.notifications_dropped, 6);
    assert!(
        bench
            .event_names(SiteCommand::NotificationSent {
                id: SiteNotificationId(1)
            })
            .is_empty()
    );
}
