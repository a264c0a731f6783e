//! What a control plane shows of itself is what it did: its metrics are compared with the
//! changes that became durable while it reigned.

use std::collections::{BTreeMap, BTreeSet};

use cospan_actors::journal::Change;
use cospan_actors::metrics::Metrics;
use cospan_domain::job::event::{Happened, JobEvent};
use cospan_domain::job::state::{AbortCause, Job, Phase, PhaseKind};
use cospan_domain::units::Timestamp;
use prometheus::Histogram;
use prometheus::core::Collector;

use cospan_simulator::reign::Reign;

/// Sums of lengths of time are compared in seconds, and come from milliseconds.
const ROUNDING_S: f64 = 1e-3;

/// How often something took some time, and how long all of it in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lengths {
    count: u64,
    sum_ms: u64,
}

impl Lengths {
    fn add(&mut self, from: Timestamp, to: Timestamp) {
        self.count += 1;
        self.sum_ms += to.since(from).0;
    }

    fn is_shown(self, histogram: &Histogram) -> bool {
        let shown_s = histogram.get_sample_sum();
        histogram.get_sample_count() == self.count
            && (shown_s - self.sum_ms as f64 / 1_000.0).abs() < ROUNDING_S * (1.0 + shown_s)
    }
}

/// What one control plane did so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    submitted: u64,
    ended: BTreeMap<&'static str, u64>,
    aborted: BTreeMap<&'static str, u64>,
    waited_for_place: Lengths,
    started: Lengths,
    responded: Lengths,
    claimed: Lengths,
    begun: Lengths,
    ran: Lengths,
    failed_alone: BTreeMap<(&'static str, String), u64>,
    costs: BTreeMap<&'static str, (u64, f64)>,
    gained_s: u64,
    wasted_s: u64,
}

impl Counters {
    /// Takes note of a change.
    pub(super) fn note(&mut self, change: &Change) {
        match change {
            Change::NewJobs(jobs) => self.submitted += jobs.len() as u64,
            Change::Job { old, new, events } => {
                let mut queued_since = queued_since(old);
                for event in events {
                    self.note_event(new, event, queued_since);
                    self.note_start(old, new, event);
                    if matches!(event.what, Happened::JobRequeued { .. }) {
                        queued_since = Some(event.at);
                    }
                }
                if new.is_final() && !old.is_final() {
                    self.gained_s += new.instants.gained_processor_ms / 1_000;
                    self.wasted_s += new.instants.wasted_processor_ms / 1_000;
                    self.note_cost(new);
                }
            }
            _ => {}
        }
    }

    fn note_event(&mut self, job: &Job, event: &JobEvent, queued_since: Option<Timestamp>) {
        let mut end = |how| *self.ended.entry(how).or_default() += 1;
        match &event.what {
            Happened::JobPlaced { .. } => {
                self.waited_for_place.add(queued_since.unwrap_or(event.at), event.at);
            }
            Happened::JobStarted => self.started.add(job.submitted_at, event.at),
            Happened::RoundAborted { why, .. } => {
                *self.aborted.entry(cause(why)).or_default() += 1;
            }
            Happened::JobFinished => {
                end("finished");
                self.responded.add(job.submitted_at, event.at);
            }
            Happened::JobFailed { .. } => end("failed"),
            Happened::JobCancelled { .. } => end("cancelled"),
            _ => {}
        }
    }

    fn note_start(&mut self, old: &Job, new: &Job, event: &JobEvent) {
        let instants = &new.instants;
        match &event.what {
            Happened::GoDecided { .. } => {
                self.claimed.add(instants.placed.unwrap_or(event.at), event.at);
            }
            Happened::JobStarted => {
                let decided = match old.phase {
                    Phase::Starting { since } => since,
                    _ => event.at,
                };
                self.begun.add(decided, event.at);
            }
            Happened::JobFinished => {
                let over = instants.succeeded.unwrap_or(event.at);
                self.ran.add(instants.started.unwrap_or(over), over);
            }
            Happened::ComponentFailed { component, why, .. } => {
                let at = |job: &Job| {
                    let component = job.components.get(component.0 as usize)?;
                    Some(component.placement.as_ref()?.site.to_string())
                };
                let site = at(old).or_else(|| at(new)).unwrap_or_default();
                *self.failed_alone.entry((cause(why), site)).or_default() += 1;
            }
            _ => {}
        }
    }

