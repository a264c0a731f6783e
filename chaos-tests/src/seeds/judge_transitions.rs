//! Judges every change while it becomes durable: only listed transitions happen, terminal is final,
//! the fold of the events is the record, and no record breaks a rule.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use cospan_actors::api::CommittedView;
use cospan_actors::journal::JournalChange;
use cospan_actors::supervision::ActorKind;
use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::{Attempt, ComponentIndex, JobId, LogicalName, SiteName};
use cospan_domain::invariants::{is_fault_of_ours, list_broken_invariants};
use cospan_domain::job::evolve::evolve;
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{AbortCause, AttemptEnding, Job, PhaseKind, SiteCharge};
use cospan_domain::job::state_table::is_transition_allowed;
use cospan_domain::labels::{LabelConstraint, LabelRule};
use cospan_domain::placed::Placement;
use cospan_domain::reservation::StartWindow;
use cospan_domain::site::site_parameters::SiteParameters;
use cospan_domain::site::site_state::{AttemptId, SiteRecord};
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use tokio::sync::broadcast::error::RecvError;

use super::accounts::GateAccounts;
use super::counters::Counters;
use super::isolation::CutOffs;
use super::judge_holds::SeenHolds;
use super::judge_reservations;
use super::judge_shared_reservations::{self, Sharing};
use super::preemptions::Preemptions;
use super::queueing::Queues;
use super::quotas::{self, ReservationQuota};
use super::sites::{self, KNOWN_WITHIN};
use super::staging;
use super::supervision::HeldTimes;
use super::unseen_commits::{Unseen, read_unseen};
use cospan_simulator::actor_lives::ActorLives;
use cospan_simulator::control_plane_run::ControlPlaneRun;

/// Returns true for actors with a part in placing jobs, claiming processors, and noticing the state
/// of sites.
pub(super) fn has_part_in_placing(kind: ActorKind) -> bool {
    matches!(
        kind,
        ActorKind::Journal
            | ActorKind::CoAllocator
            | ActorKind::Reserver
            | ActorKind::Claimer
            | ActorKind::Cluster
            | ActorKind::Job
    )
}

/// Everything seen of the jobs.
#[derive(Debug, Default)]
pub(super) struct SeenJobs {
    /// The end of each job, and when that became durable.
    pub(super) ended: BTreeMap<JobId, (PhaseKind, Timestamp)>,
    /// Jobs as they were last seen.
    pub(super) last: BTreeMap<JobId, Arc<Job>>,
    /// Rules that were broken.
    pub(super) violations: Vec<String>,
    /// The events of the job that the user asked about, as a timeline.
    pub(super) timeline: Vec<(Timestamp, JobId, String)>,
    /// Attempts that the control plane takes to be over, and since when. Those that it gave up
    /// because their site did not answer are not among them.
    pub(super) over: BTreeMap<(JobId, ComponentIndex, Attempt), Timestamp>,
    /// Attempts that the control plane takes to have failed by themselves.
    own_errors: BTreeSet<(JobId, ComponentIndex, Attempt)>,
    /// The control plane's records about times at gates.
    pub(super) accounts: GateAccounts,
    /// The reserved starts of rounds.
    pub(super) windows: judge_reservations::Windows,
    /// Shared reservations.
    pub(super) sharing: Sharing,
    /// Times at which jobs were held after internal errors, and released.
    pub(super) held: HeldTimes,
    owed: BTreeMap<(JobId, ComponentIndex), SiteCharge>,
    /// Sites' records, each with the time since when it is so.
    sites: BTreeMap<SiteName, (Timestamp, Arc<SiteRecord>)>,
    cut_offs: CutOffs,
    /// The work of the running control plane so far.
    pub(super) counters: Counters,
    /// Jobs that wait for placement.
    queues: Queues,
    /// Preempted jobs, and those that preempted them.
    preemptions: Preemptions,
    /// Attempts that claims gave back, or that were given up.
    pub(super) holds: SeenHolds,
    /// The most that copies may take of a site.
    pub(super) staging: BTreeMap<SiteName, Bytes>,
    /// The most of a site that a user may reserve.
    pub(super) reservation_quota: ReservationQuota,
    /// Number of durable changes.
    pub(super) changes: u64,
    /// Milliseconds by which the clock of the running control plane is ahead of the true time.
    ahead_ms: i64,
    /// The catalogue when all was over, if it came to that.
    pub(super) files: Option<BTreeMap<LogicalName, Arc<FileRecord>>>,
    /// Lives and stalls of actors.
    lives: Arc<ActorLives>,
}

