//! Has the site do what is due for a copy. Every request may be made again: the site joins the
//! copying that runs under the same nonce, and passes over a deletion that has been done.

use cospan_domain::planted_bugs::{Bug, bug};
use cospan_domain::transfer::copy_command::{CopyCommand, SeenCopy, StartAnswer};
use cospan_domain::transfer::copy_due::CopyEffect;
use cospan_domain::transfer::copy_event::TryBlame;
use cospan_domain::transfer::copy_state::{CopyRecord, Nonce, Try};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use cospan_sites::port::{
    CallKind, CopyBlame, CopyRequest, CopySource, CopyStatus, Site, SiteError,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::CopyKey;
use crate::actor_context::Shared;
use crate::chaos::{self, CrashPoint};
use crate::site::Call;

/// The result of a call.
#[derive(Debug)]
pub(super) enum CallOutcome {
    /// A command for the copy.
    Tell(CopyCommand),
    /// The status of the copy under this nonce.
    Status(Nonce, CopyStatus),
    /// True if the store has the content of a copy that is taken to be whole.
    Has(Nonce, bool),
    /// Not done, or not known to be: again, after a while.
    Again(SiteError),
}

type PendingCall = BoxFuture<'static, CallOutcome>;

/// Starts a call for an effect; `None` if it needs no site.
pub(super) fn call_for(
    shared: &Shared,
    key: &CopyKey,
    copy: &CopyRecord,
    effect: &CopyEffect,
) -> Option<PendingCall> {
    Some(match effect {
        CopyEffect::Look | CopyEffect::ChooseSource { .. } => return None,
        CopyEffect::StartCopy(order) => start_copying(shared, key, copy, order),
        CopyEffect::WatchCopy(order) => copy_status_call(shared, key, copy, order),
        CopyEffect::StopCopy(order) => stop_copying(shared, key, copy, order),
        CopyEffect::DiscardPartial(order) => discard_partial(shared, key, copy, order),
        CopyEffect::CheckContent(nonce) => call_has_content(shared, key, *nonce),
        CopyEffect::DeleteContent { nonce, .. } => delete_unneeded(shared, key, *nonce),
    })
}

/// Asks if the store still has the content.
pub(super) fn call_has_content(shared: &Shared, key: &CopyKey, nonce: Nonce) -> PendingCall {
    let digest = key.0;
    let has = call_destination(shared, key, CallKind::HasContent, move |site| {
        async move { site.has_content(digest).await }.boxed()
    });
    result_of_call(has, move |has| CallOutcome::Has(nonce, has))
}

type BoxedSite = std::sync::Arc<dyn Site>;

/// Makes one call to the destination, through its site actor.
fn call_destination<T: Send + 'static>(
    shared: &Shared,
    (_, site): &CopyKey,
    kind: CallKind,
    run: impl FnOnce(BoxedSite) -> BoxFuture<'static, Result<T, SiteError>> + Send + 'static,
) -> BoxFuture<'static, Result<T, SiteError>> {
    let cluster = shared.actors.clusters.addr(site);
    let call = Call::new(kind, run);
    async move {
        chaos::reach_point(CrashPoint::SpawnedFuture);
        match cluster {
            None => Err(SiteError::NotSent(
                "the site is not served at the moment".into(),
            )),
            Some(cluster) => cluster.send(call).await.unwrap_or_else(|error| {
                Err(SiteError::OutcomeUnknown(format!(
                    "its actor died: {error}"
                )))
            }),
        }
    }
    .boxed()
}

fn result_of_call<T: Send + 'static>(
    called: BoxFuture<'static, Result<T, SiteError>>,
    done: impl FnOnce(T) -> CallOutcome + Send + 'static,
) -> PendingCall {
    called
        .map(|result| result.map_or_else(CallOutcome::Again, done))
        .boxed()
}

fn copy_order(shared: &Shared, (_, to): &CopyKey, copy: &CopyRecord, order: &Try) -> CopyRequest {
    let link = (order.source.site.clone(), to.clone());
    // A copy of the same chunk is read as it is.
    let is_cut = order.source.place != FilePlace::Store(copy.content.digest);
    CopyRequest {
        content: copy.content,
        chunk: copy.chunk.filter(|_| is_cut),
        source: CopySource {
            site: order.source.site.clone(),
            place: order.source.place.clone(),
        },
        nonce: format!("{}-{}", shared.instance, order.nonce),
        // The bandwidth of the whole link: the copies at a site share it out among themselves.
        limit: (link.0 != link.1)
            .then(|| shared.settings.links.get(&link).copied())
            .flatten(),
    }
}

