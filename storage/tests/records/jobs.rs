//! Jobs.

use std::sync::Arc;

use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, Epoch, JobId, Round};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{Component, Job};
use cospan_domain::job::spec::{OverrideScope, ProgramOverride};
use cospan_domain::placed::{
    ContentSource, DominantRefusal, PlacementOrigin, PlacementRule, ReasonCode,
};
use cospan_domain::units::{Bytes, Timestamp};
use cospan_storage::port::{
    AppendOutcome, Journal, JournalUnit, KeyChange, StoreError, StoreKey, StoreSize, StoredValue,
    UnitToken,
};
use cospan_storage::record::events::{EventTexts, read_history, read_history_texts};
use cospan_storage::record::job::{
    SpecTextCache, archive_units, head_version, read_archived, read_job, submission_changes,
    update_changes,
};
use cospan_storage::record::{RecordLoader, batch, keys};
use proptest::prelude::*;

use crate::draw::Draw;
use crate::place::Place;

/// More than any jobs take.
const ALL: Bytes = Bytes(u64::MAX);

#[test]
fn jobs_that_would_take_more_memory_than_they_may_are_all_counted() {
    let place = Place::new();
    let mut draw = Draw::new(7);
    let jobs: Vec<_> = (0..1_000).map(|id| draw.submitted(JobId(id), 1)).collect();
    jobs.iter()
        .for_each(|job| place.commit(submission_changes(job).unwrap()));
    let needs: u64 = jobs.iter().map(|job| job.spec.memory_footprint().0).sum();
    assert_eq!(
        place
            .load_by(RecordLoader::with_threads(2, Bytes(needs)))
            .jobs
            .len(),
        1_000
    );
    let mut loader = RecordLoader::with_threads(2, Bytes(needs - 1));
    let visit = &mut |stored| {
        loader.take_stored_value(stored).unwrap();
        std::ops::ControlFlow::Continue(())
    };
    place.opened.journal.scan(b"", visit).unwrap();
    let error = loader.finish().unwrap_err();
    let StoreError::TooLarge {
        jobs: 1_000,
        needed: Bytes(needed),
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(needed, needs);
}

#[test]
fn threads_load_what_one_loads() {
    let place = Place::new();
    let mut draw = Draw::new(6);
    for id in 0..1_000 {
        place.commit(submission_changes(&draw.submitted(JobId(id), 1)).unwrap());
    }
    let jobs = place.load().jobs;
    assert_eq!(jobs.len(), 1_000);
    for threads in 1..4 {
        assert!(place.load_by(RecordLoader::with_threads(threads, ALL)).jobs == jobs);
    }
    let value = Some(b"1 1 {".as_slice().into());
    let key = StoreKey::from(keys::head_key(JobId(500)).as_str());
    place.commit(vec![cospan_storage::port::KeyChange {
        key,
        expected: None,
        value,
    }]);
    let mut loader = RecordLoader::with_threads(2, ALL);
    let visit = &mut |stored| {
        loader.take_stored_value(stored).unwrap();
        std::ops::ControlFlow::Continue(())
    };
    place.opened.journal.scan(b"", visit).unwrap();
    let error = loader.finish().unwrap_err().to_string();
    assert!(error.contains("j/00000000000001f4/h"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    /// Any life of any job: what was written last is what is loaded.
    #[test]
    fn a_job_is_loaded_as_it_was_written_last(seed: u64, revisions in 0_usize..12) {
        let mut draw = Draw::new(seed);
        let count = [1, 3, 64, 65, 200][draw.below(5)];
        let place = Place::new();
        let mut job = draw.submitted(JobId(seed), count);
        place.commit(submission_changes(&job).unwrap());
        let mut expected = Vec::new();
        for _ in 0..revisions {
            let next = draw.next(&job);
            let events = draw.events();
            place.commit(update_changes(&job, &next, &events).unwrap());
            if !events.is_empty() {
                expected.push((next.revision, events));
            }
            job = next;
        }
        prop_assert_eq!(&place.load().jobs, std::slice::from_ref(&job));
        prop_assert_eq!(read_job(&*place.opened.journal, job.id).unwrap(), Some(job.clone()));
        prop_assert_eq!(read_history(&*place.opened.journal, job.id).unwrap(), expected);
    }

    /// Jobs beside one another do not mix, whatever their ids.
    #[test]
    fn many_jobs_are_loaded_in_the_order_of_their_ids(seed: u64) {
        let mut draw = Draw::new(seed);
        let place = Place::new();
        let mut expected = Vec::new();
        for id in [3, 0, u64::MAX, 16, 255, 1 << 40] {
            let job = draw.submitted(JobId(id), 2);
            let next = draw.next(&job);
            place.commit(submission_changes(&job).unwrap());
            place.commit(update_changes(&job, &next, &[]).unwrap());
            expected.push(next);
        }
        expected.sort_by_key(|job| job.id);
        prop_assert_eq!(place.load().jobs, expected);
    }

    #[test]
    fn an_archived_job_leaves_nothing_but_its_archive(seed: u64, revisions in 1_usize..6) {
        let mut draw = Draw::new(seed);
        let place = Place::new();
        let count = [2, 130][draw.below(2)];
        let mut job = draw.submitted(JobId(7), count);
        place.commit(submission_changes(&job).unwrap());
        for _ in 0..revisions {
            let next = draw.next(&job);
            place.commit(update_changes(&job, &next, &draw.events()).unwrap());
            job = next;
        }
        let events: Vec<JobEvent> =
            read_history(&*place.opened.journal, job.id).unwrap().into_iter().flat_map(|e| e.1).collect();
        let texts = read_history_texts(&*place.opened.journal, &job).unwrap();
        let mut units = archive_units(&job, &texts).unwrap().into_iter();
        place.commit(units.next().unwrap());
        // After a crash here loading says what is left to be deleted.
        let loaded = place.load();
        prop_assert_eq!(&loaded.jobs, &[]);
        let left: Vec<String> = loaded.remains.iter().map(|key| format!("{key:?}")).collect();
        prop_assert_eq!(left, place.keys("j/"));
        units.for_each(|unit| place.commit(unit));
        prop_assert_eq!(place.keys("j/"), Vec::<String>::new());
        let found = read_archived(&*place.opened.journal, job.id).unwrap().unwrap();
        prop_assert_eq!(found.events, events);
        for component in &mut job.components {
            component.placement.iter_mut().for_each(|placement| placement.sources.clear());
        }
        prop_assert_eq!(found.job, job);
        prop_assert_eq!(read_archived(&*place.opened.journal, JobId(8)).unwrap(), None);
    }
}

fn written(changes: &[cospan_storage::port::KeyChange]) -> Vec<String> {
    changes
        .iter()
        .map(|change| format!("{:?}", change.key))
        .collect()
}

#[test]
fn a_job_of_usual_size_goes_to_the_archive_by_one_unit() {
    let mut draw = Draw::new(3);
    let place = Place::new();
    let mut job = draw.submitted(JobId(7), 3);
    place.commit(submission_changes(&job).unwrap());
    for _ in 0..6 {
        let next = draw.next(&job);
        place.commit(update_changes(&job, &next, &draw.events()).unwrap());
        job = next;
    }
    let texts = read_history_texts(&*place.opened.journal, &job).unwrap();
    let units = archive_units(&job, &texts).unwrap();
    assert_eq!(units.len(), 1);
    units.into_iter().for_each(|unit| place.commit(unit));
    assert_eq!(place.keys("j/"), Vec::<String>::new());
}

#[test]
fn a_submission_is_one_value() {
    let job = Draw::new(1).submitted(JobId(10), 3);
    assert_eq!(
        written(&submission_changes(&job).unwrap()),
        ["j/000000000000000a/s"]
    );
}

#[test]
fn only_blocks_that_changed_are_written() {
    let mut draw = Draw::new(2);
    let job = draw.submitted(JobId(10), 200);
    let mut placed = Job {
        revision: 2,
        ..job.clone()
    };
    placed.components = vec![Component::default(); 200];
    let changes = update_changes(&job, &placed, &[]).unwrap();
    assert_eq!(
        written(&changes),
        ["j/000000000000000a/h"],
        "untouched blocks are absent"
    );
    let mut next = Job {
        revision: 3,
        ..placed.clone()
    };
    next.components[64].placement = Some(draw.placement());
    next.components[199].placement = Some(draw.placement());
    let changes = update_changes(&placed, &next, &[]).unwrap();
    let expected = [
        "j/000000000000000a/h",
        "j/000000000000000a/b0001",
        "j/000000000000000a/b0003",
    ];
    assert_eq!(written(&changes), expected);
    let back = Job {
        revision: 4,
        components: placed.components.clone(),
        ..next.clone()
    };
    let changes = update_changes(&next, &back, &[]).unwrap();
    assert_eq!(written(&changes), expected);
    assert!(changes[1..].iter().all(|change| change.value.is_none()));
}

#[test]
fn a_stale_revision_is_a_conflict() {
    let mut draw = Draw::new(3);
    let place = Place::new();
    let job = draw.submitted(JobId(10), 2);
    place.commit(submission_changes(&job).unwrap());
    let again = place.run(submission_changes(&job).unwrap());
    assert_eq!(
        again,
        AppendOutcome::Conflict(StoreKey::from(keys::spec_key(job.id).as_str()))
    );
    let one = draw.next(&job);
    let other = draw.next(&job);
    place.commit(update_changes(&job, &one, &[]).unwrap());
    let outcome = place.run(update_changes(&job, &other, &[]).unwrap());
    assert_eq!(
        outcome,
        AppendOutcome::Conflict(StoreKey::from(keys::head_key(job.id).as_str()))
    );
    assert_eq!(head_version(&one).0, 1);
    assert_eq!(place.load().jobs, [one]);
}

#[test]
fn the_history_keeps_the_latest_units() {
    let mut draw = Draw::new(4);
    let place = Place::new();
    let mut job = draw.submitted(JobId(10), 1);
    place.commit(submission_changes(&job).unwrap());
    for _ in 0..200 {
        let next = draw.next(&job);
        let events = [JobEvent {
            at: Timestamp(next.revision),
            what: JobEventKind::ClaimBegun,
        }];
        place.commit(update_changes(&job, &next, &events).unwrap());
        job = next;
    }
    let found = read_history(&*place.opened.journal, job.id).unwrap();
    let revisions: Vec<u64> = found.iter().map(|(revision, _)| *revision).collect();
    assert_eq!(revisions, (202 - keys::HISTORY..=201).collect::<Vec<_>>());
}

/// As large as a specification may be, with everything that then follows from it.
#[test]
fn the_largest_job_goes_through_its_life_and_a_larger_one_is_refused() {
    let mut draw = Draw::new(5);
    let place = Place::new();
    let mut job = draw.submitted(JobId(10), 1_000);
    let mut spec = (*job.spec).clone();
    let content = |i: usize| Content {
        digest: Digest([i as u8; 32]),
        size: Bytes(u64::MAX),
    };
    for component in &mut spec.components {
        component.at.clear();
        component.inputs.clear();
        let long = [("LONG".into(), "x".repeat(1_400).into())];
        component
            .program
            .change_program(|program| program.environment = long.into());
    }
    job.spec = Arc::new(spec.clone());
    place.commit(submission_changes(&job).unwrap());
    let mut placed = Job {
        revision: 2,
        round: Round(1),
        ..job.clone()
    };
    placed.components = (0..1_000)
        .map(|i| {
            let mut component = draw.component();
            let mut placement = draw.placement();
            let from = placement.site.clone();
            placement.sources = (0..10)
                .map(|j| ContentSource {
                    content: content(i + j),
                    from: from.clone(),
                    chunk: None,
                })
                .collect();
            component.placement = Some(placement);
            component
        })
        .collect();
    let placements: Vec<_> = placed
        .components
        .iter()
        .filter_map(|component| component.placement.clone())
        .collect();
    let start_estimate = Timestamp(1);
    let what = JobEventKind::JobPlaced {
        round: Round(1),
        placements,
        start_estimate,
        by: None,
    };
    let events = [JobEvent {
        at: Timestamp(1),
        what,
    }];
    place.commit(update_changes(&job, &placed, &events).unwrap());
    assert!(place.load().jobs == [placed.clone()]);
    assert_eq!(
        read_history(&*place.opened.journal, job.id).unwrap().len(),
        1
    );
    for unit in archive_units(&placed, &EventTexts::default()).unwrap() {
        place.commit(unit);
    }
    assert_eq!(place.keys("j/"), Vec::<String>::new());

    for component in &mut spec.components {
        component
            .program
            .change_program(|program| program.arguments = vec!["y".repeat(2_000).into()]);
    }
    job.spec = Arc::new(spec);
    let error = submission_changes(&job).unwrap_err().to_string();
    assert!(
        error.contains("job 10") && error.contains("at most 2097152"),
        "{error}"
    );
}

#[test]
fn of_equal_jobs_in_a_row_each_is_written_as_if_it_were_alone() {
    let mut draw = Draw::new(11);
    let mut texts = SpecTextCache::default();
    let first = draw.submitted(JobId(1), 1);
    let other = draw.submitted(JobId(2), 1);
    let jobs: Vec<Job> = (3..30)
        .map(|id| {
            let like = if id % 3 == 0 { &other } else { &first };
            Job {
                id: JobId(id),
                submitted_at: Timestamp(id),
                ..like.clone()
            }
        })
        .collect();
    let together = batch::submission_units(jobs.iter(), &mut texts).unwrap();
    let together: Vec<_> = together.into_iter().flat_map(|unit| unit.changes).collect();
    let alone: Vec<_> = jobs
        .iter()
        .flat_map(|job| submission_changes(job).unwrap())
        .collect();
    assert_eq!(together, alone);
}

#[test]
fn what_placed_a_job_is_kept_with_it_and_in_its_history() {
    let refusals = ReasonCode::ALL.map(|code| Some(DominantRefusal { code, sites: 3 }));
    let refusals = refusals.into_iter().chain([None]);
    for (id, (refused, rule)) in (0..).zip(refusals.zip(PlacementRule::ALL.into_iter().cycle())) {
        let place = Place::new();
        let mut draw = Draw::new(id);
        let job = draw.submitted(JobId(id), 1);
        place.commit(submission_changes(&job).unwrap());
        let by = Some(PlacementOrigin {
            policy: "worst-fit".parse().unwrap(),
            rule,
            refused,
        });
        let placed = Job {
            revision: 2,
            placed_by: by.clone(),
            ..job.clone()
        };
        let round = Round(1);
        let start_estimate = Timestamp(1);
        let placements = vec![draw.placement()];
        let what = JobEventKind::JobPlaced {
            round,
            placements,
            start_estimate,
            by,
        };
        let events = [JobEvent {
            at: Timestamp(1),
            what,
        }];
        place.commit(update_changes(&job, &placed, &events).unwrap());
        assert!(place.load().jobs == [placed], "{rule:?}, {refused:?}");
        let history = read_history(&*place.opened.journal, job.id).unwrap();
        assert_eq!(history[0].1, events, "{rule:?}, {refused:?}");
    }
}

/// Runs that have long texts in common in many places, and one that has none.
fn runs(draw: &mut Draw, count: u64) -> Vec<Job> {
    let long = |letter: &str| Arc::<str>::from(letter.repeat(100_000));
    let argument = long("a");
    let value = long("v");
    let other = long("o");
    let mut jobs: Vec<Job> = (0..count)
        .map(|number| draw.submitted(JobId(40 + number), 1))
        .collect();
    for job in &mut jobs[1..] {
        let mine: Arc<str> = format!("run {}", job.id).into();
        let spec = Arc::make_mut(&mut job.spec);
        let component = &mut spec.components[0];
        component.program.change_program(|program| {
            program.arguments = vec!["-c".into(), argument.clone(), mine.clone()];
            program.environment.insert("BIG".into(), value.clone());
            program.environment.insert("AGAIN".into(), value.clone());
            program.setup = vec![mine.clone(), "short".into()];
        });
        let change = ProgramOverride {
            arguments: Some(vec![other.clone(), mine]),
            environment: [("BIG".into(), value.clone())].into(),
            ..ProgramOverride::default()
        };
        component.restart = Some(change.clone().into());
        component.at = [(OverrideScope::Site("delft".parse().unwrap()), change)].into();
    }
    jobs
}

#[test]
fn what_jobs_of_a_request_have_in_common_is_written_once_and_loaded_once() {
    let place = Place::new();
    let jobs = runs(&mut Draw::new(5), 50);
    let units = batch::submission_units(jobs.iter(), &mut SpecTextCache::default()).unwrap();
    let changes = units.iter().flat_map(|unit| &unit.changes);
    let bytes: usize = changes
        .filter_map(|change| Some(change.value.as_ref()?.len()))
        .sum();
    assert!(bytes < 800_000, "{bytes} bytes");
    for unit in units {
        place.commit(unit.changes);
    }
    for threads in 0..3 {
        let loader = match threads {
            0 => RecordLoader::default(),
            _ => RecordLoader::with_threads(threads, ALL),
        };
        let loaded = place.load_by(loader).jobs;
        assert!(loaded == jobs);
        let big = |job: &Job| job.spec.components[0].program.unpack().environment["BIG"].clone();
        assert!(
            loaded[2..]
                .iter()
                .all(|job| Arc::ptr_eq(&big(job), &big(&loaded[1])))
        );
    }
    let last = &jobs[49];
    assert!(read_job(&*place.opened.journal, last.id).unwrap().as_ref() == Some(last));
}

#[test]
fn what_they_have_in_common_outlives_them_for_the_archive() {
    let place = Place::new();
    let jobs = runs(&mut Draw::new(6), 5);
    for unit in batch::submission_units(jobs.iter(), &mut SpecTextCache::default()).unwrap() {
        place.commit(unit.changes);
    }
    for job in &jobs[1..4] {
        let texts = read_history_texts(&*place.opened.journal, job).unwrap();
        for unit in archive_units(job, &texts).unwrap() {
            let values = unit
                .iter()
                .filter_map(|change| Some(change.value.as_ref()?.len()));
            assert!(
                values.sum::<usize>() < 10_000,
                "nothing of it is written again"
            );
            place.commit(unit);
        }
        let found = read_archived(&*place.opened.journal, job.id)
            .unwrap()
            .unwrap();
        assert!(found.job == *job);
    }
    let loaded = place.load();
    assert!(loaded.jobs == [jobs[0].clone(), jobs[4].clone()]);
    assert_eq!(loaded.remains, []);
}

/// A store that notes what was read of it.
struct Noting<'a>(&'a dyn Journal, std::sync::Mutex<Vec<StoreKey>>);

impl Journal for Noting<'_> {
    fn append(&self, epoch: Epoch, token: UnitToken, unit: JournalUnit) {
        self.0.append(epoch, token, unit);
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(StoredValue) -> std::ops::ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.0.scan(prefix, &mut |stored| {
            self.1.lock().unwrap().push(stored.key.clone());
            visit(stored)
        })
    }

    fn size(&self) -> StoreSize {
        self.0.size()
    }

    fn close(&self) {
        self.0.close();
    }
}

#[test]
fn one_job_is_read_without_the_texts_that_only_others_of_its_request_have() {
    let place = Place::new();
    let mut jobs = runs(&mut Draw::new(9), 5);
    let theirs: Arc<str> = "t".repeat(100_000).into();
    for job in &mut jobs[3..] {
        let spec = Arc::make_mut(&mut job.spec);
        spec.components[0]
            .program
            .change_program(|program| program.setup = vec![theirs.clone()]);
    }
    for unit in batch::submission_units(jobs.iter(), &mut SpecTextCache::default()).unwrap() {
        place.commit(unit.changes);
    }
    let texts_of = |journal: &Noting<'_>| {
        let keys = std::mem::take(&mut *journal.1.lock().unwrap());
        let text = |key: &StoreKey| key.0.starts_with(b"t/") && !key.0.contains(&b'+');
        keys.iter().filter(|key| text(key)).count()
    };
    let journal = Noting(&*place.opened.journal, std::sync::Mutex::default());
    for (job, expected) in [(&jobs[1], 3), (&jobs[3], 4)] {
        assert!(read_job(&journal, job.id).unwrap().as_ref() == Some(job));
        assert_eq!(texts_of(&journal), expected);
        let texts = read_history_texts(&journal, job).unwrap();
        archive_units(job, &texts)
            .unwrap()
            .into_iter()
            .for_each(|unit| place.commit(unit));
        texts_of(&journal);
        assert!(read_archived(&journal, job.id).unwrap().unwrap().job == *job);
        assert_eq!(texts_of(&journal), expected);
    }
}

