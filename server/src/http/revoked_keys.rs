//! Long requests, and keys that change meanwhile: the permission of a request ends when its key is
//! removed, or loses the role that the request needs.
//!
//! An answer that is sent in pieces breaks off, so that nobody takes it for complete; a client that
//! tries again gets the reason. A request that changes something is completed once its body is
//! read: its answer says what was done.

use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::HttpMessage;
use actix_web::HttpRequest;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::web::{Bytes, Data};

use super::failure::HttpFailure;
use super::middleware::RequestCaller;
use super::state::HttpState;

/// Waits until the caller may not continue, and returns the reason.
pub(super) async fn wait_until_barred(edge: Data<HttpState>, caller: RequestCaller) -> HttpFailure {
    let mut changed = edge.keys.watch_changes();
    loop {
        // Checked after each change, and once before: the key may have changed since the request
        // came.
        if let Err(failure) = caller.check_still_allowed(&edge) {
            return failure;
        }
        if changed.changed().await.is_err() {
            // The keys exist as long as the server.
            pending::<()>().await;
        }
    }
}

/// Does the same for a request; one without a key is never barred.
pub(super) async fn wait_until_request_barred(request: &HttpRequest) -> HttpFailure {
    let caller = request.extensions().get::<RequestCaller>().cloned();
    match (request.app_data::<Data<HttpState>>().cloned(), caller) {
        (Some(edge), Some(caller)) => wait_until_barred(edge, caller).await,
        _ => pending().await,
    }
}

/// Wraps an answer so that its remaining pieces, if any, end when the caller is barred.
pub(super) fn end_answer_when_barred<B: MessageBody + 'static>(
    answer: ServiceResponse<B>,
    edge: &Data<HttpState>,
    caller: Option<&RequestCaller>,
) -> ServiceResponse<BoxBody> {
    let Some(caller) = caller.cloned() else {
        return answer.map_into_boxed_body();
    };
    let edge = edge.clone();
    answer.map_body(move |_, body| match body.try_into_bytes() {
        Ok(bytes) => BoxBody::new(bytes),
        Err(body) => {
            let barred = Box::pin(wait_until_barred(edge.clone(), caller.clone()));
            BoxBody::new(RevocableBody {
                body: body.boxed(),
                barred,
                edge,
                caller,
            })
        }
    })
}

struct RevocableBody {
    body: BoxBody,
    barred: Pin<Box<dyn Future<Output = HttpFailure>>>,
    edge: Data<HttpState>,
    caller: RequestCaller,
}

impl MessageBody for RevocableBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        if let Poll::Ready(failure) = self.barred.as_mut().poll(context) {
            return Poll::Ready(Some(Err(failure.into())));
        }
        let next = Pin::new(&mut self.body).poll_next(context);
        // The keys may have changed while the piece was made.
        if let Poll::Ready(Some(Ok(_))) = next
            && let Err(failure) = self.caller.check_still_allowed(&self.edge)
        {
            return Poll::Ready(Some(Err(failure.into())));
        }
        next
    }
}
