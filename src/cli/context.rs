//! The context of every command: configuration, client, and output.

use std::time::{Duration, Instant};

use cospan_domain::ids::JobId;

use super::args::GlobalArgs;
use super::exit::CliError;
use super::ids::{JobIdItem, JobIdList};
use super::print::{AnswerPrinter, print_note, warning_word};
use cospan_api::v1::job::JobRow;
use cospan_client::{Client, JobFilter, ServerAddress};
use cospan_server::config::{
    EnvironmentVariables, LoadedConfig, LoadedConfigFile, find_and_load_config,
};
use cospan_server::keys::KeyDirectory;
use cospan_server::serve::server_file::RunningServerInfo;

/// The largest page of a list.
pub(crate) const PAGE: u32 = 1_000;

/// Time during which a server on this machine that does not answer is assumed to be starting, as
/// after `cospan serve &` in the line above.
const STARTING_MAX: Duration = Duration::from_secs(2);
/// Time between two looks for the server.
const LOOK: Duration = Duration::from_millis(20);

/// The context of a command.
pub(crate) struct CommandContext {
    /// Options of every command.
    pub(crate) global: GlobalArgs,
    /// The environment of the process.
    pub(crate) environment: EnvironmentVariables,
    /// The output for answers.
    pub(crate) out: AnswerPrinter,
}

impl CommandContext {
    /// Returns the configuration for a client. A broken configuration that was only found by
    /// default does not keep anybody from a server that is named.
    fn client_config(&self) -> Result<LoadedConfigFile, CliError> {
        let named = self.names_server();
        let only_found = self.global.config.is_none() && self.environment.config.is_none();
        match self.config() {
            Err(error) if named && only_found => {
                let told = error.message.lines().next().unwrap_or_default();
                print_note(&format!("{}: {told}; going on without it", warning_word()));
                let loaded = LoadedConfig::defaults()?;
                Ok(LoadedConfigFile { file: None, loaded })
            }
            located => located,
        }
    }

    /// Returns true if a server is named, other than by the configuration.
    pub(crate) fn names_server(&self) -> bool {
        self.global.server.is_some() || self.environment.server.is_some()
    }

    /// Returns the configuration in effect.
    ///
    /// # Errors
    /// It cannot be read, or is wrong.
    pub(crate) fn config(&self) -> Result<LoadedConfigFile, CliError> {
        let mut located = find_and_load_config(self.global.config.as_deref(), &self.environment)?;
        if let Some(text) = &self.environment.listen {
            let address = text.parse().map_err(|_| {
                let remedy = "write an address and a port like 127.0.0.1:7440";
                CliError::usage_error(format!("COSPAN_LISTEN is {text:?}"), remedy)
            })?;
            located.loaded.config.server.listen = vec![address];
        }
        Ok(located)
    }

    /// Returns the address of the server: `--server`, `COSPAN_SERVER`, or where the server on this
    /// machine listens.
    ///
    /// # Errors
    ///
    /// It is not a valid address.
    pub(crate) fn server_address(
        &self,
        located: &LoadedConfigFile,
    ) -> Result<ServerAddress, CliError> {
        let given = [
            ("--server", self.global.server.as_ref()),
            ("COSPAN_SERVER", self.environment.server.as_ref()),
        ];
        match given
            .iter()
            .find_map(|(from, text)| text.map(|text| (from, text)))
        {
            Some((from, text)) => text.parse().map_err(|problem| {
                CliError::usage_error(format!("{from}: {problem}"), "correct it, or leave it out")
            }),
            None => Ok(self.local_address(located)),
        }
    }

    /// Returns the configured address. A port that the system chose is known once the server
    /// reports it.
    fn local_address(&self, located: &LoadedConfigFile) -> ServerAddress {
        let config = &located.loaded.config;
        let configured = config.server_address();
        if config
            .server
            .listen
            .first()
            .is_none_or(|address| address.port() != 0)
        {
            return configured;
        }
        let data = config.data_directory(&self.environment);
        poll_until(Instant::now() + STARTING_MAX, || {
            RunningServerInfo::find_running(&data)
                .ok()
                .flatten()?
                .addresses
                .first()?
                .parse()
                .ok()
        })
        .unwrap_or(configured)
    }

    /// Returns the directory with the keys of the configured server.
    pub(crate) fn key_directory(&self, located: &LoadedConfigFile) -> KeyDirectory {
        KeyDirectory::new(located.loaded.config.keys_directory(&self.environment))
    }

