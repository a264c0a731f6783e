//! Crashes and panics at every step of the protocol, generated from the effects.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cospan_actors::supervision::ActorKind;
use cospan_domain::job::job_due::JobEffectKind;
use cospan_domain::transfer::copy_due::CopyEffect;

use crate::api::Api;
use crate::evidence::ForeignAttempt;
use crate::kills::register_shared;
use crate::load::{ClientCrowd, ClientPromises};
use crate::oracle::OracleVerdict;
use crate::server::{Chaos, ServerProcess};
use crate::settle;
use crate::shared_points;
use crate::stimulus::{self, Stimulus};
use crate::test_environment::{Layout, TestEnvironment};
use crate::workload::DrawnWorkload;

/// Least number of jobs in flight when a panic is injected.
const LOAD: usize = 50;

/// Jobs in flight around a crash, which happens at the first passage.
const BESIDE_A_CRASH: usize = 8;

/// Deaths of an essential actor within a minute, of which the last ends the process.
const DEATHS_MAX: u64 = 5;

/// Number of panics in one server.
const PANICS_IN_A_LIFE: usize = 3;

/// Number of crashes of one data directory, one after the other.
const CRASHES_IN_A_LIFE: usize = 5;

/// Points around an effect.
pub(crate) const AROUND: [&str; 4] = [
    "before-journal",
    "after-journal",
    "before-effect",
    "after-effect",
];

/// A step at which the server is to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strike {
    /// `crash` or `panic`.
    pub kind: &'static str,
    pub point: &'static str,
    /// May be empty.
    pub effect: &'static str,
    /// Number of the passage at which it fails.
    pub passage: u64,
    /// Passages with fewer jobs in flight do not count.
    pub load: usize,
    /// Number of passages at which it fails, one after the other.
    pub times: u64,
}

impl Strike {
    pub fn full_name(&self) -> String {
        let name = self.plan_at(self.passage);
        if self.times == 1 {
            name
        } else {
            format!("{name} and {} more", self.times - 1)
        }
    }

    fn plan_at(&self, passage: u64) -> String {
        let Self {
            kind,
            point,
            effect,
            load,
            ..
        } = self;
        format!("{kind}:{point}:{effect}:{passage}:{load}")
    }

    pub(crate) fn plan(&self) -> String {
        let mut strikes: Vec<String> = (self.passage..self.passage + self.times)
            .map(|passage| self.plan_at(passage))
            .collect();
        match self.effect {
            // A submission is looked up after its job's actor was rebuilt; if it is cancelled
            // meanwhile, only its end is.
            "LookUp" => {
                let passages = (0..10).map(|number| 1 + 5 * number);
                strikes.extend(passages.map(|at| format!("panic:before-effect:Submit:{at}")));
            }
            // Cancellations that came in by then are processed as soon as the submission is
            // recorded as intended, and before it is made.
            "Withdraw" => strikes.push("stall:before-journal:Submit:1".into()),
            _ => {}
        }
        strikes.join(",")
    }

    /// Returns the exit code that the server must end with; `None` if it must live on.
    fn expected_exit(&self) -> Option<i32> {
        match (self.kind, self.effect) {
            ("crash", _) => Some(ABORTED),
            ("panic", "journal") => Some(EXIT_FATAL),
            _ if self.times == DEATHS_MAX => Some(EXIT_FATAL),
            _ => None,
        }
    }

    /// Returns true if it shares its life with no other: a panic that ends its server, slow links,
    /// or a scene of its own.
    fn is_alone(&self) -> bool {
        self.kind == "panic" && self.expected_exit().is_some()
            || self.stimulus() == Stimulus::CancelEarly
            || shared_points::is_shared_strike(self)
    }

    fn stimulus(&self) -> Stimulus {
        match self.effect {
            "RecordCharge" | "Site" => Stimulus::KillAttempts,
            "DiscardPartial" => Stimulus::KillAgents,
            "StopCopy" => Stimulus::CancelEarly,
            "Withdraw" => Stimulus::Storm,
            _ => Stimulus::Load,
        }
    }
}

