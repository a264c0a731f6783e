//! Judges a run by what the world itself wrote down. The rules (a) to (e) are those of
//! the chapter on the common start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::{
    Attempt, AttemptTag, ComponentIndex, InstanceId, JobId, LogicalName, RelPath, Round,
};
use cospan_domain::job::job_state::{Job, PhaseKind};
use cospan_domain::job::spec::{JobSpec, RequestType};
use cospan_domain::reservation::StartWindow;
use cospan_domain::runner::RestartScope;
use cospan_domain::site::barred_owners_record::OWN_PROBE_JOB;
use cospan_domain::units::{DurationMs, Timestamp};

use super::accounts::{self, GateAccounts};
use super::attempt_lives::{AttemptLife, attempt_lives, refused_at_first, still_alive};
use super::judge_reservations;
use super::judge_shared_reservations::{self, Sharing};
use super::peers::{is_parallel, misled_attempts};
use super::starts::{AttemptStart, Starts, clock_steps, torn};
use super::times::{self, Truth};
use super::users::OUTPUT_PATH;
use cospan_simulator::world::SimulatedWorld;
use cospan_simulator::world::copies::output_content;
use cospan_simulator::world::world_history::WorldLedgerEvent;
use cospan_simulator::world::world_site::ClusterLoadStep;

/// Everything an oracle looks at.
pub struct SeedEvidence<'a> {
    /// The world when all was over.
    pub world: &'a SimulatedWorld,
    /// The control planes that are judged.
    pub instance: InstanceId,
    /// Acknowledged jobs, how each ended, and when that became durable.
    pub ended: &'a BTreeMap<JobId, (PhaseKind, Timestamp)>,
    /// Jobs whose submission users know to be accepted.
    pub acknowledged: &'a BTreeSet<JobId>,
    /// The request of each job.
    pub asked: &'a BTreeMap<JobId, RequestedRound>,
    /// Attempts that the control plane took to be over, and since when.
    pub over: &'a BTreeMap<(JobId, ComponentIndex, Attempt), Timestamp>,
    /// Jobs whose cancellation was acknowledged.
    pub cancelled: &'a BTreeMap<JobId, Timestamp>,
    /// Jobs of which an output is collected, and its logical name.
    pub outputs: &'a BTreeMap<JobId, LogicalName>,
    /// Jobs as they were last seen.
    pub jobs: &'a BTreeMap<JobId, Arc<Job>>,
    /// Records about times at gates.
    pub accounts: &'a GateAccounts,
    /// The most by which the clocks of the control planes differed.
    pub clocks_apart: DurationMs,
    /// The reserved starts of rounds.
    pub windows: &'a BTreeMap<(JobId, Round), StartWindow>,
    /// Records of shared reservations.
    pub shared: &'a Sharing,
    /// The catalogue when all had come to rest, if it has.
    pub files: Option<&'a BTreeMap<LogicalName, Arc<FileRecord>>>,
}

/// The demands of a job on all attempts of one round together.
#[derive(Debug, Clone, Default)]
pub struct RequestedRound {
    /// Number of components; `None` where the policy splits the job.
    pub components: Option<u32>,
    /// Sum of their processors.
    pub processors: u32,
    /// The same in each other shape in which a start could be reserved for it.
    pub molded: Vec<u32>,
    /// A component that fails is restarted alone.
    pub apart: bool,
    /// The components know each other.
    pub parallel: bool,
    /// Components that begin later than the others.
    pub later: BTreeSet<ComponentIndex>,
}

impl RequestedRound {
    /// Returns the demands of a job as submitted.
    pub fn asked_by(spec: &JobSpec) -> Self {
        let count = u32::try_from(spec.components.len()).unwrap_or(u32::MAX);
        let components = match spec.request {
            RequestType::Fixed | RequestType::NonFixed => Some(count),
            RequestType::Flexible(_) => None,
        };
        let apart = spec.run.restart_scope == RestartScope::Component;
        let processors = spec.total_resources().processors;
        let parallel = is_parallel(spec);
        let molded = spec
            .run
            .molding
            .shapes
            .iter()
            .map(|shape| shape.processors)
            .collect();
        let indexes = (0..count).map(ComponentIndex);
        let later = indexes
            .filter(|index| spec.offset_of(*index) > DurationMs::ZERO)
            .collect();
        Self {
            components,
            processors,
            molded,
            apart,
            parallel,
            later,
        }
    }

