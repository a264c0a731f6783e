//! The cost of the job's input: the time until all of it is at the site, over the run time.

use super::RemedyGoal;
use crate::bid::{BidRefusal, BidNeed, SiteSupply, InputRoute};
use crate::units::{BitsPerSecond, Bytes};

const MEGABIT: f64 = 1e6;

/// Returns the transfer time over the run time. Inputs come one after the other.
pub(super) fn index(need: &BidNeed, offer: &SiteSupply) -> Result<f64, BidRefusal> {
    let run_time = need.terms.run_time.as_secs_f64();
    if run_time <= 0.0 {
        return Err(BidRefusal::NoRunTime);
    }
    // A sum of no floats would be -0.0.
    let all = offer.routes.iter().try_fold(0.0, |sum, route| Ok(sum + transfer_seconds(need, route)?))?;
    Ok(all / run_time)
}

/// Returns the seconds until an input is at the site.
fn transfer_seconds(need: &BidNeed, route: &InputRoute) -> Result<f64, BidRefusal> {
    match route.transfer_rate() {
        None => Ok(need.terms.local_rate.map_or(0.0, |rate| route.transfer_seconds_at(rate))),
        Some(BitsPerSecond(0)) => Err(BidRefusal::NoBandwidth),
        Some(rate) => Ok(route.transfer_seconds_at(rate)),
    }
}

/// Suggests a copy, which costs nothing, or a faster link for the input that costs most.
pub(super) fn remedy(need: &BidNeed, offer: &SiteSupply, goal: &RemedyGoal<'_>) -> String {
    let sizes = offer.routes.iter().filter(|route: &&InputRoute| matches!(route, InputRoute::From { .. })).map(InputRoute::size);
    match sizes.reduce(|sum, size| Bytes(sum.0.saturating_add(size.0))) {
        None => "a faster placement.local_bandwidth".into(),
        Some(size) => {
            let link = describe_faster_link(need, offer, goal);
            let link = link.map(|link| format!(", or {link}")).unwrap_or_default();
            format!("a copy of the data ({size}){link}")
        }
    }
}

/// Describes the link that the slowest input would need, in whole Mbit/s.
fn describe_faster_link(need: &BidNeed, offer: &SiteSupply, goal: &RemedyGoal<'_>) -> Option<String> {
    let timed = offer.routes.iter().filter_map(|route| Some((transfer_seconds(need, route).ok()?, route)));
    let away = timed.clone().filter(|(_, route)| route.transfer_rate().is_some());
    let (longest, slowest) = away.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let InputRoute::From { site, .. } = slowest else { return None };
    let others = timed.map(|(time, _)| time).sum::<f64>() - longest;
    let left = goal.index? * need.terms.run_time.as_secs_f64() - others;
    let megabits = slowest.transfer_seconds_at(BitsPerSecond(1)) / left / MEGABIT;
    // Nobody lays a faster one.
    let is_sensible = left > 0.0 && megabits < 1e9;
    // Rounding errors must not add a whole Mbit/s.
    let needed = BitsPerSecond(((megabits - 1e-6).ceil() * MEGABIT) as u64);
    let now = slowest.transfer_rate()?;
    let from = (goal.name)(*site);
    is_sensible.then(|| format!("a link of {needed} from {from} instead of {now}"))
}
