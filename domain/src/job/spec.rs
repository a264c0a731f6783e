//! The specification of a job of components, as submitted and never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::acquisition::{MoldingError, RankingPreferencesError, ReservationTermsError};
use crate::boxed_default::BoxedUnlessDefault;
use crate::content::Content;
use crate::ids::{ComponentName, KeyName, LogicalName, PolicyName, RelPath, SiteName};
use crate::job::outputs::OutputCountError;
use crate::labels::{LabelConstraint, SiteLabels};
use crate::resources::Resources;
use crate::runner::{RunOptions, RunnerError};
use crate::units::DurationMs;

pub use super::chunk::InputPortion;
use super::inputs;
pub use super::packed::{PackedProgram, ProgramPiece, ProgramWordCounts};
pub use super::program::ProgramAtSite;
pub use super::request_type::{FlexibleBounds, RequestType};
pub use super::start_offsets::StartOffsetError;

/// A job as submitted. Input files are bound to their digests; see [`bind_inputs`].
///
/// [`bind_inputs`]: JobSpec::bind_inputs
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// A name for people; not unique.
    pub name: Option<Arc<str>>,
    /// The type of the request: who chooses the sites.
    pub request: RequestType,
    /// The components, in the order in which the user gave them.
    pub components: Vec<ComponentSpec>,
    /// Policy that places it; `None` for the server's default.
    pub policy: Option<PolicyName>,
    /// Priority of its placement queue at submission.
    pub priority: Priority,
    /// Longest time that a payload may run, from the opening of the gate.
    pub wall_time: DurationMs,
    /// True if a component may run a second time after it began once.
    pub rerunnable: bool,
    /// Action for a round that has begun when a site stops answering.
    pub on_unreachable: UnreachableAction,
    /// Counted placement tries after which the job fails; `None`: never.
    pub max_placement_tries: Option<u32>,
    /// Refused claims after which the job fails; `None`: never.
    pub max_claim_tries: Option<u32>,
    /// Retries after errors of the job itself; 0: none.
    pub max_retries: u32,
    /// The runner and its options, and other options of the run.
    pub run: BoxedUnlessDefault<RunOptions>,
}

/// Priorities of placement queues, most urgent last so that order follows urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Never preempts and is never promoted.
    SuperLow,
    /// Promoted to high after enough failed tries.
    #[default]
    Low,
    /// Promoted to super-high after enough failed tries.
    High,
    /// Scanned first.
    SuperHigh,
}

impl Priority {
    /// All priorities, most urgent first.
    pub const ALL: [Priority; 4] = [
        Priority::SuperHigh,
        Priority::High,
        Priority::Low,
        Priority::SuperLow,
    ];

    /// Returns its name in job files, metrics and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::SuperHigh => "super-high",
            Priority::High => "high",
            Priority::Low => "low",
            Priority::SuperLow => "super-low",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Action when a site with a running component stops answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnreachableAction {
    /// Wait until it answers, however long.
    Wait,
    /// Place the job again after this time, although the lost component may still run.
    RerunAfter(DurationMs),
}

/// A component: processes that run at one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentSpec {
    /// The name, unique in the job.
    pub name: ComponentName,
    /// The site, for a fixed request.
    pub site: Option<SiteName>,
    /// Resources that it needs.
    pub resources: Resources,
    /// Conditions on the labels of its site.
    pub constraints: Vec<LabelConstraint>,
    /// The program that it runs.
    pub program: PackedProgram,
    /// Files that it reads.
    pub inputs: Vec<InputSpec>,
    /// Files that it leaves.
    pub outputs: Vec<OutputSpec>,
    /// Overrides for certain sites: applied in order, later ones win.
    pub at: BTreeMap<OverrideScope, ProgramOverride>,
    /// Override for when it is started again after every payload of the job had begun.
    pub restart: Option<Box<ProgramOverride>>,
    /// Time from the start of its job until it begins; zero: it begins with the job.
    pub start_after: DurationMs,
}

/// The program of a component. No shell interprets any of it but `setup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The executable.
    pub executable: ExecutableSource,
    /// Arguments, handed over byte for byte.
    pub arguments: Vec<Arc<str>>,
    /// Variables added to its environment.
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
    /// Directory it starts in, below its work directory; `None` for the work directory itself.
    pub directory: Option<RelPath>,
    /// Shell lines run before it, in the same shell environment (`module load gcc`).
    pub setup: Vec<Arc<str>>,
}

