//! The agent of a batch system's site: a shell script that comes with each request, so that nothing
//! of ours needs to be installed there. The script says what requests and answers are.

pub(crate) mod attempt_remains;
pub(crate) mod site_time;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::ids::SiteName;

use crate::exec::{
    CommandChannel, CommandExecutor, CommandOutput, ExecCommand, ExecError, ProgramOrScript,
};
use crate::port::SiteError;

/// The beginning of every script: what failures and the site's root are.
const BEGINNING: &str = include_str!("agent/beginning.sh");

/// The part that submits attempts.
const SUBMISSION: &str = include_str!("agent/submission.sh");

/// The part for files of the site that only an agent can reach.
const FILES: &str = include_str!("agent/files.sh");

/// The part that makes a directory the root: used seldom, so not sent with each request.
const PLACE: &str = include_str!("agent/place.sh");

/// The part that belongs to no batch system. It is never a file of the site.
const COMMON: &str = include_str!("agent/agent.sh");

/// Returns the script of a site's agent, with the two parts of its batch system: the one
/// that submits, and the rest.
pub(crate) fn agent_script(submits: &str, manager: &[&str]) -> Arc<str> {
    join_script_parts(&[&[SUBMISSION, submits, FILES], manager, &[COMMON]].concat())
}

/// Returns the script that makes a directory the root of a site.
fn root_script() -> Arc<str> {
    join_script_parts(&[PLACE])
}

/// Joins these parts, behind the beginning that all scripts share.
pub(crate) fn join_script_parts(parts: &[&str]) -> Arc<str> {
    [&[BEGINNING], parts].concat().concat().into()
}

/// Commands of the batch system are given up this long before the agent itself is.
const RESERVE: Duration = Duration::from_secs(3);

/// The longest that reading or copying one file at the site may take.
const FILE_LONGEST: Duration = Duration::from_secs(3_600);

/// Longest text, in bytes, that is sent line by line: the shell reads it byte by byte.
const TEXT_MAX: usize = 4 << 10;

/// Longest answer, in bytes: a poll of ten thousand jobs takes half a megabyte.
const ANSWER_MAX: usize = 32 << 20;

/// The client of the agent at one site.
#[derive(Debug, Clone)]
pub(crate) struct SiteAgentClient {
    pub(crate) exec: Arc<dyn CommandExecutor>,
    /// See [`agent_script`].
    pub(crate) text: Arc<str>,
    pub(crate) site: SiteName,
    /// The root, as the site names it.
    pub(crate) root: PathBuf,
    pub(crate) environment: BTreeMap<OsString, OsString>,
    /// The longest that a request may take.
    pub(crate) deadline: Duration,
}

/// The reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SiteAgentError {
    /// An error of the port.
    Site(SiteError),
    /// A part that `install` brings is missing; certainly nothing was done.
    NotInstalled,
}

impl From<SiteAgentError> for SiteError {
    fn from(failure: SiteAgentError) -> Self {
        match failure {
            SiteAgentError::Site(error) => error,
            SiteAgentError::NotInstalled => {
                SiteError::NotSent("the wrapper is not there".to_owned())
            }
        }
    }
}

impl From<ExecError> for SiteError {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::NotStarted(why) => SiteError::NotSent(why),
            ExecError::LockedOut(why) => SiteError::LockedOut(why),
            ExecError::PerhapsDone(why) => SiteError::OutcomeUnknown(why),
        }
    }
}

/// The input of an agent.
#[derive(Debug, Default)]
pub(crate) struct SiteAgentRequest(Vec<u8>);

impl SiteAgentRequest {
    /// Adds a line; `rest` must have no line breaks.
    pub(crate) fn push_line(&mut self, key: &str, rest: &str) {
        self.0
            .extend_from_slice(format!("{key} {rest}\n").as_bytes());
    }

    /// Adds a file as it is.
    pub(crate) fn push_file(&mut self, name: &str, bytes: &[u8]) {
        self.push_line("file", &format!("{name} {}", bytes.len()));
        self.0.extend_from_slice(bytes);
    }

    /// Adds a file as text if it is as short as most are: no program is started for that.
    pub(crate) fn push_text(&mut self, name: &str, bytes: &[u8]) {
        if bytes.len() > TEXT_MAX || bytes.contains(&0) || !bytes.ends_with(b"\n") {
            return self.push_file(name, bytes);
        }
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.push_line("text", &format!("{name} {lines}"));
        self.0.extend_from_slice(bytes);
    }

    /// Makes a request of bytes alone; the agent learns their length from its arguments.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Completes the request.
    pub(crate) fn finish_request(mut self) -> Self {
        self.0.extend_from_slice(b"end\n");
        self
    }
}

/// The lines of a complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteAgentAnswer(pub(crate) String);

impl SiteAgentAnswer {
    /// Returns what follows a key in each line that begins with it.
    pub(crate) fn values_of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .lines()
            .filter_map(move |line| line.strip_prefix(key)?.strip_prefix(' '))
    }

    /// Returns what follows a key in the last line that begins with it.
    pub(crate) fn last_value<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        self.values_of(key).last()
    }
}

impl SiteAgentClient {
    /// Sends one request and reads the answer.
    pub(crate) async fn send_request(
        &self,
        words: &[impl AsRef<OsStr>],
        request: SiteAgentRequest,
    ) -> Result<SiteAgentAnswer, SiteAgentError> {
        let command = self.build_command(words, request, CommandChannel::Control);
        match self.exec.run(command).await {
            Ok(output) => read_answer(&output),
            Err(error) => Err(SiteAgentError::Site(error.into())),
        }
    }

