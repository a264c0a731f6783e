//! The file side of a site, with real agents that are killed, starved and lied to.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "files/agents.rs"]
mod agents;
#[path = "files/chunks.rs"]
mod chunks;
#[path = "files/copies.rs"]
mod copies;
#[path = "files/hostile.rs"]
mod hostile;
#[path = "files/kills.rs"]
mod kills;
#[path = "files/store.rs"]
mod store;
#[path = "files/trees.rs"]
mod trees;
#[path = "files/world.rs"]
mod world;
