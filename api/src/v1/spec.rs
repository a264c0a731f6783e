//! Conversions of a job document to the domain's specification, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::acquisition::RankingPreferences;
use cospan_domain::bid::{DimensionWeight, DimensionWeights};
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, LogicalName, RelPath};
use cospan_domain::job::spec::{
    ComponentSpec, ExecutableSource, FileReference, FlexibleBounds, InputPortion, InputSpec,
    JobSpec, OutputDestination, OutputSpec, Program, ProgramOverride, RequestType,
    UnreachableAction,
};
use cospan_domain::resources::{GFLOPS, MEMORY, Resources};
use cospan_domain::runner::{EndWarning, RunOptions};
use cospan_domain::units::{Bytes, DurationMs};
use thiserror::Error;

use super::acquisition::AcquisitionDocument;
use super::dimension_weights::Factor;
use super::document::{
    ComponentDocument, ExecutableDocument, FeedDocument, FileDocument, FlexibleDocument,
    InputDocument, JobDocument, OutputDocument, OverrideDocument, RequestName,
};
use super::label::{Demand, OverrideTarget};
use super::nodes;
use super::preferences::PreferencesDocument;
use super::quantity::{Length, Size};
use super::reservation::ReservationDocument;
use super::runner::{NotifyTarget, RestartScopeName, WarningDocument};

const MB: u64 = 1_000_000;
const DISK: &str = "disk_mb";
const GPUS: &str = "gpus";

/// Default time after which an unreachable component of a rerunnable job is run again.
const RERUN_AFTER: DurationMs = DurationMs::from_secs(30 * 60);

/// An error of a document whose fields are all valid by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key}: {problem}")]
pub struct SpecProblem {
    /// Path of the field.
    pub key: String,
    /// The problem, and a remedy.
    pub problem: String,
}

fn spec_error<T>(key: impl Into<String>, problem: impl Into<String>) -> Result<T, SpecProblem> {
    Err(SpecProblem {
        key: key.into(),
        problem: problem.into(),
    })
}

impl JobDocument {
    /// Converts the document into its specification, without expanding a sweep. Bounds and names
    /// across components are left to [`JobSpec::validate`].
    ///
    /// # Errors
    ///
    /// Fields that contradict each other.
    pub fn into_spec(self) -> Result<JobSpec, SpecProblem> {
        let fixed = !self.component.is_empty() && self.component.iter().all(|c| c.site.is_some());
        let molding = self
            .flexible
            .as_ref()
            .map(FlexibleDocument::to_molding)
            .unwrap_or_default();
        let request = request_type_of(self.request, self.flexible, fixed)?;
        let on_unreachable = match (
            self.on_unreachable.map(UnreachableAction::from),
            self.rerunnable,
        ) {
            (Some(UnreachableAction::RerunAfter(_)), false) => {
                return spec_error(
                    "on_unreachable",
                    "rerun_after contradicts rerunnable = false; use \"wait\"",
                );
            }
            (Some(UnreachableAction::RerunAfter(DurationMs::ZERO)), true) => {
                return spec_error("on_unreachable.rerun_after", "must be above 0");
            }
            (Some(rule), _) => rule,
            (None, true) => UnreachableAction::RerunAfter(RERUN_AFTER),
            (None, false) => UnreachableAction::Wait,
        };
        if let Some(key) = self
            .acquisition
            .as_ref()
            .and_then(AcquisitionDocument::zero_length_key)
        {
            return spec_error(key, "must be above 0");
        }
        let wish = self
            .reservation
            .as_ref()
            .map(ReservationDocument::to_terms)
            .transpose();
        let reservation = wish
            .or_else(|(key, problem)| spec_error(key, problem))?
            .flatten();
        let declines = self
            .reservation
            .as_ref()
            .is_some_and(ReservationDocument::declines_reservation);
        let preferences = self
            .preferences
            .filter(|_| !declines)
            .map(RankingPreferences::from);
        let within = self.reservation.and_then(|reservation| reservation.shared);
        let named = self
            .weights
            .iter()
            .map(|(name, factor)| (&**name, factor.0));
        let weights = match DimensionWeights::from_named(named) {
            Err(error) => return spec_error("weights", error.to_string()),
            Ok(weights) => Some(weights).filter(|_| !self.weights.is_empty()),
        };
        if let RequestType::Flexible(_) = request
            && let Some(i) = self.component.iter().position(|one| one.nodes.is_some())
        {
            let problem = "the policy splits the processors of a flexible job; leave it out";
            return spec_error(format!("component[{i}].nodes"), problem);
        }
        let components = self.component.into_iter().enumerate();
        let components: Result<Vec<ComponentSpec>, _> = components
            .map(|(i, one)| convert_component(i, one))
            .collect();
        Ok(JobSpec {
            name: self.name,
            request,
            components: shrink_exactly(components?),
            policy: self.policy,
            priority: self.priority.unwrap_or_default().into(),
            wall_time: self.wall_time.0,
            rerunnable: self.rerunnable,
            on_unreachable,
            max_placement_tries: self.max_placement_tries,
            max_claim_tries: self.max_claim_tries,
            max_retries: self.max_retries,
            run: RunOptions {
                runner: self.runner,
                task: None,
                warning: self.warning.map(EndWarning::from),
                notify: self
                    .notify
                    .into_iter()
                    .map(|NotifyTarget(name)| name)
                    .collect(),
                restart_scope: self.restart_scope.into(),
                acquisition: self.acquisition.unwrap_or_default().into(),
                reservation,
                preferences,
                within,
                weights,
                molding,
            }
            .into(),
        })
    }
}

