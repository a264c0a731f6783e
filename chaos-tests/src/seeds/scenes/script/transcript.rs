//! What happens on a stage, in the order in which it does, a line each.

use std::cell::RefCell;
use std::collections::BTreeSet;

use cospan_actors::journal::JournalChange;
use cospan_actors::supervision::ActorId;
use cospan_domain::units::Timestamp;
use cospan_simulator::actor_lives::RecordedActorEvent;
use cospan_simulator::control_plane_run::SimEnvironment;
use cospan_simulator::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};

use super::super::stage::BEGINS;
use super::change_texts::{content_name, describe_change};

/// So many equal lines at equal intervals are written as one.
const LEAST_REGULAR: usize = 4;
/// Begins a line about an actor.
const ACTOR: &str = "actor ";

/// Something that happened: to whom, or to what, and what it was.
struct ToldLine {
    at: Timestamp,
    text: String,
}

/// Lines so far, and up to where the logs of the simulator are read.
pub(in crate::seeds::scenes) struct SceneTranscript {
    environment: SimEnvironment,
    shown_calls: BTreeSet<String>,
    state: RefCell<TranscriptState>,
}

#[derive(Default)]
struct TranscriptState {
    lines: Vec<ToldLine>,
    calls: usize,
    deeds: usize,
    lived: usize,
    /// Actors that died: only those are shown when they are built.
    died: BTreeSet<String>,
}

impl SceneTranscript {
    pub(super) fn of_environment(
        environment: SimEnvironment,
        shown_calls: BTreeSet<String>,
    ) -> Self {
        Self {
            environment,
            shown_calls,
            state: RefCell::default(),
        }
    }

    /// Reads the lives of actors of a new run from the start.
    pub(super) fn begin_run(&self) {
        let mut state = self.state.borrow_mut();
        state.lived = 0;
        state.died.clear();
    }

    /// Drops all lines so far but those about actors.
    pub(super) fn keep_actors(&self) {
        self.catch_up();
        let lines = &mut self.state.borrow_mut().lines;
        lines.retain(|line| line.text.starts_with(ACTOR));
    }

    /// Takes all lines as they are written: calls at equal intervals are one line, and so is what
    /// happens to one thing at one time.
    pub(super) fn take_lines(&self) -> Vec<String> {
        let lines = std::mem::take(&mut self.state.borrow_mut().lines);
        let mut written: Vec<ToldLine> = Vec::new();
        let mut rest = &lines[..];
        while let Some((line, behind)) = rest.split_first() {
            let count = count_regular(rest);
            let last = written.last_mut().filter(|last| last.at == line.at);
            if count >= LEAST_REGULAR {
                let every = rest[1].at.since(line.at);
                let text = format!("{}, every {every}, {count} times", line.text);
                written.push(ToldLine { at: line.at, text });
                rest = &rest[count..];
                continue;
            }
            match last.and_then(|last| append_to(&last.text, &line.text).map(|text| (last, text))) {
                Some((last, text)) => last.text = text,
                None => written.push(ToldLine {
                    at: line.at,
                    text: line.text.clone(),
                }),
            }
            rest = behind;
        }
        written
            .iter()
            .map(|line| format!("  {}  {}", time_of_scene(line.at), line.text))
            .collect()
    }

    /// Adds a line.
    pub(super) fn add_line(&self, at: Timestamp, text: &str) {
        let text = text.to_owned();
        self.state.borrow_mut().lines.push(ToldLine { at, text });
    }

    /// Adds a change that became durable, after all that happened until then.
    pub(in crate::seeds::scenes) fn add_change(&self, at: Timestamp, change: &JournalChange) {
        self.catch_up();
        for text in describe_change(change) {
            self.add_line(at, &text);
        }
    }

    /// Adds what happened in the world, to actors and between control plane and sites.
    pub(super) fn catch_up(&self) {
        for (at, text) in self.new_items() {
            self.add_line(at, &text);
        }
    }

