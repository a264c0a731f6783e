//! Claims that a site refused by letting them wait in its own queue: it has fewer processors than
//! it was believed to have.

use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_parameters::JobParameters;
use cospan_domain::job::job_state::{AbortCause, AttemptState, Job, JobPhase};

use crate::live_state::LiveState;

/// Corrects what the sites of a job are believed to have, if its claim was given up because
/// they did not start it in time. A refusal of the submission itself corrects it at once.
pub(crate) fn note_refused_claims(
    live: &LiveState,
    parameters: &JobParameters,
    (old, new): (&Job, &Job),
    events: &[JobEvent],
) {
    let JobPhase::Claiming { since } = old.phase else {
        return;
    };
    let Some(loss) = events.iter().find(|event| is_lost_claim(&event.what)) else {
        return;
    };
    if loss.at < since + old.claim_limits(parameters).ready_within {
        return;
    }
    for (index, component) in old.indexed_components() {
        if component.acquisition().waits_in_site_queue() {
            // It waits for processors in use, as everybody knows.
            continue;
        }
        if let (AttemptState::Submitted { .. }, Some(placement)) =
            (&component.run, &component.placement)
        {
            live.note_refused_claim(&placement.site, new.processors_of(index), loss.at);
        }
    }
}

fn is_lost_claim(event: &JobEventKind) -> bool {
    match event {
        JobEventKind::ClaimMissed { .. } => true,
        JobEventKind::RoundAborted { why, .. } => matches!(why, AbortCause::ClaimLost { .. }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cospan_domain::ids::{Attempt, LrmId, SiteName};
    use cospan_domain::job::decide::decide;
    use cospan_domain::job::evolve::evolve;
    use cospan_domain::job::job_command::{JobCommand, JobSurroundings};
    use cospan_domain::job::job_state::Component;
    use cospan_domain::job::spec::JobSpec;
    use cospan_domain::placed::Placement;
    use cospan_domain::resources::Resources;
    use cospan_domain::units::{DurationMs, Timestamp};

    use super::*;
    use crate::transfer::testing::{content, queued_job, site};

    /// One component of 8 processors that waits in the queue of its site since the second 1.
    fn submitted_job() -> Job {
        let mut job = queued_job(1, content(1));
        let mut spec = JobSpec::clone(&job.spec);
        spec.components[0].resources = Resources::processors(8);
        job.spec = Arc::new(spec);
        job.phase = JobPhase::Claiming {
            since: Timestamp(1_000),
        };
        let site = site("Delft");
        let sources = Vec::new();
        let placement = Placement {
            site,
            sources,
            transfer_time: DurationMs::ZERO,
            share: None,
            acquisition: Default::default(),
        };
        job.components = vec![Component {
            placement: Some(placement),
            attempt: Attempt(1),
            run: AttemptState::Submitted {
                lrm_id: LrmId::new("7").expect("an id"),
                at: Timestamp(1_000),
                absences: 0,
                waits: None,
            },
            ..Component::default()
        }];
        job
    }

    /// What Delft is known to have at most after the job looked at this time.
    fn most_left_after_look(after: DurationMs) -> Option<u32> {
        let old = submitted_job();
        let parameters = JobParameters::default();
        let live = LiveState::new([site("Delft")].iter(), DurationMs::from_secs(60));
        let now = Timestamp(1_000) + after;
        let look = JobCommand::Look(JobSurroundings::default());
        let events = decide(&old, &parameters, look, now).expect("a look");
        let mut new = old.clone();
        events.iter().for_each(|event| evolve(&mut new, event));
        note_refused_claims(&live, &parameters, (&old, &new), &events);
        live.most_processors_left(&site("Delft"), Timestamp(500))
    }

    #[test]
    fn a_claim_not_started_in_time_corrects_what_its_site_is_believed_to_have() {
        let timeout = JobParameters::default().claim_timeout;
        assert_eq!(
            most_left_after_look(DurationMs(timeout.0 - 1)),
            None,
            "it may still start"
        );
        assert_eq!(most_left_after_look(timeout), Some(7), "it has not even 8");
    }

    #[test]
    fn the_strictest_correction_holds_until_the_site_is_asked_again() {
        let delft: SiteName = site("Delft");
        let live = LiveState::new([delft.clone()].iter(), DurationMs::from_secs(60));
        live.note_refused_claim(&delft, 8, Timestamp(10));
        live.note_refused_claim(&delft, 16, Timestamp(20));
        assert_eq!(live.most_processors_left(&delft, Timestamp(20)), Some(7));
        assert!(
            !live.forget_refused_claims(&delft, Timestamp(20)),
            "asked when it refused"
        );
        assert_eq!(
            live.most_processors_left(&delft, Timestamp(21)),
            None,
            "asked since"
        );
        assert!(live.forget_refused_claims(&delft, Timestamp(21)));
        assert_eq!(live.most_processors_left(&delft, Timestamp(5)), None);
        live.note_refused_claim(&delft, 0, Timestamp(30));
        assert_eq!(live.most_processors_left(&delft, Timestamp(30)), Some(0));
    }
}
