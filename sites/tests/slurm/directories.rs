//! Directories that travel to and within a cluster over SSH.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use cospan_domain::content::Content;
use cospan_domain::ids::RelPath;
use cospan_sites::contract::{
    PATIENCE, SiteFixture, attempt_tag, await_observation, bring_to_gate, read_stdout, run_to_end,
    script_program, submit_request,
};
use cospan_sites::port::{
    AttemptObservation, CopyRequest, CopySource, CopyStatus, ErrorBlame, ExitCause, FilePlace,
    InspectedFile, Site,
};

use super::fixture::SlurmSiteFixture;

/// Reads its input, and leaves it as its output with what it found.
const PAYLOAD: &str = "cd input && ./tool && readlink link && cat link && cd .. \
    && mkdir out && cp -R input/. out && touch out/void";

/// Copies a directory there, cutting the connection in the middle if that is wanted.
async fn bring(
    fixture: &SlurmSiteFixture,
    site: &dyn Site,
    source: CopySource,
    content: Content,
    cut: bool,
) {
    let order = CopyRequest {
        content,
        chunk: None,
        source,
        nonce: "n-1".to_owned(),
        limit: None,
    };
    site.copies().start_copy(&order).await.unwrap();
    if cut {
        tokio::time::sleep(Duration::from_millis(100)).await;
        fixture.cut(true).await;
    }
    let started = Instant::now();
    loop {
        match site.copies().copy_status(&order).await {
            Ok(CopyStatus::Complete) => return,
            Ok(CopyStatus::Running { .. }) | Err(_) => {}
            Ok(status) => panic!("{status:?}"),
        }
        assert!(started.elapsed() < PATIENCE, "the copy takes too long");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// As an input with its modes and links, as the output of a job, and into the site's store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_input_and_output_of_a_job_over_ssh() {
    let Some(fixture) = SlurmSiteFixture::offered_over_ssh() else {
        return;
    };
    let site = fixture.site();
    let planted = fixture.neighbours_files().join("tree");
    std::fs::create_dir(&planted).unwrap();
    std::fs::write(planted.join("tool"), "#!/bin/sh\necho it runs\n").unwrap();
    std::fs::set_permissions(planted.join("tool"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(planted.join("data $(x)"), vec![7; 3_000_000]).unwrap();
    std::fs::write(planted.join("words"), "by way of a link\n").unwrap();
    symlink("words", planted.join("link")).unwrap();
    let place = FilePlace::User(RelPath::new("tree").unwrap());
    let found = fixture.inspect_neighbours(&place).await;
    assert!(found.directory);
    let source = CopySource {
        site: fixture.neighbour(),
        place,
    };
    bring(&fixture, &*site, source, found.content, true).await;
    let mut order = submit_request(attempt_tag(1), script_program(PAYLOAD));
    order.inputs = vec![(found.content, RelPath::new("input").unwrap())];
    assert_eq!(run_to_end(&*site, &order).await, ExitCause::Code(0));
    assert_eq!(
        read_stdout(&*site, attempt_tag(1)).await,
        "it runs\nwords\nby way of a link\n"
    );
    let output = FilePlace::Output(attempt_tag(1), RelPath::new("out").unwrap());
    let left: InspectedFile = site.files().inspect(&output).await.unwrap();
    assert!(left.directory && left.content.size == found.content.size);
    assert_ne!(left.content, found.content, "it has a file more");
    let source = CopySource {
        site: site.name().clone(),
        place: output,
    };
    bring(&fixture, &*site, source, left.content, false).await;
    let tool = format!("store/{}/tool", left.content.digest);
    let mode = std::fs::metadata(fixture.root().join(tool))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o555);
}

/// Newer Slurm makes the directory of an output file that is missing: there nobody would look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_root_is_not_written_to() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let mut all = submit_request(attempt_tag(1), script_program("exit 0"));
    all.resources = site.monitor().describe().await.unwrap().total;
    bring_to_gate(&*site, &all).await;
    let next = attempt_tag(2);
    site.queue()
        .submit(&submit_request(next, script_program("exit 0")))
        .await
        .unwrap();
    await_observation(&*site, next, |seen| {
        matches!(seen, AttemptObservation::Queued(_))
    })
    .await;
    fixture.take_away();
    fixture.slurm(&["scancel", &format!("--name={}", attempt_tag(1))]);
    let started = Instant::now();
    while !fixture.slurm(&["squeue", "-h", "-o", "%i"]).is_empty() {
        assert!(started.elapsed() < PATIENCE, "the job does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!fixture.root().exists(), "its node made a directory");
    fixture.bring_back();
    let seen = await_observation(&*site, next, |seen: &AttemptObservation| {
        !matches!(
            seen,
            AttemptObservation::Queued(_)
                | AttemptObservation::Starting
                | AttemptObservation::Unknown(_)
        )
    })
    .await;
    let is_sites_error = match &seen {
        AttemptObservation::Ended { why, .. } => why.whose_error() == ErrorBlame::Site,
        seen => matches!(seen, AttemptObservation::Vanished { began: false, .. }),
    };
    assert!(is_sites_error, "{seen:?}");
}
