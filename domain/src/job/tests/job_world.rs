//! A job under test, and short ways to say what happens to it.

use std::sync::Arc;

use crate::acquisition::Acquisition;
use crate::claim::ClaimTry;
use crate::content::Content;
use crate::ids::{
    Attempt, ComponentIndex, ComponentName, JobId, KeyName, LrmId, RelPath, Round, SiteName,
};
use crate::job::job_command::{
    AttemptSighting, InputState, JobCommand, JobRejection, JobSurroundings, SiteClockTimes,
    SubmissionAnswer,
};
use crate::job::job_due::{JobEffectKind, due};
use crate::job::job_event::{JobEvent, JobEventKind};
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::{Job, JobPhase, PhaseKind, SetbackCounts};
use crate::job::spec::{
    ComponentSpec, ExecutableSource, FlexibleBounds, JobSpec, OutputDestination, OutputSpec,
    Priority, Program, RequestType, UnreachableAction,
};
use crate::job::state_table;
use crate::job::{decide::decide, evolve::evolve};
use crate::placed::{ContentSource, Placement};
use crate::resources::Resources;
use crate::units::{Bytes, DurationMs, Timestamp};

pub(crate) struct JobWorld {
    pub(crate) job: Job,
    pub(super) now: Timestamp,
    pub(super) parameters: JobParameters,
    pub(super) events: Vec<JobEvent>,
    /// How it gets its processors.
    pub(super) acquisition: Acquisition,
}

pub(super) fn key() -> KeyName {
    KeyName::new("alice").unwrap()
}

pub(super) fn site(index: usize) -> SiteName {
    SiteName::new(["delft", "leiden", "utrecht", "twente"][index % 4]).unwrap()
}

