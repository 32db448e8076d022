//! Calls of workers into the server, in the dialects that have them: bounded in number, each answered once.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Instant,
};

use slab::Slab;

use crate::{dialect::call_error, link::Link};

/// Most calls that one worker may have open.
const CALLS_OPEN_MAX: usize = 256;

/// Answers what workers ask of the server. Called on a thread that must not wait.
pub trait Calls: fmt::Debug + Send + Sync {
    /// Takes a call, to answer it from any thread. After its deadline nobody wants the answer any more.
    fn call(&self, call: Call);
}

/// A call of a worker. Dropped without an answer, it is answered with an error.
#[derive(Debug)]
pub struct Call {
    body: String,
    deadline: Instant,
    key: CallKey,
    link: Option<Weak<Link>>,
}

/// Names a call among those of its worker.
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

    /// What is asked, as JSON text.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// When its worker is told that it took too long.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Answers with JSON text. Nothing happens when its time is over or the worker is gone.
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

/// The calls of one worker that have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    open: Slab<OpenCall>,
    nonces: u64,
}

#[derive(Debug)]
struct OpenCall {
    /// As the worker names it.
    id: String,
    nonce: u64,
    deadline: Instant,
}

impl OpenCalls {
    /// Takes a call; none: there are too many already.
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

    /// Closes a call; none: it was closed before.
    pub(crate) fn close(&mut self, key: CallKey) -> Option<String> {
        let open = self.open.get(key.place)?;
        (open.nonce == key.nonce).then(|| self.open.remove(key.place).id)
    }

    /// Closes those whose time is over.
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
