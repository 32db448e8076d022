//! Targets of requests: URLs as they are typed, and the addresses behind them.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// A parsed `http` or `https` URL. The path and query stay as they were typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether it is `https`.
    pub tls: bool,
    /// Host name or IP address, without brackets.
    pub host: String,
    /// The port as given, or the scheme's default.
    pub port: u16,
    /// Path and query, at least `/`.
    pub path_and_query: String,
}

/// Why a text is not a URL that can be loaded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// Not a URL at all.
    #[error("`{text}` is not a URL: {what}")]
    Malformed {
        /// The text as given.
        text: String,
        /// Description of the error.
        what: String,
    },
    /// A scheme other than `http` and `https`.
    #[error("`{text}` has the scheme `{scheme}`; accepted are http and https")]
    Scheme {
        /// The text as given.
        text: String,
        /// The scheme found in it.
        scheme: String,
    },
}

impl Url {
    /// Parses a URL. Without a scheme it is `http`: `localhost:8080/local`.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let malformed = |what: &dyn std::fmt::Display| UrlError::Malformed {
            text: text.to_owned(),
            what: what.to_string(),
        };
        let whole = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let without_fragment = whole.split('#').next().unwrap_or_default();
        let uri: http::Uri = without_fragment.parse().map_err(|error| malformed(&error))?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let tls = match scheme {
            "http" => false,
            "https" => true,
            other => {
                return Err(UrlError::Scheme {
                    text: text.to_owned(),
                    scheme: other.to_owned(),
                });
            }
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| malformed(&"it names no host"))?;
        let has_port = uri
            .authority()
            .is_some_and(|authority| !authority.as_str().ends_with(host));
        if has_port && uri.port_u16().is_none() {
            return Err(malformed(&"its port is not a number from 0 to 65535"));
        }
        let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str());
        // They would be shown wherever the URL is.
        if uri
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err(malformed(&"credentials before the host; --user takes them"));
        }
        Ok(Self {
            tls,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            path_and_query: if path_and_query.starts_with('/') {
                path_and_query.to_owned()
            } else {
                format!("/{path_and_query}")
            },
        })
    }

    /// Host and port as in a Host field: without the scheme's default port.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == if self.tls { 443 } else { 80 } {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }

    /// The first address that the system's resolver returns for the host. Blocks.
    pub fn resolve(&self) -> std::io::Result<SocketAddr> {
        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        addresses
            .next()
            .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address"))
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path_and_query)
    }
}

/// Whether an address is on this machine: loading any other needs a permission of its own.
pub fn is_local(address: &SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.to_canonical().is_loopback() || ip.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_they_are_typed() {
        for (text, shown, host, port) in [
            (
                "http://localhost:8080/local",
                "http://localhost:8080/local",
                "localhost",
                8080,
            ),
            ("localhost:8080", "http://localhost:8080/", "localhost", 8080),
            ("http://h?x=1#part", "http://h/?x=1", "h", 80),
            ("https://[::1]:443/a%20b", "https://[::1]/a%20b", "::1", 443),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (url.to_string().as_str(), url.host.as_str(), url.port),
                (shown, host, port)
            );
        }
    }

    #[test]
    fn what_is_no_url_is_refused_with_its_reason() {
        assert!(matches!(Url::parse("ftp://h/"), Err(UrlError::Scheme { scheme, .. }) if scheme == "ftp"));
        for text in [
            "",
            "http://",
            "http://h:99999/",
            "http://a b/",
            "http://ann:secret@h/",
        ] {
            assert!(
                matches!(Url::parse(text), Err(UrlError::Malformed { .. })),
                "{text:?}"
            );
        }
    }

    #[test]
    fn only_loopback_addresses_are_local() {
        let local = |text: &str| is_local(&text.parse().unwrap());
        assert!(local("127.0.0.9:1") && local("[::1]:1") && local("[::ffff:127.0.0.1]:1"));
        assert!(!local("10.0.0.1:1") && !local("[2001:db8::1]:1"));
    }
}
