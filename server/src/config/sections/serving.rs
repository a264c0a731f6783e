//! The server's listening, storing, logging and notifying.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use cospan_api::server_address::ServerAddress;
use cospan_domain::units::{Bytes, DurationMs, PerMillion};

use crate::config::section::section;
use crate::config::value::{AutoOrGiven, SecretUrl, choice};

section! {
    /// Addresses of the server, and bounds on simultaneous use.
    Server("server") {
        /// Directory of everything that the server keeps: store, keys, its own files. Private to
        /// its user. `auto`: `$STATE_DIRECTORY` (set by systemd), else `$XDG_DATA_HOME/cospan`,
        /// else `~/.local/share/cospan`.
        "data_directory" => data_directory: AutoOrGiven<PathBuf> = AutoOrGiven::Auto, since "0.1.0";
        /// Addresses and ports where the API is served; port 0 takes a free one. Beyond loopback
        /// it needs `tls_certificate` and `tls_key`, or `tls_ends_at_proxy`.
        "listen" => listen: Vec<SocketAddr> =
            vec![SocketAddr::from((Ipv4Addr::LOCALHOST, ServerAddress::DEFAULT_PORT))],
            since "0.1.0";
        /// File with the TLS certificate chain (PEM).
        "tls_certificate" => tls_certificate: Option<PathBuf> = None, since "0.1.0";
        /// File with the private key of the certificate (PEM).
        "tls_key" => tls_key: Option<PathBuf> = None, since "0.1.0";
        /// True if a proxy in front of the server ends TLS: then the server talks plain HTTP, also
        /// on addresses that other machines reach. Keys are read along on whatever lies between.
        "tls_ends_at_proxy" => tls_ends_at_proxy: bool = false, since "0.1.0";
        /// Memory that the server may use; bounds follow from it. `auto`: the least of the
        /// machine's memory, the limits of its control groups and its resource limits. A store
        /// whose jobs would take more than three fifths of it is only read.
        "memory" => memory: AutoOrGiven<Bytes> = AutoOrGiven::Auto,
            in Bytes(1 << 20) => Bytes(1 << 44), since "0.1.0";
        /// Threads that serve HTTP.
        "workers" => workers: u32 = 2, in 1 => 256, since "0.1.0";
        /// Open connections; further ones have to wait.
        "max_connections" => max_connections: u32 = 4_096, in 1 => 1_000_000, since "0.1.0";
        /// Streams (`wait`, `logs -f`, `output`, `store export`) at the same time; more are
        /// answered 429.
        "max_streams" => max_streams: u32 = 256, in 0 => 100_000, since "0.1.0";
        /// Streams at the same time with one key; more are answered 429.
        "max_streams_per_key" => max_streams_per_key: u32 = 64, in 0 => 100_000, since "0.1.0";
        /// Streams at the same time from one address; more are answered 429. All that comes
        /// through one proxy comes from one address.
        "max_streams_per_address" => max_streams_per_address: u32 = 192,
            in 0 => 100_000, since "0.1.0";
        /// Dry runs (`submit --dry-run`) at the same time, one of each key; more are answered 429.
        "max_dry_runs" => max_dry_runs: u32 = 2, in 0 => 256, since "0.1.0";
        /// Time for which the server works on a dry run: it stops before the next job, and answers
        /// 422.
        "dry_run_budget" => dry_run_budget: DurationMs = DurationMs::from_secs(2),
            in DurationMs(10) => DurationMs::from_secs(60), since "0.1.0";
        /// Committed changes that are kept for streams that lag or reconnect.
        "kept_changes" => kept_changes: u32 = 16_384, in 1 => 10_000_000, since "0.1.0";
        /// Largest body of a request; a larger one is answered 413.
        "max_body" => max_body: Bytes = Bytes(4 << 20),
            in Bytes(1 << 10) => Bytes(1 << 30), since "0.1.0";
        /// Requests per second that one key may make; more are answered 429.
        "max_requests_per_s" => max_requests_per_s: u32 = 100_000,
            in 1 => 1_000_000, since "0.1.0";
        /// Requests without a valid key that one address may make in a minute; more are
        /// answered 429.
        "max_failures_per_minute" => max_failures_per_minute: u32 = 60,
            in 1 => 1_000_000, since "0.1.0";
        /// Time in which the head of a request must arrive.
        "head_timeout" => head_timeout: DurationMs = DurationMs::from_secs(10),
            in DurationMs(100) => DurationMs::from_secs(600), since "0.1.0";
        /// Time in which the body of a request must arrive.
        "body_timeout" => body_timeout: DurationMs = DurationMs::from_secs(60),
            in DurationMs(100) => DurationMs::from_secs(3_600), since "0.1.0";
        /// A connection without requests is closed after this time.
        "keep_alive" => keep_alive: DurationMs = DurationMs::from_secs(75),
            in DurationMs::from_secs(1) => DurationMs::from_secs(3_600), since "0.1.0";
        /// Open requests may take this long to end when the server stops.
        "stop_timeout" => stop_timeout: DurationMs = DurationMs::from_secs(5),
            in DurationMs(100) => DurationMs::from_secs(9), since "0.1.0";
        /// Time between two checks of the key file for changes.
        "key_refresh" => key_refresh: DurationMs = DurationMs(250),
            in DurationMs(100) => DurationMs::from_secs(3_600), since "0.1.0";
        /// Serve `/metrics` without a key.
        "metrics_public" => metrics_public: bool = false, since "0.1.0";
    }
}

