//! Draws how a job is run.

use cospan_domain::acquisition::{
    Acquisition, AcquisitionMode, AcquisitionOptions, AlternativeShape, MoldingOptions,
    QueueTimeLimits,
};
use cospan_domain::bid::{DimensionWeight, DimensionWeights};
use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::SiteQueueWait;
use cospan_domain::runner::{
    EndWarning, PayloadSignal, RestartScope, RunOptions, SignalReceiver, SweepTask,
};
use cospan_domain::units::DurationMs;

use super::Draw;

impl Draw {
    pub(super) fn run_options(&mut self) -> RunOptions {
        const SIGNALS: [PayloadSignal; 5] = [
            PayloadSignal::Usr1,
            PayloadSignal::Usr2,
            PayloadSignal::Term,
            PayloadSignal::Int,
            PayloadSignal::Hup,
        ];
        RunOptions {
            runner: self.maybe(Self::name),
            task: self.maybe(|draw| SweepTask {
                group: JobId(draw.n64()),
                index: draw.n32(),
                count: draw.n32(),
                at_once: draw.maybe(Self::n32),
                values: draw.pairs(),
            }),
            warning: self.maybe(|draw| EndWarning {
                signal: draw.one(&SIGNALS),
                before: DurationMs(draw.n64()),
                to: draw.one(&[
                    SignalReceiver::Payload,
                    SignalReceiver::Script,
                    SignalReceiver::Steps,
                ]),
            }),
            notify: self.some(Self::name),
            restart_scope: self.one(&[RestartScope::Job, RestartScope::Component]),
            acquisition: AcquisitionOptions {
                mode: self.one(&AcquisitionMode::ALL),
                limits: self.queue_limits(),
            },
            weights: self.maybe(Self::weights),
            reservation: self.maybe(Self::wish),
            preferences: self.maybe(Self::preferences),
            within: self.maybe(Self::name),
            molding: MoldingOptions {
                overhead: self.n32(),
                shapes: self.some(|draw| AlternativeShape {
                    processors: draw.n32(),
                    run_time: DurationMs(draw.n64()),
                }),
            },
        }
    }

    fn weights(&mut self) -> DimensionWeights {
        let named = DimensionWeights::default();
        let drawn = named.by_name().map(|(name, _)| {
            (
                name,
                DimensionWeight::from_thousandths(self.n32() % 1_000_001)
                    .unwrap_or(DimensionWeight::ONE),
            )
        });
        DimensionWeights::from_named(drawn).unwrap_or_default()
    }

    pub(super) fn acquisition(&mut self) -> Acquisition {
        match self.below(3) {
            0 => Acquisition::ClaimNow,
            1 => Acquisition::Queue(self.queue_limits()),
            _ => Acquisition::Reserved(self.promised()),
        }
    }

    fn queue_limits(&mut self) -> QueueTimeLimits {
        QueueTimeLimits {
            deadline: DurationMs(self.n64()),
            max_hold: DurationMs(self.n64()),
        }
    }

    pub(super) fn waits(&mut self) -> SiteQueueWait {
        SiteQueueWait {
            since: self.at(),
            expected_start: self.maybe(Self::at),
            told_at: self.maybe(Self::at),
        }
    }
}
