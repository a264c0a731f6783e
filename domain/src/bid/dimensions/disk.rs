//! Disk.

use super::{Goal, lacking_share};
use crate::bid::{Decline, BidNeed, SiteMeans};
use crate::units::Bytes;

/// Returns the share of the megabytes asked for that is not free.
pub(super) fn index(need: &BidNeed, offer: &SiteMeans) -> Result<f64, Decline> {
    Ok(lacking_share(offer.free.disk_mb as f64, need.amounts.disk_mb as f64))
}

/// Says how much more would meet the request.
pub(super) fn remedy(need: &BidNeed, offer: &SiteMeans, _: &Goal<'_>) -> String {
    let more = need.amounts.disk_mb.saturating_sub(offer.free.disk_mb);
    format!("{} more free disk", Bytes(more.saturating_mul(1_000_000)))
}
