//! The specification of a job.

use std::sync::Arc;

use cospan_domain::acquisition::{self, AcquisitionMode as DomainMode};
use cospan_domain::bid::{Weight, WeightError, Weights};
use cospan_domain::boxed_default::Sparse;
use cospan_domain::content;
use cospan_domain::ids::{
    ComponentName, Digest, LogicalName, PolicyName, RelPath, ReservationName, RunnerName, SiteName,
    TargetName,
};
use cospan_domain::job::chunk::Feed as DomainFeed;
use cospan_domain::job::spec::{self, Collect as DomainCollect, Executable as DomainExecutable};
use cospan_domain::job::spec::{OnUnreachable as DomainOnUnreachable, Priority as DomainPriority};
use cospan_domain::job::spec::{OverrideScope, RequestType};
use cospan_domain::labels::{self, LabelRule};
use cospan_domain::resources;
use cospan_domain::runner::{self, RestartScope as DomainScope, Signal as DomainSignal};

use super::convert::{
    Convert, RecordProblem, Text, is_default, wire_enum, wire_inner, wire_struct,
};
use super::program_words::{Packed, StoredWord};
use super::reservation::{Preferences, ReservationWish};

type Pairs = Vec<(Arc<str>, StoredWord)>;
type Texts = Vec<StoredWord>;

wire_struct!(JobSpec = spec::JobSpec {
    request: Request,
    components: Vec<ComponentSpec>,
    priority: Priority,
    wall_time: u64,
    rerunnable: bool,
    on_unreachable: OnUnreachable;
    max_retries: u32,
    name: Option<Arc<str>>,
    policy: Option<Text<PolicyName>>,
    max_placement_tries: Option<u32>,
    max_claim_tries: Option<u32>,
    run: RunOptions,
});

wire_struct!(RunOptions = runner::RunOptions {
    ;
    runner: Option<Text<RunnerName>>,
    task: Option<Task>,
    warning: Option<Warning>,
    notify: Vec<Text<TargetName>>,
    restart_scope: RestartScope,
    acquisition: AcquisitionOptions,
    weights: Option<Vec<(Arc<str>, u32)>>,
    reservation: Option<ReservationWish>,
    preferences: Option<Preferences>,
    within: Option<Text<ReservationName>>,
    molding: Molding,
});

wire_struct!(Molding = acquisition::Molding {; overhead: u32, shapes: Vec<OtherShape> });
wire_struct!(
    OtherShape = acquisition::OtherShape {
        processors: u32,
        run_time: u64
    }
);

impl Default for Molding {
    fn default() -> Self {
        acquisition::Molding::default().to_wire()
    }
}

impl Convert<RunOptions> for Sparse<runner::RunOptions> {
    fn to_wire(&self) -> RunOptions {
        (**self).to_wire()
    }

    fn from_wire(wire: RunOptions) -> Result<Self, RecordProblem> {
        Ok(runner::RunOptions::from_wire(wire)?.into())
    }
}

/// Pairs of the name of a dimension and its weight in thousandths.
impl Convert<Vec<(Arc<str>, u32)>> for Weights {
    fn to_wire(&self) -> Vec<(Arc<str>, u32)> {
        self.by_name()
            .map(|(name, weight)| (name.into(), weight.thousandths()))
            .collect()
    }

    fn from_wire(wire: Vec<(Arc<str>, u32)>) -> Result<Self, RecordProblem> {
        let named: Result<Vec<(Arc<str>, Weight)>, WeightError> = wire
            .into_iter()
            .map(|(name, thousandths)| Ok((name, Weight::from_thousandths(thousandths)?)))
            .collect();
        let weights = named.and_then(|named| {
            Weights::from_named(named.iter().map(|(name, weight)| (&**name, *weight)))
        });
        weights.map_err(|error| error.to_string())
    }
}
wire_struct!(AcquisitionOptions = acquisition::AcquisitionOptions {
    ;
    mode: AcquisitionMode,
    limits: QueueLimits,
});
wire_struct!(
    QueueLimits = acquisition::QueueLimits {
        deadline: u64,
        max_hold: u64
    }
);
wire_enum!(
    AcquisitionMode = DomainMode {
        Auto,
        Immediate,
        Queued
    }
);

impl Default for AcquisitionOptions {
    fn default() -> Self {
        acquisition::AcquisitionOptions::default().to_wire()
    }
}

impl Default for AcquisitionMode {
    fn default() -> Self {
        DomainMode::default().to_wire()
    }
}

impl Default for QueueLimits {
    fn default() -> Self {
        acquisition::QueueLimits::default().to_wire()
    }
}

wire_enum!(RestartScope = DomainScope { Job, Component });

impl Default for RestartScope {
    fn default() -> Self {
        DomainScope::default().to_wire()
    }
}
wire_struct!(Task = runner::SweepTask {
    group: u64,
    index: u32,
    count: u32;
    at_once: Option<u32>,
    values: Pairs,
});
wire_struct!(
    Warning = runner::Warning {
        signal: Signal,
        before: u64
    }
);
wire_enum!(
    Signal = DomainSignal {
        Usr1,
        Usr2,
        Term,
        Int,
        Hup
    }
);

