//! The shape of a component: a number of tasks on each of a number of nodes. For placement it
//! becomes demands on the site; batch systems that know nodes get it as options of their own.

use std::sync::Arc;

use cospan_domain::job::spec::OverrideScope;
use cospan_domain::labels::{LabelConstraint, LabelRule, NODE_PROCESSORS, NODES};

use super::document::ComponentDocument;
use super::label::{Demand, OverrideTarget};

/// Options by which a component may have chosen its nodes already.
const OWN: [&str; 3] = ["--nodes=", "-N", "--ntasks-per-node="];

/// Expresses `nodes` and `tasks_per_node` as processors, demands and options.
///
/// # Errors
///
/// The field that contradicts another, and the contradiction.
pub(super) fn apply_nodes(document: &mut ComponentDocument) -> Result<(), (&'static str, String)> {
    let (nodes, each) = match (document.nodes, document.tasks_per_node) {
        (None, Some(_)) => {
            return refuse_field("tasks_per_node", "give the number of nodes as well");
        }
        (None, None) if document.processors == 0 => {
            return refuse_field(
                "processors",
                "is missing; give it, or nodes and tasks_per_node",
            );
        }
        (None, None) => return Ok(()),
        (Some(nodes), each) => (nodes, each),
    };
    let all = match (
        each.map(|each| nodes.checked_mul(each)),
        document.processors,
    ) {
        (None, 0) => return refuse_field("processors", "is missing; give it, or tasks_per_node"),
        (None, given) => given,
        (Some(None), _) => {
            return refuse_field("nodes", "are more than 4294967295 processors in all");
        }
        (Some(Some(all)), given) if given == 0 || given == all => all,
        (Some(Some(all)), given) => {
            let problem = format!("is {given}, and the tasks on all nodes are {all}; leave it out");
            return Err(("processors", problem));
        }
    };
    if all < nodes {
        return refuse_field("nodes", "are more nodes than processors");
    }
    let mut options = document.at.values().flat_map(|change| &change.lrm_options);
    if let Some(own) = options.find(|option| OWN.iter().any(|own| option.starts_with(own))) {
        return Err((
            "nodes",
            format!("the option {own} of the resource manager says the same; drop one of the two"),
        ));
    }
    document.processors = all;
    add_demand(document, NODES, nodes);
    add_demand(document, NODE_PROCESSORS, all.div_ceil(nodes));
    let mut words: Vec<Arc<str>> = vec![format!("--nodes={nodes}").into()];
    words.extend(each.map(|each| format!("--ntasks-per-node={each}").into()));
    let at_slurm = OverrideTarget(OverrideScope::Label("lrm".into(), "slurm".into()));
    document
        .at
        .entry(at_slurm)
        .or_default()
        .lrm_options
        .extend(words);
    document.nodes = None;
    document.tasks_per_node = None;
    Ok(())
}

fn refuse_field(field: &'static str, problem: &str) -> Result<(), (&'static str, String)> {
    Err((field, problem.to_owned()))
}

/// Adds a demand, unless every site meets it.
fn add_demand(document: &mut ComponentDocument, key: &str, least: u32) {
    if least > 1 {
        let constraint = LabelConstraint {
            key: key.into(),
            rule: LabelRule::AtLeast(least.into()),
        };
        document.constraints.push(Demand(constraint));
    }
}

#[cfg(test)]
mod tests {
    use crate::v1::parse::parse;
    use crate::v1::{JobDocument, JobFormat};

    fn parse_component_lines(lines: &str) -> JobDocument {
        let text = format!(
            "wall_time = \"1h\"\n[[component]]\nname = \"a\"\nexecutable = \"/bin/true\"\n{lines}"
        );
        parse(&text, JobFormat::Toml).unwrap()
    }

    #[test]
    fn a_shape_is_processors_demands_and_options_at_slurm() {
        let shaped = parse_component_lines("nodes = 2\ntasks_per_node = 4\n")
            .into_spec()
            .unwrap();
        let said = "processors = 8\nconstraints = [\"nodes>=2\", \"node_processors>=4\"]\n\
                    at.\"lrm=slurm\".lrm_options = [\"--nodes=2\", \"--ntasks-per-node=4\"]\n";
        assert_eq!(shaped, parse_component_lines(said).into_spec().unwrap());
        let uneven = parse_component_lines("nodes = 3\nprocessors = 8\n")
            .into_spec()
            .unwrap();
        let said = "processors = 8\nconstraints = [\"nodes>=3\", \"node_processors>=3\"]\n\
                    at.\"lrm=slurm\".lrm_options = [\"--nodes=3\"]\n";
        assert_eq!(uneven, parse_component_lines(said).into_spec().unwrap());
        let one = parse_component_lines("nodes = 1\nprocessors = 1\n")
            .into_spec()
            .unwrap();
        assert!(
            one.components[0].constraints.is_empty(),
            "every site has that"
        );
    }

    #[test]
    fn a_shape_that_contradicts_itself_is_refused_by_its_field() {
        for (lines, key, problem) in [
            ("", "processors", "is missing"),
            ("nodes = 2\n", "processors", "is missing"),
            (
                "tasks_per_node = 2\nprocessors = 4\n",
                "tasks_per_node",
                "number of nodes",
            ),
            (
                "nodes = 2\ntasks_per_node = 4\nprocessors = 9\n",
                "processors",
                "nodes are 8",
            ),
            (
                "nodes = 5\nprocessors = 4\n",
                "nodes",
                "more nodes than processors",
            ),
            (
                "nodes = 70000\ntasks_per_node = 70000\n",
                "nodes",
                "4294967295",
            ),
            (
                "nodes = 2\nprocessors = 2\nat.\"lrm=slurm\".lrm_options = [\"-N2\"]\n",
                "nodes",
                "-N2",
            ),
        ] {
            let refused = parse_component_lines(lines).into_spec().unwrap_err();
            assert_eq!(refused.key, format!("component[0].{key}"), "{lines}");
            assert!(refused.problem.contains(problem), "{refused}");
        }
        let mut flexible = parse_component_lines("nodes = 2\nprocessors = 4\n");
        flexible.flexible = Some(Default::default());
        assert_eq!(flexible.into_spec().unwrap_err().key, "component[0].nodes");
    }
}
