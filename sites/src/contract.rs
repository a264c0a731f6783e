//! The tests that every site adapter must pass, over a [`SiteFixture`]. An adapter calls
//! [`site_contract!`](crate::site_contract) in its tests.
//!
//! No test waits for a fixed time: conditions are awaited with a generous deadline, so
//! that slow sites pass too.

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_imports,
    reason = "these are tests"
)]

mod ends;
mod gate;
mod lookups;
mod running;
mod waiting;

pub use ends::*;
pub use gate::*;
pub use lookups::*;
pub use running::*;
pub use waiting::*;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::content::Content;
use cospan_domain::ids::{
    Attempt, AttemptTag, ComponentIndex, Digest, Epoch, HostName, InstanceId, JobId, RelPath,
    Round, SiteName,
};
use cospan_domain::job::spec::{ExecutableSource, Program};
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, DurationMs, DurationUs, Timestamp};

use crate::port::{
    AttemptObservation, AttemptSubmitRequest, ExitCause, GateDecision, GateState, GoDecision,
    PayloadStream, ReadableFile, RoundPeer, Site, SiteError,
};
use crate::wrapper::state_files;

/// A site made for one test, with nothing on it.
pub trait SiteFixture: Send + Sync {
    /// The site, through one adapter.
    fn site(&self) -> Arc<dyn Site>;

    /// The same site through another adapter, as after a restart of the control plane.
    fn reopened(&self) -> Arc<dyn Site>;

    /// Makes the site unreachable.
    fn take_away(&self);

    /// Makes it reachable again, as it was.
    fn bring_back(&self);

    /// Ends all processes of an attempt that runs, so that it records no end.
    fn lose(&self, tag: AttemptTag);

    /// Puts a user's file at the site.
    fn put_user_file(&self, path: &RelPath, bytes: &[u8]);

    /// A host that answers, and the round trip to it.
    fn near(&self) -> (HostName, DurationUs);

    /// A host that does not answer.
    fn mute(&self) -> HostName;
}

/// The longest that a condition may take to come true.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The tag of the attempt that a test works with.
pub fn attempt_tag(job: u64) -> AttemptTag {
    AttemptTag {
        instance: InstanceId::from_random(0x5eed),
        job: JobId(job),
        component: ComponentIndex(0),
        attempt: Attempt(1),
    }
}

/// A program found at the site.
pub fn program(executable: &str, arguments: &[&str]) -> Program {
    Program {
        executable: ExecutableSource::AtSite(executable.into()),
        arguments: arguments.iter().map(|a| (*a).into()).collect(),
        environment: std::collections::BTreeMap::new(),
        directory: None,
        setup: Vec::new(),
    }
}

/// A shell script as a program.
pub fn script_program(text: &str) -> Program {
    program("/bin/sh", &["-c", text])
}

/// Makes a request for one processor with ordinary limits.
pub fn submit_request(tag: AttemptTag, program: Program) -> AttemptSubmitRequest {
    AttemptSubmitRequest::with_one_processor(tag, program, DurationMs::from_secs(600))
}

/// Makes the decision to open the gate.
pub fn go_decision() -> GateDecision {
    GateDecision::Go(GoDecision {
        round: Round(7),
        epoch: Epoch(3),
        start_at: Timestamp(0),
        start_by: Timestamp(u64::MAX),
        rank: ComponentIndex(1),
        peers: vec![
            make_peer(Attempt(4), "node-a"),
            make_peer(Attempt(5), "node-b"),
        ],
    })
}

fn make_peer(attempt: Attempt, host: &str) -> RoundPeer {
    RoundPeer {
        attempt,
        site: SiteName::new("elsewhere").unwrap(),
        host: host.to_owned(),
        processors: 2,
    }
}

