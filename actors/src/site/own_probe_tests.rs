//! Errors that are all of one user's jobs, with sites in memory.

use std::time::Duration;

use cospan_domain::ids::{Attempt, ComponentIndex, JobId, KeyName};
use cospan_domain::placement::PlacementAcceptance;
use cospan_domain::site::barred_owners_record::{OWN_PROBE_JOB, OWN_PROBE_PATIENCE, OwnerBan};
use cospan_domain::site::failure::FailureClass;
use cospan_domain::site::site_state::{AttemptId, Breaker, SiteNotificationKind, SiteRecord};

use crate::grid_snapshot::GridSnapshotMaker;
use crate::site::{AskAdmission, ClusterActor, ErrorCharge};
use crate::supervision::ActorKind;
use crate::transfer::testing::{MemoryWorld, run_paused, site};

fn key_name(name: &str) -> KeyName {
    KeyName::new(name).expect("a name")
}

fn attempt_of_job(job: u64) -> AttemptId {
    AttemptId {
        job: JobId(job),
        component: ComponentIndex(0),
        attempt: Attempt(1),
    }
}

/// As many errors at Leiden as make it unusable, all of mallory's jobs.
async fn charge_until_unusable(world: &MemoryWorld) {
    let cluster = world
        .shared
        .actors
        .addr::<ClusterActor>(&site("Leiden"))
        .expect("an actor");
    for job in 1..=world.shared.settings.site.site_error_threshold {
        let attempt = attempt_of_job(job.into());
        let owner = key_name("mallory");
        let class = FailureClass::Site;
        let detail = "lost".into();
        let charge = ErrorCharge {
            attempt,
            owner,
            class,
            detail,
        };
        cluster.send(charge).await.expect("alive").expect("taken");
    }
}

fn leiden_record(world: &MemoryWorld) -> SiteRecord {
    SiteRecord::clone(&world.shared.view.load().sites[&site("Leiden")])
}

async fn is_admitted(world: &MemoryWorld, owner: &str) -> bool {
    let cluster = world
        .shared
        .actors
        .addr::<ClusterActor>(&site("Leiden"))
        .expect("an actor");
    let ask = AskAdmission {
        attempt: attempt_of_job(50),
        owner: key_name(owner),
        may_probe: true,
    };
    cluster.send(ask).await.expect("alive").is_ok()
}

#[test]
fn a_site_that_runs_our_own_probe_stays_open_to_all_but_the_one_whose_jobs_erred() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.fake_site("Leiden").lock_state().runs = true;
        charge_until_unusable(&world).await;
        assert!(
            !is_admitted(&world, "mallory").await,
            "the probe is on its way"
        );
        assert!(is_admitted(&world, "alice").await);
        world
            .wait_until("the probe is back", |world| {
                leiden_record(world).own_probe.is_none()
            })
            .await;
        let now = world.shared.clock.now();
        let known = leiden_record(&world);
        assert_eq!(
            (&known.breaker, known.consecutive_errors),
            (&Breaker::Closed, 0)
        );
        assert!(matches!(
            known.bar_reason_for(&key_name("mallory"), now),
            Some(OwnerBan::KeptOff { .. })
        ));
        assert_eq!(known.bar_reason_for(&key_name("alice"), now), None);
        let opened = world.fake_site("Leiden").lock_state().opened.clone();
        assert_eq!(
            opened.iter().map(|tag| tag.job).collect::<Vec<_>>(),
            [OWN_PROBE_JOB]
        );
        let grid = GridSnapshotMaker::default().snapshot(&world.shared);
        let seen = grid.site(&site("Leiden")).expect("a site");
        assert_eq!(seen.acceptance, PlacementAcceptance::Open);
        assert!(seen.ban_of_owner(Some(&key_name("mallory"))).is_some());
        assert!(world.shared.live.is_barred_owner(&key_name("mallory")));
        assert_eq!(count_own_probes(&world, "succeeded"), 1);
        let is_suspect =
            |world: &MemoryWorld| world.shared.live.is_barred_owner(&key_name("mallory"));
        world
            .wait_until("nobody is suspect any more", |world| !is_suspect(world))
            .await;
        assert_eq!(
            leiden_record(&world).bar_reason_for(&key_name("mallory"), world.shared.clock.now()),
            None
        );
    });
}

