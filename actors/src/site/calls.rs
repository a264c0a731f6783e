//! The one way to a site: bounded, counted, one kind of message for every call.

use std::sync::Arc;

use actix::{Handler, Message};
use cospan_sites::port::{CallKind, Site, SiteError};
use futures_util::future::BoxFuture;
use prometheus::IntGauge;

use super::ClusterActor;
use crate::chaos;
use crate::metrics::Metrics;
use crate::supervision::ActorKind;

type SiteCall<T> =
    Box<dyn FnOnce(Arc<dyn Site>) -> BoxFuture<'static, Result<T, SiteError>> + Send>;

/// A call to the site of a cluster actor.
#[derive(Message)]
#[rtype(result = "Result<T, SiteError>")]
pub struct Call<T: Send + 'static> {
    kind: CallKind,
    run: SiteCall<T>,
}

impl<T: Send + 'static> Call<T> {
    /// A call that runs `run` on the site.
    pub fn new(
        kind: CallKind,
        run: impl FnOnce(Arc<dyn Site>) -> BoxFuture<'static, Result<T, SiteError>> + Send + 'static,
    ) -> Self {
        Self {
            kind,
            run: Box::new(run),
        }
    }
}

/// Counts a call from when it is taken in until it is over, or its actor is.
struct CountedCall(IntGauge);

impl CountedCall {
    fn new(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Returns the outcome of a call as a label.
pub(super) fn outcome_label<T>(result: &Result<T, SiteError>) -> &'static str {
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
pub(super) fn count_call<T>(metrics: &Metrics, kind: CallKind, result: &Result<T, SiteError>) {
    metrics
        .site_calls
        .with_label_values(&[kind.as_str(), outcome_label(result)])
        .inc();
}

impl<T: Send + 'static> Handler<Call<T>> for ClusterActor {
    type Result = actix::ResponseFuture<Result<T, SiteError>>;

    fn handle(&mut self, call: Call<T>, _: &mut actix::Context<Self>) -> Self::Result {
        chaos::enter_handler(ActorKind::Cluster);
        let permits = if call.kind.is_long() {
            &self.long_calls
        } else {
            &self.calls
        };
        let permits = permits.clone();
        let site = self.site.clone();
        let shared = self.shared.clone();
        let name = self.name.clone();
        let counted = CountedCall::new(self.gauges.calls.clone());
        Box::pin(async move {
            let _counted = counted;
            let Ok(_permit) = permits.acquire_owned().await else {
                return Err(SiteError::NotSent("the site's calls are closed".into()));
            };
            let result = (call.run)(site).await;
            count_call(&shared.metrics, call.kind, &result);
            if matches!(result, Err(SiteError::OutOfOrder(_))) {
                // The site itself must report that it is out of order before anybody else tries.
                shared.live.want_fresh(&name, shared.clock.now());
                shared.actors.clusters.request_look_of(&name);
            }
            result
        })
    }
}
