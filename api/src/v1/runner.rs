//! The run of a job, as its user writes it: runner, sweep, warning.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cospan_domain::ids::TargetName;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::runner::{
    EndWarning, JobDescription, PayloadSignal, RestartScope, RunnerError, SignalReceiver, Sweep,
    SweepIndices, SweepRow, SweepSource, SweepTask,
};
use cospan_domain::units::Bytes;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::document::JobDocument;
use super::parse::nearest_word;
use super::quantity::Length;
use super::spec::SpecProblem;
use super::{number, text};

/// The parameters in which the runs of a sweep differ: exactly one of `grid`, `list` and `array`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepDocument {
    /// Every combination of these values; the last parameter, by name, varies fastest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<BTreeMap<Arc<str>, Vec<ValueText>>>,
    /// A row of values for each run; all rows name the same parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Vec<BTreeMap<Arc<str>, ValueText>>>,
    /// Numbers, as the parameter `index`: `0-99`, `1,3,5-8`, `0-100:10`, `0-99%4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "0-99%4")]
    pub array: Option<Arc<str>>,
    /// Most runs that are placed, held or running at once; no limit if left out.
    #[serde(
        default,
        deserialize_with = "number::any_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub at_once: Option<u32>,
}

/// A value of a parameter: a text, number or truth value, passed on as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ValueText(pub Arc<str>);

