//! The interface of placement policies, and what they share.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::grid::GridSnapshot;
use super::history::PairHistory;
use super::plan::PlacementPlan;
pub use super::policies::POLICIES;
use super::policies::{FlexibleClusterMinimization, WorstFit};
use super::queues::place_either_way;
use super::reason::{Observer, PlacementRefusal, Reason};
use super::remaining::Remaining;
use super::request::PlacementRequest;
use super::search::{PlacementSearch, SiteChoice};
use crate::acquire::PartitionOptions;
use crate::bid::Weights;
use crate::ids::{ComponentIndex, KeyName, PolicyName, SiteName};
use crate::job::parameters::JobParameters;
use crate::job::spec::RequestType;
use crate::placed::PlacementRule;
use crate::units::{BitsPerSecond, DurationMs};

/// Name of the policy that serves where none is configured.
pub const DEFAULT_POLICY: &str = WorstFit::NAME;

/// Name of the policy that serves flexible requests where none is configured.
pub const DEFAULT_FLEXIBLE_POLICY: &str = FlexibleClusterMinimization::NAME;

/// A way to choose sites.
pub trait Policy: Send + Sync {
    /// Its name in job files and configuration.
    fn name(&self) -> &'static str;

    /// Whether it can place this type of request.
    fn serves(&self, request: &RequestType) -> bool;

    /// Whether it brings files over pairs of sites in the history table alone.
    fn keeps_to_history(&self) -> bool {
        false
    }

    /// Whether sites bid for its jobs, by distances that jobs may want measured otherwise.
    fn takes_bids(&self) -> bool {
        false
    }

    /// How many times as long a decision takes as one that looks at each site once, at most.
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

/// What a policy plays on.
pub struct PlacementContext<'a> {
    /// The grid.
    pub grid: &'a GridSnapshot,
    /// What is left of it.
    pub remaining: &'a mut Remaining,
    /// The history table of Close-to-Files.
    pub history: &'a mut PairHistory,
    /// Who wants to know why.
    pub observer: &'a mut dyn Observer,
}

/// A policy that does not exist, or cannot place this type of request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownPolicy {
    /// No policy has this name.
    #[error("no policy is called {name:?}; there are: {known}")]
    NoSuchName {
        /// The name as given.
        name: String,
        /// All names there are.
        known: String,
    },
    /// The policy does not place requests of this type.
    #[error("policy {name:?} cannot place {request} requests; these can: {others}")]
    WrongRequest {
        /// The policy.
        name: &'static str,
        /// The type of request.
        request: &'static str,
        /// Those that can.
        others: String,
    },
}

/// The policy of this name.
///
/// # Errors
/// There is none; the error lists those there are.
pub fn find_policy(name: &PolicyName) -> Result<&'static dyn Policy, UnknownPolicy> {
    POLICIES
        .iter()
        .copied()
        .find(|policy| policy.name() == name.as_str())
        .ok_or_else(|| UnknownPolicy::NoSuchName {
            name: name.to_string(),
            known: names_of(|_| true),
        })
}

fn names_of(wanted: impl Fn(&dyn Policy) -> bool) -> String {
    let named = POLICIES
        .iter()
        .filter(|policy| wanted(**policy))
        .map(|policy| policy.name());
    named.collect::<Vec<_>>().join(", ")
}

/// The policy of this name, if it can place this type of request: for submission.
///
/// # Errors
/// See [`UnknownPolicy`].
pub fn policy_for(
    name: &PolicyName,
    request: &RequestType,
) -> Result<&'static dyn Policy, UnknownPolicy> {
    let policy = find_policy(name)?;
    if policy.serves(request) {
        return Ok(policy);
    }
    let others = names_of(|policy| policy.serves(request));
    Err(UnknownPolicy::WrongRequest {
        name: policy.name(),
        request: request.as_str(),
        others,
    })
}

/// The policies of jobs that name none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultPolicies {
    /// For fixed and non-fixed requests.
    pub rigid: PolicyName,
    /// For flexible requests.
    pub flexible: PolicyName,
    /// How much each dimension counts to jobs that say nothing of it.
    pub weights: Weights,
    /// What input is read with that is at its site; `None`: in no time.
    pub local_rate: Option<BitsPerSecond>,
    /// How jobs choose whom they ask within sites, if any site knows that difference; then it
    /// matters, too, how long a job runs.
    pub lanes: Option<PartitionOptions>,
    /// How much longer than its wall time a component may hold what it got: at its gate, and
    /// until it is seen to have ended.
    pub beyond_wall_time: DurationMs,
    /// Whose jobs each site takes; one that is missing takes everybody's.
    pub site_keys: BTreeMap<SiteName, Arc<[KeyName]>>,
}

impl Default for DefaultPolicies {
    fn default() -> Self {
        Self {
            rigid: PolicyName::known(DEFAULT_POLICY),
            flexible: PolicyName::known(DEFAULT_FLEXIBLE_POLICY),
            weights: Weights::default(),
            local_rate: None,
            lanes: None,
            beyond_wall_time: JobParameters::default().beyond_wall_time(),
            site_keys: BTreeMap::new(),
        }
    }
}

impl DefaultPolicies {
    /// The sites that do not take this owner's jobs, and whose they take.
    pub fn barred_for(&self, owner: &KeyName) -> BTreeMap<SiteName, Arc<[KeyName]>> {
        let sites = self
            .site_keys
            .iter()
            .filter(|(_, keys)| !keys.contains(owner));
        sites
            .map(|(site, keys)| (site.clone(), keys.clone()))
            .collect()
    }

