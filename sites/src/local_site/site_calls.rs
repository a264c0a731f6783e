//! Queries, and decisions of the gate.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::sync::PoisonError;

use cospan_domain::ids::AttemptTag;
use cospan_domain::labels::{NODE_GPUS, NODE_MEMORY_MB, NODE_PROCESSORS, NODES, SiteLabels};
use cospan_domain::resources::Resources;
use rustix::process::Signal;

use super::attempt_root::{ATTEMPTS, LIVE, SPOOL, VerifiedSiteRoot, unique_word};
use super::final_evidence::{RememberedEvidence, determine_end, list_attempt_processes};
use super::live_attempts::LiveAttempts;
use super::live_entry::LiveAttempt;
use super::local_reservations::reserved_unused;
use super::read_evidence::{self, WrapperEvidence};
use super::spawn_wrapper::lrm_id;
use super::uptime;
use super::{LocalSiteConfig, LocalSiteState, not_done_error, outcome_unknown_error, steady_now};
use crate::port::{
    AttemptObservation, FoundSubmission, GateDecision, GateState, SiteCapabilities,
    SiteDescription, SiteError, SiteStatus, TagLookupAnswer,
};
use crate::removal::RemovalExtent;
use crate::wrapper::attempt_files::FoundStateFile;
use crate::wrapper::parameters::{encode_go, encode_void};
use crate::wrapper::state_files;

/// The most files of an attempt that are removed while its caller waits: a second on a slow disk.
const AT_ONCE: u64 = 500;

impl LocalSiteState {
    pub(super) fn describe(&self) -> Result<SiteDescription, SiteError> {
        self.open_sound_root()?;
        Ok(SiteDescription {
            total: self.config.total.clone(),
            largest_component: self.config.total.clone(),
            labels: all_labels(&self.config),
            capabilities: SiteCapabilities {
                reservations: self.config.reservations,
                ..SiteCapabilities::default()
            },
            lanes: None,
            manager: format!(
                "processes on this machine, through {}",
                self.config.shell.display()
            ),
        })
    }

