//! Jobs and processors of each owner, counted whenever the metrics are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_actors::api::CommittedView;
use cospan_domain::ids::KeyName;
use cospan_domain::job::job_state::{Job, JobPhase};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

/// The owners that are told by name: those with the most jobs. Names are unbounded, series must not
/// be.
const MOST_OWNERS: usize = 50;
/// The label of all other owners together; no key can have this name.
const OTHERS: &str = "(others)";

/// Returns the present state of all jobs.
type ViewReader = Box<dyn Fn() -> Arc<CommittedView> + Send + Sync>;

/// Jobs of one owner that have not ended, and the processors of those that run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct OwnerTotals {
    waiting: i64,
    running: i64,
    processors: i64,
}

impl OwnerTotals {
    fn count_job(&mut self, job: &Job) {
        if !matches!(
            job.phase,
            JobPhase::Starting { .. } | JobPhase::Running { .. }
        ) {
            self.waiting += 1;
            return;
        }
        self.running += 1;
        for (index, ..) in job.components_with_specs() {
            let resources = job.resources_of(index).unwrap_or_default();
            self.processors += i64::from(resources.processors);
        }
    }

    fn jobs(&self) -> i64 {
        self.waiting + self.running
    }
}

struct OwnerMetrics {
    read_view: ViewReader,
    jobs: IntGaugeVec,
    processors: IntGaugeVec,
}

/// Exports metrics of the owners of jobs.
///
/// # Errors
/// The names are taken.
pub(super) fn register(
    registry: &Registry,
    read_view: impl Fn() -> Arc<CommittedView> + Send + Sync + 'static,
) -> prometheus::Result<()> {
    let jobs = Opts::new(
        "cospan_owner_jobs",
        "Jobs that have not ended, by owner: running, and all others.",
    );
    let processors = Opts::new(
        "cospan_owner_processors",
        "Processors of running jobs, by owner.",
    );
    registry.register(Box::new(OwnerMetrics {
        read_view: Box::new(read_view),
        jobs: IntGaugeVec::new(jobs, &["owner", "state"])?,
        processors: IntGaugeVec::new(processors, &["owner"])?,
    }))
}

fn total_by_owner<'j>(jobs: impl Iterator<Item = &'j Job>) -> Vec<(&'j str, OwnerTotals)> {
    let mut totals: BTreeMap<&KeyName, OwnerTotals> = BTreeMap::new();
    for job in jobs.filter(|job| !job.is_final()) {
        totals.entry(&job.owner).or_default().count_job(job);
    }
    let mut totals: Vec<_> = totals
        .into_iter()
        .map(|(owner, total)| (owner.as_str(), total))
        .collect();
    totals.sort_by_key(|(_, total)| std::cmp::Reverse(total.jobs()));
    let rest = totals.split_off(MOST_OWNERS.min(totals.len()));
    if !rest.is_empty() {
        let mut others = OwnerTotals::default();
        for (_, total) in rest {
            others.waiting += total.waiting;
            others.running += total.running;
            others.processors += total.processors;
        }
        totals.push((OTHERS, others));
    }
    totals
}

impl Collector for OwnerMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let mut described = self.jobs.desc();
        described.extend(self.processors.desc());
        described
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let view = (self.read_view)();
        self.jobs.reset();
        self.processors.reset();
        for (owner, total) in total_by_owner(view.jobs.values().map(|job| &**job)) {
            let jobs = |state| self.jobs.with_label_values(&[owner, state]);
            jobs("waiting").set(total.waiting);
            jobs("running").set(total.running);
            self.processors
                .with_label_values(&[owner])
                .set(total.processors);
        }
        let mut families = self.jobs.collect();
        families.extend(self.processors.collect());
        families
    }
}
