//! The setting of a script: its lines that begin with `given`.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cospan_actors::actor_settings::{ActorSettings, StagingLimits};
use cospan_domain::ids::{SiteName, TargetName};
use cospan_domain::queue::JobClassRule;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, PerMillion};
use cospan_simulator::fault_kinds::FaultKind;
use cospan_simulator::world::world_site::LocalJob;

use super::super::stage::{BEGINS, SceneStage};
use super::script_jobs::read_priority;
use super::script_words::ScriptWords;

/// Calls that every transcript shows: those that change something at a site.
const SHOWN_CALLS: [&str; 6] = [
    "submit",
    "decide-gate",
    "cancel",
    "start-copy",
    "stop-copy",
    "delete-content",
];

/// A stage, and the calls to sites that its transcript shows.
pub(super) struct ScriptSetup {
    pub(super) stage: SceneStage,
    pub(super) shown_calls: BTreeSet<String>,
}

impl ScriptSetup {
    pub(super) fn of_nothing() -> Result<Self> {
        Ok(Self {
            stage: SceneStage::with_processors(&[], 1)?,
            shown_calls: SHOWN_CALLS.map(str::to_owned).into(),
        })
    }

    /// Does what one line says.
    ///
    /// # Errors
    /// The line is not understood.
    pub(super) fn read_line(&mut self, mut words: ScriptWords<'_>) -> Result<()> {
        let stage = &mut self.stage;
        match words.next().unwrap_or_default() {
            "sites" => {
                let mut sites = Vec::new();
                while !words.is_empty() {
                    sites.push((words.read()?, words.read()?));
                }
                anyhow::ensure!(stage.sites.is_empty(), "sites come first, and once");
                *stage = SceneStage::with_sites(sites, stage.seed);
            }
            "seed" => stage.seed = words.read()?,
            "no" if words.take("hints") => stage.hints = false,
            "shown" if words.take("calls") => self.shown_calls.extend(words.read_list::<String>()),
            "file" => self.read_file(&mut words)?,
            "link" => self.read_link(&mut words)?,
            "locals" if words.take("at") => self.read_local_job(&mut words)?,
            "reservations" if words.take("at") => {
                let site = self.read_site(&mut words)?;
                self.stage.granting.insert(site);
            }
            "calls" if words.take("take up to") => {
                stage.fault_rates.way_max = words.read_time()?;
            }
            "syncs" if words.take("take up to") => {
                stage.fault_rates.sync_max = words.read_time()?;
            }
            "messages" if words.take("half lost") => {
                // No call ever fails of this; messages do.
                stage.fault_rates.faults.insert(FaultKind::Refused, 0);
            }
            "panicking" if words.take("adapters") => {
                let faults = &mut stage.fault_rates.faults;
                faults.insert(FaultKind::AdapterPanics, 1_000_000);
            }
            "webhook" => {
                let name: Arc<str> = words.read::<String>()?.into();
                let about: Option<SiteName> =
                    words.take("about").then(|| words.read()).transpose()?;
                let hooks = &mut stage.settings.webhooks;
                hooks.entry(about).or_default().push(name);
            }
            "target" => set_target(&mut stage.settings, &mut words)?,
            "rule" => stage.settings.classes.push(read_rule(&mut words)?),
            "staging" if words.take("at") => {
                let site: SiteName = words.read()?;
                let limits = read_staging(&mut words)?;
                stage.settings.staging.insert(site, limits);
            }
            "settling" if words.take("at") => {
                let site: SiteName = words.read()?;
                stage
                    .settings
                    .submit_settle
                    .insert(site, words.read_time()?);
            }
            "setting" => set_value(&mut stage.settings, &mut words)?,
            other => bail!("no stage has {other:?}"),
        }
        words.end()
    }

    /// Reads `of 30MB at amsterdam berlin`; files are numbered as they come.
    fn read_file(&mut self, words: &mut ScriptWords<'_>) -> Result<()> {
        anyhow::ensure!(words.take("of"), "a file of which size?");
        let size = words.read_bytes()?;
        anyhow::ensure!(words.take("at"), "a file at which sites?");
        let mut sites = Vec::new();
        while !words.is_empty() {
            sites.push(self.read_site(words)?);
        }
        self.stage.add_file(size, &sites)?;
        Ok(())
    }

    /// Reads `from amsterdam to cracow of 2MB a second`.
    fn read_link(&mut self, words: &mut ScriptWords<'_>) -> Result<()> {
        anyhow::ensure!(words.take("from"), "a link from where?");
        let from = words.read()?;
        anyhow::ensure!(words.take("to"), "a link to where?");
        let to = words.read()?;
        anyhow::ensure!(words.take("of"), "a link of which bandwidth?");
        let bandwidth = read_bandwidth(words)?;
        self.stage.settings.links.insert((from, to), bandwidth);
        Ok(())
    }

