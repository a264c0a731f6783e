//! Calls that ask why a job waits or was placed where it is.

use super::query::QueryBuilder;
use super::{Client, ClientError};
use cospan_api::v1::explain::ExplainReport;

/// Number of times that an explanation of several pages is read, until the job does not change
/// meanwhile.
const READINGS: usize = 3;

/// An explanation of all components.
#[derive(Debug, Clone)]
pub struct WholeExplanation {
    /// All pages.
    pub report: ExplainReport,
    /// True if the job was the same on all pages.
    pub held_still: bool,
}

impl Client {
    /// Explains why a job is where it is.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn explain(&self, id: u64) -> Result<ExplainReport, ClientError> {
        self.explain_page(id, None, None)
    }

    /// Explains why a job is where it is, for at most `limit` components after the first `after`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn explain_page(
        &self,
        id: u64,
        after: Option<u64>,
        limit: Option<u64>,
    ) -> Result<ExplainReport, ClientError> {
        let path = QueryBuilder::from_path(&format!("/v1/jobs/{id}/explain"));
        self.get(
            &path
                .with_optional_parameter("after", after)
                .with_optional_parameter("limit", limit)
                .0,
        )
    }

    /// Explains all components, page by page. If the job changes between two pages all are read
    /// again, but not for ever.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn explain_all(&self, id: u64) -> Result<WholeExplanation, ClientError> {
        for _ in 1..READINGS {
            let whole = self.explain_pages(id, false)?;
            if whole.held_still {
                return Ok(whole);
            }
        }
        self.explain_pages(id, true)
    }

    /// Reads page after page, to the end, or until the job is seen to have changed.
    fn explain_pages(&self, id: u64, to_the_end: bool) -> Result<WholeExplanation, ClientError> {
        let mut report = self.explain(id)?;
        let mut held_still = true;
        while let Some(after) = report.next.filter(|_| held_still || to_the_end) {
            let page = self.explain_page(id, Some(after), None)?;
            held_still &= page.revision == report.revision;
            // The explanation may have become shorter meanwhile, but no page is asked for twice.
            let next = page.next.filter(|next| *next > after);
            report.append_page(ExplainReport { next, ..page });
        }
        Ok(WholeExplanation { report, held_still })
    }
}
