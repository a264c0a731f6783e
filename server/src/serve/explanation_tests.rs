//! What a job is told of where it stands, and of the files that it waits for.

use cospan_domain::bid::{BidRefusal, SiteBid};
use cospan_domain::job::job_state::{AttemptState, OutputCollection, PhaseKind};
use cospan_domain::job::spec::{OutputSpec, Priority};
use cospan_domain::placed::{ContentSource, PlacementRule};
use cospan_domain::placement::PlacementPlan;

use super::*;
use crate::serve::verdict_report::tests::{explanation, placed_at, waiting_job};

const NOW: Timestamp = Timestamp(1);
const CONTENT: Content = Content {
    digest: Digest([7; 32]),
    size: Bytes(30),
};

fn full_disk_copy(_: Digest, _: &SiteName) -> CopyProgress {
    CopyProgress {
        problem: Some("no space left".into()),
        ..CopyProgress::default()
    }
}

/// From, to, and what went wrong.
fn transfer_problems(job: &Job) -> Vec<(String, String, Option<String>)> {
    transfer_reports(job, |_| true, full_disk_copy)
        .into_iter()
        .map(|report: TransferReport| (report.from, report.site, report.problem))
        .collect()
}

#[test]
fn who_waits_for_input_is_told_what_keeps_it_from_arriving() {
    for phase in [
        JobPhase::Placed {
            at: NOW,
            start_estimate: NOW,
        },
        JobPhase::Claiming { since: NOW },
    ] {
        let mut job = placed_at("leiden", phase);
        let from = "delft".parse().unwrap();
        let source = ContentSource {
            content: CONTENT,
            from,
            chunk: None,
        };
        job.components[0]
            .placement
            .as_mut()
            .unwrap()
            .sources
            .push(source);
        let expected = (
            "delft".into(),
            "leiden".into(),
            Some("no space left".into()),
        );
        assert_eq!(transfer_problems(&job), [expected]);
        job.inputs_here = true;
        assert_eq!(transfer_problems(&job), []);
    }
}

#[test]
fn who_waits_for_outputs_is_told_where_each_goes_and_what_keeps_it() {
    let mut job = placed_at("leiden", JobPhase::Collecting { since: NOW });
    let collect = OutputDestination::ToSite {
        site: "delft".parse().unwrap(),
        register: "results".parse().unwrap(),
    };
    let spec = Arc::make_mut(&mut job.spec);
    spec.components[0].outputs = vec![
        OutputSpec {
            path: "out".parse().unwrap(),
            collect,
        },
        OutputSpec {
            path: "log".parse().unwrap(),
            collect: OutputDestination::Fetch,
        },
    ];
    job.components[0].collected = vec![
        OutputCollection {
            content: Some(CONTENT),
            done: false,
        },
        OutputCollection {
            content: Some(CONTENT),
            done: false,
        },
    ];
    let expected = (
        "leiden".into(),
        "delft".into(),
        Some("no space left".into()),
    );
    assert_eq!(transfer_problems(&job), [expected]);
    job.components[0].collected[0].done = true;
    assert_eq!(transfer_problems(&job), []);
}

#[test]
fn bids_for_a_placed_job_are_said_to_be_those_of_now() {
    let mut explanation = explanation(WaitCause::Placement);
    assert_eq!(basis_of_bids(&explanation, true), None, "nobody bid");
    explanation.bids.push(SiteBid {
        site: "delft".parse().unwrap(),
        answer: Err(BidRefusal::NothingFree),
        nearer: None,
        lacks_gflops: false,
    });
    let waiting = basis_of_bids(&explanation, false).unwrap();
    assert_eq!(waiting, "sites as they are now; bandwidths as configured");
    let placed = basis_of_bids(&explanation, true).unwrap();
    assert!(
        placed.contains("how they were when it was placed is not kept"),
        "{placed}"
    );
}