/// The origin of an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutableSource {
    /// It is found at the site: an absolute path, or a name looked up in `PATH`.
    AtSite(Arc<str>),
    /// It is brought to the site like an input file.
    Staged(FileReference),
}

impl ExecutableSource {
    /// Returns the path or the logical name that its user gave.
    pub fn as_str(&self) -> &str {
        match self {
            ExecutableSource::AtSite(path) => path,
            ExecutableSource::Staged(file) => file.name.as_str(),
        }
    }

    /// Returns the content that must be brought for it, if it is staged.
    pub fn staged_content(&self) -> Option<Content> {
        match self {
            ExecutableSource::Staged(file) => file.bound,
            ExecutableSource::AtSite(_) => None,
        }
    }
}

/// A logical file and, once bound, its content at submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReference {
    pub name: LogicalName,
    /// The content that the name pointed to when the job was submitted.
    pub bound: Option<Content>,
}

impl ComponentSpec {
    /// Returns the position of the last output that stays where it is made, if there is one.
    pub(super) fn last_staying_output(&self) -> Option<u32> {
        let last = self
            .outputs
            .iter()
            .rposition(|output| matches!(output.collect, OutputDestination::Fetch));
        last.map(|at| at as u32)
    }
}

/// A file that a component reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpec {
    pub file: FileReference,
    /// The path below the work directory.
    pub path: RelPath,
    /// The portion that the component reads.
    pub feed: InputPortion,
}

/// A file that a component leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSpec {
    /// The path below the work directory.
    pub path: RelPath,
    pub collect: OutputDestination,
}

/// The destination of an output file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputDestination {
    /// It stays with the attempt until the user fetches it.
    Fetch,
    /// It is copied to a site and becomes a logical file there.
    ToSite {
        /// The site that keeps it.
        site: SiteName,
        /// The logical name of the output from then on.
        register: LogicalName,
    },
}

/// The sites for which an override holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OverrideScope {
    /// Sites with this label (applied before those for a site by name).
    Label(Arc<str>, Arc<str>),
    /// This site.
    Site(SiteName),
}

impl OverrideScope {
    /// Returns true if a site of this name with these labels is one of them.
    pub fn applies_to_site(&self, site: &SiteName, labels: &SiteLabels) -> bool {
        match self {
            OverrideScope::Site(name) => name == site,
            OverrideScope::Label(key, value) => labels.get(key).is_some_and(|v| v.contains(value)),
        }
    }
}

impl fmt::Display for OverrideScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OverrideScope::Site(site) => site.fmt(f),
            OverrideScope::Label(key, value) => write!(f, "{key}={value}"),
        }
    }
}

/// Changes to a program at certain sites; fields that are `None` or empty change nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramOverride {
    /// Another executable.
    pub executable: Option<ExecutableSource>,
    /// Other arguments.
    pub arguments: Option<Vec<Arc<str>>>,
    /// Variables added or replaced.
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
    /// Setup lines added at the end.
    pub setup: Vec<Arc<str>>,
    /// Another directory to start in.
    pub directory: Option<RelPath>,
    /// Options handed to the site's batch system as they are.
    pub lrm_options: Vec<Arc<str>>,
}

/// Bounds that a submission must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobSpecLimits {
    /// Most components of a job.
    pub max_components: u32,
    /// Longest wall time.
    pub max_wall_time: DurationMs,
}

impl Default for JobSpecLimits {
    fn default() -> Self {
        Self {
            max_components: 1_000,
            max_wall_time: DurationMs::from_secs(366 * 86_400),
        }
    }
}

