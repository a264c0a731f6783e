//! Commands as users give them to a running server, and across its death.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use cospan_chaos_tests::test_environment::Layout;

use super::job_fixture::{Scene, has, scene, scene_with, until};

/// A job of one component at a site, which runs this script.
fn job(name: &str, site: &str, script: &str) -> String {
    format!(
        r#"
        name = "{name}"
        wall_time = "10m"
        request = "fixed"
        [[component]]
        name = "one"
        site = "{site}"
        processors = 1
        executable = "/bin/sh"
        arguments = ["-c", "{script}"]
        "#
    )
}

fn submit(scene: &Scene, text: &str) {
    scene.must(&["submit", &scene.job_file(text)]);
}

fn as_key(scene: &Scene, secret: &str, arguments: &[&str]) -> Output {
    scene
        .command(arguments)
        .env("COSPAN_TOKEN", secret)
        .output()
        .unwrap()
}

#[test]
fn a_frozen_job_waits_until_it_is_thawed() {
    let mut scene = scene(1);
    scene.must(&["site", "drain", "s1"]);
    submit(&scene, &job("cold", "s1", "true"));
    has(&scene.must(&["freeze", "1"]), &["job 1 frozen"]);
    has(&scene.must(&["list"]), &["queued frozen"]);
    scene.must(&["site", "undrain", "s1"]);
    submit(&scene, &job("after", "s1", "true"));
    scene.must(&["wait", "2"]);
    assert_eq!(scene.state_of(1), "queued", "a later job passed it");
    has(&scene.must(&["thaw", "1"]), &["job 1 thawed"]);
    scene.must(&["wait", "1"]);
    scene.server.kill().unwrap();
}

