//! Any history against a model: a map of versions and values.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::StoreUnderTest;
use super::client::ContractClient;
use crate::port::{AppendOutcome, KeyChange, KeyVersion, StoreKey};

type StoreModel = BTreeMap<StoreKey, (u64, Box<[u8]>)>;

const SEED: u64 = 20_081;

pub fn any_history_leaves_what_the_model_says(subject: &dyn StoreUnderTest) {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut client = ContractClient::open(subject);
    let mut model = StoreModel::new();
    for _ in 0..8 {
        let mut expected = Vec::new();
        for _ in 0..random.random_range(1..300) {
            let unit = draw_unit(&mut random, &model);
            let conflict = apply_unit(&mut model, &unit);
            expected.push((client.append(unit), conflict));
        }
        for (token, conflict) in expected {
            match (client.wait_for_outcome(token), conflict) {
                (AppendOutcome::Committed(_), None) => {}
                (AppendOutcome::Conflict(key), Some(expected)) => assert_eq!(key, expected),
                other => panic!("{other:?}"),
            }
        }
        assert_same_as_model(&client, &model);
        if random.random_bool(0.5) {
            client = client.reopen(subject);
            assert_same_as_model(&client, &model);
        }
    }
}

fn draw_unit(random: &mut StdRng, model: &StoreModel) -> Vec<KeyChange> {
    let mut unit = BTreeMap::new();
    for _ in 0..random.random_range(0..6) {
        let key = StoreKey::from(format!("j/{}", random.random_range(0..40)).as_str());
        let now = model.get(&key).map_or(0, |(version, _)| *version);
        let expected = match random.random_range(0..20) {
            0 => Some(KeyVersion(now + 1)),
            1..10 => Some(KeyVersion(now)),
            _ => None,
        };
        let value = random.random_bool(0.8).then(|| {
            let length = random.random_range(0..900);
            (0..length).map(|_| random.random()).collect()
        });
        unit.insert(
            key.clone(),
            KeyChange {
                key,
                expected,
                value,
            },
        );
    }
    unit.into_values().collect()
}

/// Applies a unit. Returns the key in conflict instead, if there is one.
fn apply_unit(model: &mut StoreModel, unit: &[KeyChange]) -> Option<StoreKey> {
    let wrong = unit.iter().find(|change| {
        change
            .expected
            .is_some_and(|expected| expected != version_of(model, &change.key))
    });
    if let Some(change) = wrong {
        return Some(change.key.clone());
    }
    for change in unit {
        let next = version_of(model, &change.key).0 + 1;
        match &change.value {
            Some(value) => model.insert(change.key.clone(), (next, value.clone())),
            None => model.remove(&change.key),
        };
    }
    None
}

fn version_of(model: &StoreModel, key: &StoreKey) -> KeyVersion {
    KeyVersion(model.get(key).map_or(0, |(version, _)| *version))
}

fn assert_same_as_model(client: &ContractClient, model: &StoreModel) {
    let found: StoreModel = client
        .scan("")
        .into_iter()
        .map(|stored| (stored.key, (stored.version.0, stored.value)))
        .collect();
    assert!(found == *model, "the store and the model differ");
    assert_eq!(client.journal.size().keys, model.len() as u64);
}