    /// Returns true if attempts with these processors are all that it asked for.
    fn is_satisfied_by(&self, parts: &[u32]) -> bool {
        let total = parts.iter().sum();
        self.components
            .is_none_or(|count| parts.len() == count as usize)
            && (total == self.processors || self.molded.contains(&total))
    }
}

/// Lists everything that must not be; nothing, if all is well.
pub fn judge_run(evidence: &SeedEvidence<'_>) -> Vec<String> {
    let entries = evidence.world.ledger().entries();
    let ours = entries
        .iter()
        .filter(|entry| entry.tag.instance == evidence.instance);
    let lives = attempt_lives(ours.clone());
    let torn = torn(evidence.world, &common_starts(&lives, evidence));
    let whole = whole_rounds(&lives, &torn, evidence);
    let violations = [
        ("an acknowledged job is lost", lost_jobs(evidence)),
        ("(a) a payload began twice", began_twice(&lives)),
        (
            "(b) a gate was opened before all were ready",
            opened_early(&lives, evidence),
        ),
        (
            "(c) a part began long after another of its round",
            torn_rounds(&torn),
        ),
        (
            "(c) a finished job's parts did not run together",
            finished_apart(&whole, evidence),
        ),
        (
            "(e) an output is not that of the finished round",
            other_outputs(&whole, evidence),
        ),
        (
            "(d) two attempts of a component ran at once",
            overlapping(&lives),
        ),
        (
            "a cancelled or failed job began afterwards",
            began_late(&lives, evidence),
        ),
        (
            "an attempt was held to be over and was not",
            still_alive(&lives, evidence.over, &refused_at_first(ours.clone())),
        ),
        (
            "an acknowledged cancellation had no effect",
            not_cancelled(evidence),
        ),
        ("a payload began without its input", without_input(&lives)),
        (
            "a component was misled",
            misled_attempts(ours, |job| {
                evidence.asked.get(&job).map(|asked| asked.parallel)
            }),
        ),
        (
            "what was held in vain is misstated",
            accounts::misstated_jobs(evidence),
        ),
        (
            "a time is misstated",
            mistimed_jobs(&whole, &lives, evidence),
        ),
        ("a site is oversubscribed", oversubscribed(evidence.world)),
        (
            "another's reservation was used",
            judge_reservations::claimed_by_others(evidence),
        ),
        (
            "another's reservation was used",
            judge_shared_reservations::used_by_others(evidence),
        ),
        (
            "a promised start was not kept",
            judge_reservations::begun_at_other_times(evidence),
        ),
        ("an attempt was left behind", left_behind(evidence)),
        (
            "a content or partial copy was left behind",
            left_data(evidence),
        ),
        ("another's job was touched", touched_others(evidence)),
    ];
    let texts = violations
        .into_iter()
        .flat_map(|(rule, found)| found.into_iter().map(move |text| format!("{rule}: {text}")));
    texts.collect()
}

/// Lists finished jobs whose record states impossible times.
fn mistimed_jobs(
    whole: &BTreeMap<JobId, Vec<RoundParts>>,
    lives: &BTreeMap<AttemptTag, AttemptLife>,
    evidence: &SeedEvidence<'_>,
) -> Vec<String> {
    let judged = whole
        .iter()
        .filter(|_| evidence.clocks_apart == DurationMs::ZERO);
    let judged = judged.filter_map(|(id, rounds)| {
        let job = evidence.jobs.get(id)?;
        let (kind, durable) = evidence.ended.get(id)?;
        let [parts] = &rounds[..] else { return None };
        let known = parts.values().map(|(.., tag)| {
            let life = lives.get(tag)?;
            let submitted = life.submitted?;
            let opened = life.opened.as_ref()?.0;
            // The site says since when it uses its processors, by its own clock.
            let started = life.started? - clock_steps(evidence.world, submitted, opened);
            Some((submitted, (life.processors, started, opened)))
        });
        let (submitted, gates): (Vec<_>, Vec<_>) =
            known.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let together = parts
            .iter()
            .filter(|(at, _)| !begins_later(evidence, *id, **at));
        let truth = Truth {
            submitted: submitted.into_iter().min()?,
            begun: together.map(|(_, (began, ..))| *began).max()?,
            over: parts.values().map(|(_, ended, _)| *ended).max()?,
            durable: *durable,
            parts: gates,
        };
        (*kind == PhaseKind::Finished).then(|| times::misstated_times(job, &truth))
    });
    judged.flatten().collect()
}

