use std::sync::Arc;
use std::time::Duration;

use cospan_domain::content::{ComponentFilePart, FileChunk};
use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::{Component, Job, JobPhase};
use cospan_domain::placed::{ContentSource, Placement};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::DurationMs;

use super::*;
use crate::actor_settings::StagingLimits;
use crate::committed::JournalChange;
use crate::grid_snapshot::GridSnapshotMaker;
use crate::journal::AppendChange;
use crate::transfer::CopyKey;
use crate::transfer::testing::{MemoryWorld, content, name, queued_job, run_paused, site};

/// Room for so many files of [`content`]'s size.
fn room_for_files(count: u64) -> Bytes {
    Bytes(count * content(1).size.0)
}

fn world_keeping_replicas(count: u64) -> MemoryWorld {
    let staging = StagingLimits {
        budget: None,
        replicas: room_for_files(count),
    };
    MemoryWorld::with_staging_limits(&["Delft", "Leiden"], "Leiden", staging)
}

/// What copies take of Leiden, whose room is bounded.
fn room_taken_at_leiden(world: &MemoryWorld) -> Bytes {
    let shared = &world.shared;
    let leiden = site("Leiden");
    let left = shared
        .promised
        .staged_everywhere(&shared.view.load())
        .room_left_at(&leiden)
        .unwrap();
    Bytes(shared.settings.staging[&leiden].budget.unwrap().0 - left.0)
}

fn leiden_copy_key(seed: u8) -> CopyKey {
    (content(seed).digest, site("Leiden"))
}

/// A job that reads a file at Leiden, and ends.
async fn run_job_at_leiden(world: &MemoryWorld, id: u64) {
    let seed = id as u8;
    let text = format!("input-{id}");
    world.add_file(&text, content(seed), &["Delft"]).await;
    world.place_job(id, content(seed), "Leiden").await;
    world
        .wait_until("the copy is whole", |w| {
            w.is_copy_ready(&leiden_copy_key(seed))
        })
        .await;
    world.finish_job(id).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[test]
fn copies_stay_as_replicas_in_the_budget_and_the_longest_unused_goes() {
    run_paused(|| async {
        let world = world_keeping_replicas(2);
        for id in 1..=2 {
            run_job_at_leiden(&world, id).await;
        }
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        assert!(
            world.is_copy_ready(&leiden_copy_key(1)) && world.is_copy_ready(&leiden_copy_key(2)),
            "a day later"
        );
        let grid = GridSnapshotMaker::default().snapshot(&world.shared);
        let mut sites = Vec::new();
        grid.replicas()
            .visit_sites(&content(1).digest, &mut |site| sites.push(site.to_string()));
        assert_eq!(sites, ["Delft", "Leiden"], "placement knows of it");
        let view = world.shared.view.load();
        let entry = view.files[&name("input-1")]
            .entry
            .clone()
            .expect("an entry");
        let told: Vec<&str> = unlisted_copy_sites(&view, &entry)
            .map(SiteName::as_str)
            .collect();
        assert_eq!(told, ["Leiden"], "and so do people");
        run_job_at_leiden(&world, 3).await;
        world
            .wait_until("the first one is gone", |w| {
                w.copy_record(&leiden_copy_key(1)).is_none()
            })
            .await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(
            world.is_copy_ready(&leiden_copy_key(2)) && world.is_copy_ready(&leiden_copy_key(3))
        );
        assert_eq!(
            world.fake_site("Delft").lock_state().deletions,
            0,
            "what users registered stays"
        );
    });
}

#[test]
fn a_copy_that_is_used_again_is_the_latest() {
    run_paused(|| async {
        let world = world_keeping_replicas(2);
        for id in 1..=2 {
            run_job_at_leiden(&world, id).await;
        }
        world.place_job(11, content(1), "Leiden").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.finish_job(11).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            world.fake_site("Leiden").lock_state().begun.len(),
            2,
            "it was not copied again"
        );
        run_job_at_leiden(&world, 3).await;
        world
            .wait_until("the second one is gone", |w| {
                w.copy_record(&leiden_copy_key(2)).is_none()
            })
            .await;
        assert!(
            world.is_copy_ready(&leiden_copy_key(1)) && world.is_copy_ready(&leiden_copy_key(3))
        );
    });
}

