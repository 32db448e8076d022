//! Non-blocking sockets.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};

use crate::target::Address;

/// A connected socket, or one that is about to be.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
}

impl Transport {
    /// Starts to connect. The second part says whether the connection is open already.
    pub(crate) fn connect(address: &Address) -> Result<(Self, bool), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = match address {
            Address::Tcp(std::net::SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Tcp(std::net::SocketAddr::V6(_)) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let connected = match address {
            Address::Tcp(address) => {
                sockopt::set_tcp_nodelay(&socket, true)?;
                if address.ip().is_loopback() {
                    // Nothing is congested there, and the simplest algorithm costs least; where it is missing any will do.
                    let _ = sockopt::set_tcp_congestion(&socket, "reno");
                }
                rustix::net::connect(&socket, address)
            }
            Address::Unix(path) => rustix::net::connect(&socket, &SocketAddrUnix::new(path)?),
        };
        match connected {
            Ok(()) => Ok((Self { socket }, true)),
            Err(Errno::INPROGRESS) => Ok((Self { socket }, false)),
            Err(error) => Err(error),
        }
    }

    /// How an attempt to connect has ended.
    pub(crate) fn connected(&self) -> Result<(), Errno> {
        sockopt::socket_error(&self.socket)?
    }

    pub(crate) fn receive(&self, into: &mut [u8]) -> Result<usize, Errno> {
        rustix::net::recv(&self.socket, into, RecvFlags::empty()).map(|(received, _)| received)
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL)
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
