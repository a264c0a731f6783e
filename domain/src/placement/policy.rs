//! The interface of placement policies, and what they share.

use thiserror::Error;

use super::grid::GridSnapshot;
use super::plan::Plan;
use super::reason::{Observer, Refusal};
use super::remaining::Remaining;
use super::request::PlacementRequest;
use super::search::Search;
use super::worst_fit::WorstFit;
use crate::ids::{ComponentIndex, PolicyName};
use crate::job::spec::Request;

/// Every policy. A new one is its file and a line here.
pub static POLICIES: &[&dyn Policy] = &[&WorstFit];

/// Name of the policy that serves where none is configured.
pub const DEFAULT_POLICY: &str = WorstFit::NAME;

/// A way to choose sites.
pub trait Policy: Send + Sync {
    /// Its name in job files and configuration.
    fn name(&self) -> &'static str;

    /// Whether it can place this type of request.
    fn serves(&self, request: Request) -> bool;

    /// Places a job as a whole, and takes what it uses from the board.
    ///
    /// # Errors
    /// Not every component has a site now; the board is as it was.
    fn place(&self, request: &PlacementRequest, board: &mut Board<'_>) -> Result<Plan, Refusal>;
}

/// What a policy plays on.
pub struct Board<'a> {
    /// The grid.
    pub grid: &'a GridSnapshot,
    /// What is left of it.
    pub remaining: &'a mut Remaining,
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
    #[error("policy {name:?} cannot place {request:?} requests")]
    WrongRequest {
        /// The policy.
        name: &'static str,
        /// The type of request.
        request: Request,
    },
}

/// The policy of this name.
///
/// # Errors
/// There is none; the error lists those there are.
pub fn find_policy(name: &PolicyName) -> Result<&'static dyn Policy, UnknownPolicy> {
    POLICIES.iter().copied().find(|policy| policy.name() == name.as_str()).ok_or_else(|| {
        let known: Vec<&str> = POLICIES.iter().map(|policy| policy.name()).collect();
        UnknownPolicy::NoSuchName { name: name.to_string(), known: known.join(", ") }
    })
}

/// The policy of this name, if it can place this type of request: for submission.
///
/// # Errors
/// See [`UnknownPolicy`].
pub fn policy_for(
    name: &PolicyName,
    request: Request,
) -> Result<&'static dyn Policy, UnknownPolicy> {
    let policy = find_policy(name)?;
    if policy.serves(request) {
        Ok(policy)
    } else {
        Err(UnknownPolicy::WrongRequest { name: policy.name(), request })
    }
}

/// Places a request by the policy that it names, which must exist by now.
///
/// # Errors
/// Not every component has a site now, or the policy is gone.
pub fn place(request: &PlacementRequest, board: &mut Board<'_>) -> Result<Plan, Refusal> {
    match find_policy(request.policy()) {
        Ok(policy) => policy.place(request, board),
        Err(_) => Err(Refusal {
            component: ComponentIndex(0),
            site: None,
            reason: super::reason::Reason::PolicyUnknown(request.policy().clone()),
        }),
    }
}

impl Board<'_> {
    /// Places components in decreasing size, each on the site that `pick` chooses
    /// (a fixed one on its named site); all or nothing.
    ///
    /// # Errors
    /// The first component without a site; everything taken is given back.
    pub(super) fn place_each(
        &mut self,
        request: &PlacementRequest,
        mut pick: impl FnMut(&Search<'_>, usize, &Remaining) -> Option<usize>,
    ) -> Result<Plan, Refusal> {
        let search = Search::new(request, self.grid);
        let mut chosen = vec![usize::MAX; request.components().len()];
        for (done, &component) in request.by_size().iter().enumerate() {
            let component = component as usize;
            let site = match search.named_site(component) {
                Some(named) => named.filter(|&site| search.fits(component, site, self.remaining)),
                None => pick(&search, component, self.remaining),
            };
            if self.observer.is_listening() {
                search.explain(component, site, self.remaining, self.observer);
            }
            let Some(site) = site else {
                let refusal = search.refusal(component, self.remaining);
                self.undo(request, &request.by_size()[..done], &chosen);
                return Err(refusal);
            };
            self.remaining.take(site, &request.components()[component].resources);
            chosen[component] = site;
        }
        Ok(search.plan(&chosen))
    }

    fn undo(&mut self, request: &PlacementRequest, done: &[u32], chosen: &[usize]) {
        for &component in done {
            let component = component as usize;
            self.remaining.give_back(chosen[component], &request.components()[component].resources);
        }
    }
}
