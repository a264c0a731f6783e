//! A store in memory that answers at once.

use std::sync::{Arc, Mutex};

use cospan_domain::ids::InstanceId;
use cospan_storage::OpenedStore;
use cospan_storage::memory::{self, MemoryDisk};
use cospan_storage::port::{
    AppendOutcome, CommitReport, JournalUnit, KeyChange, StoredValue, UnitToken,
};
use cospan_storage::record::{LoadedRecords, RecordLoader};

pub(crate) struct Place {
    pub(crate) disk: MemoryDisk,
    pub(crate) opened: OpenedStore,
    outcomes: Arc<Mutex<Vec<AppendOutcome>>>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let disk = MemoryDisk::default();
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&outcomes);
        let sink = Arc::new(move |report| {
            let CommitReport::Group(group) = report else {
                panic!("{report:?}")
            };
            seen.lock()
                .unwrap()
                .extend(group.outcomes.into_iter().map(|(_, outcome)| outcome));
        });
        let opened = memory::open(&disk, InstanceId::from_random(1), sink).unwrap();
        Self {
            disk,
            opened,
            outcomes,
        }
    }

    pub(crate) fn run(&self, changes: Vec<KeyChange>) -> AppendOutcome {
        self.opened
            .journal
            .append(self.opened.epoch, UnitToken(0), JournalUnit { changes });
        self.outcomes.lock().unwrap().pop().unwrap()
    }

    pub(crate) fn commit(&self, changes: Vec<KeyChange>) {
        let outcome = self.run(changes);
        assert!(
            matches!(outcome, AppendOutcome::Committed(_)),
            "{outcome:?}"
        );
    }

    /// What an opening would load.
    pub(crate) fn load(&self) -> LoadedRecords {
        self.load_by(RecordLoader::default())
    }

    pub(crate) fn load_by(&self, mut loader: RecordLoader) -> LoadedRecords {
        memory::open_and_load(
            &self.disk.copy(),
            InstanceId::from_random(1),
            Arc::new(|_| {}),
            &mut |stored: StoredValue| loader.take_stored_value(stored).unwrap(),
        )
        .unwrap();
        loader.finish().unwrap()
    }

    /// The keys below a prefix, as text.
    pub(crate) fn keys(&self, prefix: &str) -> Vec<String> {
        let mut keys = Vec::new();
        self.opened
            .journal
            .scan(prefix.as_bytes(), &mut |stored| {
                keys.push(String::from_utf8(stored.key.0.into()).unwrap());
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        keys
    }
}
