//! Parses what the adapter of Slurm asks its agent for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use cospan_domain::content::Content;
use cospan_domain::ids::{
    Attempt, AttemptTag, ComponentIndex, Digest, Epoch, LrmId, RelPath, Round, SiteName,
};
use cospan_domain::job::spec::{ExecutableSource, Program};
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use cospan_sites::port::{
    AttemptSubmitRequest, GateDecision, GateState, GoDecision, RoundPeer, SiteCallKind, SiteError,
};

use crate::kill_switch::KillSwitch;
use crate::world::{SimulatedWorld, SiteIndex};

/// Parts of a status that come from Slurm itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SlurmStatusParts {
    queue: bool,
    load: bool,
}

/// A request to the agent, with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SlurmRequestVerb {
    Describe,
    Status(Vec<AttemptTag>, SlurmStatusParts),
    Submit(Box<AttemptSubmitRequest>),
    Find(AttemptTag),
    Gate(AttemptTag, GateDecision),
    Cancel(AttemptTag),
    Withdraw(AttemptTag, u64),
    Remove(AttemptTag),
    List,
    /// The ended jobs that accounting still keeps.
    Accounts,
}

/// A parsed request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SlurmRequest {
    pub(super) verb: SlurmRequestVerb,
}

impl SlurmRequestVerb {
    /// Returns the call of the port that the request belongs to.
    pub(super) fn call_kind(&self) -> SiteCallKind {
        match self {
            SlurmRequestVerb::Describe => SiteCallKind::Describe,
            SlurmRequestVerb::Status(..) => SiteCallKind::Status,
            SlurmRequestVerb::Submit(_) => SiteCallKind::Submit,
            SlurmRequestVerb::Find(_) => SiteCallKind::FindByTag,
            SlurmRequestVerb::Gate(..) => SiteCallKind::DecideGate,
            SlurmRequestVerb::Cancel(_) | SlurmRequestVerb::Withdraw(..) => SiteCallKind::Cancel,
            SlurmRequestVerb::Remove(_) => SiteCallKind::RemoveAttempt,
            SlurmRequestVerb::List => SiteCallKind::ListAttempts,
            SlurmRequestVerb::Accounts => SiteCallKind::Status,
        }
    }

    /// Returns the pretended answer, if the request may be answered as if it had been carried out.
    pub(super) fn pretended_answer(&self) -> Option<String> {
        match self {
            SlurmRequestVerb::Submit(_) => Some("number 0\n".to_owned()),
            SlurmRequestVerb::Cancel(_) | SlurmRequestVerb::Withdraw(..) => {
                Some("verdict void\n".to_owned())
            }
            _ => None,
        }
    }
}

/// A reader of lines and of files of known length in a request.
struct RequestReader<'r>(&'r [u8]);

impl<'r> RequestReader<'r> {
    fn read_line(&mut self) -> Option<&'r str> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&self.0[..end]).ok()?;
        self.0 = &self.0[end + 1..];
        Some(line)
    }

    fn read_bytes(&mut self, length: usize) -> Option<&'r [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Reads a value of this many lines.
    fn read_value(&mut self, lines: usize) -> Option<String> {
        let lines: Option<Vec<&str>> = (0..lines).map(|_| self.read_line()).collect();
        Some(lines?.join("\n"))
    }

    /// The value after a line that ends with how many lines it has.
    fn read_value_after(&mut self, line: &str) -> Option<String> {
        self.read_value(line.rsplit(' ').next()?.parse().ok()?)
    }
}

impl SlurmRequest {
    /// Parses the words and the input of a request.
    ///
    /// # Errors
    /// Fails if this site does not understand the request.
    pub(super) fn parse_request(words: &[OsString], input: &[u8]) -> Result<Self, String> {
        let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
        let verb = words.and_then(|words| parse_verb(words.get(3..)?, RequestReader(input)));
        verb.map(|verb| Self { verb })
            .ok_or_else(|| "a request that cannot be read".to_owned())
    }

