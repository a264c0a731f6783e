//! A site whose attempts are at their gates as soon as they are submitted.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cospan_actors::clock::{Clock, RuntimeClock};
use cospan_domain::ids::{AttemptTag, Digest, LrmId, SiteName};
use cospan_domain::labels::SiteLabels;
use cospan_domain::resources::Resources;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use cospan_sites::port::{
    AcceptedAttempt, AttemptAtGate, AttemptObservation, AttemptSubmitRequest, CopyRequest,
    CopyStatus, ExitCause, FileExcerpt, FoundSubmission, Gate, GateDecision, GateState,
    InspectedFile, PayloadExit, ReadableFile, RunningPayload, Site, SiteCapabilities, SiteCopies,
    SiteDescription, SiteError, SiteFiles, SiteMonitor, SiteQueue, SiteStatus, TagLookupAnswer,
};
use rand::Rng;
use rand::rngs::StdRng;

/// An attempt that is at its gate from the moment of its submission.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    processors: u32,
    ready: Timestamp,
    opened: Option<(Timestamp, Timestamp)>,
    void: bool,
}

/// Claims that were refused because local users had taken what was idle.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Since the site was last asked what is idle.
    since_report: u32,
    /// The most between two reports.
    pub(super) most: u32,
    /// All.
    pub(super) all: u32,
}

/// A site that acts at once and whose replies take their time.
pub(super) struct PromptSite {
    pub(super) name: SiteName,
    /// The clock of the site itself.
    pub(super) clock: RuntimeClock,
    pub(super) processors: u32,
    pub(super) attempts: Mutex<BTreeMap<AttemptTag, Running>>,
    pub(super) chance: Mutex<StdRng>,
    pub(super) hints: Option<tokio::sync::watch::Sender<u64>>,
    /// Local users always take what it said is idle before a claim arrives.
    pub(super) snatched: Option<Mutex<Refusals>>,
}

impl PromptSite {
    fn attempts(&self) -> MutexGuard<'_, BTreeMap<AttemptTag, Running>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A delay of up to `most` ms.
    async fn dawdle(&self, most: u64) {
        let ms = self
            .chance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .random_range(0..=most);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn changed(&self) {
        if let Some(hints) = &self.hints {
            hints.send_modify(|count| *count += 1);
        }
    }

    fn idle(&self, now: Timestamp) -> u32 {
        let attempts = self.attempts();
        self.processors
            - attempts
                .values()
                .filter(|a: &&Running| !a.void && a.opened.is_none_or(|(_, end)| now < end))
                .map(|a| a.processors)
                .sum::<u32>()
    }

    fn observe(&self, tag: &AttemptTag, now: Timestamp) -> AttemptObservation {
        match self.attempts().get(tag) {
            None => AttemptObservation::Absent,
            Some(Running { void: true, .. }) => AttemptObservation::Void,
            Some(Running {
                opened: None,
                ready,
                ..
            }) => AttemptObservation::Ready(AttemptAtGate {
                host: "node".into(),
                since: *ready,
                held_at: *ready,
            }),
            Some(Running {
                opened: Some((at, end)),
                ..
            }) if now < *end => AttemptObservation::Begun(RunningPayload {
                host: "node".into(),
                at: *at,
            }),
            Some(Running {
                opened: Some((at, end)),
                ..
            }) => AttemptObservation::Exited(PayloadExit {
                cause: ExitCause::Code(0),
                began_at: *at,
                ended_at: *end,
            }),
        }
    }
}

fn no_files<T>() -> Result<T, SiteError> {
    Err(SiteError::Refused("it keeps no files".into()))
}

#[async_trait]
impl SiteQueue for PromptSite {
    async fn status(&self, tags: &[AttemptTag]) -> Result<SiteStatus, SiteError> {
        self.dawdle(30).await;
        let now = self.clock.now();
        let attempts = tags
            .iter()
            .map(|tag| (*tag, self.observe(tag, now)))
            .collect();
        let idle = Resources::processors(self.idle(now));
        if let Some(refusals) = &self.snatched {
            refusals.lock().expect("refusals").since_report = 0;
        }
        self.dawdle(30).await;
        Ok(SiteStatus {
            site_clock: Some(now),
            idle,
            idle_in: BTreeMap::new(),
            ebbs: Vec::new(),
            attempts,
            silence: None,
        })
    }

