//! `cospan submit`

mod default_time;
mod line;
mod smallest_node;
mod upload_inputs;
mod work_directory;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cospan_domain::units::DurationMs;

use super::explain;
use super::reserved_start;
use super::wait::{WaitConditions, wait_for};
use crate::cli::args_job::SubmitArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::{print_note, warning_word};
use cospan_api::v1::job::{CheckedReport, SubmittedReport, SubmittedRow};
use cospan_api::v1::reservation::{ReservationDocument, Wanted};
use cospan_api::v1::{JobDocument, Length};
use cospan_client::{Client, ClientError, SubmitOptions};
use cospan_languages::job_language::{
    JobFile, JobFileContext, JobFileMistakes, decode_job_file, language_of,
};
use cospan_printing::terminal::table_cell;

/// The origin of a job.
struct JobOrigin {
    name: String,
    /// The folder that its relative paths start from.
    folder: PathBuf,
}

impl JobOrigin {
    fn in_current_directory(name: &str) -> Self {
        Self {
            name: name.into(),
            folder: PathBuf::new(),
        }
    }
}

/// Number of tries of one submission, all under one idempotency key.
const TRIES: u32 = 5;
/// Longest wait between two tries.
const LONGEST_PAUSE_S: u64 = 10;

pub(crate) fn run(
    context: &mut CommandContext,
    args: &SubmitArgs,
) -> Result<CliExitCode, CliError> {
    let (mut jobs, origins) = if args.files.is_empty() {
        (
            vec![line::build_job(&args.line, &args.words)?],
            vec![JobOrigin::in_current_directory("the command line")],
        )
    } else {
        read_jobs(context, &args.files, &args.words)?
    };
    jobs.iter_mut()
        .for_each(|job| apply_reservation_options(job, args));
    if let Some(name) = &args.reservation {
        let shared = ReservationDocument::from_shared(name.clone());
        jobs.iter_mut()
            .for_each(|job| job.reservation = Some(shared.clone()));
    }
    if let Some(most) = args.max_retries {
        jobs.iter_mut().for_each(|job| job.max_retries = most);
    }
    let client = context.client()?;
    let brought = args.workdir.as_deref();
    let brought = brought.map(work_directory::PackedDirectory::pack);
    let mut bringer = upload_inputs::InputUploader::new(&client, brought.transpose()?);
    for (job, origin) in jobs.iter_mut().zip(&origins) {
        bringer.upload_job_files(job, &origin.folder)?;
    }
    let key = match &args.idempotency_key {
        Some(key) => key.clone(),
        None => draw_idempotency_key()?,
    };
    let options = SubmitOptions {
        idempotency_key: Some(key),
        allow_unplaceable: args.allow_unplaceable,
        refuse_closed: args.refuse_closed,
    };
    if args.dry_run {
        let checked = client.check_jobs(&jobs, &options);
        let checked = checked.map_err(|error| name_refused_file(error, &origins))?;
        context.out.print_answer(&checked, format_checked)?;
        return Ok(CliExitCode::Done);
    }
    let submitted = submit_repeatedly(|| client.submit(&jobs, &options));
    let submitted = submitted.map_err(|error| name_refused_file(error, &origins))?;
    for row in &submitted.jobs {
        if let Some(warning) = &row.warning {
            print_note(&table_cell(&format!(
                "{}: job {}: {warning}",
                warning_word(),
                row.id
            )));
        }
    }
    let ids: Vec<u64> = submitted.jobs.iter().map(|row| row.id).collect();
    if !args.wait {
        context.out.print_answer(&submitted, format_submitted)?;
        reserved_start::print_reserved_starts(&client, &jobs, &submitted)?;
        tell_outputs_kept(&client, &jobs, &ids);
        return Ok(CliExitCode::Done);
    }
    print_note(format_submitted(&submitted).trim_end());
    reserved_start::print_reserved_starts(&client, &jobs, &submitted)?;
    wait_for(
        context,
        &client,
        &ids,
        &WaitConditions {
            any: false,
            timeout: args.timeout,
        },
    )
}

/// Says how long outputs are kept that stay where they are made. Without an answer it says nothing:
/// the jobs are submitted all the same.
fn tell_outputs_kept(client: &Client, jobs: &[JobDocument], ids: &[u64]) {
    let Some(first) = ids.first() else {
        return;
    };
    let outputs = jobs.iter().flat_map(|job| &job.component);
    let mut outputs = outputs.flat_map(|component| &component.output);
    if outputs.all(|output| output.site.is_some()) {
        return;
    }
    let kept = client.job(*first).ok().and_then(|job| job.outputs_kept_ms);
    if let Some(ms) = kept {
        let length = Length(DurationMs(ms));
        print_note(&format!(
            "outputs are kept for {length} after the end; fetch them with: cospan output last"
        ));
    }
}

