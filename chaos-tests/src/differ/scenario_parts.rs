//! The acts that scenarios are made of. An act is a few jobs and what happens to them, with drawn
//! numbers.
//!
//! Every outcome is determined, on a slow machine too. Payloads run until the script releases them,
//! and the script acts when a job has reached a point, not after a time. Only copies take time:
//! input arrives at least a second and a half before or after its estimate, and what happens to a
//! job that waits for it happens within that. That is why no act copies a single file alone over a
//! link: it would arrive about when it is expected, and it would vary when the claim begins.

use rand::Rng;
use rand::rngs::StdRng;

use super::differ_scenario::{
    DifferScenario, Keep, PlannedComponent, PlannedFile, PlannedPayload, ScriptPoint, ScriptStep,
    ScriptedJob,
};

/// Size of a file that takes a second and a half over a link of its own.
const FILE_BYTES: usize = 1_500_000;
/// Size of a file that takes longer than the job will wait.
const LARGE_FILE_BYTES: usize = 20_000_000;
/// A wall time that no payload reaches.
const ENOUGH_S: u64 = 7_200;

pub(super) struct Act {
    pub(super) name: &'static str,
    /// Number of sites that it needs.
    pub(super) sites: usize,
    pub(super) play: fn(&mut ScenarioDraft<'_>),
}

const fn act(name: &'static str, sites: usize, play: fn(&mut ScenarioDraft<'_>)) -> Act {
    Act { name, sites, play }
}

/// All acts. Those that leave copies under way come last; see [`super::draw`].
pub(super) const ALL: [Act; 22] = [
    act("joined-copy", 2, joined_copy),
    act("runs", 1, play_success),
    act("leaves-outputs", 1, leaves_outputs),
    act("collects-outputs", 2, collects_outputs),
    act("fails", 1, play_failures),
    act("exceeds-wall-time", 1, exceeds_wall_time),
    act("executable-missing", 1, executable_missing),
    act("input-at-its-site", 1, input_at_its_site),
    act("input-late", 2, input_late),
    act("waits-for-processors", 1, waits_for_processors),
    act("frozen-and-thawed", 1, frozen_and_thawed),
    act("site-loses-component", 2, site_loses_component),
    act("restart-while-queued", 1, restart_while_queued),
    act("restart-while-placed", 2, |stage| {
        restart_before_input(stage, ScriptPoint::Placed)
    }),
    act("restart-at-gate", 2, |stage| {
        restart_before_input(stage, ScriptPoint::AtGate)
    }),
    act("restart-while-running", 1, restart_while_running),
    act("cancel-while-queued", 1, cancel_while_queued),
    act("cancel-while-running", 1, cancel_while_running),
    act("cancel-after-restart", 1, cancel_after_restart),
    act("site-drained", 3, site_drained),
    act("cancel-at-gate", 2, cancel_at_gate),
    act("cancel-while-placed", 2, cancel_while_placed),
];

/// A scenario under construction.
pub(super) struct ScenarioDraft<'a> {
    pub(super) scenario: &'a mut DifferScenario,
    pub(super) random: &'a mut StdRng,
}

