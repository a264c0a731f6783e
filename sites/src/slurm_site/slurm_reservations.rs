//! Reservations that Slurm makes for us, if the account may have it make any.
//!
//! Slurm accepts exact starts and suggests no others: those at which it should have room are tried
//! in turn. A reservation is read back before it counts. A reservation of cores is never changed:
//! Slurm moves one over another without a warning.

use std::ops::ControlFlow;

use async_trait::async_trait;
use cospan_domain::reservation::{
    FreeSlot, OpeningRequest, ReservationAnswer, ReservationRequest, ReservationTag, TimeSpan,
    Timeline,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};

use super::errors::reservation_answer;
use super::occupancy::{SlurmOccupancy, SlurmReservation, reserving_partition};
use super::{SlurmSite, steady_now};
use crate::agent::attempt_remains::seconds_to_timestamp;
use crate::agent::{SiteAgentAnswer, SiteAgentRequest};
use crate::port::{
    ObservedReservation, ReservationsByTag, SiteError, SiteReservations, TaggedReservationRequest,
};

/// Slurm keeps a reservation longer than agreed by this: limits of jobs are whole minutes, and it
/// kills what runs in one that ends.
const SLACK: DurationMs = DurationMs::from_secs(120);

/// The number of starts that are tried for one request.
const TRIES: usize = 6;

/// If we do not know why Slurm refuses, the next try is this much later, then twice as much.
const LATER: DurationMs = DurationMs::from_secs(600);

const SECOND: u64 = 1_000;

/// The effect of a call of `scontrol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScontrolOutcome {
    /// It did what it was asked to.
    All,
    /// Nothing: what is requested is not free then.
    Busy,
    /// Nothing: there is one of that name.
    Twice,
    /// Nothing: there is none of that name.
    Missing,
    /// Nothing: jobs use it.
    InUse,
}

/// Slurm's report of now and later.
struct SlurmForecast {
    now: Timestamp,
    partition: Option<String>,
    bookings: SlurmOccupancy,
    timeline: Timeline,
}

fn round_up(at: Timestamp) -> Timestamp {
    Timestamp(at.0.div_ceil(SECOND).saturating_mul(SECOND))
}

fn round_down(at: Timestamp) -> Timestamp {
    Timestamp(at.0 / SECOND * SECOND)
}

impl SlurmReservation {
    fn to_observed(&self) -> ObservedReservation {
        let to = (self.span.to - SLACK).max(self.span.from);
        ObservedReservation {
            span: TimeSpan::new(self.span.from, to),
            resources: Resources::processors(self.processors),
            confirmed: self.confirmed,
        }
    }
}

/// Returns true if a reservation has all that is requested, within its window.
fn serves_request(seen: &ObservedReservation, request: &ReservationRequest) -> bool {
    let start = seen.granted_start(request.window);
    request.window.contains(start)
        && seen.span.to >= round_down(start + request.length)
        && seen.resources.processors >= request.resources.processors
}

/// Returns a start in whole seconds, if there is one; otherwise the first
/// second is reserved as a whole.
fn start_second(start: Timestamp, request: &ReservationRequest) -> Timestamp {
    let later = round_up(start);
    if later <= request.window.latest {
        later
    } else {
        round_down(start)
    }
}

/// Returns the next time after this at which anything changes.
fn next_change(timeline: &Timeline, after: Timestamp) -> Option<Timestamp> {
    let span = TimeSpan::new(after, cospan_domain::reservation::timeline::FOREVER);
    let found: ControlFlow<Timestamp> = timeline.visit_steps(span, |at, _| {
        if at > after {
            ControlFlow::Break(at)
        } else {
            ControlFlow::Continue(())
        }
    });
    match found {
        ControlFlow::Break(at) => Some(at),
        ControlFlow::Continue(()) => None,
    }
}

impl SlurmSite {
    async fn read_bookings(&self) -> Result<SlurmOccupancy, SiteError> {
        let answer = self
            .agent
            .send_request(&["timetable"], SiteAgentRequest::default())
            .await?;
        Ok(SlurmOccupancy::from_answer(&answer))
    }

    async fn find_reservation(
        &self,
        tag: ReservationTag,
    ) -> Result<Option<ObservedReservation>, SiteError> {
        Ok(self
            .read_bookings()
            .await?
            .find_reservation(&tag.to_string())
            .map(SlurmReservation::to_observed))
    }

