//! The space that copies take at a site, and the copies that are kept for later jobs.
//!
//! Both are read from what is durable, never counted. Copies that jobs need count against the
//! budget of the site, which placement keeps to. Of those that nobody needs, the latest used are
//! kept as far as the site keeps replicas, and those that do not fit beside what jobs need go at
//! once. Users' own files and what they registered are no part of this.

use cospan_domain::catalogue::file_state::CatalogueEntry;
use cospan_domain::ids::SiteName;
use cospan_domain::transfer::copy_state::{CopyRecord, CopyUsage};
use cospan_domain::units::{Bytes, DurationMs, Timestamp};

use super::copy_users::copies_of_content;
use crate::actor_settings::StagingLimits;
use crate::committed::CommittedView;

/// The time until a kept copy is looked at again: a need for its space makes it look earlier.
const KEPT: DurationMs = DurationMs::from_secs(366 * 86_400);

/// Returns how long a copy stays once nobody needs it, where others stay for `aged`. The latest
/// used ones stay as replicas as far as there is room for those, and none that does not fit beside
/// what jobs need.
pub(super) fn copy_retention_time(
    view: &CommittedView,
    copy: &CopyRecord,
    staging: StagingLimits,
    aged: DurationMs,
) -> DurationMs {
    let Some(own) = unused_since(copy) else {
        return aged;
    };
    let later = unused_copies_at(view, &copy.site)
        .filter(|(other, since)| (*since, other.content.digest) > (own, copy.content.digest))
        .map(|(other, _)| other);
    let mut all = copy.content.size;
    let mut replicas = copy.content.size;
    for other in later {
        all = all + other.content.size;
        replicas = replicas
            + if is_whole_copy(other) {
                other.content.size
            } else {
                Bytes(0)
            };
    }
    let needed = view
        .staged
        .get(&copy.site)
        .map_or(Bytes(0), |needed| needed.bytes);
    match staging.budget {
        Some(budget) if needed + all > budget => DurationMs::ZERO,
        _ if is_whole_copy(copy) && replicas <= staging.replicas => KEPT.max(aged),
        _ => aged,
    }
}

/// Returns true for a whole copy: a chunk serves no job but its own.
fn is_whole_copy(copy: &CopyRecord) -> bool {
    copy.chunk.is_none()
}

/// Lists whole copies at a site that nobody needs, and since when.
pub(crate) fn unused_copies_at<'a>(
    view: &'a CommittedView,
    site: &'a SiteName,
) -> impl Iterator<Item = (&'a CopyRecord, Timestamp)> + 'a {
    let copies = view.copies.values().filter(move |copy| copy.site == *site);
    copies.filter_map(|copy| Some((copy.as_ref(), unused_since(copy)?)))
}

fn unused_since(copy: &CopyRecord) -> Option<Timestamp> {
    match copy.usage {
        CopyUsage::Unneeded { since } if copy.is_ready() => Some(since),
        CopyUsage::Unneeded { .. } | CopyUsage::Needed => None,
    }
}

/// Lists the sites with a whole copy of a file that the catalogue does not list there.
pub fn unlisted_copy_sites<'a>(
    view: &'a CommittedView,
    entry: &'a CatalogueEntry,
) -> impl Iterator<Item = &'a SiteName> + 'a {
    let copies = copies_of_content(view, entry.content.digest).filter(|copy| copy.is_ready());
    copies
        .map(|copy| &copy.site)
        .filter(move |site| !entry.replicas.iter().any(|(at, _)| at == *site))
}

#[cfg(test)]
#[path = "staging_tests.rs"]
mod tests;
