//! Examinations of clusters under Slurm, and the sections that follow from them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use cospan_domain::units::Bytes;
use cospan_sites::examination::{AttemptRemains, FindingVerdict, SiteFinding, is_any_bad};
use cospan_sites::port::SiteError;
use cospan_sites::slurm_site::cluster_check::{
    ClusterProbeFacts, ClusterProbeOutcome, SlurmPartition, probe_cluster,
};
use cospan_sites::slurm_site::findings::advice_for;
use cospan_sites::slurm_site::{SlurmSite, SlurmSiteConfig};

use super::slurm_config;
use crate::config::OptionValue;
use crate::config::sections::{Site as Section, SiteKind};
use crate::site_connection::SiteConnection;
use crate::site_kinds::{ExaminedNewSite, KindOption, LeftAttempts, NewSite, SiteExaminer};

/// Stands for the root until the root is known.
const UNKNOWN_ROOT: &str = "/";

/// The unit in which memory is counted.
const GB: u64 = 1_000_000_000;

const OPTIONS: [KindOption; 4] = [
    KindOption {
        key: "slurm_conf",
        flag: "slurm-conf",
        value_name: "FILE",
        help: "Slurm's configuration file on that host, if it serves several clusters",
        is_path: true,
    },
    KindOption {
        key: "partition",
        flag: "partition",
        value_name: "PARTITION",
        help: "Partition for the jobs",
        is_path: false,
    },
    KindOption {
        key: "account",
        flag: "account",
        value_name: "ACCOUNT",
        help: "Account that is charged",
        is_path: false,
    },
    KindOption {
        key: "qos",
        flag: "qos",
        value_name: "QOS",
        help: "Quality of service",
        is_path: false,
    },
];

pub(super) struct SlurmExaminer;

#[async_trait(?Send)]
impl SiteExaminer for SlurmExaminer {
    fn batch_system(&self) -> &'static str {
        "Slurm"
    }

    fn options(&self) -> &'static [KindOption] {
        &OPTIONS
    }

    fn begin_section(&self, new: &NewSite) -> String {
        let root = new.root.as_deref().unwrap_or(Path::new(UNKNOWN_ROOT));
        section_lines(new, root, new.processors.unwrap_or(1)) + "\n"
    }

    async fn examine_new(
        &self,
        new: &NewSite,
        section: &Section,
        way: &SiteConnection,
    ) -> ExaminedNewSite {
        // An empty root means the ordinary one.
        let root = new.root.clone().unwrap_or_default();
        let probed = probe_or_explain(&idle_config(section, root), way, false).await;
        let wanted = new.options.get("partition").map(String::as_str);
        let mut examined = ExaminedNewSite {
            findings: probed.findings,
            section: None,
        };
        if let Some(partition) = probed.facts.find_partition(wanted)
            && !is_any_bad(&examined.findings)
        {
            examined.section = Some(write_section(new, &probed.facts, partition));
        }
        examined
    }

    async fn examine(&self, section: &Section, way: &SiteConnection) -> Vec<SiteFinding> {
        let config = idle_config(section, section.root.clone());
        probe_or_explain(&config, way, true).await.findings
    }

    fn open_left_attempts(
        &self,
        section: &Section,
        way: &SiteConnection,
    ) -> Result<Box<dyn LeftAttempts>, SiteError> {
        let config = idle_config(section, section.root.clone());
        let site = match way {
            SiteConnection::Here(exec) => SlurmSite::new(config, exec.clone())?,
            SiteConnection::Ssh(exec) => SlurmSite::with_remote_root(config, exec.clone())?,
        };
        Ok(Box::new(site))
    }
}

#[async_trait(?Send)]
impl LeftAttempts for SlurmSite {
    async fn list_remains(&self) -> Result<Vec<AttemptRemains>, SiteError> {
        SlurmSite::list_remains(self).await
    }
}

/// The settings of a cluster at which nothing is copied.
fn idle_config(section: &Section, root: PathBuf) -> SlurmSiteConfig {
    slurm_config(section, root, vec!["/bin/false".into()])
}

/// Probes the cluster. If it is not reached, that is a finding, too.
async fn probe_or_explain(
    config: &SlurmSiteConfig,
    way: &SiteConnection,
    trial: bool,
) -> ClusterProbeOutcome {
    let error = match probe_cluster(config, way.exec(), trial).await {
        Ok(probed) => return probed,
        Err(error) => error,
    };
    let (found, advice) = explain_unreached(&error, way).await;
    ClusterProbeOutcome {
        findings: vec![SiteFinding {
            what: "login",
            verdict: FindingVerdict::Bad,
            found,
            advice,
        }],
        ..ClusterProbeOutcome::default()
    }
}

