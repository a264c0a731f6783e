//! The next window of a search (Steps 19 to 22 of Algorithm 1).

use super::coallocation_request::Coallocation;
use super::reservation_search::ReservationSearchFailure;
use crate::reservation::agreement::StartWindow;
use crate::units::{DurationMs, Timestamp};

/// Returns the window after this one. It ends at the earliest T_next that was named, but at least
/// one unit later than now, and never after the latest start. The window that ends there is the
/// last.
pub(super) fn next_window(
    job: &Coallocation,
    window: StartWindow,
    best: Option<Timestamp>,
) -> Result<StartWindow, ReservationSearchFailure> {
    let best = best.ok_or(ReservationSearchFailure::Never)?;
    let StartWindow { earliest, latest } = job.window;
    if window.latest >= latest {
        return Err(ReservationSearchFailure::NoCommonStart);
    }
    let unit = job.unit.max(DurationMs(1));
    let end = best.max(window.latest + unit).min(latest);
    Ok(StartWindow::new(earliest.max(end - job.tolerance), end))
}
