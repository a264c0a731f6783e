//! A root without any adapter, and wrappers started in it by hand.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cospan_domain::ids::{AttemptTag, ComponentIndex, Epoch, JobId, Round};
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::contract::{PATIENCE, attempt_tag};
use cospan_sites::port::{ExitCause, GateState, GoDecision};
use cospan_sites::wrapper::SCRIPT;
use cospan_sites::wrapper::attempt_words::AttemptAuthenticator;
use cospan_sites::wrapper::parameters::{self, WrapperTimings, encode_go, encode_void};
use cospan_sites::wrapper::state_files;
use rustix::process::{Pid, Signal, kill_process};

/// Shells that can run the wrapper, as found here; there is always `sh`.
pub fn shells() -> Vec<Vec<String>> {
    let candidates: [&[&str]; 4] = [&["sh"], &["dash"], &["busybox", "sh"], &["bash", "--posix"]];
    let found = candidates.into_iter().filter(|command: &&[&str]| {
        let tried = Command::new(command[0])
            .args(&command[1..])
            .args(["-c", "exit 7"])
            .output();
        tried.is_ok_and(|output| output.status.code() == Some(7))
    });
    found
        .map(|command| command.iter().map(|word| (*word).to_owned()).collect())
        .collect()
}

/// Runs a test once for each shell.
pub fn with_each_shell(test: impl Fn(&Bench)) {
    for shell in shells() {
        println!("with {shell:?}");
        test(&Bench::new(shell));
    }
}

pub struct Bench {
    place: tempfile::TempDir,
    shell: Vec<String>,
    pub pace: WrapperTimings,
    pub tag: AttemptTag,
}