    async fn read_timetable(&self) -> Result<SlurmForecast, SiteError> {
        let answer = self
            .agent
            .send_request(&["timetable"], SiteAgentRequest::default())
            .await?;
        let own = self.config.partition.as_deref();
        let load = self.partition_load(&answer)?;
        let now = answer
            .last_value("clock")
            .and_then(seconds_to_timestamp)
            .unwrap_or_else(steady_now);
        let bookings = SlurmOccupancy::from_answer(&answer);
        let total = self.usable_total();
        let timeline = bookings.forecast_timeline(own, load, &total, now);
        let timeline = timeline.map_err(|error| SiteError::Refused(error.to_string()))?;
        let partition = reserving_partition(&answer, own).map(str::to_owned);
        Ok(SlurmForecast {
            now,
            partition,
            bookings,
            timeline,
        })
    }

    /// Returns true if Slurm can reserve these resources: processors alone, and
    /// memory if they bring it along.
    async fn is_reservable(&self, wanted: &Resources) -> Result<bool, SiteError> {
        let counts_memory = self.known_facts().await?.counts_memory;
        let mut others = wanted.others.iter().filter(|(_, count)| **count > 0);
        Ok(self.usable_total().first_shortage(wanted).is_none()
            && others.all(|(name, _)| &**name == "memory_mb" && !counts_memory))
    }

    async fn call_scontrol(&self, words: &[String]) -> Result<ScontrolOutcome, SiteError> {
        let answer: SiteAgentAnswer = self
            .agent
            .send_request(words, SiteAgentRequest::default())
            .await?;
        let said: Vec<&str> = answer.values_of("said").collect();
        let code = answer.last_value("code").and_then(|code| code.parse().ok());
        reservation_answer(code, &said)
    }

    async fn call_for_tag(
        &self,
        verb: &str,
        tag: ReservationTag,
    ) -> Result<ScontrolOutcome, SiteError> {
        self.call_scontrol(&[verb.to_owned(), tag.to_string()])
            .await
    }

    /// Makes Slurm reserve from this second on, and reads the result; `None` if it has no room.
    async fn try_reserve(
        &self,
        order: &TaggedReservationRequest,
        second: Timestamp,
        table: &SlurmForecast,
    ) -> Result<Option<Timestamp>, SiteError> {
        let tag = order.tag;
        let request = &order.request;
        let start = second.max(request.window.earliest);
        let end = round_up(start + request.length + SLACK);
        let per_core = table
            .bookings
            .processors_per_core(table.partition.as_deref());
        let cores = request.resources.processors.max(1).div_ceil(per_core);
        let words = [
            "reserve".to_owned(),
            tag.to_string(),
            (second.0 / SECOND).to_string(),
            (end.0 / SECOND).to_string(),
            cores.to_string(),
            table.partition.clone().unwrap_or_default(),
            format_length(order.keep_for),
        ];
        match self.call_scontrol(&words).await? {
            ScontrolOutcome::Busy => return Ok(None),
            ScontrolOutcome::All | ScontrolOutcome::Twice => {}
            ScontrolOutcome::Missing | ScontrolOutcome::InUse => {
                return Err(SiteError::OutcomeUnknown(
                    "scontrol gave an answer that does not fit".to_owned(),
                ));
            }
        }
        let seen = self.find_reservation(tag).await?;
        match seen.filter(|seen| serves_request(seen, request)) {
            Some(seen) => Ok(Some(seen.granted_start(request.window))),
            None => {
                let _ = self.call_for_tag("release", tag).await?;
                let what = format!("Slurm did not reserve under {tag} what it was told");
                Err(SiteError::OutcomeUnknown(what))
            }
        }
    }

