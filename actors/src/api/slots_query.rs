//! The times at which a job could start, as the sites that offer reservations report them.

use std::collections::BTreeMap;

use cospan_domain::ids::{JobId, KeyName, SiteName};
use cospan_domain::reservation::{
    CommonStarts, EqualParts, FreeSlot, PossibleStarts, SiteRanking, StartWindow, TimeSpan,
    common_starts, free_processors, possible_starts, reservation_length,
};
use cospan_domain::units::{DurationMs, Timestamp};
use futures_util::future::join_all;

use super::handle::ControlPlane;
use crate::commands::JobSubmission;
use crate::intake::make_job_record;
use crate::reserver::preview_ranking;
use crate::site::free_slots;

/// The most slots of free time that a site is asked for. Beyond the last nothing is known.
const SLOTS_MAX: usize = 10_000;

/// The possible starts, by site and for all parts together.
#[derive(Debug, Clone, Default)]
pub struct PossibleStartOverview {
    /// The answer of each site.
    pub sites: BTreeMap<SiteName, SiteStartsAnswer>,
    /// The times at which all parts could start at once.
    pub together: Vec<CommonStarts>,
}

/// The possible starts, still to be worked out from the sites' answers. That takes long if they are
/// many.
pub type StartComputation = Box<dyn FnOnce() -> PossibleStartOverview + Send>;

/// A site's answer about possible starts.
#[derive(Debug, Clone)]
pub enum SiteStartsAnswer {
    /// The site offers no reservations.
    GrantsNone,
    /// The site did not answer.
    Silent(String),
    /// The times at which the site could start parts, as far as they are known: before `until`, if
    /// there is a limit.
    Told {
        /// Windows of starts, one after the other.
        starts: Vec<PossibleStarts>,
        /// Later starts are not known.
        until: Option<Timestamp>,
    },
}

/// A site's answer about what is free from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FreeProcessorsAnswer {
    /// The site offers no reservations.
    GrantsNone,
    /// The site did not answer.
    Silent(String),
    /// The numbers of free processors over time, as far as they are known: before `until`, if there
    /// is a limit.
    Told {
        /// From each time on so many are free, up to the next.
        steps: Vec<(Timestamp, u32)>,
        /// Free processors then and later are not known.
        until: Option<Timestamp>,
    },
}

enum FreeSlotsAnswer {
    None,
    Silent(String),
    Told(Vec<FreeSlot>, Option<Timestamp>),
}

impl ControlPlane {
    /// The time by which a reservation begins before the reserved start.
    pub fn reservation_lead(&self) -> DurationMs {
        self.shared().settings.job.reservation_lead
    }

    /// Ranks the sites that may reserve a start for a job if it were submitted now with this key,
    /// by component. Empty if the job names no ranking, or would be refused.
    pub async fn rank_reservation_sites(
        &self,
        by: &KeyName,
        mut submission: JobSubmission,
    ) -> Vec<SiteRanking> {
        if self.prepare_submission(0, by, &mut submission).is_err() {
            return Vec::new();
        }
        let job = make_job_record(JobId(0), submission, by.clone(), self.now());
        preview_ranking(self.shared(), &job).await
    }

    /// Works out when parts that run for so long could start within a window, at these sites or
    /// all, if a reservation for them were offered now. Nothing is reserved.
    pub async fn possible_starts_within(
        &self,
        sites: Option<&[SiteName]>,
        parts: &EqualParts,
        window: StartWindow,
    ) -> StartComputation {
        let job = &self.shared().settings.job;
        let lead = job.reservation_lead;
        let none = DurationMs::ZERO;
        let length = reservation_length(none, none, lead, parts.length, job.wall_margin);
        let parts = EqualParts {
            length,
            ..parts.clone()
        };
        let earliest = (window.earliest - lead).max(self.now());
        // Reservations begin earlier than the starts, by the lead.
        let reserved = StartWindow::new(earliest, window.latest - lead);
        let span = TimeSpan::new(earliest, reserved.latest + length);
        let asked = self.shared().sites.keys();
        let asked = asked.filter(|name| sites.is_none_or(|sites| sites.contains(name)));
        let free =
            asked.map(|name| async move { (name.clone(), self.ask_free_slots(name, span).await) });
        let free: BTreeMap<SiteName, FreeSlotsAnswer> = join_all(free).await.into_iter().collect();
        Box::new(move || PossibleStartOverview::from_free_time(&free, &parts, reserved, lead))
    }