impl ScenarioDraft<'_> {
    fn site_count(&self) -> usize {
        self.scenario.processors.len()
    }

    fn draw_site(&mut self) -> usize {
        self.random.random_range(0..self.site_count())
    }

    /// Draws two different sites.
    fn draw_two_sites(&mut self) -> (usize, usize) {
        let first = self.draw_site();
        let other = (first + self.random.random_range(1..self.site_count())) % self.site_count();
        (first, other)
    }

    /// Draws up to `most` components, at named sites or wherever the policy puts them.
    fn components(&mut self, most: usize) -> Vec<PlannedComponent> {
        let count = self.random.random_range(1..=most);
        let fixed = self.random.random_bool(0.5);
        (0..count)
            .map(|_| {
                let site = fixed.then(|| self.draw_site());
                PlannedComponent {
                    site,
                    ..succeeding_component(self.random.random_range(1..=2))
                }
            })
            .collect()
    }

    fn add_job(&mut self, components: Vec<PlannedComponent>, retries: u32) -> usize {
        self.scenario.jobs.push(ScriptedJob {
            components,
            wall_time_s: ENOUGH_S,
            retries,
        });
        self.scenario.jobs.len() - 1
    }

    fn add_file(&mut self, site: usize, bytes: usize) -> usize {
        self.scenario.files.push(PlannedFile { site, bytes });
        self.scenario.files.len() - 1
    }

    fn add_steps(&mut self, steps: &[ScriptStep]) {
        self.scenario.script.extend(steps);
    }

    /// Lets a running job end.
    fn finish(&mut self, job: usize) {
        self.add_steps(&[
            ScriptStep::ReleaseAll(job),
            ScriptStep::Await(job, ScriptPoint::Ended),
        ]);
    }

    fn submit_and_finish(&mut self, job: usize) {
        self.add_steps(&[
            ScriptStep::Submit(job),
            ScriptStep::Await(job, ScriptPoint::Running(1)),
        ]);
        self.finish(job);
    }

    /// Adds a job with components at one site, each with a file from another. Each file is
    /// estimated by itself, but they share the link: all arrive when the claim has been waiting for
    /// at least as long as one of them takes.
    fn add_late_job(
        &mut self,
        count: usize,
        bytes: usize,
        site: Option<usize>,
        from: usize,
    ) -> usize {
        let components = (0..count)
            .map(|_| PlannedComponent {
                site,
                inputs: vec![self.add_file(from, bytes)],
                ..succeeding_component(1)
            })
            .collect();
        self.add_job(components, 0)
    }

    /// Adds a job that fills a site and runs there, and one that must wait for it.
    fn fill_site(&mut self) -> (usize, usize) {
        let site = self.draw_site();
        let all = self.scenario.processors[site];
        let first = PlannedComponent {
            site: Some(site),
            ..succeeding_component(all)
        };
        let first = self.add_job(vec![first], 0);
        let some = self.random.random_range(1..=all);
        let second = PlannedComponent {
            site: Some(site),
            ..succeeding_component(some)
        };
        let second = self.add_job(vec![second], 0);
        self.add_steps(&[
            ScriptStep::Submit(first),
            ScriptStep::Await(first, ScriptPoint::Running(1)),
        ]);
        self.add_steps(&[
            ScriptStep::Submit(second),
            ScriptStep::Await(second, ScriptPoint::Queued),
        ]);
        (first, second)
    }
}

/// Plans a component without files, anywhere, that succeeds once it is released.
fn succeeding_component(processors: u32) -> PlannedComponent {
    let payload = PlannedPayload::Exits(0);
    let inputs = Vec::new();
    PlannedComponent {
        site: None,
        processors,
        payload,
        inputs,
        output: None,
    }
}

fn play_success(stage: &mut ScenarioDraft<'_>) {
    let components = stage.components(3);
    let job = stage.add_job(components, 0);
    stage.submit_and_finish(job);
}

fn leaves_outputs(stage: &mut ScenarioDraft<'_>) {
    let mut components = stage.components(2);
    components
        .iter_mut()
        .for_each(|component| component.output = Some(Keep::Here));
    let job = stage.add_job(components, 0);
    stage.submit_and_finish(job);
}

fn collects_outputs(stage: &mut ScenarioDraft<'_>) {
    let mut components = stage.components(2);
    for component in &mut components {
        component.output = Some(Keep::At(stage.draw_site()));
    }
    let job = stage.add_job(components, 0);
    stage.submit_and_finish(job);
}

/// Lets a component fail, perhaps twice; the others have ended before, or are ended by it.
fn play_failures(stage: &mut ScenarioDraft<'_>) {
    let mut components = stage.components(3);
    let failing = stage.random.random_range(0..components.len());
    components[failing].payload = PlannedPayload::Exits(stage.random.random_range(1..=100));
    let others_first = stage.random.random_bool(0.5);
    let others: Vec<usize> = (0..components.len())
        .filter(|other| *other != failing)
        .collect();
    let retries = stage.random.random_range(0..=1);
    let job = stage.add_job(components, retries);
    stage.add_steps(&[ScriptStep::Submit(job)]);
    for round in 1..=retries + 1 {
        stage.add_steps(&[ScriptStep::Await(job, ScriptPoint::Running(round))]);
        for other in others.iter().copied().filter(|_| others_first) {
            stage.add_steps(&[
                ScriptStep::Release(job, other),
                ScriptStep::Await(job, ScriptPoint::Succeeded(other)),
            ]);
        }
        stage.add_steps(&[ScriptStep::Release(job, failing)]);
    }
    stage.add_steps(&[ScriptStep::Await(job, ScriptPoint::Ended)]);
}

