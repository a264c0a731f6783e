//! Runs one seed from beginning to end: faults, calm, judgement.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cospan_actors::actor_settings::{ActorSettings, StagingLimits};
use cospan_actors::supervision::ActorId;
use cospan_domain::ids::{InstanceId, JobId};
use cospan_domain::job::job_parameters::JobParameters;
use cospan_domain::job::job_state::PhaseKind;
use cospan_domain::placement::PlacementDefaults;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use cospan_storage::fault::FaultDisk;
use cospan_storage::record::job::read_archived;

use super::counters;
use super::isolation::watch_isolation;
use super::judge_convergence;
use super::judge_endings::unfounded_ends;
use super::judge_holds::wrongly_held_attempts;
use super::judge_leftovers::{is_at_rest, wait_and_cancel};
use super::judge_messages;
use super::judge_transitions::{SeenJobs, follow_run};
use super::queueing::Queues;
use super::quotas::ReservationQuota;
use super::rival::plant_others;
use super::scenes;
use super::seed_oracle::{RequestedRound, SeedEvidence, judge_run};
use super::seed_scenario::{BEGINS, SeedScenario, UserAction};
use super::starvation_guards;
use super::supervision::supervision_mistakes;
use super::sweeps::over_limit;
use super::users::{
    UserState, await_all_ended, output_name, perform_actions, release_held, targets,
};
use cospan_simulator::actor_lives::RecordedActorEvent;
use cospan_simulator::call_faults::CallFaultModel;
use cospan_simulator::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use cospan_simulator::journal::StoreDisk;
use cospan_simulator::journal_hash::EventHash;
use cospan_simulator::settings::default_settings;
use cospan_simulator::stalls::StallSettings;
use cospan_simulator::world::site_faults::FaultEffectCounts;
use cospan_simulator::world::world_history::WorldLedgerEntry;
use cospan_simulator::world::{SimulatedWorld, WrapperDelays};
use cospan_simulator::world_handle::WorldHandle;
use cospan_sites::slurm_site::LANES;

/// Within this time after the last fault every job must have ended, were it not for the queues of
/// the sites' own users.
const CONVERGE_MAX: DurationMs = DurationMs(3 * 86_400_000);
/// Local users submit at most so many times as much as their site can do; a job that may run
/// nowhere else has to wait for it.
const OVERLOAD_MAX: u64 = 8;
/// Time for which actors go on stalling when all other faults are over.
const STALL_ON: DurationMs = DurationMs(3_600_000);
/// Within this time after that everything must have been cleaned up.
const CLEAN_MAX: DurationMs = DurationMs(3 * 3_600_000);

/// By then a service manager has restarted what ended by itself, or tries to.
const STARTED_AGAIN: DurationMs = DurationMs(30_000);
/// Most runs of the control plane while anything goes wrong.
const REIGNS_MAX: usize = 60;

/// Longest delay until changes are seen.
const SEEN_WITHIN: DurationMs = DurationMs(1_000);

/// The outcome of a seed.
#[derive(Debug)]
pub struct SeedVerdict {
    /// The draw, in one line.
    pub drawn: String,
    /// Forbidden things that happened under faults.
    pub unsafe_: Vec<String>,
    /// A description of what did not come about after they had stopped.
    pub not_live: Option<String>,
    /// Acknowledged jobs, and how many of them finished.
    pub jobs: (usize, usize),
    /// Runs of the control plane.
    pub control_plane_runs: usize,
    /// Durable changes.
    pub changes: u64,
    /// Faults that had an effect, by kind and step of the protocol.
    pub struck: FaultEffectCounts,
    /// Hash of everything that happened.
    pub hash: String,
    /// Events of the jobs, and of the actors, in order.
    pub timeline: Vec<(Timestamp, Option<JobId>, String)>,
}

impl SeedVerdict {
    /// Returns true if nothing was wrong.
    pub fn holds(&self) -> bool {
        self.unsafe_.is_empty() && self.not_live.is_none()
    }
}

