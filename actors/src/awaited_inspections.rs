//! Shows who waits for inspections of files at sites. Volatile: whoever needs an answer asks again
//! after a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::ids::SiteName;
use cospan_domain::transfer::file_place::FilePlace;

/// The inspections that somebody waits for, at all sites.
#[derive(Debug, Clone, Default)]
pub struct AwaitedInspections(Arc<Mutex<BTreeMap<InspectedPlace, InspectionDemand>>>);

type InspectedPlace = (SiteName, FilePlace);

/// Those who want to know the content of one place.
#[derive(Debug, Clone, Copy, Default)]
struct InspectionDemand {
    callers: usize,
    /// Those of them whose turn has come.
    begun: usize,
}

/// The state of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InspectionState {
    /// It waits for its owner's turn.
    AwaitsTurn,
    /// The site is at work on it.
    Begun,
}

impl AwaitedInspections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<InspectedPlace, InspectionDemand>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters somebody who waits, until that is dropped.
    pub(crate) fn add_caller(&self, place: InspectedPlace) -> InspectionCaller {
        self.lock().entry(place.clone()).or_default().callers += 1;
        InspectionCaller {
            inspections: self.clone(),
            place,
            has_begun: false,
        }
    }

    /// Returns the state of the inspection of a place; `None` if nobody waits for one.
    pub fn state_of(&self, site: &SiteName, place: &FilePlace) -> Option<InspectionState> {
        let awaited = *self.lock().get(&(site.clone(), place.clone()))?;
        Some(match awaited.begun {
            0 => InspectionState::AwaitsTurn,
            _ => InspectionState::Begun,
        })
    }
}

/// Somebody who waits for an inspection, until it is dropped.
pub(crate) struct InspectionCaller {
    inspections: AwaitedInspections,
    place: InspectedPlace,
    has_begun: bool,
}

impl InspectionCaller {
    /// Notes that the caller's turn has come.
    pub(crate) fn note_begin(&mut self) {
        self.has_begun = true;
        if let Some(awaited) = self.inspections.lock().get_mut(&self.place) {
            awaited.begun += 1;
        }
    }
}

impl Drop for InspectionCaller {
    fn drop(&mut self) {
        let mut inspections = self.inspections.lock();
        if let Some(awaited) = inspections.get_mut(&self.place) {
            awaited.callers -= 1;
            awaited.begun -= usize::from(self.has_begun);
            if awaited.callers == 0 {
                inspections.remove(&self.place);
            }
        }
    }
}
