//! Faults of calls on their way to a site and back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::site::site_state::SiteNotificationId;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::SiteCallKind;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fault_kinds::FaultKind;
use super::fault_tally::FaultEffectTally;

/// Properties of faults of single calls.
impl FaultKind {
    /// Returns true if the site carries out the call that the fault hits, before the caller has
    /// given up.
    pub(super) fn is_carried_out_at_site(self) -> bool {
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

    /// Returns true if the fault takes effect whatever the call is about. The others are counted
    /// where it shows that they had an effect.
    pub(super) fn always_takes_effect(self) -> bool {
        !matches!(self, FaultKind::Truncated | FaultKind::WrongIdle)
    }

    /// Returns true if the fault makes sense for this kind of call.
    pub fn applies_to_call(self, call: SiteCallKind) -> bool {
        match self {
            FaultKind::Truncated | FaultKind::WrongIdle => call == SiteCallKind::Status,
            // A refusal is an answer: calls that only ask are not refused.
            FaultKind::Refused => {
                matches!(
                    call,
                    SiteCallKind::Submit
                        | SiteCallKind::StartCopy
                        | SiteCallKind::DecideGate
                        | SiteCallKind::Cancel
                        | SiteCallKind::Reserve
                )
            }
            // Work on files runs under a time-out at the site that is shorter than ours. What the
            // batch system has accepted is carried out whenever it comes to it. A gate is decided
            // by a file as well, but nobody may rely on when: a frozen machine delays its time-outs
            // together with everything else.
            FaultKind::Late => matches!(
                call,
                SiteCallKind::Submit
                    | SiteCallKind::Cancel
                    | SiteCallKind::DecideGate
                    | SiteCallKind::Reserve
            ),
            // A second arrival of any other call changes neither the site nor the answer.
            FaultKind::Doubled => matches!(call, SiteCallKind::Submit | SiteCallKind::Reserve),
            FaultKind::WrongStart => call == SiteCallKind::Reserve,
            // The next status shows what became of these. A deletion is believed.
            FaultKind::NoEffect => {
                matches!(
                    call,
                    SiteCallKind::Submit | SiteCallKind::StartCopy | SiteCallKind::Cancel
                )
            }
            _ => true,
        }
    }
}

/// Rates of faults: how long calls take, and how often what goes wrong.
#[derive(Debug, Clone, Default)]
pub struct FaultRates {
    /// Longest time to a site, and the same back.
    pub way_max: DurationMs,
    /// Share of calls that each kind of fault hits, in parts per million.
    pub faults: BTreeMap<FaultKind, u32>,
    /// Longest time that a sync of the disk takes; 0: no time at all.
    pub sync_max: DurationMs,
    /// Share of syncs that fail, in parts per million.
    pub failing_syncs: u32,
    /// Other faults of the disk.
    pub disk: StoreDiskFaults,
}

/// Faults of the disk of a store, other than failing syncs.
#[derive(Debug, Clone, Default)]
pub struct StoreDiskFaults {
    /// Share of records that cannot be written, in parts per million.
    pub failing_writes: u32,
    /// True if the first record that a death keeps from the disk is partly written.
    pub tears: bool,
    /// Times in which the disk is full.
    pub full: Vec<(Timestamp, Timestamp)>,
}

impl StoreDiskFaults {
    fn is_full(&self, now: Timestamp) -> bool {
        self.full
            .iter()
            .any(|(from, to)| (*from..*to).contains(&now))
    }

    /// Returns true if there is any such fault.
    pub fn has_faults(&self) -> bool {
        self.failing_writes > 0 || self.tears || !self.full.is_empty()
    }
}

/// The drawn fate of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallFate {
    pub(super) there: DurationMs,
    pub(super) back: DurationMs,
    pub(super) fault: Option<FaultKind>,
    /// A random number that decides the details of a fault.
    pub(super) dice: u64,
}

/// A fault that hits a record on its way to the disk.
#[derive(Debug, Clone, Copy)]
pub(super) enum WriteFault {
    /// The record cannot be written; only a share of it, in 1/256, is.
    Fails { written: u8 },
    /// The disk has no room for the record.
    Full,
}

/// A call that reached its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCall {
    /// Time of the call.
    pub at: Timestamp,
    pub site: SiteName,
    /// Name of the call.
    pub call: &'static str,
}

/// Draws the faults of calls and of the disk, and counts those that had an effect.
#[derive(Debug)]
pub struct CallFaultModel {
    state: Mutex<CallFaultState>,
    tally: Arc<FaultEffectTally>,
}

