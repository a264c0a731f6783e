//! The specification of a job.

use std::sync::Arc;

use cospan_domain::acquisition::{self, AcquisitionMode as DomainMode};
use cospan_domain::bid::{DimensionWeight, DimensionWeightError, DimensionWeights};
use cospan_domain::boxed_default::BoxedUnlessDefault;
use cospan_domain::content;
use cospan_domain::ids::{
    ComponentName, Digest, LogicalName, PolicyName, RelPath, ReservationName, RunnerName, SiteName,
    TargetName,
};
use cospan_domain::job::chunk::InputPortion;
use cospan_domain::job::spec::{self, ExecutableSource, OutputDestination};
use cospan_domain::job::spec::{OverrideScope, RequestType};
use cospan_domain::job::spec::{Priority as DomainPriority, UnreachableAction};
use cospan_domain::labels::{self, LabelRule};
use cospan_domain::resources;
use cospan_domain::runner::{self, PayloadSignal, RestartScope as DomainScope, SignalReceiver};

use super::convert::{
    RecordProblem, TextValue, WireConversion, is_default, wire_enum, wire_inner, wire_struct,
};
use super::program_words::{StoredProgramWords, StoredWord};
use super::reservation::{Preferences, ReservationWish};

type WordPairs = Vec<(Arc<str>, StoredWord)>;
type WordList = Vec<StoredWord>;

wire_struct!(JobSpec = spec::JobSpec {
    request: Request,
    components: Vec<ComponentSpec>,
    priority: Priority,
    wall_time: u64,
    rerunnable: bool,
    on_unreachable: OnUnreachable;
    max_retries: u32,
    name: Option<Arc<str>>,
    policy: Option<TextValue<PolicyName>>,
    max_placement_tries: Option<u32>,
    max_claim_tries: Option<u32>,
    run: RunOptions,
});

wire_struct!(RunOptions = runner::RunOptions {
    ;
    runner: Option<TextValue<RunnerName>>,
    task: Option<Task>,
    warning: Option<Warning>,
    notify: Vec<TextValue<TargetName>>,
    restart_scope: RestartScope,
    acquisition: AcquisitionOptions,
    weights: Option<Vec<(Arc<str>, u32)>>,
    reservation: Option<ReservationWish>,
    preferences: Option<Preferences>,
    within: Option<TextValue<ReservationName>>,
    molding: Molding,
});

wire_struct!(Molding = acquisition::MoldingOptions {; overhead: u32, shapes: Vec<OtherShape> });
wire_struct!(
    OtherShape = acquisition::AlternativeShape {
        processors: u32,
        run_time: u64
    }
);

impl Default for Molding {
    fn default() -> Self {
        acquisition::MoldingOptions::default().to_wire()
    }
}

impl WireConversion<RunOptions> for BoxedUnlessDefault<runner::RunOptions> {
    fn to_wire(&self) -> RunOptions {
        (**self).to_wire()
    }

    fn from_wire(wire: RunOptions) -> Result<Self, RecordProblem> {
        Ok(runner::RunOptions::from_wire(wire)?.into())
    }
}

/// Pairs of the name of a dimension and its weight in thousandths.
impl WireConversion<Vec<(Arc<str>, u32)>> for DimensionWeights {
    fn to_wire(&self) -> Vec<(Arc<str>, u32)> {
        self.by_name()
            .map(|(name, weight)| (name.into(), weight.thousandths()))
            .collect()
    }

