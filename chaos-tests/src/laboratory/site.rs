//! The site port over the simulated world: what travels takes time, and may be lost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cospan_actors::clock::Clock;
use cospan_domain::ids::{Digest, LrmId, SiteName, Tag};
use cospan_domain::units::{Bytes, DurationMs};
use cospan_sites::port::{
    AttemptOrder, CopyOrder, CopyStatus, FilePlace, GateDecision, GateState, Inspected,
    Observation, Piece, Readable, Site, SiteDescription, SiteError, SiteStatus, Submitted,
    TagLookup,
};

use super::doom::Doom;
use super::handle::WorldHandle;
use super::weather::{CallFault, Weather};
use crate::world::{SiteIndex, World};

/// Longest that a caller waits for a reply.
const DEADLINE: DurationMs = DurationMs(10_000);
/// How much later than that a late request may still arrive.
const LATEST: DurationMs = DurationMs(15_000);

/// One simulated site as one control plane sees it.
#[derive(Clone)]
pub(super) struct SimulatedSite {
    pub(super) name: SiteName,
    pub(super) index: SiteIndex,
    pub(super) world: Arc<WorldHandle>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) weather: Arc<Weather>,
    pub(super) doom: Arc<Doom>,
    /// Whether it tells of changes, or is only asked.
    pub(super) hints: bool,
}

async fn pause(length: DurationMs) {
    if length > DurationMs::ZERO {
        tokio::time::sleep(Duration::from_millis(length.0)).await;
    }
}

fn lost() -> SiteError {
    SiteError::OutcomeUnknown("no reply within the deadline".into())
}

impl SimulatedSite {
    /// Carries a call to the site and its answer back.
    async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        act: impl Fn(&mut World, SiteIndex) -> Result<T, SiteError> + Send + Sync + 'static,
    ) -> Result<T, SiteError> {
        let fate = self.weather.draw();
        pause(fate.there).await;
        let (lives, last) = self.doom.call();
        if !lives {
            return std::future::pending().await;
        }
        let reaches = !self.world.read(|world| world.sites()[self.index.index()].is_silent());
        if !reaches {
            pause(DEADLINE).await;
            return Err(SiteError::NotSent("the site does not answer".into()));
        }
        let fault = fate.fault.filter(|fault| concerns(*fault, name));
        if let Some(fault) = fault {
            self.weather.note(fault, name);
        }
        let at_site = |site: &Self| site.world.at(site.clock.now(), |world| act(world, site.index));
        let answer = match fault {
            Some(CallFault::RequestLost) => {
                pause(DEADLINE).await;
                Err(lost())
            }
            Some(CallFault::ReplyLost) => {
                let _ = at_site(self);
                pause(DEADLINE).await;
                Err(lost())
            }
            Some(CallFault::Late) => {
                let (site, late) = (self.clone(), DurationMs(fate.dice % LATEST.0));
                actix_rt::spawn(async move {
                    pause(DurationMs(DEADLINE.0 + late.0)).await;
                    let _ = site.world.at(site.clock.now(), |world| act(world, site.index));
                });
                pause(DEADLINE).await;
                Err(lost())
            }
            Some(CallFault::Doubled) => {
                let _ = at_site(self);
                at_site(self)
            }
            Some(CallFault::Refused) => Err(SiteError::Refused("the site is not well".into())),
            Some(CallFault::NotSent) => Err(SiteError::NotSent("connection refused".into())),
            Some(CallFault::Truncated | CallFault::WrongIdle) | None => at_site(self),
        };
        if last {
            self.doom.strike();
            return std::future::pending().await;
        }
        pause(fate.back).await;
        answer
    }
}

/// Some faults make sense for some calls only.
fn concerns(fault: CallFault, call: &str) -> bool {
    match fault {
        CallFault::Truncated | CallFault::WrongIdle => call == "status",
        // A refusal is an answer: those that only ask are not refused.
        CallFault::Refused => matches!(call, "submit" | "start-copy" | "decide-gate" | "cancel"),
        // Work on files runs under a time-out at the site that is shorter than ours; what
        // the resource manager has in its hands is carried out whenever it comes to it.
        CallFault::Late => matches!(call, "submit" | "cancel"),
        _ => true,
    }
}