async fn explain_unreached(error: &SiteError, way: &SiteConnection) -> (String, String) {
    if let Some(fault) = way.connection_fault().await {
        return fault;
    }
    let said = error.to_string();
    let advice = advice_for(&said).to_owned();
    (said, advice)
}

fn section_lines(new: &NewSite, root: &Path, processors: u32) -> String {
    let name = new.name.show();
    let kind = SiteKind::Slurm.show();
    let mut text = format!("[[site]]\nname = {name}\nkind = {kind}\n");
    let given = [
        ("ssh", new.ssh.as_ref().map(OptionValue::show)),
        ("ssh_config", new.ssh_config.as_ref().map(OptionValue::show)),
        ("slurm_conf", show_option(new, "slurm_conf")),
        ("root", Some(root.to_path_buf().show())),
        ("partition", show_option(new, "partition")),
        ("account", show_option(new, "account")),
        ("qos", show_option(new, "qos")),
        ("processors", Some(processors.show())),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
    text
}

fn show_option(new: &NewSite, key: &str) -> Option<String> {
    new.options.get(key).map(OptionValue::show)
}

fn write_section(new: &NewSite, facts: &ClusterProbeFacts, partition: &SlurmPartition) -> String {
    let processors = new.processors.unwrap_or(partition.processors).max(1);
    let mut text = section_lines(new, Path::new(&facts.root), processors);
    let memory = Bytes(partition.memory.0 / GB * GB);
    if memory.0 > 0 {
        let _ = writeln!(text, "memory = {}", memory.show());
    }
    if partition.gpus > 0 {
        let _ = writeln!(text, "gpus = {}", partition.gpus);
    }
    // Otherwise the disk space that Slurm reports for its nodes.
    let disk = Bytes(facts.free.0 / GB * GB);
    if partition.disk.0 == 0 && disk.0 > 0 {
        let _ = writeln!(text, "disk = {}", disk.show());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn read(text: &str) -> Section {
        let parsed = Config::parse(Path::new("x"), text).unwrap().config;
        parsed.site.into_iter().next().unwrap()
    }

    #[test]
    fn what_is_written_has_what_the_cluster_has() {
        let partition = SlurmPartition {
            name: "normal".to_owned(),
            is_default: true,
            is_up: true,
            time_limit: String::new(),
            nodes: 2,
            processors: 64,
            in_order: 32,
            idle: 1,
            memory: Bytes(9 * GB + 1),
            gpus: 0,
            disk: Bytes(0),
        };
        let facts = ClusterProbeFacts {
            root: "/home/me/cospan".to_owned(),
            free: Bytes(7 * GB + 5),
            ..ClusterProbeFacts::default()
        };
        let new = NewSite {
            name: "alpha".to_owned(),
            ssh: Some("login".to_owned()),
            options: [("partition", "normal".to_owned())].into(),
            ..NewSite::default()
        };
        let text = write_section(&new, &facts, &partition);
        let site = read(&text);
        assert_eq!(site.processors, 64, "also what is drained now");
        assert_eq!(site.partition.as_deref(), Some("normal"));
        assert_eq!(
            (site.memory, site.disk),
            (Some(Bytes(9 * GB)), Some(Bytes(7 * GB)))
        );
        let counted = SlurmPartition {
            disk: Bytes(GB),
            ..partition
        };
        let text = write_section(&new, &facts, &counted);
        assert_eq!(read(&text).disk, None);
    }

    #[test]
    fn a_section_names_the_options_in_their_order() {
        let new = NewSite {
            name: "alpha".to_owned(),
            ssh: Some("login".to_owned()),
            ssh_config: Some("/etc/ssh".into()),
            root: Some("/home/me".into()),
            processors: Some(8),
            options: [
                ("slurm_conf", "/etc/slurm.conf".to_owned()),
                ("partition", "a\"b".to_owned()),
                ("account", "physics".to_owned()),
                ("qos", "low".to_owned()),
            ]
            .into(),
        };
        let expected = "[[site]]\nname = \"alpha\"\nkind = \"slurm\"\nssh = \"login\"\n\
                        ssh_config = \"/etc/ssh\"\nslurm_conf = \"/etc/slurm.conf\"\n\
                        root = \"/home/me\"\npartition = 'a\"b'\naccount = \"physics\"\n\
                        qos = \"low\"\nprocessors = 8\n\n";
        let text = SlurmExaminer.begin_section(&new);
        assert_eq!(text.replace(r#""a\"b""#, "'a\"b'"), expected);
        assert!(OPTIONS.iter().all(|option| text.contains(option.key)));
    }
}
