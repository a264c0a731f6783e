//! Bids: the cost of one answer, of a whole round, and of placement by rounds.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use anyhow::{Context as _, Result, ensure};
use cospan_actors::api::ControlPlane;
use cospan_domain::ids::PolicyName;
use cospan_domain::job::job_state::PhaseKind;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::placement::{AnnouncedNeed, BidRoundBasis};
use cospan_sites::port::Site;
use tokio::sync::oneshot;

use super::decisions;
use super::memory_site::StubSite;
use super::placement_run::{BenchControlPlane, message_bids, plain_job, run_scene_with};
use crate::report::BenchReport;

/// The policy by which sites bid.
pub(super) const POLICY: &str = "mrs";
/// Sites of the bench of placements.
const SITES: usize = 100;
/// Sites of the bench of one round.
const MANY_SITES: usize = 1_000;
/// Jobs that each site has room for.
const ROOM: u32 = 1_000;
/// Rounds of messages of which the floor is the mean.
const FLOOR_ROUNDS: u32 = 200;

pub(super) fn bench(report: &mut BenchReport, place: &Path, quick: bool) -> Result<()> {
    crate::print_progress("bids");
    report.add_figure("bid_us", site_answer_us(quick)?, "us", "<= 1");
    let jobs = if quick { 1_000 } else { SITES * ROOM as usize };
    let at = place.join("bids");
    let (rate, messages) = run_scene_with(&at, message_bids(), SITES, 0, move |s| {
        place_by_rounds(s, jobs)
    })?;
    report.add_figure("place_durable_per_s_mrs", rate, "1/s", ">= 2000");
    // 3n + 2m: each component goes to one site.
    report.add_figure("messages_per_round", messages, "", "<= 302");
    let few = if quick { 100 } else { 400 };
    // All costs but those of the round are the same under another policy.
    let round = measure_cpu(&place.join("rounds"), few, POLICY)?
        - measure_cpu(&place.join("no-rounds"), few, "worst-fit")?;
    let floor = bare_message_seconds()?;
    report.add_floor("floor_messages_per_s", 1.0 / floor, "1/s");
    let messages = (3 * MANY_SITES + 2) as f64;
    report.add_figure("bid_round_1000_sites_ms", round * 1e3, "ms", "");
    report.add_figure(
        "bid_round_over_floor",
        round / (messages * floor),
        "",
        "<= 2.5",
    );
    Ok(())
}

fn measure_cpu(place: &Path, jobs: usize, policy: &'static str) -> Result<f64> {
    run_scene_with(place, message_bids(), MANY_SITES, 0, move |s| {
        cpu_per_job(s, jobs, policy)
    })
}

/// Microseconds that one site takes to answer a job with input, in all dimensions that exist.
fn site_answer_us(quick: bool) -> Result<f64> {
    let grid = decisions::sample_grid(|_| 5_000)?;
    let [.., reading] = decisions::sample_components();
    let request = Arc::new(decisions::placement_request(POLICY, reading)?);
    let ground = BidRoundBasis::new(&request, grid.clone());
    let asked = AnnouncedNeed::new(request);
    let free: Vec<_> = grid.usable_by_site().to_vec();
    let turns = if quick { 100 } else { 20_000 };
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let begun = Instant::now();
        for _ in 0..turns {
            for (site, free) in free.iter().enumerate() {
                let _ = black_box(asked.answer_for_site(black_box(&ground), site, free));
            }
        }
        let mean_us = begun.elapsed().as_secs_f64() * 1e6 / f64::from(turns) / free.len() as f64;
        best = best.min(mean_us);
    }
    Ok(best)
}

fn job_under(policy: &str) -> Result<Arc<JobSpec>> {
    let spec = JobSpec::clone(&*plain_job(&[1])?);
    Ok(Arc::new(JobSpec {
        policy: Some(PolicyName::new(policy)?),
        ..spec
    }))
}

/// Waits until every site has reported that it has room.
async fn give_sites_room(scene: &BenchControlPlane) -> Result<()> {
    scene.sites.iter().for_each(|site| site.set_idle(ROOM));
    scene
        .wait_until("all sites have room", |plane: &ControlPlane| {
            scene
                .sites
                .iter()
                .all(|site| has_room(plane, site) == Some(true))
        })
        .await
}

fn has_room(plane: &ControlPlane, site: &StubSite) -> Option<bool> {
    let report = plane.shared().live.site_report(site.name())?;
    Some(report.idle.as_ref()?.1.processors == ROOM)
}

async fn await_all_placed(scene: &BenchControlPlane) -> Result<()> {
    scene
        .wait_until("all are placed", |plane| {
            BenchControlPlane::count_in_phase(plane, PhaseKind::Queued) == 0
        })
        .await
}

