//! Jobs that are drawn: components, inputs, outputs, failures.

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::ground::Ground;

/// Names of the files that jobs share.
pub const SHARED: [&str; 3] = ["mesh", "sky", "tide"];

/// A job about to be submitted.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// Its name, used once.
    pub name: String,
    /// The document.
    pub document: Value,
    /// The client's name for the request.
    pub key: Option<String>,
    /// The request is sent once more after it was answered.
    pub repeated: bool,
    /// It is cancelled this long after it was accepted.
    pub cancel_after_ms: Option<u64>,
}

/// Draws jobs.
#[derive(Debug)]
pub struct Workload {
    prefix: String,
    sites: Vec<String>,
    payload: String,
    ledger: String,
    count: u64,
}

impl Workload {
    /// Jobs for the sites of this ground. Names begin with `prefix`.
    pub fn new(ground: &Ground, prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
            sites: ground.sites.iter().map(|site| site.name.clone()).collect(),
            payload: ground.payload().display().to_string(),
            ledger: ground.ledger().display().to_string(),
            count: 0,
        }
    }

    /// The next job.
    pub fn draw(&mut self, random: &mut StdRng) -> Drawn {
        self.count += 1;
        let name = format!("{}-{}", self.prefix, self.count);
        let components = random.random_range(1..=3);
        let components: Vec<Value> =
            (0..components).map(|index| self.component(&name, index, random)).collect();
        let document = json!({
            "name": name,
            "wall_time": "60s",
            "max_retries": if random.random_bool(0.5) { 1 } else { 0 },
            "component": components,
        });
        let key = random.random_bool(0.9).then(|| format!("key-{name}"));
        Drawn {
            repeated: key.is_some() && random.random_bool(0.2),
            cancel_after_ms: random.random_bool(0.15).then(|| random.random_range(0..2_500)),
            name,
            document,
            key,
        }
    }

    fn component(&self, job: &str, index: u32, random: &mut StdRng) -> Value {
        // One in eight ignores TERM and must be killed.
        let rude = random.random_bool(0.12);
        let seconds = match rude {
            true => "8".to_owned(),
            false => format!("0.{:02}", random.random_range(10..99)),
        };
        let seconds = if random.random_bool(0.1) && !rude { "2".to_owned() } else { seconds };
        let code = if random.random_bool(0.06) { "3" } else { "0" };
        let collects = random.random_bool(0.4);
        let output = if collects || random.random_bool(0.3) { "out" } else { "-" };
        let bytes = if random.random_bool(0.5) { "100" } else { "1500000" };
        let manners = if rude { "rude" } else { "polite" };
        let mut arguments: Vec<String> =
            [&self.payload, &self.ledger, &seconds, code, manners, output, bytes]
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
        let mut component = json!({
            "name": format!("c{index}"),
            "processors": random.random_range(1..=3),
            "executable": "/bin/sh",
            "arguments": arguments,
            "input": inputs,
        });
        if output == "out" {
            let mut collected = json!({ "path": "out" });
            if collects {
                let site = &self.sites[random.random_range(0..self.sites.len())];
                collected["site"] = json!(site);
                collected["register"] = json!(format!("out/{job}/c{index}"));
            }
            component["output"] = json!([collected]);
        }
        component
    }
}
