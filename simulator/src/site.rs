//! The site port over the simulated world: calls take time on their way, and may be lost.

mod reservation_calls;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cospan_actors::clock::Clock;
use cospan_domain::ids::{AttemptTag, Digest, HostName, InstanceId, LrmId, SiteName};
use cospan_domain::units::{Bytes, DurationMs, DurationUs};
use cospan_sites::port::{
    AcceptedAttempt, AttemptObservation, AttemptSubmitRequest, CopyRequest, CopyStatus,
    FileExcerpt, FilePlace, Gate, GateDecision, GateState, InspectedFile, ReadableFile, Site,
    SiteCallKind, SiteCopies, SiteDescription, SiteError, SiteFiles, SiteMonitor, SiteQueue,
    SiteReservations, SiteStatus, TagLookupAnswer,
};

use super::actor_lives::{ActorLives, RecordedActorEvent};
use super::call_faults::{CallFate, CallFaultModel};
use super::fault_kinds::FaultKind;
use super::kill_switch::KillSwitch;
use super::world_handle::WorldHandle;
use crate::world::site_faults::TurnAwayReason;
use crate::world::{SimulatedWorld, SiteIndex};

/// Longest time that a caller waits for a reply.
const DEADLINE: DurationMs = DurationMs(10_000);
/// Longest time after the deadline at which a late request may still arrive.
const LATEST: DurationMs = DurationMs(15_000);
/// The bit of the random number that says that the reply to a doubled request is lost.
const REPLY_LOST: u64 = 1 << 32;
/// Longest time after a thaw until a frozen site carries out its pending requests.
const THAW_LOOK: DurationMs = DurationMs(5_000);

/// A simulated site as seen by one control plane.
#[derive(Clone)]
pub(super) struct SimulatedSite {
    pub(super) name: SiteName,
    pub(super) index: SiteIndex,
    pub(super) world: Arc<WorldHandle>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) call_faults: Arc<CallFaultModel>,
    pub(super) kill_switch: Arc<KillSwitch>,
    pub(super) lives: Arc<ActorLives>,
    /// Instance of the control plane.
    pub(super) instance: InstanceId,
    /// True if the site sends hints about changes; otherwise it is only polled.
    pub(super) hints: bool,
}

async fn pause(length: DurationMs) {
    if length > DurationMs::ZERO {
        tokio::time::sleep(Duration::from_millis(length.0)).await;
    }
}

fn lost_reply_error() -> SiteError {
    SiteError::OutcomeUnknown("no reply within the deadline".into())
}

