//! Non-blocking connections: a socket, and what lies between it and HTTP. Everything is tried until the socket has or takes no more,
//! because readiness is told only once.

mod secured;

use std::{
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};

use self::secured::Secured;
pub(crate) use self::secured::{PLAIN_BYTES_MIN, negotiated};
use super::calls::{self, Call};
use crate::{
    failure::Class,
    target::Address,
    tls::{Negotiated, Tls},
};

/// A connection, or one that is being made.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
    layer: Layer,
    /// Whether operations that are under way hold the socket, too.
    shared: bool,
}

#[derive(Debug)]
enum Layer {
    /// The socket itself.
    Plain,
    Tls(Box<Secured>),
    /// The socket is being connected.
    Connecting,
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes, with TLS perhaps none; `more`: there may be more of them already.
    Bytes { count: usize, more: bool },
    /// The other side sends nothing more.
    End,
}

/// What is wrong with a connection.
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
    /// The class when it ends an attempt to connect.
    pub(crate) fn class_of_connect(&self) -> Class {
        match self {
            Self::Socket(Errno::CONNREFUSED | Errno::NOENT) => Class::ConnectRefused,
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
    /// Starts to connect; `stays`: for more than one request. The second part says whether [`progress`](Self::progress) can be made at
    /// once.
    pub(crate) fn connect(address: &Address, stays: bool) -> Result<(Self, bool), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = match address {
            Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let connected = match address {
            Address::Tcp(address) => {
                sockopt::set_tcp_nodelay(&socket, true)?;
                if stays && address.ip().is_loopback() {
                    // Nothing is congested there, and the simplest algorithm costs least; where it is missing any will do. One request
                    // is over before that pays.
                    let _ = sockopt::set_tcp_congestion(&socket, "reno");
                }
                rustix::net::connect(&socket, address)
            }
            Address::Unix(path) => rustix::net::connect(&socket, &SocketAddrUnix::new(path)?),
        };
        let at_once = match connected {
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

    /// Others hold the socket from now on: closing it here does not end the connection.
    pub(crate) fn share(&mut self) {
        self.shared = true;
    }

    /// Goes on with an attempt to connect as far as that is possible without waiting; `hung_up`: the socket may have
    /// failed. True: requests can be sent.
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

    /// What an attempt to connect waits for, for whoever has waited too long.
    pub(crate) fn awaits(&self) -> &'static str {
        match self.layer {
            Layer::Connecting | Layer::Plain => "the connection was not open in time",
            Layer::Tls(_) => "the TLS handshake was not over in time",
        }
    }

    /// Whether TLS is spoken, or being agreed on.
    pub(crate) fn is_secured(&self) -> bool {
        matches!(self.layer, Layer::Tls(_))
    }

    /// What was agreed on, with TLS.
    pub(crate) fn negotiated(&self) -> Option<Negotiated> {
        match &self.layer {
            Layer::Tls(secured) => secured.negotiated(),
            _ => None,
        }
    }

    /// Whether a TLS session was taken up again.
    pub(crate) fn is_resumed(&self) -> bool {
        matches!(&self.layer, Layer::Tls(secured) if secured.is_resumed())
    }

    /// Receives into a buffer of at least [`PLAIN_BYTES_MIN`].
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> Result<Received, TransportError> {
        match &mut self.layer {
            Layer::Plain => {
                calls::count(Call::Receive);
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

    /// Sends; returns how many bytes were taken. What was not is to be sent again when the socket can be written to.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match &mut self.layer {
            Layer::Plain => {
                calls::count(Call::Send);
                rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL)
            }
            Layer::Tls(secured) => secured.send(&self.socket, bytes),
            Layer::Connecting => Err(Errno::AGAIN),
        }
    }

    /// Whether bytes that were taken still wait for the socket.
    pub(crate) fn holds_unsent(&self) -> bool {
        matches!(&self.layer, Layer::Tls(secured) if secured.holds_unsent())
    }

    /// Whether [`receive`](Self::receive) has something to tell whatever the socket has.
    pub(crate) fn holds_received(&self) -> bool {
        matches!(&self.layer, Layer::Tls(secured) if secured.holds_received())
    }

    /// Whether an end of the stream is where the other side meant it to be. TLS can tell; a plain connection is believed.
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
            // It fails when the other side has ended the connection already.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
