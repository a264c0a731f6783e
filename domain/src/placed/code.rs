//! Stable codes of reasons why a component is not at a site.

/// Codes of reasons, nearest to a placement first: what may pass by itself
/// comes before what needs an operator, and that before what never changes.
/// The order ranks reasons; the names are part of the API and of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each is explained at the variant of `Reason` with its name")]
pub enum ReasonCode {
    NotEnoughIdle,
    QuotaReached,
    SiteFull,
    StagingFull,
    Avoided,
    NoSplit,
    NotInHistory,
    NoBandwidth,
    ReplicaUnreachable,
    NoReplica,
    Probing,
    Isolated,
    SiteUnreachable,
    SiteUnknown,
    Maintenance,
    Frozen,
    Draining,
    Drained,
    CredentialsExpired,
    SiteUnusable,
    NoQueue,
    QuotaTooSmall,
    TooSmall,
    LabelMismatch,
    NoSuchSite,
    NotTheNamedSite,
    NoSites,
    PolicyUnsuited,
    PolicyUnknown,
}

impl ReasonCode {
    /// All of them, in order.
    pub const ALL: [ReasonCode; 29] = [
        ReasonCode::NotEnoughIdle,
        ReasonCode::QuotaReached,
        ReasonCode::SiteFull,
        ReasonCode::StagingFull,
        ReasonCode::Avoided,
        ReasonCode::NoSplit,
        ReasonCode::NotInHistory,
        ReasonCode::NoBandwidth,
        ReasonCode::ReplicaUnreachable,
        ReasonCode::NoReplica,
        ReasonCode::Probing,
        ReasonCode::Isolated,
        ReasonCode::SiteUnreachable,
        ReasonCode::SiteUnknown,
        ReasonCode::Maintenance,
        ReasonCode::Frozen,
        ReasonCode::Draining,
        ReasonCode::Drained,
        ReasonCode::CredentialsExpired,
        ReasonCode::SiteUnusable,
        ReasonCode::NoQueue,
        ReasonCode::QuotaTooSmall,
        ReasonCode::TooSmall,
        ReasonCode::LabelMismatch,
        ReasonCode::NoSuchSite,
        ReasonCode::NotTheNamedSite,
        ReasonCode::NoSites,
        ReasonCode::PolicyUnsuited,
        ReasonCode::PolicyUnknown,
    ];

    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            ReasonCode::NotEnoughIdle => "not-enough-idle",
            ReasonCode::QuotaReached => "quota-reached",
            ReasonCode::SiteFull => "site-full",
            ReasonCode::StagingFull => "staging-full",
            ReasonCode::Avoided => "avoided-after-error",
            ReasonCode::NoSplit => "no-split",
            ReasonCode::NotInHistory => "not-in-history",
            ReasonCode::NoBandwidth => "no-bandwidth",
            ReasonCode::ReplicaUnreachable => "replica-unreachable",
            ReasonCode::NoReplica => "no-replica",
            ReasonCode::Probing => "probing",
            ReasonCode::Isolated => "isolated",
            ReasonCode::SiteUnreachable => "site-unreachable",
            ReasonCode::SiteUnknown => "site-unknown",
            ReasonCode::Maintenance => "maintenance",
            ReasonCode::Frozen => "frozen",
            ReasonCode::Draining => "draining",
            ReasonCode::Drained => "drained",
            ReasonCode::CredentialsExpired => "credentials-expired",
            ReasonCode::SiteUnusable => "site-unusable",
            ReasonCode::NoQueue => "no-queue",
            ReasonCode::QuotaTooSmall => "quota-too-small",
            ReasonCode::TooSmall => "too-small",
            ReasonCode::LabelMismatch => "label-mismatch",
            ReasonCode::NoSuchSite => "no-such-site",
            ReasonCode::NotTheNamedSite => "not-the-named-site",
            ReasonCode::NoSites => "no-sites",
            ReasonCode::PolicyUnsuited => "policy-unsuited",
            ReasonCode::PolicyUnknown => "policy-unknown",
        }
    }
}
