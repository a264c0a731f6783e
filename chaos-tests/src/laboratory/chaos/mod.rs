//! Chaos under virtual time: a seed draws a grid, users, and everything that goes
//! wrong; then the faults stop, and all must converge. Oracles read the world's
//! truth, and every change that became durable.

mod accounts;
mod answers;
pub mod campaign;
pub mod coverage;
mod endings;
mod history;
pub mod oracle;
pub mod rarities;
mod rest;
pub mod run;
pub mod scenario;
mod sites;
#[cfg(test)]
mod tests;
mod troubles;
mod users;
