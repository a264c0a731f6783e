//! How much copies take of a site, and which of them are kept for later jobs.
//!
//! Both are read from what is durable, never counted. What jobs need counts against the
//! budget of the site, which placement keeps to. Of what nobody needs, the latest used is
//! kept as far as the site keeps replicas; users' own files and what they registered are no
//! part of this.

use cospan_domain::catalogue::state::Entry;
use cospan_domain::ids::SiteName;
use cospan_domain::transfer::state::{CopyRecord, Usage};
use cospan_domain::units::{Bytes, Timestamp};

use super::need::copies_of;
use crate::api::View;

/// Whether a copy that nobody needs is kept, where `budget` bytes of such copies are: the
/// latest used ones as far as they fit.
pub(super) fn is_kept(view: &View, copy: &CopyRecord, budget: Bytes) -> bool {
    let Some(own) = unused_since(copy) else { return false };
    let of = |copy: &CopyRecord, since: Timestamp| (since, copy.content.digest);
    let later = unused_at(view, &copy.site)
        .filter(|(other, since)| of(other, *since) > of(copy, own))
        .fold(copy.content.size, |sum, (other, _)| sum + other.content.size);
    later <= budget
}

/// Whole copies at a site that nobody needs, and since when.
pub(crate) fn unused_at<'a>(
    view: &'a View,
    site: &'a SiteName,
) -> impl Iterator<Item = (&'a CopyRecord, Timestamp)> + 'a {
    let copies = view.copies.values().filter(move |copy| copy.site == *site);
    copies.filter_map(|copy| Some((copy.as_ref(), unused_since(copy)?)))
}

/// A chunk serves no job but its own.
fn unused_since(copy: &CopyRecord) -> Option<Timestamp> {
    match copy.usage {
        Usage::Unneeded { since } if copy.is_ready() && copy.chunk.is_none() => Some(since),
        Usage::Unneeded { .. } | Usage::Needed => None,
    }
}

/// Sites with a whole copy of a file that the catalogue does not list there.
pub fn kept<'a>(view: &'a View, entry: &'a Entry) -> impl Iterator<Item = &'a SiteName> + 'a {
    let copies = copies_of(view, entry.content.digest).filter(|copy| copy.is_ready());
    let listed = |site: &SiteName| entry.replicas.iter().any(|(at, _)| at == site);
    copies.map(|copy| &copy.site).filter(move |site| !listed(site))
}

#[cfg(test)]
#[path = "staging_tests.rs"]
mod tests;
