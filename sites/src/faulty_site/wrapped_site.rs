//! The site that wraps another and injects faults.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use cospan_domain::catalogue::file_state::FileStamp;
use cospan_domain::ids::{AttemptTag, Digest, HostName, LrmId, SiteName};
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, DurationUs};
use tokio::sync::watch;

use super::control_file::FaultControlFile;
use super::{FaultSwitch, InjectedFault};
use crate::files::tree_pieces::DirectoryListing;
use crate::port::{
    AcceptedAttempt, AttemptObservation, AttemptSubmitRequest, CopyRequest, CopyStatus,
    FileExcerpt, FilePlace, Gate, GateDecision, GateState, InspectedFile, InspectionProgress,
    ReadableFile, Site, SiteCallKind, SiteCopies, SiteDescription, SiteError, SiteFiles,
    SiteMonitor, SiteQueue, SiteReservations, SiteStatus, TagLookupAnswer, UploadStep,
};

/// A site whose calls go wrong as its [`FaultSwitch`] say.
pub struct FaultySite {
    inner: Arc<dyn Site>,
    faults: FaultSwitch,
    control: Option<Mutex<FaultControlFile>>,
}

impl FaultySite {
    /// Wraps a site; nothing goes wrong until a fault is armed.
    pub fn new(inner: Arc<dyn Site>, faults: FaultSwitch) -> Self {
        Self {
            inner,
            faults,
            control: None,
        }
    }

    /// Lets a file switch its faults as well, read before each call.
    #[must_use]
    pub fn with_control_file(self, path: PathBuf) -> Self {
        Self {
            control: Some(Mutex::new(FaultControlFile::new(path))),
            ..self
        }
    }

    /// Returns the handle of its faults.
    pub fn faults(&self) -> &FaultSwitch {
        &self.faults
    }

    fn read_control(&self) -> Result<(), SiteError> {
        let Some(control) = &self.control else {
            return Ok(());
        };
        let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
        control
            .apply_changes(&self.faults)
            .map_err(|error| SiteError::NotSent(error.to_string()))
    }

    /// Makes a call, or does what a fault makes of it. `falsify` turns a
    /// true answer into a false one.
    async fn call_with_fault<T, F>(
        &self,
        call: SiteCallKind,
        real: impl Fn() -> F + Send,
        falsify: impl FnOnce(InjectedFault, T) -> Option<T> + Send,
    ) -> Result<T, SiteError>
    where
        T: Send,
        F: Future<Output = Result<T, SiteError>> + Send,
    {
        self.read_control()?;
        let Some(fault) = self.faults.take_fault_for(call) else {
            return real().await;
        };
        let why = format!("injected fault at {}", call.as_str());
        match fault {
            InjectedFault::NotSent => Err(SiteError::NotSent(why)),
            InjectedFault::Refused => Err(SiteError::Refused(why)),
            InjectedFault::SiteFull => Err(SiteError::SiteFull(why)),
            InjectedFault::LostBefore => Err(SiteError::OutcomeUnknown(why)),
            InjectedFault::LostAfter => {
                // Whatever it answers is lost, an error as well.
                drop(real().await);
                Err(SiteError::OutcomeUnknown(why))
            }
            InjectedFault::Delay(length) => {
                tokio::time::sleep(length).await;
                real().await
            }
            InjectedFault::LateAnswer(length) => {
                let answer = real().await;
                tokio::time::sleep(length).await;
                answer
            }
            InjectedFault::Doubled => {
                drop(real().await);
                real().await
            }
            InjectedFault::Freeze => {
                self.await_thawed(call).await;
                real().await
            }
            InjectedFault::Hang(most) => {
                match tokio::time::timeout(most, self.faults.await_hang_end(call)).await {
                    Ok(()) => real().await,
                    Err(_) => Err(SiteError::OutcomeUnknown(why)),
                }
            }
            InjectedFault::Unknown | InjectedFault::Absent | InjectedFault::NoneIdle => {
                falsify(fault, real().await?).ok_or(SiteError::OutcomeUnknown(why))
            }
        }
    }

    /// Waits until a kind of call is no longer frozen. The control file is read meanwhile.
    async fn await_thawed(&self, call: SiteCallKind) {
        if self.control.is_none() {
            return self.faults.await_thaw(call).await;
        }
        while self.read_control().is_err() || self.faults.is_frozen(call) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Returns the reservations of the wrapped site.
    pub(super) fn inner_reservations(&self) -> Result<&dyn SiteReservations, SiteError> {
        self.inner
            .reservations()
            .ok_or_else(|| SiteError::Unfit("it grants no reservations".to_owned()))
    }

    pub(super) async fn call_without_falsifying<T, F>(
        &self,
        call: SiteCallKind,
        real: impl Fn() -> F + Send,
    ) -> Result<T, SiteError>
    where
        T: Send,
        F: Future<Output = Result<T, SiteError>> + Send,
    {
        self.call_with_fault(call, real, |_, _| None).await
    }
}

fn falsify_status(fault: InjectedFault, mut status: SiteStatus) -> SiteStatus {
    let claim = match fault {
        InjectedFault::NoneIdle => None,
        InjectedFault::Absent => Some(AttemptObservation::Absent),
        _ => Some(AttemptObservation::Unknown(
            "injected fault at status".to_owned(),
        )),
    };
    status.idle = Resources::default();
    if let Some(claim) = claim {
        status
            .attempts
            .values_mut()
            .for_each(|seen| *seen = claim.clone());
    }
    status
}

#[async_trait]
impl SiteQueue for FaultySite {
    fn is_ours_alone(&self) -> bool {
        self.inner.queue().is_ours_alone()
    }

