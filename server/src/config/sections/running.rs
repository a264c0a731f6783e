//! KOALA's parameters, by the names in its papers, and Cospan's own beside them.

use cospan_domain::bid::DimensionWeights;
use cospan_domain::ids::{KeyName, RunnerName};
use cospan_domain::placement::SitePairHistory;
use cospan_domain::placement::network::DEFAULT_MESSAGE;
use cospan_domain::placement::policy::{DEFAULT_FLEXIBLE_POLICY, DEFAULT_POLICY};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, PerMillion};

use crate::config::history::InitialPairHistory;
use crate::config::section::section;
use crate::config::value::{AutoOrGiven, choice};

const DAY: DurationMs = DurationMs::from_secs(86_400);

const fn secs(secs: u64) -> DurationMs {
    DurationMs::from_secs(secs)
}

choice! {
    /// The two readings of a quota.
    Basis {
        /// The load of the site, whoever causes it.
        Level = "level",
        /// Our own processors at the site.
        Share = "share",
    }
}

choice! {
    /// The bandwidths by which sites bid.
    BidKind {
        /// All measured, or all configured.
        OneKind = "one-kind",
        /// The latest that is known of each link.
        Latest = "latest",
    }
}

section! {
    /// The choice of sites for the components of a job.
    Placement("placement") {
        /// Policy for jobs that name none and are not flexible: `worst-fit`, `close-to-files`,
        /// `cluster-minimization`, `connected-cluster-minimization` or `mrs`.
        "policy" => policy: String = DEFAULT_POLICY.into(), since "0.1.0";
        /// Policy for flexible jobs that name none: `flexible-cluster-minimization`,
        /// `connected-flexible-cluster-minimization` or `mrs`.
        "flexible_policy" => flexible_policy: String = DEFAULT_FLEXIBLE_POLICY.into(),
            since "0.1.0";
        /// Pairs that `close-to-files` considers from the start, each `"SITE<FILE_SITE"`. It learns
        /// others from its placements, until the server restarts. `"all"`: every pair, also of
        /// sites that join later.
        "history_seed" => history_seed: InitialPairHistory = InitialPairHistory(SitePairHistory::All), since "0.1.0";
        /// The measure that the `quota` of a site bounds. `level`: we never fill the site beyond
        /// it, whoever uses the rest. `share`: our own jobs never use more than it.
        "quota_basis" => quota_basis: Basis = Basis::Level, since "0.1.0";
        /// Time after which a site is asked for a new report while any job waits. The answer may
        /// take as long again: only then is the old report too old to place by.
        "is_expiry" => is_expiry: DurationMs = secs(60),
            in secs(1) => DAY, since "0.1.0";
        /// A site that jobs are placed at is asked again this long before its report reaches
        /// `is_expiry`, but not more often than `sites.poll_interval` says.
        "refresh_ahead" => refresh_ahead: DurationMs = secs(15),
            in DurationMs::ZERO => DAY, since "0.1.0";
        /// A transfer measures the bandwidth between its sites; after this time it counts half
        /// as much beside later ones. `0s`: only the latest counts.
        "bandwidth_half_life" => bandwidth_half_life: DurationMs = secs(600),
            in DurationMs::ZERO => DAY, since "0.1.0";
        /// Without a transfer for this long, the configured bandwidth between two sites counts
        /// again. `0s`: it always counts, and nothing is measured.
        "bandwidth_expiry" => bandwidth_expiry: DurationMs = secs(3_600),
            in DurationMs::ZERO => DurationMs(30 * DAY.0), since "0.1.0";
        /// Time between two measurements of the latency from a site to another that has a `host`.
        /// A measurement counts half as much beside the next one, and not at all after six of
        /// these times: the configured latency counts again. `0s`: nothing is measured.
        "latency_interval" => latency_interval: DurationMs = secs(600),
            in DurationMs::ZERO => DAY, since "0.1.0";
        /// Size of the messages that the components of a job are assumed to send each other, for
        /// the `connected-...` policies: the smaller, the more latency counts beside bandwidth.
        "message_size" => message_size: Bytes = DEFAULT_MESSAGE, since "0.1.0";
        /// Weight of each dimension for `mrs` if a job gives none: `compute`, `memory`, `disk`,
        /// `potential` and `data`, each from 0 to 1000, 1 if left out, and at least one above 0.
        "weights" => weights: DimensionWeights = DimensionWeights::default(), since "0.1.0";
        /// Sites bid for jobs of `mrs` in messages, each from what it alone knows. If `false`,
        /// their bids are computed where jobs are placed, from the latest reports of the sites.
        "bid_messages" => bid_messages: bool = true, since "0.1.0";
        /// A site that does not answer a job of `mrs` within this time is passed over, and its
        /// deduction for the job ends.
        "bid_timeout" => bid_timeout: DurationMs = secs(1),
            in DurationMs(10) => secs(60), since "0.1.0";
        /// A job of `mrs` that found no place is announced to sites again when they report a
        /// change, but at most once in this time.
        "bid_interval" => bid_interval: DurationMs = secs(1),
            in DurationMs(10) => DAY, since "0.1.0";
        /// Bandwidths by which sites bid for jobs of `mrs`. `one-kind`: all as measured if every
        /// link was measured lately, else all as configured. `latest`: each link as measured, or as
        /// configured if it was not.
        "bid_bandwidths" => bid_bandwidths: BidKind = BidKind::OneKind, since "0.1.0";
        /// Bandwidth at which a site reads files that lie there already, for `mrs`. Left out:
        /// reading takes no time.
        "local_bandwidth" => local_bandwidth: Option<BitsPerSecond> = None,
            in BitsPerSecond(1) => BitsPerSecond(u64::MAX), since "0.1.0";
    }
}

