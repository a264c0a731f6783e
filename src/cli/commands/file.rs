//! `cospan file ...`

use cospan_domain::ids::IdentifierError;
use cospan_domain::units::Bytes;

use super::upload::{UploadRegistration, upload_file};
use crate::cli::args_operate::FileSubcommand;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::{bold, format_columns, format_name_values};
use cospan_api::v1::file::{FilePage, FileRegistration, FileReport};
use cospan_api::v1::upload::{UploadPage, UploadReport, UploadState};
use cospan_client::Client;

/// Registers input files and shows them.
pub(crate) fn run(
    context: &mut CommandContext,
    command: &FileSubcommand,
) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    match command {
        FileSubcommand::List => context
            .out
            .print_answer(&all_files(&client)?, format_files)?,
        FileSubcommand::Show { name } => {
            context.out.print_answer(&client.file(name)?, format_file)?
        }
        FileSubcommand::Add {
            name,
            site,
            path,
            replace,
        } => {
            let file = FileRegistration {
                name: name.parse().map_err(reject_name)?,
                site: site.parse().map_err(reject_name)?,
                path: path.parse().map_err(reject_name)?,
                replace: *replace,
            };
            context
                .out
                .print_answer(&client.add_file(&file)?, format_file)?;
        }
        FileSubcommand::Upload {
            path,
            name,
            site,
            replace,
        } => {
            let own = path.file_name().and_then(|name| name.to_str());
            let wish = UploadRegistration {
                name: name
                    .as_deref()
                    .or(own)
                    .map(str::parse)
                    .transpose()
                    .map_err(reject_name)?,
                site: site
                    .as_deref()
                    .map(str::parse)
                    .transpose()
                    .map_err(reject_name)?,
                replace: *replace,
            };
            let name = upload_file(&client, path, &wish)?;
            context
                .out
                .print_answer(&client.file(name.as_str())?, format_file)?;
        }
        FileSubcommand::Uploads { give_up: None } => context
            .out
            .print_answer(&list_unfinished_uploads(&client)?, format_uploads)?,
        FileSubcommand::Uploads { give_up: Some(id) } => {
            let upload = find_upload(&client, id)?;
            client.abandon_upload(upload.id.as_deref().unwrap_or(id))?;
            context.out.print_answer(&upload, |upload| {
                format!("upload of {} given up; its data is deleted\n", upload.name)
            })?;
        }
        FileSubcommand::Remove { name, site, force } => {
            client.remove_file(name, site.as_deref(), *force)?;
            let what = site
                .as_ref()
                .map_or_else(String::new, |site| format!(" at {site}"));
            let done = serde_json::json!({ "removed": name, "site": site });
            context.out.print_answer(&done, |_| {
                format!("file {name}{what} removed from the catalogue\n")
            })?;
        }
    }
    Ok(CliExitCode::Done)
}

fn reject_name(error: IdentifierError) -> CliError {
    CliError::usage_error(error.to_string(), "correct the name")
}

fn all_files(client: &Client) -> Result<FilePage, CliError> {
    let mut page = client.list_files(None)?;
    while let Some(next) = page.next.take() {
        let more = client.list_files(Some(&next))?;
        page.files.extend(more.files);
        page.next = more.next;
    }
    Ok(page)
}

fn list_unfinished_uploads(client: &Client) -> Result<UploadPage, CliError> {
    let mut page = client.list_uploads(None)?;
    while let Some(next) = page.next.take() {
        let more = client.list_uploads(Some(&next))?;
        page.uploads.extend(more.uploads);
        page.next = more.next;
    }
    Ok(page)
}

/// Returns the only upload whose id begins with this text.
fn find_upload(client: &Client, start: &str) -> Result<UploadReport, CliError> {
    let mut found: Vec<UploadReport> = list_unfinished_uploads(client)?.uploads;
    found
        .retain(|upload: &UploadReport| upload.id.as_ref().is_some_and(|id| id.starts_with(start)));
    match (found.pop(), found.is_empty()) {
        (Some(upload), true) => Ok(upload),
        (upload, _) => Err(CliError::usage_error(
            match upload {
                Some(_) => format!("the ids of several uploads begin with {start:?}"),
                None => format!("there is no incomplete upload {start:?}"),
            },
            "their ids: cospan file uploads",
        )),
    }
}

fn format_uploads(page: &UploadPage) -> String {
    if page.uploads.is_empty() {
        return "no incomplete uploads\n".into();
    }
    let rows: Vec<Vec<String>> = page
        .uploads
        .iter()
        .map(|upload: &UploadReport| {
            vec![
                upload.id.clone().unwrap_or_default(),
                upload.name.clone(),
                upload.owner.clone(),
                Bytes(upload.offset).to_string(),
                Bytes(upload.size_bytes).to_string(),
                match upload.state {
                    UploadState::Receiving => "receiving",
                    UploadState::Landing => "landing",
                    UploadState::Done => "done",
                }
                .to_owned(),
            ]
        })
        .collect();
    format_columns(&["ID", "NAME", "OWNER", "ARRIVED", "SIZE", "STATE"], &rows)
}

fn file_places(file: &FileReport) -> Vec<String> {
    file.replicas
        .iter()
        .map(
            |replica: &cospan_api::v1::file::ReplicaReport| match &replica.path {
                Some(path) => format!("{}:{path}", replica.site),
                None if replica.kept => format!("{} (kept)", replica.site),
                None => format!("{} (copy)", replica.site),
            },
        )
        .collect()
}

fn format_files(page: &FilePage) -> String {
    if page.files.is_empty() {
        return "no files; register one with: cospan file add NAME --site SITE --path PATH\n"
            .into();
    }
    let rows: Vec<Vec<String>> = page
        .files
        .iter()
        .map(|file: &FileReport| {
            vec![
                file.name.clone(),
                Bytes(file.size_bytes).to_string(),
                file.digest.get(..12).unwrap_or(&file.digest).to_owned(),
                file_places(file).join(", "),
            ]
        })
        .collect();
    format_columns(&["NAME", "SIZE", "DIGEST", "REPLICAS"], &rows)
}

fn format_file(file: &FileReport) -> String {
    format_name_values(&[
        ("File", bold(&file.name)),
        ("Size", Bytes(file.size_bytes).to_string()),
        ("Digest", file.digest.clone()),
        ("Replicas", file_places(file).join(", ")),
    ])
}
