//! The memory limit of this process.

use std::fs;
use std::path::{Path, PathBuf};

use cospan_domain::units::Bytes;
use rustix::process::{Resource, getrlimit};

/// The limit if none is known.
const UNKNOWN: Bytes = Bytes(1 << 30);

/// Returns the smallest of the machine's memory, the limits of this process's control groups, and
/// its resource limits.
pub(crate) fn memory_limit() -> Bytes {
    let limits = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current);
    let limits = limits.into_iter().flatten().map(Bytes);
    limits
        .chain(system_limits(Path::new("/")))
        .min()
        .unwrap_or(UNKNOWN)
}

/// Lists the limits in the system files below `root`.
fn system_limits(root: &Path) -> impl Iterator<Item = Bytes> {
    let memory = fs::read_to_string(root.join("proc/meminfo")).ok();
    let memory = memory.as_deref().and_then(parse_total);
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let files: Vec<PathBuf> = groups
        .lines()
        .flat_map(|line| limit_files(root, line))
        .collect();
    let groups = files.into_iter().filter_map(|file| {
        // "max", and the huge number for it in the first version, set no limit.
        fs::read_to_string(file)
            .ok()?
            .trim()
            .parse()
            .ok()
            .map(Bytes)
    });
    memory.into_iter().chain(groups)
}

/// Parses a line like `MemTotal:  24576000 kB`.
fn parse_total(meminfo: &str) -> Option<Bytes> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kb: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(Bytes(kb.checked_mul(1_024)?))
}

/// Lists the files with the limits of a control group and of those around it: `0::/a/b` in the
/// second version, `9:memory:/a/b` in the first. In a container the path may be the one outside,
/// and the limit is at the top.
fn limit_files(root: &Path, line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (top, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    groups
        .map(|group| root.join(top).join(group).join(file))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least_limit(files: &[(&str, &str)]) -> Option<Bytes> {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        system_limits(root.path()).min()
    }

    const MACHINE: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       24576000 kB\nMemFree:         1000 kB\n",
    );

    #[test]
    fn the_tightest_control_group_bounds_what_the_machine_has() {
        assert_eq!(least_limit(&[MACHINE]), Some(Bytes(24_576_000 * 1_024)));
        let group = ("proc/self/cgroup", "0::/system.slice/cospan.service\n");
        let own = |text| ("sys/fs/cgroup/system.slice/cospan.service/memory.max", text);
        let above = ("sys/fs/cgroup/system.slice/memory.max", "600000000\n");
        assert_eq!(
            least_limit(&[MACHINE, group, own("max\n")]),
            Some(Bytes(24_576_000 * 1_024))
        );
        assert_eq!(
            least_limit(&[MACHINE, group, own("700000000\n")]),
            Some(Bytes(700_000_000))
        );
        assert_eq!(
            least_limit(&[MACHINE, group, own("700000000\n"), above]),
            Some(Bytes(600_000_000))
        );
    }

    #[test]
    fn control_groups_of_the_first_version_and_of_containers_count_too() {
        let group = (
            "proc/self/cgroup",
            "9:cpu,memory:/docker/1f\n1:name=systemd:/x\n",
        );
        let top = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "500000000\n");
        assert_eq!(
            least_limit(&[MACHINE, group, top]),
            Some(Bytes(500_000_000))
        );
    }

    #[test]
    fn where_nothing_says_how_much_there_is_nothing_is_made_up() {
        assert_eq!(
            least_limit(&[("proc/meminfo", "nonsense"), ("proc/self/cgroup", "::")]),
            None
        );
    }
}
