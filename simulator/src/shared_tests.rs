//! Reservations that jobs share, made by operators of a simulated grid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_actors::api::command::{ApiAnswer, ApiCommand, ApiRefusal, ApiRequest, JobSubmission};
use cospan_domain::ids::{JobId, KeyName, ReservationName, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase, PhaseKind};
use cospan_domain::reservation::StartWindow;
use cospan_domain::resources::Resources;
use cospan_domain::site::shared_reservation::{SharedReservationStage, SharedReservationTerms};
use cospan_domain::site::site_command::OperatorCommand;
use cospan_domain::units::{DurationMs, Timestamp};

use super::call_faults::{CallFaultModel, FaultRates};
use super::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use super::jobs::build_job;
use super::journal::StoreDisk;
use super::settings::default_settings;
use crate::world::batch::QueueDiscipline;
use crate::world::world_site::ClusterSpec;
use crate::world::{SimulatedWorld, WrapperDelays};
use crate::world_handle::WorldHandle;

const BEGINS: Timestamp = Timestamp(1_000_000_000);
const HOUR: DurationMs = DurationMs::from_secs(3_600);
const MINUTE: DurationMs = DurationMs::from_secs(60);

/// Two sites of 8 processors that grant reservations.
fn environment() -> SimEnvironment {
    let sites = ["delft", "leiden"].map(|name: &str| ClusterSpec {
        name: SiteName::new(name).unwrap(),
        nodes: 8,
        processors_per_node: 1,
        discipline: QueueDiscipline::Conservative,
        local_jobs: Vec::new(),
        queues: false,
        reserves: true,
        files: BTreeMap::new(),
    });
    let world = SimulatedWorld::new(sites.into(), &[], WrapperDelays::default(), 1, BEGINS);
    SimEnvironment {
        world: WorldHandle::new(world),
        disk: StoreDisk::default(),
        call_faults: Arc::new(CallFaultModel::new(FaultRates::default(), 1)),
        hash: Arc::default(),
        settings: default_settings(),
        hints: false,
        lives: Arc::default(),
        keeps_archive: false,
    }
}

/// What these do on a grid whose sites have answered.
fn run_on_grid<T: 'static>(
    environment: &SimEnvironment,
    acts: impl AsyncFnOnce(&ControlPlaneRun) -> T + 'static,
) -> T {
    let plan = RunPlan::undisturbed(BEGINS, 1);
    let end = run_control_plane(environment, plan, move |plane_run| async move {
        plane_run.sleep_until(BEGINS + MINUTE).await;
        acts(&plane_run).await
    });
    match end.unwrap() {
        RunEnd::Done(_, result) => result,
        RunEnd::Killed(at) => panic!("it ended by itself at {}", at.0),
    }
}

fn key_name(name: &str) -> KeyName {
    KeyName::new(name).unwrap()
}

fn reservation_name() -> ReservationName {
    ReservationName::new("course").unwrap()
}

/// Two processors for an hour, in half an hour, for these keys.
fn reservation_wish(now: Timestamp, allowed: &[&str]) -> OperatorCommand {
    let allowed: BTreeSet<KeyName> = allowed.iter().map(|name| key_name(name)).collect();
    OperatorCommand::Reserve(Box::new(SharedReservationTerms {
        name: reservation_name(),
        allowed,
        resources: Resources::processors(2),
        window: StartWindow::new(now + HOUR, now + HOUR),
        lead: DurationMs::ZERO,
        length: HOUR,
        margin: DurationMs::ZERO,
        parts: [].into(),
        tolerance: DurationMs::ZERO,
    }))
}

async fn send_request(
    plane_run: &ControlPlaneRun,
    by: &str,
    what: ApiRequest,
) -> Result<ApiAnswer, ApiRefusal> {
    plane_run
        .plane
        .execute_command(ApiCommand {
            by: key_name(by),
            what,
        })
        .await
}

async fn send_site_command(
    plane_run: &ControlPlaneRun,
    site: &str,
    what: OperatorCommand,
) -> Result<ApiAnswer, ApiRefusal> {
    send_request(
        plane_run,
        "operator",
        ApiRequest::Site(SiteName::new(site).unwrap(), what),
    )
    .await
}

async fn wait(plane_run: &ControlPlaneRun, length: DurationMs) {
    plane_run.sleep_until(plane_run.clock.now() + length).await;
}

fn only_job(plane_run: &ControlPlaneRun) -> Arc<Job> {
    plane_run
        .plane
        .view()
        .jobs
        .values()
        .next()
        .cloned()
        .unwrap()
}

#[test]
fn a_name_that_is_wanted_at_two_sites_at_once_is_given_at_one() {
    let environment = environment();
    let (granted, held) = run_on_grid(&environment, async |plane_run: &ControlPlaneRun| {
        let now = plane_run.plane.now();
        let both = ["delft", "leiden"]
            .map(|site| send_site_command(plane_run, site, reservation_wish(now, &[])));
        let answers = futures_util::future::join_all(both).await;
        wait(plane_run, MINUTE).await;
        (
            answers.iter().filter(|answer| answer.is_ok()).count(),
            plane_run.world.read(|world: &SimulatedWorld| {
                world
                    .sites()
                    .iter()
                    .flat_map(|site| site.current_reservations())
                    .count()
            }),
        )
    });
    assert_eq!((granted, held), (1, 1));
}

