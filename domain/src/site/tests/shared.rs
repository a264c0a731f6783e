//! Reservations that jobs share: from an operator's wish to what the site said, and to their end.

use std::collections::BTreeSet;

use super::*;
use crate::ids::ReservationName;
use crate::reservation::{ReservationOutcome, ReservationSerial, StartWindow};
use crate::resources::Resources;
use crate::site::shared_reservation::{
    ENDED_SHARED, MAX_SHARED, SharedReservation, SharedReservationCall, SharedReservationEnd,
    SharedReservationStage, SharedReservationTerms,
};
use crate::units::DurationMs;

const HOUR: DurationMs = DurationMs::from_secs(3_600);
const LEAD: DurationMs = DurationMs::from_secs(10);

fn name(text: &str) -> ReservationName {
    ReservationName::new(text).unwrap()
}

impl SiteTestBench {
    fn shared_terms(&self, called: &str) -> SharedReservationTerms {
        SharedReservationTerms {
            name: name(called),
            allowed: [].into(),
            resources: Resources::processors(4),
            window: StartWindow::single_start(self.now + HOUR),
            lead: LEAD,
            length: HOUR,
            margin: DurationMs::from_secs(60),
            parts: [].into(),
            tolerance: DurationMs::ZERO,
        }
    }

    fn request_shared(&mut self, called: &str) -> Result<Vec<SiteEvent>, SiteRejection> {
        self.apply_operation(OperatorCommand::Reserve(Box::new(
            self.shared_terms(called),
        )))
    }

    /// The site answers what it is asked.
    fn answer_due_call(&mut self, outcome: ReservationOutcome) {
        let (shared, asked) = self.record.next_shared_call().unwrap();
        let serial = shared.serial;
        self.apply_command(SiteCommand::SharedAnswered {
            serial,
            asked,
            outcome,
        })
        .unwrap();
    }

    /// One that its site keeps.
    fn with_confirmed(called: &str) -> Self {
        let mut bench = Self::new();
        bench.request_shared(called).unwrap();
        let start = bench.now + HOUR;
        bench.answer_due_call(ReservationOutcome::Granted { start });
        bench.answer_due_call(ReservationOutcome::Done);
        bench
    }

    fn shared_reservation(&self, called: &str) -> &SharedReservation {
        self.record.shared_reservation_named(&name(called)).unwrap()
    }

    fn due_call(&self) -> Option<SharedReservationCall> {
        self.record.next_shared_call().map(|(_, asked)| asked)
    }
}

#[test]
fn what_an_operator_wants_is_requested_confirmed_and_kept_until_its_end() {
    let mut bench = SiteTestBench::new();
    let start = bench.now + HOUR;
    bench.request_shared("course").unwrap();
    assert_eq!(bench.due_call(), Some(SharedReservationCall::Request));
    assert_eq!(
        bench
            .shared_reservation("course")
            .build_request(HOUR)
            .window,
        StartWindow::single_start(start)
    );
    bench.answer_due_call(ReservationOutcome::Granted { start });
    assert_eq!(bench.due_call(), Some(SharedReservationCall::Confirm));
    bench.answer_due_call(ReservationOutcome::Done);
    assert_eq!(bench.due_call(), None);
    let kept = bench.shared_reservation("course");
    assert!(kept.is_kept(bench.now) && kept.may_exist_at_site());
    assert_eq!(
        (kept.start(), kept.end()),
        (start + LEAD, start + LEAD + HOUR)
    );
    let lease = kept.reserved_span().unwrap();
    assert_eq!(
        (lease.from, lease.to),
        (start, kept.end() + DurationMs::from_secs(60))
    );
    assert!(kept.is_over(lease.to) && !kept.is_kept(lease.to));
}

