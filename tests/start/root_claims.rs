//! Which directories become roots of sites, and who has them.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

/// Modes of everything below a directory, and of itself, but for the configuration.
fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
    let mode = std::fs::symlink_metadata(path).unwrap().mode();
    let mut all = vec![(path.to_owned(), mode)];
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap() {
            all.extend(modes(&entry.unwrap().path()));
        }
    }
    all.retain(|(path, _)| !path.ends_with("other.toml"));
    all.sort_unstable();
    all
}

#[test]
fn no_command_makes_a_root_of_what_is_not_for_it_and_nothing_is_changed() {
    let environment = environment();
    let root = environment.sites[0].root.display().to_string();
    let at = |name: &str| environment.path().join(name);
    let taken = at("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::set_permissions(&taken, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(taken.join("thesis.tex"), "").unwrap();
    std::os::unix::fs::symlink(&taken, at("link")).unwrap();
    for open in ["open", "theirs"] {
        std::fs::create_dir(at(open)).unwrap();
    }
    std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
    // Only root can give a directory away; for others the system's are foreign.
    let given = std::os::unix::fs::chown(at("theirs"), Some(4_711), None);
    let theirs = given.map_or(PathBuf::from("/srv/theirs"), |()| at("theirs"));
    let inner = environment.sites[1].root.join("inner");
    let before = modes(environment.path());
    for (place, word) in [
        (Path::new("/"), "the root directory of the machine"),
        (environment.path(), "a home directory"),
        (
            environment.path().parent().unwrap(),
            "above the home directory",
        ),
        (&environment.data(), "is the data directory"),
        (
            &environment.data().join("sites/s1"),
            "lies inside the data directory",
        ),
        (&inner, "contains the root of site s1"),
        (&environment.sites[1].root, "share a root"),
        (&taken, "thesis.tex"),
        (&at("link"), "symbolic link"),
        (&at("cospan.toml"), "a file"),
        (&at("open"), "the root of site s1: others can write to it"),
        (&at("open/below"), "of site s1: others can put another"),
        (&theirs, "user"),
        (&theirs.join("below"), "user"),
    ] {
        let place = place.display().to_string();
        let changes = [(&*root, &*place)];
        for command in [["serve"].as_slice(), &["config", "check"]] {
            let output = with_config(&environment, &changes, command);
            refused(&output, &[word]);
            assert_eq!(output.status.code(), Some(2), "{place}");
            assert_eq!(modes(environment.path()), before, "{place}");
        }
        let doctor = with_config(&environment, &changes, &["doctor"]);
        let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn a_copy_of_a_data_directory_does_not_start_beside_it_and_does_after_it() {
    let environment = environment();
    let mut first = server(&environment);
    first.start().unwrap();
    let data = environment.data();
    let copy = environment.path().join("copy");
    let copied = Command::new("cp")
        .arg("-a")
        .arg(&data)
        .arg(&copy)
        .status()
        .unwrap();
    assert!(copied.success());
    let place = data.display().to_string();
    let elsewhere = copy.display().to_string();
    let changes = [
        (&*place, &*elsewhere),
        (&*port(&environment), "127.0.0.1:0"),
    ];
    let second = with_config(&environment, &changes, &["serve"]);
    let process = format!("(process {})", first.pid().unwrap());
    let is_copy = format!("the data directory {elsewhere} is a copy of {place}");
    refused(&second, &[&is_copy, &process, "stop the other"]);
    assert_eq!(second.status.code(), Some(2));
    // Nothing of it keeps the next one out: not what runs at its sites either.
    first.kill().unwrap();
    first.start().unwrap();
    first.kill().unwrap();
    // The original is gone, and the copy takes its place; and so does one that was moved.
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    first.start().unwrap();
}

#[test]
fn a_root_on_a_file_system_that_can_only_be_read_is_refused_by_check_and_start() {
    let environment = environment();
    let disk = environment.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |words: &[&str]| {
        let mut mount = Command::new("mount");
        mount.args(words).arg(&disk);
        mount.output().is_ok_and(|output| output.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=1m,mode=700", "cospan-test"]) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no file system can be mounted");
        return;
    }
    std::fs::create_dir(disk.join("old")).unwrap();
    let is_mounted = mount(&["-o", "remount,ro"]);
    let root = environment.sites[0].root.display().to_string();
    let said = ["old", "new"].map(|name| {
        let place = disk.join(name).display().to_string();
        [["serve"].as_slice(), &["config", "check"]]
            .map(|command| with_config(&environment, &[(&*root, &*place)], command))
    });
    let _ = Command::new("umount").arg("-l").arg(&disk).status();
    assert!(is_mounted);
    for output in said.as_flattened() {
        refused(output, &["can only be read; mount it anew"]);
    }
}

/// What stands at the place of a file until this is dropped.
struct Leftover {
    file: PathBuf,
    before: Option<Vec<u8>>,
    _locked: Option<std::fs::File>,
}

impl Leftover {
    fn write(file: PathBuf, text: &str, is_locked: bool) -> Self {
        let before = std::fs::read(&file).ok();
        std::fs::write(&file, text).unwrap();
        let locked = is_locked.then(|| {
            let locked = std::fs::File::open(&file).unwrap();
            locked.lock().unwrap();
            locked
        });
        Self {
            file,
            before,
            _locked: locked,
        }
    }

    fn make_pipe(file: PathBuf) -> Self {
        let before = std::fs::read(&file).ok();
        let _ = std::fs::remove_file(&file);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &file, kind, rustix::fs::Mode::RWXU, 0).unwrap();
        Self {
            file,
            before,
            _locked: None,
        }
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
        if let Some(before) = &self.before {
            let _ = std::fs::write(&self.file, before);
        }
    }
}

#[test]
fn what_a_payload_left_in_a_root_takes_out_that_site_alone_until_it_is_mended() {
    let environment = environment();
    let mut server = server(&environment);
    ran_a_job(&mut server);
    server.kill().unwrap();
    let at = |name: &str| environment.sites[0].root.join(name);
    let owner = std::fs::read_to_string(at("owner")).unwrap();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat
        .rsplit_once(") ")
        .unwrap()
        .1
        .split(' ')
        .nth(19)
        .unwrap();
    // The same control plane, as a copy of its data directory that runs here would write it.
    let alike: String = owner
        .lines()
        .map(|line| match line.split_once(' ').unwrap().0 {
            "pid" => format!("pid {}\n", std::process::id()),
            "start" => format!("start {start}\n"),
            "data" => format!("data {}\n", environment.path().join("copy").display()),
            _ => format!("{line}\n"),
        })
        .collect();
    let elsewhere = "instance ab12\nhost elsewhere\npid 1\n";
    let cases: [(&dyn Fn() -> Leftover, &str); 5] = [
        (
            &|| Leftover::write(at("owner"), elsewhere, false),
            "that of control plane ab12 on host elsewhere",
        ),
        (
            &|| Leftover::write(at("owner"), &owner, true),
            "is not the one named there",
        ),
        (
            &|| Leftover::write(at("owner"), "", true),
            "is not the one named there",
        ),
        (
            &|| Leftover::write(at("owner"), &alike, true),
            "is in use by control plane",
        ),
        (&|| Leftover::make_pipe(at("owner")), "is a named pipe"),
    ];
    for (leave, word) in cases {
        let left = leave();
        server.start().unwrap();
        until_site_tells(&server, "s1", "unreachable", &[word]);
        run_a_job(&server);
        drop(left);
        until_site_tells(&server, "s1", "usable", &[]);
        server.kill().unwrap();
    }
}
