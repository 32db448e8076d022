//! A link's bytes as messages: each begins with its number, so that a lost one is noticed, and is short enough for the server.

use async_nats::{Client, Message, StatusCode, Subject};
use bytes::{BufMut, Bytes, BytesMut};

use crate::announcement::{PATIENCE, SILENCE_MAX};

/// Bytes of a message's number.
const NUMBER_BYTES: usize = 8;
/// In the place of a number: the sender has given the link up.
const END: u64 = u64::MAX;
/// Longest message, also where the server takes longer ones.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Why a link is over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkEnd {
    #[error("the other side is gone")]
    NoResponders {
        /// The last part of the subject to which the server reports.
        reply: String,
    },
    #[error("the other side has ended it")]
    Ended,
    #[error("messages are missing: number {found} came in the place of {expected}")]
    Gap { expected: u64, found: u64 },
    #[error("a message of {0} bytes has no number")]
    Short(usize),
    #[error("it has not announced itself for {:?}", SILENCE_MAX + PATIENCE)]
    Silent,
    #[error("the pool has given it up")]
    GivenUp,
    #[error("the other side has broken the protocol: {0}")]
    Protocol(String),
    #[error("this process cannot subscribe to its messages: {0}")]
    Subscribe(String),
}

/// Sends the bytes of one direction of a link. The server reports to `reply` if nobody receives them.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) client: Client,
    pub(crate) subject: Subject,
    /// Where the server reports that nobody receives the message of this number.
    pub(crate) reply: ReplyTo,
    pub(crate) next: u64,
}

/// The reply subject of messages.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// The same for all.
    Subject(Subject),
    /// This, then the number of the message.
    Numbered(String),
}

impl ReplyTo {
    fn subject(&self, number: u64) -> Subject {
        match self {
            Self::Subject(subject) => subject.clone(),
            Self::Numbered(before) => format!("{before}.{number}").into(),
        }
    }
}

impl Sender {
    /// Sends bytes, or a message without any that shows whether somebody receives it.
    pub(crate) async fn send(&mut self, mut bytes: &[u8]) {
        let piece_max = self.piece_max();
        loop {
            let (now, later) = bytes.split_at(bytes.len().min(piece_max));
            self.publish(self.next, now).await;
            self.next += 1;
            bytes = later;
            if bytes.is_empty() {
                return;
            }
        }
    }

    /// Bytes that one message carries at most.
    pub(crate) fn piece_max(&self) -> usize {
        let max = self.client.max_payload().min(MESSAGE_BYTES_MAX);
        max.saturating_sub(NUMBER_BYTES).max(1)
    }

    /// Tells the other side that nothing more comes.
    pub(crate) async fn end(&self) {
        self.publish(END, &[]).await;
    }

    async fn publish(&self, number: u64, bytes: &[u8]) {
        let mut message = BytesMut::with_capacity(NUMBER_BYTES + bytes.len());
        message.put_u64_le(number);
        message.put_slice(bytes);
        let (subject, reply) = (self.subject.clone(), self.reply.subject(number));
        let sent = self
            .client
            .publish_with_reply(subject, reply, message.freeze())
            .await;
        if let Err(error) = sent {
            // The receiver notices that the number is missing.
            tracing::debug!(target: "forebay::cluster", "a message was not sent: {error}");
        }
    }
}

/// Receives the bytes of one direction of a link.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    next: u64,
}

impl Receiver {
    /// The bytes of the next message.
    pub(crate) fn take(&mut self, message: &Message) -> Result<Bytes, LinkEnd> {
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            let reply = message.subject.rsplit('.').next().unwrap_or_default();
            return Err(LinkEnd::NoResponders {
                reply: reply.to_owned(),
            });
        }
        let payload = &message.payload;
        let Some((number, _)) = payload.split_first_chunk::<NUMBER_BYTES>() else {
            return Err(LinkEnd::Short(payload.len()));
        };
        let (expected, found) = (self.next, u64::from_le_bytes(*number));
        if found == END {
            return Err(LinkEnd::Ended);
        }
        if found != expected {
            return Err(LinkEnd::Gap { expected, found });
        }
        self.next += 1;
        Ok(payload.slice(NUMBER_BYTES..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: Bytes) -> Message {
        Message {
            subject: "a".into(),
            reply: None,
            length: payload.len(),
            payload,
            headers: None,
            status: None,
            description: None,
        }
    }

    #[test]
    fn a_message_that_is_missing_doubled_or_cut_short_ends_the_link() {
        let numbered = |number: u64| message([&number.to_le_bytes()[..], b"frames"].concat().into());
        let mut receiver = Receiver::default();
        assert_eq!(receiver.take(&numbered(0)).unwrap(), "frames");
        let (expected, found) = (1, 0);
        assert_eq!(receiver.take(&numbered(0)), Err(LinkEnd::Gap { expected, found }));
        let found = 2;
        assert_eq!(receiver.take(&numbered(2)), Err(LinkEnd::Gap { expected, found }));
        assert_eq!(
            receiver.take(&message(Bytes::from_static(b"1234567"))),
            Err(LinkEnd::Short(7))
        );
        assert_eq!(receiver.take(&numbered(u64::MAX)), Err(LinkEnd::Ended));
        let mut nobody = message(Bytes::new());
        nobody.status = Some(StatusCode::NO_RESPONDERS);
        let reply = "a".to_owned();
        assert_eq!(receiver.take(&nobody), Err(LinkEnd::NoResponders { reply }));
    }
}
