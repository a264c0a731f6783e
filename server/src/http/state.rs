//! The state that every request can reach.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::rt::time::sleep;
use prometheus::Registry;
use tokio::sync::watch;

use super::access::AccessTable;
use super::control_plane_port::ControlPlanePort;
use super::dry_run::DryRuns;
use super::failure::HttpFailure;
use super::http_metrics::HttpMetrics;
use super::http_settings::HttpSettings;
use super::keyless_rate::FailureMeter;
use super::middleware::RequestCaller;
use super::recent_changes::RecentChanges;
use super::slow_requests::SlowRequestLimiter;
use super::stream_limits::{OpenStream, StreamLimiter};
use super::submission_turns::SubmissionTurns;
use crate::keys::LoadedKeys;
use crate::uploads::Uploads;

/// Longest wait for the first report of all sites, from our start on.
const FIRST_WORDS_MAX: Duration = Duration::from_secs(5);
/// Time between two checks for it.
const LOOK: Duration = Duration::from_millis(20);

/// The state that every request can reach; one for all workers.
pub struct HttpState {
    pub(super) backend: Arc<dyn ControlPlanePort>,
    pub(super) keys: Arc<LoadedKeys>,
    pub(super) settings: HttpSettings,
    pub(super) registry: Registry,
    pub(super) metrics: HttpMetrics,
    pub(super) failures: FailureMeter,
    pub(super) dry_runs: DryRuns,
    pub(super) turns: SubmissionTurns,
    pub(super) desk: SlowRequestLimiter,
    pub(super) hub: Arc<RecentChanges>,
    pub(super) openapi: String,
    pub(super) access: AccessTable,
    pub(super) uploads: Uploads,
    streams: StreamLimiter,
    stopping: watch::Sender<bool>,
    started: Instant,
}

impl HttpState {
    /// Ties the edge to a control plane. Metrics are registered with `registry`, which `/metrics`
    /// shows.
    ///
    /// The edge's metrics are registered there already.
    pub fn new(
        backend: Arc<dyn ControlPlanePort>,
        keys: Arc<LoadedKeys>,
        settings: HttpSettings,
        registry: Registry,
    ) -> prometheus::Result<Self> {
        let metrics = HttpMetrics::register(&registry)?;
        Ok(Self {
            dry_runs: DryRuns::new(settings.max_dry_runs, settings.dry_run_budget),
            turns: SubmissionTurns::default(),
            desk: SlowRequestLimiter::new(),
            hub: Arc::new(RecentChanges::new(settings.kept_changes)),
            streams: StreamLimiter::new(&settings),
            openapi: super::openapi::document_json(),
            access: AccessTable::new(),
            uploads: Uploads::open(settings.uploads.clone()),
            backend,
            keys,
            settings,
            registry,
            metrics,
            failures: FailureMeter::default(),
            stopping: watch::Sender::new(false),
            started: Instant::now(),
        })
    }

    /// Seconds from the start to a moment, for rates.
    pub(super) fn seconds_since_start(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.started).as_secs()
    }

    /// Waits until each site has reported: a client that asks just after our start what the sites
    /// would do, or for room at them, must not be answered that they are unknown. Later nobody
    /// waits for a silent site.
    pub(super) async fn await_first_reports(&self) {
        while self.started.elapsed() < FIRST_WORDS_MAX && self.has_unknown_site() {
            sleep(LOOK).await;
        }
    }

    fn has_unknown_site(&self) -> bool {
        self.backend
            .list_sites()
            .sites
            .iter()
            .any(|site| site.state == "unknown")
    }

    /// Opens one more stream.
    ///
    /// # Errors
    /// The key, its address, or all together have as many as allowed.
    pub(super) fn open_stream(&self, caller: &RequestCaller) -> Result<StreamPermit, HttpFailure> {
        let permit = self.streams.open_stream(caller.name(), caller.address())?;
        self.metrics.streams.inc();
        Ok(StreamPermit {
            _permit: permit,
            open: self.metrics.streams.clone(),
        })
    }

    /// A receiver that is notified when the server stops.
    pub(super) fn watch_stop(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Ends all streams, so that they do not delay a stop.
    pub(super) fn end_streams(&self) {
        self.stopping.send_replace(true);
    }
}

/// A permit for one open stream, which closes when it is dropped.
pub(super) struct StreamPermit {
    _permit: OpenStream,
    open: prometheus::IntGauge,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.open.dec();
    }
}
