//! A shell at the far end of a connection, which serves requests; see session.sh.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::Child;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::client_stderr::SshClientStderr;
use super::session_answers::{SshAnswer, SshAnswerReader};
use crate::exec::{
    CommandChannel, CommandExit, CommandOutput, ExecCommand, ExecError, ProgramOrScript,
};

/// The script that is sent first.
const TEXT: &str = include_str!("session.sh");

/// The most that start files may print before the session is ready, in bytes.
const NOISE_MAX: usize = 256 << 10;

/// Requests of the control lane that may be under way at the same time.
const WIDTH: u32 = 8;

/// A session that is up, or was.
#[derive(Debug, Clone)]
pub(super) struct SshSession(Arc<SshSessionState>);

struct SshSessionState {
    lane: CommandChannel,
    requests: mpsc::UnboundedSender<RequestFrame>,
    /// A permit for each free slot.
    turns: Semaphore,
    under_way: Mutex<UnansweredRequests>,
    words: Arc<SshClientStderr>,
    end: Notify,
}

impl fmt::Debug for SshSessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

/// The requests that have no answer yet.
struct UnansweredRequests {
    last_id: u64,
    free: Vec<u32>,
    waiting: BTreeMap<u64, UnansweredRequest>,
    /// The time of the last sign of life; `None` once the session has ended.
    heard: Option<Instant>,
}

struct UnansweredRequest {
    slot: u32,
    /// True from when its bytes are about to be sent: then the command may have been run.
    sent: bool,
    answer: oneshot::Sender<Result<CommandOutput, ExecError>>,
}

/// A request on its way to the other end.
struct RequestFrame {
    id: u64,
    text: Option<Arc<str>>,
    bytes: Vec<u8>,
}

impl SshSession {
    /// Takes over a client of SSH that was started: sends the script, and waits until it is ready.
    ///
    /// # Errors
    /// Says as much as is known of why it is not ready.
    pub(super) async fn start(
        mut child: Child,
        lane: CommandChannel,
        wanted: &str,
        patience: Duration,
    ) -> Result<Self, String> {
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("the client of SSH has no pipes".to_owned());
        };
        let words = SshClientStderr::start_reading(stderr);
        let nonce = crate::local_site::attempt_root::unique_word();
        let lane_word = if lane == CommandChannel::Bulk {
            "bulk"
        } else {
            "control"
        };
        let mut stdout = BufReader::with_capacity(64 << 10, stdout);
        let ready = async {
            let text = format!("{TEXT}\nserve {nonce} {lane_word} {wanted}\n");
            // A shell that does not take it has said why.
            let _ = stdin.write_all(text.as_bytes()).await;
            await_ready(&mut stdout, &nonce).await
        };
        match tokio::time::timeout(patience, ready).await {
            Ok(Ok(())) => {}
            Ok(Err(noise)) => {
                // The last words may still be on their way.
                let _ = tokio::time::timeout(Duration::from_secs(1), child.wait()).await;
                return Err(words.words_at_end().await.unwrap_or(noise));
            }
            Err(_) => {
                return Err(words.words_at_end().await.unwrap_or_else(|| {
                    format!(
                        "no shell answered within {patience:?}; start files that wait for input?"
                    )
                }));
            }
        }
        let width = if lane == CommandChannel::Bulk {
            1
        } else {
            WIDTH
        };
        let (requests, frames) = mpsc::unbounded_channel();
        let shared = Arc::new(SshSessionState {
            lane,
            requests,
            turns: Semaphore::new(width as usize),
            under_way: Mutex::new(UnansweredRequests {
                last_id: 0,
                free: (0..width).collect(),
                waiting: BTreeMap::new(),
                heard: Some(Instant::now()),
            }),
            words,
            end: Notify::new(),
        });
        let served = shared.clone();
        tokio::spawn(async move {
            let answers = SshAnswerReader::new(stdout, lane, nonce);
            tokio::select! {
                () = served.end.notified() => {}
                () = send_frames(&served, stdin, frames) => {}
                () = receive_answers(&served, answers) => {}
            }
            let _ = child.start_kill();
            let _ = child.wait().await;
            served.fail_waiting_requests().await;
        });
        Ok(Self(shared))
    }

    pub(super) fn is_up(&self) -> bool {
        self.0.lock_unanswered().heard.is_some()
    }

    /// Ends the session. Whether what is under way was done stays unknown.
    pub(super) fn request_end(&self) {
        self.0.end.notify_one();
    }

    /// Runs a command at the other end.
    pub(super) async fn run_command(
        &self,
        command: ExecCommand,
        until: Instant,
    ) -> Result<CommandOutput, ExecError> {
        let shared = &self.0;
        let Ok(Ok(turn)) = tokio::time::timeout_at(until, shared.turns.acquire()).await else {
            let why = "what was asked before is not answered yet".to_owned();
            return Err(ExecError::NotStarted(why));
        };
        let (id, answer) = shared.enqueue_request(&command)?;
        // The permit comes back with the answer.
        turn.forget();
        let asked_at = Instant::now();
        match tokio::time::timeout_at(until, answer).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) => Err(ExecError::PerhapsDone("the connection is gone".to_owned())),
            Err(_) => Err(shared.give_up_request(id, asked_at)),
        }
    }
}

