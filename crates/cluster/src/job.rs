//! A job of a front end on the host's pool: what the front end sends goes to the pool, and what the pool delivers to the front end.

use std::{cell::Cell, rc::Rc};

use bytes::Bytes;
use forebay_pool::{Answer, Delivery, Failure, Job, Pending, Pool, Upgrade};
use forebay_wire::{DETACHED_SLOT, FailureReason, FrameType, Header, flag};
use tokio::sync::mpsc;

use crate::{host::Host, session::Link};

/// Close code for a WebSocket whose host drains: the client may come again at once.
const SERVICE_RESTART: u16 = 1012;
/// Close code for a client that is too slow for its rooms.
const POLICY_VIOLATION: u16 = 1008;

/// Runs a job to its end. A host that drains or is full refuses it.
pub(crate) async fn run(
    host: &Host,
    link: &Link,
    pool: &Pool,
    (slot, number): (u32, u32),
    job: Job,
    mut frames: mpsc::UnboundedReceiver<(Header, Bytes)>,
    window: &Rc<Cell<u64>>,
) {
    let has_room = !host.is_draining() && pool.room().1 > 0;
    let submitted = has_room.then(|| pool.submit(&host.mailbox, job).ok()).flatten();
    let Some(mut pending) = submitted else {
        return link.fail((slot, number), FailureReason::NotBegun, "");
    };
    let mut relay = Relay {
        link,
        job: (slot, number),
        window,
        is_websocket: false,
    };
    while !pending.is_over() {
        tokio::select! {
            biased;
            frame = frames.recv() => match frame {
                Some((header, payload)) if take(&mut pending, header, &payload) => {}
                _ => return,
            },
            delivery = pending.next() => relay.deliver(delivery),
        }
    }
}

/// Handles a frame of the front end. Returns false if it has given the job up.
fn take(pending: &mut Pending<'_>, header: Header, payload: &Bytes) -> bool {
    let end = header.has(flag::END);
    match header.kind {
        FrameType::Body => {
            pending.send_body(payload, end);
        }
        FrameType::Trailers => pending.send_trailers(payload),
        FrameType::Message => {
            pending.send_message(payload, header.has(flag::TEXT), end);
        }
        FrameType::Window => {
            if let Ok(bytes) = <[u8; 4]>::try_from(&payload[..]) {
                pending.grant(u32::from_le_bytes(bytes));
            }
        }
        FrameType::Close => {
            if let Some((code, reason)) = payload.split_first_chunk::<2>() {
                pending.close(u16::from_le_bytes(*code), reason);
            }
            return false;
        }
        _ => return false,
    }
    true
}

/// Passes on what the pool delivers for one job.
struct Relay<'a> {
    link: &'a Link,
    /// Slot and number.
    job: (u32, u32),
    window: &'a Cell<u64>,
    is_websocket: bool,
}

impl Relay<'_> {
    fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Answer(answer) => self.answer(&answer),
            Delivery::Chunk { bytes, end, .. } => {
                self.put(FrameType::Body, if end { flag::END } else { 0 }, &bytes);
            }
            Delivery::Trailers(block) => self.put(FrameType::Trailers, 0, &block),
            Delivery::Window(bytes) => {
                self.window.set(self.window.get() + u64::from(bytes));
                self.put(FrameType::Window, 0, &bytes.to_le_bytes());
            }
            Delivery::Message(message) => {
                let flags = [
                    (message.is_text, flag::TEXT),
                    (message.end, flag::END),
                    (message.is_published, flag::PUBLISHED),
                ];
                let flags = flags
                    .iter()
                    .filter(|(is_set, _)| *is_set)
                    .map(|(_, bit)| bit)
                    .sum();
                self.put(FrameType::Message, flags, &message.bytes);
            }
            Delivery::Close { code, reason } => self.close(code, &reason),
            Delivery::Overflow => self.close(POLICY_VIOLATION, b"too slow"),
            Delivery::Failed(failure) => self.fail(&failure),
        }
    }

    fn put(&self, kind: FrameType, flags: u8, payload: &[u8]) {
        self.link.put(kind, flags, self.job, payload);
    }

    fn close(&self, code: u16, reason: &[u8]) {
        self.put(FrameType::Close, 0, &[&code.to_le_bytes(), reason].concat());
    }

    fn answer(&mut self, answer: &Answer) {
        let Some((kind, flags, payload)) = answer.frame() else {
            let text = "it is a file, which a worker on another machine cannot pass on";
            return self.link.fail(self.job, FailureReason::InvalidAnswer, text);
        };
        self.put(kind, flags, &payload);
        self.is_websocket = answer.upgrade() == Some(Upgrade::WebSocket);
        if answer.is_detached() {
            self.job.0 = DETACHED_SLOT;
        }
    }

    fn fail(&self, failure: &Failure) {
        let (reason, text) = match failure {
            Failure::ResponseReset => return self.put(FrameType::Reset, 0, &[]),
            Failure::Stopping { .. } if self.is_websocket => return self.close(SERVICE_RESTART, &[]),
            Failure::Stopping { .. } if self.job.0 == DETACHED_SLOT => {
                return self.put(FrameType::Body, flag::END, &[]);
            }
            Failure::QueueFull { .. }
            | Failure::QueueBytesFull { .. }
            | Failure::QueueTimeout { .. }
            | Failure::NoHost { .. }
            | Failure::NotStarting { .. } => (FailureReason::NotBegun, String::new()),
            // It may have begun.
            Failure::Stopping { .. } | Failure::WorkerDied { .. } => {
                (FailureReason::WorkerDied, String::new())
            }
            Failure::RunTimeout { .. } => (FailureReason::RunTimeout, String::new()),
            Failure::DeadlinePassed => (FailureReason::DeadlinePassed, String::new()),
            Failure::TooManyConnections { .. } => (FailureReason::TooManyConnections, String::new()),
            Failure::TooManyRooms { .. } => (FailureReason::InvalidAnswer, failure.to_string()),
            Failure::InvalidAnswer { what } => (FailureReason::InvalidAnswer, what.clone()),
        };
        self.link.fail(self.job, reason, &text);
    }
}
