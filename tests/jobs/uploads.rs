//! Input and programs that users send over HTTP.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use cospan_api::v1::upload::{UploadReport, UploadRequest, UploadState};
use cospan_chaos_tests::test_environment::Layout;
use cospan_client::{Client, ClientError};
use cospan_domain::ids::Digest;

use crate::job_fixture::{Scene, has, scene, scene_with, until};

fn client(scene: &Scene, token: &str) -> Client {
    let address = format!("http://127.0.0.1:{}", scene.environment.port());
    Client::new(address.parse().unwrap(), Some(token.into()), None).unwrap()
}

fn admin(scene: &Scene) -> Client {
    let file = scene.environment.data().join("keys/admin.token");
    client(scene, std::fs::read_to_string(file).unwrap().trim())
}

/// A key of its own; known to the server once it has looked at its key file.
fn key(scene: &Scene, name: &str, role: &str) -> Client {
    let said = scene.must(&["key", "add", name, "--role", role]);
    let token = said
        .split_whitespace()
        .find(|word| word.starts_with("cospan_"))
        .unwrap();
    let client = client(scene, token);
    until("the key is known", || client.list_sites().is_ok());
    client
}

fn announced(name: &str, bytes: &[u8]) -> UploadRequest {
    UploadRequest {
        name: Some(name.parse().unwrap()),
        file_name: None,
        size_bytes: bytes.len() as u64,
        digest: Digest(*blake3::hash(bytes).as_bytes()),
        site: None,
        replace: false,
    }
}

fn id(report: &UploadReport) -> &str {
    report.id.as_deref().unwrap()
}

fn code(error: ClientError) -> String {
    error
        .problem()
        .unwrap_or_else(|| panic!("{error}"))
        .code
        .clone()
}

/// What was uploaded and is at a site.
fn at_sites(scene: &Scene) -> Vec<PathBuf> {
    let folders = scene
        .environment
        .sites
        .iter()
        .map(|site| site.root.join("files/uploads"));
    let entries = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    entries.map(|entry| entry.unwrap().path()).collect()
}

const JOB: &str = r#"
wall_time = "10m"
[[component]]
name = "solver"
processors = 1
executable = "./run.sh"
arguments = ["mesh.nc"]
input = [{ upload = "./in/mesh.nc" }]
output = [{ path = "sum.txt" }]
"#;

#[test]
fn a_job_file_brings_the_input_and_the_script_that_lie_beside_it() {
    let scene = scene(2);
    std::fs::create_dir(scene.environment.path().join("in")).unwrap();
    scene.file("in/mesh.nc", "a mesh\n");
    scene.file("run.sh", "#!/bin/sh\ncat \"$1\" > sum.txt\n");
    scene.run(JOB);
    let to = scene.environment.path().join("results");
    scene.must(&["output", "last", "--to", to.to_str().unwrap()]);
    assert_eq!(
        std::fs::read_to_string(to.join("solver/sum.txt")).unwrap(),
        "a mesh\n"
    );
    assert_eq!(at_sites(&scene).len(), 2);
    scene.run(JOB);
    assert_eq!(at_sites(&scene).len(), 2, "what is there is not sent again");
    scene.file("notes.txt", "x\n");
    let left = scene.job_file(&JOB.replace("[\"mesh.nc\"]", "[\"mesh.nc\", \"notes.txt\"]"));
    let told = scene.cospan(&["submit", &left, "--wait"]);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    let note = "notes.txt is a file of this machine, and is not brought to the site";
    has(&told, &["component solver: ", note, "--input notes.txt"]);
    assert!(!told.contains("mesh.nc is a file"), "{told}");
    scene.file("in/mesh.nc", "another mesh\n");
    scene.run(JOB);
    assert_eq!(at_sites(&scene).len(), 3);
    let mesh = scene
        .environment
        .path()
        .join("in/mesh.nc")
        .display()
        .to_string();
    scene.must(&["submit", "--input", &mesh, "--wait", "--", "cat", "mesh.nc"]);
    has(&scene.must(&["logs", "last"]), &["another mesh"]);
    scene.refused(
        &[
            "submit",
            &scene.job_file(&JOB.replace("mesh.nc", "none.nc")),
        ],
        2,
        &["none.nc", "No such file"],
    );
}

