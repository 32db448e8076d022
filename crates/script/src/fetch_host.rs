//! Which hosts a script may fetch from, as a configuration names them.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use url::Url;

/// A name or address, with a port unless it is that of the scheme; `*.` before it stands for any name before the dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchHost {
    /// All of it, in lower case.
    text: String,
    /// Where the name begins, and where it ends: with `*.`, it begins with the dot.
    name: std::ops::Range<usize>,
    port: Option<u16>,
}

/// That a text names no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no host: expected a name or address, with a port unless it is 80 or 443, such as `api.example.org`, `127.0.0.1:9000` or \
     `*.example.com`"
)]
pub struct NoHost {
    /// The text.
    pub text: String,
}

impl FromStr for FetchHost {
    type Err = NoHost;

    fn from_str(text: &str) -> Result<Self, NoHost> {
        let no_host = || NoHost {
            text: text.to_owned(),
        };
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (text, None),
        };
        let start = usize::from(name.starts_with("*."));
        // Without the star and its dot.
        let whole = name.strip_prefix("*.").unwrap_or(name);
        let is_name = match whole.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => {
                !whole.is_empty()
                    && whole
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            }
        };
        let port = port.map(str::parse).transpose().map_err(|_| no_host())?;
        if !is_name || port == Some(0) {
            return Err(no_host());
        }
        Ok(Self {
            text: text.to_ascii_lowercase(),
            name: start..name.len(),
            port,
        })
    }
}

impl fmt::Display for FetchHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FetchHost {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether an address is one of these.
    pub(crate) fn is_of(&self, url: &Url) -> bool {
        let has_port = match self.port {
            Some(port) => url.port_or_known_default() == Some(port),
            // The parser leaves out the port that is the scheme's own.
            None => url.port().is_none(),
        };
        // The parser has made it lower case.
        let host = url.host_str().unwrap_or_default();
        let name = &self.text[self.name.clone()];
        let has_name = if self.name.start == 0 {
            host == name
        } else {
            host.len() > name.len() && host.ends_with(name)
        };
        has_port && has_name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(url: &str, entries: &[&str]) -> bool {
        let url = Url::parse(url).unwrap();
        let mut hosts = entries.iter().map(|entry| entry.parse::<FetchHost>().unwrap());
        hosts.any(|host| host.is_of(&url))
    }

    #[test]
    fn an_entry_names_a_host_and_a_port_or_those_of_the_schemes() {
        let entries = ["api.example.org", "127.0.0.1:9000", "[::1]:80", "[::1]"];
        for url in [
            "http://api.example.org/a",
            "https://api.example.org:443/",
            "https://API.example.org",
            "http://127.0.0.1:9000/",
            "http://[::1]/",
            "https://[::1]/",
        ] {
            assert!(allowed(url, &entries), "{url}");
        }
        for url in [
            "http://api.example.org:8080/",
            "http://example.org/",
            "http://xapi.example.org/",
            "http://127.0.0.1/",
            "http://127.0.0.1:9001/",
            "http://api.example.org.evil.net/",
            "http://api.example.org@evil.net/",
        ] {
            assert!(!allowed(url, &entries), "{url}");
        }
    }

    #[test]
    fn a_star_stands_for_any_name_before_the_rest() {
        let entries = ["*.example.com"];
        assert!(allowed("http://a.example.com/", &entries));
        assert!(allowed("http://a.b.EXAMPLE.com/", &entries));
        for url in [
            "http://example.com/",
            "http://.example.com/",
            "http://badexample.com/",
            "http://a.example.com:81/",
        ] {
            assert!(!allowed(url, &entries), "{url}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for entry in [
            "a.example",
            "127.0.0.1:9000",
            "*.example.com",
            "[::1]",
            "[::1]:80",
            "localhost:1",
        ] {
            assert!(entry.parse::<FetchHost>().is_ok(), "{entry}");
        }
        for entry in [
            "",
            "*",
            "http://a.example",
            "a.example/",
            "a.example:",
            "a:70000",
            "::1",
            "[::1",
            "a b",
            "a:0",
        ] {
            assert!(entry.parse::<FetchHost>().is_err(), "{entry}");
        }
    }
}
