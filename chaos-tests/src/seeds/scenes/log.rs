//! The events on a stage in the form in which scenes work them out: a list of instants, each
//! counted in milliseconds from the beginning of a story.

use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::transfer::copy_state::CopyRecord;
use cospan_domain::units::Timestamp;

use super::stage::StagedScene;

/// Something, and its time after the beginning of a story.
pub(super) type TimedItem<T> = (u64, T);

/// Calls that are about copies.
pub(super) const OF_COPIES: [&str; 6] = [
    "inspect",
    "start-copy",
    "copy-status",
    "stop-copy",
    "has-content",
    "delete-content",
];

impl StagedScene {
    /// Lists the calls of these kinds that reached a site since then, in order of time and name.
    pub(super) fn calls_at(
        &self,
        site: &SiteName,
        kinds: &[&str],
        since: Timestamp,
    ) -> Vec<TimedItem<&str>> {
        let calls = self.calls().into_iter().filter(|called| {
            called.at >= since && called.site == *site && kinds.contains(&called.call)
        });
        let mut heard: Vec<_> = calls
            .map(|called| (called.at.since(since).0, called.call))
            .collect();
        heard.sort_unstable();
        heard
    }

    /// Lists the states of copies at a site since then.
    pub(super) fn copy_states(&self, site: &SiteName, since: Timestamp) -> Vec<TimedItem<String>> {
        let changes = self.changes().into_iter().filter(|(at, _)| *at >= since);
        let copied = changes.filter_map(|(at, change)| match &*change {
            JournalChange::Copy { key, new, .. } if key.1 == *site => {
                Some((at.since(since).0, standing(key.0.0[0], new.as_deref())))
            }
            _ => None,
        });
        copied.collect()
    }

    /// Lists the events of a job since then.
    pub(super) fn job_events(&self, id: JobId, since: Timestamp) -> Vec<TimedItem<&'static str>> {
        let changes = self.changes().into_iter().filter(|(at, _)| *at >= since);
        let lived = changes.flat_map(|(at, change)| match &*change {
            JournalChange::Job { new, events, .. } if new.id == id => events
                .iter()
                .map(|event| (at.since(since).0, event.what.name()))
                .collect(),
            _ => Vec::new(),
        });
        lived.collect()
    }
}

/// Describes a copy: the first byte of its digest, its state and its source, and whether nobody
/// needs it.
fn standing(digest: u8, copy: Option<&CopyRecord>) -> String {
    let Some(copy) = copy else {
        return format!("{digest} gone");
    };
    let from = copy
        .current_try()
        .map(|order| format!(" from {}", order.source.site));
    let unneeded = if copy.is_needed() { "" } else { " unneeded" };
    format!(
        "{digest} {}{}{unneeded}",
        copy.phase.as_str(),
        from.unwrap_or_default()
    )
}
