//! From what a store holds to the view.

use std::sync::Arc;

use cospan_storage::record::Loaded;

use crate::api::View;
use crate::journal::Change;
use crate::sharing::Recent;

/// The view of what was loaded.
pub fn view_of(loaded: Loaded) -> View {
    let mut view = View {
        next_id: loaded.next_job.unwrap_or_default(),
        ..View::default()
    };
    let recent = Recent::default();
    let jobs = loaded.jobs.into_iter().map(|mut job| {
        job.spec = recent.share(&job.spec);
        Arc::new(job)
    });
    view.apply(&Change::NewJobs(jobs.collect()));
    for site in loaded.sites {
        view.apply(&Change::Site {
            old: None,
            new: Arc::new(site),
        });
    }
    for copy in loaded.copies {
        let key = (copy.content.digest, copy.site.clone());
        view.apply(&Change::Copy {
            key,
            old: None,
            new: Some(Arc::new(copy)),
        });
    }
    for file in loaded.files {
        let name = file.name.clone();
        view.apply(&Change::File {
            name,
            old: None,
            new: Some(Arc::new(file)),
        });
    }
    view
}
