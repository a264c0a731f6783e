//! The demands of one component of a script on sites, and on Slurm.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::ids::ComponentName;
use cospan_domain::labels::{
    LabelConstraint, LabelRule, NODE_GPUS, NODE_MEMORY_MB, NODE_PROCESSORS, NODES,
};
use cospan_domain::units::Bytes;

use super::ScriptError;
use super::getopt::{ComponentOptions, GivenOption};
use super::job_options::ScriptStart;
use super::option_table::OptionTreatment;
use super::values::{self, GpuDemand};
use crate::job_language::JobFileContext;
use cospan_api::v1::Size;
use cospan_api::v1::document::{ComponentDocument, ExecutableDocument, OverrideDocument};
use cospan_api::v1::label::{Demand, OverrideTarget};

/// Options of `sbatch` have a meaning there: sites under Slurm have this label.
const AT_SLURM: &str = "lrm=slurm";

/// Options that are read for placement, and that Slurm also gets as they are.
pub(super) const BOTH: [&str; 17] = [
    "account",
    "constraint",
    "cpus-per-task",
    "gpus",
    "gpus-per-node",
    "gpus-per-task",
    "gres",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "mincpus",
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "partition",
    "qos",
    "tres-per-task",
];

/// Values of `--exclusive` by which a job gets all processors of its nodes.
const WHOLE_NODES: [Option<&str>; 2] = [None, Some("topo")];

