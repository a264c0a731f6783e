//! Copies from need to deletion, at sites in memory.

use std::time::Duration;

use actix::{Context, Handler, Message};
use cospan_domain::ids::AttemptTag;
use cospan_domain::transfer::copy_state::{CopyPhase, CopyRecord};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_sites::port::{CopyBlame, CopySource};

use super::testing::{MemoryWorld, content, name, paused, site};
use super::{CopyKey, DataManager, TransferActor};
use crate::journal::JournalChange;

fn copy_key(seed: u8, at: &str) -> CopyKey {
    (content(seed).digest, site(at))
}

#[test]
fn two_jobs_share_one_copy_and_it_goes_after_the_last() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world.place_job(2, content(1), "Leiden").await;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
        assert_eq!(world.at("Leiden").inside().begun.len(), 1);
        world.finish_job(1).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(world.is_ready(&key), "one job still needs it");
        world.finish_job(2).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(world.is_ready(&key), "it is kept for a while");
        world
            .until("its record is gone", |w| w.copy(&key).is_none())
            .await;
        world
            .until("its actor is gone", |w| {
                w.shared.actors.transfers.is_empty()
            })
            .await;
        assert!(world.at("Leiden").inside().store.is_empty());
        assert_eq!(
            world.shared.metrics.transferred_bytes.get(),
            content(1).size.0
        );
    });
}

#[test]
fn a_copy_shows_its_progress_and_when_it_is_expected() {
    paused(|| async {
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
            .until("half is there", |w| {
                progress(w).is_some_and(|p| p.done.0 > content(1).size.0 / 2)
            })
            .await;
        let seen = progress(&world).expect("it is being made");
        let left = seen.expected.since(seen.at).0;
        assert!((1_000..=5_000).contains(&left), "{left} ms");
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
        assert_eq!(progress(&world), None);
        let order = world.at("Leiden").inside().begun[0].clone();
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
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        let key = copy_key(1, "Utrecht");
        world
            .at("Utrecht")
            .inside()
            .failing
            .insert(site("Delft"), CopyBlame::Source);
        world
            .add_file("input", content(1), &["Delft", "Leiden"])
            .await;
        world.place_job(1, content(1), "Utrecht").await;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
        let begun = world.at("Utrecht").inside().begun.clone();
        let sources: Vec<_> = begun
            .iter()
            .map(|order| order.source.site.as_str())
            .collect();
        assert_eq!(sources, ["Delft", "Leiden"]);
        world
            .until("nothing is left over", |w| {
                w.copy(&key).is_some_and(|copy| copy.leftovers.is_empty())
            })
            .await;
        assert!(
            world
                .at("Utrecht")
                .inside()
                .discarded
                .contains(&begun[0].nonce)
        );
    });
}

#[test]
fn content_that_no_source_has_whole_is_never_ready_and_the_jobs_are_told() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        let key = copy_key(1, "Utrecht");
        for from in ["Delft", "Leiden"] {
            world
                .at("Utrecht")
                .inside()
                .failing
                .insert(site(from), CopyBlame::Source);
        }
        world
            .add_file("input", content(1), &["Delft", "Leiden"])
            .await;
        world.place_job(1, content(1), "Utrecht").await;
        let lost = |w: &MemoryWorld| w.copy(&key).and_then(|copy| copy.reason_lost());
        world
            .until("the jobs are told", |w| lost(w).is_some())
            .await;
        let why = lost(&world).expect("lost").detail;
        assert!(why.contains("Delft, Leiden"), "{why}");
        assert!(world.at("Utrecht").inside().store.is_empty());
        world.at("Utrecht").inside().failing.clear();
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
    });
}

#[test]
fn a_site_without_room_is_asked_again_and_the_jobs_are_told() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.at("Leiden").inside().full = true;
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        let lost = |w: &MemoryWorld| w.copy(&key).and_then(|copy| copy.reason_lost());
        world
            .until("the jobs are told", |w| lost(w).is_some())
            .await;
        let why = lost(&world).expect("lost");
        assert_eq!(
            (&*why.detail, why.at_destination),
            ("No space left on device", true)
        );
        assert_eq!(world.at("Leiden").inside().start_calls, 3);
        world.at("Leiden").inside().full = false;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
    });
}

#[test]
fn a_copy_under_way_is_joined_after_a_restart_and_not_begun_again() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .until("it is under way", |w| {
                w.at("Leiden").inside().begun.len() == 1
            })
            .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(world.is_copying(&key));
        let world = world.restarted().await;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
        assert_eq!(world.at("Leiden").inside().begun.len(), 1);
        assert_eq!(
            world.at("Leiden").inside().start_calls,
            1,
            "it was known to have begun"
        );
    });
}