impl SeenJobs {
    /// Starts with nothing seen. `cut_offs`: times in which no site answers.
    pub(super) fn new(cut_offs: Vec<(Timestamp, Timestamp)>, queues: Queues) -> Self {
        Self {
            cut_offs: CutOffs::new(cut_offs),
            queues,
            ..Self::default()
        }
    }

    /// Prepares for another control plane that begins to run.
    fn begin_life(&mut self, plane_run: &ControlPlaneRun) {
        let view = &plane_run.plane.view();
        let its_now = plane_run.plane.now();
        match read_unseen(&**plane_run.plane.store_journal(), view, &self.last) {
            Ok(unseen) => unseen
                .into_iter()
                .for_each(|unseen| self.catch_up_unseen(unseen)),
            Err(problem) => self
                .violations
                .push(format!("events cannot be read: {problem}")),
        }
        self.ahead_ms = plane_run.clock_ahead_ms;
        self.lives = plane_run.lives.clone();
        self.cut_offs.begin_life(plane_run.clock.now());
        self.counters = Counters::default();
        self.queues.begin_life(its_now);
        self.preemptions.begin_life(view, its_now);
        for site in view.sites.values() {
            self.sharing.learn_record(site);
            self.queues.learn_site(site, its_now);
        }
        self.holds.begin_life(view);
    }

    /// Judges what the last control plane wrote right before it died.
    fn catch_up_unseen(&mut self, unseen: Unseen) {
        let Unseen { old, new, events } = unseen;
        self.judge_job(&old, &new, &events, self.ahead_ms);
        self.holds.catch_up_events(new.id, &events);
        self.timeline.extend(events.iter().map(|event| {
            let at = Timestamp(event.at.0.saturating_add_signed(-self.ahead_ms));
            (at, new.id, format!("{:?}, and died", event.what))
        }));
        self.last.insert(new.id, new);
    }

    fn record_change(
        &mut self,
        change: &JournalChange,
        view: &CommittedView,
        now: Timestamp,
        ahead_ms: i64,
    ) {
        self.changes += 1;
        self.counters.record_change(change);
        let its_now = Timestamp(now.0.saturating_add_signed(ahead_ms));
        self.cut_offs.learn_view(view, now, its_now, &|since| {
            stalled_time(&self.lives, since, now)
        });
        match change {
            JournalChange::NewJobs(jobs) => {
                self.last
                    .extend(jobs.iter().map(|job| (job.id, job.clone())));
                for job in jobs {
                    self.queues.arrive(job, its_now);
                    self.preemptions.arrive(job);
                }
            }
            JournalChange::Job { old, new, events } => {
                self.judge_job(old, new, events, ahead_ms);
                self.judge_sites(new, events, view, now);
                self.learn_job(new, events, view, now);
                let lives = self.lives.clone();
                let stalled = |since: Timestamp| {
                    let since = Timestamp(since.0.saturating_add_signed(-ahead_ms));
                    stalled_time(&lives, since, now)
                };
                let unfair = self.queues.record_events(new, events, its_now, &stalled);
                self.violations
                    .extend(unfair.iter().map(|text| format!("a queue erred: {text}")));
                let unfair = self.preemptions.record_events(new, events, &stalled);
                self.violations.extend(
                    unfair
                        .iter()
                        .map(|text| format!("preemption erred: {text}")),
                );
                self.holds.record_events(new, events, now);
                self.timeline.extend(
                    events
                        .iter()
                        .map(|event| (now, new.id, format!("{:?}", event.what))),
                );
                if new.is_final() && !old.is_final() {
                    self.ended.insert(new.id, (new.phase.kind(), now));
                }
                self.last.insert(new.id, new.clone());
            }
            JournalChange::Site { old, new } => {
                self.sharing.learn_record(new);
                self.queues.learn_site(new, its_now);
                self.sites.insert(new.site.clone(), (now, new.clone()));
                let Some(old) = old else { return };
                let parameters = SiteParameters::default();
                let broken = sites::broken_rule(old, new, &parameters);
                self.violations
                    .extend(broken.map(|text| format!("the breaker erred: {text}")));
                if new.consecutive_errors > old.consecutive_errors && self.is_cut_off(now) {
                    let site = &new.site;
                    let latest = new.recent_errors.back();
                    let text =
                        format!("a site was charged while we are cut off: {site}, {latest:?}");
                    self.violations.push(text);
                }
            }
            _ => {}
        }
    }

