//! The needs for a copy, and its content: read from the view.

use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::content::{Content, FileChunk};
use cospan_domain::ids::Digest;
use cospan_domain::job::job_state::{Job, OutputCollection};
use cospan_domain::transfer::copy_state::CopyRecord;
use cospan_domain::transfer::file_place::FilePlace;

use super::CopyKey;
use crate::committed::CommittedView;

/// Returns true if a job, the catalogue or another copy needs this one.
pub fn is_copy_needed(view: &CommittedView, key: &CopyKey) -> bool {
    view.needs.contains_key(key) || is_pinned_by_file(view, key) || is_read_by_copy(view, key)
}

/// Makes the record of a copy that does not exist yet; `None` if nothing tells its content.
pub fn blank_copy_record(view: &CommittedView, key: &CopyKey) -> Option<CopyRecord> {
    let recorded = view.copies.get(key).map(|copy| (copy.content, copy.chunk));
    let (content, chunk) = recorded
        .or_else(|| {
            let jobs = view
                .needs
                .get(key)
                .into_iter()
                .flatten()
                .filter_map(|id| view.jobs.get(id));
            jobs.flat_map(|job| contents_of_job(job))
                .find(|(content, _)| content.digest == key.0)
        })
        .or_else(|| {
            let mut files = files_with_content(view, key.0);
            let content = files.find_map(|file| Some(file.entry.as_ref()?.content))?;
            Some((content, None))
        })?;
    Some(CopyRecord {
        chunk,
        ..CopyRecord::new(content, key.1.clone())
    })
}

/// Lists the files of the catalogue that stand for some content.
pub(super) fn files_with_content(
    view: &CommittedView,
    digest: Digest,
) -> impl Iterator<Item = &FileRecord> {
    let names = view.names.get(&digest).into_iter().flatten();
    names
        .filter_map(|name| view.files.get(name))
        .map(AsRef::as_ref)
}

/// Lists the copies of some content at any site.
pub(super) fn copies_of_content(
    view: &CommittedView,
    digest: Digest,
) -> impl Iterator<Item = &CopyRecord> {
    // No name of a site comes before this one.
    let first = cospan_domain::ids::SiteName::new("A").ok();
    first
        .into_iter()
        .flat_map(move |first| view.copies.range((digest, first)..))
        .take_while(move |((other, _), _)| *other == digest)
        .map(|(_, copy)| copy.as_ref())
}

/// Lists the copies that a file of the catalogue keeps where they are.
pub(crate) fn pinned_copies(file: &FileRecord) -> impl Iterator<Item = CopyKey> {
    let replicas = file.entry.iter().flat_map(|entry| &entry.replicas);
    replicas.filter_map(|(site, place)| match place {
        FilePlace::Store(digest) => Some((*digest, site.clone())),
        FilePlace::User(_) | FilePlace::Output(..) => None,
    })
}

/// Returns the other copy that this one reads from, or may yet resume from.
pub(crate) fn source_key(copy: &CopyRecord) -> Option<CopyKey> {
    let source = &copy.current_try()?.source;
    match source.place {
        FilePlace::Store(digest) => Some((digest, source.site.clone())),
        FilePlace::User(_) | FilePlace::Output(..) => None,
    }
}

fn is_pinned_by_file(view: &CommittedView, key: &CopyKey) -> bool {
    files_with_content(view, key.0)
        .flat_map(pinned_copies)
        .any(|pin| pin == *key)
}

/// Returns true if another copy of the same reads this one, or a chunk that is cut from it.
fn is_read_by_copy(view: &CommittedView, key: &CopyKey) -> bool {
    let cuts = view.cuts.get(&key.0).into_iter().flatten();
    let cuts = cuts
        .filter_map(|cut| view.copies.get(cut))
        .map(AsRef::as_ref);
    let mut readers = copies_of_content(view, key.0).chain(cuts);
    readers.any(|copy| copy.is_needed() && source_key(copy).as_ref() == Some(key))
}

fn contents_of_job(job: &Job) -> impl Iterator<Item = (Content, Option<FileChunk>)> {
    job.components.iter().flat_map(|component| {
        let placed = component
            .placement
            .iter()
            .flat_map(|placement| &placement.sources);
        let collected = component
            .collected
            .iter()
            .filter_map(|OutputCollection { content, .. }| *content);
        let placed = placed.map(|source| (source.content, source.chunk));
        placed.chain(collected.map(|content| (content, None)))
    })
}
