//! The probe of our own: a payload that does nothing, sent where all errors in a row are one
//! owner's. It goes the way of every attempt, but is nobody's job.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, Epoch, Round, SiteName};
use cospan_domain::job::spec::{ExecutableSource, Program};
use cospan_domain::site::barred_owners_record::{OWN_PROBE_JOB, OWN_PROBE_PATIENCE, OwnProbe};
use cospan_domain::site::site_command::{ProbeOutcome, SiteCommand};
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::{
    AttemptObservation, AttemptSubmitRequest, ErrorBlame, ExitCause, GateDecision, GoDecision,
    RoundPeer, Site, SiteCallKind, SiteError,
};
use tracing::info;

use super::ClusterActor;
use super::calls::count_call;
use crate::metrics::ControlPlaneMetrics;

/// The probe's payload: every machine has it.
const PROGRAM: &str = "true";
/// More than a payload that does nothing takes anywhere.
const WALL_TIME: DurationMs = DurationMs::from_secs(60);
/// The pauses between two looks at the probe, at first and at most.
const LOOK: DurationMs = DurationMs(100);
const LOOK_MAX: DurationMs = DurationMs(15_000);
/// The next look comes after this part of the time for which the probe has been under way.
const LOOK_PART: u64 = 4;

/// This life's knowledge of the probe.
#[derive(Debug, Default)]
pub(super) struct OwnProbeProgress {
    /// A step of the probe is being taken.
    busy: bool,
    /// No step is taken before this time.
    next_at: Timestamp,
    /// The latest attempt that was submitted, or may have been.
    submitted: Option<Attempt>,
    /// The time since which the site can be reached, as far as this life saw it.
    reached_since: Option<Timestamp>,
}

/// The result of a step.
enum ProbeStepOutcome {
    /// The probe goes on.
    Nothing,
    /// The site has no room for it yet, or cannot be reached: the probe was not submitted.
    NotYet,
    /// The probe is over.
    Over(ProbeOutcome, String),
}

/// Returns true if an attempt found at a site is the probe that is under way there.
pub(super) fn is_current_probe(tag: &AttemptTag, record: Option<&SiteRecord>) -> bool {
    let current = record.and_then(|record| record.own_probe.as_ref());
    tag.job == OWN_PROBE_JOB && current.is_some_and(|probe| probe.number == tag.attempt)
}

impl ClusterActor {
    /// Takes the next step of the probe that the record wants, if any.
    pub(super) fn advance_own_probe(&mut self, ctx: &mut Context<Self>) {
        // Decisions made meanwhile are written first; then this is called again.
        if self.sent.busy || self.record.is_writing() || self.record.has_commands() {
            return;
        }
        let Some(probe) = self.record.state().own_probe.clone() else {
            return;
        };
        let now = self.now();
        if !self.can_reach_for_probe() {
            // The time that passes meanwhile tells nothing of the probe.
            self.sent.reached_since = None;
            return;
        }
        let reached_since = *self.sent.reached_since.get_or_insert(now);
        if now < self.sent.next_at {
            return;
        }
        self.sent.busy = true;
        let ends = probe.gives_up_at().max(reached_since + OWN_PROBE_PATIENCE);
        let step = ProbeStep {
            is_last: now >= ends,
            ..self.next_probe_step(&probe, now)
        };
        let permits = self.calls.clone();
        let site = self.site.clone();
        let metrics = self.shared.metrics.clone();
        let taken = async move {
            let Ok(_permit) = permits.acquire_owned().await else {
                return ProbeStepOutcome::NotYet;
            };
            step.take_step(&*site, &metrics).await
        };
        ctx.spawn(taken.into_actor(self).map(move |told, this, ctx| {
            this.sent.busy = false;
            match told {
                ProbeStepOutcome::Over(ProbeOutcome::Failed, why)
                    if !this.can_reach_for_probe() =>
                {
                    // A site that cannot be reached may be well.
                    return this.end_own_probe(&probe, ProbeOutcome::Inconclusive, why, ctx);
                }
                ProbeStepOutcome::Over(outcome, why) => {
                    return this.end_own_probe(&probe, outcome, why, ctx);
                }
                ProbeStepOutcome::NotYet => {}
                ProbeStepOutcome::Nothing => {
                    this.sent.submitted = Some(probe.number);
                    this.left_there = true;
                }
            }
            let now = this.now();
            let pause = DurationMs(now.since(probe.since).0 / LOOK_PART).clamp(LOOK, LOOK_MAX);
            // Looks before then do not ask the site again.
            this.sent.next_at = now + DurationMs(pause.0 / 2);
            ctx.run_later(Duration::from_millis(pause.0), Self::advance_own_probe);
        }));
    }

