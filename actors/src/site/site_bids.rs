//! A site's answers to announced jobs, from what it alone knows of itself.

use std::sync::Arc;

use actix::{Context, Handler, Message, Recipient};
use cospan_domain::bid::{AnnouncementRefusal, BidRefusal, JobAnnouncements};
use cospan_domain::deduction::{DeductedAmounts, DeductionKey, SiteLedgerNumber};
use cospan_domain::ids::{ComponentIndex, JobId};
use cospan_domain::job::demands::ComponentHolding;
use cospan_domain::placement::{AnnouncedNeed, BidRoundBasis, BidWithResources};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use imbl::OrdMap;

use super::ClusterActor;
use crate::chaos;
use crate::grid_snapshot::{believed_idle, idle_drops_from_now, sum_holdings};
use crate::supervision::ActorKind;

/// The number of jobs that a site remembers; for others it asks for the requirements again.
const REMEMBERED: usize = 1_024;

/// A job as it is announced: its id, with its requirements if they were not sent before.
#[derive(Debug)]
pub(crate) struct JobAnnouncement {
    /// The round for which the site deducts.
    pub(crate) key: DeductionKey,
    /// The time by which all sites reckon the age of what they know. An answer that is late enough
    /// for this to matter is dropped.
    pub(crate) at: Timestamp,
    pub(crate) asked: Option<Arc<AnnouncedNeed>>,
    /// The common ground by which all sites count.
    pub(crate) ground: Arc<BidRoundBasis>,
    /// The co-allocator that waits for the answer.
    pub(crate) reply: Recipient<BidReply>,
}

/// A message to a site about bids.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) enum BiddingMessage {
    /// Announces a job.
    Announce {
        /// The same announcement goes to all sites.
        told: Arc<JobAnnouncement>,
        /// The site's index in the round's grid.
        site: usize,
        /// Handled before the announcement: a job went elsewhere, as by [`BiddingMessage::Clear`].
        /// One delivery serves for the two messages.
        clear: Option<DeductionKey>,
    },
    /// Sends this part of the job to the site, which acknowledges.
    Award {
        /// The round.
        key: DeductionKey,
        /// The site's index in the round's grid.
        site: usize,
        /// The part of the job.
        used: Resources,
        /// The co-allocator that waits for the acknowledgement.
        reply: Recipient<BidReply>,
    },
    /// The job went elsewhere.
    Clear(DeductionKey),
    /// The job is not wanted any more, or has other requirements.
    Cancel(JobId),
}

/// A site's answer in a round.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct BidReply {
    pub(crate) key: DeductionKey,
    pub(crate) site: usize,
    pub(crate) what: BidReplyContent,
}

/// The content of a [`BidReply`].
#[derive(Debug)]
pub(crate) enum BidReplyContent {
    /// The site's bid and what it gives, or why it declines.
    Answer(Result<BidWithResources, BidRefusal>),
    /// The site cannot answer by the id alone, or knows another job under it.
    Unheard(AnnouncementRefusal),
    /// The deduction is held for the plan.
    Acknowledged,
}

/// The site's knowledge of itself for its bids.
pub(super) struct SiteBidState {
    desk: JobAnnouncements<Arc<AnnouncedNeed>>,
    ledger: SiteLedgerNumber,
    /// The sum of what jobs have here; computed only when it has changed.
    held: Option<HoldingSumCache>,
}

struct HoldingSumCache {
    holdings: Option<OrdMap<(JobId, ComponentIndex), Arc<ComponentHolding>>>,
    asked_at: Timestamp,
    pending: Resources,
    ours: Resources,
}

impl SiteBidState {
    /// Makes a bidder whose deductions stand in this ledger.
    pub(super) fn new(ledger: SiteLedgerNumber) -> Self {
        Self {
            desk: JobAnnouncements::new(REMEMBERED),
            ledger,
            held: None,
        }
    }
}

