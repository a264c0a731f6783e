//! The address of a server: `http://host:port`, `https://host:port` or `unix:/path`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddress {
    /// Scheme, host and port, without a slash at the end.
    Http(String),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "write it like http://127.0.0.1:7440, https://host:7440 or unix:/path";
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') {
                Ok(ServerAddress::Unix(path.into()))
            } else {
                Err(format!("{text:?} is no absolute path of a socket; {FORMS}"))
            };
        }
        let scheme = ["http://", "https://"]
            .into_iter()
            .find(|scheme| text.starts_with(scheme));
        let base = text.trim_end_matches('/');
        match scheme.map(|scheme| base.len() > scheme.len()) {
            Some(true) if !base.contains(char::is_whitespace) => {
                Ok(ServerAddress::Http(base.into()))
            }
            _ => Err(format!("{text:?} is no address of a server; {FORMS}")),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Http(base) => f.write_str(base),
            ServerAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ServerAddress {
    /// Default port of the API.
    pub const DEFAULT_PORT: u16 = 7440;

    /// Returns the address of a server that listens there, as seen from its own machine.
    pub fn of_listener(mut address: SocketAddr, tls: bool) -> Self {
        let scheme = if tls { "https" } else { "http" };
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        ServerAddress::Http(format!("{scheme}://{address}"))
    }

    /// Returns true if the server is on this machine.
    pub fn is_local(&self) -> bool {
        let ServerAddress::Http(base) = self else {
            return true;
        };
        let host = base.split_once("://").map_or("", |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        let name = match host.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        name == "localhost"
            || name
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }

    /// Returns the base of request URLs.
    pub fn base_url(&self) -> &str {
        match self {
            ServerAddress::Http(base) => base,
            // The host is a formality; the connection goes to the socket.
            ServerAddress::Unix(_) => "http://localhost",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_in_three_forms() {
        for text in [
            "http://127.0.0.1:7440",
            "https://cospan.example.org",
            "unix:/run/c.sock",
        ] {
            assert_eq!(text.parse::<ServerAddress>().unwrap().to_string(), text);
        }
        assert_eq!(
            "http://h:1/".parse(),
            Ok(ServerAddress::Http("http://h:1".into()))
        );
        for text in [
            "",
            "localhost:7440",
            "ftp://x",
            "http://",
            "unix:relative",
            "http://a b",
        ] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_loopback_and_sockets_are_local() {
        let local = |text: &str| text.parse::<ServerAddress>().unwrap().is_local();
        assert!(local("http://127.0.0.1:7440") && local("http://localhost") && local("unix:/s"));
        assert!(local("https://[::1]:7440"));
        assert!(!local("http://localhost.example.org") && !local("https://10.0.0.1:7440"));
        assert!(!local("http://127.0.0.1:1@evil.example.org"));
    }

    #[test]
    fn a_server_that_listens_everywhere_is_asked_at_loopback() {
        let listener = "0.0.0.0:7000".parse().unwrap();
        assert_eq!(
            ServerAddress::of_listener(listener, true).to_string(),
            "https://127.0.0.1:7000"
        );
    }
}
