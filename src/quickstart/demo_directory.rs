//! The directory of the demonstration: fresh, with a configuration and an input file.

use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::processes;
use super::quickstart_error::QuickstartError;
use cospan_server::file_system::is_in_memory;
use cospan_server::keys::KeyDirectory;

/// A site of the demonstration.
#[derive(Debug, Clone, Copy)]
pub(super) struct DemoSite {
    pub(super) name: &'static str,
    pub(super) processors: u32,
}

/// The sites. Any two of them can hold the whole job; the first has the input.
pub(super) const SITES: [DemoSite; 3] = [
    DemoSite {
        name: "amsterdam",
        processors: 8,
    },
    DemoSite {
        name: "berlin",
        processors: 6,
    },
    DemoSite {
        name: "cracow",
        processors: 6,
    },
];

/// Bandwidth of each link: slow enough that a transfer can be watched.
pub(super) const BANDWIDTH: &str = "24Mbit/s";

/// A fresh directory.
#[derive(Debug, Clone)]
pub(super) struct DemoDirectory {
    /// Absolute, without links, and UTF-8.
    pub(super) directory: PathBuf,
    /// True if the program chose the place: then it may clear it.
    pub(super) chosen_by_us: bool,
}

impl DemoDirectory {
    /// Creates the directory: the given one if it is new or empty, else one of our choice.
    pub(super) fn prepare(given: Option<&Path>) -> Result<Self, QuickstartError> {
        let made = match given {
            Some(path) => make_empty_directory(path)?,
            None => make_temporary_directory()?,
        };
        let directory =
            fs::canonicalize(&made).map_err(QuickstartError::file_error("find", &made))?;
        if directory.to_str().is_none() {
            return Err(QuickstartError::OddName(directory));
        }
        Ok(Self {
            directory,
            chosen_by_us: given.is_none(),
        })
    }

    pub(super) fn config_file(&self) -> PathBuf {
        self.directory.join("cospan.toml")
    }

    pub(super) fn data_directory(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub(super) fn log_file(&self) -> PathBuf {
        self.directory.join("server.log")
    }

    pub(super) fn site_roots(&self) -> PathBuf {
        self.directory.join("sites")
    }

    pub(super) fn site_root(&self, name: &str) -> PathBuf {
        self.site_roots().join(name)
    }

    pub(super) fn job_file(&self) -> PathBuf {
        self.directory.join("job.toml")
    }

    pub(super) fn results_directory(&self) -> PathBuf {
        self.directory.join("results")
    }

    /// The place where the directory of a dead site is moved.
    pub(super) fn dead_site_directory(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.dead"))
    }

    /// Writes a whole file of the demonstration.
    pub(super) fn write_file(path: &Path, content: &[u8]) -> Result<(), QuickstartError> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(QuickstartError::file_error("make", parent))?;
        }
        fs::write(path, content).map_err(QuickstartError::file_error("write", path))
    }

    /// The part of a configuration with the server's data directory and address.
    pub(super) fn server_section(&self, port: u16) -> String {
        let data = quote_path(&self.data_directory());
        format!("[server]\ndata_directory = {data}\nlisten = [\"127.0.0.1:{port}\"]\n")
    }
}

/// The sites of a demonstration, and what belongs to them.
pub(super) trait DemoSites: Debug + Send + Sync {
    /// The configuration of a server at this port.
    fn config_text(&self, demo: &DemoDirectory, port: u16) -> String;

    /// The file of this program to start as the server; `None` for this very one.
    fn server_program(&self, _demo: &DemoDirectory) -> Option<PathBuf> {
        None
    }

    /// Makes a process run under the account of the server.
    fn run_as(&self, _command: &mut Command) {}

    /// The token by which the server knows its administrator.
    fn admin_token(&self, demo: &DemoDirectory) -> Result<Option<String>, QuickstartError> {
        let keys = KeyDirectory::new(demo.data_directory().join("keys"));
        Ok(keys.local_token()?.map(|token| token.secret().to_owned()))
    }

    /// Ends all processes at the sites, and closes the sites.
    fn end_sites(&self, demo: &DemoDirectory) -> Result<(), QuickstartError>;
}

/// Sites that this machine plays.
#[derive(Debug)]
pub(super) struct LocalSites;

