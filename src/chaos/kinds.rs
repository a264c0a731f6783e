//! The faults that may be injected, by the names that the simulator gives
//! them, and the calls that each can strike.
//!
//! A lie about an attempt (`absent`) is none of them: no site that keeps to its
//! protocol tells one, and the control plane would start work a second time on it.

use std::time::Duration;

use cospan_sites::fault::{Call, Fault};

/// How long a call waits for a frozen site, like any call for a silent one.
const PATIENCE: Duration = Duration::from_secs(20);

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    RequestLost,
    ReplyLost,
    Late,
    Doubled,
    Refused,
    NotSent,
    SiteFull,
    Truncated,
    WrongIdle,
    Frozen,
}

impl Kind {
    pub(super) const ALL: [Kind; 10] = [
        Kind::RequestLost,
        Kind::ReplyLost,
        Kind::Late,
        Kind::Doubled,
        Kind::Refused,
        Kind::NotSent,
        Kind::SiteFull,
        Kind::Truncated,
        Kind::WrongIdle,
        Kind::Frozen,
    ];

    /// What it does to a call. `delay`: how late answers come.
    pub(super) fn fault(self, delay: Duration) -> Fault {
        match self {
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
        }
    }

    /// Its name in plans, reports and metrics.
    pub(super) fn as_str(self) -> &'static str {
        self.fault(Duration::ZERO).as_str()
    }

    /// The kind of this name.
    pub(super) fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether it makes sense for a kind of call, and harms no job.
    pub(super) fn can_strike(self, call: Call) -> bool {
        match self {
            Kind::RequestLost | Kind::ReplyLost | Kind::Late | Kind::NotSent | Kind::Frozen => true,
            // What only asks may be asked twice; nobody would notice.
            Kind::Doubled => call.acts(),
            // A refusal is an answer: of a file it would say that there is none.
            Kind::Refused => matches!(call, Call::Submit | Call::DecideGate | Call::Cancel),
            Kind::SiteFull => call == Call::Submit,
            Kind::Truncated | Kind::WrongIdle => call == Call::Status,
        }
    }

    /// All kinds of calls that it can strike.
    pub(super) fn calls(self) -> Vec<Call> {
        Call::ALL.into_iter().filter(|call| self.can_strike(*call)).collect()
    }
}
