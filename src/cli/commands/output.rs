//! `cospan output`: fetches files, each whole or not at all, and all files below directories.

mod tree;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use cospan_domain::ids::{ComponentName, RelPath};
use cospan_domain::units::Bytes;
use serde::Serialize;

use crate::cli::args_job::OutputArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::interrupt::set_partial_file;
use crate::cli::print::{color_state, format_columns, print_note};
use cospan_api::v1::job::{JobReport, OutputReport};
use cospan_client::Client;

/// The result for one output.
#[derive(Debug, Serialize)]
struct FetchedOutput {
    component: String,
    path: String,
    file: PathBuf,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

pub(crate) fn run(
    context: &mut CommandContext,
    args: &OutputArgs,
) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    let ids = context.resolve_ids(&client, &args.ids)?;
    let mut all = Vec::new();
    let mut exit = CliExitCode::Done;
    for &id in &ids {
        let job = client.job(id)?;
        let to = job_directory(args.to.as_deref(), &job, ids.len() > 1);
        for (component, output) in wanted_outputs(&job, args)? {
            let (fetched, error) =
                fetch_output(&client, &job, &component, output, &to, args.overwrite);
            exit = error.map_or(exit, |error| error.exit);
            all.push(fetched);
        }
    }
    if all.is_empty() {
        print_note(&match ids.as_slice() {
            [id] => format!("job {id} declares no outputs"),
            _ => "these jobs declare no outputs, or have not run yet".to_owned(),
        });
    }
    context.out.print_answer(&all, |all| format_fetched(all))?;
    Ok(exit)
}

/// Returns the directory for the outputs of a job.
fn job_directory(to: Option<&Path>, job: &JobReport, several: bool) -> PathBuf {
    let own = directory_name(job);
    match to {
        None => PathBuf::from(own),
        Some(to) if several => to.join(own),
        Some(to) => to.to_owned(),
    }
}

/// Longest name of a directory: file systems take 255 bytes.
const LONGEST_NAME: usize = 120;

/// Names the directory of a job: its number, and for a run of a sweep its parameters, as far as a
/// name of a file may have them.
fn directory_name(job: &JobReport) -> String {
    let mut name = format!("job-{}", job.id);
    let values = job.sweep.iter().flat_map(|task| &task.values);
    for (parameter, value) in values {
        name.push_str(&format!(",{parameter}={value}"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "+,-.=_".contains(c);
    name.chars()
        .map(|c| if plain(c) { c } else { '_' })
        .take(LONGEST_NAME)
        .collect()
}

fn wanted_outputs<'j>(
    job: &'j JobReport,
    args: &OutputArgs,
) -> Result<Vec<(String, &'j OutputReport)>, CliError> {
    let components = job.components.iter().filter(|component| {
        let wanted = args.component.as_ref();
        wanted.is_none_or(|wanted| *wanted == component.name)
    });
    let outputs: Vec<_> = components
        .clone()
        .flat_map(|c| c.outputs.iter().map(|output| (c.name.clone(), output)))
        .collect();
    match (&args.component, components.count()) {
        (Some(name), 0) => Err(CliError::usage_error(
            format!("job {} has no component {name:?} that ever ran", job.id),
            format!("see `cospan show {}`", job.id),
        )),
        _ => Ok(outputs),
    }
}

fn fetch_output(
    client: &Client,
    job: &JobReport,
    component: &str,
    output: &OutputReport,
    to: &Path,
    overwrite: bool,
) -> (FetchedOutput, Option<CliError>) {
    let mut fetched = FetchedOutput {
        component: component.into(),
        path: output.path.clone(),
        file: to.join(component).join(&output.path),
        outcome: "fetched",
        size_bytes: None,
        digest: None,
        problem: None,
    };
    // A path from the server must not lead out of the directory.
    let safe = ComponentName::new(component).is_ok() && RelPath::new(&output.path).is_ok();
    let result = if !safe {
        Err(CliError::usage_error(
            "its path leads elsewhere",
            "do not trust this server",
        ))
    } else {
        let way = OutputDownload {
            client,
            job: job.id,
            component,
            output,
            file: &fetched.file,
        };
        way.download_output(overwrite)
    };
    match result {
        Ok(arrived) => {
            fetched.outcome = if arrived.was_there {
                "there already"
            } else {
                "fetched"
            };
            fetched.size_bytes = Some(arrived.size);
            fetched.digest = Some(arrived.digest);
            (fetched, None)
        }
        Err(error) => {
            fetched.outcome = "failed";
            fetched.problem = Some(error.message.clone());
            (fetched, Some(error))
        }
    }
}

/// The file or directory on this side in the end.
struct DownloadedFile {
    size: u64,
    digest: String,
    /// True if it was there before.
    was_there: bool,
}

/// An output on its way to a file.
struct OutputDownload<'w> {
    client: &'w Client,
    job: u64,
    component: &'w str,
    output: &'w OutputReport,
    file: &'w Path,
}

impl OutputDownload<'_> {
    /// Fetches the output, be it a file or a directory.
    fn download_output(&self, overwrite: bool) -> Result<DownloadedFile, CliError> {
        // If a directory was fetched before, nothing is read as a file.
        let was_there = self.file.is_dir();
        let fetched = if was_there {
            Err(self.path_taken_error())
        } else {
            self.download_file(overwrite)
        };
        match fetched {
            // The server has no such file. Most missing files are not directories either; then the
            // error about the file counts.
            Err(error) if was_there || error.exit == CliExitCode::Refused => {
                let listed = self
                    .client
                    .list_tree(self.job, self.component, &self.output.path);
                match listed {
                    Ok(listed) => tree::download_tree(self, listed, overwrite),
                    Err(_) => Err(error),
                }
            }
            fetched => fetched,
        }
    }

    fn download_file(&self, overwrite: bool) -> Result<DownloadedFile, CliError> {
        if overwrite {
            self.download_into_place()
        } else {
            self.download_unless_present()
        }
    }

    fn path_taken_error(&self) -> CliError {
        CliError::usage_error(
            format!(
                "{} is already there, and is something else",
                self.file.display()
            ),
            "remove it, or fetch to another directory with --to",
        )
    }

    /// Fetches the file unless it is there already. Another file in its place stays as it is, and
    /// is reported.
    fn download_unless_present(&self) -> Result<DownloadedFile, CliError> {
        if std::fs::symlink_metadata(self.file).is_err() {
            return self.download_into_place();
        }
        let mine = read_local_file(self.file)?;
        // The digest of an output that stays at its site is unknown before it is fetched.
        let theirs = match &self.output.digest {
            Some(known) => known.clone(),
            None => {
                let partial = self.partial_path();
                let fetched = self.download_to(&partial);
                // The copy was only needed for its digest.
                let _ = std::fs::remove_file(&partial);
                fetched?.digest
            }
        };
        if mine.digest == theirs {
            return Ok(mine);
        }
        Err(CliError::usage_error(
            "a different file is already there; --overwrite replaces it",
            "fetch it with --overwrite, or to another directory with --to",
        ))
    }

    fn partial_path(&self) -> PathBuf {
        let mut partial = self.file.as_os_str().to_owned();
        partial.push(".part");
        PathBuf::from(partial)
    }

    /// Puts the file in place only if it is whole.
    fn download_into_place(&self) -> Result<DownloadedFile, CliError> {
        let partial = self.partial_path();
        let result = self.download_to(&partial).and_then(|found| {
            cospan_durable::rename_durably(&partial, self.file)
                .map_err(|error| CliError::file_error("put in place", self.file, &error))?;
            Ok(found)
        });
        if result.is_err() {
            // The first error is the one that matters.
            let _ = std::fs::remove_file(&partial);
        }
        result
    }

    fn download_to(&self, partial: &Path) -> Result<DownloadedFile, CliError> {
        let mut download =
            self.client
                .download_output(self.job, self.component, &self.output.path)?;
        let directory = self.file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory)
            .map_err(|error| CliError::file_error("make the directory", directory, &error))?;
        set_partial_file(Some(partial.to_owned()));
        let result =
            copy_and_hash(self.client, &mut download.bytes, partial).and_then(|(size, digest)| {
                check_download(self.output, download.size, size, &digest)?;
                Ok(DownloadedFile {
                    size,
                    digest,
                    was_there: false,
                })
            });
        set_partial_file(None);
        result
    }
}

