//! What the control plane shows of itself is what there is: its clock, sites, links, the way of a
//! copy, its store; an explanation shows what is known of each site, and what would become of a
//! job now is what becomes of it. Once it is told to stop, it takes nothing new and says so.

use anyhow::{Result, bail};
use cospan_actors::api::command::{ApiRefusal, Ask, Submission};
use cospan_actors::coallocator::{Explanation, Wait};
use cospan_domain::ids::{JobId, KeyName, SiteName};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::job::state::Job;
use cospan_domain::placed::Placement;
use cospan_domain::placement::{Quota, QuotaBasis};
use cospan_domain::site::availability::SiteState;
use cospan_domain::transfer::place::FilePlace;
use cospan_domain::units::{Bytes, DurationMs, PerMillion};
use cospan_sites::port::Readable;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{BANDWIDTH, Scene, Stage, reads, site_name};
use super::tidy::{at_rest, folded};
use crate::laboratory::jobs::job;

const DAY: DurationMs = DurationMs(86_400_000);

pub(super) fn wrong(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = Stage::of(&[1, 12, 10], chance.random())?;
    let size = chance.random_range(20_000_000..=80_000_000_u64);
    let file = stage.add_file(size, &[0])?;
    let share = PerMillion(1_000 * chance.random_range(700..=1_000));
    let basis = if chance.random_bool(0.5) { QuotaBasis::Share } else { QuotaBasis::Level };
    stage.settings.quotas.insert(site_name(1)?, Quota { share, basis });
    let hold_max = DurationMs(1_000 * chance.random_range(300..=900));
    stage.settings.job.hold_max = hold_max;
    let fills = chance.random_range(1..=4);
    let drawn = Drawn { file, size, fills, hold_max };
    stage.play(move |scene| async move {
        scene.pass(DurationMs(5_000)).await;
        itself(&scene, drawn).await?;
        let runs = scene.submit(job(&[drawn.fills], DAY, DAY, 0)?).await?;
        scene.pass(DurationMs(1_000)).await;
        let brought = one_with_input(&scene, drawn).await?;
        waits(&scene, runs).await?;
        on_its_way(&scene, drawn, brought).await?;
        damage(&scene)?;
        stopped(&scene).await
    })
}

#[derive(Clone, Copy)]
struct Drawn {
    file: usize,
    size: u64,
    fills: u32,
    hold_max: DurationMs,
}

async fn itself(scene: &Scene, drawn: Drawn) -> Result<()> {
    let plane = &scene.reign.plane;
    scene.same("its clock", plane.now(), scene.now());
    scene.same("longest time at a gate", plane.hold_max(), drawn.hold_max);
    scene.same("whether it is cut off", plane.isolated(), false);
    scene.same("whether it takes work", plane.is_ready(), true);
    scene.same("its instance", plane.instance(), plane.shared().instance);
    let names: Vec<SiteName> = plane.sites().into_iter().map(|site| site.name).collect();
    let all = vec![site_name(0)?, site_name(1)?, site_name(2)?];
    scene.same("sites", names, all.clone());
    scene.check(plane.site(&SiteName::new("nowhere")?).is_none(), || "a site too many".into());
    for site in &all {
        let links = plane.links_to(site);
        let from: Vec<SiteName> = links.iter().map(|link| link.from.clone()).collect();
        let others = all.iter().filter(|other| *other != site).cloned().collect();
        scene.same("where links begin", from, others);
        let right = links.iter().all(|link| link.to == *site && link.configured == BANDWIDTH);
        scene.check(right, || format!("links to {site}: {links:?}"));
    }
    let stored = plane.scan(b"f/")?;
    scene.same("files in its store", stored.len(), plane.view().files.len());
    scene.same("jobs in its store", plane.scan(b"j/")?.len(), 0);
    let (size, store) = (plane.store_size(), plane.store().size());
    scene.same("keys of its store", (size.keys, size.disk_bytes), (store.keys, store.disk_bytes));
    let place = FilePlace::User(cospan_domain::ids::RelPath::new("path-0")?);
    let piece = plane.read(&site_name(0)?, Readable::File(place), Bytes(0), 10).await;
    let read = piece.map(|piece| piece.size).map_err(|problem| problem.to_string());
    scene.same("a file that is read", read, Ok(Bytes(drawn.size)));
    Ok(())
}

