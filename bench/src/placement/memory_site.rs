//! A site that is a table in memory: it answers at once, or never.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use cospan_domain::ids::{AttemptTag, Digest, LrmId, SiteName};
use cospan_domain::labels::SiteLabels;
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, Timestamp};
use cospan_sites::port::{
    AcceptedAttempt, AttemptAtGate, AttemptObservation, AttemptSubmitRequest, CopyRequest,
    CopyStatus, ExitCause, FileExcerpt, FilePlace, Gate, GateDecision, GateState, InspectedFile,
    PayloadExit, ReadableFile, RunningPayload, Site, SiteCapabilities, SiteCopies, SiteDescription,
    SiteError, SiteFiles, SiteMonitor, SiteQueue, SiteReservations, SiteStatus, TagLookupAnswer,
};
use tokio::sync::watch;

use super::reserving_site::StubReservations;

/// Processors of every site.
pub(crate) const PROCESSORS: u32 = 1_000_000;
/// The label that distinguishes the sites.
pub(crate) const NAME_LABEL: &str = "name";
const HOST: &str = "node";
const SIGKILL: i32 = 9;

/// The state of an attempt.
#[derive(Clone, Copy)]
enum StubAttemptState {
    AtGate,
    Runs,
    NeverRan,
    Killed,
}

impl StubAttemptState {
    fn as_observation(self) -> AttemptObservation {
        let host = HOST.into();
        let at = Timestamp(0);
        match self {
            StubAttemptState::AtGate => AttemptObservation::Ready(AttemptAtGate {
                host,
                since: at,
                held_at: at,
            }),
            StubAttemptState::Runs => AttemptObservation::Begun(RunningPayload { host, at }),
            StubAttemptState::NeverRan => AttemptObservation::Void,
            StubAttemptState::Killed => {
                let cause = ExitCause::Signal(SIGKILL);
                AttemptObservation::Exited(PayloadExit {
                    cause,
                    began_at: at,
                    ended_at: at,
                })
            }
        }
    }
}

/// A site that is a table in memory.
pub(super) struct StubSite {
    name: SiteName,
    idle: AtomicU32,
    /// It takes calls and never answers them.
    mute: AtomicBool,
    /// It takes submissions and never answers them.
    swallows: AtomicBool,
    attempts: Mutex<BTreeMap<AttemptTag, StubAttemptState>>,
    grants: Option<StubReservations>,
    changed: watch::Sender<u64>,
}

impl StubSite {
    pub(super) fn new(name: SiteName, idle: u32) -> Self {
        Self {
            name,
            idle: AtomicU32::new(idle),
            mute: AtomicBool::new(false),
            swallows: AtomicBool::new(false),
            attempts: Mutex::default(),
            grants: None,
            changed: watch::Sender::new(0),
        }
    }

    /// A site that grants reservations, and where nothing else fits.
    pub(super) fn with_reservations(name: SiteName) -> anyhow::Result<Self> {
        Ok(Self {
            grants: Some(StubReservations::new(PROCESSORS)?),
            ..Self::new(name, 0)
        })
    }

    /// Sets the number of idle processors and notifies all watchers.
    pub(super) fn set_idle(&self, idle: u32) {
        self.idle.store(idle, Ordering::SeqCst);
        self.notify();
    }

    /// Makes the site answer nothing from now on.
    pub(super) fn fall_silent(&self) {
        self.mute.store(true, Ordering::SeqCst);
    }

    /// Makes the site take submissions without answering them from now on.
    pub(super) fn swallow_submissions(&self) {
        self.swallows.store(true, Ordering::SeqCst);
    }

    fn notify(&self) {
        self.changed.send_modify(|number| *number += 1);
    }

