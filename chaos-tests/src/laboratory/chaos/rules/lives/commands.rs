//! Commands of every kind that a job may be given, most of them about what it has.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::claim::ClaimTry;
use cospan_domain::ids::{Attempt, ComponentIndex, JobId, KeyName, LrmId, Round};
use cospan_domain::ids::{PolicyName, SiteName, TargetName};
use cospan_domain::job::command::{Inputs, JobCommand, Sight, Sighting, SubmitAnswer};
use cospan_domain::job::spec::{Priority, Request};
use cospan_domain::job::state::{Job, Phase, Run};
use cospan_domain::placed::{PlacedBy, Placement, Rule};
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{content, indexed, site};
use super::draws::{one_of, placement, seconds};

/// Who may be asked for something, at which time.
pub(super) struct Caller<'a> {
    pub(super) job: &'a Job,
    pub(super) now: Timestamp,
}

/// One of these components: now and then one that the job does not have.
fn component(chance: &mut StdRng, job: &Job) -> ComponentIndex {
    let count = job.components.len() as u32;
    let strange = chance.random_bool(0.03);
    ComponentIndex(if strange || count == 0 { count } else { chance.random_range(0..count) })
}

fn attempt(chance: &mut StdRng, job: &Job, index: ComponentIndex) -> Attempt {
    let latest = job.components.get(index.0 as usize).map_or(Attempt(1), |c| c.attempt);
    if chance.random_bool(0.93) { latest } else { Attempt(latest.0.saturating_sub(1)) }
}

fn key(chance: &mut StdRng) -> Option<KeyName> {
    KeyName::new(one_of(chance, &["alice", "carol"])).ok()
}

fn word(chance: &mut StdRng) -> Arc<str> {
    one_of(chance, &["it broke", "no room", "exit code 3"]).into()
}

