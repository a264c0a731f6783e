//! The files that an adapter writes for the wrapper: parameters, inputs, decisions.
//!
//! A value comes after its number of lines, so that any byte but NUL arrives as it is and no
//! shell ever interprets one.

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cospan_domain::ids::{AttemptTag, Digest, RelPath};
use cospan_domain::job::spec::{ExecutableSource, Program};
use cospan_domain::units::{DurationMs, Timestamp};

use super::attempt_words::{AttemptAuthenticator, AuthenticatedWordKind};
use crate::port::{AttemptSubmitRequest, EndWarning, GoDecision};

/// The latest time that shells handle: the end of the year 9999, in ms.
const LATEST_MS: u64 = 253_402_300_799_000;

/// The times that the wrapper keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrapperTimings {
    /// The longest time at the gate, from the wrapper's own start.
    pub hold_max: DurationMs,
    /// The longest run from the opening of the gate.
    pub wall_time: DurationMs,
    /// The time from TERM to KILL.
    pub grace: DurationMs,
    /// The pause between two looks at the gate without a hint.
    pub poll: DurationMs,
    /// The pause after a long time at the gate, if it should look less often then.
    pub seldom: Option<SlowPollTiming>,
    /// The signal to the payload before its wall time ends.
    pub warning: Option<EndWarning>,
}

/// The looks of a wrapper that has waited long at its gate: each costs its site's file system
/// something, and thousands may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowPollTiming {
    /// The pause between two looks.
    pub poll: DurationMs,
    /// The time after its start from which this holds.
    pub after: DurationMs,
}

/// The command that the wrapper runs, as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadCommand {
    /// Path or name of the executable.
    pub executable: Vec<u8>,
    /// The arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Variables; the names are valid variable names.
    pub environment: Vec<(String, Vec<u8>)>,
    /// Directory below the work directory.
    pub directory: Option<RelPath>,
    /// Shell lines run before it.
    pub setup: Vec<u8>,
    /// An earlier attempt: the payload gets the path of its work directory, if that is there.
    pub earlier: Option<AttemptTag>,
    /// True if the payload finds a file that lists the hosts of all components.
    pub lists_hosts: bool,
}

impl PayloadCommand {
    /// Makes the command of a program whose executable, if staged, appears at `staged`.
    pub fn from_program(program: &Program, staged: Option<&[u8]>) -> Self {
        let executable = match (&program.executable, staged) {
            (ExecutableSource::AtSite(path), None) => path.as_bytes().to_vec(),
            (_, Some(path)) => path.to_vec(),
            (ExecutableSource::Staged(file), None) => file.name.as_str().as_bytes().to_vec(),
        };
        Self {
            executable,
            arguments: program
                .arguments
                .iter()
                .map(|a| a.as_bytes().to_vec())
                .collect(),
            environment: program
                .environment
                .iter()
                .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
                .collect(),
            directory: program.directory.clone(),
            setup: program.setup.join("\n").into_bytes(),
            earlier: None,
            lists_hosts: false,
        }
    }

    /// Formats the parameter file of an attempt.
    pub fn encode_parameters(
        &self,
        tag: AttemptTag,
        pace: &WrapperTimings,
        seal: &AttemptAuthenticator,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        seal.write_words(&mut out, tag);
        for (key, length) in [
            ("hold_s", pace.hold_max),
            ("wall_s", pace.wall_time),
            ("grace_s", pace.grace),
            ("poll_s", pace.poll),
        ] {
            push_line(&mut out, key, &length.as_secs_ceil().max(1).to_string());
        }
        if let Some(SlowPollTiming { poll, after }) = &pace.seldom {
            let poll = poll.as_secs_ceil().max(1);
            let after = after.as_secs_ceil();
            push_line(&mut out, "seldom_s", &format!("{poll} {after}"));
        }
        if let Some(EndWarning { signal, before, to }) = &pace.warning {
            let text = format!("{signal} {} {}", before.as_secs_ceil(), to.as_str());
            push_line(&mut out, "warn", &text);
        }
        if let Some(earlier) = &self.earlier {
            push_line(&mut out, "earlier", &earlier.to_string());
        }
        if self.lists_hosts {
            push_line(&mut out, "hosts", "-");
        }
        if let Some(directory) = &self.directory {
            push_value(&mut out, "dir", directory.as_str().as_bytes());
        }
        if !self.setup.is_empty() {
            push_value(&mut out, "setup", &self.setup);
        }
        // The order matters: the wrapper builds the command line as it reads.
        for (name, content) in &self.environment {
            push_value(&mut out, &format!("env {name}"), content);
        }
        push_value(&mut out, "exe", &self.executable);
        self.arguments
            .iter()
            .for_each(|argument| push_value(&mut out, "arg", argument));
        push_end_line(&mut out, tag);
        out
    }
}