    fn judge_job(&mut self, old: &Job, new: &Job, events: &[JobEvent], ahead_ms: i64) {
        let mut folded = old.clone();
        for event in events {
            self.accounts.record_event(&folded, event, ahead_ms);
            let from = folded.phase.kind();
            evolve(&mut folded, event);
            if let (JobEventKind::JobPlaced { round, .. }, Some(wish)) =
                (&event.what, folded.reservation_terms())
            {
                // A component that is claimed has no reserved start.
                let promised = folded
                    .components
                    .iter()
                    .all(|c| c.acquisition().reservation_use().is_some());
                let earliest = wish.window.earliest;
                let latest = if promised {
                    wish.window.latest
                } else {
                    Timestamp(u64::MAX)
                };
                self.windows
                    .insert((new.id, *round), StartWindow::new(earliest, latest));
            }
            let name = event.what.name();
            let to = folded.phase.kind();
            if name == "JobPlaced" && folded.frozen_by.is_some() {
                self.break_rule("a frozen job was placed", new, name);
            }
            if !is_transition_allowed(from, name, to) {
                let led = format!("{name} led from {from:?} to {to:?}");
                self.break_rule("a transition is not listed", new, &led);
            }
        }
        folded.revision = new.revision;
        if folded != *new {
            let names: Vec<&str> = events.iter().map(|event| event.what.name()).collect();
            self.break_rule("the events do not give the record", new, &names.join(" "));
        }
        for rule in list_broken_invariants(new) {
            self.break_rule("a record breaks an invariant", new, &rule.to_string());
        }
        if self
            .last
            .get(&new.id)
            .is_some_and(|last| last.revision > old.revision)
        {
            let older = format!("from revision {}", old.revision);
            self.break_rule("a job went back to an older record", new, &older);
        }
    }

    /// Checks that nothing is placed where nothing must be placed, or where its user does not want
    /// it.
    fn judge_sites(
        &mut self,
        job: &Job,
        events: &[JobEvent],
        view: &CommittedView,
        now: Timestamp,
    ) {
        for event in events {
            let placed: Vec<(usize, &Placement)> = match &event.what {
                JobEventKind::JobPlaced { placements, .. } => {
                    placements.iter().enumerate().collect()
                }
                JobEventKind::ComponentMoved {
                    component,
                    placement,
                } => {
                    vec![(component.0 as usize, placement)]
                }
                _ => continue,
            };
            let specs = &job.spec.components;
            for (index, placement) in placed {
                // All components of a split are like the one that was asked for.
                let Some(component) = specs.get(index).or(specs.first()) else {
                    continue;
                };
                let site = &placement.site;
                if !component
                    .constraints
                    .iter()
                    .all(|constraint| is_constraint_met(constraint, site))
                {
                    self.break_rule("constraints were not kept", job, site.as_str());
                }
                if component.site.as_ref().is_some_and(|fixed| fixed != site) {
                    self.break_rule("a fixed component is elsewhere", job, site.as_str());
                }
                // What became durable right before a death was seen by nobody.
                let seen = self.sites.get(site);
                let seen = seen.filter(|(_, record)| view.sites.get(site) == Some(record));
                let closed = seen.is_some_and(|(since, record)| {
                    let to = event.at;
                    let from = Timestamp(event.at.0 - KNOWN_WITHIN.0);
                    *since + KNOWN_WITHIN < now
                        && sites::keeps_away(record, from)
                        && sites::keeps_away(record, to)
                        && *since + KNOWN_WITHIN + self.stalled_between(*since, now) < now
                });
                if closed {
                    self.break_rule("a site that takes nothing was chosen", job, site.as_str());
                }
            }
        }
    }