impl SimulatedSite {
    /// Carries a call to the site and its answer back.
    async fn call_site<T: Send + 'static>(
        &self,
        call: SiteCallKind,
        act: impl Fn(&mut SimulatedWorld, SiteIndex) -> Result<T, SiteError> + Send + Sync + 'static,
    ) -> Result<T, SiteError> {
        self.call_with_fate(self.call_faults.draw_fate(), call, None, act)
            .await
    }

    /// Carries a call like [`SimulatedSite::call_site`]; a fault may answer `pretended` without
    /// carrying it out.
    async fn call_or_pretend<T: Send + 'static>(
        &self,
        call: SiteCallKind,
        pretended: Option<T>,
        act: impl Fn(&mut SimulatedWorld, SiteIndex) -> Result<T, SiteError> + Send + Sync + 'static,
    ) -> Result<T, SiteError> {
        self.call_with_fate(self.call_faults.draw_fate(), call, pretended, act)
            .await
    }

    /// Carries a call whose fate is already drawn.
    pub(super) async fn call_with_fate<T: Send + 'static>(
        &self,
        fate: CallFate,
        call: SiteCallKind,
        pretended: Option<T>,
        act: impl Fn(&mut SimulatedWorld, SiteIndex) -> Result<T, SiteError> + Send + Sync + 'static,
    ) -> Result<T, SiteError> {
        pause(fate.there).await;
        let name = call.as_str();
        if !self.kill_switch.count_call(name) {
            return std::future::pending().await;
        }
        self.call_faults
            .record_call(self.clock.now(), &self.name, name);
        let act = Arc::new(act);
        let fault = fate.fault.filter(|fault| fault.applies_to_call(call));
        let answer = match fault {
            // Nothing goes wrong on the way: the call arrives and is carried out at once.
            None => match self.act_if_open(&*act) {
                Ok(answer) => answer,
                Err(closed) => return self.answer_closed(closed, call, act).await,
            },
            Some(fault) => {
                if let Err(closed) = self.act_if_open(&|_, _| ()) {
                    return self.answer_closed(closed, call, act).await;
                }
                if fault.always_takes_effect() {
                    self.call_faults.count_fault(fault, name);
                }
                self.inject_fault(fault, fate.dice, pretended, act).await
            }
        };
        if fault.is_none_or(FaultKind::is_carried_out_at_site)
            && !self.kill_switch.count_carried_out(name)
        {
            return std::future::pending().await;
        }
        pause(fate.back).await;
        answer
    }

    /// Acts at the site, unless it turns callers away.
    fn act_if_open<T>(
        &self,
        act: &impl Fn(&mut SimulatedWorld, SiteIndex) -> T,
    ) -> Result<T, TurnAwayReason> {
        self.world
            .act_at(self.clock.now(), |world: &mut SimulatedWorld| {
                match world.reason_to_turn_away(self.index, self.instance) {
                    Some(closed) => Err(closed),
                    None => Ok(act(world, self.index)),
                }
            })
    }

    fn carry_out<T>(
        &self,
        act: &impl Fn(&mut SimulatedWorld, SiteIndex) -> Result<T, SiteError>,
    ) -> Result<T, SiteError> {
        self.world
            .act_at(self.clock.now(), |world| act(world, self.index))
    }

    fn schedule_late_act<T: Send + 'static>(
        &self,
        delay: DurationMs,
        act: Arc<
            impl Fn(&mut SimulatedWorld, SiteIndex) -> Result<T, SiteError> + Send + Sync + 'static,
        >,
    ) {
        let site = self.clone();
        actix_rt::spawn(async move {
            pause(delay).await;
            let _ = site.carry_out(&*act);
        });
    }

    /// Answers a caller whom the site turns away.
    async fn answer_closed<T: Send + 'static>(
        &self,
        closed: TurnAwayReason,
        call: SiteCallKind,
        act: Arc<
            impl Fn(&mut SimulatedWorld, SiteIndex) -> Result<T, SiteError> + Send + Sync + 'static,
        >,
    ) -> Result<T, SiteError> {
        match closed {
            TurnAwayReason::Silent => {
                pause(DEADLINE).await;
                return Err(SiteError::NotSent("the site does not answer".into()));
            }
            TurnAwayReason::Revoked => {
                return Err(SiteError::NotSent("permission denied".into()));
            }
            TurnAwayReason::Frozen => {}
        }
        // Requests that the site has accepted by then are carried out after the thaw; the others
        // run under a time-out there.
        if FaultKind::Late.applies_to_call(call) {
            let site = self.clone();
            actix_rt::spawn(async move {
                while site.is_frozen() {
                    pause(THAW_LOOK).await;
                }
                let _ = site.carry_out(&*act);
            });
        }
        pause(DEADLINE).await;
        Err(lost_reply_error())
    }

    fn is_frozen(&self) -> bool {
        self.world
            .read(|world| world.sites()[self.index.index()].present_faults().frozen)
    }

    /// Falsifies a status if the fate says so.
    fn falsify_status(&self, fate: CallFate, status: &mut SiteStatus) {
        let Some(fault) = fate.fault else { return };
        let is_false = match fault {
            FaultKind::Truncated => truncate_status(status, fate.dice),
            FaultKind::WrongIdle => {
                let total = self
                    .world
                    .read(|world| world.sites()[self.index.index()].processors());
                let wrong = (fate.dice % u64::from(total + 1)) as u32;
                std::mem::replace(&mut status.idle.processors, wrong) != wrong
            }
            _ => false,
        };
        if is_false {
            self.call_faults
                .count_fault(fault, SiteCallKind::Status.as_str());
        }
    }

    /// Carries a call out, or not, depending on its fault.
    async fn inject_fault<T: Send + 'static>(
        &self,
        fault: FaultKind,
        dice: u64,
        pretended: Option<T>,
        act: Arc<
            impl Fn(&mut SimulatedWorld, SiteIndex) -> Result<T, SiteError> + Send + Sync + 'static,
        >,
    ) -> Result<T, SiteError> {
        match fault {
            FaultKind::RequestLost => {
                pause(DEADLINE).await;
                Err(lost_reply_error())
            }
            FaultKind::ReplyLost => {
                let _ = self.carry_out(&*act);
                pause(DEADLINE).await;
                Err(lost_reply_error())
            }
            FaultKind::Late => {
                self.schedule_late_act(DurationMs(DEADLINE.0 + dice % LATEST.0), act);
                pause(DEADLINE).await;
                Err(lost_reply_error())
            }
            FaultKind::Doubled => {
                let answer = self.carry_out(&*act);
                self.schedule_late_act(DurationMs(dice % LATEST.0), act);
                // A caller who has its answer does not check how often the request arrived.
                if dice & REPLY_LOST == 0 {
                    return answer;
                }
                pause(DEADLINE).await;
                Err(lost_reply_error())
            }
            FaultKind::Refused => Err(SiteError::Refused("the site is not well".into())),
            FaultKind::NotSent => Err(SiteError::NotSent("connection refused".into())),
            FaultKind::Garbage => {
                let _ = self.carry_out(&*act);
                Err(SiteError::OutcomeUnknown(
                    "the answer cannot be read".into(),
                ))
            }
            FaultKind::NoEffect if pretended.is_some() => pretended.ok_or_else(lost_reply_error),
            // Planned without a report from the hook, as there may be many.
            FaultKind::AdapterPanics => {
                self.lives
                    .record_event(self.clock.now(), RecordedActorEvent::Planted(None));
                resume_unwind(Box::new("an adapter panicked"))
            }
            _ => self.carry_out(&*act),
        }
    }
}

