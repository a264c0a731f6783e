//! The disciplines against a slow reference, and their promises by themselves.

mod disciplines;
mod operation;
mod promises;
mod reference;
mod trace;
