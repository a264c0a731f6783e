//! The durable step, shared by every actor that owns a record: commands wait while a write is under
//! way, then all of them are decided in one go and made durable by one append.

use std::sync::Arc;

use cospan_domain::machine::StateMachine;
use cospan_domain::units::Timestamp;
use tokio::sync::oneshot;

/// The channel for the answer to a command.
pub(crate) type CommandReplySender<M> = Option<CommandResultSender<M>>;
type CommandResultSender<M> = oneshot::Sender<CommandResult<M>>;
type CommandResult<M> = Result<(), <M as StateMachine>::Rejection>;
/// Answers that are due, with their channels.
type DueCommandAnswers<M> = Vec<(CommandResultSender<M>, CommandResult<M>)>;

/// A record, and the commands that wait for it.
pub(crate) struct RecordInbox<M: StateMachine> {
    state: Arc<M::State>,
    inbox: Vec<(M::Command, CommandReplySender<M>)>,
    noted: Option<UnwrittenRecord<M>>,
    writing: bool,
}

/// A record with events that are not durable yet.
struct UnwrittenRecord<M: StateMachine> {
    state: M::State,
    events: Vec<M::Event>,
}

impl<M: StateMachine> UnwrittenRecord<M> {
    fn from_state(state: &M::State) -> Self {
        Self {
            state: state.clone(),
            events: Vec::new(),
        }
    }

    fn apply_events(&mut self, decided: Vec<M::Event>) {
        decided
            .iter()
            .for_each(|event| M::evolve(&mut self.state, event));
        self.events.extend(decided);
    }
}

/// A decision that must become durable before anything follows from it.
pub(crate) struct DecidedStep<M: StateMachine> {
    pub(crate) next: M::State,
    pub(crate) events: Vec<M::Event>,
    answers: DueCommandAnswers<M>,
}

impl<M: StateMachine> RecordInbox<M> {
    /// The most commands that wait; further ones with an asker are refused.
    const INBOX_BOUND: usize = 4_096;

    pub(crate) fn new(state: Arc<M::State>) -> Self {
        Self {
            state,
            inbox: Vec::new(),
            noted: None,
            writing: false,
        }
    }

    pub(crate) fn state(&self) -> &Arc<M::State> {
        &self.state
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.writing
    }

    /// Returns true if commands wait.
    pub(crate) fn has_commands(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Takes a command in. One that does not fit is dropped with its reply, which tells the asker
    /// that nothing was decided.
    pub(crate) fn push_command(&mut self, command: M::Command, reply: CommandReplySender<M>) {
        if reply.is_none() || self.inbox.len() < Self::INBOX_BOUND {
            self.inbox.push((command, reply));
        }
    }

    /// The record with the noted events, if there are any.
    pub(crate) fn noted_state(&self) -> Option<&M::State> {
        self.noted.as_ref().map(|noted| &noted.state)
    }

    /// Takes in a command that makes nothing due: it is decided now, counts for later decisions,
    /// and is written with the next change. If it is lost before, the call that it answers is still
    /// due, and is made again.
    pub(crate) fn decide_without_writing(
        &mut self,
        command: M::Command,
        parameters: &M::Parameters,
        now: Timestamp,
    ) {
        if self.writing {
            return self.push_command(command, None);
        }
        // A command that does not fit the state says nothing.
        let Ok(decided) = M::decide(
            self.noted_state().unwrap_or(&self.state),
            parameters,
            command,
            now,
        ) else {
            return;
        };
        self.noted
            .get_or_insert_with(|| UnwrittenRecord::<M>::from_state(&self.state))
            .apply_events(decided);
    }

    /// Decides the whole inbox. Returns `None` if nothing is to be written: because a write is
    /// under way, or because nothing follows. No command is answered before everything that was
    /// decided with it, and everything that it may follow from, is durable.
    pub(crate) fn decide_inbox(
        &mut self,
        parameters: &M::Parameters,
        now: Timestamp,
    ) -> Option<DecidedStep<M>> {
        if self.writing || self.inbox.is_empty() {
            return None;
        }
        // Made once anything happens: most looks find nothing new.
        let mut ahead = self.noted.take();
        let known = ahead.as_ref().map_or(0, |ahead| ahead.events.len());
        let mut answers = Vec::new();
        for (command, reply) in std::mem::take(&mut self.inbox) {
            let state = ahead.as_ref().map_or(&*self.state, |ahead| &ahead.state);
            let answer = M::decide(state, parameters, command, now).map(|decided| {
                if !decided.is_empty() {
                    ahead
                        .get_or_insert_with(|| UnwrittenRecord::<M>::from_state(&self.state))
                        .apply_events(decided);
                }
            });
            answers.extend(reply.map(|asker| (asker, answer)));
        }
        match ahead {
            Some(UnwrittenRecord { state, events })
                if events.len() > known || !answers.is_empty() =>
            {
                self.writing = true;
                Some(DecidedStep {
                    next: state,
                    events,
                    answers,
                })
            }
            nothing_new => {
                self.noted = nothing_new;
                send_answers::<M>(answers);
                None
            }
        }
    }

    /// Takes over the state that is durable now, and sends the answers.
    pub(crate) fn finish_write(&mut self, next: Arc<M::State>, answers: DueCommandAnswers<M>) {
        self.state = next;
        self.writing = false;
        send_answers::<M>(answers);
    }

    /// Takes over a record that had changed without us: the decision is void.
    pub(crate) fn reset_to(&mut self, state: Arc<M::State>) {
        self.state = state;
        self.noted = None;
        self.writing = false;
    }

    /// Drops all commands that wait: their askers learn that nothing was decided.
    pub(crate) fn drop_commands(&mut self) {
        self.inbox.clear();
    }
}

impl<M: StateMachine> DecidedStep<M> {
    /// The next state, the events, and the answers that are due once they are durable.
    pub(crate) fn into_parts(self) -> (M::State, Vec<M::Event>, DueCommandAnswers<M>) {
        (self.next, self.events, self.answers)
    }
}

/// Sends answers. The askers may be gone.
fn send_answers<M: StateMachine>(answers: DueCommandAnswers<M>) {
    answers
        .into_iter()
        .for_each(|(asker, answer)| drop(asker.send(answer)));
}

#[cfg(test)]
mod tests {
    use cospan_domain::job::JobMachine;
    use cospan_domain::job::job_command::{JobCommand, JobRejection};
    use cospan_domain::job::job_parameters::JobParameters;
    use cospan_domain::job::spec::Priority;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::transfer::testing::{content, key, queued_job};

