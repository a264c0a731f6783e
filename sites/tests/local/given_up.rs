//! Inspections of files for which nobody waits any more.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use cospan_domain::ids::RelPath;
use cospan_sites::port::{FilePlace, Site};

use crate::support::LocalSiteFixture;

const PATIENCE: Duration = Duration::from_secs(60);

/// Counts agents that inspect files of a site.
fn inspecting_agents(root: &Path) -> usize {
    let root = root.as_os_str().as_bytes();
    let commands = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let command = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let mut words = command.split(|byte| *byte == 0);
        let inspects = words.by_ref().any(|word| word == b"inspect");
        Some(inspects && words.any(|word| word.starts_with(root)))
    });
    commands.filter(|is_one| *is_one).count()
}

#[tokio::test]
async fn an_inspection_that_is_given_up_as_it_begins_leaves_no_agent() {
    let fixture = LocalSiteFixture::new();
    for number in 0..30 {
        let name = format!("huge-{number}");
        let file = File::create(fixture.root().join("files").join(&name)).unwrap();
        file.set_len(4 << 40).unwrap();
        let place = FilePlace::User(RelPath::new(&name).unwrap());
        let inspecting = fixture.site.files().inspect(&place);
        let given_up = tokio::time::timeout(Duration::from_micros(50 * number), inspecting).await;
        assert!(given_up.is_err(), "{given_up:?}");
    }
    let begun = Instant::now();
    // An agent may begin late: all are gone, and still are.
    for _ in 0..20 {
        while inspecting_agents(&fixture.root()) > 0 {
            assert!(begun.elapsed() < PATIENCE, "an agent is left");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
