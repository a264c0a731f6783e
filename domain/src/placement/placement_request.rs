//! The part of a job that a policy needs to know, and nothing else: jobs with equal requests have
//! the same *shape* and fare alike on the same snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::acquisition::{
    AcquisitionMode, AcquisitionOptions, PartitionAccount, PartitionDemand, ReservationTerms,
};
use crate::bid::BidTerms;
use crate::content::{ComponentFilePart, Content, FileChunk};
use crate::ids::{ComponentIndex, KeyName, PolicyName, SiteName};
use crate::job::job_state::{Component, Job};
use crate::job::spec::{
    ComponentSpec, ExecutableSource, InputPortion, JobSpec, OverrideScope, RequestType,
};
use crate::labels::{LabelConstraint, SiteLabels};
use crate::resources::{GFLOPS, Resources};
use crate::units::DurationMs;

use super::placement_plan::PlacementPlan;
use super::policy::{PlacementDefaults, find_policy, policy_for};

/// The requirements of a job, reduced to what decides its placement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementRequest {
    policy: PolicyName,
    request: RequestType,
    restartable: bool,
    components: Vec<ComponentRequest>,
    by_size: Vec<u32>,
    contents: Vec<Content>,
    /// The total of a flexible request; `components` then holds the smallest component that it can
    /// be split into.
    total: Option<Resources>,
    splits: Vec<PlacementRequest>,
    acquisition: AcquisitionOptions,
    /// The computing power that it asks for in all, in GFLOPS.
    gflops: u64,
    /// The wall time, if any site has partitions with time limits; otherwise left out, so that jobs
    /// that differ in nothing else stay alike. In whole minutes.
    time: Option<DurationMs>,
    /// The terms of distances; the defaults where the policy measures none, so that jobs that
    /// differ in nothing else stay alike.
    terms: BidTerms,
    /// The longest time for which it holds its resources; rounded up, so that jobs that differ
    /// little stay alike.
    lasts: DurationMs,
    /// The owner, if any site is closed to that owner alone; otherwise left out, so that jobs of
    /// all owners stay alike.
    pub(super) owner: Option<KeyName>,
}

/// The requirements of one component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentRequest {
    pub resources: Resources,
    /// The computing power of its processors together, in GFLOPS; 0 if it does not matter.
    pub gflops: u64,
    /// The constraints on its site's labels.
    pub constraints: Vec<LabelConstraint>,
    /// The site, in a fixed request.
    pub site: Option<SiteName>,
    /// Contents that it reads whole, wherever it runs.
    pub inputs: BTreeSet<Content>,
    /// Chunks that it reads, by their content; for a flexible request's total the files that they
    /// are cut from.
    pub chunks: BTreeMap<Content, FileChunk>,
    /// The executable, if that is staged.
    pub executable: Option<Content>,
    /// Sites with another executable, in order of application; `None` for one that is at the site.
    pub executable_at: Vec<(OverrideScope, Option<Content>)>,
    /// The component's own choices of partition and account within sites, in order of application.
    pub lanes: Vec<(OverrideScope, PartitionAccount)>,
    /// Sites where it failed by a fault of the site. They are passed over as long as another site
    /// that takes placements could hold it (KOALA, section 8).
    pub avoid: BTreeSet<SiteName>,
    /// Sites whose batch systems refused it, each with the batch system's words.
    pub unfit_for: BTreeMap<SiteName, Arc<str>>,
    /// Sites that accept only the jobs of other keys than the owner's, with those keys. Jobs of
    /// owners who may use the same sites stay alike.
    pub barred: BTreeMap<SiteName, Arc<[KeyName]>>,
}

/// Sites to which a component does not go, for what happened to it there.
#[derive(Default)]
struct SiteExclusions {
    /// Sites that failed it: they are passed over as long as another could hold it.
    avoid: BTreeSet<SiteName>,
    /// Sites whose batch systems refused it, each with the batch system's words.
    unfit_for: BTreeMap<SiteName, Arc<str>>,
}

impl SiteExclusions {
    /// Collects the sites that any of these components does not go to.
    fn of_components<'a>(components: impl IntoIterator<Item = &'a Component>) -> Self {
        let mut excluded = Self::default();
        for component in components {
            excluded.avoid.extend(component.avoid.iter().cloned());
            excluded.unfit_for.extend(component.unfit_for.clone());
        }
        excluded
    }
}

