//! URLs of Redis servers.

use std::{fmt, str::FromStr};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

/// The default port.
const PORT: u16 = 6379;
/// The user name for servers that have only a password.
const DEFAULT_USER: &str = "default";

/// A Redis server, a database, and credentials: `redis://user:password@host:6379/0`, or `rediss:` with TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    pub(crate) is_encrypted: bool,
}

/// Why a text is not such a URL. Does not quote the text, which may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a URL such as \"redis://user:password@host:6379/0\", or with `rediss:` for TLS: {reason}")]
pub struct UrlError {
    /// The rule that it violates.
    pub reason: String,
}

impl FromStr for RedisUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let wrong = |reason: &str| UrlError {
            reason: reason.to_owned(),
        };
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        let is_encrypted = match url.scheme() {
            "redis" => false,
            "rediss" => true,
            other => return Err(wrong(&format!("it begins with {other:?}"))),
        };
        let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| wrong("it has no host"))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("nothing follows the database"));
        }
        let database = match url.path().trim_start_matches('/') {
            "" => 0,
            number => number.parse().map_err(|_| wrong("its database is a number"))?,
        };
        Ok(Self {
            host: decoded(host.trim_start_matches('[').trim_end_matches(']')),
            port: url.port().unwrap_or(PORT),
            user: decoded(url.username()),
            password: url.password().map(decoded),
            database,
            is_encrypted,
        })
    }
}

impl RedisUrl {
    /// User and password, if given.
    pub(crate) fn login(&self) -> Option<(&str, &str)> {
        let user = if self.user.is_empty() {
            DEFAULT_USER
        } else {
            &self.user
        };
        self.password.as_deref().map(|password| (user, password))
    }
}

impl fmt::Display for RedisUrl {
    /// Omits the password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.is_encrypted {
            "rediss://"
        } else {
            "redis://"
        })?;
        if !self.user.is_empty() {
            write!(out, "{}@", utf8_percent_encode(&self.user, NON_ALPHANUMERIC))?;
        }
        if self.host.contains(':') {
            write!(out, "[{}]", self.host)?;
        } else {
            out.write_str(&self.host)?;
        }
        write!(out, ":{}/{}", self.port, self.database)
    }
}

impl fmt::Debug for RedisUrl {
    /// Omits the password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_url_says_who_connects_to_what_and_hides_the_password() {
        let url: RedisUrl = "rediss://a%40b:p%3Aq@[::1]:99/3".parse().unwrap();
        assert_eq!((&*url.host, url.port, url.database), ("::1", 99, 3));
        assert_eq!(url.login(), Some(("a@b", "p:q")));
        assert_eq!(format!("{url:?}"), "rediss://a%40b@[::1]:99/3");
        let url: RedisUrl = "redis://:secret@cache".parse().unwrap();
        assert_eq!(url.login(), Some(("default", "secret")));
        assert_eq!(url.to_string(), "redis://cache:6379/0");
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_it() {
        for (text, part) in [
            ("localhost:6379", "it begins with \"localhost\""),
            ("http://:secret@h", "it begins with \"http\""),
            ("redis://", "no host"),
            ("redis://:secret@h/x", "its database is a number"),
            ("redis://:secret@h/1?a=b", "nothing follows"),
        ] {
            let error = text.parse::<RedisUrl>().unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        }
    }
}
