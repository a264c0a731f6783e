//! Missing links, without which the input of a job can never be where it runs.

use std::collections::BTreeSet;
use std::ops::ControlFlow::Break;

use super::grid::{GridSite, GridSnapshot};
use super::obstacles::report_misfits;
use super::placement_request::{ComponentRequest, PlacementRequest};
use super::unplaceable::check_holds_all;
use crate::ids::{ComponentIndex, SiteName};
use crate::units::BitsPerSecond;

/// A link that does not exist, or carries nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingLink {
    /// The component whose input it would bring.
    pub component: ComponentIndex,
    /// A site that has the input.
    pub from: SiteName,
    /// A site that could hold the component.
    pub to: SiteName,
}

/// Returns the first link that is missing for a job which could be placed if every site were empty
/// and open and its input could be brought anywhere, but not with the links as they are. Content
/// that no site has does not count. As in [`super::check_placeable`], only necessary conditions
/// are checked, and a site that has not answered yet counts as suitable.
pub fn find_missing_link(request: &PlacementRequest, grid: &GridSnapshot) -> Option<MissingLink> {
    if request.contents().is_empty() {
        return None;
    }
    let mut reached = BTreeSet::new();
    let mut missing = None;
    for (index, component) in request.components().iter().enumerate() {
        let mut placeable = false;
        let mut first = None;
        for (to, site) in grid
            .sites()
            .iter()
            .enumerate()
            .filter(|(_, s)| could_run_at(request, component, s))
        {
            match find_cut_off_source(request, component, grid, to) {
                None => {
                    placeable = true;
                    reached.insert(to);
                }
                Some(from) => first = first.or(Some((from, site.name.clone()))),
            }
        }
        let component = ComponentIndex(index as u32);
        let first = first.map(|(from, to)| MissingLink {
            component,
            from,
            to,
        });
        if first.is_some() && !placeable {
            return first;
        }
        missing = missing.or(first);
    }
    let missing = missing?;
    let all: Vec<&GridSite> = grid.sites().iter().collect();
    let reached: Vec<&GridSite> = reached.into_iter().map(|to| all[to]).collect();
    let lacks =
        check_holds_all(request, &reached).is_err() && check_holds_all(request, &all).is_ok();
    lacks.then_some(missing)
}

/// Returns true if a component could run there if the site were empty and open.
fn could_run_at(request: &PlacementRequest, component: &ComponentRequest, site: &GridSite) -> bool {
    component
        .site
        .as_ref()
        .is_none_or(|name| *name == site.name)
        && report_misfits(component, request.wall_time(), site, &mut |_, _, _| {
            Break(())
        })
        .is_continue()
}

/// Returns a site with input of the component, if none with that input has a link to `to`.
fn find_cut_off_source(
    request: &PlacementRequest,
    component: &ComponentRequest,
    grid: &GridSnapshot,
    to: usize,
) -> Option<SiteName> {
    let site = &grid.sites()[to];
    let shape = site.shape.as_ref()?;
    component
        .contents_at(&site.name, &shape.labels)
        .find_map(|content| {
            let mut from = BTreeSet::new();
            let digest = request.whole_file_of(content).digest;
            grid.replicas()
                .visit_sites(&digest, &mut |site| from.extend(grid.index_of(site)));
            if from
                .iter()
                .any(|from: &usize| *from == to || grid.bandwidth(*from, to) > BitsPerSecond(0))
            {
                return None;
            }
            from.first().map(|&from| grid.sites()[from].name.clone())
        })
}
