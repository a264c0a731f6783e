//! Has the site do what is due for a copy. Every request may be made again: the site joins the
//! copying that runs under the same nonce, and passes over a deletion that has been done.

use cospan_domain::transfer::copy_command::{CopyCommand, CopySighting, CopyStartAnswer};
use cospan_domain::transfer::copy_due::CopyEffect;
use cospan_domain::transfer::copy_event::TryFaultSide;
use cospan_domain::transfer::copy_state::{CopyRecord, CopyTry, TryNonce};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use cospan_sites::port::{
    CopyBlame, CopyRequest, CopySource, CopyStatus, Site, SiteCallKind, SiteError,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::CopyKey;
use crate::chaos::{self, CrashPoint};
use crate::context::SharedState;
use crate::site::{ClusterActor, SiteCallMessage};

/// The result of a call.
#[derive(Debug)]
pub(super) enum CopyCallOutcome {
    /// A command for the copy.
    Tell(CopyCommand),
    /// The status of the copy under this nonce.
    Status(TryNonce, CopyStatus),
    /// True if the store has the content of a copy that is taken to be whole.
    Has(TryNonce, bool),
    /// Not done, or not known to be: again, after a while.
    Again(SiteError),
}

type PendingCopyCall = BoxFuture<'static, CopyCallOutcome>;

/// Starts a call for an effect; `None` if it needs no site.
pub(super) fn call_for_effect(
    shared: &SharedState,
    key: &CopyKey,
    copy: &CopyRecord,
    effect: &CopyEffect,
) -> Option<PendingCopyCall> {
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
pub(super) fn call_has_content(
    shared: &SharedState,
    key: &CopyKey,
    nonce: TryNonce,
) -> PendingCopyCall {
    let digest = key.0;
    let has = call_destination(shared, key, SiteCallKind::HasContent, move |site| {
        async move { site.files().has_content(digest).await }.boxed()
    });
    outcome_of_call(has, move |has| CopyCallOutcome::Has(nonce, has))
}

type SiteHandle = std::sync::Arc<dyn Site>;

/// Makes one call to the destination, through its site actor.
fn call_destination<T: Send + 'static>(
    shared: &SharedState,
    (_, site): &CopyKey,
    kind: SiteCallKind,
    run: impl FnOnce(SiteHandle) -> BoxFuture<'static, Result<T, SiteError>> + Send + 'static,
) -> BoxFuture<'static, Result<T, SiteError>> {
    let cluster = shared.actors.addr::<ClusterActor>(site);
    let call = SiteCallMessage::new(kind, run);
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

fn outcome_of_call<T: Send + 'static>(
    called: BoxFuture<'static, Result<T, SiteError>>,
    done: impl FnOnce(T) -> CopyCallOutcome + Send + 'static,
) -> PendingCopyCall {
    called
        .map(|result| result.map_or_else(CopyCallOutcome::Again, done))
        .boxed()
}

