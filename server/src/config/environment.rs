//! The environment of the process: the path of the configuration, the server to ask, the key to
//! show. Read once, in one place.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use cospan_api::server_address::ServerAddress;

use super::{AutoOrGiven, Config, ConfigError, LoadedConfig};

/// The variables that Cospan looks at.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentVariables {
    /// `COSPAN_CONFIG`: the configuration file.
    pub config: Option<PathBuf>,
    /// `COSPAN_SERVER`: the server to ask.
    pub server: Option<String>,
    /// `COSPAN_TOKEN`: the key to show it.
    pub token: Option<String>,
    /// `COSPAN_CA_CERTIFICATE`: the authority that signed the server's certificate.
    pub ca_certificate: Option<PathBuf>,
    /// `COSPAN_LOG`: what to log.
    pub log: Option<String>,
    /// `COSPAN_LISTEN`: where to listen instead of `server.listen`.
    pub listen: Option<String>,
    /// `STATE_DIRECTORY`: set by systemd.
    pub state_directory: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, or `~/.config`.
    pub config_home: Option<PathBuf>,
    /// `XDG_DATA_HOME`, or `~/.local/share`.
    pub data_home: Option<PathBuf>,
}

impl EnvironmentVariables {
    /// Reads the process's environment. Variables that are empty count as not set.
    pub fn from_process() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Self {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let text = |name: &str| get(name).and_then(|value| value.into_string().ok());
        let path = |name: &str| get(name).map(PathBuf::from);
        // systemd separates several directories by colons; the first is ours.
        let state =
            text("STATE_DIRECTORY").and_then(|all| all.split(':').next().map(PathBuf::from));
        Self {
            config: path("COSPAN_CONFIG"),
            server: text("COSPAN_SERVER"),
            token: text("COSPAN_TOKEN"),
            ca_certificate: path("COSPAN_CA_CERTIFICATE"),
            log: text("COSPAN_LOG"),
            listen: text("COSPAN_LISTEN"),
            state_directory: state,
            config_home: path("XDG_CONFIG_HOME")
                .or_else(|| path("HOME").map(|home| home.join(".config"))),
            data_home: path("XDG_DATA_HOME")
                .or_else(|| path("HOME").map(|home| home.join(".local/share"))),
        }
    }
}

/// A configuration and its file.
#[derive(Debug)]
pub struct LoadedConfigFile {
    /// The file; `None` if there was none and everything has its default.
    pub file: Option<PathBuf>,
    /// The configuration with its warnings.
    pub loaded: LoadedConfig,
}

/// Finds and reads the configuration: the given file, else that of `COSPAN_CONFIG`, else the
/// user's, else the machine's, else none.
///
/// # Errors
/// The file cannot be read, or anything in it is wrong.
pub fn find_and_load_config(
    given: Option<&Path>,
    environment: &EnvironmentVariables,
) -> Result<LoadedConfigFile, ConfigError> {
    let named = given
        .map(Path::to_path_buf)
        .or_else(|| environment.config.clone());
    let file = named.or_else(|| {
        let user = environment
            .config_home
            .as_ref()
            .map(|home| home.join("cospan/cospan.toml"));
        let machine = PathBuf::from("/etc/cospan/cospan.toml");
        user.into_iter().chain([machine]).find(|file| file.exists())
    });
    let loaded = match &file {
        Some(file) => Config::load(file)?,
        None => LoadedConfig::defaults()?,
    };
    Ok(LoadedConfigFile { file, loaded })
}

impl Config {
    /// Returns the address of a server with this configuration, as seen from its own machine.
    pub fn server_address(&self) -> ServerAddress {
        let default = SocketAddr::from((Ipv4Addr::LOCALHOST, ServerAddress::DEFAULT_PORT));
        let address = self.server.listen.first().copied().unwrap_or(default);
        ServerAddress::of_listener(address, self.server.tls_certificate.is_some())
    }

    /// Directory of everything that the server keeps.
    pub fn data_directory(&self, environment: &EnvironmentVariables) -> PathBuf {
        match &self.server.data_directory {
            AutoOrGiven::Given(directory) => directory.clone(),
            AutoOrGiven::Auto => environment
                .state_directory
                .clone()
                .or_else(|| {
                    environment
                        .data_home
                        .as_ref()
                        .map(|home| home.join("cospan"))
                })
                .unwrap_or_else(|| PathBuf::from("/var/lib/cospan")),
        }
    }

    /// Directory of the keys.
    pub fn keys_directory(&self, environment: &EnvironmentVariables) -> PathBuf {
        self.data_directory(environment).join("keys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> EnvironmentVariables {
        EnvironmentVariables::from_variables(|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_data_directory_is_systemds_before_the_users() {
        let config = Config::defaults().unwrap();
        let home = environment(&[("HOME", "/home/a")]);
        assert_eq!(
            config.data_directory(&home),
            Path::new("/home/a/.local/share/cospan")
        );
        let both = environment(&[("HOME", "/h"), ("STATE_DIRECTORY", "/var/lib/x:/var/lib/y")]);
        assert_eq!(config.data_directory(&both), Path::new("/var/lib/x"));
    }

    #[test]
    fn an_empty_variable_counts_as_not_set() {
        let environment = environment(&[("COSPAN_SERVER", ""), ("COSPAN_TOKEN", "t")]);
        assert_eq!(environment.server, None);
        assert_eq!(environment.token.as_deref(), Some("t"));
    }

    #[test]
    fn a_named_file_that_is_missing_is_an_error_but_no_file_at_all_is_not() {
        let nowhere = tempfile::tempdir().unwrap();
        let missing = nowhere.path().join("missing.toml");
        let error = find_and_load_config(Some(&missing), &EnvironmentVariables::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("missing.toml") && error.contains("COSPAN_CONFIG"),
            "{error}"
        );
        let home = EnvironmentVariables {
            config_home: Some(nowhere.path().into()),
            ..Default::default()
        };
        assert!(find_and_load_config(None, &home).is_ok());
    }
}
