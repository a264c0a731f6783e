//! A controller that is killed right after it acknowledged something, or frozen until its
//! clients give up: nothing is lost, and nothing done twice.
//!
//! Only root can do that to it: `COSPAN_TEST_SLURM_ORDERS` names a directory in which
//! `slurm.sh obey` looks for orders.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::ids::{Attempt, Tag};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;
use cospan_sites::contract::{SiteFixture, go, order, script, tag};
use cospan_sites::port::{ExitCause, GateDecision, Observation, Site, SiteError};

use super::fixture::SlurmSiteFixture;

/// Attempts of one test.
const MANY: u64 = 5;

/// Everything comes to its end within this, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(180);

struct Outage {
    fixture: SlurmSiteFixture,
    site: Arc<dyn Site>,
    orders: PathBuf,
}

impl Outage {
    fn offered() -> Option<Self> {
        let fixture = SlurmSiteFixture::offered()?;
        let orders = SlurmSiteFixture::orders()?;
        let site = fixture.site();
        Some(Self { fixture, site, orders })
    }

    /// Has something done to the controller, and waits until it is.
    async fn have(&self, what: &str) {
        let aside = self.orders.join("order.new");
        std::fs::write(&aside, what).unwrap();
        std::fs::rename(aside, self.orders.join("order")).unwrap();
        let is_done = || !self.orders.join("order").exists();
        within("the order is carried out", || async { is_done().then_some(()) }).await;
    }

    fn ran(&self) -> PathBuf {
        self.fixture.root().with_file_name("ran")
    }

    /// A payload that writes down that it ran.
    fn payload(&self) -> String {
        format!("echo \"$COSPAN_TAG\" >> '{}'", self.ran().display())
    }

    /// Takes an attempt through its gate to its end.
    async fn finish(&self, tag: Tag) {
        let ready = |seen: &Observation| matches!(seen, Observation::Ready(_));
        self.await_seen(tag, ready).await;
        let decide = || async { self.site.decide_gate(tag, &go()).await.ok() };
        within("the gate opens", decide).await;
        self.await_seen(tag, |seen| matches!(seen, Observation::Exited(_))).await;
    }

    async fn await_seen(&self, tag: Tag, awaited: impl Fn(&Observation) -> bool) -> Observation {
        let look = || async {
            let status = self.site.status(&[tag]).await.ok()?;
            Some(status.attempts[&tag].clone()).filter(&awaited)
        };
        within("it is seen", look).await
    }
}

async fn within<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn ran(log: &Path) -> Vec<Tag> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut tags: Vec<Tag> = text.lines().map(|line| line.parse().unwrap()).collect();
    tags.sort_unstable();
    tags
}

/// What Slurm forgot is found to be absent, never while it is away, and given to it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_acknowledged_before_a_kill_are_not_lost_or_doubled() {
    let Some(outage) = Outage::offered() else { return };
    let (site, payload) = (&outage.site, script(&outage.payload()));
    for number in 0..MANY {
        site.submit(&order(tag(number), payload.clone())).await.unwrap();
    }
    outage.have("kill").await;
    let away = site.find_by_tag(tag(0)).await;
    assert!(matches!(away, Err(SiteError::NotSent(_) | SiteError::OutcomeUnknown(_))), "{away:?}");
    assert!(site.status(&[tag(0)]).await.is_err(), "nothing is told of what nobody knows");
    outage.have("up").await;
    let mut live = Vec::new();
    for number in 0..MANY {
        let look = || async { site.find_by_tag(tag(number)).await.ok() };
        let found = within("Slurm answers", look).await.found;
        assert!(found.len() <= 1, "{found:?}");
        if !found.is_empty() {
            live.push(tag(number));
            continue;
        }
        // As a control plane does: whatever may still come of it is kept out first.
        site.decide_gate(tag(number), &GateDecision::Void).await.unwrap();
        let next = Tag { attempt: Attempt(2), ..tag(number) };
        site.submit(&order(next, payload.clone())).await.unwrap();
        live.push(next);
    }
    for tag in &live {
        outage.finish(*tag).await;
    }
    live.sort_unstable();
    assert_eq!(ran(&outage.ran()), live, "each ran, and once");
}

