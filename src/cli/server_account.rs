//! The account of the server on this machine.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::exit::CliError;
use cospan_server::config::LoadedConfigFile;

/// Makes sure that files of the server are changed by its own account: what root wrote there would
/// belong to root, and the server could not read it. As root this starts the same command again
/// under that account, and does not return.
///
/// # Errors
/// There is no data directory yet, which only the server makes, or the account cannot be taken.
pub(crate) fn continue_as_server_account(
    data: &Path,
    located: &LoadedConfigFile,
) -> Result<(), CliError> {
    let found = match std::fs::metadata(data) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(CliError::usage_error(
                format!("there is no server with its data in {}", data.display()),
                "start it first: `cospan serve` makes the directory. If it has another \
                 configuration, name that with --config",
            ));
        }
        Err(error) => return Err(CliError::file_error("look at", data, &error)),
    };
    if !rustix::process::geteuid().is_root() || found.uid() == 0 {
        return Ok(());
    }
    let program = std::env::current_exe()
        .map_err(|error| CliError::file_error("find", Path::new("cospan"), &error))?;
    let mut again = Command::new(program);
    again
        .args(std::env::args_os().skip(1))
        .uid(found.uid())
        .gid(found.gid());
    // The account would look for another file in its own home.
    if let Some(file) = &located.file {
        again.env("COSPAN_CONFIG", file);
    }
    let error = again.exec();
    Err(CliError::usage_error(
        format!("cannot go on as the server's account: {error}"),
        format!(
            "run it as user {}, who owns {}",
            found.uid(),
            data.display()
        ),
    ))
}
