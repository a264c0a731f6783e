//! Sites with room for so many copies only: what jobs need there at the same time never takes more,
//! by what the sites' stores really have.

use std::collections::{BTreeMap, BTreeSet};

use cospan_actors::api::CommittedView;
use cospan_domain::content::Content;
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_state::{AttemptState, Component, Job, JobPhase, RestartStep};
use cospan_domain::units::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::seed_scenario::{DrawnFile, SeedScenario};
use cospan_simulator::control_plane_run::ControlPlaneRun;

/// Numbers of the random streams.
const STAGING: u64 = 0x0073_7461_6765;
const EXECUTABLES: u64 = 0x6578_6563;

/// Draws the most that copies may take, in half of the runs and there at half of the sites: the
/// largest file finds room, and not many beside it.
pub(super) fn draw_staging(
    seed: u64,
    files: &[DrawnFile],
    names: &[SiteName],
) -> BTreeMap<SiteName, Bytes> {
    let mut chance = StdRng::seed_from_u64(seed ^ STAGING);
    let exist = chance.random_bool(0.5);
    let largest = files
        .iter()
        .map(|(_, content, _)| content.size.0)
        .max()
        .unwrap_or(0);
    let narrow = names.iter().filter_map(|name| {
        let budget = Bytes(largest + chance.random_range(0..=largest / 4));
        (exist && chance.random_bool(0.5)).then(|| (name.clone(), budget))
    });
    narrow.collect()
}

/// Draws the file, by number, that is the executable of a job of which none is an input, in half of
/// the runs: it has to be brought, like an input.
pub(super) fn draw_executable(seed: u64, number: usize, scenario: &SeedScenario) -> Option<usize> {
    let exists = StdRng::seed_from_u64(seed ^ EXECUTABLES).random_bool(0.5);
    let own = (number as u64 + 1).rotate_right(16);
    let mut chance = StdRng::seed_from_u64(seed ^ EXECUTABLES ^ own);
    let job = &scenario.jobs[number];
    let reads = job.input.is_some()
        || (job.rare_options.promised.is_some() && !scenario.staging.is_empty());
    let file = chance.random_range(0..scenario.files.len());
    (exists && !reads && chance.random_bool(0.2)).then_some(file)
}

/// Lists sites whose store has more of what placed jobs read there than it may.
pub(super) fn sites_over_limit(
    plane_run: &ControlPlaneRun,
    staging: &BTreeMap<SiteName, Bytes>,
    view: &CommittedView,
) -> Vec<String> {
    let found = staging.iter().filter_map(|(name, budget)| {
        let mut held: BTreeMap<Content, BTreeSet<JobId>> = BTreeMap::new();
        plane_run.world.read(|world| {
            let Some(site) = world.index_of(name) else {
                return;
            };
            let read = view.jobs.values().flat_map(|job| read_at(job, name));
            for (content, job) in read.filter(|(c, _)| world.has_content(site, c.digest)) {
                held.entry(content).or_default().insert(job);
            }
        });
        let bytes = Bytes(held.keys().map(|content| content.size.0).sum());
        (bytes > *budget).then(|| {
            let readers: Vec<_> = held.values().collect();
            format!("{bytes} of {budget} at {name}, for {readers:?}")
        })
    });
    found.collect()
}

/// Lists what components of a job that are placed at a site read there, until their payloads are
/// over. One that is restarted alone and has no place yet reads nothing.
fn read_at<'a>(job: &'a Job, site: &'a SiteName) -> impl Iterator<Item = (Content, JobId)> + 'a {
    let reads = matches!(
        job.phase,
        JobPhase::Placed { .. }
            | JobPhase::Claiming { .. }
            | JobPhase::Starting { .. }
            | JobPhase::Running { .. }
    );
    let placed = job
        .components
        .iter()
        .filter(move |component| reads && !is_homeless(component));
    let here = placed.filter_map(|component| component.placement.as_ref());
    let here = here.filter(move |placement| placement.site == *site);
    here.flat_map(|placement| {
        placement
            .sources
            .iter()
            .map(|source| (source.content, job.id))
    })
}

fn is_homeless(component: &Component) -> bool {
    let restart = component.restart.as_ref();
    matches!(component.run, AttemptState::Idle)
        && restart.is_some_and(|r| r.step == RestartStep::ToPlace)
}
