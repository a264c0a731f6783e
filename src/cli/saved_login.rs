//! The server and key that `cospan login` keeps for a user, in a file of the user's own.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::args::GlobalArgs;
use super::exit::CliError;
use cospan_server::config::EnvironmentVariables;

/// A server, and the key for it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedLogin {
    pub(crate) server: String,
    pub(crate) token: String,
    /// The authority that signed the server's certificate, if it is no public one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca_certificate: Option<PathBuf>,
}

impl SavedLogin {
    /// Returns the place of the file; `None` without a home.
    fn place(environment: &EnvironmentVariables) -> Option<PathBuf> {
        let home = environment.config_home.as_ref();
        home.map(|home| home.join("cospan/login.toml"))
    }

    /// Reads the login, if there is one.
    ///
    /// # Errors
    /// The file is damaged, or somebody else can read it.
    pub(crate) fn read(environment: &EnvironmentVariables) -> Result<Option<Self>, CliError> {
        let Some(file) = Self::place(environment) else {
            return Ok(None);
        };
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(CliError::file_error("read", &file, &error)),
        };
        check_private(&file)?;
        let read: Result<Self, _> = toml::from_str(&text);
        read.map(Some).map_err(|_| {
            CliError::usage_error(
                format!("{} is damaged", file.display()),
                "write it anew with `cospan login`, or remove it with `cospan logout`",
            )
        })
    }

    /// Keeps the login, in place of an earlier one; returns its file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, environment: &EnvironmentVariables) -> Result<PathBuf, CliError> {
        let Some(file) = Self::place(environment) else {
            return Err(CliError::usage_error(
                "there is no place for the login: HOME is not set",
                "set HOME, or give COSPAN_SERVER and COSPAN_TOKEN to each command",
            ));
        };
        let text = toml::to_string(self).map_err(|error| {
            CliError::usage_error(error.to_string(), "correct the address or the key")
        })?;
        let directory = file.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(directory)
            .map_err(|error| CliError::file_error("make", directory, &error))?;
        cospan_durable::replace_file(&file, text.as_bytes())
            .map_err(|error| CliError::file_error("write", &file, &error))?;
        Ok(file)
    }

    /// Removes the login; returns false if there is none.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn remove(environment: &EnvironmentVariables) -> Result<bool, CliError> {
        let Some(file) = Self::place(environment) else {
            return Ok(false);
        };
        match std::fs::remove_file(&file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(CliError::file_error("remove", &file, &error)),
        }
    }

    /// Has a command ask the server of the login, unless the command or its environment names
    /// another one, or a configuration.
    pub(crate) fn apply(self, environment: &mut EnvironmentVariables, options: &GlobalArgs) {
        let named = options.server.as_ref().or(environment.server.as_ref());
        let configured = options.config.is_some() || environment.config.is_some();
        let is_meant = match named {
            Some(named) => *named == self.server,
            None => !configured,
        };
        if !is_meant {
            return;
        }
        environment.server.get_or_insert(self.server);
        environment.token.get_or_insert(self.token);
        if environment.ca_certificate.is_none() {
            environment.ca_certificate = self.ca_certificate;
        }
    }
}

fn check_private(file: &Path) -> Result<(), CliError> {
    let found =
        std::fs::metadata(file).map_err(|error| CliError::file_error("look at", file, &error))?;
    if found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(CliError::usage_error(
        format!(
            "{} holds a key, and others can read or change it (mode {:03o})",
            file.display(),
            found.mode() & 0o777
        ),
        format!("run: chmod 600 {}", file.display()),
    ))
}
