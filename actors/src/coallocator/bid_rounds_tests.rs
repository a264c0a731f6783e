//! Rounds of bids among the actors, with sites in memory.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use actix::{AsyncContext, Context, Handler, WrapFuture};
use cospan_domain::deduction::{DeductedAmounts, DeductionKey};
use cospan_domain::ids::{ComponentName, JobId, PolicyName, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::spec::{ComponentSpec, JobSpec};
use cospan_domain::placement::{AnnouncedNeed, BidRoundBasis, PlacementRequest};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};

use crate::coallocator::CoAllocator;
use crate::committed::JournalChange;
use crate::deductions::LEASE;
use crate::grid_snapshot::GridSnapshotMaker;
use crate::site::{BiddingMessage, ClusterActor, JobAnnouncement};
use crate::supervision::{ActorId, ActorKind};
use crate::transfer::testing::{MemoryWorld, content, queued_job, run_paused, site};

const JOB: u64 = 1;

/// Three sites of ten, eight and six processors, and a day until anybody has his turn.
async fn three_site_world() -> MemoryWorld {
    let world =
        MemoryWorld::with_all_actors_and_settings(&["Delft", "Leiden", "Utrecht"], |settings| {
            settings.queue.scan_interval = DurationMs::from_secs(86_400);
            settings.bids.in_messages = true;
        });
    set_site_processors(&world, [10, 8, 6]).await;
    world
}

async fn set_site_processors(world: &MemoryWorld, counts: [u32; 3]) {
    let names = ["Delft", "Leiden", "Utrecht"];
    for (name, processors) in names.into_iter().zip(counts) {
        world.fake_site(name).lock_state().processors = processors;
    }
    let is_told = |world: &MemoryWorld, name: &str, count: u32| {
        let report = world
            .shared
            .live
            .site_report(&site(name))
            .unwrap_or_default();
        let total = report
            .description
            .as_ref()
            .map(|description| description.total.processors);
        let idle = report.idle.as_ref().map(|(_, idle)| idle.processors);
        (total, idle) == (Some(count), Some(count))
    };
    world
        .wait_until(
            "all sites have said what they have",
            |world: &MemoryWorld| {
                // Sites are asked while somebody wants to know.
                world.shared.live.set_placement_awaited(true);
                world.shared.actors.request_look_of_all(ActorKind::Cluster);
                names
                    .into_iter()
                    .zip(counts)
                    .all(|(name, count)| is_told(world, name, count))
            },
        )
        .await;
}

fn job_wanting(id: u64, processors: u32) -> Job {
    job_wanting_all(id, &[processors])
}

/// A job with components of these sizes.
fn job_wanting_all(id: u64, sizes: &[u32]) -> Job {
    let mut job = queued_job(id, content(1));
    let mut spec = JobSpec::clone(&job.spec);
    spec.policy = Some(PolicyName::new("mrs").expect("a name"));
    spec.components = sizes
        .iter()
        .enumerate()
        .map(|(number, size): (usize, &u32)| ComponentSpec {
            name: ComponentName::new(&format!("part-{number}")).expect("a name"),
            resources: Resources::processors(*size),
            inputs: Vec::new(),
            ..spec.components[0].clone()
        })
        .collect();
    job.spec = Arc::new(spec);
    job
}

async fn submit_job(world: &MemoryWorld, id: u64, processors: u32) {
    world
        .append(JournalChange::NewJobs(vec![Arc::new(job_wanting(
            id, processors,
        ))]))
        .await;
}

fn placed_site(world: &MemoryWorld, id: u64) -> Option<SiteName> {
    let view = world.shared.view.load();
    let component = view
        .jobs
        .get(&JobId(id))?
        .components
        .first()?
        .placement
        .clone()?;
    Some(component.site)
}

fn count_rounds(world: &MemoryWorld, outcome: &str) -> u64 {
    world
        .shared
        .metrics
        .bid_rounds
        .with_label_values(&[outcome])
        .get()
}

#[test]
fn sites_bid_for_a_job_in_no_more_messages_than_are_counted() {
    run_paused(|| async {
        let world = three_site_world().await;
        submit_job(&world, JOB, 9).await;
        world
            .wait_until("it is placed", |world| placed_site(world, JOB).is_some())
            .await;
        assert_eq!(
            placed_site(&world, JOB),
            Some(site("Delft")),
            "only there are nine"
        );
        assert_eq!(count_rounds(&world, "placed"), 1);
        // Announcements and answers of three sites, the job, its acknowledgement, two clears.
        assert_eq!(world.shared.metrics.bid_messages.get(), 10);
        world
            .wait_until("nothing is deducted", |world| {
                world.shared.deductions.open_plan_count() == 0
            })
            .await;
        assert_eq!(world.deduction_leaks(), []);
    });
}

