//! Job ids: blocks of them are reserved durably before the first is given out, so that no id is
//! used twice, whatever happens.

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture};
use cospan_domain::ids::JobId;
use cospan_domain::units::{DurationMs, Timestamp};
use tracing::error;

use super::Intake;
use crate::chaos;
use crate::committed::JournalChange;
use crate::journal::{AppendChange, AppendError};
use crate::supervision::ActorKind;

/// The sizes of a block of ids, at first and at most. Ids that are reserved and not given out when
/// the process dies are never used: so a quiet server reserves few.
const BLOCK_MIN: u64 = 64;
const BLOCK_MAX: u64 = 8_192;
/// A block that lasted longer than this was large enough.
const LASTED: DurationMs = DurationMs(2_000);

/// Ids that may be given out.
#[derive(Debug)]
pub(super) struct JobIdAllocator {
    next: u64,
    /// The first id that is not reserved.
    end: u64,
    reserving: bool,
    block: u64,
    reserved_at: Timestamp,
}

impl JobIdAllocator {
    /// Starts at `next`, the first id that was never reserved.
    pub(super) fn new(next: JobId) -> Self {
        let next = next.0.max(1);
        let reserved_at = Timestamp::default();
        Self {
            next,
            end: next,
            reserving: false,
            block: BLOCK_MIN,
            reserved_at,
        }
    }

    /// Takes `count` ids in a row; `None` if so many are not reserved.
    pub(super) fn take_ids(&mut self, count: usize) -> Option<u64> {
        let first = self.next;
        let next = first.checked_add(count as u64)?;
        (next <= self.end).then(|| {
            self.next = next;
            first
        })
    }

    /// Returns the end of the next block, if one is due: before the last one is used up, and at
    /// once if `wanted` ids are not there.
    fn next_block_end(&mut self, wanted: usize, now: Timestamp) -> Option<u64> {
        let left = self.end - self.next;
        let wanted = wanted as u64;
        if self.reserving || (left >= self.block / 2 && left >= wanted) {
            return None;
        }
        self.block = if now.since(self.reserved_at) > LASTED {
            BLOCK_MIN
        } else {
            (self.block * 2).min(BLOCK_MAX)
        };
        self.reserved_at = now;
        Some(self.end + self.block.max(wanted))
    }
}

/// Gives back the ids that are reserved and were not given out, so that a later life goes on with
/// them. Sent when no more jobs are accepted.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ReturnUnusedIds;

impl Handler<ReturnUnusedIds> for Intake {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: ReturnUnusedIds, _: &mut Context<Self>) -> ResponseFuture<()> {
        chaos::enter_handler(ActorKind::Intake);
        // A block that is on its way would be written after this.
        if self.ids.reserving || self.ids.end == self.ids.next {
            return Box::pin(async {});
        }
        self.ids.end = self.ids.next;
        let next = JobId(self.ids.next);
        let append = self
            .shared
            .journal()
            .send(AppendChange(JournalChange::IdsReserved { next }));
        Box::pin(async move {
            let given_back = append.await.unwrap_or(Err(AppendError::Stopped));
            if let Err(problem) = given_back {
                error!(%problem, "job ids could not be given back");
            }
        })
    }
}

impl Intake {
    /// Reserves the next block of ids if it is time; `wanted` of them are needed now.
    pub(super) fn reserve_ids(&mut self, wanted: usize, ctx: &mut Context<Self>) {
        let now = self.shared.clock.now();
        let Some(next) = self.ids.next_block_end(wanted, now) else {
            return;
        };
        self.ids.reserving = true;
        let reserve = JournalChange::IdsReserved { next: JobId(next) };
        let append = self.shared.journal().send(AppendChange(reserve));
        ctx.spawn(append.into_actor(self).map(move |result, this, ctx| {
            this.ids.reserving = false;
            match result {
                Ok(Ok(_)) => {
                    this.ids.end = next;
                    this.retry_waiting_requests(ctx);
                }
                problem => error!(?problem, "job ids could not be reserved"),
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_given_out_only_within_the_reserved_block() {
        let mut ids = JobIdAllocator::new(JobId(0));
        assert_eq!(ids.take_ids(1), None);
        ids.end = 4;
        assert_eq!(ids.take_ids(2), Some(1));
        assert_eq!(ids.take_ids(2), None);
        assert_eq!(ids.take_ids(1), Some(3));
    }

    #[test]
    fn blocks_grow_while_they_are_used_up_fast_and_shrink_when_it_is_quiet() {
        let mut ids = JobIdAllocator::new(JobId(0));
        let mut now = Timestamp(1_000_000);
        let mut reserve = |ids: &mut JobIdAllocator, wanted, after: u64| {
            now = now + DurationMs(after);
            let end = ids.next_block_end(wanted, now)?;
            let block = end - ids.end;
            ids.end = end;
            ids.next = end;
            Some(block)
        };
        assert_eq!(reserve(&mut ids, 0, 0), Some(BLOCK_MIN));
        assert_eq!(reserve(&mut ids, 0, 10), Some(2 * BLOCK_MIN));
        assert_eq!(
            reserve(&mut ids, 1_000, 10),
            Some(1_000),
            "all of a large request at once"
        );
        assert!((0..20).all(|_| reserve(&mut ids, 0, 10).is_some()));
        assert_eq!(reserve(&mut ids, 0, 10), Some(BLOCK_MAX));
        assert_eq!(reserve(&mut ids, 0, 60_000), Some(BLOCK_MIN));
        ids.next -= BLOCK_MIN;
        assert_eq!(reserve(&mut ids, 0, 10), None, "there are enough");
    }
}
