//! The effect of a single unit.

use super::StoreUnderTest;
use super::client::{ContractClient, delete_if, put, put_if, text_row};
use crate::port::{
    AppendOutcome, KeyChange, KeyVersion, MAX_CHANGES, MAX_KEY_BYTES, MAX_VALUE_BYTES, StoreKey,
    UnitError,
};

pub fn the_version_of_a_key_counts_its_writes(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    client.commit(vec![put_if("j/1", 0, "a")]);
    client.commit(vec![put_if("j/1", 1, "b")]);
    client.commit(vec![put("j/1", "c")]);
    assert_eq!(client.scan_texts(""), [text_row("j/1", 3, "c")]);
}

pub fn a_wrong_version_refuses_the_whole_unit(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    client.commit(vec![put_if("j/1", 0, "a"), put_if("j/2", 0, "a")]);
    let outcome = client.append_and_wait(vec![
        put_if("j/1", 1, "b"),
        put_if("j/2", 7, "b"),
        put("j/3", "b"),
    ]);
    assert_eq!(outcome, AppendOutcome::Conflict(StoreKey::from("j/2")));
    assert_eq!(
        client.scan_texts(""),
        [text_row("j/1", 1, "a"), text_row("j/2", 1, "a")]
    );
}

pub fn a_key_that_must_be_new_is_refused_if_it_is_there(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    client.commit(vec![put_if("j/1", 0, "a")]);
    assert_eq!(
        client.append_and_wait(vec![put_if("j/1", 0, "b")]),
        AppendOutcome::Conflict(StoreKey::from("j/1"))
    );
    assert_eq!(
        client.append_and_wait(vec![put_if("j/2", 1, "b")]),
        AppendOutcome::Conflict(StoreKey::from("j/2"))
    );
    assert_eq!(client.scan_texts(""), [text_row("j/1", 1, "a")]);
}

pub fn a_key_without_expectation_goes_with_the_guard_of_its_unit(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    client.commit(vec![put_if("j/1/h", 0, "a"), put("j/1/e1", "a")]);
    client.commit(vec![put("j/1/e1", "b"), put_if("j/1/h", 1, "b")]);
    let outcome = client.append_and_wait(vec![put("j/1/e1", "c"), put_if("j/1/h", 1, "c")]);
    assert_eq!(outcome, AppendOutcome::Conflict(StoreKey::from("j/1/h")));
    assert_eq!(
        client.scan_texts(""),
        [text_row("j/1/e1", 2, "b"), text_row("j/1/h", 2, "b")]
    );
}

pub fn units_see_what_their_predecessors_in_the_group_wrote(subject: &dyn StoreUnderTest) {
    const WRITES: u64 = 2_000;
    let mut client = ContractClient::open(subject);
    let tokens: Vec<_> = (0..WRITES)
        .map(|version| client.append(vec![put_if("j/1", version, &version.to_string())]))
        .collect();
    let late = client.append(vec![put_if("j/1", 3, "late")]);
    for token in tokens {
        assert!(matches!(
            client.wait_for_outcome(token),
            AppendOutcome::Committed(_)
        ));
    }
    assert_eq!(
        client.wait_for_outcome(late),
        AppendOutcome::Conflict(StoreKey::from("j/1"))
    );
    assert_eq!(
        client.scan_texts(""),
        [text_row("j/1", WRITES, &(WRITES - 1).to_string())]
    );
}

pub fn a_deleted_key_is_gone_and_starts_anew(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    client.commit(vec![put_if("j/1", 0, "a"), put_if("j/2", 0, "a")]);
    assert_eq!(
        client.append_and_wait(vec![delete_if("j/1", 2)]),
        AppendOutcome::Conflict(StoreKey::from("j/1"))
    );
    client.commit(vec![delete_if("j/1", 1)]);
    assert_eq!(client.scan_texts(""), [text_row("j/2", 1, "a")]);
    client.commit(vec![delete_if("j/1", 0)]);
    let made = client.append(vec![put_if("j/1", 0, "b")]);
    let deleted = client.append(vec![delete_if("j/1", 1)]);
    let again = client.append(vec![put_if("j/1", 0, "c")]);
    for token in [made, deleted, again] {
        assert!(matches!(
            client.wait_for_outcome(token),
            AppendOutcome::Committed(_)
        ));
    }
    let mut client = client.reopen(subject);
    assert_eq!(
        client.scan_texts(""),
        [text_row("j/1", 1, "c"), text_row("j/2", 1, "a")]
    );
    client.commit(vec![delete_if("j/1", 1), delete_if("j/2", 1)]);
    assert_eq!(client.reopen(subject).scan_texts(""), []);
}

pub fn a_unit_beyond_the_bounds_is_refused_with_the_bound(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    let before = client.append(vec![put("j/1", "a")]);
    let large = "x".repeat(MAX_VALUE_BYTES + 1);
    let long = "k".repeat(MAX_KEY_BYTES + 1);
    let many = (0..=MAX_CHANGES)
        .map(|i| put(&format!("j/{i}"), ""))
        .collect();
    let j2 = StoreKey::from("j/2");
    let own = StoreKey::from("m/store/epoch");
    let cases: Vec<(Vec<KeyChange>, UnitError)> = vec![
        (
            vec![put("j/2", &large)],
            UnitError::ValueTooLarge {
                key: j2.clone(),
                bytes: MAX_VALUE_BYTES + 1,
            },
        ),
        (
            vec![put(&long, "")],
            UnitError::KeyLength(MAX_KEY_BYTES + 1),
        ),
        (vec![put("", "")], UnitError::KeyLength(0)),
        (many, UnitError::TooManyChanges(MAX_CHANGES + 1)),
        (
            vec![put("j/2", "a"), put_if("j/2", 0, "b")],
            UnitError::KeyTwice(j2),
        ),
        (vec![put("m/store/epoch", "9")], UnitError::Reserved(own)),
    ];
    let cases: Vec<_> = cases
        .into_iter()
        .map(|(unit, error)| (client.append(unit), error))
        .collect();
    let after = client.append(vec![put("j/1", "b")]);
    for (token, error) in cases {
        assert_eq!(
            client.wait_for_outcome(token),
            AppendOutcome::Refused(error)
        );
    }
    assert!(matches!(
        client.wait_for_outcome(before),
        AppendOutcome::Committed(_)
    ));
    assert!(matches!(
        client.wait_for_outcome(after),
        AppendOutcome::Committed(_)
    ));
    assert_eq!(client.scan_texts(""), [text_row("j/1", 2, "b")]);
}

pub fn a_unit_at_the_bounds_is_kept_whole(subject: &dyn StoreUnderTest) {
    let mut client = ContractClient::open(subject);
    let value = "v".repeat(MAX_VALUE_BYTES);
    client.commit(
        (0..MAX_CHANGES)
            .map(|i| put_if(&longest_key(i), 0, &value))
            .collect(),
    );
    client.commit(
        (0..MAX_CHANGES)
            .map(|i| put_if(&longest_key(i), 1, &value))
            .collect(),
    );
    let client = client.reopen(subject);
    let found = client.scan("");
    assert_eq!(found.len(), MAX_CHANGES);
    for (i, stored) in found.iter().enumerate() {
        assert_eq!(stored.key, StoreKey::from(longest_key(i).as_str()));
        assert_eq!(stored.version, KeyVersion(2));
        assert!(*stored.value == *value.as_bytes());
    }
}

fn longest_key(i: usize) -> String {
    format!("{i:0width$}", width = MAX_KEY_BYTES)
}
