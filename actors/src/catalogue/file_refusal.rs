//! Refusals of requests to the catalogue, in words.

use cospan_domain::catalogue::file_command::FileRejection;
use cospan_domain::ids::{LogicalName, SiteName};
use cospan_sites::port::SiteError;

use crate::commands::ApiRefusal;

/// Puts a rejected command in words, with the name that it was about.
pub(super) fn refusal_from_rejection(name: &LogicalName, rejection: &FileRejection) -> ApiRefusal {
    let text = format!("file {:?}: {rejection}", name.as_str());
    match rejection {
        FileRejection::NotRegistered | FileRejection::NoSuchReplica => ApiRefusal::NotFound(text),
        FileRejection::Anothers
        | FileRejection::OtherContent { .. }
        | FileRejection::OtherKind { .. }
        | FileRejection::DigestDiffers { .. }
        | FileRejection::NoReplica
        | FileRejection::TooManyReplicas
        | FileRejection::NeededByJobs { .. } => ApiRefusal::Conflict(text),
    }
}

/// Refuses a site that is not configured.
pub(super) fn unknown_site_refusal<'a>(
    name: &SiteName,
    known: impl Iterator<Item = &'a SiteName>,
) -> ApiRefusal {
    let known: Vec<&str> = known.map(SiteName::as_str).collect();
    ApiRefusal::NotFound(format!(
        "no site is called {name}; the sites are {}",
        known.join(", ")
    ))
}

/// Reports that a site could not read a file.
pub(super) fn unreadable_file_refusal(
    site: &SiteName,
    what: &str,
    error: &SiteError,
) -> ApiRefusal {
    let problem = format!("reading {what} at {site}: {error}");
    match error {
        SiteError::Refused(_) | SiteError::Unfit(_) => {
            let remedy = "check the path, which is taken below the site's file root";
            ApiRefusal::SiteRefused { problem, remedy }
        }
        SiteError::NotSent(_)
        | SiteError::LockedOut(_)
        | SiteError::OutOfOrder(_)
        | SiteError::OutcomeUnknown(_)
        | SiteError::SiteFull(_) => {
            ApiRefusal::Site(format!("{problem}; try again once the site answers"))
        }
    }
}
