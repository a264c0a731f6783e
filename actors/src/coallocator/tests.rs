//! Offers, with sites in memory.

use std::sync::Arc;

use actix::Addr;
use cospan_domain::ids::{Attempt, ComponentIndex, JobId, LrmId, SiteName};
use cospan_domain::job::job_state::{AttemptState, Component, Job, JobPhase};
use cospan_domain::job::spec::{ComponentSpec, FlexibleBounds, JobSpec, Priority, RequestType};
use cospan_domain::labels::SiteLabels;
use cospan_domain::placed::Placement;
use cospan_domain::placement::{RefusalReason, SiteSuitability};
use cospan_domain::queue::{QueueStanding, WaitingCondition};
use cospan_domain::reservation::IdleDrop;
use cospan_domain::resources::Resources;
use cospan_domain::site::contact::SiteContact;
use cospan_domain::site::site_state::{Breaker, SiteRecord};
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use cospan_sites::port::{SiteCapabilities, SiteDescription};

use super::{
    AskQueueStanding, CoAllocator, JobExplanation, WaitCause, explain_in_full, explain_unsubmitted,
};
use crate::actor_registry::LookAgain;
use crate::committed::JournalChange;
use crate::grid_snapshot::{believed_idle, idle_drops_from_now, may_go_to_probed_site};
use crate::live_state::LatestSiteReport;
use crate::supervision::{ActorId, LifeGuard};
use crate::transfer::testing::{MemoryWorld, content, queued_job, run_paused, site};

const JOB: JobId = JobId(1);

impl MemoryWorld {
    fn co_allocator(&self) -> Addr<CoAllocator> {
        let supervisor = self.shared.supervisor.get().expect("it is started first");
        let guard = LifeGuard::new(ActorId::CoAllocator, supervisor.clone());
        self.workshop.build_actor(&ActorId::CoAllocator, guard);
        self.shared.actors.addr(&()).expect("it was just built")
    }
}

async fn ask_queue_standing(addr: &Addr<CoAllocator>) -> Option<QueueStanding> {
    addr.send(AskQueueStanding(JOB)).await.expect("it lives")
}

#[test]
fn an_offer_for_a_job_that_is_gone_forgets_its_queue_entry() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        let co_allocator = world.co_allocator();
        world
            .append(JournalChange::NewJobs(vec![Arc::new(queued_job(
                JOB.0,
                content(1),
            ))]))
            .await;
        world.settle().await;
        let waits = ask_queue_standing(&co_allocator).await;
        assert!(waits.is_some(), "no site has its input yet");
        // Nobody tells the queues that it is gone.
        world.shared.view.change_with(|view| view.jobs.remove(&JOB));
        world.add_file("input", content(1), &["Delft"]).await;
        co_allocator.send(LookAgain).await.expect("it lives");
        world.settle().await;
        assert_eq!(
            ask_queue_standing(&co_allocator).await,
            None,
            "an offer nobody takes, for ever"
        );
    });
}

#[test]
fn an_offer_is_withdrawn_once_its_job_is_another_also_in_its_queue() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        let co_allocator = world.co_allocator();
        let mut job = queued_job(JOB.0, content(1));
        Arc::make_mut(&mut job.spec).components[0].resources = Resources::processors(1);
        world
            .append(JournalChange::NewJobs(vec![Arc::new(job)]))
            .await;
        world.add_file("input", content(1), &["Delft"]).await;
        report_site(&world, "Delft", 10, 10);
        co_allocator.send(LookAgain).await.expect("it lives");
        let condition = async || {
            ask_queue_standing(&co_allocator)
                .await
                .map(|standing| standing.condition)
        };
        assert_eq!(
            condition().await,
            Some(WaitingCondition::Offered),
            "and nobody answers yet"
        );
        // Else it would be offered again at once.
        report_site(&world, "Delft", 10, 0);
        let old = world.shared.view.load().jobs[&JOB].clone();
        let new = Arc::new(Job {
            revision: 2,
            priority: Priority::High,
            ..Job::clone(&old)
        });
        world
            .append(JournalChange::Job {
                old,
                new,
                events: Vec::new(),
            })
            .await;
        co_allocator.send(LookAgain).await.expect("it lives");
        assert_eq!(condition().await, Some(WaitingCondition::Ready));
    });
}

/// Says on the live state that a site has so many processors and so many of them idle.
fn report_site(world: &MemoryWorld, name: &str, total: u32, idle: u32) {
    let now = world.shared.clock.now();
    let description = SiteDescription {
        total: Resources::processors(total),
        largest_component: Resources::processors(total),
        labels: SiteLabels::default(),
        capabilities: SiteCapabilities::default(),
        lanes: None,
        manager: "none".into(),
    };
    let mut report = LatestSiteReport {
        contact: SiteContact::Answering { last_at: now },
        idle: Some((now, Resources::processors(idle))),
        ..LatestSiteReport::default()
    };
    report.set_description(description);
    world
        .shared
        .live
        .publish_report(site(name), Arc::new(report));
}

