//! Scans.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::StoreUnderTest;
use super::client::{ContractClient, delete_if, put, put_if, text_row};
use crate::port::{JournalUnit, StoreKey, UnitToken};

pub fn a_scan_shows_a_prefix_in_order(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    for key in ["j/2", "j/10", "i/9", "k/0", "j/1", "j", "j0"] {
        client.append(vec![put(key, "a")]);
    }
    client.commit(Vec::new());
    let found = client.scan_texts("j/");
    assert_eq!(
        found,
        [
            text_row("j/1", 1, "a"),
            text_row("j/10", 1, "a"),
            text_row("j/2", 1, "a")
        ]
    );
    assert_eq!(client.scan("").len(), 7);
    assert_eq!(client.scan("nothing").len(), 0);
}

pub fn a_scan_stops_when_it_is_told_to(subject: &dyn StoreUnderTest) {
    assert_scan_stops(subject, "j/");
}

pub fn a_scan_of_everything_stops_when_it_is_told_to(subject: &dyn StoreUnderTest) {
    assert_scan_stops(subject, "");
}

fn assert_scan_stops(subject: &dyn StoreUnderTest, prefix: &str) {
    let mut client = ContractClient::open(subject);
    for i in 0..1_000 {
        client.append(vec![put(&format!("j/{i:04}"), "a")]);
    }
    client.commit(Vec::new());
    let mut seen = Vec::new();
    let visit = &mut |stored: crate::port::StoredValue| {
        seen.push(stored.key);
        if seen.len() == 600 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    client.journal.scan(prefix.as_bytes(), visit).unwrap();
    assert_eq!(seen.len(), 600);
    assert_eq!(seen.last(), Some(&StoreKey::from("j/0599")));
}

pub fn a_scan_shows_one_moment_while_writing_goes_on(subject: &dyn StoreUnderTest) {
    assert_one_moment(subject, "j/");
}

pub fn a_scan_of_everything_shows_one_moment_while_writing_goes_on(subject: &dyn StoreUnderTest) {
    assert_one_moment(subject, "");
}

/// Makes every kind of change behind a scan that stands at its first key.
fn assert_one_moment(subject: &dyn StoreUnderTest, prefix: &str) {
    const KEYS: usize = 1_000;
    let mut client = ContractClient::open(subject);
    for i in 0..KEYS {
        client.append(vec![put(&format!("j/{i:04}"), "old")]);
    }
    client.commit(Vec::new());
    let before = client.scan(prefix);
    let journal = Arc::clone(&client.journal);
    let mut seen = Vec::new();
    journal
        .scan(prefix.as_bytes(), &mut |stored| {
            if seen.is_empty() {
                client.commit(vec![put("j/0000", "new"), put("j/0400", "new")]);
                client.commit(vec![put("j/0999", "new"), put("j/0400", "newer")]);
                client.commit(vec![delete_if("j/0256", 1), delete_if("j/0700", 1)]);
                client.commit(vec![put_if("j/0700", 0, "anew"), put("j/0500a", "new")]);
                client.commit(vec![put("j/1000", "new"), put("k", "new"), put("i", "new")]);
            }
            seen.push(stored);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(seen == before, "the scan shows more than one moment");
    assert_eq!(client.scan("j/").len(), KEYS + 1);
    assert_eq!(
        client.scan_texts("j/0400"),
        [text_row("j/0400", 3, "newer")]
    );
    client
        .journal
        .append(client.epoch, UnitToken(u64::MAX), JournalUnit::default());
}

pub fn the_size_counts_the_keys(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    assert_eq!(client.journal.size().keys, 0);
    client.commit((0..10).map(|i| put(&format!("j/{i}"), "a")).collect());
    client.commit(vec![delete_if("j/3", 1), put("j/4", "b")]);
    assert_eq!(client.journal.size().keys, 9);
}
