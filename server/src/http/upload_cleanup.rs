//! Removes uploads that nobody needs any more: those that were given up, files at a site whose name
//! is forgotten, and what a site kept of a try that another one ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Data;
use cospan_actors::api::CommittedView;
use cospan_domain::ids::{Digest, RelPath, SiteName};
use cospan_domain::transfer::file_place::FilePlace;

use super::failure::HttpFailure;
use super::state::HttpState;
use super::upload_delivery::{self, remove_at_site, run_blocking};
use crate::uploads::{Upload, UploadRecord};

/// Time between two rounds.
const PAUSE: Duration = Duration::from_secs(60);
/// Least time, if uploads are kept for a shorter one.
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// Tidies up again and again, as long as the server runs. A server that only reads its store knows
/// neither names nor jobs, and so cannot tell what is needed.
pub(super) async fn clean_up_uploads(edge: Data<HttpState>) {
    if edge.backend.read_only_reason().is_some() {
        return;
    }
    let pause = PAUSE.min(edge.uploads.settings().keep).max(PAUSE_MIN);
    loop {
        let uploads = edge.uploads.all_by_id();
        if !uploads.is_empty() {
            let needed = NeededUploads::from_view(&edge.backend.view());
            for upload in uploads
                .iter()
                .filter(|upload| is_upload_over(&edge, &upload.record()))
            {
                // Another task works on it.
                let Ok(_turn) = upload.turn.try_lock() else {
                    continue;
                };
                if let Err(error) = clean_up_upload(&edge, upload, &needed).await {
                    tracing::debug!(%error, "cannot tidy up an upload yet");
                }
            }
        }
        actix_web::rt::time::sleep(pause).await;
    }
}

fn is_upload_over(edge: &HttpState, record: &UploadRecord) -> bool {
    !record.is_open() || edge.uploads.is_stale(record)
}

/// The files and contents that are needed at sites.
struct NeededUploads {
    /// Files for which a name stands.
    files: BTreeSet<(SiteName, RelPath)>,
    /// Contents that unfinished jobs read.
    contents: BTreeSet<Digest>,
}

impl NeededUploads {
    fn from_view(view: &CommittedView) -> Self {
        let entries = view.files.values().filter_map(|file| file.entry.as_ref());
        let replicas = entries.flat_map(|entry| entry.replicas.iter());
        let files = replicas.filter_map(|(site, place)| match place {
            FilePlace::User(path) => Some((site.clone(), path.clone())),
            FilePlace::Store(_) | FilePlace::Output(..) => None,
        });
        let unfinished = view.jobs.values().filter(|job| !job.is_final());
        let components = unfinished.flat_map(|job| job.spec.components.iter());
        let read = components.flat_map(|c| c.file_refs().filter_map(|file| file.bound));
        let contents = read.map(|content| content.digest).collect();
        Self {
            files: files.collect(),
            contents,
        }
    }

    fn is_needed(&self, record: &UploadRecord, site: &SiteName) -> bool {
        let Ok(path) = upload_delivery::site_path(record) else {
            return true;
        };
        self.files.contains(&(site.clone(), path))
            || (record.placed.as_ref() == Some(site) && self.contents.contains(&record.digest))
    }
}

async fn clean_up_upload(
    edge: &Data<HttpState>,
    upload: &Arc<Upload>,
    needed: &NeededUploads,
) -> Result<(), HttpFailure> {
    let record = upload.record();
    if !is_upload_over(edge, &record) {
        return Ok(());
    }
    if record.is_open() {
        if let Some(site) = upload_delivery::site_with_file(edge, &record) {
            return upload_delivery::record_placed(edge, upload, site).await;
        }
        tracing::info!(name = %record.name, key = %record.owner, "an upload is dropped: nothing came");
        let given_up = upload.clone();
        run_blocking(edge, move |all| {
            all.record_change(&given_up, |record| record.given_up = true)
        })
        .await?;
    }
    let mut left = BTreeSet::new();
    for site in &record.touched {
        if needed.is_needed(&record, site) || !ensure_removed(edge, &record, site).await {
            left.insert(site.clone());
        }
    }
    let upload = upload.clone();
    if left.is_empty() {
        run_blocking(edge, move |all| all.forget_upload(&upload)).await
    } else if left == record.touched {
        Ok(())
    } else {
        run_blocking(edge, move |all| {
            all.record_change(&upload, |record| record.touched = left)
        })
        .await
    }
}

/// Returns true if the upload is gone from the site; a site that is no longer configured has
/// nothing to remove.
async fn ensure_removed(edge: &HttpState, record: &UploadRecord, site: &SiteName) -> bool {
    let is_known = edge
        .backend
        .list_sites()
        .sites
        .iter()
        .any(|known| known.name == site.as_str());
    !is_known || remove_at_site(edge, record, site).await.is_ok()
}
