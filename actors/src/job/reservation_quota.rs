//! The limit on what a user may have in reservations at a site, checked before another one is
//! requested.
//!
//! Requests of the same user that are under way count as well. Otherwise two that ask at once would
//! both be offered what only one of them may have.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_state::{Job, JobReservations};
use cospan_domain::reservation::owner_quota::{
    OwnerReservation, ReservationAllowance, decide_allowance, processor_share,
};
use cospan_domain::reservation::{
    CoallocationPart, PartReservation, ReservationCall, ReservationSearch, ReservationSerial,
    TimeSpan,
};
use cospan_domain::units::{PerMillion, Timestamp};

use super::job_actor::JobActor;
use crate::committed::CommittedView;

/// Calls that jobs have made to sites, or may have, by the serial that each is about.
#[derive(Debug, Default)]
pub(crate) struct MadeReservationCalls(Mutex<BTreeMap<JobId, ReservationSerial>>);

/// The decision on a call, by what its user may have.
pub(super) enum QuotaDecision {
    /// The call is made.
    Granted,
    /// The call is made later: the site has not reported its size since our start.
    Later,
    /// The call is not made: its user may have no more than `most`, and so much not before `next`.
    Withheld { most: u32, next: Option<Timestamp> },
}

impl MadeReservationCalls {
    /// Takes over the calls that wait for an answer at our start: nobody knows whether they were
    /// made.
    pub(crate) fn from_view(view: &CommittedView) -> Self {
        let wanted = view
            .jobs
            .iter()
            .filter_map(|(id, job)| Some((*id, demand_of_job(job)?.serial)));
        Self(Mutex::new(wanted.collect()))
    }

    /// Notes a call, and forgets those that have been answered.
    fn note_call(&self, job: JobId, serial: ReservationSerial, view: &CommittedView) {
        let mut put = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        put.retain(|id, serial| {
            let wanted = view.jobs.get(id).and_then(|job| demand_of_job(job));
            wanted.is_some_and(|wanted| wanted.serial == *serial)
        });
        put.insert(job, serial);
    }

    fn has_call(&self, job: JobId, serial: ReservationSerial) -> bool {
        let put = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        put.get(&job) == Some(&serial)
    }
}

/// The processors that a job wants a site to reserve for it.
struct WantedReservation {
    site: SiteName,
    serial: ReservationSerial,
    held: OwnerReservation,
}

/// Decides whether the user of a job may have a call made to a site now.
pub(super) fn decide_by_quota(actor: &JobActor, ask: &ReservationCall) -> QuotaDecision {
    let shared = &actor.shared;
    let job = actor.job();
    let share = shared.settings.job.reservation_share;
    if share >= PerMillion::ONE || !counts_for_quota(job) {
        return QuotaDecision::Granted;
    }
    let wanted = job
        .reservation
        .as_deref()
        .and_then(|reservation| demand_of_call(reservation, ask));
    let Some(wanted) = wanted else {
        return QuotaDecision::Granted;
    };
    let report = shared.live.site_report(&wanted.site);
    let Some(shape) = report.and_then(|report| report.shape.clone()) else {
        return QuotaDecision::Later;
    };
    let most = processor_share(shape.total.processors, share);
    let view = shared.view.load();
    let others = view
        .jobs
        .values()
        .filter(|other| other.owner == job.owner && other.id != job.id);
    let others: Vec<&Job> = others
        .map(AsRef::as_ref)
        .filter(|other| counts_for_quota(other))
        .collect();
    let asked = others.iter().filter_map(|other| {
        let theirs = demand_of_job(other).filter(|theirs| theirs.site == wanted.site)?;
        // Of two calls that wait, the older job's comes first.
        let counts = other.id < job.id || actor.calls.has_call(other.id, theirs.serial);
        counts.then_some(theirs.held)
    });
    let held = others
        .iter()
        .copied()
        .chain([job.as_ref()])
        .flat_map(|job| reservations_at(job, &wanted.site));
    let held = held.filter(|(of, serial, _)| (*of, *serial) != (job.id, wanted.serial));
    let held: Vec<OwnerReservation> = held.map(|(.., held)| held).chain(asked).collect();
    let next = match decide_allowance(&held, wanted.held, most) {
        ReservationAllowance::Allowed => {
            actor.calls.note_call(job.id, wanted.serial, &view);
            return QuotaDecision::Granted;
        }
        ReservationAllowance::From(next) => Some(next),
        ReservationAllowance::Never => None,
    };
    QuotaDecision::Withheld { most, next }
}

/// Returns true if the reservations of a job count; those that an operator asked for do not.
fn counts_for_quota(job: &Job) -> bool {
    job.reservation_terms().is_some_and(|wish| !wish.exempt)
}

fn demand_of_call(
    reservation: &JobReservations,
    ask: &ReservationCall,
) -> Option<WantedReservation> {
    let (ReservationCall::Create {
        site,
        serial,
        part,
        window,
    }
    | ReservationCall::Modify {
        site,
        serial,
        part,
        window,
    }) = ask
    else {
        return None;
    };
    let part = reservation.calling_search()?.job.parts.get(*part)?;
    let span = TimeSpan::new(window.earliest, window.latest + part.length);
    let held = OwnerReservation {
        span,
        processors: part.resources.processors,
    };
    let site = site.clone();
    Some(WantedReservation {
        site,
        serial: *serial,
        held,
    })
}

/// Returns what the job's present call asks its site to reserve, if anything.
fn demand_of_job(job: &Job) -> Option<WantedReservation> {
    let reservation = job.reservation.as_deref()?;
    let (_, ask) = reservation.due_call()?;
    demand_of_call(reservation, &ask)
}

/// Lists the reservations of a job at a site.
fn reservations_at<'a>(
    job: &'a Job,
    site: &'a SiteName,
) -> impl Iterator<Item = (JobId, ReservationSerial, OwnerReservation)> + 'a {
    let reservation = job.reservation.as_deref();
    let parts = reservation
        .into_iter()
        .flat_map(searches_of)
        .flat_map(|search| {
            search
                .job
                .parts
                .iter()
                .zip(search.part_reservations().iter().map(Option::as_ref))
        });
    parts.filter_map(
        move |(part, held): (&CoallocationPart, Option<&PartReservation>)| {
            let held = held.filter(|held| held.site == *site)?;
            let span = TimeSpan::new(held.start, held.start + part.length);
            Some((
                job.id,
                held.serial,
                OwnerReservation {
                    span,
                    processors: part.resources.processors,
                },
            ))
        },
    )
}

fn searches_of(reservation: &JobReservations) -> impl Iterator<Item = &ReservationSearch> {
    let other = reservation.other.as_ref().map(|other| &other.search);
    [&reservation.search].into_iter().chain(other)
}
