//! The durable step, shared by every actor that owns a record: commands wait
//! while a write is under way, then all of them are decided in one go and made
//! durable by one append.

use std::sync::Arc;

use cospan_domain::machine::Machine;
use cospan_domain::units::Timestamp;
use tokio::sync::oneshot;

/// Where an asker waits for what became of its command.
pub(crate) type Reply<M> = Option<Asker<M>>;
type Asker<M> = oneshot::Sender<Answer<M>>;
type Answer<M> = Result<(), <M as Machine>::Rejection>;
/// What is to be said to whom.
type Answers<M> = Vec<(Asker<M>, Answer<M>)>;

/// A record, and the commands that wait for it.
pub(crate) struct Steps<M: Machine> {
    state: Arc<M::State>,
    inbox: Vec<(M::Command, Reply<M>)>,
    writing: bool,
}

/// What was decided and must become durable before anything follows from it.
pub(crate) struct Step<M: Machine> {
    pub(crate) next: M::State,
    pub(crate) events: Vec<M::Event>,
    answers: Answers<M>,
}

impl<M: Machine> Steps<M> {
    /// Commands that wait; more of those that somebody waits for are refused.
    const INBOX_BOUND: usize = 4_096;

    pub(crate) fn new(state: Arc<M::State>) -> Self {
        Self { state, inbox: Vec::new(), writing: false }
    }

    pub(crate) fn state(&self) -> &Arc<M::State> {
        &self.state
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.writing
    }

    /// Whether commands wait.
    pub(crate) fn has_commands(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Takes a command in. One that does not fit is dropped with its reply,
    /// which tells the asker that nothing was decided.
    pub(crate) fn push(&mut self, command: M::Command, reply: Reply<M>) {
        if reply.is_none() || self.inbox.len() < Self::INBOX_BOUND {
            self.inbox.push((command, reply));
        }
    }

    /// Decides the whole inbox. `None` if nothing is to be written: because a
    /// write is under way, or because nothing follows. Nobody is answered before all that
    /// was decided with the answer is durable.
    pub(crate) fn decide(&mut self, parameters: &M::Parameters, now: Timestamp) -> Option<Step<M>> {
        if self.writing || self.inbox.is_empty() {
            return None;
        }
        // Made once anything happens: most looks find nothing new.
        let mut next: Option<M::State> = None;
        let (mut events, mut answers) = (Vec::new(), Vec::new());
        for (command, reply) in std::mem::take(&mut self.inbox) {
            let state = next.as_ref().unwrap_or(&self.state);
            let answer = M::decide(state, parameters, command, now).map(|decided| {
                if !decided.is_empty() {
                    let next = next.get_or_insert_with(|| M::State::clone(&self.state));
                    decided.iter().for_each(|event| M::evolve(next, event));
                    events.extend(decided);
                }
            });
            // A rejection, too, may follow from what is not durable yet.
            answers.extend(reply.map(|asker| (asker, answer)));
        }
        let Some(next) = next else {
            give::<M>(answers);
            return None;
        };
        self.writing = true;
        Some(Step { next, events, answers })
    }

    /// The write is durable.
    pub(crate) fn committed(&mut self, next: Arc<M::State>, answers: Answers<M>) {
        self.state = next;
        self.writing = false;
        give::<M>(answers);
    }

    /// The record had moved on: what was decided is void.
    pub(crate) fn reloaded(&mut self, state: Arc<M::State>) {
        self.state = state;
        self.writing = false;
    }
}

impl<M: Machine> Step<M> {
    /// The next state, the events, and what is to be said once they are durable.
    pub(crate) fn into_parts(self) -> (M::State, Vec<M::Event>, Answers<M>) {
        (self.next, self.events, self.answers)
    }
}

/// Whoever asked may be gone.
fn give<M: Machine>(answers: Answers<M>) {
    answers.into_iter().for_each(|(asker, answer)| drop(asker.send(answer)));
}

#[cfg(test)]
mod tests {
    use cospan_domain::job::JobMachine;
    use cospan_domain::job::command::{JobCommand, Rejection};
    use cospan_domain::job::parameters::JobParameters;
    use cospan_domain::job::spec::Priority;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::transfer::testing::{content, key, queued};

    #[test]
    fn who_is_refused_because_of_what_came_just_before_hears_it_once_that_is_durable() {
        let mut steps = Steps::<JobMachine>::new(Arc::new(queued(1, content(1))));
        let (reply, mut refused) = oneshot::channel();
        steps.push(JobCommand::Cancel(key()), None);
        steps.push(JobCommand::SetPriority(Priority::High, key()), Some(reply));
        let step = steps.decide(&JobParameters::default(), Timestamp(1_000_000));
        let (next, _, answers) = step.expect("it is cancelled").into_parts();
        assert_eq!(refused.try_recv(), Err(TryRecvError::Empty), "nobody can read why yet");
        steps.committed(Arc::new(next), answers);
        assert_eq!(refused.try_recv(), Ok(Err(Rejection::Ended)));
    }
}
