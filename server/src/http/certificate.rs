//! The server's certificate, which can be read again while the server serves.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::bind::BindError;
use super::http_settings::TlsFiles;

/// A certificate with its key. New connections get the one that was read last.
#[derive(Debug)]
pub struct ServedCertificate {
    files: TlsFiles,
    current: ArcSwap<CertifiedKey>,
}

impl ServedCertificate {
    /// Reads the files.
    ///
    /// # Errors
    /// They cannot be read, or do not belong together.
    pub(super) fn read(files: &TlsFiles) -> Result<Self, BindError> {
        Ok(Self {
            files: files.clone(),
            current: ArcSwap::from_pointee(read_certificate(files)?),
        })
    }

    /// Reads the files again. If they are no good, the certificate stays as it was.
    ///
    /// # Errors
    /// As for the first reading.
    pub fn read_again(&self) -> Result<(), BindError> {
        self.current.store(Arc::new(read_certificate(&self.files)?));
        Ok(())
    }

    /// Makes the settings of a listener that shows this certificate.
    pub(super) fn listener_settings(self: &Arc<Self>) -> Result<ServerConfig, BindError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let settings = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| tls_error("a usable certificate", &self.files.certificates, e))?;
        Ok(settings
            .with_no_client_auth()
            .with_cert_resolver(self.clone()))
    }
}

impl ResolvesServerCert for ServedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn read_certificate(files: &TlsFiles) -> Result<CertifiedKey, BindError> {
    let certificates = CertificateDer::pem_file_iter(&files.certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| tls_error("the certificate", &files.certificates, e))?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|e| tls_error("the private key", &files.key, e))?;
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(certificates, key, &provider)
        .map_err(|e| tls_error("a usable certificate", &files.certificates, e))
}

fn tls_error(what: &'static str, path: &Path, problem: impl ToString) -> BindError {
    BindError::Tls {
        what,
        path: path.to_owned(),
        problem: problem.to_string(),
    }
}