    /// Carries the request out in the world.
    pub(super) fn carry_out(
        &self,
        world: &mut SimulatedWorld,
        site: SiteIndex,
        idle: Option<u32>,
        kill_switch: &KillSwitch,
    ) -> Result<String, SiteError> {
        match &self.verb {
            SlurmRequestVerb::Describe => Ok(world.slurm_config(site)),
            SlurmRequestVerb::Status(tags, asks) => {
                Ok(world.slurm_status(site, tags, asks.queue, asks.load.then_some(idle)))
            }
            SlurmRequestVerb::Submit(order) => {
                let number = world.submit(site, order)?.lrm_id;
                Ok(format!(
                    "number {}\n",
                    number.as_str().split('.').next().unwrap_or_default()
                ))
            }
            SlurmRequestVerb::Find(tag) => Ok(world.slurm_find(site, *tag)),
            SlurmRequestVerb::Gate(tag, decision) => {
                decide_gate(world, site, *tag, decision, kill_switch)
            }
            SlurmRequestVerb::Cancel(tag) => {
                let state = world.decide_gate(site, *tag, &GateDecision::Void)?;
                world.cancel(site, *tag);
                Ok(format_gate_state(state))
            }
            SlurmRequestVerb::Withdraw(tag, number) => {
                let name = world.sites()[site.index()].name().clone();
                let id = LrmId::new(&format!("{number}.{name}"));
                let id = id.map_err(|error| SiteError::Refused(error.to_string()))?;
                world.withdraw(site, *tag, &id);
                Ok(String::new())
            }
            SlurmRequestVerb::Remove(tag) => {
                world.remove_attempt(site, *tag).map(|()| String::new())
            }
            SlurmRequestVerb::List => Ok(world.slurm_list(site)),
            // Most clusters say so: "Slurm accounting storage is disabled".
            SlurmRequestVerb::Accounts => Ok("unkept here\n".to_owned()),
        }
    }
}

fn format_gate_state(state: GateState) -> String {
    let word = if state == GateState::Opened {
        "go"
    } else {
        "void"
    };
    format!("verdict {word}\n")
}

fn decide_gate(
    world: &mut SimulatedWorld,
    site: SiteIndex,
    tag: AttemptTag,
    decision: &GateDecision,
    kill_switch: &KillSwitch,
) -> Result<String, SiteError> {
    let state = world.decide_gate(site, tag, decision)?;
    if let GateDecision::Go(go) = decision
        && state == GateState::Opened
        && world.awaits_gates(tag, go)
    {
        kill_switch.count_gate();
    }
    Ok(format_gate_state(state))
}

fn parse_verb(words: &[&str], input: RequestReader<'_>) -> Option<SlurmRequestVerb> {
    Some(match *words.first()? {
        "describe" => SlurmRequestVerb::Describe,
        "status" => SlurmRequestVerb::Status(
            parse_tags(input)?,
            SlurmStatusParts {
                queue: words.contains(&"queue"),
                load: words.contains(&"load"),
            },
        ),
        "submit" => SlurmRequestVerb::Submit(Box::new(parse_submit_request(
            parse_tag(words)?,
            words.get(5..)?,
            input,
        )?)),
        "find" => SlurmRequestVerb::Find(parse_tag(words)?),
        "gate" if words.get(2) == Some(&"void") => {
            SlurmRequestVerb::Gate(parse_tag(words)?, GateDecision::Void)
        }
        "gate" => SlurmRequestVerb::Gate(parse_tag(words)?, GateDecision::Go(parse_go(input)?)),
        "cancel" => SlurmRequestVerb::Cancel(parse_tag(words)?),
        "withdraw" => SlurmRequestVerb::Withdraw(parse_tag(words)?, words.get(2)?.parse().ok()?),
        "remove" => SlurmRequestVerb::Remove(parse_tag(words)?),
        "list" => SlurmRequestVerb::List,
        "accounts" => SlurmRequestVerb::Accounts,
        _ => return None,
    })
}

fn parse_tag(words: &[&str]) -> Option<AttemptTag> {
    words.get(1)?.parse().ok()
}

fn parse_tags(mut input: RequestReader<'_>) -> Option<Vec<AttemptTag>> {
    let mut tags = Vec::new();
    loop {
        match input.read_line()?.split_once(' ') {
            Some(("tag", tag)) => tags.push(tag.parse().ok()?),
            _ => return Some(tags),
        }
    }
}