    /// Makes the root, or finds that it is the site's already.
    pub(crate) async fn initialise_root(&self) -> Result<(), SiteError> {
        // Two slashes in a row, or one at the end, would get past the check of the name.
        let root = self.root.components().collect();
        let agent = Self {
            text: root_script(),
            root,
            ..self.clone()
        };
        agent
            .send_request(&["initialise"], SiteAgentRequest::default())
            .await?;
        Ok(())
    }

    /// Sends a request that may take as long as a large file needs.
    pub(crate) async fn send_long_request(
        &self,
        words: &[&str],
    ) -> Result<SiteAgentAnswer, SiteError> {
        let mut command =
            self.build_command(words, SiteAgentRequest::default(), CommandChannel::Control);
        command.deadline = FILE_LONGEST;
        Ok(read_answer(&self.exec.run(command).await?)?)
    }

    /// Returns the longest that a command of the batch system may take, in seconds.
    fn command_seconds(&self) -> u64 {
        self.deadline.saturating_sub(RESERVE).as_secs().max(1)
    }

    /// Returns `seconds` as an argument, or 0 where whoever runs the agent ends what is overdue.
    pub(crate) fn command_limit(&self) -> String {
        if self.exec.ends_overdue() {
            0
        } else {
            self.command_seconds()
        }
        .to_string()
    }

    pub(crate) fn build_command(
        &self,
        words: &[impl AsRef<OsStr>],
        request: SiteAgentRequest,
        lane: CommandChannel,
    ) -> ExecCommand {
        let root = self.root.clone().into_os_string();
        let first = [
            root,
            self.site.as_str().into(),
            self.command_seconds().to_string().into(),
        ];
        let words = words.iter().map(|word| word.as_ref().to_owned());
        let words = first.into_iter().chain(words).collect();
        ExecCommand {
            work: ProgramOrScript::Script {
                text: self.text.clone(),
                words,
            },
            lane,
            input: request.0,
            environment: self.environment.clone(),
            deadline: self.deadline,
            output_max: ANSWER_MAX,
        }
    }
}

pub(crate) fn read_answer(output: &CommandOutput) -> Result<SiteAgentAnswer, SiteAgentError> {
    let text = String::from_utf8_lossy(&output.stdout);
    let body = text.strip_suffix('\n').unwrap_or_default();
    let (body, last) = body.rsplit_once('\n').unwrap_or(("", body));
    if last == "done" {
        return Ok(SiteAgentAnswer(body.to_owned()));
    }
    let failure = last
        .strip_prefix("fail ")
        .and_then(|rest| rest.split_once(' '));
    match failure {
        Some(("refused", why)) => Err(site_failure(SiteError::Refused, why)),
        Some(("unsent", why)) => Err(site_failure(SiteError::NotSent, why)),
        Some(("broken", why)) => Err(site_failure(SiteError::OutOfOrder, why)),
        Some(("full", why)) => Err(site_failure(SiteError::SiteFull, why)),
        Some(("unknown", why)) => Err(site_failure(SiteError::OutcomeUnknown, why)),
        Some(("missing", _)) => Err(SiteAgentError::NotInstalled),
        _ => {
            let mut why = format!("the answer was cut short ({})", output.ended);
            let stderr = String::from_utf8_lossy(&output.stderr);
            if let Some(line) = stderr.lines().next() {
                let _ = write!(why, ": {line}");
            }
            Err(SiteAgentError::Site(SiteError::OutcomeUnknown(why)))
        }
    }
}

fn site_failure(error: fn(String) -> SiteError, why: &str) -> SiteAgentError {
    SiteAgentError::Site(error(why.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::CommandExit;

    fn agent_output(stdout: &str) -> CommandOutput {
        let ended = CommandExit::Code(0);
        CommandOutput {
            ended,
            stdout: stdout.into(),
            stderr: b"sh: odd\nmore\n".to_vec(),
        }
    }

    #[test]
    fn an_answer_counts_only_if_it_was_given_to_its_end() {
        let whole = "clock 1\nqueue a b\nqueue c\ndone\n";
        let answer = read_answer(&agent_output(whole)).unwrap();
        assert_eq!(answer.values_of("queue").collect::<Vec<_>>(), ["a b", "c"]);
        assert_eq!(
            (answer.last_value("clock"), answer.last_value("load")),
            (Some("1"), None)
        );
        for length in 0..whole.len() {
            let cut = read_answer(&agent_output(&whole[..length]));
            assert!(
                matches!(cut, Err(SiteAgentError::Site(SiteError::OutcomeUnknown(_)))),
                "{length}"
            );
        }
    }

    #[test]
    fn each_failure_is_what_the_agent_called_it() {
        let failed =
            |text: &str| read_answer(&agent_output(&format!("queue x\n{text}\n"))).unwrap_err();
        let site = |error: SiteError| SiteAgentError::Site(error);
        assert_eq!(
            failed("fail refused no such "),
            site(SiteError::Refused("no such".into()))
        );
        assert_eq!(
            failed("fail unsent down"),
            site(SiteError::NotSent("down".into()))
        );
        assert_eq!(failed("fail full 2"), site(SiteError::SiteFull("2".into())));
        assert_eq!(failed("fail missing it"), SiteAgentError::NotInstalled);
        let cut = site(SiteError::OutcomeUnknown(
            "the answer was cut short (exit code 0): sh: odd".into(),
        ));
        assert_eq!(failed("fail new kind"), cut);
    }
}
