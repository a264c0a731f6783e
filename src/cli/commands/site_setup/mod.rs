//! `cospan site add`, `site check` and `site clean`: they examine a cluster themselves, as the
//! server would, and need no server.

pub(crate) mod add;
pub(crate) mod check;
pub(crate) mod clean;

use std::path::PathBuf;

use cospan_sites::port::SiteError;
use cospan_sites::slurm_site::cluster_check::{ClusterProbeOutcome, probe_cluster};
use cospan_sites::slurm_site::findings::{ClusterFinding, FindingVerdict};
use cospan_sites::slurm_site::{SlurmSite, SlurmSiteConfig};
use tempfile::TempDir;

use super::doctor::{CheckVerdict, DoctorCheck};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use cospan_server::cluster_config::{self, ClusterConnection};
use cospan_server::config::OptionValue;
use cospan_server::config::sections::{Site, SiteKind};

/// A cluster under Slurm, and the way there, for the duration of one command.
struct SlurmSession {
    config: SlurmSiteConfig,
    way: ClusterConnection,
    /// The directory of the connection's socket.
    _place: TempDir,
}

impl SlurmSession {
    fn open_session(section: &Site, root: PathBuf) -> Result<Self, CliError> {
        let place = tempfile::Builder::new().prefix("cospan-").tempdir();
        let place = place.map_err(|error| {
            CliError::usage_error(format!("no temporary directory: {error}"), "set TMPDIR")
        })?;
        let way = cluster_config::open_connection(section, &place.path().join("ssh")).map_err(
            |error: SiteError| CliError::usage_error(error.to_string(), "correct the site"),
        )?;
        // These commands copy nothing.
        let config = cluster_config::slurm_config(section, root, vec!["/bin/false".into()]);
        Ok(Self {
            config,
            way,
            _place: place,
        })
    }

    /// Probes the cluster. If it is not reached, that is a finding, too.
    async fn probe_cluster(&self, trial: bool) -> ClusterProbeOutcome {
        let probed = probe_cluster(&self.config, self.way.exec(), trial).await;
        match probed {
            Ok(probed) => probed,
            Err(error) => {
                let (found, advice) = self.explain_unreached(&error).await;
                let verdict = FindingVerdict::Bad;
                ClusterProbeOutcome {
                    findings: vec![ClusterFinding {
                        what: "login",
                        verdict,
                        found,
                        advice,
                    }],
                    ..ClusterProbeOutcome::default()
                }
            }
        }
    }

    async fn explain_unreached(&self, error: &SiteError) -> (String, String) {
        let trouble = match &self.way {
            ClusterConnection::Ssh(exec) => exec.connection_fault().await,
            ClusterConnection::Here(_) => None,
        };
        trouble.unwrap_or_else(|| {
            let said = error.to_string();
            let advice = cospan_sites::slurm_site::findings::advice_for(&said).to_owned();
            (said, advice)
        })
    }

    fn slurm_site(&self) -> Result<SlurmSite, CliError> {
        let config = self.config.clone();
        let exec = self.way.exec();
        let made = match self.way {
            ClusterConnection::Here(_) => SlurmSite::new(config, exec),
            ClusterConnection::Ssh(_) => SlurmSite::with_remote_root(config, exec),
        };
        made.map_err(|error| CliError::usage_error(error.to_string(), "correct the site"))
    }

    async fn close_connection(self) {
        if let ClusterConnection::Ssh(exec) = &self.way {
            exec.close_connection().await;
        }
    }
}

/// Returns the section of a site under Slurm.
fn find_section(context: &CommandContext, name: &str) -> Result<Site, CliError> {
    let located = context.config()?;
    let sites = &located.loaded.config.site;
    let Some(site) = sites.iter().find(|site| site.name.as_str() == name) else {
        let names: Vec<&str> = sites.iter().map(|site| site.name.as_str()).collect();
        let remedy = match names.len() {
            0 => "add it with `cospan site add`, or name a configuration with --config".to_owned(),
            _ => format!("the configuration names {}", names.join(", ")),
        };
        return Err(CliError::usage_error(
            format!("there is no site {name:?}"),
            remedy,
        ));
    };
    if site.kind != SiteKind::Slurm {
        let what = format!("site {name} is of the kind {}", site.kind.show());
        return Err(CliError::usage_error(
            what,
            "this command is for sites of the kind \"slurm\"",
        ));
    }
    Ok(site.clone())
}

/// Converts findings into checks, and returns the exit code.
fn judge_findings(findings: &[ClusterFinding]) -> (Vec<DoctorCheck>, CliExitCode) {
    let is_bad = findings
        .iter()
        .any(|finding| finding.verdict == FindingVerdict::Bad);
    (
        findings
            .iter()
            .map(|finding: &ClusterFinding| DoctorCheck {
                what: finding.what,
                verdict: match finding.verdict {
                    FindingVerdict::Good => CheckVerdict::Good,
                    FindingVerdict::Odd => CheckVerdict::Odd,
                    FindingVerdict::Bad => CheckVerdict::Bad,
                },
                found: finding.found.clone(),
                remedy: (!finding.advice.is_empty()).then(|| finding.advice.clone()),
            })
            .collect(),
        if is_bad {
            CliExitCode::Usage
        } else {
            CliExitCode::Done
        },
    )
}

/// Runs a future that uses the network, to its end.
fn block_on_future<T>(work: impl Future<Output = T>) -> T {
    actix_web::rt::System::new().block_on(work)
}
