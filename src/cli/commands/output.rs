//! `cospan output`: fetches files, each whole or not at all.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use cospan_domain::ids::{ComponentName, RelPath};
use cospan_domain::units::Bytes;
use serde::Serialize;

use crate::api::v1::job::{JobReport, OutputReport};
use crate::cli::args_job::OutputArgs;
use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::interrupt::set_half_written;
use crate::cli::out::{columns, note, state};
use crate::client::Client;

/// What became of one output.
#[derive(Debug, Serialize)]
struct Fetched {
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

/// Fetches the outputs of a job.
pub(crate) fn run(context: &mut Context, args: &OutputArgs) -> Result<Exit, CliError> {
    let client = context.client()?;
    let id = context.resolve_one(&client, &args.id)?;
    let job = client.job(id)?;
    let to = args.to.clone().unwrap_or_else(|| PathBuf::from(format!("job-{id}")));
    let mut all = Vec::new();
    let mut exit = Exit::Done;
    for (component, output) in wanted(&job, args)? {
        let (fetched, error) = fetch(&client, &job, &component, output, &to, args.replace);
        if let Some(error) = error {
            exit = error.exit;
        }
        all.push(fetched);
    }
    if all.is_empty() {
        note(&format!("job {id} declares no outputs"));
    }
    context.out.answer(&all, |all| table(all))?;
    Ok(exit)
}

fn wanted<'j>(
    job: &'j JobReport,
    args: &OutputArgs,
) -> Result<Vec<(String, &'j OutputReport)>, CliError> {
    let chosen = |name: &str| args.component.as_ref().is_none_or(|wanted| wanted == name);
    let components = job.components.iter().filter(|component| chosen(&component.name));
    let outputs: Vec<_> = components
        .clone()
        .flat_map(|c| c.outputs.iter().map(|output| (c.name.clone(), output)))
        .collect();
    match (&args.component, components.count()) {
        (Some(name), 0) => Err(CliError::usage(
            format!("job {} has no component {name:?} that ever ran", job.id),
            format!("see `cospan show {}`", job.id),
        )),
        _ => Ok(outputs),
    }
}

fn fetch(
    client: &Client,
    job: &JobReport,
    component: &str,
    output: &OutputReport,
    to: &Path,
    replace: bool,
) -> (Fetched, Option<CliError>) {
    let mut fetched = Fetched {
        component: component.into(),
        path: output.path.clone(),
        file: to.join(component).join(&output.path),
        outcome: "fetched",
        size_bytes: None,
        digest: None,
        problem: None,
    };
    // What a server names must not lead out of the directory.
    let safe = ComponentName::new(component).is_ok() && RelPath::new(&output.path).is_ok();
    let result = if !safe {
        Err(CliError::usage("its path leads elsewhere", "do not trust this server"))
    } else if fetched.file.exists() && !replace {
        fetched.outcome = "kept";
        fetched.problem = Some("there is such a file already; --replace replaces it".into());
        return (fetched, None);
    } else {
        download(client, job.id, component, output, &fetched.file)
    };
    match result {
        Ok((size, digest)) => {
            fetched.size_bytes = Some(size);
            fetched.digest = Some(digest);
            (fetched, None)
        }
        Err(error) => {
            fetched.outcome = "failed";
            fetched.problem = Some(error.message.clone());
            (fetched, Some(error))
        }
    }
}

/// Size and digest of what arrived, which is in place only if it is whole.
fn download(
    client: &Client,
    job: u64,
    component: &str,
    output: &OutputReport,
    file: &Path,
) -> Result<(u64, String), CliError> {
    let mut download = client.output(job, component, &output.path)?;
    let directory = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)
        .map_err(|error| CliError::file("make the directory", directory, &error))?;
    let mut partial = file.as_os_str().to_owned();
    partial.push(".part");
    let partial = PathBuf::from(partial);
    set_half_written(Some(partial.clone()));
    let result = copy(client, &mut download.bytes, &partial)
        .and_then(|(size, digest)| {
            whole(output, download.size, size, &digest).map(|()| (size, digest))
        })
        .and_then(|found| {
            std::fs::rename(&partial, file)
                .map_err(|error| CliError::file("put in place", file, &error))?;
            Ok(found)
        });
    if result.is_err() {
        // The first error is what matters.
        let _ = std::fs::remove_file(&partial);
    }
    set_half_written(None);
    result
}

fn copy(client: &Client, from: &mut dyn Read, to: &Path) -> Result<(u64, String), CliError> {
    let wrong = |error: &std::io::Error| CliError::file("write", to, error);
    let mut file = File::create(to).map_err(|error| wrong(&error))?;
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; 256 << 10];
    let mut size = 0;
    loop {
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => {
                hasher.update(&piece[..n]);
                file.write_all(&piece[..n]).map_err(|error| wrong(&error))?;
                size += n as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(client.broken(&error).into()),
        }
    }
    file.sync_all().map_err(|error| wrong(&error))?;
    Ok((size, hasher.finalize().to_hex().to_string()))
}

fn whole(
    output: &OutputReport,
    promised: Option<u64>,
    size: u64,
    digest: &str,
) -> Result<(), CliError> {
    let problem = match (promised, &output.digest) {
        (Some(promised), _) if promised != size => {
            format!("{size} of {promised} bytes arrived")
        }
        (_, Some(known)) if known != digest => "what arrived is not what the site had".into(),
        _ => return Ok(()),
    };
    Err(CliError {
        exit: Exit::Unreachable,
        message: problem,
        remedy: Some("fetch it again".into()),
        quiet: false,
    })
}

fn table(all: &[Fetched]) -> String {
    let row = |fetched: &Fetched| {
        let outcome = match fetched.outcome {
            "fetched" => "fetched".into(),
            other => state(other),
        };
        vec![
            fetched.file.display().to_string(),
            outcome,
            fetched.size_bytes.map(|size| Bytes(size).to_string()).unwrap_or_default(),
            fetched.problem.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    if rows.is_empty() { String::new() } else { columns(&["FILE", "", "SIZE", ""], &rows) }
}
