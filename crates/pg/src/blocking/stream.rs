//! The byte stream of a connection, with or without TLS, read and written with timeouts.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs as _},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};
use rustls::{ClientConnection, StreamOwned};

use crate::{
    PgError, Stage,
    protocol::{wants_tls, write_tls_request},
    settings::ServerUrl,
    tls,
};

/// How much longer than its limit a write may take: the socket's timeout is only changed when it is off by more than
/// that.
const SLACK: Duration = Duration::from_millis(50);

/// The byte stream of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    channel: Channel,
    /// Timeouts set on the socket. Setting them again for each statement would cost as much as a read.
    read_limit: Option<Duration>,
    write_limit: Option<Duration>,
}

/// A socket, with or without TLS.
#[derive(Debug)]
enum Channel {
    Plain(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl From<Channel> for Stream {
    fn from(channel: Channel) -> Self {
        Self {
            channel,
            read_limit: None,
            write_limit: None,
        }
    }
}

impl Stream {
    /// Connects; `until` also limits the reads and writes of the TLS handshake.
    pub(super) fn connect(server: &ServerUrl, until: Instant) -> Result<Self, PgError> {
        let mut failure = None;
        let mut addresses = (&*server.host, server.port).to_socket_addrs()?;
        let stream = addresses.find_map(|address| {
            TcpStream::connect_timeout(&address, left(until).ok()?)
                .inspect_err(|error| failure = Some(error.to_string()))
                .ok()
        });
        let mut stream = match (stream, failure) {
            (Some(stream), _) => stream,
            (None, _) if left(until).is_err() => return Err(late()),
            (None, failure) => {
                return Err(PgError::Broken {
                    reason: failure.unwrap_or_else(|| "its name has no address".into()),
                });
            }
        };
        stream.set_nodelay(true)?;
        let Some(tls) = &server.tls else {
            return Ok(Channel::Plain(stream).into());
        };
        let (config, name) = tls.load(&server.host)?;
        stream.set_read_timeout(Some(left(until)?))?;
        stream.set_write_timeout(Some(left(until)?))?;
        let mut out = BytesMut::new();
        write_tls_request(&mut out);
        stream.write_all(&out)?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        wants_tls(answer[0])?;
        let mut client =
            ClientConnection::new(config, name).map_err(|error| tls::refused(&io::Error::other(error)))?;
        while client.is_handshaking() {
            stream.set_read_timeout(Some(left(until)?))?;
            client
                .complete_io(&mut stream)
                .map_err(|error| match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late(),
                    _ => tls::refused(&error),
                })?;
        }
        Ok(Channel::Secured(Box::new(StreamOwned::new(client, stream))).into())
    }

    /// Channel binding data, which ties a password to the server's certificate.
    pub(super) fn end_point(&self) -> Option<Vec<u8>> {
        match &self.channel {
            Channel::Plain(_) => None,
            Channel::Secured(stream) => tls::end_point(stream.conn.peer_certificates()),
        }
    }

    /// Whether the server has neither closed the idle connection nor sent anything.
    pub(super) fn is_quiet(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(self.socket(), &mut [0], flags).is_err_and(|error| error == Errno::AGAIN)
    }

    /// Sends all bytes.
    pub(super) fn send(&mut self, bytes: &[u8], until: Instant) -> Result<(), PgError> {
        let left = left(until)?;
        if self
            .write_limit
            .is_none_or(|limit| limit > left + SLACK || limit * 2 < left)
        {
            self.socket().set_write_timeout(Some(left))?;
            self.write_limit = Some(left);
        }
        let written = match &mut self.channel {
            Channel::Plain(stream) => stream.write_all(bytes),
            Channel::Secured(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        // Nothing can follow a message that was sent only in part.
        written.map_err(PgError::from)
    }

    /// Reads once; `None` if nothing arrives within `wait`.
    pub(super) fn receive(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Option<usize>, PgError> {
        if self.read_limit != Some(wait) {
            self.socket().set_read_timeout(Some(wait))?;
            self.read_limit = Some(wait);
        }
        let read = match &mut self.channel {
            Channel::Plain(stream) => stream.read(buffer),
            Channel::Secured(stream) => stream.read(buffer),
        };
        match read {
            Ok(0) => Err(PgError::Broken {
                reason: "the server has closed it".into(),
            }),
            Ok(count) => Ok(Some(count)),
            Err(error) if is_late(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn socket(&self) -> &TcpStream {
        match &self.channel {
            Channel::Plain(stream) => stream,
            Channel::Secured(stream) => &stream.sock,
        }
    }
}

/// Whether nothing has arrived so far: a signal interrupts a wait with a timeout, too.
fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// The time left until then; an error if there is none.
pub(super) fn left(until: Instant) -> Result<Duration, PgError> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(late()) } else { Ok(left) }
}

/// The caller knows its time limit and fills it in.
pub(super) fn late() -> PgError {
    PgError::TimedOut {
        what: Stage::Statement,
        limit: Duration::ZERO,
    }
}
