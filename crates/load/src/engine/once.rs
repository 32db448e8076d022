//! One request and its answer, byte by byte, to be looked at: with the standard library's blocking sockets instead of an event loop.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use rustls::{ClientConnection, StreamOwned};

use super::transport::negotiated;
use crate::{
    plan::Plan,
    request::{Seat, Source},
    response::{KnownHead, Read as Progress, Reader},
    target::Address,
    tls::Negotiated,
};

/// Most bytes of an answer that are kept.
const RECEIVED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A request and its answer.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What was sent.
    pub sent: Vec<u8>,
    /// What came.
    pub received: Vec<u8>,
    /// What TLS was agreed on.
    pub negotiated: Option<Negotiated>,
    /// From the first attempt to connect to the end of the answer.
    pub took: Duration,
    /// Why the answer is not whole, if it is not.
    pub broken: Option<String>,
}

/// Why there was no answer to look at.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct ExchangeError {
    what: String,
}

#[expect(clippy::needless_pass_by_value, reason = "it is a step of map_err")]
fn failed(what: impl ToString) -> ExchangeError {
    ExchangeError {
        what: what.to_string(),
    }
}

/// Sends the first request of a plan's first lane, and waits for its answer as long as the plan allows.
pub fn exchange(plan: &Plan) -> Result<Exchange, ExchangeError> {
    let lane = &plan.lanes[0];
    let seat = Seat {
        thread: 0,
        threads: 1,
        lane: 0,
        lanes: 1,
    };
    let mut sent = Vec::new();
    let put = Source::new(&lane.requests, 1, plan.seed, seat).next(&mut sent);
    let began = Instant::now();
    let socket = Socket::connect(&lane.address, plan.connect_timeout).map_err(failed)?;
    let mut tls = None;
    let (received, broken) = match &lane.tls {
        Some(config) => {
            let client = ClientConnection::new(config.config.clone(), config.name.clone()).map_err(failed)?;
            let mut stream = StreamOwned::new(client, socket);
            while stream.conn.is_handshaking() {
                let handshake = stream.conn.complete_io(&mut stream.sock);
                handshake
                    .map_err(|error| failed(late_or(&error, "the TLS handshake was not over in time")))?;
            }
            tls = negotiated(&stream.conn);
            stream.sock.until = began + plan.connect_timeout + plan.timeout;
            talk(&mut stream, &sent, put.head_only)?
        }
        None => {
            let mut socket = socket;
            socket.until = began + plan.connect_timeout + plan.timeout;
            talk(&mut socket, &sent, put.head_only)?
        }
    };
    if received.is_empty()
        && let Some(what) = broken
    {
        return Err(failed(what));
    }
    Ok(Exchange {
        sent,
        received,
        negotiated: tls,
        took: began.elapsed(),
        broken,
    })
}

/// Sends a request, and reads its answer; with why that is not whole, if it is not.
fn talk(
    stream: &mut (impl Read + Write),
    request: &[u8],
    head_only: bool,
) -> Result<(Vec<u8>, Option<String>), ExchangeError> {
    match stream.write_all(request).and_then(|()| stream.flush()) {
        Ok(()) => {}
        // It may have answered before it went.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            ) => {}
        Err(error) => {
            return Err(failed(late_or(
                &error,
                "the request was not taken within the time-out",
            )));
        }
    }
    let (mut reader, mut known) = (Reader::new(false), KnownHead::default());
    let (mut received, mut scratch) = (Vec::new(), vec![0; 32 * 1024]);
    let broken = loop {
        let count = match stream.read(&mut scratch) {
            Ok(0) if reader.end().is_some() => break None,
            Ok(0) => break Some("the connection was closed before the answer had ended".to_owned()),
            Ok(count) => count,
            // A read with a time-out is not taken up again by the system after a signal.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break Some(late_or(&error, "no whole answer within the time-out")),
        };
        received.extend_from_slice(&scratch[..count]);
        match reader.read(&scratch[..count], head_only, &mut known) {
            Ok(Progress::Whole { .. }) => break None,
            Ok(Progress::Partial) if received.len() < RECEIVED_BYTES_MAX => {}
            Ok(Progress::Partial) => break Some(format!("it is longer than {RECEIVED_BYTES_MAX} bytes")),
            Err(broken) => break Some(broken.what.to_owned()),
        }
    };
    Ok((received, broken))
}

/// An error's text, or what took too long.
fn late_or(error: &io::Error, late: &str) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late.to_owned(),
        _ => format!("the connection is broken: {error}"),
    }
}

/// A socket whose operations end at a moment at the latest.
struct Socket {
    stream: Stream,
    until: Instant,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn connect(address: &Address, timeout: Duration) -> io::Result<Self> {
        let until = Instant::now() + timeout;
        let stream = match address {
            Address::Tcp(address) => Stream::Tcp(TcpStream::connect_timeout(address, timeout)?),
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
        };
        Ok(Self { stream, until })
    }

    /// Time that is left; none at all would mean no limit to the system.
    fn left(&self) -> Duration {
        let left = self.until.saturating_duration_since(Instant::now());
        left.max(Duration::from_millis(1))
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.left();
        match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(left))?;
                stream.read(into)
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(left))?;
                stream.read(into)
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left();
        match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_write_timeout(Some(left))?;
                stream.write(bytes)
            }
            Stream::Unix(stream) => {
                stream.set_write_timeout(Some(left))?;
                stream.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
