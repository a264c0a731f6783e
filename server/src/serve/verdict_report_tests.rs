//! What each site is to a job that waits, is placed, runs, or has ended.

use std::sync::Arc;

use cospan_actors::coallocator::{StartEstimate, WaitCause};
use cospan_domain::acquisition::{PartitionAccount, PartitionDemand, PartitionWait};
use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::{Component, JobPhase};
use cospan_domain::job::spec::{
    ComponentSpec, ExecutableSource, JobSpec, Priority, Program, RequestType, UnreachableAction,
};
use cospan_domain::placed::{
    DominantRefusal, Placement, PlacementOrigin, PlacementRule, ReasonCode,
};
use cospan_domain::placement::{PlacementHindrance, PlacementRefusal};
use cospan_domain::resources::Resources;
use cospan_domain::site::availability::SiteObstacle;
use cospan_domain::units::{DurationMs, Timestamp};

use super::*;
use crate::serve::explanation;
use cospan_api::v1::job::JobReport;

const FIRST: ExplanationPage = ExplanationPage::FIRST;
const PROBE: Timestamp = Timestamp(1_700_000_000_000);

fn site(name: &str) -> SiteName {
    name.parse().unwrap()
}

fn verdict(name: &str, outcome: SiteSuitability) -> SiteVerdict {
    let component = ComponentIndex(0);
    let site = site(name);
    let remaining_processors = 6;
    let transfer_time = Some(DurationMs(5));
    SiteVerdict {
        component,
        site,
        remaining_processors,
        transfer_time,
        outcome,
    }
}

/// Leiden would be chosen; Delft is unusable; nothing is known of other sites.
pub(crate) fn explanation(wait: WaitCause) -> JobExplanation {
    let closed = vec![RefusalReason::Closed(PlacementHindrance::Unusable)];
    let obstacle = SiteObstacle::BreakerOpen {
        errors: 3,
        probe_at: PROBE,
    };
    let figures = |obstacles: Vec<SiteObstacle>| SiteFigures {
        age: Some(DurationMs(900)),
        idle: Some(9),
        quota_leaves: Some(7),
        pending: 1,
        errors: 3 * obstacles.len() as u32,
        probe_at: (!obstacles.is_empty()).then_some(PROBE),
        obstacles,
    };
    let refusal = PlacementRefusal {
        component: ComponentIndex(0),
        site: None,
        reason: RefusalReason::SiteFull,
    };
    JobExplanation {
        bids: Vec::new(),
        bid_kind: cospan_domain::placement::BandwidthKind::Nominal,
        components: vec!["solve".into()],
        policy: "worst-fit".parse().unwrap(),
        missing_link: None,
        decision: Err(refusal),
        verdicts: vec![
            verdict("delft", SiteSuitability::Refused(closed)),
            verdict("leiden", SiteSuitability::Chosen),
        ],
        sites: [
            (site("delft"), figures(vec![obstacle])),
            (site("leiden"), figures(Vec::new())),
        ]
        .into(),
        wait,
        silence: Default::default(),
        next_claim: None,
        starvation_guard: None,
        estimate: StartEstimate::None,
        transfers: Vec::new(),
        class: None,
    }
}

