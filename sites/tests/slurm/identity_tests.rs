//! Jobs that Slurm does not list under the name that they were given, or not at all, and go on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::ids::AttemptTag;
use cospan_sites::contract::{
    PATIENCE, SiteFixture, attempt_tag, await_observation, bring_to_gate, go_decision,
    script_program, start_attempt, submit_request,
};
use cospan_sites::port::{AttemptObservation, ExitCause, Site, SiteError};
use cospan_sites::wrapper::state_files::parse_ready;

use super::fixture::SlurmSiteFixture;

/// Commands that stand in front of Slurm's own.
struct Shims(PathBuf);

impl Shims {
    fn new(fixture: &SlurmSiteFixture) -> Self {
        let place = fixture.root().with_file_name("shims");
        fs::create_dir(&place).unwrap();
        Self(place)
    }

    /// Puts `text` before what the command would do.
    fn put(&self, command: &str, text: &str) {
        let file = self.0.join(command);
        let text = format!("#!/bin/sh\n{text}\nexec /usr/bin/{command} \"$@\"\n");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// From now on `squeue` knows no job, and finds nothing wrong with that.
    fn empty_queue(&self) {
        self.put("squeue", "exit 0");
    }

    fn site(&self, fixture: &SlurmSiteFixture) -> Arc<dyn Site> {
        fixture.site_with_commands(&self.0)
    }
}

fn is_on_its_way(seen: &AttemptObservation) -> bool {
    matches!(
        seen,
        AttemptObservation::Queued(_)
            | AttemptObservation::Starting
            | AttemptObservation::Ready(_)
            | AttemptObservation::Begun(_)
            | AttemptObservation::Unknown(_)
    )
}

/// Returns how the attempt ended; whatever is not an end is waited through.
async fn await_last(site: &dyn Site, tag: AttemptTag) -> AttemptObservation {
    await_observation(site, tag, |seen| !is_on_its_way(seen)).await
}

fn exit_of(seen: &AttemptObservation) -> Option<&ExitCause> {
    match seen {
        AttemptObservation::Exited(exit) => Some(&exit.cause),
        _ => None,
    }
}

async fn await_that(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn await_begun(site: &dyn Site, tag: AttemptTag) {
    await_observation(site, tag, |seen| {
        matches!(seen, AttemptObservation::Begun(_))
    })
    .await;
}

fn attempt_file(fixture: &SlurmSiteFixture, tag: AttemptTag, name: &str) -> PathBuf {
    fixture.root().join(format!("attempts/{tag}/{name}"))
}

/// Takes all processors, so that others wait.
async fn fill(site: &dyn Site, tag: AttemptTag) {
    let mut filler = submit_request(tag, script_program("sleep 600"));
    filler.resources = site.monitor().describe().await.unwrap().total;
    bring_to_gate(site, &filler).await;
}

fn rename(fixture: &SlurmSiteFixture, number: &str) {
    let job = format!("jobid={number}");
    for change in ["jobname=x", "comment=y"] {
        fixture.slurm(&["scontrol", "update", &job, change]);
    }
}

async fn a_job_that_renames_itself_ends_as_it_does(fixture: SlurmSiteFixture) {
    let site = fixture.site();
    let conf = fixture.slurm_conf();
    let text = format!(
        "export SLURM_CONF='{conf}'
         scontrol update jobid=$SLURM_JOB_ID jobname=x && scontrol update jobid=$SLURM_JOB_ID comment=y
         sleep 20; exit 3"
    );
    start_attempt(
        &*site,
        &submit_request(attempt_tag(1), script_program(&text)),
    )
    .await;
    let last = await_last(&*site, attempt_tag(1)).await;
    assert_eq!(exit_of(&last), Some(&ExitCause::Code(3)), "{last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_renames_itself_ends_as_its_payload_does() {
    if let Some(fixture) = SlurmSiteFixture::offered() {
        a_job_that_renames_itself_ends_as_it_does(fixture).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_renames_itself_ends_as_its_payload_does_over_ssh() {
    if let Some(fixture) = SlurmSiteFixture::offered_over_ssh() {
        a_job_that_renames_itself_ends_as_it_does(fixture).await;
    }
}

/// A newer Slurm has a name of each run, and tells the same one to everybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapper_finds_the_name_of_its_run_that_the_queue_tells() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    bring_to_gate(
        &*site,
        &submit_request(attempt_tag(1), script_program("exit 0")),
    )
    .await;
    let ready = fs::read(attempt_file(&fixture, attempt_tag(1), "ready")).unwrap();
    let ready = parse_ready(&ready, attempt_tag(1)).unwrap();
    let version = fixture.slurm(&["squeue", "--version"]);
    let number = version.trim().rsplit(' ').next().unwrap();
    let tells_runs = number >= "26.05";
    assert_eq!(ready.run.is_some(), tells_runs, "{version}");
    if let Some(run) = &ready.run {
        let told = fixture.slurm(&["squeue", "-h", "-o", "%i,%s %Z"]);
        let line = format!(
            "{},{run} {}",
            ready.job.as_deref().unwrap(),
            fixture.root().display()
        );
        assert!(told.lines().any(|told| told == line), "{line}: {told}");
    }
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
}

/// As a plugin of Slurm does that adds to the comments of jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_was_renamed_in_the_queue_waits_there_and_can_be_ended() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    fill(&*site, attempt_tag(1)).await;
    for (tag, is_ended) in [(attempt_tag(2), false), (attempt_tag(3), true)] {
        let order = submit_request(tag, script_program("sleep 300"));
        let number = site.queue().submit(&order).await.unwrap().lrm_id;
        rename(&fixture, number.as_str());
        // Its report on it is no older.
        let other = fixture.reopened();
        let seen = other.queue().status(&[tag]).await.unwrap();
        assert!(
            matches!(seen.attempts[&tag], AttemptObservation::Queued(_)),
            "{seen:?}"
        );
        if is_ended {
            site.queue().cancel(tag, None).await.unwrap();
            await_that("it leaves the queue", || {
                let queue = fixture.slurm(&["squeue", "-h", "-o", "%i"]);
                !queue.lines().any(|line| line == number.as_str())
            })
            .await;
        }
    }
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    await_observation(&*site, attempt_tag(2), |seen| {
        matches!(seen, AttemptObservation::Ready(_))
    })
    .await;
    site.gate()
        .decide_gate(attempt_tag(2), &go_decision())
        .await
        .unwrap();
    await_begun(&*site, attempt_tag(2)).await;
    let removed = site.queue().remove_attempt(attempt_tag(2)).await;
    assert!(
        matches!(removed, Err(SiteError::Refused(_))),
        "it runs: {removed:?}"
    );
    site.queue().cancel(attempt_tag(2), None).await.unwrap();
    let last = await_last(&*site, attempt_tag(2)).await;
    assert_eq!(exit_of(&last), Some(&ExitCause::Terminated), "{last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_answer_of_the_queue_is_no_end_of_what_goes_on() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let shims = Shims::new(&fixture);
    let site = shims.site(&fixture);
    let order = submit_request(attempt_tag(1), script_program("sleep 45; exit 3"));
    start_attempt(&*site, &order).await;
    await_begun(&*site, attempt_tag(1)).await;
    shims.empty_queue();
    let last = await_last(&*site, attempt_tag(1)).await;
    assert_eq!(exit_of(&last), Some(&ExitCause::Code(3)), "{last:?}");
}

/// As a node does that hears from its controller of no such job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_whose_wrapper_is_killed_right_after_its_end_has_ended_as_it_did() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let shims = Shims::new(&fixture);
    let site = shims.site(&fixture);
    for (number, code) in [(1, 0), (2, 3)] {
        let tag = attempt_tag(number);
        let text = format!("until [ -e stop ]; do sleep 0.1; done; exit {code}");
        start_attempt(&*site, &submit_request(tag, script_program(&text))).await;
        await_begun(&*site, tag).await;
        fs::write(attempt_file(&fixture, tag, "work/stop"), "").unwrap();
        let ended = attempt_file(&fixture, tag, "ended");
        await_that("its payload has ended", || ended.exists()).await;
        fixture.lose(tag);
        assert!(!attempt_file(&fixture, tag, "exit").exists(), "too late");
    }
    shims.empty_queue();
    for (number, code) in [(1, 0), (2, 3)] {
        let last = await_last(&*site, attempt_tag(number)).await;
        assert_eq!(exit_of(&last), Some(&ExitCause::Code(code)), "{last:?}");
    }
}

/// Slurm says nothing of it any more when it is asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_that_was_killed_while_nobody_looked_has_the_end_that_its_files_tell() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let shims = Shims::new(&fixture);
    let tag = attempt_tag(1);
    let order = submit_request(tag, script_program("kill -KILL $$"));
    start_attempt(&*fixture.site(), &order).await;
    let exit = attempt_file(&fixture, tag, "exit");
    await_that("it is over", || exit.exists()).await;
    shims.empty_queue();
    let last = await_last(&*shims.site(&fixture), tag).await;
    assert_eq!(exit_of(&last), Some(&ExitCause::Signal(9)), "{last:?}");
}

/// Whether its answer was lost, only the queue knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_was_taken_and_answered_by_a_failure_is_looked_for() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let shims = Shims::new(&fixture);
    let site = shims.site(&fixture);
    for (job, said) in (1..).zip([
        "Message receive failure",
        "Socket timed out on send/recv operation",
        "Unable to contact slurm controller (receive failure)",
    ]) {
        shims.put(
            "sbatch",
            &format!(
                "/usr/bin/sbatch \"$@\" > /dev/null
                 echo 'sbatch: error: Batch job submission failed: {said}' >&2; exit 1"
            ),
        );
        let order = submit_request(attempt_tag(job), script_program("exit 3"));
        let answer = site.queue().submit(&order).await;
        assert!(
            matches!(answer, Err(SiteError::OutcomeUnknown(_))),
            "{said}: {answer:?}"
        );
        let found = site.queue().find_by_tag(attempt_tag(job)).await.unwrap();
        assert_eq!(found.found.len(), 1, "{said}");
        await_observation(&*site, attempt_tag(job), |seen| {
            matches!(seen, AttemptObservation::Ready(_))
        })
        .await;
        site.gate()
            .decide_gate(attempt_tag(job), &go_decision())
            .await
            .unwrap();
        let last = await_last(&*site, attempt_tag(job)).await;
        assert_eq!(
            exit_of(&last),
            Some(&ExitCause::Code(3)),
            "{said}: {last:?}"
        );
    }
}
