//! One job runs at one of two sites. The site is asked when that can tell something new, and
//! swept while something of ours may be there; the other one is asked once, at the start.

use anyhow::Result;
use cospan_actors::settings::Settings;
use cospan_domain::ids::JobId;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{BEGINS, Scene, Stage};
use crate::laboratory::jobs::job;

/// What happens at about the same time is asked for at once.
const HINT_GAP: u64 = 10;
/// A description older than this is asked for again along with the next poll.
const DESCRIPTION_EXPIRY: u64 = 300_000;

/// Whoever looks does not look again sooner than after this.
const LEAST_PAUSE: u64 = 5;

/// When everything happens, in milliseconds after the beginning.
#[derive(Debug, Clone)]
struct Course {
    submitted: u64,
    ready: u64,
    started: u64,
    polls: Vec<u64>,
    over: u64,
}

impl Course {
    /// Where sites tell of changes, each is seen at once; an attempt is asked for after each
    /// poll interval all the same.
    fn told(submitted: u64, run_time: u64, settings: &Settings) -> Self {
        let started = submitted + HINT_GAP;
        let mut polls = vec![submitted, started];
        let ends = submitted + run_time;
        let mut last = started;
        while last < ends {
            last = (last + settings.poll_interval.0).min(ends.max(last + HINT_GAP));
            polls.push(last);
        }
        Self { submitted, ready: submitted, started, polls, over: last }
    }

    /// Where they do not, a site is asked each poll interval, and four times within the grace
    /// for a start while that is waited for.
    fn asked(submitted: u64, run_time: u64, settings: &Settings) -> Self {
        let soon = (settings.job.go_grace.0 / 4).min(settings.poll_interval.0);
        let (ready, started) = (submitted + soon, submitted + 2 * soon);
        let mut polls = vec![ready, started];
        let mut last = started;
        while last < ready + run_time {
            last += settings.poll_interval.0;
            polls.push(last);
        }
        Self { submitted, ready, started, polls, over: last }
    }

    /// Whether a sweep and a poll are so close that one puts off the other.
    fn is_tight(&self, settings: &Settings) -> bool {
        let interval = settings.reconcile_interval.0;
        self.polls.iter().any(|poll| {
            let since = poll % interval;
            since != 0 && since.min(interval - since) < LEAST_PAUSE
        })
    }

    /// Polls that ask again what the site is.
    fn describing(&self) -> Vec<u64> {
        let mut described = vec![0];
        for poll in &self.polls {
            if poll - described[described.len() - 1] > DESCRIPTION_EXPIRY {
                described.push(*poll);
            }
        }
        described
    }
}

pub(super) fn wrong(chance: &mut StdRng) -> Result<Vec<String>> {
    let processors = chance.random_range(2..=16);
    let mut stage = Stage::of(&[processors, processors - 1], chance.random())?;
    stage.hints = chance.random_bool(0.5);
    let settings = &mut stage.settings;
    settings.poll_interval = DurationMs(chance.random_range(1_000..=9_000));
    settings.job.go_grace = DurationMs(chance.random_range(4_000..=40_000));
    settings.reconcile_interval = DurationMs(chance.random_range(60_000..=600_000));
    settings.keep_attempts = DurationMs(chance.random_range(60_000..=3_000_000));
    let longest = if chance.random_bool(0.3) { 1_500_000 } else { 60_000 };
    let run_time = DurationMs(chance.random_range(1_000..=longest));
    let wait = DurationMs(chance.random_range(0..=1_000));
    let (hints, settings) = (stage.hints, settings.clone());
    stage.play(move |scene| async move {
        scene.pass(wait).await;
        let submitted = scene.now().since(BEGINS).0;
        let spec = job(&[processors], run_time, run_time + DurationMs(1), 0)?;
        let id = scene.submit(spec).await?;
        let course = match hints {
            true => Course::told(submitted, run_time.0, &settings),
            false => Course::asked(submitted, run_time.0, &settings),
        };
        if course.is_tight(&settings) {
            return Ok(());
        }
        let count = i64::from(processors);
        let starts = scene.started(id).await?;
        scene.same("the start", starts.since(BEGINS).0, course.started);
        if course.over > course.started {
            scene.same("processors in use", scene.processors(0)?, [count, 0, count]);
        }
        scene.ended(id).await?;
        check_job(&scene, id, &course);
        check_shown(&scene, processors, &course)?;
        let rest = settings.keep_attempts + DurationMs(3 * settings.reconcile_interval.0);
        scene.pass(rest).await;
        check_calls(&scene, &course, &settings)
    })
}

