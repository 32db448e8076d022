//! E-mail: messages that are handed to a server of SMTP (RFC 5321), one connection each.
//!
//! A message goes to all whom it names, or to nobody: the first recipient that is refused ends the conversation before its text is sent.

mod address;
mod conversation;
mod message;
mod sender;

pub use address::{AddressError, Recipients};
pub(crate) use message::Draft;
pub(crate) use sender::Sender;

use std::{fmt, time::Duration};

/// How a connection to a server of mail is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// It begins plain, and is encrypted before anything is said (RFC 3207); a server that does not offer that is refused.
    StartTls,
    /// From its beginning (RFC 8314).
    Implicit,
    /// Not at all.
    None,
}

/// Who says so to a server of mail.
#[derive(Clone, PartialEq, Eq)]
pub struct MailLogin {
    /// The user.
    pub user: String,
    /// Its password.
    pub password: String,
}

impl fmt::Debug for MailLogin {
    /// Without the password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MailLogin")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A server of mail, and what bounds its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailOptions {
    /// Where it is.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How connections to it are encrypted.
    pub tls: MailTls,
    /// Who says so to it; none: it is not asked for.
    pub login: Option<MailLogin>,
    /// The sender of every message, such as `Shop <shop@example.org>`.
    pub from: MailSender,
    /// Who may be written to.
    pub to: Recipients,
    /// Connections of one thread.
    pub connections_max: usize,
    /// From the order to the server's reply to the whole message, waiting for a connection included.
    pub send_timeout: Duration,
    /// Longest message, as it is sent.
    pub message_bytes_max: usize,
    /// Recipients of one message.
    pub recipients_max: usize,
}

/// The sender of messages: an address, or a name with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailSender(lettre::message::Mailbox);

impl std::str::FromStr for MailSender {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        address::mailbox(text).map(Self)
    }
}

impl fmt::Display for MailSender {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
