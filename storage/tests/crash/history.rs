//! A history whose every prefix is known: unit k writes `n/<k>`, deletes what
//! was written `KEPT` units before, and counts itself in `count`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use cospan_storage::contract::{client::channel_sink, file_system_of};
use cospan_storage::port::{
    AppendOutcome, CommitReport, JournalUnit, KeyChange, KeyVersion, StoreError, StoreKey,
    StoredValue, UnitToken,
};
use cospan_storage::{EngineKind, OpenedStore, StoreOptions, open_and_load};
use tempfile::TempDir;

/// Units whose value stays.
pub(crate) const KEPT: u64 = 300;

/// A directory on a disk: memory keeps what was never synced.
pub(crate) fn on_disk() -> TempDir {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let kind = file_system_of(base);
    println!("{} is on {kind}", base.display());
    assert!(
        kind != "tmpfs" && kind != "ramfs",
        "nothing is shown about durability on {kind}"
    );
    TempDir::new_in(base).unwrap()
}

/// Unit number `k`, from 1.
pub(crate) fn unit(k: u64) -> JournalUnit {
    let put = |key: String, expected: u64, value: Box<[u8]>| KeyChange {
        key: StoreKey::from(key.as_str()),
        expected: Some(KeyVersion(expected)),
        value: Some(value),
    };
    let mut changes = vec![
        put(format!("n/{k:08}"), 0, value(k)),
        put("count".into(), k - 1, k.to_string().into_bytes().into()),
    ];
    if k > KEPT {
        let key = StoreKey::from(format!("n/{:08}", k - KEPT).as_str());
        changes.push(KeyChange {
            key,
            expected: Some(KeyVersion(1)),
            value: None,
        });
    }
    JournalUnit { changes }
}

/// What unit `k` wrote; some values are large.
fn value(k: u64) -> Box<[u8]> {
    let length = if k.is_multiple_of(97) {
        50_000
    } else {
        50 + k % 1_500
    };
    (0..length)
        .map(|i| (k.wrapping_mul(31).wrapping_add(i) >> 3) as u8)
        .collect()
}

type Values = BTreeMap<StoreKey, (KeyVersion, Box<[u8]>)>;

/// What a store holds after unit `k`.
fn after(k: u64) -> Values {
    let first = k.saturating_sub(KEPT) + 1;
    let mut values: Values = (first..=k)
        .map(|k| {
            (
                StoreKey::from(format!("n/{k:08}").as_str()),
                (KeyVersion(1), value(k)),
            )
        })
        .collect();
    if k > 0 {
        values.insert(
            StoreKey::from("count"),
            (KeyVersion(k), k.to_string().into_bytes().into()),
        );
    }
    values
}

/// An opened store with such a history.
pub(crate) struct Store {
    pub(crate) opened: OpenedStore,
    /// The last unit that it holds.
    pub(crate) last: u64,
    reports: Arc<Mutex<std::sync::mpsc::Receiver<CommitReport>>>,
}

impl Store {
    /// Opens it, and checks that it holds a prefix of the history, whole.
    pub(crate) fn open(path: &Path, engine: EngineKind) -> Result<Self, StoreError> {
        let mut values = Values::new();
        let (sink, reports) = channel_sink();
        let opened = open_and_load(
            path,
            &StoreOptions::new(engine),
            sink,
            &mut |stored: StoredValue| {
                values.insert(stored.key, (stored.version, stored.value));
            },
        )?;
        let last = values
            .get(&StoreKey::from("count"))
            .map_or(Some(0), |(_, value): &(KeyVersion, Box<[u8]>)| {
                std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.parse().ok())
            })
            .unwrap();
        assert!(
            values == after(last),
            "what is there after unit {last} is not what was written"
        );
        Ok(Self {
            opened,
            last,
            reports: Arc::new(Mutex::new(reports)),
        })
    }

    /// Appends units and waits for all of them.
    pub(crate) fn append(&mut self, units: u64) {
        let epoch = self.opened.epoch;
        for k in self.last + 1..=self.last + units {
            self.opened.journal.append(epoch, UnitToken(k), unit(k));
        }
        let mut waiting = units;
        while waiting > 0 {
            let report = self.reports.lock().unwrap().recv().unwrap();
            let CommitReport::Group(group) = report else {
                panic!("{report:?}")
            };
            for (_, outcome) in group.outcomes {
                assert!(
                    matches!(outcome, AppendOutcome::Committed(_)),
                    "{outcome:?}"
                );
                waiting -= 1;
            }
        }
        self.last += units;
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.opened.journal.close();
    }
}

/// A store with a history over several openings; the last one was killed, as
/// far as its files can tell, because they are copied before it is closed.
pub(crate) fn build(at: &Path, engine: EngineKind) -> (PathBuf, u64) {
    let path = at.join(format!("history-{}", engine.as_str()));
    for _ in 0..2 {
        let mut store = Store::open(&path, engine).unwrap();
        (0..30).for_each(|i| store.append(1 + i % 12));
    }
    let mut store = Store::open(&path, engine).unwrap();
    (0..60).for_each(|i| store.append(1 + i % 12));
    let copied = at.join(format!("killed-{}", engine.as_str()));
    copy_directory(&path, &copied);
    (copied, store.last)
}

/// Copies a directory, leaving out blocks of zeros as holes.
pub(crate) fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            write_sparse(&target, &std::fs::read(entry.path()).unwrap());
        }
    }
}

/// Writes a file, leaving out blocks of zeros as holes.
pub(crate) fn write_sparse(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (i, block) in bytes.chunks(4096).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, i as u64 * 4096).unwrap();
        }
    }
}
