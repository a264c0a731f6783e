//! A store that is gone, cut, or older than it was: noticed, named, and gone on with only
//! once somebody has said so.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(any(feature = "sled", feature = "redb"))]

#[path = "../../sites/tests/support/unprivileged.rs"]
mod unprivileged;

use std::fmt::Debug;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use cospan_storage::accept_loss::accept_loss;
use cospan_storage::check::check_store;
use cospan_storage::contract::StoreUnderTest;
use cospan_storage::contract::client::{ContractClient, put};
use cospan_storage::export::export_store;
use cospan_storage::import::import_store;
use cospan_storage::port::{AppendOutcome, CommitReportSink, StoreError, StoredValue};
use cospan_storage::{EngineKind, OpenedStore, StoreOptions, check_openable, open_and_load};
use tempfile::TempDir;
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use unprivileged::unprivileged;

struct Store {
    path: PathBuf,
    options: StoreOptions,
}

impl StoreUnderTest for Store {
    fn open(
        &self,
        sink: CommitReportSink,
        load: &mut dyn FnMut(StoredValue),
    ) -> Result<OpenedStore, StoreError> {
        open_and_load(&self.path, &self.options, sink, load)
    }
}

impl Store {
    fn of(engine: EngineKind, base: &Path) -> Self {
        let floor = Some(base.join("store.floor"));
        Self {
            path: base.join("store"),
            options: StoreOptions {
                floor,
                ..StoreOptions::new(engine)
            },
        }
    }

    fn engine_file(&self) -> PathBuf {
        let name = if self.options.engine.as_str() == "sled" {
            "db"
        } else {
            "redb"
        };
        self.path.join(name)
    }

    fn refusal(&self) -> String {
        let opened = self.open(Arc::new(|_| {}), &mut |_| {});
        match opened.map(drop).unwrap_err() {
            StoreError::Behind(gap) => StoreError::Behind(gap).to_string(),
            error => panic!("refused for another reason: {error}"),
        }
    }
}

fn each(test: impl Fn(Store)) {
    for engine in EngineKind::ALL {
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        test(Store::of(*engine, directory.path()));
    }
}

fn spec(job: u64) -> String {
    format!("j/{job:016x}/s")
}

/// Accepts jobs up to this one; their ids were reserved up to the next hundred.
fn accept_jobs(client: &mut ContractClient, jobs: std::ops::RangeInclusive<u64>) {
    let next = jobs.end().next_multiple_of(100);
    client.commit(vec![put(
        "m/next-job",
        &format!("1 1 {{\"next_job\":{next}}}"),
    )]);
    for job in jobs {
        client.commit(vec![put(&spec(job), "what it asks for")]);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let place = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy(&entry, &place)
        } else {
            std::fs::copy(&entry, &place).unwrap();
        }
    }
}

/// What is done to a store; other copies of it lie in the directory.
type Lose = fn(&Store, &Path);

/// What may become of a store between an end and the next start.
const LOSSES: [(&str, Lose); 6] = [
    ("removed", |store, _| {
        std::fs::remove_dir_all(&store.path).unwrap()
    }),
    ("moved away", |store, _| {
        std::fs::rename(&store.path, store.path.with_extension("away")).unwrap();
    }),
    ("emptied", |store, _| {
        std::fs::remove_dir_all(&store.path).unwrap();
        std::fs::create_dir(&store.path).unwrap();
        set_mode(&store.path, 0o700);
    }),
    ("an older copy made at rest", |store, base| {
        replace(store, &base.join("at-rest"))
    }),
    ("an older copy made in use", |store, base| {
        replace(store, &base.join("in-use"))
    }),
    ("an older engine's file", |store, base| {
        let name = store.engine_file();
        std::fs::copy(base.join("at-rest").join(name.file_name().unwrap()), name).unwrap();
    }),
];

fn replace(store: &Store, by: &Path) {
    std::fs::remove_dir_all(&store.path).unwrap();
    copy(by, &store.path);
}

