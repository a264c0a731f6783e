//! The way to each site of the configuration.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cospan_sites::exec::CommandExecutor;
use cospan_sites::exec::child::ChildProcessExecutor;
use cospan_sites::exec::ssh::{SshConfig, SshExecutor};
use cospan_sites::port::SiteError;

use crate::config::sections::Site as Section;
use crate::site_kinds;

/// Longest time to log in.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest directory path in which the socket of a connection fits.
const DIRECTORY_MAX: usize = 60;

/// Longest site name that also serves as a name of a socket.
const NAME_MAX: usize = 24;

/// The way to a site.
pub enum SiteConnection {
    /// The commands of the site work on this machine.
    Here(Arc<ChildProcessExecutor>),
    /// The site is reached over a network.
    Ssh(Arc<SshExecutor>),
}

impl SiteConnection {
    /// Returns the executor of commands there.
    pub fn exec(&self) -> Arc<dyn CommandExecutor> {
        match self {
            SiteConnection::Here(exec) => exec.clone(),
            SiteConnection::Ssh(exec) => exec.clone(),
        }
    }

    /// Returns what keeps the connection from being made, and advice, if that is known.
    pub async fn connection_fault(&self) -> Option<(String, String)> {
        match self {
            SiteConnection::Here(_) => None,
            SiteConnection::Ssh(exec) => exec.connection_fault().await,
        }
    }

    /// Closes the connection.
    pub async fn close_connection(&self) {
        if let SiteConnection::Ssh(exec) = self {
            exec.close_connection().await;
        }
    }
}

/// Returns the host and directory of a site, which identify it: a site with others is another site.
pub(crate) fn identify_place(section: &Section) -> String {
    let root = section.root.display();
    match &section.ssh {
        Some(host) => format!("{host}:{root}"),
        None => root.to_string(),
    }
}

/// Returns the way to a site; `socket` is the path of the connection's socket.
///
/// # Errors
///
/// The host or the socket cannot be used.
pub fn open_connection(section: &Section, socket: &Path) -> Result<SiteConnection, SiteError> {
    Ok(match section.ssh {
        Some(_) => SiteConnection::Ssh(open_ssh(section, socket)?),
        None => SiteConnection::Here(Arc::new(ChildProcessExecutor::with_process_environment())),
    })
}

/// Returns the way to a site that is reached over SSH.
///
/// # Errors
/// As for [`open_connection`].
pub(crate) fn open_ssh(section: &Section, socket: &Path) -> Result<Arc<SshExecutor>, SiteError> {
    let ssh = SshConfig {
        host: section.ssh.clone().unwrap_or_default(),
        config: section.ssh_config.clone(),
        socket: socket.to_owned(),
        wanted: site_kinds::command_over_ssh(section)?,
        patience: PATIENCE,
    };
    SshExecutor::new(ssh)
        .map(Arc::new)
        .map_err(SiteError::Refused)
}

/// Returns the path of the socket of a site's connection, for a server with this data directory.
/// Nobody else may access its directory, and the path must be short.
///
/// # Errors
///
/// The directory cannot be used, with the reason.
pub(crate) fn socket_path(data: &Path, section: &Section) -> Result<PathBuf, SiteError> {
    let name = section.name.as_str();
    let name = if name.len() <= NAME_MAX {
        name.to_owned()
    } else {
        shorten_name(name)
    };
    let within = std::path::absolute(data)
        .unwrap_or_else(|_| data.to_owned())
        .join("ssh");
    let directory = if within.as_os_str().len() <= DIRECTORY_MAX {
        within
    } else {
        let path = within.to_string_lossy();
        std::env::temp_dir().join(format!("cospan-ssh-{}", shorten_name(&path)))
    };
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory);
    let why = match made.and_then(|()| std::fs::symlink_metadata(&directory)) {
        Ok(meta) if !meta.is_dir() => "it is no directory".to_owned(),
        Ok(meta) if meta.uid() != rustix::process::geteuid().as_raw() => {
            "it belongs to somebody else".to_owned()
        }
        Ok(meta) if meta.permissions().mode() & 0o077 != 0 => {
            "others may go there; take their rights away (chmod 700)".to_owned()
        }
        Ok(_) => return Ok(directory.join(name)),
        Err(error) => error.to_string(),
    };
    Err(SiteError::Refused(format!(
        "{} cannot have the socket of a connection: {why}",
        directory.display()
    )))
}

fn shorten_name(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
}
