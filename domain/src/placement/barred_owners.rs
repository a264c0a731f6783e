//! Owners who are barred at some sites, which accept the jobs of everybody else.

use super::grid::GridSite;
use super::placement_request::PlacementRequest;
use crate::ids::KeyName;
use crate::site::barred_owners_record::OwnerBan;

impl PlacementRequest {
    /// Marks the request as that of an owner who may be barred at some site.
    pub fn with_owner(mut self, owner: &KeyName) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Returns its owner, if any site may bar that owner alone.
    pub fn owner(&self) -> Option<&KeyName> {
        self.owner.as_ref()
    }
}

impl GridSite {
    /// Returns what bars this owner, and nobody else, from the site.
    pub fn ban_of_owner(&self, owner: Option<&KeyName>) -> Option<&OwnerBan> {
        let mut bans = self
            .bans
            .iter()
            .filter(|(kept_off, _)| Some(kept_off) == owner);
        bans.next().map(|(_, ban)| ban)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placed::ReasonCode;
    use crate::placement::testing::{grid, open_site, place_on_grid, request_of_sizes, sites_of};

    #[test]
    fn a_site_that_is_closed_to_one_owner_takes_the_others_jobs() {
        let mallory = KeyName::new("mallory").unwrap();
        let mut delft = open_site("delft", 8);
        delft.bans = [(mallory.clone(), OwnerBan::Probed)].into();
        let anybodys = request_of_sizes(&[4]);
        let theirs = anybodys.clone().with_owner(&mallory);
        let others = anybodys.clone().with_owner(&KeyName::new("alice").unwrap());
        let alone = grid([delft.clone()]);
        for request in [&anybodys, &others] {
            assert!(place_on_grid(request, &alone).is_ok());
        }
        let refusal = place_on_grid(&theirs, &alone).unwrap_err();
        assert_eq!(refusal.reason.code(), ReasonCode::OwnerKeptOff);
        let plan = place_on_grid(&theirs, &grid([delft, open_site("leiden", 4)])).unwrap();
        assert_eq!(sites_of(&plan), ["leiden"]);
    }
}
