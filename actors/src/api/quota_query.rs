//! The limits on what a user may reserve.

use cospan_domain::ids::{KeyName, SiteName};
use cospan_domain::job::spec::{ComponentSpec, JobSpec, RequestType};
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
    /// `None` until such a site is known.
    fn largest_quota(&self, share: PerMillion, only: Option<&SiteName>) -> Option<u32> {
        let grid = self.empty_grid();
        let sites = grid
            .sites()
            .iter()
            .filter(|site| only.is_none_or(|only| *only == site.name));
        let shapes = sites.filter_map(|site| site.shape.as_ref());
        let granting = shapes.filter(|shape| shape.reservations);
        granting
            .map(|shape| processor_share(shape.total.processors, share))
            .max()
    }
}
