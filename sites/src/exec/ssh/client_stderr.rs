//! The standard error of a client of SSH. It is read to its end at all times, so that no writer is
//! held up, and some of it is kept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

/// The most that is kept, in bytes.
const KEPT: usize = 2_000;

/// The longest that we wait for its end.
const PATIENCE: Duration = Duration::from_secs(1);

/// The last words that were said.
#[derive(Debug)]
pub(super) struct SshClientStderr {
    kept: Arc<Mutex<Vec<u8>>>,
    ended: watch::Receiver<bool>,
}

impl SshClientStderr {
    pub(super) fn start_reading(mut from: impl AsyncRead + Unpin + Send + 'static) -> Arc<Self> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (ends, ended) = watch::channel(false);
        let to = kept.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok(length @ 1..) = from.read(&mut buffer).await {
                let mut kept = to.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..length]);
                let excess = kept.len().saturating_sub(KEPT);
                kept.drain(..excess);
            }
            let _ = ends.send(true);
        });
        Arc::new(Self { kept, ended })
    }

    /// Returns what was said lately.
    pub(super) fn recent_words(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// Returns all that is kept, on one line, after the end; `None` if nothing was said.
    pub(super) async fn words_at_end(&self) -> Option<String> {
        let mut ended = self.ended.clone();
        let _ = tokio::time::timeout(PATIENCE, ended.wait_for(|ended| *ended)).await;
        let recent = self.recent_words();
        let lines: Vec<&str> = recent
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}