/// Lists the effects of jobs and copies at sites. The crowd's jobs ask for no reservations;
/// `tests/start` kills a server that has some.
fn effect_names() -> impl Iterator<Item = &'static str> {
    let of_jobs = JobEffectKind::NAMES
        .into_iter()
        .filter(|name| *name != "Reserve");
    of_jobs.chain(CopyEffect::NAMES)
}

/// Lists crashes at every point.
pub fn list_crashes() -> Vec<Strike> {
    let mut strikes: Vec<Strike> = effect_names()
        .flat_map(|effect| AROUND.map(|point| crash_at(point, effect)))
        .collect();
    strikes.extend(AROUND[2..].iter().map(|point| crash_at(point, "PlaceJob")));
    strikes.extend(AROUND[..2].iter().map(|point| crash_at(point, "Site")));
    strikes.extend(AROUND[..2].iter().map(|point| crash_at(point, "File")));
    strikes.push(crash_at("before-answer", "File"));
    strikes.push(crash_at("before-answer", ""));
    strikes
}

fn crash_at(point: &'static str, effect: &'static str) -> Strike {
    Strike {
        kind: "crash",
        point,
        effect,
        passage: 1,
        load: 0,
        times: 1,
    }
}

/// Lists panics with many jobs in flight: in the handlers of every kind of actor, and at the steps
/// of the protocol.
pub fn list_panics() -> Vec<Strike> {
    // A claim timer gets messages only from its own clock.
    let kinds = ActorKind::ALL
        .into_iter()
        .filter(|kind| *kind != ActorKind::ClaimTimer);
    let mut strikes: Vec<Strike> = kinds
        .map(|kind| panic_at("handler-entry", kind.as_str(), 1))
        .collect();
    let often = ["intake", "co-allocator"];
    strikes.extend(often.map(|kind| Strike {
        times: DEATHS_MAX,
        ..panic_at("handler-entry", kind, 1)
    }));
    strikes.extend([
        panic_at("handler-entry", "", 40),
        panic_at("handler-entry", "", 400),
        panic_at("decided", "", 40),
        panic_at("decided", "", 200),
        panic_at("after-journal", "Submit", 5),
        panic_at("after-journal", "OpenGate", 5),
        panic_at("started", "", 20),
        panic_at("spawned-future", "", 30),
        panic_at("factory", "", 25),
    ]);
    strikes
}

fn panic_at(point: &'static str, effect: &'static str, passage: u64) -> Strike {
    Strike {
        kind: "panic",
        point,
        effect,
        passage,
        load: LOAD,
        times: 1,
    }
}

/// Groups strikes into lives of a data directory. Bringing many jobs into flight takes most of a
/// panic's time, so panics that a server survives share that. Starting and settling takes most of a
/// crash's time, so crashes follow each other, each in a server of its own. A strike that needs
/// something special is alone.
pub fn group_into_lives(strikes: impl Iterator<Item = Strike>) -> Vec<Vec<Strike>> {
    let (alone, shared): (Vec<Strike>, Vec<Strike>) = strikes.partition(Strike::is_alone);
    let (crashes, panics): (Vec<Strike>, Vec<Strike>) = shared
        .into_iter()
        .partition(|strike| strike.kind == "crash");
    let mut lives = deal_into_lives(crashes, CRASHES_IN_A_LIFE);
    lives.extend(deal_into_lives(panics, PANICS_IN_A_LIFE));
    lives.extend(alone.into_iter().map(|strike| vec![strike]));
    lives
}

/// Deals strikes into as few lives as possible. Neighbours in the list strike at the same kind of
/// point, and go into different lives.
fn deal_into_lives(strikes: Vec<Strike>, most: usize) -> Vec<Vec<Strike>> {
    let count = strikes.len().div_ceil(most);
    let mut lives: Vec<Vec<Strike>> = vec![Vec::new(); count];
    for (number, strike) in strikes.into_iter().enumerate() {
        lives[number % count].push(strike);
    }
    lives
}

