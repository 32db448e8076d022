//! Answers to the calls of a worker, on their way to it.

use forebay_wire::{FrameType, flag};

use super::{
    Link,
    outgoing::{LinkState, Unread},
};
use crate::{
    calls::{CallId, Refusal},
    dialect,
};

impl Link {
    /// Buffers the answer to a call, or the reason why it was not executed. [`Self::flush`] sends it.
    pub(crate) fn put_answer(&self, to: &CallId, outcome: Result<Vec<u8>, Refusal>) {
        match to {
            &CallId::Frame {
                job: (slot, job),
                number,
            } => {
                let header = |flags| self.header(FrameType::Return, flags, slot, job);
                let mut outgoing = self.outgoing.lock();
                let put = outcome.and_then(|body| outgoing.put_return(header(0), number, body));
                if let Err(refusal) = put {
                    outgoing
                        .put_return(header(flag::FAULT), number, refusal.to_json())
                        .expect("an error is short");
                }
            }
            CallId::Message(id) => match outcome {
                Ok(body) if body.len() > self.message_bytes_max => {
                    let (length, max) = (body.len(), self.message_bytes_max);
                    self.put_message_error(
                        id,
                        &format!("the answer has {length} bytes, at most {max} are sent (message_bytes_max)"),
                    );
                }
                Ok(body) => self.put_message(id, &body),
                Err(Refusal::NoCallHandler) => self.put_message_error(id, "this server answers no calls"),
                Err(Refusal::Over) => self.put_message_error(id, "the call was given up"),
                Err(refusal) => self.put_message_error(id, &refusal.to_string()),
            },
        }
    }

    /// Buffers the answer to a call that came as a message, and was not executed.
    pub(crate) fn put_message_error(&self, id: &str, error: &str) {
        self.put_message(id, &dialect::call_error(error));
    }

    fn put_message(&self, id: &str, body: &[u8]) {
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
    }

    /// The reason why the reader was told to end, if the worker is to blame.
    pub(crate) fn unread(&self) -> Option<Unread> {
        self.outgoing.lock().unread
    }
}
