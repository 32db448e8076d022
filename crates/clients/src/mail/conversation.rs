//! The client side of an SMTP conversation (RFC 5321).

use std::io;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::{MailLogin, MailOptions, MailTls, message::Email};
use crate::stream::{self, Wire};

/// Longest line of a reply including its end; RFC 5321 (4.5.3.1.5) allows 512.
const LINE_BYTES_MAX: usize = 2048;
/// Most lines in a reply.
const LINES_MAX: usize = 100;
/// Longest part of a reply that errors quote.
const TOLD_CHARS_MAX: usize = 500;

/// Why a message was not accepted.
#[derive(Debug)]
pub(super) enum ConnectionError {
    /// The server refused a command: which one, and its reply.
    Refused(String),
    /// The connection failed.
    Broken(io::Error),
    /// The reply is malformed, or lacks a required extension.
    Unfit(&'static str),
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// A reply of the server.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) code: u16,
    /// The text of each line, after the code.
    lines: Vec<String>,
}

impl Reply {
    /// The text as one line of bounded length.
    pub(super) fn text(&self) -> String {
        let joined = self.lines.join(" ");
        let plain = joined.chars().filter(|each| !each.is_control());
        plain.take(TOLD_CHARS_MAX).collect()
    }

    /// Parameters of the extension with this keyword, if the server offers it (RFC 5321, 4.1.1.1).
    fn offered(&self, word: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| {
            let (first, rest) = line.split_once([' ', '=']).unwrap_or((line, ""));
            first.eq_ignore_ascii_case(word).then_some(rest)
        })
    }
}

/// A conversation. Dropping it closes the connection.
pub(super) struct Conversation {
    stream: BufReader<Wire>,
}

impl Conversation {
    /// Sends a message, from connecting to the server's last reply.
    pub(super) async fn hand_over(options: &MailOptions, letter: &Email) -> Result<Reply, ConnectionError> {
        let is_encrypted = options.tls == MailTls::Implicit;
        let wire = stream::connect(&options.host, options.port, is_encrypted).await?;
        let mut conversation = Self {
            stream: BufReader::new(wire),
        };
        conversation.reply("its greeting").await?;
        let mut offers = conversation.hello(letter).await?;
        if options.tls == MailTls::StartTls {
            if offers.offered("STARTTLS").is_none() {
                return Err(ConnectionError::Unfit("it does not offer STARTTLS"));
            }
            conversation.say("STARTTLS", "STARTTLS").await?;
            conversation = conversation.encrypted(&options.host).await?;
            offers = conversation.hello(letter).await?;
        }
        if let Some(login) = &options.login {
            conversation.log_in(login, &offers).await?;
        }
        conversation.send(letter).await
    }

    /// Starts TLS. Discards what arrived before it, which may be injected (RFC 3207, 4.2).
    async fn encrypted(self, host: &str) -> Result<Self, ConnectionError> {
        if !self.stream.buffer().is_empty() {
            return Err(ConnectionError::Unfit(
                "it has said something before the connection was encrypted",
            ));
        }
        let wire = stream::encrypt(self.stream.into_inner(), host).await?;
        Ok(Self {
            stream: BufReader::new(wire),
        })
    }

    /// Asks for the extensions, with the sender's domain as the client's name, because some servers require one that exists.
    async fn hello(&mut self, letter: &Email) -> Result<Reply, ConnectionError> {
        self.say(&format!("EHLO {}", letter.from.domain()), "EHLO").await
    }

    async fn log_in(&mut self, login: &MailLogin, offers: &Reply) -> Result<(), ConnectionError> {
        let offered = offers.offered("AUTH").unwrap_or_default();
        let has = |name: &str| offered.split(' ').any(|word| word.eq_ignore_ascii_case(name));
        let MailLogin { user, password } = login;
        if has("PLAIN") {
            let secret = BASE64.encode(format!("\0{user}\0{password}"));
            self.say(&format!("AUTH PLAIN {secret}"), "AUTH").await?;
        } else if has("LOGIN") {
            self.say("AUTH LOGIN", "AUTH").await?;
            self.say(&BASE64.encode(user), "AUTH").await?;
            self.say(&BASE64.encode(password), "AUTH").await?;
        } else {
            return Err(ConnectionError::Unfit(
                "it offers neither AUTH PLAIN nor AUTH LOGIN",
            ));
        }
        Ok(())
    }

