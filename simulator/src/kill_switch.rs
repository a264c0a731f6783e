//! Kills a control plane as `kill -9` does: from one moment on nothing that it does reaches its
//! store or its sites.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use super::fault_kinds::FaultKind;
use super::fault_tally::FaultEffectTally;

/// The exact point at which a control plane is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillPoint {
    /// Before the append with this number, counted from 1: it is lost.
    BeforeAppend(u64),
    /// Right after the append with this number is durable; nobody learns of it.
    AfterAppend(u64),
    /// Before the call to a site with this number: it is not made.
    BeforeCall(u64),
    /// Right after a site has carried out a call: the first that does so once this many calls were
    /// made. Its answer is lost.
    AfterCall(u64),
    /// Right after a gate was opened while another gate of its round is still closed: this number
    /// counts such gates. The answer is lost.
    BetweenGates(u64),
}

impl KillPoint {
    fn fault_kind(self) -> FaultKind {
        match self {
            KillPoint::BeforeAppend(_) => FaultKind::KilledBeforeAppend,
            KillPoint::AfterAppend(_) => FaultKind::KilledAfterAppend,
            KillPoint::BeforeCall(_) => FaultKind::KilledBeforeCall,
            KillPoint::AfterCall(_) => FaultKind::KilledAfterCall,
            KillPoint::BetweenGates(_) => FaultKind::KilledBetweenGates,
        }
    }
}

/// Tells whether a control plane lives, and holds the point at which it dies.
#[derive(Debug, Default)]
pub struct KillSwitch {
    dead: AtomicBool,
    moment: Option<KillPoint>,
    appends: AtomicU64,
    calls: AtomicU64,
    gates: AtomicU64,
    told: Notify,
    tally: Arc<FaultEffectTally>,
}

impl KillSwitch {
    /// Makes a switch that kills at `moment`, if one is given, or when [`KillSwitch::kill`] is
    /// called.
    pub fn killing_at(moment: Option<KillPoint>, tally: Arc<FaultEffectTally>) -> Arc<Self> {
        Arc::new(Self {
            moment,
            tally,
            ..Self::default()
        })
    }

    /// Returns true once the control plane is dead.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Returns the number of calls to sites that it made.
    pub fn call_count(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Kills the control plane.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.told.notify_one();
    }

    /// Waits for its death.
    pub async fn wait_for_death(&self) {
        while !self.is_dead() {
            self.told.notified().await;
        }
    }

    /// Counts an append of this kind. Returns whether it still happens, and whether it is the last.
    pub(super) fn count_append(&self, kind: &'static str) -> (bool, bool) {
        let number = self.appends.fetch_add(1, Ordering::Relaxed) + 1;
        self.die_if_at(KillPoint::BeforeAppend(number), kind);
        let lives = !self.is_dead();
        let last = lives && self.moment == Some(KillPoint::AfterAppend(number));
        if last {
            self.tally
                .count_fault(KillPoint::AfterAppend(number).fault_kind(), kind);
        }
        (lives, last)
    }

    /// Counts a call to a site. Returns true if it is still made.
    pub(super) fn count_call(&self, kind: &'static str) -> bool {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.die_if_at(KillPoint::BeforeCall(number), kind);
        !self.is_dead()
    }

    /// Counts a call that a site has carried out. Returns true if somebody alive gets the answer.
    pub(super) fn count_carried_out(&self, kind: &'static str) -> bool {
        if let Some(moment @ KillPoint::AfterCall(number)) = self.moment
            && self.calls.load(Ordering::Relaxed) >= number
        {
            self.die_if_at(moment, kind);
        }
        !self.is_dead()
    }

    /// Counts a gate that was opened while another of its round is still closed.
    pub(super) fn count_gate(&self) {
        let number = self.gates.fetch_add(1, Ordering::Relaxed) + 1;
        self.die_if_at(KillPoint::BetweenGates(number), "decide-gate");
    }

    fn die_if_at(&self, here: KillPoint, kind: &'static str) {
        if self.moment == Some(here) && !self.is_dead() {
            self.tally.count_fault(here.fault_kind(), kind);
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_to_die_after_a_call_dies_after_the_first_one_carried_out() {
        let tally = Arc::new(FaultEffectTally::default());
        let kill_switch = KillSwitch::killing_at(Some(KillPoint::AfterCall(2)), tally.clone());
        assert!(kill_switch.count_call("status") && kill_switch.count_carried_out("status"));
        assert!(
            kill_switch.count_call("submit"),
            "it is made, and meets a site that does not answer"
        );
        assert!(tally.fault_counts().is_empty(), "and nobody was killed yet");
        assert!(
            kill_switch.count_call("cancel")
                && !kill_switch.count_carried_out("cancel")
                && kill_switch.is_dead()
        );
        assert!(!kill_switch.count_call("status"), "the dead call nobody");
        assert_eq!(
            tally.fault_counts(),
            [((FaultKind::KilledAfterCall, "cancel"), 1)].into()
        );
    }

    #[test]
    fn who_is_to_die_between_two_gates_calls_nobody_after_the_first() {
        let tally = Arc::new(FaultEffectTally::default());
        let kill_switch = KillSwitch::killing_at(Some(KillPoint::BetweenGates(1)), tally.clone());
        assert!(
            kill_switch.count_call("decide-gate") && kill_switch.count_carried_out("decide-gate"),
            "of one component"
        );
        assert!(kill_switch.count_call("decide-gate"));
        kill_switch.count_gate();
        assert!(
            !kill_switch.count_carried_out("decide-gate"),
            "nobody hears that it was opened"
        );
        assert!(
            !kill_switch.count_call("decide-gate"),
            "the other one stays shut"
        );
        assert_eq!(
            tally.fault_counts(),
            [((FaultKind::KilledBetweenGates, "decide-gate"), 1)].into()
        );
    }
}
