//! A small scenario: sites, files, jobs, and what is done to them step by step. It is the same for
//! both worlds, and does not say how either carries it out.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use cospan_domain::content::Content;
use cospan_domain::ids::{ComponentName, Digest, LogicalName, RelPath, SiteName};
use cospan_domain::job::spec::{
    ComponentSpec, ExecutableSource, FileReference, InputSpec, JobSpec, OutputDestination,
    OutputSpec, Priority, Program, RequestType, UnreachableAction,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, DurationMs};
use serde_json::{Value, json};

/// Bandwidth of every link: a megabyte a second.
pub(super) const BANDWIDTH_BITS_PER_S: u64 = 8_000_000;
/// Size of every file that a payload writes, as at simulated sites.
pub(super) use cospan_simulator::world::OUTPUT_BYTES;
/// An executable that exists neither on this machine nor at a simulated site.
pub(super) use cospan_simulator::world::attempt::MISSING_PROGRAM;

/// Path of the payload's output.
const OUTPUT: &str = "out";
/// Run time of a payload that nobody releases, in milliseconds: the simulated one's first argument.
const FOR_EVER_MS: u64 = 3_600_000;

#[derive(Debug, Clone, Default)]
pub(super) struct DifferScenario {
    /// Number in the run.
    pub number: usize,
    /// Names of its acts, for people.
    pub acts: Vec<&'static str>,
    /// Processors of its sites s1, s2, ...
    pub processors: Vec<u32>,
    /// Files at sites, registered before the first step.
    pub files: Vec<PlannedFile>,
    pub jobs: Vec<ScriptedJob>,
    /// The steps, in order.
    pub script: Vec<ScriptStep>,
}

/// A file at a site.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedFile {
    /// Index of the site, from 0.
    pub site: usize,
    pub bytes: usize,
}

#[derive(Debug, Clone)]
pub(super) struct ScriptedJob {
    pub components: Vec<PlannedComponent>,
    /// Wall time in whole seconds, as a wrapper counts.
    pub wall_time_s: u64,
    /// Number of retries after an error of its own.
    pub retries: u32,
}

#[derive(Debug, Clone)]
pub(super) struct PlannedComponent {
    /// Index of the site that it names, from 0; all components of a job name one, or none does.
    pub site: Option<usize>,
    pub processors: u32,
    pub payload: PlannedPayload,
    /// Input files, by their index in the scenario.
    pub inputs: Vec<usize>,
    /// The fate of the output file, if there is one.
    pub output: Option<Keep>,
}

/// The behaviour of a payload.
#[derive(Debug, Clone, Copy)]
pub(super) enum PlannedPayload {
    /// Runs until it is released, then exits with this code.
    Exits(u8),
    /// The executable does not exist.
    Missing,
}

/// The fate of an output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keep {
    /// It stays with the attempt.
    Here,
    /// It is copied to this site.
    At(usize),
}

/// A step of a script. Jobs and sites are named by their index in the scenario.
#[derive(Debug, Clone, Copy)]
pub(super) enum ScriptStep {
    /// Wait until every site is usable and idle.
    Rest,
    Submit(usize),
    /// Wait until a job has reached this point.
    Await(usize, ScriptPoint),
    /// Wait so many milliseconds.
    Pause(u64),
    /// The payload of this component of a job ends.
    Release(usize, usize),
    /// The payloads of all components of a job end.
    ReleaseAll(usize),
    Cancel(usize),
    Freeze(usize),
    Thaw(usize),
    /// The site of a job's first component loses what runs there, as if its machine and the control
    /// plane's were restarted.
    Lose(usize),
    /// An operator drains the site of a job's first component.
    Drain(usize),
    /// An operator takes the drained site into use again.
    Undrain,
    /// The control plane is killed and started again.
    Restart,
}

impl ScriptStep {
    /// Returns true if the control plane is restarted after this step.
    pub(super) fn restarts(&self) -> bool {
        matches!(self, ScriptStep::Restart | ScriptStep::Lose(_))
    }
}

/// The progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptPoint {
    /// It waits for placement.
    Queued,
    /// Placed; its input is on the way.
    Placed,
    /// All components wait at their gates.
    AtGate,
    /// All payloads of this round run.
    Running(u32),
    /// This component has succeeded.
    Succeeded(usize),
    Ended,
}

/// The state of a job, in the words that both worlds have for it.
#[derive(Debug, Clone)]
pub(super) struct JobStanding {
    pub phase: String,
    pub round: u32,
    /// The state of each component.
    pub runs: Vec<String>,
}

impl ScriptPoint {
    /// Returns true if a job has reached this point, and `None` if it ended without passing it.
    pub(super) fn has_reached(self, job: &JobStanding) -> Option<bool> {
        let ended = matches!(job.phase.as_str(), "finished" | "failed" | "cancelled");
        if ended && self != ScriptPoint::Ended {
            return None;
        }
        Some(match self {
            ScriptPoint::Queued => job.phase == "queued",
            ScriptPoint::Placed => job.phase == "placed",
            ScriptPoint::AtGate => {
                job.phase == "claiming" && job.runs.iter().all(|run| run == "at-gate")
            }
            ScriptPoint::Running(round) => job.phase == "running" && job.round == round,
            ScriptPoint::Succeeded(component) => job.runs[component] == "succeeded",
            ScriptPoint::Ended => ended,
        })
    }
}

pub(super) fn site_name(site: usize) -> String {
    format!("s{}", site + 1)
}

/// Returns the logical name of a file, which is also its path at its site.
pub(super) fn file_name(file: usize) -> String {
    format!("file-{file}")
}

