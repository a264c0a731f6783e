//! Asks a control plane at rest what would become of certain jobs, and why one waits. The
//! sites tell what is free, the settings how much of it may be taken: what Worst-Fit makes
//! of that is worked out anew, and so is what keeps a component from each site.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use cospan_actors::api::command::{ApiAnswer, ApiCommand, ApiRefusal, Ask, Submission};
use cospan_actors::coallocator::Explanation;
use cospan_domain::ids::{JobId, KeyName, PolicyName, SiteName};
use cospan_domain::job::spec::{Flexible, JobSpec, Priority, Request};
use cospan_domain::placement::{Outcome, Quota, QuotaBasis, Reason, SiteVerdict};
use cospan_domain::site::availability::SiteState;
use cospan_domain::units::DurationMs;

use super::policies;
use super::scenario::Scenario;
use crate::laboratory::jobs::job;
use crate::laboratory::reign::Reign;
use crate::world::cluster::Cluster;

/// By then every site was asked what is free, because somebody waits.
const ASKED_WITHIN: DurationMs = DurationMs(240_000);
/// More than any site has.
const GIANT: u32 = 1_000_000;
/// A site that takes time to answer tells what was free so long ago.
const ANSWERS_WITHIN: DurationMs = DurationMs(120_000);

/// A site as it is, and what we may take of it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) name: SiteName,
    total: u64,
    idle: u64,
    quota: Option<Quota>,
    pub(super) left: u64,
}

impl Place {
    /// The most that we may ever hold there.
    fn quota(&self) -> u64 {
        let share = self.quota.map_or(1_000_000, |quota| u64::from(quota.share.0));
        self.total * share / 1_000_000
    }

    /// What we may take now, while we hold nothing.
    fn usable(&self) -> u64 {
        match self.quota.map(|quota| quota.basis) {
            None => self.idle,
            Some(QuotaBasis::Level) => self.quota().saturating_sub(self.total - self.idle),
            Some(QuotaBasis::Share) => self.quota().min(self.idle),
        }
    }

    /// What keeps a component of this size away, worst first.
    fn obstacles(&self, size: u64) -> Vec<String> {
        let (total, quota, usable) = (self.total, self.quota(), self.usable());
        let mut found = Vec::new();
        if size > total {
            found.push(format!("too small: {total}"));
        }
        if self.quota.is_some() && size > quota {
            found.push(format!("quota too small: {quota}"));
        }
        // Under a share local load is told as such.
        let ours = match self.quota.map(|quota| quota.basis) {
            Some(QuotaBasis::Share) => quota,
            _ => usable,
        };
        if self.quota.is_some() && ours < size && size <= quota {
            found.push(format!("quota reached: {ours}"));
        }
        if self.idle < size {
            found.push(format!("not enough idle: {} and {}", self.idle, size - self.idle));
        }
        found
    }
}

/// The same, as a control plane tells it.
fn told(reason: &Reason) -> String {
    match reason {
        Reason::TooSmall { largest, .. } => format!("too small: {largest}"),
        Reason::QuotaTooSmall { quota, .. } => format!("quota too small: {quota}"),
        Reason::QuotaReached { usable, .. } => format!("quota reached: {usable}"),
        Reason::NotEnoughIdle { idle, missing, .. } => {
            format!("not enough idle: {idle} and {missing}")
        }
        other => format!("{other:?}"),
    }
}

/// Asks, and tells the first answer that is wrong. `submitted` is told of the job that is
/// submitted for it, and cancelled.
///
/// # Errors
/// That answer.
pub(super) async fn ask(
    reign: &Reign,
    scenario: &Scenario,
    submitted: impl FnOnce(JobId),
) -> Result<()> {
    let giant = submit_giant(reign).await?;
    submitted(giant);
    reign.until(reign.clock.now() + ASKED_WITHIN).await;
    let places = places(reign, scenario)?;
    explains_giant(reign, giant, &places).await?;
    previews(reign, scenario, &places)?;
    cancel(reign, giant).await
}

async fn command(reign: &Reign, what: Ask) -> Result<ApiAnswer> {
    let by = KeyName::new("carol")?;
    let answer = reign.plane.command(ApiCommand { by, what }).await;
    answer.map_err(|refusal| anyhow::anyhow!("refused at rest: {refusal}"))
}

async fn submit_giant(reign: &Reign) -> Result<JobId> {
    let spec = Arc::new(worst_fit(&[GIANT])?);
    let submission = Submission { allow_unplaceable: true, ..Submission::of(spec) };
    match command(reign, Ask::Submit(vec![submission])).await? {
        ApiAnswer::Submitted(jobs) if jobs.len() == 1 => Ok(jobs[0].id),
        other => bail!("a submission came to {other:?}"),
    }
}

async fn cancel(reign: &Reign, giant: JobId) -> Result<()> {
    command(reign, Ask::Cancel(vec![giant])).await?;
    let view = reign.plane.view();
    let ended = view.jobs.get(&giant).is_none_or(|job| job.is_final());
    ensure!(ended, "a job that only waited is cancelled, and not over");
    Ok(())
}

