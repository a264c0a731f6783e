//! `cospan simulate`.

mod progress;
mod simulated_settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cospan_actors::actor_settings::ActorSettings;
use cospan_domain::ids::PolicyName;
use cospan_domain::job::spec::Priority;
use cospan_domain::placement::find_policy;
use cospan_domain::reservation::flexco::RescheduleOperations;
use cospan_domain::units::Bytes;
use cospan_languages::logs::BadLineTreatment;
use cospan_simulator::world::batch::QueueDiscipline;

use crate::cli::args_job::JobPriorityArg;
use crate::cli::args_simulate::{
    BadInputArg, EstimatesArg, JobModelArg, SchedulerArg, SimulateArgs, SimulateRunArgs, YesNoArg,
};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::interrupt;
use cospan_server::config::Config;
use cospan_simulator::simulate::grid::{Grid, GridError};
use cospan_simulator::simulate::report::{ReportError, ReportFiles, write_report};
use cospan_simulator::simulate::workload::{
    EstimateSource, OwnFileSettings, WorkloadOptions, WorkloadSource,
};
use cospan_simulator::simulate::{
    self, FLEXCO, RivalPolicy, RunWatcher, SimulateError, SimulationStudy, StudyVariant,
    SubmissionCopies,
};
use progress::ProgressDisplay;

/// The example grid.
const EXAMPLE: &str = include_str!("../../../examples/grid.toml");
/// Number of jobs in the example.
const JOBS_OF_EXAMPLE: u32 = 500;
/// Complaints of each kind that are printed in full.
const COMPLAINTS_KEPT: usize = 3;

/// Runs the simulations, and reports.
pub(crate) fn run(
    context: &mut CommandContext,
    args: &SimulateArgs,
) -> Result<CliExitCode, CliError> {
    interrupt::set_interrupt_hint("interrupted: the simulation wrote nothing");
    let study = build_study(context, args)?;
    check_writable(&args.to)?;
    let watcher: Arc<dyn RunWatcher> = Arc::new(ProgressDisplay::new(&study));
    let records = simulate::run_study(&study, &watcher);
    drop(watcher);
    let records = records.map_err(simulation_error)?;
    interrupt::set_interrupt_hint("interrupted: the report is incomplete");
    let report = write_report(&args.to, &study.describe(), &records).map_err(report_error)?;
    context
        .out
        .print_answer(&report.summary, |_| format_study(&report, &args.to))?;
    Ok(CliExitCode::Done)
}

fn format_study(report: &ReportFiles, to: &Path) -> String {
    let mut text = format!("{}\n", report.text.trim_end());
    text.push_str(&format!("\n{} tells more:\n", to.display()));
    for file in &report.files {
        text.push_str(&format!("  {}\n", file.path.display()));
    }
    text
}

fn build_study(context: &CommandContext, args: &SimulateArgs) -> Result<SimulationStudy, CliError> {
    let settings = read_settings(context)?;
    let grid = Grid::load(&choose_grid_file(args)?).map_err(|error| match error {
        GridError::Unreadable { .. } => CliError::usage_error(
            error.to_string(),
            "`cospan simulate --help` says what a grid file is for",
        ),
        GridError::Wrong(problems) => {
            let count = problems.list().len();
            let noun = if count == 1 { "problem" } else { "problems" };
            let message = format!("the grid file has {count} {noun}\n\n{problems}\n");
            CliError {
                exit: CliExitCode::Usage,
                message,
                remedy: None,
                quiet: false,
            }
        }
    })?;
    let SimulateRunArgs {
        seed,
        seeds,
        until,
        at_once,
        launch,
        ..
    } = &args.runs;
    Ok(SimulationStudy {
        grid,
        workload: workload_options(args, *seed)?,
        variants: combine_variants(&args.runs, &settings.default_policies.rigid)?,
        seeds: (0..u64::from(*seeds))
            .map(|n| seed.wrapping_add(n))
            .collect(),
        settings,
        launch_max: launch.0,
        until: until.map(|length| length.0),
        at_once: at_once.map_or_else(
            || std::thread::available_parallelism().map_or(1, usize::from),
            |number| number as usize,
        ),
    })
}

