//! Requests to other HTTP servers, as a reverse proxy sends them: a [`Group`] of equal servers, of which one is chosen for each request; the
//! [`Connections`] that one thread keeps to them; and the [`Exchange`] of one request and its response on such a connection.
//!
//! A connection of HTTP/1.1 has no task of its own: the task that waits for its response drives it, which saves a switch between tasks.
//! Connections of HTTP/2 carry many exchanges and have a task each, on the thread's [`LocalSet`](tokio::task::LocalSet).

#![forbid(unsafe_code)]

mod address;
mod body;
mod connection;
mod exchange;
mod group;
mod health;

use std::time::Duration;

pub use self::{
    address::{Address, AddressError, Transport},
    connection::{Connection, Connections, Stream, connect},
    exchange::{Exchange, Tunnel},
    group::{Balance, Group, HealthCheck, Lease, Server, ServerCounts, Settings},
};

/// Why a server gave no response, or only a part of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No server is up.
    #[error("no server of `{group}` is up")]
    NoneUp {
        /// The name of the group.
        group: String,
    },
    /// Every server has as many requests as it may have.
    #[error("every server of `{group}` has {in_flight_max} requests already (in_flight_max)")]
    Full {
        /// The name of the group.
        group: String,
        /// The most requests that one server may have.
        in_flight_max: usize,
    },
    /// No connection could be made.
    #[error("cannot connect to {server}: {cause}")]
    Connect {
        /// The server's address.
        server: String,
        /// The cause, as the system or the TLS library says it.
        cause: String,
    },
    /// No connection was made in time.
    #[error("{server} accepted no connection within {connect_timeout:?} (connect_timeout)")]
    ConnectTimeout {
        /// The server's address.
        server: String,
        /// The longest wait for a connection.
        connect_timeout: Duration,
    },
    /// The connection ended before the response began.
    #[error("{server} closed the connection before it answered")]
    Closed {
        /// The server's address.
        server: String,
        /// Whether the server cannot have read any of the request.
        is_unsent: bool,
    },
    /// The response is not valid HTTP.
    #[error("the response of {server} is not valid HTTP: {cause}")]
    Invalid {
        /// The server's address.
        server: String,
        /// The reason.
        cause: String,
    },
    /// The response ended before its body did.
    #[error("{server} cut its response off: {cause}")]
    CutOff {
        /// The server's address.
        server: String,
        /// The cause, as the HTTP library says it.
        cause: String,
    },
    /// The response had not begun when the request had to be answered.
    #[error("{server} had not answered by the request's deadline (deadline)")]
    Late {
        /// The server's address.
        server: String,
    },
    /// The rest of the response did not come in time.
    #[error("{server} sent nothing for {read_timeout:?} (read_timeout)")]
    Stalled {
        /// The server's address.
        server: String,
        /// The longest wait for a part of the body.
        read_timeout: Duration,
    },
}

impl Failure {
    /// Whether there was no connection by which anything could have been sent.
    pub fn is_unconnected(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::ConnectTimeout { .. })
    }

    /// Whether the request may be sent again: to another server, or on another connection. Without knowing that the server cannot have acted on
    /// it, only an idempotent one may (RFC 9110, 9.2.2).
    pub fn may_retry(&self, is_idempotent: bool) -> bool {
        match self {
            _ if self.is_unconnected() => true,
            Self::Closed { is_unsent, .. } => *is_unsent || is_idempotent,
            Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::NoneUp { .. }
            | Self::Full { .. }
            | Self::Invalid { .. }
            | Self::CutOff { .. }
            | Self::Late { .. }
            | Self::Stalled { .. } => false,
        }
    }
}
