//! Which directories become the root of a site, and that nothing which is there is changed: the
//! same for every kind of site.

#![allow(clippy::unwrap_used, reason = "a test program")]

#[path = "support/unprivileged.rs"]
mod unprivileged;

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cospan_domain::ids::SiteName;
use cospan_domain::resources::Resources;
use cospan_sites::exec::child::ChildProcessExecutor;
use cospan_sites::local_site::{LocalSite, LocalSiteConfig};
use cospan_sites::port::SiteError;
use cospan_sites::root_place::check_root_place;
use cospan_sites::slurm_site::{SlurmSite, SlurmSiteConfig};

use crate::unprivileged::unprivileged;

/// Who makes a directory a root.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Local,
    /// Slurm's commands work on this machine.
    Slurm,
    /// Only the agent reaches it.
    Far,
}

const KINDS: [Kind; 3] = [Kind::Local, Kind::Slurm, Kind::Far];

impl Kind {
    fn initialise(self, name: &str, root: &Path) -> Result<(), SiteError> {
        let name = SiteName::new(name).unwrap();
        let total = Resources::processors(1);
        let agent = vec![env!("CARGO_BIN_EXE_site-agent").into()];
        let exec = Arc::new(ChildProcessExecutor::with_process_environment());
        let slurm = SlurmSiteConfig::new(name.clone(), root.into(), total.clone(), agent.clone());
        let site = match self {
            Kind::Local => {
                return LocalSite::new(LocalSiteConfig::new(name, root.into(), total, agent))
                    .unwrap()
                    .make_root();
            }
            Kind::Slurm => SlurmSite::new(slurm, exec).unwrap(),
            Kind::Far => SlurmSite::with_remote_root(slurm, exec).unwrap(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(site.make_root())
    }
}

/// Everything below a directory, and itself: kind and mode, owner, and the size of files.
fn snapshot(path: &Path) -> BTreeMap<PathBuf, (u32, u32, u64)> {
    let found = std::fs::symlink_metadata(path).unwrap();
    let size = if found.is_file() { found.len() } else { 0 };
    let mut all = BTreeMap::from([(path.to_owned(), (found.mode(), found.uid(), size))]);
    if found.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            all.extend(snapshot(&entry.unwrap().path()));
        }
    }
    all
}

fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn make(path: &Path, mode: u32) {
    std::fs::create_dir_all(path).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Each kind of site refuses the root, says so in these words, and changes nothing.
fn refused(place: &Path, root: &Path, words: &[&str]) {
    let before = snapshot(place);
    for kind in KINDS {
        let refusal = kind
            .initialise("here", root)
            .map_err(|error| error.to_string());
        assert_eq!(snapshot(place), before, "{kind:?}, {root:?}: {refusal:?}");
        let said = refusal.unwrap_err();
        let missing: Vec<_> = words.iter().filter(|word| !said.contains(**word)).collect();
        assert!(
            missing.is_empty(),
            "{kind:?}, {root:?}: no {missing:?} in: {said}"
        );
    }
}

#[test]
fn a_directory_in_which_something_is_never_becomes_a_root() {
    let place = place();
    for (name, mode) in [("thesis", 0o755), ("private", 0o700), ("shared", 0o1777)] {
        let root = place.path().join(name);
        make(&root, mode);
        std::fs::write(root.join("thesis.tex"), "").unwrap();
        refused(place.path(), &root, &["thesis.tex"]);
    }
    // Nor one with what could be ours, and is in use by others.
    let alike = place.path().join("alike");
    make(&alike.join("attempts/old"), 0o755);
    refused(place.path(), &alike, &["attempts", "empty"]);
}

fn put_file(root: &Path, file: &str, content: &str) {
    let file = root.join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, content).unwrap();
}

#[test]
fn what_has_names_of_ours_but_not_what_we_write_never_becomes_a_root() {
    let place = place();
    for (number, (file, content)) in [
        ("gone/thesis.tex", ""),
        ("gone/draft.tmp", "cospan site here\n"),
        ("gone/4711-1.tmp", "thesis"),
        ("gone/site-id.9", "cospan site here\nthesis"),
        ("gone/site-id.9", "\nthesis"),
        ("gone/site-id.9/thesis.tex", ""),
        ("gone/deep/deeper", ""),
        ("store/thesis.tex", ""),
        ("owner", "me"),
    ]
    .into_iter()
    .enumerate()
    {
        let root = place.path().join(number.to_string());
        make(&root, 0o755);
        put_file(&root, file, content);
        refused(place.path(), &root, &["not empty"]);
    }
    // A mail server may have directories of these names.
    let alike = place.path().join("alike");
    for name in ["attempts", "spool", "live", "gone"] {
        make(&alike.join(name), 0o755);
    }
    put_file(&alike, "spool/letter", "");
    for (file, content) in [
        ("owner", ""),
        ("owner", "instance\nhost\npid\n"),
        ("site-id", ""),
        ("site-id", "\0\0"),
    ] {
        put_file(&alike, file, content);
        refused(place.path(), &alike, &["not empty"]);
        std::fs::remove_file(alike.join(file)).unwrap();
    }
}

