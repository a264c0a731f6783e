//! A site that lives in memory and follows the runtime's clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cospan_domain::acquisition::{PartitionAccount, SitePartitions};
use cospan_domain::ids::{AttemptTag, Digest, HostName, LrmId, SiteName};
use cospan_domain::labels::SiteLabels;
use cospan_domain::resources::Resources;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::{Bytes, DurationUs, Timestamp};
use cospan_sites::port::{
    AcceptedAttempt, AttemptAtGate, AttemptObservation, AttemptSubmitRequest, BatchSystemSilence,
    CopyBlame, CopyRequest, CopyStatus, ExitCause, FileExcerpt, Gate, GateDecision, GateState,
    InspectedFile, PayloadExit, ReadableFile, Site, SiteCapabilities, SiteCopies, SiteDescription,
    SiteError, SiteFiles, SiteMonitor, SiteQueue, SiteStatus, TagLookupAnswer,
};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What a test may read and set.
pub(crate) struct FakeSiteState {
    /// It answers.
    pub(crate) up: bool,
    /// It takes status queries, and never answers one.
    pub(crate) hanging: bool,
    /// Status queries that it took so.
    pub(crate) hung: usize,
    /// Its batch system does not answer: only files of attempts are read.
    pub(crate) half_silent: bool,
    /// Nobody but us uses it.
    pub(crate) ours_alone: bool,
    /// Its batch system takes options, but for this one.
    pub(crate) refused_option: Option<&'static str>,
    /// Payloads that do nothing run here; without it every submission is refused.
    pub(crate) runs: bool,
    /// So many submissions do not reach it.
    pub(crate) unsent: usize,
    /// How long a submission takes.
    pub(crate) submit_time: Duration,
    /// What is ours there is not as it must be.
    pub(crate) broken: Option<&'static str>,
    /// It answers, and nothing can be begun there.
    pub(crate) trouble: Option<&'static str>,
    /// Its processors, all idle.
    pub(crate) processors: u32,
    /// Whom jobs ask here that do not say it themselves.
    pub(crate) lane: Option<PartitionAccount>,
    /// How long a message takes to a host and back; `None`: it never answers.
    pub(crate) round_trips: BTreeMap<HostName, Option<DurationUs>>,
    /// Hosts that it was told to measure the way to, and when.
    pub(crate) measured: Vec<(HostName, Instant)>,
    /// Files that can be inspected here.
    pub(crate) files: BTreeMap<FilePlace, InspectedFile>,
    /// Files that are read for ever.
    pub(crate) endless: BTreeSet<FilePlace>,
    /// Those of them that are being read.
    pub(crate) inspecting: Vec<FilePlace>,
    /// Contents of its store.
    pub(crate) store: BTreeSet<Digest>,
    /// How long a copy to here takes.
    pub(crate) copy_time: Duration,
    /// How long a deletion takes.
    pub(crate) delete_time: Duration,
    /// Copies from there fail, and so.
    pub(crate) failing: BTreeMap<SiteName, CopyBlame>,
    /// Its disk is full: it refuses orders to copy.
    pub(crate) full: bool,
    /// Copies receive nothing any more.
    pub(crate) stalled: bool,
    /// Orders that began a copy, in order.
    pub(crate) begun: Vec<CopyRequest>,
    /// All orders to copy, also those that joined one.
    pub(crate) start_calls: usize,
    /// Deletions that were carried out.
    pub(crate) deletions: usize,
    /// Partial data that was discarded, by nonce.
    pub(crate) discarded: BTreeSet<String>,
    /// What it says of attempts.
    pub(crate) attempts: BTreeMap<AttemptTag, AttemptObservation>,
    /// Gates that it was told to open, in order.
    pub(crate) opened: Vec<AttemptTag>,
    /// What attempts left that are over, and whether it can be removed.
    pub(crate) left: BTreeMap<AttemptTag, bool>,
    copies: BTreeMap<String, FakeCopy>,
}

