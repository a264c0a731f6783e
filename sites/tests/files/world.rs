//! Two sites in a temporary directory, and what tests do with them.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, RelPath, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::{BitsPerSecond, Bytes};
use cospan_sites::files::{FileArea, FileAreaConfig, InspectionStatus};
use cospan_sites::port::{CopyRequest, CopySource, CopyStatus, InspectedFile};

/// More than anything here takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
/// Name of the directory of attempts.
pub(crate) const ATTEMPTS: &str = "attempts";

/// Sites `a` (the source) and `b`.
pub(crate) struct World {
    pub(crate) place: tempfile::TempDir,
    pub(crate) a: FileArea,
    pub(crate) b: FileArea,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_agent(vec![agent()])
    }

    /// With agents of `b` started by another command line.
    pub(crate) fn with_agent(command: Vec<PathBuf>) -> Self {
        let place = tempfile::tempdir().unwrap();
        let a = area(&place.path().join("a"), vec![agent()]);
        let b = area(&place.path().join("b"), command);
        Self { place, a, b }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    /// Writes a file at `a` and says what it is.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> Content {
        std::fs::write(self.path("a/files").join(name), bytes).unwrap();
        content(bytes)
    }

    pub(crate) fn start(&self, order: &CopyRequest) {
        self.b.start_copy(order, &self.a.as_source()).unwrap();
    }

    /// Starts a copy and waits for its end.
    pub(crate) fn copy(&self, order: &CopyRequest) -> CopyStatus {
        self.start(order);
        self.end_of(order)
    }

    pub(crate) fn end_of(&self, order: &CopyRequest) -> CopyStatus {
        wait_for(|| {
            Some(self.status(order))
                .filter(|status: &CopyStatus| !matches!(status, CopyStatus::Running { .. }))
        })
    }

    pub(crate) fn status(&self, order: &CopyRequest) -> CopyStatus {
        self.b.copy_status(order).unwrap()
    }

    pub(crate) fn in_store(&self, digest: Digest) -> PathBuf {
        self.path("b/store").join(digest.to_string())
    }

    /// Where a copy keeps its state.
    pub(crate) fn task(&self, order: &CopyRequest) -> PathBuf {
        self.path("b/incoming")
            .join(format!("{}.{}", order.content.digest, order.nonce))
    }

    /// The agents of a copy, found without asking Cospan.
    pub(crate) fn agents_of(&self, order: &CopyRequest) -> Vec<i32> {
        let root = self.path("b");
        let task = self.task(order);
        let wanted = [
            root.as_os_str().as_bytes(),
            task.file_name().unwrap().as_bytes(),
        ];
        let running = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let entry = entry.ok()?;
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let command = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
            wanted
                .iter()
                .all(|word| words.contains(word))
                .then_some(pid)
        });
        running.collect()
    }

    /// Names left in one of `b`'s directories, but for the gate.
    pub(crate) fn left_in(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("b").join(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "gate").collect()
    }
}

pub(crate) fn agent() -> PathBuf {
    env!("CARGO_BIN_EXE_site-agent").into()
}

pub(crate) fn area(root: &Path, agent: Vec<PathBuf>) -> FileArea {
    std::fs::create_dir_all(root).unwrap();
    let area = FileArea::new(FileAreaConfig {
        root: root.into(),
        attempts: ATTEMPTS.into(),
        agent: agent.into_iter().map(PathBuf::into_os_string).collect(),
        stall: DEADLINE,
    })
    .unwrap();
    area.prepare_root().unwrap();
    area
}

pub(crate) fn content(bytes: &[u8]) -> Content {
    let digest = Digest(*blake3::hash(bytes).as_bytes());
    Content {
        digest,
        size: Bytes(bytes.len() as u64),
    }
}

pub(crate) fn user(path: &str) -> FilePlace {
    FilePlace::User(RelPath::new(path).unwrap())
}

/// Order for a user's file at `a`.
pub(crate) fn order(content: Content, path: &str) -> CopyRequest {
    CopyRequest {
        content,
        chunk: None,
        source: CopySource {
            site: SiteName::new("a").unwrap(),
            place: user(path),
        },
        nonce: "inst-1".into(),
        limit: None,
    }
}

pub(crate) fn limited(order: CopyRequest, bytes_per_second: u64) -> CopyRequest {
    CopyRequest {
        limit: Some(BitsPerSecond(bytes_per_second * 8)),
        ..order
    }
}

/// Asks again until there is an answer.
pub(crate) fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < DEADLINE, "it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Lets an area find out what a file is.
pub(crate) fn inspect(area: &FileArea, place: &FilePlace) -> InspectionStatus {
    area.start_inspection(place).unwrap();
    wait_for(|| {
        Some(area.inspection_status(place).unwrap())
            .filter(|status: &InspectionStatus| !matches!(status, InspectionStatus::Running { .. }))
    })
}

pub(crate) fn inspected(area: &FileArea, place: &FilePlace) -> InspectedFile {
    match inspect(area, place) {
        InspectionStatus::Done(found) => found,
        other => panic!("{other:?}"),
    }
}

/// Bytes without a pattern that would hide a shifted copy.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

pub(crate) fn kill(pid: i32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        // It may be over by now.
        let _ = rustix::process::kill_process(pid, signal);
    }
}
