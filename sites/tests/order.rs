//! What is ours in a root and is not what it must be: said in each answer, and nothing waits for
//! it. The same where only an agent reaches the root.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::ids::{InstanceId, SiteName};
use cospan_domain::resources::Resources;
use cospan_sites::contract::{attempt_tag, script_program, submit_request};
use cospan_sites::exec::child::ChildProcessExecutor;
use cospan_sites::local_site::{LocalSite, LocalSiteConfig};
use cospan_sites::port::{Site, SiteError};
use cospan_sites::slurm_site::{SlurmSite, SlurmSiteConfig};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Longest that an answer may take.
const SOON: Duration = Duration::from_secs(5);

/// A site of this machine, and one that only its agent reaches; a control plane may have them.
async fn sites(place: &Path, owner: Option<InstanceId>) -> [(Arc<dyn Site>, PathBuf); 2] {
    let name = SiteName::new("here").unwrap();
    let total = Resources::processors(8);
    let agent = vec![env!("CARGO_BIN_EXE_site-agent").into()];
    let near = place.join("near");
    let far = place.join("far");
    let mut local = LocalSiteConfig::new(name.clone(), near.clone(), total.clone(), agent.clone());
    local.owner = owner;
    let local = LocalSite::new(local).unwrap();
    local.make_root().unwrap();
    local.take_root().unwrap();
    let mut slurm = SlurmSiteConfig::new(name, far.clone(), total, agent);
    slurm.owner = owner;
    let slurm = SlurmSite::with_remote_root(
        slurm,
        Arc::new(ChildProcessExecutor::with_process_environment()),
    )
    .unwrap();
    slurm.make_root().await.unwrap();
    slurm.take_root().await.unwrap();
    [(Arc::new(local), near), (Arc::new(slurm), far)]
}

/// Something else in the place of an entry.
fn spoil(place: &Path, with: &str) {
    let target = place.parent().unwrap();
    match with {
        "a named pipe" => mknodat(CWD, place, FileType::Fifo, Mode::RWXU, 0).unwrap(),
        "a file" => std::fs::write(place, "something").unwrap(),
        "a directory" => std::fs::create_dir(place).unwrap(),
        "a symbolic link" => std::os::unix::fs::symlink(target, place).unwrap(),
        "dangling" => std::os::unix::fs::symlink(target.join("nowhere"), place).unwrap(),
        _ => drop(std::os::unix::net::UnixListener::bind(place).unwrap()),
    }
}

