//! The kinds of site that there are: one line each, and how one is made of its configuration.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use cospan_domain::ids::SiteName;
use cospan_domain::units::DurationMs;
use cospan_sites::exec::child::ChildExec;
use cospan_sites::local::{LocalConfig, LocalSite};
use cospan_sites::port::{Site, SiteError};
use cospan_sites::slurm::{SlurmConfig, SlurmSite};

use crate::config::Config;
use crate::config::sections::{Site as Section, SiteKind};

/// A site, and what makes its directory a site's, once.
type Made = Result<(Arc<dyn Site>, Initialise), SiteError>;
type Initialise = Pin<Box<dyn Future<Output = Result<(), SiteError>>>>;

/// What is to be known of a kind of site beside its adapter.
struct Kind {
    kind: SiteKind,
    /// How long a submission whose outcome is unknown may still take effect.
    settle: DurationMs,
    /// How long before a common start its gates are opened: longer than the wrappers take to
    /// see it. Those on this machine see it at once.
    go_lead: DurationMs,
    make: fn(&Ground<'_>, &Section) -> Made,
}

static KINDS: [Kind; 2] = [
    Kind {
        kind: SiteKind::Local,
        settle: DurationMs::from_secs(1),
        go_lead: DurationMs::ZERO,
        make: local,
    },
    Kind {
        kind: SiteKind::Slurm,
        settle: DurationMs::from_secs(50),
        go_lead: DurationMs(1_500),
        make: slurm,
    },
];

fn of(kind: SiteKind) -> &'static Kind {
    // Each kind has its line; a test holds it.
    KINDS.iter().find(|line| line.kind == kind).unwrap_or(&KINDS[0])
}

/// How long a submission may still take effect.
pub(super) fn settle(kind: SiteKind) -> DurationMs {
    of(kind).settle
}

/// How long before a common start gates are opened.
pub(super) fn go_lead(kind: SiteKind) -> DurationMs {
    of(kind).go_lead
}

/// What all sites are made with.
struct Ground<'c> {
    config: &'c Config,
    agent: Vec<OsString>,
    roots: BTreeMap<SiteName, PathBuf>,
}

/// The sites. One is initialised when it is first heard of, and never again: one whose root
/// has vanished may come back, with what lives in it.
pub(super) async fn sites(config: &Config, data: &Path) -> Result<Vec<Arc<dyn Site>>, SiteError> {
    let known = data.join("sites");
    let unusable = |error: std::io::Error| {
        SiteError::Refused(format!("{} cannot be written: {error}", known.display()))
    };
    std::fs::create_dir_all(&known).map_err(unusable)?;
    let program = std::env::current_exe()
        .map_err(|error| SiteError::Refused(format!("cannot find this program's file: {error}")))?;
    let agent = vec![program.into_os_string(), "copy-agent".into()];
    let roots = config.site.iter().map(|site| (site.name.clone(), absolute(&site.root))).collect();
    let ground = Ground { config, agent, roots };
    let mut sites = Vec::new();
    for section in &config.site {
        let (site, initialise) = (of(section.kind).make)(&ground, section)?;
        let heard_of = known.join(section.name.as_str());
        let root = absolute(&section.root);
        let path = root.as_os_str().as_encoded_bytes();
        if std::fs::read(&heard_of).ok().as_deref() != Some(path) {
            initialise.await?;
            std::fs::write(&heard_of, path).map_err(unusable)?;
        }
        sites.push(site);
    }
    Ok(sites)
}

fn local(ground: &Ground<'_>, section: &Section) -> Made {
    let (name, root) = (section.name.clone(), absolute(&section.root));
    let mut local = LocalConfig::new(name, root, section.total(), ground.agent.clone());
    local.labels = section.labels.clone();
    local.ping = ground.config.sites.ping.clone();
    local.neighbours = ground.roots.clone();
    let site = Arc::new(LocalSite::new(local)?);
    let made = site.clone();
    Ok((site, Box::pin(async move { made.initialise() })))
}

fn slurm(ground: &Ground<'_>, section: &Section) -> Made {
    let (name, root) = (section.name.clone(), absolute(&section.root));
    let mut slurm = SlurmConfig::new(name, root, section.total(), ground.agent.clone());
    slurm.labels = section.labels.clone();
    slurm.slurm_conf = section.slurm_conf.clone();
    slurm.partition = section.partition.clone();
    slurm.account = section.account.clone();
    slurm.qos = section.qos.clone();
    slurm.constraint = section.constraint.clone();
    slurm.reservation = section.reservation.clone();
    slurm.queues = section.queues;
    slurm.ping = ground.config.sites.ping.clone();
    slurm.neighbours = ground.roots.clone();
    let site = Arc::new(SlurmSite::new(slurm, Arc::new(ChildExec::of_this_process()))?);
    let made = site.clone();
    Ok((site, Box::pin(async move { made.initialise().await })))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_site_has_its_line() {
        for kind in [SiteKind::Local, SiteKind::Slurm] {
            assert_eq!(of(kind).kind, kind);
        }
    }
}
