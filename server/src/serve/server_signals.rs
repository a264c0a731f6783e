//! Signals to a server, received from before anything is opened until its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tracing::{info, warn};

use crate::signals::{self, SignalRequest};

/// Exit code after a second signal to end.
const EXIT_AT_ONCE: i32 = 130;

/// The stage of a server, on which the effect of a signal depends.
const STARTING: u8 = 0;
const SERVING: u8 = 1;
const STOPPING: u8 = 2;

/// Requests of signals, in order. Signals that request nothing are logged.
#[derive(Debug)]
pub struct SignalQueue {
    stage: Arc<AtomicU8>,
    asked: UnboundedReceiver<(SignalRequest, String)>,
}

/// Listens from now on.
///
/// # Errors
/// The system does not allow it.
pub fn listen() -> std::io::Result<SignalQueue> {
    let mut caught = signals::catch_all()?;
    let stage = Arc::new(AtomicU8::new(STARTING));
    let (sender, asked) = mpsc::unbounded_channel();
    let seen = stage.clone();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in caught.forever() {
                handle_signal(signal, &seen, &sender);
            }
        })?;
    Ok(SignalQueue { stage, asked })
}

fn handle_signal(signal: i32, stage: &AtomicU8, sender: &UnboundedSender<(SignalRequest, String)>) {
    let asks = SignalRequest::of(signal);
    let name = signals::signal_name(signal);
    match asks {
        SignalRequest::Nothing => info!(%name, "a signal that asks for nothing"),
        SignalRequest::Reread => drop(sender.send((asks, name))),
        SignalRequest::Stop => match stage.swap(STOPPING, Ordering::AcqRel) {
            // No request has been answered yet, and opened files can be left at any moment.
            STARTING => {
                info!(%name, "stopping before it had started");
                std::process::exit(0);
            }
            SERVING => drop(sender.send((asks, name))),
            _ => {
                warn!("a second signal: ending at once; what is durable stays");
                std::process::exit(EXIT_AT_ONCE);
            }
        },
    }
}

impl SignalQueue {
    /// Waits for the first signal to end, and returns its name; from then on a second one ends the
    /// process at once. `reread` is called for signals that request it.
    pub(super) async fn wait_for_end(&mut self, reread: impl Fn()) -> String {
        self.stage.store(SERVING, Ordering::Release);
        loop {
            match self.asked.recv().await {
                Some((SignalRequest::Reread, _)) => reread(),
                Some((SignalRequest::Stop, name)) => return name,
                Some((SignalRequest::Nothing, _)) => {}
                // The listening thread lives as long as the process.
                None => std::future::pending().await,
            }
        }
    }
}