/// Runs a scenario.
///
/// # Errors
/// The simulation itself fails, or a store cannot be opened any more.
pub fn run(scenario: SeedScenario) -> Result<SeedVerdict> {
    let drawn = scenario.describe();
    let instance = InstanceId::from_random(scenario.seed);
    let environment = environment(&scenario, instance)?;
    let scenario = Arc::new(scenario);
    let known = Rc::new(RefCell::new(UserState::default()));
    let promises = scenario.sites.iter().any(|site| site.reserves);
    let queues = Queues::new(scenario.queue.clone(), promises);
    let mut seen = SeenJobs::new(scenario.plain_cut_offs(), queues);
    seen.staging.clone_from(&scenario.staging);
    seen.reservation_quota = judged_quota(&scenario);
    let seen = Rc::new(RefCell::new(seen));
    let mut now = BEGINS;
    let mut control_plane_runs = 0;
    let mut kills = scenario.kills.iter();
    while now < scenario.calm_at && control_plane_runs < REIGNS_MAX {
        let kill = kills.next();
        let length = kill.map_or(scenario.calm_at.since(now), |kill| kill.after);
        let plan = RunPlan {
            killed_at: Some((now + length).min(scenario.calm_at)),
            moment: kill.and_then(|kill| kill.moment),
            clock_ahead_ms: kill.map_or(0, |kill| kill.clock_ahead_ms),
            panics: scenario.panics,
            stalls: scenario.stalls,
            ..RunPlan::undisturbed(now, scenario.seed)
        };
        control_plane_runs += 1;
        let over = run_until_killed(&environment, plan, &scenario, &known, &seen)?;
        now = over + kill.map_or(STARTED_AGAIN, |kill| kill.down);
    }
    environment.call_faults.stop_faults();
    // No actor is rebuilt in the calm that forgot something, so that forgetting would be seen.
    let stalls = scenario.stalls.map(|stalls| StallSettings {
        until: now + STALL_ON,
        ..stalls
    });
    let plan = RunPlan {
        stalls,
        ..RunPlan::undisturbed(now, scenario.seed)
    };
    let not_live = run_calmly(&environment, plan, &scenario, &known, &seen)?;
    let known = known.take();
    let seen = seen.take();
    let unsafe_ = judge_all(&environment, &scenario, instance, &known, &seen)?;
    Ok(SeedVerdict {
        drawn,
        unsafe_,
        not_live,
        jobs: (
            known.acknowledged.len(),
            seen.ended
                .values()
                .filter(|(kind, _): &&(_, Timestamp)| *kind == PhaseKind::Finished)
                .count(),
        ),
        control_plane_runs: control_plane_runs + 1,
        changes: seen.changes,
        struck: effective_faults(&environment),
        hash: environment.hash.hex_digest(),
        timeline: timeline(&environment, instance, seen.timeline),
    })
}

/// Returns all faults with an effect, wherever they were counted.
fn effective_faults(environment: &SimEnvironment) -> FaultEffectCounts {
    let mut struck = environment.call_faults.tally().fault_counts();
    environment
        .world
        .read(|world| struck.extend(world.fault_counts()));
    struck
}

/// Merges what the control plane made durable with what really happened at the sites.
fn timeline(
    environment: &SimEnvironment,
    instance: InstanceId,
    durable: Vec<(Timestamp, JobId, String)>,
) -> Vec<(Timestamp, Option<JobId>, String)> {
    let durable = durable
        .into_iter()
        .map(|(at, job, what)| (at, Some(job), what));
    let mut timeline: Vec<_> = durable.chain(actor_lives(environment)).collect();
    environment.world.read(|world| {
        let ours = world
            .ledger()
            .entries()
            .iter()
            .filter(|line| line.tag.instance == instance);
        timeline.extend(ours.map(
            |WorldLedgerEntry {
                 at,
                 site,
                 tag,
                 deed,
             }| {
                let what = format!(
                    "  at {site}: {}-{} {deed:?}",
                    tag.component.0, tag.attempt.0
                );
                (*at, Some(tag.job), what)
            },
        ));
    });
    timeline.sort_by_key(|(at, ..)| *at);
    timeline
}