    /// What a job that was ever placed has cost when it ends.
    fn note_cost(&mut self, job: &Job) {
        let instants = &job.instants;
        let Some(placed) = instants.placed else { return };
        let mut add = |what, cost: f64| {
            let (count, sum) = self.costs.entry(what).or_default();
            (*count, *sum) = (*count + 1, *sum + cost);
        };
        let seconds = |ms: u64| ms as f64 / 1_000.0;
        add("placement", seconds(instants.total_placement_time.0));
        if let Some((last, first)) = instants.start_estimate.zip(instants.first_start_estimate) {
            add("delay", seconds(last.0) - seconds(first.0));
        }
        if let Some(claimed) = instants.claimed {
            add("gain", seconds(claimed.since(placed).0));
        }
        add("waste", seconds(instants.wasted_processor_ms));
        let sites = job.components.iter().filter_map(|c| Some(&c.placement.as_ref()?.site));
        add("sites", sites.collect::<BTreeSet<_>>().len() as f64);
        add("transfers", instants.transfer_volume.0 as f64);
    }

    /// What the metrics show otherwise. `jobs`: all that are kept.
    pub(super) fn misstated<'a>(
        &self,
        metrics: &Metrics,
        jobs: impl Iterator<Item = &'a Job>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let mut check = |what: &str, shown: u64, is: u64| {
            if shown != is {
                found.push(format!("{what} is shown as {shown} and is {is}"));
            }
        };
        check("jobs submitted", metrics.jobs_submitted.get(), self.submitted);
        for how in ["finished", "failed", "cancelled"] {
            let is = self.ended.get(how).copied().unwrap_or(0);
            check(how, metrics.jobs_ended.with_label_values(&[how]).get(), is);
        }
        for cause in CAUSES {
            let is = self.aborted.get(cause).copied().unwrap_or(0);
            check(cause, metrics.rounds_aborted.with_label_values(&[cause]).get(), is);
        }
        check("time gained", metrics.gained_processor_seconds.get(), self.gained_s);
        check("time wasted", metrics.wasted_processor_seconds.get(), self.wasted_s);
        let mut phases: BTreeMap<PhaseKind, u64> = BTreeMap::new();
        jobs.for_each(|job| *phases.entry(job.phase.kind()).or_default() += 1);
        for kind in PhaseKind::ALL {
            let shown = metrics.jobs.with_label_values(&[kind.as_str()]).get();
            let is = phases.get(&kind).copied().unwrap_or(0);
            check(kind.as_str(), u64::try_from(shown).unwrap_or(u64::MAX), is);
        }
        check("jobs held", u64::try_from(metrics.held.get()).unwrap_or(u64::MAX), 0);
        let lengths = [
            ("placement", self.waited_for_place, &metrics.placement_seconds),
            ("wait", self.started, &metrics.wait_seconds),
            ("response", self.responded, &metrics.response_seconds),
            ("claim", self.claimed, &metrics.claim_seconds),
            ("begin", self.begun, &metrics.start_seconds),
            ("run", self.ran, &metrics.run_seconds),
        ];
        let wrong = lengths.iter().filter(|(_, is, histogram)| !is.is_shown(histogram));
        found.extend(wrong.map(|(name, is, _)| format!("times of {name} are not {is:?}")));
        found.extend(self.costs_misstated(metrics));
        found
    }

    fn costs_misstated(&self, metrics: &Metrics) -> Vec<String> {
        let costs = &metrics.costs;
        let shown = [
            ("placement", &costs.total_placement_seconds),
            ("delay", &costs.start_delay_seconds),
            ("gain", &costs.gained_seconds),
            ("waste", &costs.wasted_processor_seconds),
            ("sites", &costs.sites),
            ("transfers", &costs.transfer_bytes),
        ];
        let wrong = shown.iter().filter_map(|(name, histogram)| {
            let (count, sum) = self.costs.get(name).copied().unwrap_or_default();
            let (shown, told) = (histogram.get_sample_count(), histogram.get_sample_sum());
            let near = (told - sum).abs() < ROUNDING_S * (1.0 + sum.abs());
            (shown != count || !near)
                .then(|| format!("cost of {name}: {told} of {shown}, not {sum} of {count}"))
        });
        let mut found: Vec<String> = wrong.collect();
        for ((cause, site), count) in &self.failed_alone {
            let shown = metrics.components_failed.with_label_values(&[cause, site.as_str()]).get();
            if shown != *count {
                found.push(format!("{shown} failed alone for {cause} at {site}, not {count}"));
            }
        }
        found
    }
}

