//! The simulator's kinds of faults that may be injected, their effects on a call, and the calls
//! that each can concern.
//!
//! A lie about an attempt (`absent`) is not among them: no site that keeps to its protocol tells
//! one, and the control plane would start work a second time because of it.

use std::time::Duration;

use cospan_simulator::fault_kinds::FaultKind;
use cospan_sites::faulty_site::InjectedFault;
use cospan_sites::port::SiteCallKind;

/// Time that a call waits for a frozen site, as for any silent site.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the fault that a kind injects into a call, if it may be injected. `delay` is the delay
/// of late answers.
pub(super) fn fault_of_kind(kind: FaultKind, delay: Duration) -> Option<InjectedFault> {
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

/// Lists all kinds that may be injected.
pub(super) fn injectable_kinds() -> impl Iterator<Item = FaultKind> {
    FaultKind::ALL
        .iter()
        .copied()
        .filter(|kind| fault_of_kind(*kind, Duration::ZERO).is_some())
}

/// Returns the kind with this name.
pub(super) fn find_kind(name: &str) -> Option<FaultKind> {
    injectable_kinds().find(|kind| kind.as_str() == name)
}

/// Returns true if a kind of fault makes sense for a kind of call, and harms no job.
pub(super) fn can_affect(kind: FaultKind, call: SiteCallKind) -> bool {
    match kind {
        // Queries may be repeated; nobody would notice.
        FaultKind::Doubled => call.changes_site(),
        // A refusal is an answer: for a file it would mean that there is none.
        FaultKind::Refused => matches!(
            call,
            SiteCallKind::Submit | SiteCallKind::DecideGate | SiteCallKind::Cancel
        ),
        FaultKind::SiteFull => call == SiteCallKind::Submit,
        FaultKind::Truncated | FaultKind::WrongIdle => call == SiteCallKind::Status,
        _ => true,
    }
}

/// Lists all kinds of calls that a kind of fault can concern.
pub(super) fn affected_calls(kind: FaultKind) -> Vec<SiteCallKind> {
    SiteCallKind::ALL
        .into_iter()
        .filter(|call| can_affect(kind, *call))
        .collect()
}
