//! Roots that are not there, not the site, or come back; decisions that race; load of others.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::ids::{AttemptTag, InstanceId, RelPath};
use cospan_domain::resources::Resources;
use cospan_sites::contract::{
    SiteFixture, attempt_tag, await_idle, await_observation, bring_to_gate, go_decision,
    script_program, submit_request,
};
use cospan_sites::local_site::LocalSite;
use cospan_sites::port::{AttemptObservation, GateDecision, GateState, Site, SiteError};

use crate::support::LocalSiteFixture;

async fn status_is_no_information(site: &dyn Site) {
    let status = site.queue().status(&[attempt_tag(1)]).await;
    assert!(matches!(status, Err(SiteError::NotSent(_))), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_in_the_place_of_the_root_is_not_the_site() {
    let fixture = LocalSiteFixture::new();
    bring_to_gate(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program("exit 0")),
    )
    .await;
    // A wrapper says that it is ready, and then has one thing to do before it waits.
    let params = fixture
        .root()
        .join(format!("spool/{}/params", attempt_tag(1)));
    while std::fs::metadata(&params).unwrap().len() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fixture.take_away();
    std::fs::create_dir(fixture.root()).unwrap();
    status_is_no_information(&*fixture.site).await;
    std::fs::create_dir(fixture.root().join("attempts")).unwrap();
    status_is_no_information(&*fixture.site).await;
    std::fs::write(fixture.root().join("site-id"), "cospan site other\n").unwrap();
    status_is_no_information(&*fixture.site).await;
    std::fs::remove_dir_all(fixture.root()).unwrap();
    std::fs::write(fixture.root(), "a file").unwrap();
    status_is_no_information(&*fixture.site).await;
    std::fs::remove_file(fixture.root()).unwrap();
    fixture.bring_back();
    let seen = await_observation(&*fixture.site, attempt_tag(1), |_| true).await;
    assert!(matches!(seen, AttemptObservation::Ready(_)), "{seen:?}");
    fixture
        .site
        .queue()
        .cancel(attempt_tag(1), None)
        .await
        .unwrap();
    await_idle(&*fixture.site, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_without_its_directory_of_attempts_does_not_call_them_absent() {
    let fixture = LocalSiteFixture::new();
    std::fs::remove_dir(fixture.root().join("attempts")).unwrap();
    status_is_no_information(&*fixture.site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_belongs_to_one_site() {
    let fixture = LocalSiteFixture::new();
    let mut config = fixture.config();
    fixture.site.make_root().unwrap();
    config.name = "other".parse().unwrap();
    let other = LocalSite::new(config).unwrap();
    assert!(matches!(other.make_root(), Err(SiteError::Refused(_))));
    status_is_no_information(&other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_marker_that_a_power_cut_left_cut_off_is_told_and_mended_at_the_next_start() {
    let fixture = LocalSiteFixture::new();
    let marker = fixture.root().join("site-id");
    let whole = std::fs::read(&marker).unwrap();
    // As whoever had the root left it.
    let owner = "instance aaaaaaaa\nhost here\npid 7\n";
    std::fs::write(fixture.root().join("owner"), owner).unwrap();
    for left in [Vec::new(), whole[..14].to_vec(), vec![0; whole.len()]] {
        std::fs::write(&marker, &left).unwrap();
        let said = fixture
            .site
            .queue()
            .status(&[attempt_tag(1)])
            .await
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("cut off") && said.contains("start the server again"),
            "{said}"
        );
        fixture.site.take_root().unwrap();
        assert_eq!(std::fs::read(&marker).unwrap(), whole, "{left:?}");
        fixture
            .site
            .queue()
            .status(&[attempt_tag(1)])
            .await
            .unwrap();
        std::fs::write(&marker, &left).unwrap();
        fixture.site.make_root().unwrap();
        fixture
            .site
            .queue()
            .status(&[attempt_tag(1)])
            .await
            .unwrap();
    }
    for others in ["cospan site other\n", "cospan site ot", "other", "\0x"] {
        std::fs::write(&marker, others).unwrap();
        fixture.site.take_root().unwrap();
        status_is_no_information(&*fixture.site).await;
        fixture.site.make_root().unwrap_err();
        assert_eq!(std::fs::read_to_string(&marker).unwrap(), others);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_marker_that_is_cut_off_makes_no_site_of_another_directory() {
    let fixture = LocalSiteFixture::new();
    std::fs::write(fixture.root().join("site-id"), "").unwrap();
    std::fs::remove_dir(fixture.root().join("live")).unwrap();
    fixture.site.take_root().unwrap();
    status_is_no_information(&*fixture.site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapper_that_a_power_cut_left_empty_is_put_in_place_before_it_runs_anything() {
    let fixture = LocalSiteFixture::new();
    bring_to_gate(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program("exit 0")),
    )
    .await;
    fixture
        .site
        .queue()
        .cancel(attempt_tag(1), None)
        .await
        .unwrap();
    await_idle(&*fixture.site, 8).await;
    let names = std::fs::read_dir(fixture.root())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let wrapper = names
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "sh"));
    std::fs::write(wrapper.unwrap(), "").unwrap();
    let mut config = fixture.config();
    config.owner = Some(InstanceId::from_random(1));
    let started = LocalSite::new(config).unwrap();
    started.take_root().unwrap();
    bring_to_gate(
        &started,
        &submit_request(attempt_tag(2), script_program("exit 0")),
    )
    .await;
    started.queue().cancel(attempt_tag(2), None).await.unwrap();
    await_idle(&started, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_collected_is_on_the_disk_before_its_payload_has_succeeded() {
    let fixture = LocalSiteFixture::new();
    let tools = tempfile::tempdir().unwrap();
    let sync = tools.path().join("sync");
    let said = tools.path().join("said");
    let noted = format!(
        "#!/bin/sh\nls exit >> {0} 2>&1\necho \"$@\" >> {0}\n",
        said.display()
    );
    std::fs::write(&sync, noted).unwrap();
    std::fs::set_permissions(&sync, PermissionsExt::from_mode(0o755)).unwrap();
    let mut config = fixture.config();
    let path = format!("{}:{}", tools.path().display(), config.environment["PATH"]);
    config.environment.insert("PATH".to_owned(), path);
    let site = LocalSite::new(config).unwrap();
    let run = async |job: u64, payload: &str| {
        let _ = std::fs::remove_file(&said);
        let mut order = submit_request(attempt_tag(job), script_program(payload));
        order.outputs = ["a b", "tree", "c/d", "missing"]
            .map(|path| RelPath::new(path).unwrap())
            .into();
        bring_to_gate(&site, &order).await;
        site.gate()
            .decide_gate(attempt_tag(job), &go_decision())
            .await
            .unwrap();
        await_observation(&site, attempt_tag(job), |seen: &AttemptObservation| {
            matches!(seen, AttemptObservation::Exited(_))
        })
        .await;
        std::fs::read_to_string(&said).unwrap_or_default()
    };
    let told = run(1, "mkdir tree c; echo > 'a b'; echo > c/d; echo > other").await;
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        (lines[1], lines[3], lines.len()),
        ("-f work/tree", "work/a b work/c/d", 4)
    );
    assert!(
        lines[0].contains("No such file") && lines[2].contains("No such file"),
        "{told}"
    );
    assert_eq!(
        run(2, "echo > 'a b'; exit 3").await,
        "",
        "nothing of a failure is collected"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_five_hundred_races_at_the_gate_each_has_one_winner() {
    let fixture = LocalSiteFixture::new();
    let sites: [Arc<dyn Site>; 2] = [fixture.site(), fixture.reopened()];
    let mut opened = 0;
    for job in 1..=500 {
        std::fs::create_dir(
            fixture
                .root()
                .join(format!("attempts/{}", attempt_tag(job))),
        )
        .unwrap();
        let decide = |index: usize, decision: GateDecision| {
            let site = sites[index].clone();
            tokio::spawn(async move {
                site.gate()
                    .decide_gate(attempt_tag(job), &decision)
                    .await
                    .unwrap()
            })
        };
        let turn = usize::from(job % 2 == 0);
        let go = decide(turn, go_decision());
        let void = decide(1 - turn, GateDecision::Void);
        let go = go.await.unwrap();
        let void = void.await.unwrap();
        assert_eq!(go, void, "both are told who won");
        opened += u32::from(go == GateState::Opened);
    }
    println!("{opened} of 500 were opened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_use_is_not_idle() {
    let fixture = LocalSiteFixture::with(|config| {
        config.foreign_load = Some(config.root.join("foreign-load"));
    });
    let load = fixture.root().join("foreign-load");
    assert_eq!(
        fixture
            .site
            .queue()
            .status(&[])
            .await
            .unwrap()
            .idle
            .processors,
        8
    );
    std::fs::write(&load, "7\n").unwrap();
    assert_eq!(
        fixture
            .site
            .queue()
            .status(&[])
            .await
            .unwrap()
            .idle
            .processors,
        1
    );
    std::fs::write(&load, "100").unwrap();
    assert_eq!(
        fixture
            .site
            .queue()
            .status(&[])
            .await
            .unwrap()
            .idle
            .processors,
        0
    );
    let answer = fixture
        .site
        .queue()
        .submit(&submit_request(attempt_tag(1), script_program("exit 0")))
        .await;
    assert!(matches!(answer, Err(SiteError::SiteFull(_))), "{answer:?}");
    std::fs::write(&load, "a few").unwrap();
    assert!(
        fixture.site.queue().status(&[]).await.is_err(),
        "garbage is no load of zero"
    );
}

/// An attempt as a control plane left it a minute ago that died in the middle of its submission:
/// with an entry, and perhaps a log.
fn given_up(fixture: &LocalSiteFixture, tag: AttemptTag, log: Option<&str>) -> PathBuf {
    if let Some(log) = log {
        let spool = fixture.root().join(format!("spool/{tag}"));
        std::fs::create_dir(&spool).unwrap();
        std::fs::write(spool.join("log"), log).unwrap();
    }
    // Its time is right before it is in its place.
    let made = fixture.root().join(format!("entry-{tag}"));
    std::fs::write(&made, format!("processors 3\nlongest_ms 1000\nend {tag}\n")).unwrap();
    let minute_ago = std::time::SystemTime::now() - Duration::from_secs(60);
    std::fs::File::options()
        .write(true)
        .open(&made)
        .unwrap()
        .set_modified(minute_ago)
        .unwrap();
    let path = fixture.root().join(format!("live/{tag}"));
    std::fs::rename(made, &path).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_was_given_up_half_way_holds_nothing_for_long() {
    let fixture = LocalSiteFixture::new();
    for (tag, log) in [(attempt_tag(1), None), (attempt_tag(2), Some(""))] {
        let path = given_up(&fixture, tag, log);
        await_idle(&*fixture.site, 8).await;
        assert_eq!(
            await_observation(&*fixture.site, tag, |_| true).await,
            AttemptObservation::Absent
        );
        assert!(!path.exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_wrapper_said_that_was_never_ready_is_told() {
    let fixture = LocalSiteFixture::new();
    given_up(&fixture, attempt_tag(1), Some("cannot fork\n"));
    let lost = await_observation(
        &*fixture.site,
        attempt_tag(1),
        |seen: &AttemptObservation| matches!(seen, AttemptObservation::Vanished { .. }),
    )
    .await;
    let AttemptObservation::Vanished {
        began: false,
        detail,
    } = lost
    else {
        panic!("{lost:?}")
    };
    assert!(detail.contains("cannot fork"), "{detail}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_cut_off_before_its_start_is_not_found_and_makes_room() {
    let fixture = LocalSiteFixture::new();
    let path = fixture.root().join(format!("live/{}", attempt_tag(1)));
    std::fs::write(
        &path,
        format!("processors 8\nlongest_ms 1000\nend {}\n", attempt_tag(1)),
    )
    .unwrap();
    std::fs::create_dir(fixture.root().join(format!("spool/{}", attempt_tag(1)))).unwrap();
    assert_eq!(
        fixture
            .site
            .queue()
            .status(&[])
            .await
            .unwrap()
            .idle
            .processors,
        0
    );
    assert!(
        fixture
            .site
            .queue()
            .find_by_tag(attempt_tag(1))
            .await
            .unwrap()
            .found
            .is_empty()
    );
    let shut = fixture
        .site
        .gate()
        .decide_gate(attempt_tag(1), &GateDecision::Void)
        .await
        .unwrap();
    assert_eq!(shut, GateState::Voided);
    let mut again = submit_request(attempt_tag(2), script_program("exit 0"));
    again.resources = Resources::processors(8);
    fixture.site.queue().submit(&again).await.unwrap();
    assert!(!path.exists());
}