#[test]
fn a_report_counts_until_it_is_twice_as_old_as_its_expiry() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        report_site(&world, "Delft", 10, 8);
        let delft = site("Delft");
        let report = world.shared.live.site_report(&delft).expect("a report");
        let (asked_at, _) = report.idle.clone().expect("what is idle");
        let expiry = world.shared.settings.information_expiry;
        let idle =
            |now| believed_idle(&world.shared, &delft, &report, now).map(|b| b.idle.processors);
        assert_eq!(idle(asked_at + expiry), Some(8), "it is being asked again");
        assert_eq!(idle(asked_at + expiry + expiry), Some(8));
        assert_eq!(idle(asked_at + expiry + expiry + DurationMs(1)), None);
        // A refusal after the report counts beside it, one before does not.
        world.shared.live.note_refused_claim(&delft, 5, asked_at);
        assert_eq!(idle(asked_at), Some(4));
    });
}

#[test]
fn what_others_were_promised_comes_nearer_as_a_report_ages() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        world.add_file("input", content(1), &["Delft"]).await;
        let mut job = queued_job(JOB.0, content(1));
        Arc::make_mut(&mut job.spec).components[0].resources = Resources::processors(4);
        world
            .append(JournalChange::NewJobs(vec![Arc::new(job)]))
            .await;
        report_site(&world, "Delft", 10, 8);
        let delft = site("Delft");
        let mut report =
            LatestSiteReport::clone(&*world.shared.live.site_report(&delft).expect("a report"));
        let now = world.shared.clock.now();
        // A job of a minute is asked for with eleven more: the hold, and the margin.
        let soon = DurationMs(13 * 60_000);
        let left = Resources::processors(2);
        report.ebbs = vec![IdleDrop {
            at: now + soon,
            after: soon,
            left,
        }]
        .into();
        world
            .shared
            .live
            .publish_report(delft.clone(), Arc::new(report.clone()));
        let outcome = || {
            let job = world.shared.view.load().jobs[&JOB].clone();
            explain_in_full(&world.shared, &job).verdicts[0]
                .outcome
                .clone()
        };
        assert_eq!(outcome(), SiteSuitability::Chosen, "it is over by then");
        report.ebbs = idle_drops_from_now(&report, now + DurationMs(60_000));
        assert_eq!(report.ebbs[0].after, DurationMs(12 * 60_000));
        world.shared.live.publish_report(delft, Arc::new(report));
        let SiteSuitability::Refused(reasons) = outcome() else {
            panic!("it is a minute nearer")
        };
        assert!(
            matches!(reasons[..], [RefusalReason::Reserved { reserved: 6, .. }]),
            "{reasons:?}"
        );
    });
}

#[test]
fn a_placed_job_is_told_what_each_site_would_be_to_it_if_it_held_nothing() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.add_file("input", content(1), &["Delft"]).await;
        let mut queued = queued_job(JOB.0, content(1));
        let mut spec = JobSpec::clone(&queued.spec);
        spec.components[0].resources = Resources::processors(8);
        queued.spec = Arc::new(spec);
        world
            .append(JournalChange::NewJobs(vec![Arc::new(queued)]))
            .await;
        let job = world.shared.view.load().jobs[&JOB].clone();
        let at_delft = site("Delft");
        let now = world.shared.clock.now();
        let placement = Placement {
            site: at_delft.clone(),
            sources: Vec::new(),
            transfer_time: DurationMs::ZERO,
            share: None,
            acquisition: Default::default(),
        };
        let mut placed = Job {
            revision: 2,
            ..Job::clone(&job)
        };
        placed.phase = JobPhase::Placed {
            at: now,
            start_estimate: now,
        };
        placed.components = vec![Component {
            placement: Some(placement),
            ..Component::default()
        }];
        let new = Arc::new(placed);
        world
            .append(JournalChange::Job {
                old: job,
                new: new.clone(),
                events: Vec::new(),
            })
            .await;
        report_site(&world, "Delft", 10, 8);
        report_site(&world, "Leiden", 10, 4);
        let explanation = explain_in_full(&world.shared, &new);
        assert_eq!(explanation.wait, WaitCause::Phase);
        let delft = &explanation.sites[&at_delft];
        assert_eq!(
            (delft.idle, delft.pending, delft.errors),
            (Some(8), 0, 0),
            "{delft:?}"
        );
        let outcome = |name: &str| {
            let verdict = explanation.verdicts.iter().find(|v| v.site == site(name));
            verdict.map(|verdict| verdict.outcome.clone())
        };
        assert_eq!(
            outcome("Delft"),
            Some(SiteSuitability::Chosen),
            "it does not stand in its own way"
        );
        assert!(
            matches!(outcome("Leiden"), Some(SiteSuitability::Refused(_))),
            "{:?}",
            outcome("Leiden")
        );
        // Running, its processors are in what the site says is not idle.
        let mut running = Job {
            revision: 3,
            ..Job::clone(&new)
        };
        running.phase = JobPhase::Running { since: now };
        running.start_at = Some(now);
        running.inputs_here = true;
        running.components[0].attempt = Attempt(1);
        running.components[0].run = AttemptState::Running {
            lrm_id: LrmId::new("7").expect("an id"),
            host: "node".into(),
            since: now,
        };
        let old = new;
        let new = Arc::new(running);
        world
            .append(JournalChange::Job {
                old,
                new: new.clone(),
                events: Vec::new(),
            })
            .await;
        report_site(&world, "Delft", 10, 2);
        let idle = explain_in_full(&world.shared, &new).sites[&at_delft].idle;
        assert_eq!(idle, Some(10), "2 that are idle and 8 of its own");
    });
}

