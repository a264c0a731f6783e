//! What could be got at a site, as its attempts tell, with sites in memory.

use std::sync::Arc;

use cospan_domain::acquisition::{PartitionAccount, PartitionDemand, PartitionOptionPrefixes};
use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, JobId, LrmId};
use cospan_domain::job::job_state::{AttemptState, Component, Job, JobPhase};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::placement::GridSite;
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::{AttemptAtGate, AttemptObservation, QueuedAttempt};

use crate::grid_snapshot::GridSnapshotMaker;
use crate::transfer::testing::{MemoryWorld, content, run_paused, site};

const WORDS: PartitionOptionPrefixes = PartitionOptionPrefixes {
    partition: &["-p"],
    account: &["-A"],
    reservation: &[],
};

fn short_partition() -> PartitionAccount {
    PartitionAccount {
        partition: Some("short".into()),
        account: None,
    }
}

/// Delft has partitions, and a claim two minutes to start.
async fn partitioned_world() -> MemoryWorld {
    let world = MemoryWorld::with_settings(&["Delft"], |settings| {
        settings.default_policies.lanes = Some(WORDS);
        settings.job.claim_timeout = DurationMs::from_secs(120);
    });
    world.fake_site("Delft").lock_state().processors = 100;
    world.fake_site("Delft").lock_state().lane = Some(short_partition());
    world.settle().await;
    world.add_file("input", content(1), &["Delft"]).await;
    world
}

/// A job of so many processors for half an hour whose only attempt was just submitted.
async fn submit_job_of(world: &MemoryWorld, processors: u32) -> AttemptTag {
    world.place_job(1, content(1), "Delft").await;
    let now = world.shared.clock.now();
    let mut job = Job::clone(&world.shared.view.load().jobs[&JobId(1)]);
    let mut spec = JobSpec::clone(&job.spec);
    spec.components[0].resources = Resources::processors(processors);
    spec.wall_time = DurationMs::from_secs(1_800);
    job.spec = Arc::new(spec);
    job.phase = JobPhase::Claiming { since: now };
    job.components = vec![Component {
        attempt: Attempt(1),
        run: AttemptState::Submitted {
            lrm_id: LrmId::new("7").unwrap(),
            at: now,
            absences: 0,
            waits: None,
        },
        ..job.components.remove(0)
    }];
    let instance = world.shared.instance;
    let tag = AttemptTag {
        instance,
        job: JobId(1),
        component: ComponentIndex(0),
        attempt: Attempt(1),
    };
    world.change_job(1, job).await;
    tag
}

fn set_observation(world: &MemoryWorld, tag: AttemptTag, observation: AttemptObservation) {
    world
        .fake_site("Delft")
        .lock_state()
        .attempts
        .insert(tag, observation);
}

fn waiting_observation(why: &str) -> AttemptObservation {
    AttemptObservation::Queued(QueuedAttempt {
        expected: None,
        behind: Some(why.into()),
    })
}

fn delft_in_grid(world: &MemoryWorld) -> GridSite {
    GridSnapshotMaker::default()
        .snapshot(&world.shared)
        .site(&site("Delft"))
        .unwrap()
        .clone()
}

fn largest_known_start(world: &MemoryWorld) -> Option<u32> {
    let report = world.shared.live.site_report(&site("Delft"))?;
    report
        .obtainable
        .list_experience()
        .find_map(|(_, known)| Some(known.got?.ask.processors))
}

/// Something large waits for Priority for so long that it is known, and since when.
async fn learn_long_wait(world: &MemoryWorld) -> (AttemptTag, Timestamp) {
    let tag = submit_job_of(world, 64).await;
    let asked_at = world.shared.clock.now();
    set_observation(world, tag, waiting_observation("Priority"));
    world
        .wait_until("it is known to wait", |world| {
            delft_in_grid(world).waits.is_some()
        })
        .await;
    (tag, asked_at)
}

