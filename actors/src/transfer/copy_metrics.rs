//! Counts the events of copies in the metrics, and logs them.

use cospan_domain::transfer::copy_event::{CopyEvent, CopyEventKind};
use cospan_domain::transfer::copy_state::{CopyPhase, CopyRecord};
use tracing::{debug, info, warn};

use super::CopyKey;
use crate::metrics::ControlPlaneMetrics;

/// Counts and logs an event of a copy.
pub(super) fn count_copy_event(
    metrics: &ControlPlaneMetrics,
    key: &CopyKey,
    before: &CopyRecord,
    event: &CopyEvent,
) {
    let (digest, site) = key;
    match &event.what {
        CopyEventKind::CopyCompleted => {
            if let CopyPhase::Copying { since, .. } = &before.phase {
                metrics
                    .transfer_seconds
                    .observe(event.at.since(*since).as_secs_f64());
            }
            metrics.transferred_bytes.inc_by(before.content.size.0);
            info!(%digest, %site, bytes = before.content.size.0, "copy is complete");
        }
        CopyEventKind::TryFailed { blame, detail, .. } => {
            metrics
                .transfer_failures
                .with_label_values(&[blame.as_str()])
                .inc();
            warn!(%digest, %site, blame = blame.as_str(), %detail, "copying failed");
        }
        CopyEventKind::CopyStalled { detail } => {
            metrics
                .transfer_failures
                .with_label_values(&["stall"])
                .inc();
            warn!(%digest, %site, %detail, "copy has stalled");
        }
        CopyEventKind::SourceMissing {
            detail, hopeless, ..
        } => {
            warn!(%digest, %site, hopeless, %detail, "no source for a copy");
        }
        CopyEventKind::CopyLost { detail } => warn!(%digest, %site, %detail, "copy was lost"),
        other => debug!(%digest, %site, event = other.name(), "decided"),
    }
}