#[test]
fn a_site_that_does_not_run_our_own_probe_either_is_unusable() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        charge_until_unusable(&world).await;
        world
            .wait_until("it takes nothing", |world: &MemoryWorld| {
                matches!(leiden_record(world).breaker, Breaker::Open { .. })
            })
            .await;
        let known = leiden_record(&world);
        assert_eq!(known.last_notification.0, 1);
        let told = known
            .owed
            .back()
            .map(|message| (message.kind, message.details.last().cloned()));
        if let Some((kind, why)) = told {
            assert_eq!(kind, SiteNotificationKind::Unusable);
            let why = why.expect("what led to it");
            assert!(
                why.ends_with("our own probe failed too: it keeps files only"),
                "{why}"
            );
        }
        assert_eq!(known.own_probe, None);
    });
}

#[test]
fn a_probe_waits_for_a_site_that_does_not_answer() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.fake_site("Leiden").lock_state().runs = true;
        world.fake_site("Leiden").lock_state().hanging = true;
        world.shared.live.set_placement_awaited(true);
        world.shared.actors.request_look_of_all(ActorKind::Cluster);
        let contact = |w: &MemoryWorld| {
            w.shared
                .live
                .site_report(&site("Leiden"))
                .expect("a report")
                .contact
        };
        world
            .wait_until("it does not answer", |world| !contact(world).is_answering())
            .await;
        charge_until_unusable(&world).await;
        assert!(leiden_record(&world).own_probe.is_some());
        assert_eq!(
            leiden_record(&world).breaker,
            Breaker::Closed,
            "unknown is not failed"
        );
        tokio::time::sleep(Duration::from_millis(2 * OWN_PROBE_PATIENCE.0)).await;
        assert!(
            leiden_record(&world).own_probe.is_some(),
            "it could not even be sent"
        );
        world.fake_site("Leiden").lock_state().hanging = false;
        world
            .wait_until("the probe is back", |world| {
                leiden_record(world).own_probe.is_none()
            })
            .await;
        assert_eq!(leiden_record(&world).breaker, Breaker::Closed);
        assert_eq!(count_own_probes(&world, "succeeded"), 1);
    });
}

fn count_own_probes(world: &MemoryWorld, how: &str) -> u64 {
    world
        .shared
        .metrics
        .own_probes
        .with_label_values(&[how])
        .get()
}

#[test]
fn a_probe_that_was_not_sent_is_sent_again() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.fake_site("Leiden").lock_state().runs = true;
        world.fake_site("Leiden").lock_state().unsent = 2;
        charge_until_unusable(&world).await;
        world
            .wait_until("the probe is back", |world| {
                leiden_record(world).own_probe.is_none()
            })
            .await;
        assert_eq!(
            (
                leiden_record(&world).breaker,
                count_own_probes(&world, "succeeded")
            ),
            (Breaker::Closed, 1)
        );
    });
}

#[test]
fn a_probe_that_fails_when_its_site_does_not_answer_tells_nothing() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.fake_site("Leiden").lock_state().submit_time = Duration::from_secs(1_000);
        charge_until_unusable(&world).await;
        world.fake_site("Leiden").lock_state().hanging = true;
        world.shared.live.set_placement_awaited(true);
        world.shared.actors.request_look_of_all(ActorKind::Cluster);
        let contact = |w: &MemoryWorld| {
            w.shared
                .live
                .site_report(&site("Leiden"))
                .expect("a report")
                .contact
        };
        world
            .wait_until("it does not answer", |world| !contact(world).is_answering())
            .await;
        assert!(
            leiden_record(&world).own_probe.is_some(),
            "it is being submitted"
        );
        world
            .wait_until("it is refused", |world| {
                leiden_record(world).own_probe.is_none()
            })
            .await;
        assert_eq!(
            (
                leiden_record(&world).breaker,
                count_own_probes(&world, "inconclusive")
            ),
            (Breaker::Closed, 1)
        );
    });
}

#[test]
fn what_a_probe_that_is_given_up_has_told_by_then_counts() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.fake_site("Leiden").lock_state().runs = true;
        world.fake_site("Leiden").lock_state().submit_time =
            Duration::from_millis(OWN_PROBE_PATIENCE.0);
        charge_until_unusable(&world).await;
        world
            .wait_until("the probe is back", |world| {
                leiden_record(world).own_probe.is_none()
            })
            .await;
        assert_eq!(
            (
                leiden_record(&world).breaker,
                count_own_probes(&world, "succeeded")
            ),
            (Breaker::Closed, 1)
        );
    });
}
