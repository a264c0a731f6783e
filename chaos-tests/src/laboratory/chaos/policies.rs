//! What the other policies would make of what is free at rest, by the rules of the guide.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use cospan_domain::ids::{PolicyName, RelPath, SiteName};
use cospan_domain::job::spec::{FileRef, Flexible, Input, Request};
use cospan_domain::placed::Placement;
use cospan_domain::placement::Plan;
use cospan_domain::units::DurationMs;

use super::questions::{Place, previewed};
use super::scenario::{BANDWIDTH, Scenario};
use super::users::logical_name;
use crate::laboratory::jobs::job;
use crate::laboratory::reign::Reign;

/// A site, and how many processors there.
type Part = (SiteName, u64);

/// Asks every policy, and tells the first answer that is wrong. All links are alike.
///
/// # Errors
/// That answer.
pub(super) fn check(reign: &Reign, scenario: &Scenario, places: &[Place]) -> Result<()> {
    let most = places.iter().map(|place| place.left).max().unwrap_or(0);
    let all: u64 = places.iter().map(|place| place.left).sum();
    for total in [1, 2, most, most + 1, all, all + 1].into_iter().filter(|total| *total > 1) {
        check_rigid(reign, places, &[total / 2, total - total / 2])?;
        check_rigid(reign, places, &[total - 1, 1])?;
        for (min, parts) in [(1, None), (2, None), (total / 3 + 1, None), (1, Some(2))] {
            check_flexible(reign, places, total, min, parts)?;
        }
    }
    for number in 0..scenario.files.len() {
        check_files(reign, scenario, places, number)?;
    }
    Ok(())
}

fn plan(reign: &Reign, policy: &str, sizes: &[u64], change: Change<'_>) -> Result<Option<Plan>> {
    let sizes: Vec<u32> = sizes.iter().filter_map(|size| u32::try_from(*size).ok()).collect();
    let mut spec = job(&sizes, DurationMs(1_000), DurationMs(60_000), 0)?;
    spec.policy = Some(PolicyName::new(policy)?);
    change(&mut spec)?;
    Ok(previewed(reign, spec)?.decision.ok())
}

/// Makes another job of a rigid one.
type Change<'a> = &'a dyn Fn(&mut cospan_domain::job::spec::JobSpec) -> Result<()>;

fn sites(plan: &Plan) -> BTreeSet<&SiteName> {
    plan.placements.iter().map(|placement| &placement.site).collect()
}

/// Sites by what is left of them, equal ones by name.
fn largest_first(places: &[Place]) -> Vec<Part> {
    let mut order: Vec<Part> = places.iter().map(|p| (p.name.clone(), p.left)).collect();
    order.sort_by_key(|(name, left)| (Reverse(*left), name.clone()));
    order
}

/// Few sites: fill one before the next.
fn check_rigid(reign: &Reign, places: &[Place], sizes: &[u64]) -> Result<()> {
    let mut order = largest_first(places);
    let mut by_size: Vec<usize> = (0..sizes.len()).collect();
    by_size.sort_by_key(|index| Reverse(sizes[*index]));
    let mut expected = vec![None; sizes.len()];
    for index in by_size {
        let site = order.iter_mut().find(|(_, left)| *left >= sizes[index]);
        expected[index] = site.map(|(name, left)| {
            *left -= sizes[index];
            name.clone()
        });
    }
    let expected: Option<Vec<SiteName>> = expected.into_iter().collect();
    let told = plan(reign, "cluster-minimization", sizes, &|_| Ok(()))?;
    let named = |plan: &Plan| plan.placements.iter().map(|p| p.site.clone()).collect();
    ensure!(told.as_ref().map(named) == expected, "{sizes:?} on few sites: not {expected:?}");
    let connected = plan(reign, "connected-cluster-minimization", sizes, &|_| Ok(()))?;
    let is_more = match (&connected, &told) {
        (Some(connected), Some(told)) => sites(connected).len() > sites(told).len(),
        (None, Some(_)) => true,
        (_, None) => false,
    };
    ensure!(!is_more, "{sizes:?} on connected sites: more than need be, {connected:?}");
    Ok(())
}