impl PlacementRequest {
    /// Makes a request from components; `policy` is the job's own or the server's default. A
    /// flexible request has one component, which asks for the total.
    pub fn new(
        policy: PolicyName,
        request: RequestType,
        restartable: bool,
        mut components: Vec<ComponentRequest>,
    ) -> Self {
        let mut total = None;
        let mut splits = Vec::new();
        let gflops = components
            .iter()
            .fold(0_u64, |sum, part| sum.saturating_add(part.gflops));
        if let (RequestType::Flexible(bounds), [whole]) = (&request, components.as_mut_slice()) {
            splits = bounds
                .splits
                .iter()
                .map(|split: &Vec<u32>| {
                    let mut before = 0;
                    let parts = split.iter().map(|&size| {
                        before += size;
                        whole.portion_of(before - size, size)
                    });
                    Self::new(
                        policy.clone(),
                        RequestType::NonFixed,
                        restartable,
                        parts.collect(),
                    )
                })
                .collect();
            let least = whole.portion_of(0, bounds.least_processors());
            total = Some(std::mem::replace(whole, least).resources);
        }
        let mut by_size: Vec<u32> = (0..components.len() as u32).collect();
        // The sort is stable: equal sizes stay in the order of the request.
        by_size.sort_by_key(|&i| std::cmp::Reverse(components[i as usize].resources.processors));
        let contents: BTreeSet<Content> = components
            .iter()
            .flat_map(ComponentRequest::all_contents)
            .collect();
        let contents = contents.into_iter().collect();
        let acquisition = AcquisitionOptions::default();
        Self {
            policy,
            request,
            restartable,
            components,
            by_size,
            contents,
            total,
            splits,
            acquisition,
            gflops,
            time: None,
            terms: BidTerms::default(),
            lasts: DurationMs::ZERO,
            owner: None,
        }
    }

    /// Makes the request of a job whose inputs are bound; `defaults` serve jobs that name no
    /// policy. A flexible request avoids every site where one of its components failed, since
    /// another split has other components.
    pub fn of_job(job: &Job, defaults: &PlacementDefaults) -> Self {
        Self::of_spec(&job.spec, defaults, |index| match job.spec.request {
            RequestType::Flexible(_) => SiteExclusions::of_components(&job.components),
            RequestType::Fixed | RequestType::NonFixed => {
                SiteExclusions::of_components(job.components.get(index))
            }
        })
        .with_acquisition(acquisition_options(&job.spec, job.reservation_terms()))
        .without_barred_sites(&job.owner, defaults)
    }

    /// Makes the request of a job as submitted, with its inputs bound.
    pub fn of_unplaced_spec(spec: &JobSpec, defaults: &PlacementDefaults) -> Self {
        Self::of_spec(spec, defaults, |_| SiteExclusions::default())
    }

    /// Makes the request of a job with its inputs bound. `excluded` gives the sites where a
    /// component failed or was refused, by component index.
    fn of_spec(
        spec: &JobSpec,
        defaults: &PlacementDefaults,
        excluded: impl Fn(usize) -> SiteExclusions,
    ) -> Self {
        let components = spec.components.iter().enumerate();
        let components = components.map(|(index, component)| {
            ComponentRequest::of_component(component, excluded(index), |of| {
                spec.file_part_of(index, of)
            })
            .with_partitions_of(component, defaults)
        });
        let policy = spec
            .policy
            .as_ref()
            .unwrap_or_else(|| defaults.default_policy_for(&spec.request));
        Self::new(
            policy.clone(),
            spec.request.clone(),
            spec.rerunnable,
            components.collect(),
        )
        .with_acquisition(acquisition_options(spec, spec.run.reservation))
        .with_holding_time(
            spec.run.molding.run_time_on_sites(spec.wall_time, 2) + defaults.beyond_wall_time,
        )
        .with_bid_terms_of(spec, defaults)
        .with_wall_time_of(spec, defaults)
    }

    /// Bars the sites that this owner may not use.
    pub fn without_barred_sites(mut self, owner: &KeyName, defaults: &PlacementDefaults) -> Self {
        let barred = defaults.sites_closed_to(owner);
        if !barred.is_empty() {
            self.bar_sites(&barred);
        }
        self
    }

    fn bar_sites(&mut self, sites: &BTreeMap<SiteName, Arc<[KeyName]>>) {
        self.components
            .iter_mut()
            .for_each(|component| component.barred = sites.clone());
        self.splits
            .iter_mut()
            .for_each(|split| split.bar_sites(sites));
    }

