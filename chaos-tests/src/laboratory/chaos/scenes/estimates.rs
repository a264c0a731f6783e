//! When a job may start is told from what is known: what runs has ended by its limits, and what is
//! before it is placed first. What then happens, happens within that time.

use anyhow::Result;
use cospan_actors::api::command::{Ask, Submission};
use cospan_actors::coallocator::{Estimate, Wait};
use cospan_domain::ids::{JobId, KeyName};
use cospan_domain::job::spec::{JobSpec, Priority};
use cospan_domain::job::state::{Phase, PhaseKind};
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::Play;
use super::stage::{BANDWIDTH, Scene, Stage, reads, site_name};
use super::tidy::at_rest;
use crate::laboratory::jobs::job;

const DAY: DurationMs = DurationMs(86_400_000);
const HOUR: DurationMs = DurationMs(3_600_000);
/// So many before a job are looked at one by one.
const MOST_AHEAD: usize = 50;

/// One of the stories, as drawn.
pub(super) fn wrong(chance: &mut StdRng) -> Result<Vec<String>> {
    let stories: [Play; 4] = [behind_one_that_runs, with_input, not_begun, behind_many];
    stories[chance.random_range(0..stories.len())](chance)
}

/// What the settings say of how long things take at most.
#[derive(Clone, Copy)]
struct Longest {
    claim: DurationMs,
    /// At the gate, and from the decision until all have begun.
    held: DurationMs,
    scan: DurationMs,
}

impl Longest {
    fn of(stage: &mut Stage, chance: &mut StdRng) -> Self {
        let settings = &mut stage.settings;
        let mut seconds = |from: u64, to: u64| DurationMs(1_000 * chance.random_range(from..=to));
        settings.job.claim_timeout = seconds(60, 200);
        settings.job.hold_max = seconds(300, 700);
        settings.job.go_grace = seconds(20, 50);
        settings.queue.scan_interval = seconds(20, 90);
        let held = settings.job.hold_max + settings.job.go_grace;
        Self { claim: settings.job.claim_timeout, held, scan: settings.queue.scan_interval }
    }

    /// So long a job has what it is given.
    fn whole(&self, wall_time: DurationMs) -> DurationMs {
        self.claim + self.held + wall_time
    }
}

fn estimate(scene: &Scene, id: JobId) -> Result<Estimate> {
    Ok(scene.reign.plane.explain(&*scene.job(id)?).estimate)
}

fn basis(begin: &str, ahead: usize, claim: DurationMs) -> String {
    let ahead = match ahead {
        0 => String::new(),
        count => format!(", after {count} job(s) before it"),
    };
    format!(
        "{begin}{ahead}; its input takes as long as links had it lately, and a claim {claim} at \
         most; without local users who take more, or jobs that are more urgent"
    )
}

fn ended(count: usize) -> String {
    format!("it fits when {count} component(s) of ours have ended by their limits")
}

fn is(id: JobId, kind: PhaseKind) -> impl Fn(&Scene) -> bool {
    move |scene| scene.job(id).is_ok_and(|job| job.phase.kind() == kind)
}

/// A job of a few components has all of the only site; two wait for that.
fn behind_one_that_runs(chance: &mut StdRng) -> Result<Vec<String>> {
    let sizes: Vec<u32> =
        (0..chance.random_range(1..=3)).map(|_| chance.random_range(1..=3)).collect();
    let all = sizes.iter().sum();
    let mut stage = Stage::of(&[all], chance.random())?;
    let longest = Longest::of(&mut stage, chance);
    let wall = DurationMs(1_000 * chance.random_range(60..=900));
    let runs = DurationMs(chance.random_range(30_000..=wall.0));
    stage.play(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        let first = scene.submit(job(&sizes, runs, wall, 0)?).await?;
        let begun = scene.when(DAY, is(first, PhaseKind::Running)).await?;
        scene.same("of one that runs", estimate(&scene, first)?, Estimate::None);
        scene.pass(DurationMs(10_000)).await;
        let asks = scene.now();
        let second = scene.submit(job(&[all], runs, wall, 0)?).await?;
        let third = scene.submit(job(&[all], runs, wall, 0)?).await?;
        let fourth = JobSpec { priority: Priority::High, ..job(&[all], runs, wall, 0)? };
        let end = begun + wall;
        let within = |at: Timestamp, count: usize, ahead: usize| Estimate::Within {
            from: asks,
            until: at + longest.scan + longest.claim,
            basis: basis(&ended(count), ahead, longest.claim),
        };
        let later = end + longest.whole(wall);
        scene.same("of the next", estimate(&scene, second)?, within(end, sizes.len(), 0));
        let behind = within(later, sizes.len() + 1, 1);
        scene.same("of the one behind it", estimate(&scene, third)?, behind.clone());
        previews(&scene, (all, wall), &within, later + longest.whole(wall), sizes.len()).await?;
        let urgent = scene.submit(fourth).await?;
        scene.same("of an urgent one", estimate(&scene, urgent)?, within(end, sizes.len(), 0));
        scene.same("of the next, behind it", estimate(&scene, second)?, behind.clone());
        frozen(&scene, urgent, second, behind).await?;
        scene.ask(Ask::Cancel(vec![urgent])).await?;
        let started = scene.when(DAY, is(second, PhaseKind::Running)).await?;
        scene.check(started <= end + longest.scan + longest.claim, || "it started late".into());
        scene.when(DAY, |scene| scene.job(third).is_ok_and(|job| job.is_final())).await?;
        scene.same("of one that is over", estimate(&scene, second)?, Estimate::None);
        at_rest(&scene).await;
        Ok(())
    })
}

