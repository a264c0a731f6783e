//! Errors that are all of one user's jobs, with sites in memory.

use std::time::Duration;

use cospan_domain::ids::{Attempt, ComponentIndex, JobId, KeyName};
use cospan_domain::placement::PlacementAcceptance;
use cospan_domain::site::barred_owners_record::{OWN_PROBE_JOB, OWN_PROBE_PATIENCE, OwnerBan};
use cospan_domain::site::failure::FailureClass;
use cospan_domain::site::site_state::{AttemptId, Breaker, SiteNotificationKind, SiteRecord};

use crate::coallocator::GridSnapshotMaker;
use crate::site::{AskAdmission, ErrorCharge};
use crate::transfer::testing::{MemoryWorld, paused, site};

fn key(name: &str) -> KeyName {
    KeyName::new(name).expect("a name")
}

fn attempt(job: u64) -> AttemptId {
    AttemptId {
        job: JobId(job),
        component: ComponentIndex(0),
        attempt: Attempt(1),
    }
}

/// As many errors at Leiden as make it unusable, all of mallory's jobs.
async fn accuse(world: &MemoryWorld) {
    let cluster = world
        .shared
        .actors
        .clusters
        .addr(&site("Leiden"))
        .expect("an actor");
    for job in 1..=world.shared.settings.site.site_error_threshold {
        let attempt = attempt(job.into());
        let owner = key("mallory");
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

fn record(world: &MemoryWorld) -> SiteRecord {
    SiteRecord::clone(&world.shared.view.load().sites[&site("Leiden")])
}

async fn is_admitted(world: &MemoryWorld, owner: &str) -> bool {
    let cluster = world
        .shared
        .actors
        .clusters
        .addr(&site("Leiden"))
        .expect("an actor");
    let ask = AskAdmission {
        attempt: attempt(50),
        owner: key(owner),
        may_probe: true,
    };
    cluster.send(ask).await.expect("alive").is_ok()
}

#[test]
fn a_site_that_runs_our_own_probe_stays_open_to_all_but_the_one_whose_jobs_erred() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.at("Leiden").inside().runs = true;
        accuse(&world).await;
        assert!(
            !is_admitted(&world, "mallory").await,
            "the probe is on its way"
        );
        assert!(is_admitted(&world, "alice").await);
        world
            .until("the probe is back", |world| {
                record(world).own_probe.is_none()
            })
            .await;
        let now = world.shared.clock.now();
        let known = record(&world);
        assert_eq!(
            (&known.breaker, known.consecutive_errors),
            (&Breaker::Closed, 0)
        );
        assert!(matches!(
            known.bar_reason_for(&key("mallory"), now),
            Some(OwnerBan::KeptOff { .. })
        ));
        assert_eq!(known.bar_reason_for(&key("alice"), now), None);
        let opened = world.at("Leiden").inside().opened.clone();
        assert_eq!(
            opened.iter().map(|tag| tag.job).collect::<Vec<_>>(),
            [OWN_PROBE_JOB]
        );
        let grid = GridSnapshotMaker::default().snapshot(&world.shared);
        let seen = grid.site(&site("Leiden")).expect("a site");
        assert_eq!(seen.acceptance, PlacementAcceptance::Open);
        assert!(seen.owner_bar(Some(&key("mallory"))).is_some());
        assert!(world.shared.live.is_barred_owner(&key("mallory")));
        assert_eq!(told(&world, "succeeded"), 1);
        let is_suspect = |world: &MemoryWorld| world.shared.live.is_barred_owner(&key("mallory"));
        world
            .until("nobody is suspect any more", |world| !is_suspect(world))
            .await;
        assert_eq!(
            record(&world).bar_reason_for(&key("mallory"), world.shared.clock.now()),
            None
        );
    });
}

