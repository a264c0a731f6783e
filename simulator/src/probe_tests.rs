//! Places for probes do not stay taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_actors::actor_settings::ActorSettings;
use cospan_actors::api::command::{ApiCommand, ApiRequest, JobSubmission};
use cospan_domain::ids::{KeyName, SiteName};
use cospan_domain::job::job_state::JobPhase;
use cospan_domain::runner::RestartScope;
use cospan_domain::site::site_parameters::SiteParameters;
use cospan_domain::site::site_state::Breaker;
use cospan_domain::units::{DurationMs, Timestamp};

use super::call_faults::{CallFaultModel, FaultRates};
use super::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use super::jobs::build_shared_job;
use super::settings::default_settings;
use crate::world::batch::QueueDiscipline;
use crate::world::world_site::ClusterSpec;
use crate::world::{LinkSpec, SimulatedWorld, WrapperDelays};
use crate::world_handle::WorldHandle;

pub(super) const BEGINS: Timestamp = Timestamp(1_000_000_000);
pub(super) const SECOND: DurationMs = DurationMs(1_000);

pub(super) fn site_name(site: &str) -> SiteName {
    SiteName::new(site).unwrap()
}

/// Sites of one node each, unusable after one error, and hardly ever reconciled.
pub(super) fn environment_with_sites(sites: &[&str]) -> SimEnvironment {
    environment_with_links(sites, &[])
}

/// The same with links.
pub(super) fn environment_with_links(sites: &[&str], links: &[LinkSpec]) -> SimEnvironment {
    let site = |site: &&str| ClusterSpec {
        name: site_name(site),
        nodes: 1,
        processors_per_node: 2,
        discipline: QueueDiscipline::Easy,
        local_jobs: Vec::new(),
        queues: false,
        reserves: false,
        files: BTreeMap::new(),
    };
    let sites = sites.iter().map(site).collect();
    let world = SimulatedWorld::new(sites, links, WrapperDelays::default(), 1, BEGINS);
    let settings = ActorSettings {
        site: SiteParameters {
            site_error_threshold: 1,
            ..SiteParameters::default()
        },
        reconcile_interval: DurationMs::from_secs(86_400),
        ..default_settings()
    };
    SimEnvironment::new(
        world,
        CallFaultModel::new(FaultRates::default(), 1),
        settings,
    )
}

/// Submits a job that runs for an hour.
pub(super) async fn submit(
    plane_run: &ControlPlaneRun,
    components: &[u32],
    restart_scope: RestartScope,
) {
    let hour = DurationMs::from_secs(3_600);
    let mut spec = build_shared_job(components, hour, hour + hour, 0).unwrap();
    Arc::make_mut(&mut spec).run.restart_scope = restart_scope;
    let submission = JobSubmission::from_spec(spec);
    let by = KeyName::new("alice").unwrap();
    let what = ApiRequest::Submit(vec![submission]);
    plane_run
        .plane
        .execute_command(ApiCommand { by, what })
        .await
        .unwrap();
}

/// Waits until it holds, for twenty minutes at most: longer than sites are avoided.
pub(super) async fn wait_until(plane_run: &ControlPlaneRun, holds: impl Fn() -> bool) -> bool {
    let end = plane_run.clock.now() + DurationMs::from_secs(1_200);
    while !holds() && plane_run.clock.now() < end {
        plane_run.sleep_until(plane_run.clock.now() + SECOND).await;
    }
    holds()
}

pub(super) fn breaker_of(plane_run: &ControlPlaneRun, site: &str) -> Option<Breaker> {
    plane_run
        .plane
        .view()
        .sites
        .get(&site_name(site))
        .map(|record| record.breaker.clone())
}

pub(super) fn fail_node(plane_run: &ControlPlaneRun, world: &WorldHandle, site: &str) {
    world.act_at(plane_run.clock.now(), |world| {
        let site = world.index_of(&site_name(site)).unwrap();
        world.kill_node(site, 0, SECOND);
    });
}

#[test]
fn a_probe_whose_job_another_site_ended_makes_room_for_the_next_at_once() {
    let environment = environment_with_sites(&["delft", "leiden"]);
    let world = environment.world.clone();
    let plan = RunPlan::undisturbed(BEGINS, 1);
    let end = run_control_plane(&environment, plan, move |plane_run| async move {
        plane_run.sleep_until(BEGINS + SECOND).await;
        // Two components of the size of a site: each has one.
        submit(&plane_run, &[2, 2], RestartScope::Job).await;
        let runs = || {
            let view = plane_run.plane.view();
            view.jobs
                .values()
                .all(|job| matches!(job.phase, JobPhase::Running { .. }))
        };
        assert!(
            wait_until(&plane_run, runs).await,
            "both sites take a component"
        );
        fail_node(&plane_run, &world, "leiden");
        let probed = || {
            matches!(
                breaker_of(&plane_run, "leiden"),
                Some(Breaker::HalfOpen { .. })
            )
        };
        assert!(
            wait_until(&plane_run, || probed() && runs()).await,
            "leiden is probed with the job"
        );
        fail_node(&plane_run, &world, "delft");
        assert!(
            wait_until(&plane_run, || match breaker_of(&plane_run, "leiden") {
                Some(Breaker::HalfOpen { running, .. }) => running.is_empty(),
                _ => false,
            })
            .await,
            "{:?}",
            breaker_of(&plane_run, "leiden")
        );
    });
    assert!(matches!(end.unwrap(), RunEnd::Done(..)));
}
