//! Components that are restarted alone, on sites that have nothing else to do.

use cospan_domain::job::job_state::{AttemptState, JobPhase};
use cospan_domain::runner::RestartScope;
use cospan_domain::site::site_state::Breaker;
use cospan_domain::units::{DurationMs, Timestamp};

use super::control_plane_run::{ControlPlaneRun, RunEnd, RunPlan, run_control_plane};
use super::probe_tests::{
    BEGINS, SECOND, breaker_of, environment_with_sites, fail_node, site_name, submit, wait_until,
};
use super::world_handle::WorldHandle;

fn undisturbed_plan() -> RunPlan {
    RunPlan::undisturbed(BEGINS, 1)
}

/// Where the payloads of all jobs run, in order of component; empty unless all do.
fn sites_of_payloads(plane_run: &ControlPlaneRun) -> Vec<String> {
    let view = plane_run.plane.view();
    let jobs = view
        .jobs
        .values()
        .filter(|job| matches!(job.phase, JobPhase::Running { .. }));
    let components: Vec<_> = jobs.flat_map(|job| &job.components).collect();
    let runs = components
        .iter()
        .all(|component| matches!(component.run, AttemptState::Running { .. }));
    let placed = components
        .iter()
        .filter(|_| runs)
        .filter_map(|c| c.placement.as_ref());
    placed.map(|placement| placement.site.to_string()).collect()
}

fn break_site(plane_run: &ControlPlaneRun, world: &WorldHandle, site: &str, repair: DurationMs) {
    world.act_at(plane_run.clock.now(), |world| {
        let site = world.index_of(&site_name(site)).unwrap();
        world.kill_site(site, repair);
    });
}

#[test]
fn a_component_goes_to_a_site_that_nobody_has_asked_for_hours() {
    let environment = environment_with_sites(&["delft", "leiden", "utrecht"]);
    let world = environment.world.clone();
    let end = run_control_plane(
        &environment,
        undisturbed_plan(),
        move |plane_run| async move {
            plane_run.sleep_until(BEGINS + SECOND).await;
            submit(&plane_run, &[2, 2], RestartScope::Component).await;
            assert!(
                wait_until(&plane_run, || sites_of_payloads(&plane_run)
                    == ["delft", "leiden"])
                .await,
                "{:?}",
                sites_of_payloads(&plane_run)
            );
            let calm: Timestamp = plane_run.clock.now() + DurationMs::from_secs(1_800);
            plane_run.sleep_until(calm).await;
            break_site(&plane_run, &world, "delft", DurationMs::from_secs(7_200));
            wait_until(&plane_run, || {
                sites_of_payloads(&plane_run) == ["utrecht", "leiden"]
            })
            .await;
            let took = plane_run.clock.now().since(calm);
            assert!(
                took < DurationMs::from_secs(120),
                "{took}, at {:?}",
                sites_of_payloads(&plane_run)
            );
        },
    );
    assert!(matches!(end.unwrap(), RunEnd::Done(..)));
}

#[test]
fn a_site_whose_probe_fails_is_unusable_again() {
    let environment = environment_with_sites(&["delft", "leiden"]);
    let world = environment.world.clone();
    let end = run_control_plane(
        &environment,
        undisturbed_plan(),
        move |plane_run| async move {
            plane_run.sleep_until(BEGINS + SECOND).await;
            submit(&plane_run, &[2, 2], RestartScope::Component).await;
            assert!(
                wait_until(&plane_run, || !sites_of_payloads(&plane_run).is_empty()).await,
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
                wait_until(&plane_run, || probed()
                    && !sites_of_payloads(&plane_run).is_empty())
                .await,
                "it is probed"
            );
            fail_node(&plane_run, &world, "leiden");
            wait_until(&plane_run, || !probed()).await;
            let state = breaker_of(&plane_run, "leiden");
            assert!(matches!(state, Some(Breaker::Open { .. })), "{state:?}");
        },
    );
    assert!(matches!(end.unwrap(), RunEnd::Done(..)));
}
