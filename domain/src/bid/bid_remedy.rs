//! Remedies: changes that would bring a site nearer to a job.

use super::dimensions::RemedyGoal;
use super::needs_and_means::{BidNeed, SiteSupply};
use super::site_bid::Bid;

/// Describes what would bring the site nearer in the dimension that adds most to its distance, with
/// an amount where one follows. `nearest` is the distance of the nearest of all sites; `name`
/// returns the name of a site by its index. `None` at the origin.
pub fn suggest_remedy(
    bid: &Bid,
    need: &BidNeed,
    offer: &SiteSupply,
    nearest: f64,
    name: &dyn Fn(usize) -> String,
) -> Option<String> {
    let dimension = bid.farthest?;
    let factor = need.terms.weights.get(dimension).factor();
    let counted = bid.index(dimension) * factor;
    let beside = bid.distance * bid.distance - counted * counted;
    let left = nearest * nearest - beside;
    let is_nearest = bid.distance <= nearest;
    let index = (!is_nearest && left > 0.0).then(|| left.sqrt() / factor);
    Some(dimension.remedy(need, offer, &RemedyGoal { index, name }))
}
