//! The rivals of MRS in its publication, for simulations alone: no server places jobs in these
//! ways.

use cospan_domain::ids::PolicyName;
use cospan_domain::placement::PlacementDefaults;

use super::workload::WorkloadJob;

/// Number of times that each job is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubmissionCopies {
    /// Once.
    #[default]
    One,
    /// Twice; both run, and the reader of the results counts the first to finish.
    Two,
    /// Twice; the other is cancelled when one has finished.
    TwoUntilFirst,
}

/// A way to place jobs that only serves for comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RivalPolicy {
    /// The name on the command line and in results.
    pub name: &'static str,
    /// Number of times that each job is submitted.
    pub copies: SubmissionCopies,
    /// A description of its behaviour.
    pub what: &'static str,
}

/// All rivals. Each fills the largest site first, and the next one with the rest, wherever the data
/// is; a job that fits passes those that do not.
pub const RIVALS: [RivalPolicy; 3] = [
    RivalPolicy {
        name: "rival-backfill",
        copies: SubmissionCopies::One,
        what: "multi-site backfilling that is blind to data",
    },
    RivalPolicy {
        name: "rival-replication",
        copies: SubmissionCopies::Two,
        what: "every job twice, and both copies run to their end",
    },
    RivalPolicy {
        name: "rival-replication-cancel",
        copies: SubmissionCopies::TwoUntilFirst,
        what: "every job twice, and the later copy is cancelled",
    },
];

impl RivalPolicy {
    /// The rival of this name.
    pub fn find_rival(name: &str) -> Option<Self> {
        RIVALS.into_iter().find(|rival| rival.name == name)
    }

    /// The policy that places its jobs: Flexible Cluster Minimization, the default for flexible
    /// jobs.
    pub fn placing_policy() -> PolicyName {
        PlacementDefaults::default().flexible
    }
}

impl SubmissionCopies {
    /// The jobs as they are submitted: copies have one name, and follow each other.
    pub(super) fn copy_jobs(self, jobs: Vec<WorkloadJob>) -> Vec<WorkloadJob> {
        match self {
            SubmissionCopies::One => jobs,
            SubmissionCopies::Two | SubmissionCopies::TwoUntilFirst => jobs
                .into_iter()
                .flat_map(|job| [job.clone(), job])
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cospan_domain::job::spec::Priority;
    use cospan_domain::units::{DurationMs, Timestamp};

    #[test]
    fn a_replicated_job_is_submitted_twice_at_once_under_one_name() {
        let job = |name: &str| WorkloadJob {
            at: Timestamp(7),
            components: vec![4],
            run_time: DurationMs(1_000),
            estimate: DurationMs(2_000),
            name: name.into(),
            input: None,
            priority: Priority::Low,
        };
        let [backfill, both, first] = RIVALS;
        let names = |rival: RivalPolicy| {
            let jobs = rival.copies.copy_jobs(vec![job("1"), job("2")]);
            assert!(jobs.iter().all(|job| job.at == Timestamp(7)));
            jobs.into_iter().map(|job| job.name).collect::<Vec<_>>()
        };
        assert_eq!(names(backfill), ["1", "2"]);
        assert_eq!(names(both), ["1", "1", "2", "2"]);
        assert_eq!(names(first), ["1", "1", "2", "2"]);
    }

    #[test]
    fn no_rival_is_a_policy_of_servers() {
        for rival in RIVALS {
            let name = PolicyName::new(rival.name).expect("a name");
            assert!(
                cospan_domain::placement::find_policy(&name).is_err(),
                "{}",
                rival.name
            );
            assert_eq!(RivalPolicy::find_rival(rival.name), Some(rival));
        }
    }
}
