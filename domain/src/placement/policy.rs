//! The interface of placement policies, and their common functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::grid::GridSnapshot;
use super::history::SitePairHistory;
use super::placement_plan::PlacementPlan;
use super::placement_request::PlacementRequest;
pub use super::policies::{DEFAULT_FLEXIBLE_POLICY, DEFAULT_POLICY, POLICIES};
use super::reason::{PlacementRefusal, RefusalReason, VerdictObserver};
use super::remaining::RemainingResources;
use super::site_queues::place_as_wanted;
use super::site_search::{PlacementSearch, SiteChoice};
use crate::acquisition::PartitionOptionPrefixes;
use crate::bid::DimensionWeights;
use crate::ids::{ComponentIndex, KeyName, PolicyName, SiteName};
use crate::job::job_parameters::JobParameters;
use crate::job::spec::RequestType;
use crate::placed::PlacementRule;
use crate::units::{BitsPerSecond, DurationMs};

/// A way to choose sites.
pub trait Policy: Send + Sync {
    /// Returns its name in job files and configuration.
    fn name(&self) -> &'static str;

    /// Returns true if it can place this type of request.
    fn serves(&self, request: &RequestType) -> bool;

    /// Returns true if it brings files only over pairs of sites in the history table.
    fn keeps_to_history(&self) -> bool {
        false
    }

    /// Returns true if sites bid for its jobs, by distances that a job may weight.
    fn takes_bids(&self) -> bool {
        false
    }

    /// Returns the cost of a decision at most, relative to one that looks at each site once.
    fn effort(&self, request: &PlacementRequest) -> u32 {
        let _ = request;
        1
    }

    /// Places a job as a whole, and takes what it uses from the context.
    ///
    /// # Errors
    /// Not every component has a site now; the context is as it was.
    fn place(
        &self,
        request: &PlacementRequest,
        context: &mut PlacementContext<'_>,
    ) -> Result<PlacementPlan, PlacementRefusal>;
}

/// The state that a policy works on.
pub struct PlacementContext<'a> {
    pub grid: &'a GridSnapshot,
    /// The part of it that is left.
    pub remaining: &'a mut RemainingResources,
    /// The history table of Close-to-Files.
    pub history: &'a mut SitePairHistory,
    /// The observer of the verdicts.
    pub observer: &'a mut dyn VerdictObserver,
}

/// An unknown policy, or one that cannot place this type of request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyChoiceError {
    #[error("no policy is called {name:?}; there are: {known}")]
    NoSuchName {
        /// The name as given.
        name: String,
        /// All known names, as a list.
        known: String,
    },
    /// The policy does not place requests of this type.
    #[error("policy {name:?} cannot place {request} requests; these can: {others}")]
    WrongRequest {
        name: &'static str,
        /// The type of request.
        request: &'static str,
        /// The policies that can.
        others: String,
    },
}

/// Finds the policy of this name.
///
/// # Errors
/// There is none; the error lists all names.
pub fn find_policy(name: &PolicyName) -> Result<&'static dyn Policy, PolicyChoiceError> {
    POLICIES
        .iter()
        .copied()
        .find(|policy| policy.name() == name.as_str())
        .ok_or_else(|| PolicyChoiceError::NoSuchName {
            name: name.to_string(),
            known: list_names(|_| true),
        })
}

fn list_names(wanted: impl Fn(&dyn Policy) -> bool) -> String {
    let named = POLICIES
        .iter()
        .filter(|policy| wanted(**policy))
        .map(|policy| policy.name());
    named.collect::<Vec<_>>().join(", ")
}

/// Finds the policy of this name, if it can place this type of request: for submission.
///
/// # Errors
/// See [`PolicyChoiceError`].
pub fn policy_for(
    name: &PolicyName,
    request: &RequestType,
) -> Result<&'static dyn Policy, PolicyChoiceError> {
    let policy = find_policy(name)?;
    if policy.serves(request) {
        return Ok(policy);
    }
    let others = list_names(|policy| policy.serves(request));
    Err(PolicyChoiceError::WrongRequest {
        name: policy.name(),
        request: request.as_str(),
        others,
    })
}

