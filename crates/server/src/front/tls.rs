//! Encrypted connections.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use forebay_tls::{ACME_TLS, ClientCertificate};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{
    LazyConfigAcceptor,
    rustls::{ProtocolVersion, server::Acceptor},
    server::TlsStream,
};

use super::{socket::Stream, thread::Thread};

/// A connection after its handshake.
#[derive(Debug)]
pub(super) struct TlsSocket(TlsStream<TcpStream>);

impl TlsSocket {
    /// Shakes hands with a client, by the certificates in force. `None` if that fails or takes too long, because such a client cannot be told why;
    /// and for an authority that only looks whether this server has a name.
    pub(super) async fn accept(socket: TcpStream, thread: &Thread, handshake_max: Duration) -> Option<Self> {
        match tokio::time::timeout(handshake_max, handshake(socket, thread)).await {
            Ok(Ok(stream)) => Some(Self(stream?)),
            Ok(Err(error)) => {
                tracing::debug!(target: "forebay::front", cause = %error, "a TLS handshake has failed");
                None
            }
            Err(_) => {
                tracing::debug!(target: "forebay::front", "a TLS handshake takes longer than header_timeout");
                None
            }
        }
    }

    /// The version of TLS that was agreed on, as it stands in logs.
    pub(super) fn version(&self) -> &'static str {
        match self.0.get_ref().1.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        }
    }

    /// The certificate by which the client has proved who it is; `None` if it has shown none.
    pub(super) fn certificate(&self) -> Option<ClientCertificate> {
        ClientCertificate::parse(self.0.get_ref().1.peer_certificates()?.first()?)
    }

    /// Whether the client has chosen HTTP/2 (ALPN: RFC 7301).
    pub(super) fn is_http2(&self) -> bool {
        self.0.get_ref().1.alpn_protocol() == Some(b"h2")
    }
}

/// Returns `None` after a handshake with an authority, which wants nothing else.
async fn handshake(socket: TcpStream, thread: &Thread) -> io::Result<Option<TlsStream<TcpStream>>> {
    let app = thread.app();
    let Some(config) = &app.tls else {
        return Ok(None);
    };
    let start = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
    let hello = start.client_hello();
    let name = hello.server_name().unwrap_or_default();
    let is_authority = hello
        .alpn()
        .is_some_and(|mut protocols| protocols.any(|protocol| protocol == ACME_TLS));
    if let Some(proof) = is_authority.then(|| app.challenges.tls_config(name)).flatten() {
        start.into_stream(proof).await?.shutdown().await?;
        return Ok(None);
    }
    if let Some((section, _)) = app
        .certificates
        .iter()
        .find(|(_, slot)| slot.is_missing_for(name))
    {
        tracing::debug!(target: "forebay::front", name, "a TLS handshake fails because the certificate of [tls.{section}] has not been obtained yet");
    }
    start.into_stream(Arc::clone(config)).await.map(Some)
}

impl Stream for TlsSocket {}

impl AsFd for TlsSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().0.as_fd()
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