/// Sites that a job of two components, each as large as a site, would be placed at.
fn sites_for_connected_pair(world: &MemoryWorld) -> Vec<SiteName> {
    let mut spec = JobSpec::clone(&queued_job(JOB.0, content(1)).spec);
    spec.policy = Some("connected-cluster-minimization".parse().expect("a name"));
    let mut one = spec.components[0].clone();
    one.inputs.clear();
    one.resources = Resources::processors(4);
    let other = ComponentSpec {
        name: "other".parse().expect("a name"),
        ..one.clone()
    };
    spec.components = vec![one, other];
    let plan = preview_spec(world, spec).decision.expect("it fits");
    plan.placements
        .into_iter()
        .map(|placement| placement.site)
        .collect()
}

#[test]
fn components_avoid_sites_between_which_transfers_were_slow() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden", "Utrecht"]);
        ["Delft", "Leiden", "Utrecht"]
            .iter()
            .for_each(|name| report_site(&world, name, 4, 4));
        let before = sites_for_connected_pair(&world);
        let [one, other] = &before[..] else {
            panic!("two places: {before:?}")
        };
        let slow = DurationMs::from_secs(3_600);
        let now = world.shared.clock.now();
        for pair in [(one, other), (other, one)] {
            let pair = (pair.0.clone(), pair.1.clone());
            world
                .shared
                .links
                .record_transfer(pair, Bytes(10_000_000), slow, now);
        }
        let after = sites_for_connected_pair(&world);
        assert!(
            !(after.contains(one) && after.contains(other)),
            "{before:?}, then {after:?}"
        );
    });
}

#[test]
fn a_job_that_runs_once_tries_a_site_out_if_no_other_is_worth_waiting_for() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        report_site(&world, "Delft", 10, 8);
        report_site(&world, "Leiden", 10, 8);
        let mut queued = queued_job(JOB.0, content(1));
        let mut spec = JobSpec::clone(&queued.spec);
        spec.components[0].inputs.clear();
        spec.components[0].resources = Resources::processors(8);
        spec.request = RequestType::NonFixed;
        spec.rerunnable = false;
        queued.spec = Arc::new(spec);
        queued.components = vec![Component::default()];
        let here =
            || may_go_to_probed_site(&world.shared, &queued, ComponentIndex(0), &site("Delft"));
        assert!(!here(), "Leiden takes it");
        let before = world.shared.view.load().sites.get(&site("Leiden")).cloned();
        let mut failed = SiteRecord::new(site("Leiden"));
        let since = Timestamp(0);
        let probe_at = world.shared.clock.now() + DurationMs(60_000);
        failed.breaker = Breaker::Open {
            since,
            probe_at,
            trips: 1,
        };
        world
            .append(JournalChange::Site {
                old: before,
                new: Arc::new(failed),
            })
            .await;
        report_site(&world, "Leiden", 10, 8);
        assert!(here(), "Leiden is mended by the jobs of others alone");
    });
}

/// Sites of which Delft is being tried out and has 20 processors, all of them idle.
async fn world_probing_delft(others: &[(&str, u32, u32)]) -> MemoryWorld {
    let names: Vec<&str> = others
        .iter()
        .map(|(name, ..)| *name)
        .chain(["Delft"])
        .collect();
    let world = MemoryWorld::new(&names);
    let old = world.shared.view.load().sites.get(&site("Delft")).cloned();
    let since = Timestamp(0);
    let running = [].into();
    let breaker = Breaker::HalfOpen {
        since,
        allowed: 1,
        running,
        trips: 1,
    };
    let failed = SiteRecord {
        breaker,
        ..SiteRecord::new(site("Delft"))
    };
    world
        .append(JournalChange::Site {
            old,
            new: Arc::new(failed),
        })
        .await;
    others
        .iter()
        .for_each(|(name, total, idle)| report_site(&world, name, *total, *idle));
    report_site(&world, "Delft", 20, 20);
    world
}