/// What the metrics of sites at rest show otherwise than it is.
pub(super) fn sites_misstated(reign: &Reign) -> Vec<String> {
    let metrics = &reign.plane.shared().metrics;
    let mut found = Vec::new();
    for site in reign.plane.sites() {
        let name = site.name.as_str();
        let shown = |usage| metrics.site_processors.with_label_values(&[name, usage]).get();
        let total = reign.world.read(|world| {
            let cluster = world.sites().iter().find(|cluster| *cluster.name() == site.name);
            cluster.map(|cluster| i64::from(cluster.processors()))
        });
        let idle = site.report.idle.as_ref().map(|(_, idle)| i64::from(idle.processors));
        let shown = [Some(shown("total")), Some(shown("idle")), Some(shown("held"))];
        if shown != [total, idle, Some(0)] {
            found.push(format!("processors of {name}: {shown:?}, not {total:?}, {idle:?}, 0"));
        }
        let of = |state: &&str| metrics.site_state.with_label_values(&[name, state]).get() != 0;
        let states: Vec<&str> = STATES.into_iter().filter(of).collect();
        if states != [site.state.as_str()] {
            found.push(format!("{name} is shown as {states:?} and is {:?}", site.state));
        }
    }
    let labelled = metrics.site_calls.collect();
    let calls = labelled.iter().flat_map(|family| family.get_metric());
    let labels = calls.flat_map(|metric| metric.get_label());
    let unknown = labels.filter(|label| match label.name() {
        "call" => !CALLS.contains(&label.value()),
        _ => !OUTCOMES.contains(&label.value()),
    });
    found.extend(unknown.map(|label| format!("{} is {:?}", label.name(), label.value())));
    let called = |call: &str| {
        let outcomes = OUTCOMES.iter();
        outcomes.map(|how| metrics.site_calls.with_label_values(&[call, how]).get()).sum::<u64>()
    };
    let silent = ["describe", "status"].into_iter().filter(|call| called(call) == 0);
    found.extend(silent.map(|call| format!("no call is shown for {call}")));
    found
}

/// States of sites, calls to them and their outcomes, as the reference names them.
pub(super) const STATES: [&str; 10] = [
    "unknown",
    "usable",
    "unusable",
    "probing",
    "draining",
    "drained",
    "maintenance",
    "credentials-expired",
    "unreachable",
    "frozen",
];
const CALLS: [&str; 16] = [
    "describe",
    "status",
    "submit",
    "find-by-tag",
    "decide-gate",
    "cancel",
    "remove-attempt",
    "list-attempts",
    "inspect",
    "start-copy",
    "copy-status",
    "stop-copy",
    "has-content",
    "delete-content",
    "read",
    "round-trip",
];
const OUTCOMES: [&str; 5] = ["ok", "refused", "not-sent", "unknown", "full"];

fn queued_since(job: &Job) -> Option<Timestamp> {
    if let Phase::Queued { since, .. } = job.phase { Some(since) } else { None }
}

/// The causes as the reference names them.
const CAUSES: [&str; 9] = [
    "claim-lost",
    "input-lost",
    "site-error",
    "start-missed",
    "unreachable",
    "application",
    "cancelled",
    "drained",
    "preempted",
];

fn cause(why: &AbortCause) -> &'static str {
    CAUSES[match why {
        AbortCause::ClaimLost { .. } => 0,
        AbortCause::InputLost { .. } => 1,
        AbortCause::SiteError { .. } => 2,
        AbortCause::StartMissed { .. } => 3,
        AbortCause::Unreachable { .. } => 4,
        AbortCause::Application { .. } => 5,
        AbortCause::Cancelled => 6,
        AbortCause::Drained { .. } => 7,
        AbortCause::Preempted { .. } => 8,
    }]
}
