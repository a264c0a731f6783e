//! Reading a request's body, with bounds on size and time.

use std::pin::pin;
use std::task::Poll;

use actix_web::http::header;
use actix_web::web::{Bytes, Payload};
use actix_web::{HttpMessage, HttpRequest};
use serde::de::DeserializeOwned;

use super::failure::HttpFailure;
use super::http_settings::HttpSettings;
use super::revoked_keys::wait_until_request_barred;
use super::unread_bodies::UnreadBody;
use cospan_api::v1::parse;
use cospan_api::v1::problem::Code;

/// Reads the whole body.
pub(super) async fn read_body(
    request: &HttpRequest,
    payload: Payload,
    settings: &HttpSettings,
) -> Result<Bytes, HttpFailure> {
    let limit = settings.max_body_bytes;
    let length = request.headers().get(header::CONTENT_LENGTH);
    let announced = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        request
            .extensions_mut()
            .insert(UnreadBody(payload.into_inner()));
        return Err(body_too_large(limit));
    }
    let mut whole = pin!(payload.to_bytes_limited(limit));
    // Nearly every body comes with its head, and needs no timer.
    let read = match futures_util::poll!(whole.as_mut()) {
        Poll::Ready(read) => Ok(read),
        Poll::Pending => tokio::select! {
            biased;
            read = actix_web::rt::time::timeout(settings.body_timeout, whole) => read,
            failure = wait_until_request_barred(request) => return Err(failure),
        },
    };
    match read {
        Ok(Ok(Ok(bytes))) => Ok(bytes),
        Ok(Ok(Err(error))) => Err(HttpFailure::new(
            Code::BadRequest,
            format!("the body did not arrive whole: {error}"),
        )),
        Ok(Err(_)) => Err(body_too_large(limit)),
        Err(_) => {
            let seconds = settings.body_timeout.as_secs();
            let detail = format!("the body did not arrive within {seconds} s");
            Err(HttpFailure::new(Code::RequestTimeout, detail))
        }
    }
}

fn body_too_large(limit: usize) -> HttpFailure {
    HttpFailure::new(
        Code::BodyTooLarge,
        format!("the body is longer than {limit} bytes"),
    )
}

/// Reads the body as JSON of one type.
pub(super) async fn read_json<T: DeserializeOwned>(
    request: &HttpRequest,
    payload: Payload,
    settings: &HttpSettings,
) -> Result<T, HttpFailure> {
    let bytes = read_body(request, payload, settings).await?;
    parse_json(&bytes, false)
}

/// Parses JSON once; a second time only after an error, to find its place.
pub(super) fn parse_json<T: DeserializeOwned>(
    bytes: &[u8],
    in_array: bool,
) -> Result<T, HttpFailure> {
    serde_json::from_slice(bytes).map_err(|error| match parse::read_json::<T>(bytes) {
        Err(located) => HttpFailure::unreadable_body(located, in_array),
        Ok(_) => HttpFailure::new(Code::BadBody, error.to_string()),
    })
}
