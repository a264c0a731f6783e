//! A job as its user writes it: the same shape in job files (TOML, JSON, YAML) and in the body of a
//! submission.
//!
//! Unknown keys are refused. Names are checked while they are read, so that an error knows its
//! place. Rules about several fields are checked in [`spec`].
//!
//! [`spec`]: super::spec

mod component_files;
mod flexible;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use cospan_domain::ids::{ComponentName, PolicyName, RelPath, RunnerName, SiteName};
use cospan_domain::job::spec::{Priority, RequestType, UnreachableAction};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::acquisition::AcquisitionDocument;
use super::dimension_weights::Factor;
use super::label::{Demand, OverrideTarget};
use super::preferences::PreferencesDocument;
use super::quantity::{Length, Size};
use super::reservation::ReservationDocument;
use super::runner::{NotifyTarget, RestartScopeName, SweepDocument, WarningDocument};
use super::text_patterns::{
    ComponentText, PathText, PolicyText, Positive, RunnerText, SiteText, TargetText, VariableText,
};
use super::{number, text};
pub use component_files::{
    ExecutableDocument, FeedDocument, FileDocument, InputDocument, OutputDocument,
};
pub use flexible::{FlexibleDocument, ShapeDocument};

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobDocument {
    /// A name for people; it need not be unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "wave")]
    pub name: Option<Arc<str>>,
    /// `fixed`: every component names its site; `non-fixed`: the policy chooses the sites;
    /// `flexible`: the policy also splits the processors of the one component. If left out:
    /// flexible with a `[flexible]` table, fixed if every component names a site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestName>,
    /// Bounds of the split of a flexible job, and other shapes in which it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flexible: Option<FlexibleDocument>,
    /// The placement policy; the server's default if left out.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<PolicyText>)]
    pub policy: Option<PolicyName>,
    /// Priority: the placement queue that the job waits in. If left out: as the server's rules say,
    /// else low.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityName>,
    /// Longest time that the payload may run, from the common start.
    pub wall_time: Length,
    /// True if a component that has begun may run a second time.
    #[serde(default = "yes")]
    pub rerunnable: bool,
    /// The rule for a running component whose site stops answering. If left out: `{ rerun_after =
    /// "30m" }` for a rerunnable job, else `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unreachable: Option<Unreachable>,
    /// Placement tries after which the job fails; unlimited if left out.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub max_placement_tries: Option<u32>,
    /// Refused claims after which the job fails; unlimited if left out.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub max_claim_tries: Option<u32>,
    /// Number of retries after errors of the job itself.
    #[serde(default, deserialize_with = "number::any")]
    pub max_retries: u32,
    /// Scope of a restart when a component of the running job fails: all components (`job`), or
    /// only that one while the others go on (`component`).
    #[serde(default, skip_serializing_if = "RestartScopeName::is_job")]
    pub restart_scope: RestartScopeName,
    /// The way in which the job acquires its processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquisition: Option<AcquisitionDocument>,
    /// The reserved start. Without it the job does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationDocument>,
    /// The preferences that rank the sites that are asked for a reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferences: Option<PreferencesDocument>,
    /// Weights of the dimensions under a policy that takes bids (`mrs`): `compute`, `memory`,
    /// `disk`, `potential`, `data`, each from 0 to 1000, and 1 if left out. Without this table the
    /// server's configuration holds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<Arc<str>, Factor>,
    /// The runner: `default` (components only start together), `parallel` (each component also
    /// finds the others in a file), `sweep` (many independent runs). If left out: sweep with a
    /// `[sweep]` table, else default.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<RunnerText>)]
    pub runner: Option<RunnerName>,
    /// The parameters in which the runs of a sweep differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepDocument>,
    /// A signal that the payloads get before the wall time ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<WarningDocument>,
    /// The targets that are notified when the job has ended: names that the operator configured
    /// (`notify.targets`).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schema(value_type = Vec<TargetText>)]
    pub notify: BTreeSet<NotifyTarget>,
    /// The components: processes that start together, each at one site.
    #[serde(default)]
    pub component: Vec<ComponentDocument>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn yes() -> bool {
    true
}

/// The ways to choose sites for components.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequestName {
    /// Every component names its site.
    Fixed,
    /// The policy chooses.
    NonFixed,
    /// The policy chooses the sites, and splits the job into components.
    Flexible,
}

impl From<&RequestType> for RequestName {
    fn from(request: &RequestType) -> RequestName {
        match request {
            RequestType::Fixed => RequestName::Fixed,
            RequestType::NonFixed => RequestName::NonFixed,
            RequestType::Flexible(_) => RequestName::Flexible,
        }
    }
}