/// The outcome of the strikes of one life.
#[derive(Debug)]
pub struct StruckPoint {
    pub name: String,
    /// True if each point was reached, and the server failed as planned.
    pub reached: bool,
    /// Jobs in flight at the panics, as the server counted them: the fewest.
    pub in_flight: Option<usize>,
    /// Set if it ended in a way that is not allowed.
    pub wrong_end: Option<String>,
    /// The oracle's verdict.
    pub verdict: OracleVerdict,
    pub took: Duration,
    /// The directory, which is kept if something was wrong.
    pub directory: PathBuf,
}

impl StruckPoint {
    /// Returns true if it shows what it was to show.
    pub fn is_good(&self) -> bool {
        let is_loaded = self.in_flight.is_none_or(|jobs| jobs >= LOAD);
        self.reached && is_loaded && self.wrong_end.is_none() && self.verdict.violations.is_empty()
    }

    /// Formats the outcome for people.
    pub fn report(&self) -> String {
        let mut text = format!(
            "{} {:<44} {:>5.1} s, {} payloads",
            if self.is_good() { "ok  " } else { "FAIL" },
            self.name,
            self.took.as_secs_f64(),
            self.verdict.payloads
        );
        if let Some(jobs) = self.in_flight {
            text += &format!(", struck with {jobs} jobs in flight");
        }
        if !self.reached {
            text += "\n  never reached";
        }
        if let Some(wrong) = &self.wrong_end {
            text += &format!("\n  {wrong}");
        }
        for violation in &self.verdict.violations {
            text += &format!("\n  BROKEN {violation}");
        }
        if !self.is_good() {
            text += &format!("\n  see {}", self.directory.display());
        }
        text
    }
}

/// Checks that a binary is a chaos build, says so, and does not serve by mistake.
///
/// # Errors
/// It is an ordinary build, or hides what it is.
pub fn check_build(binary: &Path) -> Result<()> {
    let version = Command::new(binary).arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    ensure!(
        version.contains("PLANTED FAULTS"),
        "{} is no chaos build; build it with RUSTFLAGS=\"--cfg cospan_chaos\" in a target \
         directory of its own. It says: {version}",
        binary.display()
    );
    let mut serve = Command::new(binary);
    let output = serve
        .arg("serve")
        .env_clear()
        .env("HOME", "/nonexistent")
        .output()?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        !output.status.success() && complaint.contains("--allow-chaos"),
        "a chaos build serves without being allowed to: {complaint}"
    );
    Ok(())
}