/// Lists sites on which more was used at once than they have.
fn oversubscribed(world: &SimulatedWorld) -> Vec<String> {
    let mut found = Vec::new();
    for site in world.sites() {
        let total = site.processors();
        let mut used = site
            .load()
            .iter()
            .map(|step: &ClusterLoadStep| step.running + step.held + step.local + step.down);
        if let Some(used) = used.find(|used| *used > total) {
            found.push(format!("{used} of {total} processors at {}", site.name()));
        }
    }
    found
}

fn lost_jobs(evidence: &SeedEvidence<'_>) -> Vec<String> {
    let missing = evidence
        .acknowledged
        .iter()
        .filter(|id| !evidence.ended.contains_key(id));
    missing.map(|id| format!("job {id} never ended")).collect()
}

fn began_twice(lives: &BTreeMap<AttemptTag, AttemptLife>) -> Vec<String> {
    let twice = lives.iter().filter(|(_, life)| life.began.len() > 1);
    twice
        .map(|(tag, life)| format!("{tag} at {:?}", life.began))
        .collect()
}

/// Returns the first opening of each component's gate in a round.
fn first_openings(
    lives: &BTreeMap<AttemptTag, AttemptLife>,
) -> BTreeMap<(JobId, Round, ComponentIndex), AttemptTag> {
    let mut first: BTreeMap<_, (Timestamp, AttemptTag)> = BTreeMap::new();
    // Probes of our own belong to no round: each begins by itself.
    for (tag, life) in lives.iter().filter(|(tag, _)| tag.job != OWN_PROBE_JOB) {
        let Some((at, round, _)) = &life.opened else {
            continue;
        };
        let opening = first
            .entry((tag.job, *round, tag.component))
            .or_insert((*at, *tag));
        *opening = (*opening).min((*at, *tag));
    }
    first
        .into_iter()
        .map(|(part, (_, tag))| (part, tag))
        .collect()
}

fn opened_early(
    lives: &BTreeMap<AttemptTag, AttemptLife>,
    evidence: &SeedEvidence<'_>,
) -> Vec<String> {
    let mut found = Vec::new();
    let first = first_openings(lives);
    // A probe of our own belongs to no round.
    for (tag, life) in lives.iter().filter(|(tag, _)| tag.job != OWN_PROBE_JOB) {
        let Some((at, round, peers)) = &life.opened else {
            continue;
        };
        if first.get(&(tag.job, *round, tag.component)) != Some(tag) {
            if !evidence
                .asked
                .get(&tag.job)
                .is_some_and(|asked| asked.apart)
            {
                found.push(format!("{tag} was opened in a round that had begun"));
            }
            continue;
        }
        let peers = peers.iter().enumerate().map(|(index, attempt)| {
            let component = ComponentIndex(u32::try_from(index).unwrap_or(u32::MAX));
            AttemptTag {
                component,
                attempt: *attempt,
                ..*tag
            }
        });
        let parts: Vec<u32> = peers
            .clone()
            .map(|tag| {
                lives
                    .get(&tag)
                    .map_or(0, |life: &AttemptLife| life.processors)
            })
            .collect();
        let asked = evidence.asked.get(&tag.job).cloned().unwrap_or_default();
        if asked.later.contains(&tag.component) {
            // Its reserved start says when it may.
            continue;
        }
        if asked.later.is_empty() && !asked.is_satisfied_by(&parts) {
            found.push(format!(
                "{tag} has peers of {parts:?} processors, not {asked:?}"
            ));
        }
        for peer in peers.filter(|peer| !asked.later.contains(&peer.component)) {
            let ready = lives.get(&peer).and_then(|life| life.ready);
            if ready.is_none_or(|ready| ready > *at) {
                found.push(format!("{tag} was opened, but {peer} was not ready"));
            }
        }
    }
    found
}