/// The way in which an input is put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacedInputKind {
    /// To be read.
    Input,
    /// To be run: gets its executable bit.
    Program,
}

/// An input to be put in place after the gate opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedInput {
    /// The way in which it is put in place.
    pub kind: PlacedInputKind,
    /// Absolute path in the site's content store.
    pub source: Vec<u8>,
    /// Path below the attempt's directory.
    pub target: String,
}

/// Returns the path of the staged executable below the attempt's directory: the program sees a name
/// like the one its user gave it.
pub fn staged_program_path(order: &AttemptSubmitRequest) -> Option<String> {
    order.staged_executable?;
    let name = match &order.program.executable {
        ExecutableSource::Staged(file) => file.name.as_str().rsplit('/').next().unwrap_or_default(),
        ExecutableSource::AtSite(_) => "",
    };
    let name = if matches!(name, "" | "." | "..") {
        "program"
    } else {
        name
    };
    Some(format!("program/{name}"))
}

/// The directory in which [`crate::files`] keeps complete contents, by digest.
const STORE: &str = "store";

/// The files that a wrapper reads of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrapperParameterFiles {
    pub(crate) params: Vec<u8>,
    /// The inputs, and the outputs behind them. Left out if there are neither.
    pub(crate) inputs: Option<Vec<u8>>,
}

/// Makes the files for the wrapper of a request, at a site with this root.
pub(crate) fn make_parameter_files(
    order: &AttemptSubmitRequest,
    root: &Path,
    pace: &WrapperTimings,
    seal: &AttemptAuthenticator,
) -> WrapperParameterFiles {
    let tag = order.tag;
    let program = staged_program_path(order);
    let staged = program
        .as_ref()
        .map(|p| root.join("attempts").join(tag.to_string()).join(p));
    let staged = staged.as_ref().map(|p| p.as_os_str().as_bytes());
    let mut command = PayloadCommand::from_program(&order.program, staged);
    command.earlier = order.earlier;
    command.lists_hosts = order.lists_hosts;
    let inputs = placed_inputs(root, order, program);
    WrapperParameterFiles {
        params: command.encode_parameters(tag, pace, seal),
        inputs: (!inputs.is_empty() || !order.outputs.is_empty())
            .then(|| encode_inputs(tag, &inputs, &order.outputs)),
    }
}

fn placed_inputs(
    root: &Path,
    order: &AttemptSubmitRequest,
    program: Option<String>,
) -> Vec<PlacedInput> {
    let store = root.join(STORE);
    let read = order.inputs.iter().map(|(content, path)| PlacedInput {
        kind: PlacedInputKind::Input,
        source: stored_path(&store, content.digest),
        target: format!("work/{path}"),
    });
    let run = order
        .staged_executable
        .zip(program)
        .map(|(digest, target)| PlacedInput {
            kind: PlacedInputKind::Program,
            source: stored_path(&store, digest),
            target,
        });
    read.chain(run).collect()
}

fn stored_path(store: &Path, digest: Digest) -> Vec<u8> {
    store
        .join(digest.to_string())
        .into_os_string()
        .into_encoded_bytes()
}

