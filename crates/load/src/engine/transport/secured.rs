//! TLS over a non-blocking socket.

use std::{
    io::{self, Read, Write},
    mem::MaybeUninit,
    os::fd::OwnedFd,
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags},
};
use rustls::ClientConnection;

use super::{Received, TransportError};
use crate::tls::Tls;

/// Most encrypted bytes of one read.
const CIPHERTEXT_BYTES: usize = 12 * 1024;
/// Longest record with its head (RFC 5246, 6.2.3).
const RECORD_BYTES_MAX: usize = 16 * 1024 + 2048 + 5;
/// Smallest buffer for decrypted bytes: one read, and the record whose first part arrived before it.
pub(crate) const PLAIN_BYTES_MIN: usize = CIPHERTEXT_BYTES + RECORD_BYTES_MAX;

/// The client's side of TLS. Between two calls it holds no decrypted bytes, except those that arrived together with the end of the
/// handshake.
#[derive(Debug)]
pub(super) struct Secured {
    connection: ClientConnection,
    /// The server has announced that it sends nothing more.
    ended: bool,
    /// Reported once the bytes before it have been taken.
    fault: Option<TransportError>,
}

impl Secured {
    pub(super) fn new(tls: &Tls) -> Result<Self, TransportError> {
        Ok(Self {
            connection: ClientConnection::new(tls.config.clone(), tls.name.clone())
                .map_err(|error| fault(&error))?,
            ended: false,
            fault: None,
        })
    }

    /// Continues the handshake. True: it is complete.
    pub(super) fn handshake(&mut self, socket: &OwnedFd) -> Result<bool, TransportError> {
        let broken = |error: &dyn std::fmt::Display| {
            TransportError::Tls(format!("the connection broke in the handshake: {error}").into())
        };
        loop {
            self.flush(socket).map_err(|error| broken(&error))?;
            if !self.connection.is_handshaking() {
                return Ok(true);
            }
            match self.connection.read_tls(&mut Wire(socket)) {
                Ok(0) => {
                    return Err(TransportError::Tls(
                        "the server closed the connection in the middle of the handshake".into(),
                    ));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(&error)),
            }
            let state = self.connection.process_new_packets().map_err(|error| {
                // Sends the alert that says why, as far as the socket accepts it.
                let _ = self.flush(socket);
                fault(&error)
            })?;
            self.ended |= state.peer_has_closed();
        }
    }

    pub(super) fn receive(&mut self, socket: &OwnedFd, into: &mut [u8]) -> Result<Received, TransportError> {
        debug_assert!(
            into.len() >= PLAIN_BYTES_MIN,
            "whatever one read brings finds room"
        );
        let mut count = self.take(into);
        if count > 0 {
            return Ok(Received::Bytes { count, more: true });
        }
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if self.ended {
            return Ok(Received::End);
        }
        let mut buffer = [const { MaybeUninit::uninit() }; CIPHERTEXT_BYTES];
        let ((bytes, _), _) = rustix::net::recv(socket, &mut buffer, RecvFlags::empty())?;
        if bytes.is_empty() {
            return Ok(Received::End);
        }
        let mut more = bytes.len() == CIPHERTEXT_BYTES;
        let mut rest: &[u8] = bytes;
        while !rest.is_empty() && self.fault.is_none() && !self.ended {
            match self.connection.read_tls(&mut rest) {
                Ok(_) => match self.connection.process_new_packets() {
                    Ok(state) => self.ended = state.peer_has_closed(),
                    Err(error) => self.fault = Some(fault(&error)),
                },
                Err(error) => self.fault = Some(TransportError::Tls(error.to_string().into())),
            }
            count += self.take(&mut into[count..]);
        }
        // Sends alerts and key updates. If that fails, the next write or read reports it.
        let _ = self.flush(socket);
        more |= self.ended || self.fault.is_some();
        Ok(Received::Bytes { count, more })
    }

    /// Takes the decrypted bytes.
    fn take(&mut self, into: &mut [u8]) -> usize {
        let mut count = 0;
        // Any error means that there is nothing; `process_new_packets` has said why.
        while let Ok(taken @ 1..) = self.connection.reader().read(&mut into[count..]) {
            count += taken;
        }
        count
    }

    pub(super) fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
        let mut sent = 0;
        loop {
            // Fails only after a fault, which the next read reports.
            let taken = self
                .connection
                .writer()
                .write(&bytes[sent..])
                .map_err(|_| Errno::PIPE)?;
            sent += taken;
            self.flush(socket)?;
            // A partial write is returned only when the socket is full: otherwise no event would ever resume it.
            if sent == bytes.len() || self.connection.wants_write() {
                return Ok(sent);
            }
            if taken == 0 {
                return Err(Errno::PIPE);
            }
        }
    }

    pub(super) fn holds_unsent(&self) -> bool {
        self.connection.wants_write()
    }

    pub(super) fn holds_received(&self) -> bool {
        self.ended || self.fault.is_some()
    }

    pub(super) fn ends_whole(&self) -> bool {
        self.ended
    }

    /// Writes encrypted bytes, as far as the socket accepts them.
    fn flush(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Wire(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }
        }
        Ok(())
    }

    /// Sends the closing alert if the socket accepts it at once.
    pub(super) fn say_goodbye(&mut self, socket: &OwnedFd) {
        if !self.connection.is_handshaking() {
            self.connection.send_close_notify();
            let _ = self.flush(socket);
        }
    }
}

fn fault(error: &rustls::Error) -> TransportError {
    TransportError::Tls(error.to_string().into())
}

/// Adapts a socket to the reads and writes of the TLS library.
struct Wire<'a>(&'a OwnedFd);

impl Read for Wire<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self.0, into, RecvFlags::empty())?.1)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Writes several records in one system call.
    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::net::sendmsg(
            self.0,
            parts,
            &mut SendAncillaryBuffer::default(),
            SendFlags::NOSIGNAL,
        )?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
