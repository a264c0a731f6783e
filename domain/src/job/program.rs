//! Programs as they run at a site.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::spec::{ComponentSpec, Content, Executable, Override, Program, Where};
use crate::ids::SiteName;
use crate::labels::Labels;

/// A program with the overrides of one site applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramAtSite {
    /// What runs.
    pub program: Program,
    /// Options for the site's resource manager.
    pub lrm_options: Vec<Arc<str>>,
}

impl ProgramAtSite {
    /// Replaces and adds what the override says.
    pub fn apply(&mut self, change: &Override) {
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
        program.environment.extend(change.environment.iter().map(|(k, v)| (k.clone(), v.clone())));
        program.setup.extend(change.setup.iter().cloned());
        self.lrm_options.extend(change.lrm_options.iter().cloned());
    }
}

impl ComponentSpec {
    /// The program as it runs at a site: overrides by label first, then by name.
    pub fn program_at(&self, site: &SiteName, labels: &Labels) -> ProgramAtSite {
        let mut result = ProgramAtSite { program: self.program.clone(), lrm_options: Vec::new() };
        let applies = |place: &Where| match place {
            Where::Site(name) => name == site,
            Where::Label(key, value) => labels.get(key).is_some_and(|v| v.contains(value)),
        };
        for (_, change) in self.at.iter().filter(|(place, _)| applies(place)) {
            result.apply(change);
        }
        result
    }

    /// Contents that must be at `site` before the component can start there, each once.
    pub fn contents_at(&self, site: &SiteName, labels: &Labels) -> BTreeSet<Content> {
        let at_site = self.program_at(site, labels).program.executable;
        let restart = self.restart.as_ref().and_then(|change| change.executable.as_ref());
        let staged = std::iter::once(&at_site).chain(restart).filter_map(Executable::content);
        self.inputs.iter().filter_map(|input| input.file.bound).chain(staged).collect()
    }
}
