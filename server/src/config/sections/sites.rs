//! The sites, the links between them, and the watch over each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cospan_domain::acquisition::BenchmarkScores;
use cospan_domain::ids::{HostName, KeyName, SiteName};
use cospan_domain::labels::SiteLabels;
use cospan_domain::resources::Resources;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Mflops, PerMillion};

use crate::config::section::section;
use crate::config::value::{SecretUrl, choice};

const DAY: DurationMs = DurationMs::from_secs(86_400);

const fn secs(secs: u64) -> DurationMs {
    DurationMs::from_secs(secs)
}

section! {
    /// Watch and protection of all sites.
    SiteDefaults("sites") {
        /// Time between two status queries to a site from which news is expected. An idle site is
        /// asked less often.
        "poll_interval" => poll_interval: DurationMs = secs(2),
            in DurationMs(100) => secs(3_600), since "0.1.0";
        /// Consecutive errors of a site, each of another job, after which it is unusable, its
        /// administrator is notified and its work goes elsewhere.
        "site_error_threshold" => site_error_threshold: u32 = 3,
            in 1 => 1_000, since "0.1.0";
        /// First wait before an unusable site is probed; doubles up to `probe_interval_max`.
        "probe_interval" => probe_interval: DurationMs = secs(30),
            in secs(1) => DAY, since "0.1.0";
        /// Longest wait between two probes of an unusable site.
        "probe_interval_max" => probe_interval_max: DurationMs = secs(1_800),
            in secs(1) => DAY, since "0.1.0";
        /// A site that does not answer for this time is unreachable: nothing new is placed
        /// there. What runs there is unknown, not failed.
        "unreachable_after" => unreachable_after: DurationMs = secs(30),
            in secs(1) => DAY, since "0.1.0";
        /// If half of the sites (at least two) become unreachable within this time, the fault is
        /// taken to be ours: nothing is charged, opened or moved until one answers.
        "isolation_window" => isolation_window: DurationMs = secs(60),
            in secs(1) => secs(3_600), since "0.1.0";
        /// A status query that takes longer counts as not answered.
        "query_timeout" => query_timeout: DurationMs = secs(10),
            in DurationMs(100) => secs(600), since "0.1.0";
        /// Commands that run for one site at the same time.
        "exec_limit" => exec_limit: u32 = 8, in 1 => 256, since "0.1.0";
        /// Command that is run at a site to measure the round trip to the `host` of another one,
        /// which is its last argument. It must print what `ping` prints at its end.
        "ping" => ping: Vec<String> = cospan_sites::ping::ping_command(), since "0.1.0";
        /// Work that a site acknowledged counts as lost if it is absent there this long after.
        "settle" => settle: DurationMs = secs(30), in secs(1) => secs(3_600), since "0.1.0";
    }
}

choice! {
    /// Kinds of site.
    SiteKind {
        /// Processes on this machine.
        Local = "local",
        /// A cluster under Slurm.
        Slurm = "slurm",
    }
}

choice! {
    /// The ways to acquire processors at a site.
    SiteAcquisition {
        /// As each job wants it.
        Auto = "auto",
        /// Idle processors are claimed, and nothing waits in its own queue.
        Immediate = "immediate",
        /// In its own queue only.
        Queued = "queued",
    }
}