/// What would become of a job, and what becomes of it at the same moment.
async fn one_with_input(scene: &Scene, drawn: Drawn) -> Result<JobId> {
    let spec = reads(job(&[3, 2], DurationMs(5_000), DurationMs(90_000), 0)?, drawn.file)?;
    let submission = Submission::of(spec.clone().into());
    let preview = scene.reign.plane.preview(&KeyName::new("alice")?, submission)?;
    figures(scene, &preview, None);
    let Ok(plan) = &preview.decision else { bail!("no plan: {:?}", preview.decision) };
    scene.same("names of its components", preview.components.len(), 2);
    for transfer in &preview.transfers {
        let index = transfer.component.0 as usize;
        let placement = &plan.placements[index];
        scene.same("where a file goes", &transfer.to, &placement.site);
        scene.check(placement.sources.contains(&transfer.source), || format!("{transfer:?}"));
        let time = DurationMs((drawn.size * 8_000).div_ceil(BANDWIDTH.0));
        scene.same("how long that takes", transfer.time, time);
        let link = transfer.link.as_ref().map(|link| (link.from.clone(), link.to.clone()));
        let should = Some((site_name(0)?, transfer.to.clone()));
        scene.same("over which link", link, should);
    }
    let sources: usize = plan.placements.iter().map(|placement| placement.sources.len()).sum();
    scene.same("files brought", preview.transfers.len(), sources);
    let id = scene.submit(spec).await?;
    scene.pass(DurationMs(1)).await;
    scene.check(!scene.reign.plane.scan(b"j/")?.is_empty(), || "it is not in the store".into());
    let placed = places(&*scene.job(id)?);
    scene.same("where it is placed", placed, plan.placements.clone());
    let explained = scene.reign.plane.explain(&*scene.job(id)?);
    scene.same("what it waits for", explained.wait.clone(), Wait::Phase);
    let again = explained.decision.as_ref().map(|plan| plan.placements.clone());
    scene.same("where it would be placed now", again.ok(), Some(plan.placements.clone()));
    figures(scene, &explained, Some(id));
    folded(scene, &scene.reign.plane.view());
    Ok(id)
}

fn places(job: &Job) -> Vec<Placement> {
    job.components.iter().filter_map(|component| component.placement.clone()).collect()
}

/// The numbers of each site, from what it said and what our jobs hold there.
fn figures(scene: &Scene, explained: &Explanation, without: Option<JobId>) {
    let (plane, now) = (&scene.reign.plane, scene.now());
    let (view, shared) = (plane.view(), plane.shared());
    scene.same("sites explained", explained.sites.len(), plane.sites().len());
    for standing in plane.sites() {
        let Some(figures) = explained.sites.get(&standing.name) else { continue };
        let Some((asked, idle)) = standing.report.idle.clone() else { continue };
        let (mut pending, mut ours, mut seen, mut held) = (0, 0, 0, 0);
        for ((job, _), holding) in view.holdings.get(&standing.name).into_iter().flatten() {
            held += 1;
            let processors = holding.resources.processors;
            let is_seen = holding.visible_from.is_some_and(|from| from <= asked);
            match (Some(*job) == without, is_seen) {
                (true, true) => seen += processors,
                (true, false) => {}
                (false, true) => ours += processors,
                (false, false) => (pending, ours) = (pending + processors, ours + processors),
            }
        }
        let idle = idle.processors + seen;
        let total = standing.report.shape.as_ref().map_or(0, |shape| shape.total.processors);
        let quota = shared.settings.quotas.get(&standing.name).copied().unwrap_or_default();
        let leaves = quota.usable(total.into(), idle.into(), ours.into()) as u32;
        let is = (figures.age, figures.idle, figures.pending, figures.quota_leaves);
        let should = (Some(now.since(asked)), Some(idle), pending, Some(leaves));
        scene.same(&format!("figures of {}", standing.name), is, should);
        let is = (figures.errors, figures.probe_at, figures.obstacles.len());
        scene.same(&format!("trouble of {}", standing.name), is, (0, None, 0));
        scene.same("components there", standing.held, held);
        scene.same("its state", standing.state, SiteState::Usable);
    }
}

