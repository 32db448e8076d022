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
use rustls::{ClientConnection, HandshakeKind};

use super::{Received, TransportError};
use crate::tls::{Negotiated, Tls};

/// Encrypted bytes that one read may bring.
const CIPHERTEXT_BYTES: usize = 12 * 1024;
/// Longest record with its head (RFC 5246, 6.2.3).
const RECORD_BYTES_MAX: usize = 16 * 1024 + 2048 + 5;
/// What a buffer for decrypted bytes must hold: one read, and the record whose first part came before it.
pub(crate) const PLAIN_BYTES_MIN: usize = CIPHERTEXT_BYTES + RECORD_BYTES_MAX;

/// The client's side of TLS. Between two calls it holds no decrypted bytes, but for those that came together with the handshake's end.
#[derive(Debug)]
pub(super) struct Secured {
    connection: ClientConnection,
    /// The other side has said that it sends nothing more.
    ended: bool,
    /// To be told once what came before it has been taken.
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

    /// Goes on with the handshake. True: it is over.
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
                // The alert that says why, as far as the socket takes it.
                let _ = self.flush(socket);
                fault(&error)
            })?;
            self.ended |= state.peer_has_closed();
        }
    }

    pub(super) fn negotiated(&self) -> Option<Negotiated> {
        negotiated(&self.connection)
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
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
        // Alerts and changed keys. When they cannot be written, the next write or read says so.
        let _ = self.flush(socket);
        more |= self.ended || self.fault.is_some();
        Ok(Received::Bytes { count, more })
    }

    /// Takes what is decrypted.
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
            // It fails only after a fault, which is told by the next read.
            let taken = self
                .connection
                .writer()
                .write(&bytes[sent..])
                .map_err(|_| Errno::PIPE)?;
            sent += taken;
            self.flush(socket)?;
            // While the socket takes all, nobody would say when to go on.
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

    /// Writes what is encrypted, as far as the socket takes it.
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

    /// Says that this side sends nothing more, if the socket takes that at once.
    pub(super) fn say_goodbye(&mut self, socket: &OwnedFd) {
        if !self.connection.is_handshaking() {
            self.connection.send_close_notify();
            let _ = self.flush(socket);
        }
    }
}

/// What both sides have agreed on, once they have.
pub(crate) fn negotiated(connection: &ClientConnection) -> Option<Negotiated> {
    Some(Negotiated {
        version: match connection.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2",
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3",
            other => other.as_str()?,
        },
        cipher: connection.negotiated_cipher_suite()?.suite().as_str()?,
    })
}

fn fault(error: &rustls::Error) -> TransportError {
    TransportError::Tls(error.to_string().into())
}

/// A socket as the TLS library reads and writes it.
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

    /// Records go together, or each would be a system call.
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
