//! One attempt of ours at a simulated site: what its wrapper does.

use std::sync::Arc;

use cospan_domain::ids::{AttemptTag, Digest, LrmId, Round, SiteName};
use cospan_domain::job::spec::Executable;
use cospan_domain::planted::{Bug, bug};
use cospan_domain::reserve::ReservationTag;
use cospan_domain::units::{BitsPerSecond, DurationMs, Timestamp};
use cospan_sites::port::{
    AtGate, ExitCause, GateState, InQueue, Observation, PayloadBegin, PayloadExit, SubmitRequest,
};

use super::batch::LrmJobId;

/// The name of the program that simulated sites know. Its first argument is how long
/// it runs in milliseconds, its second its exit code (0 if there is none), its third by
/// how many thousandths of that time it runs longer for each further site of its job.
pub const PROGRAM: &str = "simulated-payload";

/// The path of an executable that no site has, neither simulated nor real.
pub const MISSING_PROGRAM: &str = "/nowhere/missing-program";

/// What an LRM adds to the wall time that it is asked for.
const LRM_MARGIN: DurationMs = DurationMs(60_000);

/// What a payload will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimulatedPayload {
    pub(super) run_time: DurationMs,
    pub(super) code: i32,
    slowdown_per_mille: u64,
    /// There is no such program.
    pub(super) missing: bool,
}

impl SimulatedPayload {
    /// A program that is not ours runs for a second. Of shell scripts only `exit` is understood.
    fn of(order: &SubmitRequest) -> Self {
        let words = &order.program.arguments;
        let script = words
            .get(1)
            .filter(|_| words.first().is_some_and(|word| &**word == "-c"));
        let exits = script.and_then(|script| script.strip_prefix("exit ")?.parse().ok());
        let number = |at: usize| {
            order
                .program
                .arguments
                .get(at)
                .and_then(|word| word.parse().ok())
        };
        let run_time = DurationMs(number(0).unwrap_or(1_000));
        let code = number(1).and_then(|code: u64| i32::try_from(code).ok());
        let code = code.or(exits).unwrap_or(0);
        let slowdown_per_mille = number(2).unwrap_or(0);
        let missing = matches!(&order.program.executable,
            Executable::AtSite(path) if &**path == MISSING_PROGRAM);
        Self {
            run_time,
            code,
            slowdown_per_mille,
            missing,
        }
    }

    /// Its components talk to each other over links: it runs longer for each further site,
    /// and by as much more as the slowest of the links is slower than the fastest of all.
    fn slowed(self, spread: &Spread) -> DurationMs {
        let further = spread.sites.saturating_sub(1) as u128;
        let extra = u128::from(self.run_time.0)
            .saturating_mul(u128::from(self.slowdown_per_mille))
            .saturating_mul(further)
            .saturating_mul(u128::from(spread.fastest.0))
            / (1_000 * u128::from(spread.slowest.0.max(1)));
        DurationMs(
            self.run_time
                .0
                .saturating_add(u64::try_from(extra).unwrap_or(u64::MAX)),
        )
    }
}

/// How a job lies over the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spread {
    /// Different sites of its components.
    pub(super) sites: usize,
    /// What the slowest link between them carries.
    pub(super) slowest: BitsPerSecond,
    /// What the fastest link of the grid carries.
    pub(super) fastest: BitsPerSecond,
}

/// Where an attempt stands at its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttemptStage {
    /// In the queue of the batch system.
    Queued,
    /// Started by the batch system; its wrapper is on its way to the gate.
    Starting,
    /// At the gate.
    AtGate {
        since: Timestamp,
        held_at: Timestamp,
    },
    /// The payload runs.
    Running { since: Timestamp },
    /// The wrapper wrote how it ended.
    Exited(PayloadExit),
    /// The gate was closed, or its directory taken before the wrapper came.
    Void,
    /// Gone without a word.
    Lost { began: bool, detail: &'static str },
}

/// One attempt.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) lrm: LrmJobId,
    pub(super) submitted_at: Timestamp,
    pub(super) processors: u32,
    pub(super) hold_max: DurationMs,
    /// When its payload is ended if it still runs then.
    pub(super) wall_time: DurationMs,
    /// How long it may run, as the batch system knows it.
    pub(super) asked: DurationMs,
    pub(super) payload: SimulatedPayload,
    pub(super) stage: AttemptStage,
    pub(super) decision: Option<(GateState, Round)>,
    /// The last moment at which its payload may begin, by the site's clock.
    pub(super) start_by: Timestamp,
    /// The reservation that it uses.
    pub(super) lease: Option<ReservationTag>,
    /// Told to end while it was on its way to the gate, or at it.
    pub(super) told_to_end: bool,
    /// Until then its scheduler, which was killed, does not know that it started and ended.
    pub(super) forgotten_until: Timestamp,
    /// Contents that its payload reads, and its executable if that was brought.
    pub(super) inputs: Vec<Digest>,
    /// Its payload is told of all components.
    pub(super) lists_hosts: bool,
    /// The host that it runs on.
    host: Arc<str>,
}

