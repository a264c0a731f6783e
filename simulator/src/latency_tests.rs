//! What sites measure of the ways between them decides where jobs are placed.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_actors::api::command::{ApiCommand, ApiRequest, JobSubmission};
use cospan_domain::ids::{HostName, KeyName, PolicyName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::units::{BitsPerSecond, DurationMs, DurationUs};

use super::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use super::jobs::build_job;
use super::probe_tests::{BEGINS, SECOND, environment_with_links, site_name, wait_until};
use crate::world::LinkSpec;
use crate::world::site_faults::SiteFault;

const SITES: [&str; 3] = ["delft", "leiden", "utrecht"];
const GIGABIT: BitsPerSecond = BitsPerSecond(1_000_000_000);
const MINUTE: DurationMs = DurationMs(60_000);

/// Sites of two processors, each with a host. It is far to delft, and near from leiden to
/// utrecht; but it is said that delft and leiden are nearest.
fn environment_of_three_sites() -> SimEnvironment {
    let pairs = || {
        SITES
            .into_iter()
            .flat_map(|from| SITES.map(|to| (site_name(from), site_name(to))))
    };
    let links = pairs().filter(|(from, to)| from != to).map(|(from, to)| {
        let is_far = from.as_str() == "delft" || to.as_str() == "delft";
        let latency = DurationMs(if is_far { 40 } else { 1 });
        LinkSpec {
            from,
            to,
            bandwidth: GIGABIT,
            latency,
        }
    });
    let links: Vec<LinkSpec> = links.collect();
    let mut environment = environment_with_links(&SITES, &links);
    let settings = &mut environment.settings;
    for link in links {
        let pair = (link.from, link.to);
        let is_said = pair.0.as_str() != "utrecht" && pair.1.as_str() != "utrecht";
        let latency = DurationMs(if is_said { 4 } else { 5 });
        settings.network.latencies.insert(pair.clone(), latency);
        settings.links.insert(pair, link.bandwidth);
    }
    settings.network.hosts = SITES
        .map(|site| (site_name(site), HostName::new(site).unwrap()))
        .into();
    environment
}

/// Submits a job of two components, each of the size of a site, that runs for a minute.
async fn submit_job(plane_run: &ControlPlaneRun) {
    let mut spec = build_job(&[2, 2], MINUTE, MINUTE + MINUTE, 0).unwrap();
    spec.policy = Some(PolicyName::new("connected-cluster-minimization").unwrap());
    let submission = JobSubmission {
        spec: Arc::new(spec),
        idempotency: None,
        allow_unplaceable: false,
        refuse_closed: false,
        asking: Default::default(),
    };
    let by = KeyName::new("alice").unwrap();
    let what = ApiRequest::Submit(vec![submission]);
    plane_run
        .plane
        .execute_command(ApiCommand { by, what })
        .await
        .unwrap();
}

/// Where a job runs that is submitted now. Waits for its end.
async fn sites_of_new_job(plane_run: &ControlPlaneRun) -> BTreeSet<String> {
    submit_job(plane_run).await;
    let latest = || {
        plane_run
            .plane
            .view()
            .jobs
            .values()
            .next_back()
            .cloned()
            .unwrap()
    };
    let runs = |job: &Job| matches!(job.phase, JobPhase::Running { .. });
    assert!(
        wait_until(plane_run, || runs(&latest())).await,
        "{:?}",
        latest().phase
    );
    let at = |job: &Job| {
        let placements = job.components.iter().filter_map(|c| c.placement.as_ref());
        placements
            .map(|placement| placement.site.to_string())
            .collect()
    };
    let sites = at(&latest());
    assert!(
        wait_until(plane_run, || latest().is_final()).await,
        "{:?}",
        latest().phase
    );
    sites
}

fn known_latency(plane_run: &ControlPlaneRun, from: &str, to: &str) -> (Option<DurationUs>, bool) {
    let links = plane_run.plane.links_to(&site_name(to));
    let link = links
        .into_iter()
        .find(|link| link.from == site_name(from))
        .unwrap();
    (link.latency, link.measured_latency.is_some())
}

#[test]
fn a_connected_policy_chooses_the_sites_that_were_found_to_be_near() {
    let environment = environment_of_three_sites();
    let world = environment.world.clone();
    let plan = RunPlan::undisturbed(BEGINS, 1);
    let end = run_control_plane(&environment, plan, move |plane_run| async move {
        plane_run.sleep_until(BEGINS + SECOND).await;
        assert_eq!(
            known_latency(&plane_run, "leiden", "utrecht"),
            (Some(DurationUs(5_000)), false)
        );
        let said = BTreeSet::from(["delft".to_owned(), "leiden".to_owned()]);
        assert_eq!(sites_of_new_job(&plane_run).await, said, "as configured");
        plane_run
            .sleep_until(BEGINS + DurationMs(15 * MINUTE.0))
            .await;
        assert_eq!(
            known_latency(&plane_run, "delft", "leiden"),
            (Some(DurationUs(40_000)), true)
        );
        assert_eq!(
            known_latency(&plane_run, "leiden", "utrecht"),
            (Some(DurationUs(1_000)), true)
        );
        let near = BTreeSet::from(["leiden".to_owned(), "utrecht".to_owned()]);
        assert_eq!(sites_of_new_job(&plane_run).await, near);
        world.act_at(plane_run.clock.now(), |world| {
            for from in SITES {
                let site = world.index_of(&site_name(from)).unwrap();
                for to in SITES.into_iter().filter(|to| *to != from) {
                    let cut = SiteFault::Link {
                        to: site_name(to),
                        bandwidth: BitsPerSecond(0),
                    };
                    world.plan_fault(world.now(), site, cut);
                }
            }
        });
        plane_run
            .sleep_until(plane_run.clock.now() + DurationMs(75 * MINUTE.0))
            .await;
        assert_eq!(
            known_latency(&plane_run, "leiden", "utrecht"),
            (Some(DurationUs(5_000)), false)
        );
        assert_eq!(
            sites_of_new_job(&plane_run).await,
            said,
            "nothing has come back for too long"
        );
    });
    assert!(matches!(end.unwrap(), RunEnd::Done(..)));
}
