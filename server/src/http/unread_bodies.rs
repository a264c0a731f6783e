//! Answers to requests whose body is not worth reading: without a key, without the role, or too
//! long. A short rest of a body is read, so that the connection can be reused; a longer one is
//! left, and the connection is cut once the answer is sent.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::{BoxBody, MessageBody, SizedStream};
use actix_web::dev::Payload;
use actix_web::http::ConnectionType;
use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt, stream};

use super::failure::HttpFailure;
use cospan_api::v1::problem::Code;

/// The bytes of a body that are read, and the time for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnreadLimits {
    bytes: usize,
    time: Duration,
}

/// For callers without a key or without the role.
pub(super) const LITTLE: UnreadLimits = UnreadLimits {
    bytes: 16 << 10,
    time: Duration::from_millis(250),
};
/// For callers with permission: most clients read no answer before they have sent everything.
pub(super) const MUCH: UnreadLimits = UnreadLimits {
    bytes: 64 << 20,
    time: Duration::from_secs(5),
};

/// Pause before the cut: a connection that is cut while data arrive is reset, and with it goes an
/// answer that was not read yet.
const LINGER: Duration = Duration::from_millis(500);

/// A body of which nothing was read, left by a handler for the gate.
pub(super) struct UnreadBody(pub(super) Payload);

/// Returns the answer, and ends the connection after it unless the rest of the body is short.
pub(super) async fn end_unread_request<B: MessageBody + 'static>(
    response: HttpResponse<B>,
    mut payload: Payload,
    patience: UnreadLimits,
) -> HttpResponse<BoxBody> {
    if is_rest_short(&mut payload, patience).await {
        response.map_into_boxed_body()
    } else {
        cut_connection(response, payload)
    }
}

async fn is_rest_short(payload: &mut Payload, patience: UnreadLimits) -> bool {
    let mut read = 0;
    let whole = async {
        while let Some(Ok(piece)) = payload.next().await {
            read += piece.len();
            if read > patience.bytes {
                return false;
            }
        }
        true
    };
    actix_web::rt::time::timeout(patience.time, whole)
        .await
        .unwrap_or(false)
}

fn cut_connection<B: MessageBody + 'static>(
    response: HttpResponse<B>,
    payload: Payload,
) -> HttpResponse<BoxBody> {
    let (mut head, body) = response.into_parts();
    head.head_mut().set_connection_type(ConnectionType::Close);
    // A problem document is in memory.
    let text = body.try_into_bytes().unwrap_or_default();
    let length = text.len() as u64;
    head.set_body(BoxBody::new(SizedStream::new(
        length,
        Box::pin(answer_then_error(text, payload)),
    )))
}

/// The whole answer, and then an error, which makes the HTTP layer cut the connection. As long as
/// the body is held and not read, no more of it is taken from the client.
fn answer_then_error(
    text: Bytes,
    payload: Payload,
) -> impl Stream<Item = Result<Bytes, HttpFailure>> {
    stream::unfold((Some(text), payload), |(text, payload)| async move {
        if let Some(text) = text {
            return Some((Ok(text), (None, payload)));
        }
        actix_web::rt::time::sleep(LINGER).await;
        let end = HttpFailure::new(Code::BadRequest, "the rest of the body is not read");
        Some((Err(end), (None, payload)))
    })
}