section! {
    /// The connection of the command line to a server with TLS. The address is `server.listen`,
    /// unless `--server` or `COSPAN_SERVER` name another; the key is the one beside the store,
    /// unless `COSPAN_TOKEN` holds another.
    Client("client") {
        /// File with the certificate (PEM) of the authority that signed the server's. `none`:
        /// `server.tls_certificate` if it is given, else the public authorities.
        "ca_certificate" => ca_certificate: Option<PathBuf> = None, since "0.1.0";
    }
}

choice! {
    /// Embedded engines of the store.
    Engine {
        /// sled: the fastest in groups; never gives space back.
        Sled = "sled",
        /// redb: compacts.
        Redb = "redb",
    }
}

section! {
    /// Durable storage of jobs, copies and sites, and the time for which each is kept.
    Store("store") {
        /// The embedded engine. It cannot be changed in place: export, change, import.
        "engine" => engine: Engine = Engine::Sled, since "0.1.0";
        /// Directory of the store, in `server.data_directory` unless absolute. It must lie on a
        /// disk file system.
        "directory" => directory: PathBuf = PathBuf::from("store"), since "0.1.0";
        /// File that says how far the store has come, outside of its directory: with it a start
        /// notices that the store is gone, cut, or an older copy. In `server.data_directory` unless
        /// absolute; on another disk it survives the loss of the store's.
        "floor" => floor: PathBuf = PathBuf::from("store.floor"), since "0.1.0";
        /// Memory for the engine's cache. Twice the live data is a good value; it is no limit.
        "cache" => cache: Bytes = Bytes(64 << 20),
            in Bytes(1 << 20) => Bytes(1 << 40), since "0.1.0";
        /// Finished jobs leave the live state after this time.
        "keep_finished" => keep_finished: DurationMs = DurationMs::from_secs(86_400),
            in DurationMs::ZERO => DurationMs::from_secs(366 * 86_400), since "0.1.0";
        /// Directories of ended attempts (logs and outputs that were not collected) are removed
        /// from their sites after this time.
        "keep_attempts" => keep_attempts: DurationMs = DurationMs::from_secs(7 * 86_400),
            in DurationMs::from_secs(60) => DurationMs::from_secs(366 * 86_400), since "0.1.0";
        /// Copies that no job needs are deleted after this time.
        "keep_copies" => keep_copies: DurationMs = DurationMs::from_secs(600),
            in DurationMs::ZERO => DurationMs::from_secs(366 * 86_400), since "0.1.0";
        /// Partial copies that were broken off, and that no job needs, are deleted after this time.
        "keep_partials" => keep_partials: DurationMs = DurationMs::from_secs(600),
            in DurationMs::ZERO => DurationMs::from_secs(366 * 86_400), since "0.1.0";
        /// After this many failed tries to bring an output to its site, for example because that is
        /// full, the job fails and the output stays where it was made. Waits between tries grow to
        /// five minutes: the default lasts some nine hours.
        "output_tries" => output_tries: u32 = 100, in 1 => 1_000_000, since "0.1.0";
    }
}

