//! The commands of `cospan-chaos` that run over the simulator.

pub mod bench;
pub mod deaths_command;
pub mod run_command;
