//! Job ids: blocks of them are reserved durably before the first is given out,
//! so that no id is used twice, whatever happens.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use cospan_domain::ids::JobId;
use tracing::error;

use super::Intake;
use crate::journal::{Append, Change};

/// Ids in one reservation.
const BLOCK: u64 = 8_192;

/// Ids that may be given out.
#[derive(Debug)]
pub(super) struct Ids {
    next: u64,
    /// The first id that is not reserved.
    end: u64,
    reserving: bool,
}

impl Ids {
    /// `next`: the first id that was never reserved.
    pub(super) fn new(next: JobId) -> Self {
        let next = next.0.max(1);
        Self { next, end: next, reserving: false }
    }

    /// Takes `count` ids in a row; `None` if so many are not reserved.
    pub(super) fn take(&mut self, count: usize) -> Option<u64> {
        let first = self.next;
        let next = first.checked_add(count as u64)?;
        (next <= self.end).then(|| {
            self.next = next;
            first
        })
    }

    fn is_low(&self) -> bool {
        !self.reserving && self.end - self.next < BLOCK / 2
    }
}

impl Intake {
    /// Reserves the next block before the last one is used up.
    pub(super) fn reserve_ids(&mut self, ctx: &mut Context<Self>) {
        if !self.ids.is_low() {
            return;
        }
        self.ids.reserving = true;
        let next = self.ids.end + BLOCK;
        let reserve = Change::IdsReserved { next: JobId(next) };
        let append = self.shared.journal().send(Append(reserve));
        ctx.spawn(append.into_actor(self).map(move |result, this, ctx| {
            this.ids.reserving = false;
            match result {
                Ok(Ok(_)) => {
                    this.ids.end = next;
                    this.retry_waiting(ctx);
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
        let mut ids = Ids::new(JobId(0));
        assert_eq!(ids.take(1), None);
        ids.end = 4;
        assert_eq!(ids.take(2), Some(1));
        assert_eq!(ids.take(2), None);
        assert_eq!(ids.take(1), Some(3));
    }
}
