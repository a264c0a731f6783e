//! A job without a file: `cospan submit -n 4 -- command arguments`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use cospan_domain::ids::{ComponentName, SiteName};
use cospan_domain::units::DurationMs;

use crate::api::v1::document::{
    ComponentDocument, ExecutableDocument, FeedDocument, InputDocument, OutputDocument,
};
use crate::api::v1::runner::RestartScopeName;
use crate::api::v1::{JobDocument, Length};
use crate::cli::args_line::LineArgs;
use crate::cli::exit::CliError;

/// Long enough for most that is tried by hand.
const WALL_TIME: DurationMs = DurationMs::from_secs(3_600);

/// The job of a command line.
pub(super) fn job(args: &LineArgs, command: &[String]) -> Result<JobDocument, CliError> {
    let sites = sites(args)?;
    let of_command =
        || command.first().and_then(|program| Path::new(program).file_name()?.to_str());
    let several = sites.len() > 1;
    let component = sites.into_iter().enumerate().map(|(index, site)| {
        let name = if several { format!("part-{}", index + 1) } else { "main".to_owned() };
        component(args, command, &name, site)
    });
    Ok(JobDocument {
        name: args.name.clone().or_else(|| of_command().map(Arc::from)),
        request: None,
        flexible: None,
        policy: None,
        priority: None,
        wall_time: args.wall_time.unwrap_or(Length(WALL_TIME)),
        rerunnable: true,
        on_unreachable: None,
        max_placement_tries: None,
        max_claim_tries: None,
        max_retries: 0,
        restart_scope: RestartScopeName::default(),
        acquisition: None,
        reservation: None,
        weights: BTreeMap::new(),
        runner: None,
        sweep: None,
        warning: None,
        notify: BTreeSet::new(),
        component: component.collect::<Result<_, _>>()?,
    })
}

/// Where each component runs; `None` where the policy chooses.
fn sites(args: &LineArgs) -> Result<Vec<Option<SiteName>>, CliError> {
    let count = args.components.map(|count| count as usize);
    match (args.site.as_slice(), count) {
        ([], count) => Ok(vec![None; count.unwrap_or(1)]),
        ([site], Some(count)) => Ok(vec![Some(site.clone()); count]),
        (sites, Some(count)) if sites.len() != count => Err(CliError::usage(
            format!("{count} components cannot be at {} sites", sites.len()),
            "name a site for each component, or one for all, or leave --components out",
        )),
        (sites, _) => Ok(sites.iter().cloned().map(Some).collect()),
    }
}

fn component(
    args: &LineArgs,
    command: &[String],
    name: &str,
    site: Option<SiteName>,
) -> Result<ComponentDocument, CliError> {
    let name = ComponentName::new(name);
    let name =
        name.map_err(|error| CliError::usage(error.to_string(), "ask for fewer components"))?;
    let (program, arguments) = command.split_first().map_or(("", command), |(p, a)| (&**p, a));
    let input = args.input.iter().map(|file| InputDocument {
        file: file.clone(),
        path: None,
        read: FeedDocument::default(),
        digest: None,
        size_bytes: None,
    });
    let output = args.result.iter().map(|path| OutputDocument {
        path: path.clone(),
        site: None,
        register: None,
    });
    Ok(ComponentDocument {
        name,
        site,
        processors: args.processors.unwrap_or(1),
        memory: None,
        disk: None,
        gpus: None,
        gflops: None,
        resources: BTreeMap::new(),
        constraints: Vec::new(),
        executable: ExecutableDocument::AtSite(program.into()),
        arguments: arguments.iter().map(|argument| argument.as_str().into()).collect(),
        environment: args.env.iter().cloned().collect(),
        directory: None,
        setup: Vec::new(),
        input: input.collect(),
        output: output.collect(),
        at: BTreeMap::new(),
        restart: None,
    })
}
