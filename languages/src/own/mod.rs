//! Our own job files: all their mistakes at once, each with its place.

mod located_values;
pub mod mistakes;

use cospan_api::v1::JobFormat;

use crate::job_language::{JobFile, JobFileContent, JobFileContext, JobFileMistakes, JobLanguage};

/// Our own job files, in each of their notations.
pub struct OwnJobFiles;

impl JobLanguage for OwnJobFiles {
    fn recognises(&self, _file: &JobFile<'_>) -> bool {
        true
    }

    fn read_jobs(
        &self,
        file: &JobFile<'_>,
        _around: JobFileContext<'_>,
    ) -> Result<JobFileContent, JobFileMistakes> {
        let format = JobFormat::of_file_name(file.shown)
            .unwrap_or_else(|| JobFormat::guess_format(file.text));
        match mistakes::read_collecting_mistakes(file.text, format) {
            Ok(jobs) => Ok(JobFileContent {
                jobs,
                ..JobFileContent::default()
            }),
            Err(mistakes) => Err(JobFileMistakes {
                mistakes,
                remedy: file
                    .shown
                    .ends_with(".sh")
                    .then(|| "a batch script begins with `#!`, such as #!/bin/sh".into()),
            }),
        }
    }
}
