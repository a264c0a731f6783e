//! Parses the files of the wrapper, and trusts none of them.

use cospan_domain::ids::AttemptTag;

use super::attempt_words::{AttemptAuthenticator, AuthenticatedWordKind};
use crate::port::{ExitCause, GateState};

/// The explanation if a payload's executable does not exist.
pub const MISSING: &str = "the executable is not there; check its name and the PATH at the site";

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since the machine started.
    pub start: u64,
}

/// A complete `ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyFile {
    /// The host on which the wrapper waits.
    pub host: String,
    /// The wrapper.
    pub wrapper: ProcessIdentity,
    /// The boot id of the host.
    pub boot: String,
    /// The number under which a batch system started it.
    pub job: Option<String>,
    /// The batch system's name of this run, which it never gives out again, if it has one.
    pub run: Option<String>,
    /// All nodes that a batch system gave it, as that writes them, if there are several: `n[1-3]`.
    pub nodes: Option<String>,
}

/// The most characters of a list of nodes: it is kept with its job.
const NODES_MAX: usize = 2_048;

/// Returns the lines of a state file, or `None` unless it is complete and this attempt's.
pub fn complete_lines(bytes: &[u8], tag: AttemptTag) -> Option<Vec<&str>> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let (body, last) = text.rsplit_once('\n').unwrap_or(("", text));
    (last.strip_prefix("end ")? == tag.to_string()).then(|| body.lines().collect())
}

fn find_field<'a>(lines: &[&'a str], key: &str) -> Option<&'a str> {
    lines
        .iter()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
}

fn parse_process(lines: &[&str]) -> Option<ProcessIdentity> {
    let pid = find_field(lines, "pid")?
        .parse()
        .ok()
        .filter(|pid| *pid > 1)?;
    Some(ProcessIdentity {
        pid,
        start: find_field(lines, "start")?.parse().ok()?,
    })
}

/// Parses `ready`.
pub fn parse_ready(bytes: &[u8], tag: AttemptTag) -> Option<ReadyFile> {
    let lines = complete_lines(bytes, tag)?;
    Some(ReadyFile {
        host: find_field(&lines, "host")?.to_owned(),
        wrapper: parse_process(&lines)?,
        boot: find_field(&lines, "boot")?.to_owned(),
        job: find_field(&lines, "job").map(str::to_owned),
        run: find_field(&lines, "run").map(str::to_owned),
        nodes: find_field(&lines, "nodes")
            .filter(|list| is_node_list(list))
            .map(str::to_owned),
    })
}

fn is_node_list(nodes: &str) -> bool {
    (1..=NODES_MAX).contains(&nodes.len())
        && nodes
            .chars()
            .all(|c: char| c.is_ascii_alphanumeric() || "-_.,[]".contains(c))
}

/// Parses `decision`; `None` also for one that closes the gate without its word.
pub fn parse_decision(
    bytes: &[u8],
    tag: AttemptTag,
    seal: &AttemptAuthenticator,
) -> Option<GateState> {
    parse_decision_line(complete_lines(bytes, tag)?.first()?, tag, seal)
}

/// Parses the first line of a decision.
pub(crate) fn parse_decision_line(
    line: &str,
    tag: AttemptTag,
    seal: &AttemptAuthenticator,
) -> Option<GateState> {
    let mut words = line.split(' ');
    match words.next()? {
        "go" => Some(GateState::Opened),
        "void" => seal
            .accepts_word(tag, AuthenticatedWordKind::Void, words.next())
            .then_some(GateState::Voided),
        _ => None,
    }
}

/// Parses `begun`: the payload, which leads its own process group.
pub fn parse_begun(bytes: &[u8], tag: AttemptTag) -> Option<ProcessIdentity> {
    parse_process(&complete_lines(bytes, tag)?)
}

/// Parses `exit`; `None` also for one without its word.
pub fn parse_exit(bytes: &[u8], tag: AttemptTag, seal: &AttemptAuthenticator) -> Option<ExitCause> {
    let lines = complete_lines(bytes, tag)?;
    if !seal.accepts_word(tag, AuthenticatedWordKind::Exit, find_field(&lines, "word")) {
        return None;
    }
    let mut words = find_field(&lines, "cause")?.split(' ');
    match words.next()? {
        "code" => parse_number(words.next()).map(ExitCause::Code),
        "signal" => parse_number(words.next()).map(ExitCause::Signal),
        "walltime" => Some(ExitCause::WallTime),
        "terminated" => Some(ExitCause::Terminated),
        "requeued" => Some(ExitCause::Requeued),
        "unstarted" if find_field(&lines, "cause")? == "unstarted late" => Some(ExitCause::TooLate),
        "unstarted" => Some(ExitCause::CouldNotStart(
            match words.next()? {
                "missing" => MISSING,
                "not-executable" => "the executable is not an executable file; check its mode",
                "directory" => "the directory to start in cannot be made; check the job's inputs",
                _ => return None,
            }
            .to_owned(),
        )),
        _ => None,
    }
}

/// Parses `ended`: the payload's own end; `None` also for one without the word of that end.
pub fn parse_ended(
    bytes: &[u8],
    tag: AttemptTag,
    seal: &AttemptAuthenticator,
) -> Option<ExitCause> {
    let lines = complete_lines(bytes, tag)?;
    let (kind, number) = find_field(&lines, "cause")?.split_once(' ')?;
    let number = parse_number(Some(number))?;
    let cause = match kind {
        "code" => ExitCause::Code(number),
        "signal" => ExitCause::Signal(number),
        _ => return None,
    };
    let of = if cause == ExitCause::Code(0) {
        AuthenticatedWordKind::Done
    } else {
        AuthenticatedWordKind::Failed
    };
    seal.accepts_word(tag, of, find_field(&lines, "word"))
        .then_some(cause)
}

