//! What goes wrong in the world by itself: nodes, sites, schedulers, links.

use cospan_domain::ids::SiteName;
use cospan_domain::units::{BitsPerSecond, DurationMs, Timestamp};

use super::World;
use super::agenda::{Event, SiteIndex};
use super::ledger::Deed;

/// Something that goes wrong at a site, or on a link from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// A node dies.
    NodeDown {
        /// Which.
        node: u32,
        /// How long until it is back.
        repair: DurationMs,
    },
    /// Every node dies.
    SiteDown {
        /// How long until they are back.
        repair: DurationMs,
    },
    /// The site answers no more, or again.
    Silent(bool),
    /// Its scheduler is killed, and loses what it acknowledged last.
    Forgets {
        /// How far back.
        window: DurationMs,
    },
    /// Its scheduler starts nothing any more, or again.
    Drained(bool),
    /// A link from it carries this much from now on; 0 cuts it.
    Link {
        /// Where the link ends.
        to: SiteName,
        /// What it carries.
        bandwidth: BitsPerSecond,
    },
}

impl Trouble {
    /// Its name, for tables.
    pub fn as_str(&self) -> &'static str {
        match self {
            Trouble::NodeDown { .. } => "node-down",
            Trouble::SiteDown { .. } => "site-down",
            Trouble::Silent(_) => "silent",
            Trouble::Forgets { .. } => "forgets",
            Trouble::Drained(_) => "drained",
            Trouble::Link { .. } => "link",
        }
    }
}

impl World {
    /// Something will go wrong at its time.
    pub fn plan(&mut self, at: Timestamp, site: SiteIndex, trouble: Trouble) {
        self.troubles.push(trouble);
        self.agenda.add(at, site, Event::Trouble(self.troubles.len() - 1));
    }

    pub(super) fn strike(&mut self, site: SiteIndex, number: usize) {
        match self.troubles[number].clone() {
            Trouble::NodeDown { node, repair } => self.node_down(site, node, repair),
            Trouble::SiteDown { repair } => self.site_down(site, repair),
            Trouble::Silent(silent) => self.set_silent(site, silent),
            Trouble::Forgets { window } => self.scheduler_forgets(site, window),
            Trouble::Drained(true) => self.sites[site.0].batch.drain(),
            Trouble::Drained(false) => {
                self.sites[site.0].batch.resume();
                self.schedule(site);
            }
            Trouble::Link { to, bandwidth } => {
                let from = self.sites[site.0].name.clone();
                // A link that does not exist cannot break.
                let _ = self.network.set_capacity(&from, &to, bandwidth, self.now);
            }
        }
    }

    /// A node dies, with all that runs there, and comes back after `repair`.
    pub fn node_down(&mut self, site: SiteIndex, node: u32, repair: DurationMs) {
        let now = self.now;
        let killed = self.sites[site.0].batch.node_down(node, now);
        for job in killed {
            if let Some(tag) = self.sites[site.0].killed_with_node(job) {
                self.ledger.note(now, &self.sites[site.0].name, tag, Deed::KilledByNode);
                self.ledger.note(now, &self.sites[site.0].name, tag, Deed::Left);
            }
        }
        self.agenda.add(now + repair, site, Event::NodeUp(node));
        self.schedule(site);
    }

    pub(super) fn node_up(&mut self, site: SiteIndex, node: u32) {
        self.sites[site.0].batch.node_up(node, self.now);
        self.schedule(site);
    }

    /// Every node of a site dies and comes back after `repair`.
    pub fn site_down(&mut self, site: SiteIndex, repair: DurationMs) {
        for node in 0..self.sites[site.0].nodes {
            self.node_down(site, node, repair);
        }
    }

    /// A site answers no more, or again; what runs there goes on.
    pub fn set_silent(&mut self, site: SiteIndex, silent: bool) {
        self.sites[site.0].silent = silent;
    }

    /// The site's scheduler is killed and comes back without the submissions that it
    /// acknowledged in the last `window`; it hands their numbers out again.
    pub fn scheduler_forgets(&mut self, site: SiteIndex, window: DurationMs) {
        let now = self.now;
        for tag in self.sites[site.0].forget_since(now - window, now) {
            self.ledger.note(now, &self.sites[site.0].name, tag, Deed::Forgotten);
            self.ledger.note(now, &self.sites[site.0].name, tag, Deed::Left);
        }
        self.schedule(site);
    }
}
