//! Non-blocking connections: a socket, and the TLS layer between it and HTTP. Reads and writes continue until the socket would block,
//! because edge-triggered readiness is reported only once.

mod secured;

use std::{
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt},
};

pub(crate) use self::secured::PLAIN_BYTES_MIN;
use self::secured::Secured;
use crate::{failure::Class, tls::Tls};

/// A connection, or one that is being made.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
    layer: Layer,
    /// Whether operations in flight hold the socket, too.
    shared: bool,
}

#[derive(Debug)]
enum Layer {
    /// HTTP directly on the socket.
    Plain,
    Tls(Box<Secured>),
    /// The socket is being connected.
    Connecting,
}

/// Result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Number of bytes, which with TLS may be 0; `more`: more of them may be available already.
    Bytes { count: usize, more: bool },
    /// The other side sends nothing more.
    End,
}

/// Why a connection failed.
#[derive(Debug)]
pub(crate) enum TransportError {
    Socket(Errno),
    Tls(Box<str>),
}

impl From<Errno> for TransportError {
    fn from(error: Errno) -> Self {
        Self::Socket(error)
    }
}

impl std::fmt::Display for TransportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(error) => error.fmt(f),
            Self::Tls(what) => what.fmt(f),
        }
    }
}

impl TransportError {
    /// The failure class when it ends an attempt to connect.
    pub(crate) fn class_of_connect(&self) -> Class {
        match self {
            Self::Socket(Errno::CONNREFUSED) => Class::ConnectRefused,
            Self::Socket(Errno::TIMEDOUT) => Class::ConnectTimeout,
            Self::Socket(
                Errno::ADDRNOTAVAIL | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::AGAIN,
            ) => Class::Resources,
            Self::Socket(_) => Class::Connect,
            Self::Tls(_) => Class::Tls,
        }
    }
}

impl Transport {
    /// Starts to connect; `stays`: for more than one request. The second value says whether [`progress`](Self::progress) can be called at
    /// once.
    pub(crate) fn connect(address: &SocketAddr, stays: bool) -> Result<(Self, bool), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if stays && address.ip().is_loopback() {
            // There is no congestion on the loopback, and the simplest algorithm costs least; where it is missing, any will do. A
            // connection for one request is over before that pays.
            let _ = sockopt::set_tcp_congestion(&socket, "reno");
        }
        let at_once = match rustix::net::connect(&socket, address) {
            Ok(()) => true,
            Err(Errno::INPROGRESS) => false,
            Err(error) => return Err(error),
        };
        let transport = Self {
            socket,
            layer: Layer::Connecting,
            shared: false,
        };
        Ok((transport, at_once))
    }

    /// Marks the socket as shared with operations: closing it here no longer ends the connection.
    pub(crate) fn share(&mut self) {
        self.shared = true;
    }

    /// Continues an attempt to connect as far as that is possible without blocking; `hung_up`: the socket may have failed. True: requests
    /// can be sent.
    pub(crate) fn progress(&mut self, tls: Option<&Tls>, hung_up: bool) -> Result<bool, TransportError> {
        loop {
            match &mut self.layer {
                Layer::Connecting => {
                    if hung_up {
                        sockopt::socket_error(&self.socket)??;
                    }
                    self.layer = match tls {
                        Some(tls) => Layer::Tls(Box::new(Secured::new(tls)?)),
                        None => Layer::Plain,
                    };
                }
                Layer::Tls(secured) => return secured.handshake(&self.socket),
                Layer::Plain => return Ok(true),
            }
        }
    }

    /// The step that an attempt to connect is waiting for, as the text of its timeout.
    pub(crate) fn awaits(&self) -> &'static str {
        match self.layer {
            Layer::Connecting | Layer::Plain => "the connection was not open in time",
            Layer::Tls(_) => "the TLS handshake was not over in time",
        }
    }

    /// Receives into a buffer of at least [`PLAIN_BYTES_MIN`].
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> Result<Received, TransportError> {
        match &mut self.layer {
            Layer::Plain => {
                let (count, _) = rustix::net::recv(&self.socket, &mut *into, RecvFlags::empty())?;
                if count == 0 {
                    return Ok(Received::End);
                }
                // Less than was asked for: the socket is empty.
                Ok(Received::Bytes {
                    count,
                    more: count == into.len(),
                })
            }
            Layer::Tls(secured) => secured.receive(&self.socket, into),
            Layer::Connecting => Err(TransportError::Socket(Errno::AGAIN)),
        }
    }

    /// Sends; returns how many bytes were accepted. The rest must be sent again when the socket is writable.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match &mut self.layer {
            Layer::Plain => rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL),
            Layer::Tls(secured) => secured.send(&self.socket, bytes),
            Layer::Connecting => Err(Errno::AGAIN),
        }
    }

    /// Whether accepted bytes still wait for the socket.
    pub(crate) fn holds_unsent(&self) -> bool {
        matches!(&self.layer, Layer::Tls(secured) if secured.holds_unsent())
    }

    /// Whether [`receive`](Self::receive) has something to return whatever the socket has.
    pub(crate) fn holds_received(&self) -> bool {
        matches!(&self.layer, Layer::Tls(secured) if secured.holds_received())
    }

    /// Whether the stream ended where the server meant it to. TLS can tell; a plain connection is believed.
    pub(crate) fn ends_whole(&self) -> bool {
        match &self.layer {
            Layer::Tls(secured) => secured.ends_whole(),
            _ => true,
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if let Layer::Tls(secured) = &mut self.layer {
            secured.say_goodbye(&self.socket);
        }
        if self.shared {
            // Fails when the server has closed the connection already.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
