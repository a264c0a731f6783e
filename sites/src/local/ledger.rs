//! Attempts that hold resources: truth on disk (`live/`), handles in memory.
//!
//! An entry is made before its wrapper is started and removed when its
//! processes are known to be gone; after a restart entries are found again by
//! their files, and processes by what the wrappers left.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use cospan_domain::ids::AttemptTag;
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use rustix::process::Signal;

use super::entry::{AttemptEntry, EntryLook};
use super::evidence::WrapperEvidence;
use super::process::{self, Process};
use super::root::{LIVE, OwnedRoot, SPOOL};
use super::settle::find_wrapper;
use crate::clock;
use crate::port::Observation;

/// How often processes without a known wrapper are looked for.
const SEARCH_EVERY: Duration = Duration::from_millis(500);
/// How often what ended attempts left running is looked for, among processes that were seen no
/// longer ago than that.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// A directory's time tells of every change that is older than this.
const TIME_SETTLED: DurationMs = DurationMs(1_000);

/// All of them.
#[derive(Debug, Default)]
pub(super) struct AttemptLedger {
    pub(super) entries: BTreeMap<AttemptTag, AttemptEntry>,
    /// Somebody watches the entries.
    pub(super) watched: bool,
    searched: Option<Instant>,
    swept: Option<Instant>,
    /// What was said of attempts that are over, and their files alone would not tell.
    pub(super) told: BTreeMap<AttemptTag, Observation>,
    /// State of the directory of entries when all in it were known.
    loaded: Option<Timestamp>,
}

impl AttemptLedger {
    /// What all entries hold.
    pub(super) fn held(&self) -> Resources {
        sum(self.holding())
    }

    /// What entries hold under the reservation with this tag.
    pub(super) fn held_under(&self, tag: &str) -> Resources {
        sum(self
            .holding()
            .filter(|entry| entry.reservation() == Some(tag)))
    }

