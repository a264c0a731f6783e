//! Free room on the disk of the server's data, measured whenever the metrics are read.

use std::path::PathBuf;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Registry};

/// The disk of the data directory.
struct DataDisk {
    directory: PathBuf,
    free: IntGauge,
    size: IntGauge,
}

/// Exports metrics of the disk that a directory lies on.
///
/// # Errors
/// The names are taken.
pub fn register(registry: &Registry, directory: PathBuf) -> prometheus::Result<()> {
    let free = IntGauge::new(
        "cospan_data_directory_free_bytes",
        "Room left for the server on the disk of its data directory.",
    )?;
    let size = IntGauge::new(
        "cospan_data_directory_size_bytes",
        "Size of the disk that the data directory is on.",
    )?;
    registry.register(Box::new(DataDisk {
        directory,
        free,
        size,
    }))
}

impl Collector for DataDisk {
    fn desc(&self) -> Vec<&Desc> {
        self.free
            .desc()
            .into_iter()
            .chain(self.size.desc())
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // A disk that cannot be examined is not a full disk: no metric is shown.
        let Ok(disk) = rustix::fs::statvfs(&self.directory) else {
            return Vec::new();
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let size = disk.f_blocks.saturating_mul(disk.f_frsize);
        self.free.set(i64::try_from(free).unwrap_or(i64::MAX));
        self.size.set(i64::try_from(size).unwrap_or(i64::MAX));
        self.free
            .collect()
            .into_iter()
            .chain(self.size.collect())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(directory: PathBuf) -> Vec<(String, f64)> {
        let registry = Registry::new();
        register(&registry, directory).unwrap();
        let families = registry.gather();
        let value = |family: &MetricFamily| family.get_metric()[0].get_gauge().get_value();
        families
            .iter()
            .map(|family| (family.name().to_owned(), value(family)))
            .collect()
    }

    #[test]
    fn the_disk_of_the_data_directory_is_shown_while_it_is_there() {
        let home = tempfile::tempdir().unwrap();
        let shown_now = shown(home.path().into());
        let [(free_name, free), (_, size)] = &shown_now[..] else {
            panic!("{shown_now:?}")
        };
        assert_eq!(free_name, "cospan_data_directory_free_bytes");
        assert!(*free > 0.0 && free <= size, "{shown_now:?}");
        assert!(shown(home.path().join("gone")).is_empty());
    }
}
