//! Jobs that are promised a start.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::job_world::{JobWorld, key, site, spec};
use crate::acquisition::{BenchmarkScores, RankingObjective, ReservationTerms};
use crate::ids::SiteName;
use crate::job::job_command::{AttemptSighting, JobCommand, JobRejection, JobSurroundings};
use crate::job::job_due::{JobEffectKind, due, next_wake};
use crate::job::job_state::{JobReservations, PhaseKind};
use crate::placed::Placement;
use crate::placement::{PlacementDefaults, PlacementRequest};
use crate::queue::WaitingJob;
use crate::reservation::{
    ReservationCall, ReservationLedger, ReservationOutcome, ReservationRequest, ReservationSerial,
    ResourceAmounts, StartWindow, TimeSpan, Timeline,
};
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

const HOUR: DurationMs = DurationMs::from_secs(3_600);

/// A job, and sites of four processors that keep their reservations in ledgers.
pub(super) struct ReservationWorld {
    pub(super) world: JobWorld,
    pub(super) sites: BTreeMap<SiteName, ReservationLedger<ReservationSerial>>,
    pub(super) scores: BTreeMap<SiteName, BenchmarkScores>,
    components: usize,
}

impl ReservationWorld {
    /// A job of so many components of two processors that is to start in an hour, or up to so
    /// much later.
    pub(super) fn new(components: usize, within: DurationMs, sites: usize) -> Self {
        Self::new_flexible(components, within, sites, false)
    }

    /// The same; it may be moved, or not.
    pub(super) fn new_flexible(
        components: usize,
        within: DurationMs,
        sites: usize,
        flexible: bool,
    ) -> Self {
        let mut spec = spec(components);
        let start = Timestamp(1_000_000_000_000) + HOUR;
        let window = StartWindow::new(start, start + within);
        let tolerance = DurationMs::from_secs(60).min(within);
        spec.run.reservation = Some(ReservationTerms {
            window,
            tolerance,
            flexible,
            ..Default::default()
        });
        let world = JobWorld::new(spec);
        let ledger = |_| {
            ReservationLedger::new(Timeline::new(world.now, &Resources::processors(4)).unwrap())
        };
        let sites = (0..sites)
            .map(|index| (site(index), ledger(index)))
            .collect();
        Self {
            world,
            sites,
            scores: BTreeMap::new(),
            components,
        }
    }

    /// All of this site is taken from a time after the earliest start for so long.
    pub(super) fn occupy_site(&mut self, at: usize, after: DurationMs, length: DurationMs) {
        let from = self.earliest_start() + after;
        let request = ReservationRequest {
            resources: Resources::processors(4),
            length,
            window: StartWindow::single_start(from),
            flexible: false,
        };
        let ledger = self.sites.get_mut(&site(at)).unwrap();
        ledger.request_reservation(ReservationSerial(u32::MAX), &request, Timestamp(u64::MAX));
    }

    /// All sites are taken for longer than anybody waits.
    pub(super) fn occupy_all_sites(&mut self) {
        let request = ReservationRequest {
            resources: Resources::processors(4),
            length: DurationMs::from_secs(9 * 3_600),
            window: StartWindow::single_start(self.world.now),
            flexible: false,
        };
        for ledger in self.sites.values_mut() {
            ledger.cancel(&ReservationSerial(u32::MAX));
            ledger.request_reservation(ReservationSerial(u32::MAX), &request, Timestamp(u64::MAX));
        }
    }

    /// What was taken is free.
    pub(super) fn free_all_sites(&mut self) {
        for ledger in self.sites.values_mut() {
            ledger.cancel(&ReservationSerial(u32::MAX));
        }
    }

    /// The earliest start that the job accepts.
    pub(super) fn earliest_start(&self) -> Timestamp {
        self.world.job.spec.run.reservation.unwrap().window.earliest
    }

