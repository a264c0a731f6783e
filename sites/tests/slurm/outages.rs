//! A controller that is killed right after it acknowledged something, or frozen until its
//! clients give up: nothing is lost, and nothing done twice.
//!
//! Only root can do that to it: `COSPAN_TEST_SLURM_ORDERS` names a directory in which
//! `slurm.sh obey` looks for orders. Once a controller was killed, `obey` also does what an
//! operator has to: Slurm drains a node on which it gave out a number twice, and nothing starts
//! there. It cancels what has that number, so whoever comes next gets others.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::ids::{Attempt, AttemptTag, JobId};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;
use cospan_sites::contract::{
    SiteFixture, attempt_tag, go_decision, script_program, submit_request,
};
use cospan_sites::port::{
    AttemptObservation, AttemptSubmitRequest, ExitCause, GateDecision, Site, SiteError,
};

use super::fixture::SlurmSiteFixture;

/// Jobs of one test.
const MANY: u64 = 5;

/// Everything comes to its end within this, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

struct Outage {
    fixture: SlurmSiteFixture,
    site: Arc<dyn Site>,
    orders: PathBuf,
    was_killed: Cell<bool>,
}

impl Outage {
    fn offered() -> Option<Self> {
        let fixture = SlurmSiteFixture::offered()?;
        let orders = fixture.orders()?;
        let site = fixture.site();
        Some(Self {
            fixture,
            site,
            orders,
            was_killed: Cell::new(false),
        })
    }

    /// Has something done to the controller, and waits until it is.
    async fn have(&self, what: &str) {
        self.was_killed.set(self.was_killed.get() || what == "kill");
        self.order(what);
        within("the order is carried out", || async {
            self.is_done().then_some(())
        })
        .await;
    }

    fn order(&self, what: &str) {
        let aside = self.orders.join("order.new");
        std::fs::write(&aside, what).unwrap();
        std::fs::rename(aside, self.orders.join("order")).unwrap();
    }

    fn is_done(&self) -> bool {
        !self.orders.join("order").exists()
    }

    fn ran(&self) -> PathBuf {
        self.fixture.root().with_file_name("ran")
    }

    /// A payload that writes down that it runs, and if another of its job runs at that time.
    fn payload(&self, tag: AttemptTag) -> AttemptSubmitRequest {
        let ran = self.ran().display().to_string();
        let text = format!(
            "exec 9> '{ran}'.$COSPAN_JOB; flock -n 9 || echo beside >> '{ran}'
             echo \"$COSPAN_TAG\" >> '{ran}'; sleep 0.5"
        );
        submit_request(tag, script_program(&text))
    }

    /// Every attempt that ran, as often as it did.
    fn attempts_that_ran(&self) -> Vec<AttemptTag> {
        let text = std::fs::read_to_string(self.ran()).unwrap_or_default();
        text.lines()
            .map(|line: &str| line.parse().unwrap_or_else(|_| panic!("{line}:\n{text}")))
            .collect()
    }

    fn assert_each_ran_at_most_once(&self) {
        let ran = self.attempts_that_ran();
        let different: BTreeSet<&AttemptTag> = ran.iter().collect();
        assert_eq!(different.len(), ran.len(), "some ran twice: {ran:?}");
    }

    /// Opens gates that need no controller, until their payloads are over.
    async fn run_to_exit(&self, tags: &[AttemptTag]) {
        let attempts = self.fixture.root().join("attempts");
        for tag in tags {
            within("its gate opens", || async {
                self.site
                    .gate()
                    .decide_gate(*tag, &go_decision())
                    .await
                    .ok()
            })
            .await;
            let exit = attempts.join(tag.to_string()).join("exit");
            within("it is over", || async { exit.exists().then_some(()) }).await;
        }
    }

    /// What becomes of one attempt: what is to be done next for its job, if anything is.
    async fn step(&self, tag: AttemptTag, seen: &AttemptObservation) -> Next {
        match seen {
            AttemptObservation::Ready(_) => {
                // It may be gone meanwhile, or not to be reached.
                let _ = self.site.gate().decide_gate(tag, &go_decision()).await;
                Next::Wait
            }
            AttemptObservation::Exited(exit) if exit.cause == ExitCause::Code(0) => Next::Over,
            AttemptObservation::Absent
            | AttemptObservation::Void
            | AttemptObservation::Exited(_)
            | AttemptObservation::Vanished { .. }
            | AttemptObservation::Ended { .. } => Next::Again,
            AttemptObservation::Queued(_)
            | AttemptObservation::Starting
            | AttemptObservation::Begun(_)
            | AttemptObservation::Unknown(_) => Next::Wait,
        }
    }

