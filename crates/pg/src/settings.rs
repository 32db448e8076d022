//! Settings of a source: its server and its limits.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use crate::tls::Tls;

/// Default port.
const PORT: u16 = 5432;
/// Value of `application_name` for all connections (manual, 20.8).
const APPLICATION: &str = "forebay";

/// How statements are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Many in progress on few connections; each thread has its own.
    Pipelined,
    /// One at a time on each connection, on threads that wait.
    Blocking,
}

impl Driver {
    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pipelined => "async",
            Self::Blocking => "blocking",
        }
    }
}

/// A source's server and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Server, database and user.
    pub server: ServerUrl,
    /// Driver that runs its statements.
    pub driver: Driver,
    /// Most connections of all threads, including those of streams and transactions, which always have at least one.
    /// Each thread (pipelined) or all statements together (blocking) also have at least one.
    pub connections_max: usize,
    /// Connections for statements that are opened with the first one and kept. Blocking driver only.
    pub connections_min: usize,
    /// Age at which an idle connection is replaced, up to a tenth earlier so that not all are replaced at once. Does
    /// not apply to pipelined connections.
    pub connection_age_max: Duration,
    /// Idle time after which a connection is closed. Does not apply to pipelined connections.
    pub idle_timeout: Duration,
    /// Time after which the log warns that a stream or transaction still has its connection.
    pub leak_warning: Duration,
    /// Most statements running and waiting, in all threads; further ones are rejected.
    pub in_flight_max: usize,
    /// Largest result that is held in memory, in bytes; larger ones must be streamed.
    pub result_bytes_max: usize,
    /// Longest time a statement waits for a connection.
    pub acquire_timeout: Duration,
    /// Longest time from opening a connection to its first statement.
    pub connect_timeout: Duration,
    /// Statements that take at least this long are logged.
    pub slow_query: Option<Duration>,
    /// Longest time from a statement's beginning to its last row.
    pub statement_timeout: Duration,
}

/// How much later than this client the server itself ends a statement.
const SERVER_TIMEOUT_LATER: Duration = Duration::from_secs(1);

impl Settings {
    /// Statement timeout on the server; statements cancelled by this client never reach it.
    pub(crate) fn server_timeout(&self) -> Duration {
        self.statement_timeout + SERVER_TIMEOUT_LATER
    }
}

/// Parameters of a URL, decoded: names and values.
pub type UrlParameters = Vec<(String, String)>;

/// A server, a database on it, and the user.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// Host name or address.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    pub(crate) application: String,
    /// How to verify the server's certificate; `None` for a connection without TLS.
    pub(crate) tls: Option<Tls>,
}

/// Why a text is not a valid server URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL.
    #[error("is not a URL such as \"postgres://user:password@host:5432/database\": {reason}")]
    Url {
        /// Description of the error.
        reason: String,
    },
    /// A part is missing.
    #[error("has no {part}; it is written as \"postgres://user:password@host:5432/database\"")]
    Missing {
        /// Name of the missing part.
        part: &'static str,
    },
    /// An unknown parameter.
    #[error("has the parameter {name:?}; known are `sslmode`, `sslrootcert` and `application_name`")]
    Parameter {
        /// Name of the parameter.
        name: String,
    },
    /// Certificate authorities for a connection without TLS.
    #[error("has both sslmode=disable and sslrootcert")]
    RootsUnused,
    /// An unsupported encryption mode.
    #[error("has sslmode={found}; known are \"verify-full\", which is the default, and \"disable\"")]
    SslMode {
        /// Value of `sslmode`.
        found: String,
    },
}

impl ServerUrl {
    /// `host:5432`, as in a URL.
    pub fn host_and_port(&self) -> String {
        let (host, port) = (&self.host, self.port);
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }

    /// The URL including the password, for clients that connect with it.
    pub fn with_password(&self) -> String {
        let url = self.to_string();
        let Some(password) = &self.password else {
            return url;
        };
        let password = utf8_percent_encode(password, NON_ALPHANUMERIC);
        let (user, rest) = url.split_once('@').expect("it is written so");
        format!("{user}:{password}@{rest}")
    }
}

impl std::fmt::Debug for ServerUrl {
    /// Without the password.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.to_string())
    }
}

impl std::fmt::Display for ServerUrl {
    /// Without the password.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let encoded = |part| utf8_percent_encode(part, NON_ALPHANUMERIC);
        write!(
            formatter,
            "postgres://{}@{}/{}?sslmode={}",
            encoded(&self.user),
            self.host_and_port(),
            encoded(&self.database),
            if self.tls.is_some() {
                "verify-full"
            } else {
                "disable"
            }
        )?;
        if let Some(roots) = self.tls.as_ref().and_then(Tls::roots) {
            write!(formatter, "&sslrootcert={}", encoded(roots))?;
        }
        if self.application != APPLICATION {
            write!(formatter, "&application_name={}", encoded(&self.application))?;
        }
        Ok(())
    }
}

impl std::str::FromStr for ServerUrl {
    type Err = UrlError;

    /// Parses `postgres://user:password@host:5432/database`; special characters in a part are percent-encoded.
    ///
    /// Connections use TLS: the server's certificate must be signed by an authority that the system trusts, or by one
    /// in the file `sslrootcert`, and be valid for the host's name (`sslmode=verify-full`). `sslmode=disable` turns TLS
    /// off. Modes in between are not supported, because without verifying the certificate a client does not know which
    /// server it talks to.
    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::read(text, &[], &mut Vec::new())
    }
}

