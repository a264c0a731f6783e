//! What a site answers when jobs are announced to it: from what it alone knows of itself.

use std::sync::Arc;

use actix::{Addr, Context, Handler, Message};
use cospan_domain::bid::{Decline, Desk, Unheard};
use cospan_domain::ids::{ComponentIndex, JobId};
use cospan_domain::job::demands::Holding;
use cospan_domain::placement::{Asked, Given, Ground};
use cospan_domain::provisional::{Deducted, DeductionKey};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use imbl::OrdMap;

use super::Cluster;
use crate::chaos;
use crate::coallocator::{CoAllocator, aged, belief, holding_sums};
use crate::supervision::ActorKind;

/// Jobs that a site remembers; of others it asks for the requirements again.
const REMEMBERED: usize = 1_024;

/// What a site is told about bids.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) enum Bidding {
    /// A job is announced, by its id, with its requirements if they were not told before.
    Announce {
        /// The round: what is deducted is for this.
        key: DeductionKey,
        /// The site's index in the round's grid.
        site: usize,
        /// The requirements.
        asked: Option<Arc<Asked>>,
        /// What all sites count by.
        ground: Arc<Ground>,
        /// Who waits for the answer.
        reply: Addr<CoAllocator>,
    },
    /// So much of the job goes to this site, which acknowledges.
    Award {
        /// The round.
        key: DeductionKey,
        /// The site's index in the round's grid.
        site: usize,
        /// How much.
        used: Resources,
        /// Who waits for the acknowledgement.
        reply: Addr<CoAllocator>,
    },
    /// The job went elsewhere.
    Clear(DeductionKey),
    /// The job is not wanted any more, or has other requirements.
    Cancel(JobId),
}

/// What a site answers.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct BidReply {
    pub(crate) key: DeductionKey,
    pub(crate) site: usize,
    pub(crate) what: Reply,
}

/// See [`BidReply`].
#[derive(Debug)]
pub(crate) enum Reply {
    /// Its bid and what it gives, or why it declines.
    Answer(Box<Result<Given, Decline>>),
    /// It cannot answer by the id alone, or knows another job under it.
    Unheard(Unheard),
    /// What was deducted is held for the plan.
    Acknowledged,
}

/// What a site knows of itself for its bids.
pub(super) struct Bidder {
    desk: Desk<Arc<Asked>>,
    /// What jobs hold, added up; gone through only when it has changed.
    held: Option<Held>,
}

struct Held {
    holdings: Option<OrdMap<(JobId, ComponentIndex), Arc<Holding>>>,
    asked_at: Timestamp,
    pending: Resources,
    ours: Resources,
}

impl Default for Bidder {
    fn default() -> Self {
        Self { desk: Desk::new(REMEMBERED), held: None }
    }
}

impl Held {
    fn is_of(
        &self,
        holdings: Option<&OrdMap<(JobId, ComponentIndex), Arc<Holding>>>,
        asked_at: Timestamp,
    ) -> bool {
        let alike = match (&self.holdings, holdings) {
            (Some(known), Some(holdings)) => known.ptr_eq(holdings),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        alike && self.asked_at == asked_at
    }
}

impl Cluster {
    /// What is free here for so long and promised to nobody but the plan of `key`; nothing if it
    /// is not known.
    fn free(&mut self, key: &DeductionKey, lasts: DurationMs) -> Resources {
        let mut free = self.usable(lasts).unwrap_or_default();
        let ledgers = self.shared.deductions.lock();
        if let Some(promised) = ledgers.at(&self.name) {
            let mut promised = promised.placing.clone();
            if let Some(own) = ledgers.held(key, &self.name) {
                promised.subtract(&own.placing);
            }
            free.subtract(&promised);
        }
        free
    }

    /// As a snapshot has it (see [`cospan_domain::placement::GridSite::usable_for`]).
    fn usable(&mut self, lasts: DurationMs) -> Option<Resources> {
        let belief = belief(&self.shared, &self.name, &self.report, self.now())?;
        let shape = self.report.shape.as_ref()?;
        let view = self.shared.view.load();
        let holdings = view.holdings.get(&self.name);
        let asked_at = belief.asked_at;
        let held = match self.bidder.held.take() {
            Some(held) if held.is_of(holdings, asked_at) => held,
            _ => {
                let (pending, ours, _) = holding_sums(holdings, Some(asked_at));
                Held { holdings: holdings.cloned(), asked_at, pending, ours }
            }
        };
        let quota = self.shared.settings.quotas.get(&self.name).copied().unwrap_or_default();
        let mut idle = belief.idle;
        let ebbs = aged(&self.report, self.now());
        if let Some(ebb) = ebbs.iter().rfind(|ebb| ebb.after < lasts) {
            idle.cut_to(&ebb.left);
        }
        let mut usable = quota.usable_resources(&shape.total, &idle, &held.ours);
        usable.subtract(&held.pending);
        self.bidder.held = Some(held);
        Some(usable)
    }

    /// The answer to an announcement, or what is missing for one; `None` if the round is over.
    fn answer(
        &mut self,
        key: &DeductionKey,
        site: usize,
        asked: Option<Arc<Asked>>,
        ground: &Ground,
    ) -> Option<Reply> {
        let asked = match self.bidder.desk.hear(key.job, asked) {
            Ok(asked) => asked.clone(),
            Err(unheard) => return Some(Reply::Unheard(unheard)),
        };
        let free = self.free(key, asked.request().lasts());
        let answer = asked.answer(ground, site, &free);
        if let Ok(given) = &answer {
            let deducted = Deducted::offered(given.resources.clone());
            if !self.shared.deductions.lock().deduct(key, &self.name, deducted) {
                return None;
            }
        }
        Some(Reply::Answer(Box::new(answer)))
    }
}

impl Handler<Bidding> for Cluster {
    type Result = ();

    fn handle(&mut self, message: Bidding, _: &mut Context<Self>) {
        chaos::enter(ActorKind::Cluster);
        match message {
            Bidding::Announce { key, site, asked, ground, reply } => {
                if let Some(what) = self.answer(&key, site, asked, &ground) {
                    // Bounded by who is asked: each answers once.
                    reply.do_send(BidReply { key, site, what });
                }
            }
            Bidding::Award { key, site, used, reply } => {
                self.bidder.desk.forget(key.job);
                let deducted = Deducted::offered(used);
                if self.shared.deductions.lock().hold(&key, &self.name, deducted) {
                    reply.do_send(BidReply { key, site, what: Reply::Acknowledged });
                }
            }
            Bidding::Clear(key) => {
                self.bidder.desk.forget(key.job);
                self.shared.deductions.lock().release(&key, &self.name);
            }
            Bidding::Cancel(job) => self.bidder.desk.forget(job),
        }
    }
}