/// Returns the name of the strikes of one life.
pub fn life_name(life: &[Strike]) -> String {
    life.iter()
        .map(Strike::full_name)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Fails one server as planned, in an environment of its own.
///
/// # Errors
/// The harness cannot work.
pub fn fail_server(binary: &Path, base: &Path, life: &[Strike], seed: u64) -> Result<StruckPoint> {
    if let [what] = life
        && shared_points::is_shared_strike(what)
    {
        return shared_points::fail_server(binary, base, what);
    }
    let begun = Instant::now();
    // A copy is stopped only some time after nobody needs it, so it must take long.
    let stopping = life
        .iter()
        .any(|what| what.stimulus() == Stimulus::CancelEarly);
    let layout = Layout {
        sites: 3,
        processors: 8,
        bandwidth: if stopping { "1Mbit/s" } else { "8Mbit/s" }.into(),
        watching: format!(
            "{}site_error_threshold = 1000\n",
            Layout::default().watching
        ),
        ..Layout::default()
    };
    let mut environment = TestEnvironment::new(base, &layout)?;
    let mut server = ServerProcess::new(binary, &environment);
    let struck = fail_and_judge(&environment, &mut server, life, seed, begun);
    server.kill()?;
    if !struck.as_ref().is_ok_and(StruckPoint::is_good) {
        environment.keep();
    }
    struck.with_context(|| format!("{}: see {}", life_name(life), environment.path().display()))
}

fn fail_and_judge(
    environment: &TestEnvironment,
    server: &mut ServerProcess,
    life: &[Strike],
    seed: u64,
    begun: Instant,
) -> Result<StruckPoint> {
    /// Long enough on a machine with much else to do.
    const SETTLE_MAX: Duration = Duration::from_secs(240);
    // Some jobs end while others are on their way in.
    let is_loaded = life.iter().any(|what| what.load > 0);
    let depth = if is_loaded {
        LOAD + LOAD / 4
    } else {
        BESIDE_A_CRASH
    };
    let quiet = Chaos {
        plan: String::new(),
        coverage: environment.coverage(),
    };
    server.chaos = Some(quiet.clone());
    server.start()?;
    let api = server.api()?;
    register_shared(environment, &api)?;
    let mut foreign = vec![ForeignAttempt::plant(&environment.sites[0])?];
    server.kill()?;
    let crowd = ClientCrowd::start(
        api.clone(),
        DrawnWorkload::new(environment, "job"),
        depth,
        seed,
    );
    let (ended, came_to_all) = fail_in_turn(environment, server, &api, &crowd, life)?;
    environment.hold(false)?;
    let panics = loads_at_panics(environment);
    let in_flight = if is_loaded {
        panics.iter().min().copied()
    } else {
        None
    };
    let reached = if is_loaded {
        panics.len() >= life.len()
    } else {
        came_to_all
    };
    let right_end = life.iter().find_map(Strike::expected_exit);
    let is_wrong = ended != right_end && (reached || ended.is_some());
    let wrong_end = is_wrong.then(|| match ended {
        Some(code) => format!("the server ended with {code}"),
        None => "the server did not end".to_owned(),
    });
    if ended.is_some() {
        server.kill()?;
        server.chaos = Some(quiet);
        server.start()?;
    }
    std::thread::sleep(Duration::from_millis(500));
    let promises: ClientPromises = crowd.finish();
    let judged = settle::settle_and_judge(environment, &api, &promises, &mut foreign, SETTLE_MAX)?;
    Ok(StruckPoint {
        name: life_name(life),
        reached,
        in_flight,
        wrong_end,
        verdict: judged.0,
        took: begun.elapsed(),
        directory: environment.path().into(),
    })
}

/// Injects panics together, crashes one after the other. Returns how the server ended, if it did,
/// and true if it crashed each time.
fn fail_in_turn(
    environment: &TestEnvironment,
    server: &mut ServerProcess,
    api: &Api,
    crowd: &ClientCrowd,
    life: &[Strike],
) -> Result<(Option<i32>, bool)> {
    let together = if life.iter().any(|what| what.kind == "panic") {
        life.len()
    } else {
        1
    };
    let mut ended = None;
    for strikes in life.chunks(together) {
        let plans: Vec<String> = strikes.iter().map(Strike::plan).collect();
        server.kill()?;
        server.chaos = Some(Chaos {
            plan: plans.join(","),
            coverage: environment.coverage(),
        });
        server.spawn()?;
        ended = await_failure(environment, server, api, crowd, strikes)?;
        if ended != Some(ABORTED) {
            return Ok((ended, false));
        }
    }
    Ok((ended, true))
}

/// Exit codes; signals are 128 and more.
pub(crate) const ABORTED: i32 = 128 + 6;
const EXIT_FATAL: i32 = 70;

/// Loads the server until it has failed as planned, or long enough. Returns how it ended, if it
/// did.
fn await_failure(
    environment: &TestEnvironment,
    server: &mut ServerProcess,
    api: &Api,
    crowd: &ClientCrowd,
    life: &[Strike],
) -> Result<Option<i32>> {
    use std::os::unix::process::ExitStatusExt;
    const REACH_MAX: Duration = Duration::from_secs(300);
    /// Wait after a panic: long enough for it to end the process, if it does.
    const SURVIVAL: Duration = Duration::from_secs(2);
    /// Wait after several: an actor that died is built anew after a while.
    const SURVIVAL_OF_MANY: Duration = Duration::from_secs(180);
    let is_once = life.iter().all(|what| what.times == 1);
    let survival = if is_once { SURVIVAL } else { SURVIVAL_OF_MANY };
    let is_loaded = life.iter().any(|what| what.load > 0);
    let begun = Instant::now();
    let mut panicked = None::<Instant>;
    let mut turn = 0;
    while begun.elapsed() < REACH_MAX {
        if let Some(status) = server.exit_status()? {
            return Ok(status.code().or(status.signal().map(|signal| 128 + signal)));
        }
        if is_loaded && panicked.is_none() && loads_at_panics(environment).len() >= life.len() {
            panicked = Some(Instant::now());
        }
        if panicked.is_some_and(|at| at.elapsed() > survival) {
            return Ok(None);
        }
        // The harness's questions are extra work for the server: it asks no more than it needs.
        let newest = if is_loaded { 200 } else { 50 };
        if turn % 10 == 0
            && let Ok(rows) = api.newest(newest)
        {
            crowd.record_final_jobs(&rows);
            // On a busy machine, payloads end faster than clients submit.
            let is_short = is_loaded && panicked.is_none() && crowd.open() < LOAD + LOAD / 8;
            environment.hold(is_short)?;
        }
        turn += 1;
        for what in life {
            stimulus::apply_stimulus(environment, api, what.stimulus(), turn);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(None)
}

/// Lists the jobs in flight at each of the planted panics that happened.
fn loads_at_panics(environment: &TestEnvironment) -> Vec<usize> {
    let log = std::fs::read(environment.log()).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let told = log.split("planted panic with ").skip(1);
    told.filter_map(|told| told.split_once(" jobs in flight")?.0.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_actor_that_hears_messages_panics_under_load() {
        let panics = list_panics();
        for kind in ActorKind::ALL {
            let struck = panics.iter().any(|strike| strike.effect == kind.as_str());
            assert_eq!(struck, kind != ActorKind::ClaimTimer, "{kind:?}");
        }
        assert!(panics.iter().all(|strike| strike.load >= 50));
    }

    #[test]
    fn each_strike_is_in_one_life_with_others_of_its_kind_or_alone() {
        let all = || list_crashes().into_iter().chain(list_panics());
        let lives = group_into_lives(all());
        for strike in all() {
            let held: Vec<_> = lives.iter().filter(|life| life.contains(&strike)).collect();
            assert_eq!(held.len(), 1, "{}", strike.full_name());
            let ends_a_panic = strike.kind == "panic" && strike.expected_exit().is_some();
            assert!(
                !ends_a_panic || held[0].len() == 1,
                "{}",
                strike.full_name()
            );
            assert!(
                held[0].iter().all(|other| other.kind == strike.kind),
                "{}",
                strike.full_name()
            );
        }
        let most = lives.iter().map(Vec::len).max();
        assert_eq!(most, Some(CRASHES_IN_A_LIFE));
    }

    #[test]
    fn a_panic_among_too_few_jobs_shows_nothing() {
        let struck = |in_flight| StruckPoint {
            name: "panic".into(),
            reached: true,
            in_flight,
            wrong_end: None,
            verdict: OracleVerdict::default(),
            took: Duration::ZERO,
            directory: PathBuf::new(),
        };
        assert!(struck(Some(LOAD)).is_good() && struck(None).is_good());
        assert!(!struck(Some(LOAD - 1)).is_good());
    }

    #[test]
    fn every_effect_has_a_crash_on_each_side_of_journal_and_site() {
        let strikes = list_crashes();
        for effect in effect_names() {
            for point in AROUND {
                let found = strikes
                    .iter()
                    .filter(|s| (s.point, s.effect) == (point, effect));
                assert_eq!(found.count(), 1, "{point}:{effect}");
            }
        }
    }
}
