//! Polls attempts: asks Slurm as seldom as possible, and reads the wrappers' files each time.
//!
//! While attempts wait or run, their files show what happens to them next, and Slurm's report of a
//! while ago is good enough. It is asked again as soon as files show more than it did, or that an
//! attempt may be over; and about those of which it has not said that they wait or run.
//!
//! If Slurm does not answer (see [`crate::port::BatchSystemSilence`]), files are read all the same. It is left
//! alone for as long as its report would have counted, and nothing is taken to be absent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::Duration;

use cospan_domain::ids::AttemptTag;
use cospan_domain::resources::Resources;
use cospan_domain::units::Timestamp;
use tokio::time::Instant;

use super::SlurmSite;
use super::attempt_numbers::AttemptNumbers;
use super::attempt_state::{
    self, SlurmAttemptEvidence, needs_newer_report, observe_attempt, observe_in_silence,
};
use super::latest_reports::used_processors;
use super::occupancy::SlurmOccupancy;
use super::queue::{self, SlurmJob};
use crate::agent::attempt_remains;
use crate::agent::{SiteAgentAnswer, SiteAgentRequest};
use crate::attempt_end::BatchJobState;
use crate::local_site::root_check::ROOM_MIN;
use crate::port::{AcceptedAttempt, AttemptSubmitRequest, SiteError, SiteStatus};
use crate::wrapper::attempt_files::WrapperEvidence;

/// The time from when Slurm is seen to run nothing of an attempt to the decision that its files say
/// no more: files of another machine appear late.
pub(super) const FILES_SETTLE: Duration = Duration::from_secs(10);

/// The longest that Slurm's report on who ended an attempt is awaited.
const WORD_LATE: Duration = Duration::from_secs(60);

/// The time until a payload's own end is believed while Slurm does not answer: if Slurm ended it,
/// its wrapper knows by then, and has recorded so.
const ALONE: Duration = Duration::from_secs(10);

/// Adds jobs that were submitted or seen since to those that were known.
fn merge_jobs(mut known: Vec<SlurmJob>, since: &[SlurmJob]) -> Vec<SlurmJob> {
    let numbers: BTreeSet<String> = known.iter().map(|job| job.number.clone()).collect();
    known.extend(
        since
            .iter()
            .filter(|job| !numbers.contains(&job.number))
            .cloned(),
    );
    known
}

/// Notes whether something is so of an attempt, and returns for how long; `None` if it is not so.
pub(super) fn note_duration(
    noted: &mut BTreeMap<AttemptTag, Instant>,
    tag: AttemptTag,
    is_so: bool,
) -> Option<Duration> {
    if !is_so {
        noted.remove(&tag);
        return None;
    }
    let now = Instant::now();
    Some(now.duration_since(*noted.entry(tag).or_insert(now)))
}

/// Returns why Slurm did not answer, if it was asked and did not.
fn failure_reason(answer: &SiteAgentAnswer, seconds: &str) -> Option<String> {
    let why = answer.last_value("fail")?;
    let why = why.strip_prefix("unsent").unwrap_or(why).trim();
    Some(if why.is_empty() {
        format!("nothing within {seconds} s")
    } else {
        why.to_owned()
    })
}

/// The basis of a look.
#[derive(Debug)]
struct SlurmPollPlan {
    /// The jobs of Slurm's latest report, if that is good enough; otherwise Slurm is asked. They
    /// are kept here because a change of the queue may drop that report while files are read.
    known: Option<Vec<SlurmJob>>,
    /// True if Slurm is asked about its nodes.
    asks_load: bool,
    /// True if files were seen before.
    again: bool,
    /// True if Slurm tells the names of runs.
    tells_runs: bool,
}

impl SlurmPollPlan {
    /// Returns the arguments of the request.
    fn request_words<'w>(&self, limit: &'w str) -> impl Iterator<Item = &'w str> + use<'w> {
        let queue = if self.tells_runs { "runs" } else { "queue" };
        let parts = [(self.known.is_none(), queue), (self.asks_load, "load")];
        let asked = [(true, "status"), (true, limit)].into_iter().chain(parts);
        asked.filter_map(|(is_asked, word)| is_asked.then_some(word))
    }
}