section! {
    /// Bounds on the requests of users. A request beyond them is refused; nothing is lost.
    Limits("limits") {
        /// Components of one job.
        "max_components" => max_components: u32 = 1_000, in 1 => 100_000, since "0.1.0";
        /// Jobs in one request.
        "max_jobs_per_request" => max_jobs_per_request: u32 = 1_000,
            in 1 => 100_000, since "0.1.0";
        /// Runs that the sweeps in one request may have together: by default as many as Slurm's own
        /// arrays have.
        "max_sweep_tasks" => max_sweep_tasks: u32 = 1_001,
            in 1 => 100_000, since "0.1.0";
        /// Wall time of a job.
        "max_wall_time" => max_wall_time: DurationMs = DurationMs::from_secs(366 * 86_400),
            in DurationMs::from_secs(1) => DurationMs::from_secs(3_660 * 86_400), since "0.1.0";
        /// Memory for all jobs, by an estimate from their components and texts: those that wait or
        /// run, and those that ended less than `store.keep_finished` ago. More are answered 429,
        /// and ended jobs go to the archive earlier, down to ten minutes after their end. `auto`: a
        /// quarter of `server.memory`. No bound admits more than the three fifths of it on which
        /// the server starts again.
        "max_job_memory" => max_job_memory: AutoOrGiven<Bytes> = AutoOrGiven::Auto,
            in Bytes(1 << 16) => Bytes(1 << 44), since "0.1.0";
        /// The same for the jobs of one key. `auto`: half of `max_job_memory`.
        "max_job_memory_per_key" => max_job_memory_per_key: AutoOrGiven<Bytes> = AutoOrGiven::Auto,
            in Bytes(1 << 16) => Bytes(1 << 44), since "0.1.0";
        /// Longest file that may be uploaded; a longer one is answered 422.
        "max_upload" => max_upload: Bytes = Bytes(16 << 30),
            in Bytes(0) => Bytes(1 << 50), since "0.1.0";
        /// Bytes of the uploads of one key that still exist, at a site or on their way; more is
        /// answered 507.
        "upload_quota" => upload_quota: Bytes = Bytes(64 << 30),
            in Bytes(0) => Bytes(1 << 50), since "0.1.0";
        /// Number of files for the same quota.
        "upload_quota_files" => upload_quota_files: u32 = 10_000,
            in 0 => 1_000_000, since "0.1.0";
        /// An upload that is not completed, and for which nothing arrives, is dropped after this
        /// time.
        "keep_uploads" => keep_uploads: DurationMs = DurationMs::from_secs(86_400),
            in DurationMs::from_secs(1) => DurationMs::from_secs(366 * 86_400), since "0.1.0";
        /// Requests that wait to be accepted; more are answered 429.
        "max_intake" => max_intake: u32 = 4_096, in 1 => 1_000_000, since "0.1.0";
    }
}

