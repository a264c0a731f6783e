//! The dimensions of the virtual map, one file for each: its index, and what would bring a site
//! nearer. To add one, add its file and one line in the list below.

use super::needs_and_means::{BidNeed, SiteSupply};
use super::site_bid::BidRefusal;

/// Names each dimension once: the file with its index, which is also its name, and its axis.
macro_rules! dimensions {
    ($($(#[$doc:meta])+ $dimension:ident = $file:ident on $axis:ident;)+) => {
        $(mod $file;)+

        /// A resource of which a site may have too little.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Dimension {
            $($(#[$doc])+ $dimension),+
        }

        impl Dimension {
            /// All dimensions.
            pub const ALL: &[Dimension] = &[$(Dimension::$dimension),+];

            /// The number of dimensions.
            pub const COUNT: usize = Self::ALL.len();

            /// Returns its name in job files, configuration and tables.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Dimension::$dimension => stringify!($file)),+
                }
            }

            /// Returns the axis of the map to which it adds.
            pub fn axis(self) -> MapAxis {
                match self {
                    $(Dimension::$dimension => MapAxis::$axis),+
                }
            }

            /// Returns the distance of the site from what the job needs: 0 or more, and 0 where the
            /// need is met.
            ///
            /// # Errors
            /// The site cannot take part in the round at all.
            pub fn index(self, need: &BidNeed, offer: &SiteSupply) -> Result<f64, BidRefusal> {
                match self {
                    $(Dimension::$dimension => $file::index(need, offer)),+
                }
            }

            /// Describes what would bring a site nearer that lacks some of it.
            pub(super) fn remedy(self, need: &BidNeed, offer: &SiteSupply, goal: &RemedyGoal<'_>) -> String {
                match self {
                    $(Dimension::$dimension => $file::remedy(need, offer, goal)),+
                }
            }
        }
    };
}

/// An axis of the virtual map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapAxis {
    /// The site's resources: the computation index, x.
    Resources,
    /// The cost of its input: the data index, y.
    Data,
    /// Anything else, which no drawing shows; it adds to the distance alone.
    Further,
}

/// The goal of a remedy in one dimension.
pub(super) struct RemedyGoal<'a> {
    /// The index with which the site would be as near as the nearest one; `None` if it is that
    /// site, or would not get as near even with 0.
    pub(super) index: Option<f64>,
    /// Returns the name of a site by its index.
    pub(super) name: &'a dyn Fn(usize) -> String,
}

dimensions! {
    /// Processors, or GFLOPS where the job asks for those.
    Compute = compute on Resources;
    /// Memory.
    Memory = memory on Resources;
    /// Disk.
    Disk = disk on Resources;
    /// Bandwidth from the site to all others.
    Potential = potential on Resources;
    /// Time to bring the input, over the run time.
    Data = data on Data;
}

impl Dimension {
    /// Returns the dimension of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|dimension| dimension.as_str() == name)
    }
}

/// Returns the share of what is asked for that is lacking: 0 where it is met or nothing is asked
/// for, 1 where there is nothing. Having more than is asked for is not rewarded.
fn lacking_share(free: f64, asked: f64) -> f64 {
    if asked > 0.0 {
        (1.0 - free / asked).max(0.0)
    } else {
        0.0
    }
}
