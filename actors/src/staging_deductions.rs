//! Input of jobs that got a proposal and have not decided. It counts against the room for copies at
//! the sites until they have; otherwise two plans made at the same time would share it.
//!
//! A deduction belongs to the future that takes a plan to its job. A job's decision is in the view
//! before its answer is here, so input is always counted by one of the two. An actor that dies
//! answers nothing, and may have written what it decided: then the journal is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, SiteName};
use cospan_domain::placed::Placement;
use cospan_domain::units::Bytes;
use imbl::OrdMap;

use actix::Addr;

use crate::actor_settings::ActorSettings;
use crate::committed::{CommittedView, JournalChange, NeededContents};
use crate::journal::{AppendChange, JournalActor};

/// All deductions of room for copies.
#[derive(Debug)]
pub struct StagingDeductions {
    settings: Arc<ActorSettings>,
    ledger: Mutex<StagingLedger>,
}

#[derive(Debug, Default)]
struct StagingLedger {
    next: u64,
    open: BTreeMap<u64, Vec<(SiteName, Content)>>,
    sites: BTreeMap<SiteName, SiteStagingDeductions>,
}

/// The room that is deducted at one site.
#[derive(Debug, Default)]
struct SiteStagingDeductions {
    /// The contents, each with the number of deductions that count on it.
    contents: OrdMap<Content, u32>,
    /// The content that jobs needed there when this was last added up.
    needed: OrdMap<Digest, Bytes>,
    /// The bytes that the deductions take beside that: kept, as there may be as many as jobs.
    beside: Bytes,
}

/// Content that is staged at one site for jobs, and for those that may come to need it any moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct SiteStagedContent {
    /// The sum of the bytes.
    bytes: Bytes,
    needed: OrdMap<Digest, Bytes>,
    promised: OrdMap<Content, u32>,
}

/// The staged content of every site where room is bounded.
#[derive(Debug, Default)]
pub(crate) struct StagedBySite(BTreeMap<SiteName, StagedWithBudget>);

#[derive(Debug)]
struct StagedWithBudget {
    there: SiteStagedContent,
    /// The most that copies for jobs may take.
    budget: Bytes,
}

/// The answer to a check for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StagingRoomCheck {
    pub(crate) is_there: bool,
    /// The number of contents that were looked at to find out.
    pub(crate) looks: u32,
}

impl SiteStagingDeductions {
    /// Follows the needs of jobs; returns how many contents had to be looked at for that.
    fn update_needs(&mut self, needed: &OrdMap<Digest, Bytes>) -> u32 {
        if self.needed.ptr_eq(needed) || (self.needed.is_empty() && needed.is_empty()) {
            return 0;
        }
        self.needed = needed.clone();
        let absent = self
            .contents
            .keys()
            .filter(|content| !needed.contains_key(&content.digest));
        self.beside = absent.fold(Bytes(0), |sum, content| sum + content.size);
        u32::try_from(self.contents.len()).unwrap_or(u32::MAX)
    }

    fn add_content(&mut self, content: Content) {
        let promises = self.contents.entry(content).or_default();
        *promises += 1;
        if *promises == 1 && !self.needed.contains_key(&content.digest) {
            self.beside = self.beside + content.size;
        }
    }

    fn remove_content(&mut self, content: Content) {
        let Some(promises) = self.contents.get_mut(&content) else {
            return;
        };
        *promises -= 1;
        if *promises == 0 {
            self.contents.remove(&content);
            if !self.needed.contains_key(&content.digest) {
                self.beside = Bytes(self.beside.0.saturating_sub(content.size.0));
            }
        }
    }
}

/// A deduction; over when it is dropped.
pub(crate) struct StagingDeductionGuard {
    deductions: Arc<StagingDeductions>,
    number: u64,
}

impl StagingDeductions {
    fn lock_deductions(&self) -> MutexGuard<'_, StagingLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StagingLedger {
    /// Returns what is staged at a site, and how many contents were looked at to find out.
    fn staged_at(&mut self, view: &CommittedView, site: &SiteName) -> (SiteStagedContent, u32) {
        let NeededContents {
            contents: needed,
            bytes,
        } = view.staged.get(site).cloned().unwrap_or_default();
        let Some(reserved) = self.sites.get_mut(site) else {
            return (
                SiteStagedContent {
                    bytes,
                    needed,
                    promised: OrdMap::new(),
                },
                0,
            );
        };
        let looks = reserved.update_needs(&needed);
        let bytes = bytes + reserved.beside;
        let promised = reserved.contents.clone();
        (
            SiteStagedContent {
                bytes,
                needed,
                promised,
            },
            looks,
        )
    }
}

impl SiteStagedContent {
    fn has_staged(&self, content: &Content) -> bool {
        self.needed.contains_key(&content.digest) || self.promised.contains_key(content)
    }
}