/// One that has no room yet, and one that is not to be placed: why, and where it would go.
async fn waits(scene: &Scene, runs: JobId) -> Result<()> {
    let plane = &scene.reign.plane;
    let policy = plane.explain(&*scene.job(runs)?).policy;
    let large = scene.submit(job(&[10, 9], DurationMs(1_000), DAY, 0)?).await?;
    scene.pass(DurationMs(50)).await;
    let explained = plane.explain(&*scene.job(large)?);
    scene.same("what a large one waits for", explained.wait.clone(), Wait::Placement);
    scene.same("its policy", &explained.policy, &policy);
    let standing = plane.standing(large).await.and_then(|standing| standing.refusal);
    scene.same("why it has no place", explained.decision.clone().err(), standing);
    let of_first = explained.verdicts.iter().filter(|verdict| verdict.component.0 == 0).count();
    scene.same("sites that were looked at", of_first, plane.sites().len());
    figures(scene, &explained, None);
    at_rest(scene).await;
    scene.ask(Ask::Cancel(vec![large])).await?;
    let over = plane.explain(&*scene.job(large)?);
    scene.same("what one waits for that is over", over.wait, Wait::Ended);
    Ok(())
}

/// Its copy comes along at the speed of the link, and is told of until it is there.
async fn on_its_way(scene: &Scene, drawn: Drawn, id: JobId) -> Result<()> {
    let plane = &scene.reign.plane;
    let job = scene.job(id)?;
    let copies: Vec<_> = plane.view().copies.keys().cloned().collect();
    let mut before = Bytes(0);
    for _ in 0..3 {
        scene.pass(DurationMs(6_000)).await;
        for (digest, site) in &copies {
            let Some(progress) = plane.progress(*digest, site) else {
                scene.check(scene.job(id)?.inputs_here, || "nothing is told of a copy".into());
                continue;
            };
            let done = progress.done;
            scene.check(before <= done && done.0 <= drawn.size, || format!("{before:?}, {done:?}"));
            before = done;
        }
        folded(scene, &plane.view());
    }
    scene.check(before > Bytes(0), || "a copy does not come along".into());
    scene.when(DAY, |scene| scene.job(id).is_ok_and(|job| job.is_final())).await?;
    for (digest, site) in &copies {
        let progress = plane.progress(*digest, site);
        scene.check(progress.is_none(), || format!("a copy still comes along: {progress:?}"));
    }
    let placed = places(&job).iter().map(|placement| placement.site.clone()).collect::<Vec<_>>();
    let calls = scene.calls();
    let submitted = calls.iter().filter(|called| called.call == "submit");
    let there = submitted.filter(|called| placed.contains(&called.site)).count();
    scene.check(there >= placed.len(), || "it was not submitted where it was placed".into());
    at_rest(scene).await;
    Ok(())
}

/// Whoever looks for damage of what the view derives finds it, wherever it is.
fn damage(scene: &Scene) -> Result<()> {
    let nowhere = SiteName::new("nowhere")?;
    let view = (*scene.reign.plane.view()).clone();
    scene.check(view.folds_agree() && view.refolded().folds_agree(), || "a view is damaged".into());
    let fresh = view.refolded();
    scene.same("records of a fresh fold", fresh.jobs.len(), view.jobs.len());
    let (mut held, mut staged) = (view.clone(), view.clone());
    let (mut names, mut untold) = (view.clone(), view.clone());
    let (mut needs, mut cuts) = (view.clone(), view.clone());
    held.holdings.insert(nowhere.clone(), Default::default());
    staged.staged.insert(nowhere.clone(), Default::default());
    let digest = cospan_domain::ids::Digest([77; 32]);
    names.names.insert(digest, Default::default());
    cuts.cuts.insert(digest, Default::default());
    needs.needs.insert((digest, nowhere.clone()), Default::default());
    untold.untold.insert(JobId(88_888));
    let damaged = [held, staged, names, untold, needs, cuts];
    for (number, view) in damaged.iter().enumerate() {
        scene.check(!view.folds_agree(), || format!("damage {number} is not found"));
        scene.check(view.refolded().folds_agree(), || format!("damage {number} stays"));
    }
    Ok(())
}

async fn stopped(scene: &Scene) -> Result<()> {
    let spec: JobSpec = job(&[1], DurationMs(1_000), DurationMs(2_000), 0)?;
    let before = scene.changes().len();
    scene.reign.plane.stop();
    scene.same("whether it takes work", scene.reign.plane.is_ready(), false);
    let answer = scene.ask(Ask::Submit(vec![Submission::of(spec.into())])).await;
    scene.same("a submission then", answer, Err(ApiRefusal::Stopping));
    let answer = scene.ask(Ask::Freeze(vec![JobId(1)])).await;
    scene.same("an order then", answer, Err(ApiRefusal::Stopping));
    scene.pass(DurationMs(1)).await;
    scene.same("changes by what was refused", scene.changes().len(), before);
    Ok(())
}