/// Lists actors that were made to stall, died, and were built anew.
fn actor_lives(environment: &SimEnvironment) -> Vec<(Timestamp, Option<JobId>, String)> {
    let lived = environment
        .lives
        .run_records()
        .into_iter()
        .flat_map(|plane_run| plane_run.lived);
    let told = lived.filter_map(|(at, lived)| {
        let (id, what) = match lived {
            RecordedActorEvent::Stalled(id, lasts, false) => (id, format!("stalls for {lasts}")),
            RecordedActorEvent::Stalled(id, lasts, true) => {
                (id, format!("stalls for {lasts}, its mailbox full"))
            }
            RecordedActorEvent::Died(id) => (id, "dies".to_owned()),
            RecordedActorEvent::Built(id, true) => (id, "is built anew".to_owned()),
            _ => return None,
        };
        let job = if let ActorId::Job(job) = id {
            Some(job)
        } else {
            None
        };
        Some((at, job, format!("  {id} {what}")))
    });
    told.collect()
}

fn environment(scenario: &SeedScenario, instance: InstanceId) -> Result<SimEnvironment> {
    let sites = scenario.sites.clone();
    let seed = scenario.seed;
    let launch_max = scenario.launch_max;
    let wall_late = scenario.wall_late;
    let pace = WrapperDelays {
        launch_max,
        wall_late,
        ..WrapperDelays::default()
    };
    let mut world = SimulatedWorld::new(sites, &scenario.links, pace, seed, BEGINS);
    for (at, site, trouble) in &scenario.troubles {
        let name = scenario.sites[*site].name.clone();
        let site = world.index_of(&name).context("a site that was drawn")?;
        world.plan_fault(*at, site, trouble.clone());
    }
    plant_others(&mut world, instance)?;
    world.set_requeues(scenario.requeues);
    if scenario.by_slurm {
        world.drive_by_slurm();
    }
    let links = scenario.links.iter();
    let job = JobParameters {
        claim: scenario.claim.clone(),
        reservation_share: scenario.reservation_quota.share,
        reservation_ahead: scenario.reservation_quota.ahead,
        ..JobParameters::default()
    };
    let settings = ActorSettings {
        job,
        poll_interval: scenario.poll_interval,
        intake_bound: scenario.intake_bound,
        calls_per_site: scenario.calls_per_site,
        keep_jobs: scenario.keep_jobs,
        targets: targets()?
            .into_iter()
            .map(|name| (name.clone(), name.as_str().into()))
            .collect(),
        webhooks: [(None, vec!["https://administrators.example".into()])].into(),
        links: links
            .map(|l| ((l.from.clone(), l.to.clone()), l.bandwidth))
            .collect(),
        default_policies: PlacementDefaults {
            lanes: scenario.by_slurm.then_some(LANES),
            ..scenario.policies.clone()
        },
        quotas: scenario.quotas.clone(),
        queue: scenario.queue.clone(),
        staging: scenario
            .staging
            .iter()
            .map(|(name, budget)| (name.clone(), room(*budget)))
            .collect(),
        ..default_settings()
    };
    Ok(SimEnvironment {
        world: WorldHandle::new(world),
        disk: store_disk(scenario),
        call_faults: Arc::new(CallFaultModel::new(
            scenario.fault_rates.clone(),
            seed ^ 0x5eed,
        )),
        hash: Arc::new(EventHash::default()),
        settings,
        hints: scenario.hints,
        lives: Arc::default(),
        keeps_archive: true,
    })
}

/// Makes a faulty disk where anything is wrong with it.
fn store_disk(scenario: &SeedScenario) -> StoreDisk {
    if scenario.fault_rates.disk.has_faults() {
        StoreDisk::Faulty(FaultDisk::default())
    } else {
        StoreDisk::default()
    }
}

