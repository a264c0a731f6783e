//! By which rule a policy chose: kept with the job, and shown with it.

use std::fmt;

/// A rule of a policy. Of several that chose for the components of a job the last in this
/// order counts for the whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The request names the site.
    NamedSite,
    /// The site with the most processors left.
    MostLeft,
    /// A site that holds all its files.
    AtFiles,
    /// The pair of execution and file site in the history table whose files arrive first.
    NearestPair,
    /// The first site with room, in an order by size that is kept.
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

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 9] = [
        Rule::NamedSite,
        Rule::MostLeft,
        Rule::AtFiles,
        Rule::NearestPair,
        Rule::FirstInOrder,
        Rule::BestConnected,
        Rule::LargestFilled,
        Rule::FirstSplit,
        Rule::Nearest,
    ];

    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Rule::NamedSite => "named-site",
            Rule::MostLeft => "most-left",
            Rule::AtFiles => "at-files",
            Rule::NearestPair => "nearest-pair",
            Rule::FirstInOrder => "first-in-order",
            Rule::BestConnected => "best-connected",
            Rule::LargestFilled => "largest-filled",
            Rule::FirstSplit => "first-split",
            Rule::Nearest => "nearest",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::NamedSite => "the request names the site",
            Rule::MostLeft => "the site with the most processors left",
            Rule::AtFiles => "a site that holds its files",
            Rule::NearestPair => "the known pair of sites whose files arrive first",
            Rule::FirstInOrder => "the first site with room, the largest first",
            Rule::BestConnected => "the fewest sites, and of those the best connected",
            Rule::LargestFilled => "split over the fewest sites, the largest filled first",
            Rule::FirstSplit => "the first allowed split that fits",
            Rule::Nearest => "the site nearest to what the job needs",
        })
    }
}
