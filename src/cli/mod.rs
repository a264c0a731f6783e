//! The command line.
//!
//! A command parses its arguments, asks the server through [`cospan_client`],
//! and prints; it decides nothing. Exit codes are part of the interface.

mod args;
mod args_chaos;
mod args_cluster;
mod args_job;
mod args_line;
mod args_operate;
mod args_reserve;
mod args_simulate;
mod commands;
mod context;
mod exit;
mod ids;
mod interrupt;
mod local_time;
mod print;
mod saved_login;
mod server_account;
mod version;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, CliCommand, OutputFormat};
use args_job::JobPriorityArg;
use args_operate::{CompletionArgs, ManArgs};
use commands::{
    background, chaos, configuration, doctor, explain, file, job_commands, key, list, login, logs,
    output, quickstart, report, rerun, reservation, serve, show, simulate, site, slots, store,
    submit, virtual_map, wait,
};
use context::CommandContext;
use exit::{CliError, CliExitCode};
use print::{AnswerPrinter, error_word, print_note};
use saved_login::SavedLogin;

use cospan_api::v1::document::PriorityName;
use cospan_client::JobAction;
use cospan_printing::terminal::is_hidden;
use cospan_server::config::EnvironmentVariables;

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error),
    };
    if let CliCommand::CopyAgent { arguments } = cli.command {
        return cospan_sites::files::agent::main(arguments);
    }
    // These commands end in their own ways.
    if !matches!(
        cli.command,
        CliCommand::Serve(_) | CliCommand::Quickstart(_)
    ) && let Err(error) = interrupt::listen_for_signals()
    {
        print_note(&format!(
            "{}: cannot listen for signals: {error}",
            error_word()
        ));
        return CliExitCode::Usage.into();
    }
    let mut context = CommandContext {
        out: AnswerPrinter::stdout(cli.global.format),
        global: cli.global,
        environment: EnvironmentVariables::from_process(),
    };
    let ended = apply_login(&mut context, &cli.command)
        .and_then(|()| dispatch_command(&mut context, &cli.command));
    interrupt::wait_if_interrupted();
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            print_error(&error);
            error.exit.into()
        }
    }
}

/// Has commands that ask a server ask the one of the user's login.
fn apply_login(context: &mut CommandContext, command: &CliCommand) -> Result<(), CliError> {
    let asks_none = matches!(
        command,
        CliCommand::Serve(_)
            | CliCommand::Stop
            | CliCommand::Quickstart(_)
            | CliCommand::Login(_)
            | CliCommand::Logout
            | CliCommand::Key(_)
            | CliCommand::CopyAgent { .. }
    );
    if !asks_none && let Some(login) = SavedLogin::read(&context.environment)? {
        login.apply(&mut context.environment, &context.global);
    }
    Ok(())
}

/// Reports an error in the arguments, or prints the help that was asked for. If an argument
/// contains control characters, the message has no colours: the parser's colours cannot be told
/// from others.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    // Some arguments come from the environment.
    let environment = argument_variables(&Cli::command())
        .into_iter()
        .filter_map(std::env::var_os);
    if !std::env::args_os()
        .chain(environment)
        .any(|given: OsString| given.to_str().is_none_or(|text| text.contains(is_hidden)))
    {
        error.exit();
    }
    let text = error.render().to_string();
    if error.use_stderr() {
        print_note(text.trim_end());
        return CliExitCode::Usage.into();
    }
    match AnswerPrinter::stdout(OutputFormat::Table).print_text(&text) {
        Ok(()) => CliExitCode::Done.into(),
        Err(error) => {
            let error = CliError::from(error);
            print_error(&error);
            error.exit.into()
        }
    }
}

/// Lists the environment variables that stand for arguments.
fn argument_variables(command: &clap::Command) -> BTreeSet<OsString> {
    let own = command
        .get_arguments()
        .filter_map(|argument| argument.get_env());
    let below = command.get_subcommands().flat_map(argument_variables);
    own.map(OsStr::to_owned).chain(below).collect()
}

