//! Configuration: read once, checked as a whole, then frozen.
//!
//! Each option is declared in one place ([`sections`]) together with its text,
//! default and range; reading, `config show` and the book's reference follow
//! from that. Environment and files are read here and nowhere else.

mod bandwidth;
mod classes;
mod config_problem;
mod cross_checks;
mod environment;
mod history;
mod print;
pub(crate) mod section;
pub mod sections;
pub(crate) mod table_reader;
pub(crate) mod value;

use std::path::{Path, PathBuf};

use thiserror::Error;
use toml::de::DeTable;

pub use bandwidth::{format_bandwidth, parse_bandwidth};
pub use config_problem::{ConfigProblem, ConfigProblems, nearest_name};
pub use environment::{EnvironmentVariables, LoadedConfigFile, find_and_load_config};
pub use print::{print_config, print_reference};
pub use section::{OptionDoc, Section, SectionDoc};
pub use value::{AutoOrGiven, OptionValue, SecretUrl};

use sections::{
    Chaos, Claim, Client, Limits, Link, Log, Notify, Placement, PriorityRule, Queue, Reservations,
    Server, Site, SiteDefaults, Store,
};
use table_reader::{OptionPlaces, TableReader, check_unknown_keys, sub_table, sub_tables};

/// The whole configuration, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `[server]`
    pub server: Server,
    /// `[client]`
    pub client: Client,
    /// `[store]`
    pub store: Store,
    /// `[limits]`
    pub limits: Limits,
    /// `[placement]`
    pub placement: Placement,
    /// `[queue]`
    pub queue: Queue,
    /// `[[priority]]`
    pub priority: Vec<PriorityRule>,
    /// `[claim]`
    pub claim: Claim,
    /// `[sites]`
    pub sites: SiteDefaults,
    /// `[notify]`
    pub notify: Notify,
    /// `[reservations]`
    pub reservations: Reservations,
    /// `[chaos]`
    pub chaos: Chaos,
    /// `[log]`
    pub log: Log,
    /// `[[site]]`
    pub site: Vec<Site>,
    /// `[[link]]`
    pub link: Vec<Link>,
}

/// A configuration that can be used, and what is odd about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// Options that are accepted but probably not intended.
    pub warnings: ConfigProblems,
}

/// The reason why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error(
        "cannot read the configuration {file}: {cause}; give the right path with --config or \
         COSPAN_CONFIG"
    )]
    Unreadable {
        file: PathBuf,
        cause: std::io::Error,
    },
    /// The content is invalid; all problems at once.
    #[error("{0}")]
    Wrong(ConfigProblems),
}

impl LoadedConfig {
    /// Returns the configuration that applies without a file.
    ///
    /// # Errors
    /// Never, as for [`Config::defaults`].
    pub fn defaults() -> Result<Self, ConfigError> {
        Config::parse(Path::new("no configuration file"), "")
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, or anything in it is wrong.
    pub fn load(file: &Path) -> Result<LoadedConfig, ConfigError> {
        let bytes = std::fs::read(file).map_err(|cause| ConfigError::Unreadable {
            file: file.into(),
            cause,
        })?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Self::parse(file, text),
            Err(error) => {
                let mut problems = ConfigProblems::of(file, &String::from_utf8_lossy(&bytes));
                let at = error.valid_up_to();
                problems.add(
                    Some(at..at + 1),
                    "the text is not UTF-8 here",
                    "save it as UTF-8",
                );
                Err(ConfigError::Wrong(problems))
            }
        }
    }

