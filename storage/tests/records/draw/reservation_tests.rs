//! Draws the reservations of a job: a search at any step.

use cospan_domain::acquisition::{
    BenchmarkScore, JobBenchmark, RankingObjective, RankingPreferences, ReservationTerms,
    UsedReservation,
};
use cospan_domain::ids::ComponentIndex;
use cospan_domain::job::job_event::JobEventKind;
use cospan_domain::job::job_state::{
    AlternativeDivision, JobDivision, JobReservations, Rescheduling, StartNotice, StartNoticeKind,
    StartNotices, TermsChange, UnreservedComponent,
};
use cospan_domain::placed::Placement;
use cospan_domain::reservation::{
    CandidateState, Coallocation, CoallocationPart, ReservationCandidate, ReservationOutcome,
    ReservationSearch, ReservationSearchFailure, ReservationSearchState, ReservationSerial,
    SiteRanking, StartWindow,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};

use super::Draw;

impl Draw {
    pub(super) fn wish(&mut self) -> ReservationTerms {
        let tolerance = DurationMs(self.n64());
        ReservationTerms {
            window: self.window(),
            tolerance,
            flexible: self.below(2) == 0,
            reserve_after: self.maybe(|draw| DurationMs(draw.n64())),
            unreserved: self.below(2) == 0,
            exempt: self.below(2) == 0,
        }
    }

    pub(super) fn changed_wish(&mut self) -> TermsChange {
        match self.below(4) {
            0 => TermsChange::Dropped,
            1 => TermsChange::Changed(self.wish()),
            _ => TermsChange::AsSubmitted,
        }
    }

    pub(super) fn promised(&mut self) -> UsedReservation {
        let from = self.at();
        let to = self.at();
        UsedReservation {
            serial: ReservationSerial(self.n32()),
            from,
            to,
            shared: self.coin(),
        }
    }

    fn window(&mut self) -> StartWindow {
        StartWindow::new(self.at(), self.at())
    }

    /// A window of a day, so that a search in it gets anywhere.
    fn day(&mut self) -> StartWindow {
        let from = Timestamp(u64::from(self.n32()));
        StartWindow::new(from, from + DurationMs::from_secs(86_400))
    }

    pub(super) fn of_reservation(&mut self) -> JobEventKind {
        match self.below(3) {
            0 => self.sought(),
            1 => self.answered(),
            _ => self.changed(),
        }
    }

    fn sought(&mut self) -> JobEventKind {
        JobEventKind::ReservationSought {
            wanted: self.wanted(),
            placements: self.some(|draw| draw.some(Self::placement)),
            lead: DurationMs(self.n64()),
            split: self.maybe(Self::split),
        }
    }

    fn split(&mut self) -> JobDivision {
        JobDivision {
            shape: self.n32(),
            refused: self.n32(),
            is_last: self.coin(),
        }
    }

    fn anew(&mut self) -> AlternativeDivision {
        let placements = self.some(|draw| draw.some(Self::placement));
        AlternativeDivision {
            placements,
            split: self.split(),
        }
    }

    fn changed(&mut self) -> JobEventKind {
        match self.below(10) {
            0 => JobEventKind::ReservationChanged {
                wish: self.maybe(Self::wish),
                by: self.name(),
            },
            1 => JobEventKind::ReservationMoveSought {
                wish: self.wish(),
                wanted: self.wanted(),
                by: self.name(),
            },
            2 => JobEventKind::ReservationMoved,
            3 => JobEventKind::ReservationForwardSought {
                wanted: self.wanted(),
                freed: self.some(Self::name),
                anew: self.maybe(|draw| Box::new(draw.anew())),
            },
            5 => JobEventKind::UnreservedChosen {
                claimed: self.some(Self::unreserved),
            },
            6 => JobEventKind::ReservationWithheld {
                site: self.name(),
                most: self.n32(),
                next: self.maybe(Self::at),
            },
            7 => JobEventKind::StartAnnounced,
            8 => JobEventKind::NoticeTold {
                notice: self.n32(),
                target: self.name(),
                problem: self.maybe(Self::text),
            },
            4 => JobEventKind::ReservationForgone {
                failure: ReservationSearchFailure::NoCommonStart,
                next: self.maybe(Self::at),
            },
            _ => JobEventKind::ReservationStayed {
                failure: ReservationSearchFailure::NoCommonStart,
                next: self.maybe(Self::at),
            },
        }
    }

    fn answered(&mut self) -> JobEventKind {
        let within = self.day();
        JobEventKind::ReservationAnswered {
            site: self.name(),
            outcome: self.outcome(within),
        }
    }

