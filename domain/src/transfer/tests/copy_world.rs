//! A copy against a site that loses, repeats and delays what is said: whatever
//! happens, nothing is left at the site without a record, and it comes to rest.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::transfer::copy_event::CopyEventKind;

/// What is at the site.
#[derive(Debug, Clone, Default)]
struct CopySite {
    content: bool,
    tries: BTreeMap<TryNonce, PartialData>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum PartialData {
    Running,
    Stopped,
    Failed(TryFaultSide),
}

#[derive(Debug, Clone)]
enum CopyStep {
    Need,
    Release,
    Forward(u64),
    Back(u64),
    /// Performs one of the due effects.
    Perform {
        which: prop::sample::Index,
        reply: EffectReply,
    },
    /// Something said before is said again.
    Repeat(prop::sample::Index),
    /// The site loses content that was ready, and says so when asked.
    Lose,
    /// A process at the site ends.
    End {
        which: prop::sample::Index,
        how: TransferEnd,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum EffectReply {
    Arrives,
    Lost,
    /// The order did not get there, and we know it.
    NotDone,
}

#[derive(Debug, Clone, Copy)]
enum TransferEnd {
    Completes,
    Fails(TryFaultSide),
}

struct CopyWorld {
    bench: CopyTestBench,
    site: CopySite,
    said: Vec<CopyCommand>,
    drawn: u64,
}

impl CopyWorld {
    fn new() -> Self {
        Self {
            bench: CopyTestBench::new(),
            site: CopySite::default(),
            said: Vec::new(),
            drawn: 0,
        }
    }

    fn record_command(&mut self, command: CopyCommand) {
        self.said.push(command.clone());
        let _ = self.bench.apply_command(command);
    }

    fn apply_step(&mut self, step: &CopyStep) {
        match step {
            CopyStep::Need => self.record_command(CopyCommand::Need),
            CopyStep::Release => self.record_command(CopyCommand::NoLongerNeeded),
            CopyStep::Forward(ms) => self.bench.now.0 += ms,
            CopyStep::Back(ms) => self.bench.now = self.bench.now - DurationMs(*ms),
            CopyStep::Perform { which, reply } => {
                let due = self.bench.due();
                if !due.is_empty() {
                    self.perform_effect(which.get(&due).clone(), *reply);
                }
            }
            CopyStep::Lose => {
                if let CopyPhase::Ready { nonce, .. } = self.bench.record.phase {
                    self.site.content = false;
                    self.record_command(CopyCommand::FoundMissing { nonce });
                }
            }
            CopyStep::Repeat(which) => {
                let old: Vec<_> = self
                    .said
                    .iter()
                    .filter(|c| is_site_answer(c))
                    .cloned()
                    .collect();
                if !old.is_empty() {
                    let _ = self.bench.apply_command(which.get(&old).clone());
                }
            }
            CopyStep::End { which, how } => {
                let running = |(nonce, data): (&TryNonce, &PartialData)| {
                    (*data == PartialData::Running).then_some(*nonce)
                };
                let running: Vec<_> = self.site.tries.iter().filter_map(running).collect();
                if !running.is_empty() {
                    self.end_transfer(*which.get(&running), *how);
                }
            }
        }
    }

    fn end_transfer(&mut self, nonce: TryNonce, how: TransferEnd) {
        match how {
            TransferEnd::Fails(blame) => {
                self.site.tries.insert(nonce, PartialData::Failed(blame));
            }
            TransferEnd::Completes => {
                self.site.content = true;
                self.site.tries.remove(&nonce);
            }
        }
    }

    fn perform_effect(&mut self, effect: CopyEffect, reply: EffectReply) {
        if reply == EffectReply::NotDone {
            if let CopyEffect::StartCopy(order) = effect {
                let answer = CopyStartAnswer::Refused("no room".into());
                self.record_command(CopyCommand::StartAnswered {
                    nonce: order.nonce,
                    answer,
                });
            }
            return;
        }
        let command = match effect {
            CopyEffect::Look => CopyCommand::Look,
            CopyEffect::ChooseSource { excluded, .. } => self.choose_source(&excluded),
            CopyEffect::StartCopy(CopyTry { nonce, .. }) => {
                if !self.site.content {
                    self.site.tries.insert(nonce, PartialData::Running);
                }
                CopyCommand::StartAnswered {
                    nonce,
                    answer: CopyStartAnswer::Taken,
                }
            }
            CopyEffect::WatchCopy(CopyTry { nonce, .. }) => CopyCommand::Observed {
                nonce,
                seen: self.sighting_of(nonce),
            },
            CopyEffect::StopCopy(CopyTry { nonce, .. }) => {
                self.site
                    .tries
                    .entry(nonce)
                    .and_modify(|data| *data = PartialData::Stopped);
                CopyCommand::StopConfirmed { nonce }
            }
            CopyEffect::DiscardPartial(CopyTry { nonce, .. }) => {
                self.site.tries.remove(&nonce);
                CopyCommand::DiscardConfirmed { nonce }
            }
            CopyEffect::CheckContent(nonce) if self.site.content => {
                CopyCommand::FoundThere { nonce }
            }
            CopyEffect::CheckContent(nonce) => CopyCommand::FoundMissing { nonce },
            CopyEffect::DeleteContent { nonce, .. } => {
                self.site.content = false;
                CopyCommand::DeleteConfirmed { nonce }
            }
        };
        if reply == EffectReply::Arrives {
            self.record_command(command);
        }
    }

    fn choose_source(&mut self, excluded: &BTreeSet<SiteName>) -> CopyCommand {
        self.drawn += 1;
        let sites = ["leiden", "utrecht"].map(try_source);
        match sites
            .into_iter()
            .find(|source| !excluded.contains(&source.site))
        {
            Some(source) => CopyCommand::Begin {
                source,
                nonce: TryNonce(self.drawn),
            },
            None => CopyCommand::NoSource {
                hopeless: true,
                detail: "all failed".into(),
            },
        }
    }

    fn sighting_of(&self, nonce: TryNonce) -> CopySighting {
        match self.site.tries.get(&nonce) {
            _ if self.site.content => CopySighting::Complete,
            None | Some(PartialData::Stopped) => CopySighting::Absent,
            // Stands still now and then.
            Some(PartialData::Running) => CopySighting::Running {
                unchanged_for: DurationMs(self.bench.now.0 % 7 * 20_000),
            },
            Some(PartialData::Failed(blame)) => CopySighting::Failed {
                blame: *blame,
                detail: "broke".into(),
            },
        }
    }

    fn check_state(&self) {
        let record = &self.bench.record;
        let traces = self.site.content || !self.site.tries.is_empty();
        assert!(
            !(traces && record.is_gone()),
            "left behind: {:?}",
            self.site
        );
        for nonce in self.site.tries.keys() {
            let latest = record
                .latest
                .as_ref()
                .is_some_and(|order| order.nonce == *nonce);
            let known = latest || record.leftovers.contains_key(nonce);
            assert!(known, "nobody will discard {nonce}: {record:?}");
        }
        assert!(
            self.site.content || !record.is_ready(),
            "ready, but not there"
        );
        assert_eq!(
            record.is_gone(),
            record == &CopyTestBench::new().record.needed_like(record)
        );
    }

    /// Everything works from now on, until nothing is left to do.
    fn run_to_rest(&mut self) {
        for _ in 0..500 {
            let running: Vec<_> = self
                .site
                .tries
                .iter()
                .filter(|(_, d)| **d == PartialData::Running)
                .map(|(n, _)| *n)
                .collect();
            running
                .into_iter()
                .for_each(|nonce| self.end_transfer(nonce, TransferEnd::Completes));
            match (self.bench.due().first().cloned(), self.bench.next_wake()) {
                (Some(effect), _) => self.perform_effect(effect, EffectReply::Arrives),
                (None, Some(wake)) => self.bench.now = wake,
                (None, None) => return,
            }
            self.check_state();
        }
        panic!(
            "does not come to rest: {:?} {:?}",
            self.bench.record,
            self.bench.due()
        );
    }
}

impl CopyRecord {
    /// An absent copy that was last needed when `other` was.
    fn needed_like(self, other: &CopyRecord) -> Self {
        Self {
            usage: other.usage,
            ..self
        }
    }
}

/// What a site says; needs come from records, which do not repeat themselves.
/// Replies that may come again. One that says that content is there holds for the moment
/// only: shells make one call at a time, so that none is late.
fn is_site_answer(command: &CopyCommand) -> bool {
    !matches!(
        command,
        CopyCommand::Need
            | CopyCommand::NoLongerNeeded
            | CopyCommand::Begin { .. }
            | CopyCommand::FoundThere { .. }
    )
}

fn any_blame() -> impl Strategy<Value = TryFaultSide> {
    prop_oneof![
        Just(TryFaultSide::Source),
        Just(TryFaultSide::Destination),
        Just(TryFaultSide::Process)
    ]
}

fn any_steps() -> impl Strategy<Value = Vec<CopyStep>> {
    let replies = prop_oneof![6 => Just(EffectReply::Arrives), 1 => Just(EffectReply::Lost), 1 => Just(EffectReply::NotDone)];
    let ends = prop_oneof![
        Just(TransferEnd::Completes),
        any_blame().prop_map(TransferEnd::Fails)
    ];
    let step = prop_oneof![
        2 => Just(CopyStep::Need),
        2 => Just(CopyStep::Release),
        4 => (0_u64..700_000).prop_map(CopyStep::Forward),
        1 => (0_u64..3_600_000).prop_map(CopyStep::Back),
        12 => (any::<prop::sample::Index>(), replies)
            .prop_map(|(which, reply)| CopyStep::Perform { which, reply }),
        2 => any::<prop::sample::Index>().prop_map(CopyStep::Repeat),
        1 => Just(CopyStep::Lose),
        3 => (any::<prop::sample::Index>(), ends).prop_map(|(which, how)| CopyStep::End { which, how }),
    ];
    prop::collection::vec(step, 0..150)
}

/// What has to be recorded before an effect may cease to be due.
fn settles(effect: &CopyEffect, what: &CopyEventKind) -> bool {
    match effect {
        CopyEffect::Look => matches!(
            what,
            CopyEventKind::CopyNeeded
                | CopyEventKind::StopDecided
                | CopyEventKind::CopyAbandoned
                | CopyEventKind::DeletionDecided
                | CopyEventKind::TryFailed { .. }
                | CopyEventKind::CopyCompleted
                | CopyEventKind::CopyStalled { .. }
                | CopyEventKind::CopyLost { .. }
        ),
        CopyEffect::ChooseSource { .. } => matches!(
            what,
            CopyEventKind::CopyOrdered(_)
                | CopyEventKind::SourceMissing { .. }
                | CopyEventKind::CopyReleased
        ),
        CopyEffect::StartCopy(_) => matches!(
            what,
            CopyEventKind::CopyStarted
                | CopyEventKind::TryFailed { .. }
                | CopyEventKind::CopyCompleted
                | CopyEventKind::StopDecided
        ),
        CopyEffect::WatchCopy(_) => matches!(
            what,
            CopyEventKind::TryFailed { .. }
                | CopyEventKind::CopyCompleted
                | CopyEventKind::CopyStalled { .. }
                | CopyEventKind::StopDecided
        ),
        CopyEffect::StopCopy(_) => {
            matches!(
                what,
                CopyEventKind::CopyStopped { .. } | CopyEventKind::CopyCompleted
            )
        }
        CopyEffect::DiscardPartial(order) => {
            matches!(what, CopyEventKind::PartialDiscarded { nonce } if *nonce == order.nonce)
        }
        CopyEffect::CheckContent(_) => matches!(
            what,
            CopyEventKind::DeletionRevoked
                | CopyEventKind::CopyDeleted
                | CopyEventKind::CopyReleased
        ),
        CopyEffect::DeleteContent { .. } => {
            matches!(what, CopyEventKind::CopyDeleted | CopyEventKind::CopyNeeded)
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_left_at_a_site_without_a_record(steps in any_steps()) {
        let mut world = CopyWorld::new();
        for step in &steps {
            world.apply_step(step);
            world.check_state();
        }
    }

    #[test]
    fn a_copy_that_is_needed_is_there_in_the_end_and_gone_once_it_is_not(steps in any_steps()) {
        let mut world = CopyWorld::new();
        steps.iter().for_each(|step| world.apply_step(step));
        world.record_command(CopyCommand::Need);
        world.run_to_rest();
        prop_assert!(world.bench.record.is_ready(), "{:?}", world.bench.record);
        world.record_command(CopyCommand::NoLongerNeeded);
        world.run_to_rest();
        prop_assert!(world.bench.record.is_gone(), "{:?}", world.bench.record);
        prop_assert!(!world.site.content && world.site.tries.is_empty(), "{:?}", world.site);
    }

    #[test]
    fn the_record_equals_its_journal(steps in any_steps()) {
        let mut world = CopyWorld::new();
        steps.iter().for_each(|step| world.apply_step(step));
        let mut replayed = CopyTestBench::new().record;
        world.bench.journal.iter().for_each(|event| CopyMachine::evolve(&mut replayed, event));
        prop_assert_eq!(replayed, world.bench.record);
    }

    #[test]
    fn an_effect_stays_due_until_its_outcome_is_recorded(steps in any_steps()) {
        let mut world = CopyWorld::new();
        for step in &steps {
            let before = world.bench.due();
            let seen = world.bench.journal.len();
            world.apply_step(step);
            if matches!(step, CopyStep::Back(_)) {
                continue;
            }
            let after = world.bench.due();
            let new = &world.bench.journal[seen..];
            for effect in before.iter().filter(|effect| !after.contains(effect)) {
                let settled = new.iter().any(|event| settles(effect, &event.what));
                prop_assert!(settled, "{:?} vanished after {:?}", effect, new);
            }
        }
    }

    #[test]
    fn repeating_what_a_site_said_changes_nothing(steps in any_steps()) {
        let mut world = CopyWorld::new();
        for step in &steps {
            let said = world.said.len();
            world.apply_step(step);
            let Some(command) = world.said.get(said).cloned() else { continue };
            // A look after a look may find the next thing that is due.
            if is_site_answer(&command) && command != CopyCommand::Look {
                let before = world.bench.record.clone();
                let again = world.bench.apply_command(command.clone()).unwrap_or_default();
                prop_assert!(again.is_empty(), "{:?} gave {:?}", command, again);
                prop_assert_eq!(&before, &world.bench.record);
            }
        }
    }
}
