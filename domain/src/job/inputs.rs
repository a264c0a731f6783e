//! Checks that the inputs of a component can all be put in their places at a site. Those that
//! cannot would look like the site's fault there.

use std::collections::BTreeSet;

use crate::ids::RelPath;
use crate::job::spec::{ComponentSpec, JobSpecError};

/// Longest name of a file, in bytes, at sites of all kinds.
const NAME_MAX: usize = 255;

/// Checks the paths of all inputs.
pub(super) fn check_input_paths(component: &ComponentSpec) -> Result<(), JobSpecError> {
    let mut paths = BTreeSet::new();
    for path in component.inputs.iter().map(|input| &input.path) {
        if path.as_str().split('/').any(|part| part.len() > NAME_MAX) {
            return Err(JobSpecError::LongInput(
                component.name.clone(),
                path.clone(),
            ));
        }
        if !paths.insert(path.as_str()) {
            return Err(JobSpecError::DuplicateInput(
                component.name.clone(),
                path.clone(),
            ));
        }
    }
    let nested = component.inputs.iter().find_map(|input| {
        let above = parent_paths(&input.path).find(|above| paths.contains(above))?;
        Some((input.path.clone(), above.to_owned()))
    });
    let Some((inner, outer)) = nested else {
        return Ok(());
    };
    match RelPath::new(&outer) {
        Ok(outer) => Err(JobSpecError::NestedInput(
            component.name.clone(),
            inner,
            outer,
        )),
        // Cannot happen: a part of a path is a path.
        Err(_) => Ok(()),
    }
}

/// Lists the directories that a path lies in.
fn parent_paths(path: &RelPath) -> impl Iterator<Item = &str> {
    let path = path.as_str();
    path.match_indices('/').map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LogicalName;
    use crate::job::spec::{FileReference, InputPortion, InputSpec};
    use crate::job::tests::job_world::spec;

    fn check_paths(paths: &[&str]) -> Result<(), JobSpecError> {
        let mut component = spec(1).components[0].clone();
        component.inputs = paths
            .iter()
            .map(|path: &&str| InputSpec {
                file: FileReference {
                    name: LogicalName::new("file").unwrap(),
                    bound: None,
                },
                path: RelPath::new(path).unwrap(),
                feed: InputPortion::Whole,
            })
            .collect();
        check_input_paths(&component)
    }

    #[test]
    fn an_input_below_another_is_refused() {
        assert_eq!(check_paths(&["a", "b/c", "ab/d", "b/e"]), Ok(()));
        for paths in [["a", "a/b"], ["a/b/c", "a"]] {
            let refused = check_paths(&paths).unwrap_err();
            assert!(
                matches!(refused, JobSpecError::NestedInput(..)),
                "{refused}"
            );
        }
        let refused = check_paths(&[&"x".repeat(256)]).unwrap_err();
        assert!(matches!(refused, JobSpecError::LongInput(..)), "{refused}");
    }
}
