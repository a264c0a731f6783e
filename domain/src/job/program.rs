//! Programs as they run at a site.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::spec::{ComponentSpec, ExecutableSource, Program, ProgramOverride};
use crate::content::Content;
use crate::ids::SiteName;
use crate::labels::SiteLabels;

/// A program with the overrides of one site applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramAtSite {
    /// The program that runs.
    pub program: Program,
    /// Options for the site's batch system.
    pub lrm_options: Vec<Arc<str>>,
}

impl ProgramAtSite {
    /// Applies an override: replaces and adds what it says.
    pub fn apply_override(&mut self, change: &ProgramOverride) {
        let program = &mut self.program;
        if let Some(executable) = &change.executable {
            program.executable = executable.clone();
        }
        if let Some(arguments) = &change.arguments {
            program.arguments = arguments.clone();
        }
        if let Some(directory) = &change.directory {
            program.directory = Some(directory.clone());
        }
        program.environment.extend(
            change
                .environment
                .iter()
                .map(|(k, v)| (k.clone(), v.clone())),
        );
        program.setup.extend(change.setup.iter().cloned());
        self.lrm_options.extend(change.lrm_options.iter().cloned());
    }
}

impl ComponentSpec {
    /// Returns the program as it runs at a site: overrides by label are applied first, then those
    /// by name.
    pub fn program_at(&self, site: &SiteName, labels: &SiteLabels) -> ProgramAtSite {
        let mut result = ProgramAtSite {
            program: self.program.unpack(),
            lrm_options: Vec::new(),
        };
        for (_, change) in self
            .at
            .iter()
            .filter(|(place, _)| place.applies_to_site(site, labels))
        {
            result.apply_override(change);
        }
        result
    }

    /// Returns the contents that must be at `site` before the component can start there, each once.
    pub fn contents_at(&self, site: &SiteName, labels: &SiteLabels) -> BTreeSet<Content> {
        let at_site = self.program_at(site, labels).program.executable;
        let restart = self
            .restart
            .as_ref()
            .and_then(|change| change.executable.as_ref());
        let staged = std::iter::once(&at_site)
            .chain(restart)
            .filter_map(ExecutableSource::staged_content);
        self.inputs
            .iter()
            .filter_map(|input| input.file.bound)
            .chain(staged)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::spec::{FileReference, OverrideScope};
    use super::*;
    use crate::ids::{ComponentName, Digest, RelPath};
    use crate::resources::Resources;
    use crate::units::Bytes;

    fn texts(words: &[&str]) -> Vec<Arc<str>> {
        words.iter().map(|word| (*word).into()).collect()
    }

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<Arc<str>, Arc<str>> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect()
    }

    fn staged_executable(seed: u8) -> (ExecutableSource, Content) {
        let content = Content {
            digest: Digest([seed; 32]),
            size: Bytes(1),
        };
        let file = FileReference {
            name: "tool".parse().unwrap(),
            bound: Some(content),
        };
        (ExecutableSource::Staged(file), content)
    }

    /// A component that is otherwise at arm sites, and otherwise again at Leiden.
    fn component() -> ComponentSpec {
        let program = Program {
            executable: ExecutableSource::AtSite("/opt/solve".into()),
            arguments: texts(&["--fast"]),
            environment: variables(&[("KIND", "plain"), ("KEPT", "yes")]),
            directory: None,
            setup: texts(&["first"]),
        };
        let arm = ProgramOverride {
            executable: Some(staged_executable(1).0),
            arguments: Some(Vec::new()),
            environment: variables(&[("KIND", "arm"), ("ARM", "yes")]),
            setup: texts(&["of arm"]),
            directory: Some(RelPath::new("arm").unwrap()),
            lrm_options: texts(&["--partition=arm"]),
        };
        let leiden = ProgramOverride {
            executable: Some(ExecutableSource::AtSite("/opt/leiden".into())),
            environment: variables(&[("KIND", "leiden")]),
            setup: texts(&["of leiden"]),
            lrm_options: texts(&["--exclusive"]),
            ..ProgramOverride::default()
        };
        let at = [
            (OverrideScope::Site("leiden".parse().unwrap()), leiden),
            (OverrideScope::Label("arch".into(), "arm64".into()), arm),
        ];
        ComponentSpec {
            name: ComponentName::new("only").unwrap(),
            site: None,
            resources: Resources::default(),
            constraints: Vec::new(),
            program: program.into(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            at: at.into(),
            restart: None,
            start_after: crate::units::DurationMs::ZERO,
        }
    }

    fn arm_labels() -> SiteLabels {
        SiteLabels::from([("arch".into(), ["arm64".into()].into())])
    }

    fn program_at_site(site: &str, labels: &SiteLabels) -> ProgramAtSite {
        component().program_at(&site.parse().unwrap(), labels)
    }

    #[test]
    fn a_site_that_no_override_names_runs_the_program_as_it_is() {
        let plain = program_at_site("delft", &SiteLabels::new());
        assert_eq!(plain.program, component().program.unpack());
        assert_eq!(plain.lrm_options, texts(&[]));
    }

    #[test]
    fn an_override_by_label_replaces_and_adds_at_every_site_of_that_label() {
        let there = program_at_site("delft", &arm_labels());
        let program = there.program;
        assert_eq!(
            (program.executable, program.arguments),
            (staged_executable(1).0, Vec::new())
        );
        let expected = variables(&[("ARM", "yes"), ("KEPT", "yes"), ("KIND", "arm")]);
        assert_eq!(program.environment, expected);
        assert_eq!(program.setup, texts(&["first", "of arm"]));
        assert_eq!(program.directory, Some(RelPath::new("arm").unwrap()));
        assert_eq!(there.lrm_options, texts(&["--partition=arm"]));
    }

    #[test]
    fn an_override_by_name_comes_after_those_by_label() {
        let there = program_at_site("leiden", &arm_labels());
        let program = there.program;
        assert_eq!(
            program.executable,
            ExecutableSource::AtSite("/opt/leiden".into())
        );
        assert_eq!(&*program.environment["KIND"], "leiden");
        assert_eq!(
            &*program.environment["ARM"], "yes",
            "what it does not say stays"
        );
        assert_eq!(program.arguments, texts(&[]));
        assert_eq!(program.setup, texts(&["first", "of arm", "of leiden"]));
        assert_eq!(
            there.lrm_options,
            texts(&["--partition=arm", "--exclusive"])
        );
    }

    #[test]
    fn a_staged_executable_is_brought_only_where_it_runs() {
        let component = component();
        let contents = |site: &str, labels: &SiteLabels| {
            component
                .contents_at(&site.parse().unwrap(), labels)
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(contents("delft", &arm_labels()), [staged_executable(1).1]);
        assert_eq!(contents("delft", &SiteLabels::new()), []);
        assert_eq!(
            contents("leiden", &arm_labels()),
            [],
            "another program runs there"
        );
    }
}