impl SlurmSite {
    pub(super) async fn status_of(&self, tags: &[AttemptTag]) -> Result<SiteStatus, SiteError> {
        let memory = Duration::from_millis(self.config.memory.0);
        let silent = self.lock_reports().recent_silence(memory);
        if let Some(why) = silent {
            return self.read_files_only(tags, why).await;
        }
        let tells_runs = self.tells_runs();
        let first = {
            let heard = self.lock_reports();
            let known = heard
                .is_recent_for(tags, memory)
                .then(|| heard.known_jobs().to_vec());
            SlurmPollPlan {
                known,
                asks_load: !heard.knows_load(memory),
                again: false,
                tells_runs,
            }
        };
        let (mut status, again) = self.poll_once(tags, first).await?;
        if !again.is_empty() {
            // Slurm's report on them is older than their files.
            let second = SlurmPollPlan {
                known: None,
                asks_load: false,
                again: true,
                tells_runs,
            };
            let (second, _) = self.poll_once(&again, second).await?;
            status.attempts.extend(second.attempts);
            status.idle = second.idle;
            status.idle_in = second.idle_in;
            status.silence = second.silence;
        }
        Ok(status)
    }

    /// Looks once; also returns the attempts that need a second look.
    async fn poll_once(
        &self,
        tags: &[AttemptTag],
        look: SlurmPollPlan,
    ) -> Result<(SiteStatus, Vec<AttemptTag>), SiteError> {
        let mut request = SiteAgentRequest::default();
        tags.iter()
            .for_each(|tag| request.push_line("tag", &tag.to_string()));
        let limit = self.answer_limit();
        let words: Vec<&str> = look.request_words(&limit).collect();
        let asked_at = Instant::now();
        let answer = self
            .agent
            .send_request(&words, request.finish_request())
            .await?;
        self.note_disk_room(&answer);
        if let Some(why) = failure_reason(&answer, &limit) {
            self.lock_reports().silent = Some((Instant::now(), why.clone()));
            return Ok((self.status_in_silence(tags, &answer, why), Vec::new()));
        }
        let again_asked = look.again;
        let (shown, site_clock, mut left) = self.read_remains(&answer);
        let mut jobs = self.store_report(&answer, look, asked_at)?;
        let living = self.find_living(tags, &left);
        jobs.extend(
            self.ask_accounting(&self.find_lost_attempts(tags, &jobs, &left, &living))
                .await,
        );
        let mut again = Vec::new();
        let mut attempts = BTreeMap::new();
        for tag in tags {
            let evidence = left.evidence.get_mut(tag);
            let job = job_of_tag(&jobs, *tag, evidence.as_deref());
            let lives = living.contains(tag);
            let is_over = attempt_state::is_over(job, evidence.as_deref(), lives);
            let settled = self
                .over_for(*tag, is_over)
                .is_some_and(|over| over >= FILES_SETTLE);
            if let Some(evidence) = evidence
                && settled
                && attempt_state::noted_end_stands(job)
            {
                evidence.take_noted_end();
            }
            let evidence = left.evidence.get(tag);
            let overdue = self
                .exited_for(*tag, evidence)
                .is_some_and(|over| over > WORD_LATE);
            let spooled = left.spooled.contains(tag);
            let known = SlurmAttemptEvidence {
                job,
                evidence,
                spooled,
                settled,
                overdue,
                asked_again: again_asked,
                lives,
            };
            if needs_newer_report(known) {
                again.push(*tag);
            }
            attempts.insert(*tag, observe_attempt(known));
        }
        // Slurm's own times are by the clock as it is.
        let now = shown.unwrap_or_else(super::steady_now);
        let idle = self.idle_for_submission(&jobs, now);
        let idle_in = self.idle_by_partition(&jobs, now);
        let ebbs = self.idle_drops(&idle, now);
        let silence = None;
        Ok((
            SiteStatus {
                site_clock,
                idle,
                idle_in,
                ebbs,
                attempts,
                silence,
            },
            again,
        ))
    }

    /// Returns the seconds that Slurm has to answer, as an argument.
    fn answer_limit(&self) -> String {
        (self.config.query.0 / 2_000).max(1).to_string()
    }

    /// Reads the files of attempts without asking Slurm, which is silent for this reason.
    async fn read_files_only(
        &self,
        tags: &[AttemptTag],
        why: String,
    ) -> Result<SiteStatus, SiteError> {
        let mut request = SiteAgentRequest::default();
        tags.iter()
            .for_each(|tag| request.push_line("tag", &tag.to_string()));
        let words = ["status", &self.answer_limit()];
        let answer = self
            .agent
            .send_request(&words, request.finish_request())
            .await?;
        self.note_disk_room(&answer);
        Ok(self.status_in_silence(tags, &answer, why))
    }

