//! The dimensions of the virtual map.

use super::answer::Decline;
use super::dimensions;
use super::need::{Need, Offer};

/// Names each dimension once: the file with its index, which is its name too, its axis, and what
/// helps a site that lacks it.
macro_rules! dimensions {
    ($($(#[$doc:meta])+ $dimension:ident = $file:ident on $axis:ident, remedy $remedy:literal;)+) => {
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

            /// What would bring a site nearer that lacks most of it.
            pub fn remedy(self) -> &'static str {
                match self {
                    $(Dimension::$dimension => $remedy),+
                }
            }

            /// How far the site is from what the job needs: 0 or more, 0 where it is met.
            ///
            /// # Errors
            /// The site cannot take part in the round at all.
            pub fn index(self, need: &Need, offer: &Offer) -> Result<f64, Decline> {
                match self {
                    $(Dimension::$dimension => dimensions::$file::index(need, offer)),+
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
}

dimensions! {
    /// Processors, or GFLOPS where the job asks for those.
    Compute = compute on Resources, remedy "more free processors";
    /// Memory.
    Memory = memory on Resources, remedy "more free memory";
    /// Disk.
    Disk = disk on Resources, remedy "more free disk";
    /// What the site could send to all the others.
    Potential = potential on Resources, remedy "faster links to other sites";
    /// How long its input takes to arrive, over how long it runs.
    Data = data on Data, remedy "a copy of the data, or a faster link to it";
}

impl Dimension {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|dimension| dimension.as_str() == name)
    }
}
