//! Processors withheld for the oldest job of the highest class: until when, and how many of
//! which site.

use cospan_domain::ids::SiteName;
use cospan_domain::placement::{GridSnapshot, PlacementRequest, Remaining};
use cospan_domain::queue::HoardParameters;
use cospan_domain::units::{PerMillion, Timestamp};

use super::super::placement::never_fits;

/// After a time they are withheld for so long, then not for as long, and so on.
pub(super) fn until(hoard: &HoardParameters, entered: u64, now: u64) -> Option<Timestamp> {
    let mut begins = entered + hoard.after?.0;
    loop {
        let ends = begins + hoard.time.0;
        if now < begins {
            return None;
        }
        if now < ends {
            return Some(Timestamp(ends));
        }
        begins = ends + hoard.time.0;
    }
}

/// Each component, the largest first, has what is left where most is left of the sites that
/// could hold it when empty, but never more of a site than the share.
pub(super) fn withhold(
    request: &PlacementRequest,
    grid: &GridSnapshot,
    share: PerMillion,
    remaining: &mut Remaining,
) -> Vec<(SiteName, u32)> {
    let sites = grid.sites();
    let mut bounds: Vec<u64> = Vec::new();
    for site in sites {
        let total = site.shape.as_ref().map_or(0, |shape| u64::from(shape.total.processors));
        bounds.push(total * u64::from(share.0) / 1_000_000);
    }
    let mut parts: Vec<_> = request.components().iter().collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.resources.processors));
    let mut taken = vec![0; sites.len()];
    for part in parts {
        let mut best: Option<(u64, usize)> = None;
        for (at, site) in sites.iter().enumerate() {
            let named = part.site.as_ref().is_none_or(|name| *name == site.name);
            let takes = site.acceptance.hindrance(request.may_probe()).is_none();
            if !named || !takes || site.shape.is_none() || !never_fits(part, site).is_empty() {
                continue;
            }
            let left = u64::from(remaining.processors()[at]).min(bounds[at]);
            if best.is_none_or(|(most, _)| left > most) {
                best = Some((left, at));
            }
        }
        let Some((left, at)) = best else { continue };
        let count = left.min(u64::from(part.resources.processors));
        bounds[at] -= count;
        taken[at] += u32::try_from(count).unwrap_or(0);
        remaining.withhold(at, u32::try_from(count).unwrap_or(0));
    }
    let names = sites.iter().map(|site| site.name.clone());
    names.zip(taken).filter(|(_, count)| *count > 0).collect()
}
