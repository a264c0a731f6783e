//! Work of an actor that ends when nobody waits for its answer any more.

use std::cell::Cell;
use std::rc::Rc;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Actor, Message};
use futures_util::future::LocalBoxFuture;

/// The answer to a message, to be worked out. Unlike [`actix::ResponseFuture`], the work is dropped
/// where it stands when the sender of the message is gone.
pub struct ReplyFuture<T> {
    work: LocalBoxFuture<'static, T>,
    carries_on: Rc<Cell<bool>>,
}

impl<T> ReplyFuture<T> {
    /// Work that ends with whoever waits for it.
    pub fn new(work: impl Future<Output = T> + 'static) -> Self {
        Self::dropped_until(Rc::default(), work)
    }

    /// Work that ends with whoever waits for it, until it sets `carries_on`: from then on it is
    /// carried through.
    pub fn dropped_until(
        carries_on: Rc<Cell<bool>>,
        work: impl Future<Output = T> + 'static,
    ) -> Self {
        Self {
            work: Box::pin(work),
            carries_on,
        }
    }
}

impl<A: Actor, M: Message<Result = T>, T: 'static> MessageResponse<A, M> for ReplyFuture<T> {
    fn handle(self, _: &mut A::Context, reply: Option<OneshotSender<T>>) {
        let Self {
            mut work,
            carries_on,
        } = self;
        actix_rt::spawn(async move {
            let Some(mut reply) = reply else {
                work.await;
                return;
            };
            tokio::select! {
                biased;
                answer = &mut work => {
                    // A sender that is gone needs no answer.
                    let _ = reply.send(answer);
                    return;
                }
                () = reply.closed() => {}
            }
            if carries_on.get() {
                work.await;
            }
        });
    }
}