#[test]
fn every_job_at_one_site_is_cancelled_and_those_elsewhere_go_on() {
    let mut scene = scene(2);
    for site in ["s1", "s2", "s1"] {
        submit(&scene, &job("sleeps", site, "sleep 300"));
    }
    until("all run", || {
        (1..=3).all(|id| scene.state_of(id) == "running")
    });
    scene.must(&["site", "drain", "s1"]);
    submit(&scene, &job("waits", "s1", "sleep 300"));
    scene.refused(&["cancel", "2", "--site", "s1"], 2, &["cancel all --site"]);
    let told = scene.cospan(&["cancel", "all", "--site", "s1"]);
    let counted = "2 jobs with a component at site s1 are being cancelled";
    has(&String::from_utf8_lossy(&told.stderr), &[counted]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    has(
        &told,
        &["job 1 is being cancelled", "job 3 is being cancelled"],
    );
    assert!(!told.contains("job 2"), "{told}");
    assert!(!told.contains("job 4"), "it has nothing there yet: {told}");
    let ended = ["job 1 cancelled", "job 3 cancelled"];
    scene.refused(&["wait", "1", "3"], 5, &ended);
    assert_eq!(scene.state_of(2), "running");
    scene.must(&["site", "undrain", "s1"]);
    until("job 4 has its turn", || scene.state_of(4) == "running");
    let told = scene.must(&["cancel", "--all", "--site", "s1"]);
    has(&told, &["job 4 is being cancelled"]);
    let left = scene.must(&["list", "--state", "running", "--site", "s2"]);
    assert_eq!(left.lines().count(), 2, "a heading and job 2: {left}");
    scene.must(&["cancel", "2"]);
    scene.server.kill().unwrap();
}

#[test]
fn files_are_listed_with_their_replicas() {
    let mut scene = scene(2);
    has(
        &scene.must(&["file", "list"]),
        &["no files", "cospan file add"],
    );
    for (at, site) in ["s1", "s2"].into_iter().enumerate() {
        let path = scene.environment.plant_file(at, "mesh", 10).unwrap();
        scene.must(&["file", "add", "mesh", "--site", site, "--path", &path]);
    }
    has(
        &scene.must(&["file", "list"]),
        &["mesh", "10 B", "s1:mesh, s2:mesh"],
    );
    scene.must(&["file", "remove", "mesh", "--site", "s1"]);
    let listed = scene.must(&["file", "list"]);
    assert!(
        listed.contains("s2:mesh") && !listed.contains("s1:mesh"),
        "{listed}"
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_key_opens_the_server_with_its_roles_from_its_making_to_its_removal() {
    let mut scene = scene(1);
    let secret = scene.must(&["key", "add", "alice"]);
    let listed = scene.must(&["key", "list"]);
    has(
        &listed,
        &["NAME", "ROLES", "admin", "administrator", "alice", "user"],
    );
    assert!(!listed.contains(secret.trim()), "secrets are not listed");
    has(
        &scene.must(&["key", "grant", "alice", "--role", "chaos"]),
        &["alice is user, chaos"],
    );
    has(
        &scene.must(&["key", "revoke", "alice", "--role", "chaos"]),
        &["alice is user"],
    );
    let as_alice = || as_key(&scene, secret.trim(), &["list"]);
    until("the server knows the key", || as_alice().status.success());
    has(
        &scene.must(&["key", "remove", "alice"]),
        &["key alice removed"],
    );
    until("the server forgets the key", || {
        as_alice().status.code() == Some(3)
    });
    assert!(!scene.must(&["key", "list"]).contains("alice"));
    scene.server.kill().unwrap();
}

#[test]
fn a_login_is_kept_for_its_user_alone_and_a_key_that_is_refused_is_not() {
    let mut scene = scene(1);
    let secret = scene.must(&["key", "add", "alice"]);
    let home = scene.environment.path().join("laptop");
    let kept = home.join(".config/cospan/login.toml");
    std::fs::create_dir(&home).unwrap();
    let server = format!("http://127.0.0.1:{}", scene.environment.port());
    let typed = scene.environment.path().join("typed");
    let elsewhere = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
        command.args(arguments).env_clear().env("HOME", &home);
        let typed = File::open(&typed).unwrap();
        command.stdin(typed).output().unwrap()
    };
    std::fs::write(&typed, "cospan_nobody\n").unwrap();
    assert_eq!(elsewhere(&["login", &server]).status.code(), Some(3));
    assert!(!kept.exists());
    std::fs::write(&typed, &secret).unwrap();
    until("the server knows the key", || {
        elsewhere(&["login", &server]).status.success()
    });
    let mode = |mode: u32| Permissions::from_mode(mode);
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let job = "wall_time = \"1m\"\n[[component]]\nname = \"one\"\nprocessors = 1\n\
               executable = \"/bin/true\"\n";
    let submitted = elsewhere(&["submit", &scene.job_file(job), "--wait"]);
    assert!(submitted.status.success(), "{submitted:?}");
    assert_eq!(scene.get("/v1/jobs/1")["owner"], "alice");
    std::fs::set_permissions(&kept, mode(0o644)).unwrap();
    let open = elsewhere(&["list"]);
    has(&String::from_utf8_lossy(&open.stderr), &["chmod 600"]);
    std::fs::set_permissions(&kept, mode(0o600)).unwrap();
    assert!(elsewhere(&["list"]).status.success());
    assert!(elsewhere(&["logout"]).status.success());
    assert!(!kept.exists() && !elsewhere(&["list"]).status.success());
    scene.server.kill().unwrap();
}

#[test]
fn a_configuration_is_checked_and_what_is_shown_of_it_can_be_used_again() {
    let mut scene = scene(2);
    has(&scene.must(&["config", "check"]), &["good: ", "2 sites"]);
    let config = std::fs::read_to_string(scene.environment.config()).unwrap();
    let kept = config.replace(
        "name = \"s2\"\n",
        "name = \"s2\"\nkeys = [\"admin\", \"bob\"]\n",
    );
    std::fs::write(scene.environment.config(), kept).unwrap();
    let told = scene.command(&["config", "check"]).output().unwrap();
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    has(
        &told,
        &[
            "keys of site s2 names bob",
            "create it with `cospan key add bob`",
        ],
    );
    assert!(!told.contains("names admin"), "{told}");
    std::fs::write(scene.environment.config(), config).unwrap();
    let shown = scene.must(&["config", "show"]);
    has(
        &shown,
        &[
            "# In effect, from ",
            "poll_interval = \"200ms\"",
            "name = \"s2\"",
        ],
    );
    let again = scene.environment.path().join("shown.toml");
    std::fs::write(&again, &shown).unwrap();
    let brief = scene.must(&["config", "show", "--brief"]);
    assert!(brief.len() < shown.len());
    scene.server.kill().unwrap();
    std::fs::rename(&again, scene.environment.config()).unwrap();
    let same = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        same(&scene.must(&["config", "show", "--brief"])),
        same(&brief)
    );
    std::fs::write(
        scene.environment.config(),
        "[queue]\nscan_intervall = \"1s\"\n",
    )
    .unwrap();
    scene.refused(
        &["config", "check"],
        2,
        &["1 problem", "scan_intervall", "scan_interval"],
    );
}

#[test]
fn a_completion_script_knows_the_commands_in_every_shell() {
    let mut scene = scene(1);
    for shell in ["bash", "zsh", "fish"] {
        has(
            &scene.must(&["completion", shell]),
            &["cospan", "submit", "undrain"],
        );
    }
    scene.server.kill().unwrap();
}

#[test]
fn a_site_is_shown_frozen_and_thawed_and_the_store_tells_of_itself() {
    let mut scene = scene(1);
    has(
        &scene.must(&["site", "freeze", "s1"]),
        &["site s1 is frozen"],
    );
    submit(&scene, &job("waits", "s1", "true"));
    has(
        &scene.must(&["site", "show", "s1"]),
        &["frozen", "4 processors", "freeze by admin"],
    );
    has(&scene.must(&["explain", "1"]), &["frozen"]);
    has(&scene.must(&["site", "thaw", "s1"]), &["site s1 is usable"]);
    scene.must(&["wait", "1"]);
    let instance = scene.get("/v1/store")["instance"]
        .as_str()
        .unwrap()
        .to_owned();
    has(
        &scene.must(&["store", "show"]),
        &["Engine", &instance, "Jobs", "1"],
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_site_that_failed_is_used_again_at_once_when_it_is_reset() {
    let watching = "poll_interval = \"200ms\"\nsettle = \"2s\"\nprobe_interval = \"1h\"\n\
                    probe_interval_max = \"2h\"\n";
    let layout = Layout {
        sites: 2,
        watching: watching.into(),
        ..Layout::default()
    };
    let mut scene = scene_with(layout);
    let root = scene.environment.sites[0].root.clone();
    let away = scene.environment.path().join("away");
    let state = || {
        scene.get("/v1/sites/s1")["state"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let secret = scene.must(&["key", "add", "alice"]);
    until("the server knows the key", || {
        as_key(&scene, secret.trim(), &["list"]).status.success()
    });
    std::fs::rename(&root, &away).unwrap();
    std::fs::write(&root, "in the way").unwrap();
    // Jobs of one owner alone close no site.
    let by_alice = scene.job_file(&job("suffers", "s1", "true"));
    let submitted = as_key(&scene, secret.trim(), &["submit", &by_alice]);
    assert!(submitted.status.success(), "{submitted:?}");
    for name in ["suffers-too", "suffers-as-well"] {
        submit(&scene, &job(name, "s1", "true"));
    }
    until("it fails", || state() == "unusable");
    std::fs::remove_file(&root).unwrap();
    std::fs::rename(&away, &root).unwrap();
    assert_eq!(state(), "unusable", "the next probe is an hour away");
    scene.must(&["site", "reset", "s1"]);
    until("it is used", || state() == "usable");
    scene.server.kill().unwrap();
}

/// The program, with what it prints in a file.
fn begun(scene: &Scene, arguments: &[&str], printed: &Path) -> Child {
    let mut command = scene.command(arguments);
    command
        .stdin(Stdio::null())
        .stdout(File::create(printed).unwrap());
    command
        .stderr(File::create(printed.with_extension("notes")).unwrap())
        .spawn()
        .unwrap()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn who_follows_or_waits_gets_each_line_once_though_the_server_is_killed() {
    let mut scene = scene(1);
    let path = scene.environment.path().to_owned();
    let place = path.display();
    let step = |from: u32, to: u32, until: &str| {
        format!(
            "for i in $(seq {from} {to}); do echo line $i; done; until [ -e {place}/{until} ]; do sleep 0.05; done;"
        )
    };
    let script = format!(
        "{} {} echo end",
        step(1, 500, "killed"),
        step(501, 1000, "restarted")
    );
    submit(&scene, &job("lines", "s1", &script));
    let followed = path.join("followed");
    let waited = path.join("waited");
    let mut follower = begun(&scene, &["logs", "1", "-f"], &followed);
    let mut waiter = begun(&scene, &["wait", "1"], &waited);
    let notes = |file: &Path| read(&file.with_extension("notes"));
    until("it is followed", || read(&followed).contains("line 500\n"));
    until("it is waited for", || {
        notes(&waited).contains("job 1 running")
    });

    scene.server.kill().unwrap();
    std::fs::write(path.join("killed"), "").unwrap();
    until("the follower goes on", || {
        notes(&followed).contains("still following")
    });
    until("the waiter goes on", || {
        notes(&waited).contains("still waiting")
    });
    scene.server.start().unwrap();
    until("what was printed meanwhile is followed", || {
        read(&followed).contains("line 1000\n")
    });
    std::fs::write(path.join("restarted"), "").unwrap();

    assert_eq!(
        follower.wait().unwrap().code(),
        Some(0),
        "{}",
        notes(&followed)
    );
    assert_eq!(waiter.wait().unwrap().code(), Some(0), "{}", notes(&waited));
    let lines: String = (1..=1000).map(|i| format!("line {i}\n")).collect();
    assert_eq!(read(&followed), lines + "end\n");
    assert_eq!(read(&waited), "job 1 finished\n");
    scene.server.kill().unwrap();
}

#[test]
fn a_sound_installation_is_found_to_be_one_and_its_bundle_holds_no_key() {
    let mut scene = scene(2);
    let file = scene.environment.path().join("bundle.json");
    let told = scene.must(&["doctor", "--bundle", file.to_str().unwrap()]);
    has(
        &told,
        &[
            "configuration",
            "data directory",
            "key",
            "server",
            "clock",
            "access",
        ],
    );
    let bundle = std::fs::read_to_string(&file).unwrap();
    has(&bundle, &["\"s2\"", "cospan_"]);
    let token = std::fs::read_to_string(scene.environment.data().join("keys/admin.token")).unwrap();
    let secret = token.trim().trim_start_matches("cospan_");
    assert!(
        secret.len() >= 32 && !bundle.contains(secret),
        "the key is in it"
    );
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    scene.server.kill().unwrap();
}