    fn new_items(&self) -> Vec<(Timestamp, String)> {
        let mut state = self.state.borrow_mut();
        let mut items = Vec::new();
        let calls = self.environment.call_faults.recorded_calls();
        for called in &calls[state.calls..] {
            if self.shown_calls.contains(called.call) {
                items.push((called.at, format!("{}: {}", called.site, called.call)));
            }
        }
        state.calls = calls.len();
        self.environment.world.read(|world| {
            let deeds = world.ledger().entries();
            items.extend(deeds[state.deeds..].iter().filter_map(describe_deed));
            state.deeds = deeds.len();
        });
        let runs = self.environment.lives.run_records();
        let lived = runs.last().map_or(&[][..], |last| &last.lived[..]);
        for (at, event) in &lived[state.lived.min(lived.len())..] {
            let text = describe_actor(event, &mut state.died);
            items.extend(text.map(|text| (*at, text)));
        }
        state.lived = lived.len();
        items.sort_by_key(|(at, _)| *at);
        items
    }
}

/// Counts the lines at the front that say the same at equal intervals.
fn count_regular(lines: &[ToldLine]) -> usize {
    let same = lines.iter().take_while(|line| line.text == lines[0].text);
    let times: Vec<Timestamp> = same.map(|line| line.at).collect();
    let every = times.get(1).map(|second| second.since(times[0]));
    let Some(every) = every.filter(|every| every.0 > 0) else {
        return 1;
    };
    let steps = times.windows(2).map(|two| two[1].since(two[0]));
    1 + steps.take_while(|step| *step == every).count()
}

/// Appends what happened to the same thing, if it is the same.
fn append_to(before: &str, text: &str) -> Option<String> {
    let (subject, what) = text.split_once(": ")?;
    let so_far = before.strip_prefix(subject)?.strip_prefix(": ")?;
    Some(format!("{subject}: {so_far}; {what}"))
}

/// Formats a time as hours, minutes and seconds since the scene began.
pub(super) fn time_of_scene(at: Timestamp) -> String {
    let ms = at.since(BEGINS).0;
    let seconds = ms / 1_000;
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        ms % 1_000
    )
}

fn describe_deed(entry: &WorldLedgerEntry) -> Option<(Timestamp, String)> {
    let what = match entry.deed {
        WorldLedgerEvent::Began => "begins".to_owned(),
        WorldLedgerEvent::Exited(code) => format!("ends with code {code}"),
        WorldLedgerEvent::Terminated => "is ended".to_owned(),
        WorldLedgerEvent::WallTime => "is out of time".to_owned(),
        WorldLedgerEvent::KilledByNode => "dies with its node".to_owned(),
        WorldLedgerEvent::NotStarted => "does not start".to_owned(),
        _ => return None,
    };
    let tag = &entry.tag;
    let text = format!(
        "{}: payload {}.{}.{} {what}",
        entry.site, tag.job, tag.component, tag.attempt
    );
    Some((entry.at, text))
}

fn describe_actor(event: &RecordedActorEvent, died: &mut BTreeSet<String>) -> Option<String> {
    match event {
        RecordedActorEvent::Died(id) => {
            let actor = actor_name(id);
            died.insert(actor.clone());
            Some(format!("{ACTOR}{actor} dies"))
        }
        RecordedActorEvent::Built(id, _) => {
            let actor = actor_name(id);
            died.contains(&actor)
                .then(|| format!("{ACTOR}{actor} is built anew"))
        }
        RecordedActorEvent::Judged(id, verdict) => Some(format!(
            "{ACTOR}{} died too often: {verdict:?}",
            actor_name(id)
        )),
        RecordedActorEvent::Fatal(why) => Some(format!("the control plane gives up: {why}")),
        RecordedActorEvent::DiskFailed => Some("the disk fails".to_owned()),
        RecordedActorEvent::Planted(_) | RecordedActorEvent::Stalled(..) => None,
    }
}

fn actor_name(id: &ActorId) -> String {
    match id {
        ActorId::Transfer(digest, site) => {
            format!("transfer of {} to {site}", content_name(*digest))
        }
        other => other.to_string(),
    }
}
