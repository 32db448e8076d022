//! Sends the messages of one thread to a mail server.

use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    Draft, MailOptions,
    conversation::{ConnectionError, Conversation},
};
use crate::ClientError;

/// Sends the messages of one thread to a mail server.
#[derive(Debug)]
pub(crate) struct Sender {
    name: String,
    options: MailOptions,
    room: Semaphore,
}

impl Sender {
    pub(crate) fn new(name: &str, options: MailOptions) -> Self {
        Self {
            name: name.to_owned(),
            room: Semaphore::new(options.connections_max),
            options,
        }
    }

    /// Sends a message within the time limit. Returns `{"code", "reply", "messageId"}`, with the server's reply to the message text.
    pub(crate) async fn send(&self, draft: &Draft) -> Result<Value, ClientError> {
        let letter = draft.letter(&self.name, &self.options)?;
        let what = format!("mail `{}`", self.name);
        let time = self.options.send_timeout;
        let handed_over = timeout(time, async {
            let _place = self.room.acquire().await;
            Conversation::hand_over(&self.options, &letter).await
        });
        let Ok(outcome) = handed_over.await else {
            return Err(ClientError::Time {
                what,
                time,
                limit: "send_timeout",
            });
        };
        let failed = |what, reason| ClientError::Failed { what, reason };
        match outcome {
            Ok(reply) => Ok(json!({ "code": reply.code, "reply": reply.text(), "messageId": letter.id })),
            Err(ConnectionError::Refused(reason)) => Err(ClientError::Refused { what, reason }),
            Err(ConnectionError::Broken(error)) => Err(failed(what, error.to_string())),
            Err(ConnectionError::Unfit(reason)) => Err(failed(what, reason.to_owned())),
        }
    }
}
