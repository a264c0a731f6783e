//! Each rule is seen to fire on forged evidence, and alone.

use super::*;
use crate::evidence::RequestedJob;
use crate::load::ClientPromises;
use crate::payload::PayloadLedger;
use crate::round_history::HistoryEvent;

const INSTANCE: &str = "abcdefgh";

fn event(at_ms: u64, name: &str, component: Option<u32>) -> HistoryEvent {
    let placed = name == "JobPlaced";
    let sites = vec!["s1".into(); if placed { 2 } else { 0 }];
    let name = name.into();
    let round = placed.then_some(1);
    let detail = String::new();
    HistoryEvent {
        at_ms,
        name,
        component,
        round,
        sites,
        detail,
        ..HistoryEvent::default()
    }
}

fn run(tag: &str, start_ms: u64, end: Option<(u64, i32)>) -> PayloadRun {
    PayloadRun {
        tag: tag.into(),
        nonce: format!("{tag}-{start_ms}"),
        pid: 7,
        start_ms,
        end,
        beside: Vec::new(),
        bad_inputs: Vec::new(),
        wrong_peers: None,
        chunks: Vec::new(),
    }
}

/// Job 1: two components, one aborted round, one that finished. Job 2: cancelled.
fn innocent() -> RunEvidence {
    let round = |at| {
        [
            event(at, "JobPlaced", None),
            event(at, "ClaimBegun", None),
            event(at + 2, "ComponentReady", Some(0)),
            event(at + 2, "ComponentReady", Some(1)),
            event(at + 10, "GoDecided", None),
        ]
    };
    let mut events: Vec<HistoryEvent> = round(100).into();
    events.push(event(150, "RoundAborted", None));
    events.extend(round(200));
    events.push(event(300, "JobFinished", None));
    let job = JobTruth {
        id: 1,
        name: "one".into(),
        state: "finished".into(),
        components: 2,
        asked: RequestedJob::default(),
        events,
        shortened: false,
        outputs: [(0, format!("c{INSTANCE}-1-0-2"))].into(),
    };
    let cancelled = JobTruth {
        id: 2,
        name: "two".into(),
        state: "cancelled".into(),
        components: 1,
        events: vec![event(400, "JobCancelled", None)],
        ..JobTruth::default()
    };
    let tag = |component, attempt| format!("c{INSTANCE}-1-{component}-{attempt}");
    let ready = [((0, 1), 101), ((1, 1), 102), ((0, 2), 203), ((1, 2), 204)];
    let site = SiteTruth {
        name: "s1".into(),
        processors: (4, 4),
        store: ["d1".to_owned()].into(),
        pinned: ["d1".to_owned()].into(),
        ready_ms: ready.map(|((c, a), at)| (tag(c, a), at)).into(),
        ..SiteTruth::default()
    };
    RunEvidence {
        instance: INSTANCE.into(),
        promises: ClientPromises {
            acknowledged: [("one".into(), vec![1, 1]), ("two".into(), vec![2])].into(),
            cancelled: vec![2],
            refused: Vec::new(),
        },
        jobs: vec![job, cancelled],
        ledger: PayloadLedger {
            runs: vec![
                run(&tag(0, 1), 115, None),
                run(&tag(0, 2), 215, Some((230, 0))),
                run(&tag(1, 2), 216, Some((231, 0))),
            ],
        },
        sites: vec![site],
        ..RunEvidence::default()
    }
}

fn broken(rule: OracleRule, forge: impl FnOnce(&mut RunEvidence)) {
    let mut evidence = innocent();
    forge(&mut evidence);
    let verdict = judge_evidence(&evidence);
    assert!(
        !verdict.violations.is_empty() && verdict.violations.iter().all(|v| v.rule == rule),
        "{rule:?}: {:#?}",
        verdict.violations
    );
}

#[test]
fn an_innocent_run_is_acquitted() {
    let verdict = judge_evidence(&innocent());
    assert_eq!(verdict.violations, []);
    assert_eq!(verdict.payloads, 3);
}

