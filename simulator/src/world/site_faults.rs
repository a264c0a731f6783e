//! Faults of the world itself: nodes, sites, batch systems, links, clocks.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::{AttemptTag, InstanceId, SiteName};
use cospan_domain::units::{BitsPerSecond, ClockSkew, DurationMs, Timestamp};
use cospan_sites::port::{AttemptAtGate, AttemptObservation, PayloadExit, RunningPayload};

use super::SimulatedWorld;
use super::agenda::{AgendaEvent, SiteIndex};
use super::attempt::AttemptStage;
use super::batch::LrmJobId;
use super::world_history::WorldLedgerEvent;
use crate::fault_kinds::FaultKind;

/// Number of effects of faults, by kind and by the step that they hit.
pub type FaultEffectCounts = BTreeMap<(FaultKind, &'static str), u64>;

/// Counts one effect.
pub(crate) fn count_effect(struck: &mut FaultEffectCounts, kind: FaultKind, step: &'static str) {
    *struck.entry((kind, step)).or_default() += 1;
}

/// A fault of a site, or of a link from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteFault {
    /// A node dies.
    NodeDown {
        node: u32,
        /// Time until the node is back.
        repair: DurationMs,
    },
    /// Every node dies.
    SiteDown {
        /// Time until the nodes are back.
        repair: DurationMs,
    },
    /// The site does not answer any more, or answers again.
    Silent(bool),
    /// The site cannot be reached any more, or again.
    CutOff(bool),
    /// The site accepts requests and carries out none of them, or goes on.
    Frozen(bool),
    /// The site rejects our account, or accepts it again.
    Revoked(bool),
    /// The site shows its load and our attempts as they were when this began, or shows them as they
    /// are.
    Stale(bool),
    /// The batch system is killed, and loses what it acknowledged last.
    Forgets {
        /// Length of the time whose submissions are lost.
        window: DurationMs,
        /// If it had acknowledged nothing of ours lately, it is killed again a window later, up to
        /// this many times.
        times: u32,
    },
    /// The batch system starts nothing any more, or again.
    Drained(bool),
    /// The site loses all reservations without a word.
    LosesLeases,
    /// The disk of the site takes no copy any more, or again.
    DiskFull(bool),
    /// The clock of the site is set this far ahead of the true time, in milliseconds; negative:
    /// behind.
    Clock(i64),
    /// A link from the site has this bandwidth from now on; 0 cuts it.
    Link {
        /// End of the link.
        to: SiteName,
        bandwidth: BitsPerSecond,
    },
    /// Content over a link from the site arrives damaged, or whole again.
    Corrupts {
        /// End of the link.
        to: SiteName,
        /// True if it is damaged.
        corrupts: bool,
    },
}

impl SiteFault {
    /// Returns its kind.
    pub fn kind(&self) -> FaultKind {
        match self {
            SiteFault::NodeDown { .. } => FaultKind::NodeDown,
            SiteFault::SiteDown { .. } => FaultKind::SiteDown,
            SiteFault::Silent(_) => FaultKind::Silent,
            SiteFault::CutOff(_) => FaultKind::CutOff,
            SiteFault::Frozen(_) => FaultKind::Frozen,
            SiteFault::Revoked(_) => FaultKind::Revoked,
            SiteFault::Stale(_) => FaultKind::Stale,
            SiteFault::Forgets { .. } => FaultKind::Forgets,
            SiteFault::Drained(_) => FaultKind::Drained,
            SiteFault::LosesLeases => FaultKind::LosesLeases,
            SiteFault::DiskFull(_) => FaultKind::DiskFull,
            SiteFault::Clock(_) => FaultKind::SiteClock,
            SiteFault::Link { .. } => FaultKind::Link,
            SiteFault::Corrupts { .. } => FaultKind::Corrupts,
        }
    }

    /// Returns true if its site, and no other, is out of reach from now on.
    pub fn hides_site(&self) -> bool {
        matches!(
            self,
            SiteFault::Silent(true) | SiteFault::Frozen(true) | SiteFault::Revoked(true)
        )
    }

    /// Returns true if this begins the fault, false if it ends it.
    fn begins_fault(&self) -> bool {
        match self {
            SiteFault::Silent(on)
            | SiteFault::CutOff(on)
            | SiteFault::Frozen(on)
            | SiteFault::Revoked(on)
            | SiteFault::Stale(on)
            | SiteFault::Drained(on)
            | SiteFault::DiskFull(on) => *on,
            SiteFault::Clock(ahead) => *ahead != 0,
            _ => true,
        }
    }
}