/// Returns size and digest of a file on this side.
fn read_local_file(file: &Path) -> Result<DownloadedFile, CliError> {
    let opened = File::open(file).map_err(|error| CliError::file_error("read", file, &error))?;
    let mut hasher = blake3::Hasher::new();
    hasher
        .update_reader(opened)
        .map_err(|error| CliError::file_error("read", file, &error))?;
    let digest = hasher.finalize().to_hex().to_string();
    Ok(DownloadedFile {
        size: hasher.count(),
        digest,
        was_there: true,
    })
}

fn copy_and_hash(
    client: &Client,
    from: &mut dyn Read,
    to: &Path,
) -> Result<(u64, String), CliError> {
    let mut file = File::create(to).map_err(|error| CliError::file_error("write", to, &error))?;
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; 256 << 10];
    let mut size = 0;
    loop {
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => {
                hasher.update(&piece[..n]);
                file.write_all(&piece[..n])
                    .map_err(|error| CliError::file_error("write", to, &error))?;
                size += n as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(client.broken_connection_error(&error).into()),
        }
    }
    file.sync_all()
        .map_err(|error| CliError::file_error("write", to, &error))?;
    Ok((size, hasher.finalize().to_hex().to_string()))
}

fn check_download(
    output: &OutputReport,
    promised: Option<u64>,
    size: u64,
    digest: &str,
) -> Result<(), CliError> {
    let problem = match (promised, &output.digest) {
        (Some(promised), _) if promised != size => {
            format!("{size} of {promised} bytes arrived")
        }
        (_, Some(known)) if known != digest => "what arrived differs from what the site had".into(),
        _ => return Ok(()),
    };
    Err(CliError {
        exit: CliExitCode::Unreachable,
        message: problem,
        remedy: Some("fetch it again".into()),
        quiet: false,
    })
}

fn format_fetched(all: &[FetchedOutput]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|fetched: &FetchedOutput| {
            let outcome = match fetched.outcome {
                "failed" => color_state("failed"),
                other => other.to_owned(),
            };
            vec![
                fetched.file.display().to_string(),
                outcome,
                fetched
                    .size_bytes
                    .map(|size| Bytes(size).to_string())
                    .unwrap_or_default(),
                fetched.problem.clone().unwrap_or_default(),
            ]
        })
        .collect();
    if rows.is_empty() {
        String::new()
    } else {
        format_columns(&["FILE", "", "SIZE", ""], &rows)
    }
}
