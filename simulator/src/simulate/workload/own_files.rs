//! Files that a single job reads.

use cospan_domain::ids::{IdentifierError, LogicalName};
use cospan_domain::units::Bytes;
use rand::Rng;
use rand::seq::SliceRandom;

use super::WorkloadJob;
use crate::simulate::random_streams::random_stream;
use cospan_api::v1::Size;

/// Files that a single job reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFileSettings {
    /// Their sizes: each entry is equally likely. Not empty.
    pub sizes: Vec<Bytes>,
    /// Number of sites where each lies, at least 1; all sites if there are fewer.
    pub replicas: u32,
}

/// A file at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnReplica {
    pub name: LogicalName,
    pub size: Bytes,
    /// The index of its site in the grid.
    pub site: usize,
}

impl OwnFileSettings {
    /// Names the file of each job as its input, and draws its sites. With more replicas a file lies
    /// where it was with fewer, and elsewhere too.
    ///
    /// # Errors
    /// Never: the names of jobs make names of files.
    pub fn assign_files(
        &self,
        jobs: &mut [WorkloadJob],
        sites: usize,
        seed: u64,
    ) -> Result<Vec<OwnReplica>, IdentifierError> {
        let mut rng = random_stream(seed, "own files", "workload");
        let mut order: Vec<usize> = (0..sites).collect();
        let mut replicas = Vec::new();
        for job in jobs {
            let name = LogicalName::new(&format!("file-of-job-{}", job.name))?;
            let size = self.sizes[rng.random_range(0..self.sizes.len())];
            order.sort();
            order.shuffle(&mut rng);
            let at = order.iter().take(self.replicas as usize);
            replicas.extend(at.map(|site| OwnReplica {
                name: name.clone(),
                size,
                site: *site,
            }));
            job.input = Some(name);
        }
        Ok(replicas)
    }

    /// Describes the files, as part of a line.
    pub fn describe(&self) -> String {
        let sizes: Vec<String> = self
            .sizes
            .iter()
            .map(|size| Size(*size).to_string())
            .collect();
        let places = if self.replicas == 1 {
            "place"
        } else {
            "places"
        };
        format!(
            "a file of {} each, in {} {places}",
            sizes.join("|"),
            self.replicas
        )
    }
}