/// Returns the room for copies; none is kept that nobody needs.
fn room(budget: Bytes) -> StagingLimits {
    StagingLimits {
        budget: Some(budget),
        replicas: Bytes(0),
    }
}

/// Returns the number of durable changes beyond which there is no progress: about twenty a job are
/// usual.
fn max_changes(scenario: &SeedScenario) -> u64 {
    10_000 + 500 * scenario.jobs.len() as u64
}

/// Runs a control plane that will be killed, and returns when that was.
fn run_until_killed(
    environment: &SimEnvironment,
    plan: RunPlan,
    scenario: &Arc<SeedScenario>,
    known: &Rc<RefCell<UserState>>,
    seen: &Rc<RefCell<SeenJobs>>,
) -> Result<Timestamp> {
    let scenario = scenario.clone();
    let known = known.clone();
    let seen = seen.clone();
    let tally = environment.call_faults.tally().clone();
    let end: RunEnd<()> = run_control_plane(environment, plan, move |plane_run| async move {
        let watching = watch_isolation(plane_run.clone(), scenario.clone(), seen.clone());
        let guards =
            starvation_guards::watch_guards(plane_run.clone(), scenario.clone(), seen.clone());
        let hearing = judge_messages::watch_news(
            plane_run.clone(),
            scenario.fault_rates.sync_max,
            seen.clone(),
        );
        let following = follow_run(plane_run.clone(), seen, max_changes(&scenario));
        let dealing = async {
            if let Err(problem) =
                perform_actions(plane_run.clone(), scenario, known.clone(), tally).await
            {
                known.borrow_mut().complaints.push(problem.to_string());
            }
            std::future::pending::<()>().await;
        };
        let releasing = release_held(plane_run.clone());
        tokio::select! {
            biased;
            () = following => {}
            () = releasing => {}
            () = dealing => {}
            () = watching => {}
            () = guards => {}
            () = hearing => {}
        }
    })?;
    match end {
        RunEnd::Killed(at) | RunEnd::Done(at, ()) => Ok(at),
    }
}

/// Runs the control plane that nothing disturbs but stalls in its first hour, and returns why it
/// did not come to rest, if it did not.
fn run_calmly(
    environment: &SimEnvironment,
    plan: RunPlan,
    scenario: &Arc<SeedScenario>,
    known: &Rc<RefCell<UserState>>,
    seen: &Rc<RefCell<SeenJobs>>,
) -> Result<Option<String>> {
    let scenario = scenario.clone();
    let known = known.clone();
    let seen = seen.clone();
    let tally = environment.call_faults.tally().clone();
    let end = run_control_plane(environment, plan, move |plane_run| async move {
        let following = follow_run(plane_run.clone(), seen.clone(), max_changes(&scenario));
        let guards =
            starvation_guards::watch_guards(plane_run.clone(), scenario.clone(), seen.clone());
        let hearing = judge_messages::watch_news(
            plane_run.clone(),
            scenario.fault_rates.sync_max,
            seen.clone(),
        );
        let ending = judge_convergence::watch_ends(plane_run.clone(), seen.clone());
        let rest = async {
            perform_actions(plane_run.clone(), scenario.clone(), known.clone(), tally).await?;
            anyhow::ensure!(known.borrow().is_done(&scenario), "the users were not done");
            let ids: Vec<JobId> = known.borrow().acknowledged.values().copied().collect();
            let queued = DurationMs(OVERLOAD_MAX * scenario.calm_at.since(BEGINS).0);
            await_all_ended(
                &plane_run,
                &ids,
                plane_run.clock.now() + CONVERGE_MAX + queued,
            )
            .await?;
            record_unseen_ends(&plane_run, &ids, &seen);
            // All jobs may be over before the faults are.
            plane_run
                .sleep_until(plane_run.clock.now().max(scenario.calm_at) + CLEAN_MAX)
                .await;
            let files = plane_run.plane.view().files.clone();
            seen.borrow_mut().files = Some(files.into_iter().collect());
            is_at_rest(&plane_run, scenario.keep_jobs)?;
            wait_and_cancel(&plane_run, |id| known.borrow_mut().waited = Some(id)).await?;
            plane_run
                .sleep_until(plane_run.clock.now() + SEEN_WITHIN)
                .await;
            check_metrics(&plane_run, &seen.borrow())?;
            let listed = plane_run.plane.shared().live.all_reports().len();
            anyhow::ensure!(listed == scenario.sites.len(), "{listed} sites are listed");
            plane_run.plane.begin_stopping();
            anyhow::ensure!(
                !plane_run.plane.is_ready(),
                "it takes work after it was stopped"
            );
            Ok(())
        };
        let releasing = release_held(plane_run.clone());
        tokio::select! {
            biased;
            () = following => Ok(()),
            () = releasing => Ok(()),
            () = guards => Ok(()),
            () = hearing => Ok(()),
            () = ending => bail!("nobody waited for the end of what does not end"),
            rest = rest => rest,
        }
    })?;
    Ok(match end {
        RunEnd::Done(_, result) => result.err().map(|problem| problem.to_string()),
        RunEnd::Killed(at) => Some(format!("the control plane ended by itself at {}", at.0)),
    })
}