    pub(super) fn request_reservations(&mut self) -> Result<Vec<&'static str>, JobRejection> {
        let sites: Vec<Placement> = self
            .sites
            .keys()
            .map(|site: &SiteName| Placement {
                site: site.clone(),
                sources: Vec::new(),
                transfer_time: DurationMs::ZERO,
                share: None,
                acquisition: Default::default(),
            })
            .collect();
        let mut candidates = vec![sites; self.components];
        let rankings = self.rank_candidates(&mut candidates);
        let unreserved = Vec::new();
        let wish = self.world.job.reservation_terms();
        self.world.apply_command(JobCommand::Reserve {
            candidates,
            unreserved,
            rankings,
            wish,
        })
    }

    pub(super) fn due_call(&self) -> Option<(u32, ReservationCall)> {
        self.world
            .job
            .reservation
            .as_deref()
            .and_then(JobReservations::due_call)
    }

    /// What the asked site answers.
    pub(super) fn outcome_at_site(&mut self, ask: &ReservationCall) -> ReservationOutcome {
        let reservation = self.world.job.reservation.as_deref().unwrap();
        let wanted = reservation.calling_search().unwrap().job.clone();
        let ledger = self.sites.get_mut(ask.site()).unwrap();
        ask.answered_by(ledger, &wanted, Timestamp(u64::MAX))
    }

    pub(super) fn apply_outcome(
        &mut self,
        question: u32,
        outcome: ReservationOutcome,
    ) -> Result<Vec<&'static str>, JobRejection> {
        self.world
            .apply_command(JobCommand::ReservationAnswered { question, outcome })
    }

    /// Asks until there is nothing to ask.
    pub(super) fn answer_all_calls(&mut self) {
        while let Some((question, ask)) = self.due_call() {
            assert!(self.world.due_effects().contains(&JobEffectKind::Reserve));
            let outcome = self.outcome_at_site(&ask);
            self.apply_outcome(question, outcome).unwrap();
        }
    }

    /// Serials of the job that some site holds.
    pub(super) fn held_serials(&self) -> Vec<ReservationSerial> {
        let held = self
            .sites
            .values()
            .flat_map(ReservationLedger::reservations)
            .map(|(serial, _)| *serial);
        held.filter(|serial| *serial != ReservationSerial(u32::MAX))
            .collect()
    }

    pub(super) fn advance_until(&mut self, time: Timestamp) {
        self.world.now = time;
        self.world
            .apply_command(JobCommand::Look(JobSurroundings::default()))
            .unwrap();
    }
}

#[test]
fn a_payload_begins_at_the_start_that_was_promised_and_no_earlier() {
    let mut story = ReservationWorld::new(1, DurationMs::ZERO, 1);
    assert_eq!(story.request_reservations().unwrap(), ["ReservationSought"]);
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    let job = &story.world.job;
    let parameters = &story.world.parameters;
    let begins = story.earliest_start() - parameters.reservation_lead;
    assert_eq!(job.reserved_start(), Some(story.earliest_start()));
    assert_eq!(
        job.next_claim_time(parameters),
        Some(begins),
        "claimed when the reservation begins"
    );
    let span = TimeSpan::new(begins, story.earliest_start() + job.spec.wall_time);
    let taken = ResourceAmounts::processors(2);
    assert!(
        !story.sites[&site(0)]
            .timeline()
            .is_free(span, &ResourceAmounts::processors(3))
    );
    assert!(story.sites[&site(0)].timeline().is_free(span, &taken));

    story.world.now = begins;
    assert_eq!(
        story.world.claim_all(JobSurroundings::default()),
        ["ClaimBegun"]
    );
    story.world.accept_all_submissions();
    story
        .world
        .sight_all(AttemptSighting::Ready("node1".into()));
    assert_eq!(
        story.world.phase(),
        PhaseKind::Claiming,
        "all are ready, but it is too early"
    );
    let job = &story.world.job;
    let parameters = &story.world.parameters;
    let now = story.world.now;
    assert_eq!(
        next_wake(job, parameters, now),
        Some(story.earliest_start())
    );
    story.advance_until(story.earliest_start());
    assert_eq!(story.world.phase(), PhaseKind::Starting);
    assert_eq!(story.world.job.start_at, Some(story.earliest_start()));
}

#[test]
fn a_job_that_has_ended_gives_the_rest_of_its_reservation_back() {
    let mut story = ReservationWorld::new(2, HOUR, 2);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(story.held_serials().len(), 2);
    story.world.now = story.earliest_start() - story.world.parameters.reservation_lead;
    story.world.claim_all(JobSurroundings::default());
    story.world.accept_all_submissions();
    story
        .world
        .sight_all(AttemptSighting::Ready("node1".into()));
    story.advance_until(story.earliest_start());
    story
        .world
        .sight_all(AttemptSighting::Begun("node1".into()));
    story.world.sight_all(AttemptSighting::Succeeded);
    assert_eq!(story.world.phase(), PhaseKind::Collecting);
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Finished);
    assert!(story.held_serials().is_empty());
}