/// Errors of a job specification, whatever the sites are like.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum JobSpecError {
    #[error("the job has no components; give it at least one [[component]]")]
    NoComponents,
    #[error("the job has {count} components; at most {max} are allowed (max_components)")]
    TooManyComponents { count: usize, max: u32 },
    #[error("two components are called {0:?}; give each its own name")]
    DuplicateComponent(ComponentName),
    #[error("component {0:?} asks for no processors; ask for at least 1")]
    NoProcessors(ComponentName),
    #[error("component {0:?} names no site, but the request is fixed; add `site = ...`")]
    FixedWithoutSite(ComponentName),
    #[error(
        "component {0:?} names site {1}, but the request is not fixed; set `request = \"fixed\"` or drop `site`"
    )]
    SiteWithoutFixed(ComponentName, SiteName),
    #[error(
        "a flexible request has {count} components; give it one [[component]] that asks for all processors"
    )]
    FlexibleComponents { count: usize },
    #[error(
        "component {name:?} asks for {total} processors, less than min_component_size ({min}); ask for more, or lower it"
    )]
    BelowMinimum {
        name: ComponentName,
        total: u32,
        min: u32,
    },
    #[error("min_component_size and max_components must be at least 1")]
    ZeroBound,
    #[error(
        "the split {split:?} does not add up to the {total} processors asked for, or has a component of size 0"
    )]
    SplitSum { split: Vec<u32>, total: u32 },
    #[error(
        "each component of a flexible request would register {0}; drop `site` and `register` of the output and fetch it"
    )]
    FlexibleOutput(LogicalName),
    #[error("the wall time is {given}; it must be above 0 and at most {max}")]
    WallTime { given: DurationMs, max: DurationMs },
    #[error("component {0:?} has {1} twice among its inputs; each needs its own path")]
    DuplicateInput(ComponentName, RelPath),
    #[error("component {0:?} has input {1} below input {2}; put them beside each other")]
    NestedInput(ComponentName, RelPath, RelPath),
    #[error("component {0:?} has an input {1}; no part of a path is longer than 255 bytes")]
    LongInput(ComponentName, RelPath),
    #[error("component {0:?} has {1} twice among its outputs")]
    DuplicateOutput(ComponentName, RelPath),
    #[error("component {0:?} has a NUL character in {1}; programs cannot receive one")]
    Nul(ComponentName, &'static str),
    #[error("component {0:?} sets the variable {1:?}, which is not a valid name")]
    VariableName(ComponentName, Arc<str>),
    #[error("component {0:?} has an empty executable")]
    NoExecutable(ComponentName),
    #[error(transparent)]
    Outputs(#[from] OutputCountError),
    #[error(transparent)]
    Runner(#[from] RunnerError),
    #[error(transparent)]
    Reservation(#[from] ReservationTermsError),
    #[error(transparent)]
    Offset(#[from] StartOffsetError),
    #[error(transparent)]
    Molding(#[from] MoldingError),
    #[error(transparent)]
    Preferences(#[from] RankingPreferencesError),
}

impl JobSpec {
    /// Checks what can be checked without knowing any site.
    ///
    /// # Errors
    /// The first thing that is wrong, with what to do about it.
    pub fn validate(&self, limits: &JobSpecLimits) -> Result<(), JobSpecError> {
        if self.components.is_empty() {
            return Err(JobSpecError::NoComponents);
        }
        if self.components.len() > limits.max_components as usize {
            return Err(JobSpecError::TooManyComponents {
                count: self.components.len(),
                max: limits.max_components,
            });
        }
        if self.wall_time == DurationMs::ZERO || self.wall_time > limits.max_wall_time {
            return Err(JobSpecError::WallTime {
                given: self.wall_time,
                max: limits.max_wall_time,
            });
        }
        let mut names = BTreeSet::new();
        for component in &self.components {
            if !names.insert(&component.name) {
                return Err(JobSpecError::DuplicateComponent(component.name.clone()));
            }
            component.validate(&self.request)?;
        }
        self.validate_outputs()?;
        self.validate_run()?;
        self.validate_reservation()?;
        self.validate_flexible()?;
        self.validate_offsets(limits)?;
        self.validate_preferences()?;
        self.validate_molding(limits)
    }

    /// Returns the logical names that must be resolved to content, each once.
    pub fn unbound_names(&self) -> BTreeSet<LogicalName> {
        self.components
            .iter()
            .flat_map(ComponentSpec::file_refs)
            .filter(|file| file.bound.is_none())
            .map(|file| file.name.clone())
            .collect()
    }

    /// Binds every logical name to its content, so that the job keeps reading what the name meant
    /// at submission.
    ///
    /// # Errors
    /// The first name that `content_of` does not know.
    pub fn bind_inputs(
        &mut self,
        mut content_of: impl FnMut(&LogicalName) -> Option<Content>,
    ) -> Result<(), LogicalName> {
        for file in self
            .components
            .iter_mut()
            .flat_map(ComponentSpec::file_refs_mut)
        {
            if file.bound.is_none() {
                file.bound = Some(content_of(&file.name).ok_or_else(|| file.name.clone())?);
            }
        }
        Ok(())
    }

    /// Sums the resources of all components.
    pub fn total_resources(&self) -> Resources {
        let mut total = Resources::default();
        self.components
            .iter()
            .for_each(|component| total.add(&component.resources));
        total
    }
}

impl ComponentSpec {
    fn validate(&self, request: &RequestType) -> Result<(), JobSpecError> {
        if self.resources.processors == 0 {
            return Err(JobSpecError::NoProcessors(self.name.clone()));
        }
        match (request, &self.site) {
            (RequestType::Fixed, None) => {
                return Err(JobSpecError::FixedWithoutSite(self.name.clone()));
            }
            (RequestType::NonFixed | RequestType::Flexible(_), Some(site)) => {
                return Err(JobSpecError::SiteWithoutFixed(
                    self.name.clone(),
                    site.clone(),
                ));
            }
            (RequestType::Fixed, Some(_))
            | (RequestType::NonFixed | RequestType::Flexible(_), None) => {}
        }
        inputs::check_input_paths(self)?;
        let mut paths = BTreeSet::new();
        if let Some(twice) = self
            .outputs
            .iter()
            .find(|output| !paths.insert(&output.path))
        {
            return Err(JobSpecError::DuplicateOutput(
                self.name.clone(),
                twice.path.clone(),
            ));
        }
        self.validate_program()
    }

    fn validate_program(&self) -> Result<(), JobSpecError> {
        let program = &self.program;
        let overrides = self.overrides();
        let executables = overrides.clone().filter_map(|o| o.executable.as_ref());
        for executable in std::iter::once(&program.executable).chain(executables) {
            match executable {
                ExecutableSource::AtSite(path) if path.is_empty() => {
                    return Err(JobSpecError::NoExecutable(self.name.clone()));
                }
                ExecutableSource::AtSite(path) if path.contains('\0') => {
                    return Err(JobSpecError::Nul(self.name.clone(), "the executable"));
                }
                ExecutableSource::AtSite(_) | ExecutableSource::Staged(_) => {}
            }
        }
        let others = overrides.clone().flat_map(|o| o.arguments.iter().flatten());
        if program
            .arguments()
            .chain(others.map(|word| &**word))
            .any(|a| a.contains('\0'))
        {
            return Err(JobSpecError::Nul(self.name.clone(), "an argument"));
        }
        let others = overrides.flat_map(|o| &o.environment);
        let others = others.map(|(key, value)| (&**key, &**value));
        for (key, value) in program.variables().chain(others) {
            if !is_variable_name(key) {
                return Err(JobSpecError::VariableName(self.name.clone(), key.into()));
            }
            if value.contains('\0') {
                return Err(JobSpecError::Nul(self.name.clone(), "a variable"));
            }
        }
        Ok(())
    }

    /// Iterates over all overrides of its program.
    pub(super) fn overrides(&self) -> impl Iterator<Item = &ProgramOverride> + Clone {
        self.at.values().chain(self.restart.as_deref())
    }

    /// Iterates over the files that must be at the site before it can start: inputs, and
    /// executables that are staged (also those of overrides).
    pub fn file_refs(&self) -> impl Iterator<Item = &FileReference> {
        let staged = std::iter::once(&self.program.executable)
            .chain(self.overrides().filter_map(|o| o.executable.as_ref()))
            .filter_map(|executable| match executable {
                ExecutableSource::Staged(file) => Some(file),
                ExecutableSource::AtSite(_) => None,
            });
        self.inputs.iter().map(|input| &input.file).chain(staged)
    }

    fn file_refs_mut(&mut self) -> impl Iterator<Item = &mut FileReference> {
        let staged = std::iter::once(&mut self.program.executable)
            .chain(
                self.at
                    .values_mut()
                    .chain(self.restart.as_deref_mut())
                    .filter_map(|o| o.executable.as_mut()),
            )
            .filter_map(|executable| match executable {
                ExecutableSource::Staged(file) => Some(file),
                ExecutableSource::AtSite(_) => None,
            });
        self.inputs
            .iter_mut()
            .map(|input| &mut input.file)
            .chain(staged)
    }
}

/// The name of the key that did something to a job.
pub type Actor = KeyName;

pub(crate) fn is_variable_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
