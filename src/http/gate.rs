//! In front of every handler: who asks, how often, and how it went.
//!
//! Everything is closed unless it is listed here as open, so that a new address
//! cannot be left open by oversight.

use std::time::Instant;

use actix_web::body::MessageBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, FromRequest, HttpMessage, HttpRequest, ResponseError};
use cospan_domain::ids::KeyName;
use std::future::{Ready, ready};
use std::sync::Arc;

use super::failure::Failure;
use super::metrics::Endpoint;
use super::state::Edge;
use crate::api::v1::problem::{Code, Problem};
use crate::keys::{Member, Role};

/// The key that a request came with.
pub(super) struct Caller(pub(super) KeyName);

impl FromRequest for Caller {
    type Error = Failure;
    type Future = Ready<Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let extensions = request.extensions();
        let member = extensions.get::<Arc<Member>>();
        ready(member.map(|member| Caller(member.name.clone())).ok_or_else(no_key))
    }
}

/// Whether the key of a request may ask for any class of placement queue.
pub(super) struct Uncapped(pub(super) bool);

impl FromRequest for Uncapped {
    type Error = Failure;
    type Future = Ready<Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let member = request.extensions().get::<Arc<Member>>().cloned();
        ready(member.ok_or_else(no_key).map(|m| Uncapped(m.roles.contains(&Role::Priority))))
    }
}

/// A key that may inject faults.
pub(super) struct ChaosCaller(pub(super) KeyName);

impl FromRequest for ChaosCaller {
    type Error = Failure;
    type Future = Ready<Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let member = request.extensions().get::<Arc<Member>>().cloned();
        ready(member.ok_or_else(no_key).and_then(
            |member| match member.roles.contains(&Role::Chaos) {
                true => Ok(ChaosCaller(member.name.clone())),
                false => Err(no_role(&member.name, Role::Chaos)),
            },
        ))
    }
}

fn no_role(key: &KeyName, role: Role) -> Failure {
    Problem::new(Code::Forbidden, format!("the key {key} has not the role {role}"))
        .remedy(format!(
            "give it with `cospan key grant {key} --role {role}`, or set COSPAN_TOKEN to the token \
             of a key that has it"
        ))
        .into()
}

fn no_key() -> Failure {
    Problem::new(Code::NoKey, "the request carries no valid key")
        .remedy(
            "send the header `Authorization: Bearer <token>`; on the server's own machine the \
             command line finds a token by itself, and `cospan key add` makes more",
        )
        .into()
}

/// The middleware.
pub(super) async fn pass(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let begun = Instant::now();
    let endpoint = Endpoint::of(request.method() == Method::POST, request.path());
    let Some(edge) = request.app_data::<Data<Edge>>().cloned() else {
        return Err(Failure::internal("find the server's state", "it was not set").into());
    };
    let answer = match admit(&request, &edge, begun) {
        Ok(()) => match next.call(request).await {
            Ok(answer) => Ok(answer.map_into_left_body()),
            Err(error) => Err(error),
        },
        Err(failure) => {
            let response = failure.error_response();
            Ok(request.into_response(response).map_into_right_body())
        }
    };
    let status = match &answer {
        Ok(answer) => answer.status(),
        Err(error) => error.as_response_error().status_code(),
    };
    edge.metrics.answered(endpoint, status.as_u16(), begun.elapsed().as_secs_f64());
    answer.map(|mut answer| {
        if status == StatusCode::PAYLOAD_TOO_LARGE || is_flood(status, &answer) {
            // What follows on this connection is not worth reading.
            answer
                .response_mut()
                .head_mut()
                .set_connection_type(actix_web::http::ConnectionType::Close);
        }
        answer
    })
}

fn is_flood<B>(status: StatusCode, answer: &ServiceResponse<B>) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        && answer.request().extensions().get::<Arc<Member>>().is_none()
}

fn is_open(edge: &Edge, path: &str) -> bool {
    match path {
        "/livez" | "/readyz" => true,
        "/metrics" => edge.settings.metrics_without_key,
        _ => false,
    }
}

fn admit(request: &ServiceRequest, edge: &Edge, begun: Instant) -> Result<(), Failure> {
    if is_open(edge, request.path()) {
        return Ok(());
    }
    let given = request.headers().get(header::AUTHORIZATION).and_then(bearer);
    let Some(member) = given.and_then(|token| edge.keys.find(token)) else {
        return Err(refuse(request, edge, begun));
    };
    let limit = edge.settings.max_requests_per_s_per_key;
    let admitted = member.admit(edge.second_of(begun), limit);
    request.extensions_mut().insert(member.clone());
    if admitted {
        return Ok(());
    }
    let detail = format!("key {} sent more than {limit} requests in a second", member.name);
    Err(Problem::new(Code::TooManyRequests, detail).retry_after(1).into())
}

fn refuse(request: &ServiceRequest, edge: &Edge, begun: Instant) -> Failure {
    edge.metrics.keyless.inc();
    let address = request.peer_addr().map(|peer| peer.ip());
    let limit = edge.settings.max_failures_per_minute;
    if edge.failures.note(address, edge.second_of(begun), limit) {
        return no_key();
    }
    let detail = format!("more than {limit} requests without a valid key came from this address");
    Problem::new(Code::TooManyFailures, detail).retry_after(60).into()
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}