#[test]
fn an_answer_to_a_question_that_is_no_longer_asked_changes_nothing() {
    let mut bench = SiteTestBench::new();
    bench.request_shared("course").unwrap();
    bench
        .apply_operation(OperatorCommand::CancelReservation {
            name: name("course"),
        })
        .unwrap();
    let asked = SharedReservationCall::Request;
    let start = bench.now + HOUR;
    let outcome = ReservationOutcome::Granted { start };
    let late = SiteCommand::SharedAnswered {
        serial: ReservationSerial(1),
        asked,
        outcome,
    };
    assert_eq!(bench.apply_command(late), Ok(Vec::new()));
    assert_eq!(
        bench.due_call(),
        Some(SharedReservationCall::Release),
        "whatever it granted goes back"
    );
    bench.answer_due_call(ReservationOutcome::Done);
    let ended = SharedReservationStage::Ended(SharedReservationEnd::Cancelled { by: key() });
    assert_eq!(bench.shared_reservation("course").stage, ended);
    assert!(!bench.shared_reservation("course").may_exist_at_site());
}

#[test]
fn a_refusal_says_from_when_on_and_a_wrong_start_goes_back() {
    let mut bench = SiteTestBench::new();
    bench.request_shared("course").unwrap();
    let next = Some(bench.now + HOUR + HOUR);
    bench.answer_due_call(ReservationOutcome::Refused { next });
    assert_eq!(
        bench.shared_reservation("course").stage,
        SharedReservationStage::Ended(SharedReservationEnd::Refused { next })
    );
    bench.request_shared("course").unwrap();
    assert_eq!(
        bench.shared_reservation("course").serial,
        ReservationSerial(2),
        "a number is never used again"
    );
    let wrong = bench.now + HOUR + LEAD;
    bench.answer_due_call(ReservationOutcome::Granted { start: wrong });
    assert_eq!(bench.due_call(), Some(SharedReservationCall::Release));
    bench.answer_due_call(ReservationOutcome::Done);
    assert_eq!(
        bench.shared_reservation("course").stage,
        SharedReservationStage::Ended(SharedReservationEnd::WrongStart)
    );
}

#[test]
fn it_lasts_longer_only_once_its_site_has_agreed() {
    let mut bench = SiteTestBench::with_confirmed("course");
    let start = bench
        .shared_reservation("course")
        .reserved_span()
        .unwrap()
        .from;
    let until = bench.shared_reservation("course").end();
    let extend = |until| OperatorCommand::ExtendReservation {
        name: name("course"),
        until,
    };
    assert_eq!(
        bench.apply_operation(extend(until)),
        Err(SiteRejection::EndsLater)
    );
    bench.apply_operation(extend(until + HOUR)).unwrap();
    assert_eq!(
        bench.apply_operation(extend(until + HOUR)),
        Err(SiteRejection::ReservationBusy)
    );
    assert!(bench.shared_reservation("course").is_kept(bench.now));
    assert_eq!(
        bench.due_call(),
        Some(SharedReservationCall::Extend(HOUR + HOUR))
    );
    let request = bench
        .shared_reservation("course")
        .build_request(HOUR + HOUR);
    assert_eq!(request.window, StartWindow::single_start(start));
    bench.answer_due_call(ReservationOutcome::Refused { next: None });
    assert_eq!(
        bench.shared_reservation("course").end(),
        until,
        "its end stays"
    );
    bench.apply_operation(extend(until + HOUR)).unwrap();
    bench.answer_due_call(ReservationOutcome::Granted { start });
    assert_eq!(bench.shared_reservation("course").end(), until + HOUR);
    assert_eq!(
        bench.shared_reservation("course").stage,
        SharedReservationStage::Confirmed
    );
}

#[test]
fn one_that_its_site_moves_when_it_is_extended_goes_back() {
    let mut bench = SiteTestBench::with_confirmed("course");
    let start = bench
        .shared_reservation("course")
        .reserved_span()
        .unwrap()
        .from;
    let until = bench.shared_reservation("course").end();
    let name = name("course");
    bench
        .apply_operation(OperatorCommand::ExtendReservation {
            name,
            until: until + HOUR,
        })
        .unwrap();
    bench.answer_due_call(ReservationOutcome::Granted {
        start: start + HOUR,
    });
    assert_eq!(
        bench.due_call(),
        Some(SharedReservationCall::Release),
        "its users were told of another"
    );
    bench.answer_due_call(ReservationOutcome::Done);
    assert_eq!(
        bench.shared_reservation("course").stage,
        SharedReservationStage::Ended(SharedReservationEnd::WrongStart)
    );
}

