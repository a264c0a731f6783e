//! Users who outlive control planes: they remember what is acknowledged, and ask for the rest again
//! with the same key.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail};
use cospan_actors::api::command::{
    ApiAnswer, ApiCommand, ApiRefusal, ApiRequest, JobCommandOutcome, JobSubmission,
};
use cospan_actors::supervision::ActorKind;
use cospan_domain::ids::{
    Digest, IdempotencyKey, JobId, KeyName, LogicalName, RelPath, SiteName, TargetName,
};
use cospan_domain::job::job_state::{Job, SubmissionIdempotency};
use cospan_domain::job::spec::{
    ExecutableSource, FileReference, InputSpec, JobSpec, OutputDestination, OutputSpec,
    RequestType, UnreachableAction,
};
use cospan_domain::runner::RestartScope;
use cospan_domain::site::site_command::OperatorCommand;
use cospan_domain::units::{DurationMs, Timestamp};
use futures_util::future::join_all;

use super::judge_answers::false_statements;
use super::peers::draw_peers;
use super::quotas;
use super::rare_options::{RareOptions, TARGETS, USERS};
use super::seed_scenario::{SeedScenario, UserAction};
use super::staging::draw_executable;
use super::sweeps::{DrawnSweep, run_of};
use cospan_simulator::control_plane_run::ControlPlaneRun;
use cospan_simulator::fault_kinds::FaultKind;
use cospan_simulator::fault_tally::FaultEffectTally;
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::world_site::SimulatedCluster;

/// Path of the payload's output that is collected.
pub(super) const OUTPUT_PATH: &str = "result";

/// A job that was accepted although its key was that of another.
#[derive(Debug)]
pub(super) struct AcceptedAgain {
    pub(super) number: usize,
    /// The job that had the key.
    pub(super) before: JobId,
    pub(super) at: Timestamp,
}

/// The knowledge of users, whatever control plane runs.
#[derive(Debug, Default)]
pub(super) struct UserState {
    /// Acknowledged jobs, by their number.
    pub(super) acknowledged: BTreeMap<usize, JobId>,
    /// Acknowledged cancellations, and when.
    pub(super) cancelled: BTreeMap<JobId, Timestamp>,
    /// Jobs that were accepted under a key which an earlier one had, and when.
    pub(super) accepted_again: Vec<AcceptedAgain>,
    /// Answers to users that must not have been given.
    pub(super) complaints: Vec<String>,
    /// A job that waited at rest, and was cancelled.
    pub(super) waited: Option<JobId>,
    /// Jobs that cannot run within the reservation that they named, or whose users may not reserve
    /// what they ask for: they do without.
    without: BTreeSet<usize>,
    files_done: BTreeSet<(usize, SiteName)>,
    next_deal: usize,
}

/// Users have their answer by then, however slow disks are and whatever actors stall.
const ANSWERED_WITHIN: DurationMs = DurationMs(6 * 3_600_000);
/// Time between two looks of operators at held jobs.
const RELEASED_EVERY: DurationMs = DurationMs(600_000);

/// Does what users still have to do, until nothing is left.
pub(super) async fn perform_actions(
    plane_run: ControlPlaneRun,
    scenario: Arc<SeedScenario>,
    known: Rc<RefCell<UserState>>,
    tally: Arc<FaultEffectTally>,
) -> Result<()> {
    while !plane_run.plane.is_ready() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    register_files(&plane_run, &scenario, &known, &tally).await?;
    loop {
        let next = known.borrow().next_deal;
        let Some((at, action)) = scenario.actions.get(next) else {
            // A file whose return to a site was not acknowledged is registered again.
            return register_files(&plane_run, &scenario, &known, &tally).await;
        };
        plane_run.sleep_until(*at).await;
        let asks = commands_at_once(action, &scenario, &known.borrow())?;
        if asks.is_empty() {
            known.borrow_mut().next_deal += 1;
            continue;
        }
        let struck = strikes_at(action, &plane_run, &known.borrow());
        let asked_at = plane_run.plane.now();
        let (user, times) = match action {
            UserAction::Submit(number, times) => (user_of(*number, &scenario), *times),
            _ => (USERS[0], 1),
        };
        let all = (0..times)
            .flat_map(|_| &asks)
            .map(|ask| run_command(&plane_run, user, ask, &tally));
        let given_up = plane_run.sleep_until(plane_run.clock.now() + ANSWERED_WITHIN);
        let answers = tokio::select! {
            biased;
            answers = join_all(all) => answers,
            () = given_up => bail!("nobody answers a user: {action:?}, within {ANSWERED_WITHIN}"),
        };
        if plane_run.kill_switch.is_dead() {
            return Ok(());
        }
        struck
            .into_iter()
            .for_each(|(kind, step)| tally.count_fault(kind, step));
        if is_still_frozen(action, &answers) {
            tokio::time::sleep(Duration::from_secs(30)).await;
            continue;
        }
        let mut known = known.borrow_mut();
        if known.does_without(action, &answers, &scenario) {
            continue;
        }
        known.next_deal += 1;
        for answer in answers {
            let view = plane_run.plane.view();
            known.complaints.extend(false_statements(
                action, &answer, &scenario, &view, asked_at,
            ));
            known.learn_answer(action, answer, plane_run.clock.now());
        }
    }
}

