//! Answers of sites that go wrong: lost, refused, late, or false.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{FaultScenario, FaultScene, PATIENCE};
use crate::payload::{PayloadLedger, PayloadRun};
use crate::server::Chaos;

pub(super) const ALL: [(&str, FaultScenario); 6] = [
    ("a-submission-whose-reply-is-lost", reply_lost),
    ("a-submission-that-never-arrives", never_arrives),
    ("a-gate-whose-answer-is-lost", gate_answer_lost),
    ("a-status-that-fails", status_fails),
    ("a-status-that-tells-nothing", status_tells_nothing),
    ("a-death-between-two-gates", dies_between_gates),
];

impl FaultScene {
    /// Makes the calls of a site go wrong like this from now on; empty: none.
    fn arm_faults(&self, index: usize, lines: &str) -> Result<()> {
        let directory = self.environment.data().join("faults");
        std::fs::create_dir_all(&directory)?;
        let aside = directory.join("new");
        std::fs::write(&aside, lines)?;
        Ok(std::fs::rename(
            aside,
            directory.join(&self.environment.sites[index].name),
        )?)
    }

    /// Kills the server and starts it again, with these lines added to this section of its
    /// configuration and this plan of crashes.
    fn start_again(&mut self, section: &str, added: &str, plan: &str) -> Result<()> {
        self.server.kill()?;
        let config = self.environment.config();
        let text = std::fs::read_to_string(&config)?;
        let head = format!("[{section}]\n");
        ensure!(text.contains(&head), "no {head} in {}", config.display());
        std::fs::write(&config, text.replace(&head, &format!("{head}{added}")))?;
        let coverage = self.environment.coverage();
        self.server.chaos = Some(Chaos {
            plan: plan.into(),
            coverage,
        });
        self.server.start().map(drop)
    }

