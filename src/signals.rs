//! What signals mean to this program. Left alone, most of them would end it wherever it stands.
//!
//! All are caught, and none is ignored: what is ignored stays so in each program that is started,
//! and payloads are to find everything as it is by default. Not caught are those by which a process
//! is halted, to go on at SIGCONT, and those that tell of a fault of its own.

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
/// Those that programs give a meaning themselves. C libraries keep the first of them.
const REALTIME: RangeInclusive<i32> = 34..=64;

/// Those that end a process which does not listen to them.
const DEADLY: [i32; 12] = [
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGPWR, SIGQUIT, SIGSTKFLT, SIGTERM, SIGUSR1, SIGUSR2,
    SIGVTALRM,
];

/// What a signal asks of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalRequest {
    /// To stop in order.
    Stop,
    /// To read its keys anew.
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

/// Catches from now on all signals that would end the process.
///
/// # Errors
/// The system does not let us.
pub(crate) fn catch_all() -> io::Result<Signals> {
    catch(|_| true)
}

/// Catches from now on all signals that would end the process. Those that are ignored stay so:
/// whoever started it wants it to outlive a terminal, as `nohup` does, or an interruption.
///
/// # Errors
/// The system does not let us.
pub(crate) fn catch_unless_ignored() -> io::Result<Signals> {
    let ignored = ignored();
    catch(|signal| ignored >> (signal - 1) & 1 == 0)
}

fn catch(wanted: impl Fn(i32) -> bool) -> io::Result<Signals> {
    // A limit on the time of a processor is told each second until it kills; one on the size of
    // files is to be an error of writing.
    let known = DEADLY
        .into_iter()
        .chain([SIGXCPU, SIGXFSZ])
        .filter(|signal| wanted(*signal));
    let signals = Signals::new(known)?;
    for signal in REALTIME.filter(|signal| wanted(*signal)) {
        // Those that the C library keeps cannot be had, and nobody sends them.
        let _ = signals.add_signal(signal);
    }
    Ok(signals)
}

/// Signals that were ignored when the program was started, a bit each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Waits for one that asks for an end; gives `None` if none will come.
pub(crate) fn wait_for_end(signals: &mut Signals) -> Option<i32> {
    // One that tells of a limit on files was an error of writing already.
    signals.forever().find(|signal| *signal != SIGXFSZ)
}

/// Its name for people.
pub(crate) fn name(signal: i32) -> String {
    let known = signal_hook::low_level::signal_name(signal).map(str::to_owned);
    known.unwrap_or_else(|| match signal {
        SIGPWR => "SIGPWR".to_owned(),
        SIGSTKFLT => "SIGSTKFLT".to_owned(),
        other => format!("signal {other}"),
    })
}
