//! The stream of committed changes, as server-sent events.

use std::time::Duration;

use actix_web::http::header::{self, HeaderValue};
use actix_web::web::{Bytes, BytesMut, Data};
use actix_web::{HttpRequest, HttpResponse, get};
use cospan_domain::ids::{JobId, Seq};
use futures_util::{Stream, stream};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::control_plane_port::JobChange;
use super::failure::{HandlerResult, HttpFailure};
use super::middleware::RequestCaller;
use super::query;
use super::recent_changes::NextChanges;
use super::state::{HttpState, StreamPermit};
use cospan_api::v1::event::{ChangeReport, EventReport, ResyncReport};
use cospan_api::v1::event_report::ComponentNames;
use cospan_api::v1::problem::{Code, Problem};

/// A comment is sent after this time without changes, so that both sides notice when the other has
/// gone.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The changes to follow.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct FollowQuery {
    /// Only changes of this job.
    #[serde(deserialize_with = "query::whole")]
    job: Option<u64>,
    /// Begin after this position; the header `Last-Event-ID` overrides it.
    #[serde(deserialize_with = "query::whole")]
    after: Option<u64>,
}

/// Follows committed changes as server-sent events: those of the key's own jobs, unless its role
/// reaches those of others.
///
/// Events are called `job`, with a position in the journal as id. After a break send it as
/// `Last-Event-ID` to continue. An event `resync` means that changes were missed: read everything
/// again; the stream continues after the position that it names.
#[utoipa::path(
    tag = "events",
    params(
        FollowQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "Go on after this event"),
    ),
    responses(
        (status = 200, body = ChangeReport, content_type = "text/event-stream", description = "Changes as they happen, until the client goes"),
    )
)]
#[get("/v1/events")]
pub(super) async fn events(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
) -> HandlerResult {
    let asked: FollowQuery = query::read_query(&request)?;
    let resume = match request.headers().get("last-event-id") {
        Some(value) => Some(parse_event_id(value)?),
        None => asked.after.map(Seq),
    };
    let permit = edge.open_stream(&caller)?;
    // Subscribed here, so that nothing is lost between the position and the first wait.
    let grown = edge.hub.watch_growth();
    let present = edge.hub.start_filling(&edge.backend);
    let follower = ChangeFollower {
        stopping: edge.watch_stop(),
        edge,
        grown,
        seen: resume.unwrap_or(present),
        job: asked.job.map(JobId),
        caller,
        greeted: false,
        _open: permit,
    };
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header((header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .streaming(event_pieces(follower)))
}

fn parse_event_id(value: &HeaderValue) -> Result<Seq, HttpFailure> {
    let id = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    id.map(Seq).ok_or_else(|| {
        Problem::new(Code::BadHeader, "is not the id of an event")
            .with_key_path("Last-Event-ID")
            .into()
    })
}

/// A client of the stream: a position, and nothing that could grow.
struct ChangeFollower {
    edge: Data<HttpState>,
    grown: watch::Receiver<Seq>,
    stopping: watch::Receiver<bool>,
    seen: Seq,
    job: Option<JobId>,
    caller: RequestCaller,
    greeted: bool,
    _open: StreamPermit,
}

fn event_pieces(follower: ChangeFollower) -> impl Stream<Item = Result<Bytes, HttpFailure>> {
    stream::unfold(follower, |mut follower| async move {
        follower
            .next_piece()
            .await
            .map(|bytes| (Ok(bytes), follower))
    })
}

impl ChangeFollower {
    /// The next piece of the stream; `None` at its end.
    async fn next_piece(&mut self) -> Option<Bytes> {
        if !self.greeted {
            // Sends the head before anything happens.
            self.greeted = true;
            return Some(Bytes::from_static(b": hello\n\n"));
        }
        loop {
            self.grown.mark_unchanged();
            match self.edge.hub.changes_after(self.seen) {
                NextChanges::Changes(changes) => {
                    self.seen = changes.last().map_or(self.seen, |change| change.seq);
                    let text = self.write_changes(&changes);
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
                NextChanges::Resync(seq) => {
                    self.seen = seq;
                    self.edge.metrics.resyncs.inc();
                    let mut text = BytesMut::new();
                    write_event(&mut text, "resync", Some(seq), &ResyncReport { seq: seq.0 });
                    return Some(text.freeze());
                }
                NextChanges::Nothing => {
                    if let Some(text) = self.wait_for_growth().await? {
                        return Some(text);
                    }
                }
            }
        }
    }

    /// Waits for changes; returns a heartbeat if there are none, `None` at the end.
    async fn wait_for_growth(&mut self) -> Option<Option<Bytes>> {
        tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stop| *stop) => None,
            changed = self.grown.changed() => changed.is_ok().then_some(None),
            () = actix_web::rt::time::sleep(HEARTBEAT) => {
                Some(Some(Bytes::from_static(b": still here\n\n")))
            }
        }
    }

    fn write_changes(&self, changes: &[std::sync::Arc<JobChange>]) -> Bytes {
        let mut text = BytesMut::new();
        let wanted = changes.iter().filter(|change| {
            self.caller.can_reach(&change.owner) && self.job.is_none_or(|job| change.job == job)
        });
        let mut wanted = wanted.peekable();
        while let Some(change) = wanted.next() {
            // Only the last change of a position carries it, so that a client that resumes after it
            // has seen all of it.
            let is_last = wanted.peek().is_none_or(|next| next.seq != change.seq);
            write_event(
                &mut text,
                "job",
                is_last.then_some(change.seq),
                &change_report(change),
            );
        }
        text.freeze()
    }
}

fn change_report(change: &JobChange) -> ChangeReport {
    let accepted = EventReport {
        event: "JobSubmitted".into(),
        ..EventReport::default()
    };
    let accepted = change.submitted.then_some(accepted);
    // A change does not carry its job.
    let names = ComponentNames::without_job();
    let happened = change
        .events
        .iter()
        .map(|event| EventReport::of_event(event, &names));
    ChangeReport {
        seq: change.seq.0,
        job: change.job.0,
        events: accepted.into_iter().chain(happened).collect(),
    }
}

fn write_event(text: &mut BytesMut, name: &str, id: Option<Seq>, data: &impl Serialize) {
    // These types have texts and numbers only, which can always be written, on one line.
    let data = serde_json::to_string(data).unwrap_or_default();
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    text.extend_from_slice(format!("event: {name}\n{id}data: {data}\n\n").as_bytes());
}
