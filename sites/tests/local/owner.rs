//! A root is of one control plane at a time, and is put in order when it is taken.

use std::path::Path;

use cospan_domain::ids::InstanceId;
use cospan_domain::units::Timestamp;
use cospan_sites::contract::{
    PATIENCE, SiteFixture, attempt_tag, await_observation, await_printed, script_program,
    start_attempt, submit_request,
};
use cospan_sites::local_site::LocalSite;
use cospan_sites::port::{AttemptObservation, Site};

use crate::support::LocalSiteFixture;

fn owned_by(fixture: &LocalSiteFixture, instance: u64) -> LocalSite {
    let mut config = fixture.config();
    config.owner = Some(InstanceId::from_random(instance));
    LocalSite::new(config).unwrap()
}

fn instance(number: u64) -> String {
    InstanceId::from_random(number).to_string()
}

#[tokio::test]
async fn a_root_that_another_control_plane_has_is_refused_with_both_names_until_that_ends() {
    let fixture = LocalSiteFixture::new();
    let first = owned_by(&fixture, 1);
    first.take_root().unwrap();
    first.take_root().unwrap();
    let second = owned_by(&fixture, 2);
    let refusal = second.take_root().unwrap_err().to_string();
    let process = format!("(process {})", std::process::id());
    for word in [
        &*instance(1),
        &instance(2),
        "on host",
        &process,
        "stop the other",
    ] {
        assert!(refusal.contains(word), "{word} is not in: {refusal}");
    }
    assert!(
        second.queue().status(&[]).await.is_err(),
        "nor does it do anything there"
    );
    first.queue().status(&[]).await.unwrap();
    drop(first);
    second.queue().status(&[]).await.unwrap();
    drop(second);
    owned_by(&fixture, 2).take_root().unwrap();
}

#[test]
fn a_root_that_was_anothers_on_another_host_is_refused_until_its_name_is_removed() {
    let fixture = LocalSiteFixture::new();
    let owner = fixture.root().join("owner");
    let written = |number| format!("instance {}\nhost elsewhere\npid 7\n", instance(number));
    std::fs::write(&owner, written(1)).unwrap();
    let refusal = owned_by(&fixture, 2).take_root().unwrap_err().to_string();
    assert!(
        refusal.contains(&format!("remove {}", owner.display())),
        "{refusal}"
    );
    assert!(
        refusal.contains("on host elsewhere (process 7)"),
        "{refusal}"
    );
    std::fs::remove_file(&owner).unwrap();
    owned_by(&fixture, 2).take_root().unwrap();
    // The same one, which has moved with its store.
    std::fs::write(&owner, written(2)).unwrap();
    owned_by(&fixture, 2).take_root().unwrap();
}

#[tokio::test]
async fn a_root_that_was_away_is_taken_when_it_comes_back() {
    let fixture = LocalSiteFixture::new();
    let first = owned_by(&fixture, 1);
    let second = owned_by(&fixture, 2);
    fixture.take_away();
    first.take_root().unwrap();
    second.take_root().unwrap();
    fixture.bring_back();
    first.queue().status(&[]).await.unwrap();
    let refusal = second.queue().status(&[]).await.unwrap_err().to_string();
    assert!(refusal.contains(&instance(1)), "{refusal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_removal_left_that_was_cut_off_is_removed_at_the_next_start() {
    let fixture = LocalSiteFixture::new();
    let gone = fixture.root().join("gone");
    let left = gone.join(format!("{}.4711-0", attempt_tag(1)));
    std::fs::create_dir_all(left.join("work/deep/deeper")).unwrap();
    std::fs::write(left.join("work/deep/output"), "x").unwrap();
    std::fs::write(gone.join("4711-1.tmp"), "x").unwrap();
    close(&left.join("work/deep"));
    owned_by(&fixture, 1).take_root().unwrap();
    let begun = std::time::Instant::now();
    while std::fs::read_dir(&gone).unwrap().next().is_some() {
        assert!(begun.elapsed() < PATIENCE, "it stays for ever");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// As payloads close directories.
fn close(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o0)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_is_told_to_have_run_as_long_as_it_has_whoever_set_the_clock() {
    const HOUR: std::time::Duration = std::time::Duration::from_secs(3_600);
    let fixture = LocalSiteFixture::new();
    let submitted = std::time::Instant::now();
    let waits = "echo begun; while :; do sleep 0.05; done";
    start_attempt(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program(waits)),
    )
    .await;
    await_printed(&*fixture.site, attempt_tag(1), "begun").await;
    // The clock of now is an hour ahead of the one that the wrapper wrote by.
    let file = fixture
        .root()
        .join(format!("attempts/{}/begun", attempt_tag(1)));
    let file = std::fs::File::options().append(true).open(file).unwrap();
    file.set_modified(std::time::SystemTime::now() - HOUR)
        .unwrap();
    let next = fixture.reopened();
    await_observation(&*next, attempt_tag(1), |seen: &AttemptObservation| {
        matches!(seen, AttemptObservation::Begun(_))
    })
    .await;
    let told = async || {
        let status = next.queue().status(&[attempt_tag(1)]).await.unwrap();
        let Some(AttemptObservation::Begun(begun)) = status.attempts.get(&attempt_tag(1)) else {
            panic!("{:?}", status.attempts);
        };
        (status.site_clock.unwrap(), begun.at)
    };
    let (now, at): (Timestamp, Timestamp) = told().await;
    let ran = now.since(at).0;
    assert!(
        u128::from(ran) <= submitted.elapsed().as_millis() + 100,
        "it ran for {ran} ms"
    );
    assert_eq!(told().await.1, at, "the same at each look");
    next.queue().cancel(attempt_tag(1), None).await.unwrap();
}
