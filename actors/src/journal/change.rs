//! Changes as the actors know them; the store knows only bytes.

use std::sync::Arc;

use cospan_domain::catalogue::state::FileRecord;
use cospan_domain::ids::{Digest, JobId, LogicalName, SiteName};
use cospan_domain::job::event::JobEvent;
use cospan_domain::job::state::Job;
use cospan_domain::site::state::SiteRecord;
use cospan_domain::transfer::state::CopyRecord;
use cospan_storage::port::Key;
use cospan_storage::record::events::EventTexts;

/// One change that becomes durable as a whole or not at all.
#[derive(Debug, Clone)]
pub enum JournalChange {
    /// Jobs that were just accepted.
    NewJobs(Vec<Arc<Job>>),
    /// What happened to a job.
    Job {
        /// Before.
        old: Arc<Job>,
        /// After.
        new: Arc<Job>,
        /// What happened.
        events: Vec<JobEvent>,
    },
    /// A job that ended long ago leaves the live state.
    JobArchived {
        /// The job as it ended.
        job: Arc<Job>,
        /// Its last events.
        events: EventTexts,
    },
    /// What happened to a site's record.
    Site {
        /// Before; `None` for a site never heard of.
        old: Option<Arc<SiteRecord>>,
        /// After.
        new: Arc<SiteRecord>,
    },
    /// What happened to a copy.
    Copy {
        /// Which.
        key: (Digest, SiteName),
        /// Before.
        old: Option<Arc<CopyRecord>>,
        /// After; `None` once it is deleted.
        new: Option<Arc<CopyRecord>>,
    },
    /// What happened to an entry of the catalogue.
    File {
        /// Which.
        name: LogicalName,
        /// Before.
        old: Option<Arc<FileRecord>>,
        /// After; `None` once it is forgotten.
        new: Option<Arc<FileRecord>>,
    },
    /// Job ids below this one are given out, or never will be.
    IdsReserved {
        /// The first free one.
        next: JobId,
    },
    /// Keys of what is no record any more are deleted.
    Swept(Vec<Key>),
    /// Nothing; answered behind everything appended before.
    Barrier,
}
