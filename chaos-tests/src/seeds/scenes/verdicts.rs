//! Operators keep work away from the only site and let it come again; a job that waits
//! for that is placed as soon as it may be.

use std::sync::Arc;

use anyhow::Result;
use cospan_actors::api::command::{ApiAnswer, ApiRefusal, ApiRequest, OperatorCommand};
use cospan_actors::journal::JournalChange;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{SceneStage, StagedScene, site_name};
use cospan_simulator::jobs::build_job;

#[derive(Debug, Clone, Copy)]
enum ExpectedVerdict {
    Frozen,
    Drained,
    Window,
    Forced,
    Released,
    Removed,
}

pub(super) fn play_verdicts(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4], chance.random())?;
    stage.hints = chance.random_bool(0.5);
    let verdicts = [
        ExpectedVerdict::Frozen,
        ExpectedVerdict::Drained,
        ExpectedVerdict::Window,
        ExpectedVerdict::Forced,
        ExpectedVerdict::Released,
        ExpectedVerdict::Removed,
    ];
    let verdict = verdicts[chance.random_range(0..verdicts.len())];
    let after = DurationMs(chance.random_range(0..=3_000));
    let lasts = DurationMs(chance.random_range(10..=100_000));
    stage.play_scene(move |scene| async move {
        scene.pass(after).await;
        let (state, orders, lifts) = commands_of(&scene, verdict, lasts);
        let begun = scene.now();
        for order in orders {
            scene.check_same(
                "answer",
                give_command(&scene, order).await?,
                Ok(ApiAnswer::Done),
            );
        }
        scene.check_shown_state("state", 0, state)?;
        let id = scene
            .submit(build_job(&[3], DurationMs(1_000), DurationMs(1_000), 0)?)
            .await?;
        scene.pass(DurationMs(lasts.0 - 1)).await;
        scene.check_same("course before", scene.durable_course(id, begun), vec![]);
        scene.check_shown_state("state", 0, state)?;
        scene.pass(DurationMs(1)).await;
        for order in lifts {
            scene.check_same(
                "answer",
                give_command(&scene, order.clone()).await?,
                Ok(ApiAnswer::Done),
            );
            let again = give_command(&scene, order).await?;
            scene.check(matches!(&again, Err(ApiRefusal::Conflict(_))), || {
                format!("{again:?}")
            });
        }
        scene.pass(DurationMs(20)).await;
        let placed = scene.first_event_at(id, "JobPlaced")?;
        scene.check_by_next_call("placed after", placed.since(begun).0, lasts.0);
        scene.await_end(id).await?;
        scene.check_shown_state("state at the end", 0, "usable")?;
        check_records(&scene, verdict);
        Ok(())
    })
}

/// Returns the shown state of the site, the commands, and the commands when it is over.
fn commands_of(
    scene: &StagedScene,
    verdict: ExpectedVerdict,
    lasts: DurationMs,
) -> (&'static str, Vec<OperatorCommand>, Vec<OperatorCommand>) {
    let from = scene.now();
    let until = scene.now() + lasts;
    let later = until + DurationMs(50_000);
    match verdict {
        ExpectedVerdict::Frozen => (
            "frozen",
            vec![OperatorCommand::Freeze],
            vec![OperatorCommand::Thaw],
        ),
        ExpectedVerdict::Drained => (
            "drained",
            vec![OperatorCommand::Drain],
            vec![OperatorCommand::Undrain],
        ),
        ExpectedVerdict::Window => ("maintenance", vec![cleaning_window(from, until)], vec![]),
        ExpectedVerdict::Forced => ("unusable", vec![unusable_until(until)], vec![]),
        ExpectedVerdict::Released => (
            "unusable",
            vec![unusable_until(later)],
            vec![OperatorCommand::Unforce],
        ),
        ExpectedVerdict::Removed => {
            let removal = OperatorCommand::RemoveWindow { from };
            (
                "maintenance",
                vec![cleaning_window(from, later)],
                vec![removal],
            )
        }
    }
}

fn cleaning_window(from: Timestamp, until: Timestamp) -> OperatorCommand {
    OperatorCommand::SetWindow {
        from,
        until,
        reason: Arc::from("cleaning"),
    }
}

fn unusable_until(until: Timestamp) -> OperatorCommand {
    OperatorCommand::Force {
        usable: false,
        until,
    }
}

async fn give_command(
    scene: &StagedScene,
    order: OperatorCommand,
) -> Result<Result<ApiAnswer, ApiRefusal>> {
    Ok(scene.ask(ApiRequest::Site(site_name(0)?, order)).await)
}

/// Checks that each command is one change of the site's record; what is refused is none that shows.
fn check_records(scene: &StagedScene, verdict: ExpectedVerdict) {
    let changes = scene.changes();
    let of_site = changes.iter().filter(|(_, change)| match &**change {
        JournalChange::Site { old, new } => old.as_deref() != Some(&**new),
        _ => false,
    });
    let expected = match verdict {
        ExpectedVerdict::Window | ExpectedVerdict::Forced => 1,
        _ => 2,
    };
    scene.check_same("changes of the site", of_site.count(), expected);
}
