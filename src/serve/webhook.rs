//! Notifications as webhooks: one JSON document a POST.

use std::time::Duration;

use cospan_actors::notifier::{Messenger, Notice};
use futures_util::future::BoxFuture;
use serde_json::json;

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
        let about = notice.notification;
        let details: Vec<&str> = about.details.iter().map(AsRef::as_ref).collect();
        let body = json!({
            "site": notice.site.as_str(),
            "kind": about.kind.as_str(),
            "at_ms": about.at.0,
            "text": &*about.text,
            "details": details,
            "id": about.id.0,
        });
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
