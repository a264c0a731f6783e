//! Jobs as scripts write them: `2+2 for 10s at amsterdam berlin reads file-0`.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cospan_actors::api::command::JobSubmission;
use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::ids::{Digest, IdempotencyKey, JobId, RelPath, SiteName, TargetName};
use cospan_domain::job::job_state::SubmissionIdempotency;
use cospan_domain::job::spec::{
    FileReference, InputPortion, InputSpec, JobSpec, OutputDestination, OutputSpec, Priority,
    RequestType, UnreachableAction,
};
use cospan_domain::reservation::StartWindow;
use cospan_domain::runner::SweepTask;
use cospan_simulator::jobs::build_job;

use super::super::stage::BEGINS;
use super::script_words::ScriptWords;

/// Reads jobs that are divided by semicolons, all of one submission.
pub(super) fn read_submissions(words: ScriptWords<'_>) -> Result<Vec<JobSubmission>> {
    let mut all = Vec::new();
    for text in words.rest().split(';') {
        read_jobs(ScriptWords::of_line(text), &mut all)
            .with_context(|| format!("in the job {text:?}"))?;
    }
    Ok(all)
}

fn read_jobs(mut words: ScriptWords<'_>, all: &mut Vec<JobSubmission>) -> Result<()> {
    let processors = words.next().context("how many processors?")?;
    let processors: Vec<u32> = match processors {
        "nothing" => Vec::new(),
        listed => listed
            .split('+')
            .map(str::parse::<u32>)
            .collect::<Result<_, _>>()?,
    };
    let code = if words.take("failing") { 1 } else { 0 };
    anyhow::ensure!(words.take("for"), "it runs for how long?");
    let time = words.read_time()?;
    let wall = if words.take("of") {
        words.read_time()?
    } else {
        time
    };
    let spec = build_job(&processors, time, wall, code)?;
    let mut job = JobSubmission::from_spec(Arc::new(spec.clone()));
    let mut draft = JobDraft { spec, count: 1 };
    while !words.is_empty() {
        if !read_answering(&mut words, &mut job)? {
            draft.read_clause(&mut words)?;
        }
    }
    draft.submit_into(&job, all);
    Ok(())
}

/// Reads a clause about how the submission is to be answered, if the next is one.
fn read_answering(words: &mut ScriptWords<'_>, job: &mut JobSubmission) -> Result<bool> {
    if words.take("under key") {
        let key: IdempotencyKey = words.read()?;
        anyhow::ensure!(words.take("body"), "the key of which body?");
        let body = Digest([words.read()?; 32]);
        job.idempotency = Some(SubmissionIdempotency { key, body });
    } else if words.take("even if unplaceable") {
        job.allow_unplaceable = true;
    } else if words.take("unless closed") {
        job.refuse_closed = true;
    } else if words.take("naming no priority") {
        job.asking.names_none = true;
    } else if words.take("uncapped") {
        job.asking.uncapped = true;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// A job whose clauses are being read.
struct JobDraft {
    spec: JobSpec,
    count: u32,
}

impl JobDraft {
    fn read_clause(&mut self, words: &mut ScriptWords<'_>) -> Result<()> {
        let spec = &mut self.spec;
        match words.next().unwrap_or_default() {
            "at" => {
                spec.request = RequestType::Fixed;
                for component in &mut spec.components {
                    component.site = Some(words.read()?);
                }
            }
            "reads" => self.read_input(words)?,
            "leaves" => self.read_output(words)?,
            "priority" => spec.priority = read_priority(words)?,
            "notifies" => spec.run.notify = words.read_list::<TargetName>().into_iter().collect(),
            "patient" => spec.on_unreachable = UnreachableAction::Wait,
            "patience" => spec.on_unreachable = UnreachableAction::RerunAfter(words.read_time()?),
            "tries" => spec.max_placement_tries = Some(words.read()?),
            "policy" => spec.policy = Some(words.read()?),
            "within" => spec.run.within = Some(words.read()?),
            "starting" => spec.run.reservation = Some(read_reservation(words)?),
            "times" => self.count = words.read()?,
            "sweep" => {
                anyhow::ensure!(words.take("at once"), "how many runs at once?");
                let task = SweepTask {
                    group: JobId(0),
                    index: 0,
                    count: self.count,
                    at_once: Some(words.read()?),
                    values: Default::default(),
                };
                spec.run.task = Some(task);
            }
            other => bail!("a job knows no {other:?}"),
        }
        Ok(())
    }

    fn read_input(&mut self, words: &mut ScriptWords<'_>) -> Result<()> {
        let feed = if words.take("chunks of") {
            InputPortion::Chunk
        } else {
            InputPortion::Whole
        };
        let file = FileReference {
            name: words.read()?,
            bound: None,
        };
        for component in &mut self.spec.components {
            component.inputs.push(InputSpec {
                file: file.clone(),
                path: RelPath::new("input")?,
                feed,
            });
        }
        Ok(())
    }

    fn read_output(&mut self, words: &mut ScriptWords<'_>) -> Result<()> {
        let name = words.next().context("it leaves what?")?;
        anyhow::ensure!(words.take("at"), "it leaves {name} where?");
        let site: SiteName = words.read()?;
        for component in &mut self.spec.components {
            let collect = OutputDestination::ToSite {
                site: site.clone(),
                register: name.parse()?,
            };
            component.outputs.push(OutputSpec {
                path: RelPath::new(name)?,
                collect,
            });
        }
        Ok(())
    }

    fn submit_into(self, job: &JobSubmission, all: &mut Vec<JobSubmission>) {
        for index in 0..self.count {
            let mut spec = self.spec.clone();
            if let Some(task) = &mut spec.run.task {
                task.index = index;
                task.count = self.count;
            }
            let spec = Arc::new(spec);
            all.push(JobSubmission {
                spec,
                ..job.clone()
            });
        }
    }
}

/// Reads the name of a priority.
pub(super) fn read_priority(words: &mut ScriptWords<'_>) -> Result<Priority> {
    let name = words.next().unwrap_or_default();
    let found = Priority::ALL
        .into_iter()
        .find(|priority| priority.as_str() == name);
    found.with_context(|| format!("no priority is called {name:?}"))
}

/// Reads a reserved start, `from 4h to 6h after 1d unreserved`.
pub(super) fn read_reservation(words: &mut ScriptWords<'_>) -> Result<ReservationTerms> {
    anyhow::ensure!(words.take("from"), "it starts from when on?");
    let from = BEGINS + words.read_time()?;
    anyhow::ensure!(words.take("to"), "it starts until when?");
    let window = StartWindow::new(from, BEGINS + words.read_time()?);
    let mut terms = ReservationTerms {
        window,
        ..ReservationTerms::default()
    };
    if words.take("after") {
        terms.reserve_after = Some(words.read_time()?);
    }
    terms.unreserved = words.take("unreserved");
    Ok(terms)
}
