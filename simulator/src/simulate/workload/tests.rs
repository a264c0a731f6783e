mod log;
mod model;
mod shape;

use cospan_domain::units::{DurationMs, Timestamp};

use super::{
    JobSize, Workload, WorkloadJob, WorkloadOptions, WorkloadSource, WorkloadSplit, offered_load,
};

const BEGIN: Timestamp = Timestamp(1_000_000_000);
/// A grid like the DAS-2.
const SITES: [u32; 5] = [144, 64, 64, 64, 64];

fn poisson(jobs: usize, sizes: &[u32]) -> WorkloadOptions {
    let source = WorkloadSource::Poisson {
        jobs,
        mean_interarrival: DurationMs::from_secs(30),
        sizes: sizes.iter().map(|size| JobSize::from(*size)).collect(),
        shortest: DurationMs::from_secs(60),
        longest: DurationMs::from_secs(180),
    };
    WorkloadOptions::new(source, 1)
}

fn planned(options: &WorkloadOptions) -> Workload {
    options.plan_workload(&SITES, BEGIN).unwrap()
}

fn refused(options: &WorkloadOptions) -> String {
    options
        .plan_workload(&SITES, BEGIN)
        .unwrap_err()
        .to_string()
}

/// With its load, run time and estimate in seconds.
fn job(at: u64, components: &[u32], run_time: u64, estimate: u64) -> WorkloadJob {
    WorkloadJob {
        at: BEGIN + DurationMs::from_secs(at),
        components: components.to_vec(),
        run_time: DurationMs::from_secs(run_time),
        estimate: DurationMs::from_secs(estimate),
        name: "1".into(),
        input: None,
        priority: cospan_domain::job::spec::Priority::default(),
    }
}