impl Attempt {
    pub(super) fn new(
        order: &SubmitRequest,
        lrm: LrmJobId,
        now: Timestamp,
        wall_late: DurationMs,
    ) -> Self {
        Self {
            lrm,
            submitted_at: now,
            processors: order.resources.processors,
            hold_max: order.hold_max,
            wall_time: order.wall_time + wall_late,
            asked: asked(order),
            payload: SimulatedPayload::of(order),
            stage: AttemptStage::Queued,
            decision: None,
            start_by: Timestamp(u64::MAX),
            lease: order.reservation,
            told_to_end: false,
            forgotten_until: Timestamp(0),
            inputs: (order.inputs.iter().map(|(content, _)| content.digest))
                .chain(order.staged_executable)
                .collect(),
            lists_hosts: order.lists_hosts,
            host: host_of(order.tag).into(),
        }
    }

    /// Its payload learns where its peers are.
    pub(super) fn learn(&mut self, spread: &Spread) {
        self.payload.run_time = self.payload.slowed(spread);
    }

    pub(super) fn lrm_id(&self, site: &SiteName) -> LrmId {
        lrm_id(site, self.lrm)
    }

    /// Whether its wrapper made its directory.
    pub(super) fn has_directory(&self) -> bool {
        !matches!(self.stage, AttemptStage::Queued | AttemptStage::Starting)
            && !matches!(self.stage, AttemptStage::Lost { began: false, .. })
    }

    /// Whether it holds or will hold processors.
    pub(super) fn is_live(&self) -> bool {
        let stage = &self.stage;
        !matches!(
            stage,
            AttemptStage::Exited(_) | AttemptStage::Void | AttemptStage::Lost { .. }
        )
    }

    /// Whether its processors are held without a payload.
    pub(super) fn is_holding(&self) -> bool {
        matches!(
            self.stage,
            AttemptStage::Starting | AttemptStage::AtGate { .. }
        )
    }

    /// Where it stands, for tables.
    pub(super) fn step(&self) -> &'static str {
        match self.stage {
            AttemptStage::Queued => "queued",
            AttemptStage::Starting => "starting",
            AttemptStage::AtGate { .. } => "at-gate",
            AttemptStage::Running { .. } => "running",
            AttemptStage::Exited(_) | AttemptStage::Void | AttemptStage::Lost { .. } => "ended",
        }
    }

    /// Whether it waits in the queue under this number.
    pub(super) fn waits_as(&self, job: LrmJobId) -> bool {
        self.stage == AttemptStage::Queued && self.lrm == job
    }

    /// What the site says of it.
    pub(super) fn observe(&self) -> Observation {
        let host = || self.host.clone();
        match &self.stage {
            AttemptStage::Queued | AttemptStage::Starting if bug(Bug::DropTag) => {
                Observation::Absent
            }
            AttemptStage::Queued => Observation::Queued(InQueue::default()),
            AttemptStage::Starting => Observation::Starting,
            AttemptStage::AtGate { since, held_at } => Observation::Ready(AtGate {
                host: host(),
                since: *since,
                held_at: *held_at,
            }),
            AttemptStage::Running { since } => Observation::Begun(PayloadBegin {
                host: host(),
                at: *since,
            }),
            AttemptStage::Exited(exit) => Observation::Exited(exit.clone()),
            AttemptStage::Void => Observation::Void,
            AttemptStage::Lost { began, detail } => Observation::Vanished {
                began: *began,
                detail: (*detail).to_owned(),
            },
        }
    }

    /// How the payload ends if nobody interferes, and after what time.
    pub(super) fn natural_end(&self) -> (DurationMs, ExitCause) {
        if self.payload.run_time <= self.wall_time {
            (self.payload.run_time, ExitCause::Code(self.payload.code))
        } else {
            (self.wall_time, ExitCause::WallTime)
        }
    }
}

/// How long the batch system is asked to let an attempt run.
pub(super) fn asked(order: &SubmitRequest) -> DurationMs {
    DurationMs(order.hold_max.0 + order.wall_time.0 + LRM_MARGIN.0)
}

/// The host that an attempt runs on.
pub fn host_of(tag: AttemptTag) -> String {
    format!("node-{}-{}", tag.component.0, tag.attempt.0)
}

/// The number of a batch job, as adapters show it.
#[allow(
    clippy::expect_used,
    reason = "a site's name and a number always make an id"
)]
pub(super) fn lrm_id(site: &SiteName, job: LrmJobId) -> LrmId {
    LrmId::new(&format!("{}.{site}", job.0)).expect("a valid id")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slowed(sites: usize, slowest: u64) -> u64 {
        let run_time = DurationMs(60_000);
        let payload = SimulatedPayload {
            run_time,
            code: 0,
            slowdown_per_mille: 250,
            missing: false,
        };
        let slowest = BitsPerSecond(slowest);
        let fastest = BitsPerSecond(100);
        payload
            .slowed(&Spread {
                sites,
                slowest,
                fastest,
            })
            .0
    }

    #[test]
    fn a_payload_runs_longer_with_each_site_and_the_slower_its_links_are() {
        assert_eq!(
            [1, 2, 3].map(|sites| slowed(sites, 100)),
            [60_000, 75_000, 90_000]
        );
        assert_eq!(
            [100, 50, 25].map(|slowest| slowed(2, slowest)),
            [75_000, 90_000, 120_000]
        );
        assert!(
            slowed(2, 0) > 1_000_000,
            "as good as never over a link that is cut"
        );
    }
}
