//! Calls that ask why a job is where it is.

use super::query::Query;
use super::{Client, ClientError};
use crate::api::v1::explain::ExplainReport;

/// How often an explanation of several pages is read, until the job holds still meanwhile.
const READINGS: usize = 3;

/// An explanation with what is told of all components.
#[derive(Debug, Clone)]
pub struct WholeExplanation {
    /// All pages.
    pub report: ExplainReport,
    /// The job was the same in all of them.
    pub held_still: bool,
}

impl Client {
    /// Why a job is where it is.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn explain(&self, id: u64) -> Result<ExplainReport, ClientError> {
        self.explain_page(id, None, None)
    }

    /// Why a job is where it is, with what is told of at most so many components after so many.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn explain_page(
        &self,
        id: u64,
        after: Option<u64>,
        limit: Option<u64>,
    ) -> Result<ExplainReport, ClientError> {
        let path = Query::of(&format!("/v1/jobs/{id}/explain"));
        self.get(&path.with_some("after", after).with_some("limit", limit).0)
    }

    /// The same with what is told of all components, page by page. If the job changes between two
    /// pages all are read again, but not for ever.
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

    /// Page after page, to the end, or until the job is seen to have changed.
    fn explain_pages(&self, id: u64, to_the_end: bool) -> Result<WholeExplanation, ClientError> {
        let mut report = self.explain(id)?;
        let mut held_still = true;
        while let Some(after) = report.next.filter(|_| held_still || to_the_end) {
            let page = self.explain_page(id, Some(after), None)?;
            held_still &= page.revision == report.revision;
            // It may have become shorter meanwhile, but nothing is asked for twice.
            let next = page.next.filter(|next| *next > after);
            report.append(ExplainReport { next, ..page });
        }
        Ok(WholeExplanation { report, held_still })
    }
}
