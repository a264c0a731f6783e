//! What is said of jobs at sites from which nothing is heard.

use std::sync::Arc;

use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::{AbortCause, AbortConsequence, Job, JobPhase, PhaseKind};
use cospan_domain::job::spec::{JobSpec, UnreachableAction};
use cospan_domain::site::contact::SiteContact;
use cospan_domain::units::Timestamp;

use super::{SilentSiteComponent, SilentSiteReport};
use crate::commands::{ApiAnswer, ApiCommand, ApiRequest, JobCommandOutcome};
use crate::committed::JournalChange;
use crate::job::job_external_state::tests::running_job_at;
use crate::transfer::testing::{MemoryWorld, key, queued_job, run_paused, site};

const JOB: JobId = JobId(1);

/// A control plane that has just started, with a job that runs at Delft, which is down.
async fn restarted_without_delft() -> MemoryWorld {
    let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
    let running = running_job_at("Delft");
    let input = running.spec.components[0].inputs[0]
        .file
        .bound
        .expect("bound content");
    world
        .append(JournalChange::NewJobs(vec![Arc::new(queued_job(
            JOB.0, input,
        ))]))
        .await;
    world.change_job(JOB.0, running).await;
    world.fake_site("Delft").lock_state().up = false;
    world.restart_with_all_actors().await
}

async fn abandon_job(world: &MemoryWorld) -> JobCommandOutcome {
    let plane = world.control_plane();
    while !plane.is_ready() {
        world.settle().await;
    }
    let command = ApiCommand {
        by: key(),
        what: ApiRequest::Abandon(vec![JOB]),
    };
    match plane.execute_command(command).await {
        Ok(ApiAnswer::Jobs(outcomes)) => outcomes[0].1.clone(),
        answer => panic!("{answer:?}"),
    }
}

#[test]
fn who_abandons_before_a_dead_site_counts_as_silent_is_told_to_repeat_it() {
    run_paused(async || {
        let world = restarted_without_delft().await;
        let JobCommandOutcome::Waits(told) = abandon_job(&world).await else {
            panic!("it waits for Delft")
        };
        assert!(
            told.contains("at Delft, not heard yet; repeat in a minute"),
            "{told}"
        );
        let phase = |w: &MemoryWorld| w.shared.view.load().jobs[&JOB].phase.kind();
        assert_eq!(phase(&world), PhaseKind::Aborting);
        let contact = |w: &MemoryWorld| {
            w.shared
                .live
                .site_report(&site("Delft"))
                .map(|report| report.contact)
        };
        world
            .wait_until("Delft is unreachable", |w: &MemoryWorld| {
                matches!(contact(w), Some(SiteContact::Unreachable { .. }))
            })
            .await;
        assert_eq!(abandon_job(&world).await, JobCommandOutcome::Done);
        assert_eq!(phase(&world), PhaseKind::Cancelled);
    });
}

fn silence_warning(job: &Job, isolated: bool) -> String {
    let component = "one".into();
    let why = "which does not answer";
    let attempts = vec![SilentSiteComponent {
        component,
        site: site("Delft"),
        why,
    }];
    SilentSiteReport { attempts, isolated }
        .warning(job)
        .expect("something is silent")
}

#[test]
fn only_a_job_whose_round_is_given_up_is_told_how_to_abandon_it() {
    let mut job = running_job_at("Delft");
    let rerun = silence_warning(&job, false);
    assert!(
        rerun.contains("goes on once that site answers, and is given up after"),
        "{rerun}"
    );
    let on_unreachable = UnreachableAction::Wait;
    job.spec = Arc::new(JobSpec {
        on_unreachable,
        ..JobSpec::clone(&job.spec)
    });
    let waits = silence_warning(&job, false);
    assert!(
        waits.ends_with("; it goes on once that site answers"),
        "{waits}"
    );
    job.phase = JobPhase::Aborting {
        since: Timestamp(3),
        why: AbortCause::Cancelled,
        then: AbortConsequence::Cancel { by: key() },
    };
    let ends = silence_warning(&job, false);
    assert!(
        ends.contains("it is ended once") && ends.contains("cancel --abandon 1"),
        "{ends}"
    );
}

#[test]
fn while_it_is_we_who_are_cut_off_nobody_is_told_to_give_anything_up() {
    let mut job = running_job_at("Delft");
    let cut_off =
        |told: &str| told.contains("takes itself to be isolated") && !told.contains("abandon");
    let runs = silence_warning(&job, true);
    assert!(
        cut_off(&runs) && runs.ends_with("it goes on once that site answers"),
        "{runs}"
    );
    job.phase = JobPhase::Aborting {
        since: Timestamp(3),
        why: AbortCause::Cancelled,
        then: AbortConsequence::Cancel { by: key() },
    };
    let ends = silence_warning(&job, true);
    assert!(
        cut_off(&ends) && ends.ends_with("it is ended once that site answers"),
        "{ends}"
    );
}
