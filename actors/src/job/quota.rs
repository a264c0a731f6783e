//! What a user may hold in reservations at a site, when another one is to be asked for.
//!
//! What others of the same user are asking for at this moment counts as theirs, or two that ask at
//! once would both be granted what only one of them may have.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::state::{Job, JobReservations};
use cospan_domain::planted::{Bug, bug};
use cospan_domain::reserve::quota::{Allowance, HeldFor, allowance, share_of};
use cospan_domain::reserve::{
    CoallocationPart, PartReservation, ReservationCall, ReservationSearch, Serial, Span,
};
use cospan_domain::units::{PerMillion, Timestamp};

use super::actor::JobActor;
use crate::api::View;

/// Questions that jobs have put to sites, or may have, by the serial that each is about.
#[derive(Debug, Default)]
pub(crate) struct Put(Mutex<BTreeMap<JobId, Serial>>);

/// What becomes of a question, by what its user may hold.
pub(super) enum Permission {
    /// It is put.
    Granted,
    /// It is put later: how large the site is has not been heard since our start.
    Later,
    /// It is not put: its user may have no more than `most`, and so much not before `next`.
    Withheld { most: u32, next: Option<Timestamp> },
}

impl Put {
    /// Those that wait for an answer at our start: nobody knows whether they have been put.
    pub(crate) fn before(view: &View) -> Self {
        let wanted = view
            .jobs
            .iter()
            .filter_map(|(id, job)| Some((*id, wanted_by(job)?.serial)));
        Self(Mutex::new(wanted.collect()))
    }

    /// Takes note of one, and forgets those that have been answered.
    fn note(&self, job: JobId, serial: Serial, view: &View) {
        let mut put = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |id: &JobId, serial: &Serial| {
            let wanted = view.jobs.get(id).and_then(|job| wanted_by(job));
            wanted.is_some_and(|wanted| wanted.serial == *serial)
        };
        put.retain(|id, serial| waits(id, serial));
        put.insert(job, serial);
    }

    fn has(&self, job: JobId, serial: Serial) -> bool {
        let put = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        put.get(&job) == Some(&serial)
    }
}

/// What a job wants a site to reserve for it.
struct WantedReservation {
    site: SiteName,
    serial: Serial,
    held: HeldFor,
}

/// Whether the user of a job may have a question put to a site now.
pub(super) fn permission(actor: &JobActor, ask: &ReservationCall) -> Permission {
    let shared = &actor.shared;
    let job = actor.job();
    let share = shared.settings.job.reservation_share;
    if share >= PerMillion::ONE || !counts(job) {
        return Permission::Granted;
    }
    let wanted = job
        .reservation
        .as_deref()
        .and_then(|reservation| wanted(reservation, ask));
    let Some(wanted) = wanted else {
        return Permission::Granted;
    };
    let report = shared.live.site(&wanted.site);
    let Some(shape) = report.and_then(|report| report.shape.clone()) else {
        return Permission::Later;
    };
    let most = share_of(shape.total.processors, share);
    let view = shared.view.load();
    let others = view
        .jobs
        .values()
        .filter(|other| other.owner == job.owner && other.id != job.id);
    let others: Vec<&Job> = others
        .map(AsRef::as_ref)
        .filter(|other| counts(other))
        .collect();
    let asked = others.iter().filter_map(|other| {
        let theirs = wanted_by(other).filter(|theirs| theirs.site == wanted.site)?;
        // Of two that wait to be put the older job's comes first.
        let counts = other.id < job.id || shared.put.has(other.id, theirs.serial);
        counts.then_some(theirs.held)
    });
    let held = others
        .iter()
        .copied()
        .chain([job.as_ref()])
        .flat_map(|job| held_at(job, &wanted.site));
    let held = held.filter(|(of, serial, _)| (*of, *serial) != (job.id, wanted.serial));
    let held: Vec<HeldFor> = held.map(|(.., held)| held).chain(asked).collect();
    let held = if bug(Bug::HoldBeyondShare) {
        Vec::new()
    } else {
        held
    };
    let next = match allowance(&held, wanted.held, most) {
        Allowance::Allowed => {
            shared.put.note(job.id, wanted.serial, &view);
            return Permission::Granted;
        }
        Allowance::From(next) => Some(next),
        Allowance::Never => None,
    };
    Permission::Withheld { most, next }
}

/// Whether what a job holds counts; what an operator asked for counts for nobody.
fn counts(job: &Job) -> bool {
    job.reservation_wish().is_some_and(|wish| !wish.exempt)
}

fn wanted(reservation: &JobReservations, ask: &ReservationCall) -> Option<WantedReservation> {
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
    let part = reservation.asking()?.job.parts.get(*part)?;
    let span = Span::new(window.earliest, window.latest + part.length);
    let held = HeldFor {
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

/// What the site that a job asks at present is to reserve, if it is to.
fn wanted_by(job: &Job) -> Option<WantedReservation> {
    let reservation = job.reservation.as_deref()?;
    let (_, ask) = reservation.question()?;
    wanted(reservation, &ask)
}

/// What a job holds there.
fn held_at<'a>(
    job: &'a Job,
    site: &'a SiteName,
) -> impl Iterator<Item = (JobId, Serial, HeldFor)> + 'a {
    let reservation = job.reservation.as_deref();
    let parts = reservation
        .into_iter()
        .flat_map(searches)
        .flat_map(|search| {
            search
                .job
                .parts
                .iter()
                .zip(search.reserved().iter().map(Option::as_ref))
        });
    parts.filter_map(
        move |(part, held): (&CoallocationPart, Option<&PartReservation>)| {
            let held = held.filter(|held| held.site == *site)?;
            let span = Span::new(held.start, held.start + part.length);
            Some((
                job.id,
                held.serial,
                HeldFor {
                    span,
                    processors: part.resources.processors,
                },
            ))
        },
    )
}

fn searches(reservation: &JobReservations) -> impl Iterator<Item = &ReservationSearch> {
    let other = reservation.other.as_ref().map(|other| &other.search);
    [&reservation.search].into_iter().chain(other)
}
