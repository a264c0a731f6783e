//! What is refused at submission: jobs that could not be placed if every site were empty and
//! open, each with what keeps it from that; and how that is said.

use cospan_domain::ids::ComponentIndex;
use cospan_domain::placement::{Acceptance, ComponentRequest, GridSite, Hindrance, Unplaceable};
use cospan_domain::resources::Shortage;

use super::super::quantities::counts;
use super::asked::{Asked, share};
use super::ground::{Ground, KINDS};
use super::judge::{gap, never_fits};

/// Whether it takes jobs, or will without being tried out and without an operator.
pub(super) fn is_waited_for(acceptance: Acceptance) -> bool {
    match acceptance {
        Acceptance::Open => true,
        Acceptance::ProbesOnly => false,
        Acceptance::Closed(why) => [
            Hindrance::Unknown,
            Hindrance::Unreachable,
            Hindrance::Isolated,
            Hindrance::Maintenance,
            Hindrance::CredentialsExpired,
        ]
        .contains(&why),
    }
}

/// Whether it could be placed on these sites, were they empty and open.
pub(super) fn ever(asked: &Asked, sites: &[&GridSite]) -> Result<(), Unplaceable> {
    if sites.is_empty() {
        return Err(Unplaceable::NoSites);
    }
    match asked.bounds() {
        None => all_fit(&asked.parts, sites),
        Some(bounds) if bounds.splits.is_empty() => {
            split_fits(asked, bounds.min_component_size, bounds.max_components, sites)
        }
        Some(bounds) => {
            let outcomes = bounds.splits.iter().map(|split| all_fit(&asked.split(split), sites));
            // Any of them will do; what is wrong with the preferred one is told.
            outcomes.reduce(|first, next| if next.is_ok() { next } else { first }).unwrap_or(Ok(()))
        }
    }
}

fn all_fit(parts: &[ComponentRequest], sites: &[&GridSite]) -> Result<(), Unplaceable> {
    for (index, part) in (0..).map(ComponentIndex).zip(parts) {
        one_fits(index, part, sites)?;
    }
    let all: Vec<&ComponentRequest> = parts.iter().collect();
    together(&all, sites)?;
    for site in sites {
        let named = parts.iter().filter(|part| part.site.as_ref() == Some(&site.name));
        together(&named.collect::<Vec<_>>(), &[site])?;
    }
    Ok(())
}

/// One site is enough, and one that has not been heard from may be it.
fn one_fits(
    component: ComponentIndex,
    part: &ComponentRequest,
    sites: &[&GridSite],
) -> Result<(), Unplaceable> {
    let candidates =
        || sites.iter().filter(|site| part.site.as_ref().is_none_or(|named| *named == site.name));
    if let Some(site) = part.site.clone().filter(|_| candidates().next().is_none()) {
        let known: Vec<&str> = sites.iter().map(|site| site.name.as_str()).collect();
        return Err(Unplaceable::NoSuchSite { component, site, known: known.join(", ") });
    }
    let mut worst = Vec::new();
    for site in candidates() {
        let mut reasons = never_fits(part, site);
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.code()));
        let Some(reason) = reasons.into_iter().next() else { return Ok(()) };
        worst.push((reason.code(), gap(&reason), site.name.clone(), reason));
    }
    worst.sort_by(|one, other| (one.0, one.1, &one.2).cmp(&(other.0, other.1, &other.2)));
    match worst.into_iter().next() {
        None => Ok(()),
        Some((.., site, reason)) => Err(Unplaceable::ComponentTooLarge { component, site, reason }),
    }
}

/// They need no more than the sites have, as far as those are known.
fn together(parts: &[&ComponentRequest], sites: &[&GridSite]) -> Result<(), Unplaceable> {
    if sites.iter().any(|site| site.shape.is_none()) {
        return Ok(());
    }
    let sum = |all: &mut dyn Iterator<Item = [u64; 3]>| {
        all.fold([0; 3], |sum, one| std::array::from_fn(|kind| sum[kind] + one[kind]))
    };
    let needed = sum(&mut parts.iter().map(|part| counts(&part.resources)));
    let have = sum(&mut sites.iter().map(|site| Ground::quota(site)));
    match (0..3).find(|kind| needed[*kind] > have[*kind]) {
        None => Ok(()),
        Some(kind) => Err(Unplaceable::TogetherTooLarge(Shortage {
            resource: KINDS[kind].into(),
            needed: needed[kind],
            available: have[kind],
        })),
    }
}

/// Some number of sites that can hold the least component can hold all of it together.
fn split_fits(
    asked: &Asked,
    min: u32,
    most: Option<u32>,
    sites: &[&GridSite],
) -> Result<(), Unplaceable> {
    let (parts, whole) = (asked.components(), &asked.parts[0].resources);
    one_fits(ComponentIndex(0), &parts[0], sites)?;
    if sites.iter().any(|site| site.shape.is_none()) {
        return Ok(());
    }
    let open = sites.iter().filter(|site| never_fits(&parts[0], site).is_empty());
    let mut offers: Vec<u32> = open.map(|site| most_of(whole, site)).collect();
    offers.sort_unstable_by(|one, other| other.cmp(one));
    offers.truncate(most.map_or(usize::MAX, |most| most as usize));
    let all = |count: usize| offers[..count].iter().copied().map(u64::from).sum::<u64>();
    let total = whole.processors;
    let splits = |count: &usize| {
        *count as u64 * u64::from(min) <= u64::from(total) && all(*count) >= u64::from(total)
    };
    match (1..=offers.len()).find(splits) {
        Some(_) => Ok(()),
        None => {
            let (sites, usable) = (offers.len(), all(offers.len()));
            Err(Unplaceable::NoSplit { total, min, sites, usable })
        }
    }
}

/// The most of the whole that the site could hold.
fn most_of(whole: &cospan_domain::resources::Resources, site: &GridSite) -> u32 {
    let largest = site.shape.as_ref().map_or([0; 3], |shape| counts(&shape.largest_component));
    let quota = Ground::quota(site);
    let most: [u64; 3] = std::array::from_fn(|kind| largest[kind].min(quota[kind]));
    largest_share(whole, most)
}

/// The most processors whose share of the whole is there.
pub(super) fn largest_share(whole: &cospan_domain::resources::Resources, left: [u64; 3]) -> u32 {
    let fits = |own: &u32| {
        let part = counts(&share(whole, *own));
        (1..3).all(|kind| part[kind] <= left[kind])
    };
    (0..=left[0] as u32).rfind(fits).unwrap_or(0)
}
