//! A job without a file: `cospan submit -n 4 -- command arguments`.

use std::path::Path;
use std::sync::Arc;

use cospan_domain::ids::{ComponentName, SiteName};
use cospan_domain::units::DurationMs;

use crate::cli::args_line::CommandLineJobArgs;
use crate::cli::exit::CliError;
use cospan_api::v1::document::{
    ComponentDocument, ExecutableDocument, FeedDocument, InputDocument, OutputDocument,
};
use cospan_api::v1::{JobDocument, Length};

/// Long enough for most jobs that people try by hand.
const WALL_TIME: DurationMs = DurationMs::from_secs(3_600);

/// Builds the job of a command line.
pub(super) fn build_job(
    args: &CommandLineJobArgs,
    command: &[String],
) -> Result<JobDocument, CliError> {
    let sites = component_sites(args)?;
    let several = sites.len() > 1;
    let component = sites.into_iter().enumerate().map(|(index, site)| {
        let name = if several {
            format!("part-{}", index + 1)
        } else {
            "main".to_owned()
        };
        build_component(args, command, &name, site)
    });
    Ok(JobDocument {
        name: args.name.clone().or_else(|| {
            let program = Path::new(command.first()?);
            Some(Arc::from(program.file_name()?.to_str()?))
        }),
        component: component.collect::<Result<_, _>>()?,
        ..JobDocument::bare(args.wall_time.unwrap_or(Length(WALL_TIME)))
    })
}

/// Returns the site of each component; `None` where the policy chooses.
fn component_sites(args: &CommandLineJobArgs) -> Result<Vec<Option<SiteName>>, CliError> {
    let count = args.components.map(|count| count as usize);
    match (args.site.as_slice(), count) {
        ([], count) => Ok(vec![None; count.unwrap_or(1)]),
        ([site], Some(count)) => Ok(vec![Some(site.clone()); count]),
        (sites, Some(count)) if sites.len() != count => Err(CliError::usage_error(
            format!("{count} components cannot be at {} sites", sites.len()),
            "name a site for each component, or one for all, or leave --components out",
        )),
        (sites, _) => Ok(sites.iter().cloned().map(Some).collect()),
    }
}

fn build_component(
    args: &CommandLineJobArgs,
    command: &[String],
    name: &str,
    site: Option<SiteName>,
) -> Result<ComponentDocument, CliError> {
    let name = ComponentName::new(name);
    let name =
        name.map_err(|error| CliError::usage_error(error.to_string(), "ask for fewer components"))?;
    let (program, arguments) = command
        .split_first()
        .map_or(("", command), |(p, a)| (&**p, a));
    let input = args.input.iter().map(|input| InputDocument {
        file: input.parse().ok().filter(|_| !Path::new(input).is_file()),
        upload: Some(input.as_str().into()).filter(|_| Path::new(input).is_file()),
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
    let executable = ExecutableDocument::AtSite(program.into());
    Ok(ComponentDocument {
        site,
        arguments: arguments
            .iter()
            .map(|argument| argument.as_str().into())
            .collect(),
        environment: args.env.iter().cloned().collect(),
        input: input.collect(),
        output: output.collect(),
        ..ComponentDocument::bare(name, args.processors.unwrap_or(1), executable)
    })
}