    /// Tries one start after the other at which there should be room.
    async fn search_reservation(
        &self,
        order: &TaggedReservationRequest,
        table: &SlurmForecast,
    ) -> Result<ReservationAnswer, SiteError> {
        let request = &order.request;
        let timeline = &table.timeline;
        let window = request.window;
        let need = timeline.to_amounts(&Resources::processors(request.resources.processors));
        let Ok(need) = need else {
            return Ok(ReservationAnswer::Never);
        };
        let mut from = window.earliest.max(table.now);
        let mut later = LATER;
        for _ in 0..TRIES {
            let opening = OpeningRequest::after(from, need, request.length + SLACK);
            let Some(start) = timeline.earliest_start(&opening) else {
                return Ok(ReservationAnswer::Never);
            };
            if !window.contains(start) {
                return Ok(ReservationAnswer::NotBefore {
                    next: round_up(start),
                });
            }
            if let Some(start) = self
                .try_reserve(order, start_second(start, request), table)
                .await?
            {
                return Ok(ReservationAnswer::Granted { start });
            }
            from = next_change(timeline, start).unwrap_or(start + later);
            later = later + later;
        }
        Ok(ReservationAnswer::NotBefore {
            next: round_up(from.max(window.latest + DurationMs(1))),
        })
    }
}

/// Formats a length as `HH:MM:SS`, in whole minutes.
fn format_length(length: DurationMs) -> String {
    let minutes = length.0.div_ceil(60 * SECOND).max(1);
    format!("{:02}:{:02}:00", minutes / 60, minutes % 60)
}

#[async_trait]
impl SiteReservations for SlurmSite {
    async fn request(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<ReservationAnswer, SiteError> {
        if !self.is_reservable(&order.request.resources).await? {
            return Ok(ReservationAnswer::Never);
        }
        let table = self.read_timetable().await?;
        match table.bookings.find_reservation(&order.tag.to_string()) {
            Some(own) => Ok(ReservationAnswer::Granted {
                start: own.to_observed().granted_start(order.request.window),
            }),
            None => self.search_reservation(order, &table).await,
        }
    }

    /// Changes nothing: a reservation that has all that is requested already serves; for any other
    /// Slurm would need a new request.
    async fn modify(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<Option<ReservationAnswer>, SiteError> {
        let seen = self.find_reservation(order.tag).await?;
        Ok(seen.map(|seen| {
            if serves_request(&seen, &order.request) {
                ReservationAnswer::Granted {
                    start: seen.granted_start(order.request.window),
                }
            } else {
                ReservationAnswer::Never
            }
        }))
    }

    /// No reservation ends by itself before it begins.
    async fn renew(&self, tag: ReservationTag, _: DurationMs) -> Result<bool, SiteError> {
        Ok(self.find_reservation(tag).await?.is_some())
    }

    async fn confirm(&self, tag: ReservationTag) -> Result<bool, SiteError> {
        self.call_for_tag("confirm", tag).await?;
        // Slurm's answer alone is not enough: this commits us.
        match self.find_reservation(tag).await? {
            Some(seen) if seen.confirmed => Ok(true),
            Some(_) => Err(SiteError::OutcomeUnknown(format!(
                "{tag} is not confirmed yet"
            ))),
            None => Ok(false),
        }
    }

    async fn release(&self, tag: ReservationTag) -> Result<bool, SiteError> {
        match self.call_for_tag("release", tag).await? {
            ScontrolOutcome::All => Ok(true),
            ScontrolOutcome::Missing => Ok(false),
            ScontrolOutcome::InUse | ScontrolOutcome::Busy | ScontrolOutcome::Twice => {
                let why = format!("jobs in reservation {tag} have not ended yet");
                Err(SiteError::OutcomeUnknown(why))
            }
        }
    }

    async fn find(&self, tag: ReservationTag) -> Result<Option<ObservedReservation>, SiteError> {
        self.find_reservation(tag).await
    }

    async fn list(&self) -> Result<ReservationsByTag, SiteError> {
        let bookings = self.read_bookings().await?;
        let ours = bookings.reserved.iter();
        Ok(ours
            .filter_map(|booked| Some((booked.tag()?, booked.to_observed())))
            .collect())
    }

    async fn slots(&self, span: TimeSpan, most: usize) -> Result<Vec<FreeSlot>, SiteError> {
        let SlurmForecast { now, timeline, .. } = self.read_timetable().await?;
        let span = TimeSpan::new(span.from.max(now), span.to + SLACK);
        let total = self.usable_total();
        let free = timeline.slots(span, most).into_iter().map(|slot| {
            let mut free = timeline.kinds().to_resources(&slot.free);
            free.limit_to(&total);
            let to = if slot.span.to > span.to {
                span.to
            } else {
                slot.span.to
            };
            FreeSlot {
                span: TimeSpan::new(slot.span.from, to - SLACK),
                free,
            }
        });
        Ok(free.filter(|slot| !slot.span.is_empty()).collect())
    }
}