fn start_copying(shared: &Shared, key: &CopyKey, copy: &CopyRecord, attempt: &Try) -> PendingCall {
    let nonce = attempt.nonce;
    let order = copy_order(shared, key, copy, attempt);
    let started = call_destination(shared, key, CallKind::StartCopy, move |site| {
        async move { site.start_copy(&order).await }.boxed()
    });
    started
        .map(move |started| {
            let answer = match started {
                Ok(()) => StartAnswer::Taken,
                Err(SiteError::OutcomeUnknown(_)) => StartAnswer::Unknown,
                // The destination's own answer, such as a full disk: counts against it.
                Err(SiteError::Refused(detail) | SiteError::Unfit(detail)) => {
                    StartAnswer::Refused(detail.into())
                }
                // No error of anybody, and nothing happened.
                Err(
                    error @ (SiteError::NotSent(_)
                    | SiteError::LockedOut(_)
                    | SiteError::OutOfOrder(_)
                    | SiteError::SiteFull(_)),
                ) => return CallOutcome::Again(error),
            };
            CallOutcome::Tell(CopyCommand::StartAnswered { nonce, answer })
        })
        .boxed()
}

fn copy_status_call(
    shared: &Shared,
    key: &CopyKey,
    copy: &CopyRecord,
    attempt: &Try,
) -> PendingCall {
    let nonce = attempt.nonce;
    let order = copy_order(shared, key, copy, attempt);
    let status = call_destination(shared, key, CallKind::CopyStatus, move |site| {
        async move { site.copy_status(&order).await }.boxed()
    });
    result_of_call(status, move |status| CallOutcome::Status(nonce, status))
}

/// Stops a copy. A copy that was whole before the request to stop came counts as whole.
fn stop_copying(shared: &Shared, key: &CopyKey, copy: &CopyRecord, attempt: &Try) -> PendingCall {
    let nonce = attempt.nonce;
    let order = copy_order(shared, key, copy, attempt);
    let stopped = call_destination(shared, key, CallKind::StopCopy, move |site| {
        async move {
            site.stop_copy(&order, false).await?;
            site.copy_status(&order).await
        }
        .boxed()
    });
    result_of_call(stopped, move |status| match status {
        CopyStatus::Complete => CallOutcome::Tell(CopyCommand::Observed {
            nonce,
            seen: SeenCopy::Complete,
        }),
        CopyStatus::Absent | CopyStatus::Failed { .. } => {
            CallOutcome::Tell(CopyCommand::StopConfirmed { nonce })
        }
        CopyStatus::Running { done } => {
            let problem = format!("it still runs after it was stopped, with {done} copied");
            CallOutcome::Again(SiteError::OutcomeUnknown(problem))
        }
    })
}

fn discard_partial(
    shared: &Shared,
    key: &CopyKey,
    copy: &CopyRecord,
    attempt: &Try,
) -> PendingCall {
    let nonce = attempt.nonce;
    let order = copy_order(shared, key, copy, attempt);
    if bug(Bug::ForgetDiscard) {
        let done = CopyCommand::DiscardConfirmed { nonce };
        return async move { CallOutcome::Tell(done) }.boxed();
    }
    let discarded = call_destination(shared, key, CallKind::StopCopy, move |site| {
        async move { site.stop_copy(&order, true).await }.boxed()
    });
    result_of_call(discarded, move |()| {
        CallOutcome::Tell(CopyCommand::DiscardConfirmed { nonce })
    })
}

fn delete_unneeded(shared: &Shared, key: &CopyKey, nonce: Nonce) -> PendingCall {
    let digest = key.0;
    if bug(Bug::ForgetDelete) {
        let done = CopyCommand::DeleteConfirmed { nonce };
        return async move { CallOutcome::Tell(done) }.boxed();
    }
    let deleted = call_destination(shared, key, CallKind::DeleteContent, move |site| {
        async move { site.delete_content(digest).await }.boxed()
    });
    result_of_call(deleted, move |()| {
        CallOutcome::Tell(CopyCommand::DeleteConfirmed { nonce })
    })
}

/// Translates a status for the copy; an error for one that runs, which is watched.
pub(super) fn seen_of_status(status: CopyStatus) -> Result<SeenCopy, Bytes> {
    Ok(match status {
        CopyStatus::Running { done } => return Err(done),
        CopyStatus::Absent => SeenCopy::Absent,
        CopyStatus::Complete => SeenCopy::Complete,
        CopyStatus::Failed { blame, detail } => {
            let blame = match blame {
                CopyBlame::Source => TryBlame::Source,
                CopyBlame::Destination => TryBlame::Destination,
                CopyBlame::Process => TryBlame::Process,
            };
            SeenCopy::Failed {
                blame,
                detail: detail.into(),
            }
        }
    })
}