section! {
    /// The four placement queues: super-high, high, low and super-low. One cycle takes
    /// (super-high `n1` times, then high `n2` times) `N_h` times, then (low `n3` times, then
    /// super-low `n4` times) `N_l` times.
    Queue("queue") {
        /// Time between two scans of the queues. Events (a job arrives, processors become free)
        /// place at once; the scan is the fallback, and the only try that counts.
        "scan_interval" => scan_interval: DurationMs = secs(60),
            in secs(1) => DAY, since "0.1.0";
        /// A super-high job that has waited this long may have processors withheld for it where
        /// it is nearest to fitting, so that small jobs do not starve it.
        "hoard_after" => hoard_after: Option<DurationMs> = Some(secs(600)),
            in secs(1) => DAY, since "0.1.0";
        /// The part of a site that may be withheld, from 0 to 1.
        "hoard_share" => hoard_share: PerMillion = PerMillion(500_000),
            in PerMillion(0) => PerMillion::ONE, since "0.1.0";
        /// Time for which processors are withheld; after that they are free for all jobs for as
        /// long, and so on in turn.
        "hoard_time" => hoard_time: DurationMs = secs(1_800),
            in secs(1) => DAY, since "0.1.0";
        /// Jobs are also placed when one arrives or processors become free. If `false`, only the
        /// scans place.
        "events" => events: bool = true, since "0.1.0";
        /// Turns of the two high queues in a cycle; at least `N_l`.
        "N_h" => n_h: u32 = 1, in 1 => 1_000, since "0.1.0";
        /// Turns of the two low queues in a cycle.
        "N_l" => n_l: u32 = 1, in 1 => 1_000, since "0.1.0";
        /// Scans of the super-high queue in each high turn; `n2` should not be above it.
        "n1" => n1: u32 = 1, in 1 => 1_000, since "0.1.0";
        /// Scans of the high queue in each high turn.
        "n2" => n2: u32 = 1, in 1 => 1_000, since "0.1.0";
        /// Scans of the low queue in each low turn; `n4` should not be above it.
        "n3" => n3: u32 = 1, in 1 => 1_000, since "0.1.0";
        /// Scans of the super-low queue in each low turn.
        "n4" => n4: u32 = 1, in 1 => 1_000, since "0.1.0";
        /// A job in the low or high queue rises one class after this many failed tries, each time.
        "P" => promotion_tries: Option<u32> = None, in 1 => u32::MAX, since "0.1.0";
        /// A job that sets no bound itself fails after more failed tries than this.
        "max_placement_tries" => max_placement_tries: Option<u32> = None,
            in 0 => u32::MAX, since "0.1.0";
    }
}

choice! {
    /// The classes of placement queues.
    Class {
        /// Scanned first.
        SuperHigh = "super-high",
        /// Above low.
        High = "high",
        /// The class of jobs by default.
        Low = "low",
        /// Never preempts and is never promoted.
        SuperLow = "super-low",
    }
}

