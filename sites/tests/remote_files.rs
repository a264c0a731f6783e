//! Files of a site that only an agent reaches. Its agent runs on this machine here: what is
//! shown needs neither a network nor a batch system.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::content::{Content, FileChunk};
use cospan_domain::ids::{Digest, RelPath, SiteName};
use cospan_domain::resources::Resources;
use cospan_domain::units::Bytes;
use cospan_sites::exec::child::ChildProcessExecutor;
use cospan_sites::files::fetch::{FetchingSite, relay_root};
use cospan_sites::local_site::{LocalSite, LocalSiteConfig};
use cospan_sites::port::{
    CopyBlame, CopyRequest, CopySource, CopyStatus, FilePlace, InspectedFile, ReadableFile, Site,
    SiteError, UploadStep,
};
use cospan_sites::slurm_site::{SlurmSite, SlurmSiteConfig};

/// What a shell might take for something else.
const ODD: &str = "-n $(touch pwned) 'ä'\n\"x\"; *";

/// A site `far` that only its agent reaches, and a site `near` of this machine.
struct World {
    place: tempfile::TempDir,
    far: Arc<dyn Site>,
    near: Arc<dyn Site>,
}

fn name(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

impl World {
    async fn new() -> Self {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let root = |of: &str| place.path().join(of);
        let agent = vec![env!("CARGO_BIN_EXE_site-agent").into()];
        let total = Resources::processors(1);
        let exec = Arc::new(ChildProcessExecutor::with_process_environment());
        let mut far = SlurmSiteConfig::new(name("far"), root("far"), total.clone(), agent.clone());
        far.neighbours.insert(name("near"), root("near"));
        let source = SlurmSite::remote_source_files(&far, exec.clone()).unwrap();
        let far = SlurmSite::with_remote_root(far, exec).unwrap();
        far.make_root().await.unwrap();
        let relays = root("relays");
        let mut near = LocalSiteConfig::new(name("near"), root("near"), total, agent);
        near.neighbours.insert(
            name("far"),
            relay_root(&relays, &name("near"), &name("far")),
        );
        let near = LocalSite::new(near).unwrap();
        near.make_root().unwrap();
        let sources = [(name("far"), source)].into();
        let near = FetchingSite::new(Arc::new(near), sources, relays);
        Self {
            place,
            far: Arc::new(far),
            near: Arc::new(near),
        }
    }

    fn root(&self, site: &str) -> PathBuf {
        self.place.path().join(site)
    }

    fn put(&self, site: &str, path: &str, bytes: &[u8]) -> FilePlace {
        std::fs::write(self.root(site).join("files").join(path), bytes).unwrap();
        FilePlace::User(RelPath::new(path).unwrap())
    }

    fn stored(&self, site: &str, content: Content) -> Vec<u8> {
        std::fs::read(self.root(site).join(format!("store/{}", content.digest))).unwrap()
    }
}

fn content(bytes: &[u8]) -> Content {
    Content {
        digest: Digest(*blake3::hash(bytes).as_bytes()),
        size: Bytes(bytes.len() as u64),
    }
}

fn bytes(length: u32) -> Vec<u8> {
    (0..length)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect()
}

fn order(from: &str, place: &FilePlace, content: Content) -> CopyRequest {
    let source = CopySource {
        site: name(from),
        place: place.clone(),
    };
    CopyRequest {
        content,
        chunk: None,
        source,
        nonce: "n-1".to_owned(),
        limit: None,
    }
}

/// Copies, and says how it ended.
async fn copy(to: &Arc<dyn Site>, order: &CopyRequest) -> CopyStatus {
    to.copies().start_copy(order).await.unwrap();
    let started = Instant::now();
    loop {
        match to.copies().copy_status(order).await.unwrap() {
            CopyStatus::Running { .. } => {}
            status => return status,
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the copy takes too long"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[tokio::test]
async fn copies_go_there_within_it_and_back_whole() {
    let world = World::new().await;
    for length in [0, 1, 3_000_001] {
        let bytes = bytes(length);
        let content = content(&bytes);
        let here = world.put("near", ODD, &bytes);
        assert_eq!(
            copy(&world.far, &order("near", &here, content)).await,
            CopyStatus::Complete
        );
        assert!(world.stored("far", content) == bytes);
        assert_eq!(
            world.far.files().has_content(content.digest).await,
            Ok(true)
        );
        world
            .far
            .files()
            .delete_content(content.digest)
            .await
            .unwrap();
        assert_eq!(
            world.far.files().has_content(content.digest).await,
            Ok(false)
        );
        let there = world.put("far", ODD, &bytes);
        let inspected = InspectedFile {
            content,
            directory: false,
        };
        assert_eq!(world.far.files().inspect(&there).await, Ok(inspected));
        assert_eq!(
            copy(&world.far, &order("far", &there, content)).await,
            CopyStatus::Complete
        );
        assert!(world.stored("far", content) == bytes);
        assert_eq!(
            copy(&world.near, &order("far", &there, content)).await,
            CopyStatus::Complete
        );
        assert!(world.stored("near", content) == bytes);
    }
    assert!(is_empty(&world.root("far/incoming")));
    assert!(
        is_empty(&world.root("relays/near/far/store")),
        "what was fetched is gone"
    );
    assert!(!world.root("far/pwned").exists());
}

#[tokio::test]
async fn a_chunk_is_cut_and_the_whole_file_is_checked() {
    let world = World::new().await;
    let bytes = bytes(3_000_001);
    let whole = content(&bytes);
    let run = 900_000..2_500_000;
    let mut chunk = order(
        "near",
        &world.put("near", "x", &bytes),
        content(&bytes[run.clone()]),
    );
    chunk.chunk = Some(FileChunk {
        of: whole,
        offset: Bytes(run.start as u64),
        length: Bytes(run.len() as u64),
    });
    assert_eq!(copy(&world.far, &chunk).await, CopyStatus::Complete);
    assert!(world.stored("far", chunk.content) == bytes[run.clone()]);
    chunk.source = CopySource {
        site: name("far"),
        place: world.put("far", "x", &bytes),
    };
    assert_eq!(copy(&world.near, &chunk).await, CopyStatus::Complete);
    assert!(world.stored("near", chunk.content) == bytes[run]);
}

#[tokio::test]
async fn what_is_there_already_is_built_upon_or_dropped_if_it_is_wrong() {
    let world = World::new().await;
    let bytes = bytes(3_000_001);
    let copy_of = order("near", &world.put("near", "x", &bytes), content(&bytes));
    let data = world
        .root("far/incoming")
        .join(format!("{}.n-1", copy_of.content.digest));
    for before in [
        &bytes[..1_500_000],
        b"something else",
        &[&bytes[..], b"more"].concat(),
    ] {
        std::fs::write(&data, before).unwrap();
        let status = world.far.copies().copy_status(&copy_of).await.unwrap();
        assert!(
            matches!(
                status,
                CopyStatus::Failed {
                    blame: CopyBlame::Process,
                    ..
                }
            ),
            "{status:?}"
        );
        assert_eq!(copy(&world.far, &copy_of).await, CopyStatus::Complete);
        assert!(world.stored("far", copy_of.content) == bytes);
        world
            .far
            .files()
            .delete_content(copy_of.content.digest)
            .await
            .unwrap();
    }
    std::fs::write(&data, b"x").unwrap();
    world.far.copies().stop_copy(&copy_of, true).await.unwrap();
    assert_eq!(
        world.far.copies().copy_status(&copy_of).await,
        Ok(CopyStatus::Absent)
    );
}

#[tokio::test]
async fn a_source_that_is_not_what_was_ordered_is_to_blame() {
    let world = World::new().await;
    let wrong = [
        (world.put("near", "x", b"abcd"), content(b"abce")),
        (world.put("near", "x", b"abcd"), content(b"abc")),
        (
            FilePlace::User(RelPath::new("missing").unwrap()),
            content(b"abc"),
        ),
    ];
    for (place, content) in wrong {
        let status = copy(&world.far, &order("near", &place, content)).await;
        assert!(
            matches!(
                status,
                CopyStatus::Failed {
                    blame: CopyBlame::Source,
                    ..
                }
            ),
            "{status:?}"
        );
        assert_eq!(
            world.far.files().has_content(content.digest).await,
            Ok(false)
        );
    }
    let stranger = order("elsewhere", &world.put("near", "x", b"x"), content(b"x"));
    assert!(matches!(
        world.far.copies().start_copy(&stranger).await,
        Err(SiteError::Refused(_))
    ));
}

#[tokio::test]
async fn pieces_are_read_from_anywhere_in_a_file_and_of_files_alone() {
    let world = World::new().await;
    let place = world.put("far", ODD, b"0123456789");
    let read = |offset, limit| {
        let site = world.far.clone();
        let what = ReadableFile::File(place.clone());
        async move {
            site.files()
                .read(&what, Bytes(offset), limit)
                .await
                .unwrap()
        }
    };
    assert_eq!(
        (read(3, 4).await.bytes, read(3, 4).await.size),
        (b"3456".to_vec(), Bytes(10))
    );
    assert_eq!(read(8, 100).await.bytes, b"89");
    assert_eq!(read(10, 5).await.bytes, b"");
    std::fs::create_dir(world.root("far/files/d")).unwrap();
    for path in ["d", "missing"] {
        let what = ReadableFile::File(FilePlace::User(RelPath::new(path).unwrap()));
        let answer = world.far.files().read(&what, Bytes(0), 5).await;
        assert!(matches!(answer, Err(SiteError::Refused(_))), "{answer:?}");
    }
    std::fs::rename(world.root("far"), world.root("away")).unwrap();
    let answer = world
        .far
        .files()
        .read(&ReadableFile::File(place.clone()), Bytes(0), 5)
        .await;
    assert!(matches!(answer, Err(SiteError::NotSent(_))), "{answer:?}");
}

/// What is below a directory, and the bytes of its files.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, (char, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let what = if meta.is_dir() {
                ahead.push(path.clone());
                ('d', Vec::new())
            } else if meta.is_symlink() {
                (
                    'l',
                    std::fs::read_link(&path)
                        .unwrap()
                        .into_os_string()
                        .into_vec(),
                )
            } else {
                let kind = if meta.permissions().mode() & 0o111 == 0 {
                    'f'
                } else {
                    'x'
                };
                (kind, std::fs::read(&path).unwrap())
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), what);
        }
    }
    found
}