#[test]
fn what_nobody_needs_goes_when_there_is_no_room_beside_what_jobs_need() {
    for replicas in [0, 3] {
        run_paused(|| async move {
            let staging = StagingLimits {
                budget: Some(room_for_files(3)),
                replicas: room_for_files(replicas),
            };
            let world = MemoryWorld::with_staging_limits(&["Delft", "Leiden"], "Leiden", staging);
            for id in 1..=3 {
                run_job_at_leiden(&world, id).await;
            }
            assert!(
                (1..=3).all(|seed| world.is_copy_ready(&leiden_copy_key(seed))),
                "there is room for three"
            );
            world.add_file("input-4", content(4), &["Delft"]).await;
            world.place_job(4, content(4), "Leiden").await;
            let placed_at = tokio::time::Instant::now();
            world
                .wait_until("the longest unused one is gone", |w| {
                    w.copy_record(&leiden_copy_key(1)).is_none()
                })
                .await;
            assert!(
                placed_at.elapsed() < Duration::from_secs(10),
                "long before its time"
            );
            world
                .wait_until("the new one is there", |w| {
                    w.is_copy_ready(&leiden_copy_key(4))
                })
                .await;
            assert!(
                world.is_copy_ready(&leiden_copy_key(2))
                    && world.is_copy_ready(&leiden_copy_key(3)),
                "the others stay"
            );
            world.place_job(5, content(2), "Leiden").await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(
                (2..=4).all(|seed| world.is_copy_ready(&leiden_copy_key(seed))),
                "one is needed again"
            );
        });
    }
}

#[test]
fn without_a_budget_nothing_is_kept_and_what_is_kept_survives_a_restart() {
    run_paused(|| async {
        let world = world_keeping_replicas(0);
        run_job_at_leiden(&world, 1).await;
        world
            .wait_until("it is gone", |w| {
                w.copy_record(&leiden_copy_key(1)).is_none()
            })
            .await;
        let world = world_keeping_replicas(1);
        run_job_at_leiden(&world, 1).await;
        let world = world.restart().await;
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        assert!(world.is_copy_ready(&leiden_copy_key(1)));
    });
}

#[test]
fn what_placed_jobs_need_counts_against_the_budget_before_it_is_copied() {
    run_paused(|| async {
        let staging = StagingLimits {
            budget: Some(room_for_files(3)),
            replicas: Bytes(0),
        };
        let world = MemoryWorld::with_staging_limits(&["Delft", "Leiden"], "Leiden", staging);
        let left = |world: &MemoryWorld| {
            let grid = GridSnapshotMaker::default().snapshot(&world.shared);
            let left = |at: &str| grid.site(&site(at)).expect("a site").staging_left;
            (left("Leiden"), left("Delft"))
        };
        assert_eq!(left(&world), (Some(room_for_files(3)), None));
        world.add_file("input", content(1), &["Delft"]).await;
        world.place_job(1, content(1), "Leiden").await;
        assert_eq!(left(&world), (Some(room_for_files(2)), None), "at once");
        world.place_job(2, content(1), "Leiden").await;
        assert_eq!(
            left(&world),
            (Some(room_for_files(2)), None),
            "one copy serves both"
        );
        for id in 1..=2 {
            world.finish_job(id).await;
        }
        assert_eq!(left(&world), (Some(room_for_files(3)), None));
    });
}

#[test]
fn a_job_that_shares_what_is_staged_or_promised_needs_no_room_for_it() {
    run_paused(|| async {
        let staging = StagingLimits {
            budget: Some(room_for_files(2)),
            replicas: Bytes(0),
        };
        let world = MemoryWorld::with_staging_limits(&["Delft", "Leiden"], "Leiden", staging);
        for seed in 1..=3 {
            world
                .add_file(&format!("input-{seed}"), content(seed), &["Delft"])
                .await;
        }
        world.place_job(1, content(1), "Leiden").await;
        let grid = || GridSnapshotMaker::default().snapshot(&world.shared);
        let staged = |seeds: &[u8]| {
            let grid = grid();
            seeds
                .iter()
                .map(|seed| grid.is_staged(&site("Leiden"), &content(*seed)))
                .collect::<Vec<_>>()
        };
        assert_eq!(staged(&[1, 2]), vec![true, false]);
        let plan = Placement {
            site: site("Leiden"),
            sources: vec![ContentSource {
                content: content(2),
                from: site("Delft"),
                chunk: None,
            }],
            transfer_time: DurationMs::ZERO,
            share: None,
            acquisition: Default::default(),
        };
        let promise = world
            .shared
            .promised
            .deduct_for_placements([&plan].into_iter());
        assert_eq!(staged(&[1, 2, 3]), vec![true, true, false]);
        assert_eq!(room_taken_at_leiden(&world), room_for_files(2));
        drop(promise);
        world.finish_job(1).await;
        assert_eq!(staged(&[1, 2, 3]), vec![false; 3]);
        assert_eq!(room_taken_at_leiden(&world), room_for_files(0));
    });
}

