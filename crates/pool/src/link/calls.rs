//! Calls of a worker to the server that come over its link, and their answers.

use std::time::Instant;

use forebay_wire::Header;

use super::{
    Link,
    outgoing::{LinkState, Unread},
};
use crate::{call_handler::Refusal, calls::CallKey, dialect};

impl Link {
    /// Opens a call under the worker's `id`. If too many are open, the call is answered with an error at once.
    pub(crate) fn open_call(&self, id: String, deadline: Instant) -> Option<CallKey> {
        let opened = self.calls.lock().open(id, deadline);
        opened
            .map_err(|(id, error)| self.return_call(&id, &dialect::call_error(&error)))
            .ok()
    }

    /// Answers a call, unless it has timed out.
    pub(crate) fn finish_call(&self, key: CallKey, body: &[u8]) {
        let id = self.calls.lock().close(key);
        if let Some(id) = id {
            self.return_call(&id, body);
        }
    }

    /// Sends an answer for a call that was never opened or is closed already.
    pub(crate) fn return_call(&self, id: &str, body: &[u8]) {
        let body = if body.len() > self.message_bytes_max {
            let (length, max) = (body.len(), self.message_bytes_max);
            &dialect::call_error(&format!(
                "the answer has {length} bytes, at most {max} are sent (message_bytes_max)"
            ))
        } else {
            body
        };
        let mut message = Vec::with_capacity(body.len() + id.len() + 32);
        dialect::put_return(self.protocol, &mut message, id, body);
        let mut outgoing = self.outgoing.lock();
        if outgoing.state != LinkState::Open {
            return;
        }
        if outgoing.full && outgoing.frames.len() > self.message_bytes_max {
            outgoing.unread = Some(Unread {
                message_bytes_max: self.message_bytes_max,
            });
            self.hung_up.notify_one();
            return;
        }
        outgoing.frames.extend_from_slice(&message);
        drop(outgoing);
        self.flush();
    }

    /// Answers calls that have timed out. Returns whether others are open.
    pub(crate) fn expire_calls(&self, now: Instant) -> bool {
        let (expired, more) = {
            let mut calls = self.calls.lock();
            (calls.expire(now), !calls.is_empty())
        };
        for id in expired {
            self.return_call(
                &id,
                &dialect::call_error("the call has taken too long (run_timeout)"),
            );
        }
        more
    }

    /// Queues the answer to a call that arrived as a frame. [`Self::flush`] sends it.
    pub(crate) fn put_return(&self, header: Header, number: u32, body: Vec<u8>) -> Result<(), Refusal> {
        self.outgoing.lock().put_return(header, number, body)
    }

    /// The reason why the reader was told to end, if the worker is to blame.
    pub(crate) fn unread(&self) -> Option<Unread> {
        self.outgoing.lock().unread
    }
}