/// The present faults of a site.
#[derive(Debug, Clone, Default)]
pub struct PresentSiteFaults {
    /// It does not answer; what runs there goes on.
    pub silent: bool,
    /// It cannot be reached; what runs there goes on.
    pub cut_off: bool,
    /// It accepts requests and carries out none.
    pub frozen: bool,
    /// It rejects our account.
    pub revoked: bool,
    /// It refuses to copy.
    pub(super) disk_full: bool,
    /// The state that it shows, from an earlier time.
    pub(super) stale: Option<ShownSiteState>,
    /// Times at which its clock was set, with how far ahead in milliseconds; oldest first.
    pub(super) clock_set: Vec<(Timestamp, i64)>,
    /// Sites whose content arrives damaged.
    pub(super) corrupt_from: BTreeSet<SiteName>,
    /// Kinds of faults that no caller has met yet since they began.
    unmet: BTreeSet<FaultKind>,
    /// Attempts about which an answer was wrong, each with the kind of fault.
    misstated: BTreeSet<(FaultKind, AttemptTag)>,
}

/// The reason why a site turns its callers away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnAwayReason {
    /// It does not answer, or cannot be reached.
    Silent,
    /// It rejects our account.
    Revoked,
    /// It accepts requests and carries out none.
    Frozen,
}

/// The state that a site showed at some time.
#[derive(Debug, Clone)]
pub(super) struct ShownSiteState {
    pub(super) idle: u32,
    pub(super) attempts: BTreeMap<AttemptTag, AttemptObservation>,
}

impl PresentSiteFaults {
    /// Returns true if it cannot be worked with, or shows a wrong state.
    pub fn hinders_work(&self) -> bool {
        let deaf = self.silent || self.cut_off || self.frozen || self.revoked;
        deaf || self.stale.is_some()
    }

    /// Returns the kind of fault that turns callers away now.
    fn turn_away_reason(&self) -> Option<(FaultKind, TurnAwayReason)> {
        let kinds = [
            (self.silent, FaultKind::Silent, TurnAwayReason::Silent),
            (self.cut_off, FaultKind::CutOff, TurnAwayReason::Silent),
            (self.revoked, FaultKind::Revoked, TurnAwayReason::Revoked),
            (self.frozen, FaultKind::Frozen, TurnAwayReason::Frozen),
        ];
        kinds
            .into_iter()
            .find(|(ails, ..)| *ails)
            .map(|(_, kind, closed)| (kind, closed))
    }

    /// Returns what the site's clock showed at a time, and so what was written down then.
    pub(super) fn clock_time(&self, at: Timestamp) -> Timestamp {
        at + self.clock_ahead(at)
    }

    /// Returns how far its clock was ahead then.
    fn clock_ahead(&self, at: Timestamp) -> ClockSkew {
        let set = self.clock_set.iter().rev().find(|(since, _)| *since <= at);
        ClockSkew(set.map_or(0, |(_, ahead_ms)| *ahead_ms))
    }

    /// Returns by how much its clock was set in this time, forward and back.
    pub fn clock_steps(&self, from: Timestamp, to: Timestamp) -> DurationMs {
        let mut before = 0;
        let steps = self.clock_set.iter().map(|(at, ahead_ms)| {
            let step = ahead_ms.abs_diff(std::mem::replace(&mut before, *ahead_ms));
            if (from..=to).contains(at) { step } else { 0 }
        });
        DurationMs(steps.sum())
    }

    /// Returns true if it shows its true state, with true times.
    fn shows_truth(&self) -> bool {
        self.stale.is_none() && self.clock_set.is_empty()
    }

