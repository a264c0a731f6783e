//! The HTTP edge: it authenticates, parses, validates, and then asks the control plane once or
//! reads its view; nothing else.
//!
//! Deliberately absent: any decision about jobs, any state that outlives the
//! process, and any way in without a key (`/livez` and `/readyz` excepted).

mod access;
mod bind;
mod body;
mod certificate;
mod change_stream;
mod chaos;
pub mod control_plane_port;
mod cost_report;
mod dry_run;
mod failure;
mod files;
mod health;
mod http_metrics;
mod http_settings;
mod job_commands;
mod jobs;
mod keyless_rate;
mod logs_and_outputs;
mod malformed_requests;
mod middleware;
mod openapi;
mod openapi_common;
mod query;
mod recent_changes;
mod rerun;
mod reservations;
mod revoked_keys;
pub(crate) mod shared_reservation_report;
mod shared_reservations;
mod site_routes;
mod slots;
mod slow_requests;
mod state;
mod store;
mod stream_limits;
mod submission_cache;
mod submission_turns;
mod submit;
#[cfg(test)]
mod tests;
mod trees;
mod unread_bodies;
mod upload_cleanup;
mod upload_delivery;
mod uploads;

pub use access::access_table;
pub use bind::{BindError, BoundListeners, RunningServer};
pub use certificate::ServedCertificate;
pub use control_plane_port::ControlPlanePort;
pub use http_metrics::HttpMetrics;
pub use http_settings::{HttpSettings, TlsFiles};
pub use malformed_requests::MalformedRequestLayer;
pub use openapi::document_json as openapi_document;
pub use state::HttpState;
