//! Encrypted connections.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, rustls::ProtocolVersion, server::TlsStream};

use super::thread::Thread;

/// A connection after its handshake.
#[derive(Debug)]
pub(super) struct TlsSocket(TlsStream<TcpStream>);

impl TlsSocket {
    /// Shakes hands with a client, by the certificates in force. `None` if that fails or takes too long: such a client cannot be told why.
    pub(super) async fn accept(socket: TcpStream, thread: &Thread, handshake_max: Duration) -> Option<Self> {
        let config = thread.app().tls.clone()?;
        let accepting = TlsAcceptor::from(config).accept(socket);
        match tokio::time::timeout(handshake_max, accepting).await {
            Ok(Ok(stream)) => Some(Self(stream)),
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

    /// Whether the client has chosen HTTP/2 (ALPN: RFC 7301).
    pub(super) fn is_http2(&self) -> bool {
        self.0.get_ref().1.alpn_protocol() == Some(b"h2")
    }
}

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