impl<'de> Deserialize<'de> for ValueText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ValueVisitor;

        impl Visitor<'_> for ValueVisitor {
            type Value = ValueText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true or false")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ValueText, E> {
                Ok(ValueText(text.into()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<ValueText, E> {
                Ok(ValueText(value.to_string().into()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<ValueText, E> {
                Ok(ValueText(value.to_string().into()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<ValueText, E> {
                Ok(ValueText(value.to_string().into()))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<ValueText, E> {
                Ok(ValueText(value.to_string().into()))
            }
        }

        from.deserialize_any(ValueVisitor)
    }
}

fn to_row(values: BTreeMap<Arc<str>, ValueText>) -> SweepRow {
    values
        .into_iter()
        .map(|(name, ValueText(value))| (name, value))
        .collect()
}

impl SweepDocument {
    fn into_sweep(self) -> Result<Sweep, SpecProblem> {
        let over = match (self.grid, self.list, self.array) {
            (Some(axes), None, None) => SweepSource::Grid(
                axes.into_iter()
                    .map(|(name, values): (_, Vec<ValueText>)| {
                        (name, values.into_iter().map(|ValueText(v)| v).collect())
                    })
                    .collect(),
            ),
            (None, Some(rows), None) => SweepSource::List(rows.into_iter().map(to_row).collect()),
            (None, None, Some(text)) => SweepSource::Array(text.parse::<SweepIndices>()?),
            _ => {
                return Err(SpecProblem {
                    key: "sweep".into(),
                    problem: "give exactly one of grid, list and array".into(),
                });
            }
        };
        Ok(Sweep {
            over,
            at_once: self.at_once,
        })
    }
}

/// The scope of a restart when a component of a running job fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RestartScopeName {
    /// All components together.
    #[default]
    Job,
    /// The failed component, while the others go on.
    Component,
}

impl RestartScopeName {
    /// Returns true for the default.
    pub fn is_job(&self) -> bool {
        *self == RestartScopeName::Job
    }
}

impl From<RestartScopeName> for RestartScope {
    fn from(name: RestartScopeName) -> RestartScope {
        match name {
            RestartScopeName::Job => RestartScope::Job,
            RestartScopeName::Component => RestartScope::Component,
        }
    }
}

impl From<RestartScope> for RestartScopeName {
    fn from(scope: RestartScope) -> RestartScopeName {
        match scope {
            RestartScope::Job => RestartScopeName::Job,
            RestartScope::Component => RestartScopeName::Component,
        }
    }
}

/// A signal that the payloads get before the wall time of their job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WarningDocument {
    /// The signal.
    #[serde(default)]
    pub signal: SignalName,
    /// Time from the signal to the end of the wall time.
    pub before: Length,
    /// The processes that get it.
    #[serde(default, skip_serializing_if = "ReceiverName::is_default")]
    pub to: ReceiverName,
}

/// The processes of a payload that a signal goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceiverName {
    /// All of them.
    #[default]
    Payload,
    /// The first of them alone: the script, if there is one.
    Script,
    /// Those that it started with `srun`, without itself; all of them where the site has no steps.
    Steps,
}

impl ReceiverName {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl From<ReceiverName> for SignalReceiver {
    fn from(name: ReceiverName) -> SignalReceiver {
        match name {
            ReceiverName::Payload => SignalReceiver::Payload,
            ReceiverName::Script => SignalReceiver::Script,
            ReceiverName::Steps => SignalReceiver::Steps,
        }
    }
}

impl From<SignalReceiver> for ReceiverName {
    fn from(receiver: SignalReceiver) -> ReceiverName {
        match receiver {
            SignalReceiver::Payload => ReceiverName::Payload,
            SignalReceiver::Script => ReceiverName::Script,
            SignalReceiver::Steps => ReceiverName::Steps,
        }
    }
}

/// Signals that warn a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "named after the signals")]
pub enum SignalName {
    #[default]
    Usr1,
    Usr2,
    Term,
    Int,
    Hup,
}

impl From<SignalName> for PayloadSignal {
    fn from(name: SignalName) -> PayloadSignal {
        match name {
            SignalName::Usr1 => PayloadSignal::Usr1,
            SignalName::Usr2 => PayloadSignal::Usr2,
            SignalName::Term => PayloadSignal::Term,
            SignalName::Int => PayloadSignal::Int,
            SignalName::Hup => PayloadSignal::Hup,
        }
    }
}

impl From<PayloadSignal> for SignalName {
    fn from(signal: PayloadSignal) -> SignalName {
        match signal {
            PayloadSignal::Usr1 => SignalName::Usr1,
            PayloadSignal::Usr2 => SignalName::Usr2,
            PayloadSignal::Term => SignalName::Term,
            PayloadSignal::Int => SignalName::Int,
            PayloadSignal::Hup => SignalName::Hup,
        }
    }
}

impl From<WarningDocument> for EndWarning {
    fn from(document: WarningDocument) -> EndWarning {
        EndWarning {
            signal: document.signal.into(),
            before: document.before.0,
            to: document.to.into(),
        }
    }
}

impl From<EndWarning> for WarningDocument {
    fn from(warning: EndWarning) -> WarningDocument {
        WarningDocument {
            signal: warning.signal.into(),
            before: Length(warning.before),
            to: warning.to.into(),
        }
    }
}

/// The name of a notification target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NotifyTarget(#[serde(with = "text")] pub TargetName);

/// The run of a sweep that a job is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskReport {
    /// The job of the first run, which identifies the whole sweep.
    pub group: u64,
    /// The number of the run in the sweep, from 0.
    pub task: u32,
    /// Number of runs of the sweep.
    pub tasks: u32,
    /// Most runs that are placed, held or running at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// The values of the run's parameters.
    #[schema(value_type = BTreeMap<String, String>)]
    pub values: BTreeMap<Arc<str>, Arc<str>>,
}

impl From<&SweepTask> for TaskReport {
    fn from(task: &SweepTask) -> Self {
        Self {
            group: task.group.0,
            task: task.index,
            tasks: task.count,
            at_once: task.at_once,
            values: task.values.clone(),
        }
    }
}

impl From<RunnerError> for SpecProblem {
    fn from(error: RunnerError) -> Self {
        let close = match &error {
            RunnerError::Unknown { name, known } => {
                let known: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
                nearest_word(name, &known)
            }
            RunnerError::Placeholder { name, known, .. } => nearest_word(name, known),
            _ => None,
        };
        let hint = close
            .map(|close| format!("; did you mean {close:?}?"))
            .unwrap_or_default();
        SpecProblem {
            key: error.job_file_key().to_owned(),
            problem: format!("{error}{hint}"),
        }
    }
}

impl JobDocument {
    /// Expands the document into its jobs, at most this many.
    ///
    /// # Errors
    ///
    /// Fields that contradict each other, or a runner that cannot run this.
    pub fn into_specs(
        mut self,
        max_tasks: usize,
        max_bytes: Bytes,
    ) -> Result<Vec<JobSpec>, SpecProblem> {
        let sweep = self
            .sweep
            .take()
            .map(SweepDocument::into_sweep)
            .transpose()?;
        let named = self.runner.is_some();
        let mut spec = self.into_spec()?;
        if sweep.is_some() && !named {
            spec.run.runner = cospan_domain::ids::RunnerName::new("sweep").ok();
        }
        Ok(JobDescription {
            spec,
            sweep,
            max_tasks,
            max_bytes,
        }
        .into_jobs()?)
    }
}