    /// The one for this type of request.
    pub fn for_request(&self, request: &RequestType) -> &PolicyName {
        match request {
            RequestType::Fixed | RequestType::NonFixed => &self.rigid,
            RequestType::Flexible(_) => &self.flexible,
        }
    }
}

/// Places a request by the policy that it names, which must exist by now and serve
/// requests of its type: on what is idle, or in the queues of sites, as its job wants.
///
/// # Errors
/// Not every component has a site now, or the policy is gone.
pub fn place(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Result<PlacementPlan, PlacementRefusal> {
    context.remaining.begin_request();
    context
        .remaining
        .keep_promises(context.grid, request.lasts());
    place_either_way(request, context)
}

/// Places a request by the policy that it names on what is idle, even if its job would wait in
/// the queues of sites too.
///
/// # Errors
/// As of [`place`].
pub fn place_now(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Result<PlacementPlan, PlacementRefusal> {
    context.remaining.begin_request();
    context
        .remaining
        .keep_promises(context.grid, request.lasts());
    by_policy(request, context)
}

/// Places it by its policy alone.
pub(super) fn by_policy(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Result<PlacementPlan, PlacementRefusal> {
    match find_policy(request.policy()) {
        Ok(policy) if policy.serves(request.request()) => policy.place(request, context),
        Ok(_) => Err(unsuited(request)),
        Err(_) => Err(without_site(Reason::PolicyUnknown(
            request.policy().clone(),
        ))),
    }
}

/// The policy cannot place requests of this type.
pub(super) fn unsuited(request: &PlacementRequest) -> PlacementRefusal {
    let policy = request.policy().clone();
    without_site(Reason::PolicyUnsuited {
        policy,
        request: request.request().as_str(),
    })
}

fn without_site(reason: Reason) -> PlacementRefusal {
    PlacementRefusal {
        component: ComponentIndex(0),
        site: None,
        reason,
    }
}

impl PlacementContext<'_> {
    /// Places components in decreasing size, each on the site that `pick` chooses
    /// (a fixed one on its named site); all or nothing.
    ///
    /// # Errors
    /// The first component without a site; everything taken is given back.
    pub(super) fn place_each(
        &mut self,
        request: &PlacementRequest,
        pick: impl FnMut(&PlacementSearch<'_>, usize, &Remaining) -> Option<SiteChoice>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        self.place_with(&PlacementSearch::new(request, self.grid), pick)
    }

    /// [`PlacementContext::place_each`] with a search that was made before.
    ///
    /// # Errors
    /// The first component without a site; everything taken is given back.
    pub(super) fn place_with(
        &mut self,
        search: &PlacementSearch<'_>,
        mut pick: impl FnMut(&PlacementSearch<'_>, usize, &Remaining) -> Option<SiteChoice>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        let request = search.request;
        let mut chosen = vec![
            SiteChoice::site(usize::MAX, PlacementRule::NamedSite);
            request.components().len()
        ];
        for (done, &component) in request.by_size().iter().enumerate() {
            let component = component as usize;
            let choice = choose(search, component, self.remaining, &mut pick);
            if self.observer.is_listening() {
                let site = choice.map(|choice| choice.site);
                search.explain(component, site, self.remaining, self.observer);
            }
            let Some(choice) = choice else {
                let refusal = search.refusal(component, self.remaining);
                if self.observer.is_listening() {
                    let rest = &request.by_size()[done..];
                    self.explain_rest(search, rest, self.remaining.clone(), &mut pick);
                }
                for &component in &request.by_size()[..done] {
                    let component = component as usize;
                    search.give_back(component, chosen[component].site, self.remaining);
                }
                return Err(refusal);
            };
            search.take(component, choice.site, self.remaining);
            chosen[component] = choice;
        }
        Ok(search.plan(&chosen))
    }

    /// Tells the observer of the components after the first of `rest`, which has no site: as
    /// if it were at the one that is nearest to taking it (see [`SiteVerdict`]).
    ///
    /// [`SiteVerdict`]: super::reason::SiteVerdict
    fn explain_rest(
        &mut self,
        search: &PlacementSearch<'_>,
        rest: &[u32],
        mut remaining: Remaining,
        pick: &mut impl FnMut(&PlacementSearch<'_>, usize, &Remaining) -> Option<SiteChoice>,
    ) {
        let Some((&refused, rest)) = rest.split_first() else {
            return;
        };
        let supposed = search.suppose(refused as usize, &remaining);
        let search = match &supposed {
            Some(supposed) => &search.supposing(supposed),
            None => search,
        };
        if let Some(supposed) = &supposed {
            remaining.clone_from(&supposed.remaining);
        }
        for (done, &component) in rest.iter().enumerate() {
            let component = component as usize;
            let site = choose(search, component, &remaining, pick).map(|choice| choice.site);
            search.explain(component, site, &remaining, self.observer);
            match site {
                Some(site) => search.take(component, site, &mut remaining),
                None => return self.explain_rest(search, &rest[done..], remaining, pick),
            }
        }
    }
}

/// Where the component goes: to its named site, or to the one that `pick` chooses.
fn choose(
    search: &PlacementSearch<'_>,
    component: usize,
    remaining: &Remaining,
    pick: &mut impl FnMut(&PlacementSearch<'_>, usize, &Remaining) -> Option<SiteChoice>,
) -> Option<SiteChoice> {
    match search.named_site(component) {
        Some(named) => named
            .filter(|&site| search.fits(component, site, remaining))
            .map(|site| search.at_named(component, site)),
        None => pick(search, component, remaining),
    }
}