    async fn hang_if_mute(&self) {
        if self.mute.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    fn with_attempts<T>(
        &self,
        act: impl FnOnce(&mut BTreeMap<AttemptTag, StubAttemptState>) -> T,
    ) -> T {
        act(&mut self.attempts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn total_resources(&self) -> Resources {
        Resources::processors(PROCESSORS)
    }
}

fn refuse_files<T>() -> Result<T, SiteError> {
    Err(SiteError::Refused("this site has no files".into()))
}

#[async_trait]
impl SiteQueue for StubSite {
    async fn status(&self, tags: &[AttemptTag]) -> Result<SiteStatus, SiteError> {
        self.hang_if_mute().await;
        Ok(SiteStatus {
            site_clock: None,
            idle: Resources::processors(self.idle.load(Ordering::SeqCst)),
            idle_in: BTreeMap::new(),
            ebbs: Vec::new(),
            attempts: self.with_attempts(
                |attempts: &mut BTreeMap<AttemptTag, StubAttemptState>| {
                    let seen = tags.iter().map(|tag| {
                        let seen = attempts
                            .get(tag)
                            .map_or(AttemptObservation::Absent, |life| life.as_observation());
                        (*tag, seen)
                    });
                    seen.collect()
                },
            ),
            silence: None,
        })
    }

    async fn submit(&self, order: &AttemptSubmitRequest) -> Result<AcceptedAttempt, SiteError> {
        self.hang_if_mute().await;
        if self.swallows.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.with_attempts(|attempts| attempts.insert(order.tag, StubAttemptState::AtGate));
        self.notify();
        let lrm_id = LrmId::new(&order.tag.to_string());
        Ok(AcceptedAttempt {
            lrm_id: lrm_id.map_err(|e| SiteError::Refused(e.to_string()))?,
        })
    }

    async fn find_by_tag(&self, _: AttemptTag) -> Result<TagLookupAnswer, SiteError> {
        self.hang_if_mute().await;
        Ok(TagLookupAnswer { found: Vec::new() })
    }

    async fn cancel(&self, tag: AttemptTag, _: Option<&LrmId>) -> Result<(), SiteError> {
        self.hang_if_mute().await;
        self.with_attempts(|attempts| {
            if let Some(life) = attempts.get_mut(&tag) {
                *life = if matches!(life, StubAttemptState::Runs) {
                    StubAttemptState::Killed
                } else {
                    StubAttemptState::NeverRan
                };
            }
        });
        self.notify();
        Ok(())
    }

    async fn withdraw(&self, _: AttemptTag, _: &LrmId) -> Result<(), SiteError> {
        Ok(())
    }

    async fn remove_attempt(&self, _: AttemptTag) -> Result<(), SiteError> {
        Ok(())
    }

    async fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError> {
        self.hang_if_mute().await;
        Ok(Vec::new())
    }
}

#[async_trait]
impl Gate for StubSite {
    async fn decide_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        self.hang_if_mute().await;
        let open = matches!(decision, GateDecision::Go(_));
        let life = if open {
            StubAttemptState::Runs
        } else {
            StubAttemptState::NeverRan
        };
        self.with_attempts(|attempts| attempts.insert(tag, life));
        self.notify();
        Ok(if open {
            GateState::Opened
        } else {
            GateState::Voided
        })
    }
}

#[async_trait]
impl SiteFiles for StubSite {
    async fn inspect(&self, _: &FilePlace) -> Result<InspectedFile, SiteError> {
        refuse_files()
    }

    async fn has_content(&self, _: Digest) -> Result<bool, SiteError> {
        Ok(false)
    }

    async fn delete_content(&self, _: Digest) -> Result<(), SiteError> {
        Ok(())
    }

    async fn read(&self, _: &ReadableFile, _: Bytes, _: u32) -> Result<FileExcerpt, SiteError> {
        refuse_files()
    }
}

#[async_trait]
impl SiteCopies for StubSite {
    async fn start_copy(&self, _: &CopyRequest) -> Result<(), SiteError> {
        refuse_files()
    }

    async fn copy_status(&self, _: &CopyRequest) -> Result<CopyStatus, SiteError> {
        refuse_files()
    }

    async fn stop_copy(&self, _: &CopyRequest, _: bool) -> Result<(), SiteError> {
        Ok(())
    }
}

#[async_trait]
impl SiteMonitor for StubSite {
    async fn describe(&self) -> Result<SiteDescription, SiteError> {
        self.hang_if_mute().await;
        Ok(SiteDescription {
            total: self.total_resources(),
            largest_component: self.total_resources(),
            labels: SiteLabels::from([(NAME_LABEL.into(), [self.name.as_str().into()].into())]),
            capabilities: SiteCapabilities {
                reservations: self.grants.is_some(),
                ..SiteCapabilities::default()
            },
            lanes: None,
            manager: "none".into(),
        })
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.changed.subscribe())
    }
}

impl Site for StubSite {
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

    fn reservations(&self) -> Option<&dyn SiteReservations> {
        self.grants
            .as_ref()
            .map(|grants| grants as &dyn SiteReservations)
    }
}
