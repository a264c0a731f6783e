//! A job as its user writes it: the same shape in job files (TOML, JSON, YAML)
//! and in the body of a submission.
//!
//! Unknown keys are refused. Names are checked while they are read, so that an
//! error knows its place; what concerns several fields is checked in [`spec`].
//!
//! [`spec`]: super::spec

mod files;
mod flexible;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use cospan_domain::ids::{ComponentName, PolicyName, RelPath, RunnerName, SiteName};
use cospan_domain::job::spec::{OnUnreachable, Priority, RequestType};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::acquisition::AcquisitionDocument;
use super::factor::Factor;
use super::label::{Demand, OverrideTarget};
use super::preferences::PreferencesDocument;
use super::quantity::{Length, Size};
use super::reservation::ReservationDocument;
use super::runner::{NotifyTarget, RestartScopeName, SweepDocument, WarningDocument};
use super::shape::{
    ComponentText, PathText, PolicyText, Positive, RunnerText, SiteText, TargetText, VariableText,
};
use super::{number, text};
pub use files::{ExecutableDocument, FeedDocument, FileDocument, InputDocument, OutputDocument};
pub use flexible::{FlexibleDocument, ShapeDocument};

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobDocument {
    /// A name for people; need not be unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "wave")]
    pub name: Option<Arc<str>>,
    /// `fixed`: every component names its site; `non-fixed`: the policy chooses; `flexible`:
    /// the policy also splits the processors of the one component. Left out: flexible with a
    /// `[flexible]` table, fixed if every component names a site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestName>,
    /// Bounds of the split of a flexible job, and its other shapes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flexible: Option<FlexibleDocument>,
    /// Placement policy; the server's default if left out.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<PolicyText>)]
    pub policy: Option<PolicyName>,
    /// Class of its placement queue. Left out: as the server's rules give it, else low.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityName>,
    /// Longest time the payload may run, from the common start.
    pub wall_time: Length,
    /// Whether a component may run a second time after it began once.
    #[serde(default = "yes")]
    pub rerunnable: bool,
    /// What to do when the site of a running component stops answering. Left out:
    /// `{ rerun_after = "30m" }` for a rerunnable job, else `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unreachable: Option<Unreachable>,
    /// Fail after this many placement tries; never if left out.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub max_placement_tries: Option<u32>,
    /// Fail after this many refused claims; never if left out.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub max_claim_tries: Option<u32>,
    /// Restarts after errors of its own.
    #[serde(default, deserialize_with = "number::any")]
    pub max_retries: u32,
    /// What is restarted when a component of the running job fails: all of it (`job`), or that
    /// one while the others go on (`component`).
    #[serde(default, skip_serializing_if = "RestartScopeName::is_job")]
    pub restart_scope: RestartScopeName,
    /// How its processors are got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquisition: Option<AcquisitionDocument>,
    /// The start that it is promised, or it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationDocument>,
    /// How the sites that are asked to promise its start are ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferences: Option<PreferencesDocument>,
    /// How much each dimension counts where the policy takes bids (`mrs`): `compute`, `memory`,
    /// `disk`, `potential`, `data`, each from 0 to 1000, 1 if left out. Without this table as the
    /// server is configured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<Arc<str>, Factor>,
    /// What runs it: `default` (components only start together), `parallel` (each also finds
    /// the others in a file), `sweep` (many independent runs). Left out: sweep with a `[sweep]`
    /// table, else default.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<RunnerText>)]
    pub runner: Option<RunnerName>,
    /// What the runs of a sweep differ in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepDocument>,
    /// A signal to the payloads before the wall time ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<WarningDocument>,
    /// Who is told when it has ended: names that the operator configured (`notify.targets`).
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

/// How components may be put on sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequestName {
    /// Every component names its site.
    Fixed,
    /// The policy chooses.
    NonFixed,
    /// The policy chooses, and splits the job into components.
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

/// Class of a placement queue.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PriorityName {
    /// Never preempts and is never promoted.
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

/// What to do when a site stops answering: `wait`, or `{ rerun_after = "30m" }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreachable {
    /// Wait until it answers, however long.
    Wait,
    /// Place the job again after this time, although the lost component may still run.
    RerunAfter(Length),
}

impl From<OnUnreachable> for Unreachable {
    fn from(rule: OnUnreachable) -> Unreachable {
        match rule {
            OnUnreachable::Wait => Unreachable::Wait,
            OnUnreachable::RerunAfter(length) => Unreachable::RerunAfter(Length(length)),
        }
    }
}

impl From<Unreachable> for OnUnreachable {
    fn from(rule: Unreachable) -> OnUnreachable {
        match rule {
            Unreachable::Wait => OnUnreachable::Wait,
            Unreachable::RerunAfter(Length(length)) => OnUnreachable::RerunAfter(length),
        }
    }
}

/// One component: processes that run at one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ComponentDocument {
    /// Its name, unique in the job.
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
    /// It begins so long after the start that its job is promised (`[reservation]`), and its
    /// processors are reserved as much later. With the start if left out, as at least one
    /// component must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10m")]
    pub start_after: Option<Length>,
    /// Processors that it needs. Left out: what `nodes` and `tasks_per_node` make.
    #[serde(
        default,
        deserialize_with = "number::positive",
        skip_serializing_if = "is_zero"
    )]
    #[schema(minimum = 1)]
    pub processors: u32,
    /// Nodes that it needs at its site, which must have as many.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub nodes: Option<u32>,
    /// With `nodes`: tasks on each of them, of one processor each.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub tasks_per_node: Option<u32>,
    /// Memory that it needs; counted in MB, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Disk space that it needs; counted in MB, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Size>,
    /// GPUs that it needs.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub gpus: Option<u64>,
    /// What its processors must do together, in GFLOPS: it goes only where they reach it.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub gflops: Option<u64>,
    /// Any other counts that it needs, by name.
    #[serde(
        default,
        deserialize_with = "number::positive_map",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schema(value_type = BTreeMap<String, Positive>)]
    pub resources: BTreeMap<Arc<str>, u64>,
    /// What its site must be like: `arch=x86_64`, `os!=windows`, `mpi=openmpi|mpich`,
    /// `nodes>=4`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Demand>,
    /// What to run.
    pub executable: ExecutableDocument,
    /// Its arguments, handed over byte for byte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Arc<str>>,
    /// Variables added to its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<VariableText, String>)]
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
    /// Directory it starts in, below its work directory.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<PathText>)]
    pub directory: Option<RelPath>,
    /// Shell lines run before it (`module load gcc`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Arc<str>>,
    /// Files that it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<InputDocument>,
    /// Files that it leaves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<OutputDocument>,
    /// What differs at a site, or at sites with a label (`arch=arm64`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<OverrideTarget, OverrideDocument>)]
    pub at: BTreeMap<OverrideTarget, OverrideDocument>,
    /// What differs when it is started again after every payload of the job had begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<OverrideDocument>,
}

/// What differs at certain sites; what is left out stays as it is.
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
    /// Setup lines added at the end.
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
    /// Options handed to the site's resource manager as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lrm_options: Vec<Arc<str>>,
}