/// Checks the metrics of a control plane at rest.
fn check_metrics(plane_run: &ControlPlaneRun, seen: &SeenJobs) -> Result<()> {
    let view = plane_run.plane.view();
    let jobs = view.jobs.values().map(|job| &**job);
    let mut wrong = seen
        .counters
        .wrong_metrics(&plane_run.plane.shared().metrics, jobs);
    wrong.extend(counters::wrong_site_metrics(plane_run));
    anyhow::ensure!(wrong.is_empty(), "a metric is wrong: {wrong:?}");
    Ok(())
}

/// Records a change that became durable right before a death, which was seen by nobody but the
/// store.
fn record_unseen_ends(plane_run: &ControlPlaneRun, ids: &[JobId], seen: &Rc<RefCell<SeenJobs>>) {
    let view = plane_run.plane.view();
    let mut seen = seen.borrow_mut();
    for id in ids {
        let job = view.jobs.get(id).cloned().or_else(|| {
            Some(Arc::new(
                read_archived(&**plane_run.plane.store_journal(), *id)
                    .ok()??
                    .job,
            ))
        });
        if let Some(job) = job.filter(|job| job.is_final()) {
            let at = (job.phase.kind(), plane_run.clock.now());
            seen.ended.entry(*id).or_insert(at);
            seen.last.insert(*id, job);
        }
    }
}

/// Returns the most by which the clocks of two lives of the control plane differed.
fn clocks_apart(scenario: &SeedScenario) -> DurationMs {
    let ahead = scenario
        .kills
        .iter()
        .map(|kill| kill.clock_ahead_ms)
        .chain([0]);
    let (least, most) = ahead.fold((0, 0), |(least, most), ms| (ms.min(least), ms.max(most)));
    DurationMs(most.abs_diff(least))
}

/// Returns the quota of users for judging. A control plane whose clock was ahead let them begin
/// later.
fn judged_quota(scenario: &SeedScenario) -> ReservationQuota {
    let quota = scenario.reservation_quota;
    let right = clocks_apart(scenario) == DurationMs::ZERO;
    ReservationQuota {
        ahead: quota.ahead.filter(|_| right),
        ..quota
    }
}

/// Returns the longest time apart: the grace after a decision, three times. Missing components are
/// noticed by the clock of the control plane, which may have been set back between two lives.
fn apart_max(scenario: &SeedScenario) -> DurationMs {
    DurationMs(90_000) + clocks_apart(scenario)
}

