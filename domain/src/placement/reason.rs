//! Reasons why a component is not at a site: stable codes, and the numbers behind them.

use std::fmt;
use std::sync::Arc;

use super::grid::PlacementHindrance;
use crate::acquisition::{PartitionAccount, PartitionWait};
use crate::bid::SiteBid;
use crate::ids::{ComponentIndex, Digest, KeyName, PolicyName, SiteName};
use crate::labels::LabelConstraint;
use crate::placed::ReasonCode;
use crate::site::barred_owners_record::OwnerBan;
use crate::units::{Bytes, DurationMs, Timestamp};

/// A reason why a component cannot go to a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// Too little is free there.
    NotEnoughIdle {
        resource: Arc<str>,
        /// The amount that the component needs.
        needed: u64,
        /// The amount that the site reported as idle.
        idle: u64,
        /// The amount that is assumed idle in addition, as earlier components of the job lack it.
        made_up: u64,
        /// The amount of all that is deducted for our own jobs, and for those components.
        pending: u64,
        /// The additional amount that would be enough.
        missing: u64,
    },
    /// Enough is idle, but is reserved for others before the component would end.
    Reserved {
        resource: Arc<str>,
        /// The amount that the component needs.
        needed: u64,
        /// The time for which it needs it.
        lasts: DurationMs,
        /// The time when others get it, by the site's clock.
        from: Timestamp,
        /// The time from now until then.
        after: DurationMs,
        /// The amount of what is idle that they get.
        reserved: u64,
        /// The amount that is idle until then.
        idle: u64,
        /// The amount of all that is deducted for our own jobs, and for earlier components.
        pending: u64,
    },
    /// Enough is idle, but we would exceed our quota.
    QuotaReached {
        resource: Arc<str>,
        /// The amount that the component needs.
        needed: u64,
        /// The amount that we may still take.
        usable: u64,
    },
    /// The site takes no further submission of ours.
    SiteFull,
    /// A request of this size waited there lately, for other jobs or for a limit.
    Waited {
        /// The partition and account within the site.
        lane: PartitionAccount,
        /// The wait of that request.
        wait: PartitionWait,
    },
    /// The input would exceed the room for copies there.
    StagingFull {
        /// The room that its input needs.
        needed: Bytes,
        /// The room that is left for copies.
        left: Bytes,
    },
    /// The component failed there by a fault of the site.
    Avoided,
    /// The site is closed to jobs of this owner alone.
    OwnerKeptOff(OwnerBan),
    /// A flexible request cannot be split over the sites that could take part.
    NoSplit {
        /// Processors that it asks for.
        total: u32,
        /// The fewest processors of a component.
        min: u32,
        /// The most sites that may take part.
        sites: u32,
        /// The most that the largest of those take together.
        usable: u64,
    },
    /// Close-to-Files has no pair of this site and one that holds the files.
    NotInHistory,
    /// No replica can be brought there: the bandwidth is 0 or unknown.
    NoBandwidth {
        /// The site of the first replica by name.
        from: SiteName,
        /// The site that needs it.
        to: SiteName,
    },
    /// Every replica is at a site whose files cannot be read now.
    ReplicaUnreachable {
        digest: Digest,
        /// The first such site by name.
        at: SiteName,
    },
    /// A content has no replica.
    NoReplica { digest: Digest },
    /// The site takes no placements.
    Closed(PlacementHindrance),
    /// Our quota at the site is smaller than the component.
    QuotaTooSmall {
        resource: Arc<str>,
        /// The amount that the component needs.
        needed: u64,
        /// The most that we may ever hold.
        quota: u64,
    },
    /// The site can never hold the component.
    TooSmall {
        resource: Arc<str>,
        /// The amount that the component needs.
        needed: u64,
        /// The most that one component can get there.
        largest: u64,
    },
    /// The partition's time limit is below the component's wall time.
    TooLong {
        /// The partition and account within the site.
        lane: PartitionAccount,
        /// The wall time that it asks for.
        time: DurationMs,
        /// The longest wall time there.
        longest: DurationMs,
    },
    /// The component asks for computing power, and the speed of the site's processors is unknown.
    NoGflops {
        /// The GFLOPS that it needs.
        needed: u64,
    },
    /// The site's labels do not meet the component's constraint.
    LabelMismatch(LabelConstraint),
    /// The site's batch system refused the component before, with these words.
    RefusedByBatchSystem(Arc<str>),
    /// The site accepts the jobs of these keys only, and the job is of another.
    ForOtherKeys(Arc<[KeyName]>),
    /// The request names a site that is not configured.
    NoSuchSite(SiteName),
    /// The request names another site.
    NotTheNamedSite(SiteName),
    /// No site is configured.
    NoSites,
    /// The policy cannot place requests of this type.
    PolicyUnsuited {
        policy: PolicyName,
        /// The type of request.
        request: &'static str,
    },
    /// No policy has this name.
    PolicyUnknown(PolicyName),
}