fn print_error(error: &CliError) {
    if error.quiet {
        return;
    }
    print_note(&format!("{}: {}", error_word(), error.message.trim_end()));
    if let Some(remedy) = &error.remedy {
        print_note(&format!("  > {remedy}"));
    }
}

/// Prints the progress of long work on standard error.
pub(crate) fn print_progress(text: &str) {
    print_note(&format!("{text} ..."));
}

fn dispatch_command(
    context: &mut CommandContext,
    command: &CliCommand,
) -> Result<CliExitCode, CliError> {
    match command {
        CliCommand::Serve(args) => serve::run(context, args),
        CliCommand::Login(args) => login::log_in(context, args),
        CliCommand::Logout => login::log_out(context),
        CliCommand::Stop => background::stop_server(context),
        CliCommand::Quickstart(args) => quickstart::run(context, args),
        CliCommand::Submit(args) => submit::run(context, args),
        CliCommand::List(args) => list::run(context, args),
        CliCommand::Report(args) => report::run(context, args),
        CliCommand::Show(args) => show::run(context, args),
        CliCommand::Explain(args) => explain::run(context, args),
        CliCommand::Map(args) => virtual_map::run(context, args),
        CliCommand::Wait(args) => wait::run(context, args),
        CliCommand::Logs(args) => logs::run(context, args),
        CliCommand::Output(args) => output::run(context, args),
        CliCommand::Rerun(args) => rerun::run(context, args),
        CliCommand::Cancel(args) => job_commands::cancel_jobs(context, args),
        CliCommand::Freeze(args) => {
            job_commands::command_jobs(context, JobAction::Freeze, &args.ids, None)
        }
        CliCommand::Thaw(args) => {
            job_commands::command_jobs(context, JobAction::Thaw, &args.ids, None)
        }
        CliCommand::Release(args) => {
            job_commands::command_jobs(context, JobAction::Release, &args.ids, None)
        }
        CliCommand::Priority(args) => {
            let class = match args.class {
                JobPriorityArg::SuperHigh => PriorityName::SuperHigh,
                JobPriorityArg::High => PriorityName::High,
                JobPriorityArg::Low => PriorityName::Low,
                JobPriorityArg::SuperLow => PriorityName::SuperLow,
            };
            job_commands::command_jobs(context, JobAction::Priority, &args.ids, Some(class))
        }
        CliCommand::Slots(args) => slots::run(context, args),
        CliCommand::Reservation(command) => reservation::run(context, command),
        CliCommand::Site(command) => site::run(context, command),
        CliCommand::File(command) => file::run(context, command),
        CliCommand::Key(command) => key::run(context, command),
        CliCommand::Doctor(args) => doctor::run(context, args),
        CliCommand::Config(command) => configuration::run(context, command),
        CliCommand::Completion(args) => print_completion(context, args),
        CliCommand::Man(args) => print_manual(context, args),
        CliCommand::Store(command) => store::run(context, command),
        CliCommand::Openapi => {
            context
                .out
                .print_text(&(cospan_server::http::openapi_document() + "\n"))?;
            Ok(CliExitCode::Done)
        }
        CliCommand::Simulate(args) => simulate::run(context, args),
        CliCommand::Chaos(command) => chaos::run(context, command),
        CliCommand::CopyAgent { .. } => Ok(CliExitCode::Done),
    }
}

fn print_completion(
    context: &mut CommandContext,
    args: &CompletionArgs,
) -> Result<CliExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cospan", &mut script);
    context.out.print_bytes(&script)?;
    Ok(CliExitCode::Done)
}

fn print_manual(context: &mut CommandContext, args: &ManArgs) -> Result<CliExitCode, CliError> {
    let program = Cli::command().name("cospan");
    if let Some(to) = &args.to {
        let written =
            std::fs::create_dir_all(to).and_then(|()| clap_mangen::generate_to(program, to));
        written.map_err(|error| {
            let message = format!("cannot write into {}: {error}", to.display());
            CliError::usage_error(message, "name another directory with --to")
        })?;
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(program)
            .render(&mut page)
            .map_err(|error| CliError::usage_error(error.to_string(), "report this as a bug"))?;
        context.out.print_bytes(&page)?;
    }
    Ok(CliExitCode::Done)
}