    /// Takes jobs to their end, as a control plane does: what has ended without success or is
    /// nowhere is kept from ever running, and only then another attempt follows.
    async fn finish(&self, tags: impl IntoIterator<Item = AttemptTag>) {
        let mut alive: BTreeMap<JobId, AttemptTag> =
            tags.into_iter().map(|tag| (tag.job, tag)).collect();
        let started = Instant::now();
        let mut last = String::new();
        while !alive.is_empty() {
            assert!(
                started.elapsed() < PATIENCE,
                "not over within {PATIENCE:?}: {last}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
            let tags: Vec<AttemptTag> = alive.values().copied().collect();
            let Ok(status) = self.site.queue().status(&tags).await else {
                continue;
            };
            last = format!("{:?}", status.attempts);
            for (tag, seen) in status.attempts {
                match self.step(tag, &seen).await {
                    Next::Wait => {}
                    Next::Over => drop(alive.remove(&tag.job)),
                    Next::Again => {
                        if let Some(next) = self.again(tag).await {
                            alive.insert(tag.job, next);
                        }
                    }
                }
            }
        }
    }

    /// The attempt that follows one, if that could be kept from ever running.
    async fn again(&self, tag: AttemptTag) -> Option<AttemptTag> {
        self.site
            .gate()
            .decide_gate(tag, &GateDecision::Void)
            .await
            .ok()?;
        self.site.queue().cancel(tag, None).await.ok()?;
        let next = AttemptTag {
            attempt: Attempt(tag.attempt.0 + 1),
            ..tag
        };
        within("Slurm takes another attempt", || async {
            self.site.queue().submit(&self.payload(next)).await.ok()
        })
        .await;
        Some(next)
    }

    async fn await_seen(
        &self,
        tag: AttemptTag,
        awaited: impl Fn(&AttemptObservation) -> bool,
    ) -> AttemptObservation {
        within("it is seen", || async {
            let status = self.site.queue().status(&[tag]).await.ok()?;
            Some(status.attempts[&tag].clone()).filter(&awaited)
        })
        .await
    }

    async fn await_empty_queue(&self) {
        let root = self.fixture.root().display().to_string();
        within("the queue is empty", || async {
            let queue = self.fixture.slurm(&["squeue", "-h", "-o", "%T %Z"]);
            (!queue.contains(&root)).then_some(())
        })
        .await;
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if !self.was_killed.get() {
            return;
        }
        self.order("renumber");
        let started = Instant::now();
        while !self.is_done() && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

enum Next {
    Wait,
    Over,
    Again,
}

async fn within<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What Slurm forgot is found to be absent, never while it is away, and given to it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_acknowledged_before_a_kill_are_not_lost_or_doubled() {
    let Some(outage) = Outage::offered() else {
        return;
    };
    for number in 0..MANY {
        outage
            .site
            .queue()
            .submit(&outage.payload(attempt_tag(number)))
            .await
            .unwrap();
    }
    outage.have("kill").await;
    let away = outage.site.queue().find_by_tag(attempt_tag(0)).await;
    assert!(
        matches!(
            away,
            Err(SiteError::NotSent(_) | SiteError::OutcomeUnknown(_))
        ),
        "{away:?}"
    );
    let told = outage.site.queue().status(&[attempt_tag(0)]).await;
    // What its files say is known, and Slurm's silence is said with it.
    let is_known = told.as_ref().is_ok_and(|status| {
        status.silence.is_none()
            || status.attempts.get(&attempt_tag(0)) == Some(&AttemptObservation::Absent)
    });
    assert!(!is_known, "nothing is told of what nobody knows: {told:?}");
    outage.have("up").await;
    outage.finish((0..MANY).map(attempt_tag)).await;
    outage.await_empty_queue().await;
    outage.assert_each_ran_at_most_once();
}

/// Slurm writes down every five seconds what it knows: then that they wait, and not yet that
/// they were cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_that_a_killed_controller_forgot_hold() {
    let Some(outage) = Outage::offered() else {
        return;
    };
    let site = &outage.site;
    let total = site.monitor().describe().await.unwrap().total;
    let mut filler = submit_request(attempt_tag(100), script_program("sleep 600"));
    filler.resources = Resources::processors(total.processors);
    site.queue().submit(&filler).await.unwrap();
    outage
        .await_seen(attempt_tag(100), |seen| {
            matches!(seen, AttemptObservation::Ready(_))
        })
        .await;
    for number in 0..MANY {
        site.queue()
            .submit(&outage.payload(attempt_tag(number)))
            .await
            .unwrap();
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    for number in 0..MANY {
        site.queue()
            .cancel(attempt_tag(number), None)
            .await
            .unwrap();
    }
    outage.have("kill").await;
    outage.have("up").await;
    within("the filler ends", || async {
        site.queue().cancel(attempt_tag(100), None).await.ok()
    })
    .await;
    // Whatever came back begins now, and ends at its closed gate.
    outage.await_empty_queue().await;
    assert_eq!(outage.attempts_that_ran(), [], "none of them began");
    for number in 0..MANY {
        let seen = site
            .queue()
            .status(&[attempt_tag(number)])
            .await
            .unwrap()
            .attempts[&attempt_tag(number)]
            .clone();
        assert!(
            !matches!(
                seen,
                AttemptObservation::Begun(_) | AttemptObservation::Exited(_)
            ),
            "{seen:?}"
        );
    }
}

/// Slurm has not told the node yet that they are to end, or has: whoever cancels looks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_whose_cancel_a_killed_controller_forgot_end_when_it_is_repeated() {
    let Some(outage) = Outage::offered() else {
        return;
    };
    let site = &outage.site;
    let tags: Vec<AttemptTag> = (0..MANY).map(attempt_tag).collect();
    for tag in &tags {
        site.queue()
            .submit(&submit_request(*tag, script_program("sleep 600")))
            .await
            .unwrap();
    }
    for tag in &tags {
        outage
            .await_seen(*tag, |seen| matches!(seen, AttemptObservation::Ready(_)))
            .await;
        site.gate().decide_gate(*tag, &go_decision()).await.unwrap();
    }
    for tag in &tags {
        outage
            .await_seen(*tag, |seen| matches!(seen, AttemptObservation::Begun(_)))
            .await;
    }
    for tag in &tags {
        site.queue().cancel(*tag, None).await.unwrap();
    }
    outage.have("kill").await;
    outage.have("up").await;
    for tag in tags {
        assert_eq!(
            within("it ends", || async {
                site.queue().cancel(tag, None).await.ok()?;
                let status = site.queue().status(&[tag]).await.ok()?;
                match &status.attempts[&tag] {
                    AttemptObservation::Exited(exit) => Some(exit.cause.clone()),
                    AttemptObservation::Ended { .. } | AttemptObservation::Vanished { .. } => {
                        Some(ExitCause::Terminated)
                    }
                    _ => None,
                }
            })
            .await,
            ExitCause::Terminated,
            "{tag}"
        );
    }
    outage.await_empty_queue().await;
}

/// Slurm writes down every five seconds what it knows: then that they wait. It finds them waiting,
/// starts them anew, and calls them cancelled when their node will not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ended_well_while_its_controller_was_killed_runs_once() {
    let Some(outage) = Outage::offered() else {
        return;
    };
    let site = &outage.site;
    let started = Instant::now();
    let mut tags = Vec::new();
    for round in 0.. {
        assert!(
            started.elapsed() < PATIENCE,
            "the controller forgot nothing in {round} rounds"
        );
        let these: Vec<AttemptTag> = (round * MANY..(round + 1) * MANY)
            .map(attempt_tag)
            .collect();
        tags.extend(&these);
        tokio::time::sleep(Duration::from_secs(6)).await;
        for tag in &these {
            site.queue().submit(&outage.payload(*tag)).await.unwrap();
        }
        for tag in &these {
            outage
                .await_seen(*tag, |seen| matches!(seen, AttemptObservation::Ready(_)))
                .await;
        }
        outage.have("kill").await;
        outage.run_to_exit(&these).await;
        outage.have("up").await;
        let queue = outage.fixture.slurm(&["squeue", "-h", "-o", "%T"]);
        // Then Slurm has its last word.
        outage.await_empty_queue().await;
        outage.finish(these).await;
        let mut ran = outage.attempts_that_ran();
        ran.sort_unstable();
        assert_eq!(ran, tags, "each ran, and once");
        if queue.contains("PENDING") {
            return;
        }
        // What it forgot altogether has numbers that it gives out again, and its node refuses.
        outage.have("renumber").await;
    }
}

/// Whoever gets no answer asks again, and most of all that was asked is done in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_to_a_frozen_controller_run_once() {
    let Some(outage) = Outage::offered() else {
        return;
    };
    let site = &outage.site;
    site.monitor().describe().await.unwrap();
    let orders: Vec<_> = (0..MANY)
        .map(|number| outage.payload(attempt_tag(number)))
        .collect();
    outage.have("freeze").await;
    let mut calls = tokio::task::JoinSet::new();
    for order in orders.clone() {
        let site = site.clone();
        calls.spawn(async move { site.queue().submit(&order).await });
    }
    for answer in calls.join_all().await {
        let is_unknown = matches!(
            answer,
            Err(SiteError::OutcomeUnknown(_) | SiteError::NotSent(_))
        );
        assert!(is_unknown, "{answer:?}");
    }
    outage.have("thaw").await;
    for order in &orders {
        within("Slurm takes it", || async {
            site.queue().submit(order).await.ok()
        })
        .await;
    }
    outage.finish((0..MANY).map(attempt_tag)).await;
    outage.await_empty_queue().await;
    let mut ran = outage.attempts_that_ran();
    ran.sort_unstable();
    assert_eq!(
        ran,
        (0..MANY).map(attempt_tag).collect::<Vec<_>>(),
        "each ran, and once"
    );
}