    fn can_reach_for_probe(&self) -> bool {
        self.contact.contact().is_answering() && !self.shared.live.is_isolated()
    }

    fn next_probe_step(&self, probe: &OwnProbe, now: Timestamp) -> ProbeStep {
        ProbeStep {
            tag: probe.tag(self.shared.instance, &self.name),
            site: self.name.clone(),
            epoch: self.shared.epoch,
            is_submitted: self.sent.submitted == Some(probe.number),
            is_last: false,
            now,
            start_by: now + self.report.observed.clock + self.shared.settings.job.go_grace,
        }
    }

    fn end_own_probe(
        &mut self,
        probe: &OwnProbe,
        outcome: ProbeOutcome,
        why: String,
        ctx: &mut Context<Self>,
    ) {
        info!(site = %self.name, owner = %probe.owner, ?outcome, why, "our own probe is over");
        let told = match outcome {
            ProbeOutcome::Succeeded => "succeeded",
            ProbeOutcome::Failed => "failed",
            ProbeOutcome::Inconclusive => "inconclusive",
        };
        self.shared
            .metrics
            .own_probes
            .with_label_values(&[told])
            .inc();
        let number = probe.number;
        let jitter = self.draw_jitter_share();
        let detail = why.into();
        self.record.push_command(
            SiteCommand::OwnProbeOver {
                number,
                outcome,
                detail,
                jitter,
            },
            None,
        );
        self.commit_record(ctx);
    }
}

/// A step: submit the probe if that is still to do, and open its gate once it is there.
struct ProbeStep {
    tag: AttemptTag,
    site: SiteName,
    epoch: Epoch,
    is_submitted: bool,
    /// The probe is given up unless it has reported by now.
    is_last: bool,
    now: Timestamp,
    start_by: Timestamp,
}

impl ProbeStep {
    async fn take_step(self, site: &dyn Site, metrics: &ControlPlaneMetrics) -> ProbeStepOutcome {
        if !self.is_submitted && !self.is_last {
            let submitted = site.queue().submit(&self.make_submit_request()).await;
            count_call(metrics, SiteCallKind::Submit, &submitted);
            match submitted {
                // The tag shows whether it was submitted.
                Ok(_) | Err(SiteError::OutcomeUnknown(_)) => {}
                Err(
                    SiteError::SiteFull(_)
                    | SiteError::LockedOut(_)
                    | SiteError::OutOfOrder(_)
                    | SiteError::NotSent(_),
                ) => return ProbeStepOutcome::NotYet,
                Err(SiteError::Unfit(why)) => {
                    return ProbeStepOutcome::Over(ProbeOutcome::Inconclusive, why);
                }
                Err(SiteError::Refused(why)) => {
                    return ProbeStepOutcome::Over(ProbeOutcome::Failed, why);
                }
            }
        }
        let status = site.queue().status(&[self.tag]).await;
        count_call(metrics, SiteCallKind::Status, &status);
        let Ok(mut status) = status else {
            return if self.is_last {
                ProbeStepOutcome::NotYet
            } else {
                ProbeStepOutcome::Nothing
            };
        };
        let seen = status.attempts.remove(&self.tag);
        if self.is_last {
            return match seen.map(judge_observation) {
                Some(over @ ProbeStepOutcome::Over(..)) => over,
                _ => {
                    let why = format!("it sent no news for {OWN_PROBE_PATIENCE}");
                    ProbeStepOutcome::Over(ProbeOutcome::Inconclusive, why)
                }
            };
        }
        match seen {
            Some(AttemptObservation::Ready(at_gate)) => {
                let go = GateDecision::Go(self.make_go_decision(&at_gate.host));
                let decided = site.gate().decide_gate(self.tag, &go).await;
                count_call(metrics, SiteCallKind::DecideGate, &decided);
                ProbeStepOutcome::Nothing
            }
            Some(seen) => judge_observation(seen),
            None => ProbeStepOutcome::Nothing,
        }
    }