impl From<PlacementHindrance> for ReasonCode {
    fn from(hindrance: PlacementHindrance) -> Self {
        match hindrance {
            PlacementHindrance::Unknown => ReasonCode::SiteUnknown,
            PlacementHindrance::Unreachable => ReasonCode::SiteUnreachable,
            PlacementHindrance::Isolated => ReasonCode::Isolated,
            PlacementHindrance::Unusable => ReasonCode::SiteUnusable,
            PlacementHindrance::Probing => ReasonCode::Probing,
            PlacementHindrance::Draining => ReasonCode::Draining,
            PlacementHindrance::Drained => ReasonCode::Drained,
            PlacementHindrance::Maintenance => ReasonCode::Maintenance,
            PlacementHindrance::CredentialsExpired => ReasonCode::CredentialsExpired,
            PlacementHindrance::Frozen => ReasonCode::Frozen,
            PlacementHindrance::NoQueue => ReasonCode::NoQueue,
            PlacementHindrance::QueueOnly => ReasonCode::QueueOnly,
        }
    }
}

impl RefusalReason {
    /// Returns its stable code.
    pub fn code(&self) -> ReasonCode {
        match self {
            RefusalReason::NotEnoughIdle { .. } => ReasonCode::NotEnoughIdle,
            RefusalReason::Reserved { .. } => ReasonCode::Reserved,
            RefusalReason::QuotaReached { .. } => ReasonCode::QuotaReached,
            RefusalReason::SiteFull => ReasonCode::SiteFull,
            RefusalReason::Waited { .. } => ReasonCode::Waited,
            RefusalReason::StagingFull { .. } => ReasonCode::StagingFull,
            RefusalReason::Avoided => ReasonCode::Avoided,
            RefusalReason::OwnerKeptOff(_) => ReasonCode::OwnerKeptOff,
            RefusalReason::NoSplit { .. } => ReasonCode::NoSplit,
            RefusalReason::NotInHistory => ReasonCode::NotInHistory,
            RefusalReason::NoBandwidth { .. } => ReasonCode::NoBandwidth,
            RefusalReason::ReplicaUnreachable { .. } => ReasonCode::ReplicaUnreachable,
            RefusalReason::NoReplica { .. } => ReasonCode::NoReplica,
            RefusalReason::Closed(hindrance) => (*hindrance).into(),
            RefusalReason::QuotaTooSmall { .. } => ReasonCode::QuotaTooSmall,
            RefusalReason::TooSmall { .. } => ReasonCode::TooSmall,
            RefusalReason::TooLong { .. } => ReasonCode::TooLong,
            RefusalReason::NoGflops { .. } => ReasonCode::NoGflops,
            RefusalReason::LabelMismatch(_) => ReasonCode::LabelMismatch,
            RefusalReason::RefusedByBatchSystem(_) => ReasonCode::RefusedByBatchSystem,
            RefusalReason::ForOtherKeys(_) => ReasonCode::ForOtherKeys,
            RefusalReason::NoSuchSite(_) => ReasonCode::NoSuchSite,
            RefusalReason::NotTheNamedSite(_) => ReasonCode::NotTheNamedSite,
            RefusalReason::NoSites => ReasonCode::NoSites,
            RefusalReason::PolicyUnsuited { .. } => ReasonCode::PolicyUnsuited,
            RefusalReason::PolicyUnknown(_) => ReasonCode::PolicyUnknown,
        }
    }
}

