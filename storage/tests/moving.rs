//! Export, import, check.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(any(feature = "sled", feature = "redb"))]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cospan_domain::ids::Epoch;
use cospan_storage::check::check_store;
use cospan_storage::contract::StoreUnderTest;
use cospan_storage::contract::client::{ContractClient, channel_sink, delete_if, put};
use cospan_storage::export::{ExportOutcome, export_damaged, export_store};
use cospan_storage::import::{ImportError, ImportOutcome, import_store};
use cospan_storage::port::{CommitReportSink, KeyChange, StoreError, StoreKey, StoredValue};
use cospan_storage::{EngineKind, OpenedStore, StoreOptions, open_and_load};
use tempfile::TempDir;

struct Store {
    path: PathBuf,
    engine: EngineKind,
}

impl StoreUnderTest for Store {
    fn open(
        &self,
        sink: CommitReportSink,
        load: &mut dyn FnMut(StoredValue),
    ) -> Result<OpenedStore, StoreError> {
        open_and_load(&self.path, &StoreOptions::new(self.engine), sink, load)
    }
}

fn each(test: impl Fn(EngineKind, &Path)) {
    for engine in EngineKind::ALL {
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        test(*engine, directory.path());
    }
}

/// Some values in several versions, some of them no text, one of them large.
fn fill(store: &Store) -> ContractClient {
    let mut client = ContractClient::open(store);
    for i in 0..400 {
        client.append(vec![
            put(&format!("j/{i:04}"), "{\"a\": \"é\\n\"}"),
            put("count", "x"),
        ]);
    }
    let key = StoreKey([b'f', b'/', 0xff, 0].as_slice().into());
    let bytes: Box<[u8]> = (0..60_000_u32).map(|i| (i * 7) as u8).collect();
    client.commit(vec![
        KeyChange {
            key,
            expected: None,
            value: Some(bytes),
        },
        put("empty", ""),
        delete_if("j/0007", 1),
    ]);
    client
}

fn exported(client: &ContractClient) -> (Vec<u8>, ExportOutcome) {
    let journal = client.journal.clone();
    let former = Vec::new();
    let opened = OpenedStore {
        journal,
        epoch: client.epoch,
        instance: client.instance,
        former,
    };
    let mut stream = Vec::new();
    let exported = export_store(&opened, &mut stream).unwrap();
    (stream, exported)
}

fn imported(path: &Path, engine: EngineKind, stream: &[u8]) -> Result<ImportOutcome, ImportError> {
    import_store(path, &StoreOptions::new(engine), &mut &*stream)
}

#[test]
fn an_imported_store_has_every_value_and_is_another_control_planes() {
    each(|engine, base| {
        for target in EngineKind::ALL {
            let store = Store {
                path: base.join(format!("from-{}", target.as_str())),
                engine,
            };
            let client = fill(&store).reopen(&store);
            let (stream, exported) = exported(&client);
            assert_eq!((exported.records, exported.damaged), (402, 0));
            let path = base.join(format!("to-{}", target.as_str()));
            let done = imported(&path, *target, &stream).unwrap();
            assert_eq!((done.records, done.exported_from), (402, client.instance));
            assert_ne!(done.instance, client.instance);
            let new = ContractClient::open(&Store {
                path,
                engine: *target,
            });
            assert_eq!(new.instance, done.instance);
            assert!(new.epoch > client.epoch && new.epoch > done.epoch);
            assert!(new.loaded == client.scan(""), "values differ");
            let mut new = new;
            assert!(new.commit(vec![put("j/0000", "b")]).0 > 402);
        }
    });
}

#[test]
fn an_imported_store_knows_whose_it_was_for_good() {
    each(|engine, base| {
        let client = fill(&Store {
            path: base.join("store"),
            engine,
        });
        let (stream, _) = exported(&client);
        let store = Store {
            path: base.join("to"),
            engine,
        };
        imported(&store.path, engine, &stream).unwrap();
        for _ in 0..3 {
            let opened = store.open(channel_sink().0, &mut |_| {}).unwrap();
            assert_eq!(opened.former, [client.instance]);
            opened.journal.close();
        }
    });
}

#[test]
fn an_export_shows_one_moment_and_does_not_stop_the_writer() {
    each(|engine, base| {
        let store = Store {
            path: base.join("store"),
            engine,
        };
        let mut client = fill(&store);
        let before = client.scan("");
        let mut stream = Vec::new();
        let mut lines = 0;
        let journal = client.journal.clone();
        let instance = client.instance;
        let epoch = client.epoch;
        let mut writer = Interrupting(&mut stream, &mut || {
            lines += 1;
            if lines == 10 {
                client.commit(vec![put("count", "new"), put("zzz", "new")]);
            }
        });
        cospan_storage::export::export_journal(&*journal, instance, epoch, &mut writer).unwrap();
        assert_eq!(client.scan_texts("zzz").len(), 1);
        let path = base.join("imported");
        imported(&path, engine, &stream).unwrap();
        assert!(ContractClient::open(&Store { path, engine }).loaded == before);
    });
}

