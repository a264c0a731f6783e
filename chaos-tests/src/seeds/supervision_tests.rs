use super::*;

const JOB: JobId = JobId(7);
const OVER: Timestamp = Timestamp(1_000_000);

fn job() -> ActorId {
    ActorId::Job(JOB)
}

/// A run of the control plane in which an actor dies at each of these times, and each time is built
/// anew after these pauses, as long as there are any.
fn dying(id: &ActorId, deaths: &[u64], pauses: &[u64]) -> RunActorLives {
    let mut lived = Vec::new();
    for (number, at) in deaths.iter().enumerate() {
        lived.push((Timestamp(*at), RecordedActorEvent::Planted(Some(id.kind()))));
        lived.push((Timestamp(*at), RecordedActorEvent::Died(id.clone())));
        if let Some(pause) = pauses.get(number) {
            lived.push((
                Timestamp(*at + pause),
                RecordedActorEvent::Built(id.clone(), true),
            ));
        }
    }
    RunActorLives {
        lived,
        ended: Some(OVER),
        counted: deaths.len() as u64,
    }
}

fn then(mut plane_run: RunActorLives, at: u64, lived: RecordedActorEvent) -> RunActorLives {
    plane_run.lived.push((Timestamp(at), lived));
    plane_run
}

fn said(plane_run: RunActorLives) -> Vec<String> {
    let written = BTreeMap::from([(JOB, vec![(Timestamp(1_001), true)])]);
    supervision_mistakes(&[plane_run], &written, &BTreeMap::new())
}

fn finds(plane_run: RunActorLives, text: &str) {
    let said = said(plane_run);
    assert!(
        said.iter().any(|said| said.contains(text)),
        "{text}: {said:?}"
    );
}

fn is_right(plane_run: RunActorLives) {
    assert_eq!(said(plane_run), Vec::<String>::new());
}

#[test]
fn a_job_that_dies_thrice_in_a_minute_is_to_be_held_and_not_before() {
    let held = |at| RecordedActorEvent::Judged(at, Escalation::Hold);
    is_right(then(
        dying(&job(), &[100, 500, 1_000], &[40, 160]),
        1_000,
        held(job()),
    ));
    is_right(dying(&job(), &[100, 500], &[40, 160]));
    let early = dying(&job(), &[100, 500], &[40]);
    let late = [100, 500, 1_000];
    finds(
        then(early, 500, held(job())),
        "gets Hold for 2 deaths in a minute",
    );
    finds(
        dying(&job(), &late, &[40, 160, 640]),
        "is built anew, and should not be",
    );
    finds(
        dying(&job(), &late, &[40, 160]),
        "dies too often and is not held",
    );
}

#[test]
fn deaths_that_are_more_than_a_minute_apart_do_not_count_together() {
    let apart = [100, 70_000, 140_000, 210_000];
    is_right(dying(&job(), &apart, &[40, 40, 40, 40]));
    let early = dying(&job(), &apart[..3], &[40, 40]);
    let held = RecordedActorEvent::Judged(job(), Escalation::Hold);
    finds(
        then(early, 140_000, held),
        "gets Hold for 1 deaths in a minute",
    );
}

#[test]
fn at_the_very_minute_either_is_right() {
    let deaths = [100, 500, 60_100];
    is_right(dying(&job(), &deaths, &[40, 160, 160]));
    let held = then(
        dying(&job(), &deaths, &[40, 160]),
        60_100,
        RecordedActorEvent::Judged(job(), Escalation::Hold),
    );
    let written = BTreeMap::from([(JOB, vec![(Timestamp(60_200), true)])]);
    assert_eq!(
        supervision_mistakes(&[held], &written, &BTreeMap::new()),
        Vec::<String>::new()
    );
}

#[test]
fn a_pause_perhaps_the_second_of_a_minute_is_no_measure_for_a_second_one() {
    let deaths = [100, 60_100, 60_600];
    is_right(dying(&job(), &deaths, &[40, 170, 163]));
    is_right(dying(&job(), &deaths, &[40, 40, 163]));
    finds(
        dying(&job(), &[100, 60_200, 60_600], &[40, 170, 163]),
        "after 163 ms, death 2",
    );
}

#[test]
fn a_vital_actor_ends_the_process_at_its_fifth_death_the_journal_at_once() {
    let exits = |id: ActorId, deaths: &[u64], pauses: &[u64], over: u64| {
        let at = deaths.last().copied().unwrap_or_default();
        let plane_run = dying(&id, deaths, pauses);
        let plane_run = then(
            plane_run,
            at,
            RecordedActorEvent::Judged(id, Escalation::Exit),
        );
        let plane_run = then(
            plane_run,
            at,
            RecordedActorEvent::Fatal("died too often".into()),
        );
        RunActorLives {
            ended: Some(Timestamp(over)),
            ..plane_run
        }
    };
    let five = [100, 200, 500, 1_500, 5_000];
    let pauses = [40, 160, 640, 2_560];
    is_right(exits(ActorId::CoAllocator, &five, &pauses, 5_000));
    is_right(exits(ActorId::Journal, &[100], &[], 100));
    finds(
        exits(ActorId::CoAllocator, &five, &pauses, 6_000),
        "it goes on",
    );
    finds(
        exits(ActorId::Claimer, &five[..4], &pauses[..3], 1_500),
        "gets Exit for 4 deaths",
    );
    finds(
        dying(&ActorId::Journal, &[100], &[40]),
        "does not end the process",
    );
}

