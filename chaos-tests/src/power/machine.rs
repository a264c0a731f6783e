//! A power cut: a file system on an image, mounted by loop, and a server whose processes all end at
//! once.
//!
//! Data that was written to a file and not to the disk is in the page cache of the mounted file
//! system and nowhere in its image, so a copy of the image has just what a power cut leaves of a
//! disk that keeps what it was given. Data in a cache of the disk's own, which a real disk may
//! lose, is not lost here. All writers are stopped, and the copy counts only if nothing was written
//! to the loop device while it was made: so it is of one moment. Nothing is synced for it, as a
//! frozen file system would be.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Uploads leave some 256 MB of a disk free.
const IMAGE_BYTES: u64 = 512 << 20;
/// Set when this process has mounts of its own already.
const APART: &str = "COSPAN_CHAOS_APART";
const COPIES_MAX: u32 = 200;

/// Restarts this program with mounts that nobody else sees: they are gone with its last process,
/// however that ends.
///
/// # Errors
/// This is not root, there is no loop device, or a program is missing.
pub fn unshare_mounts() -> Result<()> {
    if std::env::var_os(APART).is_some() {
        return Ok(());
    }
    ensure!(
        rustix::process::geteuid().is_root(),
        "power cuts take root: file systems are mounted for them; nothing was tried"
    );
    for program in [
        "losetup",
        "mkfs.ext4",
        "mount",
        "umount",
        "unshare",
        "setpriv",
        "cp",
    ] {
        let found = Command::new(program).arg("--version").output();
        ensure!(
            found.is_ok() || program == "mkfs.ext4",
            "there is no {program} here; install it"
        );
    }
    run_checked(Command::new("losetup").arg("--find"))
        .context("power cuts take a loop device, and there is none; nothing was tried")?;
    let program = std::env::current_exe()?;
    let mut anew = Command::new("unshare");
    anew.args(["--mount", "--propagation", "private", "--"])
        .arg(program);
    Err(anew
        .args(std::env::args_os().skip(1))
        .env(APART, "1")
        .exec())
    .context("cannot have mounts of its own")
}

/// Runs a command to its end and returns its output.
///
/// # Errors
/// It cannot be started, or fails.
pub fn run_checked(command: &mut Command) -> Result<String> {
    let done = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        )
    }
}

/// A file system on an image.
#[derive(Debug)]
pub struct ImageDisk {
    image: PathBuf,
    place: PathBuf,
    copies: u32,
}

impl ImageDisk {
    /// Makes a new one, mounted at `place`.
    ///
    /// # Errors
    /// It cannot be made or mounted.
    pub fn make_disk(place: &Path) -> Result<Self> {
        let disk = Self {
            image: place.with_extension("img.0"),
            place: place.into(),
            copies: 0,
        };
        fs::create_dir_all(place)?;
        fs::File::create(&disk.image)?.set_len(IMAGE_BYTES)?;
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        run_checked(
            Command::new("mkfs.ext4")
                .args(["-q", "-F", "-E", options])
                .arg(&disk.image),
        )?;
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<()> {
        let mut mount = Command::new("mount");
        run_checked(mount.args(["-o", "loop"]).arg(&self.image).arg(&self.place)).map(drop)
    }

    /// Copies what is on the image now. Nobody may write to the file system meanwhile.
    ///
    /// # Errors
    /// It cannot be read, or the disk never comes to rest.
    pub fn copy(&mut self) -> Result<PathBuf> {
        let counters = self.counters()?;
        let copy = self
            .place
            .with_extension(format!("img.{}", self.copies + 1));
        for _ in 0..COPIES_MAX {
            let before = write_counts(&counters)?;
            let mut cp = Command::new("cp");
            run_checked(
                cp.args(["--sparse=always", "--reflink=auto"])
                    .arg(&self.image)
                    .arg(&copy),
            )?;
            if before.1 == 0 && before == write_counts(&counters)? {
                self.copies += 1;
                return Ok(copy);
            }
        }
        bail!("the disk of {} does not come to rest", self.place.display())
    }

    /// Continues with a copy: its journal is replayed.
    ///
    /// # Errors
    /// It cannot be mounted.
    pub fn continue_with(&mut self, copy: PathBuf) -> Result<()> {
        run_checked(Command::new("umount").arg(&self.place))?;
        fs::remove_file(std::mem::replace(&mut self.image, copy))?;
        self.mount()
    }

    /// Returns the path of the kernel's counters of the loop device.
    fn counters(&self) -> Result<PathBuf> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let line = mounts
            .lines()
            .find(|line: &&str| line.split(' ').nth(4) == self.place.to_str())
            .context("the disk is not mounted")?;
        let device = line
            .split(" - ")
            .nth(1)
            .and_then(|rest| rest.split(' ').nth(1));
        let name = device.and_then(|device| device.strip_prefix("/dev/"));
        let name = name.with_context(|| format!("{line:?} names no device"))?;
        Ok(Path::new("/sys/block").join(name).join("stat"))
    }
}