impl HoldingSumCache {
    fn is_sum_of(
        &self,
        holdings: Option<&OrdMap<(JobId, ComponentIndex), Arc<ComponentHolding>>>,
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

impl ClusterActor {
    /// Counts as a snapshot does (see [`cospan_domain::placement::GridSite::usable_resources_for`]).
    fn usable_resources_for(&mut self, lasts: DurationMs, now: Timestamp) -> Option<Resources> {
        let belief = believed_idle(&self.shared, &self.name, &self.report, now)?;
        let shape = self.report.shape.as_ref()?;
        let view = self.shared.view.load();
        let holdings = view.holdings.get(&self.name);
        let asked_at = belief.asked_at;
        if !self
            .bidder
            .held
            .as_ref()
            .is_some_and(|held| held.is_sum_of(holdings, asked_at))
        {
            let (pending, ours, _) = sum_holdings(holdings, Some(asked_at), now);
            self.bidder.held = Some(HoldingSumCache {
                holdings: holdings.cloned(),
                asked_at,
                pending,
                ours,
            });
        }
        let held = self.bidder.held.as_ref()?;
        let quota = self
            .shared
            .settings
            .quotas
            .get(&self.name)
            .copied()
            .unwrap_or_default();
        let mut idle = belief.idle;
        if !self.report.ebbs.is_empty() {
            let ebbs = idle_drops_from_now(&self.report, now);
            if let Some(ebb) = ebbs.iter().rfind(|ebb| ebb.after < lasts) {
                idle.limit_to(&ebb.left);
            }
        }
        let mut usable = quota.usable_resources(&shape.total, &idle, &held.ours);
        usable.subtract(&held.pending);
        Some(usable)
    }

    /// Answers an announcement, or says what is missing for an answer; `None` if the round is over.
    fn answer_announcement(
        &mut self,
        told: &JobAnnouncement,
        site: usize,
    ) -> Option<BidReplyContent> {
        let JobAnnouncement { key, ground, .. } = told;
        let remembered;
        let asked = match (
            self.bidder
                .desk
                .record_announcement(key.job, told.asked.as_ref()),
            &told.asked,
        ) {
            // The remembered requirements are the same.
            (Ok(_), Some(asked)) => asked,
            (Ok(asked), None) => {
                remembered = asked.clone();
                &remembered
            }
            (Err(unheard), _) => return Some(BidReplyContent::Unheard(unheard)),
        };
        // Nothing is usable if it is not known.
        let mut free = self
            .usable_resources_for(asked.request().holding_time(), told.at)
            .unwrap_or_default();
        let mut ledgers = self.shared.deductions.lock_ledgers();
        if let Some(promised) = ledgers.deductions_by_number(self.bidder.ledger) {
            promised.subtract_others(&mut free, key);
        }
        let answer = asked.answer_for_site(ground, site, &free);
        if let Ok(given) = &answer {
            let deducted = DeductedAmounts::for_proposal(given.resources.clone());
            if !ledgers.deduct(key, self.bidder.ledger, deducted) {
                return None;
            }
        }
        Some(BidReplyContent::Answer(answer))
    }

    /// Drops the deduction for a job that went elsewhere.
    fn clear_deduction(&mut self, key: &DeductionKey) {
        self.bidder.desk.forget(key.job);
        self.shared
            .deductions
            .lock_ledgers()
            .release_site(key, self.bidder.ledger);
    }
}

impl Handler<BiddingMessage> for ClusterActor {
    type Result = ();

    fn handle(&mut self, message: BiddingMessage, _: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Cluster);
        match message {
            BiddingMessage::Announce { told, site, clear } => {
                if let Some(key) = clear {
                    self.clear_deduction(&key);
                }
                if let Some(what) = self.answer_announcement(&told, site) {
                    // Bounded by the number of sites asked: each answers once.
                    told.reply.do_send(BidReply {
                        key: told.key,
                        site,
                        what,
                    });
                }
            }
            BiddingMessage::Award {
                key,
                site,
                used,
                reply,
            } => {
                self.bidder.desk.forget(key.job);
                let deducted = DeductedAmounts::for_proposal(used);
                let at = self.bidder.ledger;
                if self
                    .shared
                    .deductions
                    .lock_ledgers()
                    .deduct_acknowledged(&key, at, deducted)
                {
                    reply.do_send(BidReply {
                        key,
                        site,
                        what: BidReplyContent::Acknowledged,
                    });
                }
            }
            BiddingMessage::Clear(key) => self.clear_deduction(&key),
            BiddingMessage::Cancel(job) => self.bidder.desk.forget(job),
        }
    }
}