    /// Converts an observation to the times of the site's clock.
    pub(super) fn with_site_clock(&self, seen: AttemptObservation) -> AttemptObservation {
        if self.clock_set.is_empty() {
            return seen;
        }
        match seen {
            AttemptObservation::Ready(AttemptAtGate {
                host,
                since,
                held_at,
            }) => {
                let since = self.clock_time(since);
                let held_at = self.clock_time(held_at);
                AttemptObservation::Ready(AttemptAtGate {
                    host,
                    since,
                    held_at,
                })
            }
            AttemptObservation::Begun(RunningPayload { host, at }) => {
                AttemptObservation::Begun(RunningPayload {
                    host,
                    at: self.clock_time(at),
                })
            }
            AttemptObservation::Exited(PayloadExit {
                cause,
                began_at,
                ended_at,
            }) => {
                let began_at = self.clock_time(began_at);
                let ended_at = self.clock_time(ended_at);
                AttemptObservation::Exited(PayloadExit {
                    cause,
                    began_at,
                    ended_at,
                })
            }
            other => other,
        }
    }
}

impl SimulatedWorld {
    /// Plans a fault.
    pub fn plan_fault(&mut self, at: Timestamp, site: SiteIndex, trouble: SiteFault) {
        self.troubles.push(trouble);
        self.agenda
            .add_event(at, site, AgendaEvent::Trouble(self.troubles.len() - 1));
    }

    pub(super) fn apply_fault(&mut self, site: SiteIndex, number: usize) {
        let trouble = self.troubles[number].clone();
        if trouble.begins_fault() {
            self.sites[site.0].ailments.unmet.insert(trouble.kind());
        }
        let ailments = &mut self.sites[site.0].ailments;
        match trouble {
            SiteFault::NodeDown { node, repair } => self.kill_node(site, node, repair),
            SiteFault::SiteDown { repair } => self.kill_site(site, repair),
            SiteFault::Silent(silent) => ailments.silent = silent,
            SiteFault::CutOff(cut_off) => ailments.cut_off = cut_off,
            SiteFault::Frozen(frozen) => ailments.frozen = frozen,
            SiteFault::Revoked(revoked) => ailments.revoked = revoked,
            SiteFault::Stale(stale) => self.set_stale(site, stale),
            SiteFault::Forgets { window, times } => {
                if self.make_scheduler_forget(site, window) == 0 && times > 0 {
                    let again = SiteFault::Forgets {
                        window,
                        times: times - 1,
                    };
                    self.plan_fault(self.now + window, site, again);
                }
            }
            SiteFault::Drained(true) => self.sites[site.0].batch.start_drain(),
            SiteFault::Drained(false) => self.resume_scheduler(site),
            SiteFault::LosesLeases => self.lose_reservations(site),
            SiteFault::DiskFull(full) => ailments.disk_full = full,
            SiteFault::Clock(ahead_ms) => self.set_clock(site, ahead_ms),
            SiteFault::Link { to, bandwidth } => self.set_link(site, &to, bandwidth),
            SiteFault::Corrupts { to, corrupts } => self.set_corrupts(site, &to, corrupts),
        }
    }

    /// Returns why a site turns a caller away, if it does. The first caller since then counts the
    /// fault for everything of its control plane that is there.
    pub fn reason_to_turn_away(
        &mut self,
        site: SiteIndex,
        instance: InstanceId,
    ) -> Option<TurnAwayReason> {
        let (kind, closed) = self.sites[site.0].ailments.turn_away_reason()?;
        let cluster = &self.sites[site.0];
        if cluster.ailments.unmet.contains(&kind) {
            let ours = cluster
                .attempts
                .iter()
                .filter(|(tag, _)| tag.instance == instance);
            let copying = vec!["copying"; self.count_copies_to(site, None)];
            let steps: Vec<_> = ours
                .map(|(_, attempt)| attempt.stage_name())
                .chain(copying)
                .collect();
            if !steps.is_empty() {
                steps
                    .into_iter()
                    .for_each(|step| count_effect(&mut self.struck, kind, step));
                self.sites[site.0].ailments.unmet.remove(&kind);
            }
        }
        Some(closed)
    }

    /// Returns what a site says of an attempt: its state when the site became stale, by the site's
    /// own clock.
    pub(super) fn show_attempt(&mut self, site: SiteIndex, tag: AttemptTag) -> AttemptObservation {
        let cluster = &mut self.sites[site.0];
        let truth = cluster.observe_attempt(tag);
        if cluster.ailments.shows_truth() {
            return truth;
        }
        let (kind, shown) = match &cluster.ailments.stale {
            Some(then) => (
                FaultKind::Stale,
                then.attempts
                    .get(&tag)
                    .cloned()
                    .unwrap_or(AttemptObservation::Absent),
            ),
            None => (
                FaultKind::SiteClock,
                cluster.ailments.with_site_clock(truth.clone()),
            ),
        };
        if shown != truth && cluster.ailments.misstated.insert((kind, tag)) {
            let step = cluster
                .attempts
                .get(&tag)
                .map_or("ended", |attempt| attempt.stage_name());
            count_effect(&mut self.struck, kind, step);
        }
        shown
    }