#[derive(Debug, Clone)]
struct FakeCopy {
    order: CopyRequest,
    began: Instant,
    stopped: bool,
}

/// The site.
pub(crate) struct FakeSite {
    name: SiteName,
    /// Told whenever the site is about to answer that a copy is whole.
    pub(crate) whole: Notify,
    inside: Mutex<FakeSiteState>,
}

impl FakeSite {
    pub(crate) fn new(name: &SiteName) -> Self {
        let inside = FakeSiteState {
            up: true,
            hanging: false,
            half_silent: false,
            ours_alone: false,
            refused_option: None,
            broken: None,
            trouble: None,
            hung: 0,
            runs: false,
            unsent: 0,
            submit_time: Duration::ZERO,
            processors: 0,
            lane: None,
            round_trips: BTreeMap::new(),
            measured: Vec::new(),
            files: BTreeMap::new(),
            endless: BTreeSet::new(),
            inspecting: Vec::new(),
            store: BTreeSet::new(),
            copy_time: Duration::from_secs(10),
            delete_time: Duration::ZERO,
            failing: BTreeMap::new(),
            full: false,
            stalled: false,
            begun: Vec::new(),
            start_calls: 0,
            deletions: 0,
            discarded: BTreeSet::new(),
            attempts: BTreeMap::new(),
            opened: Vec::new(),
            left: BTreeMap::new(),
            copies: BTreeMap::new(),
        };
        Self {
            name: name.clone(),
            whole: Notify::new(),
            inside: Mutex::new(inside),
        }
    }

    pub(crate) fn lock_state(&self) -> MutexGuard<'_, FakeSiteState> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a call sees, if the site answers.
    fn lock_if_answering(&self) -> Result<MutexGuard<'_, FakeSiteState>, SiteError> {
        let mut inside = self.lock_state();
        if !inside.up {
            return Err(SiteError::NotSent("it is down".into()));
        }
        if let Some(why) = inside.broken {
            return Err(SiteError::OutOfOrder(why.into()));
        }
        inside.finish_due_copies();
        Ok(inside)
    }
}

impl FakeSiteState {
    /// Copies whose time has come are whole now.
    fn finish_due_copies(&mut self) {
        for copy in self.copies.values() {
            let over = copy.began.elapsed() >= self.copy_time && !self.stalled && !copy.stopped;
            if over && !self.failing.contains_key(&copy.order.source.site) {
                self.store.insert(copy.order.content.digest);
            }
        }
        let store = &self.store;
        self.copies
            .retain(|_, copy| !store.contains(&copy.order.content.digest));
    }

    fn status_of_copy(&self, order: &CopyRequest) -> CopyStatus {
        if self.store.contains(&order.content.digest) {
            return CopyStatus::Complete;
        }
        let Some(copy) = self.copies.get(&order.nonce) else {
            return CopyStatus::Absent;
        };
        let failed = |blame| CopyStatus::Failed {
            blame,
            detail: "it was not what it should be".into(),
        };
        match self.failing.get(&copy.order.source.site) {
            Some(blame) => failed(*blame),
            None if copy.stopped => failed(CopyBlame::Process),
            None if self.stalled => CopyStatus::Running { done: Bytes(1) },
            None => {
                let share = copy.began.elapsed().as_secs_f64() / self.copy_time.as_secs_f64();
                let done = order.content.size.0 as f64 * share;
                CopyStatus::Running {
                    done: Bytes(done as u64),
                }
            }
        }
    }
}

/// The reading of an endless file; it ends when this is dropped.
struct EndlessReading<'a>(&'a FakeSite, &'a FilePlace);

impl Drop for EndlessReading<'_> {
    fn drop(&mut self) {
        let inspecting = &mut self.0.lock_state().inspecting;
        if let Some(at) = inspecting.iter().position(|place| place == self.1) {
            inspecting.remove(at);
        }
    }
}