    async fn submit(&self, order: &AttemptSubmitRequest) -> Result<AcceptedAttempt, SiteError> {
        let now = self.clock.now();
        let processors = order.resources.processors;
        if let Some(refusals) = &self.snatched {
            let mut refusals = refusals.lock().expect("refusals");
            refusals.since_report += 1;
            refusals.all += 1;
            refusals.most = refusals.most.max(refusals.since_report);
            return Err(SiteError::SiteFull("local users were faster".into()));
        }
        if self.idle(now) < processors {
            return Err(SiteError::SiteFull("no processors".into()));
        }
        let running = Running {
            processors,
            ready: now,
            opened: None,
            void: false,
        };
        self.attempts().entry(order.tag).or_insert(running);
        self.changed();
        self.dawdle(3_000).await;
        Ok(AcceptedAttempt {
            lrm_id: LrmId::new("prompt").map_err(|e| SiteError::Refused(e.to_string()))?,
        })
    }

    async fn find_by_tag(&self, tag: AttemptTag) -> Result<TagLookupAnswer, SiteError> {
        let known = self.attempts().get(&tag).map(|attempt| attempt.ready);
        let found = known.into_iter().map(|submitted_at| FoundSubmission {
            lrm_id: LrmId::new("prompt").expect("an id"),
            submitted_at,
        });
        Ok(TagLookupAnswer {
            found: found.collect(),
        })
    }

    async fn cancel(&self, tag: AttemptTag, _: Option<&LrmId>) -> Result<(), SiteError> {
        if let Some(attempt) = self.attempts().get_mut(&tag) {
            attempt.void = true;
        }
        Ok(())
    }

    async fn withdraw(&self, _: AttemptTag, _: &LrmId) -> Result<(), SiteError> {
        Ok(())
    }

    async fn remove_attempt(&self, tag: AttemptTag) -> Result<(), SiteError> {
        self.attempts().remove(&tag);
        Ok(())
    }

    async fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError> {
        Ok(self.attempts().keys().copied().collect())
    }
}

#[async_trait]
impl Gate for PromptSite {
    async fn decide_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        let now = self.clock.now();
        let length = DurationMs(self.chance.lock().expect("chance").random_range(1..=500));
        let state = {
            let mut attempts = self.attempts();
            if *decision == GateDecision::Void {
                // Without a directory too: whatever comes late finds it taken.
                let taken = Running {
                    processors: 0,
                    ready: now,
                    opened: None,
                    void: true,
                };
                attempts.entry(tag).or_insert(taken);
            }
            let Some(attempt) = attempts.get_mut(&tag) else {
                return Err(SiteError::Refused("unknown".into()));
            };
            match decision {
                GateDecision::Go(_) if !attempt.void => {
                    attempt.opened.get_or_insert((now, now + length));
                    GateState::Opened
                }
                GateDecision::Void if attempt.opened.is_none() => {
                    attempt.void = true;
                    GateState::Voided
                }
                _ if attempt.void => GateState::Voided,
                _ => GateState::Opened,
            }
        };
        self.changed();
        self.dawdle(300).await;
        Ok(state)
    }
}

#[async_trait]
impl SiteFiles for PromptSite {
    async fn inspect(&self, _: &FilePlace) -> Result<InspectedFile, SiteError> {
        no_files()
    }

    async fn has_content(&self, _: Digest) -> Result<bool, SiteError> {
        no_files()
    }

    async fn delete_content(&self, _: Digest) -> Result<(), SiteError> {
        no_files()
    }

    async fn read(&self, _: &ReadableFile, _: Bytes, _: u32) -> Result<FileExcerpt, SiteError> {
        no_files()
    }
}

#[async_trait]
impl SiteCopies for PromptSite {
    async fn start_copy(&self, _: &CopyRequest) -> Result<(), SiteError> {
        no_files()
    }

    async fn copy_status(&self, _: &CopyRequest) -> Result<CopyStatus, SiteError> {
        no_files()
    }

    async fn stop_copy(&self, _: &CopyRequest, _: bool) -> Result<(), SiteError> {
        no_files()
    }
}

#[async_trait]
impl SiteMonitor for PromptSite {
    async fn describe(&self) -> Result<SiteDescription, SiteError> {
        self.dawdle(20).await;
        Ok(SiteDescription {
            total: Resources::processors(self.processors),
            largest_component: Resources::processors(self.processors),
            labels: SiteLabels::default(),
            capabilities: SiteCapabilities::default(),
            lanes: None,
            manager: "prompt".into(),
        })
    }

    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.hints.as_ref().map(|hints| hints.subscribe())
    }
}

impl Site for PromptSite {
    fn name(&self) -> &SiteName {
        &self.name
    }

    fn monitor(&self) -> &dyn SiteMonitor {
        self
    }

    fn queue(&self) -> &dyn SiteQueue {
        self
    }

    fn gate(&self) -> &dyn Gate {
        self
    }

    fn files(&self) -> &dyn SiteFiles {
        self
    }

    fn copies(&self) -> &dyn SiteCopies {
        self
    }
}
