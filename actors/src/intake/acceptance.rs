//! Acceptance: requests that come in at once become durable by one append.

use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, MailboxError, WrapFuture};
use cospan_domain::ids::Seq;
use cospan_domain::job::job_state::Job;
use cospan_storage::record::job::submission_changes;

use super::Intake;
use super::intake_actor::ApiAnswerSender;
use crate::commands::{ApiAnswer, ApiRefusal, SubmittedJob};
use crate::committed::JournalChange;
use crate::journal::{AppendChange, AppendError};

/// The most jobs that go to the journal together, unless one request has more.
const TOGETHER_MAX: usize = 64;

/// A request whose jobs have their ids.
pub(super) struct AcceptedRequest {
    /// The new jobs, with ids in a row.
    pub(super) jobs: Vec<Arc<Job>>,
    /// The answer to the client.
    pub(super) submitted: Vec<SubmittedJob>,
    pub(super) answer: ApiAnswerSender,
}

impl Intake {
    /// Has a request's jobs made durable, with those of others that came in meanwhile: waiting
    /// messages are taken up before the journal is asked.
    pub(super) fn accept_request(&mut self, one: AcceptedRequest, ctx: &mut Context<Self>) {
        let waiting: usize = self.accepting.iter().map(|other| other.jobs.len()).sum();
        if waiting + one.jobs.len() > TOGETHER_MAX {
            self.append_accepted_requests(ctx);
        }
        self.accepting.push(one);
        if let [_] = self.accepting[..] {
            let taken_up = async {}.into_actor(self);
            ctx.spawn(taken_up.map(|(), this, ctx| this.append_accepted_requests(ctx)));
        }
    }

    fn append_accepted_requests(&mut self, ctx: &mut Context<Self>) {
        let together = std::mem::take(&mut self.accepting);
        if !together.is_empty() {
            self.append_jobs(together, ctx);
        }
    }

    fn append_jobs(&mut self, together: Vec<AcceptedRequest>, ctx: &mut Context<Self>) {
        let jobs: Vec<_> = together
            .iter()
            .flat_map(|one| one.jobs.iter().cloned())
            .collect();
        // A repeated job may still be on its way to the disk: wait behind it.
        let change = if jobs.is_empty() {
            JournalChange::Barrier
        } else {
            JournalChange::NewJobs(jobs)
        };
        let append = self.shared.journal().send(AppendChange(change));
        ctx.spawn(
            append
                .into_actor(self)
                .map(|kept, this, ctx| this.finish_append(kept, together, ctx)),
        );
    }

    fn finish_append(
        &mut self,
        kept: Result<Result<Seq, AppendError>, MailboxError>,
        together: Vec<AcceptedRequest>,
        ctx: &mut Context<Self>,
    ) {
        match (kept, together.len()) {
            (Ok(Ok(_)), _) => together
                .into_iter()
                .for_each(|one| self.acknowledge_request(one)),
            // One of them is too large; the others must not suffer for it.
            (Ok(Err(AppendError::Unfit(_))), 2..) => {
                together
                    .into_iter()
                    .for_each(|one| self.append_jobs(vec![one], ctx));
            }
            (Ok(Err(AppendError::Unfit(problem))), _) => {
                together.into_iter().for_each(|one| {
                    let index = first_unfit(&one);
                    let problem = problem.to_string();
                    self.refuse_request(one, ApiRefusal::Invalid { index, problem });
                });
            }
            _ => together
                .into_iter()
                .for_each(|one| self.refuse_request(one, ApiRefusal::Stopping)),
        }
    }

    fn acknowledge_request(&mut self, one: AcceptedRequest) {
        // The job that it repeats may have been refused since.
        if one.submitted.iter().any(|job: &SubmittedJob| {
            job.repeated && !self.shared.view.load().jobs.contains_key(&job.id)
        }) {
            self.answer_command(one.answer, Err(ApiRefusal::Busy { retry_after_s: 1 }))
        } else {
            self.answer_command(one.answer, Ok(ApiAnswer::Submitted(one.submitted)))
        }
    }

    fn refuse_request(&mut self, one: AcceptedRequest, refusal: ApiRefusal) {
        one.jobs.iter().for_each(|job| self.forget_job(job));
        self.answer_command(one.answer, Err(refusal));
    }
}

/// Returns the position in its request of the first job that the store does not take.
fn first_unfit(one: &AcceptedRequest) -> usize {
    let unfit = one
        .jobs
        .iter()
        .find(|job| submission_changes(job).is_err())
        .map(|job| job.id);
    one.submitted
        .iter()
        .position(|job| Some(job.id) == unfit)
        .unwrap_or_default()
}