#[test]
fn jobs_that_wait_are_turned_away_by_another_that_is_not_for_them() {
    let mut bench = SiteTestBench::with_confirmed("course");
    let other = KeyName::new("other").unwrap();
    assert_eq!(
        bench
            .shared_reservation("course")
            .exclusion_reason(&other, bench.now),
        None
    );
    bench
        .apply_operation(OperatorCommand::CancelReservation {
            name: name("course"),
        })
        .unwrap();
    assert_eq!(
        bench
            .shared_reservation("course")
            .exclusion_reason(&other, bench.now),
        Some("has ended")
    );
    bench.answer_due_call(ReservationOutcome::Done);
    let wish = SharedReservationTerms {
        allowed: [key()].into(),
        ..bench.shared_terms("course")
    };
    bench
        .apply_operation(OperatorCommand::Reserve(Box::new(wish)))
        .unwrap();
    assert_eq!(
        bench
            .shared_reservation("course")
            .exclusion_reason(&other, bench.now),
        Some("is not for its key")
    );
    assert_eq!(
        bench
            .shared_reservation("course")
            .exclusion_reason(&key(), bench.now),
        None
    );
}

#[test]
fn one_that_its_site_has_for_another_time_is_put_right_or_goes_back() {
    let mut bench = SiteTestBench::with_confirmed("course");
    let lease = bench.shared_reservation("course").reserved_span().unwrap();
    let late = || SiteCommand::SharedMissing {
        gone: [].into(),
        changed: [ReservationSerial(1)].into(),
    };
    bench.apply_command(late()).unwrap();
    assert_eq!(bench.due_call(), Some(SharedReservationCall::Extend(HOUR)));
    bench.answer_due_call(ReservationOutcome::Granted { start: lease.from });
    assert_eq!(
        bench.shared_reservation("course").reserved_span(),
        Some(lease)
    );
    assert_eq!(
        bench.shared_reservation("course").stage,
        SharedReservationStage::Confirmed
    );
    bench.apply_command(late()).unwrap();
    bench.answer_due_call(ReservationOutcome::Refused { next: None });
    assert_eq!(
        bench.due_call(),
        Some(SharedReservationCall::Release),
        "others have its time by now"
    );
    bench.answer_due_call(ReservationOutcome::Done);
    assert_eq!(
        bench.shared_reservation("course").stage,
        SharedReservationStage::Ended(SharedReservationEnd::Lost)
    );
}

#[test]
fn one_that_its_site_has_no_more_is_lost_and_its_name_is_free() {
    let mut bench = SiteTestBench::with_confirmed("course");
    assert_eq!(
        bench.request_shared("course"),
        Err(SiteRejection::ReservationExists)
    );
    let gone = |serial| SiteCommand::SharedMissing {
        gone: [ReservationSerial(serial)].into(),
        changed: BTreeSet::new(),
    };
    assert_eq!(bench.apply_command(gone(7)), Ok(Vec::new()));
    bench.apply_command(gone(1)).unwrap();
    assert_eq!(
        bench.shared_reservation("course").stage,
        SharedReservationStage::Ended(SharedReservationEnd::Lost)
    );
    let cancel = OperatorCommand::CancelReservation {
        name: name("course"),
    };
    assert_eq!(
        bench.apply_operation(cancel),
        Err(SiteRejection::NoSuchReservation)
    );
    bench.request_shared("course").unwrap();
    assert_eq!(bench.record.shared.len(), 1);
}

#[test]
fn whoever_looks_after_a_site_is_told_what_it_has_lost() {
    let told = |bench: &SiteTestBench| {
        let owed = bench.record.owed.iter();
        let lost = owed.filter(|owed| owed.kind == SiteNotificationKind::ReservationLost);
        lost.map(|owed| (owed.text.to_string(), owed.details.len()))
            .collect::<Vec<_>>()
    };
    let mut bench = SiteTestBench::with_confirmed("course-1");
    bench.request_shared("course-2").unwrap();
    let start = bench.now + HOUR;
    bench.answer_due_call(ReservationOutcome::Granted { start });
    bench.answer_due_call(ReservationOutcome::Done);
    let gone: BTreeSet<ReservationSerial> =
        bench.record.shared.iter().map(|one| one.serial).collect();
    bench
        .apply_command(SiteCommand::SharedMissing {
            gone,
            changed: [].into(),
        })
        .unwrap();
    let [(text, 2)] = &told(&bench)[..] else {
        panic!("{:?}", bench.record.owed)
    };
    assert!(
        text.contains("course-1 of ") && text.ends_with(", and 1 more"),
        "{text}"
    );

    let mut extended = SiteTestBench::with_confirmed("course");
    let until = extended.shared_reservation("course").end() + HOUR;
    let extend = OperatorCommand::ExtendReservation {
        name: name("course"),
        until,
    };
    extended.apply_operation(extend.clone()).unwrap();
    extended.answer_due_call(ReservationOutcome::Refused { next: None });
    assert!(told(&extended).is_empty(), "it keeps its end");
    extended.apply_operation(extend).unwrap();
    extended.answer_due_call(ReservationOutcome::Lost { next: None });
    assert_eq!(told(&extended).len(), 1);
}

