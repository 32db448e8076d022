//! Parses listening addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Listen {
    /// `host:port` or `[v6]:port`, with `https://` before it for TLS.
    Tcp {
        /// An IP address or a host name; IPv6 without brackets.
        host: String,
        /// With 0 the system chooses a port.
        port: u16,
        /// Whether connections are encrypted.
        tls: bool,
    },
    /// `unix:path`; absolute in a validated configuration.
    Unix(PathBuf),
}

/// A text that is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {text:?}, expected an address such as \"127.0.0.1:8080\", \"[::1]:8080\", \"https://0.0.0.0:8443\" or \"unix:forebay.socket\""
)]
pub struct ListenError {
    /// The text found.
    pub text: String,
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let error = || ListenError {
            text: text.to_owned(),
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(error())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        let (tls, address) = match text.strip_prefix("https://") {
            Some(address) => (true, address),
            None => (false, text.strip_prefix("http://").unwrap_or(text)),
        };
        let (host, port) = address.rsplit_once(':').ok_or_else(error)?;
        let is_number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_number).ok_or_else(error)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(v6) => v6.parse::<Ipv6Addr>().map_err(|_| error())?.to_string(),
            None if host.parse::<Ipv4Addr>().is_ok() || is_name(host) => host.to_owned(),
            None => return Err(error()),
        };
        Ok(Self::Tcp { host, port, tls })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, tls } => {
                let scheme = if *tls { "https://" } else { "" };
                if host.contains(':') {
                    write!(f, "{scheme}[{host}]:{port}")
                } else {
                    write!(f, "{scheme}{host}:{port}")
                }
            }
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listen {
    /// Whether the address is one of those. Port 0 is never taken: it is a new port each time.
    pub(crate) fn is_taken(&self, others: &[Self]) -> bool {
        others.iter().any(|other| match (self, other) {
            (Self::Tcp { port: 0, .. }, _) => false,
            (
                Self::Tcp { host, port, .. },
                Self::Tcp {
                    host: taken,
                    port: by,
                    ..
                },
            ) => (host, port) == (taken, by),
            _ => self == other,
        })
    }

    /// Whether connections are encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }

    /// Whether only this machine can connect to it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp { host, .. } => is_loopback(host),
            Self::Unix(_) => true,
        }
    }
}

/// Whether a host without brackets and port is this machine's address for itself, or `localhost`.
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// A host name must contain a letter; digits and dots alone would be a mistyped address.
fn is_name(host: &str) -> bool {
    host.len() <= 253
        && host.bytes().any(|b| b.is_ascii_alphabetic())
        && host.split('.').all(|label| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed_alike() {
        for text in [
            "127.0.0.1:8080",
            "[::1]:0",
            "0.0.0.0:65535",
            "localhost:80",
            "https://[::]:443",
            "https://example.org:8443",
            "unix:/run/a.sock",
            "unix:a",
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "8080",
            ":8080",
            "a:",
            "a:+1",
            "a:65536",
            "::1:80",
            "[::1]",
            "[a]:80",
            "1.2.3:80",
            "a b:80",
            "unix:",
            "https://",
            "https://a",
            "ftp://a:80",
        ] {
            let error = text.parse::<Listen>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("found {text:?}, expected an address")),
                "{error}"
            );
        }
    }
}
