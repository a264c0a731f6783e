//! Users and operators change their minds about reserved starts: about a job whose sites have
//! confirmed all, about what it wants reserved, about the site of its reservation.

use anyhow::Result;
use cospan_actors::api::command::ApiRequest;
use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_event::JobEventKind;
use cospan_domain::job::job_state::{Job, JobPhase, JobReservations, PhaseKind};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::reservation::{ReservationSearchState, StartWindow};
use cospan_domain::site::site_command::OperatorCommand;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{BEGINS, SceneStage, StagedScene, site_name};
use cospan_simulator::call_faults::FaultRates;
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::world_history::WorldLedgerEvent;
use cospan_simulator::world::world_site::LocalJob;

const MINUTE: DurationMs = DurationMs::from_secs(60);
const HOUR: DurationMs = DurationMs::from_secs(3_600);
const DAY: DurationMs = DurationMs::from_secs(86_400);
/// Time from the beginning of a scene to the earliest start that is wanted.
const LATER: DurationMs = DurationMs::from_secs(4 * 3_600);

pub(super) fn play_reservations(chance: &mut StdRng) -> Result<Vec<String>> {
    match chance.random_range(0..4) {
        0 => play_thawed(chance),
        1 => moved_and_thawed(chance),
        2 => changed_while_offered(chance),
        _ => closed_for_a_while(chance),
    }
}

/// Returns a job that wants this reservation.
fn reserved_job(wish: ReservationTerms) -> Result<JobSpec> {
    let mut spec = build_job(&[2], MINUTE, MINUTE, 0)?;
    spec.run.reservation = Some(wish);
    Ok(spec)
}

/// Returns a start so long after the scene begins, or up to two hours later.
fn start_terms(after: DurationMs) -> ReservationTerms {
    let window = StartWindow::new(BEGINS + after, BEGINS + after + HOUR + HOUR);
    ReservationTerms {
        window,
        ..ReservationTerms::default()
    }
}

/// Draws a command that closes a site to new work, and one that opens it again.
fn draw_closing(chance: &mut StdRng) -> (OperatorCommand, OperatorCommand) {
    let from = BEGINS;
    let until = BEGINS + DAY;
    let window = OperatorCommand::SetWindow {
        from,
        until,
        reason: "new disks".into(),
    };
    match chance.random_range(0..4) {
        0 => (OperatorCommand::Drain, OperatorCommand::Undrain),
        1 => (OperatorCommand::Freeze, OperatorCommand::Thaw),
        2 => (window, OperatorCommand::RemoveWindow { from }),
        _ => (
            OperatorCommand::Force {
                usable: false,
                until,
            },
            OperatorCommand::Unforce,
        ),
    }
}

async fn command_site(scene: &StagedScene, site: usize, order: OperatorCommand) -> Result<()> {
    scene.ask(ApiRequest::Site(site_name(site)?, order)).await?;
    Ok(())
}

fn is_waiting(job: &Job) -> bool {
    matches!(job.phase, JobPhase::Queued { .. })
}

/// Returns true if all of its sites have confirmed its reservations, and it is not placed there
/// yet.
fn is_confirmed(job: &Job) -> bool {
    let reservation = job
        .reservation
        .as_deref()
        .filter(|reservation| !reservation.spent);
    reservation.is_some_and(|held: &JobReservations| {
        let beside = held.other.as_ref().map(|other| &other.search);
        beside.unwrap_or(&held.search).current_state() == ReservationSearchState::Confirmed
    })
}

fn was_notified(scene: &StagedScene, job: JobId, name: &str) -> bool {
    let told = scene.events_of(job);
    told.iter()
        .flat_map(|(_, events)| events)
        .any(|event| event.what.name() == name)
}

/// Lists the sites of a job as it was placed since a moment, in order.
fn placed_since(scene: &StagedScene, job: JobId, since: Timestamp) -> Vec<SiteName> {
    let told = scene
        .events_of(job)
        .into_iter()
        .filter(|(at, _)| *at >= since);
    let placed = told
        .flat_map(|(_, events)| events)
        .filter_map(|event| match event.what {
            JobEventKind::JobPlaced { placements, .. } => {
                placements.first().map(|p| p.site.clone())
            }
            _ => None,
        });
    placed.collect()
}

