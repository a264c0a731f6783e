//! The stream of committed changes.

use std::io::{BufRead, BufReader};

use super::*;

struct EventStream(BufReader<ureq::BodyReader<'static>>);

#[derive(Debug, Default, PartialEq, Eq)]
struct ReceivedEvent {
    name: String,
    id: Option<u64>,
    data: Value,
}

impl EventStream {
    fn open(served: &TestServer, query: &str, last: Option<u64>) -> Self {
        let mut request = ureq::get(served.url(&format!("/v1/events{query}")))
            .header("Authorization", format!("Bearer {}", served.token));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last.to_string());
        }
        let response = request.call().unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut stream = Self(BufReader::new(response.into_body().into_reader()));
        // The greeting comes once the position is fixed.
        let mut line = String::new();
        stream.0.read_line(&mut line).unwrap();
        assert!(line.starts_with(": hello"), "{line}");
        stream
    }

    fn next_event(&mut self) -> Option<ReceivedEvent> {
        let mut event = ReceivedEvent::default();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", name)) => event.name = name.into(),
                Some(("id", id)) => event.id = id.parse().ok(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                _ if line == "\n" && !event.name.is_empty() => return Some(event),
                _ => {}
            }
        }
    }
}

#[test]
fn a_follower_sees_every_change_with_its_position() {
    let served = TestServer::start();
    let mut stream = EventStream::open(&served, "", None);
    served.submit_many(3);
    for id in 1..=3 {
        let event = stream.next_event().unwrap();
        assert_eq!((event.name.as_str(), event.id), ("job", Some(id)));
        assert_eq!(event.data["job"], id);
        assert_eq!(event.data["events"][0]["event"], "JobSubmitted");
    }
    served.fake.change_job(2, |_| {});
    assert_eq!(stream.next_event().unwrap().data["job"], 2);
}

#[test]
fn a_follower_who_comes_back_goes_on_where_it_was() {
    let served = TestServer::start();
    let mut stream = EventStream::open(&served, "", None);
    served.submit_many(2);
    assert_eq!(stream.next_event().unwrap().id, Some(1));
    drop(stream);
    served.submit_many(2);
    let mut stream = EventStream::open(&served, "", Some(1));
    let ids: Vec<_> = (0..3).map(|_| stream.next_event().unwrap().id).collect();
    assert_eq!(ids, [Some(2), Some(3), Some(4)]);
    let mut stream = EventStream::open(&served, "?after=3", None);
    assert_eq!(stream.next_event().unwrap().id, Some(4));
}

#[test]
fn a_follower_who_was_away_too_long_is_told_to_read_anew() {
    let served = TestServer::start_with(|settings| settings.kept_changes = 10);
    let mut stream = EventStream::open(&served, "", None);
    served.submit_many(50);
    // What was read so far may be anything; in the end it is told, or saw all.
    let mut last = 0;
    while last < 50 {
        let event = stream.next_event().unwrap();
        last = event.data["seq"].as_u64().unwrap();
    }
    let mut stream = EventStream::open(&served, "", Some(1));
    let event = stream.next_event().unwrap();
    assert_eq!((event.name.as_str(), event.id), ("resync", Some(50)));
    served.submit_many(1);
    assert_eq!(stream.next_event().unwrap().id, Some(51));
}

#[test]
fn a_position_from_before_the_server_followed_means_reading_anew() {
    let served = TestServer::start();
    served.submit_many(5);
    let mut stream = EventStream::open(&served, "", Some(2));
    assert_eq!(stream.next_event().unwrap().name, "resync");
    let mut stream = EventStream::open(&served, "", Some(7000));
    assert_eq!(stream.next_event().unwrap().name, "resync");
}

#[test]
fn one_job_can_be_followed() {
    let served = TestServer::start();
    let mut stream = EventStream::open(&served, "?job=3", None);
    served.submit_many(5);
    assert_eq!(stream.next_event().unwrap().data["job"], 3);
    served.fake.change_job(4, |_| {});
    served.fake.change_job(3, |_| {});
    assert_eq!(stream.next_event().unwrap().id, Some(7));
}

#[test]
fn a_follower_who_does_not_read_costs_nothing_and_is_told_later() {
    let served = TestServer::start_with(|settings| settings.kept_changes = 100);
    let mut slow = EventStream::open(&served, "", None);
    let mut last = 0;
    let mut told = false;
    // How much fits into the buffers between us and the client is the kernel's affair.
    wait_until("the follower is overtaken", || {
        (0..5).for_each(|_| served.submit_many(1000));
        last += 5000;
        while let Some(event) = slow.next_event() {
            told |= event.name == "resync";
            if event.data["seq"] == last {
                break;
            }
        }
        told
    });
}

#[test]
fn streams_are_limited_and_given_back() {
    let served = TestServer::start_with(|settings| settings.max_streams = 2);
    let one = EventStream::open(&served, "", None);
    let _two = EventStream::open(&served, "", None);
    served.get("/v1/events").problem(429, "C5004");
    drop(one);
    served.submit_many(1);
    wait_until("the place is free again", || {
        // A broken connection is noticed when something is sent.
        served.fake.change_job(1, |_| {});
        served.get("/v1/store/export").status == 200
    });
}

#[test]
fn streams_are_limited_by_key_and_by_address_too() {
    let served = TestServer::start_with(|settings| {
        settings.max_streams_per_key = 1;
        settings.max_streams_per_address = 2;
    });
    let [bob, carol] = ["bob", "carol"].map(|name| served.create_key(name, &[Role::User]));
    let refused = |token: &str| {
        let reply = served.send_as(token, "GET", "/v1/events", None);
        reply.problem(429, "C5004").detail
    };
    let _first = EventStream::open(&served, "", None);
    let said = refused(&served.token);
    assert!(said.contains("the key admin has 1 streams"), "{said}");
    let request = ureq::get(served.url("/v1/events"));
    let second = request
        .header("Authorization", format!("Bearer {bob}"))
        .call()
        .unwrap();
    let said = refused(&carol);
    assert!(said.contains("from this address"), "{said}");
    drop(second);
    wait_until(
        "a broken connection is noticed and its places are free",
        || {
            served.submit_as(&bob, &job_document().to_string());
            served
                .get("/metrics")
                .body
                .windows(22)
                .any(|text| text == b"cospan_http_streams 1\n")
        },
    );
}

#[test]
fn a_wrong_position_is_refused() {
    let served = TestServer::start();
    let token = format!("Bearer {}", served.token);
    let headers = [("Authorization", token.as_str()), ("Last-Event-ID", "x")];
    served
        .send_with("GET", "/v1/events", None, &headers)
        .problem(400, "C1003");
    served.get("/v1/events?after=x").problem(400, "C1002");
    served.get("/v1/events?jbo=1").problem(400, "C1002");
}

#[test]
fn a_stop_ends_the_stream() {
    let mut served = TestServer::start_with(|settings| settings.stop_timeout = 2 * GENEROUS);
    let mut stream = EventStream::open(&served, "", None);
    let begun = std::time::Instant::now();
    served.stop();
    assert!(
        begun.elapsed() < GENEROUS,
        "the open stream held up the stop"
    );
    assert_eq!(stream.next_event(), None);
}