/// A job under Worst-Fit, whatever the default is.
fn worst_fit(sizes: &[u32]) -> Result<JobSpec> {
    let mut spec = job(sizes, DurationMs(1_000), DurationMs(60_000), 0)?;
    spec.policy = Some(PolicyName::new("worst-fit")?);
    Ok(spec)
}

/// Sites that take work; what they are said to have free they really have.
fn places(reign: &Reign, scenario: &Scenario) -> Result<Vec<Place>> {
    let now = reign.clock.now();
    let mut places = Vec::new();
    for site in reign.plane.sites() {
        if !matches!(site.state, SiteState::Usable) {
            continue;
        }
        let Some((_, idle)) = &site.report.idle else { bail!("{} never said", site.name) };
        let said = u64::from(idle.processors);
        let is_true = |cluster: &&Cluster| {
            let since = now - ANSWERS_WITHIN;
            let steps = cluster.load().iter();
            let last = steps.clone().rev().find(|step| step.at <= since);
            let recent = steps.filter(|step| step.at > since).chain(last);
            let free = |step: &crate::world::cluster::LoadStep| {
                let used = step.running + step.held + step.local + step.down;
                u64::from(cluster.processors().saturating_sub(used))
            };
            recent.map(free).any(|free| free == said)
        };
        let total = reign.world.read(|world| {
            let cluster = world.sites().iter().find(|cluster| *cluster.name() == site.name);
            let total = cluster.map(|cluster| u64::from(cluster.processors()));
            total.filter(|_| cluster.as_ref().is_some_and(is_true))
        });
        let Some(total) = total else {
            bail!("{} is said to have {said} processors free, and has not", site.name)
        };
        let quota = scenario.quotas.get(&site.name).copied();
        let mut place = Place { name: site.name, total, idle: said, quota, left: 0 };
        place.left = place.usable();
        places.push(place);
    }
    Ok(places)
}

/// Why the job that fits nowhere waits is told for each site.
async fn explains_giant(reign: &Reign, giant: JobId, places: &[Place]) -> Result<()> {
    let standing = reign.plane.standing(giant).await;
    ensure!(standing.is_some_and(|s| s.ahead == 0), "a job that waits alone is not the next");
    let view = reign.plane.view();
    let job = view.jobs.get(&giant).map(|job| &**job);
    let explanation = job.map(|job| reign.plane.explain(job));
    let Some(explanation) = explanation else { bail!("job {giant} is gone") };
    let Err(refusal) = &explanation.decision else { bail!("a job that fits nowhere has a place") };
    let lengths = &reign.plane.shared().metrics.queue_length;
    // It may have been promoted since.
    let its_class = job.map(|job| job.priority);
    for class in Priority::ALL {
        let shown = lengths.with_label_values(&[class.as_str()]).get();
        ensure!(shown == i64::from(its_class == Some(class)), "{shown} jobs in {}", class.as_str());
    }
    let nearest = places.iter().find(|place| refusal.site.as_ref() == Some(&place.name));
    let is_so = |place: &Place| place.obstacles(GIANT.into()).contains(&told(&refusal.reason));
    let elsewhere = places.len() < reign.plane.sites().len();
    ensure!(elsewhere || nearest.is_some_and(is_so), "a job that fits nowhere waits for {refusal}");
    check_verdicts(&explanation.verdicts, places, GIANT.into(), None)
}

fn check_verdicts(
    verdicts: &[SiteVerdict],
    places: &[Place],
    size: u64,
    chosen: Option<&SiteName>,
) -> Result<()> {
    let verdicts: BTreeMap<_, _> = verdicts.iter().map(|v| (&v.site, &v.outcome)).collect();
    for place in places {
        let obstacles = place.obstacles(size);
        let is_right = match verdicts.get(&place.name) {
            Some(Outcome::Chosen) => chosen == Some(&place.name),
            Some(Outcome::NotPreferred) => obstacles.is_empty() && chosen != Some(&place.name),
            Some(Outcome::Refused(reasons)) => {
                reasons.iter().map(told).collect::<Vec<_>>() == obstacles && !reasons.is_empty()
            }
            None => false,
        };
        let outcome = verdicts.get(&place.name);
        ensure!(is_right, "{size} processors at {place:?}: {outcome:?}, not {obstacles:?}");
    }
    Ok(())
}

/// What would become of jobs of one component that just fit, or just do not, of two
/// components, and of such that are fixed.
fn previews(reign: &Reign, scenario: &Scenario, places: &[Place]) -> Result<()> {
    // A site that takes only a few components would have to be looked at more closely.
    if places.len() < reign.plane.sites().len() {
        return Ok(());
    }
    let edges = places.iter().flat_map(|place| [place.left, place.left + 1, place.idle + 1, 1]);
    let sizes: Vec<u32> = edges.filter_map(|size| u32::try_from(size).ok()).collect();
    for &size in sizes.iter().filter(|size| **size > 0) {
        preview(reign, places, &[size])?;
        preview(reign, places, &[1, size])?;
        preview(reign, places, &[size, size])?;
        for place in places {
            preview_fixed(reign, place, size)?;
        }
    }
    check_refusals(reign, places)?;
    policies::check(reign, scenario, places)
}

