//! Attempts that use resources: truth on disk (`live/`), handles in memory.
//!
//! An entry is made before its wrapper is started and removed when its processes are known
//! to be gone; after a restart entries are found again by their files, and processes by
//! the files of the wrappers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use cospan_domain::ids::AttemptTag;
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use rustix::process::Signal;

use super::attempt_processes::{self, ProcessHandle};
use super::attempt_root::{LIVE, SPOOL, VerifiedSiteRoot};
use super::final_evidence::find_wrapper;
use super::live_entry::{AttemptLookOutcome, LiveAttempt};
use super::read_evidence::WrapperEvidence;
use crate::clock;
use crate::port::AttemptObservation;

/// The interval at which processes without a known wrapper are looked for.
const SEARCH_EVERY: Duration = Duration::from_millis(500);
/// The interval at which processes that ended attempts left are looked for, among those that were
/// seen no longer ago than that.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// A directory's time shows every change that is older than this.
const TIME_SETTLED: DurationMs = DurationMs(1_000);

/// All entries.
#[derive(Debug, Default)]
pub(super) struct LiveAttempts {
    pub(super) entries: BTreeMap<AttemptTag, LiveAttempt>,
    /// True while a thread watches the entries.
    pub(super) watched: bool,
    searched: Option<Instant>,
    swept: Option<Instant>,
    /// Last observations of ended attempts that cannot be found again in their files.
    pub(super) told: BTreeMap<AttemptTag, AttemptObservation>,
    /// The time of the directory of entries when all in it were known.
    loaded: Option<Timestamp>,
}

impl LiveAttempts {
    /// Sums up what all entries use.
    pub(super) fn used_resources(&self) -> Resources {
        sum_resources(self.using_entries())
    }

    /// Sums up what entries use under the reservation with this tag.
    pub(super) fn used_in_reservation(&self, tag: &str) -> Resources {
        sum_resources(
            self.using_entries()
                .filter(|entry| entry.reservation() == Some(tag)),
        )
    }

