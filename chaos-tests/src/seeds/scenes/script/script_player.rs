//! Does what the lines of a script say, one after the other.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cospan_actors::api::command::{ApiAnswer, ApiRefusal, JobCommandOutcome, SubmittedJob};
use cospan_actors::supervision::ActorKind;
use cospan_domain::ids::KeyName;
use cospan_domain::units::DurationMs;
use cospan_simulator::clock::count_runtime_rest;
use futures_util::FutureExt;
use futures_util::future::join_all;

use super::super::stage::{BEGINS, StagedScene};
use super::super::tidy::{check_at_rest, check_folded};
use super::conditions::read_condition;
use super::requests::{KeyedRequest, read_request};
use super::script_jobs::read_submissions;
use super::script_words::ScriptWords;
use super::shown_facts::show_facts;
use super::transcript::SceneTranscript;
use super::world_events::read_world_event;

/// Begins a line about something that must never be.
pub(super) const WRONG: &str = "WRONG: ";
/// The longest wait for anything.
const LONGEST: DurationMs = DurationMs::from_secs(8 * 3_600);

/// Plays the lines of one run of a control plane.
#[derive(Clone)]
pub(super) struct ScriptPlayer {
    pub(super) scene: StagedScene,
    pub(super) transcript: Rc<SceneTranscript>,
}

impl ScriptPlayer {
    /// Begins a run. What happened until now counts, but for the registration of files in the first.
    pub(super) fn begin(&self, first: bool) {
        self.transcript.begin_run();
        self.scene.write_to(&self.transcript);
        if first {
            self.transcript.keep_actors();
        } else {
            let epoch = self.scene.plane_run.plane.epoch();
            self.tell(&format!("its epoch is {epoch}"));
        }
    }

    /// Takes the lines of all that happened until now.
    pub(super) fn take_lines(&self) -> Vec<String> {
        self.transcript.catch_up();
        for problem in self.scene.problems_found() {
            self.tell(&format!("{WRONG}{problem}"));
        }
        self.transcript.take_lines()
    }

    /// Checks what must hold at the end of every script.
    pub(super) async fn check_rest(&self) {
        check_at_rest(&self.scene).await;
        for text in self.scene.plane_run.call_faults.unwanted_messages() {
            self.tell(&format!("{WRONG}{text}"));
        }
    }

    fn tell(&self, text: &str) {
        self.transcript.add_line(self.scene.now(), text);
    }

    /// Does what one line says.
    ///
    /// # Errors
    /// The line is not understood, or what it waits for does not come about.
    pub(super) async fn perform_line(&self, line: &str) -> Result<()> {
        let mut words = ScriptWords::of_line(line);
        match words.next().unwrap_or_default() {
            "wait" if words.take("until") => {
                let at = BEGINS + words.read_time()?;
                words.end()?;
                self.scene.plane_run.sleep_until(at).await;
            }
            "wait" => {
                let time = words.read_time()?;
                words.end()?;
                self.scene.pass(time).await;
            }
            "until" => {
                let condition = read_condition(words)?;
                self.scene.wait_until(LONGEST, condition).await?;
            }
            "stop" if words.take("for") => stop_plane(words.read_time()?),
            "site" => self.plan_world_event(words)?,
            "panic" => self.make_actors_panic(&mut words)?,
            "check" if words.take("that all is in order") => check_at_rest(&self.scene).await,
            "calls" if words.take("go well") => self.scene.plane_run.call_faults.stop_faults(),
            "show" => {
                for fact in show_facts(&self.scene, words).await? {
                    self.tell(&fact);
                }
            }
            "preview" => self.preview(words)?,
            "together" => self.ask_together(words).await?,
            "meanwhile" => {
                let request = read_request(words)?;
                let player = self.clone();
                tokio::task::spawn_local(async move {
                    let answer = player.ask(request).await;
                    player.tell_answer(answer);
                });
            }
            _ => {
                let request = read_request(ScriptWords::of_line(line))?;
                self.tell_answer(self.ask(request).await);
            }
        }
        check_folded(&self.scene, &self.scene.plane_run.plane.view());
        Ok(())
    }

