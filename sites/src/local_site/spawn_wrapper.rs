//! Starts wrappers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use cospan_domain::ids::AttemptTag;
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;

use super::attempt_processes::OWNER_VARIABLE;
use super::attempt_root::{ATTEMPTS, SPOOL, VerifiedSiteRoot};
use super::gate_bell::{self, WrapperWaker};
use super::live_attempts::LiveAttempts;
use super::live_entry::LiveAttempt;
use super::{LocalSiteConfig, LocalSiteState, not_done_error};
use crate::port::{AcceptedAttempt, AttemptSubmitRequest, SiteError};
use crate::wrapper::parameters::{self, WrapperTimings};
use crate::wrapper::{SCRIPT, wrapper_script_name};

/// The variable by which programs with OpenMP know how many threads to start: without it they take
/// all processors of the machine.
const THREADS_VARIABLE: &str = "OMP_NUM_THREADS";

impl LocalSiteState {
    /// Reserves, prepares, starts. A known tag is not started again; if two runs of the control
    /// plane started it, the second wrapper finds its directory taken.
    pub(super) fn submit(
        self: &std::sync::Arc<Self>,
        order: &AttemptSubmitRequest,
    ) -> Result<AcceptedAttempt, SiteError> {
        let root = self.open_sound_root()?;
        if let Some(hindrance) = root.find_hindrance() {
            return Err(SiteError::OutOfOrder(hindrance));
        }
        let tag = order.tag;
        let known = self.lock_ledger().entries.contains_key(&tag);
        if known
            || root
                .exists(&format!("{ATTEMPTS}/{tag}"))
                .map_err(|e| not_done_error(&e))?
        {
            return accepted_attempt(tag);
        }
        self.reserve_entry(&root, order)?;
        let patience = Duration::from_millis(self.config.poll.min(order.hold_max).0);
        // Without a bell, the wrapper has its alarms.
        let (bell, heard) = WrapperWaker::new(patience).ok().unzip();
        let started = write_parameter_files(&root, &self.config, order)
            .and_then(|()| start_wrapper(&root, &self.config, order, heard));
        let mut ledger = self.lock_ledger();
        match started {
            Ok(child) => {
                if let Some(entry) = ledger.entries.get_mut(&tag) {
                    entry.record_start(child, bell);
                }
                self.ensure_watched(&mut ledger);
                self.waker.wake_watcher();
                accepted_attempt(tag)
            }
            Err(error) => {
                ledger.entries.remove(&tag);
                // If it stays, it counts as using something for a moment only.
                let _ = root.remove_file(&format!("{}/{tag}", super::attempt_root::LIVE));
                Err(not_done_error(&error))
            }
        }
    }

    fn reserve_entry(
        &self,
        root: &VerifiedSiteRoot,
        order: &AttemptSubmitRequest,
    ) -> Result<(), SiteError> {
        if let Some(shortage) = self.config.total.first_shortage(&order.resources) {
            return Err(SiteError::Refused(format!(
                "the attempt {shortage} at most"
            )));
        }
        let longest = DurationMs(order.wall_time.0.saturating_add(self.config.grace.0));
        let until = super::steady_now() + order.hold_max + longest;
        let entry = LiveAttempt::new(order.resources.clone(), longest)
            .with_end_and_reservation(until, order.reservation);
        let mut ledger = self.lock_ledger();
        if ledger.entries.contains_key(&order.tag) {
            return Err(SiteError::NotSent(
                "the same tag is being submitted".to_owned(),
            ));
        }
        let idle = self.idle_for(root, &ledger, order)?;
        if let Some(shortage) = idle.first_shortage(&order.resources) {
            // What ended a moment ago may not have been seen yet.
            ledger
                .refresh_entries(root, true)
                .map_err(|e| not_done_error(&e))?;
            let idle = self.idle_for(root, &ledger, order)?;
            if !idle.covers(&order.resources) {
                return Err(SiteError::SiteFull(format!("the attempt {shortage} idle")));
            }
        }
        self.check_reservations(root, &ledger, order, longest)?;
        let path = format!("{}/{}", super::attempt_root::LIVE, order.tag);
        root.replace_file(&path, &entry.encode_entry(order.tag))
            .map_err(|e| not_done_error(&e))?;
        ledger.entries.insert(order.tag, entry);
        Ok(())
    }