/// Returns the type of request: the one that is named, else the one that follows from the
/// components and bounds.
fn request_type_of(
    named: Option<RequestName>,
    bounds: Option<FlexibleDocument>,
    fixed: bool,
) -> Result<RequestType, SpecProblem> {
    Ok(match (named, bounds) {
        (Some(RequestName::Flexible) | None, Some(bounds)) => RequestType::Flexible(bounds.into()),
        (Some(RequestName::Flexible), None) => RequestType::Flexible(FlexibleBounds::default()),
        (Some(RequestName::Fixed | RequestName::NonFixed), Some(_)) => {
            return spec_error(
                "flexible",
                "the request is not flexible; set `request = \"flexible\"`",
            );
        }
        (Some(RequestName::Fixed), None) => RequestType::Fixed,
        (None, None) if fixed => RequestType::Fixed,
        (Some(RequestName::NonFixed) | None, None) => RequestType::NonFixed,
    })
}

/// Drops spare capacity, and what is left of the document: the values are kept for long, and for
/// every job.
fn shrink_exactly<T>(mut values: Vec<T>) -> Vec<T> {
    values.shrink_to_fit();
    values
}

fn convert_component(
    index: usize,
    mut document: ComponentDocument,
) -> Result<ComponentSpec, SpecProblem> {
    let key = format!("component[{index}]");
    nodes::apply_nodes(&mut document)
        .or_else(|(field, problem)| spec_error(format!("{key}.{field}"), problem))?;
    let resources = convert_resources(&key, &document)?;
    let at = document.at.into_iter().map(|(place, change)| {
        let key = format!("{key}.at.{place}");
        Ok((place.0, convert_override(&key, change)?))
    });
    let restart = document
        .restart
        .map(|change| convert_override(&format!("{key}.restart"), change));
    let inputs = document.input.into_iter().enumerate();
    let outputs = document.output.into_iter().enumerate();
    Ok(ComponentSpec {
        name: document.name,
        site: document.site,
        resources,
        constraints: shrink_exactly(
            document
                .constraints
                .into_iter()
                .map(|demand| demand.0)
                .collect(),
        ),
        program: Program {
            executable: convert_executable(&key, document.executable)?,
            arguments: document.arguments,
            environment: document.environment,
            directory: document.directory,
            setup: document.setup,
        }
        .into(),
        inputs: inputs
            .map(|(i, file)| convert_input(&format!("{key}.input[{i}]"), file))
            .collect::<Result<_, _>>()
            .map(shrink_exactly)?,
        outputs: outputs
            .map(|(i, file)| convert_output(&format!("{key}.output[{i}]"), file))
            .collect::<Result<_, _>>()
            .map(shrink_exactly)?,
        at: at.collect::<Result<_, SpecProblem>>()?,
        restart: restart.transpose()?.map(Box::new),
        start_after: document
            .start_after
            .map(|after| after.0)
            .unwrap_or_default(),
    })
}

fn convert_resources(key: &str, document: &ComponentDocument) -> Result<Resources, SpecProblem> {
    let mut others = document.resources.clone();
    let memory = document.memory.map(|size| size.0.0.div_ceil(MB));
    let disk = document.disk.map(|size| size.0.0.div_ceil(MB));
    let named = [
        ("memory", MEMORY, memory),
        ("disk", DISK, disk),
        ("gpus", GPUS, document.gpus),
        (GFLOPS, GFLOPS, document.gflops),
    ];
    for (field, name, count) in named {
        let Some(count) = count else { continue };
        if count == 0 {
            return spec_error(
                format!("{key}.{field}"),
                "must be above 0; leave it out for none",
            );
        }
        if others.insert(name.into(), count).is_some() {
            return spec_error(
                format!("{key}.{field}"),
                format!("is also given as resources.{name}"),
            );
        }
    }
    Ok(Resources {
        processors: document.processors,
        others,
    })
}

