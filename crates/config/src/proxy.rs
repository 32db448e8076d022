//! `[proxy.NAME]`

use std::path::PathBuf;
use std::time::Duration;

use forebay_upstream::{Address, Balance, HealthCheck, Settings, Transport};

use crate::build::Context;
use crate::fields::Fields;
use crate::key::HOUR;
use crate::pool::Retry;
use crate::section::{Entry, section, words};
use crate::setting::{Text, text_settings};

/// Most servers of a group.
const SERVERS_MAX: usize = 64;

section! {
    /// Other HTTP servers, to which routes with `proxy` pass requests on. NAME has 1 to 64 letters, digits, `-` and `_`.
    #[rules(Proxy::rules)]
    pub struct Proxy {
        /// At most 64 servers that answer alike: `http://127.0.0.1:3000`, `https://app.example:443` (HTTP/1.1 over TLS),
        /// `h2c://127.0.0.1:3000` (HTTP/2 without TLS) or `unix:app.socket`.
        servers: Vec<Address> as at_least(1),
        /// How one is chosen: that with the fewest requests in flight, or by a hash of the client's address or of the path, which leads to
        /// the same one for as long as it is up.
        balance: Balance = "least_in_flight",
        /// The Host field that the servers get. Without the key, it is the client's.
        host: Option<String>,
        /// A PEM file with the authorities that sign the servers' certificates. Without the key, those that the system trusts.
        ca: Option<PathBuf> as FILE,
        /// Requests that a server may have at a time.
        in_flight_max: usize as integer(1, 1_000_000) = "1024" => "503, if it holds for all of them",
        /// For a connection, TLS included.
        connect_timeout: Duration as TIMEOUT = "5s" => "the next server; 502 after three attempts",
        /// For the next part of a response's body. Its head has until the request's `deadline`.
        read_timeout: Duration as TIMEOUT = "1m" => "the response is cut off",
        /// How long a connection that has gone over to another protocol, such as WebSocket, may carry nothing.
        tunnel_timeout: Duration as TIMEOUT = "1h" => "it is closed",
        /// How long an unused connection of HTTP/1.1 is kept. A server that says in `Keep-Alive` that it keeps it for less is believed.
        idle_timeout: Duration as duration(1, HOUR) = "1m" => "it is closed",
        /// Unused connections to a server that each I/O thread keeps.
        idle_max: usize as integer(0, 10_000) = "64" => "the connection is closed",
        /// Whether an idempotent request whose server closed the connection before it answered is sent again. One that no server can have
        /// received always is. A request is tried three times at most, and not after 64 KiB of its body.
        retry: Retry = "idempotent" => "502",
        /// Failures in a row after which a server gets no requests for `fail_timeout`; 0: it gets them always. If all fail, they get them,
        /// too.
        fails_max: u32 as integer(0, 1_000) = "3",
        /// How long a server that fails gets no requests.
        fail_timeout: Duration as TIMEOUT = "10s",
        /// Requests of this server's own that find out which servers are up. Those that are not get no requests.
        check: Option<HealthCheck> => "503, if none is",
    }
}

section! {
    /// `proxy.NAME.check`
    #[rules(check_path)]
    for HealthCheck {
        /// The path of the request. A server is up if it answers with a status below 400.
        path: String,
        /// The time from an answer to the next request.
        interval: Duration as TIMEOUT = "5s",
        /// For an answer.
        timeout: Duration as TIMEOUT = "2s" => "the server is down",
    }
}

words! {
    for Balance {
        LeastInFlight = "least_in_flight",
        Client = "client",
        Path = "path",
    }
}

impl Proxy {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        let servers = fields.texts("servers").len();
        if servers > SERVERS_MAX {
            let message = format!("found {servers} servers, expected at most {SERVERS_MAX}");
            context.note(fields.problem("servers", message));
        }
        let texts = fields.texts("servers");
        for (at, server) in texts.iter().enumerate() {
            if texts[..at].iter().any(|other| other.text == server.text) {
                let message = format!("`{}` is listed twice", server.text);
                context.note(fields.problem_at(server.line, "servers", message));
            }
        }
        let is_host = |host: &&str| {
            let parsed = host.parse::<http::uri::Authority>();
            parsed.is_ok_and(|authority| !authority.as_str().contains('@'))
        };
        if let Some(host) = fields.text("host").filter(|host| !is_host(host)) {
            let message = format!("found {host:?}, expected a host such as \"app.example\"");
            context.note(fields.problem("host", message));
        }
    }

    /// How the servers are reached.
    pub fn settings(&self, name: &str) -> Settings {
        Settings {
            name: name.to_owned(),
            servers: self.servers.clone(),
            host: self.host.clone(),
            balance: self.balance,
            authorities: self.ca.clone(),
            connect_timeout: self.connect_timeout,
            read_timeout: self.read_timeout,
            idle_timeout: self.idle_timeout,
            idle_max: self.idle_max,
            in_flight_max: self.in_flight_max,
            fails_max: self.fails_max,
            fail_timeout: self.fail_timeout,
            check: self.check.clone(),
        }
    }
}

impl Text for Address {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        match written.parse::<Self>() {
            Ok(mut address) => {
                if let Transport::Unix(path) = &mut address.transport {
                    *path = context.resolve(entry.fields, &path);
                }
                Some(address)
            }
            Err(error) => {
                entry.note(context, line, error.to_string());
                None
            }
        }
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}
text_settings!(Address);

fn check_path(fields: &Fields, context: &mut Context<'_>) {
    check_request_path("path", fields, context);
}

/// Checks a path as it is sent to a server, if the key is written.
pub(crate) fn check_request_path(key: &str, fields: &Fields, context: &mut Context<'_>) {
    let Some(path) = fields.text(key) else { return };
    let is_path = path.starts_with('/') && path.parse::<http::uri::PathAndQuery>().is_ok();
    if !is_path || path.contains('#') {
        let message = format!("found {path:?}, expected a path such as \"/health\"");
        context.note(fields.problem(key, message));
    }
}
