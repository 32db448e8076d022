//! E-mail over SMTP (RFC 5321), with one connection per message.
//!
//! A message goes to all of its recipients or to none: if the server refuses one, the conversation ends before the text is sent.

mod address;
mod conversation;
mod message;
mod sender;

pub use address::{AddressError, Recipients};
pub(crate) use message::Draft;
pub(crate) use sender::Sender;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use conversation::read_replies;

use std::{fmt, time::Duration};

/// How a connection to a mail server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// STARTTLS before anything else is said (RFC 3207); a server that does not offer it is refused.
    StartTls,
    /// TLS from the first byte (RFC 8314).
    Implicit,
    /// No encryption.
    None,
}

/// Credentials for a mail server.
#[derive(Clone, PartialEq, Eq)]
pub struct MailLogin {
    /// The user name for SMTP AUTH.
    pub user: String,
    /// The password for SMTP AUTH.
    pub password: String,
}

impl fmt::Debug for MailLogin {
    /// Omits the password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MailLogin")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A mail server, its credentials and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailOptions {
    /// DNS name or IP address.
    pub host: String,
    /// TCP port, such as 587.
    pub port: u16,
    /// How connections are encrypted.
    pub tls: MailTls,
    /// Credentials; `None` sends without authentication.
    pub login: Option<MailLogin>,
    /// The sender of all messages, such as `Shop <shop@example.org>`.
    pub from: MailSender,
    /// Permitted recipients.
    pub to: Recipients,
    /// Connections per thread.
    pub connections_max: usize,
    /// Time limit for one message, including the wait for a free connection.
    pub send_timeout: Duration,
    /// Longest encoded message in bytes.
    pub message_bytes_max: usize,
    /// Most recipients per message.
    pub recipients_max: usize,
}

/// Parses the sender of messages: an address, optionally with a display name.
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
