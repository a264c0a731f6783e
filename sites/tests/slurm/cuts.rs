//! Connections that are cut while something is asked: nothing is lost, and nothing done twice.
//!
//! `COSPAN_TEST_SSH_CUTS` says how often in each test; ten times unless it is given.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cospan_domain::ids::{AttemptTag, RelPath};
use cospan_domain::units::Bytes;
use cospan_sites::contract::{
    PATIENCE, SiteFixture, attempt_tag, go_decision, script_program, submit_request,
};
use cospan_sites::port::{
    AttemptObservation, CopyRequest, CopySource, CopyStatus, ExitCause, FilePlace, GateState,
    PayloadStream, ReadableFile, Site, SiteError,
};

use super::fixture::SlurmSiteFixture;

/// What is under way when the connection is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum During {
    Submit,
    Status,
    Gate,
    Read,
    Cancel,
}

fn cuts() -> u64 {
    std::env::var("COSPAN_TEST_SSH_CUTS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(10)
}

/// Repeats what may be repeated until it is known to be done. With `cut` the connection goes
/// away while it is tried for the first time: a little later each time, at either end.
async fn insist<T, F: Future<Output = Result<T, SiteError>>>(
    fixture: &SlurmSiteFixture,
    cut: Option<u64>,
    call: impl Fn() -> F,
) -> T {
    let cutting = async {
        if let Some(number) = cut {
            tokio::time::sleep(Duration::from_millis(number * 7 % 60)).await;
            fixture.cut(number % 2 == 0).await;
        }
    };
    let (mut answer, ()) = tokio::join!(call(), cutting);
    let started = Instant::now();
    loop {
        match answer {
            Ok(answer) => return answer,
            Err(SiteError::NotSent(_) | SiteError::OutcomeUnknown(_)) => {
                fixture.broken.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => panic!("{error}"),
        }
        assert!(
            started.elapsed() < PATIENCE,
            "the connection does not come back"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
        answer = call().await;
    }
}

async fn await_seen(
    fixture: &SlurmSiteFixture,
    site: &Arc<dyn Site>,
    tag: AttemptTag,
    awaited: impl Fn(&AttemptObservation) -> bool,
) -> AttemptObservation {
    let started = Instant::now();
    loop {
        let status = insist(fixture, None, || async {
            site.queue().status(&[tag]).await
        })
        .await;
        let seen = &status.attempts[&tag];
        if awaited(seen) {
            return seen.clone();
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{tag} is {seen:?} for too long"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Takes some attempts through their lives.
async fn lives(during: During) {
    let Some(fixture) = SlurmSiteFixture::offered_over_ssh() else {
        return;
    };
    let (fixture, site) = (&fixture, &fixture.site());
    let ran = fixture.root().with_file_name("ran");
    let ends = if during == During::Cancel {
        "exec sleep 600"
    } else {
        "exit 0"
    };
    let text = format!("echo \"$COSPAN_TAG\" | tee -a '{}'; {ends}", ran.display());
    let tags: Vec<AttemptTag> = (0..cuts()).map(attempt_tag).collect();
    let cut = |at, number: usize| (during == at).then_some(number as u64);
    for (number, tag) in tags.iter().enumerate() {
        let order = submit_request(*tag, script_program(&text));
        insist(fixture, cut(During::Submit, number), || async {
            site.queue().submit(&order).await
        })
        .await;
    }
    for (number, tag) in tags.iter().enumerate() {
        insist(fixture, cut(During::Status, number), || async {
            site.queue().status(&tags).await
        })
        .await;
        await_seen(fixture, site, *tag, |seen| {
            matches!(seen, AttemptObservation::Ready(_))
        })
        .await;
    }
    for (number, tag) in tags.iter().enumerate() {
        let decided = insist(fixture, cut(During::Gate, number), || async {
            site.gate().decide_gate(*tag, &go_decision()).await
        })
        .await;
        assert_eq!(decided, GateState::Opened);
    }
    for (number, tag) in tags.iter().enumerate() {
        let log = ReadableFile::Log(*tag, PayloadStream::Stdout);
        if during == During::Cancel {
            await_seen(fixture, site, *tag, |seen: &AttemptObservation| {
                matches!(seen, AttemptObservation::Begun(_))
            })
            .await;
            let has_run = || std::fs::read_to_string(&ran).unwrap_or_default();
            while !has_run().contains(&tag.to_string()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            insist(fixture, Some(number as u64), || async {
                site.queue().cancel(*tag, None).await
            })
            .await;
        }
        let seen = await_seen(fixture, site, *tag, |seen: &AttemptObservation| {
            matches!(seen, AttemptObservation::Exited(_))
        })
        .await;
        let AttemptObservation::Exited(exit) = seen else {
            panic!("{seen:?}")
        };
        let wanted = match during {
            During::Cancel => ExitCause::Terminated,
            _ => ExitCause::Code(0),
        };
        assert_eq!(exit.cause, wanted, "{tag}");
        let piece = insist(fixture, cut(During::Read, number), || async {
            site.files().read(&log, Bytes(0), 1_000).await
        })
        .await;
        assert_eq!(String::from_utf8(piece.bytes).unwrap(), format!("{tag}\n"));
    }
    let broken = fixture.broken.load(Ordering::Relaxed);
    assert!(broken > 0, "no call was cut: nothing is shown");
    let ran = std::fs::read_to_string(&ran).unwrap();
    let mut ran: Vec<AttemptTag> = ran.lines().map(|line| line.parse().unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, tags, "each payload ran, and once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_during_submissions_lose_and_double_nothing() {
    lives(During::Submit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_during_polls_lose_and_double_nothing() {
    lives(During::Status).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_during_decisions_lose_and_double_nothing() {
    lives(During::Gate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_while_logs_are_read_lose_and_double_nothing() {
    lives(During::Read).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_during_cancellations_lose_and_double_nothing() {
    lives(During::Cancel).await;
}

/// From another site's directory on this machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_go_on_after_cuts_and_arrive_whole() {
    let Some(fixture) = SlurmSiteFixture::offered_over_ssh() else {
        return;
    };
    let (fixture, site) = (&fixture, &fixture.site());
    let place = FilePlace::User(RelPath::new("big").unwrap());
    for number in 0..cuts() {
        let bytes: Vec<u8> = (0..6_000_000_u32)
            .map(|n| (n.wrapping_mul(n) >> 7) as u8)
            .collect();
        let bytes = [&number.to_le_bytes()[..], &bytes].concat();
        let content = fixture.put_neighbours_file("big", &bytes);
        let source = CopySource {
            site: fixture.neighbour(),
            place: place.clone(),
        };
        let nonce = format!("cut-{number}");
        let copy = CopyRequest {
            content,
            chunk: None,
            source,
            nonce,
            limit: None,
        };
        insist(fixture, Some(number), || async {
            site.copies().start_copy(&copy).await
        })
        .await;
        let started = Instant::now();
        while site.copies().copy_status(&copy).await != Ok(CopyStatus::Complete) {
            let status = site.copies().copy_status(&copy).await;
            assert!(started.elapsed() < PATIENCE, "{status:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let there = std::fs::read(fixture.root().join(format!("store/{}", content.digest)));
        assert!(there.unwrap() == bytes);
    }
}
