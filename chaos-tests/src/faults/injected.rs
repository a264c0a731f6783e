//! Answers of sites that go wrong: lost, refused, late, or false.

use anyhow::{Context, Result, ensure};

use super::{Scenario, Scene};

pub(super) const ALL: [(&str, Scenario); 5] = [
    ("a-submission-whose-reply-is-lost", reply_lost),
    ("a-submission-that-never-arrives", never_arrives),
    ("a-gate-whose-answer-is-lost", gate_answer_lost),
    ("a-status-that-fails", status_fails),
    ("a-status-that-tells-nothing", status_tells_nothing),
];

impl Scene {
    /// From now on the calls of a site go wrong like this; empty: none.
    fn arm(&self, index: usize, lines: &str) -> Result<()> {
        let directory = self.ground.data().join("faults");
        std::fs::create_dir_all(&directory)?;
        let aside = directory.join("new");
        std::fs::write(&aside, lines)?;
        Ok(std::fs::rename(aside, directory.join(&self.ground.sites[index].name))?)
    }

    fn rounds(&self, id: u64) -> Result<u64> {
        self.job(id)?["round"].as_u64().context("no round")
    }

    fn errors(&self, index: usize) -> Result<u64> {
        self.site(index)?["consecutive_errors"].as_u64().context("no count of errors")
    }
}

/// What arrived runs, once: it is found by its tag and adopted, not submitted again.
fn reply_lost(scene: &mut Scene) -> Result<()> {
    scene.arm(0, "submit lost-after next 3\n")?;
    let ids = (0..3).map(|n| scene.submit(&format!("adopted-{n}"), &["s1", "s2"], "0.2", 0));
    let ids = ids.collect::<Result<Vec<u64>>>()?;
    for id in ids {
        scene.await_state(id, "finished")?;
        let job = scene.job(id)?;
        ensure!(job["components"][0]["attempt"] == 1, "submitted again: {job}");
        ensure!(job["round"] == 1, "given up although it was there: {job}");
    }
    ensure!(scene.errors(0)? == 0, "the site was charged for a lost reply");
    Ok(())
}

/// What certainly never arrived, though nobody said so, is submitted under a new tag.
fn never_arrives(scene: &mut Scene) -> Result<()> {
    scene.arm(0, "submit lost-before next 1\n")?;
    let id = scene.submit("renewed", &["s1", "s2"], "0.2", 0)?;
    scene.await_state(id, "finished")?;
    let job = scene.job(id)?;
    let attempt = job["components"][0]["attempt"].as_u64();
    ensure!(attempt.is_some_and(|attempt| attempt > 1), "not under a new tag: {job}");
    Ok(())
}

/// A gate is opened again until somebody answers; the payload starts once all the same.
fn gate_answer_lost(scene: &mut Scene) -> Result<()> {
    scene.arm(0, "decide-gate lost-after next 2\n")?;
    let id = scene.submit("opened", &["s1", "s2"], "1", 0)?;
    scene.await_state(id, "finished")?;
    ensure!(scene.rounds(id)? == 1, "the round was given up");
    Ok(())
}

/// A failed query is no information: nothing is charged, moved or given up.
fn status_fails(scene: &mut Scene) -> Result<()> {
    let id = scene.submit("unseen", &["s1", "s2"], "1", 0)?;
    scene.await_state(id, "running")?;
    scene.arm(0, "status not-sent\n")?;
    scene.await_site(0, "unreachable")?;
    let job = scene.job(id)?;
    ensure!(job["phase"]["state"] == "running", "unknown was taken for failed: {job}");
    scene.arm(0, "")?;
    scene.await_state(id, "finished")?;
    ensure!(scene.rounds(id)? == 1, "it was moved although its site came back");
    ensure!(scene.errors(0)? == 0, "silence was charged as an error");
    Ok(())
}

/// A site that answers and knows nothing of our attempts for a while.
fn status_tells_nothing(scene: &mut Scene) -> Result<()> {
    let id = scene.submit("unknown", &["s1", "s2"], "2", 0)?;
    scene.await_state(id, "running")?;
    scene.arm(0, "status unknown next 10\n")?;
    scene.await_state(id, "finished")?;
    ensure!(scene.rounds(id)? == 1, "unknown was taken for gone");
    Ok(())
}
