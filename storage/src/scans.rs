//! Scans over a reader, the same for every backend.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine_port::EngineReader;
use crate::envelope;
use crate::port::{StoreError, StoreKey, StoreSize, StoredValue};
use crate::store_totals::{self, FORMAT_KEY, LEDGER_KEY, RESERVED_PREFIX, StoreChecksum};

/// The reader of a journal, until it is closed.
pub(crate) struct JournalReader {
    place: String,
    reader: Mutex<Option<Arc<dyn EngineReader>>>,
}

impl JournalReader {
    pub(crate) fn new(place: &str, reader: Arc<dyn EngineReader>) -> Self {
        Self {
            place: place.into(),
            reader: Mutex::new(Some(reader)),
        }
    }

    /// Releases the store.
    pub(crate) fn close(&self) {
        self.reader
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }

    fn reader(&self) -> Option<Arc<dyn EngineReader>> {
        self.reader
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn scan_values(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(StoredValue) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let reader = self.reader().ok_or_else(|| StoreError::Io {
            path: self.place.clone(),
            action: "read",
            source: std::io::Error::other("it was closed"),
        })?;
        scan_reader(&*reader, prefix, visit)
    }

    pub(crate) fn size(&self) -> StoreSize {
        self.reader()
            .map_or_else(StoreSize::default, |reader| StoreSize {
                keys: count_keys(&*reader),
                ..reader.size()
            })
    }
}

/// Visits every value below a prefix except the store's own, opened and checked.
pub(crate) fn scan_reader(
    reader: &dyn EngineReader,
    prefix: &[u8],
    visit: &mut dyn FnMut(StoredValue) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut problem = None;
    examine_reader(reader, prefix, &mut |found| match found {
        Ok(stored) => visit(stored),
        Err(error) => {
            problem = Some(error);
            ControlFlow::Break(())
        }
    })?;
    problem.map_or(Ok(()), Err)
}

/// Visits the same, but goes on after a damaged value.
pub(crate) fn examine_reader(
    reader: &dyn EngineReader,
    prefix: &[u8],
    visit: &mut dyn FnMut(Result<StoredValue, StoreError>) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let open = envelope::opener_for(reader.is_memory());
    reader.walk(prefix, &mut |key, stored| {
        if key.starts_with(RESERVED_PREFIX) {
            return ControlFlow::Continue(());
        }
        visit(open(key, stored).map(|(head, value)| StoredValue {
            key: StoreKey(key.into()),
            version: head.version,
            value: value.into(),
        }))
    })
}

/// Returns the number of keys that units wrote, from the ledger.
fn count_keys(reader: &dyn EngineReader) -> u64 {
    let own = [store_totals::INSTANCE_KEY, store_totals::EPOCH_KEY].len() as u64;
    read_ledger(reader).map_or(0, |ledger| ledger.keys.saturating_sub(own))
}

/// Reads the ledger.
pub(crate) fn read_ledger(reader: &dyn EngineReader) -> Result<StoreChecksum, StoreError> {
    let value = read_own_value(reader, LEDGER_KEY)?;
    StoreChecksum::decode(&value)
}

/// Reads the value of one of the store's own keys.
pub(crate) fn read_own_value(
    reader: &dyn EngineReader,
    wanted: &[u8],
) -> Result<Vec<u8>, StoreError> {
    let mut value = Err(store_totals::damaged_own_key_error(wanted, "it is missing"));
    reader.walk(wanted, &mut |key, stored| {
        value = if key == FORMAT_KEY {
            Ok(stored.to_vec())
        } else {
            envelope::open_envelope(key, stored).map(|(_, value)| value.to_vec())
        };
        ControlFlow::Break(())
    })?;
    value
}