    /// What each entry holds that uses no reservation, or one that has ended, and until when
    /// at the latest.
    pub(super) fn running(
        &self,
        has_ended: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> impl Iterator<Item = (Resources, Timestamp)> {
        let holding = self
            .holding()
            .filter(move |entry: &&AttemptEntry| entry.reservation().is_none_or(&has_ended));
        holding.map(move |entry| (entry.resources.clone(), entry.holds_until(now)))
    }

    fn holding(&self) -> impl Iterator<Item = &AttemptEntry> {
        // A wrapper that has written its last word is about to end and uses nothing.
        let over = |entry: &&AttemptEntry| {
            matches!(entry.seen, Observation::Exited(_) | Observation::Void)
        };
        self.entries.values().filter(move |entry| !over(entry))
    }

    /// Looks at every entry; gives back what ended. Not `thorough`: only at what costs next to nothing.
    ///
    /// # Errors
    /// The list of entries cannot be read.
    pub(super) fn refresh(&mut self, root: &OwnedRoot, thorough: bool) -> io::Result<Refreshed> {
        if thorough {
            self.load(root)?;
        }
        self.attach(root);
        let ended = self.ended_wrappers();
        let mut result = Refreshed::default();
        for (&tag, entry) in self
            .entries
            .iter_mut()
            .filter(|(_, entry)| !entry.in_flight)
        {
            let wrapper_ended = ended.contains(&tag);
            match entry.look(root, tag, wrapper_ended, thorough) {
                Ok(EntryLook::Same) => {}
                Ok(EntryLook::Changed) => result.changed = true,
                Ok(EntryLook::Ended(last)) => {
                    result.ended.insert(tag, last);
                }
                Err(error) => entry.seen = Observation::Unknown(error.to_string()),
            }
        }
        for (tag, last) in &result.ended {
            self.entries.remove(tag);
            if matches!(
                last,
                Observation::Ended { .. } | Observation::Vanished { .. }
            ) {
                self.told.insert(*tag, last.clone());
            }
            release(root, *tag)?;
        }
        result.changed |= !result.ended.is_empty();
        Ok(result)
    }

    /// Has the next look search for wrappers that are not known, however lately that was done.
    pub(super) fn search_again(&mut self) {
        self.searched = None;
    }

    /// Whether the wrapper of an attempt can be called.
    pub(super) fn knows_wrapper(&self, tag: AttemptTag) -> bool {
        self.entries
            .get(&tag)
            .is_some_and(|entry| entry.wrapper().is_some())
    }

    /// Attempts whose known wrappers have ended, asked for all at once.
    fn ended_wrappers(&self) -> BTreeSet<AttemptTag> {
        let known = self
            .entries
            .iter()
            .filter_map(|(tag, entry)| Some((*tag, entry.wrapper()?)));
        let (tags, wrappers): (Vec<AttemptTag>, Vec<&Process>) =
            known.map(|(tag, wrapper)| (tag, &**wrapper)).unzip();
        let ended = process::ended(&wrappers, Duration::ZERO, None);
        tags.into_iter()
            .zip(ended)
            .filter(|(_, ended)| *ended)
            .map(|(tag, _)| tag)
            .collect()
    }

    /// Kills what attempts left running that are over: it uses processors that
    /// nobody accounts for. Looks now and then only.
    ///
    /// # Errors
    /// The processes or entries cannot be listed.
    pub(super) fn sweep(&mut self, root: &OwnedRoot) -> io::Result<()> {
        if self.swept.is_some_and(|at| at.elapsed() < SWEEP_EVERY) {
            return Ok(());
        }
        self.swept = Some(Instant::now());
        let seen = process::seen_carrying(SWEEP_EVERY)?;
        let attempts = root.attempts();
        let mut running = seen
            .iter()
            .filter_map(|seen| Some((seen.tag(&attempts)?, seen)))
            .peekable();
        if running.peek().is_some() {
            // An attempt has its entry before it has a process, so one found before the
            // entries are read is among them, or over.
            self.load(root)?;
        }
        for (tag, carrier) in running {
            let over = !self.entries.contains_key(&tag)
                && WrapperEvidence::collect(root, tag)?.is_none_or(|e| e.last_word().is_some());
            if over && let Some(process) = carrier.process(&attempts, tag)? {
                process.signal(Signal::KILL);
            }
        }
        Ok(())
    }

    /// Takes up entries that somebody else made.
    fn load(&mut self, root: &OwnedRoot) -> io::Result<()> {
        let changed = root.modified(LIVE)?;
        if changed.is_some() && changed == self.loaded {
            return Ok(());
        }
        // Noted only if a change that follows must show.
        self.loaded = changed.filter(|changed| clock::of_machine().since(*changed) > TIME_SETTLED);
        for tag in root.tags(LIVE)? {
            if !self.entries.contains_key(&tag)
                && let Some(file) = root.read(&format!("{LIVE}/{tag}"))?
            {
                self.entries
                    .insert(tag, AttemptEntry::read(&file.bytes, tag));
            }
        }
        Ok(())
    }

    /// Finds the wrappers of entries that another incarnation started.
    fn attach(&mut self, root: &OwnedRoot) {
        let mut without = BTreeSet::new();
        for (&tag, entry) in &mut self.entries {
            if entry.is_of_this_process() {
                continue;
            }
            match find_wrapper(root, tag) {
                Ok(Some(wrapper)) => entry.wrapper = wrapper,
                Ok(None) => {
                    without.insert(tag);
                }
                Err(error) => entry.seen = Observation::Unknown(error.to_string()),
            }
        }
        if without.is_empty() || self.searched.is_some_and(|at| at.elapsed() < SEARCH_EVERY) {
            return;
        }
        self.searched = Some(Instant::now());
        let carrying = process::carrying(&root.attempts(), |tag| without.contains(tag));
        for tag in without {
            let Some(entry) = self.entries.get_mut(&tag) else {
                continue;
            };
            match &carrying {
                Ok(carrying) if carrying.contains_key(&tag) => entry.found_process(),
                Ok(_) => entry.found_without_process(root, tag),
                Err(error) => entry.seen = Observation::Unknown(error.to_string()),
            }
        }
    }
}

fn sum<'a>(entries: impl Iterator<Item = &'a AttemptEntry>) -> Resources {
    let mut sum = Resources::default();
    entries.for_each(|entry| sum.add(&entry.resources));
    sum
}

/// Takes an ended attempt out of the list of those that hold something. Moved rather
/// than removed: some file systems pass over every recently freed inode whenever they
/// make a file, and with hundreds of endings a second that became a tenth of all work.
fn release(root: &OwnedRoot, tag: AttemptTag) -> io::Result<()> {
    let live = format!("{LIVE}/{tag}");
    if root.rename(&live, &format!("{SPOOL}/{tag}/held"))? {
        Ok(())
    } else {
        // Its spool directory is gone already.
        root.remove(&live)
    }
}

/// What a look at all entries brought.
#[derive(Debug, Default)]
pub(super) struct Refreshed {
    pub(super) changed: bool,
    pub(super) ended: BTreeMap<AttemptTag, Observation>,
}
