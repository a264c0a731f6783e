//! Finds out what files at a site are.

use cospan_domain::ids::{KeyName, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_sites::port::{InspectedFile, SiteCallKind, SiteError};

use super::{ClusterActor, SiteCallMessage};
use crate::context::SharedState;

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
        .addr::<ClusterActor>(site)
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
