//! In front of every handler: authentication, rate limits, and metrics.
//!
//! Everything is closed unless the table of [`super::access`] opens it, so that a new address
//! cannot be left open by oversight.

use std::time::Instant;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, FromRequest, HttpMessage, HttpRequest, ResponseError};
use cospan_domain::ids::KeyName;
use std::fmt;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::Arc;

use super::access::{AccessNeed, AccessRule};
use super::failure::HttpFailure;
use super::http_metrics::EndpointLabel;
use super::revoked_keys::{end_answer_when_barred, wait_until_barred};
use super::state::HttpState;
use super::unread_bodies::{self, UnreadBody};
use crate::keys::{AdmittedKey, Role};
use cospan_api::v1::problem::{Code, Problem};

/// The key of a request, and its reach at this address.
#[derive(Clone)]
pub(super) struct RequestCaller {
    member: Arc<AdmittedKey>,
    /// The rule that lets it in; `None` if no rule matches.
    rule: Option<&'static AccessRule>,
    reaches_all: bool,
    address: Option<IpAddr>,
}

impl RequestCaller {
    pub(super) fn name(&self) -> &KeyName {
        &self.member.name
    }

    /// The address from which the request came.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns true if the caller may see, or change, the objects of this key.
    pub(super) fn can_reach(&self, owner: &KeyName) -> bool {
        self.reaches_all || self.member.name == *owner
    }

    /// Returns true if the caller sees objects of others in lists.
    pub(super) fn can_see_rows(&self) -> bool {
        self.has_role(Role::Operator)
    }

    /// Checks that the caller may continue, after its key may have changed.
    ///
    /// # Errors
    /// The key was removed, or has lost a role that is needed.
    pub(super) fn check_still_allowed(&self, edge: &HttpState) -> Result<(), HttpFailure> {
        let now = edge
            .keys
            .current_key(&self.member)
            .ok_or_else(missing_key_failure)?;
        let needed = self.rule.and_then(|rule| match rule.needs {
            AccessNeed::Role(role) => Some(role),
            AccessNeed::Nothing | AccessNeed::KeyUnlessPublic => None,
        });
        let others = self
            .rule
            .and_then(|rule| rule.others)
            .filter(|_| self.reaches_all);
        let lost = needed
            .into_iter()
            .chain(others)
            .find(|role| !now.roles.has_role(*role));
        lost.map_or(Ok(()), |role| Err(missing_role_failure(&now.name, role)))
    }

    /// Returns true if the request may wait for an event and changes nothing by itself.
    fn can_wait(&self) -> bool {
        self.rule
            .is_some_and(|rule| rule.method == "GET" || rule.path.ends_with("/complete"))
    }

    pub(super) fn has_role(&self, role: Role) -> bool {
        self.member.roles.has_role(role)
    }
}

/// The refusal of an object that a key sees, but may not open or change because it belongs to
/// another key.
pub(super) fn another_keys_failure(what: impl fmt::Display) -> HttpFailure {
    Problem::new(Code::Forbidden, format!("{what} belongs to another key"))
        .with_role(Role::Administrator.as_str())
        .with_remedy("ask its owner, or use a key with the role administrator")
        .into()
}

impl FromRequest for RequestCaller {
    type Error = HttpFailure;
    type Future = Ready<Result<Self, HttpFailure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(
            request
                .extensions()
                .get::<RequestCaller>()
                .cloned()
                .ok_or_else(missing_key_failure),
        )
    }
}

fn missing_role_failure(key: &KeyName, role: Role) -> HttpFailure {
    Problem::new(Code::Forbidden, format!("key {key} lacks the role {role}"))
        .with_role(role.as_str())
        .with_remedy(format!(
            "give it with `cospan key grant {key} --role {role}`, or set COSPAN_TOKEN to the token \
             of a key that has it"
        ))
        .into()
}

fn missing_key_failure() -> HttpFailure {
    Problem::new(Code::NoKey, "the request has no valid key")
        .with_remedy(
            "send the header `Authorization: Bearer <token>`; on the server's own machine the \
             command line finds a token by itself, and `cospan key add` makes more",
        )
        .into()
}

/// The middleware.
pub(super) async fn access_middleware(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let begun = Instant::now();
    let endpoint = EndpointLabel::of_request(request.method() == Method::POST, request.path());
    let Some(edge) = request.app_data::<Data<HttpState>>().cloned() else {
        return Err(HttpFailure::internal("find the server's state", "it was not set").into());
    };
    let answer = match admit_request(&request, &edge, begun) {
        Ok(()) => match run_handler(request, next, &edge).await {
            Ok(answer) => Ok(handle_unread_body(answer).await),
            Err(error) => Err(error),
        },
        Err(failure) => {
            let (request, payload) = request.into_parts();
            let response = unread_bodies::end_unread_request(
                failure.error_response(),
                payload,
                unread_bodies::LITTLE,
            )
            .await;
            Ok(ServiceResponse::new(request, response))
        }
    };
    let status = match &answer {
        Ok(answer) => answer.status(),
        Err(error) => error.as_response_error().status_code(),
    };
    edge.metrics
        .observe_answer(endpoint, status.as_u16(), begun.elapsed().as_secs_f64());
    answer.map(|mut answer| {
        let ends = status == StatusCode::PAYLOAD_TOO_LARGE
            || is_keyless_flood(status, &answer)
            || is_caller_barred(status, &answer, &edge);
        if ends {
            // Whatever follows on this connection is not worth reading.
            answer
                .response_mut()
                .head_mut()
                .set_connection_type(actix_web::http::ConnectionType::Close);
        }
        answer
    })
}

