//! What happens to calls on their way to a site and back.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cospan_domain::units::DurationMs;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What may happen to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallFault {
    /// The request never arrives; the caller learns nothing before its deadline.
    RequestLost,
    /// It was carried out; the reply never comes back.
    ReplyLost,
    /// It arrives after the caller has given up, and is carried out then.
    Late,
    /// It arrives twice.
    Doubled,
    /// The site refuses without a reason.
    Refused,
    /// The connection is refused: certainly not done.
    NotSent,
    /// A status is cut short: it tells nothing of some attempts.
    Truncated,
    /// A status shows no idle processors although there are some, or more than there are.
    WrongIdle,
}

impl CallFault {
    /// All of them.
    pub const ALL: [CallFault; 8] = [
        CallFault::RequestLost,
        CallFault::ReplyLost,
        CallFault::Late,
        CallFault::Doubled,
        CallFault::Refused,
        CallFault::NotSent,
        CallFault::Truncated,
        CallFault::WrongIdle,
    ];

    /// Its name, for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            CallFault::RequestLost => "request-lost",
            CallFault::ReplyLost => "reply-lost",
            CallFault::Late => "late",
            CallFault::Doubled => "doubled",
            CallFault::Refused => "refused",
            CallFault::NotSent => "not-sent",
            CallFault::Truncated => "truncated",
            CallFault::WrongIdle => "wrong-idle",
        }
    }
}

/// How calls fare: how long they take, and what goes wrong how often.
#[derive(Debug, Clone, Default)]
pub struct Climate {
    /// Longest way to a site, and back.
    pub way_max: DurationMs,
    /// Share of calls that each kind of fault strikes, in parts per million.
    pub faults: BTreeMap<CallFault, u32>,
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fate {
    pub(super) there: DurationMs,
    pub(super) back: DurationMs,
    pub(super) fault: Option<CallFault>,
    /// Decides what a fault looks like.
    pub(super) dice: u64,
}

/// Draws what becomes of calls, and counts what struck with effect.
#[derive(Debug)]
pub struct Weather {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    climate: Climate,
    chance: StdRng,
    struck: BTreeMap<(CallFault, &'static str), u64>,
}

impl Weather {
    /// Everything drawn follows from `seed`.
    pub fn new(climate: Climate, seed: u64) -> Self {
        let chance = StdRng::seed_from_u64(seed);
        Self { state: Mutex::new(State { climate, chance, struck: BTreeMap::new() }) }
    }

    /// From now on nothing goes wrong any more.
    pub fn clear(&self) {
        self.lock().climate.faults.clear();
    }

    /// Faults that changed what the control plane saw, by kind and call.
    pub fn struck(&self) -> BTreeMap<(CallFault, &'static str), u64> {
        self.lock().struck.clone()
    }

    pub(super) fn note(&self, fault: CallFault, call: &'static str) {
        *self.lock().struck.entry((fault, call)).or_default() += 1;
    }

    pub(super) fn draw(&self) -> Fate {
        let mut state = self.lock();
        let State { climate, chance, .. } = &mut *state;
        let way = climate.way_max.0;
        let mut ms = || DurationMs(if way == 0 { 0 } else { chance.random_range(0..=way) });
        let (there, back) = (ms(), ms());
        let mut left =
            if climate.faults.is_empty() { 0 } else { chance.random_range(0..1_000_000) };
        let fault = climate.faults.iter().find(|(_, share)| {
            let strikes = left < **share;
            left = left.saturating_sub(**share);
            strikes
        });
        let fault = fault.map(|(fault, _)| *fault);
        let dice = if fault.is_some() { chance.random() } else { 0 };
        Fate { there, back, fault, dice }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
