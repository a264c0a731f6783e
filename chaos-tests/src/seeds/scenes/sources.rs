//! A source that fails is left out and the next nearest is taken at once; a complete copy serves
//! others, and stays for as long as one reads from it; once all sources have failed the jobs get
//! that answer, and once one is registered again the copy goes on.

use anyhow::Result;
use cospan_actors::journal::JournalChange;
use cospan_domain::units::{BitsPerSecond, DurationMs};
use rand::Rng;
use rand::rngs::StdRng;

use super::copies::look_times;
use super::log::{OF_COPIES, TimedItem};
use super::stage::{SceneStage, StagedScene, fixed_at, site_name, with_input};
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

/// Bandwidth of the link from the near site, and from the far one, in bytes a millisecond.
const NEAR: u64 = 2_000;
const FAR: u64 = 1_000;

/// The fault of the near site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WrongSource {
    /// Data from it are damaged.
    Damages,
    /// It has been out of reach for long.
    Silent,
    /// It is out of reach, and data from the other are damaged.
    Both,
    /// Data from either are damaged.
    BothDamage,
}

pub(super) fn play_sources(chance: &mut StdRng) -> Result<Vec<String>> {
    if chance.random_bool(0.7) {
        play_near_and_far(chance)
    } else {
        play_from_store(chance)
    }
}

fn play_near_and_far(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[12, 12, 12], chance.random())?;
    let kinds = [
        WrongSource::Damages,
        WrongSource::Silent,
        WrongSource::Both,
        WrongSource::BothDamage,
    ];
    let wrong = kinds[chance.random_range(0..kinds.len())];
    stage.hints = chance.random_bool(0.7);
    for (from, rate) in [(0, NEAR), (1, FAR)] {
        let pair = (site_name(from)?, site_name(2)?);
        stage
            .settings
            .links
            .insert(pair, BitsPerSecond(8_000 * rate));
    }
    let takes = 2 * chance.random_range(50..6_000);
    stage.add_file(NEAR * takes, &[0, 1])?;
    stage.play_from_start(move |scene| async move {
        // A job runs at the near site, so that its silence is noticed.
        let long = DurationMs(300_000);
        scene
            .submit(fixed_at(build_job(&[1], long, long, 0)?, 0)?)
            .await?;
        wrong.inject_into(&scene)?;
        scene.pass(DurationMs(70_000)).await;
        let begun = scene.now();
        let run = DurationMs(1_000);
        scene
            .submit(with_input(fixed_at(build_job(&[2], run, run, 0)?, 2)?, 0)?)
            .await?;
        let story = wrong.work_out_story(takes);
        let end = story.copied.last().map(|(at, _)| *at).unwrap_or_default();
        scene.pass(DurationMs(end + 1_000)).await;
        let here = site_name(2)?;
        let mut copied = scene.copy_states(&here, begun);
        copied.truncate(story.copied.len());
        scene.check_same("copied", copied, story.copied);
        let mut calls = scene.calls_at(&here, &OF_COPIES, begun);
        calls.truncate(story.calls.len());
        scene.check_same("calls", calls, story.calls);
        let metrics = &scene.plane_run.plane.shared().metrics;
        let failures = metrics.transfer_failures.with_label_values(&["source"]);
        scene.check_same("failures", failures.get(), story.failures);
        if let Some(text) = story.says {
            let changes = scene.changes();
            let mut reasons = changes
                .iter()
                .rev()
                .filter_map(|(_, change)| match &**change {
                    JournalChange::Copy {
                        new: Some(copy), ..
                    } => copy.trouble.last_error.as_deref(),
                    _ => None,
                });
            scene.check_same("reason", reasons.next(), Some(text));
        }
        Ok(())
    })
}

/// The calls and copies to be seen at the destination.
#[derive(Default)]
struct SourceStory {
    copied: Vec<TimedItem<String>>,
    calls: Vec<TimedItem<&'static str>>,
    failures: u64,
    says: Option<&'static str>,
}

impl SourceStory {
    /// Adds a try from a site with all of its looks, of which the last one shows how it went;
    /// returns when that was.
    fn add_try(&mut self, from: u64, site: &str, takes: u64) -> u64 {
        let copying = (from, format!("1 copying from {site}"));
        self.copied.extend([copying.clone(), copying]);
        let looks = look_times(takes);
        self.calls.push((from, "start-copy"));
        self.calls
            .extend(looks.iter().map(|at| (from + at, "copy-status")));
        from + looks.last().copied().unwrap_or_default()
    }

    fn add_wait(&mut self, at: u64) {
        self.copied.push((at, "1 waiting".into()));
    }

    fn ending_whole(mut self, at: u64) -> Self {
        self.copied.push((at, "1 ready".into()));
        self.calls.push((at, "has-content"));
        self.calls.sort_unstable();
        self
    }
}

