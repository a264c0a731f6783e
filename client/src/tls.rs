//! The authorities that we trust over TLS, and the remedies if TLS fails.

use std::path::Path;
use std::sync::Arc;

use rustls::{CertificateError, Error, InvalidMessage};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use super::ClientError;

/// Configures TLS: trusts `ca_certificate` instead of the public authorities.
pub(super) fn tls_config(ca_certificate: Option<&Path>) -> Result<TlsConfig, ClientError> {
    let Some(file) = ca_certificate else {
        return Ok(TlsConfig::default());
    };
    let wrong =
        |problem: String| ClientError::Certificate(format!("{}: {problem}", file.display()));
    let pem = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(found) = item.map_err(|error| wrong(error.to_string()))? {
            certificates.push(found);
        }
    }
    if certificates.is_empty() {
        return Err(wrong("it contains no certificate".into()));
    }
    let roots = RootCerts::Specific(Arc::new(certificates));
    Ok(TlsConfig::builder().root_certs(roots).build())
}

/// The reason why TLS with a reachable server failed. It does not pass by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsProblem {
    /// The cause.
    pub cause: String,
    /// The remedy.
    pub remedy: &'static str,
}

impl TlsProblem {
    /// Returns the TLS problem behind this error, if it has one.
    pub(super) fn from_ureq_error(error: &ureq::Error) -> Option<Self> {
        match error {
            ureq::Error::Rustls(error) => Some(Self::of_tls_error(error)),
            ureq::Error::Io(error) => error
                .get_ref()?
                .downcast_ref::<Error>()
                .map(Self::of_tls_error),
            _ => None,
        }
    }

    fn of_tls_error(error: &Error) -> Self {
        let (cause, remedy) = match error {
            Error::InvalidCertificate(problem) => return Self::of_certificate(problem),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => (
                "it does not speak TLS".into(),
                "name it with http:// in --server or COSPAN_SERVER, or configure TLS there",
            ),
            other => (
                other.to_string(),
                "check server.tls_certificate and server.tls_key there, and --server here",
            ),
        };
        Self { cause, remedy }
    }

    fn of_certificate(problem: &CertificateError) -> Self {
        let (cause, remedy) = match problem {
            CertificateError::UnknownIssuer
            | CertificateError::BadSignature
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => (
                "no trusted authority has signed its certificate",
                "name the certificate of the authority that signed it, or the server's own if it \
                 signed itself, with --ca-certificate, COSPAN_CA_CERTIFICATE or \
                 client.ca_certificate",
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                (
                    "its certificate is for another name",
                    "name the server as its certificate does, with --server or COSPAN_SERVER; or \
                     add this name to the certificate (subjectAltName)",
                )
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
                "its certificate has expired",
                "renew server.tls_certificate there; if it is new, check the clock here",
            ),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
                "its certificate is not valid yet",
                "check the clock here, and that of the machine that made the certificate",
            ),
            other if other.to_string().contains("CaUsedAsEndEntity") => (
                "its certificate is that of an authority (CA:TRUE), which no server may use",
                "make server.tls_certificate there with basicConstraints=CA:FALSE, or sign one \
                 with the authority and name the latter in client.ca_certificate",
            ),
            other => {
                let cause = format!("its certificate is not valid: {other}");
                return Self {
                    cause,
                    remedy: "replace server.tls_certificate there",
                };
            }
        };
        Self {
            cause: cause.into(),
            remedy,
        }
    }
}
