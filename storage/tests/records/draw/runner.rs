//! Draws how a job is run.

use cospan_domain::acquisition::{
    Acquisition, AcquisitionMode, AcquisitionOptions, Molding, OtherShape, QueueLimits,
};
use cospan_domain::bid::{Weight, Weights};
use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::Waits;
use cospan_domain::runner::{RestartScope, RunOptions, Signal, SweepTask, Warning};
use cospan_domain::units::DurationMs;

use super::Draw;

impl Draw {
    pub(super) fn run_options(&mut self) -> RunOptions {
        const SIGNALS: [Signal; 5] = [
            Signal::Usr1,
            Signal::Usr2,
            Signal::Term,
            Signal::Int,
            Signal::Hup,
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
            warning: self.maybe(|draw| Warning {
                signal: draw.one(&SIGNALS),
                before: DurationMs(draw.n64()),
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
            molding: Molding {
                overhead: self.n32(),
                shapes: self.some(|draw| OtherShape {
                    processors: draw.n32(),
                    run_time: DurationMs(draw.n64()),
                }),
            },
        }
    }

    fn weights(&mut self) -> Weights {
        let named = Weights::default();
        let drawn = named.by_name().map(|(name, _)| {
            (
                name,
                Weight::from_thousandths(self.n32() % 1_000_001).unwrap_or(Weight::ONE),
            )
        });
        Weights::from_named(drawn).unwrap_or_default()
    }

    pub(super) fn acquisition(&mut self) -> Acquisition {
        match self.below(3) {
            0 => Acquisition::ClaimNow,
            1 => Acquisition::Queue(self.queue_limits()),
            _ => Acquisition::Reserved(self.promised()),
        }
    }

    fn queue_limits(&mut self) -> QueueLimits {
        QueueLimits {
            deadline: DurationMs(self.n64()),
            max_hold: DurationMs(self.n64()),
        }
    }

    pub(super) fn waits(&mut self) -> Waits {
        Waits {
            since: self.at(),
            expected_start: self.maybe(Self::at),
            told_at: self.maybe(Self::at),
        }
    }
}