/// Returns the grid file that was named, or writes the example, which the user can change and name
/// next time.
fn choose_grid_file(args: &SimulateArgs) -> Result<PathBuf, CliError> {
    if let Some(grid) = &args.grid {
        return Ok(grid.clone());
    }
    if !args.example {
        let remedy = "try an example grid with: cospan simulate --example; your own with: cospan \
                      simulate grid.toml --model lublin --jobs 500";
        return Err(CliError::usage_error("no grid file is given", remedy));
    }
    check_writable(&args.to)?;
    let file = args.to.join("grid.toml");
    match std::fs::read(&file) {
        Ok(found) if found != EXAMPLE.as_bytes() => Err(CliError::usage_error(
            format!(
                "{} is already there, and is not the example",
                file.display()
            ),
            format!(
                "simulate it with: cospan simulate {} --model lublin --jobs 500",
                file.display()
            ),
        )),
        Ok(_) => Ok(file),
        Err(_) => match std::fs::write(&file, EXAMPLE) {
            Ok(()) => Ok(file),
            Err(error) => Err(CliError::file_error("write", &file, &error)),
        },
    }
}

/// Reads the settings from the configuration that was named, else uses the defaults: other files on
/// this machine must not change the results of a simulation.
fn read_settings(context: &CommandContext) -> Result<ActorSettings, CliError> {
    let loaded = match &context.global.config {
        Some(file) => Config::load(file)?,
        None => Config::parse(Path::new("no configuration file"), "")?,
    };
    simulated_settings::simulated_settings(&loaded.config)
        .map_err(|error| CliError::usage_error(error.to_string(), "correct placement.policy"))
}

fn workload_options(args: &SimulateArgs, seed: u64) -> Result<WorkloadOptions, CliError> {
    let SimulateArgs {
        workload: args,
        example,
        ..
    } = args;
    let example = *example && args.log.is_none() && args.model.is_none();
    let jobs = args
        .jobs
        .or(example.then_some(JOBS_OF_EXAMPLE))
        .map(|jobs| jobs as usize);
    let source = match (&args.log, args.model, jobs) {
        (Some(log), _, _) => WorkloadSource::Log(log.clone()),
        (None, None, Some(jobs)) if example => WorkloadSource::Lublin { jobs },
        (None, Some(JobModelArg::Lublin), Some(jobs)) => WorkloadSource::Lublin { jobs },
        (None, Some(JobModelArg::Poisson), Some(jobs)) => WorkloadSource::Poisson {
            jobs,
            mean_interarrival: args.interarrival.0,
            sizes: args.sizes.clone(),
            shortest: args.shortest.0,
            longest: args.longest.0,
        },
        _ => {
            return Err(CliError::usage_error(
                "no source of jobs is given",
                "--model lublin --jobs 500 draws them from a model, --log FILE reads them from a \
                 log; or begin with --example",
            ));
        }
    };
    let mut options = WorkloadOptions::new(source, seed);
    options.jobs_max = jobs.filter(|_| args.log.is_some());
    options.split = args.split.0;
    options.inputs.clone_from(&args.input);
    let sizes: Vec<Bytes> = args.input_size.iter().map(|size| size.0).collect();
    let own = OwnFileSettings {
        sizes,
        replicas: args.replicas,
    };
    options.own_files = Some(own).filter(|own| !own.sizes.is_empty());
    options.slowdown_per_mille = (args.slowdown * 1_000.0).round() as u64;
    options.priorities = args
        .priority
        .iter()
        .map(|class| to_priority(*class))
        .collect();
    options.estimates = match args.estimates {
        EstimatesArg::AsGiven => EstimateSource::AsGiven,
        EstimatesArg::Exact => EstimateSource::Exact,
        EstimatesArg::Tsafrir => EstimateSource::Tsafrir,
    };
    options.estimates_times = args.estimates_times;
    options.on_bad = match args.on_bad {
        BadInputArg::Skip => BadLineTreatment::Skip {
            kept_per_kind_max: COMPLAINTS_KEPT,
        },
        BadInputArg::Refuse => BadLineTreatment::Refuse,
    };
    Ok(options)
}

fn to_priority(class: JobPriorityArg) -> Priority {
    match class {
        JobPriorityArg::SuperHigh => Priority::SuperHigh,
        JobPriorityArg::High => Priority::High,
        JobPriorityArg::Low => Priority::Low,
        JobPriorityArg::SuperLow => Priority::SuperLow,
    }
}

