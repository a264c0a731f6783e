//! Calls a wrapper away from its gate, without a process that waits beside it.
//!
//! The wrapper reads from a socket whose longest wait is a property of the socket: it wakes for a
//! ring, for our end, and after that wait, even while we hang.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The argument that says to the wrapper that it has a bell.
pub(super) const ARGUMENT: &str = "bell";

/// The end that is rung.
#[derive(Debug)]
pub(super) struct WrapperWaker {
    end: UnixStream,
    heard_until: Instant,
}

impl WrapperWaker {
    /// Makes a bell, and the socket on which the wrapper listens for `patience`.
    pub(super) fn new(patience: Duration) -> io::Result<(Self, OwnedFd)> {
        let (end, wrapper) = UnixStream::pair()?;
        wrapper.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        // It begins to listen later than this, and so listens longer.
        let heard_until = Instant::now() + patience;
        Ok((Self { end, heard_until }, wrapper.into()))
    }

    /// Rings once; true if the wrapper certainly hears it. A ring that comes before the wrapper
    /// listens is heard when it does.
    pub(super) fn wake_wrapper(mut self) -> bool {
        self.end.write_all(b"\n").is_ok() && Instant::now() < self.heard_until
    }
}
