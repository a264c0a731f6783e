//! Chaos under virtual time: a seed draws a grid, users, and everything that goes
//! wrong; then the faults stop, and all must converge. Oracles read the world's
//! truth, and every change that became durable.

pub mod campaign;
mod history;
pub mod oracle;
pub mod run;
pub mod scenario;
#[cfg(test)]
mod tests;
mod users;
