//! `cospan site add`

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cospan_durable::PRIVATE;
use serde::Serialize;

use super::{SiteSession, block_on_future, judge_findings};
use crate::cli::args_cluster::SiteAddArgs;
use crate::cli::commands::doctor::{self, DoctorCheck};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::print_note;
use crate::cli::print_progress;
use cospan_server::config::sections::{Site, SiteKind};
use cospan_server::config::{Config, ConfigError, OptionValue};
use cospan_server::site_kinds::{self, NewSite, SiteExaminer};

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

/// Examines a site and adds it to the configuration.
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
    let examiner = find_examiner_of_kind(args.kind, &file)?;
    let new = describe_new_site(args, examiner)?;
    let section = preliminary_site(&new, examiner)?;
    print_progress(&format!("looking at {}", args.site));
    let examined = block_on_future(async {
        let session = SiteSession::open_session(&section)?;
        let examined = examiner.examine_new(&new, &section, &session.way).await;
        session.close_session().await;
        Ok::<_, CliError>(examined)
    })?;
    let (checks, exit) = judge_findings(&examined.findings);
    let mut added = SiteAddReport {
        checks,
        section: None,
        file: None,
        links: propose_links(&args.site, &known),
    };
    if let Some(text) = examined.section {
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

fn find_examiner_of_kind(
    kind: SiteKind,
    file: &Path,
) -> Result<&'static dyn SiteExaminer, CliError> {
    site_kinds::examiner_of(kind).ok_or_else(|| {
        let kind = kind.show();
        let file = file.display();
        CliError::usage_error(
            format!("there is nothing to examine at a site of the kind {kind}"),
            format!("write its [[site]] into {file} by hand; `cospan doctor` checks its root"),
        )
    })
}

/// Gathers what the command line says of the site.
fn describe_new_site(args: &SiteAddArgs, examiner: &dyn SiteExaminer) -> Result<NewSite, CliError> {
    let own = examiner.options();
    for option in site_kinds::list_kind_options() {
        let is_own = own.iter().any(|known| known.key == option.key);
        if args.of_kind.given.contains_key(option.key) && !is_own {
            let flag = option.flag;
            let kind = args.kind.show();
            return Err(CliError::usage_error(
                format!("sites of the kind {kind} have no --{flag}"),
                "drop it, or give another --kind",
            ));
        }
    }
    Ok(NewSite {
        name: args.site.clone(),
        ssh: args.ssh.clone(),
        ssh_config: args.ssh_config.clone(),
        root: args.root.clone(),
        processors: args.processors,
        options: args.of_kind.given.clone(),
    })
}

/// Builds the section before the site is asked, read like the configuration.
fn preliminary_site(new: &NewSite, examiner: &dyn SiteExaminer) -> Result<Site, CliError> {
    let text = examiner.begin_section(new);
    let parsed = Config::parse(Path::new("the command line"), &text)?;
    parsed.config.site.into_iter().next().ok_or_else(|| {
        CliError::usage_error(
            format!("{:?} cannot be the name of a site", new.name),
            "give another name",
        )
    })
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
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    const KIND: SiteKind = SiteKind::Slurm;

    fn read_args(words: &[&str]) -> SiteAddArgs {
        let command = SiteAddArgs::augment_args(Command::new("add"));
        let given = ["add"].into_iter().chain(words.iter().copied());
        let matches = command.try_get_matches_from(given).unwrap();
        SiteAddArgs::from_arg_matches(&matches).unwrap()
    }

    fn begin_section(words: &[&str]) -> String {
        let examiner = site_kinds::examiner_of(KIND).unwrap();
        let new = describe_new_site(&read_args(words), examiner).unwrap();
        examiner.begin_section(&new)
    }

    #[test]
    fn what_was_in_the_file_stays_byte_for_byte() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("cospan.toml");
        let before = "# mine\n[server]\nlisten = [\"127.0.0.1:1\"] # so";
        std::fs::write(&file, before).unwrap();
        let words = "alpha --ssh login --slurm-conf /etc/s.conf --qos low --root /home/me/cospan \
                     --processors 8";
        let words: Vec<&str> = words.split_whitespace().collect();
        append_section(&file, before, &begin_section(&words)).unwrap();
        let after = std::fs::read_to_string(&file).unwrap();
        assert!(after.starts_with(before), "{after}");
        let site = &Config::load(&file).unwrap().config.site[0];
        assert_eq!((site.ssh.as_deref(), site.processors), (Some("login"), 8));
        assert_eq!(site.slurm_conf.as_deref(), Some(Path::new("/etc/s.conf")));
        assert_eq!(site.qos.as_deref(), Some("low"));
    }

    #[test]
    fn what_is_written_says_which_links_it_lacks() {
        let first = begin_section(&["alpha", "--ssh", "login", "--root", "/home/me/cospan"]);
        let second = begin_section(&["beta", "--ssh", "login", "--root", "/home/me/beta"]);
        let known = Config::parse(Path::new("x"), &first).unwrap().config.site;
        let links = propose_links("beta", &known);
        let all = [first, second, links.concat()].join("\n");
        let link = &Config::parse(Path::new("x"), &all).unwrap().config.link[0];
        assert_eq!(
            (link.from.as_str(), link.to.as_str(), links.len()),
            ("alpha", "beta", 1)
        );
    }

    #[test]
    fn what_cannot_be_a_section_is_refused_and_nothing_is_written() {
        let examiner = site_kinds::examiner_of(KIND).unwrap();
        let args = read_args(&["alpha", "--ssh", "login \"x\"", "--partition", "normal"]);
        let new = describe_new_site(&args, examiner).unwrap();
        assert!(preliminary_site(&new, examiner).is_err());
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("cospan.toml");
        assert!(append_section(&file, "", "[[site]]\nname = \"x\"\n").is_err());
        assert!(!file.exists());
    }

    #[test]
    fn of_a_kind_that_is_not_examined_it_says_what_to_do() {
        let file = Path::new("cospan.toml");
        let error = find_examiner_of_kind(SiteKind::Local, file).err().unwrap();
        assert!(error.message.contains("\"local\""), "{error}");
        let remedy = error.remedy.unwrap();
        assert!(remedy.contains("cospan doctor"), "{remedy}");
    }
}
