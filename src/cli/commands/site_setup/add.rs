//! `cospan site add`

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cospan_domain::units::Bytes;
use cospan_durable::PRIVATE;
use cospan_sites::slurm_site::cluster_check::{ClusterProbeFacts, SlurmPartition};
use serde::Serialize;

use super::{SlurmSession, block_on_future, judge_findings};
use crate::cli::args_cluster::SiteAddArgs;
use crate::cli::commands::doctor::{self, DoctorCheck};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::print_note;
use crate::cli::print_progress;
use cospan_server::config::sections::Site;
use cospan_server::config::{Config, ConfigError, OptionValue};

/// Stands for the root until the root is known.
const UNKNOWN_ROOT: &str = "/";

/// The unit in which memory is counted.
const GB: u64 = 1_000_000_000;

/// The findings, and the section that follows from them.
#[derive(Debug, Serialize)]
struct SiteAddReport {
    checks: Vec<DoctorCheck>,
    /// The section as it is in the configuration; `None` if the site cannot be used.
    section: Option<String>,
    /// The file that has the section now.
    file: Option<PathBuf>,
    /// The links that the configuration needs before any file reaches the site.
    links: Vec<String>,
}

/// Examines a cluster and adds it to the configuration.
pub(crate) fn run(
    context: &mut CommandContext,
    args: &SiteAddArgs,
) -> Result<CliExitCode, CliError> {
    let file = target_file(context)?;
    let before = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(CliError::file_error("read", &file, &error)),
    };
    let known = Config::parse(&file, &before)?.config.site;
    if known.iter().any(|site| site.name.as_str() == args.site) {
        let message = format!("{} already has a site {:?}", file.display(), args.site);
        return Err(CliError::usage_error(
            message,
            "give another name, or edit that site by hand",
        ));
    }
    let section = preliminary_site(args)?;
    print_progress(&format!("looking at {}", args.site));
    let probed = block_on_future(async {
        let cluster = SlurmSession::open_session(&section, args.root.clone().unwrap_or_default())?;
        let probed = cluster.probe_cluster(false).await;
        cluster.close_connection().await;
        Ok::<_, CliError>(probed)
    })?;
    let (checks, exit) = judge_findings(&probed.findings);
    let partition = probed.facts.find_partition(args.partition.as_deref());
    let mut added = SiteAddReport {
        checks,
        section: None,
        file: None,
        links: propose_links(&args.site, &known),
    };
    if let (CliExitCode::Done, Some(partition)) = (exit, partition) {
        let text = write_section(args, &probed.facts, partition);
        if !args.dry_run {
            append_section(&file, &before, &text)?;
            added.file = Some(file);
        }
        added.section = Some(text);
    }
    context.out.print_answer(&added, added_message)?;
    if added.section.is_none() {
        print_note("nothing was written: correct what is BAD, then try again");
    }
    Ok(exit)
}

fn added_message(added: &SiteAddReport) -> String {
    let mut text = doctor::format_checks(&added.checks);
    if let Some(section) = &added.section {
        let _ = write!(text, "\n{section}");
    }
    if let Some(file) = &added.file {
        let _ = write!(
            text,
            "\nadded to {}; the server reads it at its next start\n",
            file.display()
        );
    }
    if !added.links.is_empty() && added.section.is_some() {
        let _ = write!(
            text,
            "\nfiles travel only over links, and none leads there yet: add them, each with the \
             bandwidth that copies may take\n\n{}",
            added.links.join("\n")
        );
    }
    text
}

/// Proposes links to the known sites.
fn propose_links(site: &str, known: &[Site]) -> Vec<String> {
    known
        .iter()
        .map(|other: &Site| {
            let from = other.name.to_string().show();
            let to = site.to_owned().show();
            format!("[[link]]\nfrom = {from}\nto = {to}\nbandwidth = \"1 Gbit/s\"\n")
        })
        .collect()
}

/// Returns the path of the configuration file in effect, or of the one to be made.
fn target_file(context: &CommandContext) -> Result<PathBuf, CliError> {
    let named = context
        .global
        .config
        .clone()
        .or_else(|| context.environment.config.clone());
    if let Some(file) = named.filter(|file: &PathBuf| !file.exists()) {
        return Ok(file);
    }
    let ours = context
        .environment
        .config_home
        .as_ref()
        .map(|home| home.join("cospan/cospan.toml"));
    let found = context.config()?.file.or(ours);
    found.ok_or_else(|| {
        CliError::usage_error("no configuration file was found", "name one with --config")
    })
}

/// Builds the section before the cluster is asked, read like the configuration.
fn preliminary_site(args: &SiteAddArgs) -> Result<Site, CliError> {
    let root = args.root.clone().unwrap_or_else(|| UNKNOWN_ROOT.into());
    let text = section_lines(args, &root, args.processors.unwrap_or(1)) + "\n";
    let parsed = Config::parse(Path::new("the command line"), &text)?;
    parsed.config.site.into_iter().next().ok_or_else(|| {
        CliError::usage_error(
            format!("{:?} cannot be the name of a site", args.site),
            "give another name",
        )
    })
}