/// Calls a function with every write.
struct Interrupting<'a>(&'a mut Vec<u8>, &'a mut dyn FnMut());

impl std::io::Write for Interrupting<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (self.1)();
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_cut_or_changed_export_is_refused_and_leaves_the_directory_empty() {
    each(|engine, base| {
        let store = Store {
            path: base.join("store"),
            engine,
        };
        let (stream, _) = exported(&fill(&store));
        let path = base.join("imported");
        let lines: Vec<&[u8]> = stream.split_inclusive(|byte| *byte == b'\n').collect();
        let without = |index: usize| {
            let mut rest = lines.clone();
            rest.remove(index);
            rest.concat()
        };
        let text = String::from_utf8(stream.clone()).unwrap();
        let cases = [
            (stream[..stream.len() / 2].to_vec(), "is cut short"),
            (without(lines.len() - 1), "is cut short"),
            (without(5), "checksum"),
            (without(0), "not an export"),
            (text.replacen("é", "e", 1).into_bytes(), "checksum"),
            (
                text.replacen("\"count\"", "\"m/store/epoch\"", 1)
                    .into_bytes(),
                "no store has such",
            ),
            (
                text.replacen("export\":1", "export\":2", 1).into_bytes(),
                "newer version (stream 2",
            ),
            (Vec::new(), "is cut short"),
        ];
        for (stream, expected) in cases {
            let error = imported(&path, engine, &stream).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            let left: Vec<_> = std::fs::read_dir(&path)
                .unwrap()
                .map(|e| e.unwrap())
                .collect();
            assert!(
                left.iter().all(|entry| entry.file_name() == "lock"),
                "{left:?}"
            );
        }
        imported(&path, engine, &stream).unwrap();
        let error = imported(&path, engine, &stream).unwrap_err().to_string();
        assert!(
            error.contains("is not empty") && error.contains("new directory"),
            "{error}"
        );
    });
}

#[test]
fn a_check_of_a_whole_store_finds_nothing() {
    each(|engine, base| {
        let store = Store {
            path: base.join("store"),
            engine,
        };
        let mut client = ContractClient::open(&store);
        client.commit(vec![put("m/next-job", "1 1 {\"next_job\":7}")]);
        client.journal.close();
        let report = check_store(&store.path, &StoreOptions::new(engine)).unwrap();
        assert_eq!((report.records, report.damage.len()), (1, 0), "{report:?}");
        // It has taken nothing: the next epoch is the next.
        assert_eq!(client.reopen(&store).epoch, Epoch(2));
        assert!(matches!(
            check_store(&base.join("none"), &StoreOptions::new(engine)),
            Err(StoreError::NotADirectory { .. })
        ));
        std::fs::create_dir(base.join("empty")).unwrap();
        assert!(matches!(
            check_store(&base.join("empty"), &StoreOptions::new(engine)),
            Err(StoreError::NotADirectory { .. })
        ));
    });
}

#[test]
fn a_check_names_every_record_that_is_damaged() {
    each(|engine, base| {
        let store = Store {
            path: base.join("store"),
            engine,
        };
        let mut client = ContractClient::open(&store);
        client.commit(vec![
            put("m/next-job", "1 1 {\"next_job\":7}"),
            put("s/delft", "1 1 {\"site\""),
            put("s/leiden", "7 1 {}"),
            put("what", "is this"),
        ]);
        client.journal.close();
        let report = check_store(&store.path, &StoreOptions::new(engine)).unwrap();
        assert_eq!(report.records, 1);
        let damage: Vec<String> = report.damage.iter().map(ToString::to_string).collect();
        for (text, key) in damage.iter().zip(["s/delft", "s/leiden", "what"]) {
            assert!(text.contains(key), "{text}");
        }
        assert_eq!(damage.len(), 3);
    });
}

/// A store with a flipped byte in its data: what can be read is saved.
#[test]
fn what_can_be_read_of_a_damaged_store_is_exported() {
    each(|engine, base| {
        let store = Store {
            path: base.join("store"),
            engine,
        };
        let client = fill(&store);
        let before = client.scan("");
        client.journal.close();
        drop(client);
        let marker = store.path.join("cospan-store.json");
        let text = std::fs::read_to_string(&marker).unwrap();
        std::fs::write(&marker, text.replace("seq", "sex")).unwrap();
        let refused = store.open(channel_sink().0, &mut |_| {});
        assert!(refused.is_err());
        let report = check_store(&store.path, &StoreOptions::new(engine)).unwrap();
        assert!(
            report.damage[0].to_string().contains("cospan-store.json"),
            "{report:?}"
        );
        let mut stream = Vec::new();
        let saved = export_damaged(&store.path, &mut stream).unwrap();
        assert_eq!(
            saved,
            ExportOutcome {
                records: 402,
                damaged: 0
            }
        );
        let path = base.join("saved");
        imported(&path, engine, &stream).unwrap();
        let saved = ContractClient::open(&Store { path, engine });
        assert!(saved.loaded == before);
        let visit = &mut |_| ControlFlow::Continue(());
        saved.journal.scan(b"", visit).unwrap();
    });
}
