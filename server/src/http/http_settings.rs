//! Settings of the HTTP edge, validated and frozen.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use cospan_api::server_address::ServerAddress;
use cospan_domain::job::spec::JobSpecLimits;
use cospan_domain::units::{Bytes, DurationMs};

use crate::uploads::UploadSettings;

/// Settings of the HTTP edge.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Addresses to listen at; port 0 takes a free one. Beyond loopback only with `tls`, or
    /// where a proxy ends it.
    pub listen: Vec<SocketAddr>,
    /// Certificate and key, for TLS.
    pub tls: Option<TlsFiles>,
    /// A proxy in front of the server ends TLS.
    pub tls_ends_at_proxy: bool,
    /// Threads that serve requests.
    pub workers: usize,
    /// Most connections at the same time.
    pub max_connections: usize,
    /// Longest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// Most jobs in one request.
    pub max_bulk_jobs: usize,
    /// Most runs that the sweeps of one request may have.
    pub max_sweep_tasks: usize,
    /// Most memory that the runs of a sweep may take together.
    pub max_job_bytes: Bytes,
    /// Longest time that a request's head may take to arrive.
    pub head_timeout: Duration,
    /// Longest time that a request's body may take to arrive.
    pub body_timeout: Duration,
    /// A connection without requests is closed after this time.
    pub keep_alive: Duration,
    /// True if `/metrics` is open to anybody who can connect.
    pub metrics_without_key: bool,
    /// Most requests a second with one key.
    pub max_requests_per_s_per_key: u32,
    /// Most requests without a valid key from one address in a minute; then 429.
    pub max_failures_per_minute: u32,
    /// Most streams (events, followed logs, outputs, export) at the same time.
    pub max_streams: usize,
    /// Most of these streams with one key.
    pub max_streams_per_key: usize,
    /// Most of these streams from one address.
    pub max_streams_per_address: usize,
    /// Most dry runs at the same time; one of each key.
    pub max_dry_runs: usize,
    /// Longest time of a dry run.
    pub dry_run_budget: Duration,
    /// Committed changes kept for followers that lag or reconnect.
    pub kept_changes: usize,
    /// Longest time for open requests to end when the server stops.
    pub stop_timeout: Duration,
    /// Time between two checks of the key file for changes.
    pub key_refresh: Duration,
    /// Time after a job's end for which sites keep what it left.
    pub keep_attempts: DurationMs,
    /// Bounds that a submission must keep.
    pub spec_limits: JobSpecLimits,
    /// Files that users send.
    pub uploads: UploadSettings,
}

/// Files for TLS, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate and its chain.
    pub certificates: PathBuf,
    pub key: PathBuf,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from((
                Ipv4Addr::LOCALHOST,
                ServerAddress::DEFAULT_PORT,
            ))],
            tls: None,
            tls_ends_at_proxy: false,
            workers: 2,
            max_connections: 4096,
            max_body_bytes: 4 * 1024 * 1024,
            max_bulk_jobs: 1000,
            max_sweep_tasks: 1001,
            max_job_bytes: Bytes(u64::MAX),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(75),
            metrics_without_key: false,
            max_requests_per_s_per_key: 100_000,
            max_failures_per_minute: 60,
            max_streams: 256,
            max_streams_per_key: 64,
            max_streams_per_address: 192,
            max_dry_runs: 2,
            dry_run_budget: Duration::from_secs(2),
            kept_changes: 16_384,
            stop_timeout: Duration::from_secs(5),
            key_refresh: Duration::from_millis(250),
            keep_attempts: DurationMs::from_secs(7 * 86_400),
            spec_limits: JobSpecLimits::default(),
            uploads: UploadSettings::default(),
        }
    }
}
