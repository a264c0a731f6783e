//! Finds out what files at a site are, and shows who waits for that. Volatile: whoever needs an
//! answer asks again after a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::ids::{KeyName, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_sites::port::{InspectedFile, SiteCallKind, SiteError};

use super::SiteCallMessage;
use crate::actor_context::SharedState;

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

    fn add_caller(&self, place: InspectedPlace) -> InspectionCaller {
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
struct InspectionCaller {
    inspections: AwaitedInspections,
    place: InspectedPlace,
    has_begun: bool,
}

impl InspectionCaller {
    fn note_begin(&mut self) {
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

/// Finds out what a file is, through the site's actor, when it is the owner's turn. The site stops
/// reading if the future is dropped.
///
/// # Errors
///
/// The site has no such file, or does not answer.
pub(crate) async fn inspect_file(
    shared: &SharedState,
    owner: &KeyName,
    site: &SiteName,
    place: FilePlace,
) -> Result<InspectedFile, SiteError> {
    let cluster = shared
        .actors
        .clusters
        .addr(site)
        .ok_or_else(|| SiteError::NotSent("the site is not served at the moment".into()))?;
    let inspections = &shared.live.inspections;
    let mut caller = inspections.add_caller((site.clone(), place.clone()));
    let call = SiteCallMessage::new(SiteCallKind::Inspect, move |site| {
        Box::pin(async move {
            caller.note_begin();
            let inspected = site.files().inspect(&place).await;
            drop(caller);
            inspected
        })
    });
    cluster
        .send(call.for_owner(owner))
        .await
        .map_err(|error| SiteError::OutcomeUnknown(format!("its actor died: {error}")))?
}
