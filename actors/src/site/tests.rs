//! How sites are asked, with sites in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, JobId, KeyName, ReservationName};
use cospan_domain::job::job_state::Job;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::placement::{GridSnapshot, PlacementAcceptance, PlacementHindrance};
use cospan_domain::reservation::StartWindow;
use cospan_domain::resources::Resources;
use cospan_domain::site::contact::SiteContact;
use cospan_domain::site::failure::FailureClass;
use cospan_domain::site::shared_reservation::SharedReservationTerms;
use cospan_domain::site::site_command::{OperatorCommand, SiteRejection};
use cospan_domain::site::site_state::AttemptId;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::DurationMs;
use cospan_sites::port::{AttemptObservation, InspectedFile, Site, SiteCallKind, SiteError};
use futures_util::future::{BoxFuture, join_all};

use crate::grid_snapshot::GridSnapshotMaker;
use crate::site::{
    ClusterActor, ErrorCharge, InspectionState, SiteCallMessage, SiteCommandMessage, inspect_file,
};
use crate::supervision::ActorKind;
use crate::transfer::testing::{MemoryWorld, content, key, path, run_paused, site};

fn grid_snapshot(world: &MemoryWorld) -> std::sync::Arc<GridSnapshot> {
    GridSnapshotMaker::default().snapshot(&world.shared)
}

fn contact_of(world: &MemoryWorld, name: &str) -> SiteContact {
    world
        .shared
        .live
        .site_report(&site(name))
        .expect("a report")
        .contact
}

fn last_asked_at(world: &MemoryWorld, name: &str) -> u64 {
    let report = world
        .shared
        .live
        .site_report(&site(name))
        .expect("a report");
    report
        .idle
        .as_ref()
        .map(|(asked_at, _)| asked_at.0)
        .expect("it answered")
}

#[test]
fn a_site_that_never_answers_is_unreachable_and_holds_up_no_other() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        world.settle().await;
        world.shared.live.set_placement_awaited(true);
        world.shared.actors.request_look_of_all(ActorKind::Cluster);
        world.fake_site("Leiden").lock_state().hanging = true;
        let began = world.shared.clock.now();
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let grid = grid_snapshot(&world);
            let now = world.shared.clock.now();
            for name in ["Delft", "Utrecht"] {
                let seen = grid.site(&site(name)).expect("a site");
                assert_eq!(seen.acceptance, PlacementAcceptance::Open, "{name}");
                let age = seen.report_age(now).expect("it answered").0;
                assert!(age <= 6_000, "{name} was asked {age} ms ago");
            }
        }
        let unreachable = PlacementAcceptance::Closed(PlacementHindrance::Unreachable);
        let seen = grid_snapshot(&world)
            .site(&site("Leiden"))
            .expect("a site")
            .acceptance;
        assert_eq!(seen, unreachable, "since {began:?}");
        world.fake_site("Leiden").lock_state().hanging = false;
        world
            .wait_until("it answers again", |w| {
                contact_of(w, "Leiden").is_answering()
            })
            .await;
    });
}

#[test]
fn a_reservation_that_two_sites_are_asked_for_at_once_is_only_at_one() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        let now = world.shared.clock.now();
        let terms = SharedReservationTerms {
            name: ReservationName::new("course").expect("a name"),
            allowed: [].into(),
            resources: Resources::processors(4),
            window: StartWindow::single_start(now + DurationMs::from_secs(3_600)),
            lead: DurationMs::ZERO,
            length: DurationMs::from_secs(3_600),
            margin: DurationMs::ZERO,
            parts: [].into(),
            tolerance: DurationMs::ZERO,
        };
        let requests = ["Delft", "Leiden"].map(|name| {
            let cluster = world.shared.actors.addr::<ClusterActor>(&site(name));
            cluster.expect("an actor").send(SiteCommandMessage {
                by: key(),
                what: OperatorCommand::Reserve(Box::new(terms.clone())),
            })
        });
        let answers = join_all(requests)
            .await
            .into_iter()
            .map(|it| it.expect("alive"));
        let answers: Vec<_> = answers.collect();
        assert_eq!(answers, [Ok(()), Err(SiteRejection::Undecided)]);
        let view = world.shared.view.load();
        let counts = ["Delft", "Leiden"].map(|name| {
            let record = view.sites.get(&site(name));
            record.map_or(0, |record| record.shared.len())
        });
        assert_eq!(counts, [1, 0]);
    });
}