    pub(super) fn status(
        self: &std::sync::Arc<Self>,
        tags: &[AttemptTag],
    ) -> Result<SiteStatus, SiteError> {
        let root = self.open_sound_root()?;
        let trouble = root.find_hindrance();
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&trouble);
        let status = self.status_in(&root, tags);
        // The fault is the cause of whatever failed.
        status.map_err(|error| trouble.map_or(error, SiteError::OutOfOrder))
    }

    fn status_in(
        self: &std::sync::Arc<Self>,
        root: &VerifiedSiteRoot,
        tags: &[AttemptTag],
    ) -> Result<SiteStatus, SiteError> {
        let mut ledger = self.lock_ledger();
        ledger
            .kill_leftovers(root)
            .map_err(|e| outcome_unknown_error(&e))?;
        let refreshed = ledger
            .refresh_entries(root, true)
            .map_err(|e| outcome_unknown_error(&e))?;
        self.ensure_watched(&mut ledger);
        let attempts = tags
            .iter()
            .map(|tag: &AttemptTag| {
                let live = ledger.entries.get(tag).map(|entry| entry.seen.clone());
                let seen = live.or_else(|| refreshed.ended.get(tag).cloned());
                let seen = seen
                    .or_else(|| ledger.told.get(tag).cloned())
                    .unwrap_or_else(|| observe_ended(root, *tag));
                (*tag, seen)
            })
            .collect();
        let idle = self.idle_resources(root, &ledger)?;
        let ebbs = self.idle_drops(root, &ledger, &idle)?;
        Ok(SiteStatus {
            site_clock: Some(steady_now()),
            idle,
            idle_in: BTreeMap::new(),
            ebbs,
            attempts,
            silence: None,
        })
    }

    /// Returns what is free for one more attempt.
    pub(super) fn idle_resources(
        &self,
        root: &VerifiedSiteRoot,
        ledger: &LiveAttempts,
    ) -> Result<Resources, SiteError> {
        let mut idle = self.unused_resources(ledger)?;
        idle.subtract(
            &reserved_unused(root, ledger, steady_now()).map_err(|e| outcome_unknown_error(&e))?,
        );
        Ok(idle)
    }

    /// Returns what nobody uses, reserved or not.
    pub(super) fn unused_resources(&self, ledger: &LiveAttempts) -> Result<Resources, SiteError> {
        let mut unused = self.config.total.clone();
        unused.subtract(&ledger.used_resources());
        unused.subtract(&Resources::processors(self.foreign_processors()?));
        Ok(unused)
    }

    /// Reads how many processors others use.
    pub(super) fn foreign_processors(&self) -> Result<u32, SiteError> {
        let Some(path) = &self.config.foreign_load else {
            return Ok(0);
        };
        match std::fs::read_to_string(path) {
            Ok(text) => text.trim().parse().map_err(|_| {
                let place = path.display();
                SiteError::OutcomeUnknown(format!("{place} is not a number of processors"))
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(outcome_unknown_error(&error)),
        }
    }

    pub(super) fn find_by_tag(&self, tag: AttemptTag) -> Result<TagLookupAnswer, SiteError> {
        let root = self.open_root()?;
        let directory = root
            .modified_at(&format!("{ATTEMPTS}/{tag}"))
            .map_err(|e| outcome_unknown_error(&e))?;
        let spooled = root
            .modified_at(&format!("{SPOOL}/{tag}"))
            .map_err(|e| outcome_unknown_error(&e))?;
        // A directory left by a control plane that died before it started the wrapper is no
        // submission: a caller would wait for it, and in the end charge the site with its loss.
        let ours = self
            .lock_ledger()
            .entries
            .get(&tag)
            .is_some_and(LiveAttempt::is_of_this_process);
        let known = directory.is_some() && spooled.is_some()
            || ours
            || !list_attempt_processes(&root, tag)
                .map_err(|e| outcome_unknown_error(&e))?
                .is_empty();
        let found = if known {
            let submitted_at = spooled.or(directory).unwrap_or_else(steady_now);
            vec![FoundSubmission {
                lrm_id: lrm_id(tag)?,
                submitted_at,
            }]
        } else {
            Vec::new()
        };
        Ok(TagLookupAnswer { found })
    }

    pub(super) fn decide_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        let root = self.open_root()?;
        if let Some(decided) = read_decision(&root, tag)? {
            return Ok(decided);
        }
        let directory = format!("{ATTEMPTS}/{tag}");
        match decision {
            GateDecision::Go(_) => {
                if !root.exists(&directory).map_err(|e| not_done_error(&e))? {
                    let why = "the attempt has no directory yet".to_owned();
                    return Err(SiteError::Refused(why));
                }
                root.make_dir(&read_evidence::attempt_file_path(tag, "work"))
                    .map_err(|e| not_done_error(&e))?;
            }
            GateDecision::Void => {
                root.make_dir(&directory).map_err(|e| not_done_error(&e))?;
            }
        }
        let state = match link_decision(&root, tag, decision)? {
            Some(ours) => ours,
            None => read_decision(&root, tag)?.ok_or_else(|| {
                SiteError::OutcomeUnknown(format!("the decision of {tag} cannot be read"))
            })?,
        };
        self.wake_wrapper(&root, tag, state);
        Ok(state)
    }

    /// Wakes a wrapper that waits at its gate. Without this, it wakes a little later.
    fn wake_wrapper(&self, root: &VerifiedSiteRoot, tag: AttemptTag, state: GateState) {
        let mut ledger = self.lock_ledger();
        if !ledger.knows_wrapper(tag) {
            // Another process started it, or nobody ever will: then it uses nothing from now on.
            ledger.search_wrappers_again();
            let _ = ledger.refresh_entries(root, true);
        }
        let Some(entry) = ledger.entries.get_mut(&tag) else {
            return;
        };
        entry.opened |= state == GateState::Opened;
        let heard = entry.wake_wrapper();
        let wrapper = entry.wrapper().cloned().filter(|_| !heard);
        drop(ledger);
        // Before `ready` is written the signal would find no trap and end it.
        if let Some(wrapper) = wrapper
            && WrapperEvidence::collect_evidence(root, tag)
                .is_ok_and(|e| e.is_some_and(|e| e.ready.is_some()))
        {
            wrapper.send_signal(Signal::USR2);
        }
        self.waker.wake_watcher();
    }

    pub(super) fn remove_attempt(&self, tag: AttemptTag) -> Result<(), SiteError> {
        let root = self.open_root()?;
        let mut ledger = self.lock_ledger();
        ledger
            .refresh_entries(&root, true)
            .map_err(|e| not_done_error(&e))?;
        if ledger.entries.contains_key(&tag) {
            return Err(SiteError::Refused(format!(
                "{tag} has not ended; cancel it first"
            )));
        }
        ledger.told.remove(&tag);
        drop(ledger);
        // A wrapper that comes late finds no parameters and ends.
        let removed =
            [LIVE, SPOOL, ATTEMPTS].map(|place| self.remove_remains_from(&root, place, tag));
        removed.into_iter().collect::<io::Result<()>>().map_err(|error| {
            let root = self.config.root.display();
            SiteError::OutcomeUnknown(format!(
                "what {tag} left in {root} cannot be removed: {error}; see who owns it, and remove \
                 it by hand"
            ))
        })
    }

    /// Removes the remains of an attempt from one of our directories; if they
    /// are many, the rest later.
    fn remove_remains_from(
        &self,
        root: &VerifiedSiteRoot,
        place: &str,
        tag: AttemptTag,
    ) -> io::Result<()> {
        let aside = format!("{tag}.{}", unique_word());
        let moved = root.set_aside(&format!("{place}/{tag}"), &aside)?;
        if moved && root.remove_set_aside(&aside, AT_ONCE)? == RemovalExtent::Some {
            self.sweeper
                .queue_trees(vec![CString::new(aside)?], || root.open_removal_directory())?;
        }
        Ok(())
    }

    pub(super) fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError> {
        let root = self.open_root()?;
        let mut tags = Vec::new();
        for directory in [ATTEMPTS, SPOOL, LIVE] {
            tags.extend(
                root.list_tags(directory)
                    .map_err(|e| outcome_unknown_error(&e))?,
            );
        }
        tags.sort_unstable();
        tags.dedup();
        Ok(tags)
    }
}