/// Parses the request of an attempt, as `sbatch` and the wrapper get it.
fn parse_submit_request(
    tag: AttemptTag,
    options: &[&str],
    mut input: RequestReader<'_>,
) -> Option<AttemptSubmitRequest> {
    let split = options
        .iter()
        .map(|option| option.split_once('=').unwrap_or((option, "")));
    let options: BTreeMap<&str, &str> = split.collect();
    let mut files: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    loop {
        let line = input.read_line()?;
        match line.split_once(' ') {
            Some(("text", text)) => {
                let (name, lines) = text.rsplit_once(' ')?;
                let text = input.read_value(lines.parse().ok()?)? + "\n";
                files.insert(name, text.into_bytes());
            }
            Some(("file", file)) => {
                let (name, length) = file.rsplit_once(' ')?;
                files.insert(name, input.read_bytes(length.parse().ok()?)?.to_vec());
            }
            _ => break,
        }
    }
    let mut order = parse_parameters(tag, RequestReader(files.get("params")?))?;
    order.resources = Resources::processors(options.get("--ntasks")?.parse().ok()?);
    if let Some(begin) = options.get("--begin") {
        let seconds = begin.strip_prefix("now+")?.strip_suffix("seconds")?;
        order.begin_in = DurationMs::from_secs(seconds.parse().ok()?);
    }
    let inputs = files
        .get("inputs")
        .map(|list| parse_inputs(RequestReader(list)));
    order.inputs = inputs.unwrap_or(Some(Vec::new()))?;
    Some(order)
}

fn parse_parameters(
    tag: AttemptTag,
    mut params: RequestReader<'_>,
) -> Option<AttemptSubmitRequest> {
    let mut executable = String::new();
    let mut arguments = Vec::new();
    let mut lists_hosts = false;
    let mut hold_max = DurationMs::ZERO;
    let mut wall_time = DurationMs::ZERO;
    loop {
        let (key, rest) = params.read_line()?.split_once(' ')?;
        match key {
            "hold_s" => hold_max = DurationMs::from_secs(rest.parse().ok()?),
            "wall_s" => wall_time = DurationMs::from_secs(rest.parse().ok()?),
            "hosts" => lists_hosts = true,
            "exe" => executable = params.read_value_after(rest)?,
            "arg" => arguments.push(Arc::from(params.read_value_after(rest)?)),
            "dir" | "setup" | "env" => drop(params.read_value_after(rest)?),
            "end" => break,
            _ => {}
        }
    }
    let program = Program {
        executable: ExecutableSource::AtSite(executable.into()),
        arguments,
        environment: BTreeMap::new(),
        directory: None,
        setup: Vec::new(),
    };
    let plain = AttemptSubmitRequest::with_one_processor(tag, program, wall_time);
    Some(AttemptSubmitRequest {
        hold_max,
        lists_hosts,
        ..plain
    })
}

/// Parses the contents that a wrapper puts in place. Their size is not part of the request.
fn parse_inputs(mut list: RequestReader<'_>) -> Option<Vec<(Content, RelPath)>> {
    let mut inputs = Vec::new();
    loop {
        let line = list.read_line()?;
        let Some(lengths) = line.strip_prefix("input ") else {
            return Some(inputs);
        };
        let mut lengths = lengths.split(' ').skip(1).map(str::parse);
        let source = lengths.next()?.ok()?;
        let target = lengths.next()?.ok()?;
        let source = list.read_value(source)?;
        let target = list.read_value(target)?;
        let digest: Digest = source.rsplit('/').next()?.parse().ok()?;
        let content = Content {
            digest,
            size: Bytes(0),
        };
        inputs.push((content, RelPath::new(&target).ok()?));
    }
}

fn parse_go(mut input: RequestReader<'_>) -> Option<GoDecision> {
    let mut fields = BTreeMap::new();
    let mut peers = Vec::new();
    while let Some(line) = input.read_line() {
        match line.split_once(' ') {
            Some(("peer", rest)) => peers.push(parse_peer(rest)?),
            Some((key, value)) => drop(fields.insert(key, value.parse::<u64>().ok()?)),
            None => {}
        }
    }
    Some(GoDecision {
        round: Round(u32::try_from(*fields.get("round")?).ok()?),
        epoch: Epoch(*fields.get("epoch")?),
        start_at: Timestamp(*fields.get("start_at")?),
        start_by: Timestamp(*fields.get("start_by_ms")?),
        rank: ComponentIndex(u32::try_from(*fields.get("rank")?).ok()?),
        peers,
    })
}

fn parse_peer(line: &str) -> Option<RoundPeer> {
    let mut words = line.split(' ').skip(1);
    let attempt = words.next()?;
    let site = words.next()?;
    let processors = words.next()?;
    Some(RoundPeer {
        attempt: Attempt(attempt.parse().ok()?),
        site: SiteName::new(site).ok()?,
        host: words.next().unwrap_or_default().to_owned(),
        processors: processors.parse().ok()?,
    })
}
