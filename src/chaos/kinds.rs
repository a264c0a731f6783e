//! Which of the simulator's kinds of trouble may be injected, what each does to a call, and
//! the calls that it can strike.
//!
//! A lie about an attempt (`absent`) is none of them: no site that keeps to its
//! protocol tells one, and the control plane would start work a second time on it.

use std::time::Duration;

use cospan_simulator::kinds::Kind;
use cospan_sites::fault::Fault;
use cospan_sites::port::CallKind;

/// How long a call waits for a frozen site, like any call for a silent one.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a kind does to a call, if it may be injected. `delay`: how late answers come.
pub(super) fn fault(kind: Kind, delay: Duration) -> Option<Fault> {
    Some(match kind {
        Kind::RequestLost => Fault::LostBefore,
        Kind::ReplyLost => Fault::LostAfter,
        Kind::Late => Fault::LateAnswer(delay),
        Kind::Doubled => Fault::Doubled,
        Kind::Refused => Fault::Refused,
        Kind::NotSent => Fault::NotSent,
        Kind::SiteFull => Fault::SiteFull,
        Kind::Truncated => Fault::Unknown,
        Kind::WrongIdle => Fault::NoneIdle,
        Kind::Frozen => Fault::Hang(PATIENCE),
        _ => return None,
    })
}

/// All kinds that may be injected.
pub(super) fn all() -> impl Iterator<Item = Kind> {
    Kind::ALL
        .iter()
        .copied()
        .filter(|kind| fault(*kind, Duration::ZERO).is_some())
}

/// The kind of this name.
pub(super) fn named(name: &str) -> Option<Kind> {
    all().find(|kind| kind.as_str() == name)
}

/// Whether a kind makes sense for a kind of call, and harms no job.
pub(super) fn can_strike(kind: Kind, call: CallKind) -> bool {
    match kind {
        // What only asks may be asked twice; nobody would notice.
        Kind::Doubled => call.acts(),
        // A refusal is an answer: of a file it would say that there is none.
        Kind::Refused => matches!(
            call,
            CallKind::Submit | CallKind::DecideGate | CallKind::Cancel
        ),
        Kind::SiteFull => call == CallKind::Submit,
        Kind::Truncated | Kind::WrongIdle => call == CallKind::Status,
        _ => true,
    }
}

/// All kinds of calls that a kind can strike.
pub(super) fn calls(kind: Kind) -> Vec<CallKind> {
    CallKind::ALL
        .into_iter()
        .filter(|call| can_strike(kind, *call))
        .collect()
}
