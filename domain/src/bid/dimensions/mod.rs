//! The dimensions of the virtual map, one file for each: its index, and what would bring a site
//! nearer. To add one, add its file and one line in the list below.

use super::answer::Decline;
use super::need::{BidNeed, SiteMeans};

/// Names each dimension once: the file with its index, which is its name too, and its axis.
macro_rules! dimensions {
    ($($(#[$doc:meta])+ $dimension:ident = $file:ident on $axis:ident;)+) => {
        $(mod $file;)+

        /// One thing of which a site may have too little.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Dimension {
            $($(#[$doc])+ $dimension),+
        }

        impl Dimension {
            /// All of them.
            pub const ALL: &[Dimension] = &[$(Dimension::$dimension),+];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Its name in job files, configuration and tables.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Dimension::$dimension => stringify!($file)),+
                }
            }

            /// To which axis of the map it adds.
            pub fn axis(self) -> Axis {
                match self {
                    $(Dimension::$dimension => Axis::$axis),+
                }
            }

            /// How far the site is from what the job needs: 0 or more, 0 where it is met.
            ///
            /// # Errors
            /// The site cannot take part in the round at all.
            pub fn index(self, need: &BidNeed, offer: &SiteMeans) -> Result<f64, Decline> {
                match self {
                    $(Dimension::$dimension => $file::index(need, offer)),+
                }
            }

            /// What would bring a site nearer that lacks some of it.
            pub(super) fn remedy(self, need: &BidNeed, offer: &SiteMeans, goal: &Goal<'_>) -> String {
                match self {
                    $(Dimension::$dimension => $file::remedy(need, offer, goal)),+
                }
            }
        }
    };
}

/// An axis of the virtual map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// What the site has: the computation index, x.
    Resources,
    /// What its input costs: the data index, y.
    Data,
    /// Anything else, which no drawing shows: it adds to the distance alone.
    Further,
}

/// What a site's remedy in one dimension is to come to.
pub(super) struct Goal<'a> {
    /// The index with which it would be as near as the nearest site; `None` if it is that
    /// site, or would not be as near even with 0.
    pub(super) index: Option<f64>,
    /// Names a site by its index.
    pub(super) name: &'a dyn Fn(usize) -> String,
}

dimensions! {
    /// Processors, or GFLOPS where the job asks for those.
    Compute = compute on Resources;
    /// Memory.
    Memory = memory on Resources;
    /// Disk.
    Disk = disk on Resources;
    /// What the site could send to all the others.
    Potential = potential on Resources;
    /// How long its input takes to arrive, over how long it runs.
    Data = data on Data;
}

impl Dimension {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|dimension| dimension.as_str() == name)
    }
}

/// The share of what is asked for that is lacking: 0 where it is met or nothing is asked for,
/// 1 where there is nothing. More than is asked for is not rewarded.
fn lacking(free: f64, asked: f64) -> f64 {
    if asked > 0.0 {
        (1.0 - free / asked).max(0.0)
    } else {
        0.0
    }
}