fn parse_number(word: Option<&str>) -> Option<i32> {
    word.and_then(|word| word.parse().ok())
}

/// Parses `trouble`: why the site could not run it.
pub fn parse_trouble(bytes: &[u8], tag: AttemptTag) -> Option<String> {
    find_field(&complete_lines(bytes, tag)?, "why").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::JobId;

    use super::*;
    use crate::wrapper::parameters::encode_void;

    const READY: &str = "host n1\npid 12\nstart 34\nboot b\nend cabcdefgh-1-0-1\n";

    fn tag() -> AttemptTag {
        "cabcdefgh-1-0-1".parse().unwrap()
    }

    #[test]
    fn a_state_file_cut_anywhere_never_counts() {
        assert!(parse_ready(READY.as_bytes(), tag()).is_some());
        for length in 0..READY.len() {
            assert_eq!(
                parse_ready(&READY.as_bytes()[..length], tag()),
                None,
                "{length}"
            );
        }
        let seal = AttemptAuthenticator::new([1; 32], JobId(0));
        let void = encode_void(tag(), &seal);
        assert_eq!(parse_decision(&void, tag(), &seal), Some(GateState::Voided));
        for length in 0..void.len() {
            assert_eq!(
                parse_decision(&void[..length], tag(), &seal),
                None,
                "{length}"
            );
        }
    }

    #[test]
    fn a_state_file_of_another_attempt_never_counts() {
        let other = "cabcdefgh-1-0-12".parse().unwrap();
        assert_eq!(parse_ready(READY.as_bytes(), other), None);
        let longer = READY.replace("-0-1\n", "-0-12\n");
        assert_eq!(parse_ready(longer.as_bytes(), tag()), None);
    }

    #[test]
    fn several_nodes_are_read_as_their_batch_system_writes_them() {
        let nodes = |line: &str| {
            let text = READY.replace("end ", &format!("{line}\nend "));
            parse_ready(text.as_bytes(), tag()).unwrap().nodes
        };
        assert_eq!(nodes("nodes n[1-3,07],m").as_deref(), Some("n[1-3,07],m"));
        assert_eq!(nodes("job 5"), None);
        for odd in ["nodes ", "nodes a b", "nodes $(id)"] {
            assert_eq!(nodes(odd), None, "{odd}");
        }
        assert_eq!(
            nodes(&format!("nodes {}", "n,".repeat(2_000))),
            None,
            "too many"
        );
    }

    #[test]
    fn a_process_that_would_be_everybody_is_no_process() {
        for pid in ["0", "1", "-1", "x"] {
            assert_eq!(
                parse_ready(READY.replace("12", pid).as_bytes(), tag()),
                None,
                "{pid}"
            );
        }
    }

    #[test]
    fn an_end_without_its_word_is_none() {
        let seal = AttemptAuthenticator::new([1; 32], JobId(0));
        let word = seal.make_word(tag(), AuthenticatedWordKind::Exit).unwrap();
        let read = |first: &str| {
            let text = format!("{first}cause code 0\nran 1\nend cabcdefgh-1-0-1\n");
            parse_exit(text.as_bytes(), tag(), &seal)
        };
        assert_eq!(read(&format!("word {word}\n")), Some(ExitCause::Code(0)));
        for forged in [
            String::new(),
            "word \n".to_owned(),
            format!("word {}\n", &word[1..]),
        ] {
            assert_eq!(read(&forged), None, "{forged:?}");
        }
        assert_eq!(
            parse_decision(b"void\nend cabcdefgh-1-0-1\n", tag(), &seal),
            None
        );
    }

    /// Whoever reads the word of one end cannot write the other.
    #[test]
    fn a_payloads_own_end_has_the_word_of_that_end() {
        let seal = AttemptAuthenticator::new([1; 32], JobId(0));
        let read = |cause: &str, of| {
            let word = seal.make_word(tag(), of).unwrap();
            let text = format!("cause {cause}\nword {word}\nend cabcdefgh-1-0-1\n");
            parse_ended(text.as_bytes(), tag(), &seal)
        };
        let done = AuthenticatedWordKind::Done;
        let failed = AuthenticatedWordKind::Failed;
        assert_eq!(read("code 0", done), Some(ExitCause::Code(0)));
        assert_eq!(read("code 3", failed), Some(ExitCause::Code(3)));
        assert_eq!(read("signal 11", failed), Some(ExitCause::Signal(11)));
        for (cause, of) in [
            ("code 0", failed),
            ("code 0", AuthenticatedWordKind::Exit),
            ("code 3", done),
            ("terminated code 0", failed),
            ("code", done),
        ] {
            assert_eq!(read(cause, of), None, "{cause} {of:?}");
        }
    }

    #[test]
    fn each_way_to_end_is_read_as_what_it_is() {
        let read = |cause: &str| {
            let text = format!("cause {cause}\nran 1\nend cabcdefgh-1-0-1\n");
            parse_exit(
                text.as_bytes(),
                tag(),
                &AttemptAuthenticator::without_words(),
            )
        };
        assert_eq!(read("code 3"), Some(ExitCause::Code(3)));
        assert_eq!(read("signal 9"), Some(ExitCause::Signal(9)));
        assert_eq!(read("walltime signal 15"), Some(ExitCause::WallTime));
        assert_eq!(read("terminated code 0"), Some(ExitCause::Terminated));
        assert!(matches!(
            read("unstarted missing"),
            Some(ExitCause::CouldNotStart(_))
        ));
        assert_eq!(read("unstarted late"), Some(ExitCause::TooLate));
        assert_eq!(read("requeued"), Some(ExitCause::Requeued));
        assert_eq!(read("code"), None);
        assert_eq!(read("fine"), None);
    }
}
