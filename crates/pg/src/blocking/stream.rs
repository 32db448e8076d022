//! A connection's bytes, encrypted or not, read and written with time limits.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs as _},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use rustls::{ClientConnection, StreamOwned};

use crate::{
    PgError, Stage,
    protocol::{wants_tls, write_tls_request},
    settings::ServerUrl,
    tls,
};

/// A socket, or TLS on it.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects; its reads and writes until then have the same limit.
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
            return Ok(Self::Plain(stream));
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
        Ok(Self::Secured(Box::new(StreamOwned::new(client, stream))))
    }

    /// What binds a password to the server's certificate.
    pub(super) fn end_point(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(_) => None,
            Self::Secured(stream) => tls::end_point(stream.conn.peer_certificates()),
        }
    }

    /// Whether the server has neither closed it nor said anything while nothing was asked.
    pub(super) fn is_quiet(&self) -> bool {
        let socket = self.socket();
        let is_quiet = || {
            socket.set_nonblocking(true)?;
            let peeked = socket.peek(&mut [0]);
            socket.set_nonblocking(false)?;
            Ok::<_, io::Error>(peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
        };
        is_quiet().unwrap_or(false)
    }

    /// Writes all of it.
    pub(super) fn send(&mut self, bytes: &[u8], until: Instant) -> Result<(), PgError> {
        self.socket().set_write_timeout(Some(left(until)?))?;
        let written = match self {
            Self::Plain(stream) => stream.write_all(bytes),
            Self::Secured(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        // What is sent in part cannot be followed by anything.
        written.map_err(PgError::from)
    }

    /// Reads once. None when nothing has come for so long.
    pub(super) fn receive(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Option<usize>, PgError> {
        self.socket().set_read_timeout(Some(wait))?;
        let read = match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Secured(stream) => stream.read(buffer),
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
        match self {
            Self::Plain(stream) => stream,
            Self::Secured(stream) => &stream.sock,
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// The time until then, which has to be some.
pub(super) fn left(until: Instant) -> Result<Duration, PgError> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(late()) } else { Ok(left) }
}

/// Who waits knows its limit, and says it.
pub(super) fn late() -> PgError {
    PgError::TimedOut {
        what: Stage::Statement,
        limit: Duration::ZERO,
    }
}