    /// Lets the batch system start jobs again. Attempts that start at once were delayed by the
    /// fault, which is counted.
    fn resume_scheduler(&mut self, site: SiteIndex) {
        let waited = self.queued_attempts(site);
        self.sites[site.0].batch.resume();
        self.start_batch_jobs(site);
        let wait_on = self.queued_attempts(site);
        waited
            .difference(&wait_on)
            .for_each(|_| count_effect(&mut self.struck, FaultKind::Drained, "queued"));
    }

    fn queued_attempts(&self, site: SiteIndex) -> BTreeSet<AttemptTag> {
        let attempts = self.sites[site.0].attempts.iter();
        let queued = attempts.filter(|(_, attempt)| attempt.stage == AttemptStage::Queued);
        queued.map(|(tag, _)| *tag).collect()
    }

    /// Changes a link. The transfers under way are affected if its bandwidth changes.
    fn set_link(&mut self, from: SiteIndex, to: &SiteName, bandwidth: BitsPerSecond) {
        let name = self.sites[from.0].name.clone();
        let before = self.network.link_capacity(&name, to);
        if self.sites[from.0].ailments.unmet.remove(&FaultKind::Link) && before != Some(bandwidth) {
            let flows = self
                .index_of(to)
                .map_or(0, |to| self.count_copies_to(to, Some(&name)));
            (0..flows).for_each(|_| count_effect(&mut self.struck, FaultKind::Link, "copying"));
        }
        // A link that does not exist cannot break.
        let _ = self.network.set_capacity(&name, to, bandwidth, self.now);
    }

    /// Kills a node, with everything that runs there, and brings it back after `repair`.
    pub fn kill_node(&mut self, site: SiteIndex, node: u32, repair: DurationMs) {
        self.take_nodes_down(site, &[node], repair, FaultKind::NodeDown);
    }

    fn take_nodes_down(
        &mut self,
        site: SiteIndex,
        nodes: &[u32],
        repair: DurationMs,
        kind: FaultKind,
    ) {
        let now = self.now;
        for node in nodes {
            let killed = self.sites[site.0].batch.node_down(*node, now);
            for job in killed {
                let killed = if self.requeues {
                    self.kill_and_requeue(site, job)
                } else {
                    self.sites[site.0].remove_killed(job)
                };
                if let Some((tag, step)) = killed {
                    count_effect(&mut self.struck, kind, step);
                    self.ledger.record_event(
                        now,
                        &self.sites[site.0].name,
                        tag,
                        WorldLedgerEvent::KilledByNode,
                    );
                    self.ledger.record_event(
                        now,
                        &self.sites[site.0].name,
                        tag,
                        WorldLedgerEvent::Left,
                    );
                }
            }
            self.agenda
                .add_event(now + repair, site, AgendaEvent::NodeUp(*node));
        }
        self.start_batch_jobs(site);
    }

    pub(super) fn bring_node_up(&mut self, site: SiteIndex, node: u32) {
        self.sites[site.0].batch.node_up(node, self.now);
        self.start_batch_jobs(site);
    }

    /// Keeps a node in service, but until `repair` is over everything that is started on it fails
    /// at once: a black hole, which looks idle to anybody who places jobs. What runs there goes on.
    pub fn make_black_hole(&mut self, site: SiteIndex, node: u32, repair: DurationMs) {
        self.sites[site.0].black_holes.insert(node);
        self.agenda
            .add_event(self.now + repair, site, AgendaEvent::NodeMended(node));
    }

    pub(super) fn repair_black_hole(&mut self, site: SiteIndex, node: u32) {
        self.sites[site.0].black_holes.remove(&node);
    }