/// Returns the labels of the configuration, and those of the one node that this site is.
fn all_labels(config: &LocalSiteConfig) -> SiteLabels {
    let total = &config.total;
    let mut labels = config.labels.clone();
    let counts = [
        (NODES, 1),
        (NODE_PROCESSORS, total.processors.into()),
        (NODE_MEMORY_MB, total.other("memory_mb")),
        (NODE_GPUS, total.other("gpus")),
    ];
    for (key, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        labels
            .entry(key.into())
            .or_insert_with(|| [count.to_string().into()].into());
    }
    labels
}

fn observe_ended(root: &VerifiedSiteRoot, tag: AttemptTag) -> AttemptObservation {
    let observed =
        WrapperEvidence::collect_evidence(root, tag).and_then(|evidence| match evidence {
            None => Ok(AttemptObservation::Absent),
            Some(evidence) => match evidence.final_observation() {
                Some(last) => Ok(last),
                None => determine_end(root, tag, RememberedEvidence::default()),
            },
        });
    observed.unwrap_or_else(|error| AttemptObservation::Unknown(error.to_string()))
}

/// Reads the decision. Decisions appear complete, so one that differs from what was written was
/// replaced by a payload, which an open gate let in.
fn read_decision(root: &VerifiedSiteRoot, tag: AttemptTag) -> Result<Option<GateState>, SiteError> {
    let found = root
        .read_state(&read_evidence::attempt_file_path(tag, "decision"))
        .map_err(|e| outcome_unknown_error(&e))?;
    Ok(found.map(|found| {
        match found {
            FoundStateFile::File(bytes, _) => {
                state_files::parse_decision(&bytes, tag, root.authenticator())
            }
            FoundStateFile::Spoiled => None,
        }
        .unwrap_or(GateState::Opened)
    }))
}

/// Writes the decision under a name of its own and links it: exactly one link wins.
/// `None` if another one did.
fn link_decision(
    root: &VerifiedSiteRoot,
    tag: AttemptTag,
    decision: &GateDecision,
) -> Result<Option<GateState>, SiteError> {
    let (bytes, state) = match decision {
        GateDecision::Go(go) => {
            let start_by = uptime::uptime_at(go.start_by).map_err(|e| not_done_error(&e))?;
            (
                encode_go(tag, go, steady_now(), Some(start_by)),
                GateState::Opened,
            )
        }
        GateDecision::Void => (encode_void(tag, root.authenticator()), GateState::Voided),
    };
    let aside = read_evidence::attempt_file_path(tag, &format!("decision.{}.tmp", unique_word()));
    let written = root.write_file(&aside, &bytes);
    let linked = match written {
        Ok(()) => root
            .link_file(&aside, &read_evidence::attempt_file_path(tag, "decision"))
            .map_err(|e| outcome_unknown_error(&e)),
        Err(error) => Err(not_done_error(&error)),
    };
    // A name that is left is removed with the attempt.
    let _ = root.remove_file(&aside);
    Ok(linked?.then_some(state))
}
