//! Measures the cost of the wrapper: a bare program, the same through wrapper and gate, and how
//! many can be run per second. The gate is opened as soon as `ready` appears, without any control
//! plane: the floor of whatever runs attempts here.

use std::error::Error;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, Epoch, InstanceId, JobId, Round};
use cospan_domain::units::{DurationMs, Timestamp};
use rustix::process::{Pid, Signal, kill_process};

use super::SCRIPT;
use super::attempt_words::AttemptAuthenticator;
use super::parameters::{self, WrapperTimings, encode_go};
use super::state_files;
use crate::port::{ExitCause, GoDecision};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The pause between two looks for `ready`.
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// The figures that were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct WrapperCost {
    /// Median of `/bin/true` alone, in milliseconds.
    pub bare_program_ms: f64,
    /// Runs of `/bin/true` alone, one after the other, per second.
    pub spawn_per_s: f64,
    /// Median through wrapper and gate, less the bare program, in milliseconds.
    pub wrapper_ms: f64,
    /// Wrappers per second, by how many run at once.
    pub per_s: Vec<(usize, f64)>,
}

impl WrapperCost {
    /// Returns the best rate of all.
    pub fn best_per_s(&self) -> f64 {
        self.per_s.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }
}

/// Measures each figure for `length`, below the directory `root`.
///
/// # Errors
/// Something could not be started, or a payload did not succeed.
pub fn measure_cost(root: &Path, length: Duration, shell: &str) -> Result<WrapperCost> {
    let bench = WrapperBench::new(root, shell.to_owned())?;
    let (times, spawn_per_s) = repeat_on_threads(1, length, &time_bare_program)?;
    let bare_program_ms = median_ms(times);
    let mut per_s = Vec::new();
    let mut wrapper_ms = 0.0;
    for at_once in [1, 2, 4, 8] {
        let (times, rate) = repeat_on_threads(at_once, length, &|| bench.time_wrapper())?;
        if at_once == 1 {
            wrapper_ms = median_ms(times) - bare_program_ms;
        }
        per_s.push((at_once, rate));
    }
    Ok(WrapperCost {
        bare_program_ms,
        spawn_per_s,
        wrapper_ms,
        per_s,
    })
}

struct WrapperBench {
    root: PathBuf,
    script: PathBuf,
    shell: String,
    made: AtomicU64,
}

impl WrapperBench {
    fn new(root: &Path, shell: String) -> Result<Self> {
        let script = root.join("wrapper.sh");
        fs::write(&script, SCRIPT)?;
        fs::create_dir(root.join("attempts"))?;
        fs::create_dir(root.join("spool"))?;
        Ok(Self {
            root: root.to_path_buf(),
            script,
            shell,
            made: AtomicU64::new(0),
        })
    }

    /// Prepares, spawns, opens the gate and waits; returns the time from spawn to end.
    fn time_wrapper(&self) -> Result<Duration> {
        let job = JobId(self.made.fetch_add(1, Ordering::Relaxed));
        let component = ComponentIndex(0);
        let attempt = Attempt(1);
        let tag = AttemptTag {
            instance: InstanceId::from_random(1),
            job,
            component,
            attempt,
        };
        self.write_parameter_files(tag)?;
        let directory = self.root.join("attempts").join(tag.to_string());
        let started = Instant::now();
        let mut child = Command::new(&self.shell)
            .args([&self.script, &self.root])
            .arg(tag.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        while !fs::read(directory.join("ready"))
            .is_ok_and(|b| state_files::parse_ready(&b, tag).is_some())
        {
            std::thread::sleep(LOOK_EVERY);
        }
        // An adapter does this, too; it costs next to nothing.
        fs::create_dir(directory.join("work"))?;
        fs::write(
            directory.join("go.tmp"),
            encode_go(tag, &go_decision(), Timestamp(0), None),
        )?;
        fs::hard_link(directory.join("go.tmp"), directory.join("decision"))?;
        if let Some(pid) = Pid::from_raw(child.id().try_into()?) {
            kill_process(pid, Signal::USR2)?;
        }
        child.wait()?;
        let took = started.elapsed();
        let exit = fs::read(directory.join("exit"))?;
        match state_files::parse_exit(&exit, tag, &bench_authenticator()) {
            Some(ExitCause::Code(0)) => Ok(took),
            other => Err(format!("{tag} ended as {other:?}").into()),
        }
    }

    fn write_parameter_files(&self, tag: AttemptTag) -> Result<()> {
        let spool = self.root.join("spool").join(tag.to_string());
        fs::create_dir(&spool)?;
        let command = parameters::PayloadCommand {
            executable: b"/bin/true".to_vec(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            setup: Vec::new(),
            earlier: None,
            lists_hosts: false,
        };
        let pace = WrapperTimings {
            hold_max: DurationMs::from_secs(600),
            wall_time: DurationMs::from_secs(600),
            grace: DurationMs::from_secs(5),
            poll: DurationMs::from_secs(5),
            seldom: None,
            warning: None,
        };
        Ok(fs::write(
            spool.join("params"),
            command.encode_parameters(tag, &pace, &bench_authenticator()),
        )?)
    }
}

/// Makes a seal as in production.
fn bench_authenticator() -> AttemptAuthenticator {
    AttemptAuthenticator::new([0; 32], JobId(0))
}

fn go_decision() -> GoDecision {
    GoDecision {
        round: Round(1),
        epoch: Epoch(1),
        start_at: Timestamp(0),
        start_by: Timestamp(u64::MAX),
        rank: ComponentIndex(0),
        peers: Vec::new(),
    }
}

fn time_bare_program() -> Result<Duration> {
    let started = Instant::now();
    Command::new("/bin/true")
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()?
        .wait()?;
    Ok(started.elapsed())
}

/// Runs `one` again and again on `at_once` threads; returns the times of all, and the rate.
fn repeat_on_threads(
    at_once: usize,
    length: Duration,
    one: &(impl Fn() -> Result<Duration> + Sync),
) -> Result<(Vec<Duration>, f64)> {
    let started = Instant::now();
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once)
            .map(|_| {
                scope.spawn(|| {
                    let mut times = Vec::new();
                    while started.elapsed() < length {
                        times.push(one()?);
                    }
                    Ok::<_, Box<dyn Error + Send + Sync>>(times)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked")?)
            .collect::<Result<Vec<_>>>()
    })?
    .concat();
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    Ok((times, rate))
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}