impl SshSessionState {
    fn lock_unanswered(&self) -> MutexGuard<'_, UnansweredRequests> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a request on its way, for a caller that has a permit.
    fn enqueue_request(
        &self,
        command: &ExecCommand,
    ) -> Result<(u64, oneshot::Receiver<Result<CommandOutput, ExecError>>), ExecError> {
        let (send, answer) = oneshot::channel();
        let mut under_way = self.lock_unanswered();
        if under_way.heard.is_none() {
            return Err(lost_connection_error());
        }
        under_way.last_id += 1;
        let id = under_way.last_id;
        let slot = under_way.free.pop().ok_or_else(lost_connection_error)?;
        let text = match &command.work {
            ProgramOrScript::Script { text, .. } => Some(text.clone()),
            ProgramOrScript::Program(_) => None,
        };
        let frame = RequestFrame {
            id,
            text,
            bytes: encode_request(id, slot, command),
        };
        under_way.waiting.insert(
            id,
            UnansweredRequest {
                slot,
                sent: false,
                answer: send,
            },
        );
        self.requests
            .send(frame)
            .map_err(|_| lost_connection_error())?;
        Ok((id, answer))
    }

    /// Marks that the bytes of a request are about to be sent; `false` if nobody waits any more.
    fn mark_sent(&self, id: u64) -> bool {
        let mut under_way = self.lock_unanswered();
        under_way
            .waiting
            .get_mut(&id)
            .map(|waiting| waiting.sent = true)
            .is_some()
    }

    fn deliver_answer(&self, told: SshAnswer) -> Option<()> {
        let SshAnswer { id, code, stdout } = told;
        let mut under_way = self.lock_unanswered();
        let waiting = under_way.waiting.remove(&id)?;
        under_way.free.push(waiting.slot);
        under_way.heard = Some(Instant::now());
        drop(under_way);
        self.turns.add_permits(1);
        // Perhaps nobody waits any more.
        let _ = waiting.answer.send(match code {
            None => Err(ExecError::PerhapsDone(
                "it printed more than it may".to_owned(),
            )),
            Some(code) => Ok(self.make_output(code, stdout)),
        });
        Some(())
    }

    fn make_output(&self, code: i32, stdout: Vec<u8>) -> CommandOutput {
        let ended = if code > 128 {
            CommandExit::Signal(code - 128)
        } else {
            CommandExit::Code(code)
        };
        let stderr = if code == 0 {
            Vec::new()
        } else {
            self.words.recent_words().into_bytes()
        };
        CommandOutput {
            ended,
            stdout,
            stderr,
        }
    }

    /// Gives up a request. A session that has been silent since then is dead, and is ended.
    fn give_up_request(&self, id: u64, since: Instant) -> ExecError {
        let mut under_way = self.lock_unanswered();
        let silent = under_way.heard.is_some_and(|heard| heard < since);
        let unsent = under_way
            .waiting
            .get(&id)
            .is_some_and(|waiting| !waiting.sent);
        if unsent && let Some(waiting) = under_way.waiting.remove(&id) {
            under_way.free.push(waiting.slot);
            self.turns.add_permits(1);
        }
        drop(under_way);
        if silent {
            self.end.notify_one();
        }
        if unsent {
            ExecError::NotStarted("the connection takes no requests".to_owned())
        } else {
            ExecError::PerhapsDone("the site did not answer in time".to_owned())
        }
    }

