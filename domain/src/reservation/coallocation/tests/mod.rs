//! Searches over sites that are tables in memory. Times are minutes of a day.

mod coallocation_vector_tests;
mod exhaustive;
mod failures;
mod probing;

use std::collections::BTreeMap;

use super::*;
use crate::ids::{ComponentIndex, SiteName};
use crate::reservation::agreement::StartWindow;
use crate::reservation::reservation_ledger::ReservationLedger;
use crate::reservation::reservation_tag::ReservationSerial;
use crate::reservation::timeline::{FOREVER, ResourceAmounts, TimeSpan, Timeline};
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// 9 o'clock.
const NINE: u64 = 9 * 60;

pub(super) fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

pub(super) fn part(processors: u32, minutes: u64, sites: &[&str]) -> CoallocationPart {
    CoallocationPart {
        component: ComponentIndex(0),
        resources: Resources::processors(processors),
        length: DurationMs(minutes),
        sites: sites.iter().map(|name| site(name)).collect(),
        offset: DurationMs::ZERO,
    }
}

/// From 9:00 to so many minutes past nine, all within 5 minutes.
pub(super) fn job(latest: u64, parts: Vec<CoallocationPart>) -> Coallocation {
    Coallocation {
        parts,
        window: StartWindow::new(Timestamp(NINE), Timestamp(NINE + latest)),
        tolerance: DurationMs(5),
        unit: DurationMs(1),
        windows_max: 1_000,
        rankings: Vec::new(),
    }
}

/// Processors that others have, from and to some minutes past nine.
type TakenProcessors = (u32, u64, u64);

/// Sites, and what they were asked.
#[derive(Clone)]
pub(super) struct LedgerSites {
    pub(super) ledgers: BTreeMap<SiteName, ReservationLedger<ReservationSerial>>,
    pub(super) asked: Vec<(StartWindow, ReservationCall)>,
}

impl LedgerSites {
    pub(super) fn new(sites: &[(&str, u32, &[TakenProcessors])]) -> Self {
        let ledger = |processors: u32, taken: &[TakenProcessors]| {
            let capacity = Resources::processors(processors);
            let mut timeline = Timeline::new(Timestamp(0), &capacity).unwrap();
            for (processors, from, to) in taken {
                let span = TimeSpan::new(Timestamp(NINE + from), Timestamp(NINE + to));
                timeline.book(span, &ResourceAmounts::processors(*processors));
            }
            ReservationLedger::new(timeline)
        };
        let ledgers = sites
            .iter()
            .map(|(name, all, taken)| (site(name), ledger(*all, taken)));
        Self {
            ledgers: ledgers.collect(),
            asked: Vec::new(),
        }
    }

    pub(super) fn answer_call(
        &mut self,
        job: &Coallocation,
        ask: &ReservationCall,
    ) -> ReservationOutcome {
        let ledger = self.ledgers.get_mut(ask.site()).unwrap();
        ask.answered_by(ledger, job, FOREVER)
    }

    /// All reservations, by serial.
    pub(super) fn reservations_by_serial(
        &self,
    ) -> BTreeMap<ReservationSerial, (SiteName, Timestamp)> {
        self.ledgers
            .iter()
            .flat_map(
                |(name, ledger): (&SiteName, &ReservationLedger<ReservationSerial>)| {
                    let name = name.clone();
                    let leases = ledger
                        .reservations()
                        .map(move |(s, lease)| (*s, (name.clone(), lease.span.from)));
                    leases.collect::<Vec<_>>()
                },
            )
            .collect()
    }

    /// Runs a search to its end. After each step the sites hold exactly what it answers for.
    pub(super) fn run_search(
        &mut self,
        job: Coallocation,
    ) -> (ReservationSearch, ReservationSearchState) {
        self.run_search_with(job, |tables, _, job, ask| tables.answer_call(job, ask))
    }

    pub(super) fn run_search_with(
        &mut self,
        job: Coallocation,
        mut answer: impl FnMut(
            &mut Self,
            &ReservationSearch,
            &Coallocation,
            &ReservationCall,
        ) -> ReservationOutcome,
    ) -> (ReservationSearch, ReservationSearchState) {
        let mut search = ReservationSearch::new(job.clone());
        while let ReservationSearchState::Asks(ask) = search.current_state() {
            self.asked.push((search.window, ask.clone()));
            let outcome = answer(self, &search, &job, &ask);
            search.record_outcome(outcome);
            let owned = search
                .owned_reservations()
                .map(|r| (r.serial, (r.site.clone(), r.start)));
            assert_eq!(
                self.reservations_by_serial(),
                owned.collect(),
                "after {ask:?}: {outcome:?}"
            );
        }
        let standing = search.current_state();
        (search, standing)
    }

    /// How many windows the sites were asked about, and whether nothing of ours is left.
    pub(super) fn is_empty(&self) -> bool {
        self.reservations_by_serial().is_empty()
    }
}

/// Where each part starts, and how many minutes past nine.
pub(super) fn starts_of_parts(search: &ReservationSearch) -> Vec<(String, u64)> {
    let starts = search.part_reservations().iter().flatten();
    starts
        .map(|r| (r.site.to_string(), r.start.0 - NINE))
        .collect()
}

pub(super) fn expected_starts(starts: &[(&str, u64)]) -> Vec<(String, u64)> {
    starts
        .iter()
        .map(|(site, start)| ((*site).to_owned(), *start))
        .collect()
}
