//! The contract of sites over a simulated world, by the adapter of Slurm: as far as it does not
//! take what payloads print, which simulated ones do not.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_rt::System;
use cospan_actors::clock::RuntimeClock;
use cospan_domain::ids::{AttemptTag, HostName, InstanceId, RelPath, SiteName};
use cospan_domain::units::{DurationMs, DurationUs, Timestamp};
use cospan_sites::contract::{
    self, SiteFixture, attempt_tag, await_observation, program, start_attempt, submit_request,
};
use cospan_sites::port::{
    AttemptObservation, ExitCause, QueuedAttempt, Site, SiteEndReason, SiteError,
};

use super::call_faults::{CallFaultModel, FaultRates};
use super::kill_switch::KillSwitch;
use super::site::SimulatedSite;
use super::slurm_site::SimulatedSlurmSite;
use super::world_handle::WorldHandle;
use crate::world::attempt::PROGRAM;
use crate::world::batch::QueueDiscipline;
use crate::world::site_faults::SiteFault;
use crate::world::world_site::ClusterSpec;
use crate::world::{SimulatedWorld, WrapperDelays};

const BEGINS: Timestamp = Timestamp(1_000_000_000_000);

/// A site of four processors.
struct SimulatedSlurmFixture {
    plain: SimulatedSite,
}

impl SimulatedSlurmFixture {
    fn new() -> Self {
        let name = SiteName::new("delft").unwrap();
        let spec = ClusterSpec {
            name: name.clone(),
            nodes: 2,
            processors_per_node: 2,
            discipline: QueueDiscipline::Easy,
            local_jobs: Vec::new(),
            queues: true,
            reserves: false,
            files: BTreeMap::new(),
        };
        let world = SimulatedWorld::new(vec![spec], &[], WrapperDelays::default(), 1, BEGINS);
        let index = world.index_of(&name).unwrap();
        let call_faults = Arc::new(CallFaultModel::new(FaultRates::default(), 1));
        let plain = SimulatedSite {
            name,
            index,
            world: WorldHandle::new(world),
            clock: Arc::new(RuntimeClock::starting_at(BEGINS)),
            kill_switch: KillSwitch::killing_at(None, call_faults.tally().clone()),
            call_faults,
            lives: Arc::default(),
            instance: InstanceId::from_random(1),
            hints: false,
        };
        Self { plain }
    }

    fn apply_fault(&self, trouble: SiteFault) {
        let index = self.plain.index;
        let now = self.plain.clock.now();
        self.plain
            .world
            .act_at(now, |world| world.plan_fault(now, index, trouble));
    }

    fn adapter(&self) -> Arc<dyn Site> {
        Arc::new(SimulatedSlurmSite::new(self.plain.clone()).unwrap())
    }
}

impl SiteFixture for SimulatedSlurmFixture {
    fn site(&self) -> Arc<dyn Site> {
        self.adapter()
    }

    fn reopened(&self) -> Arc<dyn Site> {
        self.adapter()
    }

    fn take_away(&self) {
        self.apply_fault(SiteFault::Revoked(true));
    }

    fn bring_back(&self) {
        self.apply_fault(SiteFault::Revoked(false));
    }

    fn lose(&self, _: AttemptTag) {
        self.apply_fault(SiteFault::SiteDown {
            repair: DurationMs(1_000),
        });
    }

    fn put_user_file(&self, _: &RelPath, _: &[u8]) {}

    fn near(&self) -> (HostName, DurationUs) {
        (HostName::new("delft").unwrap(), DurationUs(0))
    }

    fn mute(&self) -> HostName {
        HostName::new("nobody").unwrap()
    }
}

/// Under virtual time: what takes minutes there takes none here.
fn with(test: impl AsyncFnOnce(&SimulatedSlurmFixture)) {
    System::with_tokio_rt(|| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    })
    .block_on(async {
        let fixture = SimulatedSlurmFixture::new();
        let clock = fixture.plain.clock.clone();
        let driven = actix_rt::spawn(fixture.plain.world.clone().drive_world(move || clock.now()));
        test(&fixture).await;
        driven.abort();
    });
}

