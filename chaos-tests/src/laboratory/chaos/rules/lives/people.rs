//! What follows from every command: those of people, of the co-allocator and of the data
//! side have their rules here.

use std::collections::BTreeSet;

use cospan_domain::content::Content;
use cospan_domain::ids::{ComponentIndex, KeyName, Round, SiteName};
use cospan_domain::job::command::{JobCommand, Rejection};
use cospan_domain::job::event::Happened;
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::spec::{Priority, Request};
use cospan_domain::job::state::{AbortCause, AfterAbort, Collected, Component, Ending, Job, Phase};
use cospan_domain::placed::{PlacedBy, Placement};
use cospan_domain::units::{DurationMs, Timestamp};

use super::story::{AND, Story, asked, lives};

type Told = Result<(), Rejection>;

/// All that happens because of a command, or why nothing does.
pub(super) fn follows(
    job: &Job,
    parameters: &JobParameters,
    command: JobCommand,
    now: Timestamp,
) -> Result<Vec<Happened>, Rejection> {
    if job.held.is_some() && !works_on_held(&command) {
        return Err(Rejection::Stale);
    }
    let looks = matches!(command, JobCommand::Look(_));
    let mut story = Story { job: job.clone(), parameters, now, looks, events: Vec::new() };
    story.told(command)?;
    story.go_on();
    Ok(story.events)
}

/// How much happens without any command.
pub(super) fn follows_anyway(job: &Job, parameters: &JobParameters, now: Timestamp) -> usize {
    let mut story = Story { job: job.clone(), parameters, now, looks: false, events: Vec::new() };
    story.go_on();
    story.events.len()
}

/// Only people touch a held job, and what becomes of its last submissions is asked for.
fn works_on_held(command: &JobCommand) -> bool {
    use JobCommand::{Abandon, Cancel, Freeze, Recover, Release, Thaw};
    let by_people =
        matches!(command, Release(_) | Cancel(_) | Abandon { .. } | Freeze(_) | Thaw(_));
    by_people || matches!(command, Recover { .. })
}

