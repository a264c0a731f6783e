//! The list of codes of reasons.

use std::collections::BTreeSet;

use crate::placed::ReasonCode;
use crate::placed::ReasonCode::*;

/// What comes after a code: one that is new does not compile here before it has its place.
fn next_code(code: ReasonCode) -> Option<ReasonCode> {
    match code {
        NotEnoughIdle => Some(Reserved),
        Reserved => Some(QuotaReached),
        QuotaReached => Some(SiteFull),
        SiteFull => Some(Waited),
        Waited => Some(StagingFull),
        StagingFull => Some(Avoided),
        Avoided => Some(OwnerKeptOff),
        OwnerKeptOff => Some(NoSplit),
        NoSplit => Some(NotInHistory),
        NotInHistory => Some(NoBandwidth),
        NoBandwidth => Some(ReplicaUnreachable),
        ReplicaUnreachable => Some(NoReplica),
        NoReplica => Some(Probing),
        Probing => Some(Isolated),
        Isolated => Some(SiteUnreachable),
        SiteUnreachable => Some(SiteUnknown),
        SiteUnknown => Some(Maintenance),
        Maintenance => Some(Frozen),
        Frozen => Some(Draining),
        Draining => Some(Drained),
        Drained => Some(CredentialsExpired),
        CredentialsExpired => Some(SiteUnusable),
        SiteUnusable => Some(QueueOnly),
        QueueOnly => Some(NoQueue),
        NoQueue => Some(QuotaTooSmall),
        QuotaTooSmall => Some(TooSmall),
        TooSmall => Some(TooLong),
        TooLong => Some(NoGflops),
        NoGflops => Some(LabelMismatch),
        LabelMismatch => Some(RefusedByBatchSystem),
        RefusedByBatchSystem => Some(ForOtherKeys),
        ForOtherKeys => Some(NoSuchSite),
        NoSuchSite => Some(NotTheNamedSite),
        NotTheNamedSite => Some(NoSites),
        NoSites => Some(PolicyUnsuited),
        PolicyUnsuited => Some(PolicyUnknown),
        PolicyUnknown => None,
    }
}

#[test]
fn all_codes_are_listed_once_in_their_order() {
    let listed: Vec<ReasonCode> =
        std::iter::successors(Some(NotEnoughIdle), |code| next_code(*code)).collect();
    assert_eq!(ReasonCode::ALL.to_vec(), listed);
    assert!(listed.is_sorted(), "the order ranks reasons");
    let names: BTreeSet<&str> = listed.iter().map(|code| code.as_str()).collect();
    assert_eq!(names.len(), listed.len(), "two codes have one name");
}
