//! The HTTP edge: it authenticates, parses, validates, and then asks the control plane once or
//! reads its view; nothing else.
//!
//! Deliberately absent: any decision about jobs, any state that outlives the
//! process, and any way in without a key (`/livez` and `/readyz` excepted).

mod access;
mod accounts;
pub mod backend;
mod barred;
mod bind;
mod body;
mod chaos;
mod describe;
mod desk;
mod dry_run;
mod failure;
mod files;
mod gate;
mod health;
mod hub;
mod jobs;
mod landing;
mod malformed;
mod meter;
mod metrics;
mod openapi;
mod orders;
mod query;
mod reading;
mod repeated;
mod reservations;
mod settings;
mod shared_reservations;
mod sites;
mod slots;
mod state;
mod store;
mod stream;
mod streams;
mod submit;
#[cfg(test)]
mod tests;
mod tidy;
mod trees;
mod turns;
mod unread;
mod uploads;

pub use access::access_table;
pub use backend::Backend;
pub use bind::{BindError, Bound, RunningServer};
pub use malformed::Malformed;
pub use metrics::HttpMetrics;
pub use openapi::document as openapi_document;
pub use settings::{HttpSettings, TlsFiles};
pub use state::Edge;