/// All that a directory may have, and names that a shell or a tool may take for something else.
fn plant(root: &Path) {
    let odd = OsStr::from_bytes(b"-n \xff\n$(touch pwned)");
    std::fs::create_dir_all(root.join("bin/deep").join(odd)).unwrap();
    std::fs::create_dir(root.join("void")).unwrap();
    std::fs::write(root.join("bin.c"), "sorts between").unwrap();
    std::fs::write(root.join("empty"), "").unwrap();
    std::fs::write(root.join("big"), bytes(2_500_001)).unwrap();
    std::fs::write(root.join(ODD.replace('*', "-")), "odd").unwrap();
    std::fs::write(root.join("bin/deep").join(odd).join(odd), "deep").unwrap();
    for number in 0..300 {
        std::fs::write(root.join(format!("bin/part-{number}")), bytes(number)).unwrap();
    }
    let tool = root.join("bin/tool");
    std::fs::write(&tool, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o750)).unwrap();
    symlink("bin/tool", root.join("run")).unwrap();
    symlink("../nowhere", root.join("bin/-s")).unwrap();
}

fn tree(world: &World, site: &str) -> (FilePlace, PathBuf) {
    let root = world.root(site).join("files/tree");
    plant(&root);
    (FilePlace::User(RelPath::new("tree").unwrap()), root)
}