impl Default for RunOptions {
    fn default() -> Self {
        runner::RunOptions::default().to_wire()
    }
}

wire_enum!(Request = RequestType { Fixed, NonFixed, Flexible(Flexible) });
wire_struct!(Flexible = spec::Flexible {
    min_component_size: u32;
    max_components: Option<u32>,
    splits: Vec<Vec<u32>>,
});
wire_enum!(
    Priority = DomainPriority {
        SuperLow,
        Low,
        High,
        SuperHigh
    }
);
wire_enum!(OnUnreachable = DomainOnUnreachable { Wait, RerunAfter(u64) });

wire_struct!(ComponentSpec = spec::ComponentSpec {
    name: Text<ComponentName>,
    resources: Resources,
    program: StoredProgram;
    site: Option<Text<SiteName>>,
    constraints: Vec<Constraint>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    at: Vec<(StoredScope, Override)>,
    restart: Option<Override>,
    start_after: u64,
});

wire_struct!(Resources = resources::Resources {
    processors: u32;
    others: Vec<(Arc<str>, u64)>,
});

wire_struct!(Constraint = labels::Constraint { key: Arc<str>, rule: Rule });
wire_enum!(Rule = LabelRule { Is(Arc<str>), OneOf(Vec<Arc<str>>), IsNot(Arc<str>), AtLeast(u64) });

/// A program, with its words separate or packed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct StoredProgram {
    pub(crate) executable: Executable,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) arguments: Texts,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) environment: Pairs,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) directory: Option<Text<RelPath>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) setup: Texts,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) packed: Option<Packed>,
}

impl StoredProgram {
    pub(crate) fn from_pieces(executable: Executable, packed: Packed) -> Self {
        let arguments = Vec::new();
        let environment = Vec::new();
        let setup = Vec::new();
        Self {
            executable,
            arguments,
            environment,
            directory: None,
            setup,
            packed: Some(packed),
        }
    }
}

impl Convert<StoredProgram> for spec::Program {
    fn to_wire(&self) -> StoredProgram {
        StoredProgram {
            executable: self.executable.to_wire(),
            arguments: self.arguments.to_wire(),
            environment: self.environment.to_wire(),
            directory: self.directory.to_wire(),
            setup: self.setup.to_wire(),
            packed: None,
        }
    }

    fn from_wire(wire: StoredProgram) -> Result<Self, RecordProblem> {
        Ok(Self {
            executable: Convert::from_wire(wire.executable)?,
            arguments: Convert::from_wire(wire.arguments)?,
            environment: Convert::from_wire(wire.environment)?,
            directory: Convert::from_wire(wire.directory)?,
            setup: Convert::from_wire(wire.setup)?,
        })
    }
}

impl Convert<Override> for Box<spec::Override> {
    fn to_wire(&self) -> Override {
        (**self).to_wire()
    }

    fn from_wire(wire: Override) -> Result<Self, RecordProblem> {
        spec::Override::from_wire(wire).map(Box::new)
    }
}

wire_enum!(Executable = DomainExecutable { AtSite(Arc<str>), Staged(FileRef) });
wire_struct!(FileRef = spec::FileRef { name: Text<LogicalName>; bound: Option<Content> });
wire_struct!(Content = content::Content { digest: Text<Digest>, size: u64 });
wire_struct!(Input = spec::Input { file: FileRef, path: Text<RelPath>; feed: Feed });
wire_enum!(Feed = DomainFeed { Whole, Chunk });
wire_struct!(
    Chunk = content::Chunk {
        of: Content,
        offset: u64,
        length: u64
    }
);

impl Default for Feed {
    fn default() -> Self {
        super::Convert::to_wire(&DomainFeed::default())
    }
}

wire_struct!(Output = spec::OutputSpec { path: Text<RelPath>; collect: Collect });
wire_enum!(Collect = DomainCollect { Fetch, ToSite { site: Text<SiteName>, register: Text<LogicalName> } });

impl Default for Collect {
    fn default() -> Self {
        super::Convert::to_wire(&DomainCollect::Fetch)
    }
}

/// The sites for which an override holds; a label's key and value as a pair.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum StoredScope {
    Label(Arc<str>, Arc<str>),
    Site(Text<SiteName>),
}

impl super::Convert<StoredScope> for OverrideScope {
    fn to_wire(&self) -> StoredScope {
        match self {
            OverrideScope::Label(key, value) => StoredScope::Label(key.clone(), value.clone()),
            OverrideScope::Site(site) => StoredScope::Site(site.to_wire()),
        }
    }

    fn from_wire(wire: StoredScope) -> Result<Self, super::RecordProblem> {
        Ok(match wire {
            StoredScope::Label(key, value) => OverrideScope::Label(key, value),
            StoredScope::Site(site) => OverrideScope::Site(super::Convert::from_wire(site)?),
        })
    }
}

// Differences at certain sites. No arguments and an empty list of them differ.
wire_struct!(Override = spec::Override {
    ;
    executable: Option<Executable>,
    arguments: Option<Texts>,
    environment: Pairs,
    setup: Texts,
    directory: Option<Text<RelPath>>,
    lrm_options: Texts,
});