section! {
    /// A site: give as many as there are.
    Site("site" repeated) {
        /// The name: letters, digits, `-`, `_` and `.`, a letter first.
        "name" => name: SiteName, since "0.1.0";
        /// Kind of the site. `local`: processes on this machine. `slurm`: a cluster under Slurm
        /// whose commands work here, or where `ssh` leads, as an ordinary account.
        "kind" => kind: SiteKind, since "0.1.0";
        /// Directory of the site alone, for attempts and copies: empty, or not there yet, and named
        /// without links. Absolute. Files below `files` in it can be registered with `cospan file
        /// add`. Of `slurm`: all nodes have it, under this name; so does this machine, unless `ssh`
        /// is given.
        "root" => root: PathBuf, since "0.1.0";
        /// Processors that Cospan may use there.
        "processors" => processors: u32, in 1 => 10_000_000, since "0.1.0";
        /// Of `slurm`: host where the cluster's commands work, by a name that the SSH configuration
        /// of the account that runs the server knows. All that runs there runs as the account that
        /// it leads to. Left out: this machine.
        "ssh" => ssh: Option<String> = None, since "0.1.0";
        /// With `ssh`: configuration file of the SSH client. Left out: the account's own.
        "ssh_config" => ssh_config: Option<PathBuf> = None, since "0.1.0";
        /// Of `slurm`: configuration file that names the cluster. Left out: the installation's own.
        "slurm_conf" => slurm_conf: Option<PathBuf> = None, since "0.1.0";
        /// Of `slurm`: partition that jobs go to, unless they name one. Left out: Slurm's default.
        "partition" => partition: Option<String> = None, since "0.1.0";
        /// Of `slurm`: account that is charged, unless a job names one.
        "account" => account: Option<String> = None, since "0.1.0";
        /// Of `slurm`: quality of service, unless a job names one.
        "qos" => qos: Option<String> = None, since "0.1.0";
        /// Of `slurm`: features that nodes must have, unless a job names others.
        "constraint" => constraint: Option<String> = None, since "0.1.0";
        /// Of `slurm`: reservation of Slurm that jobs run in, unless a job names one.
        "reservation" => reservation: Option<String> = None, since "0.1.0";
        /// Of `slurm`: the way to acquire processors there. `auto`: as each job wants it, which is
        /// to claim what is idle, and to wait in the site's own queue where nothing is.
        /// `immediate`: idle processors are claimed, and nothing else. `queued`: every component
        /// waits in the site's own queue, also if that starts it at once.
        "acquisition" => acquisition: SiteAcquisition = SiteAcquisition::Auto, since "0.1.0";
        /// Of `slurm`: `false` is the older word for `acquisition = "immediate"`.
        "queues" => queues: bool = true, since "0.1.0";
        /// Replaces the `claim_timeout` of `[claim]`, for a site that takes long to start what it
        /// starts at once. For a job over several sites the longest counts.
        "claim_timeout" => claim_timeout: Option<DurationMs> = None,
            in secs(1) => DAY, since "0.1.0";
        /// Replaces the `hold_max` of `[claim]`. For a job over several sites the longest counts.
        "hold_max" => hold_max: Option<DurationMs> = None,
            in secs(1) => DAY, since "0.1.0";
        /// The site grants reservations: it keeps processors for later. `false`: processors are
        /// only claimed while they are idle. Of `slurm` it needs an account that may make
        /// reservations there: an operator's (`AdminLevel` in its accounting), or Slurm's own. Left
        /// out: `local` sites do, those under Slurm do not.
        "grants_reservations" => grants_reservations: Option<bool> = None, since "0.1.0";
        /// Names of the keys whose jobs the site takes: all work there runs as one account, which
        /// not every user may use. `none`: all keys.
        "keys" => keys: Option<Vec<KeyName>> = None, since "0.1.0";
        /// Part of the site that our jobs may fill, from 0 to 1; see `placement.quota_basis`.
        "quota" => quota: PerMillion = PerMillion::ONE,
            in PerMillion(0) => PerMillion::ONE, since "0.1.0";
        /// Memory that Cospan may use there. Left out: that of its partition; of `local`, that of
        /// this machine, or of the control group that the server is in, if that is less. `local`
        /// sites that leave it out share it, as they share `disk` and `gpus`.
        "memory" => memory: Option<Bytes> = None, since "0.1.0";
        /// Disk that Cospan may use there. Left out: none; of `local`, what is free below `root`.
        "disk" => disk: Option<Bytes> = None, since "0.1.0";
        /// Graphics processors that Cospan may use there. Left out: those of its partition; of
        /// `local`, those of NVIDIA and AMD that this machine has.
        "gpus" => gpus: Option<u64> = None, since "0.1.0";
        /// Computing power of each of its processors in GFLOPS, for jobs that ask for it, to the
        /// thousandth. Left out: unknown, and no such job goes there.
        "gflops_per_processor" => gflops_per_processor: Option<Mflops> = None,
            in Mflops(1) => Mflops(1_000_000_000), since "0.1.0";
        /// Results of its processors in benchmarks, like `{ linpack = 38.4 }`; higher is better.
        /// Jobs whose `[preferences]` name one are ranked by it where they ask for a reservation.
        /// One that is missing, or 0, counts as `reservations.missing_benchmark_factor` says.
        "benchmarks" => benchmarks: BenchmarkScores = BenchmarkScores::new(), since "0.1.0";
        /// Any other counted resource, like `{ licenses = 3 }`.
        "resources" => resources: BTreeMap<Arc<str>, u64> = BTreeMap::new(), since "0.1.0";
        /// Properties of the site, for the demands of components: `{ arch = "x86_64", software =
        /// ["gcc", "mpi"] }`.
        "labels" => labels: SiteLabels = SiteLabels::new(), since "0.1.0";
        /// Replaces the `query_timeout` of `[sites]`, for a site that is slow to answer.
        "query_timeout" => query_timeout: Option<DurationMs> = None,
            in DurationMs(100) => secs(600), since "0.1.0";
        /// Bytes that copies for placed jobs may take there. A job whose input would take more is
        /// not placed there now. Left out: no bound.
        "staging" => staging: Option<Bytes> = None, since "0.1.0";
        /// Bytes of copies that are kept there as further replicas when no job needs them any more;
        /// those that were not used for longest go first. `"0B"`: none are kept.
        "replicas" => replicas: Bytes = Bytes(0), since "0.1.0";
        /// Name or address by which other sites reach it. Those that have a link to it measure the
        /// round trip to this host, once in each `placement.latency_interval`; nothing has to run
        /// there for that. Left out: the `latency` of the link counts.
        "host" => host: Option<HostName> = None, since "0.1.0";
        /// Bits per second that it can send to each other site that has a `download`: between two
        /// without a `[[link]]` the lesser of both counts. Left out: only links count.
        "upload" => upload: Option<BitsPerSecond> = None, since "0.1.0";
        /// Bits per second that it can receive from each other site that has an `upload`.
        "download" => download: Option<BitsPerSecond> = None, since "0.1.0";
        /// Contact for questions about the site: a name, a mail address, a page.
        "administrator" => administrator: String = String::new(), since "0.1.0";
        /// Address that receives this site's notifications as JSON (HTTP POST), beside those
        /// of `[notify]`.
        "webhook" => webhook: Option<SecretUrl> = None, since "0.1.0";
    }
}

