//! What a user may hold in reservations at a site, when another one is to be asked for.

use cospan_domain::ids::SiteName;
use cospan_domain::job::command::JobCommand;
use cospan_domain::job::state::{Job, Reservation};
use cospan_domain::reserve::quota::{Allowance, HeldFor, allowance, share_of};
use cospan_domain::reserve::{Ask, Part, Reserved, Search, Span};
use cospan_domain::units::PerMillion;

use super::actor::JobActor;

/// What is said to a question that its user may not have put to a site now.
pub(super) fn withheld(actor: &JobActor, question: u32, ask: &Ask) -> Option<JobCommand> {
    let share = actor.shared.settings.job.reservation_share;
    let Ask::Create { site, part, window, .. } = ask else { return None };
    let job = actor.job();
    let is_exempt = job.reservation_wish().is_none_or(|wish| wish.exempt);
    if share >= PerMillion::ONE || is_exempt {
        return None;
    }
    let part = job.reservation.as_deref()?.asking()?.job.parts.get(*part)?;
    let shape = actor.shared.live.site(site)?.shape.clone()?;
    let most = share_of(shape.total.processors, share);
    let span = Span::new(window.earliest, window.latest + part.length);
    let wanted = HeldFor { span, processors: part.resources.processors };
    let view = actor.shared.view.load();
    let others = view.jobs.values().filter(|other| other.owner == job.owner && other.id != job.id);
    let all = others.map(AsRef::as_ref).chain([job.as_ref()]);
    let held: Vec<HeldFor> = all.flat_map(|job| held_at(job, site)).collect();
    let next = match allowance(&held, wanted, most) {
        Allowance::Allowed => return None,
        Allowance::From(next) => Some(next),
        Allowance::Never => None,
    };
    Some(JobCommand::WithholdReservation { question, most, next })
}

/// What a job holds there. What an operator asked for counts for nobody.
fn held_at<'a>(job: &'a Job, site: &'a SiteName) -> impl Iterator<Item = HeldFor> + 'a {
    let counts = job.reservation_wish().is_some_and(|wish| !wish.exempt);
    let reservation = job.reservation.as_deref().filter(|_| counts);
    let parts = reservation.into_iter().flat_map(searches).flat_map(|search| {
        search.job.parts.iter().zip(search.reserved().iter().map(Option::as_ref))
    });
    parts.filter_map(move |(part, held): (&Part, Option<&Reserved>)| {
        let held = held.filter(|held| held.site == *site)?;
        let span = Span::new(held.start, held.start + part.length);
        Some(HeldFor { span, processors: part.resources.processors })
    })
}

fn searches(reservation: &Reservation) -> impl Iterator<Item = &Search> {
    let other = reservation.other.as_ref().map(|other| &other.search);
    [&reservation.search].into_iter().chain(other)
}