#[test]
fn an_order_perhaps_given_before_a_crash_is_repeated_under_its_name() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .until("it is under way", |w| {
                w.at("Leiden").inside().begun.len() == 1
            })
            .await;
        world
            .until("the answer is known", |w| w.is_copying(&key))
            .await;
        // The crash came before the answer: the record says only that it was to be given.
        let known = world.copy(&key).expect("a record");
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
        let world = world.restarted().await;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
        let inside = world.at("Leiden").inside();
        assert_eq!((inside.begun.len(), inside.start_calls), (1, 2));
    });
}

#[test]
fn a_need_that_comes_up_during_deletion_waits_and_starts_anew() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.at("Leiden").inside().delete_time = Duration::from_secs(20);
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
        world.finish_job(1).await;
        let deleting = |w: &MemoryWorld| {
            w.copy(&key)
                .is_some_and(|c| matches!(c.phase, CopyPhase::Deleting { .. }))
        };
        world.until("it is being deleted", deleting).await;
        world.place_job(2, content(1), "Leiden").await;
        world.settle().await;
        assert!(deleting(&world), "what is being deleted cannot be used");
        world
            .until("the copy is whole again", |w| w.is_ready(&key))
            .await;
        let inside = world.at("Leiden").inside();
        assert_eq!((inside.deletions, inside.begun.len()), (1, 2));
        assert_ne!(inside.begun[0].nonce, inside.begun[1].nonce);
    });
}

#[test]
fn a_copy_nobody_needs_is_stopped_and_resumed_for_whoever_needs_it_soon() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.at("Leiden").inside().copy_time = Duration::from_secs(100);
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world.until("it is under way", |w| w.is_copying(&key)).await;
        world.finish_job(1).await;
        world
            .until("it is stopped", |w: &MemoryWorld| {
                w.copy(&key)
                    .is_some_and(|c| matches!(c.phase, CopyPhase::Waiting { .. }))
            })
            .await;
        world.place_job(2, content(1), "Leiden").await;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
        let begun = world.at("Leiden").inside().begun.clone();
        assert_eq!(begun.len(), 2);
        assert_eq!(begun[0].nonce, begun[1].nonce, "its partial data is used");
    });
}

#[test]
fn a_need_that_ends_while_a_write_is_under_way_is_noticed() {
    for turns in 0..25 {
        paused(move || async move {
            let world = MemoryWorld::new(&["Delft", "Leiden"]);
            let key = copy_key(1, "Leiden");
            world.add_file("input", content(1), &["Delft"]).await;
            world.place_job(1, content(1), "Leiden").await;
            // From here on nothing but a hint would wake its actor.
            world.at("Leiden").whole.notified().await;
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            world.finish_job(1).await;
            world
                .until("its record is gone", |w| w.copy(&key).is_none())
                .await;
            world
                .until("its actor is gone", |w| {
                    w.shared.actors.transfers.is_empty()
                })
                .await;
        });
    }
}

#[test]
fn partial_data_that_nobody_comes_back_for_is_discarded() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.at("Leiden").inside().copy_time = Duration::from_secs(100);
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .until("it is under way", |w| {
                w.at("Leiden").inside().begun.len() == 1
            })
            .await;
        world.finish_job(1).await;
        world
            .until("its record is gone", |w| w.copy(&key).is_none())
            .await;
        let inside = world.at("Leiden").inside();
        assert!(inside.discarded.contains(&inside.begun[0].nonce));
        assert!(inside.store.is_empty());
    });
}

#[test]
fn a_copy_that_stands_still_is_stopped_and_tried_again() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.at("Leiden").inside().stalled = true;
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
            .until("it is seen to stand still", |w| stalls(w) > 0)
            .await;
        world.at("Leiden").inside().stalled = false;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
    });
}

#[test]
fn what_vanished_from_a_store_is_copied_again_for_the_next_job() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
        world.at("Leiden").inside().store.clear();
        world.place_job(2, content(1), "Leiden").await;
        world.until("it is missed", |w| !w.is_ready(&key)).await;
        world
            .until("the copy is whole again", |w| w.is_ready(&key))
            .await;
        assert!(world.at("Leiden").inside().store.contains(&key.0));
    });
}