/// Applies the command line's options about the reservation of a job.
fn apply_reservation_options(job: &mut JobDocument, args: &SubmitArgs) {
    if let Some(earliest) = args.start {
        let own = job
            .reservation
            .take()
            .filter(|own| own.shared.is_none())
            .unwrap_or_default();
        let earliest = Some(earliest);
        let within = args.within;
        let latest = None;
        let tolerance = None;
        // Whoever names a start wants it reserved.
        let wanted = own.wanted.filter(|wanted| *wanted != Wanted::No);
        job.reservation = Some(ReservationDocument {
            wanted,
            earliest,
            within,
            latest,
            tolerance,
            ..own
        });
    }
    if let Some(wanted) = args.reserve {
        let reservation = job.reservation.get_or_insert_default();
        reservation.wanted = Some(wanted);
        let after = reservation
            .reserve_after
            .filter(|_| wanted == Wanted::IfNeeded);
        reservation.reserve_after = args.reserve_after.or(after);
    }
}

/// Repeats a submission whose answer was lost: with the same key it is the same submission.
pub(super) fn submit_repeatedly(
    submit: impl Fn() -> Result<SubmittedReport, ClientError>,
) -> Result<SubmittedReport, ClientError> {
    for attempt in 1.. {
        let error = match submit() {
            Ok(submitted) => return Ok(submitted),
            Err(error) => error,
        };
        if attempt == TRIES || !is_worth_repeating(&error) {
            return Err(error);
        }
        let asked = error.problem().and_then(|problem| problem.retry_after_s);
        let pause = asked.unwrap_or(1 << (attempt - 1)).min(LONGEST_PAUSE_S);
        print_note(&format!("{error}; trying again in {pause} s"));
        std::thread::sleep(Duration::from_secs(pause));
    }
    unreachable!("the loop ends by returning")
}

fn is_worth_repeating(error: &ClientError) -> bool {
    match error {
        // Nothing listens there: the user should know at once.
        ClientError::Unreachable { cause, .. } => !cause.contains("refused"),
        other => other.is_temporary(),
    }
}

/// Draws a name for a submission that no other submission has.
pub(super) fn draw_idempotency_key() -> Result<String, CliError> {
    let mut bits = [0u8; 16];
    getrandom::fill(&mut bits).map_err(|error| {
        CliError::usage_error(
            format!("the operating system gave no random numbers: {error}"),
            "name the submission yourself with --idempotency-key",
        )
    })?;
    Ok(bits
        .iter()
        .fold(String::from("cli-"), |key, byte| format!("{key}{byte:02x}")))
}

/// Adds the file of the job that was refused: the server knows only its index in the request.
fn name_refused_file(error: ClientError, origins: &[JobOrigin]) -> CliError {
    let ClientError::Refused(mut problem) = error else {
        return error.into();
    };
    let index = problem
        .index
        .take()
        .and_then(|index| usize::try_from(index).ok());
    let origin = index.and_then(|index| origins.get(index));
    let refused = CliError::from(ClientError::Refused(problem));
    match origin {
        Some(JobOrigin { name, .. }) => CliError {
            message: format!("{name}: {}", refused.message),
            ..refused
        },
        None => refused,
    }
}

