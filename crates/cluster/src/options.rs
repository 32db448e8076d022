//! The settings of a cluster, named as in `[cluster]` of the configuration.

use std::{fmt, path::PathBuf, str::FromStr};

use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;

/// How a process takes part in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where NATS listens, and who connects.
    pub nats: NatsServers,
    /// A file with a user's JWT and seed, for a process that connects with these.
    pub credentials: Option<PathBuf>,
    /// The cluster's name, a part of all its subjects: letters, digits, `-` and `_`.
    pub name: String,
    /// A PEM file with the authorities of the servers' certificates; `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// A PEM file with a certificate of this process, for servers that ask for one.
    pub cert: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// Copies that JetStream has of durable jobs; `None`: each process has its own, in its store.
    pub job_replicas: Option<usize>,
}

/// Addresses of NATS servers: `nats://user:password@host:4222`, or `tls:` for servers that are reached with TLS alone; several are separated
/// by commas. A name without a password is a token. All have the credentials of the first one.
#[derive(Clone, PartialEq, Eq)]
pub struct NatsServers(Vec<ServerAddr>);

impl NatsServers {
    pub(crate) fn addresses(&self) -> &[ServerAddr] {
        &self.0
    }

    /// Name and password, if given; a token has no password.
    pub(crate) fn login(&self) -> Option<(String, Option<String>)> {
        let decoded = |part| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let first = self.0.first()?;
        Some((decoded(first.username()?), first.password().map(decoded)))
    }
}

impl FromStr for NatsServers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |reason: &str| {
            format!(
                "is not a URL such as \"nats://user:password@host:4222\", nor several with commas between: {reason}"
            )
        };
        let servers = text.split(',').map(|one| {
            let one = one.trim();
            let address: ServerAddr = one
                .parse()
                .map_err(|error: std::io::Error| wrong(&error.to_string()))?;
            if !one.contains("://") || address.is_websocket() {
                return Err(wrong("each begins with `nats://` or `tls://`"));
            }
            if address.host().is_empty() {
                return Err(wrong("it has no host"));
            }
            Ok(address)
        });
        servers.collect::<Result<_, _>>().map(Self)
    }
}

/// Without passwords and tokens.
impl fmt::Display for NatsServers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, address) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let login = match (address.username(), address.password()) {
                (None, _) => String::new(),
                (Some(_), None) => "***@".to_owned(),
                (Some(user), Some(_)) => format!("{user}:***@"),
            };
            let host = address.host();
            let host = if host.contains(':') {
                format!("[{host}]")
            } else {
                host.to_owned()
            };
            write!(
                out,
                "{comma}{}://{login}{host}:{}",
                address.scheme(),
                address.port()
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for NatsServers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_printed_without_secrets() {
        let shown = |text: &str| text.parse::<NatsServers>().unwrap().to_string();
        assert_eq!(shown("nats://a"), "nats://a:4222");
        assert_eq!(
            shown("tls://ada:secret@a:1, nats://[::1]:2"),
            "tls://ada:***@a:1,nats://[::1]:2"
        );
        assert_eq!(shown("nats://token@a"), "nats://***@a:4222");
    }

    #[test]
    fn credentials_may_have_any_letters() {
        let login = |text: &str| text.parse::<NatsServers>().unwrap().login();
        let ada = ("a@b".to_owned(), Some("p/q:ü".to_owned()));
        assert_eq!(login("nats://a%40b:p%2Fq:%C3%BC@h,nats://other"), Some(ada));
        assert_eq!(login("nats://t%2Bk@h"), Some(("t+k".to_owned(), None)));
        assert_eq!(login("nats://h"), None);
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for text in [
            "",
            "secret",
            "http://secret",
            "ws://secret",
            "nats://",
            "nats://a,",
        ] {
            let error = text.parse::<NatsServers>().unwrap_err();
            assert!(
                error.starts_with("is not a URL") && !error.contains("secret"),
                "{text}: {error}"
            );
        }
    }
}