/// Jobs per second that rounds place durably, and the messages of a round.
async fn place_by_rounds(scene: BenchControlPlane, jobs: usize) -> Result<(f64, f64)> {
    scene
        .sites
        .iter()
        .for_each(|site| site.swallow_submissions());
    scene.submit_many(jobs, |_| job_under(POLICY)).await?;
    ensure!(
        BenchControlPlane::count_in_phase(&scene.plane, PhaseKind::Queued) == jobs,
        "nothing fits before its time"
    );
    // No round covered the first job: it keeps its place and may be announced again.
    let interval = scene.plane.shared().settings.bids.interval;
    tokio::time::sleep(Duration::from_millis(interval.0)).await;
    let begun = Instant::now();
    scene.sites.iter().for_each(|site| site.set_idle(ROOM));
    await_all_placed(&scene).await?;
    let rate = jobs as f64 / begun.elapsed().as_secs_f64();
    let metrics = &scene.plane.shared().metrics;
    let rounds = metrics.bid_rounds.with_label_values(&["placed"]).get();
    ensure!(rounds >= jobs as u64, "{rounds} rounds placed {jobs} jobs");
    // Rounds in vain consist of announcements and answers; they dispatched nothing.
    let in_vain = metrics.bid_rounds.with_label_values(&["not-covered"]).get() * 2 * SITES as u64;
    let messages = metrics.bid_messages.get().saturating_sub(in_vain);
    Ok((rate, messages as f64 / rounds as f64))
}

/// Processor time of this thread, in seconds, as Linux counts it.
fn thread_cpu_seconds() -> Result<f64> {
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = counts
        .split(' ')
        .next()
        .context("no time")?
        .parse::<u64>()?;
    Ok(nanoseconds as f64 / 1e9)
}

/// Processor time of the actors, in seconds, for each job that is submitted and placed under a
/// policy. The sites have reported what they have before.
async fn cpu_per_job(scene: BenchControlPlane, jobs: usize, policy: &'static str) -> Result<f64> {
    scene
        .sites
        .iter()
        .for_each(|site| site.swallow_submissions());
    give_sites_room(&scene).await?;
    let before = thread_cpu_seconds()?;
    scene.submit_many(jobs, |_| job_under(policy)).await?;
    await_all_placed(&scene).await?;
    Ok((thread_cpu_seconds()? - before) / jobs as f64)
}

/// Passes the message to the next relay; the last one notifies the caller.
struct Relay {
    done: Option<oneshot::Sender<()>>,
    awaited: u32,
    to: Vec<Addr<Relay>>,
}

impl Actor for Relay {
    type Context = Context<Self>;
}

/// A message as large as an announcement.
#[derive(Message)]
#[rtype(result = "()")]
enum RelayMessage {
    There([u64; 10], Addr<Relay>),
    Back,
}

impl Handler<RelayMessage> for Relay {
    type Result = ();

    fn handle(&mut self, word: RelayMessage, ctx: &mut Context<Self>) {
        match word {
            RelayMessage::There(load, from) => {
                black_box(load);
                from.do_send(RelayMessage::Back);
            }
            RelayMessage::Back => {
                self.awaited = self.awaited.saturating_sub(1);
                if self.awaited > 0 && self.awaited.is_multiple_of(self.to.len() as u32) {
                    self.to.iter().for_each(|addr: &Addr<Self>| {
                        addr.do_send(RelayMessage::There([1; 10], ctx.address()))
                    });
                } else if self.awaited == 0
                    && let Some(done) = self.done.take()
                {
                    let _ = done.send(());
                }
            }
        }
    }
}

/// Processor time, in seconds, of one message between actors that do nothing else.
fn bare_message_seconds() -> Result<f64> {
    actix_web::rt::System::new().block_on(async {
        let many: Vec<_> = (0..MANY_SITES)
            .map(|_| {
                let relay = Relay {
                    done: None,
                    awaited: 0,
                    to: Vec::new(),
                };
                relay.start()
            })
            .collect();
        let (done, is_done) = oneshot::channel();
        // One answer more than whole rounds: it begins the first round.
        let awaited = FLOOR_ROUNDS * MANY_SITES as u32 + 1;
        let hub = Relay {
            done: Some(done),
            awaited,
            to: many,
        };
        let hub = hub.start();
        let before = thread_cpu_seconds()?;
        hub.do_send(RelayMessage::Back);
        is_done.await.context("the relay ended")?;
        Ok((thread_cpu_seconds()? - before) / f64::from(2 * FLOOR_ROUNDS * MANY_SITES as u32))
    })
}
