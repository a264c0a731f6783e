//! Draws any job, copy, site and file, from a seed.

mod draw_objects;
mod reservation_tests;
mod runner;

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::content::{Content, FileChunk};
use cospan_domain::ids::{
    Attempt, ComponentIndex, Digest, InstanceId, JobId, LogicalName, RelPath, Round,
};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{
    AbortCause, AbortConsequence, AttemptEnding, AttemptState, BegunAttempt, Component,
    ComponentRestart, ImportedAttempts, Job, JobInstants, JobPhase, OutputCollection, RestartStep,
    SetbackCounts, SiteCharge, SubmissionIdempotency,
};
use cospan_domain::job::spec::{
    ComponentSpec, ExecutableSource, FileReference, FlexibleBounds, InputPortion, InputSpec,
    JobSpec, OutputDestination, OutputSpec, OverrideScope, Priority, Program, ProgramOverride,
    RequestType, UnreachableAction,
};
use cospan_domain::labels::{LabelConstraint, LabelRule};
use cospan_domain::placed::{ContentSource, Placement};
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, ClockSkew, DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// A source of anything.
pub(crate) struct Draw(StdRng);
type Text = Arc<str>;

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    fn coin(&mut self) -> bool {
        self.0.random()
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of.choose(&mut self.0).unwrap().clone()
    }

    fn maybe<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.coin().then(|| draw(self))
    }

    fn some<C: FromIterator<T>, T>(&mut self, draw: impl Fn(&mut Self) -> T) -> C {
        (0..self.below(4)).map(|_| draw(self)).collect()
    }

    fn n32(&mut self) -> u32 {
        self.0.random()
    }

    fn n64(&mut self) -> u64 {
        self.0.random()
    }

    fn at(&mut self) -> Timestamp {
        Timestamp(self.n64())
    }

    fn text(&mut self) -> Text {
        let letters: Vec<char> = "az09 _-\"\\\n\t\u{0}{}[],:é漢🦀".chars().collect();
        (0..self.below(12))
            .map(|_| self.one(&letters))
            .collect::<String>()
            .into()
    }

    fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(&mut self) -> T {
        let letters: Vec<char> = "abcxyz".chars().collect();
        let name: String = (0..=self.below(12)).map(|_| self.one(&letters)).collect();
        name.parse().unwrap()
    }

    fn logical(&mut self) -> LogicalName {
        self.one(&["data/in put", "é漢🦀", "a+01", "b\"q", "x"])
            .parse()
            .unwrap()
    }

    fn path(&mut self) -> RelPath {
        self.one(&["a", "a/b c", "out/é.txt", "x\\y", "\"q\""])
            .parse()
            .unwrap()
    }

    fn digest(&mut self) -> Digest {
        Digest(self.0.random())
    }

    fn index(&mut self) -> ComponentIndex {
        ComponentIndex(self.n32())
    }

    fn content(&mut self) -> Content {
        Content {
            digest: self.digest(),
            size: Bytes(self.n64()),
        }
    }

    fn request(&mut self) -> RequestType {
        match self.n32() % 3 {
            0 => RequestType::Fixed,
            1 => RequestType::NonFixed,
            _ => RequestType::Flexible(FlexibleBounds {
                min_component_size: self.n32(),
                max_components: self.maybe(Self::n32),
                splits: self.some(|draw| draw.some(Self::n32)),
            }),
        }
    }

    pub(crate) fn spec(&mut self, components: usize) -> JobSpec {
        JobSpec {
            name: self.maybe(Self::text),
            request: self.request(),
            components: (0..components).map(|_| self.component_spec()).collect(),
            policy: self.maybe(Self::name),
            priority: self.one(&Priority::ALL),
            wall_time: DurationMs(self.n64()),
            rerunnable: self.coin(),
            on_unreachable: if self.coin() {
                UnreachableAction::Wait
            } else {
                UnreachableAction::RerunAfter(DurationMs(self.n64()))
            },
            max_placement_tries: self.maybe(Self::n32),
            max_claim_tries: self.maybe(Self::n32),
            max_retries: self.n32(),
            run: self.run_options().into(),
        }
    }

    fn component_spec(&mut self) -> ComponentSpec {
        ComponentSpec {
            name: self.name(),
            site: self.maybe(Self::name),
            resources: Resources {
                processors: self.n32(),
                others: self.some(|draw| (draw.text(), draw.n64())),
            },
            constraints: self.some(Self::constraint),
            program: Program {
                executable: self.executable(),
                arguments: self.some(Self::text),
                environment: self.pairs(),
                directory: self.maybe(Self::path),
                setup: self.some(Self::text),
            }
            .into(),
            inputs: self.some(|draw| InputSpec {
                file: draw.file_ref(),
                path: draw.path(),
                feed: draw.one(&[InputPortion::Whole, InputPortion::Chunk]),
            }),
            outputs: self.some(|draw| OutputSpec {
                path: draw.path(),
                collect: draw.collect(),
            }),
            at: self.some(|draw| (draw.place(), draw.change())),
            restart: self.maybe(Self::change).map(Box::new),
            start_after: DurationMs(self.n64()),
        }
    }

    fn pairs(&mut self) -> BTreeMap<Text, Text> {
        self.some(|draw| (draw.text(), draw.text()))
    }

    fn constraint(&mut self) -> LabelConstraint {
        let rule = match self.below(4) {
            0 => LabelRule::Is(self.text()),
            1 => LabelRule::IsNot(self.text()),
            2 => LabelRule::AtLeast(self.below(100) as u64),
            _ => LabelRule::OneOf(self.some(Self::text)),
        };
        LabelConstraint {
            key: self.text(),
            rule,
        }
    }

    fn executable(&mut self) -> ExecutableSource {
        if self.coin() {
            ExecutableSource::AtSite(self.text())
        } else {
            ExecutableSource::Staged(self.file_ref())
        }
    }

    fn file_ref(&mut self) -> FileReference {
        FileReference {
            name: self.logical(),
            bound: self.maybe(Self::content),
        }
    }

    fn collect(&mut self) -> OutputDestination {
        if self.coin() {
            OutputDestination::Fetch
        } else {
            OutputDestination::ToSite {
                site: self.name(),
                register: self.logical(),
            }
        }
    }

    pub(crate) fn chunk(&mut self) -> FileChunk {
        FileChunk {
            of: self.content(),
            offset: Bytes(self.n64()),
            length: Bytes(self.n64()),
        }
    }

    fn place(&mut self) -> OverrideScope {
        if self.coin() {
            OverrideScope::Label(self.text(), self.text())
        } else {
            OverrideScope::Site(self.name())
        }
    }

    fn change(&mut self) -> ProgramOverride {
        ProgramOverride {
            executable: self.maybe(Self::executable),
            arguments: self.maybe(|draw| draw.some(Self::text)),
            environment: self.pairs(),
            setup: self.some(Self::text),
            directory: self.maybe(Self::path),
            lrm_options: self.some(Self::text),
        }
    }

    /// A job as it is accepted.
    pub(crate) fn submitted(&mut self, id: JobId, components: usize) -> Job {
        Job {
            id,
            spec: Arc::new(self.spec(components)),
            owner: self.name(),
            idempotency: self.maybe(|draw| SubmissionIdempotency {
                key: draw.name(),
                body: draw.digest(),
            }),
            submitted_at: self.at(),
            priority: self.one(&Priority::ALL),
            frozen_by: None,
            held: None,
            phase: JobPhase::Queued {
                since: self.at(),
                not_before: self.at(),
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
            wish: self.changed_wish(),
            reservation: self.maybe(Self::reservation).map(Box::new),
            told: self.some(Self::name),
            revision: 1,
        }
    }

    /// Any next revision of a job: its head, and some of its components, differ.
    pub(crate) fn next(&mut self, job: &Job) -> Job {
        let mut next = job.clone();
        next.revision += 1;
        next.priority = self.one(&Priority::ALL);
        next.frozen_by = self.maybe(Self::name);
        next.held = self.maybe(Self::text);
        next.phase = self.phase();
        next.round = Round(self.n32());
        next.inputs_here = self.coin();
        next.start_at = self.maybe(Self::at);
        next.setbacks = self.setbacks();
        next.next_claim = self.maybe(Self::at);
        next.preempting = self.some(|draw| JobId(draw.n64()));
        next.promoted = self.coin();
        next.instants = self.instants().into();
        let count = job.spec.components.len();
        match self.below(8) {
            0 => next.components.clear(),
            1 => next.components = vec![Component::default(); count],
            2 => next.components = (0..count).map(|_| self.component()).collect(),
            _ => {
                for _ in 0..next.components.len().min(3) {
                    let index = self.below(next.components.len());
                    next.components[index] = self.component();
                }
            }
        }
        next
    }

    fn setbacks(&mut self) -> SetbackCounts {
        SetbackCounts {
            claims: self.n32(),
            rounds: self.n32(),
            site_errors: self.n32(),
            own_errors: self.n32(),
            inputs: self.n32(),
            missed_starts: self.n32(),
            preemptions: self.n32(),
            incidents: 0,
        }
    }

    fn instants(&mut self) -> JobInstants {
        JobInstants {
            first_placed: self.maybe(Self::at),
            placed: self.maybe(Self::at),
            first_start_estimate: self.maybe(Self::at),
            start_estimate: self.maybe(Self::at),
            claimed: self.maybe(Self::at),
            started: self.maybe(Self::at),
            succeeded: self.maybe(Self::at),
            placement_time: DurationMs(self.n64()),
            gained_processor_ms: self.n64(),
            total_placement_time: DurationMs(self.n64()),
            wasted_processor_ms: self.n64(),
            wasted_in_round_ms: self.n64(),
            transfer_volume: Bytes(self.n64()),
        }
    }

    fn phase(&mut self) -> JobPhase {
        let at = self.at();
        let since = self.at();
        match self.below(10) {
            0 => JobPhase::Queued {
                since,
                not_before: at,
            },
            1 => JobPhase::Placed {
                at,
                start_estimate: since,
            },
            2 => JobPhase::Claiming { since },
            3 => JobPhase::Starting { since },
            4 => JobPhase::Running { since },
            5 => JobPhase::Collecting { since },
            6 => JobPhase::Aborting {
                since,
                why: self.cause(),
                then: self.after(),
            },
            7 => JobPhase::Finished { at },
            8 => JobPhase::Failed {
                at,
                reason: self.text(),
            },
            _ => JobPhase::Cancelled {
                at,
                by: self.name(),
            },
        }
    }

    fn cause(&mut self) -> AbortCause {
        let component = self.index();
        let detail = self.text();
        match self.below(11) {
            0 => AbortCause::ClaimLost { component, detail },
            1 => AbortCause::InputLost { detail },
            2 => AbortCause::SiteError { component, detail },
            3 => AbortCause::StartMissed { component },
            4 => AbortCause::Unreachable { component },
            5 => AbortCause::Application { component, detail },
            6 => AbortCause::Cancelled,
            7 => AbortCause::Preempted {
                by: JobId(self.n64()),
            },
            8 => AbortCause::ReservationChanged { by: self.name() },
            9 => AbortCause::Unfit {
                component,
                detail,
                fits_elsewhere: self.coin(),
            },
            _ => AbortCause::Drained { site: self.name() },
        }
    }

    fn after(&mut self) -> AbortConsequence {
        match self.below(3) {
            0 => AbortConsequence::Requeue {
                not_before: self.at(),
            },
            1 => AbortConsequence::Fail {
                reason: self.text(),
            },
            _ => AbortConsequence::Cancel { by: self.name() },
        }
    }

    pub(crate) fn component(&mut self) -> Component {
        Component {
            placement: self.maybe(Self::placement),
            attempt: Attempt(self.n32()),
            run: self.run(),
            given_back: self.coin(),
            charge: self.maybe(Self::charge),
            avoid: self.some(Self::name),
            unfit_for: (0..self.below(3))
                .map(|_| (self.name(), self.text()))
                .collect(),
            collected: self.some(|draw| OutputCollection {
                content: draw.maybe(Self::content),
                done: draw.coin(),
            }),
            began: self.maybe(|draw| BegunAttempt {
                site: draw.name(),
                attempt: Attempt(draw.n32()),
                at: draw.maybe(Self::at),
            }),
            start_by: self.maybe(Self::at),
            held_since: self.maybe(Self::at),
            not_before: self.maybe(Self::at),
            restart: self.maybe(|draw| ComponentRestart {
                step: draw.one(&[
                    RestartStep::ToPlace,
                    RestartStep::Staging,
                    RestartStep::Staged,
                ]),
                since: draw.at(),
                tries: draw.n32(),
                not_before: draw.at(),
            }),
            origins: self.some(|draw| ImportedAttempts {
                instance: InstanceId::from_random(draw.n64()),
                last: Attempt(draw.n32()),
            }),
        }
    }

    fn charge(&mut self) -> SiteCharge {
        SiteCharge {
            site: self.name(),
            attempt: Attempt(self.n32()),
            detail: self.text(),
        }
    }

    pub(crate) fn placement(&mut self) -> Placement {
        Placement {
            site: self.name(),
            sources: self.some(|draw| ContentSource {
                content: draw.content(),
                from: draw.name(),
                chunk: draw.maybe(Self::chunk),
            }),
            transfer_time: DurationMs(self.n64()),
            share: self.maybe(Self::n32),
            acquisition: self.acquisition(),
        }
    }

    fn run(&mut self) -> AttemptState {
        let at = self.at();
        let host = self.text();
        let absences = self.below(256) as u8;
        match self.below(8) {
            0 => AttemptState::Idle,
            1 => AttemptState::Intended { at },
            2 => AttemptState::Uncertain {
                settled_at: at,
                absences,
                look_at: self.at(),
            },
            3 => AttemptState::Submitted {
                lrm_id: self.name(),
                at,
                absences,
                waits: self.maybe(Self::waits),
            },
            4 => {
                let clock = self.maybe(|draw| ClockSkew(i64::from(draw.n32()) - 1_000_000));
                AttemptState::AtGate {
                    lrm_id: self.name(),
                    host,
                    since: at,
                    clock,
                }
            }
            5 => AttemptState::Opened {
                lrm_id: self.name(),
                host,
                at,
            },
            6 => AttemptState::Running {
                lrm_id: self.name(),
                host,
                since: at,
            },
            _ => AttemptState::Ended {
                how: self.ending(),
                at,
            },
        }
    }

    fn ending(&mut self) -> AttemptEnding {
        match self.below(6) {
            0 => AttemptEnding::Succeeded,
            1 => AttemptEnding::Failed(self.text()),
            2 => AttemptEnding::NeverRan(self.text()),
            3 => AttemptEnding::Lost(self.text()),
            4 => AttemptEnding::Killed,
            _ => AttemptEnding::Abandoned,
        }
    }

    pub(crate) fn events(&mut self) -> Vec<JobEvent> {
        self.some(|draw| JobEvent {
            at: draw.at(),
            what: draw.happened(),
        })
    }

    fn happened(&mut self) -> JobEventKind {
        let component = self.index();
        let at = self.at();
        match self.below(48) {
            0 => JobEventKind::JobPlaced {
                round: Round(self.n32()),
                placements: self.some(Self::placement),
                start_estimate: at,
                by: None,
            },
            1 => JobEventKind::StartPostponed {
                start_estimate: at,
                next_claim: self.at(),
            },
            2 => JobEventKind::InputsArrived,
            3 => JobEventKind::ClaimBegun,
            4 => JobEventKind::AttemptRenewed { component },
            5 => JobEventKind::AttemptSubmitted {
                component,
                lrm_id: self.name(),
            },
            6 => JobEventKind::SubmissionUncertain {
                component,
                settled_at: at,
            },
            7 => JobEventKind::AttemptAbsent {
                component,
                counts: self.coin(),
                look_at: at,
            },
            8 => JobEventKind::AttemptSeen { component },
            9 => {
                let clock = self.maybe(|draw| ClockSkew(i64::from(draw.n32()) - 1_000_000));
                let held_for = self.maybe(|draw| DurationMs(draw.n64()));
                JobEventKind::ComponentReady {
                    component,
                    host: self.text(),
                    clock,
                    held_for,
                }
            }
            10 => JobEventKind::GoDecided {
                start_at: at,
                start_by: self.maybe(Self::at),
            },
            11 => JobEventKind::GateOpened { component },
            12 => JobEventKind::ComponentBegan {
                component,
                began_at: self.maybe(Self::at),
            },
            13 => JobEventKind::JobStarted,
            14 => {
                let attempt = Attempt(self.n32());
                JobEventKind::AttemptEnded {
                    component,
                    attempt,
                    how: self.ending(),
                }
            }
            15 => JobEventKind::SiteCharged {
                component,
                charge: self.charge(),
            },
            16 => JobEventKind::ChargeRecorded { component },
            17 => JobEventKind::PayloadsSucceeded,
            18 => JobEventKind::OutputFound {
                component,
                output: self.n32(),
                content: self.content(),
            },
            19 => JobEventKind::OutputCollected {
                component,
                output: self.n32(),
            },
            20 => JobEventKind::RoundAborted {
                why: self.cause(),
                then: self.after(),
            },
            21 => JobEventKind::AbortRedirected { then: self.after() },
            22 => JobEventKind::JobRequeued { not_before: at },
            23 => {
                let to = self.one(&Priority::ALL);
                JobEventKind::PriorityChanged {
                    to,
                    by: self.maybe(Self::name),
                }
            }
            24 => JobEventKind::JobFrozen { by: self.name() },
            25 => JobEventKind::JobThawed { by: self.name() },
            26 => JobEventKind::JobHeld {
                reason: self.text(),
            },
            27 => JobEventKind::JobReleased { by: self.name() },
            28 => JobEventKind::JobFinished,
            29 => JobEventKind::JobFailed {
                reason: self.text(),
            },
            30 => JobEventKind::AvoidanceLapsed,
            31 => JobEventKind::ComponentsClaimed {
                components: self.some(Self::index),
                preempting: self.some(|draw| JobId(draw.n64())),
            },
            32 => JobEventKind::ComponentMoved {
                component,
                placement: self.placement(),
            },
            33 => JobEventKind::ClaimMissed {
                next_claim: at,
                detail: self.text(),
            },
            34 => JobEventKind::ClaimGivenBack { component },
            35 => JobEventKind::ClaimReturned,
            36 => JobEventKind::ComponentFailed {
                component,
                why: self.cause(),
                next_claim: self.at(),
            },
            37 => JobEventKind::ComponentAvoidanceLapsed { component },
            38 => JobEventKind::SiteAvoided { component },
            39 => JobEventKind::ReadinessDoubted { component },
            40 => JobEventKind::StartDeferred {
                component,
                not_before: at,
            },
            41 => JobEventKind::WaitingAtSite {
                component,
                expected_start: self.maybe(Self::at),
            },
            42..45 => self.of_reservation(),
            45 => JobEventKind::FoundUnfit {
                component,
                detail: self.text(),
            },
            46 => JobEventKind::OutputsSeen { component },
            _ => JobEventKind::JobCancelled { by: self.name() },
        }
    }
}