/// The same by whoever has it before it, and from there to the other.
#[tokio::test]
async fn directories_go_there_within_it_and_back_as_they_were() {
    let world = World::new().await;
    let (place, root) = tree(&world, "near");
    let planted = snapshot(&root);
    let found = world.near.files().inspect(&place).await.unwrap();
    assert!(found.directory);
    let digest = found.content.digest;
    let stored = |site: &str| world.root(site).join(format!("store/{digest}"));
    assert_eq!(
        copy(&world.far, &order("near", &place, found.content)).await,
        CopyStatus::Complete
    );
    assert!(snapshot(&stored("far")) == planted);
    let mode = std::fs::metadata(stored("far"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o555);
    let kept = FilePlace::Store(found.content.digest);
    assert_eq!(world.far.files().inspect(&kept).await, Ok(found.clone()));
    assert_eq!(
        copy(&world.near, &order("far", &kept, found.content)).await,
        CopyStatus::Complete
    );
    assert!(snapshot(&stored("near")) == planted);
    world
        .far
        .files()
        .delete_content(found.content.digest)
        .await
        .unwrap();
    assert_eq!(
        world.far.files().has_content(found.content.digest).await,
        Ok(false)
    );
    let (place, _) = tree(&world, "far");
    assert_eq!(world.far.files().inspect(&place).await, Ok(found.clone()));
    assert_eq!(
        copy(&world.far, &order("far", &place, found.content)).await,
        CopyStatus::Complete
    );
    assert!(snapshot(&stored("far")) == planted);
    assert!(is_empty(&world.root("far/incoming")));
    assert!(
        is_empty(&world.root("relays/near/far/store")),
        "what was fetched is gone"
    );
    for site in ["far", "near"] {
        assert!(!world.root(site).join("pwned").exists());
    }
}

#[tokio::test]
async fn what_is_there_of_a_directory_is_built_upon_or_dropped_if_wrong() {
    let world = World::new().await;
    let (place, root) = tree(&world, "near");
    let planted = snapshot(&root);
    let copy_of = order(
        "near",
        &place,
        world.near.files().inspect(&place).await.unwrap().content,
    );
    let store = world
        .root("far")
        .join(format!("store/{}", copy_of.content.digest));
    let data = world
        .root("far/incoming")
        .join(format!("{}.n-1", copy_of.content.digest));
    let begun = || {
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("big"), bytes(1_500_000)).unwrap();
        std::fs::create_dir(data.join("bin")).unwrap();
        std::fs::write(data.join("bin/tool"), "#!/bin/sh\n").unwrap();
    };
    let wrong: [&dyn Fn(); 6] = [
        &|| {},
        &|| std::fs::write(data.join("big"), "something else").unwrap(),
        &|| std::fs::write(data.join("foreign"), "").unwrap(),
        &|| std::fs::remove_dir_all(&data).unwrap(),
        &|| symlink("/tmp", data.join("void")).unwrap(),
        &|| std::fs::set_permissions(data.join("bin"), PermissionsExt::from_mode(0o555)).unwrap(),
    ];
    for (number, spoil) in wrong.iter().enumerate() {
        begun();
        spoil();
        assert_eq!(
            copy(&world.far, &copy_of).await,
            CopyStatus::Complete,
            "{number}"
        );
        assert!(snapshot(&store) == planted, "{number}");
        world
            .far
            .files()
            .delete_content(copy_of.content.digest)
            .await
            .unwrap();
    }
    begun();
    world.far.copies().stop_copy(&copy_of, true).await.unwrap();
    assert_eq!(
        world.far.copies().copy_status(&copy_of).await,
        Ok(CopyStatus::Absent)
    );
}

