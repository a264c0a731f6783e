//! Copies that fail again and again: who is blamed, what is discarded, what can be resumed, how
//! long nobody tries, and when those who need one are told.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use cospan_domain::ids::SiteName;
use cospan_domain::transfer::command::{CopyCommand, Seen, StartAnswer};
use cospan_domain::transfer::decide::decide;
use cospan_domain::transfer::event::Blame;
use cospan_domain::transfer::evolve::evolve;
use cospan_domain::transfer::parameters::CopyParameters;
use cospan_domain::transfer::place::FilePlace;
use cospan_domain::transfer::state::{CopyPhase, CopyRecord, Nonce, Source};
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{NOW, content, site};

/// Tries of one case.
const TRIES: u64 = 8;
/// Longer than anybody waits between two tries.
const LONG: DurationMs = DurationMs(1_000_000);
/// From the third failure on the source is blamed for what nobody can explain, and those who
/// need it are told if it is the destination's.
const MANY: u32 = 3;

/// What is plainly so.
#[derive(Debug, Default)]
struct Plain {
    tries: u32,
    destination: u32,
    excluded: BTreeSet<SiteName>,
    leftovers: BTreeSet<Nonce>,
    resumed: Option<(SiteName, Nonce)>,
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let problem = failing(chance).err();
    problem.into_iter().map(|problem| format!("a copy fails: {problem:#}")).collect()
}

fn failing(chance: &mut StdRng) -> Result<()> {
    let (parameters, mut now) = (CopyParameters::default(), NOW);
    let mut record = CopyRecord::new(content(7), SiteName::new("delft")?);
    ensure!(record.is_gone(), "nothing is left of one that never was");
    let mut plain = Plain::default();
    let tell = |record: &mut CopyRecord, command: CopyCommand, now| -> Result<()> {
        let events = decide(record, &parameters, command, now)?;
        events.iter().for_each(|event| evolve(record, event));
        Ok(())
    };
    tell(&mut record, CopyCommand::Need, now)?;
    for number in 1..=TRIES {
        now = now + LONG;
        let source = Source { site: site(chance)?, place: FilePlace::Store(record.content.digest) };
        let drawn = Nonce(number);
        let at = source.site.clone();
        let begun = tell(&mut record, CopyCommand::Begin { source, nonce: drawn }, now);
        if plain.excluded.contains(&at) {
            ensure!(begun.is_err(), "{at} failed, and is tried again before others");
            continue;
        }
        begun?;
        let nonce = match plain.resumed.take() {
            Some((from, nonce)) if from == at => nonce,
            other => {
                plain.leftovers.extend(other.map(|(_, nonce)| nonce));
                drawn
            }
        };
        let answer = StartAnswer::Taken;
        tell(&mut record, CopyCommand::StartAnswered { nonce, answer }, now)?;
        ensure!(!record.is_gone() && !record.is_ready(), "it is under way: {record:?}");
        let blames = [Blame::Process, Blame::Process, Blame::Source, Blame::Destination];
        let blame = blames[chance.random_range(0..blames.len())];
        let seen = Seen::Failed { blame, detail: "it failed".into() };
        tell(&mut record, CopyCommand::Observed { nonce, seen }, now)?;
        let given_up = plain.fail(blame, at, nonce);
        plain.check(&record, &parameters, nonce, given_up, now)?;
        if chance.random_bool(0.3) {
            plain.leftovers.clear();
            for nonce in record.leftovers.keys().copied().collect::<Vec<_>>() {
                tell(&mut record, CopyCommand::DiscardConfirmed { nonce }, now)?;
            }
        }
    }
    Ok(())
}

impl Plain {
    /// Whether those who need it are told, and whom it is laid on. Then it begins afresh.
    fn fail(&mut self, blame: Blame, at: SiteName, nonce: Nonce) -> (bool, Blame) {
        self.tries += 1;
        let blame = match blame {
            Blame::Process if self.tries >= MANY => Blame::Source,
            other => other,
        };
        match blame {
            Blame::Process => self.resumed = Some((at, nonce)),
            Blame::Source => {
                self.excluded.insert(at);
                self.leftovers.insert(nonce);
            }
            Blame::Destination => {
                self.destination += 1;
                self.leftovers.insert(nonce);
            }
        }
        let told = blame == Blame::Destination && self.destination >= MANY;
        if told {
            self.destination = 0;
            self.excluded.clear();
        }
        (told, blame)
    }

    fn check(
        &self,
        record: &CopyRecord,
        parameters: &CopyParameters,
        nonce: Nonce,
        (told, blame): (bool, Blame),
        now: Timestamp,
    ) -> Result<()> {
        let waits = match blame {
            Blame::Source => now,
            _ => now + parameters.wait(self.tries, nonce.0),
        };
        let trouble = &record.trouble;
        let CopyPhase::Waiting { not_before, resume, given_up, .. } = &record.phase else {
            anyhow::bail!("it waits for the next try: {record:?}")
        };
        let leftovers = record.leftovers.keys().copied().collect::<BTreeSet<_>>();
        let resumed = resume.as_ref().map(|order| (order.source.site.clone(), order.nonce));
        let right = trouble.tries == self.tries
            && trouble.destination == self.destination
            && trouble.excluded == self.excluded
            && trouble.at_destination == (blame == Blame::Destination)
            && trouble.last_error.as_deref() == Some("it failed")
            && leftovers == self.leftovers
            && resumed == self.resumed
            && (*not_before, *given_up) == (waits, told);
        ensure!(right, "{record:?}, not {self:?}, until {waits:?}, told: {told}");
        Ok(())
    }
}