    fn outcome(&mut self, within: StartWindow) -> ReservationOutcome {
        let ms = self.n64() % 90_000_000;
        let at = within.earliest + DurationMs(ms);
        match self.below(8) {
            0 => ReservationOutcome::Refused { next: None },
            1..3 => ReservationOutcome::Refused { next: Some(at) },
            3 => ReservationOutcome::Lost {
                next: self.coin().then_some(at),
            },
            4 => ReservationOutcome::Granted { start: at },
            _ => ReservationOutcome::Granted {
                start: within.earliest,
            },
        }
    }

    fn wanted(&mut self) -> Coallocation {
        let sites: Vec<_> = (0..3).map(|_| self.name()).collect();
        let parts = (0..=self.below(3)).map(|_| CoallocationPart {
            component: self.index(),
            resources: Resources::processors(self.n32()),
            length: DurationMs(u64::from(self.n32())),
            sites: sites.iter().skip(self.below(2)).cloned().collect(),
            offset: DurationMs::ZERO,
        });
        let parts: Vec<CoallocationPart> = parts.collect();
        let rankings = if self.coin() {
            parts.iter().map(|part| self.ranking(part)).collect()
        } else {
            Vec::new()
        };
        Coallocation {
            parts,
            rankings,
            window: self.day(),
            tolerance: DurationMs::from_secs(300),
            unit: DurationMs(1_000),
            windows_max: self.n32(),
        }
    }

    fn objective(&mut self) -> RankingObjective {
        self.one(&[
            RankingObjective::EarliestStart,
            RankingObjective::EarliestCompletion,
        ])
    }

    fn ranking(&mut self, part: &CoallocationPart) -> SiteRanking {
        let candidates = part.sites.iter().map(|site| ReservationCandidate {
            site: site.clone(),
            stage_in: self.maybe(|draw| DurationMs(u64::from(draw.n32()))),
            execution: self.maybe(|draw| DurationMs(draw.n64())),
            expected: self.maybe(Self::at),
            found: match self.below(6) {
                0 => CandidateState::Granted(self.at()),
                1 => CandidateState::Refused(self.maybe(Self::at)),
                2 => CandidateState::TooLate,
                3 => CandidateState::Lost,
                _ => CandidateState::NotAsked,
            },
        });
        let candidates = candidates.collect();
        SiteRanking {
            objective: self.objective(),
            since: Timestamp(u64::from(self.n32())),
            stage_out: DurationMs(self.n64()),
            most: self.n32(),
            candidates,
        }
    }

    pub(super) fn preferences(&mut self) -> RankingPreferences {
        let benchmarks = self.some(|draw| JobBenchmark {
            name: draw.text(),
            reference: BenchmarkScore(draw.n64()),
            run_time: DurationMs(draw.n64()),
        });
        RankingPreferences {
            objective: self.objective(),
            benchmarks,
            run_time: self.maybe(|draw| DurationMs(draw.n64())),
            stage_in: self.maybe(|draw| DurationMs(draw.n64())),
            stage_out: self.maybe(|draw| DurationMs(draw.n64())),
        }
    }

    fn search(&mut self) -> ReservationSearch {
        let mut search =
            ReservationSearch::after_serial(self.wanted(), ReservationSerial(self.n32() / 2));
        for _ in 0..self.below(12) {
            if let ReservationSearchState::Asks(_) = search.current_state() {
                let outcome = self.outcome(search.window);
                search.record_outcome(outcome);
            }
        }
        if self.below(4) == 0 {
            search.give_up();
        }
        search
    }

    fn notices(&mut self) -> StartNotices {
        let owed = self.some(|draw| StartNotice {
            id: draw.n32(),
            kind: if draw.coin() {
                StartNoticeKind::StartsSoon
            } else {
                StartNoticeKind::StartMoved
            },
            at: draw.at(),
            start: draw.at(),
            told: draw.some(Self::name),
        });
        StartNotices {
            announced: self.maybe(Self::at),
            owed,
            last: self.n32(),
        }
    }

    fn unreserved(&mut self) -> UnreservedComponent {
        UnreservedComponent {
            component: ComponentIndex(self.n32()),
            placement: self.placement(),
        }
    }

    pub(super) fn reservation(&mut self) -> JobReservations {
        let search = self.search();
        let of_part = |draw: &mut Self| draw.some::<Vec<Placement>, _>(Self::placement);
        JobReservations {
            placements: (0..search.job.parts.len()).map(|_| of_part(self)).collect(),
            search,
            lead: DurationMs(self.n64()),
            answers: self.n32(),
            asked_since: self.at(),
            spent: self.coin(),
            other: self.maybe(|draw| Rescheduling {
                search: draw.search(),
                wish: draw.maybe(Self::wish),
                anew: draw.maybe(Self::anew),
            }),
            claimed: self.some(Self::unreserved),
            withheld: self.coin(),
            notices: self.notices(),
            split: self.maybe(Self::split),
            refusals: self.n32(),
        }
    }
}