/// How long a site that hangs for one query is without an answer.
async fn pause_after_hang(world: &MemoryWorld, name: &str) -> u64 {
    let last = last_asked_at(world, name);
    world.fake_site(name).lock_state().hanging = true;
    world.shared.live.set_placement_awaited(true);
    world.shared.actors.request_look_of_all(ActorKind::Cluster);
    world
        .wait_until("it hangs", |world| {
            world.fake_site(name).lock_state().hung > 0
        })
        .await;
    world.fake_site(name).lock_state().hanging = false;
    let hung_at = world.shared.clock.now();
    world
        .wait_until("it is asked again", |world| {
            last_asked_at(world, name) > last
        })
        .await;
    last_asked_at(world, name) - hung_at.0
}

#[test]
fn each_site_is_asked_again_after_its_own_time_out() {
    run_paused(|| async {
        let world = MemoryWorld::with_settings(&["Delft", "Leiden"], |settings| {
            settings
                .information
                .query_timeouts
                .insert(site("Delft"), DurationMs(1_000));
        });
        world.settle().await;
        let own = pause_after_hang(&world, "Delft").await;
        let common = pause_after_hang(&world, "Leiden").await;
        // A second passes before one that did not answer is asked again.
        assert!((1_900..=2_100).contains(&own), "{own} ms");
        assert!((10_900..=11_100).contains(&common), "{common} ms");
    });
}

#[test]
fn a_site_that_jobs_are_placed_at_is_asked_before_what_it_said_expires() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        let busy = last_asked_at(&world, "Leiden");
        let idle = last_asked_at(&world, "Delft");
        world.add_file("input", content(1), &["Leiden"]).await;
        world.place_job(1, content(1), "Leiden").await;
        let expiry = world.shared.settings.information_expiry.0;
        world
            .wait_until("it is asked again", |w| last_asked_at(w, "Leiden") > busy)
            .await;
        let pause = last_asked_at(&world, "Leiden") - busy;
        assert!(pause < expiry, "{pause} ms");
        tokio::time::sleep(Duration::from_millis(3 * expiry)).await;
        assert_eq!(last_asked_at(&world, "Delft"), idle, "nobody needs to know");
        let age = world.shared.clock.now().0 - last_asked_at(&world, "Leiden");
        assert!(age < expiry, "{age} ms");
    });
}

#[test]
fn a_site_that_only_we_use_is_asked_seldom_while_nothing_happens_there() {
    run_paused(|| async {
        let world = MemoryWorld::with_settings(&["Delft", "Leiden"], |settings| {
            settings.information_expiry = DurationMs::from_secs(60);
        });
        world.fake_site("Leiden").lock_state().ours_alone = true;
        world.settle().await;
        world.shared.live.set_placement_awaited(true);
        world.shared.actors.request_look_of_all(ActorKind::Cluster);
        let asked =
            |world: &MemoryWorld| ["Delft", "Leiden"].map(|name| last_asked_at(world, name));
        let interval = world.shared.settings.poll_interval;
        let mut looks = [0, 0];
        let mut before = asked(&world);
        for _ in 0..6_000 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = asked(&world);
            (0..2)
                .filter(|&at| now[at] != before[at])
                .for_each(|at| looks[at] += 1);
            before = now;
        }
        assert!(looks[1] * 2 < looks[0], "{looks:?}");
        // Jobs that come there make it worth knowing again.
        world.add_file("input", content(1), &["Leiden"]).await;
        world.place_job(1, content(1), "Leiden").await;
        let placed = last_asked_at(&world, "Leiden");
        world
            .wait_until("it is asked", |world| {
                last_asked_at(world, "Leiden") > placed
            })
            .await;
        let first = last_asked_at(&world, "Leiden");
        world
            .wait_until("it is asked again", |world| {
                last_asked_at(world, "Leiden") > first
            })
            .await;
        assert!(last_asked_at(&world, "Leiden") - first <= interval.0 + 100);
    });
}

#[test]
fn what_jobs_hold_at_a_site_is_shown_until_it_is_gone_unasked() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        let held = |world: &MemoryWorld| {
            let shown = &world.shared.metrics.site_processors;
            shown
                .with_label_values(&[site("Leiden").as_str(), "held"])
                .get()
        };
        world.add_file("input", content(1), &["Leiden"]).await;
        world.place_job(1, content(1), "Leiden").await;
        let mut job = Job::clone(&world.shared.view.load().jobs[&JobId(1)]);
        let mut spec = JobSpec::clone(&job.spec);
        spec.components[0].resources = Resources::processors(3);
        job.spec = Arc::new(spec);
        world.change_job(1, job).await;
        world
            .wait_until("it is shown", |world| held(world) == 3)
            .await;
        world.finish_job(1).await;
        world
            .wait_until("nothing is", |world| held(world) == 0)
            .await;
    });
}