#[test]
fn a_script_that_is_nowhere_is_told_when_its_job_is_submitted() {
    let scene = scene(1);
    let told = |job: &str| {
        let asked = scene.cospan(&["submit", &scene.job_file(job)]);
        assert!(asked.status.success());
        String::from_utf8_lossy(&asked.stderr).contains("run.sh must be in the work directory")
    };
    scene.file("mesh.nc", "a mesh\n");
    let job = JOB.replace("./in/mesh.nc", "./mesh.nc");
    assert!(told(&job));
    assert!(!told(&job.replace("./run.sh", "./mesh.nc")), "it is sent");
    assert!(
        !told(&job.replace("./run.sh", "run.sh")),
        "it is looked up there"
    );
    scene.file("run.sh", "#!/bin/sh\n");
    assert!(!told(&job));
}

#[test]
fn an_upload_goes_on_after_the_server_was_killed() {
    let mut scene = scene(1);
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .flat_map(u32::to_le_bytes)
        .take(5_000_000)
        .collect();
    let file = scene.environment.path().join("large.dat");
    std::fs::write(&file, &bytes).unwrap();
    let api = admin(&scene);
    let begun = api.begin_upload(&announced("large.dat", &bytes)).unwrap();
    api.append_upload(id(&begun), 0, &bytes[..2_000_000])
        .unwrap();
    scene.server.kill().unwrap();
    scene.server.start().unwrap();
    until("the site is usable", || {
        scene.get("/v1/sites")["sites"][0]["state"] == "usable"
    });
    let output = scene.cospan(&["file", "upload", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    has(&said, &["going on at byte 2000000"]);
    has(
        &scene.must(&["file", "show", "large.dat"]),
        &[blake3::hash(&bytes).to_hex().as_ref()],
    );
    assert_eq!(std::fs::read(&at_sites(&scene)[0]).unwrap(), bytes);
    let kept = std::fs::read_dir(scene.environment.data().join("uploads")).unwrap();
    let parts = kept.filter(|e| e.as_ref().unwrap().path().extension().unwrap() == "part");
    assert_eq!(parts.count(), 0, "its room at the server is given back");
}

#[test]
fn what_arrives_otherwise_than_announced_is_never_a_file() {
    let scene = scene(1);
    let api = admin(&scene);
    let begun = api.begin_upload(&announced("mesh", b"right")).unwrap();
    assert_eq!(begun.state, UploadState::Receiving);
    let early = api.complete_upload(id(&begun)).unwrap_err();
    assert_eq!(code(early), "C4002");
    api.append_upload(id(&begun), 0, b"wro").unwrap();
    let twice = api.append_upload(id(&begun), 0, b"wro").unwrap_err();
    assert_eq!(code(twice), "C4002");
    let longer = api.append_upload(id(&begun), 3, b"ng one").unwrap_err();
    assert_eq!(code(longer), "C1113");
    api.append_upload(id(&begun), 3, b"ng").unwrap();
    assert_eq!(code(api.complete_upload(id(&begun)).unwrap_err()), "C1113");
    assert_eq!(code(api.upload(id(&begun)).unwrap_err()), "C3001");
    assert!(at_sites(&scene).is_empty());
    scene.refused(&["file", "show", "mesh"], 3, &["there is no file"]);
    scene.refused(&["file", "upload", "/"], 2, &["is no regular file", "tar"]);
}

#[test]
fn users_upload_and_own_what_they_sent_within_their_quota() {
    let limits = "max_upload = \"100B\"\nupload_quota = \"150B\"\n".into();
    let scene = scene_with(Layout {
        sites: 1,
        processors: 4,
        limits,
        ..Layout::default()
    });
    let bob = key(&scene, "bob", "user");
    let carol = key(&scene, "carol", "user");
    let reader = key(&scene, "rita", "reader");
    let large = [7_u8; 101];
    assert_eq!(
        code(bob.begin_upload(&announced("a", &large)).unwrap_err()),
        "C1114"
    );
    assert_eq!(
        code(reader.begin_upload(&announced("a", b"x")).unwrap_err()),
        "C2002"
    );
    let begun = bob.begin_upload(&announced("a", &large[..100])).unwrap();
    assert_eq!(
        code(bob.begin_upload(&announced("b", &large[..51])).unwrap_err()),
        "C5007"
    );
    assert_eq!(code(carol.upload(id(&begun)).unwrap_err()), "C3001");
    assert_eq!(
        code(carol.append_upload(id(&begun), 0, b"x").unwrap_err()),
        "C3001"
    );
    bob.append_upload(id(&begun), 0, &large[..100]).unwrap();
    let file = bob.complete_upload(id(&begun)).unwrap().unwrap();
    assert_eq!((file.owner.as_str(), file.size_bytes), ("bob", 100));
    assert_eq!(
        bob.begin_upload(&announced("a", &large[..100]))
            .unwrap()
            .state,
        UploadState::Done
    );
    assert_eq!(
        code(bob.begin_upload(&announced("a", b"other")).unwrap_err()),
        "C4002"
    );
    assert_eq!(
        code(carol.begin_upload(&announced("a", b"x")).unwrap_err()),
        "C4002"
    );
    assert_eq!(
        code(bob.begin_upload(&announced("b", &large[..51])).unwrap_err()),
        "C5007"
    );
}

#[test]
fn what_is_given_up_or_forgotten_is_dropped_and_its_quota_given_back() {
    let limits = "upload_quota = \"150B\"\nkeep_uploads = \"1s\"\n".to_owned();
    let scene = scene_with(Layout {
        sites: 1,
        processors: 4,
        limits,
        ..Layout::default()
    });
    let api = admin(&scene);
    let bytes = [7_u8; 100];
    let begun = api.begin_upload(&announced("given-up", &bytes)).unwrap();
    until("it is dropped", || api.upload(id(&begun)).is_err());
    let file = scene.file("mesh", "a mesh");
    scene.must(&["file", "upload", &file]);
    assert_eq!(at_sites(&scene).len(), 1);
    scene.must(&["file", "remove", "mesh"]);
    until("it is deleted at its site", || at_sites(&scene).is_empty());
    until("its quota is given back", || {
        api.begin_upload(&announced("b", &[8; 150])).is_ok()
    });
}

#[test]
fn an_upload_that_is_not_whole_is_listed_until_given_up() {
    let scene = scene(1);
    has(
        &scene.must(&["file", "uploads"]),
        &["no incomplete uploads"],
    );
    let api = admin(&scene);
    let begun = api.begin_upload(&announced("mesh", b"a mesh")).unwrap();
    api.append_upload(id(&begun), 0, b"a m").unwrap();
    has(
        &scene.must(&["file", "uploads"]),
        &[id(&begun), "mesh", "3 B", "6 B", "receiving"],
    );
    let given_up = scene.must(&["file", "uploads", "--give-up", &id(&begun)[..8]]);
    has(&given_up, &["upload of mesh given up"]);
    assert_eq!(code(api.upload(id(&begun)).unwrap_err()), "C3001");
    scene.refused(
        &["file", "uploads", "--give-up", id(&begun)],
        2,
        &["there is no incomplete upload"],
    );
}

#[test]
fn a_directory_is_there_as_it_is_here_before_the_program_starts() {
    let scene = scene(1);
    let case = scene.environment.path().join("my case");
    std::fs::create_dir_all(case.join("data")).unwrap();
    std::fs::write(case.join("data/words"), "brought along\n").unwrap();
    std::os::unix::fs::symlink("data/words", case.join("link")).unwrap();
    std::fs::write(
        case.join("run.sh"),
        "#!/bin/sh\ncat \"$1\" && readlink link\n",
    )
    .unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(case.join("run.sh"), executable).unwrap();
    let folder = case.to_str().unwrap();
    let submit = [
        "submit",
        "--workdir",
        folder,
        "--components",
        "2",
        "--wait",
        "--",
    ];
    scene.must(&[&submit[..], &["./run.sh", "data/words"]].concat());
    has(
        &scene.must(&["logs", "last"]),
        &["brought along", "data/words"],
    );
    scene.refused(
        &["submit", "--workdir", "nowhere", "--", "true"],
        2,
        &["nowhere is no directory", "--input"],
    );
}