    fn from_wire(wire: Vec<(Arc<str>, u32)>) -> Result<Self, RecordProblem> {
        let named: Result<Vec<(Arc<str>, DimensionWeight)>, DimensionWeightError> = wire
            .into_iter()
            .map(|(name, thousandths)| Ok((name, DimensionWeight::from_thousandths(thousandths)?)))
            .collect();
        let weights = named.and_then(|named| {
            DimensionWeights::from_named(named.iter().map(|(name, weight)| (&**name, *weight)))
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
    QueueLimits = acquisition::QueueTimeLimits {
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
        acquisition::QueueTimeLimits::default().to_wire()
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
    values: WordPairs,
});
wire_struct!(
    Warning = runner::EndWarning {
        signal: Signal,
        before: u64;
        to: Receiver,
    }
);
wire_enum!(
    Receiver = SignalReceiver {
        Payload,
        Script,
        Steps
    }
);

impl Default for Receiver {
    fn default() -> Self {
        SignalReceiver::default().to_wire()
    }
}
wire_enum!(
    Signal = PayloadSignal {
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
wire_struct!(Flexible = spec::FlexibleBounds {
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
wire_enum!(OnUnreachable = UnreachableAction { Wait, RerunAfter(u64) });

wire_struct!(ComponentSpec = spec::ComponentSpec {
    name: TextValue<ComponentName>,
    resources: Resources,
    program: StoredProgram;
    site: Option<TextValue<SiteName>>,
    constraints: Vec<Constraint>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    at: Vec<(StoredOverrideScope, Override)>,
    restart: Option<Override>,
    start_after: u64,
});

wire_struct!(Resources = resources::Resources {
    processors: u32;
    others: Vec<(Arc<str>, u64)>,
});

wire_struct!(Constraint = labels::LabelConstraint { key: Arc<str>, rule: Rule });
wire_enum!(Rule = LabelRule { Is(Arc<str>), OneOf(Vec<Arc<str>>), IsNot(Arc<str>), AtLeast(u64) });

/// A program, with its words separate or packed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct StoredProgram {
    pub(crate) executable: Executable,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) arguments: WordList,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) environment: WordPairs,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) directory: Option<TextValue<RelPath>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) setup: WordList,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) packed: Option<StoredProgramWords>,
}

impl StoredProgram {
    pub(crate) fn from_pieces(executable: Executable, packed: StoredProgramWords) -> Self {
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

impl WireConversion<StoredProgram> for spec::Program {
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
            executable: WireConversion::from_wire(wire.executable)?,
            arguments: WireConversion::from_wire(wire.arguments)?,
            environment: WireConversion::from_wire(wire.environment)?,
            directory: WireConversion::from_wire(wire.directory)?,
            setup: WireConversion::from_wire(wire.setup)?,
        })
    }
}

impl WireConversion<Override> for Box<spec::ProgramOverride> {
    fn to_wire(&self) -> Override {
        (**self).to_wire()
    }

    fn from_wire(wire: Override) -> Result<Self, RecordProblem> {
        spec::ProgramOverride::from_wire(wire).map(Box::new)
    }
}

wire_enum!(Executable = ExecutableSource { AtSite(Arc<str>), Staged(FileRef) });
wire_struct!(FileRef = spec::FileReference { name: TextValue<LogicalName>; bound: Option<Content> });
wire_struct!(Content = content::Content { digest: TextValue<Digest>, size: u64 });
wire_struct!(Input = spec::InputSpec { file: FileRef, path: TextValue<RelPath>; feed: Feed });
wire_enum!(Feed = InputPortion { Whole, Chunk });
wire_struct!(
    Chunk = content::FileChunk {
        of: Content,
        offset: u64,
        length: u64
    }
);

impl Default for Feed {
    fn default() -> Self {
        super::WireConversion::to_wire(&InputPortion::default())
    }
}

wire_struct!(Output = spec::OutputSpec { path: TextValue<RelPath>; collect: Collect });
wire_enum!(Collect = OutputDestination { Fetch, ToSite { site: TextValue<SiteName>, register: TextValue<LogicalName> } });

impl Default for Collect {
    fn default() -> Self {
        super::WireConversion::to_wire(&OutputDestination::Fetch)
    }
}

/// The sites for which an override holds; a label's key and value as a pair.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum StoredOverrideScope {
    Label(Arc<str>, Arc<str>),
    Site(TextValue<SiteName>),
}

impl super::WireConversion<StoredOverrideScope> for OverrideScope {
    fn to_wire(&self) -> StoredOverrideScope {
        match self {
            OverrideScope::Label(key, value) => {
                StoredOverrideScope::Label(key.clone(), value.clone())
            }
            OverrideScope::Site(site) => StoredOverrideScope::Site(site.to_wire()),
        }
    }

    fn from_wire(wire: StoredOverrideScope) -> Result<Self, super::RecordProblem> {
        Ok(match wire {
            StoredOverrideScope::Label(key, value) => OverrideScope::Label(key, value),
            StoredOverrideScope::Site(site) => {
                OverrideScope::Site(super::WireConversion::from_wire(site)?)
            }
        })
    }
}

// Differences at certain sites. No arguments and an empty list of them differ.
wire_struct!(Override = spec::ProgramOverride {
    ;
    executable: Option<Executable>,
    arguments: Option<WordList>,
    environment: WordPairs,
    setup: WordList,
    directory: Option<TextValue<RelPath>>,
    lrm_options: WordList,
});
