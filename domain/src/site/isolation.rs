//! Isolation: detects that we are cut off, rather than that the sites fail.

use std::collections::BTreeMap;

use crate::ids::SiteName;
use crate::units::{DurationMs, Timestamp};

/// Losses of contact with all sites, side by side.
///
/// If within one window half of the sites, at least two, become unreachable, the fault is taken to
/// be ours until any site answers. Meanwhile nothing is charged, opened or moved. Sites lost before
/// the window do not count as sites, else a few that have long been down would hide the loss of all
/// others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolationDetector {
    window: DurationMs,
    /// The time when each watched site became unreachable; `None` while it is not.
    lost_at: BTreeMap<SiteName, Option<Timestamp>>,
    since: Option<Timestamp>,
}

impl IsolationDetector {
    /// Starts without a watched site.
    pub fn new(window: DurationMs) -> Self {
        Self {
            window,
            lost_at: BTreeMap::new(),
            since: None,
        }
    }

    /// Watches a site from now on.
    pub fn watch_site(&mut self, site: SiteName) {
        self.lost_at.entry(site).or_default();
    }

    /// Does not watch a site any more.
    pub fn unwatch_site(&mut self, site: &SiteName) {
        self.lost_at.remove(site);
    }

    /// Notes that a site became unreachable. A repeated report changes nothing. Returns true if
    /// this loss cuts us off.
    pub fn note_loss(&mut self, site: &SiteName, now: Timestamp) -> bool {
        let Some(lost_at) = self.lost_at.get_mut(site) else {
            return false;
        };
        if lost_at.is_some() {
            return false;
        }
        *lost_at = Some(now);
        if self.since.is_some() || !self.is_isolating_loss(now) {
            return false;
        }
        self.since = Some(now);
        true
    }

    /// Notes that a site answered, whether it had been lost or not: wants every answer. Returns
    /// true if this ends our isolation.
    pub fn note_answer(&mut self, site: &SiteName) -> bool {
        let Some(lost_at) = self.lost_at.get_mut(site) else {
            return false;
        };
        *lost_at = None;
        self.since.take().is_some()
    }

    /// The time since when we are isolated, if we are.
    pub fn isolated_since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Returns true if we are isolated.
    pub fn is_isolated(&self) -> bool {
        self.since.is_some()
    }

    fn is_isolating_loss(&self, now: Timestamp) -> bool {
        let losses = self
            .lost_at
            .values()
            .flatten()
            .filter(|at| now.since(**at) <= self.window)
            .count();
        let there = self
            .lost_at
            .values()
            .filter(|at| at.is_none_or(|at| now.since(at) <= self.window))
            .count();
        losses >= 2 && 2 * losses >= there
    }
}

#[cfg(test)]
#[path = "isolation_tests.rs"]
mod tests;