    async fn ask(&self, request: KeyedRequest) -> Result<ApiAnswer, ApiRefusal> {
        self.scene.ask_as(&request.key, request.what).await
    }

    /// Sends requests that are divided by `and` at the same time.
    async fn ask_together(&self, words: ScriptWords<'_>) -> Result<()> {
        let text = words.rest();
        let requests: Vec<KeyedRequest> = text
            .split(" and ")
            .map(|text| read_request(ScriptWords::of_line(text)))
            .collect::<Result<_>>()?;
        let answers = join_all(requests.into_iter().map(|request| self.ask(request))).await;
        for answer in answers {
            self.tell_answer(answer);
        }
        Ok(())
    }

    fn tell_answer(&self, answer: Result<ApiAnswer, ApiRefusal>) {
        // What became durable before the answer came is told before it.
        self.transcript.catch_up();
        match answer {
            Ok(ApiAnswer::Done) => self.tell("= done"),
            Ok(ApiAnswer::Submitted(jobs)) => {
                let jobs: Vec<String> = jobs.iter().map(submitted_text).collect();
                self.tell(&format!("= {}", jobs.join(", ")));
            }
            Ok(ApiAnswer::Jobs(jobs)) => {
                for (id, outcome) in jobs {
                    self.tell(&format!("= job {id} {}", outcome_text(&outcome)));
                }
            }
            Err(refusal) => self.tell(&format!("= refused: {refusal}")),
        }
    }

    fn preview(&self, mut words: ScriptWords<'_>) -> Result<()> {
        let key: KeyName = if words.take("as") {
            words.read()?
        } else {
            KeyName::new("alice")?
        };
        for job in read_submissions(words)? {
            match self.scene.plane_run.plane.preview_job(&key, job) {
                Ok(explained) => {
                    let class = explained.class.context("it has no priority")?;
                    let named = if class.given { "given" } else { "named" };
                    self.tell(&format!(
                        "= acceptable with {named} priority {}",
                        class.class
                    ));
                }
                Err(refusal) => self.tell(&format!("= refused: {refusal}")),
            }
        }
        Ok(())
    }

    fn plan_world_event(&self, mut words: ScriptWords<'_>) -> Result<()> {
        let event = read_world_event(&mut words)?;
        words.end()?;
        let now = self.scene.now();
        self.scene.plane_run.world.act_at(now, |world| {
            let site = world.index_of(&event.site);
            let site = site.with_context(|| format!("there is no site {}", event.site))?;
            event.carry_out(world, site, now);
            Ok(())
        })
    }

    /// Reads `actors of kind job 3 times`.
    fn make_actors_panic(&self, words: &mut ScriptWords<'_>) -> Result<()> {
        anyhow::ensure!(words.take("actors of kind"), "which actors?");
        let name = words.next().unwrap_or_default();
        let mut kinds = ActorKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.as_str() == name);
        let kind = kind.with_context(|| format!("there are no actors of kind {name:?}"))?;
        let times: usize = words.read()?;
        anyhow::ensure!(words.take("times"), "so often what?");
        let only_at_messages = words.take("at messages");
        words.end()?;
        if !self.scene.make_actors_panic(kind, times, only_at_messages) {
            bail!("no actor of this build can panic");
        }
        Ok(())
    }
}

fn submitted_text(job: &SubmittedJob) -> String {
    let again = if job.repeated { " as before" } else { "" };
    let group = job.group.map(|group| format!(" of sweep {group}"));
    format!("job {}{again}{}", job.id, group.unwrap_or_default())
}

fn outcome_text(outcome: &JobCommandOutcome) -> String {
    match outcome {
        JobCommandOutcome::Done => "is done".to_owned(),
        JobCommandOutcome::Waits(why) => format!("waits: {why}"),
        JobCommandOutcome::Unchanged(why) => format!("is unchanged: {why}"),
        JobCommandOutcome::NotFound => "is not found".to_owned(),
        JobCommandOutcome::Refused(why) => format!("is refused: {why}"),
    }
}

/// Lets time pass in which nothing of the control plane has a turn, as after SIGSTOP.
fn stop_plane(lasts: DurationMs) {
    let _ = tokio::time::advance(Duration::from_millis(lasts.0)).now_or_never();
    count_runtime_rest();
}