/// Reads the jobs of all files, and the origin of each. Only a single script takes arguments.
fn read_jobs(
    context: &CommandContext,
    files: &[PathBuf],
    arguments: &[String],
) -> Result<(Vec<JobDocument>, Vec<JobOrigin>), CliError> {
    let mut jobs = Vec::new();
    let mut origins = Vec::new();
    for file in files {
        let (name, bytes) = read_file(file)?;
        let text = decode_job_file(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..at]
                .iter()
                .filter(|b| **b == b'\n')
                .count()
                + 1;
            CliError::usage_error(
                format!("{name}:{line}: the text is not UTF-8 here"),
                "save it as UTF-8",
            )
        })?;
        let source = JobFile {
            shown: &name,
            name: file
                .file_name()
                .and_then(|name| name.to_str())
                .filter(|name| *name != "-"),
            text: &text,
            arguments,
        };
        let language = language_of(&source);
        if !arguments.is_empty() && (!language.takes_arguments() || files.len() > 1) {
            let problem = format!("{name}: arguments after `--` are for a single script");
            return Err(CliError::usage_error(
                problem,
                "submit each script with a command of its own",
            ));
        }
        let around = JobFileContext {
            variable: &|name: &str| std::env::var(name).ok(),
            default_time: &|names: Option<&str>| {
                default_time::longest_partition_time(context, names)
            },
            smallest_node: &|names: Option<&str>| {
                smallest_node::smallest_partition_node(context, names)
            },
        };
        let content = language
            .read_jobs(&source, around)
            .map_err(|found| mistakes_error(&name, found))?;
        for (line, told) in &content.notes {
            print_note(&format!("{name}:{line}: {told}"));
        }
        let parsed = content.jobs;
        let folder = file.parent().unwrap_or(Path::new("")).to_path_buf();
        origins.extend((1..=parsed.len()).map(|n| JobOrigin {
            name: match parsed.len() {
                1 => name.clone(),
                count => format!("{name}, job {n} of {count}"),
            },
            folder: folder.clone(),
        }));
        jobs.extend(parsed);
    }
    Ok((jobs, origins))
}

fn mistakes_error(file: &str, found: JobFileMistakes) -> CliError {
    let refused = parse_errors(file, &found.mistakes);
    CliError {
        remedy: found.remedy.or(refused.remedy),
        ..refused
    }
}

/// Formats all errors of a file.
fn parse_errors(file: &str, errors: &[cospan_api::v1::ParseError]) -> CliError {
    let mut told = errors.iter().map(|error| parse_error(file, error));
    match (told.next(), told.len()) {
        (Some(only), 0) => only,
        (first, others) => {
            let lines: String = first
                .into_iter()
                .chain(told)
                .map(
                    |error: CliError| match error.remedy.filter(|text| text.starts_with("did")) {
                        Some(remedy) => format!("\n  {}; {remedy}", error.message),
                        None => format!("\n  {}", error.message),
                    },
                )
                .collect();
            let problem = format!("{file} has {} mistakes:{lines}", others + 1);
            CliError::usage_error(
                problem,
                "correct them there; `cospan submit --dry-run` checks without submitting",
            )
        }
    }
}

fn parse_error(file: &str, error: &cospan_api::v1::ParseError) -> CliError {
    let mut place = file.to_owned();
    for number in [error.line, error.line.and(error.column)]
        .into_iter()
        .flatten()
    {
        place.push_str(&format!(":{number}"));
    }
    let key = if error.key.is_empty() {
        String::new()
    } else {
        format!("{}: ", error.key)
    };
    let remedy = match &error.nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => "correct it there; `cospan submit --dry-run` checks without submitting".into(),
    };
    CliError::usage_error(format!("{place}: {key}{}", error.problem), remedy)
}

fn read_file(file: &Path) -> Result<(String, Vec<u8>), CliError> {
    if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| CliError::file_error("read", Path::new("standard input"), &error))?;
        return Ok(("standard input".into(), bytes));
    }
    let bytes = std::fs::read(file).map_err(|error| {
        let mut refused = CliError::file_error("read", file, &error);
        if error.kind() == std::io::ErrorKind::NotFound && file.extension().is_none() {
            let words = file.display();
            refused.remedy = Some(format!("to run a command: cospan submit -- {words}"));
        }
        refused
    })?;
    Ok((file.display().to_string(), bytes))
}

/// Formats a line for each job, or for each sweep.
pub(super) fn format_submitted(submitted: &SubmittedReport) -> String {
    submitted
        .jobs
        .chunk_by(|a: &SubmittedRow, b: &SubmittedRow| {
            a.group.is_some() && (a.group, a.repeated) == (b.group, b.repeated)
        })
        .map(|rows: &[SubmittedRow]| {
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
                return String::new();
            };
            let how = if first.repeated {
                "already submitted"
            } else {
                "submitted"
            };
            match (first.group, first.id == last.id) {
                (None, _) => format!("job {} {how}\n", first.id),
                (Some(group), true) => format!("job {} {how}: group:{group}\n", first.id),
                (Some(group), false) => {
                    let count = rows.len();
                    format!(
                        "jobs {}-{} {how}: {count} runs, group:{group}\n",
                        first.id, last.id
                    )
                }
            }
        })
        .collect()
}

fn format_checked(checked: &CheckedReport) -> String {
    let mut text: String = checked
        .jobs
        .iter()
        .map(explain::format_explanation)
        .collect();
    text.push_str("nothing was submitted\n");
    text
}