#[test]
fn a_start_that_no_site_grants_ends_the_job_and_says_from_when_on() {
    let mut story = ReservationWorld::new(1, DurationMs::from_secs(600), 1);
    story.occupy_site(0, DurationMs::ZERO, HOUR);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Failed);
    let next = story.world.job.reservation_refused_until();
    let lead = story.world.parameters.reservation_lead;
    assert_eq!(next, Some(story.earliest_start() + HOUR + lead));
    assert!(story.held_serials().is_empty());
}

#[test]
fn a_job_that_is_cancelled_while_sites_are_asked_leaves_nothing_there() {
    let mut story = ReservationWorld::new(2, HOUR, 2);
    story.request_reservations().unwrap();
    let (question, ask) = story.due_call().unwrap();
    let outcome = story.outcome_at_site(&ask);
    story.apply_outcome(question, outcome).unwrap();
    // The second one is being asked for, and perhaps granted.
    let (question, ask) = story.due_call().unwrap();
    let outcome = story.outcome_at_site(&ask);
    assert_eq!(
        story
            .world
            .apply_command(JobCommand::Cancel(key()))
            .unwrap(),
        ["RoundAborted"]
    );
    story.apply_outcome(question, outcome).unwrap();
    assert_eq!(story.held_serials().len(), 2);
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Cancelled);
    assert!(story.held_serials().is_empty());
}

#[test]
fn a_site_that_stays_silent_is_taken_to_have_said_no() {
    let mut story = ReservationWorld::new(1, HOUR, 2);
    story.request_reservations().unwrap();
    let (question, first) = story.due_call().unwrap();
    // Granted, but the answer is lost.
    story.outcome_at_site(&first);
    let wake = next_wake(&story.world.job, &story.world.parameters, story.world.now).unwrap();
    story.advance_until(wake);
    let (_, second) = story.due_call().unwrap();
    assert_ne!(first.site(), second.site());
    assert_eq!(
        story.apply_outcome(question, ReservationOutcome::Done),
        Err(JobRejection::Stale)
    );
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    let reservation = story.world.job.reservation.as_deref().unwrap();
    let orphans: Vec<ReservationSerial> = story
        .held_serials()
        .into_iter()
        .filter(|serial| !reservation.needs_serial(*serial))
        .collect();
    assert_eq!(orphans, [ReservationSerial(1)], "nobody's, and found so");
}

#[test]
fn a_job_whose_latest_start_has_passed_fails_before_any_site_is_asked() {
    let mut story = ReservationWorld::new(1, HOUR, 1);
    story.world.now = story.earliest_start() + HOUR + DurationMs(1);
    assert_eq!(story.request_reservations().unwrap(), ["JobFailed"]);
}

#[test]
fn a_round_that_is_lost_is_reserved_anew_under_other_serials() {
    let mut story = ReservationWorld::new(1, HOUR, 1);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    story
        .world
        .apply_command(JobCommand::LeaveSite(site(0)))
        .unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Queued);
    assert!(story.held_serials().is_empty());
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(
        (story.world.phase(), story.held_serials()),
        (PhaseKind::Placed, vec![ReservationSerial(2)])
    );
}

#[test]
fn a_promise_that_ended_while_its_job_was_frozen_is_asked_for_anew() {
    let mut story = ReservationWorld::new(1, DurationMs::from_secs(10 * 86_400), 1);
    story.request_reservations().unwrap();
    story
        .world
        .apply_command(JobCommand::Freeze(key()))
        .unwrap();
    story.answer_all_calls();
    assert_eq!(
        story.world.phase(),
        PhaseKind::Queued,
        "it is placed once it is thawed"
    );
    let promised = story
        .world
        .job
        .reservation
        .as_deref()
        .and_then(JobReservations::placements);
    let promised = promised.unwrap()[0].acquisition.reservation_use().unwrap();
    story.world.now = promised.to;
    let events = story.world.apply_command(JobCommand::Thaw(key())).unwrap();
    assert_eq!(
        events,
        ["JobThawed", "JobRequeued"],
        "no site holds it any more"
    );
    assert_eq!(story.request_reservations().unwrap(), ["ReservationSought"]);
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    assert!(story.world.job.reserved_start().unwrap() > promised.to);
}

impl ReservationWorld {
    /// Its user wants it to start so much later, or up to so much after that.
    pub(super) fn request_other_start(
        &mut self,
        later: DurationMs,
        within: DurationMs,
    ) -> Result<Vec<&'static str>, JobRejection> {
        let start = self.earliest_start() + later;
        let window = StartWindow::new(start, start + within);
        let wish = Some(ReservationTerms {
            window,
            ..ReservationTerms::default()
        });
        self.world
            .apply_command(JobCommand::ChangeReservation { wish, by: key() })
    }

    fn drop_reservation(&mut self) -> Result<Vec<&'static str>, JobRejection> {
        self.world.apply_command(JobCommand::ChangeReservation {
            wish: None,
            by: key(),
        })
    }
}