/// Plays a single component, because the wall time is the same for all.
fn exceeds_wall_time(stage: &mut ScenarioDraft<'_>) {
    let components = stage.components(1);
    let job = stage.add_job(components, 0);
    stage.scenario.jobs[job].wall_time_s = 3;
    stage.add_steps(&[
        ScriptStep::Submit(job),
        ScriptStep::Await(job, ScriptPoint::Ended),
    ]);
}

/// Plays a single component, because it varies whether others are seen to begin before it fails.
fn executable_missing(stage: &mut ScenarioDraft<'_>) {
    let mut components = stage.components(1);
    components[0].payload = PlannedPayload::Missing;
    let retries = stage.random.random_range(0..=1);
    let job = stage.add_job(components, retries);
    stage.add_steps(&[
        ScriptStep::Submit(job),
        ScriptStep::Await(job, ScriptPoint::Ended),
    ]);
}

fn input_at_its_site(stage: &mut ScenarioDraft<'_>) {
    let site = stage.draw_site();
    let bytes = stage.random.random_range(100..200_000);
    let inputs = vec![stage.add_file(site, bytes)];
    let component = PlannedComponent {
        site: Some(site),
        inputs,
        ..succeeding_component(2)
    };
    let job = stage.add_job(vec![component], 0);
    stage.submit_and_finish(job);
}

fn input_late(stage: &mut ScenarioDraft<'_>) {
    let (from, to) = stage.draw_two_sites();
    let count = stage.random.random_range(2..=3);
    let job = stage.add_late_job(count, FILE_BYTES, Some(to), from);
    stage.submit_and_finish(job);
}

/// The second job needs the file that is on its way for the first, and gets it before its own
/// estimate. Both files of the first are there after 6 s; the second is submitted after 4.5 s, and
/// expects its file after 7.5 s.
fn joined_copy(stage: &mut ScenarioDraft<'_>) {
    let (from, to) = stage.draw_two_sites();
    let first = stage.add_late_job(2, 2 * FILE_BYTES, Some(to), from);
    let inputs = stage.scenario.jobs[first].components[0].inputs.clone();
    let component = PlannedComponent {
        site: Some(to),
        inputs,
        ..succeeding_component(1)
    };
    let second = stage.add_job(vec![component], 0);
    stage.add_steps(&[
        ScriptStep::Submit(first),
        ScriptStep::Pause(4_500),
        ScriptStep::Submit(second),
    ]);
    for job in [first, second] {
        stage.add_steps(&[ScriptStep::Await(job, ScriptPoint::Running(1))]);
        stage.finish(job);
    }
}

fn waits_for_processors(stage: &mut ScenarioDraft<'_>) {
    let (first, second) = stage.fill_site();
    stage.finish(first);
    stage.add_steps(&[ScriptStep::Await(second, ScriptPoint::Running(1))]);
    stage.finish(second);
}

/// A frozen job is not placed although there is room.
fn frozen_and_thawed(stage: &mut ScenarioDraft<'_>) {
    let (first, second) = stage.fill_site();
    stage.add_steps(&[ScriptStep::Freeze(second)]);
    stage.finish(first);
    stage.add_steps(&[
        ScriptStep::Pause(300),
        ScriptStep::Await(second, ScriptPoint::Queued),
        ScriptStep::Thaw(second),
    ]);
    stage.add_steps(&[ScriptStep::Await(second, ScriptPoint::Running(1))]);
    stage.finish(second);
}

/// The site is charged, and the job runs again: elsewhere, unless it named the site.
fn site_loses_component(stage: &mut ScenarioDraft<'_>) {
    let mut components = stage.components(2);
    // Two at the same site would both be lost, in any order.
    match components[0].site {
        Some(site) => {
            let other = (site + 1) % stage.site_count();
            components
                .iter_mut()
                .skip(1)
                .for_each(|component| component.site = Some(other));
        }
        None => components.truncate(1),
    }
    let job = stage.add_job(components, 0);
    stage.add_steps(&[
        ScriptStep::Submit(job),
        ScriptStep::Await(job, ScriptPoint::Running(1)),
        ScriptStep::Lose(job),
    ]);
    stage.add_steps(&[ScriptStep::Await(job, ScriptPoint::Running(2))]);
    stage.finish(job);
}

