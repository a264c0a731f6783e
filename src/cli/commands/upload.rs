//! Sends a file to the server, piece by piece. A broken connection, or a restart of the server,
//! costs only the piece that was under way.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use cospan_domain::ids::{Digest, LogicalName, SiteName};
use cospan_domain::units::Bytes;

use crate::cli::exit::CliError;
use crate::cli::print::print_note;
use cospan_api::v1::problem::Code;
use cospan_api::v1::upload::{UploadReport, UploadRequest, UploadState};
use cospan_client::{Client, ClientError};

/// Largest piece: a broken connection costs no more.
const PIECE_MAX: u64 = 1 << 20;
/// Number of failures in a row after which we give up; the waits between them grow to ten seconds.
const TRIES: u32 = 12;
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Time between two looks at work under way at the server.
const LOOK: Duration = Duration::from_millis(200);
/// Time between two progress lines.
const WORD: Duration = Duration::from_secs(10);
/// Shorter files are sent without progress lines.
const QUIET: u64 = 8 << 20;

/// The registration of a file that is sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct UploadRegistration {
    /// The logical name; a name of its own if `None`.
    pub(crate) name: Option<LogicalName>,
    /// The site; any that can hold the file if `None`.
    pub(crate) site: Option<SiteName>,
    /// Allow the name to point to other content until now.
    pub(crate) replace: bool,
}

/// Sends a file, and returns the logical name that it then has.
pub(crate) fn upload_file(
    client: &Client,
    path: &Path,
    wish: &UploadRegistration,
) -> Result<LogicalName, CliError> {
    let unread = |error: std::io::Error| CliError::file_error("read", path, &error);
    // Checked before it is opened: opening a pipe would wait.
    if !std::fs::metadata(path).map_err(unread)?.is_file() {
        return Err(CliError::usage_error(
            format!("{} is no regular file", path.display()),
            "pack a directory into one: tar -cf name.tar DIRECTORY",
        ));
    }
    let mut file = File::open(path).map_err(unread)?;
    let (digest, size_bytes) = hash_content(&mut file).map_err(unread)?;
    let request = UploadRequest {
        name: wish.name.clone(),
        file_name: path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned()),
        size_bytes,
        digest,
        site: wish.site.clone(),
        replace: wish.replace,
    };
    let upload = retry_patiently(|| client.begin_upload(&request))?;
    if let (Some(id), true) = (&upload.id, upload.state != UploadState::Done) {
        if upload.offset > 0 {
            print_note(&format!(
                "{}: going on at byte {}",
                path.display(),
                upload.offset
            ));
        } else if size_bytes > QUIET {
            print_note(&format!(
                "uploading {} ({})",
                path.display(),
                Bytes(size_bytes)
            ));
        }
        send_pieces(client, &file, id, &upload).map_err(|error| upload_error(path, error))?;
        while retry_patiently(|| client.complete_upload(id))
            .map_err(|error| upload_error(path, error))?
            .is_none()
        {
            std::thread::sleep(LOOK);
        }
    }
    upload
        .name
        .parse()
        .map_err(|error: cospan_domain::ids::IdentifierError| {
            CliError::usage_error(
                error.to_string(),
                "the server gave this name; report this as a bug",
            )
        })
}

fn upload_error(path: &Path, error: ClientError) -> CliError {
    let error = CliError::from(error);
    CliError {
        message: format!("{}: {}", path.display(), error.message),
        ..error
    }
}

fn hash_content(file: &mut File) -> std::io::Result<(Digest, u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((Digest(*hasher.finalize().as_bytes()), size)),
            read => {
                hasher.update(&piece[..read]);
                size += read as u64;
            }
        }
    }
}

fn send_pieces(
    client: &Client,
    file: &File,
    id: &str,
    begun: &UploadReport,
) -> Result<(), ClientError> {
    let mut offset = begun.offset;
    let longest = begun.max_piece_bytes.clamp(1, PIECE_MAX);
    let mut told = Instant::now();
    while offset < begun.size_bytes {
        let length = longest.min(begun.size_bytes - offset);
        let mut piece = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut piece, offset)
            .map_err(ClientError::Local)?;
        let sent = retry_patiently(|| match client.append_upload(id, offset, &piece) {
            // An answer was lost: the pieces that it acknowledged have arrived.
            Err(ClientError::Refused(problem)) if problem.code == Code::Conflict.as_str() => {
                client.upload(id)
            }
            answer => answer,
        });
        let arrived = sent?.offset;
        if arrived <= offset {
            // Another request works on it, perhaps one of ours whose answer was lost.
            std::thread::sleep(LOOK);
        }
        offset = arrived;
        if told.elapsed() >= WORD {
            told = Instant::now();
            print_note(&format!(
                "{}: {} of {}",
                begun.name,
                Bytes(offset),
                Bytes(begun.size_bytes)
            ));
        }
    }
    Ok(())
}

/// Tries again while the error may pass by itself.
fn retry_patiently<T>(what: impl Fn() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let mut failures = 0;
    loop {
        let error = match what() {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        failures += 1;
        let status = error.problem().map(|problem| problem.status);
        if failures >= TRIES || !error.is_temporary() || status == Some(502) {
            return Err(error);
        }
        let pause = Duration::from_millis(100 << failures).min(LONGEST_PAUSE);
        if pause >= Duration::from_secs(1) {
            print_note(&format!("{error}; trying again in {} s", pause.as_secs()));
        }
        std::thread::sleep(pause);
    }
}
