//! From settings to a running server, in two steps: first bind the addresses, so that a port in use
//! is an error before anything has started; then serve.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::{Server, ServerHandle};
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{App, HttpServer};
use thiserror::Error;
use utoipa_actix_web::AppExt;

use super::certificate::ServedCertificate;
use super::http_settings::HttpSettings;
use super::state::HttpState;
use super::{middleware, openapi, upload_cleanup};

/// The reason why the server cannot listen.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum BindError {
    #[error("no address to listen on is configured")]
    NoAddress,
    #[error(
        "{0} can be reached from other machines, and TLS is not configured; name a certificate \
         and its key, listen on 127.0.0.1 or [::1], or say that TLS ends at a proxy"
    )]
    Exposed(SocketAddr),
    #[error(
        "{0} is in use; stop the other server (perhaps another cospan), or choose another address"
    )]
    InUse(SocketAddr),
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("cannot read {what} from {path}: {problem}", path = path.display())]
    Tls {
        what: &'static str,
        path: PathBuf,
        problem: String,
    },
}

/// Bound addresses: clients can connect and wait, but nobody is served yet.
pub struct BoundListeners {
    listeners: Vec<TcpListener>,
    certificate: Option<Arc<ServedCertificate>>,
}

impl BoundListeners {
    /// Binds the addresses.
    ///
    /// # Errors
    /// An address is in use or does not belong to this machine, is open to other machines without
    /// TLS, or the certificate cannot be used.
    pub fn bind(settings: &HttpSettings) -> Result<Self, BindError> {
        if settings.listen.is_empty() {
            return Err(BindError::NoAddress);
        }
        if settings.tls.is_none()
            && !settings.tls_ends_at_proxy
            && let Some(exposed) = settings.listen.iter().find(|at| !at.ip().is_loopback())
        {
            return Err(BindError::Exposed(*exposed));
        }
        let certificate = settings.tls.as_ref().map(ServedCertificate::read);
        let certificate = certificate.transpose()?.map(Arc::new);
        let listeners = settings
            .listen
            .iter()
            .map(|address| bind_with_retries(*address));
        Ok(Self {
            listeners: listeners.collect::<Result<_, _>>()?,
            certificate,
        })
    }

    /// The certificate that it shows, if it has TLS.
    pub fn certificate(&self) -> Option<Arc<ServedCertificate>> {
        self.certificate.clone()
    }

    /// The addresses, with the ports that were chosen.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|listener| listener.local_addr().ok())
            .collect()
    }

    /// Serves from now on. Must be called where an actix system runs; the server's future must be
    /// polled there until it ends.
    ///
    /// # Errors
    /// The operating system refuses to serve an address.
    pub fn serve(self, edge: HttpState) -> std::io::Result<RunningServer> {
        let edge = Data::new(edge);
        let settings = edge.settings.clone();
        let state = edge.clone();
        let mut server = HttpServer::new(move || {
            let app = App::new().into_utoipa_app().app_data(state.clone());
            let app = app.configure(openapi::routes).into_app();
            app.wrap(from_fn(middleware::access_middleware))
        })
        .disable_signals()
        .workers(settings.workers.max(1))
        .max_connections(
            settings
                .max_connections
                .div_ceil(settings.workers.max(1))
                .max(1),
        )
        .client_request_timeout(settings.head_timeout)
        .keep_alive(settings.keep_alive)
        // Work for a client that is gone ends.
        .h1_allow_half_closed(false)
        .shutdown_timeout(settings.stop_timeout.as_secs());
        for listener in self.listeners {
            server = match &self.certificate {
                Some(certificate) => {
                    let settings = certificate.listener_settings();
                    let settings = settings.map_err(std::io::Error::other)?;
                    server.listen_rustls_0_23(listener, settings)?
                }
                None => server.listen(listener)?,
            };
        }
        let server = server.run();
        let refresh = actix_web::rt::spawn(refresh_keys(edge.clone(), settings.key_refresh));
        let tidy = actix_web::rt::spawn(upload_cleanup::clean_up_uploads(edge.clone()));
        Ok(RunningServer {
            handle: server.handle(),
            server: Some(server),
            edge,
            beside: [refresh, tidy],
        })
    }
}

/// Binds an address, and retries for a while if it is in use: a server that was killed while it
/// started a process leaves its address to that process for a moment, until the program is loaded.
fn bind_with_retries(address: SocketAddr) -> Result<TcpListener, BindError> {
    const PATIENCE: Duration = Duration::from_secs(2);
    const PAUSE: Duration = Duration::from_millis(50);
    let begun = Instant::now();
    let listener = loop {
        match TcpListener::bind(address) {
            Ok(listener) => break listener,
            Err(source) if source.kind() != ErrorKind::AddrInUse => {
                return Err(BindError::Listen { address, source });
            }
            Err(_) if begun.elapsed() >= PATIENCE => return Err(BindError::InUse(address)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    };
    listener
        .set_nonblocking(true)
        .map_err(|source| BindError::Listen { address, source })?;
    Ok(listener)
}

/// Checks the key file for changes again and again. One check is a call of the file system that
/// takes microseconds.
async fn refresh_keys(edge: Data<HttpState>, every: Duration) {
    let mut complained = false;
    loop {
        actix_web::rt::time::sleep(every).await;
        match edge.keys.reload_if_changed() {
            Ok(changed) => {
                complained = false;
                if changed {
                    tracing::info!(keys = edge.keys.len(), "keys reloaded");
                }
            }
            Err(error) => {
                if !complained {
                    tracing::error!(%error, "cannot read the keys; known ones stay valid");
                }
                complained = true;
            }
        }
    }
}

/// A server that serves.
pub struct RunningServer {
    server: Option<Server>,
    handle: ServerHandle,
    edge: Data<HttpState>,
    /// Tasks that run beside the server.
    beside: [actix_web::rt::task::JoinHandle<()>; 2],
}

impl RunningServer {
    /// Takes the future that serves, which must be polled until it ends. `None` the second time.
    pub fn take_server(&mut self) -> Option<Server> {
        self.server.take()
    }

    /// Takes no new requests, ends all streams, and waits for open requests as long as the settings
    /// allow.
    pub async fn stop(self) {
        self.beside.iter().for_each(|task| task.abort());
        self.edge.end_streams();
        self.handle.stop(true).await;
    }
}
