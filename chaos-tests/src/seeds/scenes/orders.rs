//! Commands to one job that come at the same time. The first is written at once; all that come
//! while it is written are decided together, and are one change. A site's answer that comes
//! meanwhile is written along with the next command.

use anyhow::{Result, bail};
use cospan_actors::api::command::{ApiAnswer, ApiRefusal, ApiRequest, JobCommandOutcome};
use cospan_domain::ids::JobId;
use cospan_domain::job::spec::Priority;
use cospan_domain::units::DurationMs;
use futures_util::future::join_all;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{SceneStage, StagedScene};
use cospan_simulator::jobs::build_job;

const LONG: DurationMs = DurationMs(1_000_000);

pub(super) fn play_orders(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4], chance.random())?;
    stage.settings.information_expiry = LONG;
    let waits = chance.random_bool(0.5);
    stage.hints = waits;
    let orders: Vec<usize> = (0..chance.random_range(2..=6))
        .map(|_| chance.random_range(0..4))
        .collect();
    let class = if chance.random_bool(0.5) {
        Priority::High
    } else {
        Priority::Low
    };
    stage.play_scene(move |scene| async move {
        let first = scene.submit(build_job(&[3], LONG, LONG, 0)?).await?;
        if waits {
            let id = scene.submit(build_job(&[2], LONG, LONG, 0)?).await?;
            scene.pass(DurationMs(100)).await;
            check_at_once(&scene, id, &orders).await
        } else {
            check_while_starting(&scene, first, class).await
        }
    })
}

fn command_number(id: JobId, number: usize) -> ApiRequest {
    match number {
        0 => ApiRequest::Freeze(vec![id]),
        1 => ApiRequest::Thaw(vec![id]),
        _ => ApiRequest::SetPriority {
            jobs: vec![id],
            to: if number == 2 {
                Priority::High
            } else {
                Priority::Low
            },
            uncapped: true,
        },
    }
}

fn job_outcome(answer: Result<ApiAnswer, ApiRefusal>) -> Result<JobCommandOutcome> {
    match answer? {
        ApiAnswer::Jobs(mut jobs) if jobs.len() == 1 => Ok(jobs.remove(0).1),
        other => bail!("an order came to {other:?}"),
    }
}

/// Checks that each command is answered by what the ones before it made of the job.
async fn check_at_once(scene: &StagedScene, id: JobId, orders: &[usize]) -> Result<()> {
    let now = scene.now();
    let answers = join_all(
        orders
            .iter()
            .map(|number| scene.ask(command_number(id, *number))),
    )
    .await;
    let mut frozen = false;
    let mut high = false;
    let mut names = Vec::new();
    for (number, answer) in orders.iter().zip(answers) {
        let (state, to, name) = match number {
            0 => (&mut frozen, true, "JobFrozen"),
            1 => (&mut frozen, false, "JobThawed"),
            2 => (&mut high, true, "PriorityChanged"),
            _ => (&mut high, false, "PriorityChanged"),
        };
        let expected = if std::mem::replace(state, to) == to {
            JobCommandOutcome::Unchanged("it is so already".into())
        } else {
            names.push(name);
            JobCommandOutcome::Done
        };
        scene.check_same("answer", job_outcome(answer)?, expected);
    }
    let course = scene.durable_course(id, now);
    let told: Vec<_> = course.iter().flat_map(|(_, names)| names.clone()).collect();
    scene.check_same("events", told, names);
    scene.check(course.len() <= 2, || format!("{orders:?} took {course:?}"));
    scene.check(course.iter().all(|(at, _)| *at == 0), || {
        format!("not at once: {course:?}")
    });
    let job = scene.job_record(id)?;
    let class = if high { Priority::High } else { Priority::Low };
    scene.check_same("class", job.priority, class);
    scene.check_same("frozen", job.frozen_by.is_some(), frozen);
    Ok(())
}

/// Checks that an open gate is not written by itself, but with whatever is written next.
async fn check_while_starting(scene: &StagedScene, id: JobId, class: Priority) -> Result<()> {
    let soon = DurationMs(scene.plane_run.plane.shared().settings.poll_interval.0);
    let begun = scene.now();
    scene.pass(soon + DurationMs(500)).await;
    let ask = ApiRequest::SetPriority {
        jobs: vec![id],
        to: class,
        uncapped: true,
    };
    let changes = class == Priority::High;
    let expected = if changes {
        JobCommandOutcome::Done
    } else {
        JobCommandOutcome::Unchanged("it is so already".into())
    };
    let answer = job_outcome(scene.ask(ask).await)?;
    scene.check_same("answer", answer, expected);
    scene.pass(soon).await;
    let order = if changes {
        vec!["GateOpened", "PriorityChanged"]
    } else {
        vec!["GateOpened"]
    };
    let expected = vec![
        (0, vec!["JobPlaced", "ClaimBegun"]),
        (0, vec!["AttemptSubmitted"]),
        (soon.0, vec!["ComponentReady", "GoDecided"]),
        (soon.0 + 500, order),
        (2 * soon.0, vec!["ComponentBegan", "JobStarted"]),
    ];
    scene.check_same("course", scene.durable_course(id, begun), expected);
    Ok(())
}