    /// Creates a client of the server, with the key of `COSPAN_TOKEN` or the one beside the store.
    ///
    /// # Errors
    /// The configuration, address, key file or certificate is wrong.
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        let located = self.client_config()?;
        let starting = Instant::now() + STARTING_MAX;
        let address = self.server_address(&located)?;
        let here = address.is_local();
        let token = match &self.environment.token {
            Some(token) => Some(token.clone()),
            // The key of this machine's server is not sent to any other server.
            None if !address.is_local() => None,
            None => {
                let keys = self.key_directory(&located);
                // At its first start the server makes the first key.
                let until = if self.names_server() {
                    Instant::now()
                } else {
                    starting
                };
                let token = poll_until(until, || keys.local_token().transpose()).transpose()?;
                token.map(|token| token.secret().to_owned())
            }
        };
        let config = &located.loaded.config;
        let trusted = [
            &self.global.ca_certificate,
            &self.environment.ca_certificate,
            &config.client.ca_certificate,
            &config.server.tls_certificate,
        ];
        let trusted = trusted.into_iter().find_map(Option::as_deref);
        let client = Client::new(address, token, trusted)?;
        Ok(if here {
            client.retrying_until(starting)
        } else {
            client
        })
    }

    /// Returns jobs as numbers, in the order given, each once.
    ///
    /// # Errors
    /// There is no `last`, or the server is not reachable.
    pub(crate) fn resolve_ids(
        &self,
        client: &Client,
        ids: &[JobIdList],
    ) -> Result<Vec<u64>, CliError> {
        let mut found = Vec::new();
        for item in ids.iter().flat_map(|list| &list.0) {
            match item {
                JobIdItem::One(JobId(id)) => found.push(*id),
                JobIdItem::Range(JobId(from), JobId(to)) => {
                    found.extend(list_range(client, *from, *to)?)
                }
                JobIdItem::Last => {
                    let newest = newest_job(client)?;
                    match newest.group {
                        Some(group) => found.extend(self.list_runs(client, group)?),
                        None => found.push(newest.id),
                    }
                }
                JobIdItem::All => found.extend(list_every_id(client, JobFilter::default())?),
                JobIdItem::Group(JobId(group)) => found.extend(self.list_runs(client, *group)?),
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        found.retain(|id| seen.insert(*id));
        Ok(found)
    }

    /// Lists the runs of a sweep that are not archived, in order.
    ///
    /// # Errors
    /// There are none, or the server is not reachable.
    pub(crate) fn list_runs(&self, client: &Client, group: u64) -> Result<Vec<u64>, CliError> {
        let mut runs = list_every_id(
            client,
            JobFilter {
                group: Some(group),
                ..JobFilter::default()
            },
        )?;
        runs.reverse();
        if runs.is_empty() {
            return Err(CliError::usage_error(
                format!("no sweep begins with job {group}, or its runs are archived"),
                "`cospan show ID` names a job's sweep; `cospan report --group` has archived runs",
            ));
        }
        Ok(runs)
    }

    /// Returns one job as a number.
    ///
    /// # Errors
    /// Several are meant, or as for [`CommandContext::resolve_ids`].
    pub(crate) fn resolve_one(&self, client: &Client, ids: &JobIdList) -> Result<u64, CliError> {
        match self
            .resolve_ids(client, std::slice::from_ref(ids))?
            .as_slice()
        {
            [id] => Ok(*id),
            ids => Err(CliError::usage_error(
                format!("this command takes one job, not {}", ids.len()),
                "name one job",
            )),
        }
    }
}

/// Repeats a look until it finds something or the time is over; looks at least once.
fn poll_until<T>(until: Instant, look: impl Fn() -> Option<T>) -> Option<T> {
    loop {
        match look() {
            None if Instant::now() < until => std::thread::sleep(LOOK),
            found => return found,
        }
    }
}

/// Returns the job that was submitted last, or a run of the sweep that was.
pub(crate) fn newest_job(client: &Client) -> Result<JobRow, CliError> {
    let page = client.list_jobs(&JobFilter {
        limit: 1,
        ..JobFilter::default()
    })?;
    page.jobs.into_iter().next().ok_or_else(|| {
        CliError::usage_error(
            "there is no last job: nothing was submitted yet",
            "submit one first",
        )
    })
}

/// Lists the jobs between two numbers, archived ones included. Numbers leave gaps: the server leaps
/// when it starts.
fn list_range(client: &Client, from: u64, to: u64) -> Result<Vec<u64>, CliError> {
    let mut ids = Vec::new();
    let mut filter = JobFilter {
        after: Some(from.saturating_sub(1)),
        limit: PAGE,
        ..JobFilter::default()
    };
    loop {
        let page = client.list_accounts(&filter)?;
        let in_range = page.jobs.iter().map(|row| row.id).filter(|id| *id <= to);
        ids.extend(in_range);
        match page.next {
            Some(next) if next < to => filter.after = Some(next),
            _ => break,
        }
    }
    if ids.is_empty() {
        return Err(CliError::usage_error(
            format!("there is no job from {from} to {to}"),
            "`cospan list` shows the jobs that there are",
        ));
    }
    Ok(ids)
}

fn list_every_id(client: &Client, only: JobFilter) -> Result<Vec<u64>, CliError> {
    let mut ids = Vec::new();
    let mut filter = JobFilter {
        limit: PAGE,
        ..only
    };
    loop {
        let page = client.list_jobs(&filter)?;
        ids.extend(page.jobs.iter().map(|row| row.id));
        match page.next {
            Some(next) => filter.after = Some(next),
            None => return Ok(ids),
        }
    }
}