#[test]
fn a_text_in_common_that_is_lost_is_damage_and_no_other_text() {
    let place = Place::new();
    let jobs = runs(&mut Draw::new(7), 3);
    for unit in batch::submission_units(jobs.iter(), &mut SpecTextCache::default()).unwrap() {
        place.commit(unit.changes);
    }
    let lost = place.keys("t/").into_iter();
    let lost: Vec<_> = lost
        .map(|key| KeyChange {
            key: StoreKey::from(key.as_str()),
            expected: None,
            value: None,
        })
        .collect();
    place.commit(lost);
    let mut loader = RecordLoader::default();
    let mut problem = None;
    let visit = &mut |stored| {
        problem = loader.take_stored_value(stored).err().or(problem.take());
        std::ops::ControlFlow::Continue(())
    };
    place.opened.journal.scan(b"", visit).unwrap();
    let problem = problem.or(loader.finish().err()).unwrap().to_string();
    assert!(problem.contains("t/0000000000000028/"), "{problem}");
    assert!(read_job(&*place.opened.journal, jobs[1].id).is_err());
}

#[test]
fn texts_of_a_request_that_was_never_acknowledged_are_swept_with_it() {
    let place = Place::new();
    let jobs = runs(&mut Draw::new(8), 300);
    let mut units = batch::submission_units(jobs.iter(), &mut SpecTextCache::default()).unwrap();
    assert!(units.len() > 1);
    units.pop();
    units
        .into_iter()
        .for_each(|unit| place.commit(unit.changes));
    let loaded = place.load();
    assert_eq!(loaded.jobs.len(), 0);
    let deleted = loaded.remains.into_iter();
    let deleted: Vec<_> = deleted
        .map(|key| KeyChange {
            key,
            expected: None,
            value: None,
        })
        .collect();
    deleted
        .chunks(100)
        .for_each(|some| place.commit(some.to_vec()));
    assert_eq!(place.keys(""), place.keys("m/store/"));
}
