//! Calls that workers make to the server, in the dialects that have calls. Their number is bounded, and each is answered once.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Instant,
};

use slab::Slab;

use crate::{dialect::call_error, link::Link};

/// Maximum number of open calls per worker.
const CALLS_OPEN_MAX: usize = 256;

/// Handles calls of workers. Called on a thread that must not block.
pub trait Calls: fmt::Debug + Send + Sync {
    /// Accepts a call, which may be answered from any thread. An answer after the deadline is discarded.
    fn call(&self, call: Call);
}

/// A call of a worker. If it is dropped unanswered, the worker gets an error.
#[derive(Debug)]
pub struct Call {
    body: String,
    deadline: Instant,
    key: CallKey,
    link: Option<Weak<Link>>,
}

/// Identifies a call among those of its worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallKey {
    place: usize,
    nonce: u64,
}

impl Call {
    pub(crate) fn new(body: String, deadline: Instant, key: CallKey, link: &Arc<Link>) -> Self {
        Self {
            body,
            deadline,
            key,
            link: Some(Arc::downgrade(link)),
        }
    }

    /// The content of the call, as JSON text.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// When the worker is told that the call timed out.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Answers with JSON text. Does nothing if the call has timed out or the worker is gone.
    pub fn answer(mut self, body: &[u8]) {
        self.reply(body);
    }

    /// Answers with `{"code":-1,"error":"..."}`.
    pub fn refuse(mut self, error: &str) {
        self.reply(&call_error(error));
    }

    fn reply(&mut self, body: &[u8]) {
        if let Some(link) = self.link.take().and_then(|link| link.upgrade()) {
            link.finish_call(self.key, body);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.reply(&call_error("the call was given up"));
    }
}

/// The unanswered calls of one worker.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    open: Slab<OpenCall>,
    nonces: u64,
}

#[derive(Debug)]
struct OpenCall {
    /// The worker's id for the call.
    id: String,
    nonce: u64,
    deadline: Instant,
}

impl OpenCalls {
    /// Registers a call. Fails with its id and an error message if too many are open.
    pub(crate) fn open(&mut self, id: String, deadline: Instant) -> Result<CallKey, (String, String)> {
        if self.open.len() >= CALLS_OPEN_MAX {
            let error = format!("this worker already has {CALLS_OPEN_MAX} open calls");
            return Err((id, error));
        }
        self.nonces += 1;
        let nonce = self.nonces;
        let place = self.open.insert(OpenCall { id, nonce, deadline });
        Ok(CallKey { place, nonce })
    }

    /// Closes a call and returns its id. `None` if it is closed already.
    pub(crate) fn close(&mut self, key: CallKey) -> Option<String> {
        let open = self.open.get(key.place)?;
        (open.nonce == key.nonce).then(|| self.open.remove(key.place).id)
    }

    /// Closes the calls whose deadline has passed, and returns their ids.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<String> {
        let due: Vec<_> = self
            .open
            .iter()
            .filter(|(_, call)| now >= call.deadline)
            .map(|(place, _)| place)
            .collect();
        due.into_iter().map(|place| self.open.remove(place).id).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