#[async_trait]
impl SiteQueue for FakeSite {
    fn is_ours_alone(&self) -> bool {
        self.lock_state().ours_alone
    }

    fn check_option(&self, option: &Arc<str>) -> Option<Result<(), String>> {
        let refused = self.lock_state().refused_option?;
        Some(if **option == *refused {
            Err(format!("{option} is not passed on"))
        } else {
            Ok(())
        })
    }

    async fn status(&self, _: &[AttemptTag]) -> Result<SiteStatus, SiteError> {
        if self.lock_state().hanging {
            self.lock_state().hung += 1;
            std::future::pending::<()>().await;
        }
        let inside = self.lock_if_answering()?;
        let attempts = inside.attempts.clone();
        let idle = Resources::processors(inside.processors);
        let half_silent = inside.half_silent;
        Ok(SiteStatus {
            site_clock: None,
            idle,
            idle_in: BTreeMap::new(),
            ebbs: Vec::new(),
            attempts,
            silence: half_silent.then(|| BatchSystemSilence {
                age: None,
                why: "frozen".into(),
            }),
        })
    }

    async fn submit(&self, order: &AttemptSubmitRequest) -> Result<AcceptedAttempt, SiteError> {
        let time = self.lock_if_answering()?.submit_time;
        tokio::time::sleep(time).await;
        let mut inside = self.lock_if_answering()?;
        if inside.unsent > 0 {
            inside.unsent -= 1;
            return Err(SiteError::NotSent("the way there is blocked".into()));
        }
        if !inside.runs {
            return Err(SiteError::Refused("it keeps files only".into()));
        }
        let host = Arc::from("n1");
        let at = Timestamp(1);
        let at_gate = AttemptAtGate {
            host,
            since: at,
            held_at: at,
        };
        inside
            .attempts
            .insert(order.tag, AttemptObservation::Ready(at_gate));
        Ok(AcceptedAttempt {
            lrm_id: LrmId::new("7").expect("a number"),
        })
    }

    async fn find_by_tag(&self, _: AttemptTag) -> Result<TagLookupAnswer, SiteError> {
        Err(SiteError::Refused("it keeps files only".into()))
    }

    async fn cancel(&self, _: AttemptTag, _: Option<&LrmId>) -> Result<(), SiteError> {
        Ok(())
    }

    async fn withdraw(&self, _: AttemptTag, _: &LrmId) -> Result<(), SiteError> {
        Ok(())
    }

    async fn remove_attempt(&self, tag: AttemptTag) -> Result<(), SiteError> {
        let mut inside = self.lock_if_answering()?;
        if inside.left.get(&tag) == Some(&false) {
            return Err(SiteError::OutcomeUnknown("it cannot be removed".into()));
        }
        inside.left.remove(&tag);
        Ok(())
    }

    async fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError> {
        Ok(self.lock_if_answering()?.left.keys().copied().collect())
    }
}

#[async_trait]
impl Gate for FakeSite {
    async fn decide_gate(
        &self,
        tag: AttemptTag,
        what: &GateDecision,
    ) -> Result<GateState, SiteError> {
        let mut inside = self.lock_if_answering()?;
        match what {
            GateDecision::Go(_) => {
                inside.opened.push(tag);
                if inside.runs {
                    let cause = ExitCause::Code(0);
                    let at = Timestamp(2);
                    let exit = PayloadExit {
                        cause,
                        began_at: at,
                        ended_at: at,
                    };
                    inside
                        .attempts
                        .insert(tag, AttemptObservation::Exited(exit));
                }
                Ok(GateState::Opened)
            }
            GateDecision::Void if inside.left.contains_key(&tag) => Ok(GateState::Voided),
            GateDecision::Void => Err(SiteError::Refused("it keeps files only".into())),
        }
    }
}

