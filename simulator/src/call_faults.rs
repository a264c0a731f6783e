//! What happens to calls on their way to a site and back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::site::state::NotificationId;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::CallKind;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::kinds::FaultKind;
use super::tally::StrikeTally;

/// What is so of faults of single calls.
impl FaultKind {
    /// Whether the site carries out what it strikes, before the caller has given up.
    pub(super) fn is_carried_out(self) -> bool {
        matches!(
            self,
            FaultKind::ReplyLost
                | FaultKind::Doubled
                | FaultKind::Garbage
                | FaultKind::Truncated
                | FaultKind::WrongIdle
                | FaultKind::WrongStart
        )
    }

    /// Whether it strikes whatever the call is about. The others are counted where it shows
    /// that something has become of them.
    pub(super) fn always_strikes(self) -> bool {
        !matches!(self, FaultKind::Truncated | FaultKind::WrongIdle)
    }

    /// Some faults make sense for some calls only.
    pub fn concerns(self, call: CallKind) -> bool {
        match self {
            FaultKind::Truncated | FaultKind::WrongIdle => call == CallKind::Status,
            // A refusal is an answer: those that only ask are not refused.
            FaultKind::Refused => {
                matches!(
                    call,
                    CallKind::Submit
                        | CallKind::StartCopy
                        | CallKind::DecideGate
                        | CallKind::Cancel
                        | CallKind::Reserve
                )
            }
            // Work on files runs under a time-out at the site that is shorter than ours; what
            // the resource manager has in its hands is carried out whenever it comes to it.
            // A gate is decided by a file as well, but nobody may rely on when: a machine that
            // is frozen holds its time-outs up with everything else.
            FaultKind::Late => matches!(
                call,
                CallKind::Submit | CallKind::Cancel | CallKind::DecideGate | CallKind::Reserve
            ),
            // Whatever else comes twice changes nothing the second time, and no answer.
            FaultKind::Doubled => matches!(call, CallKind::Submit | CallKind::Reserve),
            FaultKind::WrongStart => call == CallKind::Reserve,
            // What becomes of those shows in the next status; who deletes is believed.
            FaultKind::NoEffect => {
                matches!(
                    call,
                    CallKind::Submit | CallKind::StartCopy | CallKind::Cancel
                )
            }
            _ => true,
        }
    }
}

/// How calls fare: how long they take, and what goes wrong how often.
#[derive(Debug, Clone, Default)]
pub struct FaultRates {
    /// Longest way to a site, and back.
    pub way_max: DurationMs,
    /// Share of calls that each kind of fault strikes, in parts per million.
    pub faults: BTreeMap<FaultKind, u32>,
    /// Longest time that the disk takes to sync; 0: none at all.
    pub sync_max: DurationMs,
    /// Share of syncs that fail, in parts per million.
    pub failing_syncs: u32,
    /// What else goes wrong with the disk.
    pub disk: DiskTrouble,
}

/// What goes wrong with the disk of a store beyond syncs.
#[derive(Debug, Clone, Default)]
pub struct DiskTrouble {
    /// Share of records that cannot be written, in parts per million.
    pub failing_writes: u32,
    /// Whether of the first record that a death keeps from the disk a part is there.
    pub tears: bool,
    /// Times in which it is full.
    pub full: Vec<(Timestamp, Timestamp)>,
}

impl DiskTrouble {
    fn is_full(&self, now: Timestamp) -> bool {
        self.full
            .iter()
            .any(|(from, to)| (*from..*to).contains(&now))
    }

    /// Whether there is any.
    pub fn exists(&self) -> bool {
        self.failing_writes > 0 || self.tears || !self.full.is_empty()
    }
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallFate {
    pub(super) there: DurationMs,
    pub(super) back: DurationMs,
    pub(super) fault: Option<FaultKind>,
    /// Decides what a fault looks like.
    pub(super) dice: u64,
}

/// What becomes of a record on its way to the disk.
#[derive(Debug, Clone, Copy)]
pub(super) enum WriteFault {
    /// It cannot be written; a share of it, in 1/256, is.
    Fails { written: u8 },
    /// There is no room for it.
    Full,
}

/// A call that reached its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// When.
    pub at: Timestamp,
    /// Which site.
    pub site: SiteName,
    /// Which call.
    pub call: &'static str,
}

/// Draws what becomes of calls and of the disk, and counts what struck with effect.
#[derive(Debug)]
pub struct CallFaultModel {
    state: Mutex<CallFaultState>,
    tally: Arc<StrikeTally>,
}

#[derive(Debug)]
struct CallFaultState {
    fault_rates: FaultRates,
    chance: StdRng,
    /// Messages that arrived, and when they did last.
    arrived: BTreeMap<(SiteName, NotificationId), Timestamp>,
    /// Jobs of whose end somebody heard, and who.
    told: BTreeSet<(JobId, Box<str>)>,
    /// What nobody should have heard.
    idle_talk: Vec<String>,
    /// All calls, if somebody wants to know.
    calls: Option<Vec<Called>>,
}

impl CallFaultModel {
    /// Everything drawn follows from `seed`.
    pub fn new(fault_rates: FaultRates, seed: u64) -> Self {
        let chance = StdRng::seed_from_u64(seed);
        let (arrived, told, idle_talk, calls) = Default::default();
        let state = CallFaultState {
            fault_rates,
            chance,
            arrived,
            told,
            idle_talk,
            calls,
        };
        Self {
            state: Mutex::new(state),
            tally: Arc::default(),
        }
    }

