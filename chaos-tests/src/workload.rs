//! Draws jobs: of every type of request, under every policy, by every runner, in every priority;
//! with inputs, shared whole or in chunks, outputs and failures.

use cospan_domain::job::spec::{FlexibleBounds, RequestType};
use cospan_domain::placement::policy::POLICIES;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use crate::payload::CHUNK;
use crate::test_environment::TestEnvironment;

/// Names of the files that jobs share.
pub const SHARED: [&str; 3] = ["mesh", "sky", "tide"];
/// Name of the file that jobs share out among their components.
pub const GRAIN: &str = "grain";
const CLASSES: [&str; 4] = ["super-low", "low", "high", "super-high"];
/// Most runs of a sweep.
const RUNS_MAX: usize = 4;
/// Most components of a job.
const COMPONENTS_MAX: u32 = 3;

/// A job, or a sweep, about to be submitted.
#[derive(Debug, Clone)]
pub struct DrawnSubmission {
    /// The names of its jobs, each used once.
    pub names: Vec<String>,
    pub document: Value,
    /// The idempotency key of the request.
    pub key: Option<String>,
    /// The request is sent once more after it was answered.
    pub repeated: bool,
    /// The first of its jobs is cancelled this long after it was accepted.
    pub cancel_after_ms: Option<u64>,
}

/// The type of a drawn job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrawnKind {
    /// Components that the policy places.
    NonFixed,
    /// Components that name their sites.
    Fixed,
    /// A component that the policy splits.
    Flexible,
    /// Components that know each other.
    Parallel,
    /// Some runs of one description.
    Sweep,
}

impl DrawnKind {
    fn draw(random: &mut StdRng) -> Self {
        match random.random_range(0..20) {
            0..4 => DrawnKind::Fixed,
            4..7 => DrawnKind::Flexible,
            7..10 => DrawnKind::Parallel,
            10 => DrawnKind::Sweep,
            _ => DrawnKind::NonFixed,
        }
    }
}

/// A source of drawn jobs.
#[derive(Debug)]
pub struct DrawnWorkload {
    prefix: String,
    sites: Vec<String>,
    /// Processors of the smallest site.
    least: u32,
    payload: String,
    ledger: String,
    count: u64,
}

impl DrawnWorkload {
    /// Draws jobs for the sites of this environment. Names begin with `prefix`.
    pub fn new(environment: &TestEnvironment, prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
            sites: environment
                .sites
                .iter()
                .map(|site| site.name.clone())
                .collect(),
            least: environment
                .sites
                .iter()
                .map(|site| site.processors)
                .min()
                .unwrap_or(0),
            payload: environment.payload().display().to_string(),
            ledger: environment.ledger().display().to_string(),
            count: 0,
        }
    }

    /// Draws the next job, or sweep.
    pub fn draw(&mut self, random: &mut StdRng) -> DrawnSubmission {
        self.count += 1;
        let kind = DrawnKind::draw(random);
        let name = format!("{}-{}", self.prefix, self.count);
        let key = random.random_bool(0.9).then(|| format!("key-{name}"));
        let runs = random.random_range(2..=RUNS_MAX);
        let (names, title) = match kind {
            DrawnKind::Sweep => (
                (1..=runs).map(|run| format!("{name}.{run}")).collect(),
                format!("{name}.{{{{index}}}}"),
            ),
            _ => (vec![name.clone()], name),
        };
        let mut document = self.document(&title, kind, random);
        if kind == DrawnKind::Sweep {
            let at_once = random.random_range(1..=2);
            document["sweep"] = json!({ "array": format!("1-{runs}"), "at_once": at_once });
        }
        DrawnSubmission {
            repeated: key.is_some() && random.random_bool(0.2),
            cancel_after_ms: random
                .random_bool(0.15)
                .then(|| random.random_range(0..2_500)),
            names,
            document,
            key,
        }
    }

    fn document(&self, name: &str, kind: DrawnKind, random: &mut StdRng) -> Value {
        let count = match kind {
            DrawnKind::Flexible => 1,
            DrawnKind::Parallel => random.random_range(2..=COMPONENTS_MAX),
            _ => random.random_range(1..=COMPONENTS_MAX),
        };
        let mut components: Vec<Value> = (0..count)
            .map(|index| self.draw_component(name, index, kind, random))
            .collect();
        if kind == DrawnKind::Parallel {
            let peers = json!({ "PEERS": count.to_string() });
            components
                .iter_mut()
                .for_each(|component| component["environment"] = peers.clone());
        }
        if random.random_bool(0.2) {
            components.iter_mut().for_each(read_own_chunk);
        }
        let rerunnable = random.random_bool(0.9);
        if rerunnable && random.random_bool(0.3) {
            components.iter_mut().for_each(restart_from_checkpoint);
        }
        let mut document = json!({
            "name": name,
            "wall_time": "60s",
            "max_retries": if random.random_bool(0.5) { 1 } else { 0 },
            "rerunnable": rerunnable,
            "component": components,
        });
        if random.random_bool(0.2) {
            document["warning"] = json!({ "signal": "USR1", "before": "59s" });
        }
        if rerunnable && kind == DrawnKind::NonFixed && random.random_bool(0.3) {
            document["restart_scope"] = json!("component");
        }
        if random.random_bool(0.6) {
            document["priority"] = json!(CLASSES.choose(random));
        }
        if random.random_bool(0.6) {
            document["policy"] = json!(policies(kind).choose(random));
        }
        match kind {
            DrawnKind::Flexible => {
                let least = random.random_range(1..=2);
                document["flexible"] = json!({ "min_component_size": least, "max_components": 3 });
            }
            DrawnKind::Parallel => document["runner"] = json!("parallel"),
            DrawnKind::NonFixed | DrawnKind::Fixed | DrawnKind::Sweep => {}
        }
        document
    }

    fn draw_component(&self, job: &str, index: u32, kind: DrawnKind, random: &mut StdRng) -> Value {
        // About one in eight ignores TERM and must be killed.
        let rude = random.random_bool(0.12);
        let seconds = if rude {
            "8".to_owned()
        } else {
            format!("0.{:02}", random.random_range(10..99))
        };
        let seconds = if random.random_bool(0.1) && !rude {
            "2".to_owned()
        } else {
            seconds
        };
        let code = if random.random_bool(0.06) { "3" } else { "0" };
        let leaves = kind != DrawnKind::Flexible;
        let collects = leaves && random.random_bool(0.4);
        let output = if collects || (leaves && random.random_bool(0.3)) {
            "out"
        } else {
            "-"
        };
        let bytes = if random.random_bool(0.5) {
            "100"
        } else {
            "1500000"
        };
        let manners = if rude { "rude" } else { "polite" };
        let mut arguments: Vec<String> = [
            &self.payload,
            &self.ledger,
            &seconds,
            code,
            manners,
            output,
            bytes,
        ]
        .iter()
        .map(ToString::to_string)
        .collect();
        let mut inputs = Vec::new();
        for file in SHARED {
            if random.random_bool(0.25) {
                inputs.push(json!({ "file": file, "path": format!("in-{file}") }));
                arguments.extend([format!("in-{file}"), file.to_owned()]);
            }
        }
        let processors = match kind {
            DrawnKind::Flexible => random.random_range(3..=9),
            // All components of a job may name one site, which must have room for them together.
            DrawnKind::Fixed => random.random_range(1..=(self.least / COMPONENTS_MAX).clamp(1, 3)),
            _ => random.random_range(1..=3),
        };
        let mut component = json!({
            "name": format!("c{index}"),
            "processors": processors,
            "executable": "/bin/sh",
            "arguments": arguments,
            "input": inputs,
        });
        if kind == DrawnKind::Fixed {
            component["site"] = json!(self.sites.choose(random));
        }
        if output == "out" {
            let mut collected = json!({ "path": "out" });
            if collects {
                collected["site"] = json!(self.sites.choose(random));
                collected["register"] = json!(format!("out/{job}/c{index}"));
            }
            component["output"] = json!([collected]);
        }
        component
    }
}