    fn check_option(&self, option: &Arc<str>) -> Option<Result<(), String>> {
        self.inner.queue().check_option(option)
    }

    async fn status(&self, tags: &[AttemptTag]) -> Result<SiteStatus, SiteError> {
        self.call_with_fault(
            SiteCallKind::Status,
            || self.inner.queue().status(tags),
            |fault, status| Some(falsify_status(fault, status)),
        )
        .await
    }

    async fn submit(&self, order: &AttemptSubmitRequest) -> Result<AcceptedAttempt, SiteError> {
        self.call_without_falsifying(SiteCallKind::Submit, || self.inner.queue().submit(order))
            .await
    }

    async fn find_by_tag(&self, tag: AttemptTag) -> Result<TagLookupAnswer, SiteError> {
        self.call_without_falsifying(SiteCallKind::FindByTag, || {
            self.inner.queue().find_by_tag(tag)
        })
        .await
    }

    async fn cancel(&self, tag: AttemptTag, lrm_id: Option<&LrmId>) -> Result<(), SiteError> {
        self.call_without_falsifying(SiteCallKind::Cancel, || {
            self.inner.queue().cancel(tag, lrm_id)
        })
        .await
    }

    async fn withdraw(&self, tag: AttemptTag, lrm_id: &LrmId) -> Result<(), SiteError> {
        self.call_without_falsifying(SiteCallKind::Cancel, || {
            self.inner.queue().withdraw(tag, lrm_id)
        })
        .await
    }

    async fn remove_attempt(&self, tag: AttemptTag) -> Result<(), SiteError> {
        self.call_without_falsifying(SiteCallKind::RemoveAttempt, || {
            self.inner.queue().remove_attempt(tag)
        })
        .await
    }

    async fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError> {
        self.call_without_falsifying(SiteCallKind::ListAttempts, || {
            self.inner.queue().list_attempts()
        })
        .await
    }
}

#[async_trait]
impl Gate for FaultySite {
    async fn decide_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        self.call_without_falsifying(SiteCallKind::DecideGate, || {
            self.inner.gate().decide_gate(tag, decision)
        })
        .await
    }
}

#[async_trait]
impl SiteFiles for FaultySite {
    async fn inspect(&self, place: &FilePlace) -> Result<InspectedFile, SiteError> {
        self.call_without_falsifying(SiteCallKind::Inspect, || self.inner.files().inspect(place))
            .await
    }

    fn read_so_far(&self, place: &FilePlace) -> Option<InspectionProgress> {
        self.inner.files().read_so_far(place)
    }

    async fn stamp(&self, place: &FilePlace) -> Result<Option<FileStamp>, SiteError> {
        self.call_without_falsifying(SiteCallKind::Read, || self.inner.files().stamp(place))
            .await
    }

    async fn has_content(&self, digest: Digest) -> Result<bool, SiteError> {
        self.call_without_falsifying(SiteCallKind::HasContent, || {
            self.inner.files().has_content(digest)
        })
        .await
    }

    async fn delete_content(&self, digest: Digest) -> Result<(), SiteError> {
        self.call_without_falsifying(SiteCallKind::DeleteContent, || {
            self.inner.files().delete_content(digest)
        })
        .await
    }

    async fn list(&self, place: &FilePlace) -> Result<Option<DirectoryListing>, SiteError> {
        self.call_without_falsifying(SiteCallKind::Read, || self.inner.files().list(place))
            .await
    }

    async fn read(
        &self,
        what: &ReadableFile,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError> {
        self.call_without_falsifying(SiteCallKind::Read, || {
            self.inner.files().read(what, offset, limit)
        })
        .await
    }

    async fn upload(&self, step: &UploadStep) -> Result<(), SiteError> {
        self.call_without_falsifying(SiteCallKind::Upload, || self.inner.files().upload(step))
            .await
    }
}

#[async_trait]
impl SiteCopies for FaultySite {
    async fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError> {
        self.call_without_falsifying(SiteCallKind::StartCopy, || {
            self.inner.copies().start_copy(order)
        })
        .await
    }

    async fn copy_status(&self, order: &CopyRequest) -> Result<CopyStatus, SiteError> {
        self.call_without_falsifying(SiteCallKind::CopyStatus, || {
            self.inner.copies().copy_status(order)
        })
        .await
    }

    async fn stop_copy(&self, order: &CopyRequest, discard: bool) -> Result<(), SiteError> {
        self.call_without_falsifying(SiteCallKind::StopCopy, || {
            self.inner.copies().stop_copy(order, discard)
        })
        .await
    }
}

#[async_trait]
impl SiteMonitor for FaultySite {
    async fn describe(&self) -> Result<SiteDescription, SiteError> {
        self.call_without_falsifying(SiteCallKind::Describe, || self.inner.monitor().describe())
            .await
    }

    async fn round_trip(&self, to: &HostName) -> Result<DurationUs, SiteError> {
        self.call_without_falsifying(SiteCallKind::RoundTrip, || {
            self.inner.monitor().round_trip(to)
        })
        .await
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.inner.monitor().changes()
    }

    fn trouble(&self) -> Option<String> {
        self.inner.monitor().trouble()
    }
}

impl Site for FaultySite {
    fn name(&self) -> &SiteName {
        self.inner.name()
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
        self.inner
            .reservations()
            .map(|_| self as &dyn SiteReservations)
    }
}