impl fmt::Display for PlacementHindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlacementHindrance::Unknown => "the site has not said yet what it has and what is idle",
            PlacementHindrance::Unreachable => "the site does not answer",
            PlacementHindrance::Isolated => "too many sites do not answer at once; waiting for one",
            PlacementHindrance::Unusable => "the site is unusable after errors in a row",
            PlacementHindrance::Probing => "the site is being tried out after errors",
            PlacementHindrance::Draining => "the site is being drained",
            PlacementHindrance::Drained => "the site is drained",
            PlacementHindrance::Maintenance => "the site is in a maintenance window",
            PlacementHindrance::CredentialsExpired => "the credentials for the site have expired",
            PlacementHindrance::Frozen => "the site is frozen",
            PlacementHindrance::NoQueue => "components cannot wait in the site's own queue",
            PlacementHindrance::QueueOnly => "components only wait in the site's own queue",
        })
    }
}

/// Describes how many of the idle units are deducted for other plans.
fn deducted_text(pending: u64) -> String {
    match pending {
        0 => String::new(),
        _ => format!(" of which {pending} are deducted"),
    }
}

impl RefusalReason {
    /// Describes a resource that is short now, or before the component would end.
    fn describe_shortage(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusalReason::NotEnoughIdle {
                resource,
                needed,
                idle,
                made_up: 0,
                pending,
                missing,
            } => {
                let deducted = deducted_text(*pending);
                write!(
                    f,
                    "needs {needed} {resource}; {idle} idle{deducted}, {missing} missing"
                )
            }
            RefusalReason::NotEnoughIdle {
                resource,
                needed,
                idle,
                made_up,
                pending,
                missing,
            } => write!(
                f,
                "needs {needed} {resource}; {idle} idle and {made_up} that components before it \
                 lack{}, {missing} missing beyond that",
                match pending {
                    0 => String::new(),
                    _ => format!(", of which {pending} are deducted"),
                }
            ),
            RefusalReason::Reserved {
                resource,
                needed,
                lasts,
                from,
                after,
                reserved,
                idle,
                pending,
            } => {
                write!(
                    f,
                    "needs {needed} {resource} for {lasts}: reserved from {} UTC, in {after}: \
                     {reserved} of {idle}, until then {idle} idle{}",
                    from.time_of_day(),
                    deducted_text(*pending)
                )
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusalReason::NotEnoughIdle { .. } | RefusalReason::Reserved { .. } => self.describe_shortage(f),
            RefusalReason::QuotaReached { resource, needed, usable } => {
                write!(f, "needs {needed} {resource}; the quota leaves {usable}")
            }
            RefusalReason::SiteFull => f.write_str("the site takes no more submissions of ours now"),
            RefusalReason::Waited { lane, wait: PartitionWait { ask, why, .. } } => write!(
                f,
                "{lane} was asked for {} processors for {}, which waited for {why}; only what is \
                 smaller or shorter is claimed there for a while",
                ask.processors, ask.time
            ),
            RefusalReason::StagingFull { needed, left } => {
                write!(f, "its input takes {needed}, and copies may take {left} more there")
            }
            RefusalReason::Avoided => f.write_str("the component failed there by a fault of the site"),
            RefusalReason::OwnerKeptOff(ban) => ban.fmt(f),
            RefusalReason::NoSplit { total, min, sites, usable } => write!(
                f,
                "{total} processors cannot be split into components of at least {min}: \
                 the {sites} site(s) that may take part have {usable} together"
            ),
            RefusalReason::NotInHistory => f.write_str(
                "close-to-files has no pair of this site and one that holds the files (history_seed)",
            ),
            RefusalReason::NoBandwidth { from, to } => {
                write!(
                    f,
                    "its input cannot be brought there: there is no link from {from} to {to}, or it \
                     carries nothing"
                )
            }
            RefusalReason::ReplicaUnreachable { digest, at } => {
                write!(f, "the files at {at}, which has {digest}, cannot be read now")
            }
            RefusalReason::NoReplica { digest } => write!(f, "no site has {digest}"),
            RefusalReason::Closed(hindrance) => hindrance.fmt(f),
            RefusalReason::QuotaTooSmall { resource, needed, quota } => {
                write!(f, "needs {needed} {resource}; the quota allows {quota} at most")
            }
            RefusalReason::TooSmall { resource, needed, largest } => {
                write!(f, "needs {needed} {resource}; one component gets {largest} at most")
            }
            RefusalReason::TooLong { lane, time, longest } => {
                write!(f, "it asks for {time}; {lane} gives a job {longest} at most")
            }
            RefusalReason::NoGflops { needed } => write!(
                f,
                "needs {needed} GFLOPS; those of a processor are not configured there \
                 (gflops_per_processor)"
            ),
            RefusalReason::LabelMismatch(constraint) => write!(f, "the site lacks: {constraint}"),
            RefusalReason::RefusedByBatchSystem(words) => {
                write!(f, "its batch system refuses the component: {words}")
            }
            RefusalReason::ForOtherKeys(keys) => {
                let keys: Vec<&str> = keys.iter().map(KeyName::as_str).collect();
                write!(f, "the site is for keys {}", keys.join(", "))
            }
            RefusalReason::NoSuchSite(site) => write!(f, "the request names {site}, which is not known"),
            RefusalReason::NotTheNamedSite(site) => write!(f, "the request names {site}"),
            RefusalReason::NoSites => f.write_str("no site is configured"),
            RefusalReason::PolicyUnsuited { policy, request } => {
                write!(f, "policy {policy} cannot place {request} requests")
            }
            RefusalReason::PolicyUnknown(policy) => write!(f, "no policy is called {policy}"),
        }
    }
}

