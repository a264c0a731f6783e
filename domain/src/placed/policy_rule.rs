//! The rules by which a policy chooses, which are kept with the job and shown with it.

use std::fmt;

/// A rule of a policy. If several chose for the components of a job, the last one in this order
/// counts for the whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlacementRule {
    /// The request names the site.
    NamedSite,
    /// The site with the most processors left.
    MostLeft,
    /// A site that holds all its files.
    AtFiles,
    /// The pair of execution and file site in the history table whose files arrive first.
    NearestPair,
    /// The first site with room, in a fixed order by size.
    FirstInOrder,
    /// The fewest sites, and of those the best connected.
    BestConnected,
    /// Split over the fewest sites, the largest filled first.
    LargestFilled,
    /// The first allowed split that fits.
    FirstSplit,
    /// The sites nearest to what the job needs.
    Nearest,
}

impl PlacementRule {
    /// All rules.
    pub const ALL: [PlacementRule; 9] = [
        PlacementRule::NamedSite,
        PlacementRule::MostLeft,
        PlacementRule::AtFiles,
        PlacementRule::NearestPair,
        PlacementRule::FirstInOrder,
        PlacementRule::BestConnected,
        PlacementRule::LargestFilled,
        PlacementRule::FirstSplit,
        PlacementRule::Nearest,
    ];

    /// Returns its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            PlacementRule::NamedSite => "named-site",
            PlacementRule::MostLeft => "most-left",
            PlacementRule::AtFiles => "at-files",
            PlacementRule::NearestPair => "nearest-pair",
            PlacementRule::FirstInOrder => "first-in-order",
            PlacementRule::BestConnected => "best-connected",
            PlacementRule::LargestFilled => "largest-filled",
            PlacementRule::FirstSplit => "first-split",
            PlacementRule::Nearest => "nearest",
        }
    }
}

impl fmt::Display for PlacementRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlacementRule::NamedSite => "the request names the site",
            PlacementRule::MostLeft => "the site with the most processors left",
            PlacementRule::AtFiles => "a site that holds its files",
            PlacementRule::NearestPair => "the known pair of sites whose files arrive first",
            PlacementRule::FirstInOrder => "the first site with room, the largest first",
            PlacementRule::BestConnected => "the fewest sites, and of those the best connected",
            PlacementRule::LargestFilled => "split over the fewest sites, the largest filled first",
            PlacementRule::FirstSplit => "the first allowed split that fits",
            PlacementRule::Nearest => "the site nearest to what the job needs",
        })
    }
}