/// The begin and end of an attempt.
type AttemptSpan = (Timestamp, Timestamp, AttemptTag);
/// The components of a round.
type RoundParts = BTreeMap<ComponentIndex, AttemptSpan>;

fn begins_later(evidence: &SeedEvidence<'_>, job: JobId, component: ComponentIndex) -> bool {
    evidence
        .asked
        .get(&job)
        .is_some_and(|asked| asked.later.contains(&component))
}

/// Lists how the components of each round began; those that are restarted alone did so with the
/// others before.
fn common_starts(lives: &BTreeMap<AttemptTag, AttemptLife>, evidence: &SeedEvidence<'_>) -> Starts {
    let mut starts = Starts::new();
    for ((job, round, component), tag) in first_openings(lives) {
        if begins_later(evidence, job, component) {
            continue;
        }
        let life = lives.get(&tag);
        let start = life.and_then(|life| life.ready.zip(life.began.first().copied()));
        if let Some((ready, began)) = start {
            starts
                .entry((job, round))
                .or_default()
                .push(AttemptStart { ready, began });
        }
    }
    starts
}

fn torn_rounds(torn: &BTreeMap<(JobId, Round), DurationMs>) -> Vec<String> {
    let told = torn
        .iter()
        .map(|((job, round), apart)| format!("job {job}, round {round}: {apart}"));
    told.collect()
}

/// Lists rounds of which all components began together and succeeded.
fn whole_rounds(
    lives: &BTreeMap<AttemptTag, AttemptLife>,
    torn: &BTreeMap<(JobId, Round), DurationMs>,
    evidence: &SeedEvidence<'_>,
) -> BTreeMap<JobId, Vec<RoundParts>> {
    let mut rounds: BTreeMap<(JobId, Round), RoundParts> = BTreeMap::new();
    for (tag, life) in lives {
        if let (Some((_, round, _)), [began], Some((ended, WorldLedgerEvent::Exited(0)))) =
            (&life.opened, &life.began[..], &life.ended)
        {
            let parts = rounds.entry((tag.job, *round)).or_default();
            parts.insert(tag.component, (*began, *ended, *tag));
        }
    }
    let mut whole: BTreeMap<JobId, Vec<RoundParts>> = BTreeMap::new();
    for ((job, round), parts) in rounds {
        let asked = evidence.asked.get(&job).cloned().unwrap_or_default();
        let sizes: Vec<u32> = parts
            .values()
            .map(|(.., tag): &AttemptSpan| lives.get(tag).map_or(0, |life| life.processors))
            .collect();
        if asked.is_satisfied_by(&sizes) && !torn.contains_key(&(job, round)) {
            whole.entry(job).or_default().push(parts);
        }
    }
    whole
}

/// Lists ended jobs that finished.
fn finished<'a>(evidence: &'a SeedEvidence<'_>) -> impl Iterator<Item = JobId> + 'a {
    let ended = evidence.ended.iter();
    ended
        .filter(|(_, (kind, _))| *kind == PhaseKind::Finished)
        .map(|(id, _)| *id)
}

/// Checks that a job is reported finished only if all its components of one round ran as they
/// should.
fn finished_apart(
    whole: &BTreeMap<JobId, Vec<RoundParts>>,
    evidence: &SeedEvidence<'_>,
) -> Vec<String> {
    finished(evidence)
        .filter(|id| !whole.contains_key(id))
        .map(|id| format!("job {id}"))
        .collect()
}

/// Checks that the collected output is that of the round with which the job finished, at the site
/// that was to keep it.
fn other_outputs(
    whole: &BTreeMap<JobId, Vec<RoundParts>>,
    evidence: &SeedEvidence<'_>,
) -> Vec<String> {
    let Ok(path) = RelPath::new(OUTPUT_PATH) else {
        return Vec::new();
    };
    let Some(files) = evidence.files else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for id in finished(evidence) {
        let Some(name) = evidence.outputs.get(&id) else {
            continue;
        };
        let entry = files.get(name).and_then(|file| file.entry.as_ref());
        let rounds = whole.get(&id).into_iter().flatten();
        let mut left = rounds.filter_map(|parts| parts.get(&ComponentIndex(0)));
        let kept = entry.is_some_and(|entry| {
            let replicas = entry.replicas.iter();
            let mut replicas = replicas.filter_map(|(name, _)| evidence.world.index_of(name));
            left.any(|(.., tag)| output_content(*tag, &path) == entry.content)
                && replicas.any(|site| evidence.world.has_content(site, entry.content.digest))
        });
        if !kept {
            found.push(format!("job {id} left {name} as {entry:?}"));
        }
    }
    found
}

