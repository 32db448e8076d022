//! The byte stream of a connection, with or without TLS, up to its first statement; and cancellation requests, which
//! have a connection of their own.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    PgError, Settings, Stage,
    protocol::{CancelKey, Startup, wants_tls, write_cancel, write_tls_request},
    settings::ServerUrl,
    tls,
};

/// Size of the buffer for the startup messages.
const READ_BYTES: usize = 65_536;

/// A socket, with or without TLS.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Secured(Box<TlsStream<TcpStream>>),
}

/// A connection ready for its first statement.
pub(crate) struct Started {
    pub(crate) stream: Stream,
    pub(crate) received: BytesMut,
    pub(crate) out: BytesMut,
    pub(crate) key: Option<CancelKey>,
}

/// Connects and logs in within `connect_timeout`, without a statement timeout on the server.
pub(crate) async fn start_unlimited(settings: &Settings) -> Result<Started, PgError> {
    let limit = settings.connect_timeout;
    let started = tokio::time::timeout(limit, start(&settings.server, None)).await;
    started
        .map_err(|_| PgError::TimedOut {
            what: Stage::Connect,
            limit,
        })?
        .map_err(|error| error.at_start(&settings.server))
}

/// Connects and logs in.
pub(super) async fn start(
    server: &ServerUrl,
    statement_timeout: Option<Duration>,
) -> Result<Started, PgError> {
    let mut stream = Stream::connect(server).await?;
    let mut out = BytesMut::new();
    let mut received = BytesMut::with_capacity(READ_BYTES);
    let mut startup = Startup::begin(server, statement_timeout, stream.end_point(), &mut out)?;
    loop {
        stream.write_all_buf(&mut out).await?;
        stream.flush().await?;
        if stream.read_buf(&mut received).await? == 0 {
            return Err(closed());
        }
        if startup.receive(&mut received, &mut out)? {
            return Ok(Started {
                stream,
                received,
                out,
                key: startup.key(),
            });
        }
    }
}

/// Asks the server to cancel the statement of another connection, and waits until it has passed that on.
pub(crate) async fn cancel(server: &ServerUrl, key: CancelKey) -> Result<(), PgError> {
    let mut stream = Stream::connect(server).await?;
    let mut out = BytesMut::new();
    write_cancel(key, &mut out);
    stream.write_all_buf(&mut out).await?;
    stream.flush().await?;
    // The server does not reply; it closes the connection.
    while stream.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}

impl Stream {
    async fn connect(server: &ServerUrl) -> Result<Self, PgError> {
        let mut stream = TcpStream::connect((&*server.host, server.port)).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &server.tls else {
            return Ok(Self::Plain(stream));
        };
        let (config, name) = tls.load(&server.host)?;
        let mut out = BytesMut::new();
        write_tls_request(&mut out);
        stream.write_all_buf(&mut out).await?;
        wants_tls(stream.read_u8().await?)?;
        let connected = TlsConnector::from(config).connect(name, stream).await;
        Ok(Self::Secured(Box::new(
            connected.map_err(|error| tls::refused(&error))?,
        )))
    }

    /// Channel binding data, which ties a password to the server's certificate.
    fn end_point(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(_) => None,
            Self::Secured(stream) => tls::end_point(stream.get_ref().1.peer_certificates()),
        }
    }
}

impl Stream {
    /// Whether the server has neither closed the idle connection nor sent anything.
    pub(crate) fn is_quiet(&self) -> bool {
        let socket = match self {
            Self::Plain(stream) => stream,
            Self::Secured(stream) => stream.get_ref().0,
        };
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        socket
            .poll_peek(&mut Context::from_waker(std::task::Waker::noop()), &mut buffer)
            .is_pending()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Secured(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Secured(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Secured(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secured(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

fn closed() -> PgError {
    PgError::Broken {
        reason: "the server has closed it".into(),
    }
}
