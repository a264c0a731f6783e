//! The committed state, as everybody may read it.

use std::sync::Arc;

use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::{
    ComponentIndex, Digest, JobId, LogicalName, ReservationName, Seq, SiteName,
};
use cospan_domain::job::demands::{ComponentHolding, list_holdings, needed_content};
use cospan_domain::job::job_state::Job;
use cospan_domain::site::joint_reservation::JointReservation;
use cospan_domain::site::shared_reservation::SharedReservation;
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::transfer::copy_state::CopyRecord;
use cospan_domain::units::{Bytes, Timestamp};
use imbl::{OrdMap, OrdSet};

use super::JournalChange;

/// The committed state at one position of the journal: immutable, and cheap to keep. Accepted work
/// is here before its client has the answer.
#[derive(Debug, Clone, Default)]
pub struct CommittedView {
    /// The view has everything up to here, and nothing after.
    pub seq: Seq,
    /// The first job id that was never reserved.
    pub next_id: JobId,
    /// Jobs that are not archived.
    pub jobs: OrdMap<JobId, Arc<Job>>,
    /// Records of sites: operator's commands, breaker, notifications owed.
    pub sites: OrdMap<SiteName, Arc<SiteRecord>>,
    /// Copies of content at sites.
    pub copies: OrdMap<(Digest, SiteName), Arc<CopyRecord>>,
    /// The catalogue of logical files.
    pub files: OrdMap<LogicalName, Arc<FileRecord>>,
    /// Processors that jobs have or will claim at each site; derived from `jobs`.
    pub holdings: OrdMap<SiteName, OrdMap<(JobId, ComponentIndex), Arc<ComponentHolding>>>,
    /// Jobs that need content at a site; derived from `jobs`.
    pub needs: OrdMap<(Digest, SiteName), OrdSet<JobId>>,
    /// Content that jobs need at each site, there or still to come; derived from `jobs`.
    pub staged: OrdMap<SiteName, NeededContents>,
    /// Jobs whose end is still to be reported to somebody; derived from `jobs`.
    pub untold: OrdSet<JobId>,
    /// Copies of chunks, by the file that they are cut from; derived from `copies`.
    pub cuts: OrdMap<Digest, OrdSet<(Digest, SiteName)>>,
    /// Names that stand for content; derived from `files`.
    pub names: OrdMap<Digest, OrdSet<LogicalName>>,
}

/// Content that jobs need at one site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NeededContents {
    /// The size of each.
    pub contents: OrdMap<Digest, Bytes>,
    /// The sum of the sizes.
    pub bytes: Bytes,
}

impl CommittedView {
    /// Finds the shared reservation of this name, and its site. One that is over is returned only
    /// if there is no other.
    pub fn shared_reservation(
        &self,
        name: &ReservationName,
        now: Timestamp,
    ) -> Option<(&SiteName, &SharedReservation)> {
        let named = self.sites.iter();
        let named =
            named.filter_map(|(site, record)| Some((site, record.shared_reservation_named(name)?)));
        named.min_by_key(|(_, shared)| shared.is_over(now))
    }