#[tokio::test]
async fn a_fetch_of_a_directory_goes_on_where_it_stood() {
    let world = World::new().await;
    let (place, root) = tree(&world, "far");
    let copy_of = order(
        "far",
        &place,
        world.far.files().inspect(&place).await.unwrap().content,
    );
    let relay = world.root("relays/near/far/store");
    let part = relay.join(format!("{}.part", copy_of.content.digest));
    std::fs::create_dir_all(part.join("bin")).unwrap();
    std::fs::write(part.join("big"), bytes(1_500_000)).unwrap();
    symlink("/tmp", part.join("void")).unwrap();
    assert_eq!(copy(&world.near, &copy_of).await, CopyStatus::Complete);
    let store = world
        .root("near")
        .join(format!("store/{}", copy_of.content.digest));
    assert!(snapshot(&store) == snapshot(&root));
    assert!(is_empty(&relay));
}

/// Neither a link in it, nor one on the way to it, nor what is no content at all.
#[tokio::test]
async fn what_leads_out_of_a_directory_or_is_no_content_is_refused() {
    let world = World::new().await;
    let far = world.root("far/files");
    for (name, target) in [("up", ".."), ("absolute", "/etc"), ("round", "a/../..")] {
        std::fs::create_dir(far.join(name)).unwrap();
        symlink(target, far.join(name).join("link")).unwrap();
    }
    std::fs::create_dir(far.join("pipe")).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        far.join("pipe/pipe"),
        rustix::fs::Mode::RWXU,
    )
    .unwrap();
    let outside = world.place.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("x"), "secret").unwrap();
    symlink(&outside, far.join("away")).unwrap();
    symlink(outside.join("x"), far.join("file")).unwrap();
    for path in ["up", "absolute", "round", "pipe", "away", "away/x", "file"] {
        let place = FilePlace::User(RelPath::new(path).unwrap());
        let answer = world.far.files().inspect(&place).await;
        assert!(
            matches!(answer, Err(SiteError::Refused(_))),
            "{path}: {answer:?}"
        );
        let wanted = order("far", &place, content(b"abc"));
        for to in [&world.far, &world.near] {
            let status = copy(to, &wanted).await;
            let is_refused = matches!(
                status,
                CopyStatus::Failed {
                    blame: CopyBlame::Source,
                    ..
                }
            );
            assert!(is_refused, "{path}: {status:?}");
        }
    }
}

fn piece(offset: u64, bytes: &[u8], last: bool) -> UploadStep {
    UploadStep::Append {
        name: "u1".into(),
        offset: Bytes(offset),
        bytes: bytes.into(),
        last,
    }
}

