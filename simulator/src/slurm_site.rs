//! A simulated site that is driven by the real adapter of Slurm: its commands and its wrappers'
//! files are answered from the world, and its calls are carried like those of other sites. Files of
//! the site bypass the adapter: in this world they have no bytes.

mod request;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cospan_domain::ids::{HostName, SiteName};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationUs;
use cospan_sites::exec::{
    CommandExecutor, CommandExit, CommandOutput, ExecCommand, ExecError, ProgramOrScript,
};
use cospan_sites::port::{
    Gate, Site, SiteCallKind, SiteCopies, SiteDescription, SiteError, SiteFiles, SiteMonitor,
    SiteQueue,
};
use cospan_sites::slurm_site::{SlurmSite, SlurmSiteConfig};

use super::fault_kinds::FaultKind;
use super::site::SimulatedSite;
use crate::world::SimulatedWorld;
use crate::world::slurm_output::ROOT;
use request::SlurmRequest;

/// A simulated site behind the adapter of Slurm.
pub(super) struct SimulatedSlurmSite {
    plain: SimulatedSite,
    slurm: SlurmSite,
}

impl SimulatedSlurmSite {
    /// Builds the site as the adapter sees it.
    ///
    /// # Errors
    /// Fails if the adapter rejects its configuration.
    pub(super) fn new(plain: SimulatedSite) -> Result<Self, SiteError> {
        let told = plain.world.read(|world| world.describe(plain.index));
        // The agent copies nothing here.
        let agent = vec!["/nowhere/agent".into()];
        let total = Resources::processors(told.total.processors);
        let mut config =
            SlurmSiteConfig::new(plain.name.clone(), PathBuf::from(ROOT), total, agent);
        config.labels = told.labels;
        config.queues = told.capabilities.queues;
        let slurm =
            SlurmSite::with_remote_root(config, Arc::new(SimulatedExecutor(plain.clone())))?;
        Ok(Self { plain, slurm })
    }
}

/// Runs in the world what the adapter asks for.
struct SimulatedExecutor(SimulatedSite);

impl fmt::Debug for SimulatedExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimulatedExec").field(&self.0.name).finish()
    }
}

fn failure_answer(error: SiteError) -> Result<String, ExecError> {
    let (kind, why) = match error {
        SiteError::Refused(why) | SiteError::Unfit(why) => ("refused", why),
        SiteError::SiteFull(why) => ("full", why),
        SiteError::OutOfOrder(why) => ("broken", why),
        SiteError::NotSent(why) => return Err(ExecError::NotStarted(why)),
        SiteError::LockedOut(why) => return Err(ExecError::LockedOut(why)),
        SiteError::OutcomeUnknown(why) => return Err(ExecError::PerhapsDone(why)),
    };
    Ok(format!("fail {kind} {why}\n"))
}

impl SimulatedExecutor {
    async fn answer_request(&self, asked: SlurmRequest) -> Result<String, SiteError> {
        let fate = self.0.call_faults.draw_fate();
        let call = asked.verb.call_kind();
        let pretended = asked.verb.pretended_answer();
        let idle = self.draw_wrong_idle(fate.fault, fate.dice, call);
        let kill_switch = self.0.kill_switch.clone();
        self.0
            .call_with_fate(
                fate,
                call,
                pretended,
                move |world: &mut SimulatedWorld, site| {
                    asked.carry_out(world, site, idle, &kill_switch)
                },
            )
            .await
    }

    /// Returns a wrong number of idle processors if the fault says so.
    fn draw_wrong_idle(
        &self,
        fault: Option<FaultKind>,
        dice: u64,
        call: SiteCallKind,
    ) -> Option<u32> {
        let site = self.0.index.index();
        let (total, idle) = self.0.world.read(|world| {
            let cluster = &world.sites()[site];
            (cluster.processors(), cluster.spare_processors())
        });
        let wrong = (dice % u64::from(total + 1)) as u32;
        let strikes = fault == Some(FaultKind::WrongIdle)
            && call == SiteCallKind::Status
            && idle != Some(wrong);
        strikes.then(|| {
            self.0
                .call_faults
                .count_fault(FaultKind::WrongIdle, call.as_str());
            wrong
        })
    }
}

#[async_trait]
impl CommandExecutor for SimulatedExecutor {
    async fn run(&self, command: ExecCommand) -> Result<CommandOutput, ExecError> {
        let ProgramOrScript::Script { words, .. } = &command.work else {
            return Err(ExecError::NotStarted("there is no such program".to_owned()));
        };
        let asked =
            SlurmRequest::parse_request(words, &command.input).map_err(ExecError::NotStarted)?;
        let stdout = match self.answer_request(asked).await {
            Ok(answer) => answer + "done\n",
            Err(error) => failure_answer(error)?,
        };
        Ok(CommandOutput {
            ended: CommandExit::Code(0),
            stdout: stdout.into_bytes(),
            stderr: Vec::new(),
        })
    }
}

#[async_trait]
impl SiteMonitor for SimulatedSlurmSite {
    async fn describe(&self) -> Result<SiteDescription, SiteError> {
        self.slurm.describe().await
    }

    async fn round_trip(&self, to: &HostName) -> Result<DurationUs, SiteError> {
        self.plain.round_trip(to).await
    }

    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.plain.changes()
    }
}

impl Site for SimulatedSlurmSite {
    fn name(&self) -> &SiteName {
        self.plain.name()
    }

    fn monitor(&self) -> &dyn SiteMonitor {
        self
    }

    fn queue(&self) -> &dyn SiteQueue {
        &self.slurm
    }

    fn gate(&self) -> &dyn Gate {
        &self.slurm
    }

    fn files(&self) -> &dyn SiteFiles {
        &self.plain
    }

    fn copies(&self) -> &dyn SiteCopies {
        &self.plain
    }
}