/// Returns true if a job stays frozen because its actor was not available: its user is asked to try
/// again, and does, as it would wait for ever.
fn is_still_frozen(action: &UserAction, answers: &[Result<ApiAnswer, ApiRefusal>]) -> bool {
    matches!(action, UserAction::Freeze(_, false))
        && answers
            .iter()
            .any(|answer: &Result<ApiAnswer, ApiRefusal>| {
                let Ok(ApiAnswer::Jobs(outcomes)) = answer else {
                    return false;
                };
                outcomes.iter().any(|(_, what)| {
                    matches!(what, JobCommandOutcome::Refused(why) if why.ends_with("try again"))
                })
            })
}

/// Returns the kind of an action, and the state of its job when it is made.
fn strikes_at(
    action: &UserAction,
    plane_run: &ControlPlaneRun,
    known: &UserState,
) -> Option<(FaultKind, &'static str)> {
    let (kind, number) = match action {
        UserAction::Submit(number, _) => (FaultKind::SubmittedAgain, number),
        UserAction::Cancel(number) => (FaultKind::Cancel, number),
        UserAction::Abandon(number) => (FaultKind::Abandon, number),
        UserAction::Freeze(number, true) => (FaultKind::Freeze, number),
        UserAction::Freeze(number, false) => (FaultKind::Thaw, number),
        UserAction::Raise(number, _) => (FaultKind::Raise, number),
        UserAction::Promise(..)
        | UserAction::Site(..)
        | UserAction::Reserve(..)
        | UserAction::File(..) => return None,
    };
    let id = known.acknowledged.get(number)?;
    let view = plane_run.plane.view();
    Some((
        kind,
        view.jobs
            .get(id)
            .map_or("archived", |job| job.phase.kind().as_str()),
    ))
}