/// By an operator, for longer than all of its wall time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_slurm_suspends_loses_nothing_of_its_wall_time() {
    let Some(outage) = Outage::offered() else {
        return;
    };
    let site = &outage.site;
    let mut sleeps = submit_request(attempt_tag(1), script_program("sleep 8"));
    sleeps.wall_time = DurationMs::from_secs(6);
    let number = site.queue().submit(&sleeps).await.unwrap().lrm_id;
    outage
        .await_seen(attempt_tag(1), |seen| {
            matches!(seen, AttemptObservation::Ready(_))
        })
        .await;
    site.gate()
        .decide_gate(attempt_tag(1), &go_decision())
        .await
        .unwrap();
    outage
        .await_seen(attempt_tag(1), |seen| {
            matches!(seen, AttemptObservation::Begun(_))
        })
        .await;
    outage.have(&format!("suspend {number}")).await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    outage.have(&format!("resume {number}")).await;
    let seen = outage
        .await_seen(attempt_tag(1), |seen| {
            matches!(seen, AttemptObservation::Exited(_))
        })
        .await;
    let AttemptObservation::Exited(exit) = seen else {
        unreachable!()
    };
    assert_eq!(exit.cause, ExitCause::Code(0));
}

/// What wrappers write is read while `squeue` waits in vain; who ended what is not, and nothing is
/// taken to be gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_and_ends_are_seen_while_the_controller_is_frozen() {
    let Some(outage) = Outage::offered() else {
        return;
    };
    let site = &outage.site;
    for number in 0..2 {
        let text = if number == 0 { "sleep 1" } else { "sleep 600" };
        site.queue()
            .submit(&submit_request(attempt_tag(number), script_program(text)))
            .await
            .unwrap();
        outage
            .await_seen(attempt_tag(number), |seen| {
                matches!(seen, AttemptObservation::Ready(_))
            })
            .await;
    }
    outage.have("freeze").await;
    // Its gate needs nobody's answer.
    for number in 0..2 {
        site.gate()
            .decide_gate(attempt_tag(number), &go_decision())
            .await
            .unwrap();
    }
    outage
        .await_seen(attempt_tag(1), |seen| {
            matches!(seen, AttemptObservation::Begun(_))
        })
        .await;
    within("its end is seen", || async {
        let status = site
            .queue()
            .status(&[attempt_tag(0), attempt_tag(1), attempt_tag(9)])
            .await
            .unwrap();
        let silence = status.silence.as_ref()?;
        assert!(silence.age.is_some(), "{silence}");
        assert!(
            matches!(
                status.attempts[&attempt_tag(9)],
                AttemptObservation::Unknown(_)
            ),
            "{status:?}"
        );
        matches!(
            status.attempts[&attempt_tag(0)],
            AttemptObservation::Exited(_)
        )
        .then_some(())
    })
    .await;
    outage.have("thaw").await;
    let seen = outage
        .await_seen(attempt_tag(0), |seen| {
            matches!(seen, AttemptObservation::Exited(_))
        })
        .await;
    let AttemptObservation::Exited(exit) = seen else {
        unreachable!()
    };
    assert_eq!(exit.cause, ExitCause::Code(0));
    within("the other ends", || async {
        site.queue().cancel(attempt_tag(1), None).await.ok()
    })
    .await;
    outage.await_empty_queue().await;
}
