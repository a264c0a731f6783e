//! The resources of this machine that we may use: for sites whose configuration names none.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cospan_domain::units::Bytes;

/// Vendors of processors for computing in a `vendor` file, as PCI numbers them: a card of
/// any other drives displays.
const NVIDIA: &str = "0x10de";
const AMD: &str = "0x1002";

/// The resources that were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachineResources {
    /// Memory of the machine, or of the control group that we are in, if that is less.
    pub memory: Bytes,
    /// Graphics processors.
    pub gpus: u64,
}

impl MachineResources {
    /// Inspects this machine.
    pub fn this_machine() -> Self {
        Self::inspect_below(Path::new("/"))
    }

    /// Inspects the machine whose `/proc`, `/sys` and `/dev` are below a directory.
    fn inspect_below(root: &Path) -> Self {
        Self {
            memory: usable_memory(root),
            gpus: count_gpus(root),
        }
    }
}

/// Returns the device of a directory's file system, and the free bytes on it. The
/// directory need not exist yet.
///
/// # Errors
/// It cannot be found out.
pub fn free_space_for(directory: &Path) -> io::Result<(u64, Bytes)> {
    let there = directory
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    let space = rustix::fs::statvfs(there)?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    Ok((fs::metadata(there)?.dev(), Bytes(free)))
}

fn usable_memory(root: &Path) -> Bytes {
    let info = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let kib = info.lines().find_map(|line| {
        let amount = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?;
        amount.trim().parse::<u64>().ok()
    });
    let installed = kib.unwrap_or(0).saturating_mul(1024);
    Bytes(memory_limit(root).map_or(installed, |limit| limit.min(installed)))
}

/// Returns the least that the control group that we are in, and those around it, may use.
fn memory_limit(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            of if of.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let mount = root.join(mount);
        let group = mount.join(path.trim_start_matches('/'));
        let around = group
            .ancestors()
            .take_while(|path| path.starts_with(&mount));
        around
            .filter_map(|path| read_number(&path.join(file)))
            .min()
    });
    limits.min()
}

/// Reads a number; `None` if there is no such file, or it says `max`.
fn read_number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Counts graphics processors: those of NVIDIA by the devices that their driver makes, or else by
/// their cards; those of AMD by their cards.
fn count_gpus(root: &Path) -> u64 {
    let devices = entry_names(&root.join("dev"));
    let devices = devices
        .iter()
        .filter(|name| is_numbered(name, "nvidia"))
        .count();
    let drm = root.join("sys/class/drm");
    let cards: Vec<PathBuf> = entry_names(&drm)
        .iter()
        .filter(|name| is_numbered(name, "card"))
        .map(|name| drm.join(name).join("device/vendor"))
        .collect();
    (devices.max(count_cards(&cards, NVIDIA)) + count_cards(&cards, AMD)) as u64
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    let number = name.strip_prefix(prefix);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn count_cards(cards: &[PathBuf], vendor: &str) -> usize {
    cards
        .iter()
        .filter(|file: &&PathBuf| {
            fs::read_to_string(file).is_ok_and(|text| text.trim().eq_ignore_ascii_case(vendor))
        })
        .count()
}

fn entry_names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of these files.
    fn machine_of_files(files: &[(&str, &str)]) -> MachineResources {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        MachineResources::inspect_below(root.path())
    }

    const INFO: (&str, &str) = ("proc/meminfo", "MemFree: 1 kB\nMemTotal:  8000000 kB\n");

    #[test]
    fn memory_is_what_is_installed_unless_a_control_group_leaves_less() {
        let memory = |files: &[(&str, &str)]| machine_of_files(files).memory.0;
        assert_eq!(memory(&[INFO]), 8_192_000_000);
        let group = ("proc/self/cgroup", "0::/system.slice/cospan.service\n");
        let own = "sys/fs/cgroup/system.slice/cospan.service/memory.max";
        let slice = "sys/fs/cgroup/system.slice/memory.max";
        assert_eq!(memory(&[INFO, group, (own, "max\n")]), 8_192_000_000);
        assert_eq!(
            memory(&[INFO, group, (own, "max\n"), (slice, "3000\n")]),
            3_000
        );
        assert_eq!(
            memory(&[INFO, group, (own, "2000\n"), (slice, "3000\n")]),
            2_000
        );
        // As a container sees its own group.
        let inside = [
            INFO,
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "5\n"),
        ];
        assert_eq!(memory(&inside), 5);
        let old = ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/job\n");
        let limit = ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "7\n");
        assert_eq!(memory(&[INFO, old, limit]), 7);
        assert_eq!(memory(&[]), 0, "what cannot be found out is not promised");
    }

    #[test]
    fn graphics_processors_are_told_from_what_only_drives_displays() {
        let gpus = |files: &[(&str, &str)]| machine_of_files(files).gpus;
        let devices = [
            ("dev/nvidia0", ""),
            ("dev/nvidia1", ""),
            ("dev/nvidiactl", ""),
        ];
        assert_eq!(gpus(&devices), 2);
        let card = |name: &str| format!("sys/class/drm/{name}/device/vendor");
        let first = card("card0");
        let second = card("card1");
        let vendors = [(first.as_str(), "0x10de\n"), (second.as_str(), "0x10de\n")];
        assert_eq!(
            gpus(&[devices.as_slice(), &vendors].concat()),
            2,
            "counted once"
        );
        assert_eq!(
            gpus(&[(first.as_str(), "0x1002\n"), (second.as_str(), "0x1a03\n")]),
            1
        );
        assert_eq!(
            gpus(&[(card("card0-HDMI-A-1").as_str(), "0x1002\n")]),
            0,
            "a plug"
        );
        assert_eq!(gpus(&[(first.as_str(), "0x8086\n")]), 0);
    }

    #[test]
    fn room_is_that_of_the_file_system_though_the_directory_is_not_there_yet() {
        let home = tempfile::tempdir().unwrap();
        let (device, room) = free_space_for(&home.path().join("not/there")).unwrap();
        assert_eq!(device, fs::metadata(home.path()).unwrap().dev());
        assert!(room > Bytes(0));
    }
}