/// Returns true if a job was placed without a reservation.
fn is_claimed(scene: &StagedScene, job: JobId) -> bool {
    let told = scene.events_of(job);
    told.iter()
        .flat_map(|(_, events)| events)
        .any(|event| match &event.what {
            JobEventKind::JobPlaced { placements, .. } => placements
                .iter()
                .any(|placement| placement.acquisition.reservation_use().is_none()),
            _ => false,
        })
}

fn begin_times(scene: &StagedScene) -> Vec<Timestamp> {
    scene.plane_run.world.read(|world| {
        let entries = world.ledger().entries().iter();
        entries
            .filter(|entry| entry.deed == WorldLedgerEvent::Began)
            .map(|entry| entry.at)
            .collect()
    })
}

/// Waits until a job has finished, and checks that its payload began once, and when it was to.
async fn check_begins_in_time(
    scene: &StagedScene,
    id: JobId,
    wish: ReservationTerms,
) -> Result<()> {
    let starts = wish.window;
    scene.until_ended(&[id]).await?;
    let job = scene.job_record(id)?;
    scene.check_same("the end", job.phase.kind(), PhaseKind::Finished);
    let began = begin_times(scene);
    let right = matches!(began[..], [at] if starts.contains(at));
    scene.check(right, || {
        format!("it began at {began:?}, and not within {starts:?}")
    });
    Ok(())
}

/// Makes calls take time, so that something can come between two of them.
fn slow_down_calls(stage: &mut SceneStage) {
    stage.fault_rates = FaultRates {
        way_max: DurationMs(2_000),
        ..FaultRates::default()
    };
}

/// Freezes a job while its site confirms, and closes the site before it is thawed: it is placed
/// there only once the site is open again.
fn play_thawed(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4], chance.random())?;
    stage.granting.insert(0);
    slow_down_calls(&mut stage);
    let (close, open) = draw_closing(chance);
    stage.play_scene(move |scene| async move {
        let id = scene.submit(reserved_job(start_terms(LATER))?).await?;
        scene
            .wait_until(MINUTE, |scene| was_notified(scene, id, "ReservationSought"))
            .await?;
        scene.ask(ApiRequest::Freeze(vec![id])).await?;
        scene
            .wait_until(MINUTE, |scene| {
                scene.job_record(id).is_ok_and(|job| is_confirmed(&job))
            })
            .await?;
        scene.check(is_waiting(&*scene.job_record(id)?), || {
            "it was placed although it is frozen".into()
        });
        command_site(&scene, 0, close).await?;
        scene.pass(MINUTE).await;
        let thawed = scene.now();
        scene.ask(ApiRequest::Thaw(vec![id])).await?;
        scene.pass(HOUR).await;
        scene.check_same(
            "sites while its own is closed",
            placed_since(&scene, id, thawed),
            Vec::new(),
        );
        command_site(&scene, 0, open).await?;
        check_begins_in_time(&scene, id, start_terms(LATER)).await
    })
}

/// Plays the same for a job that has a reservation, and is frozen while another start is confirmed:
/// it keeps what it had.
fn moved_and_thawed(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4], chance.random())?;
    stage.granting.insert(0);
    slow_down_calls(&mut stage);
    stage.play_scene(move |scene| async move {
        let id = scene.submit(reserved_job(start_terms(LATER))?).await?;
        scene
            .wait_until(MINUTE, |scene| was_notified(scene, id, "JobPlaced"))
            .await?;
        let wish = Some(start_terms(LATER + LATER));
        scene
            .ask(ApiRequest::ChangeReservation { job: id, wish })
            .await?;
        scene.ask(ApiRequest::Freeze(vec![id])).await?;
        scene
            .wait_until(MINUTE, |scene| {
                scene.job_record(id).is_ok_and(|job| is_confirmed(&job))
            })
            .await?;
        command_site(&scene, 0, OperatorCommand::Freeze).await?;
        scene.pass(MINUTE).await;
        let thawed = scene.now();
        scene.ask(ApiRequest::Thaw(vec![id])).await?;
        scene.pass(HOUR).await;
        scene.check_same(
            "sites while its own is closed",
            placed_since(&scene, id, thawed),
            Vec::new(),
        );
        command_site(&scene, 0, OperatorCommand::Thaw).await?;
        check_begins_in_time(&scene, id, start_terms(LATER)).await
    })
}