/// What no site could ever take is refused at once, what only has to wait is not.
fn check_refusals(reign: &Reign, places: &[Place]) -> Result<()> {
    let most = |place: &Place| place.quota().min(place.total);
    let largest = places.iter().map(most).max().unwrap_or(0);
    let all: u64 = places.iter().map(most).sum();
    for (sizes, fits) in [
        (vec![largest], true),
        (vec![largest + 1], false),
        (vec![1, largest], all > largest),
        (vec![largest; places.len() + 1], false),
    ] {
        let sizes: Vec<u32> = sizes.iter().filter_map(|size| u32::try_from(*size).ok()).collect();
        check_taken(reign, worst_fit(&sizes)?, fits)?;
    }
    for place in places {
        for (size, fits) in [(most(place), true), (most(place) + 1, false)] {
            let mut spec = worst_fit(&[u32::try_from(size)?])?;
            spec.request = Request::Fixed;
            spec.components[0].site = Some(place.name.clone());
            check_taken(reign, spec, fits)?;
        }
    }
    for (total, fits) in [(all, true), (all + 1, false)] {
        let mut spec = job(&[u32::try_from(total)?], DurationMs(1_000), DurationMs(60_000), 0)?;
        spec.request = Request::Flexible(Flexible::default());
        check_taken(reign, spec, fits)?;
    }
    let mut spec = worst_fit(&[1])?;
    spec.components[0].resources.others.insert("gpus".into(), 1);
    check_taken(reign, spec.clone(), false)?;
    let has_place = previewed(reign, spec)?.decision.is_ok();
    ensure!(!has_place, "what no site has is said to be somewhere");
    let mut spec = worst_fit(&[1])?;
    spec.request = Request::Fixed;
    spec.components[0].site = Some(SiteName::new("nowhere")?);
    check_taken(reign, spec, false)
}

fn check_taken(reign: &Reign, spec: JobSpec, fits: bool) -> Result<()> {
    let asked = format!("{:?} {:?}", spec.request, spec.total_resources());
    let submission = Submission::of(Arc::new(spec));
    let told = reign.plane.preview(&KeyName::new("carol")?, submission);
    let is_right = match &told {
        Ok(_) => fits,
        Err(ApiRefusal::Unplaceable { .. }) => !fits,
        Err(_) => false,
    };
    ensure!(is_right, "{asked} ought to {}: {told:?}", if fits { "wait" } else { "be refused" });
    Ok(())
}

/// What would become of a job.
pub(super) fn previewed(reign: &Reign, spec: JobSpec) -> Result<Explanation> {
    let submission = Submission { allow_unplaceable: true, ..Submission::of(Arc::new(spec)) };
    let previewed = reign.plane.preview(&KeyName::new("carol")?, submission);
    previewed.map_err(|refusal| anyhow::anyhow!("refused: {refusal}"))
}

fn preview(reign: &Reign, places: &[Place], sizes: &[u32]) -> Result<()> {
    let explanation = previewed(reign, worst_fit(sizes)?)?;
    let told = explanation.decision.as_ref().ok();
    let told = told.map(|plan| plan.placements.iter().map(|p| p.site.clone()).collect::<Vec<_>>());
    let expected = spread(places, sizes);
    ensure!(told == expected, "{sizes:?} on {places:?}: {told:?}, not {expected:?}");
    let names: Vec<_> = (0..sizes.len()).map(|index| format!("part-{index}")).collect();
    let named = &explanation.components;
    ensure!(*named == names, "an explanation is not so: of {named:?}, not {names:?}");
    match sizes {
        [size] => {
            let chosen = expected.as_ref().and_then(|sites| sites.first());
            check_verdicts(&explanation.verdicts, places, u64::from(*size), chosen)
        }
        _ => Ok(()),
    }
}

/// Each component, the largest first, where most is left; equal ones by name.
fn spread(places: &[Place], sizes: &[u32]) -> Option<Vec<SiteName>> {
    let mut places = places.to_vec();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(sizes[*index]));
    let mut chosen: Vec<Option<SiteName>> = vec![None; sizes.len()];
    for index in order {
        let most = places.iter().map(|place| place.left).max()?;
        let place = places.iter_mut().find(|place| place.left == most)?;
        place.left = place.left.checked_sub(u64::from(sizes[index]))?;
        chosen[index] = Some(place.name.clone());
    }
    chosen.into_iter().collect()
}

fn preview_fixed(reign: &Reign, place: &Place, size: u32) -> Result<()> {
    let mut spec = worst_fit(&[size])?;
    spec.request = Request::Fixed;
    spec.components[0].site = Some(place.name.clone());
    let decision = previewed(reign, spec)?.decision;
    let fits = u64::from(size) <= place.left;
    let right = match &decision {
        Ok(plan) => fits && plan.placements.iter().all(|p| p.site == place.name),
        Err(refusal) => !fits && refusal.site.as_ref().is_none_or(|site| *site == place.name),
    };
    ensure!(right, "{size} fixed to {place:?}: {decision:?}");
    Ok(())
}
