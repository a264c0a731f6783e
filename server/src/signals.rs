//! The meanings of signals for this program. Without a handler most of them would end it at any
//! point.
//!
//! All are caught, and none is ignored: an ignored signal stays ignored in each program that is
//! started, and payloads must find the defaults. Not caught are the signals that halt a process
//! until SIGCONT, and those that report a fault of its own.

use std::io;
use std::ops::RangeInclusive;

use rustix::process::Signal;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::Signals;

/// Sent when power fails.
const SIGPWR: i32 = Signal::POWER.as_raw();
const SIGSTKFLT: i32 = Signal::STKFLT.as_raw();
/// Signals whose meaning is left to programs. C libraries keep the first of them.
const REALTIME: RangeInclusive<i32> = 34..=64;

/// Signals that end a process without a handler.
const DEADLY: [i32; 12] = [
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGPWR, SIGQUIT, SIGSTKFLT, SIGTERM, SIGUSR1, SIGUSR2,
    SIGVTALRM,
];

/// The requests of signals to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalRequest {
    /// Stop in order.
    Stop,
    /// Read the keys again.
    Reread,
    /// Nothing.
    Nothing,
}

impl SignalRequest {
    pub(crate) fn of(signal: i32) -> Self {
        match signal {
            SIGTERM | SIGINT | SIGQUIT | SIGXCPU | SIGPWR => SignalRequest::Stop,
            SIGHUP => SignalRequest::Reread,
            _ => SignalRequest::Nothing,
        }
    }
}

/// Catches all signals that would end the process from now on.
///
/// # Errors
///
/// The system does not allow it.
pub(crate) fn catch_all() -> io::Result<Signals> {
    catch_matching(|_| true)
}

/// Catches all signals that would end the process from now on. Ignored signals stay ignored:
/// whoever started the process wants it to outlive a terminal, as `nohup` does, or an interruption.
///
/// # Errors
///
/// The system does not allow it.
pub fn catch_unless_ignored() -> io::Result<Signals> {
    let ignored = ignored_mask();
    catch_matching(|signal| ignored >> (signal - 1) & 1 == 0)
}

fn catch_matching(wanted: impl Fn(i32) -> bool) -> io::Result<Signals> {
    // A limit on processor time is signalled each second until it kills; a limit on file size must
    // become an error of writing.
    let known = DEADLY
        .into_iter()
        .chain([SIGXCPU, SIGXFSZ])
        .filter(|signal| wanted(*signal));
    let signals = Signals::new(known)?;
    for signal in REALTIME.filter(|signal| wanted(*signal)) {
        // The signals that the C library keeps cannot be caught, and nobody sends them.
        let _ = signals.add_signal(signal);
    }
    Ok(signals)
}

/// Returns the signals that were ignored when the program was started, one bit each.
fn ignored_mask() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Waits for a signal that asks for an end; returns `None` if none will come.
pub fn wait_for_end(signals: &mut Signals) -> Option<i32> {
    // A signal about a limit on file size was an error of writing already.
    signals.forever().find(|signal| *signal != SIGXFSZ)
}

/// Returns the name of a signal for people.
pub(crate) fn signal_name(signal: i32) -> String {
    let known = signal_hook::low_level::signal_name(signal).map(str::to_owned);
    known.unwrap_or_else(|| match signal {
        SIGPWR => "SIGPWR".to_owned(),
        SIGSTKFLT => "SIGSTKFLT".to_owned(),
        other => format!("signal {other}"),
    })
}