async fn status(site: &dyn Site) -> Result<(), SiteError> {
    tokio::time::timeout(SOON, site.queue().status(&[attempt_tag(1)]))
        .await
        .expect("it waits")
        .map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_in_the_place_of_an_entry_is_said_at_once_and_until_it_is_mended() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (site, root) in sites(place.path(), Some(InstanceId::from_random(1))).await {
        std::fs::write(root.join("leases.json"), "{}").unwrap();
        status(&*site).await.unwrap();
        let is_near = root.ends_with("near");
        let directories = [
            "attempts", "spool", "gone", "live", "store", "incoming", "files",
        ];
        let files = ["owner", "site-id"];
        let wrongs = [
            "a named pipe",
            "a file",
            "a directory",
            "a symbolic link",
            "dangling",
            "socket",
        ];
        for (entry, with) in directories
            .iter()
            .chain(&files)
            .flat_map(|e| wrongs.map(|w| (*e, w)))
        {
            let fits = if files.contains(&entry) {
                "a file"
            } else {
                "a directory"
            };
            let path = root.join(entry);
            let away = root.with_extension("away");
            // What a site is known by is missed in other words.
            if with == fits || entry == "site-id" && (is_near || with != "a named pipe") {
                continue;
            }
            std::fs::rename(&path, &away).unwrap();
            spoil(&path, with);
            let said = status(&*site).await;
            let Err(SiteError::OutOfOrder(why)) = &said else {
                panic!("{entry} {with}: {said:?}")
            };
            assert!(
                why.contains(entry) && why.contains("put back"),
                "{entry} {with}: {why}"
            );
            let mut order = submit_request(attempt_tag(1), script_program("exit 0"));
            order.hold_max = cospan_domain::units::DurationMs::from_secs(1);
            let submitted = tokio::time::timeout(SOON, site.queue().submit(&order))
                .await
                .expect("it waits");
            let certain = matches!(
                submitted,
                Err(SiteError::OutOfOrder(_) | SiteError::NotSent(_) | SiteError::Refused(_))
            );
            assert!(certain, "{entry} {with}: {submitted:?}");
            if std::fs::symlink_metadata(&path).unwrap().is_dir() {
                std::fs::remove_dir(&path).unwrap();
            } else {
                std::fs::remove_file(&path).unwrap();
            }
            std::fs::rename(&away, &path).unwrap();
            status(&*site).await.unwrap();
        }
        let path = root.join("spool");
        let away = root.with_extension("away");
        std::fs::rename(&path, &away).unwrap();
        let said = status(&*site).await;
        assert!(
            matches!(&said, Err(SiteError::OutOfOrder(why)) if why.contains("mkdir")),
            "{said:?}"
        );
        std::fs::rename(&away, &path).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_the_place_of_the_wrapper_is_said() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (site, root) in sites(place.path(), None).await {
        let order = submit_request(attempt_tag(1), script_program("exit 0"));
        if root.ends_with("near") {
            // It brings its own.
            site.queue().submit(&order).await.unwrap();
            site.queue().cancel(attempt_tag(1), None).await.unwrap();
        }
        let names = std::fs::read_dir(&root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let mut names = names.filter_map(|name| name.into_string().ok());
        let name = names
            .find(|name| name.ends_with(".sh"))
            .unwrap_or("wrapper-0.sh".to_owned());
        let path = root.join(&name);
        let _ = std::fs::remove_file(&path);
        for with in ["a named pipe", "a symbolic link"] {
            spoil(&path, with);
            let said = status(&*site).await;
            assert!(
                matches!(&said, Err(SiteError::OutOfOrder(why)) if why.contains(&name)),
                "{said:?}"
            );
            std::fs::remove_file(&path).unwrap();
        }
        status(&*site).await.unwrap();
    }
}

/// A small file system in memory; `None`, loudly, where none can be mounted.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: &Path) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=4m,mode=700", "cospan-test"])
            .arg(path);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if !mounted {
            use std::io::Write;
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: no file system can be mounted here"
            );
        }
        mounted.then(|| Self(path.to_owned()))
    }

    fn remount(&self, how: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{how}")]).arg(&self.0);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_and_one_that_can_only_be_read_are_said_and_what_runs_is_seen() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(disk) = Mounted::at(&place.path().join("disk")) else {
        return;
    };
    // What is open for writing keeps a file system from being made one that is only read.
    for (site, root) in sites(&disk.0, None).await {
        status(&*site).await.unwrap();
        assert_eq!(site.monitor().trouble(), None);
        let big = disk.0.join("big");
        let _ = std::fs::write(&big, vec![7; 5 << 20]);
        status(&*site).await.unwrap();
        let why = site.monitor().trouble().unwrap_or_default();
        assert!(
            why.contains("is full") && why.contains(&root.display().to_string()),
            "{why}"
        );
        std::fs::remove_file(&big).unwrap();
        status(&*site).await.unwrap();
        assert_eq!(site.monitor().trouble(), None, "there is room again");
        disk.remount("ro");
        let said = status(&*site).await;
        let why = site.monitor().trouble().unwrap_or_default();
        let is_told = match &said {
            Err(SiteError::OutOfOrder(why)) => why.contains("mount its file system anew"),
            _ => why.contains("mount it anew"),
        };
        assert!(is_told, "{said:?} {why}");
        disk.remount("rw");
        status(&*site).await.unwrap();
        assert_eq!(site.monitor().trouble(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_data_directory_is_kept_out_of_a_root_by_its_process_and_directory() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = place.path().join("root");
    let name = SiteName::new("here").unwrap();
    let agent = vec![env!("CARGO_BIN_EXE_site-agent").into()];
    let site = |is_far: bool, data: &str| {
        let total = Resources::processors(1);
        let mut slurm = SlurmSiteConfig::new(name.clone(), root.clone(), total, agent.clone());
        slurm.owner = Some(InstanceId::from_random(1));
        slurm.data_directory = data.into();
        let exec = Arc::new(ChildProcessExecutor::with_process_environment());
        if is_far {
            SlurmSite::with_remote_root(slurm, exec).unwrap()
        } else {
            SlurmSite::new(slurm, exec).unwrap()
        }
    };
    site(true, "/data").make_root().await.unwrap();
    // Where this machine has the root it is locked.
    let first = site(false, "/data/first");
    first.take_root().await.unwrap();
    let refusal = site(false, "/data/copy")
        .take_root()
        .await
        .unwrap_err()
        .to_string();
    let process = format!("(process {})", std::process::id());
    for word in [
        &*process,
        "data directory /data/first",
        "data directory /data/copy",
        "stop the other",
    ] {
        assert!(refusal.contains(word), "no {word} in: {refusal}");
    }
    drop(first);
    site(false, "/data/copy").take_root().await.unwrap();
    // Elsewhere a process of this machine that lives is told by its name.
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap();
    let start = stat
        .rsplit_once(") ")
        .unwrap()
        .1
        .split(' ')
        .nth(19)
        .unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let text = format!(
        "instance {}\nhost {}\npid {}\nstart {start}\ndata /data/first\n",
        InstanceId::from_random(1),
        host.trim(),
        other.id()
    );
    std::fs::write(root.join("owner"), &text).unwrap();
    let copy = site(true, "/data/copy");
    let refusal = copy.take_root().await.unwrap_err().to_string();
    assert!(
        refusal.contains(&format!("(process {})", other.id())),
        "{refusal}"
    );
    assert!(refusal.contains("data directory /data/first"), "{refusal}");
    assert_eq!(std::fs::read_to_string(root.join("owner")).unwrap(), text);
    other.kill().unwrap();
    other.wait().unwrap();
    copy.take_root().await.unwrap();
    copy.take_root().await.unwrap();
    assert!(
        std::fs::read_to_string(root.join("owner"))
            .unwrap()
            .contains("data /data/copy")
    );
    // One that was taken from it says so.
    std::fs::write(root.join("owner"), text.replace(host.trim(), "elsewhere")).unwrap();
    let taken = copy.take_root().await.unwrap_err().to_string();
    assert!(
        taken.contains("on host elsewhere") && taken.contains("/data/first"),
        "{taken}"
    );
}
