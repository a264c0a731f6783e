//! Copies from need to deletion, at sites in memory.

use std::time::Duration;

use actix::{Context, Handler, Message};
use cospan_domain::ids::AttemptTag;
use cospan_domain::transfer::copy_state::{CopyPhase, CopyRecord};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_sites::port::{CopyBlame, CopySource};

use super::testing::{MemoryWorld, content, name, run_paused, site};
use super::{CopyKey, DataManager, TransferActor};
use crate::committed::JournalChange;
use crate::supervision::ActorKind;

fn copy_key(seed: u8, at: &str) -> CopyKey {
    (content(seed).digest, site(at))
}

#[test]
fn two_jobs_share_one_copy_and_it_goes_after_the_last() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world.place_job(2, content(1), "Leiden").await;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
        assert_eq!(world.fake_site("Leiden").lock_state().begun.len(), 1);
        world.finish_job(1).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(world.is_copy_ready(&key), "one job still needs it");
        world.finish_job(2).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(world.is_copy_ready(&key), "it is kept for a while");
        world
            .wait_until("its record is gone", |w| w.copy_record(&key).is_none())
            .await;
        world
            .wait_until("its actor is gone", |w| {
                w.shared.actors.ids(ActorKind::Transfer).is_empty()
            })
            .await;
        assert!(world.fake_site("Leiden").lock_state().store.is_empty());
        assert_eq!(
            world.shared.metrics.transferred_bytes.get(),
            content(1).size.0
        );
    });
}

#[test]
fn a_copy_shows_its_progress_and_when_it_is_expected() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        let progress = |w: &MemoryWorld| w.shared.live.copy_progress(key.0, &key.1);
        // Before anything was seen to arrive, the link promises.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let promised = progress(&world).map(|p| p.expected.since(p.at).0);
        assert!(
            promised.is_some_and(|ms| (9_000..=10_000).contains(&ms)),
            "{promised:?}"
        );
        world
            .wait_until("half is there", |w| {
                progress(w).is_some_and(|p| p.done.0 > content(1).size.0 / 2)
            })
            .await;
        let seen = progress(&world).expect("it is being made");
        let left = seen.expected.since(seen.at).0;
        assert!((1_000..=5_000).contains(&left), "{left} ms");
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
        assert_eq!(progress(&world), None);
        let order = world.fake_site("Leiden").lock_state().begun[0].clone();
        assert_eq!(order.limit.map(|limit| limit.0), Some(1_000_000));
        assert!(
            order.nonce.starts_with(world.shared.instance.as_str()),
            "{}",
            order.nonce
        );
    });
}

#[test]
fn another_replica_is_used_when_a_source_fails_and_its_data_is_discarded() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        let key = copy_key(1, "Utrecht");
        world
            .fake_site("Utrecht")
            .lock_state()
            .failing
            .insert(site("Delft"), CopyBlame::Source);
        world
            .add_file("input", content(1), &["Delft", "Leiden"])
            .await;
        world.place_job(1, content(1), "Utrecht").await;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
        let begun = world.fake_site("Utrecht").lock_state().begun.clone();
        let sources: Vec<_> = begun
            .iter()
            .map(|order| order.source.site.as_str())
            .collect();
        assert_eq!(sources, ["Delft", "Leiden"]);
        world
            .wait_until("nothing is left over", |w| {
                w.copy_record(&key)
                    .is_some_and(|copy| copy.leftovers.is_empty())
            })
            .await;
        assert!(
            world
                .fake_site("Utrecht")
                .lock_state()
                .discarded
                .contains(&begun[0].nonce)
        );
    });
}

#[test]
fn content_that_no_source_has_whole_is_never_ready_and_the_jobs_are_told() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        let key = copy_key(1, "Utrecht");
        for from in ["Delft", "Leiden"] {
            world
                .fake_site("Utrecht")
                .lock_state()
                .failing
                .insert(site(from), CopyBlame::Source);
        }
        world
            .add_file("input", content(1), &["Delft", "Leiden"])
            .await;
        world.place_job(1, content(1), "Utrecht").await;
        let lost = |w: &MemoryWorld| w.copy_record(&key).and_then(|copy| copy.loss_reason());
        world
            .wait_until("the jobs are told", |w| lost(w).is_some())
            .await;
        let why = lost(&world).expect("lost").detail;
        assert!(why.contains("Delft, Leiden"), "{why}");
        assert!(world.fake_site("Utrecht").lock_state().store.is_empty());
        world.fake_site("Utrecht").lock_state().failing.clear();
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
    });
}