impl PlannedFile {
    /// Generates the file's bytes, which differ from those of any other file.
    pub(super) fn bytes(&self, file: usize) -> Vec<u8> {
        let mut bytes = format!("{}\n", file_name(file)).into_bytes();
        bytes.resize(self.bytes, b'.');
        bytes
    }

    /// Returns the content that a catalogue has for it.
    pub(super) fn content(&self, file: usize) -> Content {
        let digest = blake3::hash(&self.bytes(file));
        Content {
            digest: Digest(*digest.as_bytes()),
            size: Bytes(self.bytes as u64),
        }
    }
}

impl DifferScenario {
    /// Returns the same scenario, so many times slower where time matters.
    pub(super) fn slower(mut self, times: u32) -> Self {
        self.files
            .iter_mut()
            .for_each(|file| file.bytes *= times as usize);
        self.jobs
            .iter_mut()
            .for_each(|job| job.wall_time_s *= u64::from(times));
        for step in &mut self.script {
            if let ScriptStep::Pause(ms) = step {
                *ms *= u64::from(times);
            }
        }
        self
    }

    /// Returns a job as the control plane knows it; `program` runs its payloads.
    ///
    /// # Errors
    /// Never: the names are valid.
    pub(super) fn spec(&self, job: usize, program: &str) -> Result<JobSpec> {
        let planned = &self.jobs[job];
        let components: Vec<ComponentSpec> = planned
            .components
            .iter()
            .enumerate()
            .map(|(index, of)| component_spec(job, index, of, program))
            .collect::<Result<_>>()?;
        let fixed = components.iter().all(|component| component.site.is_some());
        Ok(JobSpec {
            name: Some(format!("job-{job}").into()),
            request: if fixed {
                RequestType::Fixed
            } else {
                RequestType::NonFixed
            },
            components,
            policy: None,
            priority: Priority::Low,
            wall_time: DurationMs::from_secs(planned.wall_time_s),
            rerunnable: true,
            on_unreachable: UnreachableAction::RerunAfter(DurationMs::from_secs(1_800)),
            max_placement_tries: None,
            max_claim_tries: None,
            max_retries: planned.retries,
            run: Default::default(),
        })
    }
}

fn component_spec(
    job: usize,
    index: usize,
    planned: &PlannedComponent,
    program: &str,
) -> Result<ComponentSpec> {
    Ok(ComponentSpec {
        name: ComponentName::new(&format!("c{index}"))?,
        site: planned
            .site
            .map(|site| SiteName::new(&site_name(site)))
            .transpose()?,
        resources: Resources::processors(planned.processors),
        constraints: Vec::new(),
        program: planned.program(program).into(),
        inputs: planned
            .inputs
            .iter()
            .map(|file: &usize| -> Result<InputSpec> {
                let name = LogicalName::new(&file_name(*file))?;
                let path = RelPath::new(&file_name(*file))?;
                Ok(InputSpec {
                    file: FileReference { name, bound: None },
                    path,
                    feed: Default::default(),
                })
            })
            .collect::<Result<_>>()?,
        outputs: planned
            .output
            .iter()
            .map(|keep: &Keep| -> Result<OutputSpec> {
                let collect = match keep {
                    Keep::Here => OutputDestination::Fetch,
                    Keep::At(site) => OutputDestination::ToSite {
                        site: SiteName::new(&site_name(*site))?,
                        register: LogicalName::new(&format!("output-{job}-{index}"))?,
                    },
                };
                Ok(OutputSpec {
                    path: RelPath::new(OUTPUT)?,
                    collect,
                })
            })
            .collect::<Result<_>>()?,
        at: BTreeMap::new(),
        restart: None,
        start_after: DurationMs::ZERO,
    })
}

impl PlannedComponent {
    fn program(&self, program: &str) -> Program {
        let (executable, arguments): (&str, Vec<Arc<str>>) = match self.payload {
            PlannedPayload::Exits(code) => {
                let output = self.output.map(|_| OUTPUT.to_owned());
                let words = [FOR_EVER_MS.to_string(), code.to_string()]
                    .into_iter()
                    .chain(output);
                (program, words.map(Arc::from).collect())
            }
            PlannedPayload::Missing => (MISSING_PROGRAM, Vec::new()),
        };
        Program {
            executable: ExecutableSource::AtSite(executable.into()),
            arguments,
            environment: BTreeMap::new(),
            directory: None,
            setup: Vec::new(),
        }
    }
}

/// Returns the document by which a client submits a job. The comparison at the end shows that both
/// worlds read the same from it.
pub(super) fn document(spec: &JobSpec) -> Value {
    json!({
        "name": spec.name,
        "wall_time": format!("{}s", spec.wall_time.as_secs_ceil()),
        "max_retries": spec.max_retries,
        "component": spec.components.iter().map(component_document).collect::<Vec<Value>>(),
    })
}

fn component_document(component: &ComponentSpec) -> Value {
    let executable = match &component.program.executable {
        ExecutableSource::AtSite(path) => json!(path),
        ExecutableSource::Staged(file) => json!({ "file": file.name.as_str() }),
    };
    let mut document = json!({
        "name": component.name.as_str(),
        "processors": component.resources.processors,
        "executable": executable,
        "arguments": component.program.unpack().arguments,
        "input": component.inputs.iter().map(|input: &InputSpec| json!({ "file": input.file.name.as_str(), "path": input.path.as_str() })).collect::<Vec<Value>>(),
        "output": component.outputs.iter().map(|output: &OutputSpec| match &output.collect {
        OutputDestination::Fetch => json!({ "path": output.path.as_str() }),
        OutputDestination::ToSite { site, register } => json!({
            "path": output.path.as_str(), "site": site.as_str(), "register": register.as_str(),
        }),
    }).collect::<Vec<Value>>(),
    });
    if let Some(site) = &component.site {
        document["site"] = json!(site.as_str());
    }
    document
}
