//! Directories that cannot hold a store, each with its reason and the remedy.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cospan_storage::port::StoreError;
use cospan_storage::{EngineKind, FORMAT, StoreOptions, open};

use crate::history::{Store, on_disk};

fn refusal(path: &Path, engine: EngineKind) -> StoreError {
    let options = StoreOptions {
        lock_wait: Duration::from_millis(50),
        ..StoreOptions::new(engine)
    };
    match open(path, &options, Arc::new(|_| {})) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

fn each(test: impl Fn(EngineKind, &Path)) {
    for engine in EngineKind::ALL {
        let directory = on_disk();
        test(*engine, directory.path());
    }
}

#[test]
fn a_file_where_the_directory_should_be_is_refused() {
    each(|engine, base| {
        std::fs::write(base.join("file"), "x").unwrap();
        for path in [base.join("file"), base.join("file/store")] {
            let error = refusal(&path, engine).to_string();
            assert!(
                error.contains("directory") && error.contains("file"),
                "{error}"
            );
        }
    });
}

#[test]
fn a_store_in_use_is_refused_and_free_after_closing() {
    each(|engine, base| {
        let path = base.join("store");
        let store = Store::open(&path, engine).unwrap();
        let error = refusal(&path, engine);
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
        drop(store);
        Store::open(&path, engine).unwrap();
    });
}

#[test]
fn a_store_of_another_engine_is_refused() {
    for (engine, other) in EngineKind::ALL.iter().zip(EngineKind::ALL.iter().rev()) {
        let directory = on_disk();
        let path = directory.path().join("store");
        drop(Store::open(&path, *engine).unwrap());
        if engine != other {
            let error = refusal(&path, *other).to_string();
            assert!(
                error.contains(&format!("set the engine to {}", engine.as_str())),
                "{error}"
            );
        }
    }
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    each(|engine, base| {
        let path = base.join("store");
        drop(Store::open(&path, engine).unwrap());
        let marker = path.join("cospan-store.json");
        let text = std::fs::read_to_string(&marker).unwrap();
        let field = |format: u32| format!("\"cospan_store\":{format},");
        let newer = text.replace(&field(FORMAT), &field(FORMAT + 1));
        assert_ne!(newer, text);
        std::fs::write(&marker, newer).unwrap();
        let error = refusal(&path, engine);
        let is_newer = |found, known| (found, known) == (FORMAT + 1, FORMAT);
        let told =
            matches!(error, StoreError::Newer { found, known, .. } if is_newer(found, known));
        assert!(told, "{error}");
        assert!(error.to_string().contains("start that version"), "{error}");
    });
}

#[test]
fn a_directory_that_others_could_read_is_made_private() {
    each(|engine, base| {
        let path = base.join("deep/er/store");
        drop(Store::open(&path, engine).unwrap());
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        drop(Store::open(&path, engine).unwrap());
        assert_eq!(mode(&path), 0o700);
    });
}

#[test]
fn a_directory_that_somebody_made_for_others_keeps_its_mode() {
    each(|engine, base| {
        let path = base.join("thesis");
        for mode in [0o755, 0o1777, 0o710] {
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let said = Store::open(&path, engine)
                .map(drop)
                .unwrap_err()
                .to_string();
            assert!(
                said.contains(&format!("chmod 700 {}", path.display())),
                "{said}"
            );
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, mode);
            std::fs::remove_dir(&path).unwrap();
        }
    });
}

#[test]
fn an_emptied_store_is_not_taken_for_a_new_one() {
    each(|engine, base| {
        let path = base.join("store");
        let mut store = Store::open(&path, engine).unwrap();
        store.append(10);
        drop(store);
        for entry in std::fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "cospan-store.json" && entry.file_type().unwrap().is_file() {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        let error = refusal(&path, engine).to_string();
        assert!(
            error.contains("is empty, but it had reached unit 10 "),
            "{error}"
        );
        std::fs::remove_file(path.join("cospan-store.json")).unwrap();
        let error = refusal(&path, engine).to_string();
        assert!(
            error.contains("cospan-store.json: it is missing"),
            "{error}"
        );
    });
}

/// Closed in good order, a store may not end before its last unit.
#[test]
fn an_older_copy_of_the_files_is_noticed() {
    each(|engine, base| {
        let path = base.join("store");
        let old = base.join("old");
        let mut store = Store::open(&path, engine).unwrap();
        store.append(10);
        drop(store);
        crate::history::copy_directory(&path, &old);
        let mut store = Store::open(&path, engine).unwrap();
        store.append(10);
        drop(store);
        std::fs::copy(
            path.join("cospan-store.json"),
            old.join("cospan-store.json"),
        )
        .unwrap();
        let error = refusal(&old, engine).to_string();
        assert!(
            error.contains("ends with unit 10 ") && error.contains("unit 20 "),
            "{error}"
        );
    });
}