/// Runs the handler, unless the caller is barred meanwhile.
async fn run_handler(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
    edge: &Data<HttpState>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let caller = request.extensions().get::<RequestCaller>().cloned();
    let answer = match caller.clone().filter(RequestCaller::can_wait) {
        None => next.call(request).await?,
        Some(waiting) => tokio::select! {
            biased;
            answer = next.call(request) => answer?,
            failure = wait_until_barred(edge.clone(), waiting) => return Err(failure.into()),
        },
    };
    Ok(end_answer_when_barred(answer, edge, caller.as_ref()))
}

/// Handles a body that the handler has not read.
async fn handle_unread_body(answer: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let unread = answer.request().extensions_mut().remove::<UnreadBody>();
    let Some(UnreadBody(payload)) = unread else {
        return answer;
    };
    let (request, response) = answer.into_parts();
    let response = unread_bodies::end_unread_request(response, payload, unread_bodies::MUCH).await;
    ServiceResponse::new(request, response)
}

/// Returns true if the caller is barred: the rest of its body is not read then.
fn is_caller_barred<B>(status: StatusCode, answer: &ServiceResponse<B>, edge: &HttpState) -> bool {
    [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status)
        && answer
            .request()
            .extensions()
            .get::<RequestCaller>()
            .is_some_and(|caller| caller.check_still_allowed(edge).is_err())
}

fn is_keyless_flood<B>(status: StatusCode, answer: &ServiceResponse<B>) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        && answer
            .request()
            .extensions()
            .get::<RequestCaller>()
            .is_none()
}

/// Admits a request that the table allows. A caller without a key does not learn which addresses
/// exist.
fn admit_request(
    request: &ServiceRequest,
    edge: &HttpState,
    begun: Instant,
) -> Result<(), HttpFailure> {
    let rule = edge
        .access
        .find_rule(request.method().as_str(), request.match_info().as_str());
    match rule.as_ref().map(|rule| rule.needs) {
        Ok(AccessNeed::Nothing) => return Ok(()),
        Ok(AccessNeed::KeyUnlessPublic) if edge.settings.metrics_without_key => return Ok(()),
        _ => {}
    }
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(bearer_token);
    let Some(member) = given.and_then(|token| find_key(edge, token)) else {
        return Err(refuse_request(request, edge, begun));
    };
    let admitted = member.count_request(
        edge.seconds_since_start(begun),
        edge.settings.max_requests_per_s_per_key,
    );
    let known = rule.as_ref().ok().copied();
    let others = known.and_then(|rule| rule.others);
    let reaches_all = others.is_some_and(|role| member.roles.has_role(role));
    let address = request.peer_addr().map(|peer| peer.ip());
    let caller = RequestCaller {
        member: member.clone(),
        rule: known,
        reaches_all,
        address,
    };
    request.extensions_mut().insert(caller);
    if !admitted {
        let limit = edge.settings.max_requests_per_s_per_key;
        let detail = format!(
            "key {} sent more than {limit} requests in a second",
            member.name
        );
        return Err(Problem::new(Code::TooManyRequests, detail)
            .with_retry_after(1)
            .into());
    }
    let rule = rule?;
    match rule.needs {
        AccessNeed::Role(role) if !member.roles.has_role(role) => {
            return Err(missing_role_failure(&member.name, role));
        }
        AccessNeed::Role(_) | AccessNeed::Nothing | AccessNeed::KeyUnlessPublic => {}
    }
    match edge.backend.read_only_reason() {
        Some(why) if !rule.is_served_read_only() => Err(HttpFailure::new(Code::ReadOnly, why)),
        Some(_) | None => Ok(()),
    }
}

/// Finds the key of a token. An unknown key may have been made just now: a check of the key file
/// takes microseconds.
fn find_key(edge: &HttpState, token: &[u8]) -> Option<Arc<AdmittedKey>> {
    edge.keys.find_by_token(token).or_else(|| {
        let is_new = edge.keys.reload_if_changed().unwrap_or(false);
        is_new.then(|| edge.keys.find_by_token(token)).flatten()
    })
}

fn refuse_request(request: &ServiceRequest, edge: &HttpState, begun: Instant) -> HttpFailure {
    edge.metrics.keyless.inc();
    let address = request.peer_addr().map(|peer| peer.ip());
    let limit = edge.settings.max_failures_per_minute;
    if edge
        .failures
        .count_failure(address, edge.seconds_since_start(begun), limit)
    {
        return missing_key_failure();
    }
    let detail = format!("more than {limit} requests without a valid key came from this address");
    Problem::new(Code::TooManyFailures, detail)
        .with_retry_after(60)
        .into()
}

fn bearer_token(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}