#[test]
fn what_is_offered_counts_against_the_budget_until_the_offer_is_decided() {
    run_paused(|| async {
        let staging = StagingLimits {
            budget: Some(room_for_files(2)),
            replicas: Bytes(0),
        };
        let world = MemoryWorld::with_staging_limits(&["Delft", "Leiden"], "Leiden", staging);
        let plan = |seed: u8, at: &str| Placement {
            site: site(at),
            sources: vec![ContentSource {
                content: content(seed),
                from: site("Delft"),
                chunk: None,
            }],
            transfer_time: DurationMs::ZERO,
            share: None,
            acquisition: Default::default(),
        };
        let left = || {
            let grid = GridSnapshotMaker::default().snapshot(&world.shared);
            grid.site(&site("Leiden")).expect("a site").staging_left
        };
        let fits = |seeds: &[u8]| {
            let plans: Vec<_> = seeds.iter().map(|seed| plan(*seed, "Leiden")).collect();
            world
                .shared
                .promised
                .check_room(&world.shared.view.load(), &plans)
                .is_there
        };
        let promise = |seed: u8, at: &str| {
            world
                .shared
                .promised
                .deduct_for_placements([&plan(seed, at)].into_iter())
        };
        assert!(promise(1, "Delft").is_none(), "its room is not bounded");
        assert!(fits(&[1, 2]) && !fits(&[1, 2, 3]));
        let first = promise(1, "Leiden");
        assert_eq!(left(), Some(room_for_files(1)));
        assert!(
            fits(&[2]) && fits(&[1, 2]) && !fits(&[2, 3]),
            "one copy serves all"
        );
        let second = promise(1, "Leiden");
        assert_eq!(left(), Some(room_for_files(1)));
        drop(first);
        assert_eq!(
            left(),
            Some(room_for_files(1)),
            "the other still counts on it"
        );
        drop(second);
        assert_eq!(left(), Some(room_for_files(2)));
    });
}

#[test]
fn to_look_for_room_costs_as_much_however_many_jobs_and_offers_there_are() {
    run_paused(|| async {
        const OFFERS: u32 = 200;
        let staging = StagingLimits {
            budget: Some(room_for_files(1_000)),
            replicas: Bytes(0),
        };
        let world = MemoryWorld::with_staging_limits(&["Delft", "Leiden"], "Leiden", staging);
        for id in 1..=10 {
            world.place_job(id, content(id as u8), "Leiden").await;
        }
        let plan = |number: u32| {
            let mut of = content(0);
            of.digest.0[..4].copy_from_slice(&(number + 100).to_le_bytes());
            Placement {
                site: site("Leiden"),
                sources: vec![ContentSource {
                    content: of,
                    from: site("Delft"),
                    chunk: None,
                }],
                transfer_time: DurationMs::ZERO,
                share: None,
                acquisition: Default::default(),
            }
        };
        let view = world.shared.view.load();
        let mut looks = 0;
        let mut promises = Vec::new();
        for plan in (0..OFFERS).map(plan) {
            let room = world
                .shared
                .promised
                .check_room(&view, std::slice::from_ref(&plan));
            assert!(room.is_there);
            looks += room.looks;
            promises.push(
                world
                    .shared
                    .promised
                    .deduct_for_placements([&plan].into_iter()),
            );
        }
        assert!(looks <= 2 * OFFERS, "{looks} looks for {OFFERS} offers");
        let taken = || room_taken_at_leiden(&world);
        assert_eq!(taken(), room_for_files(10 + u64::from(OFFERS)));
        // One of them is decided, and another job ends.
        let plan = plan(0);
        world.place_job(11, plan.sources[0].content, "Leiden").await;
        world.finish_job(1).await;
        assert_eq!(
            taken(),
            room_for_files(9 + u64::from(OFFERS)),
            "what is promised and needed counts once"
        );
        promises.clear();
        assert_eq!(taken(), room_for_files(10));
        assert!(world.shared.view.load().is_derived_state_correct());
    });
}

