//! The one way to a site: bounded, counted, one kind of message for every call.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Handler, Message};
use cospan_domain::ids::KeyName;
use cospan_sites::port::{Site, SiteCallKind, SiteError};
use futures_util::future::BoxFuture;
use prometheus::IntGauge;

use super::ClusterActor;
use crate::awaited_work::ReplyFuture;
use crate::chaos;
use crate::fair_turns::{FairTurns, TurnOwner};
use crate::metrics::ControlPlaneMetrics;
use crate::supervision::{ActorId, ActorKind};

type BoxedSiteCall<T> =
    Box<dyn FnOnce(Arc<dyn Site>) -> BoxFuture<'static, Result<T, SiteError>> + Send>;

/// A call to the site of a cluster actor.
#[derive(Message)]
#[rtype(result = "Result<T, SiteError>")]
pub struct SiteCallMessage<T: Send + 'static> {
    kind: SiteCallKind,
    owner: TurnOwner,
    run: BoxedSiteCall<T>,
}

impl<T: Send + 'static> SiteCallMessage<T> {
    /// A call that runs `run` on the site.
    pub fn new(
        kind: SiteCallKind,
        run: impl FnOnce(Arc<dyn Site>) -> BoxFuture<'static, Result<T, SiteError>> + Send + 'static,
    ) -> Self {
        Self {
            kind,
            owner: None,
            run: Box::new(run),
        }
    }

    /// The same in the turn of an owner, if it is a call that takes long.
    pub fn for_owner(self, owner: &KeyName) -> Self {
        Self {
            owner: Some(owner.clone()),
            ..self
        }
    }
}

/// Counts a call from when it is taken in until it is over, or its actor is.
struct CallCountGuard(IntGauge);

impl CallCountGuard {
    fn new(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for CallCountGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Returns the outcome of a call as a label.
pub(super) fn call_outcome_label<T>(result: &Result<T, SiteError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(SiteError::Refused(_)) => "refused",
        Err(SiteError::Unfit(_)) => "unfit",
        Err(SiteError::NotSent(_)) => "not-sent",
        Err(SiteError::LockedOut(_)) => "locked-out",
        Err(SiteError::OutOfOrder(_)) => "out-of-order",
        Err(SiteError::OutcomeUnknown(_)) => "unknown",
        Err(SiteError::SiteFull(_)) => "full",
    }
}

/// Counts a call to a site.
pub(super) fn count_call<T>(
    metrics: &ControlPlaneMetrics,
    kind: SiteCallKind,
    result: &Result<T, SiteError>,
) {
    metrics
        .site_calls
        .with_label_values(&[kind.as_str(), call_outcome_label(result)])
        .inc();
}

impl ClusterActor {
    /// Returns the turns in which calls of a kind are made; `None` for those that are soon over.
    /// Pieces of files do not wait for whole files.
    fn long_call_turns(&self, kind: SiteCallKind) -> Option<&FairTurns> {
        match kind {
            SiteCallKind::Inspect => Some(&self.inspections),
            kind if kind.is_long() => Some(&self.pieces),
            _ => None,
        }
    }
}

impl<T: Send + 'static> Handler<SiteCallMessage<T>> for ClusterActor {
    type Result = ReplyFuture<Result<T, SiteError>>;

    fn handle(&mut self, call: SiteCallMessage<T>, _: &mut actix::Context<Self>) -> Self::Result {
        chaos::enter_handler(ActorKind::Cluster);
        // A site can stop only an inspection. Other calls are carried through once they have begun,
        // and those that change something in any case.
        let carries_on = Rc::new(Cell::new(!call.kind.is_long() || call.kind.changes_site()));
        let begins = carries_on.clone();
        let turns = self.long_call_turns(call.kind).cloned();
        let permits = self.calls.clone();
        let site = self.site.clone();
        let shared = self.shared.clone();
        let name = self.name.clone();
        let counted = CallCountGuard::new(self.gauges.calls.clone());
        let work = async move {
            let _counted = counted;
            let closed = || SiteError::NotSent("the site's calls are closed".into());
            let (_turn, _permit) = match turns {
                Some(turns) => {
                    let turn = turns.take_turn(call.owner).await;
                    (Some(turn.map_err(|_| closed())?), None)
                }
                None => {
                    let permit = permits.acquire_owned().await;
                    (None, Some(permit.map_err(|_| closed())?))
                }
            };
            begins.set(call.kind != SiteCallKind::Inspect);
            let result = (call.run)(site).await;
            count_call(&shared.metrics, call.kind, &result);
            if matches!(result, Err(SiteError::OutOfOrder(_))) {
                // The site itself must report that it is out of order before anybody else tries.
                shared.live.request_fresh_report(&name, shared.clock.now());
                shared
                    .actors
                    .request_look_of(&ActorId::Cluster(name.clone()));
            }
            result
        };
        ReplyFuture::dropped_until(carries_on, work)
    }
}
