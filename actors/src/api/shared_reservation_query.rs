//! The check that a job can run within the reservation that it names.

use std::collections::BTreeMap;

use cospan_domain::ids::{KeyName, ReservationName, SiteName};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::resources::Resources;
use cospan_domain::site::joint_reservation::JointReservation;
use cospan_domain::units::Timestamp;

use super::handle::ControlPlane;

impl ControlPlane {
    /// Checks that a job of this key can run within the reservation that it names, if it names one.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    pub(super) fn check_shared_reservation(
        &self,
        by: &KeyName,
        spec: &JobSpec,
    ) -> Result<(), String> {
        let Some(name) = &spec.run.within else {
            return Ok(());
        };
        let view = self.view();
        let now = self.now();
        let group = view.joint_reservation_named(name, now);
        let leader = group.as_ref().and_then(|group| group.leading_part(now));
        let Some((group, (site, reservation))) = group.as_ref().zip(leader) else {
            return Err(format!(
                "there is no reservation {name}; see `cospan reservation list`"
            ));
        };
        if reservation.is_over(now) {
            return Err(format!("reservation {name} at {site} has ended"));
        }
        if !reservation.allows_key(by) {
            let owner = &reservation.by;
            return Err(format!(
                "reservation {name} is not for key {by}; ask {owner}, who had it made"
            ));
        }
        let lasts = reservation.wish.length;
        let left = group.end(now).since(now).min(lasts);
        let wall_time = spec.wall_time;
        if left < wall_time {
            return Err(format!(
                "its wall time is {wall_time}, but of reservation {name} only {left} are left; \
                 lower `wall_time`, or have the reservation extended"
            ));
        }
        check_fits_reservation(name, group, spec, now)
    }
}

fn check_fits_reservation(
    name: &ReservationName,
    group: &JointReservation<'_>,
    spec: &JobSpec,
    now: Timestamp,
) -> Result<(), String> {
    let live = group.parts().iter().filter(|(_, part)| !part.is_over(now));
    let parts: BTreeMap<&SiteName, &Resources> = live
        .map(|(site, part)| (*site, &part.wish.resources))
        .collect();
    let mut all = Resources::default();
    let mut reserved = Resources::default();
    parts.values().for_each(|part| reserved.add(part));
    for component in &spec.components {
        let called = &component.name;
        if let Some(elsewhere) = component
            .site
            .as_ref()
            .filter(|site| !parts.contains_key(site))
        {
            let sites: Vec<&str> = parts.keys().map(|site| site.as_str()).collect();
            return Err(format!(
                "component {called} is for {elsewhere}, but reservation {name} is at {}; drop its \
                 `site`",
                sites.join(", ")
            ));
        }
        let needs = component.resources.without_computing_power();
        let may = parts
            .iter()
            .filter(|(site, _)| component.site.as_ref().is_none_or(|s| s == **site));
        let mut shortages = may.map(|(_, part)| part.first_shortage(&needs));
        if let Some(Some(shortage)) = shortages.clone().next()
            && shortages.all(|shortage| shortage.is_some())
        {
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
