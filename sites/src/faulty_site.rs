//! A site that fails on purpose: wraps any `Site` and injects what its [`FaultSwitch`] say, per
//! kind of call, switched at run time by a handle or, for a server in another process, by a control
//! file.
//!
//! A fault changes the answer, the effect, or both. We count how often it did, because a fault that
//! changed nothing has shown nothing.
//!
//! Faults are armed by hand, call by call, or injected: a share of the calls, drawn from a seed, in
//! a window of time that ends by itself.

mod control_file;
mod injection;
mod reservation_faults;
mod wrapped_site;

pub use control_file::ControlFileError;
pub use injection::{CallFaultTally, FaultInjection};
pub use wrapped_site::FaultySite;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use injection::SiteInjections;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::port::SiteCallKind;

/// A thing that goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// `NotSent`, without effect.
    NotSent,
    /// `Refused`, without effect.
    Refused,
    /// `SiteFull`, without effect.
    SiteFull,
    /// `OutcomeUnknown`, without effect.
    LostBefore,
    /// The effect happens, and its answer is lost: `OutcomeUnknown`.
    LostAfter,
    /// The call takes this much longer.
    Delay(Duration),
    /// The call waits until the fault is lifted, and then happens.
    Freeze,
    /// A status reports every attempt as `Unknown`, and nothing idle. Other calls: as `LostAfter`.
    Unknown,
    /// A status lies that every attempt is absent, and nothing idle. Other calls: as `LostAfter`.
    Absent,
    /// A status shows nothing idle. Other calls: as `LostAfter`.
    NoneIdle,
    /// The request arrives twice; the second answer comes back.
    Doubled,
    /// The call is carried out at once; its answer comes this much later.
    LateAnswer(Duration),
    /// The call waits until the fault is over, and then happens. Once it has waited this long it
    /// ends without effect: `OutcomeUnknown`.
    Hang(Duration),
}

/// A fault that is switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ArmedFault {
    fault: InjectedFault,
    /// Calls that it still affects; `None` for all until it is lifted.
    left: Option<u64>,
}

#[derive(Debug, Default)]
struct FaultSwitchState {
    armed: BTreeMap<SiteCallKind, ArmedFault>,
    struck: BTreeMap<SiteCallKind, u64>,
    injected: SiteInjections,
}

/// The handle that switches faults; clones switch the same ones.
#[derive(Debug, Clone)]
pub struct FaultSwitch {
    state: Arc<Mutex<FaultSwitchState>>,
    /// Wakes calls that are frozen.
    changed: Arc<watch::Sender<u64>>,
}

impl Default for FaultSwitch {
    fn default() -> Self {
        Self {
            state: Arc::default(),
            changed: Arc::new(watch::Sender::new(0)),
        }
    }
}

impl FaultSwitch {
    /// Makes one without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Affects every call of a kind until the fault is lifted.
    pub fn arm_fault(&self, call: SiteCallKind, fault: InjectedFault) {
        self.change_state(|state| {
            state
                .armed
                .extend([(call, ArmedFault { fault, left: None })])
        });
    }

    /// Affects the next `count` calls of a kind.
    pub fn arm_for_next_calls(&self, call: SiteCallKind, fault: InjectedFault, count: u64) {
        let armed = ArmedFault {
            fault,
            left: Some(count),
        };
        self.change_state(|state| state.armed.extend([(call, armed)]));
    }

    /// Affects calls of every kind.
    pub fn arm_for_all_calls(&self, fault: InjectedFault) {
        SiteCallKind::ALL
            .into_iter()
            .for_each(|call| self.arm_fault(call, fault));
    }

    /// Lets calls of a kind go well again; frozen ones go on.
    pub fn lift_call_fault(&self, call: SiteCallKind) {
        self.change_state(|state| state.armed.retain(|armed, _| *armed != call));
    }

    /// Lets all calls go well again.
    pub fn lift_all_faults(&self) {
        self.change_state(|state| {
            state.armed.clear();
            state.injected.clear_injections();
        });
    }

    /// Injects these faults instead of the earlier ones, and forgets the tallies of those.
    pub fn inject_faults(&self, injections: Vec<FaultInjection>) {
        self.change_state(|state| state.injected = SiteInjections::new(injections));
    }

    /// Returns the tallies of the latest injections, by the name of the fault and the kind of call;
    /// they are kept when the injections are over.
    pub fn tallies(&self) -> BTreeMap<(&'static str, SiteCallKind), CallFaultTally> {
        self.lock_state().injected.tallies().clone()
    }

    /// Returns how many calls of a kind an armed fault has affected.
    pub fn affected_calls(&self, call: SiteCallKind) -> u64 {
        self.lock_state().struck.get(&call).copied().unwrap_or(0)
    }

    /// Replaces everything that is armed.
    fn set_armed(&self, armed: BTreeMap<SiteCallKind, ArmedFault>) {
        self.change_state(|state| state.armed = armed);
    }

    /// Returns the fault that affects a call now, if any, and counts it.
    fn take_fault_for(&self, call: SiteCallKind) -> Option<InjectedFault> {
        let mut state = self.lock_state();
        let Some(armed) = state.armed.get_mut(&call) else {
            return state.injected.draw_fault(call);
        };
        let fault = armed.fault;
        match &mut armed.left {
            Some(0) => return None,
            Some(left) => *left -= 1,
            None => {}
        }
        *state.struck.entry(call).or_default() += 1;
        Some(fault)
    }

    fn is_frozen(&self, call: SiteCallKind) -> bool {
        self.lock_state()
            .armed
            .get(&call)
            .is_some_and(|armed| armed.fault == InjectedFault::Freeze)
    }

    /// Waits while a kind of call is frozen.
    async fn await_thaw(&self, call: SiteCallKind) {
        let mut changed = self.changed.subscribe();
        while self.is_frozen(call) {
            // The sender lives as long as this handle, so this cannot fail while we wait.
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits while calls of this kind hang.
    async fn await_hang_end(&self, call: SiteCallKind) {
        let mut changed = self.changed.subscribe();
        loop {
            let until = self.lock_state().injected.hangs_until(call, Instant::now());
            let Some(until) = until else { return };
            // It ends by itself or by a change; the next look says which.
            let _ = tokio::time::timeout_at(until, changed.changed()).await;
        }
    }

    fn change_state(&self, change: impl FnOnce(&mut FaultSwitchState)) {
        change(&mut self.lock_state());
        self.changed
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    fn lock_state(&self) -> MutexGuard<'_, FaultSwitchState> {
        // Every change is one assignment, so a panic elsewhere left nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
