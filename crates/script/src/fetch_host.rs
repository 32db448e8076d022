//! Hosts from which a script may fetch, as listed in the configuration.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use url::Url;

/// A name or address, with a port unless it is the default port of the scheme. A leading `*.` stands for any name before the dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchHost {
    /// The whole entry in lower case.
    text: String,
    /// The range of the name; with `*.`, it begins at the dot.
    name: std::ops::Range<usize>,
    port: Option<u16>,
}

/// The text is not a valid host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no host: expected a name or address, with a port unless it is 80 or 443, such as `api.example.org`, `127.0.0.1:9000` or \
     `*.example.com`"
)]
pub struct NoHost {
    /// The text as it was written.
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
        // The name without the leading `*.`.
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
    /// The entry as text, in lower case.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this entry allows to fetch from an address; `None` if the address is no URL.
    pub fn allows(&self, address: &str) -> Option<bool> {
        Some(self.is_of(&Url::parse(address).ok()?))
    }

    /// Whether a URL matches this entry.
    pub(crate) fn is_of(&self, url: &Url) -> bool {
        let has_port = match self.port {
            Some(port) => url.port_or_known_default() == Some(port),
            // The parser omits the scheme's default port.
            None => url.port().is_none(),
        };
        // The parser has converted it to lower case.
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