fn component(index: usize) -> ComponentSpec {
    ComponentSpec {
        name: ComponentName::new(&format!("c{index}")).unwrap(),
        site: None,
        resources: Resources::processors(2),
        constraints: Vec::new(),
        program: Program {
            executable: ExecutableSource::AtSite("/bin/true".into()),
            arguments: Vec::new(),
            environment: Default::default(),
            directory: None,
            setup: Vec::new(),
        }
        .into(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        at: Default::default(),
        restart: None,
        start_after: DurationMs::ZERO,
    }
}

pub(crate) fn spec(components: usize) -> JobSpec {
    JobSpec {
        name: None,
        request: RequestType::NonFixed,
        components: (0..components).map(component).collect(),
        policy: None,
        priority: Priority::Low,
        wall_time: DurationMs::from_secs(3_600),
        rerunnable: true,
        on_unreachable: UnreachableAction::RerunAfter(DurationMs::from_secs(1_800)),
        max_placement_tries: None,
        max_claim_tries: None,
        max_retries: 0,
        run: Default::default(),
    }
}

/// Input of these components cannot be brought.
pub(super) fn lost_input(components: &[u32]) -> InputState {
    let components = components.iter().copied().map(ComponentIndex).collect();
    InputState::Lost {
        detail: "no replica".into(),
        components,
        at_site: false,
    }
}

/// A flexible job of six processors, which is split otherwise in each round.
pub(super) fn flexible_spec() -> JobSpec {
    let mut spec = spec(1);
    spec.request = RequestType::Flexible(FlexibleBounds::default());
    spec.components[0].resources = Resources::processors(6);
    spec
}

impl JobWorld {
    pub(crate) fn new(spec: JobSpec) -> Self {
        let now = Timestamp(1_000_000_000_000);
        let job = Job {
            id: JobId(7),
            spec: Arc::new(spec),
            owner: key(),
            idempotency: None,
            submitted_at: now,
            priority: Priority::Low,
            frozen_by: None,
            held: None,
            phase: JobPhase::Queued {
                since: now,
                not_before: Timestamp(0),
            },
            round: Round(0),
            inputs_here: false,
            start_at: None,
            components: Vec::new(),
            setbacks: SetbackCounts::default(),
            next_claim: None,
            preempting: Vec::new(),
            promoted: false,
            instants: Default::default(),
            placed_by: None,
            wish: Default::default(),
            reservation: None,
            told: Default::default(),
            revision: 1,
        };
        Self {
            job,
            now,
            parameters: JobParameters::default(),
            events: Vec::new(),
            acquisition: Acquisition::ClaimNow,
        }
    }

    /// Decides, applies, and checks every step against the table.
    pub(super) fn apply_command(
        &mut self,
        command: JobCommand,
    ) -> Result<Vec<&'static str>, JobRejection> {
        let events = decide(&self.job, &self.parameters, command, self.now)?;
        let mut names = Vec::new();
        for event in events {
            let before = self.job.phase.kind();
            if matches!(event.what, JobEventKind::GoDecided { .. }) {
                self.check_go_decision();
            }
            evolve(&mut self.job, &event);
            let name = event.what.name();
            let after = self.job.phase.kind();
            assert!(
                state_table::is_transition_allowed(before, name, after),
                "{before:?} {name} {after:?}"
            );
            names.push(name);
            self.events.push(event);
        }
        assert_eq!(
            crate::invariants::list_broken_invariants(&self.job),
            [],
            "{:?}",
            self.job
        );
        Ok(names)
    }

    /// (b): no start is decided unless every component that begins then waits at its gate.
    fn check_go_decision(&self) {
        assert!(
            self.job.inputs_here,
            "the start was decided before all input was there"
        );
        for (_, component) in self.job.common_start_components() {
            assert_eq!(component.run.as_str(), "at-gate");
        }
    }

    pub(super) fn advance_secs(&mut self, secs: u64) {
        self.now = self.now + DurationMs::from_secs(secs);
    }

    pub(super) fn phase(&self) -> PhaseKind {
        self.job.phase.kind()
    }

    pub(super) fn attempt(&self, index: usize) -> Attempt {
        self.job
            .components
            .get(index)
            .map_or(Attempt(0), |component| component.attempt)
    }

    pub(super) fn placements(&self, bytes: u64) -> Vec<Placement> {
        let content = Content {
            digest: crate::ids::Digest([1; 32]),
            size: Bytes(bytes),
        };
        let sources = move |at: usize| match bytes {
            0 => Vec::new(),
            _ => vec![ContentSource {
                content,
                from: site(at + 1),
                chunk: None,
            }],
        };
        let shares = match self.job.spec.request {
            RequestType::Fixed | RequestType::NonFixed => {
                vec![None; self.job.spec.components.len()]
            }
            RequestType::Flexible(_) => match self.job.round.0 % 3 {
                0 => vec![Some(4), Some(2)],
                1 => vec![Some(6)],
                _ => vec![Some(2); 3],
            },
        };
        (0..shares.len())
            .map(|at| Placement {
                share: shares[at],
                acquisition: self.acquisition,
                site: site(at),
                sources: sources(at),
                transfer_time: DurationMs(bytes),
            })
            .collect()
    }

    pub(super) fn place_job(&mut self) {
        let placements = self.placements(0);
        self.apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    }

    pub(super) fn answer_submission(
        &mut self,
        index: usize,
        answer: SubmissionAnswer,
    ) -> Vec<&'static str> {
        let component = ComponentIndex(index as u32);
        let attempt = self.attempt(index);
        self.apply_command(JobCommand::SubmitAnswered {
            component,
            attempt,
            answer,
        })
        .unwrap()
    }

    pub(super) fn accept_all_submissions(&mut self) {
        for index in 0..self.job.components.len() {
            self.answer_submission(index, SubmissionAnswer::Accepted(LrmId::new("1").unwrap()));
        }
    }

    pub(super) fn sight_attempt(
        &mut self,
        index: usize,
        sighting: AttemptSighting,
    ) -> Vec<&'static str> {
        self.sight_attempt_at(index, SiteClockTimes::default(), sighting)
    }

    pub(super) fn sight_attempt_at(
        &mut self,
        index: usize,
        times: SiteClockTimes,
        sighting: AttemptSighting,
    ) -> Vec<&'static str> {
        let component = ComponentIndex(index as u32);
        let attempt = self.attempt(index);
        let asked_at = self.now;
        self.apply_command(JobCommand::AttemptObserved {
            component,
            attempt,
            asked_at,
            times,
            sighting,
        })
        .unwrap()
    }

    pub(super) fn sight_all(&mut self, sighting: AttemptSighting) {
        for index in 0..self.job.components.len() {
            self.sight_attempt(index, sighting.clone());
        }
    }

    pub(super) fn look_with_inputs(&mut self, inputs: InputState) -> Vec<&'static str> {
        let external = JobSurroundings {
            inputs,
            ..JobSurroundings::default()
        };
        match self.job.next_claim_time(&self.parameters) {
            Some(time) if time <= self.now => self.claim_all(external),
            _ => self.apply_command(JobCommand::Look(external)).unwrap(),
        }
    }

    /// A claiming try that finds every site idle.
    pub(super) fn claim_all(&mut self, external: JobSurroundings) -> Vec<&'static str> {
        let start = self.job.unclaimed_components().collect();
        let attempt = ClaimTry {
            round: self.job.round,
            start,
            ..ClaimTry::default()
        };
        self.apply_command(JobCommand::Claim(attempt, external))
            .unwrap()
    }

    /// A job whose payloads have succeeded, and left these outputs for a site.
    pub(super) fn new_collecting(mut spec: JobSpec, outputs: &[&str]) -> Self {
        spec.components[0].outputs = outputs
            .iter()
            .map(|path: &&str| OutputSpec {
                path: RelPath::new(path).unwrap(),
                collect: OutputDestination::ToSite {
                    site: site(2),
                    register: path.parse().unwrap(),
                },
            })
            .collect();
        let mut world = Self::new(spec);
        world.run_to_payloads();
        world.sight_all(AttemptSighting::Succeeded);
        world
    }

    /// From the queue to running payloads.
    pub(super) fn run_to_payloads(&mut self) {
        self.place_job();
        self.accept_all_submissions();
        self.sight_all(AttemptSighting::Ready("node1".into()));
        assert_eq!(self.phase(), PhaseKind::Starting);
        self.sight_all(AttemptSighting::Begun("node1".into()));
        assert_eq!(self.phase(), PhaseKind::Running);
    }

    pub(super) fn due_effects(&self) -> Vec<JobEffectKind> {
        due(&self.job, self.now)
            .into_iter()
            .map(|effect| effect.kind)
            .collect()
    }

    pub(super) fn record_charges(&mut self) {
        for index in 0..self.job.components.len() {
            if let Some(charge) = self.job.components[index].charge.clone() {
                let component = ComponentIndex(index as u32);
                let attempt = charge.attempt;
                self.apply_command(JobCommand::ChargeRecorded { component, attempt })
                    .unwrap();
            }
        }
    }
}