section! {
    /// The network between two sites. Between sites without a link nothing is copied, except
    /// between those of the kind `local`, whose link is measured at the start if none is given.
    /// Copies keep to the bandwidth; `"0bit/s"`: nothing is copied.
    Link("link" repeated) {
        /// The site that sends.
        "from" => from: SiteName, since "0.1.0";
        /// The site that receives.
        "to" => to: SiteName, since "0.1.0";
        /// Bits per second that Cospan may use. Placement uses the bandwidth of past transfers
        /// instead, if there were any lately: see `placement.bandwidth_expiry`.
        "bandwidth" => bandwidth: BitsPerSecond, since "0.1.0";
        /// Time until the first bit arrives: half of a round trip. The `connected-...` policies
        /// weigh it beside the bandwidth. A recent measurement counts instead: see the `host` of a
        /// site.
        "latency" => latency: DurationMs = DurationMs::ZERO,
            in DurationMs::ZERO => secs(3_600), since "0.1.0";
        /// The same holds from `to` to `from`.
        "both_ways" => both_ways: bool = true, since "0.1.0";
    }
}

impl Site {
    /// The bandwidth to another site where no link gives it; `None` if one of them does not give
    /// its `upload` or `download`.
    pub fn bandwidth_to(&self, other: &Site) -> Option<BitsPerSecond> {
        Some(self.upload?.min(other.download?))
    }

    /// True if components may wait in its own queue.
    pub fn has_queue(&self) -> bool {
        self.queues && self.acquisition != SiteAcquisition::Immediate
    }

    /// Bytes of a megabyte, the unit of memory and disk.
    pub const MB: u64 = 1_000_000;

    /// All counts that are given, as the domain has them: whole megabytes for memory and disk.
    pub fn total_resources(&self) -> Resources {
        let mut others = self.resources.clone();
        let named = [
            ("memory_mb", self.memory.map(|size| size.0 / Self::MB)),
            ("disk_mb", self.disk.map(|size| size.0 / Self::MB)),
            ("gpus", self.gpus),
        ];
        for (name, count) in named {
            if let Some(count) = count {
                others.insert(name.into(), count);
            }
        }
        others.retain(|_, count| *count > 0);
        Resources {
            processors: self.processors,
            others,
        }
    }
}
