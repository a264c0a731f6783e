//! What is asked of `cospan-chaos` that runs over the simulator.

pub mod bench;
pub mod deaths;
pub mod run;
