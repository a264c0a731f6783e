//! Computing power: in processors, or in GFLOPS where any part of the job asks for those.

use super::lacking;
use crate::bid::{Decline, Need, Offer};

/// What is asked for in processors counts with what the site's own processors do.
pub(in crate::bid) fn index(need: &Need, offer: &Offer) -> Result<f64, Decline> {
    let (free, asked) = (offer.free.processors as f64, need.amounts.processors as f64);
    if need.amounts.mflops == 0 {
        return Ok(lacking(free, asked));
    }
    let each = offer.mflops_per_processor.ok_or(Decline::NoGflops)? as f64;
    Ok(lacking(free * each, asked * each + need.amounts.mflops as f64))
}
