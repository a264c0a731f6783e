//! Shared reservations as they are shown: from what the sites and jobs say of them.

use cospan_actors::api::CommittedView;
use cospan_domain::ids::{ComponentIndex, JobId, ReservationName, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::site::joint_reservation::{JointReservation, JointReservationState};
use cospan_domain::site::shared_reservation::{
    SharedReservation, SharedReservationEnd, SharedReservationStage,
};
use cospan_domain::units::Timestamp;

use cospan_api::v1::quantity::Instant;
use cospan_api::v1::shared_reservation::{SharedPartReport, SharedReport};

/// Reports on a reservation across all its sites; `None` if no site has a part.
pub(crate) fn report_on_group(
    group: &JointReservation<'_>,
    view: &CommittedView,
    now: Timestamp,
) -> Option<SharedReport> {
    let (site, shared) = group.leading_part(now)?;
    let name = &shared.wish.name;
    let jobs: Vec<_> = view
        .jobs
        .values()
        .filter(|job| job.shared_reservation() == Some(name))
        .collect();
    let unfinished = jobs.iter().filter(|job| !job.is_final());
    let mut reserved_ms = 0;
    let mut used = 0;
    for (site, part) in group.parts() {
        let wide = part.wish.resources.processors;
        if part.granted.is_some() {
            reserved_ms += now.min(part.end()).since(part.start()).0 * u64::from(wide);
        }
        used += jobs
            .iter()
            .map(|job| used_processor_ms(job, site, part, now))
            .sum::<u64>();
    }
    let parts = group
        .parts()
        .iter()
        .map(|(site, part)| report_on_part(site, part, now));
    // Some sites may not have been asked yet.
    let processors = match shared.together {
        Some(_) => shared.wish.parts.values().map(|part| part.processors).sum(),
        None => shared.wish.resources.processors,
    };
    Some(SharedReport {
        name: name.to_string(),
        site: site.to_string(),
        state: group_state(group, now).into(),
        processors,
        start: Instant(group.start(now)),
        until: Instant(group.end(now)),
        by: shared.by.to_string(),
        allowed: shared
            .wish
            .allowed
            .iter()
            .map(ToString::to_string)
            .collect(),
        serial: shared.serial.0,
        next: next_start(shared).map(Instant),
        jobs: unfinished.map(|job| job.id.0).collect::<Vec<_>>(),
        reserved_s: reserved_ms / 1_000,
        used_s: used / 1_000,
        parts: if shared.together.is_some() {
            parts.collect()
        } else {
            Vec::new()
        },
    })
}

/// Reports on all known reservations, by site, the oldest first.
pub(crate) fn report_on_all(view: &CommittedView, now: Timestamp) -> Vec<SharedReport> {
    let each = view
        .sites
        .iter()
        .flat_map(|(site, record)| record.shared.iter().map(move |shared| (site, shared)));
    // The remains of starts that were tried in vain are not reservations.
    let each = each.filter(|(site, shared)| {
        let is_root = shared.wish.parts.keys().next() == Some(*site);
        let is_whole = is_root || shared.joint_state() == JointReservationState::Kept;
        is_whole && shared.end_reason() != Some(&SharedReservationEnd::AskedAnew)
    });
    let groups = each.filter_map(|(site, shared)| {
        let group = JointReservation::around_part(site, shared, &|site| view.site_record(site));
        // Each reservation appears once, with its first part.
        let first = group.parts().first();
        let is_first = first.is_some_and(|(at, part)| *at == site && part.serial == shared.serial);
        is_first.then_some(group)
    });
    groups
        .filter_map(|group| report_on_group(&group, view, now))
        .collect()
}

/// Reports on the part of one site.
fn report_on_part(site: &SiteName, part: &SharedReservation, now: Timestamp) -> SharedPartReport {
    SharedPartReport {
        site: site.to_string(),
        state: part_state(part, now).into(),
        processors: part.wish.resources.processors,
        start: Instant(part.start()),
        until: Instant(part.end()),
        serial: part.serial.0,
    }
}

/// Returns for how long a job used processors of the reservation.
fn used_processor_ms(
    job: &Job,
    site: &SiteName,
    shared: &SharedReservation,
    now: Timestamp,
) -> u64 {
    let Some(started) = job.instants.started else {
        return 0;
    };
    let ended = match job.phase {
        JobPhase::Finished { at }
        | JobPhase::Failed { at, .. }
        | JobPhase::Cancelled { at, .. } => at,
        _ => now,
    };
    let ran = ended.since(started).0;
    let under = job.components.iter().enumerate().filter(|(_, component)| {
        let promised = component.acquisition().reservation_use();
        promised.is_some_and(|it| it.shared && it.serial == shared.serial)
            && component
                .placement
                .as_ref()
                .is_some_and(|placed| placed.site == *site)
    });
    let processors = under.map(|(index, _)| job.processors_of(ComponentIndex(index as u32)));
    processors.map(u64::from).sum::<u64>() * ran
}

fn next_start(shared: &SharedReservation) -> Option<Timestamp> {
    match shared.stage {
        SharedReservationStage::Ended(SharedReservationEnd::Refused { next }) => {
            Some(next? + shared.wish.lead)
        }
        _ => None,
    }
}

fn part_state(shared: &SharedReservation, now: Timestamp) -> &'static str {
    match &shared.stage {
        SharedReservationStage::Ended(SharedReservationEnd::Refused { .. }) => "refused",
        SharedReservationStage::Ended(
            SharedReservationEnd::WrongStart | SharedReservationEnd::Lost,
        ) => "lost",
        SharedReservationStage::Ended(SharedReservationEnd::Cancelled { .. }) => "cancelled",
        SharedReservationStage::Ended(SharedReservationEnd::NoShow) => "no-show",
        // A later start has been requested.
        SharedReservationStage::Ended(SharedReservationEnd::AskedAnew) => "asking",
        _ if shared.is_over(now) => "over",
        SharedReservationStage::Asked | SharedReservationStage::Granted => "asking",
        SharedReservationStage::Confirmed
            if shared.joint_state() != JointReservationState::Kept =>
        {
            "asking"
        }
        SharedReservationStage::Confirmed => "confirmed",
        SharedReservationStage::Extending { .. } => "extending",
        SharedReservationStage::Releasing(_) => "releasing",
    }
}

