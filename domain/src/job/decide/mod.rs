//! Decides what follows from a command.

mod abort;
mod attempt_sightings;
mod attempt_submission;
mod common_start;
mod decide_claims;
mod decide_reschedule;
mod decide_restarts;
mod decision_draft;
mod divide_flexible;
mod if_needed;
mod queued_at_site;
mod reservation_answers;
mod round_progress;
mod user_commands;

pub use abort::MAX_SITE_ERRORS;
pub use attempt_sightings::is_new_sighting;
pub use attempt_submission::is_last_absence;

use crate::job::job_command::{JobCommand, JobRejection};
use crate::job::job_event::JobEvent;
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::Job;
use crate::units::Timestamp;
use decision_draft::DecisionDraft;

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
    let mut draft = DecisionDraft::new(job, parameters, now, &command);
    if job.held.is_some() && !is_allowed_on_held_job(&command)
        || assumes_outdated_terms(job, &command)
    {
        return Err(JobRejection::Stale);
    }
    dispatch_command(&mut draft, command)?;
    round_progress::take_due_steps(&mut draft);
    Ok(draft.into_events())
}

/// Returns true for commands that a held job takes. Its actor panicked again and again, so only
/// people touch it. Calls that were under way then are uncertain all the same, and must not count
/// as never sent on its release.
fn is_allowed_on_held_job(command: &JobCommand) -> bool {
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
fn assumes_outdated_terms(job: &Job, command: &JobCommand) -> bool {
    match command {
        JobCommand::Reserve { wish, .. }
        | JobCommand::Divide { wish, .. }
        | JobCommand::LoseReservation { wish, .. } => *wish != job.reservation_terms(),
        _ => false,
    }
}

fn dispatch_command(
    draft: &mut DecisionDraft<'_>,
    command: JobCommand,
) -> Result<(), JobRejection> {
    match command {
        JobCommand::Recover { settle } => attempt_submission::recover_attempts(draft, &settle),
        JobCommand::Place { placements, by } => user_commands::place_job(draft, placements, by),
        JobCommand::Reserve {
            candidates,
            unreserved,
            rankings,
            ..
        } => reservation_answers::request_reservations(draft, candidates, &unreserved, &rankings),
        JobCommand::ReservationAnswered { question, outcome } => {
            reservation_answers::apply_reservation_answer(draft, question, outcome)
        }
        JobCommand::WithholdReservation {
            question,
            most,
            next,
        } => reservation_answers::skip_over_quota(draft, question, most, next),
        JobCommand::Divide {
            plan, placements, ..
        } => divide_flexible::request_division(draft, &plan, placements),
        JobCommand::DivideAnew {
            plan,
            placements,
            freed,
        } => divide_flexible::request_new_division(draft, &plan, placements, freed),
        JobCommand::BringForward { plan, freed } => {
            decide_reschedule::reschedule_earlier(draft, plan, freed)
        }
        JobCommand::ReservationGone { site, serial } => {
            reservation_answers::handle_lost_reservation(draft, &site, serial)
        }
        JobCommand::ChangeReservation { wish, by } => if_needed::change_terms(draft, wish, by),
        JobCommand::Look(external) => round_progress::apply_external_state(draft, &external),
        JobCommand::Claim(attempt, external) => decide_claims::try_claim(draft, attempt, &external),
        JobCommand::Preempt { by } => decide_claims::preempt(draft, by),
        JobCommand::SubmitAnswered {
            component,
            attempt,
            answer,
        } => attempt_submission::apply_submit_answer(draft, component, attempt, answer),
        JobCommand::LookUpAnswered {
            component,
            attempt,
            asked_at,
            found,
        } => attempt_submission::apply_lookup_answer(draft, component, attempt, asked_at, found),
        JobCommand::AttemptObserved {
            component,
            attempt,
            asked_at,
            times,
            sighting,
        } => {
            attempt_sightings::apply_sighting(draft, component, attempt, asked_at, times, sighting)
        }
        JobCommand::GateAnswered {
            component,
            attempt,
            open,
        } => attempt_sightings::apply_gate_answer(draft, component, attempt, open),
        JobCommand::ChargeRecorded { component, attempt } => {
            user_commands::acknowledge_charge(draft, component, attempt)
        }
        JobCommand::OutputRead {
            component,
            output,
            content,
        } => user_commands::record_output_content(draft, component, output, content),
        JobCommand::OutputsStay { component } => user_commands::see_outputs(draft, component),
        JobCommand::OutputRegistered { component, output } => {
            user_commands::record_output_registered(draft, component, output)
        }
        JobCommand::Promote { to } => user_commands::promote_job(draft, to),
        JobCommand::LoseReservation { reason, .. } => {
            user_commands::fail_without_reservation(draft, reason)
        }
        JobCommand::GiveUpPlacement { tries } => user_commands::give_up_placement(draft, tries),
        JobCommand::LeaveSite(site) => abort::leave_site(draft, &site),
        JobCommand::SetPriority(priority, by) => user_commands::set_priority(draft, priority, by),
        JobCommand::Freeze(by) => user_commands::freeze_job(draft, by),
        JobCommand::Thaw(by) => user_commands::thaw_job(draft, by),
        JobCommand::Cancel(by) => abort::cancel_job(draft, by),
        JobCommand::Abandon { by, silent } => abort::abandon_job(draft, by, &silent),
        JobCommand::EndTold { target, problem } => {
            user_commands::record_end_delivery(draft, target, problem)
        }
        JobCommand::NoticeTold {
            notice,
            target,
            problem,
        } => user_commands::record_notice_delivery(draft, notice, target, problem),
        JobCommand::Hold(reason) => user_commands::hold_job(draft, reason),
        JobCommand::Release(by) => user_commands::release_job(draft, by),
    }
}
