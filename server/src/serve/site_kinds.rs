//! The kinds of site: one line each, and the construction of a site from its configuration.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::acquisition::PartitionOptionPrefixes;
use cospan_domain::ids::{InstanceId, SiteName};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;
use cospan_sites::exec::child::ChildProcessExecutor;
use cospan_sites::exec::ssh::SshExecutor;
use cospan_sites::files::SourcesBySite;
use cospan_sites::files::fetch::{FetchingSite, relay_root};
use cospan_sites::local_site::machine::MachineResources;
use cospan_sites::local_site::{LocalSite, LocalSiteConfig};
use cospan_sites::port::{Site, SiteError};
use cospan_sites::slurm_site::{LANES, SELDOM, SlurmSite};
use cospan_sites::wrapper::attempt_words::AttemptAuthenticator;
use tracing::{info, warn};

use super::local_resources;
use crate::cluster_config;
use crate::config::Config;
use crate::config::sections::{Site as Section, SiteKind};
use crate::site_roots;

/// A site, the step that makes its directory a site's, once, and its connection over a network.
struct ConfiguredSite {
    site: Arc<dyn Site>,
    initialise: SiteSetupStep,
    /// Keeps other control planes out, where that is necessary.
    take: SiteSetupStep,
    ssh: Option<Arc<SshExecutor>>,
}

/// Sites, and the connections that some are reached by.
pub(super) struct ConfiguredSites {
    pub(super) sites: Vec<Arc<dyn Site>>,
    pub(super) connections: Vec<Arc<SshExecutor>>,
}

/// Time that a start waits for the roots of the sites.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// Time between two tries to make a site's directory at a site that was not reached.
const AGAIN: Duration = Duration::from_secs(15);

type SiteSetupStep = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), SiteError>>>>>;

/// Facts about a kind of site beside its adapter.
struct SiteKindFacts {
    kind: SiteKind,
    /// Time in which a submission whose outcome is unknown may still take effect.
    settle: DurationMs,
    /// Time before a common start at which gates are opened: longer than the wrappers take to see
    /// it. Those on this machine see it at once.
    go_lead: DurationMs,
    /// Used in place of `go_lead` for wrappers that have waited for long and look less often.
    go_lead_held: DurationMs,
    /// Prefixes of the options by which jobs choose partition and account at such a site, if it has
    /// them.
    lanes: Option<PartitionOptionPrefixes>,
    make: fn(&SiteInputs<'_>, &Section) -> Result<ConfiguredSite, SiteError>,
}

static KINDS: [SiteKindFacts; 2] = [
    SiteKindFacts {
        kind: SiteKind::Local,
        settle: DurationMs::from_secs(1),
        go_lead: DurationMs::ZERO,
        go_lead_held: DurationMs::ZERO,
        lanes: None,
        make: make_local,
    },
    SiteKindFacts {
        kind: SiteKind::Slurm,
        settle: DurationMs::from_secs(50),
        go_lead: DurationMs(1_500),
        go_lead_held: DurationMs(SELDOM.poll.0 + 1_500),
        lanes: Some(LANES),
        make: make_slurm,
    },
];

fn of_kind(kind: SiteKind) -> &'static SiteKindFacts {
    // Each kind has its line; a test checks it.
    KINDS
        .iter()
        .find(|line| line.kind == kind)
        .unwrap_or(&KINDS[0])
}

/// Time in which a submission may still take effect.
pub(super) fn settle_time(kind: SiteKind) -> DurationMs {
    of_kind(kind).settle
}

/// Prefixes of the options by which jobs choose partition and account at sites of these kinds.
pub(super) fn partition_options(
    mut kinds: impl Iterator<Item = SiteKind>,
) -> Option<PartitionOptionPrefixes> {
    kinds.find_map(|kind| of_kind(kind).lanes)
}

/// Time before a common start at which gates are opened.
pub(super) fn gate_lead(kind: SiteKind) -> DurationMs {
    of_kind(kind).go_lead
}

/// The same time if one of the components was held for long; see [`SELDOM`].
pub(super) fn gate_lead_held(kind: SiteKind) -> DurationMs {
    of_kind(kind).go_lead_held
}

/// A wrapper held for this long will soon look less often, by its own clock.
pub(super) const GATE_PATIENCE: DurationMs = DurationMs(SELDOM.after.0 - 15_000);

