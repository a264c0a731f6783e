//! A site under a real Slurm does what every site must do, and what only Slurm makes happen.
//!
//! They need clusters that nobody else uses and an account on them that is not root's:
//! `COSPAN_TEST_SLURM_CONF` names their configuration files, with colons in between,
//! `COSPAN_TEST_SLURM_ROOT` a directory that all nodes share. Each test takes a cluster for itself:
//! as many run at the same time as there are. Without them each test says that it was skipped.
//! `COSPAN_TEST_SLURM_SSH` names a host by which they are reached over SSH under the same account,
//! and `COSPAN_TEST_SLURM_SSH_CONFIG` a configuration file that knows it.
//! `COSPAN_TEST_SLURM_ORDERS` names a directory where orders to controllers are left, below their
//! clusters' names. `COSPAN_TEST_SLURM_GRANTING` is the configuration file of one whose Slurm runs
//! as that account, which may make reservations there. `COSPAN_TEST_SLURM_NOEXEC` is a directory of
//! that account on a file system that is mounted noexec.
//! `COSPAN_TEST_SITE_AGENT` is a copy of the program that moves files, where that account can't
//! read what cargo built.

#![allow(clippy::unwrap_used, reason = "a test program")]

mod slurm {
    mod check_tests;
    mod cuts;
    mod directories;
    mod ends_tests;
    pub mod fixture;
    mod identity_tests;
    mod outages;
    mod scripts;
    mod shapes;
    mod slurm_attack_tests;
    mod slurm_reservation_tests;
}

use slurm::fixture::SlurmSiteFixture;

cospan_sites::site_contract!(perhaps SlurmSiteFixture::offered);

mod over_ssh {
    use crate::slurm::fixture::SlurmSiteFixture;

    cospan_sites::site_contract!(perhaps SlurmSiteFixture::offered_over_ssh);
}