fn convert_content(
    key: &str,
    digest: Option<Digest>,
    size_bytes: Option<u64>,
) -> Result<Option<Content>, SpecProblem> {
    match (digest, size_bytes) {
        (Some(digest), Some(size)) => Ok(Some(Content {
            digest,
            size: Bytes(size),
        })),
        (None, None) => Ok(None),
        _ => spec_error(
            key,
            "digest and size_bytes go together; give both or neither",
        ),
    }
}

/// Requires a name: a file that is still to be uploaded has none yet.
fn require_file_name(
    key: &str,
    file: Option<LogicalName>,
    upload: Option<Arc<str>>,
) -> Result<LogicalName, SpecProblem> {
    match (file, upload) {
        (Some(file), None) => Ok(file),
        (Some(_), Some(_)) => spec_error(key, "file and upload exclude each other; give one"),
        (None, None) => spec_error(key, "names no file; add file = \"...\" or upload = \"...\""),
        (None, Some(_)) => spec_error(
            key,
            "upload is a path on the machine of `cospan submit`, which sends the file; over HTTP \
             send it to /v1/uploads first, and give its name as file",
        ),
    }
}

fn convert_executable(
    key: &str,
    document: ExecutableDocument,
) -> Result<ExecutableSource, SpecProblem> {
    Ok(match document {
        ExecutableDocument::AtSite(path) => ExecutableSource::AtSite(path),
        ExecutableDocument::Staged(file) => {
            let key = format!("{key}.executable");
            let bound = convert_content(&key, file.digest, file.size_bytes)?;
            ExecutableSource::Staged(FileReference {
                name: require_file_name(&key, file.file, file.upload)?,
                bound,
            })
        }
    })
}

fn convert_input(key: &str, document: InputDocument) -> Result<InputSpec, SpecProblem> {
    let bound = convert_content(key, document.digest, document.size_bytes)?;
    let name = require_file_name(key, document.file, document.upload)?;
    let path = match document.path {
        Some(path) => path,
        None => match last_path_part(&name) {
            Some(path) => path,
            None => {
                return spec_error(
                    key,
                    "its name ends in no file name; say where: path = \"...\"",
                );
            }
        },
    };
    let feed = match document.read {
        FeedDocument::Whole => InputPortion::Whole,
        FeedDocument::Chunk => InputPortion::Chunk,
    };
    Ok(InputSpec {
        file: FileReference { name, bound },
        path,
        feed,
    })
}

fn last_path_part(name: &LogicalName) -> Option<RelPath> {
    name.as_str()
        .rsplit('/')
        .next()
        .and_then(|part| RelPath::new(part).ok())
}

fn convert_output(key: &str, document: OutputDocument) -> Result<OutputSpec, SpecProblem> {
    let collect = match (document.site, document.register) {
        (Some(site), Some(register)) => OutputDestination::ToSite { site, register },
        (None, None) => OutputDestination::Fetch,
        (Some(_), None) => {
            return spec_error(
                key,
                "names a site but no logical name; add register = \"...\"",
            );
        }
        (None, Some(_)) => {
            return spec_error(
                key,
                "has a logical name but no site to keep it; add site = \"...\"",
            );
        }
    };
    Ok(OutputSpec {
        path: document.path,
        collect,
    })
}

fn convert_override(key: &str, document: OverrideDocument) -> Result<ProgramOverride, SpecProblem> {
    Ok(ProgramOverride {
        executable: document
            .executable
            .map(|e| convert_executable(key, e))
            .transpose()?,
        arguments: document.arguments,
        environment: document.environment,
        setup: document.setup,
        directory: document.directory,
        lrm_options: document.lrm_options,
    })
}

impl From<&JobSpec> for JobDocument {
    fn from(spec: &JobSpec) -> Self {
        Self {
            name: spec.name.clone(),
            request: Some((&spec.request).into()),
            flexible: FlexibleDocument::of(spec),
            policy: spec.policy.clone(),
            priority: Some(spec.priority.into()),
            wall_time: Length(spec.wall_time),
            rerunnable: spec.rerunnable,
            on_unreachable: Some(spec.on_unreachable.into()),
            max_placement_tries: spec.max_placement_tries,
            max_claim_tries: spec.max_claim_tries,
            max_retries: spec.max_retries,
            restart_scope: RestartScopeName::from(spec.run.restart_scope),
            acquisition: Some(AcquisitionDocument::from(spec.run.acquisition))
                .filter(|shown| *shown != AcquisitionDocument::default()),
            reservation: reservation_document(spec),
            preferences: spec.run.preferences.as_ref().map(PreferencesDocument::from),
            weights: spec
                .run
                .weights
                .iter()
                .flat_map(DimensionWeights::by_name)
                .map(factor_entry)
                .collect(),
            // A run of a sweep is shown as one job.
            runner: spec.run.runner.clone().filter(|_| spec.run.task.is_none()),
            sweep: None,
            warning: spec.run.warning.map(WarningDocument::from),
            notify: spec.run.notify.iter().cloned().map(NotifyTarget).collect(),
            component: spec
                .components
                .iter()
                .map(ComponentDocument::from)
                .collect(),
        }
    }
}