    /// Asks what is free at a site from now on, for so long.
    pub async fn ask_free_processors(
        &self,
        name: &SiteName,
        within: DurationMs,
    ) -> FreeProcessorsAnswer {
        let now = self.now();
        let window = StartWindow::new(now, now + within);
        match self
            .ask_free_slots(name, TimeSpan::new(now, now + within + DurationMs(1)))
            .await
        {
            FreeSlotsAnswer::None => FreeProcessorsAnswer::GrantsNone,
            FreeSlotsAnswer::Silent(why) => FreeProcessorsAnswer::Silent(why),
            FreeSlotsAnswer::Told(slots, until) => {
                let mut steps = free_processors(&slots, window);
                steps.retain(|(from, _)| until.is_none_or(|until| *from < until));
                FreeProcessorsAnswer::Told { steps, until }
            }
        }
    }

    async fn ask_free_slots(&self, name: &SiteName, span: TimeSpan) -> FreeSlotsAnswer {
        let shape = self
            .site_overview(name)
            .and_then(|site| site.report.shape.clone());
        match shape {
            Some(shape) if !shape.reservations => FreeSlotsAnswer::None,
            Some(_) => match free_slots(self.shared(), name, span, SLOTS_MAX).await {
                Ok(slots) => {
                    let until = slots.last().filter(|_| slots.len() == SLOTS_MAX);
                    let until = until.map(|last| last.span.from);
                    FreeSlotsAnswer::Told(slots, until)
                }
                Err(error) => FreeSlotsAnswer::Silent(error.to_string()),
            },
            None => {
                FreeSlotsAnswer::Silent("it has not answered since the server was started".into())
            }
        }
    }
}

impl PossibleStartOverview {
    /// Works out the starts from free time; each is later by `lead` than the begin of its
    /// reservation.
    fn from_free_time(
        free: &BTreeMap<SiteName, FreeSlotsAnswer>,
        parts: &EqualParts,
        reserved: StartWindow,
        lead: DurationMs,
    ) -> Self {
        let told = free.iter().map(|(name, free)| {
            (
                name.clone(),
                SiteStartsAnswer::from_slots(free, parts, reserved, lead),
            )
        });
        let slots = free.iter().filter_map(|(name, free)| match free {
            FreeSlotsAnswer::Told(slots, until) => {
                Some((name.clone(), drop_unknown_slots(slots, *until)))
            }
            FreeSlotsAnswer::None | FreeSlotsAnswer::Silent(_) => None,
        });
        let mut together = common_starts(&slots.collect(), parts, reserved);
        together
            .iter_mut()
            .for_each(|starts| starts.window = starts.window.shifted_by(lead));
        Self {
            sites: told.collect(),
            together,
        }
    }
}

impl SiteStartsAnswer {
    fn from_slots(
        free: &FreeSlotsAnswer,
        parts: &EqualParts,
        window: StartWindow,
        lead: DurationMs,
    ) -> Self {
        match free {
            FreeSlotsAnswer::None => Self::GrantsNone,
            FreeSlotsAnswer::Silent(why) => Self::Silent(why.clone()),
            FreeSlotsAnswer::Told(slots, until) => {
                let starts =
                    possible_starts(&drop_unknown_slots(slots, *until), parts, window).into_iter();
                let starts = starts.map(|s| PossibleStarts {
                    window: s.window.shifted_by(lead),
                    ..s
                });
                let until =
                    until.map(|until| StartWindow::single_start(until).shifted_by(lead).earliest);
                Self::Told {
                    starts: starts.collect(),
                    until,
                }
            }
        }
    }
}

/// Drops the slots that may not be known completely.
fn drop_unknown_slots(slots: &[FreeSlot], until: Option<Timestamp>) -> Vec<FreeSlot> {
    slots
        .iter()
        .filter(|slot: &&FreeSlot| until.is_none_or(|until| slot.span.from < until))
        .cloned()
        .collect()
}
