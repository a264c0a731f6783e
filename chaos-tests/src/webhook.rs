//! A receiver of notifications on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

/// Receives POSTs for as long as the process lives.
#[derive(Debug, Clone)]
pub struct Receiver {
    address: String,
    received: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    /// Listens on a free port.
    ///
    /// # Errors
    /// There is none.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}/hook", listener.local_addr()?);
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Ok(Some(body)) = answer(stream) {
                    kept.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(body);
                }
            }
        });
        Ok(Self { address, received })
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Lists everything that was received.
    pub fn received(&self) -> Vec<Value> {
        self.received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn answer(mut stream: TcpStream) -> Result<Option<Value>> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    Ok(serde_json::from_slice(&body).ok())
}