/// The policies of jobs that name none, and other defaults of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementDefaults {
    /// The policy for fixed and non-fixed requests.
    pub rigid: PolicyName,
    /// The policy for flexible requests.
    pub flexible: PolicyName,
    /// Weights for jobs that give none.
    pub weights: DimensionWeights,
    /// The rate at which input at the site is read; `None`: in no time.
    pub local_rate: Option<BitsPerSecond>,
    /// The options by which jobs choose a partition, if any site has partitions; then the wall time
    /// of a job matters, too.
    pub lanes: Option<PartitionOptionPrefixes>,
    /// The longest time for which a component may hold its processors beyond its wall time: at its
    /// gate, and until its end is seen.
    pub beyond_wall_time: DurationMs,
    /// The keys whose jobs each site accepts; a site that is missing accepts all.
    pub site_keys: BTreeMap<SiteName, Arc<[KeyName]>>,
}

impl Default for PlacementDefaults {
    fn default() -> Self {
        Self {
            rigid: PolicyName::from_known(DEFAULT_POLICY),
            flexible: PolicyName::from_known(DEFAULT_FLEXIBLE_POLICY),
            weights: DimensionWeights::default(),
            local_rate: None,
            lanes: None,
            beyond_wall_time: JobParameters::default().holding_beyond_wall_time(),
            site_keys: BTreeMap::new(),
        }
    }
}

impl PlacementDefaults {
    /// Returns the sites that refuse this owner's jobs, each with the keys that it accepts.
    pub fn sites_closed_to(&self, owner: &KeyName) -> BTreeMap<SiteName, Arc<[KeyName]>> {
        let sites = self
            .site_keys
            .iter()
            .filter(|(_, keys)| !keys.contains(owner));
        sites
            .map(|(site, keys)| (site.clone(), keys.clone()))
            .collect()
    }

    /// Returns the default policy for this type of request.
    pub fn default_policy_for(&self, request: &RequestType) -> &PolicyName {
        match request {
            RequestType::Fixed | RequestType::NonFixed => &self.rigid,
            RequestType::Flexible(_) => &self.flexible,
        }
    }
}