fn overlapping(lives: &BTreeMap<AttemptTag, AttemptLife>) -> Vec<String> {
    let mut spans: BTreeMap<(JobId, ComponentIndex), Vec<AttemptSpan>> = BTreeMap::new();
    for (tag, life) in lives {
        let Some(began) = life.began.first() else {
            continue;
        };
        let ended = life
            .ended
            .as_ref()
            .map_or(Timestamp(u64::MAX), |(at, _)| *at);
        spans
            .entry((tag.job, tag.component))
            .or_default()
            .push((*began, ended, *tag));
    }
    let mut found = Vec::new();
    for spans in spans.values_mut() {
        spans.sort();
        for pair in spans.windows(2) {
            if pair[1].0 < pair[0].1 {
                found.push(format!("{} and {}", pair[0].2, pair[1].2));
            }
        }
    }
    found
}

fn began_late(
    lives: &BTreeMap<AttemptTag, AttemptLife>,
    evidence: &SeedEvidence<'_>,
) -> Vec<String> {
    let late = lives.iter().filter(|(tag, life)| {
        let ended = evidence.ended.get(&tag.job);
        ended.is_some_and(|(_, at)| life.began.iter().any(|began| began > at))
    });
    late.map(|(tag, _)| tag.to_string()).collect()
}

fn not_cancelled(evidence: &SeedEvidence<'_>) -> Vec<String> {
    let other = evidence.cancelled.keys().filter(|id| {
        evidence
            .ended
            .get(id)
            .is_some_and(|(kind, _)| *kind != PhaseKind::Cancelled)
    });
    other
        .map(|id| format!("job {id} ended as {:?}", evidence.ended.get(id)))
        .collect()
}

fn without_input(lives: &BTreeMap<AttemptTag, AttemptLife>) -> Vec<String> {
    lives
        .iter()
        .filter(|(_, life)| life.input_missing)
        .map(|(tag, _)| tag.to_string())
        .collect()
}

fn left_behind(evidence: &SeedEvidence<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for site in evidence.world.sites() {
        let index = evidence.world.index_of(site.name());
        let tags = index
            .map(|index| evidence.world.list_attempts(index))
            .unwrap_or_default();
        let ours = tags
            .into_iter()
            .filter(|tag| tag.instance == evidence.instance);
        found.extend(ours.map(|tag| format!("{tag} at {}", site.name())));
    }
    found
}

fn left_data(evidence: &SeedEvidence<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let files = evidence.files.into_iter().flat_map(BTreeMap::values);
    let entries: Vec<_> = files.filter_map(|file| file.entry.as_ref()).collect();
    for site in evidence.world.sites() {
        let left = site.contents().filter(|digest| {
            !entries.iter().any(|entry| {
                entry.content.digest == *digest
                    && entry.replicas.iter().any(|(at, _)| at == site.name())
            })
        });
        found.extend(left.map(|digest| format!("{digest} at {}", site.name())));
        if site.partial_copies() > 0 {
            found.push(format!(
                "{} partial copies at {}",
                site.partial_copies(),
                site.name()
            ));
        }
    }
    found
}

fn touched_others(evidence: &SeedEvidence<'_>) -> Vec<String> {
    let touched = evidence.world.ledger().entries().iter().filter(|entry| {
        let harm = matches!(
            entry.deed,
            WorldLedgerEvent::Opened(..)
                | WorldLedgerEvent::Voided
                | WorldLedgerEvent::Withdrawn
                | WorldLedgerEvent::Terminated
                | WorldLedgerEvent::Removed
        );
        harm && entry.tag.instance != evidence.instance
    });
    touched
        .map(|entry| format!("{} {:?}", entry.tag, entry.deed))
        .collect()
}
