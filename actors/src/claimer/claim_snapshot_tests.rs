//! Components that are placed anew while they are claimed.

use std::sync::Arc;

use cospan_domain::acquisition::{Partition, PartitionAccount, SitePartitions};
use cospan_domain::claim::ClaimPlace;
use cospan_domain::deduction::DeductedAmounts;
use cospan_domain::ids::{Attempt, ComponentName, LrmId};
use cospan_domain::job::job_state::{AttemptState, Component};
use cospan_domain::job::spec::{JobSpec, OverrideScope, ProgramOverride};
use cospan_domain::labels::SiteLabels;
use cospan_domain::site::contact::SiteContact;
use cospan_domain::units::{Bytes, DurationMs};
use cospan_sites::port::{SiteCapabilities, SiteDescription};
use cospan_sites::slurm_site::LANES;

use super::*;
use crate::actor_settings::StagingLimits;
use crate::committed::JournalChange;
use crate::live_state::LatestSiteReport;
use crate::transfer::testing::{MemoryWorld, content, queued_job, run_paused, site};

/// Says on the live state that a site has so many processors idle of ten.
fn report_idle(world: &MemoryWorld, name: &str, idle: u32) {
    let now = world.shared.clock.now();
    let mut report = LatestSiteReport {
        contact: SiteContact::Answering { last_at: now },
        idle: Some((now, Resources::processors(idle))),
        ..LatestSiteReport::default()
    };
    report.set_description(SiteDescription {
        total: Resources::processors(10),
        largest_component: Resources::processors(10),
        labels: SiteLabels::default(),
        capabilities: SiteCapabilities::default(),
        lanes: None,
        manager: "none".into(),
    });
    world
        .shared
        .live
        .publish_report(site(name), Arc::new(report));
}

/// A job at Delft whose two components read one file, or one each.
fn job_of_two_at_delft(reading: [Content; 2]) -> Job {
    let mut job = queued_job(1, reading[0]);
    let mut spec = JobSpec::clone(&job.spec);
    spec.components[0].resources = Resources::processors(1);
    let mut other = spec.components[0].clone();
    other.name = ComponentName::new("other").expect("a name");
    other.inputs[0].file.bound = Some(reading[1]);
    spec.components.push(other);
    job.spec = Arc::new(spec);
    let placed = Placement {
        site: site("Delft"),
        sources: Vec::new(),
        transfer_time: DurationMs::ZERO,
        share: None,
        acquisition: Default::default(),
    };
    let component = Component {
        placement: Some(placed),
        ..Component::default()
    };
    job.components = vec![component.clone(), component];
    let now = Timestamp(1);
    job.phase = JobPhase::Placed {
        at: now,
        start_estimate: now,
    };
    job
}

#[test]
fn components_that_move_together_take_room_once_for_a_file_that_both_read() {
    run_paused(async || {
        let budget = Some(Bytes(content(1).size.0 * 3 / 2));
        let staging = StagingLimits {
            budget,
            replicas: Bytes(0),
        };
        let world = MemoryWorld::with_staging_limits(&["Delft", "Leiden"], "Leiden", staging);
        world.add_file("input", content(1), &["Delft"]).await;
        world.add_file("another", content(2), &["Delft"]).await;
        world.settle().await;
        report_idle(&world, "Delft", 0);
        report_idle(&world, "Leiden", 10);
        for (reading, both) in [
            ([content(1), content(1)], true),
            ([content(1), content(2)], false),
        ] {
            let job = job_of_two_at_delft(reading);
            let mut grid = GridSnapshotMaker::default();
            let mut field = ClaimPass::new(&world.shared, &mut grid);
            let mut moves = |index| field.replace(&job, ComponentIndex(index)).map(|to| to.site);
            assert_eq!(moves(0), Some(site("Leiden")));
            assert_eq!(moves(1), both.then(|| site("Leiden")), "{reading:?}");
        }
    });
}

#[test]
fn a_claim_finds_idle_what_is_offered_and_not_what_others_claim() {
    run_paused(async || {
        let world = MemoryWorld::new(&["Delft"]);
        world.settle().await;
        report_idle(&world, "Delft", 10);
        let life = world.deduction_holder();
        let now = world.shared.clock.now();
        let delft = |deducted| [(site("Delft"), deducted)].into_iter();
        life.deduct_for_job(
            JobId(1),
            now,
            delft(DeductedAmounts::for_proposal(Resources::processors(4))),
        );
        life.deduct_for_job(
            JobId(2),
            now,
            delft(DeductedAmounts::for_claim(Resources::processors(3))),
        );
        let mut grid = GridSnapshotMaker::default();
        let place = ClaimPlace::site_default(site("Delft"));
        let idle =
            |grid: &mut GridSnapshotMaker| ClaimPass::new(&world.shared, grid).idle_at(&place);
        assert_eq!(idle(&mut grid), Some(Resources::processors(7)));
        drop(life);
        assert_eq!(idle(&mut grid), Some(Resources::processors(10)));
    });
}

