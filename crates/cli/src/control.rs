//! Client of a running server's control socket: HTTP/1.1 with one request per connection.

use std::{
    fmt::Write as _,
    io::{self, BufRead, BufReader, Read, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use forebay_server::config::{Config, ConfigError};

use crate::{arguments::ConfigFile, output::OutputError};

/// Longest time without a byte from the server. A reload responds when its new workers are ready, so this exceeds the limit of their start.
const SILENCE_MAX: Duration = Duration::from_mins(2);
/// Most bytes of a response that is read as a whole.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Longest head of a response, and longest line of a chunk's size.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Default name of the socket.
const SOCKET: &str = "forebay.sock";

/// Which server is meant.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    #[command(flatten)]
    config: ConfigFile,
    /// The control socket, instead of `admin.socket` of the configuration. Example: --socket /run/shop/forebay.sock
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
}

/// Why the server did not do as it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// The configuration, which says where the socket is, cannot be read.
    #[error(transparent)]
    Configuration(ConfigError),
    /// The configuration has `admin.socket = "off"`.
    #[error("{} switches the control socket off (admin.socket)", .file.display())]
    Off { file: PathBuf },
    /// No server listens on the socket.
    #[error("cannot reach a server at {}", .socket.display())]
    Unreachable { socket: PathBuf, source: io::Error },
    /// The connection broke, or the response is not HTTP.
    #[error("the server at {} gave no whole answer", .socket.display())]
    Broken { socket: PathBuf, source: io::Error },
    /// The connection ended while its output was being followed.
    #[error("the server at {} has ended", .socket.display())]
    Ended { socket: PathBuf },
    /// The server rejected the request.
    #[error("the server refuses: {detail}")]
    Refused { detail: String },
}

/// A server's control socket.
#[derive(Debug)]
pub(crate) struct Control {
    socket: PathBuf,
}

impl Control {
    /// The socket that is named, or else the configuration's.
    pub(crate) fn of(which: &Which) -> anyhow::Result<Self> {
        if let Some(socket) = &which.socket {
            return Ok(Self {
                socket: socket.clone(),
            });
        }
        let file = &which.config.config;
        let socket = match Config::load(file) {
            Ok(config) => config
                .admin
                .socket
                .ok_or_else(|| ControlError::Off { file: file.clone() })?,
            // The server may run with another environment, or with an earlier version of the file: try its socket all the same.
            Err(error) => socket_beside(file)
                .filter(|socket| socket.exists())
                .ok_or(ControlError::Configuration(error))?,
        };
        Ok(Self { socket })
    }

    /// This socket.
    pub(crate) fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Sends a request and reads the complete body of the response.
    pub(crate) fn ask(&self, method: &str, target: &str, body: &str) -> Result<String, ControlError> {
        self.ask_within(method, target, body, SILENCE_MAX)
    }

    /// The same, with another limit on the time without a byte from the server.
    pub(crate) fn ask_within(
        &self,
        method: &str,
        target: &str,
        body: &str,
        silence: Duration,
    ) -> Result<String, ControlError> {
        match self.exchange(method, target, body, silence)? {
            (..300, text) => Ok(text),
            (status, text) => Err(refused(&text, status)),
        }
    }

    /// Sends a request and reads the complete response, whatever its status is.
    pub(crate) fn exchange(
        &self,
        method: &str,
        target: &str,
        body: &str,
        silence: Duration,
    ) -> Result<(u16, String), ControlError> {
        let answer = self.open(method, target, body, Some(silence))?;
        let status = answer.status;
        Ok((status, self.text(answer)?))
    }

    /// Sends a request and passes on the lines of its response as they arrive, until the server ends it.
    pub(crate) fn follow(
        &self,
        target: &str,
        mut each: impl FnMut(&str) -> Result<(), OutputError>,
    ) -> anyhow::Result<()> {
        let answer = self.open("GET", target, "", None)?;
        if answer.status >= 300 {
            let status = answer.status;
            return Err(refused(&self.text(answer)?, status).into());
        }
        let mut lines = BufReader::new(answer);
        let mut line = String::new();
        let ended = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ControlError::Ended {
                socket: self.socket.clone(),
            },
            _ => self.broken(error),
        };
        while lines.read_line(&mut line).map_err(ended)? > 0 {
            each(line.trim_end_matches('\n'))?;
            line.clear();
        }
        Ok(())
    }

    fn open(
        &self,
        method: &str,
        target: &str,
        body: &str,
        silence: Option<Duration>,
    ) -> Result<Answer, ControlError> {
        let unreachable = |source| ControlError::Unreachable {
            socket: self.socket.clone(),
            source,
        };
        let stream = UnixStream::connect(&self.socket).map_err(unreachable)?;
        let length = body.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: forebay\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        exchange(stream, &request, silence).map_err(|source| self.broken(source))
    }

    fn text(&self, answer: Answer) -> Result<String, ControlError> {
        let mut text = String::new();
        let read = answer.take(ANSWER_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|source| self.broken(source))?;
        Ok(text)
    }

    pub(crate) fn broken(&self, source: io::Error) -> ControlError {
        ControlError::Broken {
            socket: self.socket.clone(),
            source,
        }
    }
}

