//! What a policy needs to know of a job, and nothing else: jobs with equal
//! requests have the same *shape* and fare alike on the same snapshot.

use std::collections::BTreeSet;

use crate::ids::{PolicyName, SiteName};
use crate::job::spec::{ComponentSpec, Content, Executable, JobSpec, Request, Where};
use crate::job::state::Job;
use crate::labels::{Constraint, Labels};
use crate::resources::Resources;

/// A job's requirements, reduced to what decides its placement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementRequest {
    policy: PolicyName,
    request: Request,
    restartable: bool,
    components: Vec<ComponentRequest>,
    by_size: Vec<u32>,
    contents: Vec<Content>,
}

/// One component's requirements.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentRequest {
    /// What it needs.
    pub resources: Resources,
    /// What its site must be like.
    pub constraints: Vec<Constraint>,
    /// Its site, in a fixed request.
    pub site: Option<SiteName>,
    /// Contents that it reads, wherever it runs.
    pub inputs: BTreeSet<Content>,
    /// Its executable, if that is staged.
    pub executable: Option<Content>,
    /// Sites with another executable, in order of application; `None` for one found there.
    pub executable_at: Vec<(Where, Option<Content>)>,
    /// Sites where it failed by a fault of the site. They are passed over as long as
    /// another site that takes placements could hold it (KOALA, section 8).
    pub avoid: BTreeSet<SiteName>,
}

impl PlacementRequest {
    /// From components; `policy` is the job's own or the server's default.
    pub fn new(
        policy: PolicyName,
        request: Request,
        restartable: bool,
        components: Vec<ComponentRequest>,
    ) -> Self {
        let mut by_size: Vec<u32> = (0..components.len() as u32).collect();
        // The sort is stable: equal sizes stay in the order of the request.
        by_size.sort_by_key(|&i| std::cmp::Reverse(components[i as usize].resources.processors));
        let contents: BTreeSet<Content> =
            components.iter().flat_map(ComponentRequest::all_contents).collect();
        let contents = contents.into_iter().collect();
        Self { policy, request, restartable, components, by_size, contents }
    }

    /// From a job whose inputs are bound; `default_policy` serves jobs that name none.
    pub fn of_job(job: &Job, default_policy: &PolicyName) -> Self {
        Self::of_spec(&job.spec, default_policy, |index| {
            job.components.get(index).map(|component| &component.avoid)
        })
    }

    /// From a job as submitted, its inputs bound. `avoid` gives the sites where a
    /// component failed, by component index.
    pub fn of_spec<'a>(
        spec: &JobSpec,
        default_policy: &PolicyName,
        avoid: impl Fn(usize) -> Option<&'a BTreeSet<SiteName>>,
    ) -> Self {
        let components = spec.components.iter().enumerate().map(|(index, component)| {
            ComponentRequest::of_component(component, avoid(index).cloned().unwrap_or_default())
        });
        Self::new(
            spec.policy.clone().unwrap_or_else(|| default_policy.clone()),
            spec.request,
            spec.rerunnable,
            components.collect(),
        )
    }

    /// The policy that places it.
    pub fn policy(&self) -> &PolicyName {
        &self.policy
    }

    /// Fixed or non-fixed.
    pub fn request(&self) -> Request {
        self.request
    }

    /// Whether it may run a second time, and so may try out a site after errors.
    pub fn is_restartable(&self) -> bool {
        self.restartable
    }

    /// Its components, by component index.
    pub fn components(&self) -> &[ComponentRequest] {
        &self.components
    }

    /// Component indexes by decreasing processors, then by index.
    pub fn by_size(&self) -> &[u32] {
        &self.by_size
    }

    /// Every content that any component may need at some site, each once, in order.
    pub fn contents(&self) -> &[Content] {
        &self.contents
    }

    /// Processors of all components together.
    pub fn processors(&self) -> u64 {
        self.components.iter().map(|c| u64::from(c.resources.processors)).sum()
    }
}

impl ComponentRequest {
    /// A component that needs these resources and nothing else.
    pub fn of_resources(resources: Resources) -> Self {
        Self {
            resources,
            constraints: Vec::new(),
            site: None,
            inputs: BTreeSet::new(),
            executable: None,
            executable_at: Vec::new(),
            avoid: BTreeSet::new(),
        }
    }

    fn of_component(component: &ComponentSpec, avoid: BTreeSet<SiteName>) -> Self {
        let staged = |executable: &Executable| match executable {
            Executable::Staged(file) => file.bound,
            Executable::AtSite(_) => None,
        };
        let executable_at = component.at.iter().filter_map(|(place, change)| {
            change.executable.as_ref().map(|executable| (place.clone(), staged(executable)))
        });
        Self {
            resources: component.resources.clone(),
            constraints: component.constraints.clone(),
            site: component.site.clone(),
            inputs: component.inputs.iter().filter_map(|input| input.file.bound).collect(),
            executable: staged(&component.program.executable),
            executable_at: executable_at.collect(),
            avoid,
        }
    }

    fn all_contents(&self) -> impl Iterator<Item = Content> + '_ {
        let elsewhere = self.executable_at.iter().filter_map(|(_, content)| *content);
        self.inputs.iter().copied().chain(self.executable).chain(elsewhere)
    }

    /// Contents that must be at this site before it can start there, each once.
    pub fn contents_at<'a>(
        &'a self,
        site: &SiteName,
        labels: &Labels,
    ) -> impl Iterator<Item = Content> + use<'a> {
        let applies = |place: &Where| match place {
            Where::Site(name) => name == site,
            Where::Label(key, value) => labels.get(key).is_some_and(|v| v.contains(value)),
        };
        let change = self.executable_at.iter().rev().find(|(place, _)| applies(place));
        let executable = change.map_or(self.executable, |(_, content)| *content);
        let executable = executable.filter(|content| !self.inputs.contains(content));
        self.inputs.iter().copied().chain(executable)
    }
}