    /// Ends a batch job that was started on a node that fails everything.
    pub(super) fn fail_by_node(&mut self, site: SiteIndex, job: LrmJobId) {
        let cluster = &mut self.sites[site.0];
        if !cluster.batch.is_running(job) {
            return; // Its node died first.
        }
        cluster.batch.end_job(job, self.now);
        if let Some((tag, _)) = cluster.remove_killed(job) {
            self.ledger
                .record_event(self.now, &cluster.name, tag, WorldLedgerEvent::KilledByNode);
            self.ledger
                .record_event(self.now, &cluster.name, tag, WorldLedgerEvent::Left);
        }
        self.start_batch_jobs(site);
    }

    /// Kills every node of a site and brings them back after `repair`.
    pub fn kill_site(&mut self, site: SiteIndex, repair: DurationMs) {
        let nodes: Vec<u32> = (0..self.sites[site.0].nodes).collect();
        self.take_nodes_down(site, &nodes, repair, FaultKind::SiteDown);
    }

    fn set_stale(&mut self, site: SiteIndex, stale: bool) {
        let cluster = &self.sites[site.0];
        let shown = stale.then(|| ShownSiteState {
            idle: cluster.unreserved_idle(self.now),
            attempts: cluster
                .attempts
                .keys()
                .map(|tag| (*tag, cluster.observe_attempt(*tag)))
                .collect(),
        });
        let ailments = &mut self.sites[site.0].ailments;
        ailments.stale = shown;
        ailments
            .misstated
            .retain(|(kind, _)| *kind != FaultKind::Stale);
        self.mark_touched(site);
    }

    /// Sets the clock of a site. Wrappers use it: a clock that jumps ahead ends their hold.
    fn set_clock(&mut self, site: SiteIndex, ahead_ms: i64) {
        let cluster = &mut self.sites[site.0];
        let before = cluster.ailments.clock_ahead(self.now).0;
        cluster.ailments.clock_set.push((self.now, ahead_ms));
        cluster
            .ailments
            .misstated
            .retain(|(kind, _)| *kind != FaultKind::SiteClock);
        let jumps_to = Timestamp(self.now.0.saturating_add_signed(ahead_ms - before));
        let over = cluster
            .attempts
            .iter()
            .filter(|(_, attempt)| match attempt.stage {
                AttemptStage::AtGate { since, .. } => since + attempt.hold_max <= jumps_to,
                _ => false,
            });
        let over: Vec<AttemptTag> = over.map(|(tag, _)| *tag).collect();
        over.into_iter()
            .for_each(|tag| self.on_hold_over(site, tag));
        self.mark_touched(site);
    }

    fn set_corrupts(&mut self, from: SiteIndex, to: &SiteName, corrupts: bool) {
        let from = self.sites[from.0].name.clone();
        let Some(to) = self.index_of(to) else { return };
        let sources = &mut self.sites[to.0].ailments.corrupt_from;
        if corrupts {
            sources.insert(from)
        } else {
            sources.remove(&from)
        };
    }

    /// Kills the batch system of a site. It comes back without the submissions that it acknowledged
    /// in the last `window`, and reuses their numbers. Returns how many of ours it lost.
    pub fn make_scheduler_forget(&mut self, site: SiteIndex, window: DurationMs) -> usize {
        let now = self.now;
        let doubles = self.sites[site.0].forget_doubles_since(now - window, now);
        for tag in doubles {
            self.ledger.record_event(
                now,
                &self.sites[site.0].name,
                tag,
                WorldLedgerEvent::DoubleLeft,
            );
        }
        let lost = self.sites[site.0].forget_since(now - window, now);
        for (tag, step) in &lost {
            count_effect(&mut self.struck, FaultKind::Forgets, step);
            let name = &self.sites[site.0].name;
            self.ledger
                .record_event(now, name, *tag, WorldLedgerEvent::Forgotten);
            if *step == "running" {
                self.ledger
                    .record_event(now, name, *tag, WorldLedgerEvent::KilledByNode);
            }
            self.ledger
                .record_event(now, name, *tag, WorldLedgerEvent::Left);
        }
        self.start_batch_jobs(site);
        lost.iter().for_each(|_| self.submit_rival(site));
        lost.len()
    }

    /// Lets another control plane submit; it gets the lowest free number.
    fn submit_rival(&mut self, site: SiteIndex) {
        let Some(mut order) = self.rival.take() else {
            return;
        };
        // One that is too large for the site is refused, which does not matter here.
        let _ = self.submit(site, &order);
        order.tag.job.0 += 1;
        self.rival = Some(order);
    }
}