    /// Sets the longest time for which it holds its resources.
    pub fn with_holding_time(self, lasts: DurationMs) -> Self {
        let lasts = DurationMs(round_up(lasts.0));
        let splits = self
            .splits
            .into_iter()
            .map(|split| split.with_holding_time(lasts))
            .collect();
        Self {
            lasts,
            splits,
            ..self
        }
    }

    /// Sets the terms of distances.
    pub fn with_bid_terms(self, terms: BidTerms) -> Self {
        Self { terms, ..self }
    }

    /// Sets the terms that the job wants, if its policy measures distances.
    fn with_bid_terms_of(self, spec: &JobSpec, defaults: &PlacementDefaults) -> Self {
        if !find_policy(&self.policy).is_ok_and(|policy| policy.takes_bids()) {
            return self;
        }
        let weights = spec.run.weights.unwrap_or(defaults.weights);
        let terms = BidTerms {
            run_time: spec.wall_time,
            weights,
            local_rate: defaults.local_rate,
        };
        self.with_bid_terms(terms)
    }

    /// Sets the wall time of the job, if any site has partitions.
    fn with_wall_time_of(self, spec: &JobSpec, defaults: &PlacementDefaults) -> Self {
        let time = defaults
            .lanes
            .map(|_| PartitionDemand::new(0, spec.wall_time).time);
        self.with_wall_time(time)
    }

    /// Sets the wall time.
    pub fn with_wall_time(self, time: Option<DurationMs>) -> Self {
        let splits = self
            .splits
            .into_iter()
            .map(|split| split.with_wall_time(time))
            .collect();
        Self {
            time,
            splits,
            ..self
        }
    }

    /// Sets the ways in which it may get its processors.
    pub fn with_acquisition(self, acquisition: AcquisitionOptions) -> Self {
        Self {
            acquisition,
            ..self
        }
    }

    /// Makes a request for one component alone, which is not split further (KOALA, section 4.5,
    /// step 2). If the job's policy places flexible requests only, the default for others serves.
    pub fn of_single_component(
        job: &Job,
        index: ComponentIndex,
        defaults: &PlacementDefaults,
    ) -> Option<Self> {
        let excluded = SiteExclusions::of_components(job.components.get(index.0 as usize));
        let spec = job.component_spec(index)?;
        let mut component =
            ComponentRequest::of_component(spec, excluded, |of| job.file_part_of(index, of))
                .with_partitions_of(spec, defaults);
        component.gflops = job.gflops_of(index)?;
        component.resources = job.resources_of(index)?;
        let own = job.spec.policy.as_ref();
        let own = own.filter(|policy| policy_for(policy, &RequestType::NonFixed).is_ok());
        let policy = own.unwrap_or(&defaults.rigid).clone();
        let request = match job.spec.request {
            RequestType::Fixed => RequestType::Fixed,
            RequestType::NonFixed | RequestType::Flexible(_) => RequestType::NonFixed,
        };
        // It is placed again because it can start there now, or its siblings already run.
        let mode = AcquisitionMode::Immediate;
        Some(
            Self::new(policy, request, job.spec.rerunnable, vec![component])
                .with_acquisition(AcquisitionOptions {
                    mode,
                    ..job.spec.run.acquisition
                })
                .with_holding_time(job.spec.wall_time + defaults.beyond_wall_time)
                .with_bid_terms_of(&job.spec, defaults)
                .with_wall_time_of(&job.spec, defaults)
                .without_barred_sites(&job.owner, defaults),
        )
    }

    /// Makes requests for parts of a flexible job of these sizes, each for itself and not split
    /// further, with its owner. They avoid every site where one of its components failed.
    pub fn of_parts(job: &Job, sizes: &[u32], defaults: &PlacementDefaults) -> Vec<Self> {
        let Some(spec) = job.spec.components.first() else {
            return Vec::new();
        };
        let excluded = SiteExclusions::of_components(&job.components);
        let asked =
            ComponentRequest::of_component(spec, excluded, |of| job.spec.file_part_of(0, of))
                .with_partitions_of(spec, defaults);
        let total = sizes.iter().copied().fold(0, u32::saturating_add);
        let whole = asked.portion_of(0, total);
        let chunks = asked.chunks;
        let whole = ComponentRequest { chunks, ..whole };
        let own = job.spec.policy.as_ref();
        let own = own.filter(|policy| policy_for(policy, &RequestType::NonFixed).is_ok());
        let policy = own.unwrap_or(&defaults.rigid);
        let mut before = 0;
        sizes
            .iter()
            .map(|size: &u32| {
                let part = whole.portion_of(before, *size);
                before += size;
                Self::new(
                    policy.clone(),
                    RequestType::NonFixed,
                    job.spec.rerunnable,
                    vec![part],
                )
                .with_acquisition(acquisition_options(&job.spec, job.reservation_terms()))
                .with_holding_time(job.spec.longest_run_time() + defaults.beyond_wall_time)
                .with_bid_terms_of(&job.spec, defaults)
                .with_wall_time_of(&job.spec, defaults)
                .without_barred_sites(&job.owner, defaults)
                .with_owner(&job.owner)
            })
            .collect()
    }

