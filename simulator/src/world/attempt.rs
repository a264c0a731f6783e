//! An attempt of ours at a simulated site, with the behaviour of its wrapper.

use std::sync::Arc;

use cospan_domain::ids::{AttemptTag, Digest, LrmId, Round, SiteName};
use cospan_domain::job::spec::ExecutableSource;
use cospan_domain::reservation::ReservationTag;
use cospan_domain::units::{BitsPerSecond, DurationMs, Timestamp};
use cospan_sites::port::{
    AttemptAtGate, AttemptObservation, AttemptSubmitRequest, ExitCause, GateState, PayloadExit,
    QueuedAttempt, RunningPayload,
};

use super::batch::LrmJobId;

/// The name of the program that simulated sites know. Its arguments are the run time in
/// milliseconds, the exit code (0 if missing), and the thousandths of that time by which it runs
/// longer for each further site of its job.
pub const PROGRAM: &str = "simulated-payload";

/// The path of an executable that no site has, neither simulated nor real.
pub const MISSING_PROGRAM: &str = "/nowhere/missing-program";

/// Time that a batch system adds to the requested wall time.
const LRM_MARGIN: DurationMs = DurationMs(60_000);

/// The behaviour of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimulatedPayload {
    pub(super) run_time: DurationMs,
    pub(super) code: i32,
    slowdown_per_mille: u64,
    /// True if there is no such program.
    pub(super) missing: bool,
}

impl SimulatedPayload {
    /// Reads the payload of an attempt. A program that is not ours runs for a second. Of shell
    /// scripts only `exit` is understood.
    fn from_order(order: &AttemptSubmitRequest) -> Self {
        let words = &order.program.arguments;
        let script = words
            .get(1)
            .filter(|_| words.first().is_some_and(|word| &**word == "-c"));
        let exits = script.and_then(|script| script.strip_prefix("exit ")?.parse().ok());
        let run_time = DurationMs(number_argument(order, 0).unwrap_or(1_000));
        let code = number_argument(order, 1).and_then(|code| i32::try_from(code).ok());
        let code = code.or(exits).unwrap_or(0);
        let slowdown_per_mille = number_argument(order, 2).unwrap_or(0);
        let missing = matches!(&order.program.executable,
            ExecutableSource::AtSite(path) if &**path == MISSING_PROGRAM);
        Self {
            run_time,
            code,
            slowdown_per_mille,
            missing,
        }
    }

    /// Returns the run time over several sites: the components communicate over links, so the
    /// payload runs longer for each further site, in proportion to how much slower the slowest of
    /// these links is than the fastest of all.
    fn slowed_run_time(self, spread: &JobSpread) -> DurationMs {
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

fn number_argument(order: &AttemptSubmitRequest, at: usize) -> Option<u64> {
    order.program.arguments.get(at)?.parse().ok()
}

/// The distribution of a job over the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobSpread {
    /// Number of different sites of its components.
    pub(super) sites: usize,
    /// Bandwidth of the slowest link between them.
    pub(super) slowest: BitsPerSecond,
    /// Bandwidth of the fastest link of the grid.
    pub(super) fastest: BitsPerSecond,
}

/// The stage of an attempt at its site.
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
    /// The wrapper wrote the exit.
    Exited(PayloadExit),
    /// The gate was closed, or its directory was taken before the wrapper came.
    Void,
    /// Gone without a trace.
    Lost { began: bool, detail: &'static str },
}

#[derive(Debug, Clone)]
pub(super) struct SimulatedAttempt {
    pub(super) lrm: LrmJobId,
    pub(super) submitted_at: Timestamp,
    pub(super) processors: u32,
    pub(super) hold_max: DurationMs,
    /// Time after which its payload is ended if it still runs.
    pub(super) wall_time: DurationMs,
    /// Longest run time as requested from the batch system.
    pub(super) asked: DurationMs,
    pub(super) payload: SimulatedPayload,
    pub(super) stage: AttemptStage,
    pub(super) decision: Option<(GateState, Round)>,
    /// Last moment at which its payload may begin, by the site's clock.
    pub(super) start_by: Timestamp,
    /// Reservation that it uses.
    pub(super) lease: Option<ReservationTag>,
    /// True if it was asked to end while on its way to the gate, or at it.
    pub(super) told_to_end: bool,
    /// Time until which its batch system, which was killed, does not know that it started and
    /// ended.
    pub(super) forgotten_until: Timestamp,
    /// Contents that its payload reads, including its executable if that was brought.
    pub(super) inputs: Vec<Digest>,
    /// True if its payload gets a list of all components.
    pub(super) lists_hosts: bool,
    /// Host on which it runs.
    host: Arc<str>,
}

impl SimulatedAttempt {
    pub(super) fn new(
        order: &AttemptSubmitRequest,
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
            asked: requested_run_time(order),
            payload: SimulatedPayload::from_order(order),
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

    /// Gives the payload the places of its peers.
    pub(super) fn apply_spread(&mut self, spread: &JobSpread) {
        self.payload.run_time = self.payload.slowed_run_time(spread);
    }

    pub(super) fn lrm_id(&self, site: &SiteName) -> LrmId {
        lrm_id(site, self.lrm)
    }

    /// Returns true if its wrapper has made its directory.
    pub(super) fn has_directory(&self) -> bool {
        !matches!(self.stage, AttemptStage::Queued | AttemptStage::Starting)
            && !matches!(self.stage, AttemptStage::Lost { began: false, .. })
    }

    /// Returns true if it holds or will hold processors.
    pub(super) fn is_live(&self) -> bool {
        let stage = &self.stage;
        !matches!(
            stage,
            AttemptStage::Exited(_) | AttemptStage::Void | AttemptStage::Lost { .. }
        )
    }

    /// Returns true if it holds processors without a payload.
    pub(super) fn holds_without_payload(&self) -> bool {
        matches!(
            self.stage,
            AttemptStage::Starting | AttemptStage::AtGate { .. }
        )
    }

    /// Returns its stage, for tables.
    pub(super) fn stage_name(&self) -> &'static str {
        match self.stage {
            AttemptStage::Queued => "queued",
            AttemptStage::Starting => "starting",
            AttemptStage::AtGate { .. } => "at-gate",
            AttemptStage::Running { .. } => "running",
            AttemptStage::Exited(_) | AttemptStage::Void | AttemptStage::Lost { .. } => "ended",
        }
    }