impl Story<'_> {
    fn told(&mut self, command: JobCommand) -> Told {
        match command {
            JobCommand::Recover { settle } => self.recover(&settle),
            JobCommand::Look(sight) => self.look(&sight),
            JobCommand::Claim(plan, sight) => self.claim(plan, &sight),
            JobCommand::Preempt { by } => self.preempt(by),
            JobCommand::LeaveSite(site) => self.leave_site(&site),
            JobCommand::Place { placements, by } => self.place(placements, by),
            JobCommand::Cancel(by) => self.cancel(by),
            JobCommand::Abandon { by, silent } => self.abandon(by, &silent),
            JobCommand::SubmitAnswered { component, attempt, answer } => {
                self.submitted(component, attempt, answer)
            }
            JobCommand::LookUpAnswered { component, attempt, asked_at, found } => {
                self.looked_up(component, attempt, asked_at, found)
            }
            JobCommand::Sighted { component, attempt, asked_at, sighting } => {
                self.sighted(component, attempt, asked_at, sighting)
            }
            JobCommand::GateAnswered { component, attempt, open } => {
                self.gate_answered(component, attempt, open)
            }
            JobCommand::OutputRead { component, output, content } => {
                self.output_read(component, output, content)
            }
            simple => {
                let what = self.at_once(simple)?;
                self.tell(what);
                Ok(())
            }
        }
    }

    /// Commands from which one thing follows, or nothing.
    fn at_once(&self, command: JobCommand) -> Result<Happened, Rejection> {
        let job = &self.job;
        let over = job.phase.kind().is_final();
        let waits = matches!(job.phase, Phase::Queued { .. });
        let if_so = |so: bool, what| if so { Ok(what) } else { Err(Rejection::Stale) };
        let unless = |so_already: bool, what| match (over, so_already) {
            (true, _) => Err(Rejection::Ended),
            (false, true) => Err(Rejection::AlreadySo),
            (false, false) => Ok(what),
        };
        match command {
            JobCommand::SetPriority(to, by) => {
                let by = Some(by);
                unless(job.priority == to, Happened::PriorityChanged { to, by })
            }
            JobCommand::Freeze(by) => unless(job.frozen_by.is_some(), Happened::JobFrozen { by }),
            JobCommand::Thaw(by) => unless(job.frozen_by.is_none(), Happened::JobThawed { by }),
            JobCommand::Hold(reason) => unless(false, Happened::JobHeld { reason }),
            JobCommand::Release(by) => unless(job.held.is_none(), Happened::JobReleased { by }),
            JobCommand::Promote { to } => {
                // The classes at both ends know no promotion.
                let above = match job.priority {
                    Priority::Low => Priority::High,
                    Priority::High => Priority::SuperHigh,
                    _ => return Err(Rejection::AlreadySo),
                };
                if_so(waits && to == above, Happened::PriorityChanged { to, by: None })
            }
            JobCommand::GiveUpPlacement { tries } => {
                let reason = format!("{tries} tries{AND}max_placement_tries").into();
                if_so(waits, Happened::JobFailed { reason })
            }
            JobCommand::ChargeRecorded { component, attempt } => {
                let charge = self.part(component).and_then(|c| c.charge.as_ref());
                let so = charge.is_some_and(|charge| charge.attempt == attempt);
                if_so(so, Happened::ChargeRecorded { component })
            }
            JobCommand::OutputRegistered { component, output } => {
                let state = self.output(component, output);
                let so = state.is_some_and(|state| state.content.is_some() && !state.done);
                if_so(so, Happened::OutputCollected { component, output })
            }
            JobCommand::EndTold { target, problem } => {
                let told = job.told.contains(&target) || !job.spec.run.notify.contains(&target);
                if_so(over && !told, Happened::EndTold { target, problem })
            }
            _ => Err(Rejection::Stale),
        }
    }

    /// Outputs are looked at while they are collected.
    fn output(&self, component: ComponentIndex, output: u32) -> Option<&Collected> {
        let here = matches!(self.job.phase, Phase::Collecting { .. });
        self.part(component).filter(|_| here)?.collected.get(output as usize)
    }

    fn output_read(
        &mut self,
        component: ComponentIndex,
        output: u32,
        content: Option<Content>,
    ) -> Told {
        let unread = self.output(component, output).filter(|state| state.content.is_none());
        unread.ok_or(Rejection::Stale)?;
        let Some(content) = content else {
            let asked = asked(&self.job, component).and_then(|c| c.outputs.get(output as usize));
            let path = asked.map(|output| output.path.to_string()).unwrap_or_default();
            let why = AbortCause::Application { component, detail: path.into() };
            self.set_back(Some(component), why);
            return Ok(());
        };
        self.tell(Happened::OutputFound { component, output, content });
        Ok(())
    }

    /// A job is placed as a whole, is expected to start when the last of its input is there,
    /// and is claimed at once if nothing is on its way.
    fn place(&mut self, placements: Vec<Placement>, by: Option<PlacedBy>) -> Told {
        let waits = matches!(self.job.phase, Phase::Queued { .. }) && self.job.frozen_by.is_none();
        if !waits || !is_whole(&self.job, &placements) {
            return Err(Rejection::Stale);
        }
        let longest = placements.iter().map(|p| p.transfer_time).max().unwrap_or(DurationMs(0));
        let nothing_comes = placements.iter().all(|p| p.sources.is_empty());
        let (round, start_estimate) = (Round(self.job.round.0 + 1), self.now + longest);
        self.tell(Happened::JobPlaced { round, placements, start_estimate, by });
        if nothing_comes || longest.0 == 0 {
            self.tell(Happened::ClaimBegun);
        }
        Ok(())
    }

    fn cancel(&mut self, by: KeyName) -> Told {
        if self.job.held.is_some() {
            self.tell(Happened::JobReleased { by: by.clone() });
        }
        let cancel = AfterAbort::Cancel { by: by.clone() };
        self.tell(match &self.job.phase {
            Phase::Cancelled { .. } | Phase::Aborting { then: AfterAbort::Cancel { .. }, .. } => {
                return Err(Rejection::AlreadySo);
            }
            Phase::Finished { .. } | Phase::Failed { .. } => return Err(Rejection::Ended),
            Phase::Queued { .. } | Phase::Placed { .. } => Happened::JobCancelled { by },
            Phase::Aborting { .. } => Happened::AbortRedirected { then: cancel },
            _ => Happened::RoundAborted { why: AbortCause::Cancelled, then: cancel },
        });
        Ok(())
    }

    /// Cancels, and gives up what may live where nothing is heard. Whoever insists answers
    /// for it.
    fn abandon(&mut self, by: KeyName, silent: &BTreeSet<SiteName>) -> Told {
        let lost = |c: &Component| {
            let site = c.placement.as_ref().map(|placement| &placement.site);
            lives(&c.run) && site.is_some_and(|site| silent.contains(site))
        };
        let parts = self.indexes().into_iter();
        let lost: Vec<ComponentIndex> =
            parts.filter(|index| self.part(*index).is_some_and(lost)).collect();
        match self.cancel(by.clone()) {
            Err(Rejection::AlreadySo) if !lost.is_empty() => {
                self.tell(Happened::AbortRedirected { then: AfterAbort::Cancel { by } });
            }
            answer => answer?,
        }
        lost.into_iter().for_each(|index| self.is_over(index, Ending::Abandoned));
        Ok(())
    }
}

/// Every component has its place, or all processors of a flexible request have. Another split
/// would forget which site the last one is charged to.
fn is_whole(job: &Job, placements: &[Placement]) -> bool {
    let Request::Flexible(_) = job.spec.request else {
        return placements.len() == job.spec.components.len();
    };
    let given: u32 = placements.iter().filter_map(|placement| placement.share).sum();
    let total: u32 = job.spec.components.iter().map(|c| c.resources.processors).sum();
    given == total && job.components.iter().all(|c| c.charge.is_none())
}
