//! One request and its answer, byte by byte, to be looked at: over the same sockets, TLS and HTTP as all others, without an event loop.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{Timespec, epoll},
    io::Errno,
};

use super::transport::{Fault, PLAIN_BYTES_MIN, Received, Transport};
use crate::{
    plan::Plan,
    request::{Seat, Source},
    response::{KnownHead, Read, Reader},
    tls::Negotiated,
};

/// Most bytes of an answer that are kept.
const RECEIVED_BYTES_MAX: usize = 16 * 1024 * 1024;
const SCRATCH_BYTES: usize = 32 * 1024;
const _: () = assert!(SCRATCH_BYTES >= PLAIN_BYTES_MIN);

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
pub enum ExchangeError {
    /// No connection, or none that could be written to.
    #[error("{what}")]
    Failed {
        /// What happened.
        what: String,
    },
    /// The system gives no means to wait.
    #[error("cannot wait for a socket")]
    Wait(#[source] std::io::Error),
}

#[expect(clippy::needless_pass_by_value, reason = "it is a step of map_err")]
fn failed(what: impl ToString) -> ExchangeError {
    ExchangeError::Failed {
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
    let mut source = Source::new(&lane.requests, 1, plan.seed, seat);
    let mut sent = Vec::new();
    let put = source.next(&mut sent);
    let began = Instant::now();
    let mut link = Wire::connect(plan)?;
    link.until = began + plan.connect_timeout + plan.timeout;
    let negotiated = link.transport.negotiated();
    link.write(&sent)?;
    let (received, broken) = link.read(put.head_only)?;
    if received.is_empty()
        && let Some(what) = broken
    {
        return Err(failed(what));
    }
    Ok(Exchange {
        sent,
        received,
        negotiated,
        took: began.elapsed(),
        broken,
    })
}

/// A connection that is waited for.
struct Wire {
    transport: Transport,
    epoll: OwnedFd,
    until: Instant,
    scratch: Vec<u8>,
}

impl Wire {
    fn connect(plan: &Plan) -> Result<Self, ExchangeError> {
        let lane = &plan.lanes[0];
        let (transport, mut goes_on) = Transport::connect(&lane.address, true)
            .map_err(Fault::from)
            .map_err(failed)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(wait_failed)?;
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&epoll, transport.as_fd(), epoll::EventData::new_u64(0), flags).map_err(wait_failed)?;
        let mut wire = Self {
            transport,
            epoll,
            until: Instant::now() + plan.connect_timeout,
            scratch: vec![0; SCRATCH_BYTES],
        };
        let mut hung_up = false;
        loop {
            if goes_on
                && wire
                    .transport
                    .progress(lane.tls.as_ref(), hung_up)
                    .map_err(failed)?
            {
                return Ok(wire);
            }
            match wire.wait()? {
                Some(flags) => hung_up = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR),
                None => return Err(failed(wire.transport.awaits())),
            }
            goes_on = true;
        }
    }

    /// Waits until something can be done; `None`: in vain.
    fn wait(&self) -> Result<Option<epoll::EventFlags>, ExchangeError> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let wait = Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut events = Vec::with_capacity(1);
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&wait),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(wait_failed(error)),
            }
            if let Some(event) = events.first() {
                return Ok(Some(event.flags));
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ExchangeError> {
        let mut at = 0;
        loop {
            match self.transport.send(&bytes[at..]) {
                Ok(sent) => at += sent,
                Err(Errno::AGAIN) => {}
                // It may have answered before it went.
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(error) => return Err(failed(format!("cannot write: {error}"))),
            }
            if at == bytes.len() && !self.transport.holds_unsent() {
                return Ok(());
            }
            if self.wait()?.is_none() {
                return Err(failed("the request was not taken within the time-out"));
            }
        }
    }

    /// Takes what has come into the scratch buffer, and waits for it if there is nothing: how much, or why nothing will come.
    fn receive(&mut self) -> Result<Result<usize, String>, ExchangeError> {
        loop {
            match self.transport.receive(&mut self.scratch) {
                Ok(Received::Bytes { count, .. }) if count > 0 => return Ok(Ok(count)),
                Ok(Received::Bytes { more: true, .. }) | Err(Fault::Socket(Errno::INTR)) => continue,
                Ok(Received::Bytes { .. }) | Err(Fault::Socket(Errno::AGAIN)) => {}
                Ok(Received::End) => {
                    return Ok(Err("the connection was closed before the answer had ended".into()));
                }
                Err(fault) => return Ok(Err(format!("the connection is broken: {fault}"))),
            }
            if self.wait()?.is_none() {
                return Ok(Err("no whole answer within the time-out".into()));
            }
        }
    }

    fn read(&mut self, head_only: bool) -> Result<(Vec<u8>, Option<String>), ExchangeError> {
        let (mut reader, mut known, mut received) = (Reader::new(false), KnownHead::default(), Vec::new());
        loop {
            let count = match self.receive()? {
                Ok(count) => count,
                Err(what) => return Ok((received, reader.end().is_none().then_some(what))),
            };
            received.extend_from_slice(&self.scratch[..count]);
            match reader.read(&self.scratch[..count], head_only, &mut known) {
                Ok(Read::Whole { .. }) => return Ok((received, None)),
                Ok(Read::Partial) if received.len() < RECEIVED_BYTES_MAX => {}
                Ok(Read::Partial) => {
                    return Ok((
                        received,
                        Some(format!("it is longer than {RECEIVED_BYTES_MAX} bytes")),
                    ));
                }
                Err(broken) => return Ok((received, Some(broken.what.to_owned()))),
            }
        }
    }
}

fn wait_failed(error: Errno) -> ExchangeError {
    ExchangeError::Wait(error.into())
}