/// A preview is behind all of its class; nothing is before one of a higher class.
async fn previews(
    scene: &Scene,
    (all, wall): (u32, DurationMs),
    within: &impl Fn(Timestamp, usize, usize) -> Estimate,
    last: Timestamp,
    components: usize,
) -> Result<()> {
    let alice = KeyName::new("alice")?;
    let shown = |priority| {
        let spec = JobSpec { priority, ..job(&[all], wall, wall, 0)? };
        let preview = scene.reign.plane.preview(&alice, Submission::of(spec.into()))?;
        scene.same("what a preview waits for", preview.wait, Wait::NotSubmitted);
        Ok::<_, anyhow::Error>(preview.estimate)
    };
    scene.same("of a preview", shown(Priority::Low)?, within(last, components + 2, 2));
    let Estimate::Within { basis, .. } = shown(Priority::High)? else {
        anyhow::bail!("nothing is told of an urgent preview")
    };
    scene.check(!basis.contains("before it"), || format!("of an urgent preview: {basis}"));
    Ok(())
}

/// Of one that is frozen nothing can be told, and nobody waits for it.
async fn frozen(scene: &Scene, id: JobId, next: JobId, behind: Estimate) -> Result<()> {
    scene.ask(Ask::Freeze(vec![id])).await?;
    scene.same("of a frozen one", estimate(scene, id)?, Estimate::Unknown("it is frozen".into()));
    let Estimate::Within { until, .. } = behind else { return Ok(()) };
    let Estimate::Within { until: now, basis, .. } = estimate(scene, next)? else {
        anyhow::bail!("nothing is told of the next")
    };
    scene.check(now < until && !basis.contains("before it"), || format!("until {now:?}: {basis}"));
    Ok(())
}

/// A job whose input is on its way: it is claimed when that is there at the latest, and one that
/// waits for its processors counts with that.
fn with_input(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = Stage::of(&[1, 8], chance.random())?;
    let longest = Longest::of(&mut stage, chance);
    let size = chance.random_range(20_000_000..=100_000_000_u64);
    let file = stage.add_file(size, &[0])?;
    let wall = DurationMs(1_000 * chance.random_range(60..=900));
    stage.play(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        let spec = reads(job(&[8], wall, wall, 0)?, file)?;
        let (alice, began) = (KeyName::new("alice")?, scene.now());
        let transfer = DurationMs((size * 8_000).div_ceil(BANDWIDTH.0));
        let previewed = scene.reign.plane.preview(&alice, Submission::of(spec.clone().into()))?;
        let should = Estimate::Within {
            from: began + transfer,
            until: began + transfer + longest.claim,
            basis: basis("it fits now", 0, longest.claim),
        };
        scene.same("of one with input, before", previewed.estimate, should);
        let brought: Vec<_> = previewed.transfers.iter().map(|t| (t.time, t.to.clone())).collect();
        scene.same("what is brought", brought, vec![(transfer, site_name(1)?)]);
        let id = scene.submit(spec).await?;
        scene.pass(DurationMs(10)).await;
        let here = began + transfer;
        let text =
            format!("its input is expected by then, and a claim takes {} at most", longest.claim);
        let should = Estimate::Within { from: here, until: here + longest.claim, basis: text };
        scene.same("of one that is placed", estimate(&scene, id)?, should);
        let next = scene.submit(job(&[8], wall, wall, 0)?).await?;
        let end = here + longest.whole(wall);
        let should = Estimate::Within {
            from: scene.now(),
            until: end + longest.scan + longest.claim,
            basis: basis(&ended(1), 0, longest.claim),
        };
        scene.same("of one behind a placed one", estimate(&scene, next)?, should);
        let started = scene.when(DAY, is(id, PhaseKind::Running)).await?;
        scene.check(here <= started && started <= here + longest.claim, || {
            format!("it starts {} after its input was expected", started.since(here))
        });
        let started = scene.when(DAY, is(next, PhaseKind::Running)).await?;
        scene.check(started <= end + longest.scan + longest.claim, || "it starts late".into());
        scene.when(DAY, |scene| scene.job(next).is_ok_and(|job| job.is_final())).await?;
        at_rest(&scene).await;
        Ok(())
    })
}