    fn make_submit_request(&self) -> AttemptSubmitRequest {
        let program = Program {
            executable: ExecutableSource::AtSite(PROGRAM.into()),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: None,
            setup: Vec::new(),
        };
        let plain = AttemptSubmitRequest::with_one_processor(self.tag, program, WALL_TIME);
        let hold_max = OWN_PROBE_PATIENCE;
        AttemptSubmitRequest {
            epoch: self.epoch,
            hold_max,
            name: Some("probe".into()),
            ..plain
        }
    }

    fn make_go_decision(&self, host: &str) -> GoDecision {
        let attempt = self.tag.attempt;
        let site = self.site.clone();
        let host = host.to_owned();
        GoDecision {
            round: Round(1),
            epoch: self.epoch,
            start_at: self.now,
            start_by: self.start_by,
            rank: ComponentIndex(0),
            peers: vec![RoundPeer {
                attempt,
                site,
                host,
                processors: 1,
            }],
        }
    }
}

/// Judges an observation of the probe. It blames the site only for what no payload beside the probe
/// could have caused.
fn judge_observation(seen: AttemptObservation) -> ProbeStepOutcome {
    use ProbeStepOutcome::Over;
    match seen {
        AttemptObservation::Absent
        | AttemptObservation::Queued(_)
        | AttemptObservation::Starting
        | AttemptObservation::Ready(_)
        | AttemptObservation::Begun(_)
        | AttemptObservation::Unknown(_) => ProbeStepOutcome::Nothing,
        AttemptObservation::Exited(exit) => match exit.cause {
            ExitCause::Code(0) => Over(ProbeOutcome::Succeeded, "it ran".to_owned()),
            ExitCause::Code(code) => Over(ProbeOutcome::Failed, format!("exit code {code}")),
            ExitCause::CouldNotStart(why) => Over(ProbeOutcome::Failed, why),
            ExitCause::WallTime => {
                Over(ProbeOutcome::Failed, format!("not over within {WALL_TIME}"))
            }
            ExitCause::Signal(signal) => {
                Over(ProbeOutcome::Inconclusive, format!("signal {signal}"))
            }
            ExitCause::Terminated | ExitCause::Requeued => {
                Over(ProbeOutcome::Inconclusive, "told to end".to_owned())
            }
            ExitCause::TooLate => Over(
                ProbeOutcome::Inconclusive,
                "its gate opened late".to_owned(),
            ),
        },
        AttemptObservation::Void => {
            Over(ProbeOutcome::Inconclusive, "its gate was closed".to_owned())
        }
        AttemptObservation::Vanished { detail, .. } => Over(ProbeOutcome::Failed, detail),
        AttemptObservation::Ended { why, detail, .. } => match why.whose_error() {
            ErrorBlame::Site => Over(ProbeOutcome::Failed, detail),
            ErrorBlame::Job | ErrorBlame::Nobody => Over(ProbeOutcome::Inconclusive, detail),
        },
    }
}