#[test]
fn a_lost_store_is_refused_until_its_loss_is_accepted() {
    for (how, lose) in LOSSES {
        each(|store| {
            let base = store.path.parent().unwrap().to_path_buf();
            let mut client = ContractClient::open(&store);
            accept_jobs(&mut client, 1..=20);
            client.journal.close();
            copy(&store.path, &base.join("at-rest"));
            let mut client = client.reopen(&store);
            accept_jobs(&mut client, 101..=120);
            copy(&store.path, &base.join("in-use"));
            accept_jobs(&mut client, 201..=220);
            let before = client.commit(vec![put("count", "x")]);
            let epoch = client.epoch;
            client.journal.close();
            drop(client);

            lose(&store, &base);
            let was_there = store.path.exists();
            let said = store.refusal();
            for words in [
                "store accept-loss",
                "restore a copy",
                "store.floor",
                "60 live jobs",
            ] {
                assert!(said.contains(words), "{how}: {words} is not in: {said}");
            }
            assert_eq!(
                store.path.exists(),
                was_there,
                "{how}: nothing is made in its place"
            );
            let damage = check_store(&store.path, &store.options).unwrap().damage;
            assert!(
                damage.iter().any(|found| found.to_string() == said),
                "{how}: {damage:?}"
            );

            let accepted = accept_loss(&store.path, &store.options).unwrap().unwrap();
            assert_eq!(
                accepted.next_job.0, 300,
                "{how}: above all that were given out"
            );
            assert_eq!(
                accept_loss(&store.path, &store.options).unwrap(),
                None,
                "{how}: once"
            );
            let mut client = ContractClient::open(&store);
            assert!(
                client.epoch > epoch,
                "{how}: {} after {epoch}",
                client.epoch
            );
            let live = client.scan("j/").len() as u64;
            assert!(
                live == accepted.live_jobs && live < 60,
                "{how}: {live} jobs"
            );
            assert_eq!(
                client.scan_texts("m/next-job")[0].2,
                "1 1 {\"next_job\":300}"
            );
            assert!(
                client.commit(vec![put("count", "y")]) > before,
                "{how}: units count on"
            );
            drop(client.reopen(&store));
            // What these jobs ask for is no record, which a check says as well.
            let damage = check_store(&store.path, &store.options).unwrap().damage;
            let gap = damage
                .iter()
                .find(|found| matches!(found, StoreError::Behind(_)));
            assert!(gap.is_none(), "{how}: {gap:?}");
        });
    }
}

#[test]
fn a_store_cut_to_four_fifths_is_never_taken_for_the_whole() {
    each(|store| {
        let mut client = ContractClient::open(&store);
        accept_jobs(&mut client, 1..=99);
        copy(&store.path, &store.path.with_extension("live"));
        drop(client);
        replace(&store, &store.path.with_extension("live"));
        let bytes = std::fs::read(store.engine_file()).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        std::fs::write(store.engine_file(), &bytes[..used * 4 / 5]).unwrap();
        // One engine finds a beginning, the other damage: in silence nothing is missing.
        assert!(
            !check_store(&store.path, &store.options)
                .unwrap()
                .damage
                .is_empty()
        );
        assert!(store.open(Arc::new(|_| {}), &mut |_| {}).is_err());
    });
}

#[test]
fn a_store_that_is_gone_while_it_is_used_takes_and_acknowledges_nothing_more() {
    let gone: [fn(&Path); 3] = [
        |path| std::fs::remove_dir_all(path).unwrap(),
        |path| std::fs::rename(path, path.with_extension("away")).unwrap(),
        |path| {
            let away = path.with_extension("away");
            std::fs::rename(path, &away).unwrap();
            copy(&away, path);
        },
    ];
    for lose in gone {
        for appends in [true, false] {
            each(|store| {
                let mut client = ContractClient::open(&store);
                accept_jobs(&mut client, 1..=3);
                lose(&store.path);
                if appends {
                    client.append(vec![put("count", "x")]);
                }
                let said = client.wait_for_failure();
                assert!(said.contains("removed, moved, or replaced"), "{said}");
                assert!(said.contains(&store.path.display().to_string()), "{said}");
            });
        }
    }
}

/// What keeps a store from being looked at, and how that ends.
type StoreObstruction = (&'static str, fn(&Path), fn(&Path));

const TROUBLES: [StoreObstruction; 3] = [
    (
        "its parent is closed",
        |parent| set_mode(parent, 0o000),
        |parent| set_mode(parent, 0o700),
    ),
    (
        "its parent is somewhere else",
        |parent| std::fs::rename(parent, parent.with_extension("away")).unwrap(),
        |parent| std::fs::rename(parent.with_extension("away"), parent).unwrap(),
    ),
    (
        "a file is in its parent's place",
        |parent| {
            std::fs::rename(parent, parent.with_extension("away")).unwrap();
            std::fs::write(parent, "").unwrap();
        },
        |parent| {
            std::fs::remove_file(parent).unwrap();
            std::fs::rename(parent.with_extension("away"), parent).unwrap();
        },
    ),
];

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// What stores say meanwhile.
#[derive(Clone, Default)]
struct Warnings(Arc<(Mutex<Vec<String>>, Condvar)>);

impl Warnings {
    /// Waits until something was said of a store in this place.
    fn await_one_of(&self, place: &Path) {
        let (said, more) = &*self.0;
        let place = place.display().to_string();
        let patience = Duration::from_secs(60);
        let waited =
            more.wait_timeout_while(said.lock().unwrap(), patience, |said: &mut Vec<String>| {
                !said.iter().any(|text| text.contains(&place))
            });
        assert!(!waited.unwrap().1.timed_out(), "nothing is said of {place}");
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut |_: &Field, value: &dyn Debug| text += &format!("{value:?} "));
        self.0.0.lock().unwrap().push(text);
        self.0.1.notify_all();
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_store_that_cannot_be_looked_at_for_a_while_acknowledges_nothing_and_goes_on() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).unwrap();
    for (how, begin, end) in TROUBLES {
        for engine in EngineKind::ALL {
            let warnings = warnings.clone();
            unprivileged(move || {
                let base = TempDir::new().unwrap();
                let parent = base.path().join("parent");
                std::fs::create_dir(&parent).unwrap();
                let mut client = ContractClient::open(&Store::of(*engine, &parent));
                accept_jobs(&mut client, 1..=3);
                begin(&parent);
                let token = client.append(vec![put("count", "x")]);
                warnings.await_one_of(base.path());
                client.handle_reports();
                assert!(
                    client.outcome_of(token).is_none(),
                    "{how}: acknowledged unseen"
                );
                end(&parent);
                assert!(
                    matches!(client.wait_for_outcome(token), AppendOutcome::Committed(_)),
                    "{how}"
                );
                accept_jobs(&mut client, 4..=5);
            });
        }
    }
}