#[test]
fn a_site_that_does_not_run_our_own_probe_either_is_unusable() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        accuse(&world).await;
        world
            .until("it takes nothing", |world: &MemoryWorld| {
                matches!(record(world).breaker, Breaker::Open { .. })
            })
            .await;
        let known = record(&world);
        assert_eq!(known.last_notification.0, 1);
        let told = known
            .owed
            .back()
            .map(|message| (message.kind, message.details.last().cloned()));
        if let Some((kind, why)) = told {
            assert_eq!(kind, SiteNotificationKind::Unusable);
            let why = why.expect("what led to it");
            assert!(
                why.ends_with("a probe of our own failed too: it keeps files only"),
                "{why}"
            );
        }
        assert_eq!(known.own_probe, None);
    });
}

#[test]
fn a_probe_waits_for_a_site_that_does_not_answer() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.at("Leiden").inside().runs = true;
        world.at("Leiden").inside().hanging = true;
        world.shared.live.set_placement_awaited(true);
        world.shared.actors.clusters.request_look_of_all();
        let contact = |w: &MemoryWorld| {
            w.shared
                .live
                .site_report(&site("Leiden"))
                .expect("a report")
                .contact
        };
        world
            .until("it does not answer", |world| !contact(world).is_answering())
            .await;
        accuse(&world).await;
        assert!(record(&world).own_probe.is_some());
        assert_eq!(
            record(&world).breaker,
            Breaker::Closed,
            "unknown is not failed"
        );
        tokio::time::sleep(Duration::from_millis(2 * OWN_PROBE_PATIENCE.0)).await;
        assert!(
            record(&world).own_probe.is_some(),
            "it could not even be sent"
        );
        world.at("Leiden").inside().hanging = false;
        world
            .until("the probe is back", |world| {
                record(world).own_probe.is_none()
            })
            .await;
        assert_eq!(record(&world).breaker, Breaker::Closed);
        assert_eq!(told(&world, "succeeded"), 1);
    });
}

fn told(world: &MemoryWorld, how: &str) -> u64 {
    world
        .shared
        .metrics
        .own_probes
        .with_label_values(&[how])
        .get()
}

#[test]
fn a_probe_that_was_not_sent_is_sent_again() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.at("Leiden").inside().runs = true;
        world.at("Leiden").inside().unsent = 2;
        accuse(&world).await;
        world
            .until("the probe is back", |world| {
                record(world).own_probe.is_none()
            })
            .await;
        assert_eq!(
            (record(&world).breaker, told(&world, "succeeded")),
            (Breaker::Closed, 1)
        );
    });
}

#[test]
fn a_probe_that_fails_when_its_site_does_not_answer_tells_nothing() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.at("Leiden").inside().submit_time = Duration::from_secs(1_000);
        accuse(&world).await;
        world.at("Leiden").inside().hanging = true;
        world.shared.live.set_placement_awaited(true);
        world.shared.actors.clusters.request_look_of_all();
        let contact = |w: &MemoryWorld| {
            w.shared
                .live
                .site_report(&site("Leiden"))
                .expect("a report")
                .contact
        };
        world
            .until("it does not answer", |world| !contact(world).is_answering())
            .await;
        assert!(record(&world).own_probe.is_some(), "it is being submitted");
        world
            .until("it is refused", |world| record(world).own_probe.is_none())
            .await;
        assert_eq!(
            (record(&world).breaker, told(&world, "inconclusive")),
            (Breaker::Closed, 1)
        );
    });
}

#[test]
fn what_a_probe_that_is_given_up_has_told_by_then_counts() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.at("Leiden").inside().runs = true;
        world.at("Leiden").inside().submit_time = Duration::from_millis(OWN_PROBE_PATIENCE.0);
        accuse(&world).await;
        world
            .until("the probe is back", |world| {
                record(world).own_probe.is_none()
            })
            .await;
        assert_eq!(
            (record(&world).breaker, told(&world, "succeeded")),
            (Breaker::Closed, 1)
        );
    });
}