impl Caller<'_> {
    /// Any command; `None` never: all names are valid.
    pub(super) fn any(&self, chance: &mut StdRng) -> Option<JobCommand> {
        match chance.random_range(0..20) {
            0..4 => self.told_by_sites(chance),
            4..8 => self.told_where_it_stands(chance),
            8..12 => Some(JobCommand::Look(self.sight(chance)?)),
            12..14 => self.claim(chance),
            14..17 => self.for_its_phase(chance),
            17 => self.by_people(chance),
            _ => self.by_others(chance),
        }
    }

    fn asked_at(&self, chance: &mut StdRng) -> Timestamp {
        Timestamp(self.now.0 - 1_000 * chance.random_range(0..3))
    }

    fn told_by_sites(&self, chance: &mut StdRng) -> Option<JobCommand> {
        let component = component(chance, self.job);
        let attempt = attempt(chance, self.job, component);
        let sighting = match chance.random_range(0..11) {
            0..2 => Sighting::Absent,
            2..4 => Sighting::Pending,
            4 => Sighting::Ready("other".into()),
            5..7 => Sighting::Begun("other".into()),
            7 => Sighting::Succeeded,
            8 => Sighting::Failed(word(chance)),
            9 => Sighting::Void,
            _ => Sighting::Vanished(word(chance)),
        };
        let asked_at = self.asked_at(chance);
        Some(JobCommand::Sighted { component, attempt, asked_at, sighting })
    }

    /// What is answered to an attempt that waits for this answer.
    fn told_where_it_stands(&self, chance: &mut StdRng) -> Option<JobCommand> {
        let component = component(chance, self.job);
        let attempt = attempt(chance, self.job, component);
        let run = self.job.components.get(component.0 as usize).map(|c| &c.run);
        let lrm_id = LrmId::new("21").ok()?;
        let answer = match chance.random_range(0..5) {
            0 => SubmitAnswer::Accepted(lrm_id.clone()),
            1 => SubmitAnswer::Refused(word(chance)),
            2 => SubmitAnswer::Full(word(chance)),
            3 => SubmitAnswer::NotSent(word(chance)),
            _ => SubmitAnswer::Unknown(seconds(chance, 5)),
        };
        let submitted = matches!(run, Some(Run::Intended { .. }));
        let uncertain = matches!(run, Some(Run::Uncertain { .. }));
        if submitted || uncertain && chance.random_bool(0.3) || chance.random_bool(0.05) {
            return Some(JobCommand::SubmitAnswered { component, attempt, answer });
        }
        let asked_at = self.asked_at(chance);
        if uncertain || chance.random_bool(0.1) {
            let found = chance.random_bool(0.2).then_some(lrm_id);
            return Some(JobCommand::LookUpAnswered { component, attempt, asked_at, found });
        }
        match run {
            Some(Run::Submitted { .. }) => {
                let sighting = one_of(chance, &[Sighting::Absent, Sighting::Pending]);
                Some(JobCommand::Sighted { component, attempt, asked_at, sighting })
            }
            Some(Run::AtGate { .. }) => {
                let open = chance.random_bool(0.6);
                Some(JobCommand::GateAnswered { component, attempt, open })
            }
            _ => self.told_by_sites(chance),
        }
    }

    pub(super) fn sight(&self, chance: &mut StdRng) -> Option<Sight> {
        let mut sight = Sight::default();
        let since = |chance: &mut StdRng| Timestamp(self.now.0 - 1_000 * chance.random_range(0..7));
        sight.inputs = match chance.random_range(0..6) {
            0..2 => Inputs::Unknown,
            2 => Inputs::Here,
            3 => Inputs::Expected(self.now + seconds(chance, 4)),
            _ => Inputs::Lost {
                detail: word(chance),
                components: indexed(self.job)
                    .map(|(index, _)| index)
                    .filter(|_| chance.random_bool(0.7))
                    .collect(),
                at_site: chance.random_bool(0.5),
            },
        };
        let silent = |chance: &mut StdRng| {
            let all = indexed(self.job).filter(|_| chance.random_bool(0.4));
            all.map(|(index, _)| index).collect::<Vec<_>>()
        };
        if chance.random_bool(0.3) {
            sight.unreachable =
                silent(chance).into_iter().map(|index| (index, since(chance))).collect();
        } else if chance.random_bool(0.2) {
            sight.removed =
                silent(chance).into_iter().map(|index| (index, since(chance))).collect();
        }
        if chance.random_bool(0.1) {
            sight.gives_way = Some((component(chance, self.job), JobId(77)));
        }
        let mostly = if chance.random_bool(0.7) { 1.0 } else { 0.6 };
        for (index, c) in indexed(self.job) {
            for at in 0..c.collected.len() as u32 {
                if chance.random_bool(mostly) {
                    sight.stranded.push((index, at, word(chance)));
                }
            }
        }
        Some(sight)
    }

    fn claim(&self, chance: &mut StdRng) -> Option<JobCommand> {
        let sure = if chance.random_bool(0.4) { 1.0 } else { 0.5 };
        let idle = indexed(self.job).filter(|(_, c)| matches!(c.run, Run::Idle));
        let start: Vec<ComponentIndex> =
            idle.map(|(index, _)| index).filter(|_| chance.random_bool(sure)).collect();
        let mut moves = Vec::new();
        for index in &start {
            if chance.random_bool(0.4) {
                moves.push((*index, self.placement(chance)?));
            }
        }
        let preempting = if chance.random_bool(0.3) { vec![JobId(5), JobId(6)] } else { vec![] };
        let stale = chance.random_bool(0.05);
        let round = Round(self.job.round.0 + u32::from(stale));
        let mut plan = ClaimTry { round, start, moves, preempting };
        let another = component(chance, self.job);
        if chance.random_bool(0.05) && !plan.start.contains(&another) {
            plan.start.push(another);
        }
        let sight = if chance.random_bool(0.6) { Sight::default() } else { self.sight(chance)? };
        Some(JobCommand::Claim(plan, sight))
    }

    fn placement(&self, chance: &mut StdRng) -> Option<Placement> {
        let total = self.job.spec.components.iter().map(|c| c.resources.processors).sum::<u32>();
        let flexible = matches!(self.job.spec.request, Request::Flexible(_));
        placement(chance, flexible.then_some(total))
    }

    /// What is most often told a job in its phase.
    fn for_its_phase(&self, chance: &mut StdRng) -> Option<JobCommand> {
        let component = component(chance, self.job);
        let output = chance.random_range(0..3);
        match self.job.phase {
            Phase::Queued { .. } => self.place(chance),
            Phase::Collecting { .. } => {
                let content = chance.random_bool(0.6).then(|| content(7));
                Some(match chance.random_bool(0.5) {
                    true => JobCommand::OutputRead { component, output, content },
                    false => JobCommand::OutputRegistered { component, output },
                })
            }
            Phase::Finished { .. } | Phase::Failed { .. } | Phase::Cancelled { .. } => {
                let target = TargetName::new(one_of(chance, &["mail", "pager"])).ok()?;
                let problem = chance.random_bool(0.5).then(|| word(chance));
                Some(JobCommand::EndTold { target, problem })
            }
            Phase::Placed { .. } => self.claim(chance),
            Phase::Running { .. } if chance.random_bool(0.6) => self.claim(chance),
            Phase::Aborting { .. } if chance.random_bool(0.4) => self.abandon(chance),
            Phase::Aborting { .. } => Some(self.charge_recorded(chance, component)),
            _ => Some(JobCommand::Look(Sight::default())),
        }
    }

    fn place(&self, chance: &mut StdRng) -> Option<JobCommand> {
        let total = self.job.spec.components.iter().map(|c| c.resources.processors).sum::<u32>();
        let flexible = matches!(self.job.spec.request, Request::Flexible(_));
        let parts = match chance.random_bool(0.9) {
            true if flexible => chance.random_range(1..=total.min(3)),
            true => self.job.spec.components.len() as u32,
            false => 2,
        };
        let missing = u32::from(chance.random_bool(0.2));
        let empty = chance.random_bool(0.4);
        let mut placements = Vec::new();
        for at in 0..parts {
            let rest = total.saturating_sub(parts - 1 + missing);
            let mut one = placement(chance, flexible.then_some(if at == 0 { rest } else { 1 }))?;
            if empty {
                one.sources.clear();
            }
            placements.push(one);
        }
        let policy = PolicyName::new("worst-fit").ok()?;
        let by = PlacedBy { policy, rule: Rule::MostLeft, refused: None };
        Some(JobCommand::Place { placements, by: chance.random_bool(0.5).then_some(by) })
    }

    fn by_people(&self, chance: &mut StdRng) -> Option<JobCommand> {
        let by = key(chance)?;
        let class = one_of(chance, &Priority::ALL);
        Some(match chance.random_range(0..8) {
            0 => JobCommand::SetPriority(class, by),
            1 => JobCommand::Freeze(by),
            2 => JobCommand::Thaw(by),
            3 => JobCommand::Hold(word(chance)),
            4 => JobCommand::Release(by),
            5 => JobCommand::Cancel(by),
            _ => return self.abandon(chance),
        })
    }

    fn by_others(&self, chance: &mut StdRng) -> Option<JobCommand> {
        let component = component(chance, self.job);
        let settle = vec![DurationMs(7_000); chance.random_range(0..3)];
        Some(match chance.random_range(0..8) {
            0..2 => JobCommand::Recover { settle },
            2 => JobCommand::Preempt { by: JobId(3) },
            3..5 => {
                let there = indexed(self.job).filter_map(|(_, c)| c.placement.as_ref());
                let mut sites: Vec<SiteName> = there.map(|p| p.site.clone()).collect();
                sites.push(site(chance).ok()?);
                JobCommand::LeaveSite(one_of(chance, &sites))
            }
            5 => JobCommand::Promote { to: one_of(chance, &Priority::ALL) },
            6 => JobCommand::GiveUpPlacement { tries: chance.random_range(1..9) },
            _ => self.charge_recorded(chance, component),
        })
    }

    fn charge_recorded(&self, chance: &mut StdRng, component: ComponentIndex) -> JobCommand {
        let owes = indexed(self.job).find_map(|(index, c)| Some((index, c.charge.as_ref()?)));
        let (component, owed) =
            owes.map_or((component, Attempt(1)), |(index, charge)| (index, charge.attempt));
        let attempt = if chance.random_bool(0.6) { owed } else { Attempt(owed.0 + 1) };
        JobCommand::ChargeRecorded { component, attempt }
    }

    fn abandon(&self, chance: &mut StdRng) -> Option<JobCommand> {
        let sites = [site(chance).ok()?, site(chance).ok()?];
        let silent: BTreeSet<SiteName> = sites.into_iter().collect();
        Some(JobCommand::Abandon { by: key(chance)?, silent })
    }
}
