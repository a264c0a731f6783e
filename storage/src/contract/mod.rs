//! The contract of every store. A backend passes if [`contract_tests!`] of it does.
//!
//! [`contract_tests!`]: crate::contract_tests

#![allow(
    missing_docs,
    reason = "each case is a test, and its name says what it shows"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a case fails by panicking, like any test"
)]

pub mod client;
mod lifecycle;
mod model;
mod scan_contract;
mod unit_order;
mod units;

use std::path::Path;

pub use client::ContractClient;
pub use lifecycle::*;
pub use model::*;
pub use scan_contract::*;
pub use unit_order::*;
pub use units::*;

use crate::port::{CommitReportSink, OpenedStore, StoreError, StoredValue};

/// A place for one store that can be opened again and again.
pub trait StoreUnderTest {
    /// Opens the store, and passes all committed values to `load`.
    ///
    /// # Errors
    /// As for [`crate::open_and_load`].
    fn open(
        &self,
        sink: CommitReportSink,
        load: &mut dyn FnMut(StoredValue),
    ) -> Result<OpenedStore, StoreError>;
}

/// Returns the kind of the file system that holds `path`, from `/proc/mounts`. Durability must not
/// be tested on one that lives in memory.
pub fn file_system_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap();
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let (_, kind) = mounts
        .filter(|(place, _)| path.starts_with(place))
        .max_by_key(|(place, _)| place.len())
        .unwrap_or(("", "unknown"));
    kind.into()
}

/// Makes one test of each case, for the subject that `$make` makes.
#[macro_export]
macro_rules! contract_tests {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "what the expression needs")]
            use super::*;

            $crate::contract_tests!(@cases $make;
                the_version_of_a_key_counts_its_writes
                a_wrong_version_refuses_the_whole_unit
                a_key_that_must_be_new_is_refused_if_it_is_there
                a_key_without_expectation_goes_with_the_guard_of_its_unit
                units_see_what_their_predecessors_in_the_group_wrote
                a_deleted_key_is_gone_and_starts_anew
                a_unit_beyond_the_bounds_is_refused_with_the_bound
                a_unit_at_the_bounds_is_kept_whole
                outcomes_come_in_the_order_of_append
                positions_rise_by_one_with_every_committed_unit
                a_barrier_is_answered_after_everything_before_it
                units_of_many_threads_are_decided_once_each_and_in_their_order
                a_sink_may_append
                an_append_of_another_epoch_is_fenced
                reopening_keeps_everything_and_raises_the_epoch
                positions_go_on_after_reopening
                loading_shows_what_a_scan_shows
                closing_decides_everything_that_was_appended
                a_closed_journal_takes_nothing_and_says_so_when_read
                a_scan_shows_a_prefix_in_order
                a_scan_stops_when_it_is_told_to
                a_scan_of_everything_stops_when_it_is_told_to
                a_scan_shows_one_moment_while_writing_goes_on
                a_scan_of_everything_shows_one_moment_while_writing_goes_on
                the_size_counts_the_keys
                any_history_leaves_what_the_model_says
            );
        }
    };
    (@cases $make:expr; $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $crate::contract::$case(&$make);
            }
        )*
    };
}
