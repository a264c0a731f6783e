//! The check at submission: it refuses a job that no site could ever take.

use std::ops::ControlFlow::Break;

use thiserror::Error;

use super::bounded_split::split_largest_first;
use super::grid::{GridSite, GridSnapshot, PlacementHindrance};
use super::obstacles::{RememberedObstacle, find_worst_obstacle, report_misfits};
use super::placement_request::{ComponentRequest, PlacementRequest};
use super::reason::RefusalReason;
use crate::ids::{ComponentIndex, SiteName};
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::resources::{ResourceShortage, Resources};
use crate::text::nearest_word;
use crate::units::DurationMs;

/// The reason why a job can never be placed on the sites that are configured now.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnplaceableError {
    #[error("no site is configured")]
    NoSites,
    /// A fixed request names a site that is not configured.
    #[error("component {component} {}", describe_unknown_site(site, known))]
    NoSuchSite {
        component: ComponentIndex,
        /// The site that it names.
        site: SiteName,
        /// All sites, as a list.
        known: String,
    },
    /// Every site it may go to is known, and none could hold this component.
    #[error("component {component} {}", describe_misfit(site, reason))]
    ComponentTooLarge {
        component: ComponentIndex,
        /// The site that comes nearest.
        site: SiteName,
        /// The reason against even that one.
        reason: RefusalReason,
    },
    /// A flexible request could not be split over all sites even if they were empty.
    #[error(
        "{total} processors cannot be split into components of at least {min}: the {sites} site(s) \
         that may take part have {usable} together, even empty"
    )]
    NoSplit {
        /// Processors that it asks for.
        total: u32,
        /// The fewest processors of a component.
        min: u32,
        /// The most sites that may take part.
        sites: usize,
        /// The total that the largest of those have.
        usable: u64,
    },
    /// Each component fits somewhere, but the sites it may use are too small for all at once.
    #[error("all components together need more than the sites have: {0}")]
    TogetherTooLarge(ResourceShortage),
}

impl UnplaceableError {
    /// Describes the reason, with the component's name if it has one, or else its number.
    pub fn describe_with(&self, name: impl Fn(ComponentIndex) -> Option<String>) -> String {
        match self {
            Self::NoSuchSite {
                component,
                site,
                known,
            } => {
                format!(
                    "component {} {}",
                    name(*component).unwrap_or_else(|| component.to_string()),
                    describe_unknown_site(site, known)
                )
            }
            Self::ComponentTooLarge {
                component,
                site,
                reason,
            } => {
                format!(
                    "component {} {}",
                    name(*component).unwrap_or_else(|| component.to_string()),
                    describe_misfit(site, reason)
                )
            }
            Self::NoSites | Self::NoSplit { .. } | Self::TogetherTooLarge(_) => self.to_string(),
        }
    }
}

fn describe_unknown_site(site: &SiteName, known: &str) -> String {
    let names: Vec<String> = known.split(", ").map(str::to_owned).collect();
    match nearest_word(site.as_str(), &names) {
        Some(near) => format!(
            "names site {site}, which is not configured; did you mean {near}? There are: {known}"
        ),
        None => format!("names site {site}, which is not configured; there are: {known}"),
    }
}

fn describe_misfit(nearest: &SiteName, reason: &RefusalReason) -> String {
    format!("fits no site, even an empty one; nearest is {nearest}: {reason}")
}

/// Checks that a job could be placed if every site were empty and open. Sites that have not
/// answered yet count as unknown, not as small. Passing guarantees nothing: for several components
/// only necessary conditions are checked, since the sufficient one is a packing problem.
///
/// # Errors
/// It never could, with the reason that comes nearest.
pub fn check_placeable(
    request: &PlacementRequest,
    grid: &GridSnapshot,
) -> Result<(), UnplaceableError> {
    check_holds_all(request, &grid.sites().iter().collect::<Vec<_>>())
}

/// Returns true if a job may go to sites that are tried out after errors: it may run twice, or can
/// go nowhere else, or the sites worth waiting for could never hold all of it together.
pub fn may_try_out_any(request: &PlacementRequest, sites: &[GridSite]) -> bool {
    if request.may_probe() {
        return true;
    }
    let waited_for: Vec<&GridSite> = sites
        .iter()
        .filter(|site| site.acceptance.is_worth_waiting_for())
        .collect();
    check_holds_all(request, &waited_for).is_err()
}

/// Returns true if one of these sites could hold a component if it were empty and open; of a
/// flexible request, if they could hold all of it. Sites that have not answered yet count as
/// unknown, not as small.
pub fn fits_any_site(
    request: &PlacementRequest,
    component: ComponentIndex,
    sites: &[GridSite],
) -> bool {
    let sites: Vec<&GridSite> = sites.iter().collect();
    match request.components().get(component.0 as usize) {
        Some(asked) if request.total_resources().is_none() => {
            !sites.is_empty()
                && check_component(component, asked, request.wall_time(), &sites).is_ok()
        }
        _ => check_holds_all(request, &sites).is_ok(),
    }
}

