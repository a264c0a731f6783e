//! Decides what follows from a command.

mod abort;
mod claims;
mod common_start;
mod divide;
mod draft;
mod forward;
mod orders;
mod progress;
mod promise;
mod queued;
mod reserving;
mod restarts;
mod sightings;
mod submission;

pub use abort::MAX_SITE_ERRORS;
pub use sightings::is_news;
pub use submission::is_last_absence;

use crate::job::command::{JobCommand, JobRejection};
use crate::job::event::JobEvent;
use crate::job::parameters::JobParameters;
use crate::job::state::Job;
use crate::units::Timestamp;
use draft::Draft;

/// Decides the events that follow from a command.
///
/// # Errors
/// The command does not fit the state; nothing happened.
pub fn decide(
    job: &Job,
    parameters: &JobParameters,
    command: JobCommand,
    now: Timestamp,
) -> Result<Vec<JobEvent>, JobRejection> {
    let mut draft = Draft::new(job, parameters, now, &command);
    if job.held.is_some() && !works_on_held(&command) || rests_on_another_wish(job, &command) {
        return Err(JobRejection::Stale);
    }
    route(&mut draft, command)?;
    progress::advance(&mut draft);
    Ok(draft.into_events())
}

/// Returns true for commands that a held job takes. Its actor panicked again and again, so only
/// people touch it. Calls that were under way then are uncertain all the same, and must not count
/// as never sent on its release.
fn works_on_held(command: &JobCommand) -> bool {
    matches!(
        command,
        JobCommand::Recover { .. }
            | JobCommand::Release(_)
            | JobCommand::Cancel(_)
            | JobCommand::Abandon { .. }
            | JobCommand::Freeze(_)
            | JobCommand::Thaw(_)
            | JobCommand::NoticeTold { .. }
    )
}

/// Returns true if a command rests on terms that its user has changed since: nobody has looked yet
/// whether the new terms can be met.
fn rests_on_another_wish(job: &Job, command: &JobCommand) -> bool {
    match command {
        JobCommand::Reserve { wish, .. }
        | JobCommand::Divide { wish, .. }
        | JobCommand::LoseReservation { wish, .. } => *wish != job.reservation_wish(),
        _ => false,
    }
}

fn route(draft: &mut Draft<'_>, command: JobCommand) -> Result<(), JobRejection> {
    match command {
        JobCommand::Recover { settle } => submission::recover(draft, &settle),
        JobCommand::Place { placements, by } => orders::place(draft, placements, by),
        JobCommand::Reserve {
            candidates,
            unreserved,
            rankings,
            ..
        } => reserving::seek(draft, candidates, &unreserved, &rankings),
        JobCommand::ReservationAnswered { question, outcome } => {
            reserving::answered(draft, question, outcome)
        }
        JobCommand::WithholdReservation {
            question,
            most,
            next,
        } => reserving::withhold(draft, question, most, next),
        JobCommand::Divide {
            plan, placements, ..
        } => divide::divide(draft, &plan, placements),
        JobCommand::DivideAnew {
            plan,
            placements,
            freed,
        } => divide::anew(draft, &plan, placements, freed),
        JobCommand::BringForward { plan, freed } => forward::bring(draft, plan, freed),
        JobCommand::ReservationGone { site, serial } => reserving::gone(draft, &site, serial),
        JobCommand::ChangeReservation { wish, by } => promise::change(draft, wish, by),
        JobCommand::Look(external) => progress::look(draft, &external),
        JobCommand::Claim(attempt, external) => claims::claim(draft, attempt, &external),
        JobCommand::Preempt { by } => claims::preempt(draft, by),
        JobCommand::SubmitAnswered {
            component,
            attempt,
            answer,
        } => submission::answered(draft, component, attempt, answer),
        JobCommand::LookUpAnswered {
            component,
            attempt,
            asked_at,
            found,
        } => submission::looked_up(draft, component, attempt, asked_at, found),
        JobCommand::AttemptObserved {
            component,
            attempt,
            asked_at,
            times,
            sighting,
        } => sightings::sighted(draft, component, attempt, asked_at, times, sighting),
        JobCommand::GateAnswered {
            component,
            attempt,
            open,
        } => sightings::gate_answered(draft, component, attempt, open),
        JobCommand::ChargeRecorded { component, attempt } => {
            orders::charge_recorded(draft, component, attempt)
        }
        JobCommand::OutputRead {
            component,
            output,
            content,
        } => orders::output_read(draft, component, output, content),
        JobCommand::OutputRegistered { component, output } => {
            orders::output_registered(draft, component, output)
        }
        JobCommand::Promote { to } => orders::promote(draft, to),
        JobCommand::LoseReservation { reason, .. } => orders::lose_reservation(draft, reason),
        JobCommand::GiveUpPlacement { tries } => orders::give_up_placement(draft, tries),
        JobCommand::LeaveSite(site) => abort::leave_site(draft, &site),
        JobCommand::SetPriority(priority, by) => orders::set_priority(draft, priority, by),
        JobCommand::Freeze(by) => orders::freeze(draft, by),
        JobCommand::Thaw(by) => orders::thaw(draft, by),
        JobCommand::Cancel(by) => abort::cancel(draft, by),
        JobCommand::Abandon { by, silent } => abort::abandon(draft, by, &silent),
        JobCommand::EndTold { target, problem } => orders::end_told(draft, target, problem),
        JobCommand::NoticeTold {
            notice,
            target,
            problem,
        } => orders::notice_told(draft, notice, target, problem),
        JobCommand::Hold(reason) => orders::hold(draft, reason),
        JobCommand::Release(by) => orders::release(draft, by),
    }
}
