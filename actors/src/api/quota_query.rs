//! The limits on what a user may reserve.

use cospan_domain::ids::{KeyName, SiteName};
use cospan_domain::job::spec::{ComponentSpec, JobSpec, RequestType};
use cospan_domain::placement::SiteProperties;
use cospan_domain::reservation::owner_quota::processor_share;
use cospan_domain::units::PerMillion;

use super::handle::ControlPlane;

/// The fewest processors that a component takes of one site.
fn fewest_processors(spec: &JobSpec, component: &ComponentSpec) -> u32 {
    match &spec.request {
        RequestType::Flexible(bounds) => bounds.least_processors(),
        RequestType::Fixed | RequestType::NonFixed => component.resources.processors,
    }
}

impl ControlPlane {
    /// Checks that the reservation that a job of this key asks for is not further ahead, nor
    /// larger, than its user may have. What others hold does not matter.
    ///
    /// # Errors
    ///
    /// The limit that the job exceeds.
    pub(super) fn check_quota(&self, by: &KeyName, spec: &JobSpec) -> Result<(), String> {
        let Some(wish) = spec.run.reservation.filter(|wish| !wish.exempt) else {
            return Ok(());
        };
        let parameters = &self.shared().settings.job;
        if let Some(ahead) = wish.excess_lead(
            self.now(),
            spec.longest_offset(),
            parameters.reservation_ahead,
        ) {
            let most = parameters.reservation_ahead.unwrap_or_default();
            return Err(format!(
                "its latest start is {ahead} ahead, but key {by} may reserve at most {most} ahead \
                 (`reservations.most_ahead`): give an earlier `latest` or `within`, or ask an operator"
            ));
        }
        let share = parameters.reservation_share;
        if share >= PerMillion::ONE {
            return Ok(());
        }
        for component in &spec.components {
            let largest = self.largest_quota(share, component.site.as_ref());
            let name = &component.name;
            let wanted = fewest_processors(spec, component);
            if let Some(most) = largest.filter(|most| wanted > *most) {
                return Err(format!(
                    "component {name} asks for {wanted} processors, but key {by} may hold at most \
                     {most} of a site in reservations (`reservations.most_share`): ask for fewer, \
                     or ask an operator"
                ));
            }
        }
        Ok(())
    }

    /// The number of processors that is this share of the largest site that offers reservations;
    /// `None` until such a site, and every other that may come to be the largest, is known.
    fn largest_quota(&self, share: PerMillion, only: Option<&SiteName>) -> Option<u32> {
        let grid = self.empty_grid();
        let sites = grid
            .sites()
            .iter()
            .filter(|site| only.is_none_or(|only| *only == site.name));
        largest_share(sites.map(|site| site.shape.as_deref()), share)
    }
}

/// Returns this share of the largest site that offers reservations; `None` if there is none, or one
/// has not been heard of yet.
fn largest_share<'s>(
    sites: impl Iterator<Item = Option<&'s SiteProperties>>,
    share: PerMillion,
) -> Option<u32> {
    let mut largest = None;
    for site in sites {
        let site = site?;
        if site.reservations {
            largest = largest.max(Some(processor_share(site.total.processors, share)));
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use cospan_domain::labels::SiteLabels;
    use cospan_domain::resources::Resources;

    use super::*;

    fn granting_site(processors: u32) -> SiteProperties {
        SiteProperties {
            total: Resources::processors(processors),
            largest_component: Resources::processors(processors),
            labels: SiteLabels::default(),
            queues: false,
            queues_only: false,
            reservations: true,
            lanes: None,
        }
    }

    #[test]
    fn share_is_of_no_site_until_the_largest_one_is_surely_known() {
        let half = PerMillion(500_000);
        let small = &granting_site(4);
        let large = &granting_site(20);
        let known = [Some(small), Some(large)];
        assert_eq!(largest_share(known.into_iter(), half), Some(10));
        // After a start the first that answers may be the smallest.
        let early = [Some(small), None];
        assert_eq!(largest_share(early.into_iter(), half), None);
    }
}
