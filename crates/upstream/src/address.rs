//! Where a server listens, and what it speaks.

use std::{fmt, net::Ipv6Addr, path::PathBuf, str::FromStr};

/// A server's address: `http://host:port`, `https://host:port`, `h2c://host:port` or `unix:path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where it listens.
    pub transport: Transport,
    /// Whether connections are encrypted.
    pub is_tls: bool,
    /// Whether the server is spoken to in HTTP/2 from the first byte (prior knowledge: RFC 9113, 3.3).
    pub is_http2: bool,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A host name or an IP address (IPv6 without brackets), and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A text that is not the address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {text:?}, expected a server such as \"http://127.0.0.1:3000\", \"https://app.example:443\", \"h2c://[::1]:3000\" or \"unix:app.socket\", without a path"
)]
pub struct AddressError {
    text: String,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError {
            text: text.to_owned(),
        };
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self {
                transport: Transport::Unix(path.into()),
                is_tls: false,
                is_http2: false,
            });
        }
        let (scheme, authority) = text.split_once("://").ok_or_else(error)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (is_tls, is_http2) = match scheme {
            "http" => (false, false),
            "https" => (true, false),
            "h2c" => (false, true),
            _ => return Err(error()),
        };
        let parsed: http::uri::Authority = authority.parse().map_err(|_| error())?;
        let host = parsed.host();
        let (_, after_host) = authority.split_once(host).ok_or_else(error)?;
        let port = match (after_host, parsed.port_u16()) {
            ("", _) if is_tls => 443,
            ("", _) => 80,
            (_, port) => port.filter(|port| *port > 0).ok_or_else(error)?,
        };
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(v6) => v6.parse::<Ipv6Addr>().map_err(|_| error())?.to_string(),
            None => host.to_owned(),
        };
        if host.is_empty() || authority.contains('@') {
            return Err(error());
        }
        Ok(Self {
            transport: Transport::Tcp(host, port),
            is_tls,
            is_http2,
        })
    }
}

impl Address {
    /// The value of a Host field for this server.
    pub fn authority(&self) -> String {
        match &self.transport {
            Transport::Unix(_) => "localhost".to_owned(),
            Transport::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            Transport::Tcp(host, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self {
            Self { is_tls: true, .. } => "https",
            Self { is_http2: true, .. } => "h2c",
            _ => "http",
        };
        match &self.transport {
            Transport::Unix(path) => write!(f, "unix:{}", path.display()),
            Transport::Tcp(..) => write!(f, "{scheme}://{}", self.authority()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_printed_as_it_is_read() {
        for text in [
            "http://127.0.0.1:3000",
            "https://app.example:443",
            "h2c://[::1]:3000",
            "unix:/run/app",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("http://a".parse::<Address>().unwrap().to_string(), "http://a:80");
        assert_eq!(
            "https://a/".parse::<Address>().unwrap().to_string(),
            "https://a:443"
        );
    }

    #[test]
    fn what_names_no_server_is_refused() {
        for text in [
            "",
            "a:80",
            "http://",
            "http://a:0",
            "http://a:b",
            "http://a:99999",
            "http://u@a:1",
            "http://a/b",
            "ftp://a",
            "unix:",
            "http://[a]:1",
            "http://a:",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