macro_rules! promises {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                with(async |fixture| contract::$name(fixture).await);
            }
        )+
    };
}

promises! {
    an_unknown_tag_is_absent
    an_exit_code_is_seen_as_it_was
    go_without_a_directory_is_refused
    void_without_a_directory_keeps_a_late_wrapper_out
    the_first_decision_stands
    a_wrapper_that_is_held_too_long_closes_the_gate_itself
    what_exceeds_the_whole_site_is_refused
    cancelling_at_the_gate_voids_the_attempt
    cancelling_an_unknown_attempt_keeps_it_from_ever_running
    only_ended_attempts_are_removed
    what_left_something_is_listed
    a_submission_is_found_by_its_tag
    only_what_waits_in_the_queue_is_withdrawn
}

/// A payload that runs so long and exits with a code.
fn timed_payload(ms: &str, code: &str) -> cospan_domain::job::spec::Program {
    program(PROGRAM, &[ms, code])
}

#[test]
fn a_payload_goes_through_all_its_states_and_its_code_is_told() {
    with(async |fixture| {
        let site = fixture.site();
        for (number, code) in [(1, 0), (2, 3)] {
            start_attempt(
                &*site,
                &submit_request(
                    attempt_tag(number),
                    timed_payload("90000", &code.to_string()),
                ),
            )
            .await;
            await_observation(&*site, attempt_tag(number), |seen| {
                matches!(seen, AttemptObservation::Begun(_))
            })
            .await;
            let seen = await_observation(&*site, attempt_tag(number), |seen| {
                matches!(seen, AttemptObservation::Exited(_))
            });
            let AttemptObservation::Exited(exit) = seen.await else {
                unreachable!()
            };
            assert_eq!(exit.cause, ExitCause::Code(code));
            assert_eq!(exit.ended_at.since(exit.began_at), DurationMs(90_000));
        }
    });
}

/// Something takes all of the site for ten minutes.
async fn fill_site(site: &dyn Site) {
    let mut all = submit_request(attempt_tag(1), timed_payload("600000", "0"));
    all.resources = site.monitor().describe().await.unwrap().total;
    start_attempt(site, &all).await;
}

#[test]
fn what_waits_is_queued_and_what_it_waits_for_is_not_idle() {
    with(async |fixture| {
        let site = fixture.site();
        fill_site(&*site).await;
        site.queue()
            .submit(&submit_request(attempt_tag(2), timed_payload("1000", "0")))
            .await
            .unwrap();
        let status = site.queue().status(&[attempt_tag(2)]).await.unwrap();
        assert_eq!(
            status.attempts[&attempt_tag(2)],
            AttemptObservation::Queued(QueuedAttempt::default())
        );
        assert_eq!(status.idle.processors, 0);
    });
}

#[test]
fn who_waits_behind_others_waits_for_priority() {
    with(async |fixture| {
        let site = fixture.site();
        fill_site(&*site).await;
        for number in [2, 3] {
            site.queue()
                .submit(&submit_request(
                    attempt_tag(number),
                    timed_payload("1000", "0"),
                ))
                .await
                .unwrap();
        }
        let behind = |why: &'static str| move |seen: &AttemptObservation| matches!(seen, AttemptObservation::Queued(QueuedAttempt { behind: Some(said), .. }) if &**said == why);
        await_observation(&*site, attempt_tag(3), behind("Priority")).await;
        let status = site.queue().status(&[attempt_tag(2)]).await.unwrap();
        assert_eq!(
            status.attempts[&attempt_tag(2)],
            AttemptObservation::Queued(QueuedAttempt::default())
        );
    });
}