#[tokio::test]
async fn what_a_user_sends_is_a_file_once_it_is_whole_though_steps_are_said_twice() {
    let world = World::new().await;
    for (site, name) in [(&world.far, "far"), (&world.near, "near")] {
        let file = world.root(name).join("files/uploads/u1");
        // Left from a try that was given up.
        site.files()
            .upload(&piece(0, b"something longer", false))
            .await
            .unwrap();
        for step in [
            piece(0, b"abc", false),
            piece(3, b"def", false),
            piece(6, b"g", true),
        ] {
            site.files().upload(&step).await.unwrap();
            if !matches!(step, UploadStep::Append { last: true, .. }) {
                site.files().upload(&step).await.unwrap();
            }
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"abcdefg", "{name}");
        let place = FilePlace::User(RelPath::new("uploads/u1").unwrap());
        assert_eq!(
            site.files().inspect(&place).await.unwrap().content,
            content(b"abcdefg")
        );
        let remove = UploadStep::Remove { name: "u1".into() };
        site.files().upload(&remove).await.unwrap();
        site.files().upload(&remove).await.unwrap();
        assert!(
            !file.exists() && is_empty(&world.root(name).join("files/uploads")),
            "{name}"
        );
        site.files().upload(&piece(0, b"abc", false)).await.unwrap();
        let gap = site
            .files()
            .upload(&piece(4, b"e", true))
            .await
            .unwrap_err();
        assert!(matches!(gap, SiteError::Refused(_)), "{name}: {gap}");
        site.files().upload(&piece(0, b"", true)).await.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"", "a file may be empty");
    }
}

#[tokio::test]
async fn nothing_is_sent_where_a_link_leads() {
    let world = World::new().await;
    for (site, name) in [(&world.far, "far"), (&world.near, "near")] {
        let elsewhere = world.place.path().join(format!("elsewhere-{name}"));
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, world.root(name).join("files/uploads")).unwrap();
        let refused = site.files().upload(&piece(0, b"abc", true)).await;
        assert!(
            refused.is_err() && is_empty(&elsewhere),
            "{name}: {refused:?}"
        );
    }
}

/// Whoever asks again and again for what can never be told waits for ever.
#[tokio::test]
async fn directories_that_no_answer_can_tell_of_are_refused_with_the_bound() {
    let world = World::new().await;
    let files = world.root("far").join("files");
    std::fs::create_dir_all(files.join("deep").join("d/".repeat(1_500))).unwrap();
    std::fs::create_dir(files.join("wide")).unwrap();
    for n in 0..125_000 {
        std::fs::write(files.join(format!("wide/{n:0>240}")), "").unwrap();
    }
    let wide = "its names take more than 30000000 bytes; pack it";
    for (directory, bound) in [
        ("deep", "more than 128 levels deep; pack it"),
        ("wide", wide),
    ] {
        let place = FilePlace::User(RelPath::new(directory).unwrap());
        let refused = world.far.files().inspect(&place).await;
        let Err(SiteError::Refused(why)) = refused else {
            panic!("{directory}: {refused:?}")
        };
        assert!(why.contains(bound), "{why}");
        let within = copy(&world.far, &order("far", &place, content(b""))).await;
        assert!(
            matches!(within, CopyStatus::Failed { .. }),
            "{directory}: {within:?}"
        );
    }
}

#[tokio::test]
async fn a_file_is_read_for_all_who_ask_and_no_longer_than_one_of_them_waits() {
    let world = World::new().await;
    let huge = world.put("near", "huge", b"");
    let file = world.root("near").join("files/huge");
    // Reads for so long that it certainly does not come to its end.
    let length = 4 << 40;
    let opened = std::fs::File::options().write(true).open(&file).unwrap();
    opened.set_len(length).unwrap();
    let ask = || {
        let near = world.near.clone();
        let place = huge.clone();
        tokio::spawn(async move { near.files().inspect(&place).await })
    };
    let so_far = || world.near.files().read_so_far(&huge);
    let (first, second) = (ask(), ask());
    until(|| so_far().is_some_and(|read| read.done.0 > 0)).await;
    assert_eq!(so_far().and_then(|read| read.of), Some(Bytes(length)));
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let before = so_far();
    until(|| so_far().map(|read| read.done) > before.map(|read| read.done)).await;
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    until(|| is_empty(&world.root("near").join("inspect")) && so_far().is_none()).await;
    opened.set_len(0).unwrap();
    let found = world.near.files().inspect(&huge).await.unwrap();
    assert_eq!(found.content, content(b""), "it is read anew");
}

async fn until(so: impl Fn() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it does not come"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