/// The priority of a job: its placement queue.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PriorityName {
    /// Never preempts, and is never promoted.
    SuperLow,
    /// Promoted after enough failed tries.
    #[default]
    Low,
    /// Promoted after enough failed tries.
    High,
    /// Scanned first.
    SuperHigh,
}

impl From<PriorityName> for Priority {
    fn from(name: PriorityName) -> Priority {
        match name {
            PriorityName::SuperLow => Priority::SuperLow,
            PriorityName::Low => Priority::Low,
            PriorityName::High => Priority::High,
            PriorityName::SuperHigh => Priority::SuperHigh,
        }
    }
}

impl From<Priority> for PriorityName {
    fn from(priority: Priority) -> PriorityName {
        match priority {
            Priority::SuperLow => PriorityName::SuperLow,
            Priority::Low => PriorityName::Low,
            Priority::High => PriorityName::High,
            Priority::SuperHigh => PriorityName::SuperHigh,
        }
    }
}

impl fmt::Display for PriorityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Priority::from(*self).as_str())
    }
}

/// The rule for a site that stops answering: `wait`, or `{ rerun_after = "30m" }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreachable {
    /// Wait until the site answers, however long that takes.
    Wait,
    /// Place the job again after this time, although the lost component may still run.
    RerunAfter(Length),
}

impl From<UnreachableAction> for Unreachable {
    fn from(rule: UnreachableAction) -> Unreachable {
        match rule {
            UnreachableAction::Wait => Unreachable::Wait,
            UnreachableAction::RerunAfter(length) => Unreachable::RerunAfter(Length(length)),
        }
    }
}

impl From<Unreachable> for UnreachableAction {
    fn from(rule: Unreachable) -> UnreachableAction {
        match rule {
            Unreachable::Wait => UnreachableAction::Wait,
            Unreachable::RerunAfter(Length(length)) => UnreachableAction::RerunAfter(length),
        }
    }
}

/// A component: processes that run at one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ComponentDocument {
    /// The name of the component, unique in the job.
    #[serde(with = "text")]
    #[schema(value_type = ComponentText)]
    pub name: ComponentName,
    /// The site, for a fixed request.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<SiteText>)]
    pub site: Option<SiteName>,
    /// Time from the reserved start of the job (`[reservation]`) to the start of this component;
    /// its processors are reserved as much later. Zero if left out, as it must be for at least one
    /// component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10m")]
    pub start_after: Option<Length>,
    /// Number of processors. If left out: the product of `nodes` and `tasks_per_node`.
    #[serde(
        default,
        deserialize_with = "number::positive",
        skip_serializing_if = "is_zero"
    )]
    #[schema(minimum = 1)]
    pub processors: u32,
    /// Number of nodes at the site, which must have as many.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub nodes: Option<u32>,
    /// Tasks on each of the `nodes`, of one processor each.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub tasks_per_node: Option<u32>,
    /// Memory; counted in MB, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Disk space; counted in MB, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Size>,
    /// Number of GPUs.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub gpus: Option<u64>,
    /// GFLOPS that the processors must reach together; only sites that reach them are chosen.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub gflops: Option<u64>,
    /// Other resources by name, with their counts.
    #[serde(
        default,
        deserialize_with = "number::positive_map",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schema(value_type = BTreeMap<String, Positive>)]
    pub resources: BTreeMap<Arc<str>, u64>,
    /// Demands on the labels of the site: `arch=x86_64`, `os!=windows`, `mpi=openmpi|mpich`,
    /// `nodes>=4`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Demand>,
    /// The program to run.
    pub executable: ExecutableDocument,
    /// The arguments of the program, passed on byte for byte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Arc<str>>,
    /// Variables that are added to the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<VariableText, String>)]
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
    /// The directory to start in, below the work directory.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<PathText>)]
    pub directory: Option<RelPath>,
    /// Shell lines that run before the program (`module load gcc`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Arc<str>>,
    /// Files that the component reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<InputDocument>,
    /// Files that the component leaves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<OutputDocument>,
    /// Differences at a site, or at sites with a label (`arch=arm64`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<OverrideTarget, OverrideDocument>)]
    pub at: BTreeMap<OverrideTarget, OverrideDocument>,
    /// Differences when the component is started again after every payload of the job has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<OverrideDocument>,
}

/// Differences at certain sites. Everything that is left out stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OverrideDocument {
    /// Another executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<ExecutableDocument>,
    /// Other arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Vec<Arc<str>>>,
    /// Variables added or replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<VariableText, String>)]
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
    /// Setup lines that are added at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Arc<str>>,
    /// Another directory to start in.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<PathText>)]
    pub directory: Option<RelPath>,
    /// Options that are passed unchanged to the batch system of the site.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lrm_options: Vec<Arc<str>>,
}
