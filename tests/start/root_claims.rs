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
    let data_of = |place: &str| format!("with the data directory {place}");
    refused(
        &second,
        &[
            "is in use by control plane",
            &process,
            &data_of(&place),
            "stop the other",
        ],
    );
    refused(&second, &[&data_of(&elsewhere)]);
    // Nothing of it keeps the next one out: not what runs at its sites either.
    first.kill().unwrap();
    first.start().unwrap();
    first.kill().unwrap();
    // The original is gone, and the copy takes its place; and so does one that was moved.
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    first.start().unwrap();
}