#[test]
fn a_job_that_goes_to_two_sites_takes_no_more_messages_than_two_each() {
    run_paused(|| async {
        let world = three_site_world().await;
        let job = job_wanting_all(JOB, &[9, 7]);
        world
            .append(JournalChange::NewJobs(vec![Arc::new(job)]))
            .await;
        world
            .wait_until("it is placed", |world| placed_site(world, JOB).is_some())
            .await;
        let n = 3;
        let m = 2;
        // The job goes to two, which acknowledge; the third is told that it does not.
        let messages = world.shared.metrics.bid_messages.get();
        assert_eq!(messages, 2 * n + 2 * m + (n - m));
        assert!(messages <= 3 * n + 2 * m);
    });
}

#[test]
fn messages_of_a_round_that_comes_to_nothing_count_and_so_do_cancels() {
    run_paused(|| async {
        let world = three_site_world().await;
        submit_job(&world, JOB, 20).await;
        world
            .wait_until("it was announced", |world| {
                count_rounds(world, "not-covered") == 1
            })
            .await;
        let messages = || world.shared.metrics.bid_messages.get();
        assert_eq!(messages(), 6, "announcements and answers");
        let old = world.shared.view.load().jobs[&JobId(JOB)].clone();
        let phase = JobPhase::Cancelled {
            by: old.owner.clone(),
            at: world.shared.clock.now(),
        };
        let new = Arc::new(Job {
            phase,
            revision: old.revision + 1,
            ..Job::clone(&old)
        });
        world
            .append(JournalChange::Job {
                old,
                new,
                events: Vec::new(),
            })
            .await;
        world
            .wait_until("all sites are told", |_| messages() == 9)
            .await;
    });
}

/// A site takes up no message for this long, after those that it has.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct MailboxPause(DurationMs);

impl Handler<MailboxPause> for ClusterActor {
    type Result = ();

    fn handle(&mut self, MailboxPause(time): MailboxPause, ctx: &mut Context<Self>) {
        ctx.wait(tokio::time::sleep(Duration::from_millis(time.0)).into_actor(self));
    }
}