/// Removes what a status says of some attempts. Returns true if it said anything of them.
fn truncate_status(status: &mut SiteStatus, dice: u64) -> bool {
    let kept = dice as usize % status.attempts.len().max(1);
    let mut said = false;
    for seen in status.attempts.values_mut().skip(kept) {
        said |= !matches!(seen, AttemptObservation::Unknown(_));
        *seen = AttemptObservation::Unknown("the answer was cut short".into());
    }
    said
}

#[async_trait]
impl SiteQueue for SimulatedSite {
    async fn status(&self, tags: &[AttemptTag]) -> Result<SiteStatus, SiteError> {
        let fate = self.call_faults.draw_fate();
        let asked = tags.to_vec();
        let mut status = self
            .call_with_fate(
                fate,
                SiteCallKind::Status,
                None,
                move |world: &mut SimulatedWorld, site| Ok(world.status(site, &asked)),
            )
            .await?;
        self.falsify_status(fate, &mut status);
        Ok(status)
    }

    async fn submit(&self, order: &AttemptSubmitRequest) -> Result<AcceptedAttempt, SiteError> {
        let order = order.clone();
        let pretended = LrmId::new(&format!("0.{}", self.name)).ok();
        let pretended = pretended.map(|lrm_id| AcceptedAttempt { lrm_id });
        self.call_or_pretend(SiteCallKind::Submit, pretended, move |world, site| {
            world.submit(site, &order)
        })
        .await
    }

    async fn find_by_tag(&self, tag: AttemptTag) -> Result<TagLookupAnswer, SiteError> {
        self.call_site(SiteCallKind::FindByTag, move |world, site| {
            Ok(world.find_by_tag(site, tag))
        })
        .await
    }

    async fn cancel(&self, tag: AttemptTag, _: Option<&LrmId>) -> Result<(), SiteError> {
        self.call_or_pretend(SiteCallKind::Cancel, Some(()), move |world, site| {
            world.cancel(site, tag);
            Ok(())
        })
        .await
    }

    async fn withdraw(&self, tag: AttemptTag, lrm_id: &LrmId) -> Result<(), SiteError> {
        let lrm_id = lrm_id.clone();
        self.call_or_pretend(SiteCallKind::Cancel, Some(()), move |world, site| {
            world.withdraw(site, tag, &lrm_id);
            Ok(())
        })
        .await
    }