#[test]
fn a_promise_is_kept_until_all_of_another_is_had() {
    let mut story = ReservationWorld::new(2, DurationMs::ZERO, 2);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    let first = story.earliest_start();
    let round = story.world.job.round;
    let before = story.held_serials();
    assert_eq!(
        story.request_other_start(HOUR, DurationMs::ZERO).unwrap(),
        ["ReservationMoveSought"]
    );
    for _ in 0..3 {
        let (question, ask) = story.due_call().unwrap();
        let outcome = story.outcome_at_site(&ask);
        story.apply_outcome(question, outcome).unwrap();
        assert_eq!(
            story.world.job.reserved_start(),
            Some(first),
            "not all of it is confirmed"
        );
    }
    let again = story.request_other_start(HOUR, DurationMs::ZERO);
    assert!(
        matches!(again, Err(JobRejection::Impossible(_))),
        "{again:?}"
    );
    story.answer_all_calls();
    assert_eq!(story.world.job.reserved_start(), Some(first + HOUR));
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    assert_ne!(story.world.job.round, round, "it is placed anew");
    let held = story.held_serials();
    assert!(
        held.len() == 2 && held.iter().all(|serial| !before.contains(serial)),
        "{held:?}"
    );
    // And again: the serials go on.
    story
        .request_other_start(HOUR + HOUR, DurationMs::ZERO)
        .unwrap();
    story.answer_all_calls();
    assert!(
        story.held_serials().len() == 2 && story.held_serials().iter().min() > held.iter().max()
    );
    story
        .world
        .apply_command(JobCommand::Cancel(key()))
        .unwrap();
    story.answer_all_calls();
    assert_eq!(
        (story.world.phase(), story.held_serials()),
        (PhaseKind::Cancelled, vec![])
    );
}

#[test]
fn a_promise_stays_if_no_other_is_granted() {
    let mut story = ReservationWorld::new(2, DurationMs::ZERO, 1);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    let first = story.earliest_start();
    let held = story.held_serials();
    // The site is full with what it has promised.
    story
        .request_other_start(DurationMs::from_secs(60), DurationMs::from_secs(60))
        .unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.job.reserved_start(), Some(first));
    assert_eq!(
        (story.world.phase(), story.held_serials()),
        (PhaseKind::Placed, held)
    );
    assert!(
        story
            .world
            .job
            .reservation
            .as_ref()
            .unwrap()
            .rescheduling_search()
            .is_none()
    );
}

#[test]
fn a_claim_puts_an_end_to_a_move() {
    let mut story = ReservationWorld::new(1, DurationMs::ZERO, 1);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    story.request_other_start(HOUR, DurationMs::ZERO).unwrap();
    let (question, ask) = story.due_call().unwrap();
    let outcome = story.outcome_at_site(&ask);
    story.world.now = story.earliest_start() - story.world.parameters.reservation_lead;
    story.world.claim_all(JobSurroundings::default());
    story.apply_outcome(question, outcome).unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Claiming);
    assert_eq!(
        (story.world.job.reserved_start(), story.held_serials().len()),
        (Some(story.earliest_start()), 1)
    );
    let late = story.request_other_start(HOUR, DurationMs::ZERO);
    assert!(matches!(late, Err(JobRejection::Impossible(_))), "{late:?}");
}

#[test]
fn a_job_whose_promise_is_given_back_is_placed_as_others_are() {
    let mut story = ReservationWorld::new(2, HOUR, 2);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(
        story.drop_reservation().unwrap(),
        ["ReservationChanged", "RoundAborted"]
    );
    story.answer_all_calls();
    assert_eq!(
        (story.world.phase(), story.held_serials()),
        (PhaseKind::Queued, vec![])
    );
    let job = &story.world.job;
    assert!(!job.seeks_reservation() && job.reservation_terms().is_none());
    assert!(
        WaitingJob::from_job(job, || Arc::new(PlacementRequest::of_job(
            job,
            &PlacementDefaults::default()
        )))
        .is_some(),
        "it waits for placement"
    );
    assert_eq!(story.drop_reservation(), Err(JobRejection::AlreadySo));
    let none = story.request_other_start(HOUR, HOUR);
    assert!(matches!(none, Err(JobRejection::Impossible(_))), "{none:?}");
}