    /// Notes whether there is room to begin anything.
    fn note_disk_room(&self, answer: &SiteAgentAnswer) {
        let words = answer
            .last_value("room")
            .map(|line| line.split(' ').map(str::parse));
        let counts: Option<Vec<u64>> = words.and_then(|words| words.collect::<Result<_, _>>().ok());
        let root = self.config.root.display();
        let trouble = match counts.as_deref() {
            // Some file systems do not count.
            Some(&[blocks, free, size, ..])
                if blocks > 0 && free.saturating_mul(size) < ROOM_MIN =>
            {
                Some(format!("the disk of {root} is full; make room there"))
            }
            Some(&[_, _, _, files, 0]) if files > 0 => Some(format!(
                "the disk of {root} has room for no more files; remove some there"
            )),
            _ => None,
        };
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// Observes attempts by their files alone, while Slurm is silent.
    fn status_in_silence(
        &self,
        tags: &[AttemptTag],
        answer: &SiteAgentAnswer,
        why: String,
    ) -> SiteStatus {
        let (_, site_clock, left) = self.read_remains(answer);
        let exited: BTreeMap<AttemptTag, _> = tags
            .iter()
            .map(|tag: &AttemptTag| (*tag, self.exited_for(*tag, left.evidence.get(tag))))
            .collect();
        let heard = self.lock_reports();
        let silence = heard.describe_silence(why);
        let attempts = tags
            .iter()
            .map(|tag: &AttemptTag| {
                let evidence = left.evidence.get(tag);
                let job = job_of_tag(heard.known_jobs(), *tag, evidence);
                let settled = exited
                    .get(tag)
                    .is_some_and(|over| over.is_some_and(|over| over > ALONE));
                (*tag, observe_in_silence(job, evidence, settled, &silence))
            })
            .collect();
        let idle = Resources::default();
        let idle_in = BTreeMap::new();
        let ebbs = Vec::new();
        SiteStatus {
            site_clock,
            idle,
            idle_in,
            ebbs,
            attempts,
            silence: Some(silence),
        }
    }

    /// Reads what its clock shows, the corrected time, and the remains of attempts from an answer.
    fn read_remains(
        &self,
        answer: &SiteAgentAnswer,
    ) -> (
        Option<Timestamp>,
        Option<Timestamp>,
        attempt_remains::LeftAttemptFiles,
    ) {
        let mut heard = self.lock_reports();
        let time = &mut heard.time;
        let shown = time.read_clock(answer);
        let left = attempt_remains::read_remains(answer, &self.config.seal, time);
        note_numbers(&mut heard.numbers, &left);
        let time = &heard.time;
        (
            shown,
            shown.map(|shown| time.to_corrected_time(shown)),
            left,
        )
    }

    /// Returns for how long the recorded end of an attempt has been seen.
    fn exited_for(&self, tag: AttemptTag, evidence: Option<&WrapperEvidence>) -> Option<Duration> {
        let has_exited = evidence.is_some_and(|evidence| evidence.exit.is_some());
        note_duration(&mut self.lock_reports().exited, tag, has_exited)
    }

    /// Lists attempts whose wrappers are there.
    fn find_living(
        &self,
        tags: &[AttemptTag],
        left: &attempt_remains::LeftAttemptFiles,
    ) -> BTreeSet<AttemptTag> {
        let signs = &mut self.lock_reports().signs_of_life;
        tags.iter()
            .filter(|tag| signs.note_sign(**tag, left.evidence.get(tag)))
            .copied()
            .collect()
    }

    /// Lists attempts that left something, but no end that is told by that alone, and that Slurm
    /// does not know any more.
    fn find_lost_attempts(
        &self,
        tags: &[AttemptTag],
        jobs: &[SlurmJob],
        left: &attempt_remains::LeftAttemptFiles,
        living: &BTreeSet<AttemptTag>,
    ) -> Vec<AttemptTag> {
        tags.iter()
            .filter(|tag: &&AttemptTag| {
                let evidence = left.evidence.get(tag);
                let is_there = evidence.is_some() || left.spooled.contains(tag);
                let has_ended = evidence.is_some_and(WrapperEvidence::tells_its_end);
                let is_forgotten = job_of_tag(jobs, **tag, evidence).is_none();
                is_forgotten
                    && is_there
                    && !has_ended
                    && !living.contains(tag)
                    && (self.lock_reports().accounts.knows(**tag)
                        || self
                            .over_for(**tag, true)
                            .is_some_and(|over| over >= FILES_SETTLE))
            })
            .copied()
            .collect()
    }

    /// Stores Slurm's report, if it was asked; returns its jobs, as far as they are known now.
    fn store_report(
        &self,
        answer: &SiteAgentAnswer,
        look: SlurmPollPlan,
        at: Instant,
    ) -> Result<Vec<SlurmJob>, SiteError> {
        let load = if look.asks_load {
            Some(self.partition_load(answer)?)
        } else {
            None
        };
        let mut heard = self.lock_reports();
        heard.silent = None;
        let jobs = match look.known {
            None => {
                let jobs = self.parse_jobs(answer, &heard.numbers);
                heard.queue = Some((at, jobs.clone()));
                jobs
            }
            Some(known) => merge_jobs(known, heard.known_jobs()),
        };
        if let Some(load) = load {
            heard.loads = queue::loads_by_partition(|| answer.values_of("load"));
            heard.bookings = SlurmOccupancy::from_answer(answer);
            heard.load = Some((at, load, used_processors(&jobs)));
        }
        Ok(jobs)
    }

    /// Notes a submission: until Slurm is asked again, it waits.
    pub(super) fn note_submission(
        &self,
        order: &AttemptSubmitRequest,
        submitted: &AcceptedAttempt,
    ) {
        let mut heard = self.lock_reports();
        let now = super::steady_now();
        heard
            .numbers
            .note_number(order.tag, submitted.lrm_id.as_str(), now);
        if let Some((_, jobs)) = &mut heard.queue {
            jobs.push(SlurmJob {
                number: submitted.lrm_id.to_string(),
                tag: order.tag,
                state: "PENDING".to_owned(),
                word: BatchJobState::Waiting,
                reason: "None".to_owned(),
                processors: order.resources.processors,
                submitted_at: now,
                start_at: None,
                end_at: None,
            });
        }
    }

    /// Makes the next look ask Slurm, because its queue has changed.
    pub(super) fn forget_queue(&self) {
        self.lock_reports().queue = None;
    }

    /// Makes the next look at this attempt ask Slurm, because it is removed.
    pub(super) fn forget_attempt(&self, tag: AttemptTag) {
        let mut heard = self.lock_reports();
        if let Some((_, jobs)) = &mut heard.queue {
            jobs.retain(|job| job.tag != tag);
        }
        heard.accounts.forget_tag(tag);
        heard.numbers.forget_tag(tag);
        heard.signs_of_life.forget_tag(tag);
        heard.time.forget_attempt(tag);
        heard.exited.remove(&tag);
    }

    /// Returns for how long Slurm has run nothing of an attempt.
    fn over_for(&self, tag: AttemptTag, is_over: bool) -> Option<Duration> {
        note_duration(&mut self.lock_over_since(), tag, is_over)
    }
}

/// Notes the numbers that are written down at the site: what Slurm gave, and what a wrapper found.
fn note_numbers(numbers: &mut AttemptNumbers, left: &attempt_remains::LeftAttemptFiles) {
    for (tag, (number, given_at)) in &left.numbers {
        numbers.note_number(*tag, number, *given_at);
    }
    for (tag, evidence) in &left.evidence {
        if let Some((ready, written_at)) = &evidence.ready
            && let Some(number) = &ready.job
        {
            numbers.note_number(*tag, number, *written_at);
            if let Some(run) = &ready.run {
                numbers.note_run(*tag, number, run);
            }
        }
    }
}

/// Returns the one of several jobs under a tag that got the directory; until then, one that may.
fn job_of_tag<'a>(
    jobs: &'a [SlurmJob],
    tag: AttemptTag,
    evidence: Option<&WrapperEvidence>,
) -> Option<&'a SlurmJob> {
    let holder = evidence
        .and_then(|e| e.ready.as_ref())
        .and_then(|(ready, _)| ready.job.as_ref());
    let ours = jobs.iter().filter(|job| job.tag == tag);
    ours.clone()
        .find(|job| Some(&job.number) == holder)
        .or_else(|| ours.clone().find(|job| job.is_active()))
        .or_else(|| ours.clone().max_by_key(|job| job.submitted_at))
}
