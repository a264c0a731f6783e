//! An attempt as options of `sbatch`.

use cospan_domain::acquisition::PartitionOptionPrefixes;
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;

use super::SlurmSiteConfig;
use super::option_check::check_option;
use crate::port::{AttemptSubmitRequest, SiteError};

/// Added to the longest life of a wrapper to make the limit that Slurm gets: so Slurm never ends a
/// payload that still has time.
const MARGIN: DurationMs = DurationMs::from_secs(120);

/// The least hold that an attempt with a hold gets, however little its partition gives it.
const HOLD_LEAST: DurationMs = DurationMs::from_secs(120);

/// The ways in which a job chooses its partition, account and reservation.
pub const LANES: PartitionOptionPrefixes = PartitionOptionPrefixes {
    partition: &["--partition=", "-p"],
    account: &["--account=", "-A"],
    reservation: &["--reservation="],
};

/// Options that set memory, or GPUs, in their own way: the total of the attempt is left out then.
const OF_MEMORY: [&str; 3] = ["mem", "mem-per-cpu", "mem-per-gpu"];
const OF_GPUS: [&str; 6] = [
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "tres-per-task",
];

/// The longest name of a job that is shown, in characters.
const NAME_MAX: usize = 40;

/// Returns the name of an attempt in Slurm: the job's own name, for people, and the tag, so that
/// nothing else ever has this name. Commas and bars have meanings of their own to Slurm's commands.
pub(super) fn job_name(order: &AttemptSubmitRequest) -> String {
    let name: String = order
        .name
        .iter()
        .flat_map(|name| name.chars())
        .map(|c: char| {
            if c.is_ascii_alphanumeric() || "-_+".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    let name = &name[..name.len().min(NAME_MAX)];
    if name.is_empty() {
        order.tag.to_string()
    } else {
        format!("{name}.{}", order.tag)
    }
}

/// Returns the options of one attempt.
///
/// # Errors
/// `Unfit` if the job has one that is not allowed.
pub(super) fn sbatch_options(
    config: &SlurmSiteConfig,
    order: &AttemptSubmitRequest,
    root: &str,
    limits: AttemptLimits,
) -> Result<Vec<String>, SiteError> {
    let tag = order.tag;
    let mut options = vec![
        "--no-requeue".to_owned(),
        "--export=NIL".to_owned(),
        format!("--job-name={}", job_name(order)),
        format!("--comment={tag}"),
        "--input=/dev/null".to_owned(),
        // What its script says goes to a file of its own: Slurm would make directories for it on a
        // node that lacks the root.
        "--output=/dev/null".to_owned(),
        "--error=/dev/null".to_owned(),
        format!("--chdir={root}"),
        format!("--time={}", limits.minutes),
    ];
    if order.begin_in > DurationMs::ZERO {
        // Slurm counts this by its own clock.
        options.push(format!(
            "--begin=now+{}seconds",
            order.begin_in.0.div_ceil(1_000)
        ));
    }
    options.extend(site_options(config));
    let own = order
        .lrm_options
        .iter()
        .map(check_option)
        .collect::<Result<Vec<String>, _>>()?;
    options.extend(resource_options(
        &order.resources,
        &own,
        limits.counts_disk,
    )?);
    // The job's own options come last: they win over those of the site.
    options.extend(own);
    // An attempt with a reservation runs in that, and nowhere else.
    options.extend(order.reservation.map(|tag| format!("--reservation={tag}")));
    Ok(options)
}

/// Returns the options that every job of a site gets, unless it sets others.
pub(super) fn site_options(config: &SlurmSiteConfig) -> Vec<String> {
    let named = [
        ("partition", &config.partition),
        ("account", &config.account),
        ("qos", &config.qos),
        ("constraint", &config.constraint),
        ("reservation", &config.reservation),
    ];
    named
        .into_iter()
        .filter_map(|(name, value): (_, &Option<String>)| {
            Some(format!("--{name}={}", value.as_ref()?))
        })
        .collect()
}

/// Limits that an attempt gets besides its resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AttemptLimits {
    /// The longest time at its gate.
    pub(super) hold_max: DurationMs,
    /// The limit that Slurm gets: from the beginning of the wrapper to its end at the latest.
    pub(super) minutes: u64,
    /// True if Slurm counts disk of its nodes, so that it may be requested.
    /// Otherwise no node would do.
    pub(super) counts_disk: bool,
}

/// Returns the limits of an attempt if its partition gives a job `longest` at most. Slurm never
/// starts a job that asks for more, so the wait at the gate is shortened first; if that is still
/// too much, Slurm takes the rest off the end of the payload, as it does to everybody.
pub(super) fn limits_for(
    config: &SlurmSiteConfig,
    order: &AttemptSubmitRequest,
    longest: Option<DurationMs>,
    counts_disk: bool,
) -> AttemptLimits {
    const MINUTE: u64 = 60_000;
    // It ends with its reservation, which lasts as much longer as it takes to end.
    let margin = if order.reservation.is_some() {
        DurationMs::ZERO
    } else {
        MARGIN
    };
    let later = [order.wall_time, config.grace, margin];
    let later = later
        .iter()
        .fold(0_u64, |sum, part| sum.saturating_add(part.0));
    let all = later.saturating_add(order.hold_max.0);
    match longest
        .map(|longest| longest.max(order.wall_time))
        .filter(|longest| longest.0 < all)
    {
        Some(longest) => {
            let left = DurationMs(longest.0.saturating_sub(later));
            let hold_max = order.hold_max.min(left.max(HOLD_LEAST));
            // A partition's time is in whole minutes, and a job that asks for more never runs.
            AttemptLimits {
                hold_max,
                minutes: (longest.0 / MINUTE).max(1),
                counts_disk,
            }
        }
        None => AttemptLimits {
            hold_max: order.hold_max,
            minutes: all.div_ceil(MINUTE),
            counts_disk,
        },
    }
}

/// Returns processors and what else Slurm counts, as totals of the
/// attempt, besides its own options.
fn resource_options(
    resources: &Resources,
    own: &[String],
    counts_disk: bool,
) -> Result<Vec<String>, SiteError> {
    let processors = resources.processors.max(1);
    let mut options = Vec::new();
    if !takes_whole_nodes(processors, own) {
        let tasks = task_count(processors, own)?;
        match last_option_value(own, "ntasks") {
            Some(said) if said.parse() != Ok(tasks) => {
                return Err(SiteError::Unfit(format!(
                    "--ntasks={said} is not what follows from the component's {processors} \
                     processors: {tasks}"
                )));
            }
            Some(_) => {}
            None if follows_from_shape(tasks, own) => {}
            None => options.push(format!("--ntasks={tasks}")),
        }
    }
    let [memory, gpus, disk] = ["memory_mb", "gpus", "disk_mb"].map(|name| resources.other(name));
    if memory > 0 && !sets_any_option(own, &OF_MEMORY) {
        options.push(format!("--mem-per-cpu={}M", mebibytes(memory, processors)));
    }
    if gpus > 0 && !sets_any_option(own, &OF_GPUS) {
        options.push(format!("--gpus={gpus}"));
    }
    if disk > 0 && counts_disk && !sets_any_option(own, &["tmp"]) {
        options.push(format!("--tmp={}M", mebibytes(disk, 1)));
    }
    Ok(options)
}

fn mebibytes(megabytes: u64, parts: u32) -> u128 {
    const MIB: u128 = 1 << 20;
    (u128::from(megabytes) * 1_000_000).div_ceil(MIB * u128::from(parts))
}

fn sets_any_option(options: &[String], names: &[&str]) -> bool {
    names
        .iter()
        .any(|name| last_option_value(options, name).is_some())
}

/// Returns as many as there are processors, unless the job gives several to each.
fn task_count(processors: u32, own: &[String]) -> Result<u32, SiteError> {
    let among_others = last_option_value(own, "tres-per-task").and_then(|all| {
        let mut parts = all.split(',');
        parts.find_map(|part| part.strip_prefix("cpu")?.strip_prefix(['=', ':']))
    });
    let Some(each) = last_option_value(own, "cpus-per-task").or(among_others) else {
        return Ok(processors);
    };
    let whole = each
        .parse()
        .ok()
        .filter(|each: &u32| *each > 0 && processors.is_multiple_of(*each));
    whole.map(|each| processors / each).ok_or_else(|| {
        SiteError::Unfit(format!(
            "--cpus-per-task={each} does not divide the component's {processors} processors"
        ))
    })
}

/// Returns true if it gets as many processors by asking for nodes of its own that have them.
fn takes_whole_nodes(processors: u32, own: &[String]) -> bool {
    let is_exclusive = own.iter().any(|option: &String| option == "--exclusive")
        || last_option_value(own, "exclusive") == Some("topo");
    let says_tasks = sets_any_option(own, &["ntasks", "ntasks-per-node"]);
    let nodes = least_number(own, "nodes");
    let least = nodes.and_then(|nodes| nodes.checked_mul(least_number(own, "mincpus")?));
    is_exclusive && !says_tasks && least == Some(processors)
}

/// Returns true if Slurm starts as many tasks on these nodes when nothing is said of tasks. Then it is
/// left to `srun` what to start there, as it is for scripts that do not say it.
fn follows_from_shape(tasks: u32, own: &[String]) -> bool {
    let Some(nodes) = least_number(own, "nodes") else {
        return false;
    };
    match last_option_value(own, "ntasks-per-node").map(str::parse::<u32>) {
        None => tasks == nodes,
        Some(Ok(each)) => nodes.checked_mul(each) == Some(tasks),
        Some(Err(_)) => false,
    }
}

/// Returns the number that an option has; of one like 2-4 the least.
fn least_number(own: &[String], name: &str) -> Option<u32> {
    let text = last_option_value(own, name)?;
    text.split('-').next()?.parse().ok()
}

/// Returns the value that the last of these options has for a name.
fn last_option_value<'o>(options: &'o [String], name: &str) -> Option<&'o str> {
    options.iter().rev().find_map(|option: &'o String| {
        option
            .strip_prefix("--")?
            .strip_prefix(name)?
            .strip_prefix('=')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_totals_of_the_attempt_in_whole_mebibytes() {
        let others = [
            ("memory_mb".into(), 1_000),
            ("gpus".into(), 3),
            ("licenses".into(), 1),
        ];
        let resources = Resources {
            processors: 4,
            others: others.into(),
        };
        let of = |own: &[&str]| {
            resource_options(
                &resources,
                &own.iter().map(|own| (*own).to_owned()).collect::<Vec<_>>(),
                true,
            )
        };
        assert_eq!(
            of(&[]).unwrap(),
            ["--ntasks=4", "--mem-per-cpu=239M", "--gpus=3"]
        );
        assert_eq!(
            resource_options(&Resources::default(), &[], true).unwrap(),
            ["--ntasks=1"]
        );
        let disk = Resources {
            processors: 1,
            others: [("disk_mb".into(), 2_000)].into(),
        };
        let of_disk = |counted| resource_options(&disk, &[], counted).unwrap();
        assert_eq!(of_disk(true), ["--ntasks=1", "--tmp=1908M"]);
        assert_eq!(
            of_disk(false),
            ["--ntasks=1"],
            "no node of such a cluster has any"
        );
        let own = [
            "--mem=1G",
            "--gres=gpu:3",
            "--cpus-per-task=1",
            "--cpus-per-task=2",
        ];
        assert_eq!(of(&own).unwrap(), ["--ntasks=2"], "each thing is said once");
        let nodes = ["--nodes=4", "--mem=1G", "--gres=gpu:3"];
        assert_eq!(
            of(&nodes).unwrap(),
            [""; 0],
            "a task each goes without saying"
        );
        let mut whole = vec![
            "--exclusive",
            "--nodes=2-3",
            "--mincpus=2",
            "--mem=1G",
            "--gpus=3",
        ];
        assert_eq!(of(&whole).unwrap(), [""; 0], "its nodes have them all");
        whole[2] = "--mincpus=1";
        assert_eq!(of(&whole).unwrap(), ["--ntasks=4"]);
        assert_eq!(
            of(&["--ntasks=4", "--mem=1G", "--gpus=3"]).unwrap(),
            [""; 0]
        );
        let said = of(&["--ntasks=3"]).unwrap_err().to_string();
        assert!(said.contains("the component's 4 processors: 4"), "{said}");
        let task = ["--tres-per-task=gres/gpu:1,cpu:2"];
        assert_eq!(of(&task).unwrap(), ["--ntasks=2", "--mem-per-cpu=239M"]);
        for odd in [
            "--cpus-per-task=3",
            "--cpus-per-task=0",
            "--cpus-per-task=x",
        ] {
            let said = of(&[odd]).unwrap_err().to_string();
            assert!(said.contains("does not divide the component's 4"), "{said}");
        }
    }

    #[test]
    fn no_more_time_is_asked_for_than_the_partition_gives() {
        let name = cospan_domain::ids::SiteName::new("there").unwrap();
        let config = SlurmSiteConfig::new(name, "/r".into(), Resources::default(), Vec::new());
        let mut order = crate::contract::submit_request(
            crate::contract::attempt_tag(7),
            crate::contract::script_program(""),
        );
        let minutes = |minutes: u64| DurationMs(minutes * 60_000);
        order.hold_max = minutes(10);
        let mut of = |wall: u64, longest: Option<u64>| {
            order.wall_time = minutes(wall);
            let limits = limits_for(&config, &order, longest.map(minutes), false);
            (limits.minutes, limits.hold_max.as_secs_ceil())
        };
        assert_eq!(of(2_880, None), (2_893, 600));
        assert_eq!(of(2_880, Some(2_893)), (2_893, 600), "all of it fits");
        assert_eq!(
            of(2_870, Some(2_880)),
            (2_880, 10 * 60 - 125),
            "it waits less at its gate"
        );
        assert_eq!(
            of(2_880, Some(2_880)),
            (2_880, 120),
            "the partition's whole time"
        );
        assert_eq!(
            of(2_881, Some(2_880)),
            (2_881, 120),
            "that is refused, not cut"
        );
    }

    #[test]
    fn a_jobs_own_name_comes_first_in_plain_letters_and_not_too_long() {
        let mut order = crate::contract::submit_request(
            crate::contract::attempt_tag(7),
            crate::contract::script_program(""),
        );
        assert_eq!(job_name(&order), order.tag.to_string());
        order.name = Some("Wärme, 50 %|x".into());
        assert_eq!(job_name(&order), format!("W_rme__50___x.{}", order.tag));
        order.name = Some("x".repeat(200).into());
        assert_eq!(
            job_name(&order).len(),
            NAME_MAX + 1 + order.tag.to_string().len()
        );
    }
}