    pub fn policy(&self) -> &PolicyName {
        &self.policy
    }

    /// Returns the type of the request: fixed, non-fixed or flexible.
    pub fn request_type(&self) -> &RequestType {
        &self.request
    }

    /// Returns the total of a flexible request.
    pub fn total_resources(&self) -> Option<&Resources> {
        self.total.as_ref()
    }

    /// Lists the allowed splits of a flexible request, each as a non-fixed one, the preferred
    /// first.
    pub fn splits(&self) -> &[PlacementRequest] {
        &self.splits
    }

    /// Returns the ways in which it may get its processors.
    pub fn acquisition(&self) -> AcquisitionOptions {
        self.acquisition
    }

    /// Returns the terms by which its distance to a site is measured.
    pub fn bid_terms(&self) -> &BidTerms {
        &self.terms
    }

    /// Returns the wall time, if any site has partitions with time limits.
    pub fn wall_time(&self) -> Option<DurationMs> {
        self.time
    }

    /// Returns the longest time for which it holds its resources.
    pub fn holding_time(&self) -> DurationMs {
        self.lasts
    }

    /// Returns the computing power that it asks for in all, in GFLOPS.
    pub fn gflops(&self) -> u64 {
        self.gflops
    }

    /// Returns true if it may run a second time.
    pub fn is_restartable(&self) -> bool {
        self.restartable
    }

    /// Returns true if it may try out a site after errors.
    pub fn may_probe(&self) -> bool {
        self.request.may_probe(self.restartable)
    }

    /// Returns its components, by component index; for a flexible request the smallest one that it
    /// can be split into.
    pub fn components(&self) -> &[ComponentRequest] {
        &self.components
    }

    /// Returns component indexes by decreasing processors, then by index.
    pub fn components_by_size(&self) -> &[u32] {
        &self.by_size
    }

    /// Returns the content whose replicas serve this one: the file that a chunk is cut from.
    pub(super) fn whole_file_of(&self, content: Content) -> Content {
        let chunk = self
            .components
            .iter()
            .find_map(|part| part.chunks.get(&content));
        chunk.map_or(content, |chunk| chunk.of)
    }

    /// Returns every content that any component may need at some site, sorted, without duplicates.
    pub fn contents(&self) -> &[Content] {
        &self.contents
    }

    /// Lists what a plan for it takes of each site.
    pub fn resources_of_plan<'a>(
        &'a self,
        plan: &'a PlacementPlan,
    ) -> impl Iterator<Item = (SiteName, Resources)> + 'a {
        plan.placements
            .iter()
            .enumerate()
            .filter_map(|(index, placement)| {
                let resources = match (placement.share, &self.total) {
                    (Some(share), Some(total)) => total.portion_for(share),
                    _ => self.components.get(index)?.resources.clone(),
                };
                Some((placement.site.clone(), resources))
            })
    }

    /// Returns the processors of all components together.
    pub fn processors(&self) -> u64 {
        match &self.total {
            Some(total) => total.processors.into(),
            None => self
                .components
                .iter()
                .map(|c| u64::from(c.resources.processors))
                .sum(),
        }
    }
}

impl ComponentRequest {
    /// Makes a component that needs these resources and nothing else.
    pub fn of_resources(resources: Resources) -> Self {
        Self {
            resources,
            gflops: 0,
            constraints: Vec::new(),
            site: None,
            inputs: BTreeSet::new(),
            chunks: BTreeMap::new(),
            executable: None,
            executable_at: Vec::new(),
            lanes: Vec::new(),
            avoid: BTreeSet::new(),
            unfit_for: BTreeMap::new(),
            barred: BTreeMap::new(),
        }
    }

    /// Returns the part of it that belongs to `own` of its processors, after `before` of other
    /// parts.
    fn portion_of(&self, before: u32, own: u32) -> Self {
        let total = self.resources.processors.into();
        let part = ComponentFilePart {
            before: before.into(),
            own: own.into(),
            total,
        };
        let chunks = self
            .chunks
            .values()
            .map(|chunk| FileChunk::for_part(chunk.of, part));
        let gflops = self.resources.proportional_count(self.gflops, own);
        Self {
            resources: self.resources.portion_for(own),
            gflops,
            chunks: chunks_by_content(chunks),
            ..self.clone()
        }
    }

