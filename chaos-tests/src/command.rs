//! The commands of `cospan-chaos` that run over the simulator.

pub mod bench;
pub mod deaths;
pub mod run;