#[test]
fn a_site_without_room_is_asked_again_and_the_jobs_are_told() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.fake_site("Leiden").lock_state().full = true;
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        let lost = |w: &MemoryWorld| w.copy_record(&key).and_then(|copy| copy.loss_reason());
        world
            .wait_until("the jobs are told", |w| lost(w).is_some())
            .await;
        let why = lost(&world).expect("lost");
        assert_eq!(
            (&*why.detail, why.at_destination),
            ("No space left on device", true)
        );
        assert_eq!(world.fake_site("Leiden").lock_state().start_calls, 3);
        world.fake_site("Leiden").lock_state().full = false;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
    });
}

#[test]
fn a_copy_under_way_is_joined_after_a_restart_and_not_begun_again() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .wait_until("it is under way", |w| {
                w.fake_site("Leiden").lock_state().begun.len() == 1
            })
            .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(world.is_copying(&key));
        let world = world.restart().await;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
        assert_eq!(world.fake_site("Leiden").lock_state().begun.len(), 1);
        assert_eq!(
            world.fake_site("Leiden").lock_state().start_calls,
            1,
            "it was known to have begun"
        );
    });
}

#[test]
fn an_order_perhaps_given_before_a_crash_is_repeated_under_its_name() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .wait_until("it is under way", |w| {
                w.fake_site("Leiden").lock_state().begun.len() == 1
            })
            .await;
        world
            .wait_until("the answer is known", |w| w.is_copying(&key))
            .await;
        // The crash came before the answer: the record says only that it was to be given.
        let known = world.copy_record(&key).expect("a record");
        let mut record = CopyRecord::clone(&known);
        if let CopyPhase::Copying { started, .. } = &mut record.phase {
            *started = false;
        }
        let change = JournalChange::Copy {
            key: key.clone(),
            old: Some(known),
            new: Some(record.into()),
        };
        world.append(change).await;
        let world = world.restart().await;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
        let inside = world.fake_site("Leiden").lock_state();
        assert_eq!((inside.begun.len(), inside.start_calls), (1, 2));
    });
}

#[test]
fn a_need_that_comes_up_during_deletion_waits_and_starts_anew() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.fake_site("Leiden").lock_state().delete_time = Duration::from_secs(20);
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
        world.finish_job(1).await;
        let deleting = |w: &MemoryWorld| {
            w.copy_record(&key)
                .is_some_and(|c| matches!(c.phase, CopyPhase::Deleting { .. }))
        };
        world.wait_until("it is being deleted", deleting).await;
        world.place_job(2, content(1), "Leiden").await;
        world.settle().await;
        assert!(deleting(&world), "what is being deleted cannot be used");
        world
            .wait_until("the copy is whole again", |w| w.is_copy_ready(&key))
            .await;
        let inside = world.fake_site("Leiden").lock_state();
        assert_eq!((inside.deletions, inside.begun.len()), (1, 2));
        assert_ne!(inside.begun[0].nonce, inside.begun[1].nonce);
    });
}

#[test]
fn a_copy_nobody_needs_is_stopped_and_resumed_for_whoever_needs_it_soon() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.fake_site("Leiden").lock_state().copy_time = Duration::from_secs(100);
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .wait_until("it is under way", |w| w.is_copying(&key))
            .await;
        world.finish_job(1).await;
        world
            .wait_until("it is stopped", |w: &MemoryWorld| {
                w.copy_record(&key)
                    .is_some_and(|c| matches!(c.phase, CopyPhase::Waiting { .. }))
            })
            .await;
        world.place_job(2, content(1), "Leiden").await;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
        let begun = world.fake_site("Leiden").lock_state().begun.clone();
        assert_eq!(begun.len(), 2);
        assert_eq!(begun[0].nonce, begun[1].nonce, "its partial data is used");
    });
}

