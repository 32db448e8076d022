//! The engine on io_uring: plain HTTP/1.1 connections that stay open receive and send through a [`Ring`], which hands a whole turn's
//! operations to the kernel in few calls. Everything else (making connections, TLS, connections for one request) stays with
//! epoll, whose descriptor the ring watches.

mod sys;

use std::io;

pub(crate) use self::sys::Ring;
pub(super) use self::sys::{BUFFER_BYTES, Completion};
use crate::{
    plan::{Engine, Lane, Plan},
    request::Requests,
};

/// Receive buffers of a thread. When more responses than that arrive at once, their connections are armed again; many more buffers would
/// have left the processor's cache before they are filled again.
const BUFFERS: u16 = 256;
/// Longer requests are written by the event loop itself. One that waits for room in the socket could be overtaken by the next, if the
/// server responds before it has read the first; this many bytes always fit into a socket that carries nothing else.
const REQUEST_BYTES_MAX: usize = 4 * 1024;

/// The ring of one thread, if the plan asks for one and the kernel supports it.
pub(crate) fn for_thread(plan: &Plan) -> io::Result<Option<Ring>> {
    let useful = plan.lanes.iter().any(|lane| plan.suits_ring(lane));
    if plan.engine == Engine::Epoll || !useful {
        return Ok(None);
    }
    let request = |lane: &Lane| -> Box<[u8]> {
        match &lane.requests {
            Requests::Same(message) if plan.pipeline == 1 && message.bytes.len() <= REQUEST_BYTES_MAX => {
                message.bytes[..].into()
            }
            _ => Box::default(),
        }
    };
    let made = Ring::new(BUFFERS, plan.lanes.iter().map(request).collect());
    match (made, plan.engine) {
        (Ok(ring), _) => Ok(Some(ring)),
        (Err(_), Engine::Auto) => Ok(None),
        (Err(error), _) => Err(error),
    }
}

/// Identifies what an operation of a ring is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Events of epoll.
    Events,
    /// Bytes received on a connection.
    Input(Registration),
    /// A request that was sent.
    Output(Registration),
    /// A socket that can be written to again.
    Room(Registration),
}

/// A connection and the number of its registration with the ring. A late completion of an earlier registration is thereby not mistaken for
/// one of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    pub(super) index: usize,
    pub(super) turn: u32,
}

/// Bits of a tag for the kind and the turn; the index has the rest.
const KIND_BITS: u32 = 2;
const TURN_BITS: u32 = 30;

impl Registration {
    pub(super) const TURN_MASK: u32 = (1 << TURN_BITS) - 1;
}

impl From<Tag> for u64 {
    fn from(tag: Tag) -> Self {
        let (kind, registration) = match tag {
            Tag::Events => (0, Registration { index: 0, turn: 0 }),
            Tag::Input(registration) => (1, registration),
            Tag::Output(registration) => (2, registration),
            Tag::Room(registration) => (3, registration),
        };
        let turn = u64::from(registration.turn & Registration::TURN_MASK);
        (registration.index as u64) << (KIND_BITS + TURN_BITS) | turn << KIND_BITS | kind
    }
}

impl From<u64> for Tag {
    fn from(bits: u64) -> Self {
        let registration = Registration {
            index: (bits >> (KIND_BITS + TURN_BITS)) as usize,
            turn: (bits >> KIND_BITS) as u32 & Registration::TURN_MASK,
        };
        match bits & ((1 << KIND_BITS) - 1) {
            0 => Self::Events,
            1 => Self::Input(registration),
            2 => Self::Output(registration),
            _ => Self::Room(registration),
        }
    }
}