/// A claim whose wrapper is on its way to the gate, then one whose gate is decided.
fn not_begun(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = Stage::of(&[8], chance.random())?;
    let longest = Longest::of(&mut stage, chance);
    (stage.pace.gate_max, stage.pace.launch_max) = (DurationMs(5_000), DurationMs(30_000));
    let grace = stage.settings.job.go_grace;
    let wall = DurationMs(1_000 * chance.random_range(60..=900));
    stage.play(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        let since = scene.now();
        let id = scene.submit(job(&[8], DurationMs(9_000), wall, 0)?).await?;
        scene.pass(DurationMs(50)).await;
        let next = scene.submit(job(&[8], DurationMs(9_000), wall, 0)?).await?;
        let shown = |of: JobId| match estimate(&scene, of) {
            Ok(Estimate::Within { from, until, .. }) => Some((from, until)),
            _ => None,
        };
        let behind = |end: Timestamp| Some((scene.now(), end + longest.scan + longest.claim));
        if is(id, PhaseKind::Claiming)(&scene) {
            let (now, claimed) = (scene.now(), shown(id));
            let right = claimed.is_some_and(|(from, until)| {
                from == now && since + longest.claim <= until && until <= now + longest.claim
            });
            scene.check(right, || format!("of one that is claimed: {claimed:?}"));
            scene.same("of one behind it", shown(next), behind(since + longest.whole(wall)));
        }
        let starts = scene.when(DAY, is(id, PhaseKind::Starting)).await?;
        let Phase::Starting { since } = scene.job(id)?.phase else { return Ok(()) };
        let from = scene.job(id)?.start_at.unwrap_or(starts);
        let (until_then, text) = (since + grace, "its start is decided".to_owned());
        let should = Estimate::Within { from, until: until_then, basis: text };
        scene.same("of one whose start is decided", estimate(&scene, id)?, should);
        scene.same("of one behind it", shown(next), behind(from + longest.held + wall));
        scene.when(DAY, |scene| scene.job(next).is_ok_and(|job| job.is_final())).await?;
        at_rest(&scene).await;
        Ok(())
    })
}

/// Behind more than can be looked at, the pace of the last hour tells.
fn behind_many(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = Stage::of(&[2], chance.random())?;
    let longest = Longest::of(&mut stage, chance);
    let ahead = MOST_AHEAD + chance.random_range(0..=2);
    let placed: u64 = chance.random_range(1..=2);
    let frozen = chance.random_range(0..=2);
    stage.play(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        let placed_at = scene.now();
        let mut begun = placed_at;
        for _ in 0..placed {
            scene.submit(job(&[2 / placed as u32], DAY, DAY, 0)?).await?;
        }
        let waits = Submission::of(job(&[2], DAY, DAY, 0)?.into());
        scene.ask(Ask::Submit(vec![waits; ahead + frozen])).await?;
        let ids = (placed + 1..).take(frozen).map(JobId).collect();
        scene.ask(Ask::Freeze(ids)).await?;
        let last = scene.submit(job(&[2], DAY, DAY, 0)?).await?;
        scene.pass(DurationMs(1_000)).await;
        for id in 1..=placed {
            if let Phase::Running { since } = scene.job(JobId(id))?.phase {
                begun = begun.max(since);
            }
        }
        let now = scene.now();
        let should = match ahead > MOST_AHEAD {
            true => paced(now, ahead as u64, placed),
            false => {
                let end = begun + DAY + DurationMs(longest.whole(DAY).0 * ahead as u64);
                let until = end + longest.scan + longest.claim;
                let text = basis(&ended(placed as usize + ahead), ahead, longest.claim);
                Estimate::Within { from: now, until, basis: text }
            }
        };
        let is = estimate(&scene, last)?;
        scene.same("of one behind many", is, should);
        if ahead > MOST_AHEAD {
            let preview = Submission::of(job(&[2], DAY, DAY, 0)?.into());
            let preview = scene.reign.plane.preview(&KeyName::new("alice")?, preview)?;
            let should = paced(now, ahead as u64 + 1, placed);
            scene.same("of a preview behind many", preview.estimate, should);
            scene.pass(DurationMs(HOUR.0 - now.since(placed_at).0)).await;
            let should =
                format!("{ahead} jobs are before it, and none was placed within the last hour");
            scene.same("an hour later", estimate(&scene, last)?, Estimate::Unknown(should));
        }
        at_rest(&scene).await;
        Ok(())
    })
}

fn paced(now: Timestamp, ahead: u64, placed: u64) -> Estimate {
    let wait = HOUR.0 * ahead / placed;
    Estimate::Within {
        from: now + DurationMs(wait / 2),
        until: now + DurationMs(wait * 2),
        basis: format!(
            "{ahead} jobs are before it, and {placed} were placed within the last hour; from half \
             to twice as long as that takes"
        ),
    }
}