    #[test]
    fn a_refusal_is_told_once_what_it_rests_on_is_durable() {
        let mut steps = RecordInbox::<JobMachine>::new(Arc::new(queued_job(1, content(1))));
        let (reply, mut refused) = oneshot::channel();
        steps.push_command(JobCommand::Cancel(key()), None);
        steps.push_command(JobCommand::SetPriority(Priority::High, key()), Some(reply));
        let step = steps.decide_inbox(&JobParameters::default(), Timestamp(1_000_000));
        let (next, _, answers) = step.expect("it is cancelled").into_parts();
        assert_eq!(
            refused.try_recv(),
            Err(TryRecvError::Empty),
            "nobody can read why yet"
        );
        steps.finish_write(Arc::new(next), answers);
        assert_eq!(refused.try_recv(), Ok(Err(JobRejection::Ended)));
    }

    #[test]
    fn what_was_noted_counts_at_once_and_is_written_with_the_next_change() {
        let parameters = JobParameters::default();
        let now = Timestamp(1_000_000);
        let mut steps = RecordInbox::<JobMachine>::new(Arc::new(queued_job(1, content(1))));
        steps.decide_without_writing(
            JobCommand::SetPriority(Priority::High, key()),
            &parameters,
            now,
        );
        assert_eq!(
            steps.noted_state().map(|job| job.priority),
            Some(Priority::High)
        );
        steps.push_command(JobCommand::SetPriority(Priority::High, key()), None);
        assert!(
            steps.decide_inbox(&parameters, now).is_none(),
            "nothing new follows"
        );
        assert!(steps.noted_state().is_some(), "it is still known");
        steps.push_command(JobCommand::Freeze(key()), None);
        let (next, events, _) = steps
            .decide_inbox(&parameters, now)
            .expect("a change")
            .into_parts();
        let names: Vec<_> = events.iter().map(|event| event.what.name()).collect();
        assert_eq!(names, ["PriorityChanged", "JobFrozen"]);
        assert_eq!(
            (next.priority, next.frozen_by),
            (Priority::High, Some(key()))
        );
    }

    #[test]
    fn who_is_refused_because_of_what_was_noted_hears_it_once_that_is_durable() {
        let parameters = JobParameters::default();
        let now = Timestamp(1_000_000);
        let mut steps = RecordInbox::<JobMachine>::new(Arc::new(queued_job(1, content(1))));
        steps.decide_without_writing(JobCommand::Cancel(key()), &parameters, now);
        let (reply, mut refused) = oneshot::channel();
        steps.push_command(JobCommand::Freeze(key()), Some(reply));
        let step = steps
            .decide_inbox(&parameters, now)
            .expect("what was noted is written");
        assert_eq!(
            refused.try_recv(),
            Err(TryRecvError::Empty),
            "nobody can read why yet"
        );
        let (next, _, answers) = step.into_parts();
        steps.finish_write(Arc::new(next), answers);
        assert_eq!(refused.try_recv(), Ok(Err(JobRejection::Ended)));
    }

    #[test]
    fn what_was_noted_on_a_record_that_had_moved_on_is_void() {
        let parameters = JobParameters::default();
        let now = Timestamp(1_000_000);
        let job = Arc::new(queued_job(1, content(1)));
        let mut steps = RecordInbox::<JobMachine>::new(job.clone());
        steps.decide_without_writing(JobCommand::Cancel(key()), &parameters, now);
        steps.reset_to(job);
        assert!(steps.noted_state().is_none());
    }
}