/// A job that must not run twice and reads nothing, of components of these sizes.
fn spec_run_once(request: RequestType, sizes: &[u32]) -> JobSpec {
    let mut spec = JobSpec::clone(&queued_job(JOB.0, content(1)).spec);
    let mut part = spec.components.remove(0);
    part.inputs.clear();
    spec.request = request;
    spec.rerunnable = false;
    spec.components = vec![part; sizes.len()];
    for ((part, size), name) in spec.components.iter_mut().zip(sizes).zip(["a", "b", "c"]) {
        part.name = name.parse().expect("a name");
        part.resources = Resources::processors(*size);
    }
    spec
}

/// What would become of a job of this if it were submitted now.
fn preview_spec(world: &MemoryWorld, spec: JobSpec) -> JobExplanation {
    let job = Job {
        spec: spec.into(),
        ..queued_job(JOB.0, content(1))
    };
    explain_unsubmitted(
        &world.shared,
        &job.owner,
        &job.spec,
        &world.shared.placement_request_of(&job),
    )
}

/// The job where it would be placed now, and whether its last component may try Delft out.
fn may_last_try_out_delft(world: &MemoryWorld, spec: JobSpec) -> Option<bool> {
    let plan = preview_spec(world, spec.clone()).decision.ok()?;
    assert!(
        plan.placements
            .iter()
            .any(|placement| placement.site == site("Delft")),
        "{plan:?}"
    );
    let mut job = queued_job(JOB.0, content(1));
    job.spec = spec.into();
    job.components = plan
        .placements
        .into_iter()
        .map(|placement| Component {
            placement: Some(placement),
            ..Component::default()
        })
        .collect();
    let last = ComponentIndex(job.components.len() as u32 - 1);
    Some(may_go_to_probed_site(
        &world.shared,
        &job,
        last,
        &site("Delft"),
    ))
}

/// Else it would be turned away there, placed there again, and so on.
#[test]
fn a_job_that_runs_once_is_let_in_where_it_was_placed_for_want_of_others() {
    run_paused(|| async {
        let world = world_probing_delft(&[("Leiden", 18, 18)]).await;
        let rigid = || spec_run_once(RequestType::NonFixed, &[8, 8, 7]);
        assert_eq!(
            may_last_try_out_delft(&world, rigid()),
            Some(true),
            "Leiden takes two of them at most"
        );
        let total = || spec_run_once(RequestType::Flexible(FlexibleBounds::default()), &[23]);
        assert_eq!(may_last_try_out_delft(&world, total()), Some(true));
        let splits = vec![vec![20, 3], vec![8, 8, 7]];
        let listed = || {
            RequestType::Flexible(FlexibleBounds {
                splits: splits.clone(),
                ..FlexibleBounds::default()
            })
        };
        assert_eq!(
            may_last_try_out_delft(&world, spec_run_once(listed(), &[23])),
            Some(true)
        );
        report_site(&world, "Leiden", 23, 18);
        assert_eq!(
            may_last_try_out_delft(&world, rigid()),
            None,
            "it waits until Leiden is idle"
        );
        assert_eq!(may_last_try_out_delft(&world, total()), None);
        assert_eq!(
            may_last_try_out_delft(&world, spec_run_once(listed(), &[23])),
            None
        );
    });
}

/// Its job could be split otherwise, but that is not asked of a component that is placed anew.
#[test]
fn a_component_that_was_placed_anew_by_itself_is_let_in_for_its_own_size() {
    run_paused(|| async {
        let world = world_probing_delft(&[("Leiden", 10, 0), ("Utrecht", 10, 0)]).await;
        let mut job = queued_job(JOB.0, content(1));
        job.spec = spec_run_once(RequestType::Flexible(FlexibleBounds::default()), &[20]).into();
        let let_in = |share| {
            let sources = Vec::new();
            let transfer_time = DurationMs::ZERO;
            let share = Some(share);
            let placement = Placement {
                site: site("Delft"),
                sources,
                transfer_time,
                share,
                acquisition: Default::default(),
            };
            let part = Component {
                placement: Some(placement),
                ..Component::default()
            };
            let job = Job {
                components: vec![part],
                ..job.clone()
            };
            may_go_to_probed_site(&world.shared, &job, ComponentIndex(0), &site("Delft"))
        };
        assert!(!let_in(10) && let_in(11));
    });
}