/// A job that was submitted to this partition of Delft.
fn job_submitted_to(id: u64, partition: Option<&str>) -> Job {
    let mut job = Job {
        id: JobId(id),
        ..job_of_two_at_delft([content(1), content(1)])
    };
    let options = partition.map(|name| format!("--partition={name}").into());
    let change = ProgramOverride {
        lrm_options: options.into_iter().collect(),
        ..ProgramOverride::default()
    };
    let mut spec = JobSpec::clone(&job.spec);
    spec.components.iter_mut().for_each(|component| {
        component.at = [(OverrideScope::Site(site("Delft")), change.clone())].into();
        component.inputs.clear();
    });
    job.spec = Arc::new(spec);
    job.phase = JobPhase::Claiming {
        since: Timestamp(1),
    };
    let lrm_id = LrmId::new("7").expect("a number");
    let at = Timestamp(1);
    let run = AttemptState::Submitted {
        lrm_id,
        at,
        absences: 0,
        waits: None,
    };
    for component in &mut job.components {
        component.attempt = Attempt(1);
        component.run = run.clone();
    }
    job
}

/// Two processors, of a job that was submitted so long from now by our clock, in what a claim and a
/// placement find idle of the ten that Delft says it has.
async fn idle_beside_one_submitted_in(length: DurationMs) -> (u32, u32) {
    let world = MemoryWorld::new(&["Delft"]);
    world.settle().await;
    let submitted_at = world.shared.clock.now() + length;
    let mut job = job_submitted_to(1, None);
    for component in &mut job.components {
        if let AttemptState::Submitted { at, .. } = &mut component.run {
            *at = submitted_at;
        }
    }
    report_idle(&world, "Delft", 10);
    world
        .append(JournalChange::NewJobs(vec![Arc::new(job)]))
        .await;
    let mut grid = GridSnapshotMaker::default();
    let place = ClaimPlace::site_default(site("Delft"));
    let claimable = ClaimPass::new(&world.shared, &mut grid).idle_at(&place);
    let usable = grid.snapshot(&world.shared).usable_by_site()[0].processors;
    (claimable.expect("Delft has said so").processors, usable)
}

#[test]
fn what_was_submitted_before_the_clock_was_set_back_is_not_counted_twice() {
    run_paused(async || {
        let hour = DurationMs::from_secs(3_600);
        assert_eq!(idle_beside_one_submitted_in(hour).await, (10, 10));
        let after_the_report = DurationMs(1);
        assert_eq!(
            idle_beside_one_submitted_in(after_the_report).await,
            (8, 8),
            "Delft has not counted it yet"
        );
    });
}

#[test]
fn only_who_holds_processors_of_a_partition_gives_way_in_it() {
    run_paused(async || {
        let world = MemoryWorld::with_settings(&["Delft"], |settings| {
            settings.default_policies.lanes = Some(LANES);
        });
        world.settle().await;
        report_idle(&world, "Delft", 0);
        let mut report = world
            .shared
            .live
            .site_report(&site("Delft"))
            .expect("a report")
            .as_ref()
            .clone();
        let lane = |name: &str| PartitionAccount {
            partition: Some(name.into()),
            account: None,
        };
        let mut shape = report.shape.as_deref().expect("a shape").clone();
        let partition = |name: &str| (name.into(), Partition::default());
        let partitions = ["normal", "gpu"].map(partition).into();
        shape.lanes = Some(SitePartitions {
            own: lane("normal"),
            partitions,
            ..SitePartitions::default()
        });
        report.shape = Some(Arc::new(shape));
        world
            .shared
            .live
            .publish_report(site("Delft"), Arc::new(report));
        for (id, partition) in [(2, Some("gpu")), (3, None), (4, Some("normal"))] {
            let job = job_submitted_to(id, partition);
            let queued = Job {
                id: JobId(id),
                ..queued_job(id, content(1))
            };
            world
                .append(JournalChange::NewJobs(vec![Arc::new(queued)]))
                .await;
            world.change_job(id, job).await;
        }
        let mut grid = GridSnapshotMaker::default();
        let field = ClaimPass::new(&world.shared, &mut grid);
        let victims = |place: &ClaimPlace| -> Vec<(u64, u32)> {
            let all = field.victims_at(place).into_iter();
            all.map(|victim| (victim.job.0, victim.resources.processors))
                .collect()
        };
        let own = ClaimPlace::site_default(site("Delft"));
        assert_eq!(victims(&own), [(3, 2), (4, 2)]);
        assert_eq!(
            victims(&ClaimPlace {
                partition: Some("gpu".into()),
                ..own
            }),
            [(2, 2)]
        );
    });
}