    async fn remove_attempt(&self, tag: AttemptTag) -> Result<(), SiteError> {
        self.call_site(SiteCallKind::RemoveAttempt, move |world, site| {
            world.remove_attempt(site, tag)
        })
        .await
    }

    async fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError> {
        self.call_site(SiteCallKind::ListAttempts, |world, site| {
            Ok(world.list_attempts(site))
        })
        .await
    }
}

#[async_trait]
impl Gate for SimulatedSite {
    async fn decide_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        let decision = decision.clone();
        let kill_switch = self.kill_switch.clone();
        self.call_site(
            SiteCallKind::DecideGate,
            move |world: &mut SimulatedWorld, site| {
                let state = world.decide_gate(site, tag, &decision)?;
                if let GateDecision::Go(go) = &decision
                    && state == GateState::Opened
                    && world.awaits_gates(tag, go)
                {
                    kill_switch.count_gate();
                }
                Ok(state)
            },
        )
        .await
    }
}

#[async_trait]
impl SiteFiles for SimulatedSite {
    async fn inspect(&self, place: &FilePlace) -> Result<InspectedFile, SiteError> {
        let place = place.clone();
        self.call_site(SiteCallKind::Inspect, move |world, site| {
            world.inspect(site, &place)
        })
        .await
    }

    async fn has_content(&self, digest: Digest) -> Result<bool, SiteError> {
        self.call_site(SiteCallKind::HasContent, move |world, site| {
            Ok(world.has_content(site, digest))
        })
        .await
    }

    async fn delete_content(&self, digest: Digest) -> Result<(), SiteError> {
        self.call_site(SiteCallKind::DeleteContent, move |world, site| {
            world.delete_content(site, digest);
            Ok(())
        })
        .await
    }

    async fn read(&self, what: &ReadableFile, _: Bytes, _: u32) -> Result<FileExcerpt, SiteError> {
        let what = what.clone();
        self.call_site(SiteCallKind::Read, move |world, site| {
            world.read(site, &what)
        })
        .await
    }
}

#[async_trait]
impl SiteCopies for SimulatedSite {
    async fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError> {
        let order = order.clone();
        self.call_or_pretend(SiteCallKind::StartCopy, Some(()), move |world, site| {
            world.start_copy(site, &order)
        })
        .await
    }

    async fn copy_status(&self, order: &CopyRequest) -> Result<CopyStatus, SiteError> {
        let order = order.clone();
        self.call_site(SiteCallKind::CopyStatus, move |world, site| {
            Ok(world.copy_status(site, &order))
        })
        .await
    }

    async fn stop_copy(&self, order: &CopyRequest, discard: bool) -> Result<(), SiteError> {
        let order = order.clone();
        self.call_site(SiteCallKind::StopCopy, move |world, site| {
            world.stop_copy(site, &order, discard);
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl SiteMonitor for SimulatedSite {
    async fn describe(&self) -> Result<SiteDescription, SiteError> {
        self.call_site(SiteCallKind::Describe, |world, site| {
            Ok(world.describe(site))
        })
        .await
    }

    async fn round_trip(&self, to: &HostName) -> Result<DurationUs, SiteError> {
        let to = to.clone();
        self.call_site(SiteCallKind::RoundTrip, move |world, site| {
            world.round_trip(site, &to)
        })
        .await
    }

    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.hints
            .then(|| self.world.subscribe_changes(self.index.index()))
    }
}

impl Site for SimulatedSite {
    fn name(&self) -> &SiteName {
        &self.name
    }

    fn monitor(&self) -> &dyn SiteMonitor {
        self
    }

    fn queue(&self) -> &dyn SiteQueue {
        self
    }

    fn gate(&self) -> &dyn Gate {
        self
    }

    fn files(&self) -> &dyn SiteFiles {
        self
    }

    fn copies(&self) -> &dyn SiteCopies {
        self
    }

    fn reservations(&self) -> Option<&dyn SiteReservations> {
        let grants = self
            .world
            .read(|world| world.sites()[self.index.index()].grants_reservations());
        grants.then_some(self as &dyn SiteReservations)
    }
}
