//! Asks a proxy to connect on to the server (RFC 9110, 9.3.6).

use std::os::fd::OwnedFd;

use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags},
};

use super::Fault;
use crate::plan::Tunnel;

/// Longest head of a proxy's answer.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most fields of it.
const FIELDS_MAX: usize = 64;

/// A request to a proxy that is under way.
#[derive(Debug)]
pub(super) struct Opening {
    unsent: Vec<u8>,
    answer: Vec<u8>,
}

impl Opening {
    pub(super) fn new(tunnel: &Tunnel) -> Self {
        let authorization = tunnel.authorization.as_ref();
        let field = authorization.map(|value| format!("proxy-authorization: {value}\r\n"));
        let request = format!(
            "CONNECT {0} HTTP/1.1\r\nhost: {0}\r\n{1}\r\n",
            tunnel.authority,
            field.unwrap_or_default()
        );
        Self {
            unsent: request.into_bytes(),
            answer: Vec::new(),
        }
    }

    /// Goes on as far as possible. True: what is written now reaches the server.
    pub(super) fn progress(&mut self, socket: &OwnedFd) -> Result<bool, Fault> {
        while !self.unsent.is_empty() {
            match rustix::net::send(socket, &self.unsent, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        loop {
            let mut buffer = [0; 1024];
            let count = match rustix::net::recv(socket, &mut buffer, RecvFlags::empty()) {
                Ok((_, 0)) => {
                    return Err(Fault::Proxy(
                        "the proxy closed the connection before it answered".into(),
                    ));
                }
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            self.answer.extend_from_slice(&buffer[..count]);
            if self.is_open()? {
                return Ok(true);
            }
        }
    }

    fn is_open(&self) -> Result<bool, Fault> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut answer = httparse::Response::new(&mut fields);
        let parsed = answer.parse(&self.answer);
        match (parsed, answer.code) {
            // Nobody but the server speaks after the head, and it waits to be spoken to.
            (Ok(httparse::Status::Complete(length)), Some(200..=299)) if length == self.answer.len() => {
                Ok(true)
            }
            (Ok(httparse::Status::Complete(_)), Some(200..=299)) => {
                Err(Fault::Proxy("the proxy sent more than its answer".into()))
            }
            (Ok(httparse::Status::Complete(_)), code) => {
                let (code, reason) = (code.unwrap_or_default(), answer.reason.unwrap_or_default());
                Err(Fault::Proxy(
                    format!("the proxy refused to connect on: {code} {reason}")
                        .trim_end()
                        .into(),
                ))
            }
            (Ok(httparse::Status::Partial), _) if self.answer.len() <= HEAD_BYTES_MAX => Ok(false),
            _ => Err(Fault::Proxy(
                "what the proxy answered is not the head of an HTTP/1 answer".into(),
            )),
        }
    }
}
