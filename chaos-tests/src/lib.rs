//! Kills, crashes and site faults against the real server, and the oracle that
//! judges what is left.
//!
//! The payloads themselves write what they did into a ledger that the control plane never sees; see
//! [`payload`]. The oracle compares it with the sites' directories, the processes of the machine,
//! and the histories in the server; see [`oracle`].

pub mod api;
pub mod bugs;
pub mod command;
pub mod differ;
pub mod disk;
pub mod evidence;
pub mod faults;
pub mod kills;
pub mod load;
pub mod local_users;
pub mod oracle;
pub mod parallel;
pub mod payload;
pub mod points;
pub mod port;
pub mod power;
pub mod round_history;
pub mod seeds;
pub mod server;
pub mod settle;
pub mod shared_points;
pub mod state_counts;
pub mod stimulus;
pub mod test_environment;
pub mod webhook;
pub mod workload;
