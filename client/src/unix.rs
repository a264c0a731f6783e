//! Connections to a server that listens on a Unix socket.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Connects every request to one socket, independent of the host.
#[derive(Debug)]
pub(super) struct UnixConnector(pub(super) PathBuf);

impl Connector for UnixConnector {
    type Out = UnixTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _chained: Option<()>,
    ) -> Result<Option<UnixTransport>, ureq::Error> {
        let stream = UnixStream::connect(&self.0)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(UnixTransport { stream, buffers }))
    }
}

/// Resolves every host to an address that the connector ignores.
#[derive(Debug)]
pub(super) struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(
        &self,
        _uri: &ureq::http::Uri,
        _config: &ureq::config::Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
        Ok(addresses)
    }
}

/// A connection over a Unix socket.
pub(super) struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl fmt::Debug for UnixTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixTransport").finish_non_exhaustive()
    }
}

/// Converts an I/O error. The system reports a timeout of a read or write as `WouldBlock`.
fn convert_timeout(error: std::io::Error, timeout: NextTimeout) -> ureq::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ureq::Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let timeout = timeout.for_write();
        self.stream
            .set_write_timeout(timeout.not_zero().map(|length| *length))?;
        let output = &self.buffers.output()[..amount];
        self.stream
            .write_all(output)
            .map_err(|error| convert_timeout(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = timeout.for_read();
        self.stream
            .set_read_timeout(timeout.not_zero().map(|length| *length))?;
        let amount = loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other.map_err(|error| convert_timeout(error, timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // A connection that is not in use must have nothing to read.
        is_open_and_idle(&mut self.stream).unwrap_or(false)
    }
}

fn is_open_and_idle(stream: &mut UnixStream) -> std::io::Result<bool> {
    stream.set_nonblocking(true)?;
    let result = stream.read(&mut [0]);
    stream.set_nonblocking(false)?;
    Ok(matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock))
}