fn phases() -> Vec<(JobPhase, &'static str)> {
    let why = AbortCause::InputLost {
        detail: "no space left".into(),
    };
    let aborting = |why, then| JobPhase::Aborting {
        since: NOW,
        why,
        then,
    };
    let by = || "ada".parse().unwrap();
    vec![
        (
            JobPhase::Placed {
                at: NOW,
                start_estimate: NOW,
            },
            "it is placed; its input is on the way",
        ),
        (
            JobPhase::Claiming { since: NOW },
            "processors are claimed; its input is on the way",
        ),
        (
            JobPhase::Starting { since: NOW },
            "its start is decided; gates are being opened",
        ),
        (JobPhase::Running { since: NOW }, "it runs: solve"),
        (
            JobPhase::Collecting { since: NOW },
            "it succeeded; its outputs are brought to their sites",
        ),
        (
            aborting(
                why.clone(),
                AbortConsequence::Fail {
                    reason: "tried too often".into(),
                },
            ),
            "its round is being aborted: input did not arrive: no space left; then it fails: tried \
             too often",
        ),
        (
            aborting(why, AbortConsequence::Cancel { by: by() }),
            "its round is being aborted: input did not arrive: no space left; then it is \
             cancelled, as ada asked",
        ),
        (
            aborting(AbortCause::Cancelled, AbortConsequence::Cancel { by: by() }),
            "it is being cancelled; what still runs is being ended",
        ),
    ]
}

#[test]
fn in_every_phase_it_is_told_what_it_waits_for() {
    for (phase, expected) in phases() {
        let mut job = placed_at("leiden", phase);
        if matches!(job.phase, JobPhase::Running { .. }) {
            let lrm_id = "1".parse().unwrap();
            job.components[0].run = AttemptState::Running {
                lrm_id,
                host: "n".into(),
                since: NOW,
            };
        }
        assert_eq!(
            summarize(&job, &explanation(WaitCause::Phase), None),
            expected
        );
    }
    let told: Vec<PhaseKind> = phases().iter().map(|(phase, _)| phase.kind()).collect();
    let left_out: Vec<PhaseKind> = PhaseKind::ALL
        .into_iter()
        .filter(|kind| !told.contains(kind))
        .collect();
    let ended = [PhaseKind::Finished, PhaseKind::Failed, PhaseKind::Cancelled];
    assert_eq!(left_out, [&[PhaseKind::Queued][..], &ended].concat());
}

#[test]
fn with_its_input_there_it_is_told_which_components_are_claimed() {
    let mut job = placed_at("leiden", JobPhase::Claiming { since: NOW });
    job.inputs_here = true;
    let mut explanation = explanation(WaitCause::Phase);
    explanation.next_claim = Some(Timestamp(60_000));
    let told = summarize(&job, &explanation, None);
    assert_eq!(
        told,
        "processors are being claimed; at the gate: none; submitted: none; not yet: solve; \
         processors are claimed next at 1970-01-01T00:01:00.000Z"
    );
}

#[test]
fn one_that_may_not_be_placed_is_told_why_and_who_can_change_that() {
    let told = |wait| summarize(&waiting_job(), &explanation(wait), None);
    assert_eq!(
        told(WaitCause::Frozen),
        "it is frozen; `cospan thaw` lets it be placed"
    );
    assert_eq!(
        told(WaitCause::Held("a policy panicked".into())),
        "it is held: a policy panicked"
    );
    let turn = told(WaitCause::Turn(3));
    assert_eq!(
        turn,
        "it waits for its turn: at most 3 run(s) of its sweep at once"
    );
    let standing = QueueStanding {
        priority: Priority::Low,
        ahead: 0,
        condition: WaitingCondition::BackedOff(Timestamp(60_000)),
        tries: 0,
        refusal: None,
    };
    let told = summarize(
        &waiting_job(),
        &explanation(WaitCause::Placement),
        Some(&standing),
    );
    assert!(
        told.starts_with("it waits after a setback; the next try is at 1970"),
        "{told}"
    );
}

#[test]
fn one_not_yet_submitted_is_told_by_which_rule_sites_would_be_chosen() {
    let job = placed_at(
        "leiden",
        JobPhase::Placed {
            at: NOW,
            start_estimate: NOW,
        },
    );
    let mut explanation = explanation(WaitCause::NotSubmitted);
    explanation.decision = Ok(PlacementPlan {
        policy: explanation.policy.clone(),
        rule: PlacementRule::MostLeft,
        placements: job.components[0].placement.clone().into_iter().collect(),
        transfer_time: DurationMs::ZERO,
    });
    let told = preview_report(
        &explanation,
        &job.spec,
        DurationMs::ZERO,
        ExplanationPage::FIRST,
    );
    assert_eq!(told.rule.as_deref(), Some(PlacementRule::MostLeft.as_str()));
    assert_eq!(
        told.summary,
        "it can be placed now, on 1 site(s), with input there in 0s"
    );
}
