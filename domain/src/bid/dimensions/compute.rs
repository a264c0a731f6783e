//! Computing power: in processors, or in GFLOPS where any part of the job asks for those.

use super::lacking;
use crate::bid::{Decline, Need, Offer};
use crate::units::Mflops;

/// What is asked for in processors counts with what the site's own processors do.
pub(in crate::bid) fn index(need: &Need, offer: &Offer) -> Result<f64, Decline> {
    let (free, asked) = (offer.free.processors as f64, need.amounts.processors as f64);
    let power = need.amounts.power;
    if power == Mflops(0) {
        return Ok(lacking(free, asked));
    }
    let each = offer.power_per_processor.ok_or(Decline::NoGflops)?.0 as f64;
    Ok(lacking(free * each, asked * each + power.0 as f64))
}