#[test]
fn a_reservation_at_two_sites_is_made_at_both_or_at_none() {
    let environment = environment();
    let wish_of = |now: Timestamp, name: &str, delft: u32| {
        let parts = [("delft", delft), ("leiden", 8)];
        let parts =
            parts.map(|(site, count)| (SiteName::new(site).unwrap(), Resources::processors(count)));
        let OperatorCommand::Reserve(wish) = reservation_wish(now, &[]) else {
            unreachable!()
        };
        OperatorCommand::Reserve(Box::new(SharedReservationTerms {
            name: ReservationName::new(name).unwrap(),
            parts: parts.into(),
            tolerance: MINUTE,
            ..*wish
        }))
    };
    let (jobs, held) = run_on_grid(&environment, async move |plane_run: &ControlPlaneRun| {
        let now = plane_run.plane.now();
        send_site_command(plane_run, "delft", wish_of(now, "course", 2))
            .await
            .unwrap();
        wait(plane_run, MINUTE).await;
        // There is room for it at delft, and none at leiden.
        send_site_command(plane_run, "delft", wish_of(now, "other", 4))
            .await
            .unwrap();
        wait(plane_run, MINUTE).await;
        let held = |world: &SimulatedWorld| {
            let sites = world.sites().iter();
            sites
                .map(|site| site.current_reservations().count())
                .collect::<Vec<_>>()
        };
        let held = plane_run.world.read(held);
        let mut spec = build_job(&[2, 8], MINUTE, MINUTE + MINUTE, 0).unwrap();
        spec.run.within = Some(reservation_name());
        let submit = ApiRequest::Submit(vec![JobSubmission::from_spec(Arc::new(spec))]);
        send_request(plane_run, "bob", submit).await.unwrap();
        wait(plane_run, HOUR + HOUR).await;
        let view = plane_run.plane.view();
        (
            view.jobs
                .values()
                .map(|job| job.phase.kind())
                .collect::<Vec<_>>(),
            held,
        )
    });
    assert_eq!(jobs, [PhaseKind::Finished]);
    assert_eq!(held, [1, 1]);
}

#[test]
fn who_waits_is_not_let_into_what_is_not_for_it_by_the_same_name() {
    let environment = environment();
    let job = run_on_grid(&environment, async |plane_run: &ControlPlaneRun| {
        let now = plane_run.plane.now();
        send_site_command(plane_run, "delft", reservation_wish(now, &[]))
            .await
            .unwrap();
        wait(plane_run, MINUTE).await;
        let mut spec = build_job(&[2], MINUTE, MINUTE + MINUTE, 0).unwrap();
        spec.run.within = Some(reservation_name());
        let submit = ApiRequest::Submit(vec![JobSubmission::from_spec(Arc::new(spec))]);
        send_request(plane_run, "bob", submit).await.unwrap();
        // What happens while it is frozen it hears of when it is thawed.
        send_request(plane_run, "bob", ApiRequest::Freeze(vec![JobId(1)]))
            .await
            .unwrap();
        let cancel = OperatorCommand::CancelReservation {
            name: reservation_name(),
        };
        send_site_command(plane_run, "delft", cancel).await.unwrap();
        wait(plane_run, MINUTE).await;
        send_site_command(plane_run, "delft", reservation_wish(now, &["alice"]))
            .await
            .unwrap();
        send_request(plane_run, "bob", ApiRequest::Thaw(vec![JobId(1)]))
            .await
            .unwrap();
        wait(plane_run, HOUR + HOUR).await;
        only_job(plane_run)
    });
    let JobPhase::Failed { reason, .. } = &job.phase else {
        panic!("{:?}", job.phase)
    };
    assert!(reason.contains("is not for its key"), "{reason}");
}

#[test]
fn jobs_of_several_keys_run_in_what_they_share_one_after_the_other() {
    let environment = environment();
    let (jobs, kept) = run_on_grid(&environment, async |plane_run: &ControlPlaneRun| {
        let now = plane_run.plane.now();
        send_site_command(plane_run, "delft", reservation_wish(now, &["alice", "bob"]))
            .await
            .unwrap();
        wait(plane_run, MINUTE).await;
        for by in ["alice", "bob", "alice"] {
            let mut spec = build_job(&[2], MINUTE, MINUTE + MINUTE, 0).unwrap();
            spec.run.within = Some(reservation_name());
            let submit = ApiRequest::Submit(vec![JobSubmission::from_spec(Arc::new(spec))]);
            send_request(plane_run, by, submit).await.unwrap();
        }
        let refused = build_job(&[2], MINUTE, MINUTE + MINUTE, 0).map(|mut spec| {
            spec.run.within = Some(reservation_name());
            ApiRequest::Submit(vec![JobSubmission::from_spec(Arc::new(spec))])
        });
        assert!(
            send_request(plane_run, "dora", refused.unwrap())
                .await
                .is_err()
        );
        wait(plane_run, HOUR + HOUR).await;
        let view = plane_run.plane.view();
        let stage = |record: &cospan_domain::site::site_state::SiteRecord| {
            record
                .shared_reservation_named(&reservation_name())
                .map(|shared| shared.stage.clone())
        };
        let kept = view.sites.values().find_map(|record| stage(record));
        (
            view.jobs
                .values()
                .map(|job| job.phase.kind())
                .collect::<Vec<_>>(),
            kept,
        )
    });
    assert_eq!(jobs, [PhaseKind::Finished; 3]);
    assert_eq!(kept, Some(SharedReservationStage::Confirmed));
}