#[test]
fn a_start_may_be_changed_before_one_is_promised() {
    let mut story = ReservationWorld::new(1, DurationMs::ZERO, 1);
    assert_eq!(
        story.request_other_start(HOUR, DurationMs::ZERO).unwrap(),
        ["ReservationChanged"]
    );
    story.request_reservations().unwrap();
    assert_eq!(
        story
            .request_other_start(HOUR + HOUR, DurationMs::ZERO)
            .unwrap(),
        ["ReservationChanged", "RoundAborted"]
    );
    story.answer_all_calls();
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(
        story.world.job.reserved_start(),
        Some(story.earliest_start() + HOUR + HOUR)
    );
    assert_eq!(story.held_serials().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever sites answer, lose or keep silent about, and whenever the user cancels: a site
    /// holds nothing that the job needs no more but what silence or a lie left there, and each
    /// component of a placed job has what its site holds.
    #[test]
    fn nothing_is_held_by_nobody_but_what_an_unknown_outcome_left(
        components in 1usize..4,
        prefers in proptest::option::of(any::<bool>()),
        taken in proptest::collection::vec((0u64..5_000, 60u64..5_000), 3),
        turns in proptest::collection::vec((0u8..10, any::<bool>()), 40),
        cancel_at in 0usize..60,
        changes in proptest::collection::btree_map(0usize..40, (any::<bool>(), 0u64..9_000), 0..4),
    ) {
        let mut story = ReservationWorld::new(components, HOUR, 3);
        for (at, (after, length)) in taken.into_iter().enumerate() {
            story.occupy_site(at, DurationMs::from_secs(after), DurationMs::from_secs(length));
        }
        if let Some(by_start) = prefers {
            let by = [RankingObjective::EarliestCompletion, RankingObjective::EarliestStart];
            story.set_preferences(by[usize::from(by_start)], [5, 30, 90]);
        }
        story.request_reservations().unwrap();
        let mut excused = Vec::new();
        let mut turns = turns.into_iter().chain(std::iter::repeat((9, false)));
        for turn in 0..2_000 {
            if turn == cancel_at {
                let _ = story.world.apply_command(JobCommand::Cancel(key()));
            }
            match changes.get(&turn) {
                Some((true, _)) => drop(story.drop_reservation()),
                Some((false, later)) => drop(story.request_other_start(DurationMs::from_secs(*later), HOUR)),
                None => {}
            }
            if story.due_call().is_none() {
                let _ = story.request_reservations();
            }
            let is_to_change = changes.last_key_value().is_some_and(|(last, _)| turn < *last);
            let Some((question, ask)) = story.due_call() else {
                if is_to_change { continue } else { break }
            };
            let (kind, done) = turns.next().unwrap();
            let asked = due(&story.world.job, story.world.now);
            prop_assert!(asked.iter().any(|effect| effect.attempt.0 == question));
            match kind {
                // The answer is lost, and whether it was done nobody knows.
                0 => {
                    if done {
                        story.outcome_at_site(&ask);
                    }
                    excused.push(serial_of(&ask));
                    let wake = next_wake(&story.world.job, &story.world.parameters, story.world.now);
                    story.advance_until(wake.unwrap());
                }
                // Asked twice, as after a restart.
                1 => {
                    story.outcome_at_site(&ask);
                    let outcome = story.outcome_at_site(&ask);
                    story.apply_outcome(question, outcome).unwrap();
                }
                _ => {
                    let outcome = story.outcome_at_site(&ask);
                    story.apply_outcome(question, outcome).unwrap();
                }
            }
        }
        let job = &story.world.job;
        let reservation = job.reservation.as_deref().unwrap();
        let moves_on = story.due_call().is_none() && job.phase.kind() != PhaseKind::Aborting;
        prop_assert!(moves_on, "{:?}", job.phase);
        for serial in story.held_serials() {
            prop_assert!(reservation.needs_serial(serial) || excused.contains(&serial), "{serial:?}");
        }
        if let Some(placements) = reservation.placements().filter(|_| !job.is_final()) {
            for placement in placements {
                let promised = placement.acquisition.reservation_use().unwrap();
                let lease = story.sites[&placement.site].find_by_tag(&promised.serial).unwrap();
                prop_assert_eq!(lease.span, TimeSpan::new(promised.from, promised.to));
            }
        }
    }
}

fn serial_of(ask: &ReservationCall) -> ReservationSerial {
    match ask {
        ReservationCall::Create { serial, .. }
        | ReservationCall::Modify { serial, .. }
        | ReservationCall::Check { serial, .. }
        | ReservationCall::Confirm { serial, .. }
        | ReservationCall::Cancel { serial, .. } => *serial,
    }
}