#[test]
fn a_lost_or_unfinished_or_exchanged_job_is_seen() {
    broken(OracleRule::NothingLost, |e| {
        e.promises.acknowledged.insert("three".into(), vec![3]);
    });
    broken(OracleRule::NothingLost, |e| {
        e.jobs[1].state = "running".into()
    });
    broken(OracleRule::NothingLost, |e| e.jobs[1].name = "other".into());
    broken(OracleRule::NothingLost, |e| e.sites[0].store.clear());
}

#[test]
fn a_doubled_job_is_seen() {
    broken(OracleRule::NothingDoubled, |e| {
        e.promises.acknowledged.insert("one".into(), vec![1, 3]);
        let mut twin = e.jobs[1].clone();
        twin.id = 3;
        twin.name = "one".into();
        e.jobs.push(twin);
    });
}

#[test]
fn a_refusal_is_seen() {
    broken(OracleRule::NothingRefused, |e| {
        e.promises.refused.push("one: 500".into())
    });
}

#[test]
fn a_second_start_of_an_attempt_is_seen() {
    broken(OracleRule::StartsOnce, |e| {
        let mut again = e.ledger.runs[2].clone();
        again.nonce = "other".into();
        again.start_ms = 240;
        e.ledger.runs.push(again);
    });
}

#[test]
fn a_start_before_or_without_a_decision_is_seen() {
    broken(OracleRule::GoFirst, |e| e.ledger.runs[1].start_ms = 205);
    broken(OracleRule::GoFirst, |e| {
        e.ledger
            .runs
            .push(run(&format!("c{INSTANCE}-1-0-9"), 900, None))
    });
    broken(OracleRule::GoFirst, |e| {
        e.ledger
            .runs
            .push(run(&format!("c{INSTANCE}-9-0-1"), 900, None))
    });
    broken(OracleRule::GoFirst, |e| {
        e.ledger.runs.push(run("chhhhhhhh-1-0-1", 900, None))
    });
}

#[test]
fn a_decision_with_a_component_missing_is_seen() {
    broken(OracleRule::AllReady, |e| {
        e.jobs[0].events.remove(2);
    });
    broken(OracleRule::AllReady, |e| {
        e.sites[0]
            .ready_ms
            .insert(format!("c{INSTANCE}-1-1-2"), 211);
    });
    broken(OracleRule::AllReady, |e| {
        e.sites[0].ready_ms.remove(&format!("c{INSTANCE}-1-1-2"));
    });
}

#[test]
fn a_job_that_is_reported_finished_without_its_payloads_is_seen() {
    broken(OracleRule::FinishedIsDone, |e| {
        e.jobs[0]
            .events
            .insert(11, event(250, "RoundAborted", None));
    });
    broken(OracleRule::FinishedIsDone, |e| {
        e.ledger.runs[1].end = Some((230, 3))
    });
    broken(OracleRule::FinishedIsDone, |e| e.ledger.runs[1].end = None);
}

#[test]
fn a_job_that_is_reported_finished_although_its_parts_began_apart_is_seen() {
    broken(OracleRule::FinishedIsDone, |e| {
        let late = &mut e.ledger.runs[2];
        late.start_ms += 31_000;
        late.end = Some((40_000, 0));
    });
}

#[test]
fn two_attempts_at_the_same_time_are_seen() {
    broken(OracleRule::NoOverlap, |e| {
        e.ledger.runs[0].end = Some((220, 0))
    });
    broken(OracleRule::NoOverlap, |e| {
        e.ledger.runs[1].beside.push(format!("c{INSTANCE}-1-0-1"))
    });
}

#[test]
fn an_output_of_another_round_is_seen() {
    broken(OracleRule::OneRoundsOutput, |e| {
        e.jobs[0].outputs.insert(0, format!("c{INSTANCE}-1-0-1"));
    });
}

#[test]
fn a_wrong_input_is_seen() {
    broken(OracleRule::WholeInput, |e| {
        e.ledger.runs[0].bad_inputs.push("in-mesh".into())
    });
}

