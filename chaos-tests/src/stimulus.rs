//! Brings a server to a step that ordinary load does not reach.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::api::Api;
use crate::evidence;
use crate::test_environment::TestEnvironment;

/// The way to bring a server to a point, beside ordinary load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stimulus {
    Load,
    /// Attempts are killed at their sites.
    KillAttempts,
    /// Agents of copies are killed.
    KillAgents,
    /// Jobs are cancelled while their input is on the way.
    CancelEarly,
    /// Commands come while others are being written.
    Storm,
}

/// Does it once; `turn` counts the calls.
pub fn apply_stimulus(environment: &TestEnvironment, api: &Api, stimulus: Stimulus, turn: u64) {
    match stimulus {
        Stimulus::Load => {}
        Stimulus::KillAttempts if turn.is_multiple_of(25) => {
            let site = &environment.sites[(turn / 25) as usize % environment.sites.len()];
            kill_attempt(&site.root.join("attempts"));
        }
        Stimulus::KillAgents if turn.is_multiple_of(5) => kill_agents(environment),
        Stimulus::KillAttempts | Stimulus::KillAgents => {}
        Stimulus::CancelEarly => {
            if let Ok(rows) = api.newest(100) {
                let placed = rows.iter().filter(|row| row["state"] == "placed");
                placed.filter_map(|row| row["id"].as_u64()).for_each(|id| {
                    // Jobs that were missed are found again.
                    let _ = api.cancel(id);
                });
            }
        }
        Stimulus::Storm => send_command_storm(api, turn),
    }
}

/// Changes the priority of every waiting job, and cancels them while that is written. One that is
/// cancelled while its placement is written never leaves: those that were submitted last are
/// cancelled one by one, as they may be placed at that moment.
fn send_command_storm(api: &Api, turn: u64) {
    let Ok(rows) = api.newest(100) else { return };
    let queued: Vec<u64> = rows
        .iter()
        .filter(|row| row["state"] == "queued")
        .filter_map(|row| row["id"].as_u64())
        .collect();
    if queued.is_empty() {
        return;
    }
    let class = if turn.is_multiple_of(2) {
        "high"
    } else {
        "super-high"
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            api.post_expected(
                "/v1/jobs:priority",
                &json!({ "ids": queued, "priority": class }),
            )
        });
        match turn % 3 {
            0 => drop(
                scope.spawn(|| api.post_expected("/v1/jobs:cancel", &json!({ "ids": queued }))),
            ),
            // Jobs that were missed are found again.
            1 => queued.iter().take(8).for_each(|id| _ = api.cancel(*id)),
            _ => {}
        }
    });
}

/// Kills every process of one attempt with kill -9.
pub fn kill_attempt(attempts: &Path) {
    let carriers = evidence::tagged_processes(attempts);
    let Some(chosen) = carriers
        .iter()
        .find(|(_, tag)| !tag.starts_with("cabcdefgh-"))
    else {
        return;
    };
    for (pid, tag) in &carriers {
        if tag == &chosen.1 {
            signal(*pid, Signal::KILL);
        }
    }
}

fn kill_agents(environment: &TestEnvironment) {
    let ours = environment.path().display().to_string();
    for name in evidence::names(Path::new("/proc")) {
        let Ok(pid) = name.parse::<u32>() else {
            continue;
        };
        let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line);
        if line.contains("copy-agent") && line.contains(&ours) {
            signal(pid, Signal::KILL);
        }
    }
}

/// Sends a signal to a process of the run; one that has ended needs none.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}