fn make_copy_request(
    shared: &SharedState,
    (_, to): &CopyKey,
    copy: &CopyRecord,
    order: &CopyTry,
) -> CopyRequest {
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

fn start_copying(
    shared: &SharedState,
    key: &CopyKey,
    copy: &CopyRecord,
    attempt: &CopyTry,
) -> PendingCopyCall {
    let nonce = attempt.nonce;
    let order = make_copy_request(shared, key, copy, attempt);
    let started = call_destination(shared, key, SiteCallKind::StartCopy, move |site| {
        async move { site.copies().start_copy(&order).await }.boxed()
    });
    started
        .map(move |started| {
            let answer = match started {
                Ok(()) => CopyStartAnswer::Taken,
                Err(SiteError::OutcomeUnknown(_)) => CopyStartAnswer::Unknown,
                // The destination's own answer, such as a full disk: counts against it.
                Err(SiteError::Refused(detail) | SiteError::Unfit(detail)) => {
                    CopyStartAnswer::Refused(detail.into())
                }
                // No error of anybody, and nothing happened.
                Err(
                    error @ (SiteError::NotSent(_)
                    | SiteError::LockedOut(_)
                    | SiteError::OutOfOrder(_)
                    | SiteError::SiteFull(_)),
                ) => return CopyCallOutcome::Again(error),
            };
            CopyCallOutcome::Tell(CopyCommand::StartAnswered { nonce, answer })
        })
        .boxed()
}

fn copy_status_call(
    shared: &SharedState,
    key: &CopyKey,
    copy: &CopyRecord,
    attempt: &CopyTry,
) -> PendingCopyCall {
    let nonce = attempt.nonce;
    let order = make_copy_request(shared, key, copy, attempt);
    let status = call_destination(shared, key, SiteCallKind::CopyStatus, move |site| {
        async move { site.copies().copy_status(&order).await }.boxed()
    });
    outcome_of_call(status, move |status| CopyCallOutcome::Status(nonce, status))
}

/// Stops a copy. A copy that was whole before the request to stop came counts as whole.
fn stop_copying(
    shared: &SharedState,
    key: &CopyKey,
    copy: &CopyRecord,
    attempt: &CopyTry,
) -> PendingCopyCall {
    let nonce = attempt.nonce;
    let order = make_copy_request(shared, key, copy, attempt);
    let stopped = call_destination(shared, key, SiteCallKind::StopCopy, move |site| {
        async move {
            site.copies().stop_copy(&order, false).await?;
            site.copies().copy_status(&order).await
        }
        .boxed()
    });
    outcome_of_call(stopped, move |status| match status {
        CopyStatus::Complete => CopyCallOutcome::Tell(CopyCommand::Observed {
            nonce,
            seen: CopySighting::Complete,
        }),
        CopyStatus::Absent | CopyStatus::Failed { .. } => {
            CopyCallOutcome::Tell(CopyCommand::StopConfirmed { nonce })
        }
        CopyStatus::Running { done } => {
            let problem = format!("it still runs after it was stopped, with {done} copied");
            CopyCallOutcome::Again(SiteError::OutcomeUnknown(problem))
        }
    })
}

fn discard_partial(
    shared: &SharedState,
    key: &CopyKey,
    copy: &CopyRecord,
    attempt: &CopyTry,
) -> PendingCopyCall {
    let nonce = attempt.nonce;
    let order = make_copy_request(shared, key, copy, attempt);
    let discarded = call_destination(shared, key, SiteCallKind::StopCopy, move |site| {
        async move { site.copies().stop_copy(&order, true).await }.boxed()
    });
    outcome_of_call(discarded, move |()| {
        CopyCallOutcome::Tell(CopyCommand::DiscardConfirmed { nonce })
    })
}

fn delete_unneeded(shared: &SharedState, key: &CopyKey, nonce: TryNonce) -> PendingCopyCall {
    let digest = key.0;
    let deleted = call_destination(shared, key, SiteCallKind::DeleteContent, move |site| {
        async move { site.files().delete_content(digest).await }.boxed()
    });
    outcome_of_call(deleted, move |()| {
        CopyCallOutcome::Tell(CopyCommand::DeleteConfirmed { nonce })
    })
}

/// Translates a status for the copy; an error for one that runs, which is watched.
pub(super) fn seen_copy_of_status(status: CopyStatus) -> Result<CopySighting, Bytes> {
    Ok(match status {
        CopyStatus::Running { done } => return Err(done),
        CopyStatus::Absent => CopySighting::Absent,
        CopyStatus::Complete => CopySighting::Complete,
        CopyStatus::Failed { blame, detail } => {
            let blame = match blame {
                CopyBlame::Source => TryFaultSide::Source,
                CopyBlame::Destination => TryFaultSide::Destination,
                CopyBlame::Process => TryFaultSide::Process,
            };
            CopySighting::Failed {
                blame,
                detail: detail.into(),
            }
        }
    })
}
