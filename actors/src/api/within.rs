//! Whether a job can run within the reservation that it names.

use cospan_domain::ids::{KeyName, ReservationName, SiteName};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::resources::Resources;
use cospan_domain::site::shared::SharedReservation;

use super::handle::ControlPlane;

impl ControlPlane {
    /// Whether a job of this key can run within the reservation that it names, if it names one.
    ///
    /// # Errors
    /// Why it cannot.
    pub(super) fn check_within(&self, by: &KeyName, spec: &JobSpec) -> Result<(), String> {
        let Some(name) = &spec.run.within else { return Ok(()) };
        let (view, now) = (self.view(), self.now());
        let found = view.shared_reservation(name, now);
        let Some((site, reservation)) = found.filter(|(_, found)| !found.is_over(now)) else {
            return Err(match found {
                Some((site, _)) => format!("reservation {name} at {site} has ended"),
                None => format!("there is no reservation {name}; see `cospan reservation list`"),
            });
        };
        if !reservation.serves(by) {
            let owner = &reservation.by;
            return Err(format!(
                "reservation {name} is not for key {by}; ask {owner}, who had it made"
            ));
        }
        let lasts = reservation.wish.length;
        let left = reservation.until().since(now).min(lasts);
        let wall_time = spec.wall_time;
        if left < wall_time {
            return Err(format!(
                "its wall time is {wall_time}, but of reservation {name} only {left} are left; \
                 lower `wall_time`, or have the reservation extended"
            ));
        }
        fits(name, site, reservation, spec)
    }
}

fn fits(
    name: &ReservationName,
    site: &SiteName,
    reservation: &SharedReservation,
    spec: &JobSpec,
) -> Result<(), String> {
    let reserved = &reservation.wish.resources;
    let mut all = Resources::default();
    for component in &spec.components {
        let called = &component.name;
        if let Some(elsewhere) = component.site.as_ref().filter(|named| *named != site) {
            return Err(format!(
                "component {called} is for {elsewhere}, but reservation {name} is at {site}; drop \
                 its `site`"
            ));
        }
        let needs = component.resources.countable();
        if let Some(shortage) = reserved.first_shortage(&needs) {
            return Err(format!(
                "component {called} does not fit into reservation {name}: it {shortage}"
            ));
        }
        all.add(&needs);
    }
    match reserved.first_shortage(&all) {
        Some(shortage) => Err(format!(
            "its components do not fit into reservation {name} together: it {shortage}"
        )),
        None => Ok(()),
    }
}
