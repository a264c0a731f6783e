//! What a server left, damaged: it is whole all the same, or refused with its place and a
//! remedy. Nothing is missing in silence.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// Cuts, and as many flips.
const CASES: usize = 80;

/// Jobs in the store beside the one that has long ended.
const MORE_JOBS: usize = 20;

/// The store of a server that ran a job, had more in hand, and was stopped in peace: it has
/// written down how far it got.
struct Left {
    environment: TestEnvironment,
    db: PathBuf,
    whole: Vec<u8>,
}

fn left() -> Left {
    let environment = environment();
    let mut server = server(&environment);
    ran_a_job(&mut server);
    let job = |n: usize| {
        let component = json!({ "name": "only", "processors": 1, "executable": "/bin/true" });
        json!({ "name": format!("job {n}"), "wall_time": "1m", "component": [component] })
    };
    let api = server.api().unwrap();
    let more: Vec<Value> = (0..MORE_JOBS).map(job).collect();
    api.post_expected("/v1/jobs", &json!(more)).unwrap();
    until("one of them has ended", || {
        let jobs = api.get_expected("/v1/jobs").unwrap();
        // Beside the first: others are on their way, or wait.
        jobs["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|job: &&Value| job["state"] == "finished")
            .count()
            > 1
    });
    stop(&mut server);
    let db = environment.data().join("store/db");
    let whole = std::fs::read(&db).unwrap();
    Left {
        environment,
        db,
        whole,
    }
}

impl Left {
    fn check(&self) -> Output {
        with_config(&self.environment, &[], &["store", "check"])
    }
}

/// Where the bytes are that are not zero: the end is a hole.
fn used(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

fn is_whole_or_refused(seed: u64, damage: impl Fn(&mut Vec<u8>, usize) -> String) {
    let left = left();
    let sound = left.check();
    assert!(
        sound.status.success(),
        "{}",
        String::from_utf8_lossy(&sound.stderr)
    );
    let mut random = StdRng::seed_from_u64(seed);
    let mut found = 0;
    for _ in 0..CASES {
        let mut bytes = left.whole.clone();
        let what = damage(&mut bytes, random.random_range(0..used(&left.whole)));
        std::fs::write(&left.db, bytes).unwrap();
        let output = left.check();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{what}: {said}");
        if output.status.success() {
            assert_eq!(output.stdout, sound.stdout, "{what}: something is missing");
            continue;
        }
        found += 1;
        let place = left.environment.data().display().to_string();
        let remedies = [
            "restore a copy",
            "export it",
            "start again",
            "start that version",
        ];
        assert!(said.contains(&place), "{what}: {said}");
        assert!(
            remedies.iter().any(|remedy| said.contains(remedy)),
            "{what}: {said}"
        );
    }
    assert!(found > 0, "no damage was ever found");
}

#[test]
fn a_store_cut_anywhere_is_whole_or_refused_with_a_remedy() {
    is_whole_or_refused(1, |bytes, at| {
        bytes.truncate(at);
        format!("cut at {at}")
    });
}

#[test]
fn a_store_with_a_flipped_bit_is_whole_or_refused_with_a_remedy() {
    is_whole_or_refused(2, |bytes, at| {
        bytes[at] ^= 1 << (at % 8);
        format!("a bit of byte {at} flipped")
    });
}

#[test]
fn a_damaged_store_is_found_by_the_check_and_named() {
    let left = left();
    let mut bytes = left.whole.clone();
    // All of them, for sled also keeps what is not in use any more.
    let named = bytes
        .windows(5)
        .enumerate()
        .filter(|(_, window)| *window == b"moved");
    let places: Vec<usize> = named.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at] ^= 0x20);
    std::fs::write(&left.db, bytes).unwrap();
    let output = left.check();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && !said.contains("panicked"),
        "{said}"
    );
}