/// Asks until there is an answer that is not "busy".
async fn run_command(
    plane_run: &ControlPlaneRun,
    user: &str,
    ask: impl Fn() -> ApiRequest,
    tally: &FaultEffectTally,
) -> Result<ApiAnswer, ApiRefusal> {
    let by = KeyName::new(user).map_err(|e| ApiRefusal::Conflict(e.to_string()))?;
    loop {
        match plane_run
            .plane
            .execute_command(ApiCommand {
                by: by.clone(),
                what: ask(),
            })
            .await
        {
            Err(ApiRefusal::Busy { .. }) => {
                tally.count_fault(FaultKind::IntakeFull, "command");
                if plane_run.clock.now().0 < plane_run.intake_full_until.load(Ordering::Relaxed) {
                    tally.count_fault(FaultKind::MailboxFull, ActorKind::Intake.as_str());
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            answer => return answer,
        }
    }
}

async fn register_files(
    plane_run: &ControlPlaneRun,
    scenario: &SeedScenario,
    known: &Rc<RefCell<UserState>>,
    tally: &FaultEffectTally,
) -> Result<()> {
    for (number, (path, _, sites)) in scenario.files.iter().enumerate() {
        for site in sites {
            if known.borrow().files_done.contains(&(number, site.clone())) {
                continue;
            }
            let name = logical_name(number)?;
            // A site that does not answer is asked again: users are patient.
            while !plane_run.kill_switch.is_dead()
                && run_command(
                    plane_run,
                    USERS[0],
                    || ApiRequest::AddFile {
                        name: name.clone(),
                        site: site.clone(),
                        path: path.clone(),
                        replace: false,
                        reaches_all: false,
                    },
                    tally,
                )
                .await
                .is_err()
            {
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
            if plane_run.kill_switch.is_dead() {
                return Ok(());
            }
            known.borrow_mut().files_done.insert((number, site.clone()));
        }
    }
    Ok(())
}

pub(super) fn logical_name(number: usize) -> Result<LogicalName> {
    Ok(LogicalName::new(&format!("file-{number}"))?)
}

type MakeAsk = Box<dyn Fn() -> ApiRequest>;

/// Lists the commands that are given at the same moment.
fn commands_at_once(
    action: &UserAction,
    scenario: &SeedScenario,
    known: &UserState,
) -> Result<Vec<MakeAsk>> {
    let UserAction::Reserve(sites, wish) = action else {
        return Ok(ask(action, scenario, known)?.into_iter().collect());
    };
    Ok(sites
        .iter()
        .map(|site: &usize| -> MakeAsk {
            let site = scenario.sites[*site].name.clone();
            let order = OperatorCommand::Reserve(wish.clone());
            Box::new(move || ApiRequest::Site(site.clone(), order.clone()))
        })
        .collect())
}

fn user_of(number: usize, scenario: &SeedScenario) -> &'static str {
    scenario.jobs[number].rare_options.user
}

fn ask(action: &UserAction, scenario: &SeedScenario, known: &UserState) -> Result<Option<MakeAsk>> {
    Ok(match action {
        UserAction::Submit(number, _) => {
            let sweep = scenario.sweeps.iter().find(|sweep| sweep.first == *number);
            let numbers = sweep.map_or(*number..*number + 1, DrawnSweep::numbers);
            let mut all: Vec<_> = numbers
                .map(|n| submission(n, scenario))
                .collect::<Result<_>>()?;
            if known.without.contains(number) {
                for spec in all.iter_mut().map(|one| Arc::make_mut(&mut one.spec)) {
                    spec.run.within = None;
                    spec.run.reservation = None;
                    let components = spec.components.iter_mut();
                    components.for_each(|component| component.start_after = DurationMs::ZERO);
                }
            }
            Some(Box::new(move || ApiRequest::Submit(all.clone())))
        }
        UserAction::Cancel(number) => known
            .job_id(*number)
            .map(|id| -> MakeAsk { Box::new(move || ApiRequest::Cancel(vec![id])) }),
        UserAction::Abandon(number) => known
            .job_id(*number)
            .map(|id| -> MakeAsk { Box::new(move || ApiRequest::Abandon(vec![id])) }),
        UserAction::Freeze(number, true) => known
            .job_id(*number)
            .map(|id| -> MakeAsk { Box::new(move || ApiRequest::Freeze(vec![id])) }),
        UserAction::Freeze(number, false) => known
            .job_id(*number)
            .map(|id| -> MakeAsk { Box::new(move || ApiRequest::Thaw(vec![id])) }),
        UserAction::Raise(number, to) => {
            let to = *to;
            known.job_id(*number).map(|id| -> MakeAsk {
                Box::new(move || ApiRequest::SetPriority {
                    jobs: vec![id],
                    to,
                    uncapped: false,
                })
            })
        }
        UserAction::Promise(number, wish) => {
            let wish = *wish;
            known.job_id(*number).map(|job| -> MakeAsk {
                Box::new(move || ApiRequest::ChangeReservation { job, wish })
            })
        }
        UserAction::Site(site, order) => {
            let site = scenario.sites[*site].name.clone();
            let order = order.clone();
            Some(Box::new(move || {
                ApiRequest::Site(site.clone(), order.clone())
            }))
        }
        UserAction::Reserve(..) => None,
        UserAction::File(number, site, is_there) => {
            Some(file_command(*number, site, *is_there, scenario)?)
        }
    })
}

fn file_command(
    number: usize,
    site: &SiteName,
    is_there: bool,
    scenario: &SeedScenario,
) -> Result<MakeAsk> {
    let name = logical_name(number)?;
    let path = scenario.files[number].0.clone();
    let site = site.clone();
    Ok(Box::new(move || {
        let name = name.clone();
        let path = path.clone();
        let site = site.clone();
        if is_there {
            ApiRequest::AddFile {
                name,
                site,
                path,
                replace: false,
                reaches_all: false,
            }
        } else {
            ApiRequest::RemoveFile {
                name,
                site: Some(site),
                force: false,
                reaches_all: false,
            }
        }
    }))
}

/// Returns the logical name of a job's output.
pub(super) fn output_name(number: usize) -> Result<LogicalName> {
    Ok(LogicalName::new(&format!("output-{number}"))?)
}

fn submission(number: usize, scenario: &SeedScenario) -> Result<JobSubmission> {
    let drawn = &scenario.jobs[number];
    let mut spec = build_job(
        &drawn.components,
        drawn.run_time,
        drawn.wall_time,
        drawn.code,
    )?;
    ask_for_rarities(&mut spec, &drawn.rare_options, scenario);
    draw_peers(scenario.seed, number, drawn, &mut spec);
    if drawn.rare_options.notifies {
        spec.run.notify = targets()?;
    }
    if let (Some(bounds), RequestType::NonFixed) = (&drawn.flexible, &spec.request) {
        let total = spec.total_resources();
        spec.components.truncate(1);
        spec.components[0].resources = total;
        spec.request = RequestType::Flexible(bounds.clone());
        spec.run.molding.clone_from(&drawn.rare_options.molding);
    }
    if let Some(file) = drawn.input {
        for component in &mut spec.components {
            let file = FileReference {
                name: logical_name(file)?,
                bound: None,
            };
            component.inputs.push(InputSpec {
                file,
                path: RelPath::new("input")?,
                feed: Default::default(),
            });
        }
    }
    if let Some(file) = draw_executable(scenario.seed, number, scenario) {
        for component in &mut spec.components {
            let file = FileReference {
                name: logical_name(file)?,
                bound: None,
            };
            component.program.executable = ExecutableSource::Staged(file);
        }
    }
    if let Some(site) = drawn.output {
        let site = scenario.sites[site].name.clone();
        let register = output_name(number)?;
        let collect = OutputDestination::ToSite { site, register };
        spec.components[0].outputs.push(OutputSpec {
            path: RelPath::new(OUTPUT_PATH)?,
            collect,
        });
    }
    let sweep = scenario
        .sweeps
        .iter()
        .find(|sweep| sweep.numbers().contains(&number));
    if let Some(sweep) = sweep {
        spec = run_of(sweep, number, spec)?;
    }
    let key = IdempotencyKey::new(&format!("job-{number}"))?;
    let body = Digest(*blake3::hash(&number.to_le_bytes()).as_bytes());
    let idempotency = Some(SubmissionIdempotency { key, body });
    Ok(JobSubmission {
        spec: Arc::new(spec),
        idempotency,
        allow_unplaceable: true,
        refuse_closed: false,
        asking: Default::default(),
    })
}

/// Lists the targets that are notified of the end of jobs, each under an address that is its name.
pub(super) fn targets() -> Result<BTreeSet<TargetName>> {
    Ok(TARGETS
        .into_iter()
        .map(TargetName::new)
        .collect::<Result<_, _>>()?)
}

fn ask_for_rarities(spec: &mut JobSpec, rare_options: &RareOptions, scenario: &SeedScenario) {
    if let Some(first) = rare_options.fixed_from {
        spec.request = RequestType::Fixed;
        for (index, component) in spec.components.iter_mut().enumerate() {
            let site = &scenario.sites[(first + index) % scenario.sites.len()];
            component.site = Some(site.name.clone());
        }
    }
    for component in &mut spec.components {
        component
            .constraints
            .extend(rare_options.constraint.clone());
    }
    if rare_options.waits {
        spec.on_unreachable = UnreachableAction::Wait;
    }
    spec.priority = rare_options.priority;
    spec.rerunnable = rare_options.rerunnable;
    spec.max_retries = rare_options.max_retries;
    if rare_options.apart {
        spec.run.restart_scope = RestartScope::Component;
    }
    spec.run.reservation = rare_options.promised;
    if let Some(last) = spec.components.last_mut() {
        last.start_after = rare_options.last_after;
    }
    spec.run.within.clone_from(&rare_options.within);
    spec.max_placement_tries = rare_options.max_placement_tries;
    spec.max_claim_tries = rare_options.max_claim_tries;
}

impl UserState {
    /// Lists keys under which two jobs were accepted. A key is free once its job was kept for its
    /// time after the end: a user who waited for other answers may come as late.
    pub(super) fn keys_taken_twice(
        &self,
        jobs: &BTreeMap<JobId, Arc<Job>>,
        keep_jobs: DurationMs,
    ) -> Vec<String> {
        let twice = self.accepted_again.iter().filter(|again| {
            let ended = jobs.get(&again.before).and_then(|job| job.ended_at());
            ended.is_none_or(|ended| again.at < ended + keep_jobs)
        });
        twice
            .map(|again| format!("a key was taken twice: job {}", again.number))
            .collect()
    }

    fn job_id(&self, number: usize) -> Option<JobId> {
        self.acknowledged.get(&number).copied()
    }

    /// Returns true if a job was refused that named a reservation, or wanted one beyond its user's
    /// quota: it is submitted again without.
    fn does_without(
        &mut self,
        action: &UserAction,
        answers: &[Result<ApiAnswer, ApiRefusal>],
        scenario: &SeedScenario,
    ) -> bool {
        let UserAction::Submit(number, _) = action else {
            return false;
        };
        let named = scenario.jobs[*number].rare_options.within.is_some();
        answers
            .iter()
            .all(|answer: &Result<ApiAnswer, ApiRefusal>| match answer {
                Err(refusal @ ApiRefusal::Invalid { .. }) => {
                    named || quotas::is_quota_refusal(refusal)
                }
                _ => false,
            })
            && self.without.insert(*number)
    }

    fn learn_answer(
        &mut self,
        action: &UserAction,
        answer: Result<ApiAnswer, ApiRefusal>,
        now: Timestamp,
    ) {
        match (action, answer) {
            (UserAction::Submit(number, _), Ok(ApiAnswer::Submitted(jobs))) => {
                for (number, submitted) in (*number..).zip(jobs) {
                    let before = self.acknowledged.insert(number, submitted.id);
                    if let Some(before) = before.filter(|before| *before != submitted.id) {
                        self.accepted_again.push(AcceptedAgain {
                            number,
                            before,
                            at: now,
                        });
                    }
                }
            }
            (UserAction::Submit(number, _), Err(refusal)) => {
                self.complaints
                    .push(format!("a submission was refused: job {number}, {refusal}"));
            }
            (UserAction::Cancel(_) | UserAction::Abandon(_), Ok(ApiAnswer::Jobs(outcomes))) => {
                for (id, outcome) in outcomes {
                    if matches!(
                        outcome,
                        JobCommandOutcome::Done | JobCommandOutcome::Waits(_)
                    ) {
                        self.cancelled.entry(id).or_insert(now);
                    }
                }
            }
            (UserAction::File(number, site, true), Ok(_)) => {
                self.files_done.insert((*number, site.clone()));
            }
            // If nobody says before the next run of the control plane that it is there, it is said
            // then, whatever the answer.
            (UserAction::File(number, site, false), _) => {
                self.files_done.remove(&(*number, site.clone()));
            }
            _ => {}
        }
    }

    /// Returns true if users have nothing left to do.
    pub(super) fn is_done(&self, scenario: &SeedScenario) -> bool {
        self.next_deal >= scenario.actions.len()
    }
}

/// Waits until every acknowledged job has ended.
pub(super) async fn await_all_ended(
    plane_run: &ControlPlaneRun,
    ids: &[JobId],
    until: Timestamp,
) -> Result<()> {
    loop {
        let view = plane_run.plane.view();
        let unfinished = ids
            .iter()
            .filter_map(|id| view.jobs.get(id))
            .find(|job| !job.is_final());
        let Some(job) = unfinished else { return Ok(()) };
        if plane_run.clock.now() > until {
            let why = plane_run.plane.explain_job(job);
            let sites: Vec<_> = plane_run
                .plane
                .list_sites()
                .into_iter()
                .map(|s| (s.name, s.state))
                .collect();
            let truth: Vec<String> = plane_run.world.read(|world| {
                world
                    .sites()
                    .iter()
                    .map(SimulatedCluster::to_string)
                    .collect()
            });
            let id = job.id;
            let phase = &job.phase;
            let parts = &job.components;
            bail!(
                "job {id} makes no progress: {phase:?}, {parts:?}; {why:?}; sites {sites:?}; \
                 in truth {truth:?}"
            );
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
}

/// Lets operators release jobs that are held because they ended actors again and again.
pub(super) async fn release_held(plane_run: ControlPlaneRun) {
    loop {
        plane_run
            .sleep_until(plane_run.clock.now() + RELEASED_EVERY)
            .await;
        let view = plane_run.plane.view();
        let held = view.jobs.values().filter(|job| job.held.is_some());
        let held: Vec<JobId> = held.map(|job| job.id).collect();
        if let (false, Ok(by)) = (held.is_empty(), KeyName::new("operator")) {
            // A job that is not released now is so the next time.
            let _ = plane_run
                .plane
                .execute_command(ApiCommand {
                    by,
                    what: ApiRequest::Release(held),
                })
                .await;
        }
    }
}
