//! How well the site is connected: a part of the job that has to go elsewhere must be reached
//! from here as well as from where the data is.

use super::lacking;
use crate::bid::{Decline, Need, Offer};

/// The site's potential, of that of the site with the job's data. A job without data, or whose
/// data is where nothing can be sent from, asks for none.
pub(in crate::bid) fn index(need: &Need, offer: &Offer) -> Result<f64, Decline> {
    Ok(lacking(offer.potential.0 as f64, need.source_potential.0 as f64))
}
