//! What a site says by itself: that something may have changed.

use actix::{Addr, Context, Handler, Message};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Cluster;
use crate::chaos;
use crate::supervision::ActorKind;

/// The site hints that something may have changed.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Hint;

/// Passes hints on for as long as it is kept. Not a stream of the actor's: it would be looked at
/// with every message, and bids are many.
pub(super) struct Hints(JoinHandle<()>);

impl Hints {
    pub(super) fn pass_on(mut changes: watch::Receiver<u64>, to: Addr<Cluster>) -> Self {
        Self(actix_rt::spawn(async move {
            // When the site hints no more, the polls go on.
            while changes.changed().await.is_ok() {
                // Waited for, so that many changes are one hint.
                if to.send(Hint).await.is_err() {
                    return;
                }
            }
        }))
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Handler<Hint> for Cluster {
    type Result = ();

    fn handle(&mut self, _: Hint, ctx: &mut Context<Self>) {
        chaos::enter(ActorKind::Cluster);
        self.hinted = true;
        let now = self.now();
        self.poll_if_due(now, ctx);
        self.set_wake(ctx, now);
    }
}