#[test]
fn a_start_or_a_success_after_a_cancellation_is_seen() {
    broken(OracleRule::CancelHolds, |e| e.promises.cancelled.push(1));
    broken(OracleRule::CancelHolds, |e| {
        let mut decided = ["JobPlaced", "ClaimBegun"].map(|name| event(380, name, None));
        decided[0].sites.truncate(1);
        e.jobs[1].events.splice(0..0, decided);
        e.jobs[1]
            .events
            .insert(2, event(381, "ComponentReady", Some(0)));
        e.jobs[1].events.insert(3, event(382, "GoDecided", None));
        let tag = format!("c{INSTANCE}-2-0-1");
        e.sites[0].ready_ms.insert(tag.clone(), 381);
        e.ledger.runs.push(run(&tag, 401, None));
    });
}

#[test]
fn a_processor_that_stays_held_is_seen() {
    broken(OracleRule::NothingHeld, |e| e.sites[0].processors = (3, 4));
    broken(OracleRule::NothingHeld, |e| {
        e.sites[0].live.push("t".into())
    });
}

#[test]
fn a_process_that_stays_is_seen() {
    broken(OracleRule::NothingRuns, |e| {
        e.processes.push("t (7)".into())
    });
}

#[test]
fn a_file_that_stays_is_seen() {
    broken(OracleRule::NothingStaged, |e| {
        e.sites[0].store.insert("d2".into());
    });
    broken(OracleRule::NothingStaged, |e| {
        e.sites[0].incoming.push("d2.n".into())
    });
}

#[test]
fn a_touched_attempt_of_others_is_seen() {
    broken(OracleRule::OthersLeftAlone, |e| {
        e.foreign.push("changed".into())
    });
}

#[test]
fn a_second_start_of_what_must_not_run_twice_is_seen() {
    broken(OracleRule::RunsOnce, |e| e.jobs[0].asked.once = true);
}

#[test]
fn one_run_of_a_sweep_too_many_is_seen() {
    broken(OracleRule::LimitHolds, |e| {
        let mut other = e.jobs[0].clone();
        other.id = 3;
        other.name = "three".into();
        e.jobs.push(other);
        e.jobs
            .iter_mut()
            .for_each(|job| job.asked.sweep = Some((1, 1)));
        for mut run in e.ledger.runs.clone() {
            run.tag = run.tag.replacen("-1-", "-3-", 1);
            e.ledger.runs.push(run);
        }
        let tags: Vec<String> = e.sites[0].ready_ms.keys().cloned().collect();
        for tag in tags {
            let at = e.sites[0].ready_ms[&tag];
            e.sites[0]
                .ready_ms
                .insert(tag.replacen("-1-", "-3-", 1), at);
        }
        e.jobs[2].outputs.clear();
    });
}

#[test]
fn peers_that_are_not_told_of_are_seen() {
    broken(OracleRule::PeersKnown, |e| {
        e.ledger.runs[1].wrong_peers = Some("1".into())
    });
}

#[test]
fn a_chunk_that_is_not_the_payloads_own_is_seen() {
    let shared_out = |e: &mut RunEvidence, chunks: [(u64, u64); 3]| {
        e.jobs[0].asked.shares = vec![1, 3];
        for (run, chunk) in e.ledger.runs.iter_mut().zip(chunks) {
            run.chunks = vec![chunk];
        }
    };
    let own = [(0, 200_000), (0, 200_000), (200_000, 600_000)];
    let mut well = innocent();
    shared_out(&mut well, own);
    assert_eq!(judge_evidence(&well).violations, []);
    let other = [own[0], own[1], (200_000, 599_999)];
    broken(OracleRule::OwnChunk, |e| shared_out(e, other));
    broken(OracleRule::OwnChunk, |e| {
        shared_out(e, own);
        e.ledger.runs[1].chunks.clear();
    });
    broken(OracleRule::OwnChunk, |e| {
        e.ledger.runs[1].chunks.push((0, 1))
    });
    // The parts of an earlier split had other chunks.
    let earlier = [(0, 9), own[1], own[2]];
    broken(OracleRule::OwnChunk, |e| shared_out(e, earlier));
    well.jobs[0].asked.flexible = true;
    shared_out(&mut well, earlier);
    assert_eq!(judge_evidence(&well).violations, []);
}
