//! Which of the simulator's kinds of trouble may be injected, what each does to a call, and
//! the calls that it can strike.
//!
//! A lie about an attempt (`absent`) is none of them: no site that keeps to its
//! protocol tells one, and the control plane would start work a second time on it.

use std::time::Duration;

use cospan_simulator::kinds::FaultKind;
use cospan_sites::fault::InjectedFault;
use cospan_sites::port::CallKind;

/// How long a call waits for a frozen site, like any call for a silent one.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a kind does to a call, if it may be injected. `delay`: how late answers come.
pub(super) fn fault(kind: FaultKind, delay: Duration) -> Option<InjectedFault> {
    Some(match kind {
        FaultKind::RequestLost => InjectedFault::LostBefore,
        FaultKind::ReplyLost => InjectedFault::LostAfter,
        FaultKind::Late => InjectedFault::LateAnswer(delay),
        FaultKind::Doubled => InjectedFault::Doubled,
        FaultKind::Refused => InjectedFault::Refused,
        FaultKind::NotSent => InjectedFault::NotSent,
        FaultKind::SiteFull => InjectedFault::SiteFull,
        FaultKind::Truncated => InjectedFault::Unknown,
        FaultKind::WrongIdle => InjectedFault::NoneIdle,
        FaultKind::Frozen => InjectedFault::Hang(PATIENCE),
        _ => return None,
    })
}

/// All kinds that may be injected.
pub(super) fn all() -> impl Iterator<Item = FaultKind> {
    FaultKind::ALL
        .iter()
        .copied()
        .filter(|kind| fault(*kind, Duration::ZERO).is_some())
}

/// The kind of this name.
pub(super) fn named(name: &str) -> Option<FaultKind> {
    all().find(|kind| kind.as_str() == name)
}

/// Whether a kind makes sense for a kind of call, and harms no job.
pub(super) fn can_strike(kind: FaultKind, call: CallKind) -> bool {
    match kind {
        // What only asks may be asked twice; nobody would notice.
        FaultKind::Doubled => call.acts(),
        // A refusal is an answer: of a file it would say that there is none.
        FaultKind::Refused => matches!(
            call,
            CallKind::Submit | CallKind::DecideGate | CallKind::Cancel
        ),
        FaultKind::SiteFull => call == CallKind::Submit,
        FaultKind::Truncated | FaultKind::WrongIdle => call == CallKind::Status,
        _ => true,
    }
}

/// All kinds of calls that a kind can strike.
pub(super) fn calls(kind: FaultKind) -> Vec<CallKind> {
    CallKind::ALL
        .into_iter()
        .filter(|call| can_strike(kind, *call))
        .collect()
}