    /// Returns the time since then in which actors stalled that have a part in placing and
    /// claiming.
    fn stalled_between(&self, since: Timestamp, now: Timestamp) -> DurationMs {
        stalled_time(&self.lives, since, now)
    }

    /// Returns true if no site has answered for so long that it is taken for our own fault.
    fn is_cut_off(&self, now: Timestamp) -> bool {
        self.cut_offs
            .is_noticed(now, &|since| self.stalled_between(since, now))
    }

    fn learn_job(&mut self, job: &Job, events: &[JobEvent], view: &CommittedView, now: Timestamp) {
        for event in events {
            match &event.what {
                JobEventKind::AttemptEnded {
                    component,
                    attempt,
                    how,
                } if *how != AttemptEnding::Abandoned => {
                    let key = (job.id, *component, *attempt);
                    self.over.entry(key).or_insert(now);
                    if matches!(how, AttemptEnding::Failed(_)) {
                        self.own_errors.insert(key);
                    }
                }
                JobEventKind::JobHeld { .. } | JobEventKind::JobReleased { .. } => {
                    if let JobEventKind::JobHeld { reason } = &event.what
                        && is_fault_of_ours(reason)
                    {
                        self.break_rule("a record breaks an invariant", job, reason);
                    }
                    let is_held = matches!(event.what, JobEventKind::JobHeld { .. });
                    self.held.entry(job.id).or_default().push((now, is_held));
                }
                JobEventKind::RoundAborted {
                    why: AbortCause::Unreachable { .. },
                    ..
                } if self.is_cut_off(now) => {
                    self.break_rule("a job was moved while we are cut off", job, "unreachable");
                }
                JobEventKind::AttemptRenewed { component } => {
                    let renewed = job.components.get(component.0 as usize);
                    let before = renewed.map_or(0, |c| c.attempt.0.saturating_sub(1));
                    self.over
                        .entry((job.id, *component, Attempt(before)))
                        .or_insert(now);
                }
                JobEventKind::SiteCharged { component, charge } => {
                    if self
                        .own_errors
                        .contains(&(job.id, *component, charge.attempt))
                    {
                        self.break_rule(
                            "a site pays for the job's error",
                            job,
                            charge.site.as_str(),
                        );
                    }
                    self.owed.insert((job.id, *component), charge.clone());
                }
                JobEventKind::ChargeRecorded { component } => {
                    let Some(charge) = self.owed.remove(&(job.id, *component)) else {
                        continue;
                    };
                    let component = *component;
                    let attempt = charge.attempt;
                    let id = AttemptId {
                        job: job.id,
                        component,
                        attempt,
                    };
                    let counted = view
                        .sites
                        .get(&charge.site)
                        .map(|site| site.has_counted_attempt(id));
                    if counted != Some(true) {
                        self.break_rule("an error was never counted", job, charge.site.as_str());
                    }
                }
                _ => {}
            }
        }
    }

    /// Reports a broken rule. The rule comes first, as in all verdicts: tables show no more than
    /// that.
    fn break_rule(&mut self, rule: &str, job: &Job, what: &str) {
        self.violations
            .push(format!("{rule}: job {}, {what}", job.id));
    }
}

fn stalled_time(lives: &ActorLives, since: Timestamp, now: Timestamp) -> DurationMs {
    lives.stalled_time(since, now, |id| has_part_in_placing(id.kind()))
}

/// Returns true if a site has the labels that are asked for.
fn is_constraint_met(constraint: &LabelConstraint, site: &SiteName) -> bool {
    let half = if site.as_str() < "e" {
        "north"
    } else {
        "south"
    };
    let label = match &*constraint.key {
        "place" => site.as_str(),
        _ => half,
    };
    match &constraint.rule {
        LabelRule::Is(value) => **value == *label,
        LabelRule::OneOf(values) => values.iter().any(|value| **value == *label),
        LabelRule::IsNot(value) => **value != *label,
        LabelRule::AtLeast(_) => false,
    }
}

