//! Numbers of processes are given out again: nothing but the very process is signalled.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use cospan_sites::contract::{SiteFixture, attempt_tag, await_observation};
use cospan_sites::port::{AttemptObservation, GateDecision};

use crate::support::LocalSiteFixture;

/// A process that is none of ours, in a group of its own, and must survive.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        Self(
            Command::new("sleep")
                .arg("600")
                .process_group(0)
                .spawn()
                .unwrap(),
        )
    }

    fn start_time(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .nth(19)
            .unwrap()
            .parse()
            .unwrap()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap()
        .trim()
        .to_owned()
}

/// What an attempt leaves whose processes' numbers are the bystander's now.
fn forge(fixture: &LocalSiteFixture, pid: u32, start: u64, boot: &str) {
    let tag = attempt_tag(1);
    let attempt = fixture.root().join(format!("attempts/{tag}"));
    std::fs::create_dir(&attempt).unwrap();
    let ready = format!("host h\npid {pid}\nstart {start}\nboot {boot}\nend {tag}\n");
    std::fs::write(attempt.join("ready"), ready).unwrap();
    std::fs::write(attempt.join("decision"), format!("go\nend {tag}\n")).unwrap();
    let begun = format!("pid {pid}\nstart {start}\nend {tag}\n");
    std::fs::write(attempt.join("begun"), begun).unwrap();
    let live = format!("processors 1\nlongest_ms 1\nend {tag}\n");
    std::fs::write(fixture.root().join(format!("live/{tag}")), live).unwrap();
}

async fn ends_without_touching(start_differs: bool, boot_differs: bool) {
    let fixture = LocalSiteFixture::new();
    let mut bystander = Bystander::new();
    let start = bystander.start_time() - u64::from(start_differs);
    let boot = if boot_differs {
        "another".to_owned()
    } else {
        boot()
    };
    forge(&fixture, bystander.0.id(), start, &boot);
    let site = fixture.site();
    let _ = site
        .gate()
        .decide_gate(attempt_tag(1), &GateDecision::Void)
        .await;
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    let seen = await_observation(&*site, attempt_tag(1), |seen| {
        matches!(seen, AttemptObservation::Vanished { .. })
    })
    .await;
    assert!(
        matches!(seen, AttemptObservation::Vanished { began: true, .. }),
        "{seen:?}"
    );
    assert_eq!(site.queue().status(&[]).await.unwrap().idle.processors, 8);
    assert_eq!(
        bystander.0.try_wait().unwrap(),
        None,
        "the bystander was ended"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_started_at_another_time_is_never_signalled() {
    ends_without_touching(true, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_another_run_of_the_machine_is_never_signalled() {
    ends_without_touching(false, true).await;
}