/// Delft bids for a job of eight, gets it since it comes first of two that are as near, and
/// hears nothing of that.
async fn award_to_paused_site(world: &MemoryWorld) -> DeductionKey {
    let delft = world
        .shared
        .actors
        .addr::<ClusterActor>(&site("Delft"))
        .expect("it lives");
    submit_job(world, JOB, 8).await;
    let bid = || {
        let leaks = world
            .shared
            .deductions
            .lock_ledgers()
            .find_leaks(Timestamp(0), |_| false);
        leaks.into_iter().find(|leak| leak.site == site("Delft"))
    };
    // Each of the others has one turn between two looks.
    let mut looks = 0;
    let key = poll_fn(|context| match bid() {
        Some(leak) => Poll::Ready(leak.key),
        None => {
            looks += 1;
            assert!(looks < 10_000, "it never bids");
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    let key = key.await;
    delft.do_send(MailboxPause(DurationMs::from_secs(3)));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(
        !world
            .shared
            .deductions
            .lock_ledgers()
            .is_acknowledged(&key, &site("Delft")),
        "it heard nothing"
    );
    assert_eq!(
        (count_rounds(world, "placed"), placed_site(world, JOB)),
        (0, None),
        "it is waited for"
    );
    key
}

#[test]
fn a_job_goes_to_the_next_in_order_when_the_first_does_not_acknowledge_it() {
    run_paused(|| async {
        let world = three_site_world().await;
        let key = award_to_paused_site(&world).await;
        world
            .wait_until("it is placed", |world| placed_site(world, JOB).is_some())
            .await;
        assert_eq!(
            placed_site(&world, JOB),
            Some(site("Leiden")),
            "as near, and next by name"
        );
        assert_eq!(
            (
                count_rounds(&world, "placed"),
                count_rounds(&world, "not-covered")
            ),
            (1, 0)
        );
        // One award more than if all had heard; and two are told that it is not theirs.
        world
            .wait_until("all is told", |world| {
                world.shared.metrics.bid_messages.get() == 11
            })
            .await;
        // What it hears too late leaves nothing behind.
        tokio::time::sleep(Duration::from_secs(4)).await;
        let at_delft = |world: &MemoryWorld| {
            world
                .shared
                .deductions
                .lock_ledgers()
                .deducted_for_plan(&key, &site("Delft"))
                .cloned()
        };
        assert_eq!(at_delft(&world), None);
        assert_eq!(world.deduction_leaks(), []);
    });
}

#[test]
fn a_site_whose_acknowledgement_is_lost_is_looked_up_and_keeps_the_job() {
    run_paused(|| async {
        let world = three_site_world().await;
        let key = award_to_paused_site(&world).await;
        // As if it had acknowledged, and nobody heard that.
        let mut ledgers = world.shared.deductions.lock_ledgers();
        let at = ledgers.ledger_number(&site("Delft"));
        assert!(ledgers.deduct_acknowledged(
            &key,
            at,
            DeductedAmounts::for_proposal(Resources::processors(8))
        ));
        drop(ledgers);
        world
            .wait_until("it is placed", |world| placed_site(world, JOB).is_some())
            .await;
        assert_eq!(placed_site(&world, JOB), Some(site("Delft")));
        assert_eq!(
            (
                count_rounds(&world, "placed"),
                count_rounds(&world, "not-covered")
            ),
            (1, 0)
        );
        // The job went out once; no acknowledgement came.
        world
            .wait_until("all is told", |world| {
                world.shared.metrics.bid_messages.get() == 9
            })
            .await;
    });
}

#[test]
fn what_a_job_left_at_other_sites_is_there_for_the_next_of_the_scan() {
    run_paused(|| async {
        let world = three_site_world().await;
        let both = [job_wanting(JOB, 9), job_wanting(2, 8)];
        world
            .append(JournalChange::NewJobs(both.map(Arc::new).to_vec()))
            .await;
        world
            .wait_until("both are placed", |world: &MemoryWorld| {
                placed_site(world, JOB).is_some() && placed_site(world, 2).is_some()
            })
            .await;
        // All eight of Leiden were set aside for the first, and cleared before the second.
        assert_eq!(
            (placed_site(&world, JOB), placed_site(&world, 2)),
            (Some(site("Delft")), Some(site("Leiden")))
        );
        assert_eq!(
            (
                count_rounds(&world, "placed"),
                count_rounds(&world, "not-covered")
            ),
            (2, 0)
        );
        assert_eq!(
            world.shared.metrics.bid_messages.get(),
            20,
            "each clear is counted"
        );
        world
            .wait_until("nothing is deducted", |world| {
                world.shared.deductions.open_plan_count() == 0
            })
            .await;
        assert_eq!(world.deduction_leaks(), []);
    });
}

#[test]
fn a_job_that_no_bids_cover_waits_for_what_sites_report() {
    run_paused(|| async {
        let world = three_site_world().await;
        submit_job(&world, JOB, 20).await;
        world
            .wait_until("it was announced", |world| {
                count_rounds(world, "not-covered") == 1
            })
            .await;
        assert_eq!(world.shared.deductions.open_plan_count(), 0, "at once");
        // Looks, deductions and releases bring it back no sooner.
        for _ in 0..100 {
            world.shared.actors.request_look_of(&ActorId::CoAllocator);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert_eq!(
            (
                count_rounds(&world, "not-covered"),
                placed_site(&world, JOB)
            ),
            (1, None)
        );
        set_site_processors(&world, [10, 8, 30]).await;
        // Its submission is refused there, as everywhere in this world.
        world
            .wait_until("it was placed", |world| count_rounds(world, "placed") > 0)
            .await;
    });
}

#[test]
fn what_another_gives_back_goes_to_who_has_waited_longest() {
    run_paused(|| async {
        let world = three_site_world().await;
        let life = world.deduction_holder();
        let an_hour = world.shared.clock.now() + DurationMs::from_secs(3_600);
        let other = life.open_plan(JobId(9), an_hour);
        let delft = site("Delft");
        let five = DeductedAmounts::for_proposal(Resources::processors(5));
        let at = world.shared.deductions.lock_ledgers().ledger_number(&delft);
        assert!(
            world
                .shared
                .deductions
                .lock_ledgers()
                .deduct(&other, at, five)
        );
        submit_job(&world, JOB, 9).await;
        world
            .wait_until("it was announced", |world| {
                count_rounds(world, "not-covered") == 1
            })
            .await;
        // No site reports it; and the first may not be announced again at once.
        assert!(life.end_plan_of_job(JobId(9)));
        let mut later = job_wanting(2, 9);
        let mut spec = JobSpec::clone(&later.spec);
        spec.wall_time = spec.wall_time + DurationMs(1);
        later.spec = Arc::new(spec);
        world
            .append(JournalChange::NewJobs(vec![Arc::new(later)]))
            .await;
        let any = |world: &MemoryWorld| placed_site(world, JOB).or(placed_site(world, 2));
        world
            .wait_until("one is placed", |world| any(world).is_some())
            .await;
        assert_eq!(
            (placed_site(&world, JOB), placed_site(&world, 2)),
            (Some(delft), None)
        );
    });
}

#[test]
fn a_site_that_is_not_there_is_passed_over_and_the_next_has_the_job() {
    run_paused(|| async {
        let world = three_site_world().await;
        world
            .shared
            .actors
            .remove_actor(&ActorId::Cluster(site("Delft")));
        submit_job(&world, JOB, 5).await;
        world
            .wait_until("it is placed", |world| placed_site(world, JOB).is_some())
            .await;
        assert_eq!(placed_site(&world, JOB), Some(site("Leiden")));
    });
}

#[test]
fn a_site_that_hears_of_a_round_after_its_end_deducts_nothing() {
    run_paused(|| async {
        let world = three_site_world().await;
        let life = world.deduction_holder();
        let now = world.shared.clock.now();
        let defaults = &world.shared.settings.default_policies;
        let request = Arc::new(PlacementRequest::of_job(&job_wanting(JOB, 4), defaults));
        let grid = GridSnapshotMaker::default().snapshot(&world.shared);
        let ground = Arc::new(BidRoundBasis::new(&request, grid));
        let asked = Some(Arc::new(AnnouncedNeed::new(request)));
        let delft = world
            .shared
            .actors
            .addr::<ClusterActor>(&site("Delft"))
            .expect("it lives");
        let reply = world
            .shared
            .actors
            .addr::<CoAllocator>(&())
            .expect("it lives")
            .recipient();
        let announce = |key| {
            let asked = asked.clone();
            let ground = ground.clone();
            let reply = reply.clone();
            let told = Arc::new(JobAnnouncement {
                key,
                at: now,
                asked,
                ground,
                reply,
            });
            BiddingMessage::Announce {
                told,
                site: 0,
                clear: None,
            }
        };
        let deducted = || {
            world
                .shared
                .deductions
                .deducted_at(&site("Delft"))
                .placing
                .processors
        };
        let key = life.open_plan(JobId(JOB), now + LEASE);
        delft.send(announce(key)).await.expect("it lives");
        assert_eq!(deducted(), 4);
        delft.send(announce(key)).await.expect("it lives");
        assert_eq!(deducted(), 4, "nothing twice");
        delft
            .send(BiddingMessage::Clear(key))
            .await
            .expect("it lives");
        assert_eq!(deducted(), 0);
        let over = life.open_plan(JobId(JOB), now + LEASE);
        tokio::time::sleep(std::time::Duration::from_millis(LEASE.0 + 1)).await;
        world
            .shared
            .deductions
            .expire_deductions(world.shared.clock.now());
        delft.send(announce(over)).await.expect("it lives");
        assert_eq!(deducted(), 0, "its lease is over");
    });
}

#[test]
fn what_is_deducted_ends_with_the_life_of_who_planned_it() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        let life = world.deduction_holder();
        let uses = [(
            site("Delft"),
            DeductedAmounts::for_proposal(Resources::processors(3)),
        )];
        life.deduct_for_job(JobId(JOB), world.shared.clock.now(), uses.into_iter());
        assert_eq!(
            world
                .shared
                .deductions
                .deducted_at(&site("Delft"))
                .placing
                .processors,
            3
        );
        assert_eq!(world.deduction_leaks().len(), 1, "nobody has such a job");
        drop(life);
        assert_eq!(
            world.shared.deductions.deducted_at(&site("Delft")),
            DeductedAmounts::default()
        );
        assert_eq!(world.deduction_leaks(), []);
    });
}

#[test]
fn what_one_promises_is_promised_to_nobody_else() {
    run_paused(|| async {
        let world = three_site_world().await;
        let now = world.shared.clock.now();
        let usable = || {
            GridSnapshotMaker::default()
                .snapshot(&world.shared)
                .usable_by_site()[0]
                .processors
        };
        let life = world.deduction_holder();
        let at_delft = |deducted| [(site("Delft"), deducted)].into_iter();
        life.deduct_for_job(
            JobId(2),
            now,
            at_delft(DeductedAmounts::for_moved_claim(Resources::processors(3))),
        );
        assert_eq!(usable(), 7, "claimed there, placed elsewhere");
        life.deduct_for_job(
            JobId(3),
            now,
            at_delft(DeductedAmounts::for_claim(Resources::processors(2))),
        );
        assert_eq!(usable(), 7, "what was placed there is shown as that");
        life.deduct_for_job(
            JobId(4),
            now,
            at_delft(DeductedAmounts::for_proposal(Resources::processors(4))),
        );
        assert_eq!(usable(), 3);
        let own = GridSnapshotMaker::default().snapshot_for_job(&world.shared, JobId(4));
        assert_eq!(
            own.usable_by_site()[0].processors,
            7,
            "to the job itself it is there"
        );
        submit_job(&world, JOB, 4).await;
        world
            .wait_until("it is placed", |world| placed_site(world, JOB).is_some())
            .await;
        assert_eq!(
            placed_site(&world, JOB),
            Some(site("Leiden")),
            "Delft has three left"
        );
        assert!(life.end_plan_of_job(JobId(4)) && !life.end_plan_of_job(JobId(4)));
    });
}
