//! The port of a store as an engine keeps it somewhere: in a directory, or elsewhere.

use std::io::BufRead;

use crate::directory_store::accept_loss::AcceptedLoss;
use crate::directory_store::check::StoreCheckReport;
use crate::import::{ImportError, ImportOutcome};
use crate::port::{CommitReportSink, OpenedStore, StoreError, StoredValue};

/// A store in its place. The engine made this from its own configuration, and touches nothing before
/// the first call. Whatever guards the place (locks, markers, floors) is the engine's.
pub trait StorePlace: Send + Sync {
    /// Returns the name of the engine, in configuration and reports.
    fn engine_name(&self) -> &'static str;

    /// Returns the place, for people.
    fn place_text(&self) -> String;

    /// Opens the store, creating it if needed, and takes the next epoch: from now on appends of
    /// earlier epochs are fenced. Passes every stored value to `load`: the check that the store is
    /// whole reads all of them anyway. After an error none of the loaded values counts.
    ///
    /// # Errors
    /// Fails if the place cannot be used, or the store is in use, newer or damaged, or there is no
    /// room; each error says what to do.
    fn open_and_load(
        &self,
        sink: CommitReportSink,
        load: &mut dyn FnMut(StoredValue),
    ) -> Result<OpenedStore, StoreError>;

    /// Checks what [`StorePlace::open_and_load`] would say of the store before it reads it. Takes
    /// no epoch, and makes no store.
    ///
    /// # Errors
    /// As for [`StorePlace::open_and_load`].
    fn check_openable(&self) -> Result<(), StoreError>;

    /// Checks a store that nobody uses: every value, every record, and whether all of them are
    /// there.
    ///
    /// # Errors
    /// Fails if the store cannot be opened at all: in use, newer, or not there.
    fn check_store(&self) -> Result<StoreCheckReport, StoreError>;

    /// Makes the store from an export, as that of another control plane. Nothing may be there.
    ///
    /// # Errors
    /// Fails if something is there, the place cannot be used, or the export is cut short, changed,
    /// or newer. Nothing is there then.
    fn import_store(&self, input: &mut dyn BufRead) -> Result<ImportOutcome, ImportError>;

    /// Accepts a store that has fallen behind what is known of it; `None` if nothing is missing.
    /// Nobody may use it meanwhile.
    ///
    /// # Errors
    /// Fails if there is no store and never was, or it is in use, newer, or damaged in itself.
    fn accept_loss(&self) -> Result<Option<AcceptedLoss>, StoreError>;
}
