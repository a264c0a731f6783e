//! Commands for shared reservations, as a site's record gets them.

use cospan_domain::ids::SiteName;
use cospan_domain::job::job_parameters::JobParameters;
use cospan_domain::reservation::StartWindow;
use cospan_domain::resources::Resources;
use cospan_domain::site::joint_reservation::MAX_PARTS;
use cospan_domain::site::reservation_names::other_site_with_name;
use cospan_domain::site::shared_reservation::SharedReservationTerms;
use cospan_domain::units::{DurationMs, Timestamp};

use crate::commands::{ApiRefusal, OperatorCommand};
use crate::context::SharedState;

/// The slack for a start that is as near as this: it would have passed until the site is asked.
const SOON: DurationMs = DurationMs::from_secs(60);

/// Completes the command with everything that the site has to know.
///
/// # Errors
///
/// There can be no such reservation there.
pub(super) fn complete_site_command(
    shared: &SharedState,
    site: &SiteName,
    what: OperatorCommand,
) -> Result<OperatorCommand, ApiRefusal> {
    let OperatorCommand::Reserve(wish) = what else {
        return Ok(what);
    };
    let now = shared.clock.now();
    let view = shared.view.load();
    let name = &wish.name;
    let records = view.sites.values().map(|record| &**record);
    if let Some(elsewhere) = other_site_with_name(name, site, records, now) {
        let problem = format!("{elsewhere} has a reservation {name} already; take another name");
        return Err(ApiRefusal::Conflict(problem));
    }
    let wish = make_first_part_terms(shared, site, *wish)?;
    if wish.parts.is_empty() {
        check_reservable(shared, site, &wish.resources)?;
    } else {
        wish.parts
            .iter()
            .try_for_each(|(site, part)| check_reservable(shared, site, part))?;
    }
    Ok(OperatorCommand::Reserve(Box::new(widen_by_lead(
        wish,
        &shared.settings.job,
        now,
    ))))
}

/// Makes the terms of the first of several sites, whose record decides for all of them.
fn make_first_part_terms(
    shared: &SharedState,
    site: &SiteName,
    wish: SharedReservationTerms,
) -> Result<SharedReservationTerms, ApiRefusal> {
    let Some((first, resources)) = wish.parts.iter().next() else {
        return Ok(wish);
    };
    if let Some(unknown) = wish
        .parts
        .keys()
        .find(|site| !shared.sites.contains_key(*site))
    {
        return Err(ApiRefusal::NotFound(format!("no site is called {unknown}")));
    }
    if first != site {
        return Err(ApiRefusal::Conflict(format!(
            "the first of its sites is {first}"
        )));
    }
    if wish.parts.len() > MAX_PARTS {
        let problem = format!("a reservation is at most at {MAX_PARTS} sites; name fewer");
        return Err(ApiRefusal::Conflict(problem));
    }
    let tolerance = wish
        .tolerance
        .min(wish.window.latest.since(wish.window.earliest).max(SOON));
    Ok(SharedReservationTerms {
        resources: resources.clone(),
        tolerance,
        ..wish
    })
}

/// Checks that a site could reserve so much.
fn check_reservable(
    shared: &SharedState,
    site: &SiteName,
    wanted: &Resources,
) -> Result<(), ApiRefusal> {
    let shape = shared
        .live
        .site_report(site)
        .and_then(|report| report.shape.clone());
    let Some(shape) = shape else {
        let problem = format!("site {site} has not answered since the server was started");
        return Err(ApiRefusal::Conflict(problem));
    };
    if !shape.reservations {
        return Err(ApiRefusal::Conflict(format!(
            "site {site} grants no reservations"
        )));
    }
    match shape.total.first_shortage(wanted) {
        Some(shortage) => Err(ApiRefusal::Conflict(format!(
            "site {site} is too small: it {shortage}"
        ))),
        None => Ok(()),
    }
}

/// Makes the reservation begin that much before the start, and end that much after the end, that
/// whatever runs in it for as long as was asked finds the time.
fn widen_by_lead(
    wish: SharedReservationTerms,
    parameters: &JobParameters,
    now: Timestamp,
) -> SharedReservationTerms {
    let StartWindow { earliest, latest } = wish.window;
    let lead = parameters.reservation_lead.min(earliest.since(now));
    let begins = (earliest - lead).max(now);
    let latest = if begins < now + SOON {
        (latest - lead).max(now + SOON)
    } else {
        latest - lead
    };
    let window = StartWindow::new(begins, latest);
    // The last of several sites may begin this much later than the first.
    let apart = if wish.parts.is_empty() {
        DurationMs::ZERO
    } else {
        wish.tolerance
    };
    SharedReservationTerms {
        window,
        lead,
        margin: parameters.wall_margin + apart,
        ..wish
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cospan_domain::ids::ReservationName;

    fn wish(earliest: u64, latest: u64) -> SharedReservationTerms {
        SharedReservationTerms {
            name: ReservationName::new("course-1").unwrap(),
            allowed: [].into(),
            resources: Resources::processors(4),
            window: StartWindow::new(Timestamp(earliest), Timestamp(latest)),
            lead: DurationMs::ZERO,
            length: DurationMs::from_secs(3_600),
            margin: DurationMs::ZERO,
            parts: [].into(),
            tolerance: DurationMs::ZERO,
        }
    }

    fn window(earliest: u64, latest: u64, now: u64) -> (StartWindow, DurationMs) {
        let parameters = JobParameters::default();
        let wish = widen_by_lead(wish(earliest, latest), &parameters, Timestamp(now));
        (wish.window, wish.lead)
    }

    #[test]
    fn a_lease_begins_before_its_start_as_far_as_there_is_time_for_that() {
        let lead = JobParameters::default().reservation_lead;
        let hours = |hours: u64| hours * 3_600_000;
        let (later, given) = window(hours(2), hours(3), hours(1));
        let whole = StartWindow::new(Timestamp(hours(2)) - lead, Timestamp(hours(3)) - lead);
        assert_eq!((later, given), (whole, lead));
        let (at_once, none) = window(hours(1), hours(1), hours(1));
        assert_eq!(none, DurationMs::ZERO);
        let soon = StartWindow::new(Timestamp(hours(1)), Timestamp(hours(1)) + SOON);
        assert_eq!(at_once, soon, "until the site is asked, it is later");
    }
}
