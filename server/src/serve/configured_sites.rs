//! The sites of the configuration, made at the start of a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::ids::{InstanceId, SiteName};
use cospan_sites::exec::ssh::SshExecutor;
use cospan_sites::files::SourcesBySite;
use cospan_sites::local_site::machine::MachineResources;
use cospan_sites::port::{Site, SiteError};
use cospan_sites::wrapper::attempt_words::AttemptAuthenticator;
use tracing::{info, warn};

use super::local_resources;
use crate::config::Config;
use crate::site_connection;
use crate::site_kinds;
use crate::site_kinds::site_inputs::{MadeSite, SiteInputs, SiteRoot, absolute_path};
use crate::site_roots;

/// Sites, and the connections that some are reached by.
pub(super) struct ConfiguredSites {
    pub(super) sites: Vec<Arc<dyn Site>>,
    pub(super) connections: Vec<Arc<SshExecutor>>,
}

/// Time that a start waits for the roots of the sites.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// Time between two tries to make a site's directory at a site that was not reached.
const AGAIN: Duration = Duration::from_secs(15);

/// Makes the sites. A site is initialised when its name first appears, and never again: one whose
/// root has vanished may come back, with its content.
pub(super) async fn make_sites(
    config: &Config,
    data: &Path,
    seal: AttemptAuthenticator,
    instance: InstanceId,
) -> Result<ConfiguredSites, SiteError> {
    let known = data.join("sites");
    cospan_durable::make_directory(&known).map_err(|error| refuse_unwritable(&known, &error))?;
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
    let mut inputs = SiteInputs {
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
    inputs.connect_sites()?;
    let mut all = ConfiguredSites {
        sites: Vec::new(),
        connections: Vec::new(),
    };
    let mut made_roots = Vec::new();
    for section in &config.site {
        let MadeSite { site, root } = site_kinds::make_site(&inputs, section)?;
        let ssh = inputs.ways.get(&section.name).cloned();
        let heard_of = known.join(section.name.as_str());
        let place = site_connection::identify_place(section);
        if !site_roots::is_known_root(section, data) {
            match root.make_root().await {
                Ok(()) => cospan_durable::replace_file(&heard_of, place.as_bytes())
                    .map_err(|error| refuse_unwritable(&known, &error))?,
                Err(error) if ssh.is_some() && error.is_passing() => {
                    warn!(site = %section.name, problem = %error, "not reached; trying again");
                    actix_web::rt::spawn(make_root_when_reached(root.clone(), heard_of, place));
                }
                Err(error) => return Err(error),
            }
        }
        made_roots.push((section.name.clone(), root));
        let site = if ssh.is_some() {
            site
        } else {
            inputs.with_fetching(site)
        };
        all.sites.push(site);
        all.connections.extend(ssh);
    }
    take_roots(&made_roots).await;
    Ok(all)
}

fn refuse_unwritable(directory: &Path, error: &std::io::Error) -> SiteError {
    let directory = directory.display();
    SiteError::Refused(format!("{directory} cannot be written: {error}"))
}

/// Takes the roots of the sites. Whatever is in the way is a state of that one site, which every
/// call finds again until it is mended: payloads can write to a root, and must not keep the server
/// from starting.
async fn take_roots(roots: &[(SiteName, Arc<dyn SiteRoot>)]) {
    let taken = roots.iter().map(|(site, root)| async move {
        match tokio::time::timeout(TAKEN_WITHIN, root.take_root()).await {
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

/// Makes the directory of a site that was not reached at first. Until then it has none, and no call
/// to it is carried out.
async fn make_root_when_reached(root: Arc<dyn SiteRoot>, heard_of: PathBuf, place: String) {
    loop {
        tokio::time::sleep(AGAIN).await;
        match root.make_root().await {
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