    /// Lists what each entry uses without a reservation, or with one that has ended, and
    /// until when at the latest.
    pub(super) fn used_without_live_reservation(
        &self,
        has_ended: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> impl Iterator<Item = (Resources, Timestamp)> {
        let holding = self
            .using_entries()
            .filter(move |entry: &&LiveAttempt| entry.reservation().is_none_or(&has_ended));
        holding.map(move |entry| (entry.resources.clone(), entry.holds_until(now)))
    }

    fn using_entries(&self) -> impl Iterator<Item = &LiveAttempt> {
        // A wrapper that has recorded its end is about to end and uses nothing.
        self.entries.values().filter(|entry| {
            !matches!(
                entry.seen,
                AttemptObservation::Exited(_) | AttemptObservation::Void
            )
        })
    }

    /// Looks at every entry, and returns those that ended. Without `thorough` it looks only at
    /// what costs next to nothing.
    ///
    /// # Errors
    /// The list of entries cannot be read.
    pub(super) fn refresh_entries(
        &mut self,
        root: &VerifiedSiteRoot,
        thorough: bool,
    ) -> io::Result<AttemptRefreshOutcome> {
        if thorough {
            self.load_entries(root)?;
        }
        self.attach_wrappers(root);
        let ended = self.ended_wrappers();
        let mut result = AttemptRefreshOutcome::default();
        for (&tag, entry) in self
            .entries
            .iter_mut()
            .filter(|(_, entry)| !entry.in_flight)
        {
            let wrapper_ended = ended.contains(&tag);
            match entry.look_at_attempt(root, tag, wrapper_ended, thorough) {
                Ok(AttemptLookOutcome::Same) => {}
                Ok(AttemptLookOutcome::Changed) => result.changed = true,
                Ok(AttemptLookOutcome::Ended(last)) => {
                    result.ended.insert(tag, last);
                }
                Err(error) => entry.seen = AttemptObservation::Unknown(error.to_string()),
            }
        }
        for (tag, last) in &result.ended {
            self.entries.remove(tag);
            if matches!(
                last,
                AttemptObservation::Ended { .. } | AttemptObservation::Vanished { .. }
            ) {
                self.told.insert(*tag, last.clone());
            }
            remove_live_entry(root, *tag)?;
        }
        result.changed |= !result.ended.is_empty();
        Ok(result)
    }

    /// Makes the next look search for unknown wrappers, however recently that was done.
    pub(super) fn search_wrappers_again(&mut self) {
        self.searched = None;
    }

    /// Returns true if the wrapper of an attempt can be called.
    pub(super) fn knows_wrapper(&self, tag: AttemptTag) -> bool {
        self.entries
            .get(&tag)
            .is_some_and(|entry| entry.wrapper().is_some())
    }

    /// Returns attempts whose known wrappers have ended; one system call asks for all.
    fn ended_wrappers(&self) -> BTreeSet<AttemptTag> {
        let known = self
            .entries
            .iter()
            .filter_map(|(tag, entry)| Some((*tag, entry.wrapper()?)));
        let (tags, wrappers): (Vec<AttemptTag>, Vec<&ProcessHandle>) =
            known.map(|(tag, wrapper)| (tag, &**wrapper)).unzip();
        let ended = attempt_processes::wait_for_ends(&wrappers, Duration::ZERO, None);
        tags.into_iter()
            .zip(ended)
            .filter(|(_, ended)| *ended)
            .map(|(tag, _)| tag)
            .collect()
    }

    /// Kills processes that ended attempts left: they use processors that nobody accounts
    /// for. Looks now and then only.
    ///
    /// # Errors
    /// The processes or entries cannot be listed.
    pub(super) fn kill_leftovers(&mut self, root: &VerifiedSiteRoot) -> io::Result<()> {
        if self.swept.is_some_and(|at| at.elapsed() < SWEEP_EVERY) {
            return Ok(());
        }
        self.swept = Some(Instant::now());
        let seen = attempt_processes::recent_attempt_processes(SWEEP_EVERY)?;
        let attempts = root.attempts_directory();
        let mut running = seen
            .iter()
            .filter_map(|seen| Some((seen.attempt_tag(&attempts)?, seen)))
            .peekable();
        if running.peek().is_some() {
            // An attempt has its entry before it has a process, so one found before the entries are
            // read is among them, or over.
            self.load_entries(root)?;
        }
        for (tag, carrier) in running {
            let over = !self.entries.contains_key(&tag)
                && WrapperEvidence::collect_evidence(root, tag)?
                    .is_none_or(|e| e.final_observation().is_some());
            if over && let Some(process) = carrier.open_process(&attempts, tag)? {
                process.send_signal(Signal::KILL);
            }
        }
        Ok(())
    }

    /// Takes over entries that another process made.
    fn load_entries(&mut self, root: &VerifiedSiteRoot) -> io::Result<()> {
        let changed = root.modified_at(LIVE)?;
        if changed.is_some() && changed == self.loaded {
            return Ok(());
        }
        // Noted only if a later change must show.
        self.loaded =
            changed.filter(|changed| clock::machine_time().since(*changed) > TIME_SETTLED);
        for tag in root.list_tags(LIVE)? {
            if !self.entries.contains_key(&tag)
                && let Some(file) = root.read_file(&format!("{LIVE}/{tag}"))?
            {
                self.entries
                    .insert(tag, LiveAttempt::read_entry(&file.bytes, tag));
            }
        }
        Ok(())
    }

    /// Finds the wrappers of entries that an earlier run of the control plane started.
    fn attach_wrappers(&mut self, root: &VerifiedSiteRoot) {
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
                Err(error) => entry.seen = AttemptObservation::Unknown(error.to_string()),
            }
        }
        if without.is_empty() || self.searched.is_some_and(|at| at.elapsed() < SEARCH_EVERY) {
            return;
        }
        self.searched = Some(Instant::now());
        let carrying =
            attempt_processes::find_attempt_processes(&root.attempts_directory(), |tag| {
                without.contains(tag)
            });
        for tag in without {
            let Some(entry) = self.entries.get_mut(&tag) else {
                continue;
            };
            match &carrying {
                Ok(carrying) if carrying.contains_key(&tag) => entry.record_process(),
                Ok(_) => entry.handle_missing_process(root, tag),
                Err(error) => entry.seen = AttemptObservation::Unknown(error.to_string()),
            }
        }
    }
}

fn sum_resources<'a>(entries: impl Iterator<Item = &'a LiveAttempt>) -> Resources {
    let mut sum = Resources::default();
    entries.for_each(|entry| sum.add(&entry.resources));
    sum
}

/// Takes an ended attempt out of the list of those that use something. Moved rather than removed:
/// some file systems pass over every recently freed inode whenever they make a file, and with
/// hundreds of endings a second that became a tenth of all work.
fn remove_live_entry(root: &VerifiedSiteRoot, tag: AttemptTag) -> io::Result<()> {
    let live = format!("{LIVE}/{tag}");
    if root.move_away(&live, &format!("{SPOOL}/{tag}/held"))? {
        Ok(())
    } else {
        // Its spool directory is gone already.
        root.remove_file(&live)
    }
}

/// The result of a look at all entries.
#[derive(Debug, Default)]
pub(super) struct AttemptRefreshOutcome {
    pub(super) changed: bool,
    pub(super) ended: BTreeMap<AttemptTag, AttemptObservation>,
}