impl StagedBySite {
    /// Returns what copies may still take of a site, if that is bounded.
    pub(crate) fn room_left_at(&self, site: &SiteName) -> Option<Bytes> {
        let StagedWithBudget { there, budget } = self.0.get(site)?;
        Some(Bytes(budget.0.saturating_sub(there.bytes.0)))
    }
}

impl cospan_domain::placement::StagedContentLookup for StagedBySite {
    fn has(&self, site: &SiteName, content: &Content) -> bool {
        self.0
            .get(site)
            .is_some_and(|staged| staged.there.has_staged(content))
    }
}

impl StagingDeductionGuard {
    /// Ends the deduction once the job's decision is in the view; `taken` if its answer says that
    /// it is.
    pub(crate) async fn end_once_decided(self, taken: bool, journal: &Addr<JournalActor>) {
        if !taken {
            // Fails only while the process ends.
            let _ = journal.send(AppendChange(JournalChange::Barrier)).await;
        }
    }
}

impl Drop for StagingDeductionGuard {
    fn drop(&mut self) {
        let mut promises = self.deductions.lock_deductions();
        for (site, content) in promises.open.remove(&self.number).unwrap_or_default() {
            if let Some(reserved) = promises.sites.get_mut(&site) {
                reserved.remove_content(content);
                if reserved.contents.is_empty() {
                    promises.sites.remove(&site);
                }
            }
        }
    }
}

impl StagingDeductions {
    /// Begins without any.
    pub(crate) fn new(settings: Arc<ActorSettings>) -> Self {
        Self {
            settings,
            ledger: Mutex::default(),
        }
    }

    /// Deducts room for the input of these placements; `None` where no room is bounded.
    pub(crate) fn deduct_for_placements<'a>(
        self: &Arc<Self>,
        placements: impl Iterator<Item = &'a Placement>,
    ) -> Option<StagingDeductionGuard> {
        let staged = self.inputs_at_bounded_sites(placements);
        if staged.is_empty() {
            return None;
        }
        let mut promises = self.lock_deductions();
        promises.next += 1;
        let number = promises.next;
        for (site, content) in &staged {
            promises
                .sites
                .entry(site.clone())
                .or_default()
                .add_content(*content);
        }
        promises.open.insert(number, staged);
        drop(promises);
        Some(StagingDeductionGuard {
            deductions: self.clone(),
            number,
        })
    }

    /// Returns what copies for jobs take of the sites where that is bounded. Copies that are yet to
    /// be made count, and those for jobs that may come to need them any moment.
    pub(crate) fn staged_everywhere(&self, view: &CommittedView) -> StagedBySite {
        let mut promises = self.lock_deductions();
        let bounded = self
            .settings
            .staging
            .iter()
            .filter_map(|(site, staging)| Some((site, staging.budget?)));
        let staged = bounded.map(|(site, budget)| {
            let (there, _) = promises.staged_at(view, site);
            (site.clone(), StagedWithBudget { there, budget })
        });
        StagedBySite(staged.collect())
    }

    /// Checks that the input of these placements still has room, beside all that has been decided
    /// or deducted since they were planned.
    pub(crate) fn check_room(
        &self,
        view: &CommittedView,
        placements: &[Placement],
    ) -> StagingRoomCheck {
        let mut wanted: BTreeMap<SiteName, BTreeSet<Content>> = BTreeMap::new();
        for (site, content) in self.inputs_at_bounded_sites(placements.iter()) {
            wanted.entry(site).or_default().insert(content);
        }
        let mut room = StagingRoomCheck {
            is_there: true,
            looks: 0,
        };
        let mut promises = self.lock_deductions();
        for (site, contents) in &wanted {
            let (staged, looks) = promises.staged_at(view, site);
            let absent = contents
                .iter()
                .filter(|content| !staged.has_staged(content));
            let absent = absent.fold(Bytes(0), |sum, content| sum + content.size);
            let budget = self.budget_of(site).unwrap_or(Bytes(u64::MAX));
            room.is_there &= absent == Bytes(0) || staged.bytes + absent <= budget;
            room.looks += looks + contents.len() as u32;
        }
        room
    }

    /// Returns the most that copies for jobs may take of a site, if that is bounded.
    fn budget_of(&self, site: &SiteName) -> Option<Bytes> {
        self.settings.staging.get(site)?.budget
    }

    /// Lists the input that is staged at sites where room is bounded.
    fn inputs_at_bounded_sites<'a>(
        &self,
        placements: impl Iterator<Item = &'a Placement>,
    ) -> Vec<(SiteName, Content)> {
        let narrow = placements.filter(|placement| self.budget_of(&placement.site).is_some());
        let staged = narrow.flat_map(|placement| {
            placement
                .sources
                .iter()
                .map(|source| (placement.site.clone(), source.content))
        });
        staged.collect()
    }
}