#[test]
fn a_need_that_ends_while_a_write_is_under_way_is_noticed() {
    for turns in 0..25 {
        run_paused(move || async move {
            let world = MemoryWorld::new(&["Delft", "Leiden"]);
            let key = copy_key(1, "Leiden");
            world.add_file("input", content(1), &["Delft"]).await;
            world.place_job(1, content(1), "Leiden").await;
            // From here on nothing but a hint would wake its actor.
            world.fake_site("Leiden").whole.notified().await;
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            world.finish_job(1).await;
            world
                .wait_until("its record is gone", |w| w.copy_record(&key).is_none())
                .await;
            world
                .wait_until("its actor is gone", |w| {
                    w.shared.actors.ids(ActorKind::Transfer).is_empty()
                })
                .await;
        });
    }
}

#[test]
fn partial_data_that_nobody_comes_back_for_is_discarded() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.fake_site("Leiden").lock_state().copy_time = Duration::from_secs(100);
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .wait_until("it is under way", |w| {
                w.fake_site("Leiden").lock_state().begun.len() == 1
            })
            .await;
        world.finish_job(1).await;
        world
            .wait_until("its record is gone", |w| w.copy_record(&key).is_none())
            .await;
        let inside = world.fake_site("Leiden").lock_state();
        assert!(inside.discarded.contains(&inside.begun[0].nonce));
        assert!(inside.store.is_empty());
    });
}

#[test]
fn a_copy_that_stands_still_is_stopped_and_tried_again() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.fake_site("Leiden").lock_state().stalled = true;
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        let stalls = |w: &MemoryWorld| {
            w.shared
                .metrics
                .transfer_failures
                .with_label_values(&["stall"])
                .get()
        };
        world
            .wait_until("it is seen to stand still", |w| stalls(w) > 0)
            .await;
        world.fake_site("Leiden").lock_state().stalled = false;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
    });
}

#[test]
fn what_vanished_from_a_store_is_copied_again_for_the_next_job() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
        world.fake_site("Leiden").lock_state().store.clear();
        world.place_job(2, content(1), "Leiden").await;
        world
            .wait_until("it is missed", |w| !w.is_copy_ready(&key))
            .await;
        world
            .wait_until("the copy is whole again", |w| w.is_copy_ready(&key))
            .await;
        assert!(
            world
                .fake_site("Leiden")
                .lock_state()
                .store
                .contains(&key.0)
        );
    });
}

#[test]
fn a_copy_waits_for_a_source_that_is_down_and_is_made_when_it_comes_back() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        let key = copy_key(1, "Leiden");
        world.fake_site("Delft").lock_state().up = false;
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(world.fake_site("Leiden").lock_state().begun.is_empty());
        let lost = world.copy_record(&key).and_then(|copy| copy.loss_reason());
        assert_eq!(lost, None, "a source that is silent is not gone");
        world.fake_site("Delft").lock_state().up = true;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
    });
}

#[test]
fn an_order_to_a_site_that_is_down_is_given_when_it_comes_back() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.fake_site("Leiden").lock_state().up = false;
        world.place_job(1, content(1), "Leiden").await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        let tries = world.copy_record(&key).map(|copy| copy.trouble.tries);
        assert_eq!(tries, Some(0), "nothing was tried, so nothing failed");
        world.fake_site("Leiden").lock_state().up = true;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
        assert_eq!(world.fake_site("Leiden").lock_state().begun.len(), 1);
    });
}

#[test]
fn an_output_is_brought_from_the_attempt_that_left_it() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world
            .add_collecting_job(5, content(1), "Delft", "Leiden")
            .await;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
        let order = world.fake_site("Leiden").lock_state().begun[0].clone();
        let CopySource {
            site: from,
            place: FilePlace::Output(tag, path),
        } = order.source
        else {
            panic!("{:?}", order.source);
        };
        assert_eq!((from, path.as_str()), (site("Delft"), "out"));
        let AttemptTag { job, attempt, .. } = tag;
        assert_eq!((job.0, attempt.0), (5, 3));
    });
}

#[test]
fn a_copy_that_another_copy_reads_from_stays_until_that_is_whole() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        let first = copy_key(1, "Leiden");
        let second = copy_key(1, "Utrecht");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&first))
            .await;
        // From now on only the copy can be read.
        let old = world.shared.view.load().files.get(&name("input")).cloned();
        let change = JournalChange::File {
            name: name("input"),
            old,
            new: None,
        };
        world.append(change).await;
        world.fake_site("Utrecht").lock_state().copy_time = Duration::from_secs(1_000);
        world.place_job(2, content(1), "Utrecht").await;
        world
            .wait_until("it is under way", |w| w.is_copying(&second))
            .await;
        world.finish_job(1).await;
        tokio::time::sleep(Duration::from_secs(500)).await;
        assert!(world.is_copy_ready(&first), "another copy reads from it");
        world
            .wait_until("the second copy is whole", |w| w.is_copy_ready(&second))
            .await;
        world
            .wait_until("the first copy is gone", |w| {
                w.copy_record(&first).is_none()
            })
            .await;
        assert!(world.is_copy_ready(&second));
    });
}

