//! What differs from site to site, and what is brought there, on real sites.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cospan_chaos_tests::test_environment::Layout;

use super::job_fixture::{environment, scene_on};

/// Two components of which only the sites differ.
const APART: &str = r#"
wall_time = "1m"
request = "fixed"
[[component]]
name = "here"
site = "s1"
COMMON
[[component]]
name = "there"
site = "s2"
COMMON
"#;

const COMMON: &str = r#"
processors = 1
executable = "/bin/sh"
arguments = ["-c", "echo $KIND; cat tree/leaf tree/deep/twig"]
environment = { KIND = "plain" }
setup = ["KIND=$KIND-first"]
input = [{ file = "tree", path = "tree" }]
[component.at."arch=arm64"]
arguments = ["by label"]
environment = { KIND = "arm", LABEL = "arm64" }
setup = ["KIND=$KIND-arm"]
directory = "tree"
[component.at.s2]
executable = { file = "tool" }
environment = { KIND = "s2" }
setup = ["KIND=$KIND-last"]
lrm_options = ["--exclusive"]
"#;

const TOOL: &str = "#!/bin/sh\necho \"tool, $1, $LABEL, $KIND\"\ncat leaf deep/twig\n";

#[test]
fn overrides_staged_programs_and_directories_reach_their_site() {
    let environment = environment(&Layout {
        sites: 2,
        processors: 2,
        ..Layout::default()
    });
    let config = fs::read_to_string(environment.config()).unwrap();
    let labelled = "name = \"s2\"\nlabels = { arch = \"arm64\" }\n";
    let changed = config.replacen("name = \"s2\"\n", labelled, 1);
    assert_ne!(changed, config);
    fs::write(environment.config(), changed).unwrap();
    let files = environment.sites[0].root.join("files");
    fs::create_dir_all(files.join("tree/deep")).unwrap();
    fs::write(files.join("tree/leaf"), "a leaf\n").unwrap();
    fs::write(files.join("tree/deep/twig"), "a twig\n").unwrap();
    fs::write(files.join("tool"), TOOL).unwrap();
    fs::set_permissions(files.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();

    let mut scene = scene_on(environment);
    for file in ["tool", "tree"] {
        scene.must(&["file", "add", file, "--site", "s1", "--path", file]);
    }
    scene.run(&APART.replace("COMMON", COMMON));
    let printed = |component: &str| scene.must(&["logs", "1", "--component", component]);
    assert_eq!(printed("here"), "plain-first\na leaf\na twig\n");
    assert_eq!(
        printed("there"),
        "tool, by label, arm64, s2-first-arm-last\na leaf\na twig\n"
    );
    scene.server.kill().unwrap();
}

#[test]
fn nobody_else_can_look_into_the_directories_of_jobs_and_of_the_server() {
    let mut scene = scene_on(environment(&Layout {
        sites: 1,
        processors: 2,
        ..Layout::default()
    }));
    scene.run(
        "wall_time = \"1m\"\n[[component]]\nname = \"only\"\nprocessors = 1\n\
         executable = \"/bin/sh\"\narguments = [\"-c\", \"umask > secret; mkdir inside\"]\n",
    );
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let attempts = scene.environment.sites[0].root.join("attempts");
    let attempt = fs::read_dir(&attempts)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!(mode(&attempt), 0o700, "{}", attempt.display());
    assert_eq!(mode(&scene.environment.data()), 0o700);
    scene.server.kill().unwrap();
}