/// The common inputs for making all sites.
struct SiteInputs<'c> {
    config: &'c Config,
    data: &'c Path,
    agent: Vec<OsString>,
    /// Roots of the sites on this machine.
    roots: BTreeMap<SiteName, PathBuf>,
    /// Connections to the other sites, and to their files.
    ways: BTreeMap<SiteName, Arc<SshExecutor>>,
    sources: SourcesBySite,
    /// Resources of the sites on this machine.
    totals: BTreeMap<SiteName, Resources>,
    seal: AttemptAuthenticator,
    instance: InstanceId,
}

impl SiteInputs<'_> {
    /// Makes the connections to sites on other machines.
    fn connect_sites(&mut self) -> Result<(), SiteError> {
        for section in self.config.site.iter().filter(|site| site.ssh.is_some()) {
            let exec = cluster_config::open_ssh(
                section,
                &cluster_config::socket_path(self.data, section)?,
            )?;
            let slurm =
                cluster_config::slurm_config(section, section.root.clone(), self.agent.clone());
            let source = SlurmSite::remote_source_files(&slurm, exec.clone())?;
            self.ways.insert(section.name.clone(), exec);
            self.sources.insert(section.name.clone(), source);
        }
        Ok(())
    }

    /// Directory on this machine for content that is fetched from other sites.
    fn relay_directory(&self) -> PathBuf {
        absolute_path(self.data).join("relay")
    }

    /// Roots from which a site of this machine can copy.
    fn neighbour_roots(&self, of: &SiteName) -> BTreeMap<SiteName, PathBuf> {
        let relays = self
            .sources
            .keys()
            .map(|from| (from.clone(), relay_root(&self.relay_directory(), of, from)));
        self.roots
            .iter()
            .map(|(name, root)| (name.clone(), root.clone()))
            .chain(relays)
            .collect()
    }

    /// Lets a site of this machine also copy from sites that it does not see.
    fn with_fetching(&self, site: Arc<dyn Site>) -> Arc<dyn Site> {
        if self.sources.is_empty() {
            site
        } else {
            Arc::new(FetchingSite::new(
                site,
                self.sources.clone(),
                self.relay_directory(),
            ))
        }
    }
}

/// Makes the sites. A site is initialised when its name first appears, and never again: one whose
/// root has vanished may come back, with its content.
pub(super) async fn make_sites(
    config: &Config,
    data: &Path,
    seal: AttemptAuthenticator,
    instance: InstanceId,
) -> Result<ConfiguredSites, SiteError> {
    let known = data.join("sites");
    let unusable = |error: std::io::Error| {
        SiteError::Refused(format!("{} cannot be written: {error}", known.display()))
    };
    cospan_durable::make_directory(&known).map_err(unusable)?;
    let program = std::env::current_exe()
        .map_err(|error| SiteError::Refused(format!("cannot find this program's file: {error}")))?;
    let agent = vec![program.into_os_string(), "copy-agent".into()];
    let here = config.site.iter().filter(|site| site.ssh.is_none());
    let roots = here
        .map(|site| (site.name.clone(), absolute_path(&site.root)))
        .collect();
    let ways = BTreeMap::new();
    let sources = SourcesBySite::new();
    let totals = local_resources::site_totals(config, MachineResources::this_machine());
    let mut ground = SiteInputs {
        config,
        data,
        agent,
        roots,
        ways,
        sources,
        totals,
        seal,
        instance,
    };
    ground.connect_sites()?;
    let mut all = ConfiguredSites {
        sites: Vec::new(),
        connections: Vec::new(),
    };
    let mut takes = Vec::new();
    for section in &config.site {
        let ConfiguredSite {
            site,
            initialise,
            take,
            ssh,
        } = (of_kind(section.kind).make)(&ground, section)?;
        let heard_of = known.join(section.name.as_str());
        let place = cluster_config::identify_place(section);
        if !site_roots::is_known_root(section, data) {
            match initialise().await {
                Ok(()) => {
                    cospan_durable::replace_file(&heard_of, place.as_bytes()).map_err(unusable)?
                }
                Err(error) if ssh.is_some() && error.is_passing() => {
                    warn!(site = %section.name, problem = %error, "not reached; trying again");
                    actix_web::rt::spawn(initialise_when_reached(initialise, heard_of, place));
                }
                Err(error) => return Err(error),
            }
        }
        takes.push((section.name.clone(), take));
        all.sites.push(site);
        all.connections.extend(ssh);
    }
    take_roots(&takes).await;
    Ok(all)
}