    /// Fails all requests that wait, because the session has ended.
    async fn fail_waiting_requests(&self) {
        let waiting = {
            let mut under_way = self.lock_unanswered();
            under_way.heard = None;
            std::mem::take(&mut under_way.waiting)
        };
        let why = match self.words.words_at_end().await {
            Some(words) => format!("the connection broke: {words}"),
            None => "the connection broke".to_owned(),
        };
        for waiting in waiting.into_values() {
            let error = if waiting.sent {
                ExecError::PerhapsDone(why.clone())
            } else {
                ExecError::NotStarted(why.clone())
            };
            let _ = waiting.answer.send(Err(error));
        }
    }
}

fn lost_connection_error() -> ExecError {
    ExecError::NotStarted("the connection is gone".to_owned())
}

async fn send_frames(
    shared: &SshSessionState,
    mut to: impl AsyncWrite + Unpin,
    mut frames: mpsc::UnboundedReceiver<RequestFrame>,
) {
    let mut loaded: Option<Arc<str>> = None;
    while let Some(RequestFrame { id, text, bytes }) = frames.recv().await {
        if !shared.mark_sent(id) {
            continue;
        }
        let mut all = Vec::with_capacity(bytes.len());
        if let Some(text) = text.filter(|text| loaded.as_ref() != Some(text)) {
            all.extend_from_slice(format!("text {}\n{text}", text.len()).as_bytes());
            loaded = Some(text);
        }
        all.extend_from_slice(&bytes);
        if to.write_all(&all).await.is_err() {
            return;
        }
    }
}

async fn receive_answers(
    shared: &SshSessionState,
    mut answers: SshAnswerReader<impl AsyncRead + Unpin>,
) {
    while let Some(told) = answers.next_answer().await {
        if shared.deliver_answer(told).is_none() {
            return;
        }
    }
}

/// Reads past whatever start files print.
async fn await_ready(from: &mut (impl AsyncRead + Unpin), nonce: &str) -> Result<(), String> {
    let wanted = format!("\nready {nonce}\n");
    let mut seen = Vec::new();
    while !seen.ends_with(wanted.as_bytes()) {
        match from.read_u8().await {
            Ok(byte) if seen.len() < NOISE_MAX => seen.push(byte),
            Ok(_) => return Err(format!("start files print more than {NOISE_MAX} bytes")),
            Err(_) => {
                let noise = String::from_utf8_lossy(&seen);
                let last = noise.lines().rfind(|line| !line.trim().is_empty());
                return Err(match last {
                    Some(line) => format!("its shell ended at once, saying: {}", line.trim()),
                    None => "its shell ended at once".to_owned(),
                });
            }
        }
    }
    Ok(())
}

fn encode_request(id: u64, slot: u32, command: &ExecCommand) -> Vec<u8> {
    let (verb, words) = match &command.work {
        ProgramOrScript::Program(argv) => ("program", argv),
        ProgramOrScript::Script { words, .. } => ("script", words),
    };
    let variables = command.environment.len();
    let max = command.output_max;
    let seconds = command.deadline.as_secs().max(1);
    let length = command.input.len();
    let count = words.len();
    let first = format!("{verb} {id} {slot} {seconds} {variables} {count} {max} {length}\n");
    let mut frame = first.into_bytes();
    for (name, content) in &command.environment {
        push_counted_value(
            &mut frame,
            &[name.as_bytes(), b"=", content.as_bytes()].concat(),
        );
    }
    words
        .iter()
        .for_each(|word| push_counted_value(&mut frame, word.as_bytes()));
    frame.extend_from_slice(&command.input);
    frame
}

/// Appends a value behind its number of lines: no byte in it can be taken for something else.
fn push_counted_value(frame: &mut Vec<u8>, bytes: &[u8]) {
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    frame.extend_from_slice(format!("{lines}\n").as_bytes());
    frame.extend_from_slice(bytes);
    frame.push(b'\n');
}

/// Pipes all streams of a client of SSH, so that it can become a session.
pub(super) fn pipe_streams(command: &mut tokio::process::Command) -> &mut tokio::process::Command {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
}