/// Formats the file that lists the inputs, and the outputs that are collected.
pub fn encode_inputs(tag: AttemptTag, inputs: &[PlacedInput], outputs: &[RelPath]) -> Vec<u8> {
    let mut out = Vec::new();
    for input in inputs {
        let kind = match input.kind {
            PlacedInputKind::Input => "input",
            PlacedInputKind::Program => "program",
        };
        let target = input.target.as_bytes();
        let a = line_count(&input.source);
        let b = line_count(target);
        push_line(&mut out, "input", &format!("{kind} {a} {b}"));
        for bytes in [&input.source, target] {
            out.extend_from_slice(bytes);
            out.push(b'\n');
        }
    }
    outputs
        .iter()
        .for_each(|path| push_value(&mut out, "output", path.as_str().as_bytes()));
    push_end_line(&mut out, tag);
    out
}

/// Formats the decision `go`; `now` is the clock that `start_at` was read from. `start_by` is the
/// last moment to begin, in hundredths of a second since the wrapper's machine started.
pub fn encode_go(
    tag: AttemptTag,
    go: &GoDecision,
    now: Timestamp,
    start_by: Option<u64>,
) -> Vec<u8> {
    let mut out = go_lines(go);
    push_line(&mut out, "wait_ms", &go.start_at.since(now).0.to_string());
    if let Some(start_by) = start_by {
        push_line(&mut out, "start_by", &start_by.to_string());
    }
    push_end_line(&mut out, tag);
    out
}

/// Formats the decision `go` for a wrapper on another machine, but for `start_ms`, the moment to
/// start by the site's clock, and its end: the agent that writes it at the site knows that clock.
pub fn encode_go_for_site(go: &GoDecision) -> Vec<u8> {
    let mut out = go_lines(go);
    push_line(
        &mut out,
        "start_by_ms",
        &go.start_by.0.min(LATEST_MS).to_string(),
    );
    out
}

fn go_lines(go: &GoDecision) -> Vec<u8> {
    let mut out = b"go\n".to_vec();
    push_line(&mut out, "round", &go.round.to_string());
    push_line(&mut out, "epoch", &go.epoch.to_string());
    push_line(&mut out, "start_at", &go.start_at.0.to_string());
    push_line(&mut out, "rank", &go.rank.to_string());
    for (index, peer) in go.peers.iter().enumerate() {
        // A host name comes from the other site: nothing in it may end the line.
        let host: String = peer
            .host
            .chars()
            .filter(|c| !c.is_control() && !c.is_whitespace())
            .collect();
        let rest = format!(
            "{index} {} {} {} {host}",
            peer.attempt, peer.site, peer.processors
        );
        push_line(&mut out, "peer", &rest);
    }
    out
}

/// Formats the decision `void`.
pub fn encode_void(tag: AttemptTag, seal: &AttemptAuthenticator) -> Vec<u8> {
    let mut out = void_first_line(tag, seal).into_bytes();
    out.extend_from_slice(b"\nby adapter\n");
    push_end_line(&mut out, tag);
    out
}

/// Returns the first line of the decision `void`.
pub(crate) fn void_first_line(tag: AttemptTag, seal: &AttemptAuthenticator) -> String {
    let word = seal.make_word(tag, AuthenticatedWordKind::Void);
    word.map_or_else(|| "void".to_owned(), |word| format!("void {word}"))
}

/// Ends a state file, so that it counts.
pub(crate) fn push_end_line(out: &mut Vec<u8>, tag: AttemptTag) {
    push_line(out, "end", &tag.to_string());
}

pub(crate) fn push_line(out: &mut Vec<u8>, key: &str, rest: &str) {
    // Writing to a vector cannot fail.
    let _ = writeln!(out, "{key} {rest}");
}

fn push_value(out: &mut Vec<u8>, key: &str, bytes: &[u8]) {
    push_line(out, key, &line_count(bytes).to_string());
    out.extend_from_slice(bytes);
    out.push(b'\n');
}

fn line_count(bytes: &[u8]) -> usize {
    1 + bytes.iter().filter(|b| **b == b'\n').count()
}
