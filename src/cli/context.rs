//! What every command works with: configuration, client, and where to print.

use cospan_domain::ids::JobId;

use super::args::Global;
use super::exit::CliError;
use super::ids::{IdItem, IdList};
use super::out::{Out, note, warning_word};
use crate::client::{Client, JobFilter, ServerAddress};
use crate::config::{Environment, Loaded, Located, locate};
use crate::keys::KeyDirectory;

/// The largest page of a list.
pub(crate) const PAGE: u32 = 1_000;

/// Surroundings of a command.
pub(crate) struct Context {
    /// Options of every command.
    pub(crate) global: Global,
    /// The process's environment.
    pub(crate) environment: Environment,
    /// Where answers go.
    pub(crate) out: Out,
}

impl Context {
    /// What a client needs of the configuration. One that was only found, and is broken, does
    /// not keep anybody from a server that is named.
    fn config_of_client(&self) -> Result<Located, CliError> {
        let named = self.global.server.is_some() || self.environment.server.is_some();
        let only_found = self.global.config.is_none() && self.environment.config.is_none();
        match self.config() {
            Err(error) if named && only_found => {
                let told = error.message.lines().next().unwrap_or_default();
                note(&format!("{}: {told}; going on without it", warning_word()));
                let loaded = Loaded::defaults()?;
                Ok(Located { file: None, loaded })
            }
            located => located,
        }
    }

    /// The configuration in effect.
    ///
    /// # Errors
    /// It cannot be read, or is wrong.
    pub(crate) fn config(&self) -> Result<Located, CliError> {
        Ok(locate(self.global.config.as_deref(), &self.environment)?)
    }

    /// The server that is meant: `--server`, `COSPAN_SERVER`, or where the configuration says.
    ///
    /// # Errors
    /// It is no address.
    pub(crate) fn address(&self, located: &Located) -> Result<ServerAddress, CliError> {
        let given = [
            ("--server", self.global.server.as_ref()),
            ("COSPAN_SERVER", self.environment.server.as_ref()),
        ];
        match given.iter().find_map(|(from, text)| text.map(|text| (from, text))) {
            Some((from, text)) => text.parse().map_err(|problem| {
                CliError::usage(format!("{from}: {problem}"), "correct it, or leave it out")
            }),
            None => Ok(ServerAddress::of_server(&located.loaded.config.server)),
        }
    }

    /// Where the keys of the configured server are kept.
    pub(crate) fn keys(&self, located: &Located) -> KeyDirectory {
        KeyDirectory::new(located.loaded.config.keys_directory(&self.environment))
    }

    /// A client of the server, with the key of `COSPAN_TOKEN` or the one beside the store.
    ///
    /// # Errors
    /// The configuration, address, key file or certificate is wrong.
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        let located = self.config_of_client()?;
        let address = self.address(&located)?;
        let token = match &self.environment.token {
            Some(token) => Some(token.clone()),
            // The key of this machine's server is nobody else's business.
            None if !address.is_local() => None,
            None => self.keys(&located).local_token()?.map(|token| token.secret().to_owned()),
        };
        let config = &located.loaded.config;
        let trusted =
            config.client.ca_certificate.as_deref().or(config.server.tls_certificate.as_deref());
        Ok(Client::new(address, token, trusted)?)
    }

    /// Jobs as numbers, in the order given, each once.
    ///
    /// # Errors
    /// There is no `last`, or the server is not reachable.
    pub(crate) fn resolve(&self, client: &Client, ids: &IdList) -> Result<Vec<u64>, CliError> {
        let mut found = Vec::new();
        for item in &ids.0 {
            match item {
                IdItem::One(JobId(id)) => found.push(*id),
                IdItem::Range(JobId(from), JobId(to)) => found.extend(*from..=*to),
                IdItem::Last => found.push(last(client)?),
                IdItem::All => found.extend(every(client, JobFilter::default())?),
                IdItem::Group(JobId(group)) => found.extend(self.runs(client, *group)?),
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        found.retain(|id| seen.insert(*id));
        Ok(found)
    }

    /// The runs of a sweep that are not archived, the first first.
    ///
    /// # Errors
    /// There are none, or the server is not reachable.
    pub(crate) fn runs(&self, client: &Client, group: u64) -> Result<Vec<u64>, CliError> {
        let mut runs = every(client, JobFilter { group: Some(group), ..JobFilter::default() })?;
        runs.reverse();
        if runs.is_empty() {
            return Err(CliError::usage(
                format!("no sweep begins with job {group}, or its runs are archived"),
                "`cospan show ID` tells of a job's sweep; `cospan report --group` knows archived runs",
            ));
        }
        Ok(runs)
    }

    /// One job as a number.
    ///
    /// # Errors
    /// Several are meant, or as for [`Context::resolve`].
    pub(crate) fn resolve_one(&self, client: &Client, ids: &IdList) -> Result<u64, CliError> {
        match self.resolve(client, ids)?.as_slice() {
            [id] => Ok(*id),
            ids => Err(CliError::usage(
                format!("{} jobs are meant, but this command takes one", ids.len()),
                "name one job",
            )),
        }
    }
}

fn last(client: &Client) -> Result<u64, CliError> {
    let page = client.jobs(&JobFilter { limit: 1, ..JobFilter::default() })?;
    page.jobs.first().map(|row| row.id).ok_or_else(|| {
        CliError::usage("there is no last job: nothing was submitted yet", "submit one first")
    })
}

fn every(client: &Client, only: JobFilter) -> Result<Vec<u64>, CliError> {
    let mut ids = Vec::new();
    let mut filter = JobFilter { limit: PAGE, ..only };
    loop {
        let page = client.jobs(&filter)?;
        ids.extend(page.jobs.iter().map(|row| row.id));
        match page.next {
            Some(next) => filter.after = Some(next),
            None => return Ok(ids),
        }
    }
}