#[test]
fn what_ended_is_known_though_its_scheduler_forgot_that_it_started() {
    with(async |fixture| {
        let site = fixture.site();
        start_attempt(
            &*site,
            &submit_request(attempt_tag(1), timed_payload("1000", "0")),
        )
        .await;
        await_observation(&*site, attempt_tag(1), |seen| {
            matches!(seen, AttemptObservation::Exited(_))
        })
        .await;
        fixture.apply_fault(SiteFault::Forgets {
            window: DurationMs(600_000),
            times: 0,
        });
        let now = fixture.plain.clock.now();
        let said = fixture.plain.world.act_at(now, |world| {
            world.slurm_status(fixture.plain.index, &[attempt_tag(1)], true, None)
        });
        assert!(said.contains("|PENDING|Priority|"), "{said}");
        let seen = fixture
            .reopened()
            .queue()
            .status(&[attempt_tag(1)])
            .await
            .unwrap()
            .attempts
            .remove(&attempt_tag(1));
        assert!(
            matches!(seen, Some(AttemptObservation::Exited(_))),
            "{seen:?}"
        );
    });
}

/// The wrapper left nothing, and Slurm knows why.
#[test]
fn what_died_with_its_node_is_an_error_of_the_site() {
    with(async |fixture| {
        let site = fixture.site();
        start_attempt(
            &*site,
            &submit_request(attempt_tag(1), timed_payload("600000", "0")),
        )
        .await;
        await_observation(&*site, attempt_tag(1), |seen| {
            matches!(seen, AttemptObservation::Begun(_))
        })
        .await;
        fixture.apply_fault(SiteFault::SiteDown {
            repair: DurationMs(1_000),
        });
        let seen = await_observation(&*site, attempt_tag(1), |seen: &AttemptObservation| {
            matches!(seen, AttemptObservation::Ended { .. })
        })
        .await;
        let AttemptObservation::Ended {
            began: true, why, ..
        } = seen
        else {
            panic!("{seen:?}")
        };
        assert_eq!(why, SiteEndReason::NodeFailed);
    });
}

/// The adapter's own parsers take what is rendered: also the site's index is never mixed up.
#[test]
fn an_adapter_describes_what_the_world_has() {
    with(async |fixture| {
        let told = fixture.site().monitor().describe().await.unwrap();
        let true_one = fixture
            .plain
            .world
            .read(|world| world.describe(fixture.plain.index));
        assert_eq!(told.total.processors, true_one.total.processors);
        assert!(
            told.manager.starts_with("Slurm 22.05.8, cluster delft"),
            "{}",
            told.manager
        );
    });
}

/// What it was asked before is asked again by whoever comes after a restart.
#[test]
fn another_adapter_knows_what_the_first_one_submitted() {
    with(async |fixture| {
        start_attempt(
            &*fixture.site(),
            &submit_request(attempt_tag(1), timed_payload("90000", "3")),
        )
        .await;
        let second = fixture.reopened();
        assert_eq!(
            second.queue().list_attempts().await.unwrap(),
            [attempt_tag(1)]
        );
        assert_eq!(
            second
                .queue()
                .find_by_tag(attempt_tag(1))
                .await
                .unwrap()
                .found
                .len(),
            1
        );
        assert_eq!(
            contract::await_exit(&*second, attempt_tag(1)).await,
            ExitCause::Code(3)
        );
        second.queue().remove_attempt(attempt_tag(1)).await.unwrap();
        assert_eq!(second.queue().list_attempts().await.unwrap(), []);
    });
}

#[test]
fn a_site_that_lets_nobody_in_tells_nothing() {
    with(async |fixture| {
        let site = fixture.site();
        start_attempt(
            &*site,
            &submit_request(attempt_tag(1), timed_payload("600000", "0")),
        )
        .await;
        fixture.take_away();
        assert!(matches!(
            site.queue().status(&[attempt_tag(1)]).await,
            Err(SiteError::NotSent(_))
        ));
        assert!(matches!(
            site.queue().find_by_tag(attempt_tag(1)).await,
            Err(SiteError::NotSent(_))
        ));
        fixture.bring_back();
        await_observation(&*site, attempt_tag(1), |seen| {
            matches!(seen, AttemptObservation::Begun(_))
        })
        .await;
    });
}
