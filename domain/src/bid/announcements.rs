//! The memory that a site keeps of jobs announced to it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use crate::ids::JobId;

/// Requirements by job, of a bounded number of the latest jobs.
#[derive(Debug, Clone)]
pub struct JobAnnouncements<R> {
    known: BTreeMap<JobId, R>,
    /// Jobs in order of arrival; some may be forgotten already.
    order: VecDeque<JobId>,
    most: usize,
}

/// The reason why a site cannot answer an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnouncementRefusal {
    /// The site does not know the requirements, and asks for them.
    Unknown,
    /// The site knows other requirements under the same id.
    Conflict,
}

impl<R: PartialEq + Clone> JobAnnouncements<R> {
    /// Makes a memory for at most `most` jobs (at least one).
    pub fn new(most: usize) -> Self {
        Self {
            known: BTreeMap::new(),
            order: VecDeque::new(),
            most: most.max(1),
        }
    }

    /// Takes the announcement of a job, with its requirements or by its id alone, and returns the
    /// requirements that count.
    ///
    /// # Errors
    /// See [`AnnouncementRefusal`]; what was known stays.
    pub fn record_announcement(
        &mut self,
        job: JobId,
        requirements: Option<&R>,
    ) -> Result<&R, AnnouncementRefusal> {
        let Some(new) = requirements else {
            return self.known.get(&job).ok_or(AnnouncementRefusal::Unknown);
        };
        if self.known.len() >= self.most && !self.known.contains_key(&job) {
            self.make_room();
        }
        match self.known.entry(job) {
            Entry::Occupied(known) if known.get() != new => Err(AnnouncementRefusal::Conflict),
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                self.order.push_back(job);
                Ok(place.insert(new.clone()))
            }
        }
    }

    /// Forgets a job that went elsewhere, or is not wanted any more.
    pub fn forget(&mut self, job: JobId) {
        self.known.remove(&job);
        if self.order.len() > 2 * self.most {
            let known = &self.known;
            self.order.retain(|job| known.contains_key(job));
        }
    }

    /// Returns the number of jobs remembered.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns true if no job is remembered.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn make_room(&mut self) {
        while self.known.len() >= self.most {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_announced_once_is_known_by_its_id() {
        let mut desk = JobAnnouncements::new(2);
        assert_eq!(
            desk.record_announcement(JobId(1), None),
            Err(AnnouncementRefusal::Unknown),
            "it asks for them"
        );
        assert_eq!(desk.record_announcement(JobId(1), Some(&"six")), Ok(&"six"));
        assert_eq!(desk.record_announcement(JobId(1), None), Ok(&"six"));
        assert_eq!(desk.record_announcement(JobId(1), Some(&"six")), Ok(&"six"));
        desk.forget(JobId(1));
        assert_eq!(
            desk.record_announcement(JobId(1), None),
            Err(AnnouncementRefusal::Unknown)
        );
    }

    #[test]
    fn an_id_announced_with_other_requirements_is_refused_and_the_first_stay() {
        let mut desk = JobAnnouncements::new(2);
        assert_eq!(desk.record_announcement(JobId(1), Some(&"six")), Ok(&"six"));
        assert_eq!(
            desk.record_announcement(JobId(1), Some(&"seven")),
            Err(AnnouncementRefusal::Conflict)
        );
        assert_eq!(desk.record_announcement(JobId(1), None), Ok(&"six"));
    }

    #[test]
    fn a_site_forgets_the_oldest_and_never_grows() {
        let mut desk = JobAnnouncements::new(2);
        for job in 0..100 {
            assert_eq!(desk.record_announcement(JobId(job), Some(&job)), Ok(&job));
            if job % 3 == 0 {
                desk.forget(JobId(job));
            }
            assert!(desk.len() <= 2 && desk.order.len() <= 5);
        }
        assert_eq!(desk.record_announcement(JobId(98), None), Ok(&98));
        assert_eq!(
            desk.record_announcement(JobId(1), None),
            Err(AnnouncementRefusal::Unknown)
        );
    }
}
