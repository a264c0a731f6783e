//! Asks a site for its free slots.

use std::time::Duration;

use cospan_domain::ids::SiteName;
use cospan_domain::reservation::{FreeSlot, TimeSpan};
use cospan_sites::port::{SiteCallKind, SiteError};

use super::SiteCallMessage;
use crate::context::SharedState;
use crate::site::ClusterActor;

/// A site that takes longer has not answered.
const PATIENCE: Duration = Duration::from_secs(15);

/// Asks a site what is free within a span, for `most` slots at most; none where it offers no
/// reservations.
///
/// # Errors
///
/// The site did not answer.
pub(crate) async fn free_slots(
    shared: &SharedState,
    name: &SiteName,
    span: TimeSpan,
    most: usize,
) -> Result<Vec<FreeSlot>, SiteError> {
    let cluster = shared.actors.addr::<ClusterActor>(name);
    let cluster = cluster.ok_or_else(|| SiteError::NotSent(format!("{name} is not served")))?;
    let call = SiteCallMessage::new(SiteCallKind::Reserve, move |site| {
        Box::pin(async move {
            match site.reservations() {
                Some(granting) => granting.slots(span, most).await,
                None => Ok(Vec::new()),
            }
        })
    });
    let answer = actix_rt::time::timeout(PATIENCE, cluster.send(call)).await;
    answer
        .map_err(|error| SiteError::OutcomeUnknown(error.to_string()))?
        .map_err(|error| SiteError::OutcomeUnknown(error.to_string()))?
}