#[async_trait]
impl SiteFiles for FakeSite {
    async fn inspect(&self, place: &FilePlace) -> Result<InspectedFile, SiteError> {
        let is_endless = self.lock_if_answering()?.endless.contains(place);
        if is_endless {
            self.lock_state().inspecting.push(place.clone());
            let _reading = EndlessReading(self, place);
            std::future::pending::<()>().await;
        }
        let found = self.lock_if_answering()?.files.get(place).cloned();
        found.ok_or_else(|| SiteError::Refused("there is no such file".into()))
    }

    async fn has_content(&self, digest: Digest) -> Result<bool, SiteError> {
        Ok(self.lock_if_answering()?.store.contains(&digest))
    }

    async fn delete_content(&self, digest: Digest) -> Result<(), SiteError> {
        let time = self.lock_if_answering()?.delete_time;
        tokio::time::sleep(time).await;
        let mut inside = self.lock_if_answering()?;
        inside.deletions += 1;
        inside.store.remove(&digest);
        Ok(())
    }

    async fn read(&self, _: &ReadableFile, _: Bytes, _: u32) -> Result<FileExcerpt, SiteError> {
        Err(SiteError::Refused("it is not read here".into()))
    }
}

#[async_trait]
impl SiteCopies for FakeSite {
    async fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError> {
        let mut inside = self.lock_if_answering()?;
        inside.start_calls += 1;
        if inside.full {
            return Err(SiteError::Refused("No space left on device".into()));
        }
        if inside.store.contains(&order.content.digest) {
            return Ok(());
        }
        if inside
            .copies
            .get(&order.nonce)
            .is_none_or(|copy: &FakeCopy| copy.stopped)
        {
            let copy = FakeCopy {
                order: order.clone(),
                began: Instant::now(),
                stopped: false,
            };
            inside.copies.insert(order.nonce.clone(), copy);
            inside.begun.push(order.clone());
        }
        Ok(())
    }

    async fn copy_status(&self, order: &CopyRequest) -> Result<CopyStatus, SiteError> {
        let status = self.lock_if_answering()?.status_of_copy(order);
        if status == CopyStatus::Complete {
            self.whole.notify_one();
        }
        Ok(status)
    }

    async fn stop_copy(&self, order: &CopyRequest, discard: bool) -> Result<(), SiteError> {
        let mut inside = self.lock_if_answering()?;
        if let Some(copy) = inside.copies.get_mut(&order.nonce) {
            copy.stopped = true;
        }
        if discard {
            inside.copies.remove(&order.nonce);
            inside.discarded.insert(order.nonce.clone());
        }
        Ok(())
    }
}

#[async_trait]
impl SiteMonitor for FakeSite {
    async fn describe(&self) -> Result<SiteDescription, SiteError> {
        let inside = self.lock_if_answering()?;
        if inside.half_silent {
            return Err(SiteError::NotSent("frozen".into()));
        }
        let all = Resources::processors(inside.processors);
        Ok(SiteDescription {
            total: all.clone(),
            largest_component: all,
            labels: SiteLabels::default(),
            capabilities: SiteCapabilities::default(),
            lanes: inside.lane.clone().map(|own| SitePartitions {
                own,
                ..SitePartitions::default()
            }),
            manager: "none".into(),
        })
    }

    async fn round_trip(&self, to: &HostName) -> Result<DurationUs, SiteError> {
        self.lock_state()
            .measured
            .push((to.clone(), Instant::now()));
        let known = self.lock_if_answering()?.round_trips.get(to).copied();
        match known {
            Some(Some(round_trip)) => Ok(round_trip),
            Some(None) => std::future::pending().await,
            None => Err(SiteError::OutcomeUnknown("100% packet loss".into())),
        }
    }

    fn trouble(&self) -> Option<String> {
        self.lock_state().trouble.map(str::to_owned)
    }
}

impl Site for FakeSite {
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