#[derive(Debug)]
struct CallFaultState {
    fault_rates: FaultRates,
    chance: StdRng,
    /// Messages that arrived, with the time of the last arrival.
    arrived: BTreeMap<(SiteName, SiteNotificationId), Timestamp>,
    /// Ends of jobs that were delivered, with the addresses that got them.
    told: BTreeSet<(JobId, Box<str>)>,
    /// Messages that nobody should have got.
    idle_talk: Vec<String>,
    /// All calls, if they are recorded.
    calls: Option<Vec<RecordedCall>>,
}

impl CallFaultModel {
    /// Makes a model whose every draw follows from `seed`.
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

    /// Stops all faults from now on.
    pub fn stop_faults(&self) {
        let mut state = self.lock();
        state.fault_rates.faults.clear();
        state.fault_rates.failing_syncs = 0;
        state.fault_rates.disk = StoreDiskFaults::default();
    }

    /// Returns true if this kind of fault may hit calls.
    pub fn may_inject(&self, kind: FaultKind) -> bool {
        self.lock().fault_rates.faults.contains_key(&kind)
    }

    /// Records calls from now on.
    pub fn start_recording_calls(&self) {
        self.lock().calls.get_or_insert_default();
    }

    /// Returns all recorded calls.
    pub fn recorded_calls(&self) -> Vec<RecordedCall> {
        self.lock().calls.clone().unwrap_or_default()
    }

    pub(super) fn record_call(&self, at: Timestamp, site: &SiteName, call: &'static str) {
        if let Some(calls) = &mut self.lock().calls {
            calls.push(RecordedCall {
                at,
                site: site.clone(),
                call,
            });
        }
    }

    /// Returns the counts of faults that had an effect.
    pub fn tally(&self) -> &Arc<FaultEffectTally> {
        &self.tally
    }

    pub(super) fn count_fault(&self, fault: FaultKind, call: &'static str) {
        self.tally.count_fault(fault, call);
    }

    pub(super) fn draw_fate(&self) -> CallFate {
        let mut state = self.lock();
        let CallFaultState {
            fault_rates,
            chance,
            ..
        } = &mut *state;
        let there = draw_travel_time(fault_rates.way_max, chance);
        let back = draw_travel_time(fault_rates.way_max, chance);
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

    /// Draws how long a sync takes, and whether it fails.
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

    /// Draws the fault that hits a record about to be written, if any.
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

    /// Draws how much, in 1/256, is written of a record that a death keeps from the disk.
    pub(super) fn draw_tear(&self) -> Option<u8> {
        let mut state = self.lock();
        let tears = state.fault_rates.disk.tears;
        tears.then(|| state.chance.random_range(64..=u8::MAX))
    }

    /// Returns true if the disk of the store is full.
    pub(super) fn is_disk_full(&self, now: Timestamp) -> bool {
        self.lock().fault_rates.disk.is_full(now)
    }

    /// Draws whether a message about a site arrives: every second one does while there are any
    /// faults.
    pub(super) fn draw_message_arrival(
        &self,
        site: SiteName,
        id: SiteNotificationId,
        now: Timestamp,
    ) -> bool {
        let mut state = self.lock();
        let arrives = state.fault_rates.faults.is_empty() || state.chance.random_bool(0.5);
        if arrives {
            state.arrived.insert((site, id), now);
        }
        arrives
    }

    /// Returns when this message about a site last reached the administrators.
    pub fn arrived_at(&self, site: &SiteName, id: SiteNotificationId) -> Option<Timestamp> {
        self.lock().arrived.get(&(site.clone(), id)).copied()
    }

    /// Draws whether a message about the end of a job arrives, as
    /// [`CallFaultModel::draw_message_arrival`] does.
    pub(super) fn draw_end_arrival(&self, job: JobId, address: &str) -> bool {
        let mut state = self.lock();
        let arrives = state.fault_rates.faults.is_empty() || state.chance.random_bool(0.5);
        if arrives {
            state.told.insert((job, address.into()));
        }
        arrives
    }

    /// Returns true if this address got a message about the end of the job.
    pub fn was_end_delivered(&self, job: JobId, address: &str) -> bool {
        self.lock().told.contains(&(job, address.into()))
    }

    /// Records a message that nobody should have got.
    pub(super) fn record_unwanted_message(&self, text: String) {
        self.lock().idle_talk.push(text);
    }

    /// Returns the messages that nobody should have got.
    pub fn unwanted_messages(&self) -> Vec<String> {
        self.lock().idle_talk.clone()
    }

    /// Draws a number below `bound`.
    pub(super) fn draw_below(&self, bound: usize) -> usize {
        self.lock().chance.random_range(0..bound)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CallFaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Draws the time that a message is under way.
fn draw_travel_time(max: DurationMs, chance: &mut StdRng) -> DurationMs {
    DurationMs(if max.0 == 0 {
        0
    } else {
        chance.random_range(0..=max.0)
    })
}