    /// Reads `amsterdam 6 from 10s for 2min`.
    fn read_local_job(&mut self, words: &mut ScriptWords<'_>) -> Result<()> {
        let site = self.read_site(words)?;
        let processors = words.read()?;
        anyhow::ensure!(words.take("from"), "local users from when on?");
        let at = BEGINS + words.read_time()?;
        anyhow::ensure!(words.take("for"), "local users for how long?");
        let run_time = words.read_time()?;
        let local = LocalJob {
            at,
            processors,
            run_time,
            estimate: run_time,
        };
        self.stage.locals.push((site, local));
        Ok(())
    }

    fn read_site(&self, words: &mut ScriptWords<'_>) -> Result<usize> {
        let name: SiteName = words.read()?;
        let mut sites = self.stage.sites.iter();
        let number = sites.position(|(site, _)| *site == name);
        number.with_context(|| format!("there is no site {name}"))
    }
}

/// Reads `2MB a second`.
pub(super) fn read_bandwidth(words: &mut ScriptWords<'_>) -> Result<BitsPerSecond> {
    let bytes = words.read_bytes()?;
    anyhow::ensure!(words.take("a second"), "so many bytes in which time?");
    Ok(BitsPerSecond(8 * bytes))
}

fn set_target(settings: &mut ActorSettings, words: &mut ScriptWords<'_>) -> Result<()> {
    for name in words.read_list::<String>() {
        let name = name.parse()?;
        let address = target_address(&name).into();
        settings.targets.insert(name, address);
    }
    Ok(())
}

/// Returns where messages for a target go.
pub(super) fn target_address(name: &TargetName) -> String {
    format!("mail:{name}")
}

/// Reads `budget 3MB replicas 1MB`.
fn read_staging(words: &mut ScriptWords<'_>) -> Result<StagingLimits> {
    let budget = words.take("budget").then(|| words.read_bytes());
    let budget = budget.transpose()?.map(Bytes);
    anyhow::ensure!(words.take("replicas"), "how many bytes of replicas?");
    let replicas = Bytes(words.read_bytes()?);
    Ok(StagingLimits { budget, replicas })
}

/// Reads `for bob up to 60s highest low gives high`.
fn read_rule(words: &mut ScriptWords<'_>) -> Result<JobClassRule> {
    let mut rule = JobClassRule::default();
    if words.take("for") {
        rule.owner = Some(words.read()?);
    }
    if words.take("up to") {
        rule.max_wall_time = Some(words.read_time()?);
    }
    if words.take("highest") {
        rule.highest = Some(read_priority(words)?);
    }
    if words.take("gives") {
        rule.class = Some(read_priority(words)?);
    }
    Ok(rule)
}

/// Reads `probe-limit 3`: a setting of the control plane, and its value.
pub(super) fn set_value(settings: &mut ActorSettings, words: &mut ScriptWords<'_>) -> Result<()> {
    let name = words.next().context("which setting?")?;
    if let Some(time) = time_setting(settings, name) {
        *time = words.read_time()?;
        return Ok(());
    }
    match name {
        "fallback-tick" => settings.fallback_tick = Some(words.read_time()?),
        "site-error-threshold" => settings.site.site_error_threshold = words.read()?,
        "probe-limit" => settings.site.probe_limit = words.read()?,
        "probe-spread" => settings.site.probe_spread = read_share(words)?,
        "unreachable-failures" => settings.contact.unreachable_failures = words.read()?,
        "max-components" => settings.limits.max_components = words.read()?,
        "claim-share" => settings.job.claim.l = read_share(words)?,
        "claim-threshold" => settings.job.claim.threshold = read_share(words)?,
        "promote-after" => settings.queue.promote_after = Some(words.read()?),
        "max-placement-tries" => settings.queue.max_placement_tries = Some(words.read()?),
        other => bail!("no script can set {other:?}"),
    }
    Ok(())
}

/// Reads a share in thousandths.
fn read_share(words: &mut ScriptWords<'_>) -> Result<PerMillion> {
    Ok(PerMillion(1_000 * words.read::<u32>()?))
}

fn time_setting<'a>(settings: &'a mut ActorSettings, name: &str) -> Option<&'a mut DurationMs> {
    Some(match name {
        "information-expiry" => &mut settings.information_expiry,
        "query-timeout" => &mut settings.information.query_timeout,
        "unreachable-after" => &mut settings.contact.unreachable_after,
        "poll-interval" => &mut settings.poll_interval,
        "reconcile-interval" => &mut settings.reconcile_interval,
        "probe-interval" => &mut settings.site.probe_interval,
        "ready-keep" => &mut settings.transfer.ready_keep,
        "rate-expiry" => &mut settings.network.rates.expiry,
        "keep-jobs" => &mut settings.keep_jobs,
        "tell-for" => &mut settings.tell_for,
        "claim-timeout" => &mut settings.job.claim_timeout,
        "look-up-interval" => &mut settings.job.look_up_interval,
        "scan-interval" => &mut settings.queue.scan_interval,
        _ => return None,
    })
}