    /// Makes the requirements of a component; `part_of` says which part of a file it reads.
    fn of_component(
        component: &ComponentSpec,
        excluded: SiteExclusions,
        part_of: impl Fn(Content) -> ComponentFilePart,
    ) -> Self {
        let executable_at = component.at.iter().filter_map(|(place, change)| {
            change
                .executable
                .as_ref()
                .map(|executable| (place.clone(), staged_content(executable)))
        });
        Self {
            resources: component.resources.without_computing_power(),
            gflops: component.resources.other(GFLOPS),
            constraints: component.constraints.clone(),
            site: component.site.clone(),
            inputs: inputs_of_portion(component, InputPortion::Whole).collect(),
            chunks: chunks_by_content(
                inputs_of_portion(component, InputPortion::Chunk)
                    .map(|of| FileChunk::for_part(of, part_of(of))),
            ),
            executable: staged_content(&component.program.executable),
            executable_at: executable_at.collect(),
            lanes: Vec::new(),
            avoid: excluded.avoid,
            unfit_for: excluded.unfit_for,
            barred: BTreeMap::new(),
        }
    }

    /// Sets the partitions that its specification names, if any site has partitions.
    fn with_partitions_of(self, component: &ComponentSpec, defaults: &PlacementDefaults) -> Self {
        let lanes = defaults
            .lanes
            .map(|words| words.partition_choices(&component.at))
            .unwrap_or_default();
        Self { lanes, ..self }
    }

    /// Returns true if anything must be at its site before it can start there.
    pub fn needs_files(&self) -> bool {
        self.all_contents().next().is_some()
    }

    /// Lists the contents that it reads, without duplicates.
    fn contents_read(&self) -> impl Iterator<Item = Content> + '_ {
        let chunks = self
            .chunks
            .keys()
            .filter(|chunk| !self.inputs.contains(*chunk));
        self.inputs.iter().chain(chunks).copied()
    }

    pub(super) fn all_contents(&self) -> impl Iterator<Item = Content> + '_ {
        let elsewhere = self
            .executable_at
            .iter()
            .filter_map(|(_, content)| *content);
        self.contents_read().chain(self.executable).chain(elsewhere)
    }

    /// Lists contents that must be at this site before it can start there, without duplicates.
    pub fn contents_at<'a>(
        &'a self,
        site: &SiteName,
        labels: &SiteLabels,
    ) -> impl Iterator<Item = Content> + use<'a> {
        let mut changes = self.executable_at.iter().rev();
        let change = changes.find(|(place, _)| place.applies_to_site(site, labels));
        let executable = change.map_or(self.executable, |(_, content)| *content);
        let is_read =
            |content: &Content| self.inputs.contains(content) || self.chunks.contains_key(content);
        self.contents_read()
            .chain(executable.filter(|content| !is_read(content)))
    }
}

/// Rounds up by at most an eighth: to one of eight numbers up to the next power of two.
fn round_up(number: u64) -> u64 {
    let step = 1 << number.checked_ilog2().unwrap_or(0).saturating_sub(3);
    number.checked_next_multiple_of(step).unwrap_or(number)
}

/// The content of an executable that must be brought to its site.
fn staged_content(executable: &ExecutableSource) -> Option<Content> {
    match executable {
        ExecutableSource::Staged(file) => file.bound,
        ExecutableSource::AtSite(_) => None,
    }
}

/// The contents of inputs that are fed so.
fn inputs_of_portion(
    component: &ComponentSpec,
    feed: InputPortion,
) -> impl Iterator<Item = Content> {
    let fed = component
        .inputs
        .iter()
        .filter(move |input| input.feed == feed);
    fed.filter_map(|input| input.file.bound)
}

/// Maps chunks by their content.
fn chunks_by_content(chunks: impl Iterator<Item = FileChunk>) -> BTreeMap<Content, FileChunk> {
    chunks.map(|chunk| (chunk.as_content(), chunk)).collect()
}

/// Returns the ways to get processors: a job with a reservation waits in no queue of a site.
fn acquisition_options(spec: &JobSpec, wish: Option<ReservationTerms>) -> AcquisitionOptions {
    match wish {
        Some(_) => AcquisitionOptions {
            mode: AcquisitionMode::Immediate,
            ..spec.run.acquisition
        },
        None => spec.run.acquisition,
    }
}