section! {
    /// The class that jobs get, and the highest that their users may ask for. The first rule that
    /// matches a job counts, alone; one without conditions matches every job. Without rules a job
    /// has the class that its user names, else `low`. A key with the role `priority` may ask for
    /// any class.
    PriorityRule("priority" repeated) {
        /// Only jobs that were submitted with the key of this name.
        "key" => key: Option<KeyName> = None, since "0.1.0";
        /// Only jobs of this runner: `default`, `parallel` or `sweep`.
        "runner" => runner: Option<RunnerName> = None, since "0.1.0";
        /// Only jobs of at least this wall time.
        "min_wall_time" => min_wall_time: Option<DurationMs> = None, since "0.1.0";
        /// Only jobs of at most this wall time.
        "max_wall_time" => max_wall_time: Option<DurationMs> = None, since "0.1.0";
        /// Class of those that name none. `none`: `low`, or `highest` if that is lower.
        "class" => class: Option<Class> = None, since "0.1.0";
        /// Highest class that may be asked for, at submission and later. A job can still rise
        /// above it by itself: see `queue.P`.
        "highest" => highest: Option<Class> = None, since "0.1.0";
    }
}

section! {
    /// Claiming of processors, the hold until all components are ready, and the common start; and
    /// the waits before a job goes back to its queue.
    Claim("claim") {
        /// The part of a job's transfer time that passes before the first claim, and of the rest
        /// before each next try (KOALA's L), from 0 to 1. The last try is at the estimated start; a
        /// job without input is claimed when it is placed.
        "L" => l: PerMillion = PerMillion(750_000),
            in PerMillion(0) => PerMillion::ONE, since "0.1.0";
        /// L falls by this much each time that a job could not be claimed by its estimated start.
        "L_step" => l_step: PerMillion = PerMillion(250_000),
            in PerMillion(0) => PerMillion::ONE, since "0.1.0";
        /// L never falls below this; at most `L`.
        "L_min" => l_min: PerMillion = PerMillion(0),
            in PerMillion(0) => PerMillion::ONE, since "0.1.0";
        /// The part of a job's components that must be able to start for a try to go on (KOALA's
        /// T), from 0 to 1. With 1 a claim takes all components or none. Below 1 those that
        /// could not start are placed elsewhere one by one, or jobs of lower classes are
        /// preempted for them; jobs of one component are only with 0.
        "T" => threshold: PerMillion = PerMillion::ONE,
            in PerMillion(0) => PerMillion::ONE, since "0.1.0";
        /// Least time between two tries. `"auto"`: a 64th of the transfer time, and at least 1 s.
        "min_claim_step" => min_claim_step: AutoOrGiven<DurationMs> = AutoOrGiven::Auto,
            in DurationMs(1) => DAY, since "0.1.0";
        /// A job that sets no bound itself fails after more failed claiming tries than this.
        "max_claim_tries" => max_claim_tries: Option<u32> = None,
            in 1 => u32::MAX, since "0.1.0";
        /// A claimed component that does not run after this time has lost its processors to others.
        "claim_timeout" => claim_timeout: DurationMs = secs(120),
            in secs(1) => DAY, since "0.1.0";
        /// The time by which a claim may be ahead of the input.
        "hold_slack" => hold_slack: DurationMs = secs(60),
            in DurationMs::ZERO => DAY, since "0.1.0";
        /// Longest time that a component holds processors while it waits for the others; the
        /// wrapper at the site then gives up by itself.
        "hold_max" => hold_max: DurationMs = secs(600),
            in secs(1) => DAY, since "0.1.0";
        /// Time from the decision to start in which every component must begin.
        "go_grace" => go_grace: DurationMs = secs(30),
            in secs(1) => secs(3_600), since "0.1.0";
        /// First wait after a lost claim; doubles with each.
        "claim_backoff" => claim_backoff: DurationMs = secs(5),
            in DurationMs(1) => DAY, since "0.1.0";
        /// First wait after an error of a site; doubles with each.
        "site_backoff" => site_backoff: DurationMs = secs(1),
            in DurationMs(1) => DAY, since "0.1.0";
        /// Longest wait before a job is tried again.
        "backoff_max" => backoff_max: DurationMs = secs(600),
            in secs(1) => DAY, since "0.1.0";
        /// A job that has waited this long for other sites may use again those that failed it.
        "avoid_for" => avoid_for: DurationMs = secs(600),
            in DurationMs::ZERO => DAY, since "0.1.0";
        /// A job fails after it lost its input this often.
        "max_input_losses" => max_input_losses: u32 = 5,
            in 0 => 1_000, since "0.1.0";
    }
}