#[test]
fn what_waits_for_a_minute_keeps_as_much_from_being_claimed_for_ten() {
    run_paused(|| async {
        let world = partitioned_world().await;
        let (tag, asked_at) = learn_long_wait(&world).await;
        let after = world.shared.clock.now().since(asked_at).0;
        assert!(
            (60_000..=66_000).contains(&after),
            "{after} ms after it was asked"
        );
        let waits = delft_in_grid(&world).waits.expect("a wait");
        let half_an_hour = DurationMs::from_secs(1_800);
        let wait = waits
            .blocking_wait(&short_partition(), &PartitionDemand::new(64, half_an_hour))
            .expect("kept back");
        assert_eq!(
            (&*wait.why, wait.asked_at.since(asked_at)),
            ("Priority", DurationMs(0))
        );
        assert_eq!(
            waits.blocking_wait(&short_partition(), &PartitionDemand::new(63, half_an_hour)),
            None,
            "smaller"
        );
        // Nobody needs to ask the site any more, and what is placed there is looked at again.
        set_observation(&world, tag, AttemptObservation::Absent);
        world.finish_job(1).await;
        let given_up = world.shared.clock.now();
        let changes = world.shared.live.placement_change_count();
        world
            .wait_until("it counts no more", |world| {
                delft_in_grid(world).waits.is_none()
            })
            .await;
        let after = world.shared.clock.now().since(given_up).0;
        assert!(
            (590_000..601_000).contains(&after),
            "{after} ms after it was given up"
        );
        assert!(
            world.shared.live.placement_change_count() > changes,
            "whoever waits for a place is told"
        );
    });
}

#[test]
fn what_waits_for_processors_alone_or_for_seconds_keeps_nothing_back() {
    run_paused(|| async {
        let world = partitioned_world().await;
        let tag = submit_job_of(&world, 64).await;
        set_observation(&world, tag, waiting_observation("Priority"));
        tokio::time::sleep(std::time::Duration::from_secs(50)).await;
        set_observation(
            &world,
            tag,
            AttemptObservation::Queued(QueuedAttempt::default()),
        );
        tokio::time::sleep(std::time::Duration::from_secs(300)).await;
        assert_eq!(delft_in_grid(&world).waits, None);
        assert_eq!(largest_known_start(&world), None);
    });
}

#[test]
fn the_largest_that_started_at_once_is_remembered() {
    run_paused(|| async {
        let world = partitioned_world().await;
        let tag = submit_job_of(&world, 8).await;
        let held_at = world.shared.clock.now() + DurationMs::from_secs(20);
        let at_gate = AttemptAtGate {
            host: "n1".into(),
            since: held_at,
            held_at,
        };
        set_observation(&world, tag, AttemptObservation::Ready(at_gate));
        world
            .wait_until("its start is seen", |world| {
                largest_known_start(world) == Some(8)
            })
            .await;
        assert_eq!(delft_in_grid(&world).waits, None);
    });
}

#[test]
fn what_started_after_a_wait_may_be_asked_for_again_soon() {
    run_paused(|| async {
        let world = partitioned_world().await;
        let (tag, asked_at) = learn_long_wait(&world).await;
        let held_at = asked_at + DurationMs::from_secs(90);
        set_observation(
            &world,
            tag,
            AttemptObservation::Ready(AttemptAtGate {
                host: "n1".into(),
                since: held_at,
                held_at,
            }),
        );
        world
            .wait_until("it counts no more", |world| {
                delft_in_grid(world).waits.is_none()
            })
            .await;
        let after = world.shared.clock.now().since(asked_at).0;
        assert!(
            (180_000..190_000).contains(&after),
            "{after} ms after it was asked"
        );
    });
}

#[test]
fn what_was_got_an_hour_ago_is_forgotten() {
    run_paused(|| async {
        let world = partitioned_world().await;
        let tag = submit_job_of(&world, 8).await;
        let held_at = world.shared.clock.now() + DurationMs::from_secs(20);
        set_observation(
            &world,
            tag,
            AttemptObservation::Ready(AttemptAtGate {
                host: "n1".into(),
                since: held_at,
                held_at,
            }),
        );
        world
            .wait_until("its start is seen", |world| {
                largest_known_start(world) == Some(8)
            })
            .await;
        set_observation(&world, tag, AttemptObservation::Absent);
        world.finish_job(1).await;
        world
            .wait_until("it is forgotten", |world| {
                largest_known_start(world).is_none()
            })
            .await;
        assert!(world.shared.clock.now().since(held_at) >= DurationMs::from_secs(3_600));
    });
}