/// Ends an actor as a defect would.
#[derive(Message)]
#[rtype(result = "()")]
struct PanicMessage;

impl Handler<PanicMessage> for TransferActor {
    type Result = ();

    fn handle(&mut self, _: PanicMessage, _: &mut Context<Self>) {
        panic!("a planted defect");
    }
}

impl Handler<PanicMessage> for DataManager {
    type Result = ();

    fn handle(&mut self, _: PanicMessage, _: &mut Context<Self>) {
        panic!("a planted defect");
    }
}

#[test]
fn an_actor_that_dies_at_any_time_of_a_copys_life_is_survived() {
    for after_ms in [0, 1, 50, 110, 5_000, 9_999, 10_100, 20_000] {
        run_paused(move || async move {
            let world = MemoryWorld::new(&["Delft", "Leiden"]);
            let key = copy_key(1, "Leiden");
            world.add_file("input", content(1), &["Delft"]).await;
            world.place_job(1, content(1), "Leiden").await;
            world
                .wait_until("it lives", |w| {
                    w.shared.actors.addr::<TransferActor>(&key).is_some()
                })
                .await;
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            let actor = world
                .shared
                .actors
                .addr::<TransferActor>(&key)
                .expect("it lives");
            actor.do_send(PanicMessage);
            world.wait_until("it is dead", |_| !actor.connected()).await;
            world
                .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
                .await;
            assert_eq!(
                world.fake_site("Leiden").lock_state().begun.len(),
                1,
                "after {after_ms} ms"
            );
            world.finish_job(1).await;
            world
                .wait_until("its record is gone", |w| w.copy_record(&key).is_none())
                .await;
        });
    }
}

#[test]
fn needs_that_come_up_while_the_data_manager_is_dead_are_found() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world
            .wait_until("it lives", |w| {
                w.shared.actors.addr::<DataManager>(&()).is_some()
            })
            .await;
        let manager = world
            .shared
            .actors
            .addr::<DataManager>(&())
            .expect("it lives");
        manager.do_send(PanicMessage);
        world.place_job(1, content(1), "Leiden").await;
        world
            .wait_until("the copy is whole", |w| w.is_copy_ready(&key))
            .await;
    });
}

#[test]
fn what_a_transfer_had_of_a_link_is_what_the_next_is_expected_to_have() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        let link = |from: &str| {
            world
                .shared
                .links
                .known_link(&site(from), &site("Utrecht"))
                .expect("a link")
        };
        world.fake_site("Utrecht").lock_state().copy_time = Duration::from_secs(40);
        world
            .add_file("input", content(1), &["Delft", "Leiden"])
            .await;
        world.place_job(1, content(1), "Utrecht").await;
        world
            .wait_until("the copy is whole", |w| {
                w.is_copy_ready(&copy_key(1, "Utrecht"))
            })
            .await;
        let slow = link("Delft");
        let other = link("Leiden");
        // Ten megabits in forty seconds, over a link of one megabit per second.
        assert!((240_000..=260_000).contains(&slow.bandwidth.0), "{slow:?}");
        assert_eq!(slow.measured.map(|measured| measured.transfers), Some(1));
        assert_eq!((other.bandwidth.0, other.measured), (1_000_000, None));
        // Equal links go by name; the other one is faster now.
        world.place_job(2, content(2), "Utrecht").await;
        world
            .add_file("other", content(2), &["Delft", "Leiden"])
            .await;
        world
            .wait_until("the copy is whole", |w| {
                w.is_copy_ready(&copy_key(2, "Utrecht"))
            })
            .await;
        let from = world.fake_site("Utrecht").lock_state().begun[1]
            .source
            .site
            .clone();
        assert_eq!(from.as_str(), "Leiden");
        tokio::time::sleep(Duration::from_secs(3_700)).await;
        assert_eq!(link("Delft").bandwidth.0, 1_000_000, "too long ago");
    });
}