/// The demands of a component.
#[derive(Debug, Clone, Default)]
pub(super) struct ComponentDemands {
    processors: u32,
    memory: Option<Bytes>,
    gpus: u32,
    constraints: Vec<Demand>,
    lrm_options: Vec<Arc<str>>,
    variables: Vec<(&'static str, String)>,
}

/// Tasks on nodes.
#[derive(Debug, Clone, Copy)]
struct TaskLayout {
    tasks: u32,
    /// The fewest nodes.
    nodes: u32,
    /// The most nodes: one for each task, if nothing is given.
    most_nodes: u32,
    processors: u32,
}

/// Reads the options of a component.
pub(super) fn parse_demands(
    options: &ComponentOptions,
    around: JobFileContext<'_>,
    notes: &mut Vec<(usize, String)>,
) -> Result<ComponentDemands, ScriptError> {
    let shape = TaskLayout::from_shape_options(options)?;
    let mut processors = shape.processors;
    let mut lrm_options = lrm_options(options);
    if let Some(each) = whole_node_processors(options, shape, around, notes)? {
        processors = shape.nodes * each;
        // So Slurm gives as many, although nothing is said of tasks.
        lrm_options.retain(|option| !option.starts_with("--mincpus="));
        lrm_options.push(format!("--mincpus={each}").into());
    }
    let gpus = requested_gpus(options, shape)?;
    lrm_options.extend(node_bounds(options, gpus.count));
    let mut constraints = label_demands(options)?;
    for kind in &gpus.kinds {
        constraints.extend(format!("gpu={kind}").parse::<Demand>());
    }
    constraints.extend(node_demands(options, shape)?);
    Ok(ComponentDemands {
        processors,
        memory: least_memory(options, shape, gpus.count)?,
        gpus: gpus.count,
        constraints,
        lrm_options,
        variables: shape_variables(options, shape),
    })
}

/// Returns the number of nodes that a script gets that says nothing of tasks and nodes: one, or as many as
/// it has GPUs. So a site sees that nothing was said of tasks, and leaves it to `srun` what runs there.
fn node_bounds(options: &ComponentOptions, gpus: u32) -> Option<Arc<str>> {
    let says_shape = ["ntasks", "ntasks-per-node", "nodes", "nodelist"]
        .iter()
        .any(|name| options.last_given(name).is_some());
    if says_shape {
        None
    } else if gpus > 1 {
        Some(format!("--nodes=1-{gpus}").into())
    } else {
        Some("--nodes=1".into())
    }
}

/// Returns the processors of each node of a component that has its nodes for itself and leaves it to
/// `srun` what runs there: all that the smallest nodes have which it may get.
fn whole_node_processors(
    options: &ComponentOptions,
    shape: TaskLayout,
    around: JobFileContext<'_>,
    notes: &mut Vec<(usize, String)>,
) -> Result<Option<u32>, ScriptError> {
    let Some(given) = options.last_given("exclusive") else {
        return Ok(None);
    };
    let says_tasks = ["ntasks", "ntasks-per-node"]
        .iter()
        .any(|name| options.last_given(name).is_some());
    if says_tasks || !WHOLE_NODES.contains(&given.value.as_deref()) {
        return Ok(None);
    }
    let partition = options.last_given("partition").map(GivenOption::value_text);
    let Some((smallest, whose)) = (around.smallest_node)(partition) else {
        return Ok(None);
    };
    let each = smallest.max(parse_count(options, "mincpus")?.unwrap_or(1));
    let Some(all) = shape.nodes.checked_mul(each) else {
        return Ok(None);
    };
    if all <= shape.processors {
        return Ok(None);
    }
    notes.push((
        given.line,
        format!("--exclusive: it takes whole nodes, {all} processors as {whose} has them"),
    ));
    Ok(Some(each))
}

/// The count, if the option is given.
fn parse_count(options: &ComponentOptions, name: &str) -> Result<Option<u32>, ScriptError> {
    options
        .last_given(name)
        .map(|given: &GivenOption| {
            values::parse_count(given.value_text())
                .ok_or_else(|| given.wrong_value_error("give a number of at least 1"))
        })
        .transpose()
}

/// Processors of each task.
fn processors_per_task(options: &ComponentOptions) -> Result<u32, ScriptError> {
    let own = parse_count(options, "cpus-per-task")?;
    let among_others = options
        .last_given("tres-per-task")
        .and_then(|given| values::parse_processors_of_tres(given.value_text()));
    Ok(own.or(among_others).unwrap_or(1))
}

impl TaskLayout {
    fn from_shape_options(options: &ComponentOptions) -> Result<Self, ScriptError> {
        let given = options.last_given("nodes");
        let (nodes, most_nodes) = given
            .map(|given: &GivenOption| {
                let remedy = "write it as --nodes=4 or --nodes=2-4";
                values::parse_nodes(given.value_text())
                    .ok_or_else(|| given.wrong_value_error(remedy))
            })
            .transpose()?
            .unwrap_or((1, u32::MAX));
        let per_node = parse_count(options, "ntasks-per-node")?;
        let tasks = match parse_count(options, "ntasks")? {
            Some(tasks) => Some(tasks),
            None => nodes.checked_mul(per_node.unwrap_or(1)),
        };
        // Slurm does not start fewer processes than nodes.
        let nodes = match options.last_given("ntasks") {
            Some(_) => nodes.min(tasks.unwrap_or(u32::MAX)),
            None => nodes,
        };
        let per_task = processors_per_task(options)?;
        let processors = tasks.and_then(|tasks| tasks.checked_mul(per_task));
        match (tasks, processors) {
            (Some(tasks), Some(processors)) => Ok(Self {
                tasks,
                nodes,
                most_nodes,
                processors,
            }),
            _ => Err(ScriptError::without_line(
                "it asks for more than 4294967295 processors",
                "ask for fewer tasks, nodes or processors of a task",
            )),
        }
    }
}

/// All kinds of GPUs that the options ask for; of several options the one that gives most.
fn requested_gpus(options: &ComponentOptions, shape: TaskLayout) -> Result<GpuDemand, ScriptError> {
    type GpuParser = fn(&str) -> Option<GpuDemand>;
    let asked: [(&str, GpuParser, u32); 5] = [
        ("gpus", values::parse_gpus, 1),
        ("gpus-per-node", values::parse_gpus, shape.nodes),
        ("gpus-per-task", values::parse_gpus, shape.tasks),
        ("gres", values::parse_gpus_of_gres, shape.nodes),
        ("tres-per-task", values::parse_gpus_of_gres, shape.tasks),
    ];
    let mut most = GpuDemand::default();
    for (name, read, times) in asked {
        let Some(given) = options.last_given(name) else {
            continue;
        };
        let all = read(given.value_text()).and_then(|one: GpuDemand| {
            Some(GpuDemand {
                count: one.count.checked_mul(times)?,
                kinds: one.kinds,
            })
        });
        let all = all.ok_or_else(|| {
            given.wrong_value_error("write it as 2, a100:2, or in --gres as gpu:2 or gpu:a100:2")
        })?;
        if all.count >= most.count {
            most = all;
        }
    }
    Ok(most)
}

/// Least memory of the whole component; an amount per node is multiplied by the fewest nodes.
fn least_memory(
    options: &ComponentOptions,
    shape: TaskLayout,
    gpus: u32,
) -> Result<Option<Bytes>, ScriptError> {
    let asked = [
        ("mem", shape.nodes),
        ("mem-per-cpu", shape.processors),
        ("mem-per-gpu", gpus),
    ];
    let mut given = asked
        .iter()
        .filter_map(|(name, times)| Some((options.last_given(name)?, *times)));
    let Some((first, times)) = given.next() else {
        return Ok(None);
    };
    if let Some((second, _)) = given.next() {
        let problem = format!(
            "--{} and --{} exclude each other",
            first.known.name, second.known.name
        );
        return Err(ScriptError::at_line(
            second.line,
            problem,
            "give one of them",
        ));
    }
    let all = values::parse_memory(first.value_text())
        .and_then(|each| each.0.checked_mul(times.into()))
        .ok_or_else(|| {
            first.wrong_value_error("write it as 4G, 512M, or as a number of megabytes")
        })?;
    Ok((all > 0).then_some(Bytes(all)))
}

/// Demands on the labels of a site: partitions, accounts, qualities of service, features.
fn label_demands(options: &ComponentOptions) -> Result<Vec<Demand>, ScriptError> {
    let mut demands = Vec::new();
    for name in ["partition", "account", "qos"] {
        let Some(given) = options.last_given(name) else {
            continue;
        };
        let any = given.value_text().split(',').collect::<Vec<_>>().join("|");
        let demand = format!("{name}={any}").parse();
        demands.push(
            demand.map_err(|_| given.wrong_value_error("give a name, or names between commas"))?,
        );
    }
    let features = options
        .last_given("constraint")
        .map(|given| parse_features(given.value_text()));
    demands.extend(features.into_iter().flatten());
    Ok(demands)
}

/// Demands on the number of nodes, and on the largest of them.
fn node_demands(options: &ComponentOptions, shape: TaskLayout) -> Result<Vec<Demand>, ScriptError> {
    let each = processors_per_task(options)?;
    let at_least = parse_count(options, "mincpus")?.unwrap_or(1);
    // If the number of tasks is given for all nodes, some nodes may have fewer than their most.
    let tasks = match options.last_given("ntasks") {
        Some(_) => shape.tasks.div_ceil(shape.most_nodes),
        None => shape.tasks / shape.nodes,
    };
    let processors = u64::from(each) * u64::from(tasks);
    let of_processors =
        read_bytes(options, "mem-per-cpu").map(|each| each.saturating_mul(processors));
    let memory = read_bytes(options, "mem").or(of_processors).unwrap_or(0);
    let gpus = ["gpus-per-node", "gres"].map(|name| {
        let read = if name == "gres" {
            values::parse_gpus_of_gres
        } else {
            values::parse_gpus
        };
        options
            .last_given(name)
            .and_then(|given| read(given.value_text()))
            .map_or(0, |gpus| gpus.count)
    });
    let least = [
        (NODES, shape.nodes.into(), 1),
        (NODE_PROCESSORS, processors.max(at_least.into()), 1),
        (NODE_MEMORY_MB, memory.div_ceil(1_000_000), 0),
        (NODE_GPUS, gpus[0].max(gpus[1]).into(), 0),
    ];
    // A demand that every site meets is left out.
    let asked = least
        .into_iter()
        .filter(|(_, least, always)| least > always);
    Ok(asked
        .map(|(key, least, _): (&str, u64, u64)| {
            Demand(LabelConstraint {
                key: key.into(),
                rule: LabelRule::AtLeast(least),
            })
        })
        .collect())
}

fn read_bytes(options: &ComponentOptions, name: &str) -> Option<u64> {
    Some(values::parse_memory(options.last_given(name)?.value_text())?.0)
}

/// Reads `a`, `a&b`, `a|b`; only Slurm knows the meaning of anything more.
fn parse_features(text: &str) -> Vec<Demand> {
    let all = match text.contains('&') {
        true if text.contains('|') => None,
        true => text.split('&').map(parse_feature).collect(),
        false => parse_feature(text).map(|demand| vec![demand]),
    };
    all.unwrap_or_default()
}

fn parse_feature(any: &str) -> Option<Demand> {
    format!("feature={any}").parse().ok()
}

fn lrm_options(options: &ComponentOptions) -> Vec<Arc<str>> {
    let mut last: BTreeMap<&str, Arc<str>> = BTreeMap::new();
    let mut mail_types = Vec::new();
    for given in options.given.iter().filter(|given: &&GivenOption| {
        given.known.meaning == OptionTreatment::Passed || BOTH.contains(&given.known.name)
    }) {
        let mut word = given.as_word();
        if given.known.name == "mail-type" {
            // Slurm adds these up, and passes over NONE.
            let types = given.value_text().split(',');
            mail_types.extend(types.filter(|one| !one.eq_ignore_ascii_case("none")));
            if !mail_types.is_empty() {
                word = format!("--mail-type={}", mail_types.join(","));
            }
        }
        last.insert(given.known.name, word.into());
    }
    let plugin = options.plugin.iter().map(|(_, word)| word.as_str().into());
    last.into_values().chain(plugin).collect()
}

/// Variables that Slurm would set about the job's shape.
fn shape_variables(options: &ComponentOptions, shape: TaskLayout) -> Vec<(&'static str, String)> {
    let tasks = shape.tasks.to_string();
    let nodes = shape.nodes.to_string();
    let on_node = shape.processors.div_ceil(shape.nodes).to_string();
    let mut all = vec![
        ("SLURM_JOB_NUM_NODES", nodes.clone()),
        ("SLURM_NNODES", nodes),
        ("SLURM_CPUS_ON_NODE", on_node.clone()),
        ("SLURM_JOB_CPUS_PER_NODE", on_node),
        (
            "SLURM_TASKS_PER_NODE",
            shape.tasks.div_ceil(shape.nodes).to_string(),
        ),
    ];
    // Slurm leaves it to `srun` where the script says nothing of tasks.
    if ["ntasks", "ntasks-per-node"]
        .iter()
        .any(|name| options.last_given(name).is_some())
    {
        all.extend(["SLURM_NTASKS", "SLURM_NPROCS"].map(|name| (name, tasks.clone())));
    }
    all.extend(["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"].map(|name| (name, "0".into())));
    let told = [
        ("SLURM_CPUS_PER_TASK", "cpus-per-task"),
        ("SLURM_NTASKS_PER_NODE", "ntasks-per-node"),
        ("SLURM_JOB_PARTITION", "partition"),
        ("SLURM_JOB_ACCOUNT", "account"),
        ("SLURM_JOB_QOS", "qos"),
        ("SLURM_GPUS", "gpus"),
        ("SLURM_GPUS_PER_NODE", "gpus-per-node"),
        ("SLURM_GPUS_PER_TASK", "gpus-per-task"),
    ];
    all.extend(told.iter().filter_map(|(variable, option)| {
        Some((
            *variable,
            options.last_given(option)?.value_text().to_owned(),
        ))
    }));
    let sizes = [
        ("SLURM_MEM_PER_NODE", "mem"),
        ("SLURM_MEM_PER_CPU", "mem-per-cpu"),
        ("SLURM_MEM_PER_GPU", "mem-per-gpu"),
    ];
    all.extend(sizes.iter().filter_map(|(variable, option)| {
        let bytes = values::parse_memory(options.last_given(option)?.value_text())?;
        Some((*variable, (bytes.0 >> 20).to_string()))
    }));
    all
}

impl ComponentDemands {
    /// Variables that Slurm sets at its own sites.
    pub(super) fn site_variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.variables
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
    }

    /// Builds the component with these demands.
    pub(super) fn into_component(
        self,
        name: &str,
        start: &ScriptStart,
        arguments: Vec<Arc<str>>,
    ) -> Result<ComponentDocument, ScriptError> {
        let remedy = "write a job file instead";
        let name = ComponentName::new(name)
            .map_err(|error| ScriptError::without_line(error.to_string(), remedy))?;
        let place: OverrideTarget = AT_SLURM
            .parse()
            .map_err(|problem: String| ScriptError::without_line(problem, remedy))?;
        let options = OverrideDocument {
            lrm_options: self.lrm_options,
            ..Default::default()
        };
        let at = (!options.lrm_options.is_empty()).then_some((place, options));
        let executable = ExecutableDocument::AtSite("/bin/sh".into());
        Ok(ComponentDocument {
            memory: self.memory.map(Size),
            gpus: (self.gpus > 0).then_some(self.gpus.into()),
            constraints: self.constraints,
            arguments,
            environment: start.environment.clone(),
            directory: start.directory.clone(),
            at: at.into_iter().collect(),
            ..ComponentDocument::bare(name, self.processors, executable)
        })
    }
}