#[test]
fn a_site_is_shown_to_be_tried_again_from_then_on_though_nobody_asks_it() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        let shown = |world: &MemoryWorld, state: &str| {
            let shown = &world.shared.metrics.site_state;
            shown
                .with_label_values(&[site("Leiden").as_str(), state])
                .get()
                == 1
        };
        let cluster = world
            .shared
            .actors
            .addr::<ClusterActor>(&site("Leiden"))
            .expect("an actor");
        for job in 1..=world.shared.settings.site.site_error_threshold {
            let job = JobId(u64::from(job));
            let component = ComponentIndex(0);
            let attempt = Attempt(1);
            let attempt = AttemptId {
                job,
                component,
                attempt,
            };
            let owner = KeyName::new(&format!("user-{}", job.0)).expect("a name");
            let class = FailureClass::Site;
            let detail = "lost".into();
            cluster
                .send(ErrorCharge {
                    attempt,
                    owner,
                    class,
                    detail,
                })
                .await
                .expect("alive")
                .expect("taken");
        }
        world
            .wait_until("it takes nothing", |world| shown(world, "unusable"))
            .await;
        let asked = last_asked_at(&world, "Leiden");
        world
            .wait_until("it is tried", |world| shown(world, "probing"))
            .await;
        assert_eq!(
            last_asked_at(&world, "Leiden"),
            asked,
            "nobody needed to know"
        );
    });
}

#[test]
fn attempts_are_seen_at_a_site_whose_batch_system_is_silent() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        world.settle().await;
        world.shared.live.set_placement_awaited(true);
        world.shared.actors.request_look_of_all(ActorKind::Cluster);
        world.fake_site("Leiden").lock_state().half_silent = true;
        let unreachable = PlacementAcceptance::Closed(PlacementHindrance::Unreachable);
        world
            .wait_until("nothing new goes there", |w: &MemoryWorld| {
                grid_snapshot(w)
                    .site(&site("Leiden"))
                    .expect("a site")
                    .acceptance
                    == unreachable
            })
            .await;
        let told_at = last_asked_at(&world, "Leiden");
        let tag = AttemptTag {
            instance: world.shared.instance,
            ..TAG.parse().expect("a tag")
        };
        world
            .fake_site("Leiden")
            .lock_state()
            .attempts
            .insert(tag, AttemptObservation::Starting);
        let seen = |w: &MemoryWorld| {
            w.shared
                .live
                .site_report(&site("Leiden"))
                .expect("a report")
        };
        world
            .wait_until("the attempt is seen", |w: &MemoryWorld| {
                seen(w).observed.attempts.get(&tag) == Some(&AttemptObservation::Starting)
            })
            .await;
        assert_eq!(
            last_asked_at(&world, "Leiden"),
            told_at,
            "what is idle is of before"
        );
        let why = seen(&world).trouble.clone().unwrap_or_default();
        assert!(why.contains("does not answer: frozen"), "{why}");
        world.fake_site("Leiden").lock_state().half_silent = false;
        world
            .wait_until("it answers again", |w| {
                contact_of(w, "Leiden").is_answering()
            })
            .await;
    });
}

#[test]
fn sites_that_are_out_of_order_say_so_within_a_poll_and_it_is_nobody_elses_fault() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        world.settle().await;
        world.shared.live.set_placement_awaited(true);
        let poll = Duration::from_millis(world.shared.settings.poll_interval.0);
        for broken in [true, false] {
            for name in ["Delft", "Leiden"] {
                let site = world.fake_site(name);
                let mut inside = site.lock_state();
                let why = Some("attempts is a named pipe");
                (inside.broken, inside.trouble) = if broken { (why, None) } else { (None, why) };
            }
            world.shared.actors.request_look_of_all(ActorKind::Cluster);
            tokio::time::sleep(poll + poll / 2).await;
            for name in ["Delft", "Leiden"] {
                let report = world
                    .shared
                    .live
                    .site_report(&site(name))
                    .expect("a report");
                assert!(
                    report.contact.unreachable_since().is_some(),
                    "{name}: {broken}"
                );
                let why = report.trouble.clone().unwrap_or_default();
                assert!(why.contains("attempts is a named pipe"), "{why}");
            }
            assert!(!world.shared.live.is_isolated(), "we are not cut off");
            // However long it takes somebody to mend it.
            tokio::time::sleep(20 * poll).await;
            for name in ["Delft", "Leiden"] {
                let site = world.fake_site(name);
                let mut inside = site.lock_state();
                inside.broken = None;
                inside.trouble = None;
            }
            tokio::time::sleep(poll + poll / 2).await;
            assert!(
                contact_of(&world, "Leiden").is_answering()
                    && contact_of(&world, "Delft").is_answering()
            );
        }
    });
}

