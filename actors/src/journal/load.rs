//! Makes the view from the content of a store.

use std::sync::Arc;

use cospan_storage::record::LoadedRecords;

use crate::committed::{CommittedView, JournalChange};
use crate::spec_cache::SpecCache;

/// Makes the view of the loaded records.
pub fn view_of_records(loaded: LoadedRecords) -> CommittedView {
    let mut view = CommittedView {
        next_id: loaded.next_job.unwrap_or_default(),
        ..CommittedView::default()
    };
    let recent = SpecCache::default();
    let jobs = loaded.jobs.into_iter().map(|mut job| {
        job.spec = recent.share_equal_spec(&job.spec);
        Arc::new(job)
    });
    view.apply_change(&JournalChange::NewJobs(jobs.collect()));
    for site in loaded.sites {
        view.apply_change(&JournalChange::Site {
            old: None,
            new: Arc::new(site),
        });
    }
    for copy in loaded.copies {
        let key = (copy.content.digest, copy.site.clone());
        view.apply_change(&JournalChange::Copy {
            key,
            old: None,
            new: Some(Arc::new(copy)),
        });
    }
    for file in loaded.files {
        let name = file.name.clone();
        view.apply_change(&JournalChange::File {
            name,
            old: None,
            new: Some(Arc::new(file)),
        });
    }
    view
}
