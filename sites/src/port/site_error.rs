//! Reasons why a call failed, and what is certain then.

use thiserror::Error;

/// The state of knowledge after a call to a site failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SiteError {
    /// The site answered no: certainly not done.
    #[error("refused by the site: {0}")]
    Refused(String),
    /// The site was not reached: certainly not done.
    #[error("not sent to the site: {0}")]
    NotSent(String),
    /// The site does not let us in, or is not the one it was: certainly not done. Somebody must
    /// renew credentials; the text says how.
    #[error("the site does not let us in: {0}")]
    LockedOut(String),
    /// The site was reached, and our files there are not in order: certainly not done, nobody's
    /// error. Somebody must mend it; the text says how.
    #[error("out of order: {0}")]
    OutOfOrder(String),
    /// Perhaps done, perhaps not.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// The site never takes such a request: certainly not done, nobody's error.
    #[error("unfit for the site: {0}")]
    Unfit(String),
    /// A limit of the site or account is reached: certainly not done, nobody's error.
    #[error("the site is full: {0}")]
    SiteFull(String),
}

impl SiteError {
    /// Returns true if the call may succeed once the connection is there again.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::NotSent(_) | Self::LockedOut(_) | Self::OutOfOrder(_) | Self::OutcomeUnknown(_)
        )
    }
}