#[test]
fn a_call_that_finds_a_site_out_of_order_has_it_asked_at_once() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.fake_site("Leiden").lock_state().broken = Some("spool is a file");
        let cluster = world
            .shared
            .actors
            .addr::<ClusterActor>(&site("Leiden"))
            .expect("an actor");
        let call = SiteCallMessage::new(
            SiteCallKind::Status,
            |site: Arc<dyn Site>| -> BoxFuture<'static, _> {
                Box::pin(async move { site.queue().status(&[]).await })
            },
        );
        let answer = cluster.send(call).await.expect("alive");
        assert!(
            matches!(answer, Err(SiteError::OutOfOrder(_))),
            "{answer:?}"
        );
        world
            .wait_until("it says so", |w| {
                contact_of(w, "Leiden").unreachable_since().is_some()
            })
            .await;
    });
}

const TAG: &str = "cabcdefgh-1-0-1";

#[test]
fn an_attempt_that_cannot_be_removed_keeps_no_other_from_its_end() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        let tag = |job| AttemptTag {
            instance: world.shared.instance,
            job: JobId(job),
            component: ComponentIndex(0),
            attempt: Attempt(1),
        };
        let left = |world: &MemoryWorld| {
            world
                .fake_site("Delft")
                .lock_state()
                .left
                .keys()
                .copied()
                .collect::<Vec<_>>()
        };
        world.fake_site("Delft").lock_state().left =
            (1..=100).map(|job| (tag(job), job != 1)).collect();
        world
            .wait_until("the others are gone", |world| left(world) == [tag(1)])
            .await;
        world
            .fake_site("Delft")
            .lock_state()
            .left
            .insert(tag(1), true);
        world
            .wait_until("so is this one once it can be", |world| {
                left(world).is_empty()
            })
            .await;
    });
}

/// Files of a user at a site, named after their numbers, that are read for ever.
fn put_endless(world: &MemoryWorld, at: &str, count: u32) -> Vec<FilePlace> {
    let places = (0..count).map(|number| FilePlace::User(path(&format!("endless{number}"))));
    let places: Vec<FilePlace> = places.collect();
    world
        .fake_site(at)
        .lock_state()
        .endless
        .extend(places.clone());
    places
}

#[test]
fn one_owners_endless_files_keep_no_other_owner_waiting() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        world.settle().await;
        let places = put_endless(&world, "Delft", 4);
        let otto = KeyName::new("otto").expect("a name");
        let small = FilePlace::User(path("small"));
        let found = InspectedFile {
            content: content(1),
            directory: false,
        };
        let mut files = BTreeMap::from([(small.clone(), found.clone())]);
        world
            .fake_site("Delft")
            .lock_state()
            .files
            .append(&mut files);
        let readings = places.iter().map(|place| {
            let shared = world.shared.clone();
            let place = place.clone();
            actix_rt::spawn(
                async move { inspect_file(&shared, &key(), &site("Delft"), place).await },
            )
        });
        let readings: Vec<_> = readings.collect();
        world
            .wait_until("some are read", |world| {
                world.fake_site("Delft").lock_state().inspecting.len() == 2
            })
            .await;
        let state = |place| {
            world
                .shared
                .live
                .inspections
                .state_of(&site("Delft"), place)
        };
        let states: Vec<_> = places.iter().map(state).collect();
        let begun = Some(InspectionState::Begun);
        let waits = Some(InspectionState::AwaitsTurn);
        assert_eq!(states, [begun, begun, waits, waits]);
        let answer = inspect_file(&world.shared, &otto, &site("Delft"), small).await;
        assert_eq!(answer, Ok(found));
        // One that nobody waits for makes room for the next of its owner, also if that is given up.
        readings[0].abort();
        world
            .wait_until("the next is read", |world| {
                world.fake_site("Delft").lock_state().inspecting
                    == [places[1].clone(), places[2].clone()]
            })
            .await;
        readings.iter().for_each(|reading| reading.abort());
        world
            .wait_until("none is read that nobody waits for", |world| {
                world.fake_site("Delft").lock_state().inspecting.is_empty()
            })
            .await;
        assert!(places.iter().all(|place| state(place).is_none()));
    });
}
