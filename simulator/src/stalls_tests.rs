//! What senders meet while an actor takes no messages.

use cospan_actors::api::command::{ApiAnswer, ApiCommand, ApiRefusal, ApiRequest};
use cospan_actors::supervision::ActorKind;
use cospan_domain::ids::{JobId, KeyName};
use cospan_domain::units::DurationMs;
use futures_util::future::join_all;

use super::control_plane_run::{ControlPlaneRun, RunEnd, RunPlan, run_control_plane};
use super::probe_tests::{BEGINS, SECOND, environment_with_sites};
use super::stalls::{KINDS, StallSettings};

const BOUND: usize = 3;

async fn cancel_nothing(plane_run: &ControlPlaneRun) -> Result<ApiAnswer, ApiRefusal> {
    let by = KeyName::new("alice").unwrap();
    plane_run
        .plane
        .execute_command(ApiCommand {
            by,
            what: ApiRequest::Cancel(vec![JobId(1)]),
        })
        .await
}

fn stalling_plan(kind: ActorKind, full: u32) -> RunPlan {
    let kinds = KINDS.map(|other| other == kind);
    let lasts_max = DurationMs::from_secs(600);
    let until = BEGINS + lasts_max;
    let stalls = StallSettings {
        kinds,
        pause_max: DurationMs(1),
        lasts_max,
        full,
        until,
    };
    RunPlan {
        stalls: Some(stalls),
        ..RunPlan::undisturbed(BEGINS, 1)
    }
}

#[test]
fn an_intake_that_stalls_turns_away_what_is_beyond_its_bound() {
    let mut environment = environment_with_sites(&["delft"]);
    environment.settings.intake_bound = BOUND;
    let end = run_control_plane(
        &environment,
        stalling_plan(ActorKind::Intake, 0),
        move |plane_run| async move {
            plane_run.sleep_until(BEGINS + SECOND).await;
            let asked = plane_run.clock.now();
            let commands = (0..100).map(|_| {
                let plane_run = plane_run.clone();
                async move { (cancel_nothing(&plane_run).await, plane_run.clock.now()) }
            });
            let answers = join_all(commands).await;
            let at_once = answers
                .iter()
                .filter(|answer: &&(Result<_, ApiRefusal>, _)| {
                    matches!(answer.0, Err(ApiRefusal::Busy { .. }))
                })
                .filter(|(_, at)| *at == asked)
                .count();
            assert!(
                answers.iter().any(|(_, at)| *at > asked),
                "it does not stall"
            );
            assert_eq!(answers.len() - at_once, BOUND, "so many wait");
        },
    );
    assert!(matches!(end.unwrap(), RunEnd::Done(..)));
}
