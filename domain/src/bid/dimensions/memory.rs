//! Memory.

use super::{RemedyGoal, lacking_share};
use crate::bid::{BidRefusal, BidNeed, SiteSupply};
use crate::units::Bytes;

/// Returns the share of the megabytes asked for that is not free.
pub(super) fn index(need: &BidNeed, offer: &SiteSupply) -> Result<f64, BidRefusal> {
    Ok(lacking_share(offer.free.memory_mb as f64, need.amounts.memory_mb as f64))
}

/// Says how much more would meet the request.
pub(super) fn remedy(need: &BidNeed, offer: &SiteSupply, _: &RemedyGoal<'_>) -> String {
    let more = need.amounts.memory_mb.saturating_sub(offer.free.memory_mb);
    format!("{} more free memory", Bytes(more.saturating_mul(1_000_000)))
}