section! {
    /// Recipients of the message that a site becomes unusable or comes back, and targets that jobs
    /// may name for the message of their end.
    Notify("notify") {
        /// Addresses that receive each notification as a JSON document (HTTP POST).
        "webhooks" => webhooks: Vec<SecretUrl> = Vec::new(), since "0.1.0";
        /// Addresses that a job may name (`notify = ["team"]`); each receives the end of the job as
        /// a JSON document (HTTP POST).
        "targets" => targets: BTreeMap<Arc<str>, SecretUrl> = BTreeMap::new(), since "0.1.0";
        /// Delivery of the message of a job's end is given up this long after the end, once it
        /// failed.
        "give_up_after" => give_up_after: DurationMs = DurationMs::from_secs(86_400),
            in DurationMs::ZERO => DurationMs::from_secs(30 * 86_400), since "0.1.0";
        /// Time for one delivery; a failed one is tried again. Only an answer of 2xx confirms the
        /// delivery: redirects are not followed.
        "timeout" => timeout: DurationMs = DurationMs::from_secs(10),
            in DurationMs(100) => DurationMs::from_secs(300), since "0.1.0";
    }
}

section! {
    /// Bounds on the reservations of users, and reminders of reserved starts. Keys with the role
    /// `operator` have no bounds.
    Reservations("reservations") {
        /// Share of a site's processors that the reservations of one key may hold there at a time,
        /// from 0 to 1.
        "most_share" => most_share: PerMillion = PerMillion::ONE,
            in PerMillion(0) => PerMillion::ONE, since "0.1.0";
        /// The time by which the latest start of a key's reservation may lie ahead. `none`: any
        /// time.
        "most_ahead" => most_ahead: Option<DurationMs> = None, since "0.1.0";
        /// Number of sites that grant a reservation to a job of one component that has
        /// `[preferences]`, before the best is chosen and the reservations of the others are
        /// cancelled.
        "candidates" => candidates: u32 = 4, in 1 => 1_000, since "0.1.0";
        /// Factor of the expected run time for a benchmark of which a site has no result above 0.
        "missing_benchmark_factor" => missing_benchmark_factor: PerMillion = PerMillion(2_000_000),
            in PerMillion::ONE => PerMillion(1_000_000_000), since "0.1.0";
        /// The `notify` targets of a job are reminded this long before its reserved start.
        "notice" => notice: DurationMs = DurationMs::from_secs(300),
            in DurationMs::ZERO => DurationMs::from_secs(7 * 86_400), since "0.1.0";
        /// A shared reservation is cancelled if no job runs in it this long after its start, and
        /// the administrator of its site is notified. `none`: it is kept.
        "no_show" => no_show: Option<DurationMs> = Some(DurationMs::from_secs(1_800)),
            since "0.1.0";
    }
}

section! {
    /// Rehearsals of failures: faults that are injected on purpose into calls to sites, with
    /// `cospan chaos inject` and a key that has the role `chaos`.
    Chaos("chaos") {
        /// Faults may be injected. If `false`, every such request is refused and no site is
        /// wrapped.
        "allowed" => allowed: bool = false, since "0.1.0";
        /// Longest time that one rehearsal may take.
        "max_duration" => max_duration: DurationMs = DurationMs::from_secs(3_600),
            in DurationMs::from_secs(1) => DurationMs::from_secs(7 * 86_400), since "0.1.0";
        /// Share of the sites, in percent, that one rehearsal may inject faults into; always at
        /// least one site.
        "max_sites_percent" => max_sites_percent: u32 = 50, in 1 => 100, since "0.1.0";
    }
}

choice! {
    /// The format of log lines.
    LogFormat {
        /// For people.
        Text = "text",
        /// A JSON object per line.
        Json = "json",
    }
}

section! {
    /// The server's log (standard error).
    Log("log") {
        /// Format of the lines; `cospan serve --log-format` wins.
        "format" => format: LogFormat = LogFormat::Text, since "0.1.0";
        /// Lines to write: a level, or levels by module (`info,cospan_actors=debug`); `COSPAN_LOG`
        /// wins.
        "filter" => filter: String = "info".into(), since "0.1.0";
    }
}