#[test]
fn what_is_no_directory_never_becomes_a_root() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("file"), "").unwrap();
    refused(
        place.path(),
        &at("file"),
        &["a file", "directory of its own"],
    );
    refused(place.path(), &at("file").join("below"), &["a file"]);
    let pipe = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), pipe, mode, 0).unwrap();
    refused(place.path(), &at("pipe"), &["a named pipe"]);
}

#[test]
fn a_root_that_a_link_leads_to_is_refused_and_named_without_it() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    let real = place.path().canonicalize().unwrap().join("real");
    make(&real, 0o700);
    symlink(&real, at("link")).unwrap();
    symlink(at("link"), at("twice")).unwrap();
    let shown = real.display().to_string();
    refused(place.path(), &at("link"), &["symbolic link", &shown]);
    refused(place.path(), &at("twice"), &["symbolic link", &shown]);
    for end in ["/", "//", "/.", "/./"] {
        refused(
            place.path(),
            &at(&format!("link{end}")),
            &["symbolic link", &shown],
        );
    }
    let below = format!("{shown}/a/b");
    refused(place.path(), &at("link/a/b"), &["symbolic link", &below]);
    refused(
        place.path(),
        &at("real/../other"),
        &["..", &format!("{}", at("other").display())],
    );
    let elsewhere = format!(
        ": {}",
        place.path().canonicalize().unwrap().join("other").display()
    );
    refused(place.path(), &at("missing/../other"), &["..", &elsewhere]);
    symlink(at("nowhere"), at("dangling")).unwrap();
    refused(place.path(), &at("dangling"), &["symbolic link"]);
    for kind in KINDS {
        kind.initialise("here", Path::new(&below)).unwrap();
    }
}

#[test]
fn a_root_that_others_can_change_or_replace_is_refused() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    make(&at("open"), 0o777);
    refused(
        place.path(),
        &at("open"),
        &["others can write", "chmod 700"],
    );
    refused(
        place.path(),
        &at("open/root"),
        &["others can put another", "not sticky"],
    );
    refused(
        place.path(),
        &at("open/deep/root"),
        &["others can put another"],
    );
    make(&at("sticky"), 0o1777);
    for (kind, name) in KINDS.iter().zip(["a", "b", "c"]) {
        kind.initialise("here", &at("sticky").join(name)).unwrap();
    }
}

#[test]
fn a_root_of_another_account_is_refused() {
    let place = place();
    let theirs = place.path().join("theirs");
    make(&theirs, 0o755);
    // Only root can give a directory away; for others the system's are foreign.
    if chown(&theirs, Some(4_711), None).is_ok() {
        refused(place.path(), &theirs, &["belongs to user 4711"]);
    }
}

#[test]
fn a_root_below_a_directory_of_another_account_is_refused() {
    let place = place();
    for (name, mode) in [("private", 0o755), ("sticky", 0o1777)] {
        let theirs = place.path().join(name);
        make(&theirs.join("ours/empty"), 0o700);
        std::fs::set_permissions(&theirs, PermissionsExt::from_mode(mode)).unwrap();
        if chown(&theirs, Some(4_711), None).is_err() {
            return;
        }
        let shown = format!("{} belongs to user 4711", theirs.display());
        for root in ["site", "ours/site", "ours/empty"] {
            let words = ["others can put another", &shown, "name one below"];
            refused(place.path(), &theirs.join(root), &words);
        }
        // Those that have long been there go on.
        make(&theirs.join("old"), 0o700);
        std::fs::write(theirs.join("old/site-id"), "cospan site here\n").unwrap();
        for kind in KINDS {
            kind.initialise("here", &theirs.join("old")).unwrap();
        }
    }
}