fn exchange(mut stream: UnixStream, request: &str, silence: Option<Duration>) -> io::Result<Answer> {
    stream.set_read_timeout(silence)?;
    stream.write_all(request.as_bytes())?;
    Answer::read(BufReader::new(stream))
}

fn refused(text: &str, status: u16) -> ControlError {
    ControlError::Refused {
        detail: detail(text, status),
    }
}

/// Appends a text to a query, percent-encoded.
pub(crate) fn put_encoded(text: &str, target: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            target.push(char::from(byte));
        } else {
            write!(target, "%{byte:02X}").expect("a String takes everything");
        }
    }
}

/// The `detail` of a problem (RFC 9457), else the text itself.
fn detail(text: &str, status: u16) -> String {
    let problem: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let detail = problem
        .as_ref()
        .and_then(|problem| problem["detail"].as_str().or(problem["title"].as_str()));
    match detail.unwrap_or(text.trim()) {
        "" => format!("status {status}"),
        detail => detail.to_owned(),
    }
}

/// The socket's path if only `admin.socket` of the configuration can be read.
fn socket_beside(file: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(file).ok()?;
    let document: Option<toml_edit::DocumentMut> = text.parse().ok();
    let named = document
        .as_ref()
        .and_then(|document| document.get("admin")?.get("socket")?.as_str());
    Some(file.parent()?.join(named.unwrap_or(SOCKET)))
}

/// A response whose head has been read; reading it gives the body.
struct Answer {
    status: u16,
    body: Body,
    stream: BufReader<UnixStream>,
}

/// The rest of a body.
enum Body {
    ToTheEnd,
    /// This many bytes.
    Sized(u64),
    /// This many bytes of the current chunk (RFC 9112, 7.1).
    Chunk(u64),
    Ended,
}

impl Answer {
    fn read(mut stream: BufReader<UnixStream>) -> io::Result<Self> {
        let head = read_head(&mut stream)?;
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut parsed = httparse::Response::new(&mut headers);
        parsed.parse(&head).map_err(malformed)?;
        let status = parsed.code.ok_or_else(|| malformed("there is no status"))?;
        let header = |name: &str| {
            let found = parsed
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case(name));
            found.and_then(|header| std::str::from_utf8(header.value).ok())
        };
        let body = match (header("transfer-encoding"), header("content-length")) {
            (Some(_), _) => Body::Chunk(0),
            (None, Some(length)) => Body::Sized(length.parse().map_err(malformed)?),
            (None, None) => Body::ToTheEnd,
        };
        Ok(Self { status, body, stream })
    }
}

fn read_head(stream: &mut BufReader<UnixStream>) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut bounded = stream.take(HEAD_BYTES_MAX);
    while !head.ends_with(b"\r\n\r\n") {
        if bounded.read_until(b'\n', &mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

impl Read for Answer {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = match &mut self.body {
                Body::ToTheEnd => return self.stream.read(out),
                Body::Ended | Body::Sized(0) => return Ok(0),
                Body::Chunk(0) => {
                    self.body = match chunk_size(&mut self.stream)? {
                        0 => Body::Ended,
                        size => Body::Chunk(size),
                    };
                    continue;
                }
                Body::Sized(left) | Body::Chunk(left) => left,
            };
            let room = usize::try_from(*left).unwrap_or(usize::MAX).min(out.len());
            let taken = self.stream.read(&mut out[..room])?;
            if taken == 0 && room > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            *left -= taken as u64;
            return Ok(taken);
        }
    }
}

/// Reads the line before a chunk, after the line end of the previous chunk.
fn chunk_size(stream: &mut BufReader<UnixStream>) -> io::Result<u64> {
    let mut line = String::new();
    while line.trim().is_empty() {
        line.clear();
        if stream.take(HEAD_BYTES_MAX).read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let digits = line.split(';').next().unwrap_or_default().trim();
    u64::from_str_radix(digits, 16).map_err(malformed)
}

fn malformed(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
