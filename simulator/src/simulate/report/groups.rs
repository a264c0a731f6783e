//! Results of jobs by their size and by their number of components.

use serde::Serialize;

use super::record::{JobEnding, RunJob};
use super::stats::ValueDistribution;

/// Upper ends of the classes of sizes, in processors; the last class has none.
const SIZES: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// Upper ends of the classes of components.
const COMPONENTS: [u32; 6] = [1, 2, 3, 4, 8, 16];

/// The jobs of a class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobGroupSummary {
    /// The least of the class, in processors or components.
    pub least: u32,
    /// The greatest; `None` for the last class.
    pub most: Option<u32>,
    /// Jobs of this class.
    pub jobs: u64,
    /// Jobs of this class that started.
    pub started: u64,
    /// Waits of those that started, in seconds.
    pub wait_s: ValueDistribution,
    /// Bounded slowdowns of those that were done.
    pub bounded_slowdown: ValueDistribution,
}

impl JobGroupSummary {
    /// Describes the class in words.
    pub fn describe(&self) -> String {
        match self.most {
            Some(most) if most == self.least => most.to_string(),
            Some(most) => format!("{} to {most}", self.least),
            None => format!("{} and more", self.least),
        }
    }

    fn of_class(least: u32, most: Option<u32>, jobs: &[&RunJob]) -> Self {
        let done = jobs.iter().filter(|job| job.ending == JobEnding::Done);
        let waits = jobs.iter().filter_map(|job| job.wait());
        Self {
            least,
            most,
            jobs: jobs.len() as u64,
            started: jobs.iter().filter(|job| job.started.is_some()).count() as u64,
            wait_s: ValueDistribution::of_unsorted(waits.map(|wait| wait.as_secs_f64()).collect()),
            bounded_slowdown: ValueDistribution::of_unsorted(
                done.filter_map(|job| job.bounded_slowdown()).collect(),
            ),
        }
    }
}

/// Jobs by the processors of all their components; classes without jobs are left out.
pub(super) fn by_processors(jobs: &[RunJob]) -> Vec<JobGroupSummary> {
    group_by_class(jobs, &SIZES, |job| job.processors)
}

/// Jobs by their number of components, likewise.
pub(super) fn by_components(jobs: &[RunJob]) -> Vec<JobGroupSummary> {
    group_by_class(jobs, &COMPONENTS, |job| job.components)
}

fn group_by_class(
    jobs: &[RunJob],
    ends: &[u32],
    value: fn(&RunJob) -> u32,
) -> Vec<JobGroupSummary> {
    let beginnings = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
    let ends = ends.iter().copied().map(Some).chain([None]);
    beginnings
        .zip(ends)
        .filter_map(|(least, most): (u32, Option<u32>)| {
            let jobs: Vec<&RunJob> = jobs
                .iter()
                .filter(|job: &&RunJob| (least..=most.unwrap_or(u32::MAX)).contains(&value(job)))
                .collect();
            (!jobs.is_empty()).then(|| JobGroupSummary::of_class(least.max(1), most, &jobs))
        })
        .collect()
}
