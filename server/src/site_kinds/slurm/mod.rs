//! Sites of the kind `slurm`: clusters under Slurm, here or over SSH.

mod examine;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cospan_domain::acquisition::PartitionOptionPrefixes;
use cospan_domain::units::DurationMs;
use cospan_sites::exec::CommandExecutor;
use cospan_sites::exec::child::ChildProcessExecutor;
use cospan_sites::files::RootedFiles;
use cospan_sites::port::SiteError;
use cospan_sites::slurm_site::{LANES, SELDOM, SlurmSite, SlurmSiteConfig};
use cospan_sites::wrapper::parameters::SlowPollTiming;

use super::site_inputs::{MadeSite, SiteInputs, SiteRoot, absolute_path};
use super::{SiteExaminer, SiteKindAdapter, can_reserve};
use crate::config::sections::{Site as Section, SiteAcquisition};

pub(super) struct SlurmKind;

impl SiteKindAdapter for SlurmKind {
    fn settle_time(&self) -> DurationMs {
        DurationMs::from_secs(50)
    }

    fn gate_lead(&self) -> DurationMs {
        DurationMs(1_500)
    }

    fn slow_polls(&self) -> Option<SlowPollTiming> {
        Some(SELDOM)
    }

    fn partition_options(&self) -> Option<PartitionOptionPrefixes> {
        Some(LANES)
    }

    fn reserves_by_default(&self) -> bool {
        false
    }

    fn is_of_this_machine(&self) -> bool {
        false
    }

    fn given_options(&self, section: &Section) -> Vec<&'static str> {
        let options = [
            ("ssh", section.ssh.is_some()),
            ("ssh_config", section.ssh_config.is_some()),
            ("slurm_conf", section.slurm_conf.is_some()),
            ("partition", section.partition.is_some()),
            ("account", section.account.is_some()),
            ("qos", section.qos.is_some()),
            ("constraint", section.constraint.is_some()),
            ("reservation", section.reservation.is_some()),
            ("acquisition", section.acquisition != SiteAcquisition::Auto),
            ("queues", !section.queues),
        ];
        let given = options.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(key, _)| key).collect()
    }

    fn command_over_ssh(&self) -> Option<&'static str> {
        Some("sbatch")
    }

    fn remote_source_files(
        &self,
        inputs: &SiteInputs<'_>,
        section: &Section,
        exec: Arc<dyn CommandExecutor>,
    ) -> Result<Arc<dyn RootedFiles>, SiteError> {
        let slurm = slurm_config(section, section.root.clone(), inputs.agent.clone());
        SlurmSite::remote_source_files(&slurm, exec)
    }

    fn make_site(&self, inputs: &SiteInputs<'_>, section: &Section) -> Result<MadeSite, SiteError> {
        let root = absolute_path(&section.root);
        let mut slurm = slurm_config(section, root, inputs.agent.clone());
        slurm.ping = inputs.config.sites.ping.clone();
        slurm.query = section
            .query_timeout
            .unwrap_or(inputs.config.sites.query_timeout);
        slurm.deadline = slurm.deadline.max(slurm.query);
        slurm.seal = inputs.seal.clone();
        slurm.owner = Some(inputs.instance);
        slurm.data_directory = absolute_path(inputs.data);
        let made = match inputs.ways.get(&section.name) {
            Some(exec) => {
                slurm.neighbours = inputs.roots.clone();
                slurm.sources = inputs.sources.clone();
                SlurmSite::with_remote_root(slurm, exec.clone())?
            }
            None => {
                slurm.neighbours = inputs.neighbour_roots(&section.name);
                let exec = ChildProcessExecutor::with_process_environment();
                SlurmSite::new(slurm, Arc::new(exec))?
            }
        };
        let site = Arc::new(made);
        Ok(MadeSite {
            root: Arc::new(SlurmRoot(site.clone())),
            site,
        })
    }

    fn examiner(&self) -> Option<&'static dyn SiteExaminer> {
        Some(&examine::SlurmExaminer)
    }
}

struct SlurmRoot(Arc<SlurmSite>);

#[async_trait(?Send)]
impl SiteRoot for SlurmRoot {
    async fn make_root(&self) -> Result<(), SiteError> {
        self.0.make_root().await
    }

    async fn take_root(&self) -> Result<(), SiteError> {
        self.0.take_root().await
    }
}

/// Converts the section of a cluster into the settings of its adapter.
fn slurm_config(section: &Section, root: PathBuf, agent: Vec<OsString>) -> SlurmSiteConfig {
    let mut slurm =
        SlurmSiteConfig::new(section.name.clone(), root, section.total_resources(), agent);
    slurm.labels = section.labels.clone();
    slurm.slurm_conf = section.slurm_conf.clone();
    slurm.partition = section.partition.clone();
    slurm.account = section.account.clone();
    slurm.qos = section.qos.clone();
    slurm.constraint = section.constraint.clone();
    slurm.reservation = section.reservation.clone();
    slurm.reservations = can_reserve(section);
    slurm.queues = section.has_queue();
    slurm.queues_only = section.acquisition == SiteAcquisition::Queued;
    slurm
}
