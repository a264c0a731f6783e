//! An output of a job is read, brought to its site and entered in the catalogue, each as soon as it
//! can be.

use anyhow::Result;
use cospan_domain::ids::{LogicalName, RelPath};
use cospan_domain::job::spec::{OutputDestination, OutputSpec};
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{BANDWIDTH, SceneStage, site_name};
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::OUTPUT_BYTES;

pub(super) fn play_collected(chance: &mut StdRng) -> Result<Vec<String>> {
    let stage = SceneStage::with_processors(&[4, 2], chance.random())?;
    let run_time = DurationMs(chance.random_range(1_000..=60_000));
    let count = chance.random_range(1..=2);
    let to = chance.random_range(0..2);
    stage.play_scene(move |scene| async move {
        let begun = scene.now();
        let mut spec = build_job(&[3], run_time, run_time, 0)?;
        for number in 0..count {
            let register = LogicalName::new(&format!("result-{number}"))?;
            let path = RelPath::new(&format!("result-{number}.dat"))?;
            let collect = OutputDestination::ToSite {
                site: site_name(to)?,
                register,
            };
            spec.components[0]
                .outputs
                .push(OutputSpec { path, collect });
        }
        let id = scene.submit(spec).await?;
        let over = scene.await_end(id).await?.since(begun).0;
        let course = scene.durable_course(id, begun);
        let (read, rest) = course.split_at(5 + count);
        let succeeded = read[4].0;
        // Something reported by a hint is asked for along with what was reported just before.
        scene.check((run_time.0..run_time.0 + 10).contains(&succeeded), || {
            format!("{course:?}")
        });
        scene.check_same(
            "its payload",
            &read[4].1,
            &vec!["AttemptEnded", "PayloadsSucceeded"],
        );
        let found = vec![(succeeded, vec!["OutputFound"]); count];
        scene.check_same("outputs that are read", read[5..].to_vec(), found);
        let collected = rest.iter().flat_map(|(_, names)| names.clone());
        let expected = std::iter::repeat_n("OutputCollected", count).chain(["JobFinished"]);
        scene.check_same(
            "what follows",
            collected.collect::<Vec<_>>(),
            expected.collect(),
        );
        let inspected = |site| scene.call_times_since(begun, site, "inspect");
        let arrived = inspected(to)?.last().copied();
        scene.check_same("it is over when the last is checked", Some(over), arrived);
        let looks = inspected(0)?.iter().filter(|at| **at == succeeded).count();
        scene.check_same(
            "looks at the site",
            looks,
            if to == 0 { 2 * count } else { count },
        );
        let least = OUTPUT_BYTES.0 * 8_000 / BANDWIDTH.0;
        let late = over - succeeded;
        let in_time = if to == 0 {
            late == 0
        } else {
            (least..3 * least * 2).contains(&late)
        };
        scene.check(in_time, || format!("brought within {late} ms"));
        let calls = inspected(0)?.len() + inspected(1)?.len();
        scene.check_same(
            "looks that were counted",
            scene.counted_calls("inspect", "ok"),
            calls as u64,
        );
        let view = scene.plane_run.plane.view();
        for number in 0..count {
            let file = LogicalName::new(&format!("result-{number}"))
                .ok()
                .and_then(|name| view.files.get(&name).cloned());
            let entry = file.and_then(|file| file.entry.clone());
            let replicas = entry.map(|entry| {
                let replicas = entry.replicas.iter();
                replicas.map(|(site, _)| site.clone()).collect::<Vec<_>>()
            });
            scene.check_same("replicas", replicas, Some(vec![site_name(to)?]));
        }
        Ok(())
    })
}