impl Drop for ImageDisk {
    fn drop(&mut self) {
        // Whatever is mounted there is gone with this process at the latest.
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(&self.place)
            .output();
    }
}

/// Counts the writes that a device has done, and the requests in flight.
fn write_counts(counters: &Path) -> Result<(u64, u64)> {
    let text = fs::read_to_string(counters)?;
    let mut counts = text.split_whitespace().map(str::parse);
    match (counts.nth(4), counts.nth(3)) {
        (Some(Ok(done)), Some(Ok(in_hand))) => Ok((done, in_hand)),
        _ => bail!("{} does not count what is written", counters.display()),
    }
}

/// Writes a program that runs another like a machine of its own: its processes have their own
/// numbers, and all of them end when it is killed. Each time it is another run of that machine.
///
/// # Errors
/// It cannot be written.
pub fn write_machine(directory: &Path, program: &Path) -> Result<PathBuf> {
    let machine = directory.join("machine");
    let boot = directory.join("boot");
    let script = format!(
        "#!/bin/sh\nboot='{}'\ncat /proc/sys/kernel/random/uuid > \"$boot\" || exit 1\n\
         exec setpriv --pdeathsig KILL unshare --pid --fork --kill-child --mount-proc \\\n    \
         sh -c 'mount --bind \"$0\" /proc/sys/kernel/random/boot_id && \"$@\" & wait \"$!\"' \\\n    \
         \"$boot\" '{}' \"$@\"\n",
        boot.display(),
        program.display()
    );
    fs::write(&machine, script)?;
    fs::set_permissions(&machine, fs::Permissions::from_mode(0o755))?;
    Ok(machine)
}

/// Stops all processes of a machine that was started as `pid`, and these others, so that nobody
/// writes any more.
///
/// # Errors
/// Processes cannot be listed.
pub fn stop_all(pid: u32, others: &[u32]) -> Result<()> {
    others.iter().for_each(|other| signal(*other, Signal::STOP));
    let Some(whose) = process_namespace(pid)? else {
        return Ok(());
    };
    let mut stopped = std::collections::BTreeSet::new();
    loop {
        let mut is_over = true;
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(found) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A process that has just ended has none.
            let its = fs::read_link(format!("/proc/{found}/ns/pid"));
            if its.is_ok_and(|its| its == whose) && stopped.insert(found) {
                signal(found, Signal::STOP);
                is_over = false;
            }
        }
        if is_over {
            return Ok(());
        }
    }
}

/// Returns the namespace of the processes of a machine, once it has any: never that of all other
/// processes.
fn process_namespace(pid: u32) -> Result<Option<PathBuf>> {
    let ours = fs::read_link("/proc/self/ns/pid")?;
    match fs::read_link(format!("/proc/{pid}/ns/pid_for_children")) {
        Ok(whose) => Ok(Some(whose).filter(|whose| *whose != ours)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends a signal; fine if the process is gone.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_processes_of_its_own_has_nobody_elses() {
        assert_eq!(process_namespace(std::process::id()).unwrap(), None);
        assert_eq!(process_namespace(u32::MAX).unwrap(), None);
    }
}
