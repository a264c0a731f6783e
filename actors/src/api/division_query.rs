//! The division of a flexible job over the sites that offer reservations.

use cospan_domain::ids::{JobId, KeyName};

use super::handle::ControlPlane;
use crate::commands::{ApiRefusal, JobSubmission};
use crate::grid_snapshot::GridSnapshotMaker;
use crate::intake::make_job_record;
use crate::reserver::{DivisionPreview, preview_unsubmitted_division};

impl ControlPlane {
    /// Works out how a flexible job with reservations would be divided if it were submitted now
    /// with this key, or why it could not be. `None` if the job is none of that kind. Sites are
    /// asked; nothing is reserved.
    ///
    /// # Errors
    ///
    /// The job would be refused.
    pub async fn preview_division(
        &self,
        by: &KeyName,
        mut submission: JobSubmission,
    ) -> Result<Option<Result<DivisionPreview, String>>, ApiRefusal> {
        self.prepare_submission(0, by, &mut submission)?;
        let job = make_job_record(JobId(0), submission, by.clone(), self.now());
        let grid = GridSnapshotMaker::default().snapshot(self.shared());
        Ok(preview_unsubmitted_division(self.shared(), &grid, &job).await)
    }
}