#[async_trait]
impl Site for SimulatedSite {
    fn name(&self) -> &SiteName {
        &self.name
    }

    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.hints.then(|| self.world.changes(self.index.index()))
    }

    async fn describe(&self) -> Result<SiteDescription, SiteError> {
        self.call("describe", |world, site| Ok(world.describe(site))).await
    }

    async fn status(&self, tags: &[Tag]) -> Result<SiteStatus, SiteError> {
        let (fate, asked) = (self.weather.draw(), tags.to_vec());
        let mut status =
            self.call("status", move |world, site| Ok(world.status(site, &asked))).await?;
        match fate.fault {
            Some(CallFault::Truncated) if !status.attempts.is_empty() => {
                let kept = fate.dice as usize % status.attempts.len();
                for seen in status.attempts.values_mut().skip(kept) {
                    *seen = Observation::Unknown("the answer was cut short".into());
                }
                self.weather.note(CallFault::Truncated, "status");
            }
            Some(CallFault::WrongIdle) => {
                let total = self.world.read(|world| world.sites()[self.index.index()].processors());
                status.idle.processors = (fate.dice % u64::from(total + 1)) as u32;
                self.weather.note(CallFault::WrongIdle, "status");
            }
            _ => {}
        }
        Ok(status)
    }

    async fn submit(&self, order: &AttemptOrder) -> Result<Submitted, SiteError> {
        let order = order.clone();
        self.call("submit", move |world, site| world.submit(site, &order)).await
    }

    async fn find_by_tag(&self, tag: Tag) -> Result<TagLookup, SiteError> {
        self.call("find-by-tag", move |world, site| Ok(world.find_by_tag(site, tag))).await
    }

    async fn decide_gate(&self, tag: Tag, decision: &GateDecision) -> Result<GateState, SiteError> {
        let decision = decision.clone();
        self.call("decide-gate", move |world, site| world.decide_gate(site, tag, &decision)).await
    }

    async fn cancel(&self, tag: Tag, _: Option<&LrmId>) -> Result<(), SiteError> {
        self.call("cancel", move |world, site| {
            world.cancel(site, tag);
            Ok(())
        })
        .await
    }

    async fn remove_attempt(&self, tag: Tag) -> Result<(), SiteError> {
        self.call("remove-attempt", move |world, site| world.remove_attempt(site, tag)).await
    }

    async fn list_attempts(&self) -> Result<Vec<Tag>, SiteError> {
        self.call("list-attempts", |world, site| Ok(world.list_attempts(site))).await
    }

    async fn inspect(&self, place: &FilePlace) -> Result<Inspected, SiteError> {
        let place = place.clone();
        self.call("inspect", move |world, site| world.inspect(site, &place)).await
    }

    async fn start_copy(&self, order: &CopyOrder) -> Result<(), SiteError> {
        let order = order.clone();
        self.call("start-copy", move |world, site| world.start_copy(site, &order)).await
    }

    async fn copy_status(&self, order: &CopyOrder) -> Result<CopyStatus, SiteError> {
        let order = order.clone();
        self.call("copy-status", move |world, site| Ok(world.copy_status(site, &order))).await
    }

    async fn stop_copy(&self, order: &CopyOrder, discard: bool) -> Result<(), SiteError> {
        let order = order.clone();
        self.call("stop-copy", move |world, site| {
            world.stop_copy(site, &order, discard);
            Ok(())
        })
        .await
    }

    async fn has_content(&self, digest: Digest) -> Result<bool, SiteError> {
        self.call("has-content", move |world, site| Ok(world.has_content(site, digest))).await
    }

    async fn delete_content(&self, digest: Digest) -> Result<(), SiteError> {
        self.call("delete-content", move |world, site| {
            world.delete_content(site, digest);
            Ok(())
        })
        .await
    }

    async fn read(&self, what: &Readable, _: Bytes, _: u32) -> Result<Piece, SiteError> {
        let what = what.clone();
        self.call("read", move |world, site| world.read(site, &what)).await
    }
}