/// The refusal of a job: the reason nearest to a placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementRefusal {
    /// The first component, in order of size, that found no site.
    pub component: ComponentIndex,
    /// The site that came nearest; `None` if the reason is not about a site.
    pub site: Option<SiteName>,
    pub reason: RefusalReason,
}

impl fmt::Display for PlacementRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe_with_names(&[]))
    }
}

impl PlacementRefusal {
    /// Describes the refusal, with the component's name if `names` has it, or else its number.
    pub fn describe_with_names(&self, names: &[String]) -> String {
        let name = names.get(self.component.0 as usize).cloned();
        let name = name.unwrap_or_else(|| self.component.to_string());
        let site = self
            .site
            .as_ref()
            .map(|site| format!(" at {site}"))
            .unwrap_or_default();
        format!("component {name}{site}: {}", self.reason)
    }
}

/// A policy's verdict on one site for one component. Where the job is refused, each component is
/// judged together with those before it: at the sites chosen for them, and one that has none at the
/// site nearest to taking it (its worst reason there is the least, of equal ones the fewest are
/// lacking, then the first by name), as if all reasons against it there were lifted and exactly
/// what it lacks were idle. So each verdict adds to those before it. Lifting all reasons makes
/// every component fit at its site in this sense; a policy that then finds another site open may
/// still choose otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteVerdict {
    pub component: ComponentIndex,
    pub site: SiteName,
    /// Processors that were left there when the component had its turn.
    pub remaining_processors: u32,
    /// The estimated time to bring its files there; `None` if they cannot be brought.
    pub transfer_time: Option<DurationMs>,
    pub outcome: SiteSuitability,
}

/// The suitability of a site for a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteSuitability {
    /// The component goes there.
    Chosen,
    /// It could, but the policy prefers another site.
    NotPreferred,
    /// It cannot, for each of these reasons; all of them must be lifted. Worst first.
    Refused(Vec<RefusalReason>),
}

/// An observer of a policy's verdicts on each site for each component.
pub trait VerdictObserver {
    /// Returns true if it wants verdicts; asked before anything is computed for it.
    fn is_listening(&self) -> bool;

    /// Takes one verdict: components come in order of size, sites in order of name.
    fn record_verdict(&mut self, verdict: SiteVerdict);

    /// Takes the answers of all sites to the job, in order of name, if its policy takes bids.
    fn record_bids(&mut self, bids: Vec<SiteBid>);
}

/// An observer that wants nothing, and costs nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentObserver;

impl VerdictObserver for SilentObserver {
    fn is_listening(&self) -> bool {
        false
    }

    fn record_verdict(&mut self, _: SiteVerdict) {}

    fn record_bids(&mut self, _: Vec<SiteBid>) {}
}

/// An observer that keeps every verdict.
#[derive(Debug, Clone, Default)]
pub struct VerdictRecorder {
    /// Verdicts in the order in which they were reached.
    pub verdicts: Vec<SiteVerdict>,
    /// Bids of the latest round.
    pub bids: Vec<SiteBid>,
}

impl VerdictObserver for VerdictRecorder {
    fn is_listening(&self) -> bool {
        true
    }

    fn record_verdict(&mut self, verdict: SiteVerdict) {
        self.verdicts.push(verdict);
    }

    fn record_bids(&mut self, bids: Vec<SiteBid>) {
        self.bids = bids;
    }
}