/// Lists every combination of the given values. A label names the differences, or else the policy.
fn combine_variants(
    args: &SimulateRunArgs,
    default: &PolicyName,
) -> Result<Vec<StudyVariant>, CliError> {
    for policy in &args.policy {
        if RivalPolicy::find_rival(policy.as_str()).is_none() && flexco_operations(policy).is_none()
        {
            find_policy(policy)
                .map_err(|error| CliError::usage_error(error.to_string(), "correct --policy"))?;
        }
    }
    let label = String::new();
    let policy = default.clone();
    let plain = StudyVariant {
        label,
        policy,
        scheduler: None,
        load_scale: 1.0,
        rerunnable: true,
        copies: SubmissionCopies::One,
        flexible: args.flexible,
        flexco: None,
    };
    let mut variants = vary_by(vec![plain], &args.policy, |variant, policy| {
        match (
            RivalPolicy::find_rival(policy.as_str()),
            flexco_operations(policy),
        ) {
            (Some(rival), _) => {
                (variant.policy, variant.copies) = (RivalPolicy::placing_policy(), rival.copies)
            }
            (None, Some(allowed)) => variant.flexco = Some(allowed),
            (None, None) => variant.policy = policy.clone(),
        }
        policy.to_string()
    });
    variants = vary_by(variants, &args.scheduler, |variant, scheduler| {
        let (name, discipline) = to_discipline(*scheduler);
        variant.scheduler = Some(discipline);
        name.to_owned()
    });
    variants = vary_by(variants, &args.rerunnable, |variant, rerunnable| {
        variant.rerunnable = *rerunnable == YesNoArg::Yes;
        if variant.rerunnable {
            "rerunnable"
        } else {
            "not rerunnable"
        }
        .to_owned()
    });
    variants = vary_by(variants, &args.load_scale, |variant, load_scale| {
        variant.load_scale = *load_scale;
        format!("load x {load_scale}")
    });
    let only = args.policy.first().unwrap_or(default);
    for variant in variants
        .iter_mut()
        .filter(|variant| variant.label.is_empty())
    {
        variant.label = only.to_string();
    }
    match variants.iter().find(|v: &&StudyVariant| {
        variants
            .iter()
            .filter(|other| other.label == v.label)
            .count()
            > 1
    }) {
        Some(StudyVariant { label, .. }) => {
            let message = format!("{label:?} is given twice");
            Err(CliError::usage_error(message, "give each value once"))
        }
        None => Ok(variants),
    }
}

/// Combines each variant with each of the values; without values it stays as it is. `set` sets a
/// value and names it; only differences appear in the label.
fn vary_by<T>(
    variants: Vec<StudyVariant>,
    values: &[T],
    set: fn(&mut StudyVariant, &T) -> String,
) -> Vec<StudyVariant> {
    if values.is_empty() {
        return variants;
    }
    let mut all = Vec::new();
    for variant in &variants {
        for value in values {
            let mut variant = variant.clone();
            let name = set(&mut variant, value);
            if values.len() > 1 {
                let comma = if variant.label.is_empty() { "" } else { ", " };
                variant.label.push_str(&format!("{comma}{name}"));
            }
            all.push(variant);
        }
    }
    all
}

/// Returns the operations of FlexCo that are asked for in place of a policy.
fn flexco_operations(policy: &PolicyName) -> Option<RescheduleOperations> {
    let named = FLEXCO
        .into_iter()
        .find(|(name, _)| *name == policy.as_str());
    named.map(|(_, allowed)| allowed)
}

fn to_discipline(name: SchedulerArg) -> (&'static str, QueueDiscipline) {
    match name {
        SchedulerArg::Fcfs => ("fcfs", QueueDiscipline::Fcfs),
        SchedulerArg::Easy => ("easy", QueueDiscipline::Easy),
        SchedulerArg::Conservative => ("conservative", QueueDiscipline::Conservative),
    }
}

/// Checks that the folder can be written before the work, not after it.
fn check_writable(to: &Path) -> Result<(), CliError> {
    let tried = std::fs::create_dir_all(to).and_then(|()| tempfile::tempfile_in(to));
    tried.map(drop).map_err(|error| {
        let message = format!("cannot write into {}: {error}", to.display());
        CliError::usage_error(message, "name another directory with --to")
    })
}

fn simulation_error(error: SimulateError) -> CliError {
    let exit = match &error {
        SimulateError::Run { .. } => CliExitCode::JobFailed,
        SimulateError::NoSuchFile { .. } | SimulateError::Workload(_) | SimulateError::Grid(_) => {
            CliExitCode::Usage
        }
    };
    CliError {
        exit,
        message: error.to_string(),
        remedy: None,
        quiet: false,
    }
}

fn report_error(error: ReportError) -> CliError {
    CliError {
        exit: CliExitCode::Usage,
        message: error.to_string(),
        remedy: None,
        quiet: false,
    }
}
