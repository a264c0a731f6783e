//! The last word on attempts whose wrapper is gone, and the end of what it left.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::ids::Tag;
use rustix::process::Signal;

use super::entry::Wrapper;
use super::evidence::{self, Evidence};
use super::process::{self, Process};
use super::root::{ATTEMPTS, Root, SPOOL};
use crate::port::Observation;
use crate::verdict::{Word, verdict};
use crate::wrapper::evidence::observed;
use crate::wrapper::parameters::{end, line};

/// How long killed processes get to vanish before the next look.
const DEATH_AWAITED: Duration = Duration::from_millis(200);

/// The wrapper that wrote `ready`; `None` if there is none (yet).
pub(super) fn find_wrapper(root: &Root, tag: Tag) -> io::Result<Option<Wrapper>> {
    let Some((ready, _)) = Evidence::collect(root, tag)?.and_then(|e| e.ready) else {
        return Ok(None);
    };
    if ready.boot != process::boot_id() {
        return Ok(Some(Wrapper::Gone));
    }
    let process = Process::named(&ready.wrapper)?;
    Ok(Some(process.map_or(Wrapper::Gone, |process| Wrapper::Known(Arc::new(process)))))
}

/// The last word on an attempt whose wrapper has ended: what it left, or that
/// it vanished. Its other processes are ended first, so that nothing changes afterwards.
pub(super) fn settle(root: &Root, tag: Tag) -> io::Result<Observation> {
    let before = Evidence::collect(root, tag)?;
    if let Some(last) = before.as_ref().and_then(Evidence::last_word) {
        return Ok(last);
    }
    // An incomplete word of the wrapper or of an earlier look: nothing can be running.
    let settled = before.as_ref().is_some_and(|e| e.trouble.is_some() && !e.perhaps_begun);
    if !settled && kill_all(root, tag)? > 0 {
        return Ok(Observation::Unknown("its processes were killed and are not gone yet".into()));
    }
    match Evidence::collect(root, tag)? {
        Some(evidence) => {
            let verdict = verdict(Word::Completed, evidence.left(), true);
            Ok(observed(verdict, Some(&evidence), || {
                "its wrapper was killed or crashed".to_owned()
            }))
        }
        None => match last_of_log(root, tag)? {
            Some(log) => record_early_end(root, tag, &log),
            // It wrote nothing anywhere: perhaps whoever was to start it died just before.
            None => Ok(Observation::Absent),
        },
    }
}

/// The last line that a wrapper wrote to its log, if any.
fn last_of_log(root: &Root, tag: Tag) -> io::Result<Option<String>> {
    let log = root.read(&format!("{SPOOL}/{tag}/log"))?;
    let log = log.map(|log| String::from_utf8_lossy(&log.bytes).into_owned()).unwrap_or_default();
    Ok(log.lines().last().map(str::to_owned))
}

/// A wrapper that could not even make its directory: takes it, so that the reason stays.
fn record_early_end(root: &Root, tag: Tag, log: &str) -> io::Result<Observation> {
    let detail = format!("its wrapper ended before it was ready: {log}");
    if root.make_dir(&format!("{ATTEMPTS}/{tag}"))? {
        let mut trouble = Vec::new();
        line(&mut trouble, "why", &detail);
        end(&mut trouble, tag);
        root.replace(&evidence::path(tag, "trouble"), &trouble)?;
    }
    Ok(Observation::Vanished { began: false, detail })
}

/// Living processes of an attempt.
pub(super) fn carrying(root: &Root, tag: Tag) -> io::Result<Vec<Process>> {
    let mut found = process::carrying(&root.attempts(), |carried| *carried == tag)?;
    Ok(found.remove(&tag).unwrap_or_default())
}

/// Kills every process of an attempt; gives back how many are not gone after a moment.
pub(super) fn kill_all(root: &Root, tag: Tag) -> io::Result<usize> {
    if let Some(evidence) = Evidence::collect(root, tag)?
        && let (Some((ready, _)), Some((payload, _))) = (&evidence.ready, &evidence.begun)
        && ready.boot == process::boot_id()
        && let Some(leader) = Process::named(payload)?
    {
        leader.signal_group(Signal::KILL);
    }
    let awaited = Instant::now();
    loop {
        let left = carrying(root, tag)?;
        left.iter().for_each(|process| process.signal(Signal::KILL));
        if left.is_empty() || awaited.elapsed() > DEATH_AWAITED {
            return Ok(left.len());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