#[test]
fn a_site_keeps_so_many_and_remembers_so_many_that_have_ended() {
    let mut bench = SiteTestBench::new();
    for number in 0..MAX_SHARED {
        bench.request_shared(&format!("r{number}")).unwrap();
    }
    assert_eq!(
        bench.request_shared("one-more"),
        Err(SiteRejection::TooManyReservations)
    );
    while bench.due_call().is_some() {
        bench.answer_due_call(ReservationOutcome::Refused { next: None });
    }
    bench.request_shared("one-more").unwrap();
    assert_eq!(bench.record.shared.len(), ENDED_SHARED);
    assert_eq!(
        bench.record.shared_reservation_named(&name("r0")),
        None,
        "the oldest went first"
    );
}

#[test]
fn keys_that_are_not_named_may_not_use_it() {
    let mut bench = SiteTestBench::new();
    let wish = SharedReservationTerms {
        allowed: [key()].into(),
        ..bench.shared_terms("course")
    };
    bench
        .apply_operation(OperatorCommand::Reserve(Box::new(wish)))
        .unwrap();
    let other = KeyName::new("other").unwrap();
    assert!(
        bench.shared_reservation("course").allows_key(&key())
            && !bench.shared_reservation("course").allows_key(&other)
    );
    bench.request_shared("open").unwrap();
    assert!(bench.shared_reservation("open").allows_key(&other));
    let past = SharedReservationTerms {
        window: StartWindow::single_start(Timestamp(0)),
        ..bench.shared_terms("past")
    };
    assert_eq!(
        bench.apply_operation(OperatorCommand::Reserve(Box::new(past))),
        Err(SiteRejection::EmptyWindow)
    );
}

#[test]
fn one_that_nobody_uses_is_given_back_and_told_and_one_in_use_is_kept() {
    let patience = Some(DurationMs::from_secs(600));
    for (used, patience) in [(false, patience), (true, patience), (false, None)] {
        let mut bench = SiteTestBench::with_confirmed("course");
        bench.parameters.no_show = patience;
        let serial = bench.shared_reservation("course").serial;
        let due = bench
            .shared_reservation("course")
            .no_show_time(Some(DurationMs::from_secs(600)))
            .unwrap();
        let looked_at = SiteCommand::SharedLookedAt { serial, used };
        bench.now = due - DurationMs(1);
        bench.apply_command(looked_at.clone()).unwrap();
        assert_eq!(
            bench.shared_reservation("course").stage,
            SharedReservationStage::Confirmed,
            "it is not time yet"
        );
        bench.now = due;
        bench.apply_command(looked_at.clone()).unwrap();
        let goes = !used && patience.is_some();
        assert_eq!(bench.record.owed.len(), usize::from(goes));
        assert_eq!(bench.due_call().is_some(), goes);
        if goes {
            assert!(
                bench.record.owed[0].text.contains("course"),
                "{:?}",
                bench.record.owed
            );
            bench.apply_command(looked_at).unwrap();
            assert_eq!(bench.record.owed.len(), 1, "told once");
            bench.answer_due_call(ReservationOutcome::Done);
            assert_eq!(
                bench.shared_reservation("course").stage,
                SharedReservationStage::Ended(SharedReservationEnd::NoShow)
            );
        } else {
            assert!(bench.shared_reservation("course").is_kept(bench.now));
            assert_eq!(
                bench.shared_reservation("course").no_show_time(patience),
                None,
                "nobody looks again"
            );
        }
    }
}
