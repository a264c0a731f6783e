//! A site under a real Slurm does what every site must do, and what only Slurm makes happen.
//!
//! They need a cluster that nobody else uses and an account on it that is not root's:
//! `COSPAN_TEST_SLURM_CONF` names its configuration file, `COSPAN_TEST_SLURM_ROOT` a directory
//! that its nodes share. Without them each test says that it was skipped.

#[path = "slurm/ground.rs"]
mod ground;

use ground::SlurmGround;

cospan_sites::site_contract!(perhaps SlurmGround::offered);