    async fn send(&mut self, letter: &Email) -> Result<Reply, ConnectionError> {
        let from = format!("MAIL FROM:<{}>", letter.from);
        self.say(&from, &from).await?;
        for address in &letter.to {
            let to = format!("RCPT TO:<{address}>");
            self.say(&to, &to).await?;
        }
        self.say("DATA", "DATA").await?;
        self.stream.write_all(&stuffed(&letter.bytes)).await?;
        self.stream.flush().await?;
        let reply = self.reply("the message").await?;
        // It is taken. What becomes of the connection is of no interest any more.
        let _ = self.stream.write_all(b"QUIT\r\n").await;
        let _ = self.stream.flush().await;
        Ok(reply)
    }

    /// Sends a line and reads its reply.
    async fn say(&mut self, line: &str, what: &str) -> Result<Reply, ConnectionError> {
        self.stream.write_all(format!("{line}\r\n").as_bytes()).await?;
        self.stream.flush().await?;
        self.reply(what).await
    }

    /// Reads a reply, and turns a refusal into an error.
    async fn reply(&mut self, what: &str) -> Result<Reply, ConnectionError> {
        let mut lines = Vec::new();
        loop {
            if lines.len() == LINES_MAX {
                return Err(ConnectionError::Unfit("a reply has too many lines"));
            }
            let line = self.line().await?;
            let unfit = || ConnectionError::Unfit("a reply does not begin with a code");
            let code = line.get(..3).ok_or_else(unfit)?;
            let code: u16 = code.parse().map_err(|_| unfit())?;
            let rest = &line[3..];
            lines.push(rest.get(1..).unwrap_or_default().trim().to_owned());
            if rest.starts_with('-') {
                continue;
            }
            let reply = Reply { code, lines };
            return match code {
                200..400 => Ok(reply),
                _ => Err(ConnectionError::Refused(format!(
                    "{code} {} (to {what})",
                    reply.text()
                ))),
            };
        }
    }

    /// Reads a line without its end. Invalid UTF-8 becomes U+FFFD.
    async fn line(&mut self) -> Result<String, ConnectionError> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.stream).take(LINE_BYTES_MAX as u64);
        bounded.read_until(b'\n', &mut line).await?;
        if line.ends_with(b"\n") {
            return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        Err(if line.len() == LINE_BYTES_MAX {
            ConnectionError::Unfit("a line of a reply is too long")
        } else {
            ConnectionError::Broken(io::ErrorKind::UnexpectedEof.into())
        })
    }
}

/// Reads replies from these bytes until one is malformed, and returns the length of each as errors quote it.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) async fn read_replies(bytes: Vec<u8>) -> Vec<usize> {
    let mut conversation = Conversation {
        stream: BufReader::new(Box::pin(io::Cursor::new(bytes))),
    };
    let mut lengths = Vec::new();
    loop {
        let text = match conversation.reply("a command").await {
            Ok(reply) => reply.text(),
            Err(ConnectionError::Refused(text)) => text,
            Err(_) => return lengths,
        };
        assert!(!text.contains(char::is_control), "an error is one line");
        lengths.push(text.chars().count());
    }
}

/// Encodes the message text: doubles a dot at the start of a line, and ends with a line of one dot (RFC 5321, 4.5.2).
fn stuffed(message: &[u8]) -> Vec<u8> {
    let mut sent = Vec::with_capacity(message.len() + message.len() / 50 + 8);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            sent.push(b'.');
        }
        sent.extend_from_slice(line);
    }
    if !sent.ends_with(b"\r\n") {
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(b".\r\n");
    sent
}