/// Checks that the job could be placed if these sites were empty and open, and the only ones.
pub(super) fn check_holds_all(
    request: &PlacementRequest,
    sites: &[&GridSite],
) -> Result<(), UnplaceableError> {
    if sites.is_empty() {
        return Err(UnplaceableError::NoSites);
    }
    if let (RequestType::Flexible(bounds), Some(total)) =
        (request.request_type(), request.total_resources())
    {
        return check_holds_split(request, bounds, total, sites);
    }
    for (index, component) in request.components().iter().enumerate() {
        check_component(
            ComponentIndex(index as u32),
            component,
            request.wall_time(),
            sites,
        )?;
    }
    let all: Vec<&ComponentRequest> = request.components().iter().collect();
    check_together(&all, sites)?;
    for site in sites {
        let fixed: Vec<&ComponentRequest> = all
            .iter()
            .copied()
            .filter(|c| c.site.as_ref() == Some(&site.name))
            .collect();
        check_together(&fixed, &[site])?;
    }
    Ok(())
}

/// Returns the first component of a fixed request whose site takes no placements now, with the
/// reason.
pub fn find_closed_site(
    request: &PlacementRequest,
    grid: &GridSnapshot,
) -> Option<(ComponentIndex, SiteName, PlacementHindrance)> {
    request
        .components()
        .iter()
        .enumerate()
        .find_map(|(index, component)| {
            let site = grid.site(component.site.as_ref()?)?;
            let hindrance = site.acceptance.hindrance(request.may_probe())?;
            Some((ComponentIndex(index as u32), site.name.clone(), hindrance))
        })
}

/// Checks that one of the allowed splits could be placed, or that the bounds leave one.
fn check_holds_split(
    request: &PlacementRequest,
    bounds: &FlexibleBounds,
    total: &Resources,
    sites: &[&GridSite],
) -> Result<(), UnplaceableError> {
    let outcomes: Vec<_> = request
        .splits()
        .iter()
        .map(|split| check_holds_all(split, sites))
        .collect();
    if !outcomes.is_empty() {
        let possible = outcomes.iter().any(Result::is_ok);
        return if possible {
            Ok(())
        } else {
            outcomes.into_iter().collect()
        };
    }
    let least = &request.components()[0];
    check_component(ComponentIndex(0), least, request.wall_time(), sites)?;
    let mut usable = Vec::new();
    for site in sites {
        let Some(shape) = &site.shape else {
            return Ok(());
        };
        if report_misfits(least, request.wall_time(), site, &mut |_, _, _| Break(())).is_continue()
        {
            let most = site.quota.max_resources(&shape.total);
            let largest = &shape.largest_component;
            let processors = most.processors.min(largest.processors);
            usable.push(total.max_processors_for(processors, |name: &str| {
                most.other(name).min(largest.other(name))
            }));
        }
    }
    usable.sort_unstable_by(|a, b| b.cmp(a));
    let most = bounds.most_components().unwrap_or(usable.len());
    let total = total.processors;
    let min = bounds.least_processors();
    if !split_largest_first(total, min, most, &usable).is_empty() {
        return Ok(());
    }
    usable.truncate(most);
    let sum = usable.iter().map(|&count| u64::from(count)).sum();
    Err(UnplaceableError::NoSplit {
        total,
        min,
        sites: usable.len(),
        usable: sum,
    })
}

fn check_component(
    index: ComponentIndex,
    component: &ComponentRequest,
    time: Option<DurationMs>,
    sites: &[&GridSite],
) -> Result<(), UnplaceableError> {
    let named = sites.iter().copied().filter(|site: &&GridSite| {
        component
            .site
            .as_ref()
            .is_none_or(|name| *name == site.name)
    });
    let mut candidates = named.peekable();
    if let (Some(name), None) = (&component.site, candidates.peek()) {
        let site = name.clone();
        let known = join_site_names(sites);
        return Err(UnplaceableError::NoSuchSite {
            component: index,
            site,
            known,
        });
    }
    let mut nearest: Option<(RememberedObstacle, &SiteName)> = None;
    for site in candidates {
        let Some(worst) =
            find_worst_obstacle(|report| report_misfits(component, time, site, report))
        else {
            return Ok(());
        };
        if nearest
            .as_ref()
            .is_none_or(|(known, _)| (worst.0, worst.1) < (known.0, known.1))
        {
            nearest = Some((worst, &site.name));
        }
    }
    match nearest {
        None => Ok(()),
        Some(((.., reason), site)) => Err(UnplaceableError::ComponentTooLarge {
            component: index,
            site: site.clone(),
            reason,
        }),
    }
}

fn check_together(
    components: &[&ComponentRequest],
    sites: &[&GridSite],
) -> Result<(), UnplaceableError> {
    let mut needed = Resources::default();
    // Another partition gives nothing of what its site has itself.
    let own = components.iter().filter(|component: &&&ComponentRequest| {
        sites.iter().all(|site| site.pool_of(component).is_none())
    });
    own.for_each(|component| needed.add(&component.resources));
    let mut available = Resources::default();
    for site in sites {
        let Some(shape) = &site.shape else {
            return Ok(());
        };
        available.add(&site.quota.max_resources(&shape.total));
    }
    match available.first_shortage(&needed) {
        None => Ok(()),
        Some(shortage) => Err(UnplaceableError::TogetherTooLarge(shortage)),
    }
}

fn join_site_names(sites: &[&GridSite]) -> String {
    let names: Vec<&str> = sites.iter().map(|site| site.name.as_str()).collect();
    names.join(", ")
}
