//! Bounds the number of outputs of a job.

use thiserror::Error;

use super::spec::{JobSpec, OutputDestination};

/// Most outputs of a job that are brought to sites: each changes the record of the job, which holds
/// them all.
const BROUGHT_MAX: usize = 1_000;

/// The job brings more outputs to sites than are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the job brings {0} outputs to sites, and may bring {BROUGHT_MAX}; an output may be a \
     directory: have what is much left in one, and name that"
)]
pub struct OutputCountError(pub usize);

impl JobSpec {
    /// Checks that the job's record can keep all of its outputs.
    pub(super) fn validate_outputs(&self) -> Result<(), OutputCountError> {
        let outputs = self
            .components
            .iter()
            .flat_map(|component| &component.outputs);
        let brought =
            outputs.filter(|output| matches!(output.collect, OutputDestination::ToSite { .. }));
        match brought.count() {
            ..=BROUGHT_MAX => Ok(()),
            count => Err(OutputCountError(count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LogicalName, RelPath, SiteName};
    use crate::job::spec::{JobSpecError, JobSpecLimits, OutputSpec};
    use crate::job::tests::job_world::spec;

    #[test]
    fn more_outputs_than_a_record_can_follow_are_refused_at_submission() {
        let with = |count: usize| {
            let mut spec = spec(1);
            spec.components[0].outputs = (0..count)
                .map(|n| OutputSpec {
                    path: RelPath::new(&format!("out-{n}")).unwrap(),
                    collect: OutputDestination::ToSite {
                        site: SiteName::new("there").unwrap(),
                        register: LogicalName::new(&format!("result-{n}")).unwrap(),
                    },
                })
                .collect();
            spec.validate(&JobSpecLimits::default())
        };
        assert_eq!(with(BROUGHT_MAX), Ok(()));
        assert_eq!(
            with(60_000),
            Err(JobSpecError::Outputs(OutputCountError(60_000)))
        );
    }
}
