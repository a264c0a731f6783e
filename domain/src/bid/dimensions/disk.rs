//! Disk.

use super::lacking;
use crate::bid::{Decline, Need, Offer};

/// Megabytes that are free, of those asked for.
pub(in crate::bid) fn index(need: &Need, offer: &Offer) -> Result<f64, Decline> {
    Ok(lacking(offer.free.disk_mb as f64, need.amounts.disk_mb as f64))
}