/// The smallest number of sites that can take it, the largest first; each takes the least,
/// and the first as much more as they can.
fn split(places: &[Place], total: u64, min: u64, most: Option<u32>) -> Option<Vec<Part>> {
    let order = largest_first(places);
    let able: Vec<Part> = order.into_iter().filter(|(_, left)| *left >= min).collect();
    let most = most.map_or(places.len(), |most| most as usize).min(able.len());
    let count = (1..=most).find(|&count| {
        let have: u64 = able[..count].iter().map(|(_, left)| left).sum();
        count as u64 * min <= total && total <= have
    })?;
    let mut rest = total - count as u64 * min;
    let share = |(name, left): &Part| {
        let more = rest.min(left - min);
        rest -= more;
        (name.clone(), min + more)
    };
    Some(able[..count].iter().map(share).collect())
}

fn check_flexible(
    reign: &Reign,
    places: &[Place],
    total: u64,
    min: u64,
    most: Option<u32>,
) -> Result<()> {
    let bounds = Flexible {
        min_component_size: u32::try_from(min)?,
        max_components: most,
        splits: Vec::new(),
    };
    let flexible = |spec: &mut cospan_domain::job::spec::JobSpec| {
        spec.request = Request::Flexible(bounds.clone());
        Ok(())
    };
    let expected = split(places, total, min, most);
    let told = plan(reign, "flexible-cluster-minimization", &[total], &flexible)?;
    let part = |p: &Placement| (p.site.clone(), u64::from(p.share.unwrap_or(0)));
    let parts = told.as_ref().map(|plan| plan.placements.iter().map(part).collect::<Vec<_>>());
    ensure!(parts == expected, "{total} split with {bounds:?}: {parts:?}, not {expected:?}");
    let connected = plan(reign, "connected-flexible-cluster-minimization", &[total], &flexible)?;
    let sum = |plan: &Plan| plan.placements.iter().map(|p| part(p).1).sum::<u64>();
    let same = match (&connected, &expected) {
        (Some(plan), Some(expected)) => sites(plan).len() == expected.len() && sum(plan) == total,
        (None, None) => true,
        _ => false,
    };
    ensure!(same, "{total} split with {bounds:?} over links: {connected:?}, not {expected:?}");
    Ok(())
}

/// Where the input is, else where it arrives first; and when that is.
fn check_files(reign: &Reign, scenario: &Scenario, places: &[Place], number: usize) -> Result<()> {
    let (_, content, at) = &scenario.files[number];
    let name = logical_name(number)?;
    let reads = |spec: &mut cospan_domain::job::spec::JobSpec| {
        let file = FileRef { name: name.clone(), bound: None };
        spec.components[0].inputs.push(Input {
            file,
            path: RelPath::new("input")?,
            feed: Default::default(),
        });
        Ok(())
    };
    let time_ms = content.size.0 * 8_000 / BANDWIDTH.0;
    for size in places.iter().map(|place| place.left).filter(|left| *left > 0) {
        let holders = places.iter().any(|place| at.contains(&place.name) && place.left >= size);
        let told = plan(reign, "close-to-files", &[size], &reads)?;
        let right = told.as_ref().is_some_and(|plan| {
            let there = plan.placements.iter().all(|p| at.contains(&p.site));
            let waits_ms = plan.transfer_time.0;
            if there {
                holders && waits_ms == 0
            } else {
                !holders && waits_ms.abs_diff(time_ms) <= 1
            }
        });
        ensure!(right, "{size} processors close to file {number} at {at:?}: {told:?}");
        let told = plan(reign, "worst-fit", &[size], &reads)?;
        let right = told.as_ref().is_some_and(|plan| {
            let there = plan.placements.iter().all(|p| at.contains(&p.site));
            let waits_ms = if there { 0 } else { time_ms };
            plan.transfer_time.0.abs_diff(waits_ms) <= 1
        });
        ensure!(right, "{size} processors with file {number} at {at:?}: {told:?}");
    }
    Ok(())
}
