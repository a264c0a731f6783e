//! Every section and option of the configuration.

mod running;
mod serving;
mod sites;

pub use running::{Basis, BidKind, Claim, Class, Placement, PriorityRule, Queue};
pub use serving::{
    Chaos, Client, Engine, Limits, Log, LogFormat, Notify, Reservations, Server, Store,
};
pub use sites::{Link, Site, SiteAcquisition, SiteDefaults, SiteKind};
