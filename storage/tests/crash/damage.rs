//! Damaged data directories: each opens to a prefix of the acknowledged history,
//! or is refused with file and remedy. Nothing is missing in silence.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use cospan_storage::EngineKind;
use cospan_storage::port::StoreError;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::history::{Store, build, copy_directory, on_disk, write_sparse};

/// Cuts, and as many flips, of each engine.
const CASES: usize = 200;

#[derive(Debug, Default)]
struct Tally {
    whole: usize,
    prefix: usize,
    refused: usize,
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Cut,
    Flip,
}

/// Where the bytes of a file are that are not zero: its end is often a hole.
fn used(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

fn damage(path: &Path, kind: Damage, random: &mut StdRng) -> String {
    let mut bytes = std::fs::read(path).unwrap();
    let used = used(&bytes).max(1);
    let what = match kind {
        Damage::Cut => {
            let length = random.random_range(0..used);
            bytes.truncate(length);
            format!("cut at {length}")
        }
        Damage::Flip => {
            let place = random.random_range(0..used);
            let bit = random.random_range(0..8);
            bytes[place] ^= 1 << bit;
            format!("bit {bit} of byte {place} flipped")
        }
    };
    write_sparse(path, &bytes);
    format!("{}: {what}", path.file_name().unwrap().display())
}

/// Files of a store that hold something.
fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.metadata().unwrap().len() > 0)
        .collect();
    files.sort();
    files
}

fn opens_to_a_prefix_or_is_refused(engine: EngineKind, main: &str, kind: Damage) {
    let directory = on_disk();
    let (original, acknowledged) = build(directory.path(), engine);
    let mut random = StdRng::seed_from_u64(match kind {
        Damage::Cut => 1,
        Damage::Flip => 2,
    });
    let mut tally = Tally::default();
    for case in 0..CASES {
        let copy = directory.path().join(format!("case-{case}"));
        copy_directory(&original, &copy);
        let file = if random.random_bool(0.85) {
            copy.join(main)
        } else {
            files(&copy).choose(&mut random).unwrap().clone()
        };
        let what = damage(&file, kind, &mut random);
        let thoroughly = case % 10 == 0;
        judge(&copy, engine, (acknowledged, thoroughly), &what, &mut tally);
        std::fs::remove_dir_all(&copy).unwrap();
    }
    println!("{} {kind:?}: {tally:?}", engine.as_str());
    assert!(tally.refused > 0, "{tally:?}");
}

fn judge(
    copy: &Path,
    engine: EngineKind,
    (acknowledged, thoroughly): (u64, bool),
    what: &str,
    tally: &mut Tally,
) {
    let opened = catch_unwind(AssertUnwindSafe(|| Store::open(copy, engine)));
    match opened.unwrap_or_else(|_| panic!("{what}: it panicked")) {
        Ok(mut store) => {
            if store.last == acknowledged {
                tally.whole += 1;
            } else {
                tally.prefix += 1;
            }
            assert!(store.last <= acknowledged);
            if !thoroughly {
                return;
            }
            store.append(20);
            let last = store.last;
            drop(store);
            assert_eq!(Store::open(copy, engine).unwrap().last, last, "{what}");
        }
        Err(error) => {
            tally.refused += 1;
            let text = error.to_string();
            let place = copy.file_name().unwrap().display().to_string();
            let named = text.contains(&place) || text.contains("m/store/") || text.contains("n/");
            assert!(named, "{what}: no place in {text}");
            let remedy = [
                "restore a copy",
                "export it",
                "start again",
                "start that version",
            ];
            assert!(
                remedy.iter().any(|remedy| text.contains(remedy)),
                "{what}: {text}"
            );
            assert!(!matches!(error, StoreError::InUse { .. }), "{what}: {text}");
        }
    }
}

#[cfg(feature = "sled")]
#[test]
fn a_cut_sled_opens_to_a_prefix_or_is_refused() {
    opens_to_a_prefix_or_is_refused(EngineKind::Sled, "db", Damage::Cut);
}

#[cfg(feature = "sled")]
#[test]
fn a_flipped_sled_opens_to_a_prefix_or_is_refused() {
    opens_to_a_prefix_or_is_refused(EngineKind::Sled, "db", Damage::Flip);
}

#[cfg(feature = "redb")]
#[test]
fn a_cut_redb_opens_to_a_prefix_or_is_refused() {
    opens_to_a_prefix_or_is_refused(EngineKind::Redb, "redb", Damage::Cut);
}

#[cfg(feature = "redb")]
#[test]
fn a_flipped_redb_opens_to_a_prefix_or_is_refused() {
    opens_to_a_prefix_or_is_refused(EngineKind::Redb, "redb", Damage::Flip);
}