impl WrongSource {
    fn inject_into(self, scene: &StagedScene) -> Result<()> {
        let silent = SiteFault::Silent(true);
        let damages = SiteFault::Corrupts {
            to: site_name(2)?,
            corrupts: true,
        };
        let (near, far) = match self {
            WrongSource::Damages => (damages, None),
            WrongSource::Silent => (silent, None),
            WrongSource::Both => (silent, Some(damages)),
            WrongSource::BothDamage => (damages.clone(), Some(damages)),
        };
        scene.plan_fault(DurationMs(100), 0, near)?;
        far.into_iter()
            .try_for_each(|far| scene.plan_fault(DurationMs(100), 1, far))?;
        Ok(())
    }

    /// Works out a copy that takes so long from the near site, and twice as long from the far one.
    fn work_out_story(self, takes: u64) -> SourceStory {
        let mut story = SourceStory::default();
        story.add_wait(0);
        if self == WrongSource::Silent {
            let whole = story.add_try(0, "berlin", 2 * takes);
            return story.ending_whole(whole);
        }
        if self == WrongSource::Both {
            let failed = story.add_try(0, "berlin", 2 * takes);
            // It failed, there is no other source now, and what there was of it goes.
            (0..3).for_each(|_| story.add_wait(failed));
            story.calls.push((failed, "stop-copy"));
            // The second failure in a row; each wait is twice as long as the last.
            (2..5).for_each(|count| story.add_wait(failed + 4_000 * ((1 << (count - 1)) - 1)));
            let says = Some("the sites that have it do not answer now: amsterdam");
            story.calls.sort_unstable();
            return SourceStory {
                failures: 1,
                says,
                ..story
            };
        }
        let failed = story.add_try(0, "amsterdam", takes);
        story.add_wait(failed);
        let from = story.copied.len();
        let second = story.add_try(failed, "berlin", 2 * takes);
        // What there was of the first goes, beside the second.
        story
            .copied
            .insert(from, (failed, "1 copying from berlin".into()));
        story.calls.push((failed, "stop-copy"));
        if self == WrongSource::Damages {
            return SourceStory {
                failures: 1,
                ..story.ending_whole(second)
            };
        }
        story.add_wait(second);
        story.copied.push((second, "1 failed".into()));
        story.calls.sort_unstable();
        let says = Some("every site that has it failed as a source: amsterdam, berlin");
        SourceStory {
            failures: 2,
            says,
            ..story
        }
    }
}

/// Checks that the first job's copy serves the second one's, although nobody else needs it by then.
fn play_from_store(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[12, 12, 12], chance.random())?;
    stage.hints = chance.random_bool(0.7);
    stage.settings.information_expiry = DurationMs::from_secs(86_400);
    let slow = (site_name(0)?, site_name(2)?);
    stage
        .settings
        .links
        .insert(slow, BitsPerSecond(8_000 * FAR / 10));
    let keeps = DurationMs(1_000 * chance.random_range(1..5));
    stage.settings.transfer.ready_keep = keeps;
    let takes = chance.random_range(10_000..20_000);
    stage.add_file(FAR * takes, &[0])?;
    stage.play_from_start(move |scene| async move {
        scene.pass(DurationMs(100)).await;
        let begun = scene.now();
        let run = DurationMs(1_000);
        let spec = with_input(fixed_at(build_job(&[2], run, run, 0)?, 1)?, 0)?;
        let first = scene.submit(spec).await?;
        let left = scene.until_ended(&[first]).await?.since(begun).0;
        let spec = with_input(fixed_at(build_job(&[2], run, run, 0)?, 2)?, 0)?;
        let second = scene.submit(spec).await?;
        let ended = scene.until_ended(&[second]).await?.since(begun).0;
        scene.pass(keeps + DurationMs(1_000)).await;
        // Nobody reports a complete copy; it is seen.
        let takes = look_times(takes).last().copied().unwrap_or_default();
        let whole = left + takes;
        let lives = [
            (0, "waiting"),
            (takes, "ready"),
            (left, "ready unneeded"),
            (left, "ready"),
        ];
        let read = [(whole, "ready unneeded")];
        let lives = [&lives[..], &read, &deletion(whole + keeps.0)].concat();
        scene.check_same(
            "read",
            scene.copy_states(&site_name(1)?, begun),
            lives_of_copy("amsterdam", &lives),
        );
        let lives = [
            (left, "waiting"),
            (whole, "ready"),
            (ended, "ready unneeded"),
        ];
        let lives = [&lives[..], &deletion(ended + keeps.0)].concat();
        scene.check_same(
            "reads",
            scene.copy_states(&site_name(2)?, begun),
            lives_of_copy("berlin", &lives),
        );
        Ok(())
    })
}

fn deletion(at: u64) -> [TimedItem<&'static str>; 3] {
    [
        (at, "deleting unneeded"),
        (at, "deleting unneeded"),
        (at, "gone"),
    ]
}

fn lives_of_copy(from: &str, lives: &[TimedItem<&str>]) -> Vec<TimedItem<String>> {
    let copying = (lives[0].0, format!("1 copying from {from}"));
    let lives = lives.iter().map(|(at, what)| (*at, format!("1 {what}")));
    let mut lives: Vec<_> = lives.collect();
    lives.splice(1..1, [copying.clone(), copying]);
    lives
}
