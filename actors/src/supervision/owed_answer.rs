//! An answer that an actor counts on, whatever happens to the future that brings it.

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};

/// Held by a future that is not one of its actor's own: nobody sees it panic, or being dropped. Its
/// actor then gets this message, instead of waiting for ever.
pub(crate) struct OwedAnswer<A, M>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    to: Addr<A>,
    otherwise: Option<M>,
}

impl<A, M> OwedAnswer<A, M>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    /// The actor gets `otherwise` unless it gets another answer.
    pub(crate) fn new(to: Addr<A>, otherwise: M) -> Self {
        Self {
            to,
            otherwise: Some(otherwise),
        }
    }

    /// Sends the answer. A rebuilt actor waits for none.
    pub(crate) async fn send_answer(mut self, answer: M) {
        let to = self.to.clone();
        self.otherwise = None;
        let _ = to.send(answer).await;
    }

    /// Sends `otherwise` now.
    pub(crate) async fn send_default_answer(mut self) {
        if let Some(answer) = self.otherwise.take() {
            let _ = self.to.clone().send(answer).await;
        }
    }
}

impl<A, M> Drop for OwedAnswer<A, M>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn drop(&mut self) {
        if let Some(otherwise) = self.otherwise.take() {
            // Bounded by the number of answers that the actor waits for: it asks once for each.
            self.to.do_send(otherwise);
        }
    }
}

#[cfg(test)]
mod tests {
    use actix::Context;

    use super::*;
    use crate::transfer::testing::run_paused;

    /// Keeps what it hears.
    #[derive(Default)]
    struct RecordingActor(Vec<&'static str>);

    impl Actor for RecordingActor {
        type Context = Context<Self>;
    }

    #[derive(Message)]
    #[rtype(result = "()")]
    struct TestMessage(&'static str);

    impl Handler<TestMessage> for RecordingActor {
        type Result = ();

        fn handle(&mut self, told: TestMessage, _: &mut Context<Self>) {
            self.0.push(told.0);
        }
    }

    #[derive(Message)]
    #[rtype(result = "Vec<&'static str>")]
    struct ReceivedMessages;

    impl Handler<ReceivedMessages> for RecordingActor {
        type Result = Vec<&'static str>;

        fn handle(&mut self, _: ReceivedMessages, _: &mut Context<Self>) -> Self::Result {
            self.0.clone()
        }
    }

    #[test]
    fn who_asked_hears_once_whether_the_future_ends_panics_or_is_dropped() {
        run_paused(|| async {
            let asker = RecordingActor::default().start();
            let owed = || OwedAnswer::new(asker.clone(), TestMessage("nothing"));
            let answered = owed();
            actix_rt::spawn(async move { answered.send_answer(TestMessage("an answer")).await });
            assert_eq!(
                asker.send(ReceivedMessages).await.ok(),
                Some(vec![]),
                "it has not run yet"
            );
            let heard = async || asker.send(ReceivedMessages).await.unwrap_or_default();
            tokio::task::yield_now().await;
            assert_eq!(heard().await, ["an answer"]);

            let panics = owed();
            let task = actix_rt::spawn(async move {
                let _panics = panics;
                std::panic::resume_unwind(Box::new("a planted defect"));
            });
            assert!(task.await.is_err());
            assert_eq!(heard().await, ["an answer", "nothing"]);

            let dropped = owed();
            drop(async move { dropped.send_answer(TestMessage("never")).await });
            assert_eq!(heard().await, ["an answer", "nothing", "nothing"]);
        });
    }
}