fn judge_all(
    environment: &SimEnvironment,
    scenario: &SeedScenario,
    instance: InstanceId,
    known: &UserState,
    seen: &SeenJobs,
) -> Result<Vec<String>> {
    let acknowledged: BTreeSet<JobId> = known.acknowledged.values().copied().collect();
    let asked = seen
        .last
        .iter()
        .map(|(id, job)| (*id, RequestedRound::asked_by(&job.spec)))
        .collect();
    let leaving = known.acknowledged.iter();
    let leaving = leaving.filter(|(number, _)| scenario.jobs[**number].output.is_some());
    let outputs: Result<BTreeMap<_, _>> = leaving
        .map(|(number, id)| Ok((*id, output_name(*number)?)))
        .collect();
    let outputs = outputs?;
    let found = environment.world.read(|world| {
        judge_run(&SeedEvidence {
            world,
            instance,
            ended: &seen.ended,
            acknowledged: &acknowledged,
            asked: &asked,
            over: &seen.over,
            cancelled: &known.cancelled,
            outputs: &outputs,
            files: seen.files.as_ref(),
            jobs: &seen.last,
            accounts: &seen.accounts,
            windows: &seen.windows,
            shared: &seen.sharing,
            clocks_apart: clocks_apart(scenario),
        })
    });
    let asked_to_cancel = scenario
        .actions
        .iter()
        .filter_map(|(_, action)| match action {
            UserAction::Cancel(number) | UserAction::Abandon(number) => {
                known.acknowledged.get(number).copied()
            }
            _ => None,
        });
    let asked_to_cancel = asked_to_cancel.chain(known.waited).collect();
    let jobs = &seen.last;
    let ended = &seen.ended;
    let apart = apart_max(scenario);
    let unfounded = environment.world.read(|world| {
        unfounded_ends(
            jobs,
            ended,
            apart,
            world.ledger().entries(),
            instance,
            &asked_to_cancel,
        )
    });
    let holds = &seen.holds;
    let sweeps = &scenario.sweeps;
    let (held, crowded) = environment.world.read(|world| {
        let ledger = world.ledger().entries();
        let held = wrongly_held_attempts(holds, scenario, ledger, instance, jobs);
        (held, over_limit(sweeps, known, holds, ledger, instance))
    });
    let held = held
        .into_iter()
        .map(|text| format!("processors were held wrongly: {text}"));
    let crowded = crowded
        .into_iter()
        .map(|text| format!("a sweep's limit was exceeded: {text}"));
    let over = ended.iter().map(|(id, (_, at))| (*id, *at)).collect();
    let guarded = supervision_mistakes(&environment.lives.run_records(), &seen.held, &over);
    let guarded = guarded
        .into_iter()
        .map(|text| format!("the supervisor erred: {text}"));
    let twice = known.keys_taken_twice(jobs, scenario.keep_jobs);
    let told = known.complaints.iter().chain(&seen.violations).cloned();
    let told = told.chain(twice);
    let scenes = scenes::play_scenes(scenario.seed).into_iter();
    let scenes = scenes.map(|text| format!("a scene goes otherwise: {text}"));
    let found = found
        .into_iter()
        .chain(held)
        .chain(crowded)
        .chain(wrong_notifications(environment, seen));
    let found = found.chain(scenes);
    Ok(told.chain(found).chain(unfounded).chain(guarded).collect())
}

/// Lists ends of jobs of which a target got a wrong message, or none.
fn wrong_notifications(environment: &SimEnvironment, seen: &SeenJobs) -> Vec<String> {
    let idle = environment.call_faults.unwanted_messages().into_iter();
    let idle = idle.map(|text| format!("somebody was told wrongly: {text}"));
    let ended = seen.last.values().filter(|job| job.is_final());
    let owed = ended.flat_map(|job| job.spec.run.notify.iter().map(|target| (job.id, target)));
    let unheard = owed.filter(|(job, target)| {
        !environment
            .call_faults
            .was_end_delivered(*job, target.as_str())
    });
    idle.chain(unheard.map(|(job, target)| format!("nobody was told: {target} of job {job}")))
        .collect()
}