    fn idle_for(
        &self,
        root: &VerifiedSiteRoot,
        ledger: &LiveAttempts,
        order: &AttemptSubmitRequest,
    ) -> Result<Resources, SiteError> {
        // Reserved processors are there for whoever reserved them.
        match order.reservation {
            Some(_) => self.unused_resources(ledger),
            None => self.idle_resources(root, ledger),
        }
    }
}

fn accepted_attempt(tag: AttemptTag) -> Result<AcceptedAttempt, SiteError> {
    Ok(AcceptedAttempt {
        lrm_id: lrm_id(tag)?,
    })
}

/// Makes the number of an attempt from its tag, because that of a process is given out again.
pub(super) fn lrm_id(tag: AttemptTag) -> Result<cospan_domain::ids::LrmId, SiteError> {
    let text = tag.to_string();
    cospan_domain::ids::LrmId::new(&text).map_err(|e| SiteError::Refused(e.to_string()))
}

/// Writes what the wrapper reads.
fn write_parameter_files(
    root: &VerifiedSiteRoot,
    config: &LocalSiteConfig,
    order: &AttemptSubmitRequest,
) -> io::Result<()> {
    let spool = format!("{SPOOL}/{}", order.tag);
    root.make_dir(&spool)?;
    let pace = WrapperTimings {
        hold_max: order.hold_max,
        wall_time: order.wall_time,
        grace: config.grace,
        poll: config.poll,
        seldom: None,
        warning: order.warning,
    };
    let written = parameters::make_parameter_files(order, &config.root, &pace, &config.seal);
    if let Some(inputs) = written.inputs {
        root.write_file(&format!("{spool}/inputs"), &inputs)?;
    }
    root.write_file(&format!("{spool}/params"), &written.params)
}

/// Finds an `env` that restores signals which a shell ignores for what it runs in the background.
fn restoring_env() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        ["/usr/bin/env", "/bin/env"].into_iter().find(|env| {
            let mut command = Command::new(env);
            command.args(["--default-signal=INT,QUIT", "true"]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        })
    })
}

/// Starts the wrapper in its own process group, with its output in a file.
fn start_wrapper(
    root: &VerifiedSiteRoot,
    config: &LocalSiteConfig,
    order: &AttemptSubmitRequest,
    bell: Option<OwnedFd>,
) -> io::Result<Child> {
    let tag = order.tag;
    let script = wrapper_script_name();
    if !root.exists(&script)? {
        install_wrapper(root)?;
    }
    let log: File = root.open_to_append(&format!("{SPOOL}/{tag}/log"))?;
    let environment: &BTreeMap<String, String> = &config.environment;
    Command::new(&config.shell)
        .arg(config.root.join(script))
        .arg(&config.root)
        .arg(tag.to_string())
        .arg(if bell.is_some() {
            gate_bell::ARGUMENT
        } else {
            "-"
        })
        .args(restoring_env())
        .env_clear()
        // The site's own variables and those of the job take its place.
        .env(THREADS_VARIABLE, order.resources.processors.to_string())
        .envs(environment)
        .env(
            OWNER_VARIABLE,
            root.attempts_directory().join(tag.to_string()),
        )
        .stdin(bell.map_or_else(Stdio::null, Stdio::from))
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
}

/// Puts the wrapper in place, durably: an empty one, left by a power cut, would run nothing, and
/// report success. A shell reads its script while it runs it: each version has its own name, and is
/// never changed once it is complete.
pub(super) fn install_wrapper(root: &VerifiedSiteRoot) -> io::Result<()> {
    let name = wrapper_script_name();
    let content = SCRIPT.as_bytes();
    if root.has_file_content(&name, content)? {
        Ok(())
    } else {
        root.replace_durably(&name, content)
    }
}
