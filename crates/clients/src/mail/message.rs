//! Builds messages from what rules pass.

use lettre::{
    Address, Message,
    message::{Mailbox, MultiPart, SinglePart, header::ContentType},
};
use serde::Deserialize;

use super::{MailOptions, address};
use crate::{ClientError, token};

/// Longest subject.
const SUBJECT_BYTES_MAX: usize = 2000;

/// The fields of a message.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Draft {
    to: Vec<String>,
    cc: Vec<String>,
    /// Recipients that do not appear in the headers.
    bcc: Vec<String>,
    reply_to: Vec<String>,
    subject: String,
    text: Option<String>,
    html: Option<String>,
}

/// An encoded message.
#[derive(Debug)]
pub(super) struct Email {
    /// The `Message-ID` header.
    pub(super) id: String,
    pub(super) from: Address,
    /// All recipients, without duplicates.
    pub(super) to: Vec<Address>,
    /// ASCII lines that end with CRLF.
    pub(super) bytes: Vec<u8>,
}

impl Draft {
    /// Builds a message of `[mail.NAME]` if its sender and recipients are permitted.
    pub(super) fn letter(&self, name: &str, options: &MailOptions) -> Result<Email, ClientError> {
        let wrong = |reason: String| ClientError::Operation { reason };
        let named = self.to.len() + self.cc.len() + self.bcc.len();
        if named == 0 || named > options.recipients_max {
            return Err(wrong(format!(
                "a message has 1 to {} recipients (recipients_max), and not {named}",
                options.recipients_max
            )));
        }
        if self.reply_to.len() > options.recipients_max {
            return Err(wrong(format!(
                "a message has at most {} addresses in `replyTo` (recipients_max)",
                options.recipients_max
            )));
        }
        if self.subject.len() > SUBJECT_BYTES_MAX || self.subject.chars().any(char::is_control) {
            return Err(wrong(format!(
                "a subject has at most {SUBJECT_BYTES_MAX} bytes, and no control characters"
            )));
        }
        let given = [&self.text, &self.html].into_iter().flatten();
        let length: usize = given.map(String::len).sum();
        let long = || ClientError::Long {
            what: format!("the message for mail `{name}`"),
            bytes_max: options.message_bytes_max,
            limit: "message_bytes_max",
        };
        if length > options.message_bytes_max {
            return Err(long());
        }
        let (to, cc, bcc) = (boxes(&self.to)?, boxes(&self.cc)?, boxes(&self.bcc)?);
        let mut recipients: Vec<Address> = Vec::with_capacity(named);
        for mailbox in to.iter().chain(&cc).chain(&bcc) {
            if !options.to.has(&mailbox.email) {
                return Err(ClientError::NotNamed {
                    what: format!("recipient `{}`", mailbox.email),
                    place: format!("`to` of `[mail.{name}]`"),
                    named: options.to.texts(),
                });
            }
            if !recipients.contains(&mailbox.email) {
                recipients.push(mailbox.email.clone());
            }
        }
        let failed = |reason: String| ClientError::Failed {
            what: format!("mail `{name}`"),
            reason,
        };
        let from = &options.from.0;
        let id = format!("<{}@{}>", token::random().map_err(failed)?, from.email.domain());
        let mut builder = Message::builder()
            .from(from.clone())
            .subject(self.subject.as_str())
            .message_id(Some(id.clone()))
            .date_now();
        builder = to.into_iter().fold(builder, lettre::message::MessageBuilder::to);
        builder = cc.into_iter().fold(builder, lettre::message::MessageBuilder::cc);
        builder = boxes(&self.reply_to)?
            .into_iter()
            .fold(builder, lettre::message::MessageBuilder::reply_to);
        // The recipients are those of the conversation, whatever the heads say.
        let envelope = lettre::address::Envelope::new(Some(from.email.clone()), recipients.clone());
        builder = builder.envelope(envelope.map_err(|error| failed(error.to_string()))?);
        let part =
            |kind: ContentType, text: &str| SinglePart::builder().content_type(kind).body(in_lines(text));
        let text = self
            .text
            .as_deref()
            .map(|text| part(ContentType::TEXT_PLAIN, text));
        let html = self
            .html
            .as_deref()
            .map(|html| part(ContentType::TEXT_HTML, html));
        let message = match (text, html) {
            (Some(text), Some(html)) => {
                builder.multipart(MultiPart::alternative().singlepart(text).singlepart(html))
            }
            (Some(one), None) | (None, Some(one)) => builder.singlepart(one),
            (None, None) => return Err(wrong("a message has `text`, `html` or both".to_owned())),
        };
        let bytes = message.map_err(|error| failed(error.to_string()))?.formatted();
        if bytes.len() > options.message_bytes_max {
            return Err(long());
        }
        Ok(Email {
            id,
            from: from.email.clone(),
            to: recipients,
            bytes,
        })
    }
}

fn boxes(texts: &[String]) -> Result<Vec<Mailbox>, ClientError> {
    let boxes = texts.iter().map(|text| address::mailbox(text));
    boxes
        .collect::<Result<_, _>>()
        .map_err(|error| ClientError::Operation {
            reason: error.to_string(),
        })
}

/// Normalises line ends to CRLF, so that no server takes anything else for the end of a line.
fn in_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
        .replace('\r', "\n")
        .replace('\n', "\r\n")
}
