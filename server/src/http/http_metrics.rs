//! Metrics of the HTTP edge.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

use super::malformed_requests;

/// Groups of addresses, as a label of fixed cardinality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointLabel {
    Submit,
    Jobs,
    Orders,
    Sites,
    Files,
    Store,
    Events,
    Chaos,
    Other,
}

impl EndpointLabel {
    const ALL: [EndpointLabel; 9] = [
        EndpointLabel::Submit,
        EndpointLabel::Jobs,
        EndpointLabel::Orders,
        EndpointLabel::Sites,
        EndpointLabel::Files,
        EndpointLabel::Store,
        EndpointLabel::Events,
        EndpointLabel::Chaos,
        EndpointLabel::Other,
    ];

    fn as_str(self) -> &'static str {
        match self {
            EndpointLabel::Submit => "submit",
            EndpointLabel::Jobs => "jobs",
            EndpointLabel::Orders => "orders",
            EndpointLabel::Sites => "sites",
            EndpointLabel::Files => "files",
            EndpointLabel::Store => "store",
            EndpointLabel::Events => "events",
            EndpointLabel::Chaos => "chaos",
            EndpointLabel::Other => "other",
        }
    }

    pub(super) fn of_request(is_post: bool, path: &str) -> Self {
        let Some(rest) = path.strip_prefix("/v1/") else {
            return EndpointLabel::Other;
        };
        match rest {
            "jobs" if is_post => EndpointLabel::Submit,
            "events" => EndpointLabel::Events,
            _ if rest.starts_with("jobs:") => EndpointLabel::Orders,
            _ if rest.starts_with("jobs") => EndpointLabel::Jobs,
            _ if rest.starts_with("sites") => EndpointLabel::Sites,
            _ if rest.starts_with("files") => EndpointLabel::Files,
            _ if rest.starts_with("store") => EndpointLabel::Store,
            _ if rest.starts_with("chaos") => EndpointLabel::Chaos,
            _ => EndpointLabel::Other,
        }
    }
}

/// Classes of answers by their first digit.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counters of the edge, on an injected registry.
#[derive(Debug)]
pub struct HttpMetrics {
    /// Answers by endpoint and class, in the order of `Endpoint::ALL` and `CLASSES`.
    answers: Vec<[IntCounter; 5]>,
    /// Time to the answer's head by endpoint.
    seconds: Vec<Histogram>,
    /// Requests that were answered to come back later.
    busy: IntCounter,
    /// Requests without a valid key.
    pub(super) keyless: IntCounter,
    /// Connections given up because they carried no valid request.
    malformed: IntCounter,
    /// Streams that are open.
    pub(super) streams: IntGauge,
    /// Times that a follower had to read everything again.
    pub(super) resyncs: IntCounter,
}

impl HttpMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// A metric with one of these names is registered already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let answers = IntCounterVec::new(
            Opts::new("cospan_http_answers_total", "HTTP requests answered"),
            &["endpoint", "class"],
        )?;
        let seconds = HistogramVec::new(
            HistogramOpts::new(
                "cospan_http_answer_seconds",
                "Time until a request was answered",
            )
            .buckets(vec![
                0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0,
            ]),
            &["endpoint"],
        )?;
        let metrics = Self {
            answers: EndpointLabel::ALL
                .map(|e| CLASSES.map(|class| answers.with_label_values(&[e.as_str(), class])))
                .to_vec(),
            seconds: EndpointLabel::ALL
                .map(|e| seconds.with_label_values(&[e.as_str()]))
                .to_vec(),
            busy: IntCounter::new(
                "cospan_http_busy_total",
                "HTTP requests answered 429, because a bound was reached",
            )?,
            keyless: IntCounter::new(
                "cospan_http_keyless_total",
                "HTTP requests refused for want of a valid key",
            )?,
            malformed: IntCounter::new(
                "cospan_http_malformed_total",
                "Connections given up because what came on them was no valid request",
            )?,
            streams: IntGauge::new("cospan_http_streams", "HTTP streams that are open")?,
            resyncs: IntCounter::new(
                "cospan_http_resyncs_total",
                "Followers of the event stream that had to read everything anew",
            )?,
        };
        registry.register(Box::new(answers))?;
        registry.register(Box::new(seconds))?;
        registry.register(Box::new(metrics.busy.clone()))?;
        registry.register(Box::new(metrics.keyless.clone()))?;
        registry.register(Box::new(metrics.malformed.clone()))?;
        registry.register(Box::new(metrics.streams.clone()))?;
        registry.register(Box::new(metrics.resyncs.clone()))?;
        Ok(metrics)
    }

    /// Updates the metrics that are counted elsewhere.
    pub(super) fn update_external(&self) {
        self.malformed.inc_by(malformed_requests::take_count());
    }

    pub(super) fn observe_answer(&self, endpoint: EndpointLabel, status: u16, seconds: f64) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.answers[endpoint as usize][class].inc();
        if status == 429 {
            self.busy.inc();
        }
        self.seconds[endpoint as usize].observe(seconds);
    }
}