#[test]
fn pauses_grow_and_nobody_waits_for_ever() {
    finds(
        dying(&ActorId::Intake, &[100, 500], &[40, 30]),
        "after 30 ms, death 2",
    );
    finds(dying(&ActorId::Intake, &[100], &[0]), "after 0 ms");
    finds(dying(&ActorId::Intake, &[100], &[]), "is never built anew");
}

#[test]
fn a_site_that_is_held_is_left_alone_for_a_minute_and_tried_again() {
    let cluster = ActorId::Cluster(cospan_domain::ids::SiteName::new("delft").expect("a name"));
    let held = || {
        let plane_run = dying(&cluster, &[100, 500, 1_000], &[40, 160]);
        then(
            plane_run,
            1_000,
            RecordedActorEvent::Judged(cluster.clone(), Escalation::Hold),
        )
    };
    let built = || RecordedActorEvent::Built(cluster.clone(), false);
    is_right(then(held(), 61_000, built()));
    finds(then(held(), 30_000, built()), "is not left alone");
    finds(held(), "is never tried again");
}

#[test]
fn every_death_has_a_cause_and_every_panic_in_a_handler_a_victim() {
    let of_itself = RunActorLives {
        counted: 1,
        ended: Some(OVER),
        ..RunActorLives::default()
    };
    let of_itself = then(of_itself, 100, RecordedActorEvent::Died(job()));
    finds(of_itself, "died of itself");
    let unharmed = RunActorLives {
        ended: Some(OVER),
        ..RunActorLives::default()
    };
    let unharmed = then(
        unharmed,
        100,
        RecordedActorEvent::Planted(Some(ActorKind::Job)),
    );
    finds(unharmed, "nobody knows that a job died");
    let uncounted = RunActorLives {
        counted: 0,
        ..dying(&job(), &[100], &[40])
    };
    finds(uncounted, "1 actors died, it says 0");
    let unseen = RunActorLives {
        counted: 2,
        ended: Some(OVER),
        ..RunActorLives::default()
    };
    finds(unseen, "0 actors died, it says 2");
}

#[test]
fn a_process_ends_for_a_reason_only() {
    let asks = |before: Option<RecordedActorEvent>| {
        let plane_run = RunActorLives {
            ended: Some(Timestamp(100)),
            ..RunActorLives::default()
        };
        let plane_run = before
            .into_iter()
            .fold(plane_run, |plane_run, lived| then(plane_run, 100, lived));
        then(
            plane_run,
            100,
            RecordedActorEvent::Fatal("it is over".into()),
        )
    };
    is_right(asks(Some(RecordedActorEvent::DiskFailed)));
    finds(asks(None), "the process ends without a reason: it is over");
}

#[test]
fn a_job_that_is_to_be_held_is_so_by_its_record_unless_it_ended() {
    let plane_run = dying(&job(), &[100, 500, 1_000], &[40, 160]);
    let plane_run = [then(
        plane_run,
        1_000,
        RecordedActorEvent::Judged(job(), Escalation::Hold),
    )];
    let says = |held: &[(u64, bool)], ended: Option<u64>| {
        let held = held
            .iter()
            .map(|(at, held)| (Timestamp(*at), *held))
            .collect();
        let ended = ended.map(|at| (JOB, Timestamp(at))).into_iter().collect();
        supervision_mistakes(&plane_run, &BTreeMap::from([(JOB, held)]), &ended).is_empty()
    };
    assert!(says(&[(1_000, true)], None) && says(&[(5_000, true)], None));
    assert!(says(&[], Some(900)), "nothing of it is left to hold");
    assert!(says(&[(300, true)], None), "it was held before");
    assert!(!says(&[(300, true), (400, false)], None) && !says(&[], None));
}

#[test]
fn a_process_ends_for_its_disk_as_soon_as_its_journal_hears_of_it() {
    let ends = |heard: u64| {
        let stalls = RecordedActorEvent::Stalled(ActorId::Journal, DurationMs(300), false);
        let ends = RecordedActorEvent::Fatal("the disk is gone".into());
        let lived = [
            (100, stalls),
            (200, RecordedActorEvent::DiskFailed),
            (heard, ends),
        ];
        let lived = lived
            .into_iter()
            .map(|(at, lived)| (Timestamp(at), lived))
            .collect();
        RunActorLives {
            lived,
            ended: Some(Timestamp(heard)),
            counted: 0,
        }
    };
    is_right(ends(400));
    finds(ends(500), "ends without a reason");
}
