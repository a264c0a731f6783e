//! The connectivity of the site: a part of the job that has to go elsewhere must be reached from
//! here as well as from where the data is.

use super::{RemedyGoal, lacking_share};
use crate::bid::{BidRefusal, BidNeed, SiteSupply};
use crate::units::BitsPerSecond;

/// Returns the lacking share of the potential of the site with the job's data. A job without data,
/// or whose data is where nothing can be sent from, asks for none.
pub(super) fn index(need: &BidNeed, offer: &SiteSupply) -> Result<f64, BidRefusal> {
    Ok(lacking_share(offer.potential.0 as f64, need.source_potential.0 as f64))
}

/// Says how much more would equal the site with the data.
pub(super) fn remedy(need: &BidNeed, offer: &SiteSupply, _: &RemedyGoal<'_>) -> String {
    let more = need.source_potential.0.saturating_sub(offer.potential.0);
    format!("links to other sites that send {} more together", BitsPerSecond(more))
}