#[test]
fn a_copy_waits_for_a_source_that_is_down_and_is_made_when_it_comes_back() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        let key = copy_key(1, "Leiden");
        world.at("Delft").inside().up = false;
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(world.at("Leiden").inside().begun.is_empty());
        let lost = world.copy(&key).and_then(|copy| copy.reason_lost());
        assert_eq!(lost, None, "a source that is silent is not gone");
        world.at("Delft").inside().up = true;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
    });
}

#[test]
fn an_order_to_a_site_that_is_down_is_given_when_it_comes_back() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world.at("Leiden").inside().up = false;
        world.place_job(1, content(1), "Leiden").await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        let tries = world.copy(&key).map(|copy| copy.trouble.tries);
        assert_eq!(tries, Some(0), "nothing was tried, so nothing failed");
        world.at("Leiden").inside().up = true;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
        assert_eq!(world.at("Leiden").inside().begun.len(), 1);
    });
}

#[test]
fn an_output_is_brought_from_the_attempt_that_left_it() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.collect(5, content(1), "Delft", "Leiden").await;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
        let order = world.at("Leiden").inside().begun[0].clone();
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
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        let first = copy_key(1, "Leiden");
        let second = copy_key(1, "Utrecht");
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        world
            .until("the copy is whole", |w| w.is_ready(&first))
            .await;
        // From now on only the copy can be read.
        let old = world.shared.view.load().files.get(&name("input")).cloned();
        let change = JournalChange::File {
            name: name("input"),
            old,
            new: None,
        };
        world.append(change).await;
        world.at("Utrecht").inside().copy_time = Duration::from_secs(1_000);
        world.place_job(2, content(1), "Utrecht").await;
        world
            .until("it is under way", |w| w.is_copying(&second))
            .await;
        world.finish_job(1).await;
        tokio::time::sleep(Duration::from_secs(500)).await;
        assert!(world.is_ready(&first), "another copy reads from it");
        world
            .until("the second copy is whole", |w| w.is_ready(&second))
            .await;
        world
            .until("the first copy is gone", |w| w.copy(&first).is_none())
            .await;
        assert!(world.is_ready(&second));
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
        paused(move || async move {
            let world = MemoryWorld::new(&["Delft", "Leiden"]);
            let key = copy_key(1, "Leiden");
            world.add_file("input", content(1), &["Delft"]).await;
            world.place_job(1, content(1), "Leiden").await;
            world
                .until("it lives", |w| {
                    w.shared.actors.transfers.addr(&key).is_some()
                })
                .await;
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            let actor = world.shared.actors.transfers.addr(&key).expect("it lives");
            actor.do_send(PanicMessage);
            world.until("it is dead", |_| !actor.connected()).await;
            world.until("the copy is whole", |w| w.is_ready(&key)).await;
            assert_eq!(
                world.at("Leiden").inside().begun.len(),
                1,
                "after {after_ms} ms"
            );
            world.finish_job(1).await;
            world
                .until("its record is gone", |w| w.copy(&key).is_none())
                .await;
        });
    }
}

#[test]
fn needs_that_come_up_while_the_data_manager_is_dead_are_found() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let key = copy_key(1, "Leiden");
        world.add_file("input", content(1), &["Delft"]).await;
        world
            .until("it lives", |w| {
                w.shared.actors.data_manager.addr(&()).is_some()
            })
            .await;
        let manager = world
            .shared
            .actors
            .data_manager
            .addr(&())
            .expect("it lives");
        manager.do_send(PanicMessage);
        world.place_job(1, content(1), "Leiden").await;
        world.until("the copy is whole", |w| w.is_ready(&key)).await;
    });
}

#[test]
fn what_a_transfer_had_of_a_link_is_what_the_next_is_expected_to_have() {
    paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        let link = |from: &str| {
            world
                .shared
                .link(&site(from), &site("Utrecht"))
                .expect("a link")
        };
        world.at("Utrecht").inside().copy_time = Duration::from_secs(40);
        world
            .add_file("input", content(1), &["Delft", "Leiden"])
            .await;
        world.place_job(1, content(1), "Utrecht").await;
        world
            .until("the copy is whole", |w| w.is_ready(&copy_key(1, "Utrecht")))
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
            .until("the copy is whole", |w| w.is_ready(&copy_key(2, "Utrecht")))
            .await;
        let from = world.at("Utrecht").inside().begun[1].source.site.clone();
        assert_eq!(from.as_str(), "Leiden");
        tokio::time::sleep(Duration::from_secs(3_700)).await;
        assert_eq!(link("Delft").bandwidth.0, 1_000_000, "too long ago");
    });
}