/// An operator drains the site while processors wait there for input.
fn site_drained(stage: &mut ScenarioDraft<'_>) {
    let sizes = &stage.scenario.processors;
    let smallest = (0..sizes.len())
        .min_by_key(|site| sizes[*site])
        .unwrap_or(0);
    let job = stage.add_late_job(3, FILE_BYTES, None, smallest);
    stage.add_steps(&[
        ScriptStep::Submit(job),
        ScriptStep::Await(job, ScriptPoint::AtGate),
        ScriptStep::Drain(job),
    ]);
    stage.add_steps(&[ScriptStep::Await(job, ScriptPoint::Running(2))]);
    stage.finish(job);
    stage.add_steps(&[ScriptStep::Undrain]);
}

fn restart_while_queued(stage: &mut ScenarioDraft<'_>) {
    let (first, second) = stage.fill_site();
    stage.add_steps(&[ScriptStep::Restart]);
    stage.finish(first);
    stage.add_steps(&[ScriptStep::Await(second, ScriptPoint::Running(1))]);
    stage.finish(second);
}

fn restart_before_input(stage: &mut ScenarioDraft<'_>, point: ScriptPoint) {
    let (from, to) = stage.draw_two_sites();
    let job = stage.add_late_job(3, FILE_BYTES, Some(to), from);
    stage.add_steps(&[
        ScriptStep::Submit(job),
        ScriptStep::Await(job, point),
        ScriptStep::Restart,
    ]);
    stage.add_steps(&[ScriptStep::Await(job, ScriptPoint::Running(1))]);
    stage.finish(job);
}

/// Submits a job and waits until it runs.
fn start_running_job(stage: &mut ScenarioDraft<'_>) -> usize {
    let components = stage.components(3);
    let job = stage.add_job(components, 0);
    stage.add_steps(&[
        ScriptStep::Submit(job),
        ScriptStep::Await(job, ScriptPoint::Running(1)),
    ]);
    job
}

fn restart_while_running(stage: &mut ScenarioDraft<'_>) {
    let job = start_running_job(stage);
    stage.add_steps(&[ScriptStep::Restart]);
    stage.finish(job);
}

fn cancel_while_queued(stage: &mut ScenarioDraft<'_>) {
    let (first, second) = stage.fill_site();
    stage.add_steps(&[
        ScriptStep::Cancel(second),
        ScriptStep::Await(second, ScriptPoint::Ended),
    ]);
    stage.finish(first);
}

fn cancel_while_running(stage: &mut ScenarioDraft<'_>) {
    let job = start_running_job(stage);
    stage.add_steps(&[
        ScriptStep::Cancel(job),
        ScriptStep::Await(job, ScriptPoint::Ended),
    ]);
}

fn cancel_after_restart(stage: &mut ScenarioDraft<'_>) {
    let job = start_running_job(stage);
    stage.add_steps(&[
        ScriptStep::Restart,
        ScriptStep::Cancel(job),
        ScriptStep::Await(job, ScriptPoint::Ended),
    ]);
}

fn cancel_at_gate(stage: &mut ScenarioDraft<'_>) {
    let (from, to) = stage.draw_two_sites();
    let job = stage.add_late_job(3, FILE_BYTES, Some(to), from);
    stage.add_steps(&[
        ScriptStep::Submit(job),
        ScriptStep::Await(job, ScriptPoint::AtGate),
        ScriptStep::Cancel(job),
    ]);
    stage.add_steps(&[ScriptStep::Await(job, ScriptPoint::Ended)]);
}

/// Pauses first, so that the copies have begun.
fn cancel_while_placed(stage: &mut ScenarioDraft<'_>) {
    let (from, to) = stage.draw_two_sites();
    let job = stage.add_late_job(2, LARGE_FILE_BYTES, Some(to), from);
    stage.add_steps(&[
        ScriptStep::Submit(job),
        ScriptStep::Await(job, ScriptPoint::Placed),
        ScriptStep::Pause(700),
    ]);
    stage.add_steps(&[
        ScriptStep::Cancel(job),
        ScriptStep::Await(job, ScriptPoint::Ended),
    ]);
}
