//! Turns of large submissions: many jobs take milliseconds to read and to store, during which a
//! request of another key would wait. So few requests of one key are worked on at once, and the key
//! waits for itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::HttpRequest;
use actix_web::http::header::CONTENT_LENGTH;
use cospan_domain::ids::KeyName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body of more bytes is large.
const LARGE_BYTES: usize = 32 << 10;
/// Requests of one key that are worked on at once: one is read while another is stored.
const AT_ONCE: usize = 2;

/// Turns by key.
#[derive(Debug, Default)]
pub(super) struct SubmissionTurns(Mutex<BTreeMap<KeyName, Arc<Semaphore>>>);

/// A turn; the next begins when it is dropped.
#[derive(Debug)]
pub(super) struct SubmissionTurn {
    _held: Option<OwnedSemaphorePermit>,
}

impl SubmissionTurns {
    /// Waits until it is the key's turn.
    pub(super) async fn wait_for_turn(&self, key: &KeyName) -> SubmissionTurn {
        let turns = {
            let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            keys.entry(key.clone())
                .or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)))
                .clone()
        };
        // Nobody closes the semaphore.
        SubmissionTurn {
            _held: turns.acquire_owned().await.ok(),
        }
    }
}

/// Returns true if the body may be long: its declared length is large, or it declares none.
pub(super) fn can_be_large(request: &HttpRequest) -> bool {
    let length = request.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    length.is_none_or(|length| length > LARGE_BYTES)
}

/// Returns true if a submission takes a turn: it is long, or one document stands for many jobs.
pub(super) fn is_large_body(body: &[u8]) -> bool {
    const SWEEP: &[u8] = b"\"sweep\"";
    body.len() > LARGE_BYTES || body.windows(SWEEP.len()).any(|part| part == SWEEP)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn only_what_says_that_it_is_short_is_read_at_once() {
        let said = |length: &str| {
            let request = actix_web::test::TestRequest::default();
            can_be_large(
                &request
                    .insert_header((CONTENT_LENGTH, length))
                    .to_http_request(),
            )
        };
        assert!(!said("32768") && said("32769"));
        assert!(can_be_large(
            &actix_web::test::TestRequest::default().to_http_request()
        ));
    }

    #[test]
    fn a_key_waits_for_itself_and_not_for_others() {
        let turns = SubmissionTurns::default();
        let key = |name: &str| KeyName::new(name).unwrap();
        let mut begun: Vec<SubmissionTurn> = (0..AT_ONCE)
            .filter_map(|_| turns.wait_for_turn(&key("anna")).now_or_never())
            .collect();
        assert_eq!(begun.len(), AT_ONCE);
        assert!(turns.wait_for_turn(&key("anna")).now_or_never().is_none());
        assert!(turns.wait_for_turn(&key("otto")).now_or_never().is_some());
        begun.pop();
        assert!(turns.wait_for_turn(&key("anna")).now_or_never().is_some());
    }

    #[test]
    fn what_is_long_or_stands_for_many_jobs_is_large() {
        assert!(!is_large_body(b"{}") && !is_large_body(&[b' '; LARGE_BYTES]));
        assert!(is_large_body(&[b' '; LARGE_BYTES + 1]));
        assert!(is_large_body(br#"{"name":"x","sweep":{"array":"1-9"}}"#));
    }
}