/// Returns the state of all parts together: it is not done before it is done everywhere.
fn group_state(group: &JointReservation<'_>, now: Timestamp) -> &'static str {
    let Some((_, leader)) = group.leading_part(now) else {
        return "over";
    };
    if leader.end_reason().is_none() && group.parts().iter().any(|(_, part)| ends_others(part)) {
        return "releasing";
    }
    let of_leader = part_state(leader, now);
    let parts = group.parts();
    match of_leader {
        "confirmed" if group.is_extending(now) => "extending",
        "confirmed" | "extending" | "asking" => of_leader,
        _ if parts
            .iter()
            .any(|(_, part)| part_state(part, now) == "releasing") =>
        {
            "releasing"
        }
        _ => of_leader,
    }
}

// If the end at one site is not the loss of that part alone, the other sites follow soon.
fn ends_others(part: &SharedReservation) -> bool {
    match part.end_reason() {
        Some(SharedReservationEnd::Lost | SharedReservationEnd::WrongStart) => {
            part.joint_state() != JointReservationState::Kept
        }
        end => end.is_some(),
    }
}

/// Describes the turn of a job that waits in a shared reservation.
pub(crate) fn describe_reservation_turn(
    job: &Job,
    view: &CommittedView,
    now: Timestamp,
) -> Option<String> {
    let name = job
        .shared_reservation()
        .filter(|_| job.waits_in_shared_reservation())?;
    let Some(group) = view.joint_reservation_named(name, now) else {
        return Some(format!("its reservation {name} no longer exists"));
    };
    let sites: Vec<&str> = match group.usable_parts(now).next() {
        Some(_) => group
            .usable_parts(now)
            .map(|(site, _)| site.as_str())
            .collect(),
        None => group
            .parts()
            .iter()
            .map(|(site, _)| site.as_str())
            .collect(),
    };
    let site = sites.join(", ");
    let start = group.start(now);
    let until = Instant(group.end(now));
    Some(match group_state(&group, now) {
        "confirmed" if now < start => {
            format!("reservation {name} at {site} begins at {}", Instant(start))
        }
        "confirmed" | "extending" if until.0.since(now) < job.spec.wall_time => {
            format!("reservation {name} at {site} ends at {until}, too early for its wall time")
        }
        "confirmed" | "extending" => {
            let ahead = count_jobs_ahead(job.id, name, view);
            format!("it waits for room in reservation {name} at {site}, with {ahead} job(s) ahead")
        }
        "asking" => format!("{site} is being asked for its reservation {name}"),
        other => format!("its reservation {name} at {site} is {other}"),
    })
}

fn count_jobs_ahead(id: JobId, name: &ReservationName, view: &CommittedView) -> usize {
    let before = view
        .jobs
        .range(..id)
        .filter(|(_, job)| job.shared_reservation() == Some(name));
    before.filter(|(_, job)| !job.is_final()).count()
}
