//! A tiny HTTP server that answers as a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// How many requests came before it.
    pub(crate) number: usize,
    /// Without the query.
    pub(crate) path: String,
    /// Request line and headers.
    pub(crate) head: String,
    /// The body as text.
    pub(crate) body: String,
}

impl Request {
    /// The value of a header, or nothing.
    pub(crate) fn header(&self, name: &str) -> String {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or_else(String::new, |(_, value)| value.to_owned())
    }
}

/// What is answered.
pub(crate) struct FakeAnswer {
    status: u16,
    content_type: &'static str,
    body: String,
}

impl FakeAnswer {
    /// Any answer.
    pub(crate) fn new(status: u16, content_type: &'static str, body: &str) -> Self {
        Self {
            status,
            content_type,
            body: body.into(),
        }
    }

    /// A good answer in JSON.
    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self::new(200, "application/json", &value.to_string())
    }

    /// A problem document.
    pub(crate) fn problem(status: u16, code: &str, detail: &str) -> Self {
        let body = serde_json::json!({
            "type": format!("urn:cospan:problem:{code}"), "title": "a problem", "status": status,
            "code": code, "detail": detail,
        });
        Self::new(status, "application/problem+json", &body.to_string())
    }

    /// There is nothing there.
    pub(crate) fn no_such(path: &str) -> Self {
        Self::problem(404, "C3001", &format!("there is no {path}"))
    }
}

/// A running server; it ends with the test.
pub(crate) struct Fake {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Fake {
    /// Serves on a port of the system's choice.
    pub(crate) fn start(answer: impl Fn(&Request) -> FakeAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(answer);
        let log = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let answer = answer.clone();
                let log = log.clone();
                std::thread::spawn(move || serve(stream.unwrap(), &*answer, &log));
            }
        });
        Self { address, seen }
    }

    /// Where it is.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until what was asked is as wanted.
    pub(crate) fn wait_until(&self, longest: Duration, wanted: impl Fn(&[Request]) -> bool) {
        let begin = Instant::now();
        while !wanted(&self.requests()) {
            assert!(
                begin.elapsed() < longest,
                "not in time; seen {:?}",
                self.requests()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(&Request) -> FakeAnswer, log: &Mutex<Vec<Request>>) {
    let Some(mut request) = read(&stream) else {
        return;
    };
    {
        let mut log = log.lock().unwrap();
        request.number = log.len();
        log.push(request.clone());
    }
    let answer = answer(&request);
    let text = format!(
        "HTTP/1.1 {} X\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{}",
        answer.status,
        answer.content_type,
        answer.body.len(),
        answer.body
    );
    // A client that went away has its reasons.
    let _ = (&stream).write_all(text.as_bytes());
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut from = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let target = head.split(' ').nth(1)?;
    let path = target.split('?').next()?.to_owned();
    let mut request = Request {
        number: 0,
        path,
        head: head.clone(),
        body: String::new(),
    };
    let length: usize = request.header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).ok()?;
    Some(request)
}