#[test]
fn a_stop_while_the_store_cannot_be_looked_at_says_why_at_once() {
    unprivileged(|| {
        let base = TempDir::new().unwrap();
        let parent = base.path().join("parent");
        std::fs::create_dir(&parent).unwrap();
        let mut client = ContractClient::open(&Store::of(EngineKind::ALL[0], &parent));
        set_mode(&parent, 0o000);
        client.append(vec![put("count", "x")]);
        client.journal.close();
        let said = client.wait_for_failure();
        set_mode(&parent, 0o700);
        assert!(
            said.contains("cannot be looked at: Permission denied"),
            "{said}"
        );
        assert!(!said.contains("removed"), "{said}");
    });
}

#[test]
fn an_import_sets_the_floor_anew_and_gives_out_no_job_id_twice() {
    each(|store| {
        let mut client = ContractClient::open(&store);
        accept_jobs(&mut client, 1..=20);
        let journal = client.journal.clone();
        let epoch = client.epoch;
        let instance = client.instance;
        let mut stream = Vec::new();
        export_store(
            &OpenedStore {
                journal,
                epoch,
                instance,
                former: Vec::new(),
            },
            &mut stream,
        )
        .unwrap();
        accept_jobs(&mut client, 101..=120);
        client.journal.close();
        drop(client);
        std::fs::rename(&store.path, store.path.with_extension("before")).unwrap();
        assert!(
            check_openable(&store.path, &store.options).is_err(),
            "it is gone, the doctor says"
        );
        import_store(&store.path, &store.options, &mut &*stream).unwrap();
        check_openable(&store.path, &store.options).unwrap();
        let client = ContractClient::open(&store);
        assert_ne!(client.instance, instance);
        assert_eq!(
            client.scan_texts("m/next-job")[0].2,
            "1 1 {\"next_job\":200}"
        );
        assert_eq!(client.scan("j/").len(), 20);
        drop(client);
        // The store that was there before is another one now.
        std::fs::rename(&store.path, store.path.with_extension("after")).unwrap();
        std::fs::rename(store.path.with_extension("before"), &store.path).unwrap();
        let said = store.refusal();
        assert!(said.contains("is that of control plane"), "{said}");
    });
}

#[test]
fn the_floor_has_come_as_far_as_the_store_before_anybody_hears_of_it() {
    each(|store| {
        let floor = store.options.floor.clone().unwrap();
        let mut client = ContractClient::open(&store);
        for job in 1..20 {
            let seq = client.commit(vec![put(&spec(job), "what it asks for")]);
            let text = std::fs::read_to_string(&floor).unwrap();
            assert!(
                text.contains(&format!("\"seq\":{seq},")),
                "{seq} is not in {text}"
            );
        }
    });
}

#[test]
fn a_store_of_before_there_were_floors_gets_one_at_its_next_start() {
    each(|store| {
        let mut client = ContractClient::open(&store);
        accept_jobs(&mut client, 1..=20);
        client.journal.close();
        let floor = store.options.floor.clone().unwrap();
        std::fs::remove_file(&floor).unwrap();
        drop(client.reopen(&store));
        let text = std::fs::read_to_string(&floor).unwrap();
        assert!(
            text.contains("\"live_jobs\":20") && text.contains("\"next_job\":100"),
            "{text}"
        );
        std::fs::remove_dir_all(&store.path).unwrap();
        assert!(store.refusal().contains("20 live jobs"));
    });
}
