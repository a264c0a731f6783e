//! Changes as the actors know them; the store knows only bytes.

use std::sync::Arc;

use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::{Digest, JobId, LogicalName, SiteName};
use cospan_domain::job::job_event::JobEvent;
use cospan_domain::job::job_state::Job;
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::transfer::copy_state::CopyRecord;
use cospan_storage::port::StoreKey;
use cospan_storage::record::events::EventTexts;

/// A change that becomes durable as a whole or not at all.
#[derive(Debug, Clone)]
pub enum JournalChange {
    /// Jobs that were just accepted.
    NewJobs(Vec<Arc<Job>>),
    /// A job changed.
    Job {
        /// The job before the change.
        old: Arc<Job>,
        /// The job after it.
        new: Arc<Job>,
        /// The events that make the change.
        events: Vec<JobEvent>,
    },
    /// A job that ended long ago leaves the live state.
    JobArchived {
        /// The job as it ended.
        job: Arc<Job>,
        /// The job's last events.
        events: EventTexts,
    },
    /// A site's record changed.
    Site {
        /// The record before; `None` for an unknown site.
        old: Option<Arc<SiteRecord>>,
        /// The record after.
        new: Arc<SiteRecord>,
    },
    /// A copy changed.
    Copy {
        /// The content, and the site of the copy.
        key: (Digest, SiteName),
        /// The record before.
        old: Option<Arc<CopyRecord>>,
        /// The record after; `None` once the copy is deleted.
        new: Option<Arc<CopyRecord>>,
    },
    /// An entry of the catalogue changed.
    File {
        /// The logical name.
        name: LogicalName,
        /// The entry before.
        old: Option<Arc<FileRecord>>,
        /// The entry after; `None` once it is forgotten.
        new: Option<Arc<FileRecord>>,
    },
    /// Job ids below this one are given out, or never will be.
    IdsReserved {
        /// The first free id.
        next: JobId,
    },
    /// Keys that belong to no record any more are deleted.
    Swept(Vec<StoreKey>),
    /// Nothing changes; answered behind everything appended before.
    Barrier,
}
