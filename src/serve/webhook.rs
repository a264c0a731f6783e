//! Notifications as webhooks: one JSON document a POST.

use std::time::Duration;

use cospan_actors::notifier::{Messenger, Notice};
use cospan_domain::job::state::Phase;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::api::v1::job::JobRow;

/// Posts notifications.
pub(super) struct Webhook {
    agent: ureq::Agent,
}

impl Webhook {
    /// One that gives up on an address after `timeout`.
    pub(super) fn new(timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(timeout)).build();
        Self { agent: config.into() }
    }
}

impl Messenger for Webhook {
    fn send(&self, address: &str, notice: Notice) -> BoxFuture<'static, Result<(), String>> {
        let (agent, address) = (self.agent.clone(), address.to_owned());
        let body = body(&notice);
        Box::pin(async move {
            // A slow receiver must not hold up the control thread.
            let posted = actix_web::rt::task::spawn_blocking(move || {
                agent.post(&address).content_type("application/json").send(body.to_string())
            });
            match posted.await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

fn body(notice: &Notice) -> serde_json::Value {
    match notice {
        Notice::Site { site, notification } => {
            let details: Vec<&str> = notification.details.iter().map(AsRef::as_ref).collect();
            json!({
                "site": site.as_str(),
                "kind": notification.kind.as_str(),
                "at_ms": notification.at.0,
                "text": &*notification.text,
                "details": details,
                "id": notification.id.0,
            })
        }
        Notice::JobEnded(job) => {
            let row = JobRow::from(&**job);
            let reason = match &job.phase {
                Phase::Failed { reason, .. } => Some(&**reason),
                _ => None,
            };
            let name = row.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
            json!({
                "kind": "job-ended",
                "job": row.id,
                "name": row.name,
                "group": row.group,
                "owner": row.owner,
                "state": row.state,
                "reason": reason,
                "at_ms": job.ended_at().unwrap_or_default().0,
                "text": format!("job {}{name} {}", row.id, row.state),
            })
        }
    }
}