impl DemoSites for LocalSites {
    fn config_text(&self, demo: &DemoDirectory, port: u16) -> String {
        let server = demo.server_section(port);
        let mut text = format!("{CONFIG_HEAD}\n{server}{CONFIG_SETTINGS}");
        for DemoSite { name, processors } in SITES {
            text.push_str(&format!(
                "\n[[site]]\nname = \"{name}\"\nkind = \"local\"\nroot = {}\nprocessors = {processors}\n",
                quote_path(&demo.site_root(name)),
            ));
        }
        for (at, from) in SITES.iter().enumerate() {
            for to in &SITES[at + 1..] {
                text.push_str(&format!(
                    "\n[[link]]\nfrom = \"{}\"\nto = \"{}\"\nbandwidth = \"{BANDWIDTH}\"\n",
                    from.name, to.name,
                ));
            }
        }
        text
    }

    fn end_sites(&self, demo: &DemoDirectory) -> Result<(), QuickstartError> {
        processes::kill_all(&demo.site_roots())
            .map(drop)
            .map_err(QuickstartError::Processes)
    }
}

const CONFIG_HEAD: &str = "\
# Made by `cospan quickstart`: three clusters, played by this machine.
# `cospan config show` prints every setting with its value.
";

const CONFIG_SETTINGS: &str = "
# What follows is for impatient spectators. The defaults suit real clusters,
# which may be silent for a while without being dead.
[sites]
# Ask each site twice a second what it is doing.
poll_interval = \"500ms\"
# A site that does not answer for this long is unreachable.
unreachable_after = \"2s\"
# One error makes a site unusable, until a probe finds it well.
site_error_threshold = 1
probe_interval = \"15s\"
# If one site of three falls silent, that site is dead. If two do within this
# time, we are the ones cut off, and nothing is charged or moved.
isolation_window = \"2s\"
";

/// A path as TOML writes a text. It is UTF-8, which `prepare` has made sure of.
pub(super) fn quote_path(path: &Path) -> String {
    toml::Value::String(path.to_string_lossy().into_owned()).to_string()
}

fn make_empty_directory(path: &Path) -> Result<PathBuf, QuickstartError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(path)
        .map_err(QuickstartError::file_error("make", path))?;
    let mut entries = fs::read_dir(path).map_err(QuickstartError::file_error("read", path))?;
    match entries.next() {
        None => Ok(path.to_owned()),
        Some(_) => Err(QuickstartError::NotEmpty(path.to_owned())),
    }
}

/// Creates a directory below the system's temporary directory, but not in memory: there nothing is
/// durable.
fn make_temporary_directory() -> Result<PathBuf, QuickstartError> {
    let mut place = std::env::temp_dir();
    if is_in_memory(&place) {
        place = PathBuf::from(".");
    }
    let made = tempfile::Builder::new()
        .prefix("cospan-quickstart-")
        .tempdir_in(&place);
    made.map(tempfile::TempDir::keep)
        .map_err(QuickstartError::file_error("make a directory in", &place))
}

/// Removes a directory of ours. What cannot be removed stays: it does no harm.
pub(super) fn remove_directory(directory: &Path) {
    let _ = cospan_sites::remove_tree(directory);
}

#[cfg(test)]
mod tests {
    use super::*;
    use cospan_server::config::Config;

    #[test]
    fn the_configuration_is_valid_and_names_what_was_prepared() {
        let home = tempfile::tempdir().unwrap();
        let demo = DemoDirectory::prepare(Some(&home.path().join("a \"new\" one"))).unwrap();
        let loaded =
            Config::parse(&demo.config_file(), &LocalSites.config_text(&demo, 7000)).unwrap();
        assert_eq!(loaded.config.site.len(), SITES.len());
        assert_eq!(loaded.config.site[0].root, demo.site_root("amsterdam"));
        assert_eq!(loaded.config.server.listen[0].port(), 7000);
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    }

    #[test]
    fn a_directory_with_something_in_it_is_refused() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("thesis.tex"), "").unwrap();
        let refused = DemoDirectory::prepare(Some(home.path()));
        assert!(
            matches!(refused, Err(QuickstartError::NotEmpty(_))),
            "{refused:?}"
        );
    }
}