fn reservation_document(spec: &JobSpec) -> Option<ReservationDocument> {
    let own = spec.run.reservation.as_ref().map(ReservationDocument::from);
    own.or_else(|| {
        spec.run
            .within
            .clone()
            .map(ReservationDocument::from_shared)
    })
}

fn factor_entry((name, weight): (&'static str, DimensionWeight)) -> (Arc<str>, Factor) {
    (name.into(), Factor(weight))
}

impl From<&ComponentSpec> for ComponentDocument {
    fn from(spec: &ComponentSpec) -> Self {
        let mut others: BTreeMap<Arc<str>, u64> = spec.resources.others.clone();
        let memory = take_size(&mut others, MEMORY);
        let disk = take_size(&mut others, DISK);
        let gpus = others.remove(GPUS);
        let gflops = others.remove(GFLOPS);
        let at = spec.at.iter();
        let program = spec.program.unpack();
        Self {
            name: spec.name.clone(),
            site: spec.site.clone(),
            processors: spec.resources.processors,
            // These are in `constraints` and `at` already.
            nodes: None,
            tasks_per_node: None,
            memory,
            disk,
            gpus,
            gflops,
            resources: others,
            constraints: spec.constraints.iter().cloned().map(Demand).collect(),
            executable: (&program.executable).into(),
            arguments: program.arguments,
            environment: program.environment,
            directory: program.directory,
            setup: program.setup,
            input: spec.inputs.iter().map(InputDocument::from).collect(),
            output: spec.outputs.iter().map(OutputDocument::from).collect(),
            at: at
                .map(|(place, change)| (OverrideTarget(place.clone()), change.into()))
                .collect(),
            restart: spec.restart.as_deref().map(OverrideDocument::from),
            start_after: Some(Length(spec.start_after)).filter(|it| it.0 > DurationMs::ZERO),
        }
    }
}

/// A count beyond what bytes can express stays under its own name.
fn take_size(others: &mut BTreeMap<Arc<str>, u64>, name: &str) -> Option<Size> {
    let bytes = others.get(name)?.checked_mul(MB)?;
    others.remove(name);
    Some(Size(Bytes(bytes)))
}

impl From<&ExecutableSource> for ExecutableDocument {
    fn from(executable: &ExecutableSource) -> Self {
        match executable {
            ExecutableSource::AtSite(path) => ExecutableDocument::AtSite(path.clone()),
            ExecutableSource::Staged(file) => ExecutableDocument::Staged(FileDocument {
                file: Some(file.name.clone()),
                upload: None,
                digest: file.bound.map(|content| content.digest),
                size_bytes: file.bound.map(|content| content.size.0),
            }),
        }
    }
}

impl From<&InputSpec> for InputDocument {
    fn from(input: &InputSpec) -> Self {
        Self {
            file: Some(input.file.name.clone()),
            upload: None,
            path: Some(input.path.clone()),
            read: match input.feed {
                InputPortion::Whole => FeedDocument::Whole,
                InputPortion::Chunk => FeedDocument::Chunk,
            },
            digest: input.file.bound.map(|content| content.digest),
            size_bytes: input.file.bound.map(|content| content.size.0),
        }
    }
}

impl From<&OutputSpec> for OutputDocument {
    fn from(output: &OutputSpec) -> Self {
        let (site, register) = match &output.collect {
            OutputDestination::Fetch => (None, None),
            OutputDestination::ToSite { site, register } => {
                (Some(site.clone()), Some(register.clone()))
            }
        };
        Self {
            path: output.path.clone(),
            site,
            register,
        }
    }
}

impl From<&ProgramOverride> for OverrideDocument {
    fn from(change: &ProgramOverride) -> Self {
        Self {
            executable: change.executable.as_ref().map(ExecutableDocument::from),
            arguments: change.arguments.clone(),
            environment: change.environment.clone(),
            setup: change.setup.clone(),
            directory: change.directory.clone(),
            lrm_options: change.lrm_options.clone(),
        }
    }
}