    /// From now on nothing goes wrong any more.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.fault_rates.faults.clear();
        state.fault_rates.failing_syncs = 0;
        state.fault_rates.disk = DiskTrouble::default();
    }

    /// Whether calls may be struck by this.
    pub fn may_strike(&self, kind: FaultKind) -> bool {
        self.lock().fault_rates.faults.contains_key(&kind)
    }

    /// From now on calls are written down.
    pub fn watch_calls(&self) {
        self.lock().calls.get_or_insert_default();
    }

    /// All that were written down.
    pub fn calls(&self) -> Vec<Called> {
        self.lock().calls.clone().unwrap_or_default()
    }

    pub(super) fn called(&self, at: Timestamp, site: &SiteName, call: &'static str) {
        if let Some(calls) = &mut self.lock().calls {
            calls.push(Called {
                at,
                site: site.clone(),
                call,
            });
        }
    }

    /// Where strikes are counted.
    pub fn tally(&self) -> &Arc<StrikeTally> {
        &self.tally
    }

    pub(super) fn note(&self, fault: FaultKind, call: &'static str) {
        self.tally.count(fault, call);
    }

    pub(super) fn draw(&self) -> CallFate {
        let mut state = self.lock();
        let CallFaultState {
            fault_rates,
            chance,
            ..
        } = &mut *state;
        let way = fault_rates.way_max.0;
        let mut ms = || {
            DurationMs(if way == 0 {
                0
            } else {
                chance.random_range(0..=way)
            })
        };
        let there = ms();
        let back = ms();
        let mut left = if fault_rates.faults.is_empty() {
            0
        } else {
            chance.random_range(0..1_000_000)
        };
        let fault = fault_rates.faults.iter().find(|(_, share)| {
            let strikes = left < **share;
            left = left.saturating_sub(**share);
            strikes
        });
        let fault = fault.map(|(fault, _)| *fault);
        let dice = if fault.is_some() { chance.random() } else { 0 };
        CallFate {
            there,
            back,
            fault,
            dice,
        }
    }

    pub(super) fn has_slow_disk(&self) -> bool {
        self.lock().fault_rates.sync_max > DurationMs::ZERO
    }

    /// How long a sync takes, and whether it fails.
    pub(super) fn draw_sync(&self) -> (DurationMs, bool) {
        let mut state = self.lock();
        let CallFaultState {
            fault_rates,
            chance,
            ..
        } = &mut *state;
        let length = DurationMs(chance.random_range(0..=fault_rates.sync_max.0));
        (
            length,
            chance.random_range(0..1_000_000) < fault_rates.failing_syncs,
        )
    }

    /// What strikes a record that is to be written, if anything does.
    pub(super) fn draw_write(&self, now: Timestamp) -> Option<WriteFault> {
        let mut state = self.lock();
        let CallFaultState {
            fault_rates,
            chance,
            ..
        } = &mut *state;
        if fault_rates.disk.is_full(now) {
            return Some(WriteFault::Full);
        }
        let share = fault_rates.disk.failing_writes;
        let fails = share > 0 && chance.random_range(0..1_000_000) < share;
        fails.then(|| WriteFault::Fails {
            written: chance.random(),
        })
    }

    /// How much of a record is there, in 1/256, that a death keeps from the disk.
    pub(super) fn draw_tear(&self) -> Option<u8> {
        let mut state = self.lock();
        let tears = state.fault_rates.disk.tears;
        tears.then(|| state.chance.random_range(64..=u8::MAX))
    }

    /// Whether the disk of the store is full.
    pub(super) fn is_disk_full(&self, now: Timestamp) -> bool {
        self.lock().fault_rates.disk.is_full(now)
    }

    /// Whether a message about a site arrives: each second one, while anything goes wrong
    /// at all.
    pub(super) fn takes_message(&self, site: SiteName, id: NotificationId, now: Timestamp) -> bool {
        let mut state = self.lock();
        let arrives = state.fault_rates.faults.is_empty() || state.chance.random_bool(0.5);
        if arrives {
            state.arrived.insert((site, id), now);
        }
        arrives
    }

    /// When administrators had this message about a site last, if they had it.
    pub fn arrived_at(&self, site: &SiteName, id: NotificationId) -> Option<Timestamp> {
        self.lock().arrived.get(&(site.clone(), id)).copied()
    }

    /// Whether a message about the end of a job arrives, as [`CallFaultModel::takes_message`] does.
    pub(super) fn takes_end(&self, job: JobId, address: &str) -> bool {
        let mut state = self.lock();
        let arrives = state.fault_rates.faults.is_empty() || state.chance.random_bool(0.5);
        if arrives {
            state.told.insert((job, address.into()));
        }
        arrives
    }

    /// Whether somebody heard of the end of a job.
    pub fn has_heard(&self, job: JobId, address: &str) -> bool {
        self.lock().told.contains(&(job, address.into()))
    }

    /// Somebody heard what they should not have.
    pub(super) fn complain(&self, text: String) {
        self.lock().idle_talk.push(text);
    }

    /// What anybody should not have heard.
    pub fn idle_talk(&self) -> Vec<String> {
        self.lock().idle_talk.clone()
    }

    /// Any number below `bound`.
    pub(super) fn draw_below(&self, bound: usize) -> usize {
        self.lock().chance.random_range(0..bound)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CallFaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
