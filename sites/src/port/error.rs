//! Why a call did not do what it was to do, and what is certain then.

use thiserror::Error;

/// What is known after a call to a site went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SiteError {
    /// The site answered no: certainly not done.
    #[error("refused by the site: {0}")]
    Refused(String),
    /// The site was not reached: certainly not done.
    #[error("not sent to the site: {0}")]
    NotSent(String),
    /// The site does not let us in, or is not the one it was: certainly not done. Somebody has
    /// to renew credentials, and is told how.
    #[error("not let in by the site: {0}")]
    LockedOut(String),
    /// The site was reached, and what is ours there is not as it must be: certainly not done,
    /// nobody's error. Somebody has to mend it, and is told how.
    #[error("out of order: {0}")]
    OutOfOrder(String),
    /// Perhaps done, perhaps not.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// The site never takes what is asked for: certainly not done, nobody's error.
    #[error("unfit for the site: {0}")]
    Unfit(String),
    /// A limit of the site or account is reached: certainly not done, nobody's error.
    #[error("the site is full: {0}")]
    SiteFull(String),
}

impl SiteError {
    /// Whether it may be otherwise when the connection is there again.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::NotSent(_) | Self::LockedOut(_) | Self::OutOfOrder(_) | Self::OutcomeUnknown(_)
        )
    }
}