/// Follows one run of the control plane for as long as it is polled, and ends it if it makes too
/// many changes.
pub(super) async fn follow_run(
    plane_run: ControlPlaneRun,
    seen: Rc<RefCell<SeenJobs>>,
    changes_max: u64,
) {
    let mut changes = plane_run.plane.subscribe_to_changes();
    seen.borrow_mut().begin_life(&plane_run);
    loop {
        match changes.recv().await {
            Ok(committed) => {
                let view = plane_run.plane.view();
                let mut seen = seen.borrow_mut();
                seen.record_change(
                    &committed.change,
                    &view,
                    plane_run.clock.now(),
                    plane_run.clock_ahead_ms,
                );
                let broken = judge_reservations::missing_when_placed(&plane_run, &committed.change)
                    .into_iter();
                let broken = broken.chain(judge_shared_reservations::not_kept(
                    &plane_run,
                    &committed.change,
                ));
                let told = broken.map(|text| format!("what was promised is not held: {text}"));
                seen.violations.extend(told);
                let quota = seen.reservation_quota;
                let beyond =
                    quotas::exceeded_quotas(&plane_run, quota, &committed.change).into_iter();
                let told = beyond.map(|text| format!("a user reserves more than they may: {text}"));
                seen.violations.extend(told);
                if matches!(*committed.change, JournalChange::Copy { .. }) {
                    let beyond =
                        staging::sites_over_limit(&plane_run, &seen.staging, &view).into_iter();
                    let told = beyond.map(|text| format!("copies take more than they may: {text}"));
                    seen.violations.extend(told);
                }
                if seen.changes > changes_max {
                    let text =
                        format!("it goes round in circles: {} durable changes", seen.changes);
                    seen.violations.push(text);
                    plane_run.kill_switch.kill();
                    return;
                }
            }
            Err(RecvError::Lagged(missed)) => {
                seen.borrow_mut()
                    .violations
                    .push(format!("changes were not judged: {missed}"));
            }
            Err(RecvError::Closed) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::JobId;
    use cospan_domain::site::failure::FailureClass;
    use cospan_domain::site::site_state::SiteErrorRecord;

    use super::*;

    /// Returns true if an error that is charged 10 s after a claim is held to break a rule. We have
    /// been cut off for an hour by then; jobs had something at a site all the time, or since the
    /// claim.
    fn is_charged_wrongly(always: bool) -> bool {
        let now = Timestamp(3_600_000);
        let delft = SiteName::new("delft").unwrap();
        let old = SiteRecord::new(delft.clone());
        let mut new = old.clone();
        new.consecutive_errors = 1;
        new.recent_errors.push_back(SiteErrorRecord {
            attempt: AttemptId {
                job: JobId(1),
                component: ComponentIndex(0),
                attempt: Attempt(1),
            },
            class: FailureClass::Site,
            at: now,
            detail: "the site does not answer".into(),
        });
        let charge = JournalChange::Site {
            old: Some(Arc::new(old)),
            new: Arc::new(new),
        };
        let mut busy = CommittedView::default();
        busy.holdings.insert(delft, Default::default());
        let first = if always {
            busy.clone()
        } else {
            CommittedView::default()
        };
        let cut_off = vec![(Timestamp(1), Timestamp(7_200_000))];
        let mut seen = SeenJobs::new(cut_off, Queues::default());
        for (view, at) in [(&first, 0), (&busy, now.0 - 10_000)] {
            seen.record_change(&JournalChange::Barrier, view, Timestamp(at), 0);
        }
        seen.record_change(&charge, &busy, now, 0);
        seen.violations
            .iter()
            .any(|text| text.contains("while we are cut off"))
    }

    #[test]
    fn a_site_may_be_charged_as_long_as_none_was_asked_since_we_are_cut_off() {
        assert!(!is_charged_wrongly(false));
        assert!(is_charged_wrongly(true));
    }
}