fn section_lines(args: &SiteAddArgs, root: &Path, processors: u32) -> String {
    let mut text = format!("[[site]]\nname = {}\nkind = \"slurm\"\n", args.site.show());
    let given = [
        ("ssh", args.ssh.as_ref().map(OptionValue::show)),
        (
            "ssh_config",
            args.ssh_config.as_ref().map(OptionValue::show),
        ),
        (
            "slurm_conf",
            args.slurm_conf.as_ref().map(OptionValue::show),
        ),
        ("root", Some(root.to_path_buf().show())),
        ("partition", args.partition.as_ref().map(OptionValue::show)),
        ("account", args.account.as_ref().map(OptionValue::show)),
        ("qos", args.qos.as_ref().map(OptionValue::show)),
        ("processors", Some(processors.show())),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
    text
}

fn write_section(
    args: &SiteAddArgs,
    facts: &ClusterProbeFacts,
    partition: &SlurmPartition,
) -> String {
    let processors = args.processors.unwrap_or(partition.processors).max(1);
    let mut text = section_lines(args, Path::new(&facts.root), processors);
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

/// Adds a section to a file atomically.
fn append_section(file: &Path, before: &str, section: &str) -> Result<(), CliError> {
    let gap = match before {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let text = format!("{before}{gap}{section}");
    Config::parse(file, &text).map_err(|error: ConfigError| CliError::from(error))?;
    let directory = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    replace_file(directory, file, &text)
        .map_err(|error| CliError::file_error("write", file, &error))
}

fn replace_file(directory: &Path, file: &Path, text: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let old = std::fs::metadata(file);
    let mode = old.map_or(PRIVATE, |old| old.permissions().mode() & 0o7777);
    cospan_durable::replace_file_with_mode(file, text.as_bytes(), mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> SiteAddArgs {
        SiteAddArgs {
            site: "alpha".to_owned(),
            ssh: Some("login \"x\"".to_owned()),
            ssh_config: None,
            slurm_conf: None,
            partition: Some("normal".to_owned()),
            account: None,
            qos: None,
            root: None,
            processors: None,
            dry_run: false,
        }
    }

    #[test]
    fn what_was_in_the_file_stays_byte_for_byte() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("cospan.toml");
        let before = "# mine\n[server]\nlisten = [\"127.0.0.1:1\"] # so";
        std::fs::write(&file, before).unwrap();
        let args = SiteAddArgs {
            ssh: Some("login".to_owned()),
            ..args()
        };
        append_section(
            &file,
            before,
            &section_lines(&args, Path::new("/home/me/cospan"), 8),
        )
        .unwrap();
        let after = std::fs::read_to_string(&file).unwrap();
        assert!(after.starts_with(before), "{after}");
        let site = &Config::load(&file).unwrap().config.site[0];
        assert_eq!((site.ssh.as_deref(), site.processors), (Some("login"), 8));
    }

    #[test]
    fn what_is_written_has_what_the_cluster_has_and_says_which_links_it_lacks() {
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
        let root = "/home/me/cospan".to_owned();
        let facts = ClusterProbeFacts {
            root,
            free: Bytes(7 * GB + 5),
            ..ClusterProbeFacts::default()
        };
        let args = SiteAddArgs {
            ssh: Some("login".to_owned()),
            ..args()
        };
        let read = |text: &str| Config::parse(Path::new("x"), text).unwrap().config;
        let text = write_section(&args, &facts, &partition);
        let known = read(&text).site;
        assert_eq!(known[0].processors, 64, "also what is drained now");
        assert_eq!(
            (known[0].memory, known[0].disk),
            (Some(Bytes(9 * GB)), Some(Bytes(7 * GB)))
        );
        let counted = SlurmPartition {
            disk: Bytes(GB),
            ..partition.clone()
        };
        assert_eq!(
            read(&write_section(&args, &facts, &counted)).site[0].disk,
            None
        );
        let second = SiteAddArgs {
            site: "beta".to_owned(),
            ..args
        };
        let links = propose_links("beta", &known);
        let facts = ClusterProbeFacts {
            root: "/home/me/beta".to_owned(),
            ..facts
        };
        let all = [
            text,
            write_section(&second, &facts, &partition),
            links.concat(),
        ]
        .join("\n");
        let link = &read(&all).link[0];
        assert_eq!(
            (link.from.as_str(), link.to.as_str(), links.len()),
            ("alpha", "beta", 1)
        );
    }

    #[test]
    fn what_cannot_be_a_section_is_refused_and_nothing_is_written() {
        assert!(preliminary_site(&args()).is_err());
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("cospan.toml");
        assert!(append_section(&file, "", "[[site]]\nname = \"x\"\n").is_err());
        assert!(!file.exists());
    }
}