/// Takes the roots of the sites. Whatever is in the way is a state of that one site, which every
/// call finds again until it is mended: payloads can write to a root, and must not keep the server
/// from starting.
async fn take_roots(sites: &[(SiteName, SiteSetupStep)]) {
    let taken = sites.iter().map(|(site, take)| async move {
        match tokio::time::timeout(TAKEN_WITHIN, take()).await {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => {
                warn!(
                    %site,
                    %problem,
                    "its root cannot be taken yet; it is taken once the problem is mended"
                );
            }
            Err(_) => warn!(%site, "no answer yet; its root is taken once the site answers"),
        }
    });
    futures_util::future::join_all(taken).await;
}

/// Initialises a site that was not reached at first. Until then it has no directory, and no call to
/// it is carried out.
async fn initialise_when_reached(initialise: SiteSetupStep, heard_of: PathBuf, place: String) {
    loop {
        tokio::time::sleep(AGAIN).await;
        match initialise().await {
            Ok(()) => break,
            Err(error) if error.is_passing() => {}
            Err(error) => {
                return warn!(file = %heard_of.display(), problem = %error, "a site is refused");
            }
        }
    }
    match cospan_durable::replace_file(&heard_of, place.as_bytes()) {
        Ok(()) => info!(file = %heard_of.display(), "a site was reached for the first time"),
        Err(error) => warn!(file = %heard_of.display(), problem = %error, "cannot be written"),
    }
}

fn make_local(ground: &SiteInputs<'_>, section: &Section) -> Result<ConfiguredSite, SiteError> {
    let name = section.name.clone();
    let root = absolute_path(&section.root);
    let total = ground
        .totals
        .get(&name)
        .cloned()
        .unwrap_or_else(|| section.total_resources());
    let mut local = LocalSiteConfig::new(name, root, total, ground.agent.clone());
    local.labels = section.labels.clone();
    local.reservations = section.can_reserve();
    local.ping = ground.config.sites.ping.clone();
    local.neighbours = ground.neighbour_roots(&section.name);
    local.seal = ground.seal.clone();
    local.owner = Some(ground.instance);
    local.data_directory = absolute_path(ground.data);
    let site = Arc::new(LocalSite::new(local)?);
    let made = site.clone();
    let initialise: SiteSetupStep = Box::new(move || {
        let site = made.clone();
        Box::pin(async move { site.make_root() })
    });
    let taken = site.clone();
    let take: SiteSetupStep = Box::new(move || {
        let site = taken.clone();
        Box::pin(async move {
            // Its file system may hang.
            let taken = actix_web::rt::task::spawn_blocking(move || site.take_root()).await;
            taken.unwrap_or_else(|error| Err(SiteError::OutcomeUnknown(error.to_string())))
        })
    });
    Ok(ConfiguredSite {
        site: ground.with_fetching(site),
        initialise,
        take,
        ssh: None,
    })
}

fn make_slurm(ground: &SiteInputs<'_>, section: &Section) -> Result<ConfiguredSite, SiteError> {
    let mut slurm =
        cluster_config::slurm_config(section, absolute_path(&section.root), ground.agent.clone());
    slurm.ping = ground.config.sites.ping.clone();
    slurm.query = section
        .query_timeout
        .unwrap_or(ground.config.sites.query_timeout);
    slurm.deadline = slurm.deadline.max(slurm.query);
    slurm.seal = ground.seal.clone();
    slurm.owner = Some(ground.instance);
    slurm.data_directory = absolute_path(ground.data);
    let ssh = ground.ways.get(&section.name).cloned();
    let site = Arc::new(match &ssh {
        Some(exec) => {
            slurm.neighbours = ground.roots.clone();
            slurm.sources = ground.sources.clone();
            SlurmSite::with_remote_root(slurm, exec.clone())?
        }
        None => {
            slurm.neighbours = ground.neighbour_roots(&section.name);
            SlurmSite::new(
                slurm,
                Arc::new(ChildProcessExecutor::with_process_environment()),
            )?
        }
    });
    let made = site.clone();
    let initialise: SiteSetupStep = Box::new(move || {
        let site = made.clone();
        Box::pin(async move { site.make_root().await })
    });
    let taken = site.clone();
    let take: SiteSetupStep = Box::new(move || {
        let site = taken.clone();
        Box::pin(async move { site.take_root().await })
    });
    let site: Arc<dyn Site> = match &ssh {
        Some(_) => site,
        None => ground.with_fetching(site),
    };
    Ok(ConfiguredSite {
        site,
        initialise,
        take,
        ssh,
    })
}

fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_site_has_its_line() {
        for kind in [SiteKind::Local, SiteKind::Slurm] {
            assert_eq!(of_kind(kind).kind, kind);
        }
    }
}