    /// Waits until the server has crashed.
    fn await_crash(&mut self) -> Result<()> {
        let begun = Instant::now();
        while self.server.exit_status()?.is_none() {
            if begun.elapsed() > PATIENCE {
                bail!("the server did not crash within {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Lists what payloads have written so far.
    fn read_runs(&self) -> Result<Vec<PayloadRun>> {
        Ok(PayloadLedger::read(&self.environment.ledger())?.runs)
    }

    fn rounds(&self, id: u64) -> Result<u64> {
        self.read_job(id)?["round"].as_u64().context("no round")
    }

    fn site_error_count(&self, index: usize) -> Result<u64> {
        self.site(index)?["consecutive_errors"]
            .as_u64()
            .context("no count of errors")
    }
}

/// A submission that arrived runs once: it is found by its tag and adopted, not submitted again.
fn reply_lost(scene: &mut FaultScene) -> Result<()> {
    scene.arm_faults(0, "submit lost-after next 3\n")?;
    let ids = (0..3).map(|n| scene.submit(&format!("adopted-{n}"), &["s1", "s2"], "0.2", 0));
    let ids = ids.collect::<Result<Vec<u64>>>()?;
    for id in ids {
        scene.await_state(id, "finished")?;
        let job = scene.read_job(id)?;
        ensure!(
            job["components"][0]["attempt"] == 1,
            "submitted again: {job}"
        );
        ensure!(job["round"] == 1, "given up although it was there: {job}");
    }
    ensure!(
        scene.site_error_count(0)? == 0,
        "the site was charged for a lost reply"
    );
    Ok(())
}

/// A submission that certainly never arrived, though nobody said so, is made again under a new tag.
fn never_arrives(scene: &mut FaultScene) -> Result<()> {
    scene.arm_faults(0, "submit lost-before next 1\n")?;
    let id = scene.submit("renewed", &["s1", "s2"], "0.2", 0)?;
    scene.await_state(id, "finished")?;
    let job = scene.read_job(id)?;
    let attempt = job["components"][0]["attempt"].as_u64();
    ensure!(
        attempt.is_some_and(|attempt| attempt > 1),
        "not under a new tag: {job}"
    );
    Ok(())
}

/// A gate is opened again until somebody answers; the payload starts once all the same.
fn gate_answer_lost(scene: &mut FaultScene) -> Result<()> {
    scene.arm_faults(0, "decide-gate lost-after next 2\n")?;
    let id = scene.submit("opened", &["s1", "s2"], "1", 0)?;
    scene.await_state(id, "finished")?;
    ensure!(scene.rounds(id)? == 1, "the round was given up");
    Ok(())
}

/// A failed query is no information: nothing is charged, moved or given up.
fn status_fails(scene: &mut FaultScene) -> Result<()> {
    let id = scene.submit("unseen", &["s1", "s2"], "1", 0)?;
    scene.await_state(id, "running")?;
    scene.arm_faults(0, "status not-sent\n")?;
    scene.await_site(0, "unreachable")?;
    let job = scene.read_job(id)?;
    ensure!(
        job["phase"]["state"] == "running",
        "unknown was taken for failed: {job}"
    );
    scene.arm_faults(0, "")?;
    scene.await_state(id, "finished")?;
    ensure!(
        scene.rounds(id)? == 1,
        "it was moved although its site came back"
    );
    ensure!(
        scene.site_error_count(0)? == 0,
        "silence was charged as an error"
    );
    Ok(())
}

/// A site answers, but knows nothing of our attempts for a while.
fn status_tells_nothing(scene: &mut FaultScene) -> Result<()> {
    let id = scene.submit("unknown", &["s1", "s2"], "2", 0)?;
    scene.await_state(id, "running")?;
    scene.arm_faults(0, "status unknown next 10\n")?;
    scene.await_state(id, "finished")?;
    ensure!(scene.rounds(id)? == 1, "unknown was taken for gone");
    Ok(())
}

/// The server dies when the first gate is open and the second is not. It is away for longer than
/// the parts of a round may begin apart, and the first payload succeeds alone meanwhile. That round
/// counts for nothing: the job finishes with another one, whose payloads run together.
fn dies_between_gates(scene: &mut FaultScene) -> Result<()> {
    const GRACE: Duration = Duration::from_secs(2);
    let grace = format!("go_grace = \"{}s\"\n", GRACE.as_secs());
    scene.start_again("claim", &grace, "crash:after-effect:OpenGate:1")?;
    scene.arm_faults(1, "decide-gate freeze\n")?;
    let id = scene.submit_with("torn", &["s1", "s2"], ("1", "out"), 0)?;
    scene.await_crash()?;
    let away = Instant::now();
    scene.wait("the first payload over, alone", |scene: &FaultScene| {
        Ok(matches!(&scene.read_runs()?[..], [run] if run.end.is_some()))
    })?;
    scene.arm_faults(1, "")?;
    std::thread::sleep((GRACE + Duration::from_secs(1)).saturating_sub(away.elapsed()));
    ensure!(
        scene.read_runs()?.len() == 1,
        "a payload began while nobody was there to let it in"
    );
    scene.start_again("claim", "", "")?;
    scene.await_state(id, "finished")?;
    let job = scene.read_job(id)?;
    let runs = scene.read_runs()?;
    ensure!(
        job["round"] == 2,
        "it finished with a round that was torn: {job}"
    );
    let [alone, parts @ ..] = &runs[..] else {
        bail!("no payload ran")
    };
    ensure!(parts.len() == 2, "{runs:?}");
    let apart = parts[0].start_ms.abs_diff(parts[1].start_ms);
    ensure!(
        u128::from(apart) <= GRACE.as_millis(),
        "they began {apart} ms apart"
    );
    let together = parts.iter().all(|run| {
        run.tag != alone.tag
            && parts
                .iter()
                .all(|other: &PayloadRun| run.end.is_some_and(|(end, _)| end > other.start_ms))
    });
    ensure!(together, "parts of the job did not run together: {runs:?}");
    Ok(())
}