/// Lets processors become idle for a job at the moment at which its user wants a reserved start
/// instead: what was proposed meanwhile is not taken.
fn changed_while_offered(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4], chance.random())?;
    stage.granting.insert(0);
    let at = BEGINS;
    let run_time = HOUR;
    stage.locals.push((
        0,
        LocalJob {
            at,
            processors: 4,
            run_time,
            estimate: run_time,
        },
    ));
    // What comes in while a change is written is decided after it.
    stage.fault_rates = FaultRates {
        sync_max: MINUTE,
        ..FaultRates::default()
    };
    let claims_first = ReservationTerms {
        reserve_after: Some(DAY),
        ..start_terms(DurationMs::ZERO)
    };
    let lead = DurationMs(chance.random_range(1..=1_000));
    stage.play_scene(move |scene| async move {
        let id = scene.submit(reserved_job(claims_first)?).await?;
        scene.plane_run.sleep_until(BEGINS + HOUR - lead).await;
        let wish = Some(start_terms(LATER));
        scene
            .ask(ApiRequest::ChangeReservation { job: id, wish })
            .await?;
        // On such a disk it may come too late for its reservation.
        scene.until_ended(&[id]).await?;
        let earliest = start_terms(LATER).window.earliest;
        let began = begin_times(&scene);
        scene.check(began.iter().all(|at| *at >= earliest), || {
            format!("it began at {began:?}, before {earliest:?}")
        });
        let claimed = is_claimed(&scene, id);
        scene.check(!claimed, || {
            "it was placed where nothing is promised".into()
        });
        Ok(())
    })
}

/// Plays a site that alone grants reservations and takes nothing for a while, beside one that
/// grants none: a job that may be claimed there in part waits for the first, as nothing would be
/// reserved else.
fn closed_for_a_while(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4, 4], chance.random())?;
    stage.granting.insert(0);
    let (close, open) = draw_closing(chance);
    let wish = ReservationTerms {
        unreserved: true,
        ..start_terms(LATER)
    };
    stage.play_scene(move |scene| async move {
        command_site(&scene, 0, close).await?;
        let id = scene.submit(reserved_job(wish)?).await?;
        scene.pass(HOUR).await;
        let phase = scene.job_record(id)?.phase.clone();
        scene.check(matches!(phase, JobPhase::Queued { .. }), || {
            format!("it is {phase:?}")
        });
        command_site(&scene, 0, open).await?;
        check_begins_in_time(&scene, id, wish).await
    })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn holds(play: fn(&mut StdRng) -> Result<Vec<String>>) {
        for seed in 0..8 {
            let wrong = play(&mut StdRng::seed_from_u64(seed)).unwrap();
            assert_eq!(wrong, Vec::<String>::new(), "seed {seed}");
        }
    }

    #[test]
    fn a_thawed_job_is_not_placed_where_a_site_takes_nothing() {
        holds(play_thawed);
    }

    #[test]
    fn a_thawed_job_keeps_its_promise_if_the_site_of_another_takes_nothing() {
        holds(moved_and_thawed);
    }

    #[test]
    fn a_job_that_is_to_be_promised_a_start_takes_no_offer_made_before() {
        holds(changed_while_offered);
    }

    #[test]
    fn a_job_waits_for_the_site_that_would_promise_and_is_closed() {
        holds(closed_for_a_while);
    }
}
