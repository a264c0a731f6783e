//! What becomes of attempts that Slurm does not list, or calls something else.

use std::time::Duration;

use cospan_domain::ids::AttemptTag;

use super::SlurmSite;
use super::polls_tests::{
    ScriptedCluster, attempt_files, only_observation, poll_site, scripted_site, squeue_line,
};
use crate::contract::attempt_tag;
use crate::port::{AttemptObservation, ExitCause, SiteEndReason, SiteMonitor, SiteQueue};

fn begun_files(more: &[(&str, &str)]) -> String {
    let begun = format!("pid 13\nstart 35\nend {}", attempt_tag(1));
    let all = [&[("decision", "go"), ("begun", &*begun)], more].concat();
    attempt_files(attempt_tag(1), 5, &all)
}

fn show_life(cluster: &ScriptedCluster, second: u64) {
    let sign = format!("{second}.00");
    cluster.change_script(|said| said.files = begun_files(&[("live", &sign)]));
}

async fn observe(site: &SlurmSite) -> AttemptObservation {
    only_observation(&poll_site(site).await).clone()
}

fn is_begun(seen: &AttemptObservation) -> bool {
    matches!(seen, AttemptObservation::Begun(_))
}

#[tokio::test(start_paused = true)]
async fn what_slurm_does_not_list_runs_while_its_wrapper_gives_signs_of_life() {
    let (cluster, site) = scripted_site();
    // For a minute and a half, whenever we look.
    for second in 0..45 {
        if second % 5 == 0 {
            show_life(&cluster, second);
        }
        let seen = observe(&site).await;
        assert!(is_begun(&seen), "{second}: {seen:?}");
    }
    let asked = |accounts: &str| accounts.starts_with("accounts");
    assert!(!cluster.take_requests().iter().any(|line| asked(line)));
    for second in (0..24).step_by(2) {
        let seen = observe(&site).await;
        assert!(is_begun(&seen), "still for {second} s: {seen:?}");
    }
    let mut seen = observe(&site).await;
    for _ in 0..10 {
        seen = observe(&site).await;
    }
    assert!(
        matches!(seen, AttemptObservation::Vanished { began: true, .. }),
        "{seen:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_slurm_lost_may_be_well() {
    let (cluster, site) = scripted_site();
    cluster.change_script(|said| said.queue = squeue_line(5, attempt_tag(1), "NODE_FAIL", 2));
    for second in 0..20 {
        show_life(&cluster, second);
        let seen = observe(&site).await;
        assert!(matches!(seen, AttemptObservation::Unknown(_)), "{seen:?}");
    }
    tokio::time::advance(Duration::from_secs(40)).await;
    observe(&site).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    let seen = observe(&site).await;
    let AttemptObservation::Ended {
        why: SiteEndReason::NodeFailed,
        ..
    } = seen
    else {
        panic!("{seen:?}")
    };
}

/// What it noted counts when it is gone, and nobody knows more.
#[tokio::test(start_paused = true)]
async fn an_end_that_a_wrapper_noted_counts_if_slurm_forgot_its_job() {
    let ended = format!("cause code 3\nend {}", attempt_tag(1));
    for state in ["", "PENDING", "CANCELLED", "RUNNING", "FAILED", "NODE_FAIL"] {
        let (cluster, site) = scripted_site();
        cluster.change_script(|said| {
            said.files = begun_files(&[("ended", &ended)]);
            if !state.is_empty() {
                said.queue = squeue_line(5, attempt_tag(1), state, 2);
            }
        });
        let first = observe(&site).await;
        assert!(
            matches!(
                first,
                AttemptObservation::Unknown(_) | AttemptObservation::Begun(_)
            ),
            "{state}: {first:?}"
        );
        tokio::time::advance(Duration::from_secs(10)).await;
        let last = observe(&site).await;
        let is_told = match state {
            "" | "PENDING" => matches!(
                &last,
                AttemptObservation::Exited(exit) if exit.cause == ExitCause::Code(3)
            ),
            "RUNNING" => is_begun(&last),
            _ => matches!(last, AttemptObservation::Ended { .. }),
        };
        assert!(is_told, "{state}: {last:?}");
    }
}

/// Whoever ends a whole job may have killed the payload first.
#[tokio::test(start_paused = true)]
async fn a_signal_that_ends_jobs_is_no_end_of_its_own() {
    let (cluster, site) = scripted_site();
    let ended = format!("cause signal 9\nend {}", attempt_tag(1));
    cluster.change_script(|said| said.files = begun_files(&[("ended", &ended)]));
    observe(&site).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    let last = observe(&site).await;
    assert!(
        matches!(last, AttemptObservation::Vanished { began: true, .. }),
        "{last:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_runs_by_the_accounts_runs_until_they_say_otherwise() {
    let (cluster, site) = scripted_site();
    let account = |state: &str| {
        format!(
            "kept 5|{state}|2|900|901|960|60|10|/root|{}\n",
            attempt_tag(1)
        )
    };
    cluster.change_script(|said| {
        said.files = begun_files(&[]);
        said.accounts = account("RUNNING");
    });
    observe(&site).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    for _ in 0..40 {
        let seen = observe(&site).await;
        assert!(is_begun(&seen), "{seen:?}");
    }
    cluster.change_script(|said| said.accounts = account("TIMEOUT"));
    tokio::time::advance(Duration::from_secs(30)).await;
    observe(&site).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    let seen = observe(&site).await;
    let AttemptObservation::Ended {
        why: SiteEndReason::TimeLimit,
        ..
    } = seen
    else {
        panic!("{seen:?}")
    };
}

#[tokio::test(start_paused = true)]
async fn runs_are_asked_for_where_slurm_has_names_for_them() {
    for (version, asked) in [("24.11.5", "queue load"), ("26.05.5", "runs load")] {
        let (cluster, site) = scripted_site();
        cluster.change_script(|said| said.version = version.to_owned());
        site.describe().await.unwrap();
        poll_site(&site).await;
        assert_eq!(cluster.take_requests(), [asked], "{version}");
    }
}

/// A controller that was killed forgot the first, and its job is the second's.
#[tokio::test(start_paused = true)]
async fn a_number_that_was_given_out_twice_is_the_later_attempts() {
    let (cluster, site) = scripted_site();
    let given = |tag: AttemptTag, second: u64| {
        format!("d 0.000 spool/{tag}\nf {second}.000 spool/{tag}/job\n| 5\n")
    };
    let line = squeue_line(5, attempt_tag(9), "RUNNING", 2);
    let renamed = line.replace(&attempt_tag(9).to_string(), "renamed");
    for (first, second) in [(1, 2), (2, 1)] {
        cluster.change_script(|said| {
            said.queue = renamed.clone();
            said.files = given(attempt_tag(first), 900) + &given(attempt_tag(second), 950);
        });
        site.forget_queue();
        let tags = [attempt_tag(1), attempt_tag(2)];
        let seen = site.status(&tags).await.unwrap().attempts;
        assert_eq!(
            (&seen[&attempt_tag(first)], &seen[&attempt_tag(second)]),
            (&AttemptObservation::Absent, &AttemptObservation::Starting)
        );
    }
}
