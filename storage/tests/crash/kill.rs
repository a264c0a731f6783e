//! kill -9 at random moments. It shows that nothing acknowledged depends on the
//! process; that it does not depend on the page cache is shown in `trace`.

use std::time::Duration;

use cospan_storage::EngineKind;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::child;
use crate::history::{Store, on_disk};

/// Kills of each engine; `COSPAN_KILLS` sets another number.
const KILLS: u64 = 15;

fn nothing_acknowledged_is_lost(engine: EngineKind) {
    let kills = std::env::var("COSPAN_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(KILLS);
    let directory = on_disk();
    let path = directory.path().join("store");
    let mut random = StdRng::seed_from_u64(9);
    let mut acknowledged = 0;
    let mut unanswered = 0;
    for round in 0..kills {
        let mut child = child::start(&child::command(&path, engine, u64::MAX));
        let mut groups = child::acknowledged(&mut child);
        // Some are killed while they open, before they tell anything.
        for _ in 0..random.random_range(0..40) {
            acknowledged = groups.next().unwrap().pop().unwrap();
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..20_000)));
        child.kill().unwrap();
        acknowledged = groups
            .last()
            .and_then(|group| group.last().copied())
            .unwrap_or(acknowledged);
        // Opened while the killed process may still be going away.
        let store = Store::open(&path, engine).unwrap();
        child.wait().unwrap();
        assert!(
            store.last >= acknowledged,
            "round {round}: unit {acknowledged} was acknowledged, the store ends with {}",
            store.last
        );
        unanswered += store.last - acknowledged;
        acknowledged = store.last;
    }
    println!("{kills} kills, {acknowledged} units, {unanswered} durable before they were answered");
}

#[cfg(feature = "sled")]
#[test]
fn nothing_acknowledged_by_sled_is_lost_when_it_is_killed() {
    nothing_acknowledged_is_lost(EngineKind::Sled);
}

#[cfg(feature = "redb")]
#[test]
fn nothing_acknowledged_by_redb_is_lost_when_it_is_killed() {
    nothing_acknowledged_is_lost(EngineKind::Redb);
}
