//! The order in which units are decided and answered.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use cospan_domain::ids::{Epoch, Seq};

use super::StoreUnderTest;
use super::client::{ContractClient, channel_sink, put, put_if, text_row};
use crate::port::{
    AppendOutcome, CommitReport, Journal, JournalUnit, KeyChange, StoreKey, UnitToken,
};

pub fn outcomes_come_in_the_order_of_append(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    let mut tokens = Vec::new();
    for i in 0..1_500 {
        // Committed, refused by version, refused by bound, and barrier in turn.
        let changes = match i % 4 {
            0 => vec![put(&format!("j/{i}"), "a")],
            1 => vec![put_if("j/0", 99, "a")],
            2 => vec![put("", "a")],
            _ => Vec::new(),
        };
        tokens.push(client.append(changes));
    }
    client.wait_for_outcome(*tokens.last().unwrap());
    assert_eq!(client.order, tokens);
}

pub fn positions_rise_by_one_with_every_committed_unit(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    let Seq(first) = client.commit(vec![put("j/1", "a")]);
    let tokens: Vec<_> = (0..100)
        .map(|_| client.append(vec![put("j/1", "b")]))
        .collect();
    let refused = client.append(vec![put_if("j/1", 0, "c")]);
    let last = client.append(vec![put("j/1", "d")]);
    for (i, token) in tokens.into_iter().enumerate() {
        assert_eq!(
            client.wait_for_outcome(token),
            AppendOutcome::Committed(Seq(first + 1 + i as u64))
        );
    }
    assert_eq!(
        client.wait_for_outcome(refused),
        AppendOutcome::Conflict(StoreKey::from("j/1"))
    );
    assert_eq!(
        client.wait_for_outcome(last),
        AppendOutcome::Committed(Seq(first + 101))
    );
}

pub fn a_barrier_is_answered_after_everything_before_it(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    let tokens: Vec<_> = (0..700)
        .map(|i| client.append(vec![put(&format!("j/{i}"), "a")]))
        .collect();
    let barrier = client.append(Vec::new());
    let outcome = client.wait_for_outcome(barrier);
    assert!(
        tokens
            .iter()
            .all(|token| client.outcome_of(*token).is_some())
    );
    let last = client.wait_for_outcome(*tokens.last().unwrap());
    assert_eq!(
        outcome, last,
        "a barrier has the position of the last unit before it"
    );
    assert_eq!(client.scan("j/").len(), 700);
}

pub fn units_of_many_threads_are_decided_once_each_and_in_their_order(
    subject: &dyn StoreUnderTest,
) {
    const EACH: u64 = 500;
    let mut client = ContractClient::open(subject);
    let journal = Arc::clone(&client.journal);
    let epoch = client.epoch;
    std::thread::scope(|scope| {
        for thread in 1..=4_u64 {
            let journal = Arc::clone(&journal);
            scope.spawn(move || {
                let key = format!("j/{thread}");
                for i in 0..EACH {
                    let unit = JournalUnit {
                        changes: vec![put_if(&key, i, "a")],
                    };
                    journal.append(epoch, UnitToken(thread * 1_000_000 + i), unit);
                }
            });
        }
    });
    for thread in 1..=4_u64 {
        for i in 0..EACH {
            let outcome = client.wait_for_outcome(UnitToken(thread * 1_000_000 + i));
            assert!(
                matches!(outcome, AppendOutcome::Committed(_)),
                "{thread} {i} {outcome:?}"
            );
        }
    }
    assert!(
        client
            .scan_texts("j/")
            .iter()
            .all(|(_, version, _)| *version == EACH)
    );
}

/// Appends a successor for every outcome, until there are enough.
pub fn a_sink_may_append(subject: &dyn StoreUnderTest) {
    const LAST: u64 = 50;
    type Target = (Weak<dyn Journal>, Epoch);
    let target: Arc<OnceLock<Target>> = Arc::default();
    let (done, reports) = channel_sink();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let target = Arc::clone(&target);
        let seen = Arc::clone(&seen);
        Arc::new(move |report: CommitReport| {
            let CommitReport::Group(group) = &report else {
                panic!("{report:?}")
            };
            let (journal, epoch) = target.wait();
            for (token, _) in &group.outcomes {
                seen.lock().unwrap().push(token.0);
                if let (true, Some(journal)) = (token.0 < LAST, journal.upgrade()) {
                    let unit = JournalUnit {
                        changes: vec![write_of_version(token.0)],
                    };
                    journal.append(*epoch, UnitToken(token.0 + 1), unit);
                }
            }
            if group.outcomes.iter().any(|(token, _)| token.0 == LAST) {
                done(report);
            }
        })
    };
    let opened = subject.open(sink, &mut |_| {}).unwrap();
    let known = target.set((Arc::downgrade(&opened.journal), opened.epoch));
    assert!(known.is_ok());
    opened.journal.append(
        opened.epoch,
        UnitToken(1),
        JournalUnit {
            changes: vec![write_of_version(0)],
        },
    );
    reports
        .recv_timeout(std::time::Duration::from_secs(60))
        .expect("no outcome in time");
    assert_eq!(*seen.lock().unwrap(), (1..=LAST).collect::<Vec<_>>());
    opened.journal.close();
    drop(opened);
    assert_eq!(
        ContractClient::open(subject).scan_texts(""),
        [text_row("j/1", LAST, "a")]
    );
}

fn write_of_version(version: u64) -> KeyChange {
    put_if("j/1", version, "a")
}
