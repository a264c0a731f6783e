//! `cospan store ...`

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use cospan_domain::units::Bytes;

use crate::cli::args_operate::StoreCommand;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::interrupt::set_partial_file;
use crate::cli::print::{format_name_values, print_note};
use cospan_api::v1::store::StoreReport;
use cospan_client::Client;
use cospan_server::store_engines::store_place;

/// Shows the store, or exports it.
pub(crate) fn run(
    context: &mut CommandContext,
    command: &StoreCommand,
) -> Result<CliExitCode, CliError> {
    match command {
        StoreCommand::Import { file } => return import_store(context, file),
        StoreCommand::Check => return check_store_records(context),
        StoreCommand::AcceptLoss => return accept_loss(context),
        StoreCommand::Show | StoreCommand::Export { .. } => {}
    }
    let client = context.client()?;
    match command {
        StoreCommand::Import { .. } | StoreCommand::Check | StoreCommand::AcceptLoss => {}
        StoreCommand::Show => context
            .out
            .print_answer(&client.describe_store()?, format_store)?,
        StoreCommand::Export { file } if file.as_os_str() == "-" => {
            let mut download = client.export_store()?;
            pump_bytes(&client, &mut download.bytes, |piece| {
                Ok(context.out.print_bytes(piece)?)
            })?;
        }
        StoreCommand::Export { file } => {
            let size = write_export(&client, file)?;
            print_note(&format!("{} written to {}", Bytes(size), file.display()));
            tell_files_beside(context);
        }
    }
    Ok(CliExitCode::Done)
}

/// Names the files that a server needs beside its store, if it runs on this machine.
fn tell_files_beside(context: &CommandContext) {
    if context.names_server() {
        print_note("save the configuration and the keys of that server as well");
        return;
    }
    let Ok(located) = context.config() else {
        return;
    };
    let config = &located.loaded.config;
    let keys = config.keys_directory(&context.environment);
    let mut files = Vec::new();
    files.extend(located.file.clone());
    files.push(keys.join("keys.toml"));
    files.push(keys.join("admin.token"));
    files.extend(config.server.tls_certificate.clone());
    files.extend(config.server.tls_key.clone());
    let named: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    print_note(&format!(
        "it has no configuration and no keys; save these as well: {}",
        named.join(", ")
    ));
}

fn offline_error(error: impl std::fmt::Display) -> CliError {
    CliError {
        exit: CliExitCode::Refused,
        message: error.to_string(),
        remedy: None,
        quiet: false,
    }
}

fn import_store(context: &CommandContext, file: &Path) -> Result<CliExitCode, CliError> {
    let located = context.config()?;
    let data = located.loaded.config.data_directory(&context.environment);
    let place = store_place(&located.loaded.config.store, &data);
    let mut input: Box<dyn BufRead> = if file.as_os_str() == "-" {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        Box::new(BufReader::new(File::open(file).map_err(
            |error: std::io::Error| CliError::file_error("read", file, &error),
        )?))
    };
    let imported = place.import_store(&mut input).map_err(offline_error)?;
    print_note(&format!(
        "{} records imported into {}; they came from {}, and belong to {} now",
        imported.records,
        place.place_text(),
        imported.exported_from,
        imported.instance
    ));
    if imported.damaged > 0 {
        print_note(&format!(
            "{} records were damaged and are missing",
            imported.damaged
        ));
    }
    Ok(CliExitCode::Done)
}

fn check_store_records(context: &mut CommandContext) -> Result<CliExitCode, CliError> {
    let located = context.config()?;
    let data = located.loaded.config.data_directory(&context.environment);
    let place = store_place(&located.loaded.config.store, &data);
    let report = place.check_store().map_err(offline_error)?;
    context
        .out
        .print_text(&format!("{} records are whole\n", report.records))?;
    for damage in &report.damage {
        print_note(&damage.to_string());
    }
    Ok(if report.damage.is_empty() {
        CliExitCode::Done
    } else {
        CliExitCode::JobFailed
    })
}

fn accept_loss(context: &mut CommandContext) -> Result<CliExitCode, CliError> {
    let located = context.config()?;
    let data = located.loaded.config.data_directory(&context.environment);
    let place = store_place(&located.loaded.config.store, &data);
    let Some(accepted) = place.accept_loss().map_err(offline_error)? else {
        print_note(&format!(
            "nothing is missing from the store at {}",
            place.place_text()
        ));
        return Ok(CliExitCode::Done);
    };
    print_note(&accepted.gap.to_string());
    let epoch = accepted.epoch;
    let live = accepted.live_jobs;
    let next = accepted.next_job;
    print_note(&format!(
        "given up: the store goes on with {live} live jobs in epoch {epoch}, and the next job is \
         {next} or later"
    ));
    Ok(CliExitCode::Done)
}

fn format_store(store: &StoreReport) -> String {
    format_name_values(&[
        ("Engine", store.engine.clone()),
        ("Instance", store.instance.clone()),
        ("Epoch", store.epoch.to_string()),
        ("Position", store.seq.to_string()),
        ("Size", Bytes(store.size_bytes).to_string()),
        ("Jobs", store.jobs.to_string()),
    ])
}

/// Writes the export beside its destination, and moves it there once it is whole.
fn write_export(client: &Client, file: &Path) -> Result<u64, CliError> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".part");
    let partial = PathBuf::from(partial);
    let mut download = client.export_store()?;
    let wrong = |error: std::io::Error| CliError::file_error("write", &partial, &error);
    let mut to = File::create(&partial).map_err(wrong)?;
    set_partial_file(Some(partial.clone()));
    let result = pump_bytes(client, &mut download.bytes, |piece| {
        to.write_all(piece).map_err(wrong)
    })
    .and_then(|size| to.sync_all().map_err(wrong).map(|()| size))
    .and_then(|size| {
        cospan_durable::rename_durably(&partial, file)
            .map_err(wrong)
            .map(|()| size)
    });
    if result.is_err() {
        // The first error is the one that matters.
        let _ = std::fs::remove_file(&partial);
    }
    set_partial_file(None);
    result
}

fn pump_bytes(
    client: &Client,
    from: &mut dyn Read,
    mut to: impl FnMut(&[u8]) -> Result<(), CliError>,
) -> Result<u64, CliError> {
    let mut piece = vec![0; 256 << 10];
    let mut size = 0;
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(size),
            Ok(n) => {
                to(&piece[..n])?;
                size += n as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(client.broken_connection_error(&error).into()),
        }
    }
}