/// Polls until the observation is as awaited.
pub async fn await_observation(
    site: &dyn Site,
    tag: AttemptTag,
    awaited: impl Fn(&AttemptObservation) -> bool,
) -> AttemptObservation {
    let started = Instant::now();
    loop {
        let status = site.queue().status(&[tag]).await.unwrap();
        let seen = &status.attempts[&tag];
        if awaited(seen) {
            return seen.clone();
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{tag} is {seen:?} for too long"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Submits an attempt and waits until it is at its gate.
pub async fn bring_to_gate(site: &dyn Site, order: &AttemptSubmitRequest) {
    site.queue().submit(order).await.unwrap();
    await_observation(site, order.tag, |seen| {
        matches!(seen, AttemptObservation::Ready(_))
    })
    .await;
}

/// Submits and opens the gate.
pub async fn start_attempt(site: &dyn Site, order: &AttemptSubmitRequest) {
    bring_to_gate(site, order).await;
    assert_eq!(
        site.gate().decide_gate(order.tag, &go_decision()).await,
        Ok(GateState::Opened)
    );
}

/// Waits for the end.
pub async fn await_exit(site: &dyn Site, tag: AttemptTag) -> ExitCause {
    match await_observation(site, tag, |seen| {
        matches!(seen, AttemptObservation::Exited(_))
    })
    .await
    {
        AttemptObservation::Exited(exit) => exit.cause,
        other => panic!("{other:?}"),
    }
}

/// Runs a program from submission to its end.
pub async fn run_to_end(site: &dyn Site, order: &AttemptSubmitRequest) -> ExitCause {
    start_attempt(site, order).await;
    await_exit(site, order.tag).await
}

/// Returns what a payload printed; nothing if it has not begun.
pub async fn read_stdout(site: &dyn Site, tag: AttemptTag) -> String {
    match site
        .files()
        .read(
            &ReadableFile::Log(tag, PayloadStream::Stdout),
            Bytes(0),
            60_000,
        )
        .await
    {
        Ok(piece) => String::from_utf8(piece.bytes).unwrap(),
        Err(SiteError::Refused(_)) => String::new(),
        Err(error) => panic!("{error}"),
    }
}

/// Waits until the output of a payload contains this text.
pub async fn await_printed(site: &dyn Site, tag: AttemptTag, awaited: &str) {
    let started = Instant::now();
    while !read_stdout(site, tag).await.contains(awaited) {
        assert!(started.elapsed() < PATIENCE, "{awaited:?} is not printed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until this many processors are idle.
pub async fn await_idle(site: &dyn Site, processors: u32) {
    let started = Instant::now();
    loop {
        let idle = site.queue().status(&[]).await.unwrap().idle.processors;
        if idle == processors {
            return;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{idle} processors are idle, not {processors}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Kills the wrapper and the payload of an attempt that runs on this machine, below this directory.
pub fn kill_attempt_processes(root: &Path, tag: AttemptTag) {
    let directory = root.join(format!("attempts/{tag}"));
    let ready = std::fs::read(directory.join("ready")).unwrap();
    let wrapper = state_files::parse_ready(&ready, tag).unwrap().wrapper.pid;
    let begun = std::fs::read(directory.join("begun")).unwrap();
    let payload = state_files::parse_begun(&begun, tag).unwrap().pid;
    // The payload leads its own group, unless it has only just begun.
    let all = [
        wrapper.to_string(),
        payload.to_string(),
        format!("-{payload}"),
    ];
    Command::new("kill")
        .args(["-KILL", "--"])
        .args(all)
        .status()
        .unwrap();
}

fn content_of(bytes: &[u8]) -> Content {
    Content {
        digest: Digest(*blake3::hash(bytes).as_bytes()),
        size: Bytes(bytes.len() as u64),
    }
}

/// Makes one test of each rule, each on a new fixture: `site_contract!(|| MyFixture::new())`. If a
/// fixture needs what may be missing, `site_contract!(perhaps || ...)` takes a closure that returns
/// an `Option`, and prints itself why there is none.
#[macro_export]
macro_rules! site_contract {
    (perhaps $fixture:expr) => {
        $crate::site_contract! { @all $fixture }
    };
    ($fixture:expr) => {
        $crate::site_contract! { @all || Some(($fixture)()) }
    };
    (@all $fixture:expr) => {
        $crate::site_contract! { @each $fixture;
            an_unknown_tag_is_absent
            a_payload_runs_through_the_gate_and_its_exit_is_seen
            an_exit_code_is_seen_as_it_was
            a_payload_killed_from_outside_is_seen_with_its_signal
            a_program_that_is_not_there_is_the_jobs_own_error
            a_program_that_is_not_executable_is_the_jobs_own_error
            arguments_and_variables_arrive_byte_for_byte
            setup_lines_share_the_environment_of_the_program
            a_payload_starts_in_its_directory
            a_payload_is_told_about_its_round
            inputs_and_staged_executables_are_in_place
            a_program_that_was_uploaded_runs
            go_without_a_directory_is_refused
            nothing_runs_before_the_gate_opens
            void_without_a_directory_keeps_a_late_wrapper_out
            the_first_decision_stands
            a_wrapper_that_is_held_too_long_closes_the_gate_itself
            a_repeated_submission_starts_no_second_payload
            a_repeated_submission_of_an_ended_attempt_starts_nothing
            a_full_site_says_so_and_has_room_again_afterwards
            what_exceeds_the_whole_site_is_refused
            the_wall_time_ends_a_payload
            cancelling_at_the_gate_voids_the_attempt
            cancelling_a_payload_ends_it_and_may_be_repeated
            a_payload_that_ignores_term_is_killed
            cancelling_an_unknown_attempt_keeps_it_from_ever_running
            only_ended_attempts_are_removed
            what_left_something_is_listed
            a_submission_is_found_by_its_tag
            only_what_waits_in_the_queue_is_withdrawn
            another_adapter_takes_up_what_waits_at_the_gate
            another_adapter_takes_up_what_runs
            another_adapter_ends_what_runs
            the_way_to_a_host_is_measured_or_unknown
            an_unreachable_site_is_no_information
            what_waits_in_the_queue_starts_when_its_turn_comes
            what_is_cancelled_while_it_waits_never_starts
            what_vanishes_is_over_and_no_success
            what_was_out_of_sight_comes_back_as_it_was
        }
    };
    (@each $fixture:expr; $($name:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let Some(fixture) = ($fixture)() else { return };
                $crate::contract::$name(&fixture).await;
            }
        )+
    };
}