impl ServerUrl {
    /// Parses a URL that may name several hosts, `postgres://user@a:5432,b:5432/database`, and have these additional
    /// parameters; returns a URL for each host, and the values of those parameters.
    pub fn several(text: &str, parameters: &[&str]) -> Result<(Vec<Self>, UrlParameters), UrlError> {
        let begin = text.find("://").map_or(0, |at| at + 3);
        let authority = &text[begin..];
        let authority = &authority[..authority.find(['/', '?', '#']).unwrap_or(authority.len())];
        let hosts = authority.rfind('@').map_or(authority, |at| &authority[at + 1..]);
        let begin = begin + authority.len() - hosts.len();
        let (before, after) = (&text[..begin], &text[begin + hosts.len()..]);
        let mut values = Vec::new();
        let servers = hosts.split(',').map(|host| {
            values.clear();
            Self::read(&format!("{before}{host}{after}"), parameters, &mut values)
        });
        Ok((servers.collect::<Result<_, _>>()?, values))
    }

    fn read(text: &str, parameters: &[&str], values: &mut UrlParameters) -> Result<Self, UrlError> {
        let url = Url::parse(text).map_err(|error| UrlError::Url {
            reason: error.to_string(),
        })?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(UrlError::Url {
                reason: format!("it begins with {:?}", url.scheme()),
            });
        }
        let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let present = |part: &str, name| {
            if part.is_empty() {
                Err(UrlError::Missing { part: name })
            } else {
                Ok(decoded(part))
            }
        };
        let host = present(url.host_str().unwrap_or_default(), "host")?;
        let mut read = Self {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: url.port().unwrap_or(PORT),
            user: present(url.username(), "user")?,
            password: url.password().map(decoded),
            database: present(url.path().trim_start_matches('/'), "database")?,
            application: APPLICATION.to_owned(),
            tls: None,
        };
        let mut roots = None;
        let mut sslmode = "verify-full".to_owned();
        for (name, value) in url.query_pairs() {
            match &*name {
                "application_name" => read.application = value.into_owned(),
                "sslrootcert" => roots = Some(value.into_owned()),
                "sslmode" => sslmode = value.into_owned(),
                name if parameters.contains(&name) => values.push((name.to_owned(), value.into_owned())),
                _ => {
                    return Err(UrlError::Parameter {
                        name: name.into_owned(),
                    });
                }
            }
        }
        read.tls = match (&*sslmode, roots) {
            ("verify-full", roots) => Some(Tls::new(roots)),
            ("disable", None) => None,
            ("disable", Some(_)) => return Err(UrlError::RootsUnused),
            _ => return Err(UrlError::SslMode { found: sslmode }),
        };
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServerUrl, String> {
        text.parse::<ServerUrl>().map_err(|error| error.to_string())
    }

    #[test]
    fn a_url_says_who_connects_to_what_and_hides_the_password() {
        let read = read("postgres://a%40b:p%3Aq@[::1]:99/d%2Fe?sslmode=disable&application_name=x").unwrap();
        assert_eq!(
            (&*read.host, read.port, &*read.user, read.password.as_deref()),
            ("::1", 99, "a@b", Some("p:q"))
        );
        assert_eq!((&*read.database, &*read.application), ("d/e", "x"));
        assert_eq!(
            format!("{read:?}"),
            "postgres://a%40b@[::1]:99/d%2Fe?sslmode=disable&application_name=x"
        );
        let told = read.with_password();
        assert_eq!(
            told,
            "postgres://a%40b:p%3Aq@[::1]:99/d%2Fe?sslmode=disable&application_name=x"
        );
        assert_eq!(told.parse(), Ok(read), "for whoever is to connect");
    }

    #[test]
    fn a_url_with_several_hosts_is_one_for_each() {
        let several = |text| ServerUrl::several(text, &["schema"]).map_err(|error| error.to_string());
        let (servers, values) =
            several("postgres://u:a%2Cb@a:1,b,[::1]:2/d?schema=s&sslmode=disable").unwrap();
        let servers: Vec<String> = servers.iter().map(ServerUrl::with_password).collect();
        let expected =
            ["a:1", "b:5432", "[::1]:2"].map(|host| format!("postgres://u:a%2Cb@{host}/d?sslmode=disable"));
        assert_eq!(servers, expected);
        assert_eq!(values, [("schema".to_owned(), "s".to_owned())]);
        let (servers, values) = several("postgres://u@h/d").unwrap();
        assert_eq!((servers.len(), values.len()), (1, 0));
        for wrong in ["postgres://u@a,,b/d", "postgres://u@a:x,b/d", "nothing", ""] {
            assert!(several(wrong).is_err(), "{wrong}");
        }
        assert!(several("postgres://u@a,b/d?pool=5").unwrap_err().contains("pool"));
    }

    #[test]
    fn connections_are_encrypted_unless_the_url_says_otherwise() {
        let plain = read("postgres://u@h/d?sslmode=disable").unwrap();
        assert!(plain.tls.is_none());
        let secured = read("postgres://u@h/d").unwrap();
        assert_eq!(secured.to_string(), "postgres://u@h:5432/d?sslmode=verify-full");
        let trusting = read("postgres://u@h/d?sslmode=verify-full&sslrootcert=/a/b.pem").unwrap();
        assert_eq!(
            trusting.to_string(),
            "postgres://u@h:5432/d?sslmode=verify-full&sslrootcert=%2Fa%2Fb%2Epem"
        );
        assert_eq!(read(&trusting.to_string()).unwrap(), trusting);
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        for (text, part) in [
            ("localhost", "is not a URL"),
            ("http://u@h/d", "it begins with \"http\""),
            ("postgres://h/d", "no user"),
            ("postgres://u@h", "no database"),
            ("postgres://u@h/d?sslmode=disable&sslrootcert=a", "both"),
            (
                "postgres://u@h/d?sslmode=disable&pool=5",
                "the parameter \"pool\"",
            ),
            ("postgres://u@h/d?sslmode=prefer", "sslmode=prefer"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
