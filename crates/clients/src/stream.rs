//! Connections to servers, plain or encrypted.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::Poll,
};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncBufRead as _, AsyncRead, AsyncWrite, BufReader},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// A byte stream.
pub(crate) trait Stream: AsyncRead + AsyncWrite {}

impl<S: AsyncRead + AsyncWrite> Stream for S {}

/// A connection that hides whether it is encrypted.
pub(crate) type Wire = Pin<Box<dyn Stream>>;

/// Connects, with TLS if required.
pub(crate) async fn connect(host: &str, port: u16, is_encrypted: bool) -> io::Result<Wire> {
    let plain = TcpStream::connect((host, port)).await?;
    plain.set_nodelay(true)?;
    let plain: Wire = Box::pin(plain);
    if is_encrypted {
        return encrypt(plain, host).await;
    }
    Ok(plain)
}

/// Starts TLS, and verifies the server's certificate for this host.
pub(crate) async fn encrypt(plain: Wire, host: &str) -> io::Result<Wire> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    Ok(Box::pin(TlsConnector::from(tls()).connect(name, plain).await?))
}

/// Whether the connection is idle: no unread bytes, and not closed by the server.
pub(crate) async fn is_quiet(stream: &mut BufReader<Wire>) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *stream).poll_fill_buf(context).is_pending())).await
}

/// The TLS settings, which trust the system's authorities.
fn tls() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| forebay_tls::client_config(forebay_tls::system_authorities()).into());
    Arc::clone(config)
}