#[test]
fn an_unanswered_promise_lasts_until_what_was_decided_is_visible() {
    run_paused(|| async {
        let staging = StagingLimits {
            budget: Some(room_for_files(3)),
            replicas: Bytes(0),
        };
        let world = MemoryWorld::with_staging_limits(&["Delft", "Leiden"], "Leiden", staging);
        let from = site("Delft");
        let plan = Placement {
            site: site("Leiden"),
            sources: vec![ContentSource {
                content: content(1),
                from,
                chunk: None,
            }],
            transfer_time: DurationMs::ZERO,
            share: None,
            acquisition: Default::default(),
        };
        world
            .append(JournalChange::NewJobs(vec![Arc::new(queued_job(
                1,
                content(1),
            ))]))
            .await;
        let promise = world
            .shared
            .promised
            .deduct_for_placements([&plan].into_iter())
            .expect("bounded room");
        let old = world.shared.view.load().jobs[&JobId(1)].clone();
        let mut placed = Job {
            revision: old.revision + 1,
            ..Job::clone(&old)
        };
        placed.phase = JobPhase::Placed {
            at: Timestamp(1),
            start_estimate: Timestamp(1),
        };
        placed.components = vec![Component {
            placement: Some(plan),
            ..Component::default()
        }];
        // The actor that wrote this is dead, and its answer is awaited no more.
        let change = JournalChange::Job {
            old,
            new: Arc::new(placed),
            events: Vec::new(),
        };
        world.shared.journal().do_send(AppendChange(change));
        assert!(
            world.shared.view.load().staged.is_empty(),
            "it is on its way"
        );
        promise
            .end_once_decided(false, world.shared.journal())
            .await;
        assert_eq!(room_taken_at_leiden(&world), room_for_files(1));
    });
}

#[test]
fn a_chunk_is_cut_from_a_kept_copy_which_stays_meanwhile() {
    run_paused(|| async {
        let staging = StagingLimits {
            budget: None,
            replicas: room_for_files(1),
        };
        let world =
            MemoryWorld::with_staging_limits(&["Delft", "Leiden", "Utrecht"], "Leiden", staging);
        run_job_at_leiden(&world, 1).await;
        // The catalogue knows the file no more.
        let old = world
            .shared
            .view
            .load()
            .files
            .get(&name("input-1"))
            .cloned();
        world
            .append(JournalChange::File {
                name: name("input-1"),
                old,
                new: None,
            })
            .await;
        let part = ComponentFilePart {
            before: 0,
            own: 1,
            total: 2,
        };
        let chunk = FileChunk::for_part(content(1), part);
        let at_utrecht = (chunk.as_content().digest, site("Utrecht"));
        world.fake_site("Utrecht").lock_state().copy_time = Duration::from_secs(3_600);
        world
            .place_reading(
                4,
                ContentSource {
                    content: chunk.as_content(),
                    from: site("Leiden"),
                    chunk: Some(chunk),
                },
                "Utrecht",
            )
            .await;
        world
            .wait_until("it is being copied", |w| w.is_copying(&at_utrecht))
            .await;
        let source = world.fake_site("Utrecht").lock_state().begun[0]
            .source
            .clone();
        let store = FilePlace::Store(content(1).digest);
        assert_eq!((source.site, source.place), (site("Leiden"), store));
        // Another copy takes the room of the kept one; what is read there stays.
        run_job_at_leiden(&world, 2).await;
        tokio::time::sleep(Duration::from_secs(1_200)).await;
        assert!(world.is_copy_ready(&leiden_copy_key(1)) && world.is_copying(&at_utrecht));
        world
            .wait_until("the chunk is whole", |w| w.is_copy_ready(&at_utrecht))
            .await;
        // It was used last, so it is the one that is kept.
        world
            .wait_until("the other is gone", |w| {
                w.copy_record(&leiden_copy_key(2)).is_none()
            })
            .await;
        assert!(world.is_copy_ready(&leiden_copy_key(1)));
    });
}
