//! What controller and agent say to each other, and how a line of it is read and written: bounded in length and in time.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use forebay_load::report::{
    Report,
    saved::{self, SavedError},
};
use serde_json::{Value, json};

use super::WRITE_MAX;

/// What is spoken. Both sides refuse another one.
const VERSION: u64 = 1;
/// Longest line, but for a report.
pub(super) const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Longest line with a report.
pub(super) const REPORT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why nothing could be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The connection is broken.
    #[error("the connection is broken")]
    Broken(#[source] io::Error),
    /// The other side has ended it.
    #[error("it has ended the connection")]
    Ended,
    /// No whole line came in time.
    #[error("it has said nothing for {} s", after.as_secs())]
    Silent { after: Duration },
    /// A line that is too long.
    #[error("it sent a line of more than {max} bytes")]
    TooLong { max: usize },
    /// A line that means nothing.
    #[error("it sent a line that means nothing here")]
    Meaningless,
    /// A report that is none.
    #[error("its report cannot be used")]
    Report(#[source] SavedError),
}

/// What is said.
#[derive(Debug)]
pub(super) enum Message {
    /// From the controller, first: who it is.
    Hello { token: Option<String> },
    /// What is to be run: the words of a command line.
    Order { words: Vec<String> },
    /// From the agent: all is prepared.
    Ready,
    /// From the controller: it begins now.
    Go,
    /// From the controller, now and then: it is still there.
    On,
    /// From the controller: it shall end now.
    End,
    /// From the agent, now and then: how far it is.
    Progress { answers: u64, failed: u64 },
    /// From the agent: what was measured.
    Report(Box<Report>),
    /// From the agent: there will be no report.
    Failed { why: String },
}

impl Message {
    fn to_value(&self) -> Value {
        match self {
            Self::Hello { token } => json!({"hello": VERSION, "token": token}),
            Self::Order { words } => json!({"order": words}),
            Self::Ready => json!({"ready": true}),
            Self::Go => json!({"go": true}),
            Self::On => json!({"on": true}),
            Self::End => json!({"end": true}),
            Self::Progress { answers, failed } => json!({"progress": [answers, failed]}),
            Self::Report(report) => json!({"report": saved::record(report)}),
            Self::Failed { why } => json!({"failed": why}),
        }
    }

    fn read(line: &[u8]) -> Result<Self, WireError> {
        let value: Value = serde_json::from_slice(line).map_err(|_| WireError::Meaningless)?;
        let (name, said) = match value.as_object().and_then(|object| {
            // The first by name would be `token`, which only goes with `hello`.
            object.iter().find(|(name, _)| *name != "token")
        }) {
            Some((name, said)) => (name.as_str(), said),
            None => return Err(WireError::Meaningless),
        };
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or(WireError::Meaningless);
        Ok(match name {
            "hello" if *said == VERSION => Self::Hello {
                token: value["token"].as_str().map(str::to_owned),
            },
            "order" => Self::Order {
                words: said
                    .as_array()
                    .ok_or(WireError::Meaningless)?
                    .iter()
                    .map(text)
                    .collect::<Result<_, _>>()?,
            },
            "ready" => Self::Ready,
            "go" => Self::Go,
            "on" => Self::On,
            "end" => Self::End,
            "progress" => Self::Progress {
                answers: said[0].as_u64().ok_or(WireError::Meaningless)?,
                failed: said[1].as_u64().ok_or(WireError::Meaningless)?,
            },
            "report" => Self::Report(Box::new(saved::from_record(said).map_err(WireError::Report)?)),
            "failed" => Self::Failed { why: text(said)? },
            _ => return Err(WireError::Meaningless),
        })
    }
}

/// A connection, by lines.
#[derive(Debug)]
pub(super) struct Wire {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_MAX))?;
        Ok(Self {
            writer: stream.try_clone()?,
            reader: BufReader::new(stream),
        })
    }

    /// Both directions apart, for a thread each.
    pub(super) fn split(self) -> (Ear, Mouth) {
        (Ear(self.reader), Mouth(self.writer))
    }
}

/// The reading half.
#[derive(Debug)]
pub(super) struct Ear(BufReader<TcpStream>);

impl Ear {
    /// The next message. However slowly its bytes come, it is whole in time or not at all.
    pub(super) fn hear(&mut self, patience: Duration, bytes_max: usize) -> Result<Message, WireError> {
        let until = Instant::now() + patience;
        let mut line = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let silent = || WireError::Silent { after: patience };
            if left.is_zero() {
                return Err(silent());
            }
            self.0
                .get_ref()
                .set_read_timeout(Some(left))
                .map_err(WireError::Broken)?;
            let came = match self.0.fill_buf() {
                Ok([]) => return Err(WireError::Ended),
                Ok(came) => came,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(silent());
                }
                Err(error) => return Err(WireError::Broken(error)),
            };
            let end = came.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(came.len());
            if line.len() + taken > bytes_max {
                return Err(WireError::TooLong { max: bytes_max });
            }
            line.extend_from_slice(&came[..taken]);
            self.0.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                return Message::read(&line);
            }
        }
    }
}

/// The writing half.
#[derive(Debug)]
pub(super) struct Mouth(TcpStream);

impl Mouth {
    pub(super) fn say(&mut self, message: &Message) -> Result<(), WireError> {
        let line = format!("{}\n", message.to_value());
        self.0.write_all(line.as_bytes()).map_err(WireError::Broken)
    }

    /// Ends the connection, so that the other side and the reading half hear of it.
    pub(super) fn hang_up(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}
