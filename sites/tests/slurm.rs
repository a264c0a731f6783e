//! A site under a real Slurm does what every site must do, and what only Slurm makes happen.
//!
//! They need a cluster that nobody else uses and an account on it that is not root's:
//! `COSPAN_TEST_SLURM_CONF` names its configuration file, `COSPAN_TEST_SLURM_ROOT` a directory
//! that its nodes share. Without them each test says that it was skipped. `COSPAN_TEST_SLURM_SSH`
//! names a host by which that cluster is reached over SSH under the same account, and
//! `COSPAN_TEST_SLURM_SSH_CONFIG` a configuration file that knows it. `COSPAN_TEST_SITE_AGENT` is
//! a copy of the program that moves files, where that account can't read what cargo built.

#![allow(clippy::unwrap_used, reason = "a test program")]

mod slurm {
    mod attacks;
    mod cuts;
    mod directories;
    mod ends;
    pub mod fixture;
}

use slurm::fixture::SlurmSiteFixture;

cospan_sites::site_contract!(perhaps SlurmSiteFixture::offered);

mod over_ssh {
    use crate::slurm::fixture::SlurmSiteFixture;

    cospan_sites::site_contract!(perhaps SlurmSiteFixture::offered_over_ssh);
}
