//! Opening, closing, epochs.

use std::ops::ControlFlow;

use cospan_domain::ids::{Epoch, Seq};

use super::StoreUnderTest;
use super::client::{ContractClient, put, put_if, text_row};
use crate::port::{AppendOutcome, StoreError};

pub fn an_append_of_another_epoch_is_fenced(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    let mut client = {
        client.commit(vec![put("j/1", "a")]);
        client.reopen(subject)
    };
    let old = client.append_with_epoch(Epoch(client.epoch.0 - 1), vec![put("j/1", "old")]);
    let new = client.append(vec![put_if("j/1", 1, "new")]);
    let unborn = client.append_with_epoch(Epoch(client.epoch.0 + 1), vec![put("j/1", "unborn")]);
    assert_eq!(client.wait_for_outcome(old), AppendOutcome::Fenced);
    assert!(matches!(
        client.wait_for_outcome(new),
        AppendOutcome::Committed(_)
    ));
    assert_eq!(client.wait_for_outcome(unborn), AppendOutcome::Fenced);
    assert_eq!(client.scan_texts(""), [text_row("j/1", 2, "new")]);
}

pub fn reopening_keeps_everything_and_raises_the_epoch(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    let instance = client.instance;
    let mut epoch = client.epoch;
    let mut expected = Vec::new();
    for i in 0..5 {
        let key = format!("j/{i}");
        client.commit(vec![put(&key, "a")]);
        expected.push(text_row(&key, 1, "a"));
        client = client.reopen(subject);
        assert!(client.epoch > epoch);
        assert_eq!(client.instance, instance);
        assert_eq!(client.scan_texts(""), expected);
        epoch = client.epoch;
    }
}

pub fn positions_go_on_after_reopening(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    let Seq(last) = client.commit(vec![put("j/1", "a")]);
    let mut client = client.reopen(subject);
    assert!(client.commit(vec![put("j/1", "b")]) > Seq(last));
}

pub fn loading_shows_what_a_scan_shows(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    for i in 0..300 {
        client.append(vec![put(&format!("j/{i}"), "a")]);
    }
    client.commit(vec![put("c/1", "a")]);
    let client = client.reopen(subject);
    assert_eq!(client.loaded.len(), 301);
    assert_eq!(client.loaded, client.scan(""));
}

pub fn closing_decides_everything_that_was_appended(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    let tokens: Vec<_> = (0..1_200)
        .map(|i| client.append(vec![put(&format!("j/{i}"), "a")]))
        .collect();
    client.journal.close();
    client.handle_reports();
    assert_eq!(client.order, tokens);
    drop(client);
    assert_eq!(ContractClient::open(subject).scan("j/").len(), tokens.len());
}

pub fn a_closed_journal_takes_nothing_and_says_so_when_read(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    client.commit(vec![put("j/1", "a")]);
    client.journal.close();
    let late = client.append(vec![put("j/1", "late")]);
    client.journal.close();
    client.handle_reports();
    assert_eq!(client.outcome_of(late), None);
    let error = client
        .journal
        .scan(b"", &mut |_| ControlFlow::Continue(()))
        .unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert!(error.to_string().contains("closed"), "{error}");
    drop(client);
    assert_eq!(
        ContractClient::open(subject).scan_texts(""),
        [text_row("j/1", 1, "a")]
    );
}