/// Places a request by the policy that it names, which must still exist and serve requests of its
/// type: on what is idle, or in the queues of sites, as its job wants.
///
/// # Errors
/// Not every component has a site now, or the policy is gone.
pub fn try_to_place(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Result<PlacementPlan, PlacementRefusal> {
    context.remaining.begin_request();
    context
        .remaining
        .keep_back_reserved(context.grid, request.holding_time());
    place_as_wanted(request, context)
}

/// Places a request by the policy that it names on what is idle, even if its job would also wait in
/// the queues of sites.
///
/// # Errors
/// See [`try_to_place`].
pub fn place_on_idle(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Result<PlacementPlan, PlacementRefusal> {
    context.remaining.begin_request();
    context
        .remaining
        .keep_back_reserved(context.grid, request.holding_time());
    place_by_policy(request, context)
}

/// Places a request by its policy alone.
pub(super) fn place_by_policy(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Result<PlacementPlan, PlacementRefusal> {
    match find_policy(request.policy()) {
        Ok(policy) if policy.serves(request.request_type()) => policy.place(request, context),
        Ok(_) => Err(refusal_of_type(request)),
        Err(_) => Err(refusal_without_site(RefusalReason::PolicyUnknown(
            request.policy().clone(),
        ))),
    }
}

/// Returns the refusal of a policy that cannot place requests of this type.
pub(super) fn refusal_of_type(request: &PlacementRequest) -> PlacementRefusal {
    let policy = request.policy().clone();
    refusal_without_site(RefusalReason::PolicyUnsuited {
        policy,
        request: request.request_type().as_str(),
    })
}

fn refusal_without_site(reason: RefusalReason) -> PlacementRefusal {
    PlacementRefusal {
        component: ComponentIndex(0),
        site: None,
        reason,
    }
}

impl PlacementContext<'_> {
    /// Places components in decreasing size, each on the site that `pick` chooses (a fixed one on
    /// its named site); all or nothing.
    ///
    /// # Errors
    /// The first component without a site; everything taken is given back.
    pub(super) fn place_each(
        &mut self,
        request: &PlacementRequest,
        pick: impl FnMut(&PlacementSearch<'_>, usize, &RemainingResources) -> Option<SiteChoice>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        self.place_with(&PlacementSearch::new(request, self.grid), pick)
    }

    /// Does the work of [`PlacementContext::place_each`] with an existing search.
    ///
    /// # Errors
    /// The first component without a site; everything taken is given back.
    pub(super) fn place_with(
        &mut self,
        search: &PlacementSearch<'_>,
        mut pick: impl FnMut(&PlacementSearch<'_>, usize, &RemainingResources) -> Option<SiteChoice>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        let request = search.request;
        let mut chosen = vec![
            SiteChoice::at_site(usize::MAX, PlacementRule::NamedSite);
            request.components().len()
        ];
        for (done, &component) in request.components_by_size().iter().enumerate() {
            let component = component as usize;
            let choice = choose_site(search, component, self.remaining, &mut pick);
            if self.observer.is_listening() {
                let site = choice.map(|choice| choice.site);
                search.explain_sites(component, site, self.remaining, self.observer);
            }
            let Some(choice) = choice else {
                let refusal = search.nearest_refusal_of(component, self.remaining);
                if self.observer.is_listening() {
                    let rest = &request.components_by_size()[done..];
                    self.explain_rest(search, rest, self.remaining.clone(), &mut pick);
                }
                for &component in &request.components_by_size()[..done] {
                    let component = component as usize;
                    search.give_back_component(component, chosen[component].site, self.remaining);
                }
                return Err(refusal);
            };
            search.take_component(component, choice.site, self.remaining);
            chosen[component] = choice;
        }
        Ok(search.plan_choices(&chosen))
    }

    /// Reports the components after the first of `rest`, which has no site, to the observer: as if
    /// that one were at the site that is nearest to taking it (see [`SiteVerdict`]).
    ///
    /// [`SiteVerdict`]: super::reason::SiteVerdict
    fn explain_rest(
        &mut self,
        search: &PlacementSearch<'_>,
        rest: &[u32],
        mut remaining: RemainingResources,
        pick: &mut impl FnMut(&PlacementSearch<'_>, usize, &RemainingResources) -> Option<SiteChoice>,
    ) {
        let Some((&refused, rest)) = rest.split_first() else {
            return;
        };
        let supposed = search.suppose_placed(refused as usize, &remaining);
        let search = match &supposed {
            Some(supposed) => &search.search_supposed_grid(supposed),
            None => search,
        };
        if let Some(supposed) = &supposed {
            remaining.clone_from(&supposed.remaining);
        }
        for (done, &component) in rest.iter().enumerate() {
            let component = component as usize;
            let site = choose_site(search, component, &remaining, pick).map(|choice| choice.site);
            search.explain_sites(component, site, &remaining, self.observer);
            match site {
                Some(site) => search.take_component(component, site, &mut remaining),
                None => return self.explain_rest(search, &rest[done..], remaining, pick),
            }
        }
    }
}

/// Chooses the site of a component: its named site, or the one that `pick` chooses.
fn choose_site(
    search: &PlacementSearch<'_>,
    component: usize,
    remaining: &RemainingResources,
    pick: &mut impl FnMut(&PlacementSearch<'_>, usize, &RemainingResources) -> Option<SiteChoice>,
) -> Option<SiteChoice> {
    match search.named_site(component) {
        Some(named) => named
            .filter(|&site| search.can_place_at(component, site, remaining))
            .map(|site| search.choice_at_named_site(component, site)),
        None => pick(search, component, remaining),
    }
}