/// One component in its queue.
pub(crate) fn waiting_job() -> Job {
    let program = Program {
        executable: ExecutableSource::AtSite("true".into()),
        arguments: Vec::new(),
        environment: Default::default(),
        directory: None,
        setup: Vec::new(),
    };
    let component = ComponentSpec {
        name: "solve".parse().unwrap(),
        site: None,
        resources: Resources::processors(8),
        constraints: Vec::new(),
        program: program.into(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        at: Default::default(),
        restart: None,
        start_after: DurationMs::ZERO,
    };
    let spec = JobSpec {
        name: None,
        request: RequestType::NonFixed,
        components: vec![component],
        policy: None,
        priority: Priority::Low,
        wall_time: DurationMs::from_secs(60),
        rerunnable: true,
        on_unreachable: UnreachableAction::Wait,
        max_placement_tries: None,
        max_claim_tries: None,
        max_retries: 0,
        run: Default::default(),
    };
    Job {
        id: JobId(1),
        spec: Arc::new(spec),
        owner: "alice".parse().unwrap(),
        idempotency: None,
        submitted_at: Timestamp(0),
        priority: Priority::Low,
        frozen_by: None,
        held: None,
        phase: JobPhase::Queued {
            since: Timestamp(0),
            not_before: Timestamp(0),
        },
        round: Default::default(),
        inputs_here: false,
        start_at: None,
        next_claim: None,
        preempting: Vec::new(),
        promoted: false,
        components: Vec::new(),
        setbacks: Default::default(),
        instants: Default::default(),
        placed_by: None,
        wish: Default::default(),
        reservation: None,
        told: Default::default(),
        revision: 1,
    }
}

pub(crate) fn placed_at(name: &str, phase: JobPhase) -> Job {
    let mut job = waiting_job();
    let placement = Placement {
        site: site(name),
        sources: Vec::new(),
        transfer_time: DurationMs::ZERO,
        share: None,
        acquisition: Default::default(),
    };
    job.components = vec![Component {
        placement: Some(placement),
        ..Component::default()
    }];
    let refused = Some(DominantRefusal {
        code: ReasonCode::NotEnoughIdle,
        sites: 3,
    });
    let policy = "worst-fit".parse().unwrap();
    job.placed_by = Some(PlacementOrigin {
        policy,
        rule: PlacementRule::MostLeft,
        refused,
    });
    job.phase = phase;
    job
}

fn codes(reports: &[VerdictReport]) -> Vec<(&str, &str, bool)> {
    let site = |report: &VerdictReport| report.site.clone().unwrap().leak() as &str;
    reports
        .iter()
        .map(|r| (site(r), r.code.as_str(), r.chosen))
        .collect()
}

#[test]
fn a_placed_job_is_told_its_place_the_rule_and_what_others_would_be() {
    let now = Timestamp(1);
    let phases = [
        JobPhase::Placed {
            at: now,
            start_estimate: now,
        },
        JobPhase::Claiming { since: now },
        JobPhase::Running { since: now },
    ];
    for phase in phases {
        let mut job = placed_at("delft", phase);
        for held in [None, Some("it panicked")] {
            job.held = held.map(Arc::from);
            let reports = of_job(&job, &explanation(WaitCause::Phase), FIRST).shown;
            let expected = [
                ("delft", "placed-here", true),
                ("leiden", "would-be-chosen", false),
            ];
            assert_eq!(codes(&reports), expected, "{:?}", job.phase);
            let here = &reports[0].detail;
            assert!(
                here.contains("by worst-fit: the site with the most"),
                "{here}"
            );
            assert!(
                here.contains("unusable after 3 errors"),
                "what it is now: {here}"
            );
        }
    }
}

#[test]
fn what_waited_lately_is_told_with_its_times() {
    let wait = PartitionWait {
        ask: PartitionDemand::new(64, DurationMs::from_secs(1_800)),
        asked_at: PROBE,
        why: "Priority".into(),
        until: PROBE + DurationMs::from_secs(600),
    };
    let lane = PartitionAccount {
        partition: Some("short".into()),
        account: None,
    };
    let refused = SiteSuitability::Refused(vec![RefusalReason::Waited { lane, wait }]);
    let verdicts = vec![verdict("leiden", refused)];
    let explanation = JobExplanation {
        verdicts,
        ..explanation(WaitCause::NotSubmitted)
    };
    let reports = of_preview(&explanation, FIRST).shown;
    assert_eq!(codes(&reports), [("leiden", "waited-lately", false)]);
    assert_eq!(
        reports[0].detail,
        "short was asked for 64 processors for 30m00s at 2023-11-14T22:13:20.000Z: waited for \
         Priority; smaller or shorter until 2023-11-14T22:23:20.000Z"
    );
}

#[test]
fn numbers_are_fields_and_not_words_alone() {
    let reports = of_job(&waiting_job(), &explanation(WaitCause::Placement), FIRST).shown;
    let delft = &reports[0];
    assert_eq!(
        (delft.code.as_str(), delft.chosen),
        ("site-unusable", false)
    );
    assert_eq!(
        (delft.idle, delft.quota_leaves, delft.pending),
        (Some(9), Some(7), Some(1))
    );
    assert_eq!(
        (delft.errors, delft.probe_at),
        (Some(3), Some(PROBE.into()))
    );
    assert_eq!((delft.age_ms, delft.transfer_ms), (Some(900), Some(5)));
    assert!(
        delft.detail.contains("after 3 errors in a row"),
        "{}",
        delft.detail
    );
    assert_eq!(codes(&reports)[1], ("leiden", "chosen", true));
    assert_eq!((reports[1].errors, reports[1].probe_at), (Some(0), None));
}

#[test]
fn a_site_that_left_the_configuration_is_named() {
    let job = placed_at(
        "utrecht",
        JobPhase::Running {
            since: Timestamp(1),
        },
    );
    let explanation = explanation(WaitCause::Phase);
    assert_eq!(unknown_sites(&job, &explanation), [&site("utrecht")].into());
    let reports = of_job(&job, &explanation, FIRST).shown;
    assert_eq!(reports[0].code, "not-configured");
    assert!(reports[0].detail.contains("no longer in the configuration"));
}

#[test]
fn a_job_that_has_ended_is_told_where_it_was() {
    let job = placed_at("leiden", JobPhase::Finished { at: Timestamp(2) });
    let reports = of_job(&job, &explanation(WaitCause::Ended), FIRST).shown;
    assert_eq!(codes(&reports), [("leiden", "placed-here", true)]);
}

#[test]
fn what_kept_most_of_the_refused_sites_is_told_of_a_placed_job() {
    let told = |job: &Job| {
        let wait = if job.is_final() {
            WaitCause::Ended
        } else {
            WaitCause::Phase
        };
        let known = explanation::ExplainContext::default();
        let report =
            explanation::job_report(job, &explanation(wait), known, FIRST, |_, _: &SiteName| {
                Default::default()
            });
        let placed = JobReport::from(job).placed.map(|placed| placed.to_string());
        (report.refused.map(|refused| refused.to_string()), placed)
    };
    let refused = "3 other site(s) refused: not-enough-idle".to_owned();
    let running = placed_at(
        "delft",
        JobPhase::Running {
            since: Timestamp(1),
        },
    );
    let shown = format!("worst-fit (most-left), {refused}");
    assert_eq!(told(&running), (Some(refused.clone()), Some(shown.clone())));
    let ended = placed_at("delft", JobPhase::Finished { at: Timestamp(2) });
    assert_eq!(told(&ended), (Some(refused), Some(shown)));
    let queue = JobPhase::Queued {
        since: Timestamp(0),
        not_before: Timestamp(0),
    };
    assert_eq!(
        told(&placed_at("delft", queue)),
        (None, None),
        "it has no site any more"
    );
}

/// A waiting job of so many components, each refused by so many sites but one.
fn large(components: usize, sites: usize) -> (Job, JobExplanation) {
    let mut job = waiting_job();
    let spec = Arc::make_mut(&mut job.spec);
    spec.components = (0..components)
        .map(|number: usize| ComponentSpec {
            name: format!("c{number}").parse().unwrap(),
            ..spec.components[0].clone()
        })
        .collect();
    let refused = || {
        let full = vec![RefusalReason::SiteFull, RefusalReason::Avoided];
        [
            vec![SiteSuitability::Chosen],
            vec![SiteSuitability::Refused(full); sites - 1],
        ]
        .concat()
    };
    let verdicts = (0..components)
        .rev()
        .flat_map(|component: usize| {
            (0..)
                .zip(refused())
                .map(
                    move |(number, outcome): (usize, SiteSuitability)| SiteVerdict {
                        component: ComponentIndex(component as u32),
                        ..verdict(&format!("s{number}"), outcome)
                    },
                )
        })
        .collect();
    let components = job.spec.component_names(components);
    (
        job,
        JobExplanation {
            verdicts,
            components,
            ..explanation(WaitCause::Placement)
        },
    )
}

#[test]
fn a_large_job_is_told_of_page_by_page_and_each_verdict_once() {
    let (job, explanation) = large(1_000, 200);
    let mut after = 0;
    let mut seen = BTreeSet::new();
    loop {
        let page = of_job(&job, &explanation, ExplanationPage { after, ..FIRST });
        assert!(
            page.shown.len() <= ExplanationPage::ROWS,
            "{}",
            page.shown.len()
        );
        for row in &page.shown {
            assert!(seen.insert((row.component.clone(), row.site.clone(), row.code.clone())));
        }
        let groups: Vec<(&str, u64, u64)> = page
            .groups
            .iter()
            .map(|group| (group.code.as_str(), group.sites, group.components))
            .collect();
        let all = [
            ("avoided-after-error", 199, 1_000),
            ("site-full", 199, 1_000),
            ("chosen", 1, 1_000),
        ];
        assert_eq!(groups, if after == 0 { &all[..] } else { &[] });
        match page.next_page() {
            Some(next) => after = next as usize,
            None => break,
        }
    }
    assert_eq!(seen.len(), 1_000 * (199 * 2 + 1));
}

#[test]
fn a_page_has_whole_components_and_one_at_least() {
    let (job, explanation) = large(10, 20);
    let page = |after: usize, limit: usize, rows: usize| {
        let page = of_job(&job, &explanation, ExplanationPage { after, limit, rows });
        let mut names: Vec<String> = page
            .shown
            .iter()
            .filter_map(|row| row.component.clone())
            .collect();
        names.dedup();
        (page.shown.len(), names.join(" "), page.next_page())
    };
    assert_eq!(page(0, 2, 1_000), (78, "c1 c0".into(), Some(2)));
    assert_eq!(page(2, 1_000, 80), (78, "c3 c2".into(), Some(4)));
    assert_eq!(page(4, 1_000, 1), (39, "c4".into(), Some(5)));
    assert_eq!(page(9, 5, 1_000), (39, "c9".into(), None));
    assert_eq!(page(10, 5, 1_000), (0, String::new(), None));
    assert_eq!(page(usize::MAX, 5, 1_000), (0, String::new(), None));
}

#[test]
fn what_fits_on_one_page_is_told_as_a_whole_and_in_the_order_of_preference() {
    let (job, explanation) = large(5, 20);
    let whole = of_job(&job, &explanation, FIRST);
    assert_eq!((whole.shown.len(), whole.next_page()), (5 * 39, None));
    assert_eq!(whole.groups, [], "who can read all of it needs no sum");
    assert_eq!(whole.shown[0].component.as_deref(), Some("c4"));
}