    /// Returns true if it waits in the queue under this number.
    pub(super) fn is_queued_as(&self, job: LrmJobId) -> bool {
        self.stage == AttemptStage::Queued && self.lrm == job
    }

    /// Returns what the site observes of it.
    pub(super) fn observe_stage(&self) -> AttemptObservation {
        match &self.stage {
            AttemptStage::Queued => AttemptObservation::Queued(QueuedAttempt::default()),
            AttemptStage::Starting => AttemptObservation::Starting,
            AttemptStage::AtGate { since, held_at } => AttemptObservation::Ready(AttemptAtGate {
                host: self.host.clone(),
                since: *since,
                held_at: *held_at,
            }),
            AttemptStage::Running { since } => AttemptObservation::Begun(RunningPayload {
                host: self.host.clone(),
                at: *since,
            }),
            AttemptStage::Exited(exit) => AttemptObservation::Exited(exit.clone()),
            AttemptStage::Void => AttemptObservation::Void,
            AttemptStage::Lost { began, detail } => AttemptObservation::Vanished {
                began: *began,
                detail: (*detail).to_owned(),
            },
        }
    }

    /// Returns the end of the payload if nobody interferes, and the time until then.
    pub(super) fn natural_end(&self) -> (DurationMs, ExitCause) {
        if self.payload.run_time <= self.wall_time {
            (self.payload.run_time, ExitCause::Code(self.payload.code))
        } else {
            (self.wall_time, ExitCause::WallTime)
        }
    }
}

/// Returns the run time to request from the batch system.
pub(super) fn requested_run_time(order: &AttemptSubmitRequest) -> DurationMs {
    DurationMs(order.hold_max.0 + order.wall_time.0 + LRM_MARGIN.0)
}

/// Returns the host on which an attempt runs.
pub fn host_of(tag: AttemptTag) -> String {
    format!("node-{}-{}", tag.component.0, tag.attempt.0)
}

/// Returns the number of a batch job in the form of the adapters.
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

    fn slowed_run_time_ms(sites: usize, slowest: u64) -> u64 {
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
            .slowed_run_time(&JobSpread {
                sites,
                slowest,
                fastest,
            })
            .0
    }

    #[test]
    fn a_payload_runs_longer_with_each_site_and_the_slower_its_links_are() {
        assert_eq!(
            [1, 2, 3].map(|sites| slowed_run_time_ms(sites, 100)),
            [60_000, 75_000, 90_000]
        );
        assert_eq!(
            [100, 50, 25].map(|slowest| slowed_run_time_ms(2, slowest)),
            [75_000, 90_000, 120_000]
        );
        assert!(
            slowed_run_time_ms(2, 0) > 1_000_000,
            "as good as never over a link that is cut"
        );
    }
}