    /// Reads and checks a text; `file` is for messages.
    ///
    /// # Errors
    /// Anything in the text is wrong; all problems at once.
    pub fn parse(file: &Path, text: &str) -> Result<LoadedConfig, ConfigError> {
        let mut problems = ConfigProblems::of(file, text);
        let mut warnings = problems.clone();
        let mut places = OptionPlaces::new();
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let remedy = "correct the TOML here; its rules are at https://toml.io";
            problems.add(error.span(), error.message(), remedy);
        }
        if !problems.is_empty() {
            // Errors that follow from a slip of the notation would only hide it.
            return Err(ConfigError::Wrong(problems.sorted()));
        }
        let config = read_config(root.get_ref(), &mut problems, &mut places);
        if let Some(config) = &config {
            cross_checks::check_options(config, &places, &mut problems, &mut warnings);
        }
        match config {
            Some(config) if problems.is_empty() => Ok(LoadedConfig {
                config,
                warnings: warnings.sorted(),
            }),
            _ => Err(ConfigError::Wrong(problems.sorted())),
        }
    }

    /// Returns the meaning of an empty file: all defaults, and no sites.
    ///
    /// # Errors
    /// Never: the result makes sure that no invalid default goes unnoticed.
    pub fn defaults() -> Result<Self, ConfigError> {
        LoadedConfig::defaults().map(|loaded| loaded.config)
    }

    /// Defaults for tests: a port of the system's choice, everything below `directory`.
    ///
    /// # Errors
    /// Never, as for [`Config::defaults`].
    pub fn for_test(directory: &Path) -> Result<Self, ConfigError> {
        let mut config = Self::defaults()?;
        config.server.data_directory = AutoOrGiven::Given(directory.into());
        config.server.listen = vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0))];
        Ok(config)
    }
}

fn read_section<S: Section>(
    root: &DeTable<'_>,
    problems: &mut ConfigProblems,
    places: &mut OptionPlaces,
) -> Option<S> {
    let table = sub_table(root, S::KEY, problems, places);
    let title = format!("[{}]", S::KEY);
    S::read(TableReader::new(
        S::KEY.into(),
        title,
        table,
        problems,
        places,
    ))
}

fn read_sections<S: Section>(
    root: &DeTable<'_>,
    problems: &mut ConfigProblems,
    places: &mut OptionPlaces,
) -> Vec<S> {
    let mut found = Vec::new();
    for (i, (path, table)) in sub_tables(root, S::KEY, problems, places)
        .into_iter()
        .enumerate()
    {
        let title = format!("[[{}]] number {}", S::KEY, i + 1);
        found.push(S::read(TableReader::new(
            path,
            title,
            Some(table),
            problems,
            places,
        )));
    }
    // If one cannot be read the others are not compared with each other: their numbers would be
    // wrong, and the file is refused anyway.
    found.into_iter().collect::<Option<_>>().unwrap_or_default()
}

/// Every section, in the order of the reference.
fn describe_sections() -> Vec<SectionDoc> {
    vec![
        Server::describe(),
        Client::describe(),
        Store::describe(),
        Limits::describe(),
        Placement::describe(),
        Queue::describe(),
        PriorityRule::describe(),
        Claim::describe(),
        SiteDefaults::describe(),
        Notify::describe(),
        Reservations::describe(),
        Chaos::describe(),
        Log::describe(),
        Site::describe(),
        Link::describe(),
    ]
}

fn read_config(
    root: &DeTable<'_>,
    problems: &mut ConfigProblems,
    places: &mut OptionPlaces,
) -> Option<Config> {
    let known: Vec<&str> = describe_sections()
        .iter()
        .map(|section| section.key)
        .collect();
    check_unknown_keys(root, &known, "the file", problems);
    let server = read_section(root, problems, places);
    let client = read_section(root, problems, places);
    let store = read_section(root, problems, places);
    let limits = read_section(root, problems, places);
    let placement = read_section(root, problems, places);
    let queue = read_section(root, problems, places);
    let priority = read_sections(root, problems, places);
    let claim = read_section(root, problems, places);
    let sites = read_section(root, problems, places);
    let notify = read_section(root, problems, places);
    let reservations = read_section(root, problems, places);
    let chaos = read_section(root, problems, places);
    let log = read_section(root, problems, places);
    let site = read_sections(root, problems, places);
    let link = read_sections(root, problems, places);
    Some(Config {
        server: server?,
        client: client?,
        store: store?,
        limits: limits?,
        placement: placement?,
        queue: queue?,
        priority,
        claim: claim?,
        sites: sites?,
        notify: notify?,
        reservations: reservations?,
        chaos: chaos?,
        log: log?,
        site,
        link,
    })
}

#[cfg(test)]
mod tests;
