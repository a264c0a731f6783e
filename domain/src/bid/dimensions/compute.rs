//! Computing power: in processors, or in GFLOPS where any part of the job asks for those.

use super::{RemedyGoal, lacking_share};
use crate::bid::{BidRefusal, BidNeed, SiteSupply};
use crate::units::Mflops;

/// Returns the share that is lacking. If GFLOPS count, processors count with the speed of the
/// site's own.
pub(super) fn index(need: &BidNeed, offer: &SiteSupply) -> Result<f64, BidRefusal> {
    let free = offer.free.processors as f64;
    let asked = need.amounts.processors as f64;
    let power = need.amounts.power;
    if power == Mflops(0) {
        return Ok(lacking_share(free, asked));
    }
    let each = offer.power_per_processor.ok_or(BidRefusal::NoGflops)?.0 as f64;
    Ok(lacking_share(free * each, asked * each + power.0 as f64))
}

/// Says how many more processors like the site's own would meet the request.
pub(super) fn remedy(need: &BidNeed, offer: &SiteSupply, _: &RemedyGoal<'_>) -> String {
    let power = u128::from(need.amounts.power.0);
    let each = u128::from(offer.power_per_processor.unwrap_or_default().0).max(1);
    let asked = u128::from(need.amounts.processors) + power.div_ceil(each);
    match asked.saturating_sub(offer.free.processors.into()) {
        1 => "1 more free processor".into(),
        more => format!("{more} more free processors"),
    }
}