/// Slurm writes down every five seconds what it knows: then that they wait, and not yet that
/// they were cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_that_a_killed_controller_forgot_hold() {
    let Some(outage) = Outage::offered() else { return };
    let site = &outage.site;
    let total = site.describe().await.unwrap().total;
    let mut filler = order(tag(100), script("sleep 600"));
    filler.resources = Resources::processors(total.processors);
    site.submit(&filler).await.unwrap();
    outage.await_seen(tag(100), |seen| matches!(seen, Observation::Ready(_))).await;
    for number in 0..MANY {
        site.submit(&order(tag(number), script(&outage.payload()))).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    for number in 0..MANY {
        site.cancel(tag(number), None).await.unwrap();
    }
    outage.have("kill").await;
    outage.have("up").await;
    within("the filler ends", || async { site.cancel(tag(100), None).await.ok() }).await;
    // Whatever came back begins now, and ends at its closed gate.
    let root = outage.fixture.root().display().to_string();
    let is_empty = || async {
        let queue = outage.fixture.slurm(&["squeue", "-h", "-o", "%T %Z"]);
        (!queue.contains(&root)).then_some(())
    };
    within("the queue is empty", is_empty).await;
    assert_eq!(ran(&outage.ran()), [], "none of them began");
    for number in 0..MANY {
        let seen = site.status(&[tag(number)]).await.unwrap().attempts[&tag(number)].clone();
        assert!(!matches!(seen, Observation::Begun(_) | Observation::Exited(_)), "{seen:?}");
    }
}

/// Whoever gets no answer asks again, and most of all that was asked is done in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_to_a_frozen_controller_run_once() {
    let Some(outage) = Outage::offered() else { return };
    let site = &outage.site;
    site.describe().await.unwrap();
    outage.have("freeze").await;
    let orders: Vec<_> =
        (0..MANY).map(|number| order(tag(number), script(&outage.payload()))).collect();
    let mut calls = tokio::task::JoinSet::new();
    for order in orders.clone() {
        let site = site.clone();
        calls.spawn(async move { site.submit(&order).await });
    }
    for answer in calls.join_all().await {
        let is_unknown =
            matches!(answer, Err(SiteError::OutcomeUnknown(_) | SiteError::NotSent(_)));
        assert!(is_unknown, "{answer:?}");
    }
    outage.have("thaw").await;
    for order in &orders {
        within("Slurm takes it", || async { site.submit(order).await.ok() }).await;
    }
    for order in &orders {
        outage.finish(order.tag).await;
    }
    let root = outage.fixture.root().display().to_string();
    let is_empty = || async {
        let queue = outage.fixture.slurm(&["squeue", "-h", "-o", "%T %Z"]);
        (!queue.contains(&root)).then_some(())
    };
    within("the queue is empty", is_empty).await;
    assert_eq!(ran(&outage.ran()), (0..MANY).map(tag).collect::<Vec<_>>(), "each ran, and once");
}

/// By an operator, for longer than all of its wall time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_slurm_suspends_loses_nothing_of_its_wall_time() {
    let Some(outage) = Outage::offered() else { return };
    let site = &outage.site;
    let mut sleeps = order(tag(1), script("sleep 14"));
    sleeps.wall_time = DurationMs::from_secs(10);
    let number = site.submit(&sleeps).await.unwrap().lrm_id;
    outage.await_seen(tag(1), |seen| matches!(seen, Observation::Ready(_))).await;
    site.decide_gate(tag(1), &go()).await.unwrap();
    outage.await_seen(tag(1), |seen| matches!(seen, Observation::Begun(_))).await;
    outage.have(&format!("suspend {number}")).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    outage.have(&format!("resume {number}")).await;
    let seen = outage.await_seen(tag(1), |seen| matches!(seen, Observation::Exited(_))).await;
    let Observation::Exited(exit) = seen else { unreachable!() };
    assert_eq!(exit.cause, ExitCause::Code(0));
}