    /// Finds the shared reservation of this name at all of its sites.
    pub fn joint_reservation_named(
        &self,
        name: &ReservationName,
        now: Timestamp,
    ) -> Option<JointReservation<'_>> {
        let (site, shared) = self.shared_reservation(name, now)?;
        Some(JointReservation::around_part(site, shared, &|site| {
            self.site_record(site)
        }))
    }

    /// The durable record of a site.
    pub fn site_record(&self, site: &SiteName) -> Option<&SiteRecord> {
        self.sites.get(site).map(|record| &**record)
    }

    /// Applies one committed change.
    pub fn apply_change(&mut self, change: &JournalChange) {
        match change {
            JournalChange::NewJobs(jobs) => jobs.iter().for_each(|job| {
                self.jobs.insert(job.id, job.clone());
                self.update_by_job(None, Some(job));
            }),
            JournalChange::Job { old, new, .. } => {
                self.jobs.insert(new.id, new.clone());
                self.update_by_job(Some(old), Some(new));
            }
            JournalChange::JobArchived { job, .. } => {
                self.jobs.remove(&job.id);
                self.update_by_job(Some(job), None);
            }
            JournalChange::Site { new, .. } => {
                self.sites.insert(new.site.clone(), new.clone());
            }
            JournalChange::Copy { key, new, .. } => {
                let old = match new {
                    Some(copy) => self.copies.insert(key.clone(), copy.clone()),
                    None => self.copies.remove(key),
                };
                self.update_chunk_copies(key, old.as_deref(), new.as_deref());
            }
            JournalChange::File { name, new, .. } => {
                let old = match new {
                    Some(file) => self.files.insert(name.clone(), file.clone()),
                    None => self.files.remove(name),
                };
                self.update_content_names(old.as_deref(), new.as_deref());
            }
            JournalChange::IdsReserved { next } => self.next_id = *next,
            JournalChange::Swept(_) | JournalChange::Barrier => {}
        }
    }

    /// Returns the same state with everything derived computed anew.
    pub fn recompute_derived_state(&self) -> CommittedView {
        let mut fresh = CommittedView {
            holdings: OrdMap::new(),
            needs: OrdMap::new(),
            staged: OrdMap::new(),
            names: OrdMap::new(),
            cuts: OrdMap::new(),
            untold: OrdSet::new(),
            ..self.clone()
        };
        self.jobs
            .values()
            .for_each(|job| fresh.update_by_job(None, Some(job)));
        self.files
            .values()
            .for_each(|file| fresh.update_content_names(None, Some(file)));
        self.copies
            .iter()
            .for_each(|(key, copy)| fresh.update_chunk_copies(key, None, Some(copy)));
        fresh
    }

    /// Returns true if everything derived equals a fresh fold.
    pub fn is_derived_state_correct(&self) -> bool {
        let fresh = self.recompute_derived_state();
        fresh.holdings == self.holdings
            && fresh.needs == self.needs
            && fresh.staged == self.staged
            && fresh.names == self.names
            && fresh.cuts == self.cuts
            && fresh.untold == self.untold
    }

    fn update_by_job(&mut self, old: Option<&Arc<Job>>, new: Option<&Arc<Job>>) {
        let owed = old.is_some_and(|job| job.has_unsent_messages());
        let owes = new.is_some_and(|job| job.has_unsent_messages());
        if let Some(job) = old.or(new).filter(|_| owed != owes) {
            if owes {
                self.untold.insert(job.id);
            } else {
                self.untold.remove(&job.id);
            }
        }
        let old = old.filter(|job| !job.components.is_empty()).cloned();
        let new = new.filter(|job| !job.components.is_empty()).cloned();
        if old.is_none() && new.is_none() {
            return;
        }
        self.update_holdings(old.as_deref(), new.as_deref());
        self.update_needed_contents(old.as_deref(), new.as_deref());
    }

    fn update_holdings(&mut self, old: Option<&Job>, new: Option<&Job>) {
        let before = old.map(list_holdings).unwrap_or_default();
        let after = new.map(list_holdings).unwrap_or_default();
        let Some(id) = old.or(new).map(|job| job.id) else {
            return;
        };
        for gone in before.iter().filter(|holding| !after.contains(holding)) {
            if let Some(site) = self.holdings.get_mut(&gone.site) {
                site.remove(&(id, gone.component));
                if site.is_empty() {
                    self.holdings.remove(&gone.site);
                }
            }
        }
        for come in after
            .into_iter()
            .filter(|holding| !before.contains(holding))
        {
            let site = self.holdings.entry(come.site.clone()).or_default();
            site.insert((id, come.component), Arc::new(come));
        }
    }

    fn update_needed_contents(&mut self, old: Option<&Job>, new: Option<&Job>) {
        let before = old.map(needed_content).unwrap_or_default();
        let after = new.map(needed_content).unwrap_or_default();
        let Some(id) = old.or(new).map(|job| job.id) else {
            return;
        };
        for (content, site) in before.difference(&after) {
            let gone = (content.digest, site.clone());
            if let Some(users) = self.needs.get_mut(&gone) {
                users.remove(&id);
                if users.is_empty() {
                    self.needs.remove(&gone);
                    self.remove_needed_content(content.digest, site);
                }
            }
        }
        for (content, site) in after.difference(&before) {
            let users = self
                .needs
                .entry((content.digest, site.clone()))
                .or_default();
            if users.is_empty() {
                let staged = self.staged.entry(site.clone()).or_default();
                staged.contents.insert(content.digest, content.size);
                staged.bytes = staged.bytes + content.size;
            }
            users.insert(id);
        }
    }

    fn remove_needed_content(&mut self, digest: Digest, site: &SiteName) {
        let Some(staged) = self.staged.get_mut(site) else {
            return;
        };
        let size = staged.contents.remove(&digest).unwrap_or_default();
        staged.bytes = Bytes(staged.bytes.0.saturating_sub(size.0));
        if staged.contents.is_empty() {
            self.staged.remove(site);
        }
    }

    fn update_chunk_copies(
        &mut self,
        key: &(Digest, SiteName),
        old: Option<&CopyRecord>,
        new: Option<&CopyRecord>,
    ) {
        let before = old.and_then(|copy| Some(copy.chunk?.of.digest));
        let after = new.and_then(|copy| Some(copy.chunk?.of.digest));
        if before == after {
            return;
        }
        if let Some(file) = before
            && let Some(cuts) = self.cuts.get_mut(&file)
        {
            cuts.remove(key);
            if cuts.is_empty() {
                self.cuts.remove(&file);
            }
        }
        if let Some(file) = after {
            self.cuts.entry(file).or_default().insert(key.clone());
        }
    }

    fn update_content_names(&mut self, old: Option<&FileRecord>, new: Option<&FileRecord>) {
        let before = old.and_then(|file| Some((file, file.entry.as_ref()?.content.digest)));
        if let Some((file, digest)) = before
            && let Some(names) = self.names.get_mut(&digest)
        {
            names.remove(&file.name);
            if names.is_empty() {
                self.names.remove(&digest);
            }
        }
        let after = new.and_then(|file| Some((file, file.entry.as_ref()?.content.digest)));
        if let Some((file, digest)) = after {
            self.names
                .entry(digest)
                .or_default()
                .insert(file.name.clone());
        }
    }
}
