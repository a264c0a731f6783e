//! Notifications as webhooks: one JSON document per POST.

use std::time::Duration;

use cospan_actors::api::ControlPlane;
use cospan_actors::notifier::{NoticeSender, OutgoingNotice};
use cospan_domain::job::job_state::{Job, JobPhase, StartNotice, StartNoticeKind};
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::watch;

use super::read_stderr_tail;
use cospan_api::v1::Instant;
use cospan_api::v1::job::JobRow;
use cospan_api::v1::stderr_tail::LastWordsReport;

/// Posts notifications.
pub(super) struct WebhookMessenger {
    agent: ureq::Agent,
    plane: watch::Receiver<Option<ControlPlane>>,
}

impl WebhookMessenger {
    /// A messenger that gives up on an address after `timeout`. `plane` reads the output of failed
    /// jobs; it is known once the control plane has started.
    pub(super) fn new(timeout: Duration, plane: watch::Receiver<Option<ControlPlane>>) -> Self {
        // Nobody has configured the target of a redirect.
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .max_redirects(0);
        Self {
            agent: config.build().into(),
            plane,
        }
    }
}

impl NoticeSender for WebhookMessenger {
    fn send(
        &self,
        address: &str,
        notice: OutgoingNotice,
    ) -> BoxFuture<'static, Result<(), String>> {
        let agent = self.agent.clone();
        let address = address.to_owned();
        let plane = self.plane.clone();
        Box::pin(async move {
            let body = notice_document(&notice, &read_last_words_of(&notice, plane).await);
            // A slow receiver must not delay the control thread.
            let posted = actix_web::rt::task::spawn_blocking(move || {
                agent
                    .post(&address)
                    .content_type("application/json")
                    .send(body.to_string())
            });
            match posted.await {
                Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
                Ok(Ok(answer)) => Err(format!("it answered {}", answer.status())),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

async fn read_last_words_of(
    notice: &OutgoingNotice,
    mut plane: watch::Receiver<Option<ControlPlane>>,
) -> Vec<LastWordsReport> {
    let OutgoingNotice::JobEnded(job) = notice else {
        return Vec::new();
    };
    // Fails if there is no control plane any more: the notification has no last words then.
    let plane = plane
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|plane| plane.clone());
    match plane {
        Some(plane) => read_stderr_tail::read_last_words(&plane, job).await,
        None => Vec::new(),
    }
}

fn notice_document(notice: &OutgoingNotice, last_words: &[LastWordsReport]) -> serde_json::Value {
    match notice {
        OutgoingNotice::Site { site, notification } => {
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
        OutgoingNotice::Start { job, notice } => start_document(job, notice),
        OutgoingNotice::JobEnded(job) => {
            let row = JobRow::from(&**job);
            let reason = match &job.phase {
                JobPhase::Failed { reason, .. } => Some(&**reason),
                _ => None,
            };
            let name = row
                .name
                .as_ref()
                .map(|name| format!(" ({name})"))
                .unwrap_or_default();
            let why = reason
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            let mut body = json!({
                "kind": "job-ended",
                "job": row.id,
                "name": row.name,
                "group": row.group,
                "owner": row.owner,
                "state": row.state,
                "reason": reason,
                "at_ms": job.ended_at().unwrap_or_default().0,
                "text": format!("job {}{name} {}{why}", row.id, row.state),
            });
            if !last_words.is_empty() {
                body["last_words"] = json!(last_words);
            }
            body
        }
    }
}

/// The document about a reserved start that is near, or was moved.
fn start_document(job: &Job, notice: &StartNotice) -> serde_json::Value {
    let row = JobRow::from(job);
    let start = Instant(notice.start);
    let name = row
        .name
        .as_ref()
        .map(|name| format!(" ({name})"))
        .unwrap_or_default();
    let what = match notice.kind {
        StartNoticeKind::StartsSoon => "starts at",
        StartNoticeKind::StartMoved => "was moved: it starts at",
    };
    json!({
        "kind": notice.kind.as_str(),
        "job": row.id,
        "name": row.name,
        "owner": row.owner,
        "at_ms": notice.at.0,
        "start": start,
        "text": format!("job {}{name} {what} {start}, as reserved", row.id),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    use cospan_domain::site::site_state::{
        SiteNotification, SiteNotificationId, SiteNotificationKind,
    };
    use cospan_domain::units::Timestamp;

    use super::*;

    fn notice() -> OutgoingNotice {
        let notification = SiteNotification {
            id: SiteNotificationId(1),
            kind: SiteNotificationKind::Unreachable,
            at: Timestamp(1),
            text: Arc::from("it does not answer"),
            details: Vec::new(),
        };
        OutgoingNotice::Site {
            site: "delft".parse().unwrap(),
            notification,
        }
    }

    /// What becomes of a notice whose receiver answers so.
    fn sent(head: String) -> Result<(), String> {
        let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/hook", receiver.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = receiver.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(head.as_bytes()).unwrap();
        });
        let webhook = WebhookMessenger::new(Duration::from_secs(60), watch::channel(None).1);
        let sent = actix_web::rt::System::new().block_on(webhook.send(&address, notice()));
        answering.join().unwrap();
        sent
    }

    #[test]
    fn a_receiver_that_sends_on_has_not_taken_it_and_nobody_else_is_asked() {
        let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
        elsewhere.set_nonblocking(true).unwrap();
        let to = elsewhere.local_addr().unwrap();
        for status in [
            "301 Moved Permanently",
            "302 Found",
            "307 Temporary Redirect",
        ] {
            let head = format!(
                "HTTP/1.1 {status}\r\nLocation: http://{to}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let problem = sent(head).unwrap_err();
            assert!(problem.contains(&status[..3]), "{problem}");
        }
        assert!(elsewhere.accept().is_err(), "it was asked");
        let taken = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        assert_eq!(sent(taken.to_owned()), Ok(()));
    }
}