/// Six changes make a job: each is told once, at the moment at which it can be.
fn check_job(scene: &Scene, id: JobId, course: &Course) {
    let (begins, ends) = (
        vec!["GateOpened", "ComponentBegan", "JobStarted"],
        vec!["AttemptEnded", "PayloadsSucceeded", "JobFinished"],
    );
    // What is seen at once is one change.
    let both = ["GateOpened", "ComponentBegan", "AttemptEnded", "JobStarted"];
    let both = both.into_iter().chain(["PayloadsSucceeded", "JobFinished"]).collect();
    let runs = match course.over > course.started {
        true => vec![(course.started, begins), (course.over, ends)],
        false => vec![(course.over, both)],
    };
    let mut expected = vec![
        (course.submitted, vec!["JobPlaced", "ClaimBegun"]),
        (course.submitted, vec!["AttemptSubmitted"]),
        (course.ready, vec!["ComponentReady", "GoDecided"]),
    ];
    expected.extend(runs);
    scene.same("course of the job", scene.course(id, BEGINS), expected);
}

fn check_shown(scene: &Scene, processors: u32, course: &Course) -> Result<()> {
    let count = i64::from(processors);
    let [total, idle, _] = scene.processors(0)?;
    scene.same("processors", [total, idle], [count, count]);
    scene.same("state", scene.shown(0)?, vec!["usable"]);
    let polls = course.polls.len() as u64 + 2;
    scene.same("polls that were counted", scene.counted("status", "ok"), polls);
    let described = course.describing().len() as u64 + 1;
    scene.same("descriptions that were counted", scene.counted("describe", "ok"), described);
    scene.same("submissions", scene.counted("submit", "ok"), 1);
    scene.same("gates", scene.counted("decide-gate", "ok"), 1);
    let depth = scene.metrics().mailbox_depth.with_label_values(&["cluster"]).get();
    scene.same("calls under way", depth, 0);
    Ok(())
}

/// Sweeps find what is left of the job until it was kept long enough, and remove it then.
fn check_calls(scene: &Scene, course: &Course, settings: &Settings) -> Result<()> {
    let end = scene.now().since(BEGINS).0;
    let interval = settings.reconcile_interval.0;
    let sweeps: Vec<u64> = (0..).map(|n| n * interval).take_while(|at| *at <= end).collect();
    let kept = course.over + settings.keep_attempts.0;
    let removed: Vec<u64> = sweeps.iter().copied().find(|at| *at >= kept).into_iter().collect();
    let seen = sweeps.iter().copied().filter(|at| *at >= course.over && *at < kept);
    let mut polls: Vec<u64> = std::iter::once(0).chain(course.polls.clone()).chain(seen).collect();
    polls.sort_unstable();
    let gates = std::iter::once(course.ready).chain(removed.clone()).collect();
    let same = |call: &str, expected: Vec<u64>| -> Result<()> {
        let seen = scene.asked_since(BEGINS, 0, call)?;
        let alike = seen.iter().zip(&expected).take_while(|(seen, expected)| seen == expected);
        let from = alike.count();
        scene.same(call, &seen[from..], &expected[from..]);
        Ok(())
    };
    same("describe", course.describing())?;
    same("status", polls)?;
    same("list-attempts", sweeps)?;
    same("submit", vec![course.submitted])?;
    same("decide-gate", gates)?;
    same("cancel", removed.clone())?;
    same("remove-attempt", removed)?;
    for call in ["describe", "status", "list-attempts"] {
        scene.same("calls of the other site", scene.asked(1, call)?, vec![BEGINS]);
    }
    let others = scene.calls().into_iter().filter(|called| called.at > Timestamp(0));
    let others = others.filter(|called| called.site.as_str() == "berlin").count();
    scene.same("all calls of the other site", others, 3);
    Ok(())
}
