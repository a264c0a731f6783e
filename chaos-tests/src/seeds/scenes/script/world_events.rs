//! What happens to sites, whatever the control plane does.

use anyhow::Result;
use cospan_domain::ids::{Digest, SiteName};
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_simulator::world::site_faults::SiteFault;
use cospan_simulator::world::{SimulatedWorld, SiteIndex};

use super::script_setup::read_bandwidth;
use super::script_words::ScriptWords;

/// Something that happens to a site.
pub(super) struct WorldEvent {
    pub(super) site: SiteName,
    what: WorldEventKind,
    after: DurationMs,
}

enum WorldEventKind {
    Fault(SiteFault),
    /// Somebody deletes the content of the file with this number from the site's store.
    Deleted(u8),
}

impl WorldEvent {
    pub(super) fn carry_out(self, world: &mut SimulatedWorld, site: SiteIndex, now: Timestamp) {
        match self.what {
            WorldEventKind::Fault(fault) => world.plan_fault(now + self.after, site, fault),
            WorldEventKind::Deleted(file) => world.delete_content(site, Digest([file + 1; 32])),
        }
    }
}

/// Reads `amsterdam falls silent in 5s`.
///
/// # Errors
/// The line is not understood.
pub(super) fn read_world_event(words: &mut ScriptWords<'_>) -> Result<WorldEvent> {
    let site = words.read()?;
    let what = if words.take("loses the copy of") {
        WorldEventKind::Deleted(words.read()?)
    } else {
        WorldEventKind::Fault(read_fault(words)?)
    };
    let after = if words.take("in") {
        words.read_time()?
    } else {
        DurationMs::ZERO
    };
    Ok(WorldEvent { site, what, after })
}

fn read_fault(words: &mut ScriptWords<'_>) -> Result<SiteFault> {
    let plain = [
        ("falls silent", SiteFault::Silent(true)),
        ("answers again", SiteFault::Silent(false)),
        ("hangs", SiteFault::Frozen(true)),
        ("goes on", SiteFault::Frozen(false)),
        ("revokes us", SiteFault::Revoked(true)),
        ("starts nothing", SiteFault::Drained(true)),
        ("starts jobs again", SiteFault::Drained(false)),
    ];
    for (phrase, fault) in plain {
        if words.take(phrase) {
            return Ok(fault);
        }
    }
    if words.take("is down for") {
        let repair = words.read_time()?;
        return Ok(SiteFault::SiteDown { repair });
    }
    if words.take("forgets the last") {
        let window = words.read_time()?;
        return Ok(SiteFault::Forgets { window, times: 0 });
    }
    if words.take("damages what goes to") {
        let to = words.read()?;
        let corrupts = true;
        return Ok(SiteFault::Corrupts { to, corrupts });
    }
    anyhow::ensure!(
        words.take("has a link to"),
        "no site does {:?}",
        words.clone().rest()
    );
    let to = words.read()?;
    anyhow::ensure!(words.take("of"), "a link of which bandwidth?");
    let bandwidth = read_bandwidth(words)?;
    Ok(SiteFault::Link { to, bandwidth })
}
