//! Names of shared reservations. A name means one reservation, at whatever sites it is: jobs say no
//! more of it.

use crate::ids::{ReservationName, SiteName};
use crate::site::shared_reservation::SharedReservation;
use crate::site::site_state::SiteRecord;
use crate::units::Timestamp;

/// Returns another site that has a reservation of this name which is not over.
pub fn other_site_with_name<'r>(
    name: &ReservationName,
    site: &SiteName,
    records: impl IntoIterator<Item = &'r SiteRecord>,
    now: Timestamp,
) -> Option<&'r SiteName> {
    let others = records.into_iter().filter(|record| record.site != *site);
    let mut with_name = others.filter(|record| {
        let mut named = record
            .shared
            .iter()
            .filter(|shared| shared.wish.name == *name);
        named.any(|shared| !shared.is_over(now))
    });
    with_name.next().map(|record| &record.site)
}

/// Lists the names that a change of a site's record takes: those of new reservations. Other parts
/// of a joint reservation, and later starts of it, keep the name of the first.
pub fn newly_taken_names<'r>(
    old: Option<&SiteRecord>,
    new: &'r SiteRecord,
) -> impl Iterator<Item = &'r ReservationName> {
    let last = old.map(|old| old.last_shared);
    let added = new
        .shared
        .iter()
        .filter(move |shared| last.is_none_or(|last| shared.serial > last));
    let first = added.filter(|shared| takes_name(shared, &new.site));
    first.map(|shared| &shared.wish.name)
}

fn takes_name(shared: &SharedReservation, site: &SiteName) -> bool {
    let root = shared.wish.parts.keys().next();
    shared
        .together
        .is_none_or(|together| together.tries == 0 && root == Some(site))
}