/// Lists every policy that serves such jobs.
fn policies(kind: DrawnKind) -> Vec<&'static str> {
    let request = match kind {
        DrawnKind::Flexible => RequestType::Flexible(FlexibleBounds::default()),
        _ => RequestType::NonFixed,
    };
    let serving = POLICIES.iter().filter(|policy| policy.serves(&request));
    serving.map(|policy| policy.name()).collect()
}

/// Lets each component read its own chunk of a file.
fn read_own_chunk(component: &mut Value) {
    let path = format!("in-{GRAIN}");
    if let Some(inputs) = component["input"].as_array_mut() {
        inputs.push(json!({ "file": GRAIN, "path": path, "read": "chunk" }));
    }
    if let Some(arguments) = component["arguments"].as_array_mut() {
        arguments.extend([json!(path), json!(CHUNK)]);
    }
}

/// Lets a component that is restarted after all payloads began ask for what it left behind.
fn restart_from_checkpoint(component: &mut Value) {
    component["restart"] = json!({
        "arguments": component["arguments"].clone(),
        "environment": { "RESUME": "yes" },
    });
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rand::SeedableRng;

    use super::*;

    fn workload() -> DrawnWorkload {
        DrawnWorkload {
            prefix: "job".into(),
            sites: ["s1", "s2", "s3"].map(String::from).into(),
            least: 8,
            payload: "payload".into(),
            ledger: "ledger".into(),
            count: 0,
        }
    }

    #[test]
    fn components_of_jobs_of_every_kind_read_a_chunk_each_and_look_at_it() {
        let mut workload = workload();
        let mut random = StdRng::seed_from_u64(1);
        let mut kinds = BTreeSet::new();
        for _ in 0..500 {
            let document = workload.draw(&mut random).document;
            let components = document["component"].as_array().expect("components");
            let count = components
                .iter()
                .filter(|component: &&Value| {
                    let inputs = component["input"].as_array().into_iter().flatten();
                    let reads = inputs.into_iter().any(|input| input["read"] == "chunk");
                    let last = component["arguments"]
                        .as_array()
                        .and_then(|list| list.last());
                    assert_eq!(reads, last.is_some_and(|last| last == CHUNK), "{component}");
                    reads
                })
                .count();
            assert!(count == 0 || count == components.len(), "{document}");
            if count > 0 {
                let named = [
                    &document["flexible"],
                    &document["runner"],
                    &document["sweep"],
                ];
                kinds.insert((named.map(Value::is_null), count > 1));
            }
        }
        assert_eq!(kinds.len(), 6, "{kinds:?}");
    }

    #[test]
    fn no_job_asks_a_site_for_more_than_it_has() {
        let mut workload = workload();
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..20_000 {
            let document = workload.draw(&mut random).document;
            let mut asked: BTreeMap<&str, u64> = BTreeMap::new();
            for component in document["component"].as_array().expect("components") {
                let processors = component["processors"].as_u64().expect("a number");
                let site = component["site"].as_str().unwrap_or_default();
                *asked.entry(site).or_default() += processors;
            }
            for (site, processors) in asked {
                let most = if site.is_empty() { 24 } else { 8 };
                assert!(processors <= most, "{document}");
            }
        }
    }
}