impl Bench {
    pub fn new(shell: Vec<String>) -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")), shell)
    }

    /// Where nobody may make files, too.
    pub fn anywhere(shell: Vec<String>) -> Self {
        Self::within(&std::env::temp_dir(), shell)
    }

    fn within(directory: &Path, shell: Vec<String>) -> Self {
        let place = tempfile::tempdir_in(directory).unwrap();
        fs::write(place.path().join("wrapper.sh"), SCRIPT).unwrap();
        fs::create_dir(place.path().join("attempts")).unwrap();
        fs::create_dir(place.path().join("spool")).unwrap();
        let pace = WrapperTimings {
            hold_max: DurationMs::from_secs(300),
            wall_time: DurationMs::from_secs(300),
            grace: DurationMs::from_secs(1),
            poll: DurationMs::from_secs(1),
            seldom: None,
            warning: None,
        };
        Self {
            place,
            shell,
            pace,
            tag: our_tag(),
        }
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.place
            .path()
            .join("attempts")
            .join(self.tag.to_string())
            .join(file)
    }

    pub fn spool(&self) -> PathBuf {
        self.place.path().join("spool").join(self.tag.to_string())
    }

    pub fn prepare(&self, command: &parameters::PayloadCommand) {
        fs::create_dir_all(self.spool()).unwrap();
        fs::write(
            self.spool().join("params"),
            command.encode_parameters(self.tag, &self.pace, &seal()),
        )
        .unwrap();
    }

    /// Starts a wrapper; its own messages go nowhere.
    pub fn spawn(&self) -> Wrapper {
        self.spawn_with(&[], Stdio::null())
    }

    /// The same with more arguments and with this as its standard input.
    pub fn spawn_with(&self, more: &[&str], input: impl Into<Stdio>) -> Wrapper {
        // Tests in the background of a script inherit INT as ignored, and no shell may trap that.
        let child = Command::new("env")
            .arg("--default-signal=INT")
            .args(&self.shell)
            .arg(self.place.path().join("wrapper.sh"))
            .arg(self.place.path())
            .arg(self.tag.to_string())
            .args(more)
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Wrapper { child }
    }

    /// Starts a wrapper with this command and waits until it is at the gate.
    pub fn at_gate(&self, command: &parameters::PayloadCommand) -> Wrapper {
        self.at_gate_with(&[], command)
    }

    /// The same with more arguments.
    pub fn at_gate_with(&self, more: &[&str], command: &parameters::PayloadCommand) -> Wrapper {
        self.prepare(command);
        let wrapper = self.spawn_with(more, Stdio::null());
        self.await_file("ready", |bytes| {
            state_files::parse_ready(bytes, self.tag).is_some()
        });
        wrapper
    }

    /// Links a decision unless there is one; what it is then.
    pub fn decide(&self, decision: GateState) -> GateState {
        self.decide_as(decision, &go())
    }

    /// The same; what the payload is told if it is let in.
    pub fn decide_as(&self, decision: GateState, go: &GoDecision) -> GateState {
        let bytes = match decision {
            GateState::Opened => encode_go(self.tag, go, Timestamp(0), None),
            GateState::Voided => encode_void(self.tag, &seal()),
        };
        self.decide_with(&bytes)
    }

    /// The same with these bytes.
    pub fn decide_with(&self, bytes: &[u8]) -> GateState {
        fs::write(self.path("adapter.tmp"), bytes).unwrap();
        let _ = fs::hard_link(self.path("adapter.tmp"), self.path("decision"));
        state_files::parse_decision(&fs::read(self.path("decision")).unwrap(), self.tag, &seal())
            .unwrap()
    }

    /// Lets it in if it begins until then, by the clock of [`uptime`].
    pub fn open_until(&self, start_by: u64) {
        let bytes = encode_go(self.tag, &go(), Timestamp(0), Some(start_by));
        fs::write(self.path("adapter.tmp"), bytes).unwrap();
        fs::hard_link(self.path("adapter.tmp"), self.path("decision")).unwrap();
    }

    /// Lets it in at once.
    pub fn running(&self, command: &parameters::PayloadCommand) -> Wrapper {
        let wrapper = self.at_gate(command);
        assert_eq!(self.decide(GateState::Opened), GateState::Opened);
        wrapper.signal(Signal::USR2);
        wrapper
    }

    /// Waits until a file is as awaited.
    pub fn await_file(&self, file: &str, awaited: impl Fn(&[u8]) -> bool) {
        let started = Instant::now();
        while !fs::read(self.path(file)).is_ok_and(|bytes| awaited(&bytes)) {
            assert!(started.elapsed() < PATIENCE, "{file} is not as awaited");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn await_printed(&self, text: &str) {
        let text = text.as_bytes();
        self.await_file("stdout", |bytes| {
            bytes.windows(text.len()).any(|part| part == text)
        });
    }

    pub fn exit(&self) -> Option<ExitCause> {
        state_files::parse_exit(&fs::read(self.path("exit")).ok()?, self.tag, &seal())
    }

    /// Its number, once it has begun.
    pub fn payload(&self) -> u32 {
        state_files::parse_begun(&fs::read(self.path("begun")).unwrap(), self.tag)
            .unwrap()
            .pid
    }

    /// How long the payload ran, by the wrapper's clock.
    pub fn ran_hundredths(&self) -> u64 {
        let exit = std::fs::read_to_string(self.path("exit")).unwrap();
        exit.lines()
            .find_map(|line| line.strip_prefix("ran "))
            .unwrap()
            .parse()
            .unwrap()
    }

    pub fn printed(&self) -> Vec<u8> {
        fs::read(self.path("stdout")).unwrap_or_default()
    }

    /// Forgets the attempt, for the next round of a test.
    pub fn clear(&self) {
        fs::remove_dir_all(self.path("")).unwrap();
        fs::remove_dir_all(self.spool()).unwrap();
    }
}

/// A wrapper under test; killed with what it started if the test fails.
pub struct Wrapper {
    child: Child,
}

impl Wrapper {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Wrapper {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

pub fn command(executable: &str, arguments: &[&[u8]]) -> parameters::PayloadCommand {
    parameters::PayloadCommand {
        executable: executable.into(),
        arguments: arguments.iter().map(|a| a.to_vec()).collect(),
        environment: Vec::new(),
        directory: None,
        setup: Vec::new(),
        earlier: None,
        lists_hosts: false,
    }
}

pub fn script(text: &str) -> parameters::PayloadCommand {
    command("/bin/sh", &[b"-c", text.as_bytes()])
}

pub fn go() -> GoDecision {
    GoDecision {
        round: Round(1),
        epoch: Epoch(1),
        start_at: Timestamp(0),
        start_by: Timestamp(u64::MAX),
        rank: ComponentIndex(0),
        peers: Vec::new(),
    }
}

/// By which wrappers here write their ends.
pub fn seal() -> AttemptAuthenticator {
    AttemptAuthenticator::new([3; 32], JobId(0))
}

/// Hundredths of a second since this machine started.
pub fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ')
        .next()
        .unwrap()
        .replace('.', "")
        .parse()
        .unwrap()
}

/// Names below a directory, for seeing that nothing was touched.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The tag that all wrappers here work under.
pub fn our_tag() -> AttemptTag {
    attempt_tag(1)
}
