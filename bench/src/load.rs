//! The load: keep-alive connections that post the same document over and over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Pause before a refused request is sent again.
const PAUSE: Duration = Duration::from_millis(10);

/// The requests of a load: their content, destination and number.
pub(super) struct RequestLoad {
    pub(super) port: u16,
    pub(super) path: &'static str,
    pub(super) token: String,
    pub(super) body: Vec<u8>,
    /// Placeholder digits in the body that each request replaces by its own number.
    pub(super) number: Option<&'static str>,
    /// True if a request refused with 429 is sent again.
    pub(super) insists: bool,
    pub(super) connections: usize,
    pub(super) requests: usize,
}

/// The result of a load.
pub(super) struct LoadResult {
    /// The number of requests and the time of each turn.
    turns: Vec<(usize, Duration)>,
    /// Sorted.
    latencies: Vec<Duration>,
    /// Bodies of the answers.
    pub(super) answers: Vec<Vec<u8>>,
}

impl LoadResult {
    /// Joins the results of several turns.
    pub(super) fn join_turns(all: Vec<Self>) -> Self {
        let mut joined = Self {
            turns: Vec::new(),
            latencies: Vec::new(),
            answers: Vec::new(),
        };
        for loaded in all {
            joined.turns.extend(loaded.turns);
            joined.latencies.extend(loaded.latencies);
            joined.answers.extend(loaded.answers);
        }
        joined.latencies.sort_unstable();
        joined
    }

    /// Requests per second: the median of the turns, the lower one of an even number.
    pub(super) fn per_second(&self) -> f64 {
        let mut rates: Vec<f64> = self
            .turns
            .iter()
            .map(|(count, elapsed): &(usize, Duration)| *count as f64 / elapsed.as_secs_f64())
            .collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates
            .get(rates.len().saturating_sub(1) / 2)
            .copied()
            .unwrap_or_default()
    }

    /// The latency that `share` of the requests kept below, in milliseconds.
    pub(super) fn quantile_ms(&self, share: f64) -> f64 {
        let at = ((self.latencies.len() as f64 * share) as usize).min(self.latencies.len() - 1);
        self.latencies[at].as_secs_f64() * 1_000.0
    }
}

pub(super) fn post_load(load: RequestLoad) -> Result<LoadResult> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(post_all(Arc::new(load)))
}

async fn post_all(load: Arc<RequestLoad>) -> Result<LoadResult> {
    let left = Arc::new(AtomicUsize::new(load.requests));
    let mut streams = Vec::new();
    for _ in 0..load.connections {
        streams.push(connect(load.port).await?);
    }
    let begin = Instant::now();
    let clients: Vec<_> = streams
        .into_iter()
        .map(|stream| tokio::spawn(run_client(stream, load.clone(), left.clone())))
        .collect();
    let mut latencies = Vec::new();
    let mut answers = Vec::new();
    for client in clients {
        for (latency, answer) in client.await?? {
            latencies.push(latency);
            answers.push(answer);
        }
    }
    let turns = vec![(latencies.len(), begin.elapsed())];
    latencies.sort_unstable();
    Ok(LoadResult {
        turns,
        latencies,
        answers,
    })
}

async fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))
        .await
        .context("no connection")?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn run_client(
    mut stream: TcpStream,
    load: Arc<RequestLoad>,
    left: Arc<AtomicUsize>,
) -> Result<Vec<(Duration, Vec<u8>)>> {
    let mut request = format!(
        "POST {} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        load.path,
        load.port,
        load.token,
        load.body.len()
    )
    .into_bytes();
    let head = request.len();
    request.extend_from_slice(&load.body);
    let places = number_positions(&load)
        .map(|at| head + at)
        .collect::<Vec<_>>();
    let mut done = Vec::new();
    let mut buffer = Vec::with_capacity(4_096);
    while let Ok(number) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left: usize| {
        left.checked_sub(1)
    }) {
        write_number(
            &mut request,
            &places,
            load.number.map_or(0, str::len),
            number,
        );
        let begin = Instant::now();
        let answer = loop {
            match post_once(&mut stream, &request, &mut buffer).await {
                Ok((200..=299, answer)) => break answer,
                // After a refusal the server may close the connection before it has read all of a
                // long request.
                Ok((429, _)) | Err(_) if load.insists => {
                    tokio::time::sleep(PAUSE).await;
                    stream = connect(load.port).await?;
                }
                Ok((code, answer)) => {
                    bail!(
                        "the server answered {code}: {}",
                        String::from_utf8_lossy(&answer)
                    )
                }
                Err(problem) => return Err(problem),
            }
        };
        done.push((begin.elapsed(), answer));
    }
    Ok(done)
}

/// Positions in the body of the digits that each request replaces.
fn number_positions(load: &RequestLoad) -> impl Iterator<Item = usize> {
    let digits = load.number.map(str::as_bytes);
    let length = digits.map_or(load.body.len() + 1, <[u8]>::len);
    let windows = load.body.windows(length).enumerate();
    windows
        .filter(move |(_, window)| Some(*window) == digits)
        .map(|(at, _)| at)
}

fn write_number(request: &mut [u8], places: &[usize], digits: usize, number: usize) {
    let text = format!("{number:0digits$}");
    let last = &text.as_bytes()[text.len() - digits..];
    for at in places {
        request[*at..at + digits].copy_from_slice(last);
    }
}

/// Posts once; returns the status and the body of the answer.
async fn post_once(
    stream: &mut TcpStream,
    request: &[u8],
    buffer: &mut Vec<u8>,
) -> Result<(u16, Vec<u8>)> {
    stream.write_all(request).await?;
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            bail!(
                "the server closed the connection: {}",
                String::from_utf8_lossy(buffer)
            );
        }
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(head) = response.parse(buffer)? else {
            continue;
        };
        let length = response
            .headers
            .iter()
            .find(|h| h.name.eq_ignore_ascii_case("content-length"));
        let length = length.and_then(|h| std::str::from_utf8(h.value).ok()?.parse::<usize>().ok());
        let length = length.context("an answer without content-length")?;
        if buffer.len() < head + length {
            continue;
        }
        let code = response.code.context("an answer without status")?;
        return Ok((code, buffer[head..head + length].to_vec()));
    }
}