#[test]
fn a_root_that_this_account_cannot_write_to_is_refused_before_anything_is_made() {
    unprivileged(|| {
        let place = tempfile::tempdir().unwrap();
        let name = SiteName::new("here").unwrap();
        for mode in [0o000, 0o200, 0o500, 0o600] {
            let root = place.path().join("closed");
            make(&root, mode);
            for named in [root.clone(), root.join("new")] {
                let said = check_root_place(&named, &name).unwrap_err().to_string();
                let is_told = said.contains(&root.display().to_string());
                assert!(
                    is_told && said.contains("or name another directory"),
                    "{mode:o}: {said}"
                );
            }
            make(&root, 0o700);
            check_root_place(&root.join("new"), &name).unwrap();
        }
    });
}

#[test]
fn what_people_and_the_machine_live_by_never_becomes_a_root() {
    let nowhere = place();
    let homes = std::fs::read_to_string("/etc/passwd").unwrap();
    let homes = homes
        .lines()
        .filter_map(|line| line.split(':').nth(5).map(str::to_owned));
    let systems = [
        "/",
        "/home",
        "/tmp",
        "/var/tmp",
        "/usr",
        "/usr/share/new",
        "/etc/cospan",
        "/proc",
    ];
    for root in homes
        .chain(systems.map(str::to_owned))
        .chain(std::env::var("HOME"))
    {
        // What some accounts have for a home is nobody's, and would be made.
        if !Path::new(&root).is_dir() && !systems.contains(&&*root) {
            continue;
        }
        // What is below such directories is too much to compare.
        let mode = || std::fs::metadata(&root).map(|found| found.mode()).ok();
        let before = mode();
        for named in ["", "/", "/./"].map(|end| format!("{root}{end}")) {
            refused(nowhere.path(), Path::new(&named), &["directory"]);
        }
        assert_eq!(mode(), before);
    }
}

#[test]
fn a_root_inside_the_root_of_another_site_is_refused() {
    let place = place();
    let outer = place.path().join("outer");
    Kind::Local.initialise("outer", &outer).unwrap();
    for inner in ["inner", "files/inner", "attempts/deep/inner"] {
        refused(
            place.path(),
            &outer.join(inner),
            &["inside the root of another site", "outer"],
        );
    }
    refused(place.path(), &outer, &["names another site"]);
}

#[test]
fn a_root_that_was_begun_or_lost_its_mark_is_made_whole_and_its_mode_stays() {
    for kind in KINDS {
        let place = place();
        let root = place.path().join("root");
        make(&root, 0o755);
        make(&root.join("spool"), 0o700);
        make(&root.join("gone"), 0o700);
        make(&root.join("files/of/users"), 0o755);
        std::fs::write(root.join("gone/site-id.9"), "cospan si").unwrap();
        kind.initialise("here", &root).unwrap();
        let mark = || std::fs::read_to_string(root.join("site-id")).unwrap();
        assert_eq!(mark(), "cospan site here\n", "{kind:?}");
        // A power cut took what was in the mark, or some of it.
        std::fs::create_dir(root.join("attempts/old")).unwrap();
        let owner = "instance aaaaaaaa\nhost here\npid 7\n";
        for (left, owner) in [("cospan si", ""), ("cospan site her", ""), ("", owner)] {
            std::fs::write(root.join("site-id"), left).unwrap();
            std::fs::write(root.join("owner"), owner).unwrap();
            kind.initialise("here", &root).unwrap();
            assert_eq!(mark(), "cospan site here\n", "{kind:?}");
        }
        std::fs::write(root.join("site-id"), "cospan site her\n").unwrap();
        kind.initialise("here", &root).unwrap_err();
        std::fs::write(root.join("site-id"), "cospan site here\n").unwrap();
        // One that an earlier version has made, where none is made today.
        make(&root, 0o777);
        std::fs::write(root.join("more"), "").unwrap();
        kind.initialise("here", &root).unwrap();
        assert_eq!(
            std::fs::metadata(&root).unwrap().mode() & 0o7777,
            0o777,
            "{kind:?}"
        );
        assert!(root.join("attempts/old").exists());
    }
}

#[test]
fn a_root_that_is_not_there_is_made_for_its_account_alone() {
    for kind in KINDS {
        let place = place();
        let root = place.path().join("some/where/root");
        kind.initialise("here", &root).unwrap();
        for made in [&*root, &place.path().join("some"), &root.join("attempts")] {
            let mode = std::fs::metadata(made).unwrap().mode() & 0o7777;
            assert_eq!(mode, 0o700, "{kind:?}: {made:?}");
        }
    }
}
