//! Documents that say no more than they must: everything else is left out, as in a short job file.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::ComponentName;

use super::document::{ComponentDocument, ExecutableDocument, JobDocument};
use super::quantity::Length;
use super::runner::RestartScopeName;

impl JobDocument {
    /// Creates a job with this wall time and without components.
    pub fn bare(wall_time: Length) -> Self {
        Self {
            name: None,
            request: None,
            flexible: None,
            policy: None,
            priority: None,
            wall_time,
            rerunnable: true,
            on_unreachable: None,
            max_placement_tries: None,
            max_claim_tries: None,
            max_retries: 0,
            restart_scope: RestartScopeName::default(),
            acquisition: None,
            reservation: None,
            preferences: None,
            weights: BTreeMap::new(),
            runner: None,
            sweep: None,
            warning: None,
            notify: BTreeSet::new(),
            component: Vec::new(),
        }
    }
}

impl ComponentDocument {
    /// Creates a component with this many processors that may run wherever the policy puts it.
    pub fn bare(name: ComponentName, processors: u32, executable: ExecutableDocument) -> Self {
        Self {
            name,
            site: None,
            processors,
            nodes: None,
            tasks_per_node: None,
            memory: None,
            disk: None,
            gpus: None,
            gflops: None,
            resources: BTreeMap::new(),
            constraints: Vec::new(),
            executable,
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: None,
            setup: Vec::new(),
            input: Vec::new(),
            output: Vec::new(),
            at: BTreeMap::new(),
            restart: None,
            start_after: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{JobFormat, parse};

    #[test]
    fn a_bare_document_is_what_a_job_file_with_nothing_more_is_read_as() {
        let text = "wall_time = \"1h\"\n[[component]]\nname = \"a\"\nprocessors = 2\n\
                    executable = \"/bin/true\"\n";
        let bare = JobDocument {
            component: vec![ComponentDocument::bare(
                ComponentName::new("a").unwrap(),
                2,
                ExecutableDocument::AtSite("/bin/true".into()),
            )],
            ..JobDocument::bare("1h".parse().unwrap())
        };
        assert_eq!(parse::parse(text, JobFormat::Toml).unwrap(), bare);
    }
}
